// Datasets whose elements are read from files.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

// The lines of text files, one after the other, as string scalars without their ends; carriage returns are left out, as
// tf.data does. compression_type: "", "GZIP" or "ZLIB". Iterating throws NotFound for a file that is not there and
// DataLoss for a damaged compressed one.
class TextLineDataset : public Dataset {
 public:
  explicit TextLineDataset(const std::vector<std::string>& filenames, const std::string& compression_type = "");
  explicit TextLineDataset(const std::string& filename, const std::string& compression_type = "")
      : TextLineDataset(std::vector<std::string>{filename}, compression_type) {}
  explicit TextLineDataset(const char* filename, const std::string& compression_type = "")
      : TextLineDataset(std::string(filename), compression_type) {}
  explicit TextLineDataset(std::initializer_list<std::string> filenames, const std::string& compression_type = "")
      : TextLineDataset(std::vector<std::string>(filenames), compression_type) {}
  explicit TextLineDataset(const Tensor& filenames, const std::string& compression_type = "")
      : TextLineDataset(filenames.to_vector<std::string>(), compression_type) {}
  explicit TextLineDataset(std::initializer_list<const char*> filenames, const std::string& compression_type = "")
      : TextLineDataset(std::vector<std::string>(filenames.begin(), filenames.end()), compression_type) {}
  // filenames: string scalars.
  explicit TextLineDataset(const Dataset& filenames, const std::string& compression_type = "");
  // lines = lines.batch(2)
  using Dataset::operator=;
};

// The records of TFRecord files as string scalars. Both checksums of each record are checked: iterating throws DataLoss
// with the file and the byte for one that is damaged or cut off.
class TFRecordDataset : public Dataset {
 public:
  explicit TFRecordDataset(const std::vector<std::string>& filenames, const std::string& compression_type = "");
  explicit TFRecordDataset(const std::string& filename, const std::string& compression_type = "")
      : TFRecordDataset(std::vector<std::string>{filename}, compression_type) {}
  explicit TFRecordDataset(const char* filename, const std::string& compression_type = "")
      : TFRecordDataset(std::string(filename), compression_type) {}
  explicit TFRecordDataset(std::initializer_list<std::string> filenames, const std::string& compression_type = "")
      : TFRecordDataset(std::vector<std::string>(filenames), compression_type) {}
  explicit TFRecordDataset(const Tensor& filenames, const std::string& compression_type = "")
      : TFRecordDataset(filenames.to_vector<std::string>(), compression_type) {}
  explicit TFRecordDataset(std::initializer_list<const char*> filenames, const std::string& compression_type = "")
      : TFRecordDataset(std::vector<std::string>(filenames.begin(), filenames.end()), compression_type) {}
  explicit TFRecordDataset(const Dataset& filenames, const std::string& compression_type = "");
  // records = records.map(parse)
  using Dataset::operator=;
};

// The names that match glob patterns (*, ?, [...] within a folder's name), sorted, as string scalars; shuffled in a new
// order for each iterator unless `shuffle` is false (tf.data.Dataset.list_files). The files are looked for now. Throws
// InvalidArgument when none matches.
Dataset list_files(const std::vector<std::string>& patterns, bool shuffle = true,
                   std::optional<std::int64_t> seed = std::nullopt);
inline Dataset list_files(std::initializer_list<const char*> patterns, bool shuffle = true,
                          std::optional<std::int64_t> seed = std::nullopt) {
  return list_files(std::vector<std::string>(patterns.begin(), patterns.end()), shuffle, seed);
}
Dataset list_files(const std::string& pattern, bool shuffle = true, std::optional<std::int64_t> seed = std::nullopt);
struct ListFilesKeywords {
  FieldNamesOnly names_only = {};
  bool shuffle = true;
  std::optional<std::int64_t> seed = std::nullopt;
};
inline Dataset list_files(const std::string& pattern, const ListFilesKeywords& o) {
  return list_files(pattern, o.shuffle, o.seed);
}
inline Dataset list_files(const std::vector<std::string>& patterns, const ListFilesKeywords& o) {
  return list_files(patterns, o.shuffle, o.seed);
}

}  // namespace lockstep::data

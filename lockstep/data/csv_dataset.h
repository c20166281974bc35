// tf.data.experimental: rows of CSV files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/ops/csv_functions.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::data::experimental {

using io::CsvDefault;

struct CsvDatasetOptions {
  std::string compression_type = "";  // "GZIP" or "ZLIB"
  bool header = false;                // whether the first row of each file is left out
  std::string field_delim = ",";
  bool use_quote_delim = true;  // whether double quotes enclose fields, which may contain delimiters and line ends
  std::string na_value = "";    // a further string that counts as an empty field
  // The columns that are read, sorted; by default all, or those that exclude_cols does not name.
  OptionalList<std::int64_t> select_cols = std::nullopt;
  OptionalList<std::int64_t> exclude_cols = std::nullopt;
};

// Each row as a tuple of scalars, of one default for each column that is read. Iterating throws InvalidArgument for a
// row with another number of fields, for a field of another type, and for an empty field without a default.
class CsvDataset : public Dataset {
 public:
  CsvDataset(const std::vector<std::string>& filenames, const std::vector<CsvDefault>& record_defaults,
             const CsvDatasetOptions& options = {});
  CsvDataset(const std::string& filename, const std::vector<CsvDefault>& record_defaults,
             const CsvDatasetOptions& options = {})
      : CsvDataset(std::vector<std::string>{filename}, record_defaults, options) {}
  // rows = rows.batch(2)
  using Dataset::operator=;
};

struct MakeCsvDatasetOptions {
  std::optional<std::int64_t> batch_size = std::nullopt;  // where it is not given by position
  // By default the fields of the first row.
  OptionalList<std::string> column_names = std::nullopt;
  // By default 0 or "" of the types that the first num_rows_for_inference rows have: int32, int64, float32, float64 or
  // string.
  OptionalList<CsvDefault> column_defaults = std::nullopt;
  std::optional<std::string> label_name = std::nullopt;
  OptionalList<std::string> select_columns = std::nullopt;
  std::string field_delim = ",";
  bool use_quote_delim = true;
  std::string na_value = "";
  bool header = true;
  std::optional<std::int64_t> num_epochs = std::nullopt;  // by default without end
  bool shuffle = true;
  std::int64_t shuffle_buffer_size = 10000;
  std::optional<std::int64_t> shuffle_seed = std::nullopt;
  std::optional<std::int64_t> prefetch_buffer_size = std::nullopt;
  std::optional<std::int64_t> num_parallel_reads = std::nullopt;  // files whose rows are interleaved
  bool sloppy = false;                                            // accepted; the order is always deterministic
  std::optional<std::int64_t> num_rows_for_inference = 100;       // None: all rows
  std::string compression_type = "";
  bool ignore_errors = false;  // whether rows that cannot be read are left out
};

// Batches of the rows of all files that match a pattern, as a dict by the names of the columns, or, with label_name, as
// (dict, label). Without num_epochs the rows repeat without end and each batch is full. Throws InvalidArgument where no
// file matches, for unknown names, and for rows from which no types can be inferred.
Dataset make_csv_dataset(const std::vector<std::string>& file_pattern, std::int64_t batch_size,
                         const MakeCsvDatasetOptions& options = {});
inline Dataset make_csv_dataset(const std::string& file_pattern, std::int64_t batch_size,
                                const MakeCsvDatasetOptions& options = {}) {
  return make_csv_dataset(std::vector<std::string>{file_pattern}, batch_size, options);
}
// make_csv_dataset(path, {.batch_size = 32, .label_name = "target"}). Throw InvalidArgument without batch_size.
Dataset make_csv_dataset(const std::vector<std::string>& file_pattern, const MakeCsvDatasetOptions& options);
inline Dataset make_csv_dataset(const std::string& file_pattern, const MakeCsvDatasetOptions& options) {
  return make_csv_dataset(std::vector<std::string>{file_pattern}, options);
}

}  // namespace lockstep::data::experimental

#include "lockstep/data/files.h"

#include <fnmatch.h>

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/files_internal.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::data {
namespace {

using Compression = formats::RecordCompression;
using Format = formats::RecordFormat;
using Records = formats::RecordReader;

std::string file_name(const Element& element) {
  const Tensor& leaf = element.leaf();
  if (leaf.dtype() != DType::kString || leaf.rank() != 0) {
    throw_invalid_argument(fmt::format("invalid file name in a dataset: found {} {}, expected string scalars",
                                       dtype_name(leaf.dtype()), leaf.shape().to_string()));
  }
  return leaf.string_values()[0];
}

class FilesIterator : public NodeIterator {
 public:
  FilesIterator(const NodePtr& names, Format format, Compression compression, bool header)
      : names_(names->make_iterator()),
        start_(names_->save()),
        format_(format),
        compression_(compression),
        header_(header) {}

  bool next(Item& out) override {
    while (true) {
      if (records_) {
        if (auto record = records_->next()) {
          out = Item(Element(Tensor::strings({std::move(*record)}, Shape())));
          return true;
        }
        records_.reset();
      }
      Item name;
      if (!names_->next(name)) return false;
      ++opened_;
      open(name);
      if (header_) records_->next();
    }
  }
  Json save() const override {
    return {{"start", start_},
            {"names", names_->save()},
            {"opened", opened_},
            {"offset", records_ ? records_->offset() : -1}};
  }
  void restore(const Json& state) override {
    start_ = state_at(state, "start");
    opened_ = state_count(state, "opened");
    const std::int64_t offset = state_int(state, "offset");
    records_.reset();
    if (opened_ > 0 && offset >= 0) {
      names_->restore(start_);
      open(items_at(*names_, {opened_ - 1})[0]);
      records_->seek(offset);
    }
    names_->restore(state_at(state, "names"));
  }

 private:
  void open(const Item& name) {
    records_ = std::make_unique<Records>(file_name(name.element()), format_, compression_);
  }

  std::unique_ptr<NodeIterator> names_;
  Json start_;
  Format format_;
  Compression compression_;
  bool header_;
  std::unique_ptr<Records> records_;  // of the last file that was opened; null at its end
  std::int64_t opened_ = 0;
};

class FilesNode : public DatasetNode {
 public:
  FilesNode(NodePtr names, Format format, Compression compression, bool header)
      : DatasetNode(kind(format), {std::move(names)}), format_(format), compression_(compression), header_(header) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<FilesIterator>(input(), format_, compression_, header_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<FilesNode>(inputs[0], format_, compression_, header_);
  }
  bool reads_files() const override { return true; }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override { return TensorSpec(Shape(), DType::kString); }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> name = input()->sample(copies);
    if (!name) return std::nullopt;
    Records records(file_name(*name), format_, compression_);
    if (header_) records.next();
    auto record = records.next();
    return Element(Tensor::strings({record ? std::move(*record) : std::string()}, Shape()));
  }

 private:
  static const char* kind(Format format) {
    return format == Format::kTextLine ? "text_line" : format == Format::kCsv ? "csv" : "tf_record";
  }

  Format format_;
  Compression compression_;
  bool header_;  // whether each file's first record is left out
};

bool is_pattern(const std::string& text) { return text.find_first_of("*?[\\") != std::string::npos; }

// Adds what matches from `folder` on; the parts of the pattern from `part` on are still to be matched.
void match(const std::string& folder, const std::vector<std::string>& parts, std::size_t part,
           std::vector<std::string>& out) {
  io::FileSystem& disk = io::posix_file_system();
  const bool last = part + 1 == parts.size();
  const auto take = [&](const std::string& name) {
    const std::string path = folder.empty() ? name : folder.back() == '/' ? folder + name : folder + "/" + name;
    if (last) {
      if (disk.stat(path)) out.push_back(path);
    } else if (io::is_directory(disk, path)) {
      match(path, parts, part + 1, out);
    }
  };
  if (!is_pattern(parts[part])) return take(parts[part]);
  const std::string listed = folder.empty() ? "." : folder;
  if (!io::is_directory(disk, listed)) return;
  for (const std::string& name : disk.list(listed)) {
    if (fnmatch(parts[part].c_str(), name.c_str(), FNM_PATHNAME) == 0) take(name);
  }
}

void add_matches(const std::string& pattern, std::vector<std::string>& out) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    if (end > at) parts.push_back(pattern.substr(at, end - at));
    at = end + 1;
  }
  if (!parts.empty()) match(pattern[0] == '/' ? "/" : "", parts, 0, out);
}

}  // namespace

Compression compression_of(const std::string& type) {
  if (type.empty()) return Compression::kNone;
  if (type == "GZIP") return Compression::kGzip;
  if (type == "ZLIB") return Compression::kZlib;
  throw_invalid_argument(fmt::format("invalid compression_type: found '{}', expected '', 'GZIP' or 'ZLIB'", type));
}

Dataset names_of(const std::vector<std::string>& filenames) {
  if (filenames.empty()) return Dataset();
  const auto count = static_cast<std::int64_t>(filenames.size());
  return Dataset::from_tensor_slices(Tensor::strings(filenames, Shape({count})));
}

Dataset records_of(const Dataset& names, Format format, const std::string& compression_type, bool header) {
  return Dataset(std::make_shared<FilesNode>(names.node(), format, compression_of(compression_type), header));
}

std::vector<std::string> matching_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) add_matches(pattern, names);
  std::sort(names.begin(), names.end());
  return names;
}

TextLineDataset::TextLineDataset(const std::vector<std::string>& filenames, const std::string& compression_type)
    : TextLineDataset(names_of(filenames), compression_type) {}
TextLineDataset::TextLineDataset(const Dataset& filenames, const std::string& compression_type)
    : Dataset(records_of(filenames, Format::kTextLine, compression_type)) {}

TFRecordDataset::TFRecordDataset(const std::vector<std::string>& filenames, const std::string& compression_type)
    : TFRecordDataset(names_of(filenames), compression_type) {}
TFRecordDataset::TFRecordDataset(const Dataset& filenames, const std::string& compression_type)
    : Dataset(records_of(filenames, Format::kTFRecord, compression_type)) {}

Dataset list_files(const std::vector<std::string>& patterns, bool shuffle, std::optional<std::int64_t> seed) {
  const std::vector<std::string> names = matching_files(patterns);
  if (names.empty()) {
    std::string all;
    for (const std::string& pattern : patterns) all += (all.empty() ? "" : ", ") + pattern;
    throw_invalid_argument(fmt::format("list_files: no files matched the pattern {}", all));
  }
  const auto count = static_cast<std::int64_t>(names.size());
  const Dataset dataset = names_of(names);
  return shuffle ? dataset.shuffle(count, seed) : dataset;
}

Dataset list_files(const std::string& pattern, bool shuffle, std::optional<std::int64_t> seed) {
  return list_files(std::vector<std::string>{pattern}, shuffle, seed);
}

}  // namespace lockstep::data

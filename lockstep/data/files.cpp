#include "lockstep/data/files.h"

#include <fnmatch.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::data {
namespace {

enum class Format { kTextLine, kTFRecord };
enum class Compression { kNone, kGzip, kZlib };

Compression compression_of(const std::string& type) {
  if (type.empty()) return Compression::kNone;
  if (type == "GZIP") return Compression::kGzip;
  if (type == "ZLIB") return Compression::kZlib;
  throw_invalid_argument(fmt::format("compression_type is '{}'; expected '', 'GZIP' or 'ZLIB'", type));
}

// All members of a compressed file.
std::string inflated(std::span<const std::byte> bytes, Compression compression, const std::string& path) {
  struct Inflater : z_stream {
    explicit Inflater(int window) : z_stream{} {
      avail_out = 1;
      if (inflateInit2(this, window) != Z_OK) throw_resource_exhausted("no memory to decompress a file");
    }
    ~Inflater() { inflateEnd(this); }
  } stream(compression == Compression::kGzip ? MAX_WBITS + 16 : MAX_WBITS);
  std::string out;
  std::size_t at = 0;
  std::vector<char> buffer(std::size_t{1} << 18);
  while (at < bytes.size() || stream.avail_out == 0) {
    const auto piece = static_cast<uInt>(std::min<std::size_t>(bytes.size() - at, 1 << 30));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + at));
    stream.avail_in = piece;
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    at += piece - stream.avail_in;
    out.append(buffer.data(), buffer.size() - stream.avail_out);
    if (status == Z_STREAM_END) {
      if (at == bytes.size()) return out;
      inflateReset(&stream);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw_data_loss(fmt::format("{} is not a whole {} file: {} near byte {}", path,
                                  compression == Compression::kGzip ? "GZIP" : "ZLIB",
                                  stream.msg ? stream.msg : "it is damaged", at));
    }
  }
  if (!bytes.empty())
    throw_data_loss(fmt::format("{} ends within its compressed data, after {} bytes", path, bytes.size()));
  return out;
}

// The records of one file.
class Records {
 public:
  Records(std::string path, Format format, Compression compression) : path_(std::move(path)), format_(format) {
    file_ = io::posix_file_system().map(path_);
    text_ = io::as_text(file_->bytes());
    if (compression == Compression::kNone) return;
    plain_ = inflated(file_->bytes(), compression, path_);
    text_ = plain_;
  }
  Records(const Records&) = delete;

  std::optional<std::string> next() {
    if (at_ >= text_.size()) return std::nullopt;
    return format_ == Format::kTextLine ? line() : record();
  }
  std::int64_t offset() const { return static_cast<std::int64_t>(at_); }
  void seek(std::int64_t offset) {
    if (offset < 0 || static_cast<std::size_t>(offset) > text_.size()) {
      throw_failed_precondition(fmt::format("{} has {} bytes, but the saved iterator had read {}: the file has changed",
                                            path_, text_.size(), offset));
    }
    at_ = static_cast<std::size_t>(offset);
  }

 private:
  std::string line() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string out(text_.substr(at_, end - at_));
    std::erase(out, '\r');
    at_ = end + 1;
    at_ = std::min(at_, text_.size());
    return out;
  }

  // length: u64, masked CRC-32C of the length: u32, bytes, masked CRC-32C of the bytes: u32; little endian.
  std::string record() {
    constexpr std::size_t kHeader = 12;
    const std::size_t begin = at_;
    if (text_.size() - begin < kHeader) cut_off(begin);
    std::uint64_t length = 0;
    std::memcpy(&length, &text_[begin], sizeof length);
    check(begin, sizeof length, " (is this a TFRecord file?)");
    const std::size_t left = text_.size() - begin - kHeader;
    if (length > left || left - length < sizeof(std::uint32_t)) cut_off(begin);
    check(begin + kHeader, static_cast<std::size_t>(length), "");
    at_ = begin + kHeader + static_cast<std::size_t>(length) + sizeof(std::uint32_t);
    return std::string(text_.substr(begin + kHeader, static_cast<std::size_t>(length)));
  }
  [[noreturn]] void cut_off(std::size_t at) const {
    throw_data_loss(fmt::format("{}: the record at byte {} is cut off: the file ends at {}", path_, at, text_.size()));
  }
  void check(std::size_t at, std::size_t size, const char* hint) const {
    std::uint32_t stored = 0;
    std::memcpy(&stored, text_.data() + at + size, sizeof stored);
    const std::uint32_t found = io::mask_crc(io::crc32c(io::as_bytes(text_.substr(at, size))));
    if (stored != found) {
      throw_data_loss(fmt::format("{}: corrupted record at byte {}: its checksum is {:08x}, but {:08x} is stored{}",
                                  path_, at, found, stored, hint));
    }
  }

  std::string path_;
  Format format_;
  std::shared_ptr<const io::FileBytes> file_;
  std::string plain_;
  std::string_view text_;
  std::size_t at_ = 0;
};

std::string file_name(const Element& element) {
  const Tensor& leaf = element.leaf();
  if (leaf.dtype() != DType::kString || leaf.rank() != 0) {
    throw_invalid_argument(fmt::format("a dataset of file names has an element of {} {}; expected string scalars",
                                       dtype_name(leaf.dtype()), leaf.shape().to_string()));
  }
  return leaf.string_values()[0];
}

class FilesIterator : public NodeIterator {
 public:
  FilesIterator(const NodePtr& names, Format format, Compression compression)
      : names_(names->make_iterator()), start_(names_->save()), format_(format), compression_(compression) {}

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
    opened_ = state_int(state, "opened");
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
  std::unique_ptr<Records> records_;  // of the last file that was opened; null at its end
  std::int64_t opened_ = 0;
};

class FilesNode : public DatasetNode {
 public:
  FilesNode(NodePtr names, Format format, Compression compression)
      : DatasetNode(format == Format::kTextLine ? "text_line" : "tf_record", {std::move(names)}),
        format_(format),
        compression_(compression) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<FilesIterator>(input(), format_, compression_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<FilesNode>(inputs[0], format_, compression_);
  }
  bool reads_files() const override { return true; }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override { return TensorSpec{DType::kString, Shape()}; }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> name = input()->sample(copies);
    if (!name) return std::nullopt;
    auto record = Records(file_name(*name), format_, compression_).next();
    return Element(Tensor::strings({record ? std::move(*record) : std::string()}, Shape()));
  }

 private:
  Format format_;
  Compression compression_;
};

Dataset names_of(const std::vector<std::string>& filenames) {
  if (filenames.empty()) return Dataset();
  const auto count = static_cast<std::int64_t>(filenames.size());
  return Dataset::from_tensor_slices(Tensor::strings(filenames, Shape({count})));
}

Dataset files(const Dataset& names, Format format, const std::string& compression_type) {
  return Dataset(std::make_shared<FilesNode>(names.node(), format, compression_of(compression_type)));
}

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

TextLineDataset::TextLineDataset(const std::vector<std::string>& filenames, const std::string& compression_type)
    : TextLineDataset(names_of(filenames), compression_type) {}
TextLineDataset::TextLineDataset(const Dataset& filenames, const std::string& compression_type)
    : Dataset(files(filenames, Format::kTextLine, compression_type)) {}

TFRecordDataset::TFRecordDataset(const std::vector<std::string>& filenames, const std::string& compression_type)
    : TFRecordDataset(names_of(filenames), compression_type) {}
TFRecordDataset::TFRecordDataset(const Dataset& filenames, const std::string& compression_type)
    : Dataset(files(filenames, Format::kTFRecord, compression_type)) {}

Dataset list_files(const std::vector<std::string>& patterns, bool shuffle, std::optional<std::int64_t> seed) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) add_matches(pattern, names);
  if (names.empty()) {
    std::string all;
    for (const std::string& pattern : patterns) all += (all.empty() ? "" : ", ") + pattern;
    throw_invalid_argument(fmt::format("list_files: no files matched the pattern {}", all));
  }
  std::sort(names.begin(), names.end());
  const auto count = static_cast<std::int64_t>(names.size());
  const Dataset dataset = names_of(names);
  return shuffle ? dataset.shuffle(count, seed) : dataset;
}

Dataset list_files(const std::string& pattern, bool shuffle, std::optional<std::int64_t> seed) {
  return list_files(std::vector<std::string>{pattern}, shuffle, seed);
}

}  // namespace lockstep::data

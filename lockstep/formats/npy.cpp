#include "lockstep/formats/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::formats {
namespace {

// file     "\x93NUMPY" | major u8 | minor u8 | header_len u16 (u32 from version 2) | header | elements
// header   a Python dict {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } padded with
//          spaces and a newline so that the elements start at a multiple of 64
constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostRank = 64;  // NumPy's
constexpr std::size_t kMostHeader = std::size_t{1} << 20;

struct TypeRow {
  char kind;
  std::size_t size;
  DType dtype;
};
constexpr TypeRow kTypes[] = {
    {'b', 1, DType::kBool},      {'i', 1, DType::kInt8},        {'i', 2, DType::kInt16},   {'i', 4, DType::kInt32},
    {'i', 8, DType::kInt64},     {'u', 1, DType::kUInt8},       {'u', 2, DType::kUInt16},  {'u', 4, DType::kUInt32},
    {'u', 8, DType::kUInt64},    {'f', 2, DType::kFloat16},     {'f', 4, DType::kFloat32}, {'f', 8, DType::kFloat64},
    {'c', 8, DType::kComplex64}, {'c', 16, DType::kComplex128},
};

struct Header {
  char kind = 0;
  std::size_t item_size = 0;  // bytes of an element
  bool big_endian = false;
  bool fortran = false;
  DType dtype = DType::kInvalid;
  Shape shape;
  std::size_t data_offset = 0;
};

// The few Python literals that a header contains.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> string() {
    skip();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const auto result = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return result;
  }
  std::optional<bool> boolean() {
    skip();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    }
    return std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> tuple() {
    if (!take('(')) return std::nullopt;
    std::vector<std::int64_t> values;
    while (!take(')')) {
      skip();
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc{} || value < 0 || values.size() == kMostRank) return std::nullopt;
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (!text_.empty() && text_.front() == 'L') text_.remove_prefix(1);  // Python 2's long
      values.push_back(value);
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    return values;
  }
  bool at_end() {
    skip();
    return text_.empty();
  }

 private:
  void skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  std::string_view text_;
};

[[noreturn]] void damaged(const std::string& what, const std::string& why) {
  throw_data_loss(fmt::format("{}: damaged or not a .npy array: {}", what, why));
}

void parse_descr(std::string_view descr, Header& header, const std::string& what) {
  const auto unknown = [&]() {
    throw_unimplemented(
        fmt::format("{}: element type '{}' is not supported; numbers, bool and strings are", what, descr));
  };
  if (descr.size() < 2) unknown();
  char order = '|';
  std::string_view rest = descr;
  if (std::string_view("<>|=").find(rest.front()) != std::string_view::npos) {
    order = rest.front();
    rest.remove_prefix(1);
  }
  header.big_endian = order == '>';
  header.kind = rest.empty() ? '?' : rest.front();
  if (rest == "?") rest = "b1";
  if (header.kind == 'O') {
    throw_unimplemented(
        fmt::format("{}: holds Python objects (a pickle), which are never read; save numbers or strings", what));
  }
  std::size_t size = 0;
  const auto digits = rest.substr(rest.empty() ? 0 : 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc{} || end != digits.data() + digits.size()) unknown();
  if (header.kind == '?') header.kind = 'b';
  header.item_size = size;
  if (header.kind == 'S' || header.kind == 'a' || header.kind == 'U') {
    header.dtype = DType::kString;
    if (header.kind == 'U' && __builtin_mul_overflow(size, 4, &header.item_size)) unknown();
    return;
  }
  for (const TypeRow& row : kTypes) {
    if (row.kind == header.kind && row.size == size) header.dtype = row.dtype;
  }
  if (header.dtype == DType::kInvalid) unknown();
}

Header parse_header(std::span<const std::byte> bytes, const std::string& what) {
  if (!looks_like_npy(bytes)) damaged(what, "it does not begin with the magic of NumPy");
  const auto major = io::load_le<std::uint8_t>(bytes, 6);
  const bool wide = major && *major >= 2;
  if (!major || *major < 1 || *major > 3) damaged(what, "an unknown version");
  const std::size_t start = wide ? 12 : 10;
  const auto length =
      wide ? io::load_le<std::uint32_t>(bytes, 8) : std::optional<std::uint32_t>(io::load_le<std::uint16_t>(bytes, 8));
  if (bytes.size() < start || !length || *length > bytes.size() - start || *length > kMostHeader) {
    damaged(what, "its header is cut short");
  }
  DictParser dict(io::as_text(bytes.subspan(start, *length)));
  Header header;
  header.data_offset = start + *length;
  std::optional<std::string_view> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> shape;
  bool good = dict.take('{');
  while (good && !dict.take('}')) {
    const auto key = dict.string();
    good = key && dict.take(':');
    if (!good) break;
    if (key == "descr") {
      descr = dict.string();
      if (!descr) throw_unimplemented(fmt::format("{}: record arrays are not supported", what));
    } else if (key == "fortran_order") {
      fortran = dict.boolean();
    } else if (key == "shape") {
      shape = dict.tuple();
    } else {
      good = false;
    }
    if (!dict.take(',')) {
      good = good && dict.take('}');
      break;
    }
  }
  if (!good || !descr || !fortran || !shape || !dict.at_end()) damaged(what, "its header is not the expected dict");
  header.fortran = *fortran;
  header.shape = Shape(*std::move(shape));
  parse_descr(*descr, header, what);
  const auto count = header.shape.num_elements();
  std::size_t total = 0;
  if (!count || __builtin_mul_overflow(static_cast<std::size_t>(*count), header.item_size, &total) ||
      total != bytes.size() - header.data_offset) {
    damaged(what, fmt::format("shape {} of {}-byte elements does not fit the {} bytes after the header (truncated?)",
                              header.shape.to_string(), header.item_size, bytes.size() - header.data_offset));
  }
  return header;
}

std::string decode_text(std::span<const std::byte> item, const Header& header, const std::string& what) {
  if (header.kind != 'U') {
    std::string text(io::as_text(item));
    text.erase(text.find_last_not_of('\0') + 1);
    return text;
  }
  std::vector<std::uint32_t> codes(item.size() / 4);
  if (!codes.empty()) std::memcpy(codes.data(), item.data(), item.size());
  for (auto& code : codes) {
    if (header.big_endian) code = __builtin_bswap32(code);
  }
  while (!codes.empty() && codes.back() == 0) codes.pop_back();
  std::string text;
  for (const std::uint32_t code : codes) {
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) damaged(what, "a text element is not Unicode");
    append_utf8(text, code);
  }
  return text;
}

// For each element in C order, its position in Fortran order.
template <typename Visit>
void for_each_fortran(const Shape& shape, Visit visit) {
  const auto rank = static_cast<std::size_t>(shape.rank());
  std::vector<std::size_t> strides(rank, 1);
  for (std::size_t axis = 1; axis < rank; ++axis) {
    strides[axis] = strides[axis - 1] * static_cast<std::size_t>(shape[static_cast<int>(axis) - 1]);
  }
  std::vector<std::int64_t> at(rank, 0);
  std::size_t source = 0;
  const auto count = static_cast<std::size_t>(*shape.num_elements());
  for (std::size_t target = 0; target < count; ++target) {
    visit(target, source);
    for (std::size_t axis = rank; axis-- > 0;) {
      source += strides[axis];
      if (++at[axis] < shape[static_cast<int>(axis)]) break;
      source -= strides[axis] * static_cast<std::size_t>(at[axis]);
      at[axis] = 0;
    }
  }
}

TensorData decode_strings(const Header& header, std::span<const std::byte> data, const std::string& what) {
  TensorData tensor;
  tensor.dtype = DType::kString;
  tensor.shape = header.shape;
  const auto count = static_cast<std::size_t>(*header.shape.num_elements());
  constexpr std::size_t kMostEmpty = std::size_t{1} << 20;  // elements of no bytes that a tiny file may claim
  if (header.item_size == 0 && count > kMostEmpty) damaged(what, fmt::format("{} strings of no bytes", count));
  tensor.strings.resize(count);
  const auto item = [&](std::size_t i) { return data.subspan(i * header.item_size, header.item_size); };
  if (header.fortran) {
    for_each_fortran(header.shape, [&](std::size_t to, std::size_t from) {
      tensor.strings[to] = decode_text(item(from), header, what);
    });
  } else {
    for (std::size_t i = 0; i < count; ++i) tensor.strings[i] = decode_text(item(i), header, what);
  }
  return tensor;
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "|b1";
    case DType::kInt8: return "|i1";
    case DType::kInt16: return "<i2";
    case DType::kInt32: return "<i4";
    case DType::kInt64: return "<i8";
    case DType::kUInt8: return "|u1";
    case DType::kUInt16: return "<u2";
    case DType::kUInt32: return "<u4";
    case DType::kUInt64: return "<u8";
    case DType::kFloat16: return "<f2";
    case DType::kFloat32: return "<f4";
    case DType::kFloat64: return "<f8";
    case DType::kComplex64: return "<c8";
    case DType::kComplex128: return "<c16";
    default:
      throw_invalid_argument(fmt::format(
          "NumPy files have no dtype {}; convert the tensor first, for instance to float32", dtype_name(dtype)));
  }
}

std::size_t longest(const TensorData& tensor) {
  std::size_t width = 1;
  for (const auto& text : tensor.strings) width = std::max(width, text.size());
  return width;
}

// Header and elements through `append`, piece by piece.
template <typename Append>
void write_array(const TensorData& tensor, Append append) {
  append(io::as_bytes(npy_header(tensor)));
  if (tensor.dtype != DType::kString) {
    append(tensor.bytes);
    return;
  }
  const std::size_t width = longest(tensor);
  for (const auto& text : tensor.strings) {
    std::string padded = text;
    padded.resize(width, '\0');
    append(io::as_bytes(padded));
  }
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) { return io::as_text(bytes).starts_with(kMagic); }

TensorInfo parse_npy_header(std::span<const std::byte> bytes, const std::string& what) {
  const Header header = parse_header(bytes, what);
  return {what, header.dtype, header.shape};
}

TensorData parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& what) {
  const Header header = parse_header(bytes, what);
  const auto data = bytes.subspan(header.data_offset);
  if (header.dtype == DType::kString) return decode_strings(header, data, what);
  const std::size_t width = header.item_size;
  const std::size_t component = header.kind == 'c' ? width / 2 : width;
  // LibTorch reads complex numbers as a whole, with instructions that require their alignment.
  const bool aligned = reinterpret_cast<std::uintptr_t>(data.data()) % width == 0;
  if (aligned && !header.big_endian && !header.fortran && owner) {
    TensorData tensor;
    tensor.dtype = header.dtype;
    tensor.shape = header.shape;
    tensor.bytes = data;
    tensor.owner = std::move(owner);
    return tensor;
  }
  std::span<std::byte> target;
  TensorData tensor = TensorData::allocate(header.dtype, header.shape, target);
  if (header.fortran) {
    for_each_fortran(header.shape, [&](std::size_t to, std::size_t from) {
      std::memcpy(target.data() + to * width, data.data() + from * width, width);
    });
  } else if (!data.empty()) {
    std::memcpy(target.data(), data.data(), data.size());
  }
  if (header.big_endian) io::swap_bytes(target, component);
  return tensor;
}

std::string npy_header(const TensorData& tensor) {
  const auto count = tensor.shape.num_elements();
  if (!count) throw_invalid_argument(fmt::format("shape {} is not fully known", tensor.shape.to_string()));
  if (static_cast<std::size_t>(tensor.shape.rank()) > kMostRank) {
    throw_invalid_argument(
        fmt::format("a tensor has {} axes, but NumPy's arrays have at most {}", tensor.shape.rank(), kMostRank));
  }
  const std::string descr =
      tensor.dtype == DType::kString ? fmt::format("|S{}", longest(tensor)) : std::string(descr_of(tensor.dtype));
  const bool fits = tensor.dtype == DType::kString
                        ? tensor.strings.size() == static_cast<std::size_t>(*count)
                        : tensor.bytes.size() == static_cast<std::size_t>(*count) * dtype_size(tensor.dtype);
  if (!fits)
    throw_invalid_argument(fmt::format("a tensor's contents do not fit its shape {}", tensor.shape.to_string()));
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, tensor.shape.to_string());
  const bool wide = dict.size() + 11 > 0xFFFF;
  const std::size_t start = wide ? 12 : 10;
  dict.append((kAlignment - (start + dict.size() + 1) % kAlignment) % kAlignment, ' ');
  dict.push_back('\n');
  std::string out(kMagic);
  out.push_back(wide ? '\2' : '\1');
  out.push_back('\0');
  if (wide) {
    io::append_le(out, static_cast<std::uint32_t>(dict.size()));
  } else {
    io::append_le(out, static_cast<std::uint16_t>(dict.size()));
  }
  return out + dict;
}

TensorData read_npy(const std::string& path, io::FileSystem& files) {
  const auto file = files.map(path);
  return parse_npy(file->bytes(), file, path);
}

void write_npy(const std::string& path, const TensorData& tensor, io::FileSystem& files) {
  io::AtomicFile file(path, files);
  write_array(tensor, [&](std::span<const std::byte> bytes) { file.append(bytes); });
  file.commit();
}

NpzReader::NpzReader(const std::string& path, io::FileSystem& files) : zip_(path, files) {
  for (const io::ZipMember& member : zip_.members()) {
    if (!member.name.ends_with(".npy")) {
      throw_data_loss(fmt::format("{}: member {} is not an array (.npy)", path, member.name));
    }
    const auto content = zip_.read(member);
    TensorInfo info = parse_npy_header(content.bytes, fmt::format("{}, member {}", path, member.name));
    info.name = member.name.substr(0, member.name.size() - 4);
    list_.push_back(std::move(info));
  }
}

TensorData NpzReader::read(const std::string& name) const {
  const io::ZipMember* member = zip_.find(name + ".npy");
  if (member == nullptr) throw_not_found(fmt::format("{}: no array {} in the archive", zip_.path(), name));
  auto content = zip_.read(*member);
  return parse_npy(content.bytes, std::move(content.owner), fmt::format("{}, member {}", zip_.path(), member->name));
}

NpzWriter::NpzWriter(std::string path, io::FileSystem& files) : zip_(std::move(path), files) {}

void NpzWriter::add(const std::string& name, const TensorData& tensor) {
  const std::size_t content =
      tensor.dtype == DType::kString ? longest(tensor) * tensor.strings.size() : tensor.bytes.size();
  const std::string header = npy_header(tensor);  // refuses before a member is begun
  zip_.begin(name + ".npy", header.size() + content);
  write_array(tensor, [&](std::span<const std::byte> bytes) { zip_.append(bytes); });
  zip_.end();
}

void NpzWriter::finish() { zip_.finish(); }

}  // namespace lockstep::formats

#include <algorithm>
#include <bit>

#include "lockstep/formats/hdf5_image_internal.h"

namespace lockstep::formats::hdf5 {
namespace {

DType integer_dtype(std::uint64_t size, bool is_signed) {
  switch (size) {
    case 1: return is_signed ? DType::kInt8 : DType::kUInt8;
    case 2: return is_signed ? DType::kInt16 : DType::kUInt16;
    case 4: return is_signed ? DType::kInt32 : DType::kUInt32;
    case 8: return is_signed ? DType::kInt64 : DType::kUInt64;
    default: return DType::kInvalid;
  }
}

// As in the HDF5 library, a number has at most as many bytes as the next power of two above its bits.
void check_precision(const Fields& fields, std::uint64_t offset, std::uint64_t precision, std::uint64_t size) {
  const std::uint64_t most = std::max<std::uint64_t>(std::bit_ceil(offset + precision), 8);
  if (precision == 0 || offset + precision > 8 * size || 8 * size > most) {
    fields.damaged(fmt::format("a number of {} bits at bit {} of {} bytes", precision, offset, size));
  }
}

void parse_integer(Fields& fields, std::uint32_t bits, Datatype& type) {
  const auto offset = fields.u16();
  const auto precision = fields.u16();
  type.big_endian = (bits & 1) != 0;
  type.dtype = integer_dtype(type.size, (bits & 8) != 0);
  type.name = fmt::format("a {}-bit integer", precision);
  check_precision(fields, offset, precision, type.size);
  if (type.dtype != DType::kInvalid && offset == 0 && precision == 8 * type.size) type.kind = Datatype::Kind::kNumber;
}

void parse_float(Fields& fields, std::uint32_t bits, Datatype& type) {
  const auto offset = fields.u16();
  const auto precision = fields.u16();
  const auto exponent_at = fields.u8();
  const auto exponent_bits = fields.u8();
  const auto mantissa_at = fields.u8();
  const auto mantissa_bits = fields.u8();
  const auto bias = fields.u32();
  const auto sign_at = static_cast<int>(bits >> 8 & 0xff);
  const auto normalization = bits >> 4 & 3;
  type.big_endian = (bits & 1) != 0;
  type.name = fmt::format("a {}-bit float", precision);
  check_precision(fields, offset, precision, type.size);
  const auto contains_sign = [&](int at, int count) { return sign_at >= at && sign_at < at + count; };
  if (sign_at >= precision || exponent_bits == 0 || exponent_at + exponent_bits > precision || mantissa_bits == 0 ||
      mantissa_at + mantissa_bits > precision || contains_sign(exponent_at, exponent_bits) ||
      contains_sign(mantissa_at, mantissa_bits) || normalization > 2 ||
      (exponent_at < mantissa_at + mantissa_bits && mantissa_at < exponent_at + exponent_bits)) {
    fields.damaged(fmt::format("a {}-bit float whose parts overlap or pass its end", precision));
  }
  if (offset != 0 || precision != 8 * type.size || mantissa_at != 0 || exponent_at != mantissa_bits ||
      sign_at != exponent_at + exponent_bits || sign_at + 1 != precision || normalization != 2 || (bits & 0x40) != 0)
    return;
  if (type.size == 2 && exponent_bits == 5 && bias == 15) type.dtype = DType::kFloat16;
  if (type.size == 2 && exponent_bits == 8 && bias == 127) type.dtype = DType::kBFloat16;
  if (type.size == 4 && exponent_bits == 8 && bias == 127) type.dtype = DType::kFloat32;
  if (type.size == 8 && exponent_bits == 11 && bias == 1023) type.dtype = DType::kFloat64;
  if (type.dtype != DType::kInvalid) type.kind = Datatype::Kind::kNumber;
}

// Only h5py's boolean: FALSE = 0, TRUE = 1 over int8.
void parse_enum(const Image& image, Fields& fields, std::uint32_t bits, int version, int depth, Datatype& type) {
  type.name = "an enumeration";
  const Datatype base = parse_datatype(image, fields.take(std::min<std::size_t>(12, fields.left())), depth + 1);
  if (base.size != type.size)
    image.damaged(fields.offset(), fmt::format("an enumeration of {} bytes over a type of {}", type.size, base.size));
  if (base.kind != Datatype::Kind::kNumber || base.size != 1 || (bits & 0xffff) != 2) return;
  std::string names[2];
  for (auto& name : names) {
    std::size_t used = 1;
    for (char c = static_cast<char>(fields.u8()); c != 0; c = static_cast<char>(fields.u8()), ++used) name += c;
    if (version < 3) fields.skip((8 - used % 8) % 8);
  }
  const auto first = fields.u8();
  const auto second = fields.u8();
  if ((names[0] == "FALSE" && names[1] == "TRUE" && first == 0 && second == 1) ||
      (names[0] == "TRUE" && names[1] == "FALSE" && first == 1 && second == 0)) {
    type.kind = Datatype::Kind::kNumber;
    type.dtype = DType::kBool;
  }
}

}  // namespace

Datatype parse_datatype(const Image& image, std::span<const std::byte> block, int depth) {
  Fields fields(image, block);
  if (depth > 4) image.damaged(fields.offset(), "a datatype nested too deep");
  const auto first = fields.u8();
  const int version = first >> 4;
  const auto bits = static_cast<std::uint32_t>(fields.unsigned_field(3));
  Datatype type;
  type.size = fields.u32();
  const int type_class = first & 0x0f;
  // Version 5 has the class of complex numbers, for which it was made.
  if (version < 1 || version > 5 || type_class > 11 || (version == 5) != (type_class == 11))
    image.damaged(fields.offset(), fmt::format("datatype class {} of version {}", type_class, version));
  const auto check_charset = [&](std::uint32_t charset) {
    if (charset > 1) image.damaged(fields.offset(), fmt::format("a string with the unknown encoding {}", charset));
  };
  if (type.size == 0) image.damaged(fields.offset(), "a datatype of no bytes");
  switch (type_class) {
    case 0: parse_integer(fields, bits, type); break;
    case 1: parse_float(fields, bits, type); break;
    case 3:
      type.kind = Datatype::Kind::kFixedString;
      type.dtype = DType::kString;
      type.padding = static_cast<int>(bits & 15);
      check_charset(bits >> 4 & 15);
      type.name = "a string";
      break;
    case 5:
      type.name = "opaque bytes";
      type.opaque2 = type.size == 2;
      break;
    case 6: type.name = "a compound type"; break;
    case 7: type.name = "a reference"; break;
    case 8: parse_enum(image, fields, bits, version, depth, type); break;
    case 9:
      type.name = "a variable-length type";
      if (fields.left() > 0) parse_datatype(image, fields.take(fields.left()), depth + 1);
      if ((bits & 15) == 1 && type.size == 8 + static_cast<std::uint64_t>(image.address_size)) {
        type.kind = Datatype::Kind::kVariableString;
        type.dtype = DType::kString;
        check_charset(bits >> 8 & 15);
      }
      break;
    default: type.name = fmt::format("datatype class {}", type_class);
  }
  return type;
}

Dataspace parse_dataspace(const Image& image, std::span<const std::byte> block) {
  Fields fields(image, block);
  const auto version = fields.u8();
  const auto rank = fields.u8();
  const bool has_maxima = (fields.u8() & 1) != 0;
  Dataspace space;
  if (version == 1) {
    fields.skip(5);
  } else if (version == 2) {
    const auto kind = fields.u8();
    space.null = kind == 2;
    if (kind > 2 || (kind != 1 && rank > 0))
      image.damaged(fields.offset(), fmt::format("a dataspace of kind {} and {} dimensions", kind, rank));
  } else {
    image.damaged(fields.offset(), fmt::format("dataspace version {}", version));
  }
  if (rank > 32) image.damaged(fields.offset(), fmt::format("{} dimensions, at most 32 are possible", rank));
  for (int i = 0; i < rank; ++i) {
    const std::uint64_t dim = fields.length();
    if (dim > (std::uint64_t{1} << 62)) image.damaged(fields.offset(), fmt::format("a dimension of {}", dim));
    space.dims.push_back(static_cast<std::int64_t>(dim));
    if (dim != 0 && __builtin_mul_overflow(space.count, dim, &space.count)) {
      image.damaged(fields.offset(), "the number of elements passes 64 bits");
    }
  }
  for (int i = 0; has_maxima && i < rank; ++i) {
    const auto dim = static_cast<std::uint64_t>(space.dims[static_cast<std::size_t>(i)]);
    // An unlimited one has all bits.
    if (const std::uint64_t maximum = fields.length(); maximum < dim)
      image.damaged(fields.offset(), fmt::format("a dimension of {}, at most {} are possible", dim, maximum));
  }
  if (space.null || std::find(space.dims.begin(), space.dims.end(), 0) != space.dims.end()) space.count = 0;
  return space;
}

std::vector<Filter> parse_filters(const Image& image, std::span<const std::byte> block) {
  Fields fields(image, block);
  const auto version = fields.u8();
  const auto count = fields.u8();
  if (version != 1 && version != 2) image.damaged(fields.offset(), fmt::format("filter pipeline version {}", version));
  if (version == 1) fields.skip(6);
  if (count > 32) image.damaged(fields.offset(), fmt::format("{} filters, at most 32 are possible", count));
  std::vector<Filter> filters;
  for (int i = 0; i < count; ++i) {
    Filter filter;
    filter.id = fields.u16();
    std::uint16_t name_size = version == 1 || filter.id >= 256 ? fields.u16() : std::uint16_t{0};
    fields.skip(2);
    const auto values = fields.u16();
    if (version == 1 && name_size % 8 != 0)
      image.damaged(fields.offset(), fmt::format("a filter name of {} bytes", name_size));
    if (const std::string name = fields.text(name_size); name_size > 0 && name.find('\0') == std::string::npos)
      image.damaged(fields.offset(), "a filter name without an end");
    for (int v = 0; v < values; ++v) filter.values.push_back(fields.u32());
    if (version == 1 && values % 2 == 1) fields.skip(4);
    const bool one = filter.values.size() == 1;
    if ((filter.id == 1 && !(one && filter.values[0] <= 9)) || (filter.id == 2 && !(one && filter.values[0] > 0)))
      image.damaged(fields.offset(), fmt::format("filter {} with parameters that it does not have", filter.id));
    filters.push_back(std::move(filter));
  }
  return filters;
}

constexpr std::uint64_t kSmallestCollection = 4096;

GlobalHeaps::Collection GlobalHeaps::parse(std::uint64_t address) const {
  Fields head(image_, image_.block(address, 8 + static_cast<std::uint64_t>(image_.length_size)));
  head.expect("GCOL");
  if (head.u8() != 1) image_.damaged(address, "a global heap of an unknown version");
  head.skip(3);
  const std::uint64_t size = head.length();
  if (size < kSmallestCollection) image_.damaged(address, fmt::format("a global heap of {} bytes", size));
  Fields fields(image_, image_.own_block(address, size));
  fields.skip(std::min<std::uint64_t>(size, head.position()));
  const std::size_t head_size = 8 + static_cast<std::size_t>(image_.length_size);
  Collection objects;
  bool has_free_space = false;
  while (fields.left() > 0) {
    image_.charge_steps(1, address);
    if (fields.left() < head_size) {  // too little for a head: free space
      if (has_free_space) image_.damaged(address, "two free spaces in a global heap");
      break;
    }
    const auto number = fields.u16();
    fields.skip(6);
    const std::uint64_t object_size = fields.length();
    if (number == 0) {  // the free space, with its head
      if (object_size < head_size || object_size - head_size > fields.left())
        image_.damaged(address, fmt::format("free space of {} bytes in a global heap", object_size));
      has_free_space = true;
      fields.skip(object_size - head_size);
      continue;
    }
    objects.insert_or_assign(number, fields.take(object_size));
    fields.skip((8 - object_size % 8) % 8);
  }
  return objects;
}

std::span<const std::byte> GlobalHeaps::object(std::uint64_t address, std::uint32_t index) {
  auto collection = collections_.find(address);
  if (collection == collections_.end()) collection = collections_.emplace(address, parse(address)).first;
  const auto found = collection->second.find(index);
  if (found == collection->second.end()) image_.damaged(address, fmt::format("no object {} in the global heap", index));
  return found->second;
}

std::vector<std::string> read_strings(const Image& image, const Datatype& type, std::uint64_t count,
                                      std::span<const std::byte> bytes, GlobalHeaps& heaps) {
  std::vector<std::string> strings;
  Fields fields(image, bytes);
  auto spend = [&](std::uint64_t size) { image.charge_bytes(size + sizeof(std::string), 0); };
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type.kind == Datatype::Kind::kFixedString) {
      spend(type.size);
      std::string text = fields.text(type.size);
      if (type.padding == 0) text = text.substr(0, text.find('\0'));
      const auto last = text.find_last_not_of(type.padding == 2 ? ' ' : '\0');
      text.resize(last == std::string::npos ? 0 : last + 1);
      strings.push_back(std::move(text));
      continue;
    }
    const std::uint32_t length = fields.u32();
    const std::uint64_t address = fields.address();
    const std::uint32_t index = fields.u32();
    spend(length);
    if (length == 0 && (address == 0 || address == kUndefinedAddress)) {
      strings.emplace_back();
      continue;
    }
    auto object = heaps.object(address, index);
    if (object.size() != length) {
      image.damaged(address,
                    fmt::format("a string of {} bytes, its object in the global heap has {}", length, object.size()));
    }
    std::string text(reinterpret_cast<const char*>(object.data()), length);
    strings.push_back(text.substr(0, text.find('\0')));
  }
  return strings;
}

}  // namespace lockstep::formats::hdf5

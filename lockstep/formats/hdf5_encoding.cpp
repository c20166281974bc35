#include "lockstep/formats/hdf5_encoding_internal.h"

#include <utility>

namespace lockstep::formats::hdf5 {
namespace {

void write_fixed_point(FieldWriter& out, std::size_t size, bool is_signed) {
  out.u8(0x10);
  out.u8(is_signed ? 0x08 : 0x00);
  out.u16(0);
  out.u32(static_cast<std::uint32_t>(size));
  out.u16(0);
  out.u16(static_cast<std::uint16_t>(8 * size));
}

void write_float(FieldWriter& out, std::size_t size, std::uint8_t exponent_bits, std::uint8_t mantissa_bits,
                 std::uint32_t bias) {
  out.u8(0x11);
  out.u8(0x20);  // the leading mantissa bit is implied
  out.u8(static_cast<std::uint8_t>(8 * size - 1));
  out.u8(0);
  out.u32(static_cast<std::uint32_t>(size));
  out.u16(0);
  out.u16(static_cast<std::uint16_t>(8 * size));
  out.u8(mantissa_bits);
  out.u8(exponent_bits);
  out.u8(0);
  out.u8(mantissa_bits);
  out.u32(bias);
}

void write_boolean(FieldWriter& out) {
  out.u8(0x18);
  out.u16(2);
  out.u8(0);
  out.u32(1);
  write_fixed_point(out, 1, true);
  out.text("FALSE");
  out.zeros(3);
  out.text("TRUE");
  out.zeros(4);
  out.u8(0);
  out.u8(1);
}

void write_opaque(FieldWriter& out, std::size_t size) {
  out.u8(0x15);
  out.u8(0);
  out.u16(0);
  out.u32(static_cast<std::uint32_t>(size));
}

}  // namespace

void write_string_type(FieldWriter& out, Hdf5Charset charset) {
  out.u8(0x19);
  out.u8(0x01);
  out.u8(static_cast<std::uint8_t>(charset));
  out.u8(0);
  out.u32(16);
  write_fixed_point(out, 1, false);
}

std::optional<std::vector<std::byte>> datatype_of(DType dtype) {
  FieldWriter out;
  switch (dtype) {
    case DType::kFloat16: write_float(out, 2, 5, 10, 15); break;
    case DType::kFloat32: write_float(out, 4, 8, 23, 127); break;
    case DType::kFloat64: write_float(out, 8, 11, 52, 1023); break;
    case DType::kBool: write_boolean(out); break;
    case DType::kBFloat16: write_opaque(out, 2); break;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: write_fixed_point(out, dtype_size(dtype), true); break;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: write_fixed_point(out, dtype_size(dtype), false); break;
    default: return std::nullopt;
  }
  return std::move(out.bytes());
}

void write_dataspace(FieldWriter& out, std::span<const std::int64_t> dims) {
  out.u8(1);
  out.u8(static_cast<std::uint8_t>(dims.size()));
  out.u8(dims.empty() ? 0 : 1);
  out.zeros(5);
  for (int pass = 0; pass < 2; ++pass) {  // the extents, then the same as maximal extents
    for (std::int64_t dim : dims) out.u64(static_cast<std::uint64_t>(dim));
  }
}

std::vector<std::byte> padded(FieldWriter& out) {
  out.pad_to(8);
  return std::move(out.bytes());
}

std::vector<std::byte> object_header(const std::vector<EncodedMessage>& messages) {
  FieldWriter body;
  for (const EncodedMessage& message : messages) {
    body.u16(message.type);
    body.u16(static_cast<std::uint16_t>(message.body.size()));
    body.u8(message.flags);
    body.zeros(3);
    body.raw(message.body);
  }
  FieldWriter out;
  out.u8(1);
  out.u8(0);
  out.u16(static_cast<std::uint16_t>(messages.size()));
  out.u32(1);
  out.u32(static_cast<std::uint32_t>(body.size()));
  out.u32(0);
  out.raw(body.bytes());
  return std::move(out.bytes());
}

}  // namespace lockstep::formats::hdf5

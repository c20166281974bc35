#include "lockstep/base/dtype.h"

#include <array>
#include <ostream>

namespace lockstep {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array kRows = {
    Row{DType::kFloat32, "float32", 4},
    Row{DType::kFloat64, "float64", 8},
    Row{DType::kInt32, "int32", 4},
    Row{DType::kUInt8, "uint8", 1},
    Row{DType::kInt16, "int16", 2},
    Row{DType::kInt8, "int8", 1},
    Row{DType::kString, "string", 0},
    Row{DType::kComplex64, "complex64", 8},
    Row{DType::kInt64, "int64", 8},
    Row{DType::kBool, "bool", 1},
    Row{DType::kQInt8, "qint8", 1},
    Row{DType::kQUInt8, "quint8", 1},
    Row{DType::kQInt32, "qint32", 4},
    Row{DType::kBFloat16, "bfloat16", 2},
    Row{DType::kQInt16, "qint16", 2},
    Row{DType::kQUInt16, "quint16", 2},
    Row{DType::kUInt16, "uint16", 2},
    Row{DType::kComplex128, "complex128", 16},
    Row{DType::kFloat16, "float16", 2},
    Row{DType::kResource, "resource", 0},
    Row{DType::kVariant, "variant", 0},
    Row{DType::kUInt32, "uint32", 4},
    Row{DType::kUInt64, "uint64", 8},
    Row{DType::kFloat8E5M2, "float8_e5m2", 1},
    Row{DType::kFloat8E4M3FN, "float8_e4m3fn", 1},
};

const Row* find(DType dtype) noexcept {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

std::size_t dtype_size(DType dtype) noexcept {
  const Row* row = find(dtype);
  return row ? row->size : 0;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << "<dtype: '" << dtype_name(dtype) << "'>"; }

std::string_view dtype_name(DType dtype) noexcept {
  const Row* row = find(dtype);
  return row ? row->name : "invalid";
}

bool operator==(DType dtype, std::string_view name) noexcept { return parse_dtype(name) == dtype; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  if (name == "half") return DType::kFloat16;
  if (name == "float") return DType::kFloat32;
  if (name == "double") return DType::kFloat64;
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool is_floating(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FN: return true;
    default: return false;
  }
}

bool is_integer(DType dtype) noexcept {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return true;
    default: return false;
  }
}

bool is_complex(DType dtype) noexcept { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

}  // namespace lockstep

// Element types, numbered as tensorflow.DataType numbers them, so the value goes into files as it is.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string_view>

namespace lockstep {

enum class DType : int {
  kInvalid = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUInt8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQInt8 = 11,
  kQUInt8 = 12,
  kQInt32 = 13,
  kBFloat16 = 14,
  kQInt16 = 15,
  kQUInt16 = 16,
  kUInt16 = 17,
  kComplex128 = 18,
  kFloat16 = 19,
  kResource = 20,
  kVariant = 21,
  kUInt32 = 22,
  kUInt64 = 23,
  kFloat8E5M2 = 24,
  kFloat8E4M3FN = 25,
};

// TensorFlow's names: tf.float32 is lockstep::float32.
inline constexpr DType float16 = DType::kFloat16;
inline constexpr DType bfloat16 = DType::kBFloat16;
inline constexpr DType float32 = DType::kFloat32;
inline constexpr DType float64 = DType::kFloat64;
inline constexpr DType int8 = DType::kInt8;
inline constexpr DType int16 = DType::kInt16;
inline constexpr DType int32 = DType::kInt32;
inline constexpr DType int64 = DType::kInt64;
inline constexpr DType uint8 = DType::kUInt8;
inline constexpr DType uint16 = DType::kUInt16;
inline constexpr DType uint32 = DType::kUInt32;
inline constexpr DType uint64 = DType::kUInt64;

// "<dtype: 'float32'>", as TensorFlow prints it.
std::ostream& operator<<(std::ostream& out, DType dtype);

// Bytes of one element; 0 for strings, resources and variants, which have no fixed size.
std::size_t dtype_size(DType dtype) noexcept;

// NumPy's and Keras's name: "float32", "int64", "bool", "bfloat16", "string", "resource", …
std::string_view dtype_name(DType dtype) noexcept;

// x.dtype() == "float16", as in Python; false for a name of no type.
bool operator==(DType dtype, std::string_view name) noexcept;

// The inverse; accepts "half", "float" and "double" too. Empty for an unknown name.
std::optional<DType> parse_dtype(std::string_view name) noexcept;

bool is_floating(DType dtype) noexcept;  // float16, bfloat16, float32, float64, float8
bool is_integer(DType dtype) noexcept;   // signed and unsigned, not bool
bool is_complex(DType dtype) noexcept;

}  // namespace lockstep

#include "fuzz/execution/choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"

namespace lockstep::fuzz {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

class FuzzVariable final : public VariableResource {
 public:
  FuzzVariable(DType dtype, Tensor value) : dtype_(dtype), value_(std::move(value)) {}
  std::string resource_name() const override { return "v"; }
  DType dtype() const override { return dtype_; }
  Shape shape() const override { return value_.defined() ? value_.shape() : Shape::unknown_rank(); }
  bool is_initialized() const override { return value_.defined(); }
  Tensor read() override {
    if (!value_.defined()) throw_failed_precondition("variable 'v' is used before it has a value");
    return value_;
  }
  void assign(const Tensor& value) override {
    if (value.dtype() != dtype_) throw_invalid_argument("variable 'v' has another dtype");
    value_ = value;
  }

 private:
  const DType dtype_;
  Tensor value_;
};

}  // namespace

std::uint64_t Choices::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::int64_t Choices::integer() {
  if (chance(80)) return static_cast<std::int64_t>(below(5));
  static const std::vector<std::int64_t> odd = {-1,
                                                -1,
                                                -2,
                                                -5,
                                                7,
                                                64,
                                                1000,
                                                65536,
                                                std::int64_t{1} << 31,
                                                (std::int64_t{1} << 31) - 1,
                                                -(std::int64_t{1} << 31),
                                                std::int64_t{1} << 32,
                                                std::int64_t{1} << 62,
                                                kMax,
                                                kMax - 1,
                                                kMin,
                                                kMin + 1};
  return pick(odd);
}

double Choices::real() {
  if (chance(70)) return static_cast<double>(below(9)) / 2 - 1;
  static const std::vector<double> odd = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 1e-30, -0.0, 2147483648.0, 1e300, 255};
  return pick(odd);
}

std::string Choices::text() {
  static const std::vector<std::string> texts = {"",
                                                 "a",
                                                 "ab",
                                                 "hello world",
                                                 "1",
                                                 "-2.5e3",
                                                 "%d",
                                                 "a.b",
                                                 "(a|b)*",
                                                 "[",
                                                 "\\1\\2",
                                                 "\xff\xfe",
                                                 "\xc3",
                                                 "\xc3\xbc.",
                                                 "a,b,,c",
                                                 std::string(3, '\0'),
                                                 "9999999999999999999",
                                                 "1e999",
                                                 "{}",
                                                 "nan",
                                                 "\xf0\x9f\x98\x80",
                                                 "x{1000}{1000}"};
  std::string out = pick(texts);
  while (chance(15) && out.size() < 1000) out += pick(texts);
  return out;
}

DType Choices::dtype() {
  static const std::vector<DType> common = {DType::kFloat32, DType::kFloat32, DType::kInt32, DType::kInt64};
  static const std::vector<DType> all = {
      DType::kFloat32, DType::kFloat64,    DType::kInt32,    DType::kUInt8,   DType::kInt16,    DType::kInt8,
      DType::kString,  DType::kComplex64,  DType::kInt64,    DType::kBool,    DType::kBFloat16, DType::kUInt16,
      DType::kFloat16, DType::kComplex128, DType::kResource, DType::kVariant, DType::kUInt32,   DType::kUInt64};
  return chance(60) ? pick(common) : pick(all);
}

Shape Choices::shape(int max_rank) {
  const int rank = static_cast<int>(below(static_cast<std::size_t>(max_rank) + 1));
  Shape out;
  std::int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t extent = static_cast<std::int64_t>(chance(90) ? 1 + below(4) : below(9));
    if (count * extent > 4096) extent = 1;
    count *= extent;
    out.push_back(extent);
  }
  if (count == 0 && chance(30)) {
    static const std::vector<std::int64_t> huge = {std::int64_t{1} << 31, std::int64_t{1} << 40, 1000};
    for (int axis = 0; axis < rank; ++axis) {
      if (out[axis] != 0 && chance(40)) out[axis] = pick(huge);
    }
    std::int64_t strides = 1;  // LibTorch computes them as if no axis were empty
    for (const std::int64_t extent : out.dims()) {
      if (__builtin_mul_overflow(strides, std::max<std::int64_t>(extent, 1), &strides) || strides > kMax / 16)
        return Shape{0};
    }
  }
  return out;
}

Shape Choices::partial_shape() {
  if (chance(15)) return Shape::unknown_rank();
  Shape out = shape(4);
  for (int axis = 0; axis < out.rank(); ++axis) {
    if (chance(20)) out[axis] = chance(60) ? kUnknownDim : integer();
  }
  return out;
}

Tensor Choices::value(DType dtype, const Shape& shape, DType holds) {
  const auto count = static_cast<std::size_t>(shape.num_elements().value_or(0));
  if (dtype == DType::kString) {
    std::vector<std::string> texts(count);
    for (std::string& each : texts) each = text();
    return Tensor::strings(std::move(texts), shape);
  }
  const auto plain = [](DType type) { return type != DType::kResource && type != DType::kVariant; };
  const DType held = plain(holds) && holds != DType::kInvalid ? holds : DType::kFloat32;
  if (dtype == DType::kResource) {
    return Tensor::resource(std::make_shared<FuzzVariable>(held, chance(95) ? value(held, shape, held) : Tensor()));
  }
  if (dtype == DType::kVariant) {
    Tensors elements(below(4));
    for (Tensor& element : elements) {
      if (chance(90)) element = value(held, chance(80) ? shape : this->shape(3), held);
    }
    return Tensor::list(std::move(elements), chance(70) ? shape : partial_shape(), held);
  }
  Tensor dense;
  if (is_floating(dtype) || is_complex(dtype)) {
    std::vector<double> numbers(count);
    const bool odd = chance(15);
    for (double& each : numbers) each = odd ? real() : static_cast<double>(below(9)) / 2 - 1;
    dense = Tensor::from_vector(numbers, shape);
  } else {
    std::vector<std::int64_t> numbers(count);
    const bool odd = chance(25);
    for (std::int64_t& each : numbers) each = odd ? integer() : static_cast<std::int64_t>(below(4));
    dense = Tensor::from_vector(numbers, shape);
  }
  if (dense.dtype() != dtype) dense = ops::call1("Cast", {dense}, {{"DstT", dtype}});
  if (dense.rank() == 2 && chance(10)) {
    // The same shape with the strides of a transposed matrix.
    const Tensor order = Tensor::from_vector(std::vector<std::int32_t>{1, 0});
    const Tensor turned =
        ops::call1("Reshape", {dense, Tensor::from_vector(std::vector<std::int64_t>{shape[1], shape[0]})});
    return ops::call1("Transpose", {turned, order});
  }
  return dense;
}

}  // namespace lockstep::fuzz

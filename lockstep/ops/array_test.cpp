// Values that TensorFlow 2.21 gives on a CPU.
#include <numeric>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::ops {
namespace {

using F = std::vector<float>;
using I = std::vector<std::int32_t>;
Tensor counting(const Shape& shape) {
  F values(static_cast<std::size_t>(*shape.num_elements()));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from_vector(values, shape);
}
Tensor v() { return counting(Shape{6}); }
Tensor m() { return counting(Shape{3, 4}); }
using S = SliceSpec;

TEST(StridedSlice, Vectors) {
  EXPECT_EQ(strided_slice(v(), {S::range(std::nullopt, 4)}).to_vector<float>(), (F{0, 1, 2, 3}));
  EXPECT_EQ(strided_slice(v(), {S::range(4, 1, -2)}).to_vector<float>(), (F{4, 2}));
  EXPECT_EQ(strided_slice(v(), {S::range({}, {}, -1)}).to_vector<float>(), (F{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(strided_slice(v(), {S::range(-1, -7, -1)}).to_vector<float>(), (F{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(strided_slice(v(), {S::range(-100, 100)}).num_elements(), 6);
  EXPECT_EQ(strided_slice(v(), {S::range(4, 2)}).num_elements(), 0);
  EXPECT_EQ(strided_slice(v(), {S::at(-1)}).item<float>(), 5);
  EXPECT_THROW(strided_slice(v(), {S::at(6)}), Error);
  EXPECT_THROW(strided_slice(v(), {S::range(0, 1, 0)}), Error);
}

TEST(StridedSlice, Matrices) {
  EXPECT_EQ(strided_slice(m(), {S::ellipsis(), S::at(1)}).to_vector<float>(), (F{1, 5, 9}));
  EXPECT_EQ(strided_slice(m(), {S::ellipsis(), S::new_axis()}).shape(), (Shape{3, 4, 1}));
  EXPECT_THROW(strided_slice(m(), {S::ellipsis(), S::ellipsis()}), Error);
}

TEST(Gather, AxesAndErrors) {
  const Tensor index = Tensor::from_vector(I{0, 1, 2}, Shape{3, 1});
  EXPECT_EQ(gather(m(), index, 1, 1).to_vector<float>(), (F{0, 5, 10}));
  EXPECT_THROW(gather(v(), constant_ints({-1})), Error);
  EXPECT_THROW(gather(v(), constant_ints({6})), Error);
  EXPECT_EQ(gather(Tensor::zeros(Shape{3, 0}), constant_ints({7})).shape(), (Shape{1, 0}));
}

TEST(Scatter, DuplicatesAddAndLastWins) {
  const Tensor index = Tensor::from_vector(I{0, 0, 2}, Shape{3, 1});
  const Tensor updates = Tensor::from_vector(F{1, 2, 3});
  EXPECT_EQ(scatter_nd(index, updates, constant_ints({4})).to_vector<float>(), (F{3, 0, 3, 0}));
  const Tensor twice = Tensor::from_vector(I{0, 0}, Shape{2, 1}), values = Tensor::from_vector(F{11, 5});
  EXPECT_EQ(call1("TensorScatterUpdate", {Tensor::from_vector(F{10}), twice, values}).item<float>(), 5);
  EXPECT_EQ(call1("TensorScatterAdd", {Tensor::from_vector(F{10}), twice, values}).item<float>(), 26);
}

TEST(Array, PadTileRange) {
  const Tensor x = Tensor::from_vector(F{1, 2, 3});
  EXPECT_EQ(mirror_pad(x, {{2, 1}}, "REFLECT").to_vector<float>(), (F{3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(mirror_pad(x, {{3, 2}}, "SYMMETRIC").to_vector<float>(), (F{3, 2, 1, 1, 2, 3, 3, 2}));
  EXPECT_THROW(mirror_pad(x, {{3, 0}}, "REFLECT"), Error);
  EXPECT_EQ(range(constant(5, DType::kInt32), constant(0, DType::kInt32), constant(-2, DType::kInt32))
                .to_vector<std::int32_t>(),
            (I{5, 3, 1}));
  const auto tenths = range(constant(0, DType::kFloat32), constant(1, DType::kFloat32), constant(0.1, DType::kFloat32))
                          .to_vector<float>();
  EXPECT_EQ(tenths.back(), 0.90000004f);
  EXPECT_EQ(tile(x, Ints{0}).num_elements(), 0);
}

TEST(Array, OneHotOutOfRangeIsOff) {
  const Tensor x = constant_ints({0, 2, -1, 3});
  EXPECT_EQ(one_hot(x, 3).to_vector<float>(), (F{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(Array, ReshapeAndConcatErrors) {
  EXPECT_THROW(reshape(v(), Ints{4, -1}), Error);
  EXPECT_EQ(reshape(v(), Ints{2, -1}).shape(), (Shape{2, 3}));
  EXPECT_THROW(concat({v(), m()}, 0), Error);
  EXPECT_THROW(split(v(), 4, 0), Error);
}

TEST(Array, UniqueKeepsFirstOccurrence) {
  const Tensors out = call("UniqueWithCounts", {constant_ints({3, 1, 3, 2, 1})});
  EXPECT_EQ(out[0].to_vector<std::int32_t>(), (I{3, 1, 2}));
  EXPECT_EQ(out[1].to_vector<std::int32_t>(), (I{0, 1, 0, 2, 1}));
  EXPECT_EQ(out[2].to_vector<std::int32_t>(), (I{2, 2, 1}));
}

TEST(Strings, FingerprintAndSplit) {
  const Tensor x = Tensor::strings({"", "a", "hello"}, Shape{3});
  EXPECT_EQ(call1("StringToHashBucketFast", {x}, {{"num_buckets", std::int64_t{1000}}}).to_vector<std::int64_t>(),
            (Ints{263, 939, 296}));
  const Tensors parts =
      call("StringSplitV2", {Tensor::strings({" a  b ", ""}, Shape{2}), Tensor::strings({""}, Shape{})});
  EXPECT_EQ(parts[1].string_values(), (std::vector<std::string>{"a", "b"}));
}

TEST(Strings, RegexReplace) {
  const auto replace = [](const char* text, const char* pattern, const char* rewrite, bool global = true) {
    return call1("StaticRegexReplace", {Tensor::strings({text}, Shape{})},
                 {{"pattern", std::string(pattern)}, {"rewrite", std::string(rewrite)}, {"replace_global", global}})
        .string_values()[0];
  };
  EXPECT_EQ(replace("abc", "x*", "-"), "-a-b-c-");
  EXPECT_EQ(replace("a\nb", ".", "x"), "x\nx");
  EXPECT_EQ(replace("Hi, you!", "[!\"#$%&()\\*\\+,-\\./:;<=>?@\\[\\\\\\]^_`{|}~\\']", ""), "Hi you");
  EXPECT_EQ(replace("aab", "a+|b", "<\\0>"), "<aa><b>");
  EXPECT_EQ(replace("aa", "a", "b", false), "ba");
  const Tensor path = Tensor::strings({"s3://x", "/tmp/s3://"}, Shape{2});
  EXPECT_EQ(call1("StaticRegexFullMatch", {path}, {{"pattern", std::string("^s3://.*")}}).to_vector<bool>(),
            (std::vector<bool>{true, false}));
  EXPECT_THROW(replace("a", "(?=a)", ""), Error);
}

}  // namespace
}  // namespace lockstep::ops

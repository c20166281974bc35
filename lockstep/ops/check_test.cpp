// Calls that break an operation's contract: each is an Error, whatever the kernel would do with it.
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/op.h"

namespace lockstep::ops {
namespace {

std::string message_of(std::string_view op, const Tensors& inputs, Attrs attrs) {
  try {
    call(op, inputs, std::move(attrs));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.message();
    return error.message();
  }
  ADD_FAILURE() << op << " did not throw";
  return "";
}

Tensor ints32(const std::vector<std::int32_t>& values) { return Tensor::from_vector(values); }
Tensor ints64(const std::vector<std::int64_t>& values) { return Tensor::from_vector(values); }

TEST(Contract, KindsOfAttributes) {
  const Tensor x = Tensor::zeros(Shape{1, 4, 4, 1});
  EXPECT_EQ(message_of("Softmax", {x}, {{"T", std::int64_t{1}}}),
            "Softmax: invalid attribute 'T': expected type, found int");
  EXPECT_EQ(message_of("AvgPool", {x},
                       {{"ksize", std::string("2")},
                        {"strides", std::vector<std::int64_t>{1, 1, 1, 1}},
                        {"padding", std::string("SAME")}}),
            "AvgPool: invalid attribute 'ksize': expected list(int), found string");
  EXPECT_EQ(message_of("AddN", {x, x}, {{"N", std::string("2")}}), "AddN: attribute 'N' has the wrong type");
}

TEST(Contract, MinimaAndAllowedValues) {
  const Tensor x = Tensor::zeros(Shape{1, 4, 4, 1}), text = Tensor::strings({"a"}, Shape{1});
  const std::vector<std::int64_t> window{1, 2, 2, 1};
  EXPECT_EQ(message_of("Split", {ints32({0}), x}, {{"num_split", std::int64_t{0}}}),
            "Split: invalid attribute 'num_split': 0 is below the minimum 1");
  EXPECT_EQ(message_of("StringToHashBucketFast", {text}, {{"num_buckets", std::int64_t{0}}}),
            "StringToHashBucketFast: invalid attribute 'num_buckets': 0 is below the minimum 1");
  message_of("StringToHashBucketStrong", {text},
             {{"num_buckets", std::int64_t{0}}, {"key", std::vector<std::int64_t>{1, 2}}});
  message_of("SpaceToDepth", {x}, {{"block_size", std::int64_t{0}}});
  message_of("DepthToSpace", {x}, {{"block_size", std::int64_t{1}}});
  // EXPLICIT belongs to MaxPool and convolutions only.
  EXPECT_EQ(message_of("AvgPool", {x}, {{"ksize", window}, {"strides", window}, {"padding", std::string("EXPLICIT")}}),
            "AvgPool: invalid attribute 'padding': 'EXPLICIT' is not one of SAME, VALID");
  message_of("AvgPool", {x},
             {{"ksize", std::vector<std::int64_t>{2, 2}}, {"strides", window}, {"padding", std::string("SAME")}});
  EXPECT_EQ(message_of("MatMul", {Tensor::scalar(true), Tensor::scalar(true)}, {}).substr(0, 44),
            "MatMul: invalid attribute 'T': bool is not o");
}

TEST(Contract, RandomWordsHaveTheSizeOfTheirDtype) {
  const Tensor shape = ints32({1000}), seed = ints32({1, 2});
  for (const DType dtype :
       {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16, DType::kFloat32, DType::kBool}) {
    message_of("StatelessRandomUniformFullInt", {shape, seed}, {{"dtype", dtype}});
  }
  const Tensor low = Tensor::scalar<std::int8_t>(0), high = Tensor::scalar<std::int8_t>(5);
  message_of("StatelessRandomUniformInt", {shape, seed, low, high}, {{"dtype", DType::kInt8}});
}

TEST(Contract, BlocksFitTheInput) {
  const Tensor x = Tensor::zeros(Shape{4, 4});
  const auto matrix = [](std::int64_t rows) {
    return Tensor::from_vector(std::vector<std::int32_t>(static_cast<std::size_t>(2 * rows)), Shape{rows, 2});
  };
  for (const char* op : {"SpaceToBatchND", "BatchToSpaceND"}) {
    message_of(op, {x, ints32({2, 2, 2, 2}), matrix(4)}, {});  // more block sizes than axes
    message_of(op, {x, ints32({2}), matrix(2)}, {});
    message_of(op, {x, ints32({0}), matrix(1)}, {});
    message_of(op, {x, ints32({-1}), matrix(1)}, {});
  }
  message_of("BatchToSpaceND", {x, ints32({2}), Tensor::from_vector(std::vector<std::int32_t>{5, 5}, Shape{1, 2})}, {});
}

Tensor ragged(const Tensors& partitions, std::vector<std::string> types, const Tensor& shape) {
  const auto levels = static_cast<std::int64_t>(partitions.size());
  Tensors inputs = {shape, Tensor::strings({"a", "b"}, Shape{2}), Tensor::strings({"-"}, Shape{})};
  inputs.insert(inputs.end(), partitions.begin(), partitions.end());
  return call("RaggedTensorToTensor", inputs,
              {{"num_row_partition_tensors", levels}, {"row_partition_types", std::move(types)}})[0];
}

TEST(Contract, RowPartitionsFitEachOther) {
  EXPECT_EQ(ragged({ints64({0, 1, 2})}, {"ROW_SPLITS"}, ints64({-1, -1})).string_values(),
            (std::vector<std::string>{"a", "b"}));
  const std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_THROW(ragged({ints64({0, 1, 2})}, {"ROW_SPLITS"}, ints64({huge, huge})), Error);
  // The second level has three rows, the first holds two values.
  EXPECT_THROW(ragged({ints64({0, 2}), ints64({0, 1, 1, 2})}, {"ROW_SPLITS", "ROW_SPLITS"}, ints64({-1, -1, -1})),
               Error);
  EXPECT_THROW(ragged({ints64({0, 2})}, {"ROW_SPLITS", "ROW_SPLITS"}, ints64({-1, -1})), Error);
  EXPECT_THROW(ragged({ints64({1, 2})}, {"ROW_SPLITS"}, ints64({-1, -1})), Error);
  EXPECT_THROW(ragged({ints64({-5}), ints64({0})}, {"FIRST_DIM_SIZE", "VALUE_ROWIDS"}, ints64({-1, -1})), Error);
}

TEST(Contract, LengthsAgree) {
  const Tensor text = Tensor::strings({"abc", "def"}, Shape{2});
  message_of("Substr", {text, ints32({0, 1}), ints32({1})}, {{"unit", std::string("BYTE")}});
  EXPECT_EQ(call1("Substr", {text, ints64({1}), ints64({INT64_MAX})}, {{"unit", std::string("BYTE")}}).string_values(),
            (std::vector<std::string>{"bc", "ef"}));
  message_of("SplitV", {ints32({1, 2}), ints32({2}), Tensor::scalar(std::int32_t{0})},
             {{"num_split", std::int64_t{7}}});
}

TEST(Contract, PatternsThatRepeatNothingEnd) {
  const Tensor text = Tensor::strings({"abc"}, Shape{1});
  const auto matches = [&](const char* pattern) {
    return call1("RegexFullMatch", {text, Tensor::strings({pattern}, Shape{})}).item<bool>();
  };
  EXPECT_TRUE(matches("(a|x)b?c+"));
  EXPECT_THROW(matches("((((){1000}){1000}){1000}){1000}"), Error);
}

TEST(Contract, EveryExceptionOfAKernelIsAnError) {
  Signature signature;
  signature.name = "Fails";
  for (const auto& [kernel, code] : std::vector<std::pair<Kernel, Code>>{
           {[](const Call&) -> Tensors { throw std::bad_alloc(); }, Code::kResourceExhausted},
           {[](const Call&) -> Tensors { throw std::out_of_range("vector::at"); }, Code::kInternal},
           {[](const Call&) -> Tensors { return Tensors(std::vector<Tensor>().max_size() + 1); },
            Code::kResourceExhausted}}) {
    const Op op{&signature, nullptr, kernel};
    try {
      run_kernel(op, {}, {});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.message();
      EXPECT_TRUE(error.message().starts_with("Fails: ")) << error.message();
    }
  }
}

}  // namespace
}  // namespace lockstep::ops

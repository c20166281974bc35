// Calls that break an operation's contract: each is an Error, whatever the kernel would do with it.
#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/shared_memory_limit_internal.h"
#include "lockstep/ops/table_internal.h"

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

// When a graph is traced, the shapes are those of inputs whose values may be known.
TEST(Contract, ShapeRulesCompareLengthsWithTheRank) {
  const Tensor x = Tensor::zeros(Shape{2, 3, 4});
  const auto message = [](const char* op, const Tensors& inputs, const Attrs& attrs) -> std::string {
    try {
      infer_outputs(Table::instance().at(op), inputs, attrs);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const Attrs tile{{"T", DType::kFloat32}, {"Tmultiples", DType::kInt32}};
  const Attrs slice{{"T", DType::kFloat32}, {"Index", DType::kInt32}};
  for (const auto& few : {std::vector<std::int32_t>{}, {1}, {1, 1}, {1, 1, 1, 1}}) {
    const Tensor given = Tensor::from_vector(few), all = ints32({1, 1, 1});
    EXPECT_NE(message("Tile", {x, given}, tile).find("one entry for each axis"), std::string::npos) << few.size();
    EXPECT_NE(message("Slice", {x, given, all}, slice), "") << few.size();
    EXPECT_NE(message("Slice", {x, given, given}, slice).find("need 3 entries"), std::string::npos) << few.size();
  }
  EXPECT_EQ(message("Tile", {x, ints32({1, 2, 0})}, tile) +
                message("Slice", {x, ints32({1, 0, 0}), ints32({1, -1, 2})}, slice),
            "");
}

TEST(Contract, GradientsOfConvolutionsHaveTheirRank) {
  const Attrs attrs{{"strides", std::vector<std::int64_t>{1, 1, 1, 1}}, {"padding", std::string("VALID")}};
  const Tensor image = Tensor::zeros(Shape{1, 4, 4, 1}), filter = Tensor::zeros(Shape{2, 2, 1, 1});
  for (const char* op : {"DepthwiseConv2dNativeBackpropInput", "Conv2DBackpropInput"}) {
    EXPECT_NE(message_of(op, {ints32({}), Tensor::zeros(Shape{3, 3}), Tensor::zeros(Shape{})}, attrs).find("4 axes"),
              std::string::npos);
    EXPECT_NE(message_of(op, {ints32({1, 4, 4, 1}), filter, Tensor::zeros(Shape{})}, attrs).find("4 axes"),
              std::string::npos);
  }
  for (const char* op : {"DepthwiseConv2dNativeBackpropFilter", "Conv2DBackpropFilter"}) {
    EXPECT_NE(message_of(op, {Tensor::zeros(Shape{3}), ints32({2, 2, 1, 1}), image}, attrs).find("input must have 4"),
              std::string::npos);
    EXPECT_NE(message_of(op, {image, ints32({2}), image}, attrs).find("filter_sizes must have 4"), std::string::npos);
    EXPECT_NE(message_of(op, {image, ints32({2, 2, 1, 1}), Tensor::zeros(Shape{3})}, attrs).find("out_backprop must"),
              std::string::npos);
  }
}

// The ranks and equal shapes of signatures.tsv are those of TensorFlow's shape functions.
TEST(Contract, ShapesOfInputs) {
  const Tensor scalar = Tensor::scalar(1.0f), two = Tensor::zeros(Shape{2}), image = Tensor::zeros(Shape{1, 2, 2, 3}),
               channels = Tensor::zeros(Shape{3});
  EXPECT_EQ(message_of("FusedBatchNormV3", {scalar, two, two, two, two}, {}),
            "FusedBatchNormV3: input 'x' has shape (), expected 4 to 5 axes");
  EXPECT_EQ(message_of("FusedBatchNormV3", {image, channels, two, channels, channels}, {}),
            "FusedBatchNormV3: input 'offset' has shape (2,), expected that of 'scale', (3,)");
  EXPECT_NE(message_of("FusedBatchNormV3", {image, two, two, two, two}, {}).find("expected 3 channels"),
            std::string::npos);
  message_of("FusedBatchNormGradV3", {image, image, channels, two, channels, two}, {});
  EXPECT_EQ(message_of("MatMul", {two, two}, {}), "MatMul: input 'a' has shape (2,), expected 2 axes");
  EXPECT_EQ(message_of("BiasAdd", {two, two}, {}), "BiasAdd: input 'value' has shape (2,), expected at least 2 axes");
  message_of("Multinomial", {scalar, ints32({})}, {});
  message_of("ReluGrad", {two, scalar}, {});
  message_of("TanhGrad", {two, scalar}, {});
  message_of("ClipByValue", {scalar, two, two}, {});
  message_of("InTopKV2", {Tensor::zeros(Shape{4, 1}), ints32({1}), Tensor::scalar<std::int32_t>(0)}, {});
  message_of("OneHot", {ints32({1}), Tensor::scalar<std::int32_t>(2), two, scalar}, {});
  message_of("Select", {Tensor::from_vector(std::vector<bool>{true, false, true}, Shape{3, 1}), scalar, scalar}, {});
  message_of("DepthToSpace", {image}, {{"block_size", std::int64_t{1} << 62}});
  message_of("Betainc", {Tensor::zeros(Shape{2, 3}), Tensor::zeros(Shape{3}), scalar}, {});
  message_of("BroadcastGradientArgs", {ints32({9, 4}), ints32({3, 1})}, {});
  const Tensor sets = Tensor::zeros(Shape{0, 2}, DType::kInt32);
  message_of("DenseToDenseSetOperation", {sets, sets}, {{"set_operation", std::string("a")}});
  for (const char* format : {"shortest", "scientific"}) message_of("AsString", {ints32({1})}, {{format, true}});
}

TEST(Contract, ExtentsThatDoNotFitIn64Bits) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor two = Tensor::zeros(Shape{2}), matrix = Tensor::zeros(Shape{2, 3}),
               axis = Tensor::scalar<std::int32_t>(0);
  message_of("SplitV", {two, ints64({most, most, 4}), axis}, {{"num_split", std::int64_t{3}}});
  message_of("Pad", {two, Tensor::from_vector(std::vector<std::int64_t>{most, 1}, Shape{1, 2})}, {});
  message_of("Tile", {matrix, ints64({most, 3})}, {});
  message_of("UnsortedSegmentSum", {two, ints32({0, 1}), Tensor::scalar(most)}, {});
}

// tf.clip_by_value broadcasts its bounds, the operation ClipByValue does not. Expected values: TensorFlow 2.21.
TEST(Contract, BoundsOfTheFunctionAreBroadcast) {
  const Tensor x = Tensor::from_vector(std::vector<float>{-1, 0, 5, 7, 8, 9}, Shape{2, 3}),
               low = Tensor::from_vector(std::vector<float>{0, 1, 2}, Shape{3});
  EXPECT_EQ(clip_by_value(x, low, Tensor::scalar(6.0f)).to_vector<float>(), (std::vector<float>{0, 1, 5, 6, 6, 6}));
}

TEST(Contract, NumbersAreExpected) {
  const Tensor text = Tensor::strings({"a"}, Shape{1}), list = Tensor::list({}, Shape{}, DType::kFloat32);
  EXPECT_NE(message_of("Conj", {list}, {}).find("found a tensor of dtype variant, expected numbers"),
            std::string::npos);
  message_of("BatchToSpaceND", {text, ints32({1}), Tensor::from_vector(std::vector<std::int32_t>{0, 0}, Shape{1, 2})},
             {});
  message_of("TensorScatterAdd", {text, Tensor::from_vector(std::vector<std::int32_t>{0}, Shape{1, 1}), text}, {});
  message_of("Fill", {ints32({1}), list}, {});
  message_of("PadV2", {list, Tensor::from_vector(std::vector<std::int32_t>{0, 0}, Shape{1, 2}), list}, {});
  const Tensor none = Tensor::strings({}, Shape{0});
  for (const char* op : {"StringSplit", "StringSplitV2", "RegexFullMatch"}) message_of(op, {text, none}, {});
  message_of("RegexReplace", {text, Tensor::strings({"a"}, Shape{}), none}, {});
  EXPECT_NE(message_of("IdentityN", {text}, {{"T", std::vector<DType>{DType::kFloat32}}}).find("'T' has float32"),
            std::string::npos);
}

TEST(Contract, WeightsOfCountsFit) {
  message_of("Bincount", {ints32({1, 0, 2}), Tensor::scalar<std::int32_t>(2), Tensor::zeros(Shape{5})}, {});
  message_of("Bincount", {ints32({1, 0, 2}), Tensor::scalar<std::int32_t>(-2), Tensor::zeros(Shape{3})}, {});
  const Tensor small = call1("Cast", {ints32({100, 100, 100})}, {{"DstT", DType::kInt16}});
  EXPECT_EQ(call1("Einsum", {small}, {{"equation", std::string("i->")}}).dtype(), DType::kInt16);
}

TEST(Contract, ListsHoldWhatTheCallDeclares) {
  const Tensor list = Tensor::list({Tensor::zeros(Shape{2, 3})}, Shape::unknown_rank(), DType::kFloat32);
  const Tensor zero = Tensor::scalar<std::int32_t>(0);
  const Attrs floats{{"element_dtype", DType::kFloat32}};
  EXPECT_EQ(call1("TensorListGetItem", {list, zero, ints32({2, 3})}, floats).shape(), (Shape{2, 3}));
  EXPECT_NE(message_of("TensorListGetItem", {list, zero, ints32({4})}, floats).find("has shape (2, 3), expected (4,)"),
            std::string::npos);
  EXPECT_NE(message_of("TensorListPopBack", {list, ints32({2, 3})}, {{"element_dtype", DType::kInt32}})
                .find("the list holds float32, the call expects int32"),
            std::string::npos);
  message_of("TensorListReserve", {ints32({-7}), zero}, floats);
  message_of("TensorListSplit", {Tensor::zeros(Shape{4}), ints32({}), ints64({2, INT64_MAX})}, floats);
  message_of("RandomShuffle", {list}, {});
}

// Expected values are TensorFlow's: the least number of the dtype where a segment is empty.
TEST(Contract, EmptySegmentsOfEveryDtype) {
  const Tensor ids = ints32({1}), two = Tensor::scalar<std::int32_t>(2);
  const auto least = [&](DType dtype) {
    const Tensor x = call1("Cast", {Tensor::from_vector(std::vector<float>{1})}, {{"DstT", dtype}});
    return call1("Cast", {call1("UnsortedSegmentMax", {x, ids, two})}, {{"DstT", DType::kFloat64}})
        .to_vector<double>()[0];
  };
  EXPECT_EQ(least(DType::kFloat16), -65504);
  EXPECT_EQ(least(DType::kBFloat16), -0x1.fep127);
  EXPECT_EQ(least(DType::kFloat32), -static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(least(DType::kFloat64), -std::numeric_limits<double>::max());
}

TEST(Contract, StringsCountAgainstTheMemoryLimit) {
  const Tensor text = Tensor::strings({std::string(10000, 'a')}, Shape{1}), pattern = Tensor::strings({"a"}, Shape{});
  const Tensor rewrite = Tensor::strings({std::string(10000, 'b')}, Shape{});
  const MemoryLimit limit(1 << 20);
  EXPECT_EQ(call1("StringJoin", {text, text}).string_values()[0].size(), 20000u);
  EXPECT_THROW(call("StringJoin", Tensors(200, text)), errors::ResourceExhaustedError);
  EXPECT_THROW(call("RegexReplace", {text, pattern, rewrite}), errors::ResourceExhaustedError);
}

TEST(Contract, PatternsThatRepeatNothingEnd) {
  const Tensor text = Tensor::strings({"abc"}, Shape{1});
  const auto matches = [&](const char* pattern) {
    return call1("RegexFullMatch", {text, Tensor::strings({pattern}, Shape{})}).item<bool>();
  };
  EXPECT_TRUE(matches("(a|x)b?c+"));
  EXPECT_THROW(matches("((((){1000}){1000}){1000}){1000}"), Error);
}

// Patterns of RE2 and the results of TensorFlow 2.21.
TEST(Regex, IsRe2) {
  using S = std::vector<std::string>;
  const Tensor x = Tensor::strings({"hello world", "na\u00efve \u00dcn\u00efcode", "a1b22c333", "", "caab"}, Shape{5});
  const auto replaced = [&](const char* pattern, const char* rewrite, bool global) {
    return call1("RegexReplace", {x, Tensor::strings({pattern}, Shape{}), Tensor::strings({rewrite}, Shape{})},
                 {{"replace_global", global}})
        .string_values();
  };
  EXPECT_EQ(replaced("(\\w)(\\d+)", "\\2\\1", true),
            (S{"hello world", "na\u00efve \u00dcn\u00efcode", "1a22b333c", "", "caab"}));
  EXPECT_EQ(replaced("\\bw", "<\\0>", true)[0], "hello <w>orld");
  EXPECT_EQ(replaced("[\u00ef\u00dc]", "u", true)[1], "nauve unucode");
  EXPECT_EQ(replaced("[\u00ef\u00dc]", "u", false)[1], "nauve \u00dcn\u00efcode");
  EXPECT_EQ(replaced("(?i)HELLO", "bye", true)[0], "bye world");
  EXPECT_EQ(replaced("a*", "-", true), (S{"-h-e-l-l-o- -w-o-r-l-d-", "-n-\u00ef-v-e- -\u00dc-n-\u00ef-c-o-d-e-",
                                          "-1-b-2-2-c-3-3-3-", "-", "-c-b-"}));
  EXPECT_EQ(replaced("a", "\\3", true)[4], "caab");
  EXPECT_EQ(message_of("StaticRegexFullMatch", {x}, {{"pattern", std::string("(?=a)")}}).substr(0, 71),
            "StaticRegexFullMatch: Invalid pattern: (?=a), error: invalid perl opera");
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

TEST(Contract, NGramsOfAnyWidthAreBounded) {
  const Tensor tokens = Tensor::strings({"a", "b"}, {2});
  const Tensor splits = Tensor::from_vector(std::vector<std::int64_t>{0, 2});
  const auto ngrams = [&](std::int64_t width, std::int64_t pad) {
    return call("StringNGrams", std::vector<Tensor>{tokens, splits},
                {{"separator", std::string(" ")},
                 {"ngram_widths", std::vector<std::int64_t>{width}},
                 {"left_pad", std::string("l")},
                 {"right_pad", std::string("r")},
                 {"pad_width", pad},
                 {"preserve_short_sequences", false}});
  };
  const MemoryLimit limit(1 << 20);
  EXPECT_EQ(ngrams(std::numeric_limits<std::int32_t>::max(), 0)[0].num_elements(), 0);
  for (const std::int64_t width : {std::int64_t{1} << 16, std::int64_t{1} << 24, std::int64_t{1} << 30})
    EXPECT_THROW(ngrams(width, -1), errors::ResourceExhaustedError) << width;
}

TEST(Contract, PoolsHaveNoGradientOfAnotherType) {
  const Tensor x = Tensor::zeros({1, 3, 2, 4, 2}, DType::kBFloat16), dy = Tensor::zeros(x.shape(), DType::kFloat16);
  const std::vector<std::int64_t> ones(5, 1);
  EXPECT_THROW(call("MaxPool3DGrad", std::vector<Tensor>{x, x, dy},
                    {{"ksize", ones}, {"strides", ones}, {"padding", std::string("SAME")}}),
               errors::UnimplementedError);
}

TEST(Contract, ThreadsShareAMemoryLimit) {
  const MemoryLimit limit(1000);
  std::thread([shared = current_memory_limit()] {
    EXPECT_EQ(Tensor::zeros(Shape{2000}).num_elements(), 2000);
    const SharedMemoryLimit scope(shared);
    EXPECT_THROW(Tensor::zeros(Shape{2000}), errors::ResourceExhaustedError);
  }).join();
}

TEST(Contract, MemoryLimitCountsTensors) {
  {
    const MemoryLimit limit(1000);
    Tensor kept = Tensor::zeros(Shape{200});
    EXPECT_THROW(Tensor::zeros(Shape{200}), errors::ResourceExhaustedError);
    kept = Tensor();
    EXPECT_EQ(Tensor::zeros(Shape{200}).num_elements(), 200);
    EXPECT_THROW(call("TensorListReserve", {ints32({1}), Tensor::scalar<std::int32_t>(1 << 30)},
                      {{"element_dtype", DType::kFloat32}}),
                 errors::ResourceExhaustedError);
  }
  EXPECT_EQ(Tensor::zeros(Shape{2000}).num_elements(), 2000);
}

TEST(Contract, OutputsHaveTheTypesAndShapesThatWereAskedFor) {
  const Tensor zero = Tensor::scalar(0.0F), one = Tensor::scalar(1.0F);
  const Tensor bytes = call("QuantizeV2", {Tensor::zeros(Shape{2}), zero, one}, {{"T", DType::kQUInt8}})[0];
  EXPECT_THROW(call("QuantizedAdd", {bytes, bytes, zero, one, zero, one}, {{"Toutput", DType::kQUInt8}}),
               errors::UnimplementedError);
  EXPECT_THROW(call("QuantizedRelu", {bytes, zero, one}, {{"out_type", DType::kQInt32}}), errors::UnimplementedError);

  const Tensor map = call1("TensorMapInsert", {call1("EmptyTensorMap", {}), one, zero});
  EXPECT_THROW(call("TensorMapStackKeys", {map}, {{"key_dtype", DType::kFloat64}}), errors::InvalidArgumentError);

  const Tensor whole = call1("Cast", {ints32({1, 2})}, {{"DstT", DType::kQInt32}});
  EXPECT_THROW(call("UniformQuantizedClipByValue", {whole, whole, whole, one, ints32({0}).reshape(Shape{})},
                    {{"quantization_min_val", std::int64_t{-9}}, {"quantization_max_val", std::int64_t{9}}}),
               errors::InvalidArgumentError);

  const Tensor image = Tensor::zeros(Shape{1, 2, 2, 1});
  EXPECT_THROW(call("MaxPoolGradGrad", {image, image, image},
                    {{"ksize", std::vector<std::int64_t>{1, 2, 2, 1}},
                     {"strides", std::vector<std::int64_t>{1, 2, 2, 1}},
                     {"padding", std::string("VALID")}}),
               errors::InvalidArgumentError);
  EXPECT_EQ(call1("RandomShuffle", {Tensor::zeros(Shape{std::int64_t{1} << 31, 0})}).num_elements(), 0);
}

// Numbers of uint64 above 2^63 are not negative. Expected values are those of TensorFlow 2.21.
TEST(Unsigned64, ComparesAndDivides) {
  using U = std::vector<std::uint64_t>;
  const std::uint64_t half = std::uint64_t{1} << 63, top = ~std::uint64_t{0};
  const Tensor a = Tensor::from_vector(U{half + 5, 1, top, 7}), b = Tensor::from_vector(U{1, half, 3, top});
  const auto binary = [&](const char* op) { return call1(op, {a, b}).to_vector<std::uint64_t>(); };
  EXPECT_EQ(binary("Maximum"), (U{half + 5, half, top, top}));
  EXPECT_EQ(binary("Minimum"), (U{1, 1, 3, 7}));
  EXPECT_EQ(binary("FloorDiv"), (U{half + 5, 0, 6148914691236517205u, 0}));
  EXPECT_EQ(binary("Div"), (U{half + 5, 0, 6148914691236517205u, 0}));
  EXPECT_EQ(binary("FloorMod"), (U{0, 1, 0, 7}));
  EXPECT_EQ(binary("RightShift"), (U{4611686018427387906u, 0, 2305843009213693951u, 0}));
  EXPECT_EQ(binary("LeftShift"), (U{10, half, 18446744073709551608u, half}));
  EXPECT_EQ(call1("Less", {a, b}).to_vector<bool>(), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(call1("GreaterEqual", {a, b}).to_vector<bool>(), (std::vector<bool>{true, false, true, false}));
  EXPECT_THROW(call1("FloorDiv", {a, Tensor::from_vector(U{0})}), Error);
  const Tensor axis = ints32({0});
  EXPECT_EQ(call1("Max", {a, axis}).item<std::uint64_t>(), top);
  EXPECT_EQ(call1("Min", {a, axis}).item<std::uint64_t>(), 1u);
  EXPECT_EQ(call1("ArgMax", {a, Tensor::scalar<std::int32_t>(0)}).item<std::int64_t>(), 2);
  const Tensors best = call("TopKV2", {a, Tensor::scalar<std::int32_t>(4)});
  EXPECT_EQ(best[0].to_vector<std::uint64_t>(), (U{top, half + 5, 7, 1}));
  EXPECT_EQ(best[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 0, 3, 1}));
  const Tensor ids = ints32({0, 0, 2, 2}), three = Tensor::scalar<std::int32_t>(3);
  EXPECT_EQ(call1("UnsortedSegmentMax", {a, ids, three}).to_vector<std::uint64_t>(), (U{half + 5, 0, top}));
  EXPECT_EQ(call1("UnsortedSegmentMin", {a, ids, three}).to_vector<std::uint64_t>(), (U{1, top, 7}));
  EXPECT_EQ(call1("SegmentMax", {a, ids}).to_vector<std::uint64_t>(), (U{half + 5, 0, top}));
  EXPECT_EQ(call1("AsString", {a}).string_values()[2], "18446744073709551615");
}

// TensorFlow 2.21: a step longer than the axis takes its first entry.
TEST(StridedSliceContract, LongSteps) {
  const Tensor x = ints32({0, 1, 2, 3, 4});
  const auto sliced = [&](std::int64_t stride, std::int64_t begin_mask) {
    return call1("StridedSlice", {x, ints64({3}), ints64({0}), ints64({stride})},
                 {{"begin_mask", begin_mask}, {"end_mask", std::int64_t{1}}})
        .to_vector<std::int32_t>();
  };
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(sliced(INT64_MAX, 1), I{0});
  EXPECT_EQ(sliced(INT64_MAX, 0), I{3});
  EXPECT_EQ(sliced(INT64_MIN, 1), I{4});
  EXPECT_EQ(sliced(INT64_MIN, 0), I{3});
  EXPECT_EQ(sliced(-(std::int64_t{1} << 62), 1), I{4});
}

// Values, indices and gradients of TensorFlow 2.21, in the dtype of the input.
TEST(MaxPoolWithArgmax, KeepsTheDtypeAndHasAGradient) {
  const Attrs attrs{{"ksize", std::vector<std::int64_t>{1, 2, 2, 1}},
                    {"strides", std::vector<std::int64_t>{1, 1, 1, 1}},
                    {"padding", std::string("SAME")}};
  const auto image = [](const std::vector<double>& values) {
    const auto side = static_cast<std::int64_t>(std::sqrt(values.size()));
    return Tensor::from_vector(values, Shape{1, side, side, 1});
  };
  const Tensor values = make_leaf(image({1 + 0x1p-40, 1.0, 1 + 0x1p-41, 3.0, -5.0, 2.0, 0.5, 7.0, 7.0}));
  set_grad_enabled(true);
  const Tensors pooled = call("MaxPoolWithArgmax", {values}, attrs);
  const Tensors gradient = grad({pooled[0]}, {values}, {image({1, 2, 3, 4, 5, 6, 7, 8, 9})}, false, false);
  set_grad_enabled(false);
  EXPECT_EQ(detach(pooled[0]).to_vector<double>(), (std::vector<double>{3, 2, 2, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(pooled[1].to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 5, 5, 7, 7, 8, 7, 7, 8}));
  EXPECT_EQ(gradient[0].to_vector<double>(), (std::vector<double>{0, 0, 0, 1, 0, 5, 0, 24, 15}));
  const Tensor close = image({1.0, 1 + 0x1p-40, 1.0, 1.0});
  EXPECT_EQ(call("MaxPoolWithArgmax", {close}, attrs)[0].to_vector<double>()[0], 1 + 0x1p-40);
  const std::int64_t big = std::int64_t{1} << 62;
  const Tensor n = ints64({big + 1, big, -big, 5});
  const Tensor square = call1("Reshape", {n, ints32({1, 2, 2, 1})});
  EXPECT_EQ(call1("MaxPool", {square}, attrs).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{big + 1, big, 5, 5}));
  const float nan = NAN, inf = INFINITY;
  const Tensors odd =
      call("MaxPoolWithArgmax",
           {Tensor::from_vector(std::vector<float>{nan, 1, -inf, 2, nan, -inf, -inf, -inf, -inf}, Shape{1, 3, 3, 1})},
           attrs);
  EXPECT_EQ(odd[1].to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(std::isnan(odd[0].to_vector<float>()[0]));
  EXPECT_EQ(odd[0].to_vector<float>()[3], 2);
}

}  // namespace
}  // namespace lockstep::ops

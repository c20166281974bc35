// Lines of TensorFlow's guides on random numbers, slices, ragged tensors and characters. Each result is compared in
// three numbers of TensorFlow 2.21: the sum of absolute values, the sum of the values times 1, 2, …, 7, 1, …, and their
// number.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
using ls::Tensor;

namespace tensorflow_guides {

struct Sums {
  double absolute, weighted;
  std::int64_t count;
};
// In the order of the lines, where several have one name.
const std::multimap<std::string, Sums> kExpected = {
    {"g1", {2.99146049, 3.24837831, 6}},
    {"g1u", {5.31397343, 15.3416457, 4}},
    {"g1i", {5.74581009e+09, 8.45469971e+09, 3}},
    {"g1r", {2.86779732, -2.1486846, 5}},
    {"gp", {1.04992379, -0.861681983, 3}},
    {"split", {2.2142922, -1.12634629, 2}},
    {"split", {0.839684129, -1.43930984, 2}},
    {"split", {0.785829842, -0.175725549, 2}},
    {"skipped", {2.34405321, -3.96020108, 2}},
    {"binomial", {16, 44, 4}},
    {"state", {0, 0, 2}},
    {"seeds", {3630.58331, 3464.91518, 6}},
    {"fold", {1054.75249, 1054.7525, 2}},
    {"sn", {3.12693568, -10.8657865, 6}},
    {"su", {7, 20, 5}},
    {"st", {9.3383795, 23.7165532, 4}},
    {"sg", {1.17844662, 2.37850136, 3}},
    {"sp", {16, 33, 3}},
    {"sparse", {25, 70, 16}},
    {"sc", {2, 7, 6}},
    {"sb", {20, 54, 5}},
    {"shuf", {45, 171, 10}},
    {"a1", {0.538039327, 0.538039327, 1}},
    {"a2", {0.325364709, 0.325364709, 1}},
    {"b1", {0.168980598, 0.168980598, 1}},
    {"shuffle", {15, 59, 6}},
    {"cat", {5, 15, 5}},
    {"tn", {4.97951192, 13.8789511, 3}},
    {"ui", {168, 289, 3}},
    {"slice", {6, 14, 3}},
    {"sl2", {6, 14, 3}},
    {"sl3", {18, 38, 3}},
    {"t2", {39, 178, 6}},
    {"t2b", {39, 178, 6}},
    {"every", {70, 259, 10}},
    {"t3", {49, 74, 2}},
    {"gather", {9, 24, 3}},
    {"gnd", {25, 87, 6}},
    {"gnd2", {34, 94, 4}},
    {"gnd3", {60, 268, 6}},
    {"gb", {102, 400, 12}},
    {"scatter", {30, 94, 10}},
    {"t8", {31, 151, 20}},
    {"t10", {31, 151, 20}},
    {"t12", {45, 148, 9}},
    {"t13", {3, 8, 9}},
    {"t15", {45, -136, 9}},
    {"t16", {45, 6, 9}},
    {"t17", {10, 36, 8}},
    {"v", {26, 117, 8}},
    {"radd", {55, 207, 8}},
    {"rmean", {11.3333333, 17.3333333, 2}},
    {"columns", {31, 56, 4}},
    {"rconcat", {46, 167, 11}},
    {"rtile", {62, 227, 16}},
    {"rmap", {173, 738, 8}},
    {"r0", {9, 21, 4}},
    {"r:", {24, 86, 5}},
    {"r-", {22, 71, 5}},
    {"r+", {55, 207, 8}},
    {"r++", {67, 268, 8}},
    {"rfv", {70, 269, 8}},
    {"rvr", {21, 79, 5}},
    {"rrl", {7, 14, 4}},
    {"rrs", {7, 43, 7}},
    {"bs", {8, 12, 2}},
    {"dense", {38, 34, 20}},
    {"from", {32, 165, 7}},
    {"bm", {10, 25, 3}},
    {"range", {14, 53, 10}},
    {"stack", {3, 4, 2}},
    {"avg", {1.07646727, 1.56816762, 12}},
    {"chars", {123639, 293649, 4}},
    {"ragged", {133079, 146578, 43}},
    {"pad", {133148, 144988, 112}},
    {"enc", {6, 9, 2}},
    {"tr", {8, 8, 1}},
    {"len", {8, 8, 1}},
    {"lenb", {11, 11, 1}},
    {"sub", {4, 4, 1}},
    {"us", {11, 32, 8}},
    {"cp", {383643, 767288, 3}},
    {"off", {12, 32, 3}},
    {"script", {25, 33, 2}},
};

class TensorFlowGuides : public testing::Test {
 protected:
  void expect(const std::string& name, const Tensor& result) {
    const auto [first, last] = kExpected.equal_range(name);
    const auto nth = seen_[name]++;
    ASSERT_LT(nth, std::distance(first, last)) << name;
    const Sums& expected = std::next(first, nth)->second;
    const Numbers values = numbers(ls::ops::reshape(result, {-1}));
    double absolute = 0, weighted = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      absolute += std::abs(values[i]);
      weighted += values[i] * static_cast<double>(i % 7 + 1);
    }
    EXPECT_EQ(static_cast<std::int64_t>(values.size()), expected.count) << name;
    EXPECT_NEAR(absolute, expected.absolute, 1e-5 * (1 + std::abs(expected.absolute))) << name;
    EXPECT_NEAR(weighted, expected.weighted, 1e-5 * (1 + std::abs(expected.weighted))) << name;
  }

 private:
  std::map<std::string, std::ptrdiff_t> seen_;
};

TEST_F(TensorFlowGuides, RandomNumbers) {
  auto g1 = ls::random::Generator::from_seed(1);
  expect("g1", g1.normal({2, 3}));
  expect("g1u", g1.uniform({4}, {.minval = -1, .maxval = 3}));
  expect("g1i", g1.uniform_full_int({3}, {.dtype = ls::uint32}));
  g1.reset_from_seed(42);
  expect("g1r", g1.truncated_normal({5}));
  auto g = ls::random::Generator::from_seed(1, {.alg = "philox"});
  expect("gp", g.normal({3}));
  auto new_gs = g.split(3);
  for (auto& n : new_gs) expect("split", n.normal({2}));
  g.skip(4);
  expect("skipped", g.normal({2}));
  expect("binomial", g.binomial({4}, {.counts = 10., .probs = 0.3}));
  expect("state", ls::ops::cast(g.state(), ls::float64)[{1, {}}] * 0);
  auto seed = ls::ops::random::split({1, 2}, {.num = 3});
  expect("seeds", ls::ops::cast(seed, ls::float64) / std::pow(2, 20));
  expect("fold", ls::ops::cast(ls::ops::random::fold_in({1, 2}, 7), ls::float64) / std::pow(2, 20));
  expect("sn", ls::ops::random::stateless_normal({2, 3}, {.seed = {1, 2}}));
  expect("su",
         ls::ops::random::stateless_uniform({5}, {.seed = {2, 3}, .minval = 0, .maxval = 10, .dtype = ls::int32}));
  expect("st", ls::ops::random::stateless_truncated_normal({4}, {.seed = {5, 6}, .mean = 2., .stddev = 0.5}));
  expect("sg", ls::ops::random::stateless_gamma({3}, {.seed = {1, 1}, .alpha = 0.7}));
  expect("sp", ls::ops::random::stateless_poisson({3}, {.seed = {1, 1}, .lam = 4.0, .dtype = ls::int32}));
  expect("sc", ls::ops::random::stateless_categorical(ls::ops::math::log({{0.5, 0.2, 0.3}}), 6, {.seed = {9, 9}}));
  expect("sb", ls::ops::random::stateless_binomial(
                   {5}, {.seed = {3, 4}, .counts = 10., .probs = 0.4, .output_dtype = ls::float32}));
  expect("shuf", ls::ops::random::experimental::stateless_shuffle(ls::ops::range(10), {.seed = {1, 2}}));
  ls::ops::random::set_seed(1234);
  expect("a1", ls::ops::random::uniform({1}));
  expect("a2", ls::ops::random::uniform({1}));
  expect("b1", ls::ops::random::uniform({1}, {.seed = 1}));
  expect("shuffle", ls::ops::random::shuffle(ls::ops::range(6), {.seed = 3}));
  expect("cat", ls::ops::random::categorical({{0.0, 1.0}}, 5));
  expect("tn", ls::ops::random::truncated_normal({3}, 1.0, 2.0));
  expect("ui", ls::ops::random::uniform({3}, {.maxval = 100, .dtype = ls::int64}));
}

TEST_F(TensorFlowGuides, SlicesAndUpdates) {
  auto t1 = ls::constant({0, 1, 2, 3, 4, 5, 6, 7});
  expect("slice", ls::ops::slice(t1, {.begin = {1}, .size = {3}}));
  expect("sl2", t1[{1, 4}]);
  expect("sl3", t1[{-3, {}}]);
  auto t2 = ls::constant({{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {10, 11, 12, 13, 14}, {15, 16, 17, 18, 19}});
  expect("t2", t2.index({{{}, -1}, {1, 3}}));
  expect("t2b", ls::ops::slice(t2, {0, 1}, {3, 2}));
  expect("every", t2.index({{{}, {}, 2}, {{}, {}, -1}}));
  auto t3 = ls::ops::reshape(ls::ops::range(32), {2, 2, 8});
  expect("t3", ls::ops::slice(t3, {.begin = {1, 1, 0}, .size = {1, 1, 2}}));
  expect("gather", ls::ops::gather(t1, {.indices = {0, 3, 6}}));
  auto alphabet = ls::strings::bytes_split(ls::constant("abcdefghijklmnopqrstuvwxyz"));
  EXPECT_EQ(ls::len(ls::ops::gather(alphabet, {.indices = {2, 0, 19, 18}})), 4);
  auto t4 = ls::constant({{0, 5}, {1, 6}, {2, 7}, {3, 8}, {4, 9}});
  expect("gnd", ls::ops::gather_nd(t4, {.indices = {{2}, {3}, {0}}}));
  auto t5 = ls::ops::reshape(ls::ops::range(18), {2, 3, 3});
  expect("gnd2", ls::ops::gather_nd(t5, {.indices = {{{0, 0, 0}, {1, 2, 1}}, {{1, 0, 1}, {0, 2, 2}}}}));
  expect("gnd3", ls::ops::gather_nd(t5, {.indices = {{0, 1}, {1, 2}}, .batch_dims = 0}));
  expect("gb", ls::ops::gather(t5, {{0, 2}, {1, 1}}, {.axis = 2, .batch_dims = 1}));
  auto t6 = ls::constant({10}), indices = ls::constant({{1}, {3}, {5}, {7}, {9}}),
       data = ls::constant({2, 4, 6, 8, 10});
  expect("scatter", ls::ops::scatter_nd({.indices = indices, .updates = data, .shape = t6}));
  auto new_indices = ls::constant({{0, 2}, {2, 1}, {3, 3}});
  auto t7 = ls::ops::gather_nd(t2, new_indices);
  auto t8 = ls::ops::scatter_nd({.indices = new_indices, .updates = t7, .shape = ls::constant({4, 5})});
  expect("t8", t8);
  auto t9 = ls::SparseTensor({.indices = {{0, 2}, {2, 1}, {3, 3}}, .values = {2, 11, 18}, .dense_shape = {4, 5}});
  auto t10 = ls::sparse::to_dense(t9);
  expect("t10", t10);
  auto t11 = ls::constant({{2, 7, 0}, {9, 0, 1}, {0, 3, 8}});
  auto t12 = ls::ops::tensor_scatter_nd_add(t11, {.indices = {{0, 2}, {1, 1}, {2, 0}}, .updates = {6, 5, 4}});
  expect("t12", t12);
  auto t13 = ls::ops::tensor_scatter_nd_sub(
      t11, {.indices = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 2}}, .updates = {1, 7, 9, -1, 1, 3, 7}});
  expect("t13", t13);
  auto t14 = ls::constant({{-2, -7, 0}, {-9, 0, 1}, {0, -3, -8}});
  expect("t15", ls::ops::tensor_scatter_nd_min(t14, {{0, 2}, {1, 1}, {2, 0}}, {-6, -5, -4}));
  expect("t16", ls::ops::tensor_scatter_nd_max(t14, {{0, 2}, {1, 1}, {2, 0}}, {6, 5, 4}));
  expect("t17", ls::ops::tensor_scatter_nd_update(ls::ops::zeros({4, 2}), {{1}, {3}}, {{1., 2.}, {3., 4.}}));
  ls::Variable v(ls::ops::zeros({4, 2}));
  v.scatter_nd_update({{0, 1}, {3, 0}}, {5., 6.});
  v.scatter_nd_add({{0, 1}}, {1.5});
  v[0].assign({1., 1.});
  v.index({{1, 3}, 0}).assign({9., 9.});
  expect("v", v);
}

TEST_F(TensorFlowGuides, RaggedTensors) {
  auto digits = ls::ragged::constant({{3, 1, 4, 1}, {}, {5, 9, 2}, {6}, {}});
  auto words = ls::ragged::constant({{"So", "long"}, {"thanks", "for", "all", "the", "fish"}});
  expect("radd", ls::ops::add(digits, 3).flat_values());
  expect("rmean", ls::ops::reduce_mean(digits, {.axis = 1})[{2, 4}]);
  expect("columns", ls::ops::reduce_sum(digits, {.axis = 0}));
  expect("rconcat",
         ls::ops::concat({digits, ls::ragged::constant({{5, 3}, {}, {}, {7}, {}})}, {.axis = 0}).flat_values());
  expect("rtile", ls::ops::tile(digits, {1, 2}).flat_values());
  EXPECT_EQ(ls::len(ls::strings::substr(words, 0, 2).flat_values()), 7);
  expect("rmap", ls::map_fn(ls::ops::math::square, digits).flat_values());
  expect("r0", digits[0]);
  expect("r:", digits.index({ls::all, {{}, 2}}).flat_values());
  expect("r-", digits.index({ls::all, {-2, {}}}).flat_values());
  expect("r+", (digits + 3).flat_values());
  expect("r++", (digits + ls::ragged::constant({{1, 2, 3, 4}, {}, {5, 6, 7}, {8}, {}})).flat_values());
  auto times_two_plus_one = [](const Tensor& x) { return x * 2 + 1; };
  expect("rfv", ls::ragged::map_flat_values(times_two_plus_one, digits).flat_values());
  EXPECT_EQ(ls::len(digits), 5);
  auto rvr =
      ls::RaggedTensor::from_value_rowids({.values = {3, 1, 4, 1, 5, 9, 2}, .value_rowids = {0, 0, 0, 0, 2, 2, 3}});
  expect("rvr", rvr.row_splits());
  auto rrl = ls::RaggedTensor::from_row_lengths({.values = {3, 1, 4, 1, 5, 9, 2}, .row_lengths = {4, 0, 2, 1}});
  expect("rrl", rrl.row_lengths());
  auto rrs = ls::RaggedTensor::from_row_splits({.values = {3, 1, 4, 1, 5, 9, 2}, .row_splits = {0, 4, 4, 6, 7}});
  expect("rrs", rrs.value_rowids());
  EXPECT_EQ(rrs.nrows(), 4);
  expect("bs", rrs.bounding_shape());
  expect("dense", rrs.to_tensor({.default_value = -1, .shape = {ls::kUnknownDim, 5}}));
  expect("from",
         ls::RaggedTensor::from_tensor({{1, 3, -1, -1}, {2, -1, -1, -1}, {4, 5, 8, 9}}, {.padding = -1}).flat_values());
  expect("sparse", ls::sparse::to_dense(rrs.to_sparse()));
  expect("bm",
         ls::ragged::boolean_mask({{1, 2, 3}, {4, 5, 6}}, {{true, false, true}, {false, false, true}}).flat_values());
  expect("range", ls::ragged::range({3, 5, 2}).flat_values());
  expect("stack", ls::ragged::stack({ls::constant({1, 2}), ls::constant({3})}).row_lengths());
  auto queries =
      ls::ragged::constant({{"Who", "is", "Dan", "Smith"}, {"Pause"}, {"Will", "it", "rain", "later", "today"}});
  int num_buckets = 1024, embedding_size = 4;
  auto embedding_table = ls::Variable(waves({num_buckets, embedding_size}, 0.13));
  auto word_buckets = ls::strings::to_hash_bucket_fast(queries, num_buckets);
  auto word_embeddings = ls::nn::embedding_lookup(embedding_table, word_buckets);
  auto marker = ls::ops::fill({queries.nrows(), 1}, "#");
  auto padded = ls::ops::concat({marker, queries, marker}, {.axis = 1});
  auto bigrams =
      ls::strings::join({padded.index({ls::all, {{}, -1}}), padded.index({ls::all, {1, {}}})}, {.separator = "+"});
  auto bigram_buckets = ls::strings::to_hash_bucket_fast(bigrams, num_buckets);
  auto bigram_embeddings = ls::nn::embedding_lookup(embedding_table, bigram_buckets);
  auto all_embeddings = ls::ops::concat({word_embeddings, bigram_embeddings}, {.axis = 1});
  auto avg_embedding = ls::ops::reduce_mean(all_embeddings, {.axis = 1});
  expect("avg", avg_embedding);
  // Rows are tensors.
  const Tensor doubled = digits[0] * 2, element = digits[2][1] + 1, both = digits[0] + digits[0];
  const Tensor squares = ls::ops::square(digits[2]), sum = ls::ops::reduce_sum(digits[2], {.axis = 0});
  const Tensor joined = ls::ops::concat({digits[0], digits[3]}, 0);
  EXPECT_EQ(numbers(doubled), (Numbers{6, 2, 8, 2}));
  EXPECT_EQ(numbers(both), numbers(doubled));
  EXPECT_EQ(element.item<int>(), 10);
  EXPECT_EQ(numbers(squares), (Numbers{25, 81, 4}));
  EXPECT_EQ(sum.item<int>(), 16);
  EXPECT_EQ(numbers(joined), (Numbers{3, 1, 4, 1, 6}));
}

TEST_F(TensorFlowGuides, Characters) {
  auto thanks = "Thanks 😊";
  auto text_utf8 = ls::constant("语言处理");
  auto chars = ls::strings::unicode_decode(text_utf8, {.input_encoding = "UTF-8"});
  expect("chars", chars);
  std::vector<std::string> batch_utf8 = {"hÃllo", "What is the weather tomorrow", "Göödnight", "😊"};
  auto batch_chars_ragged = ls::strings::unicode_decode(Tensor::strings(batch_utf8, {4}), {.input_encoding = "UTF-8"});
  expect("ragged", batch_chars_ragged.flat_values());
  expect("pad", batch_chars_ragged.to_tensor({.default_value = -1}));
  expect("enc", ls::strings::length(
                    ls::strings::unicode_encode({{99, 97, 116}, {100, 111, 103}}, {.output_encoding = "UTF-8"})));
  expect("tr", ls::strings::length(ls::strings::unicode_transcode(
                   text_utf8, {.input_encoding = "UTF8", .output_encoding = "UTF-16-BE"})));
  expect("len", ls::strings::length(thanks, {.unit = "UTF8_CHAR"}));
  expect("lenb", ls::strings::length(thanks));
  expect("sub", ls::strings::length(ls::strings::substr(thanks, {.pos = 7, .len = 1, .unit = "UTF8_CHAR"})));
  expect("us", ls::strings::length(ls::strings::unicode_split(thanks, "UTF-8")));
  auto [codepoints, offsets] = ls::strings::unicode_decode_with_offsets("🎈🎉🎊", "UTF-8");
  expect("cp", codepoints);
  expect("off", offsets);
  expect("script", ls::strings::unicode_script({33464, 1041}));
}

}  // namespace tensorflow_guides

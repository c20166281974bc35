// Parts of ragged and sparse tensors, crosses of features, strings and boxes, moving averages, and registered names.
// Numbers are those of TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace keras = lockstep::keras;
using ls::RaggedTensor;
using ls::Tensor;

namespace parts_and_crosses {

using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

TEST(PartsOfRaggedTensors, OfEqualLength) {
  const auto rows = RaggedTensor::from_row_splits(tf::range(10, 20), {0, 3, 5, 9, 10});
  const auto x = RaggedTensor::from_uniform_row_length(rows, 2);
  EXPECT_EQ(x.to_string(), "[[[10, 11, 12], [13, 14]], [[15, 16, 17, 18], [19]]]");
  EXPECT_EQ(x.shape(), (ls::Shape{2, 2, ls::kUnknownDim}));
  EXPECT_EQ(x.uniform_row_length(), 2);
  EXPECT_EQ(x.ragged_rank(), 2);
  EXPECT_EQ(x.merge_dims(0, 1).to_string(), "[[10, 11, 12], [13, 14], [15, 16, 17, 18], [19]]");
  EXPECT_EQ(x.merge_dims(1, 2).to_string(), "[[10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]");
  EXPECT_EQ(x.merge_dims(0, 2).numpy().to_vector<int>(), (std::vector<int>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(x.with_flat_values(x.flat_values() * 2).uniform_row_length(), 2);

  const auto y = RaggedTensor::from_uniform_row_length(Tensor{1, 2, 3, 4, 5, 6}, 3);
  EXPECT_EQ(y.to_string(), "[[1, 2, 3], [4, 5, 6]]");
  EXPECT_EQ(y.shape(), (ls::Shape{2, 3}));
  EXPECT_FALSE(rows.uniform_row_length());
  EXPECT_THROW(RaggedTensor::from_uniform_row_length(Tensor{1, 2, 3, 4, 5}, 3), ls::errors::InvalidArgumentError);
  EXPECT_THROW(RaggedTensor::from_uniform_row_length(Tensor{1, 2}, 0), ls::errors::InvalidArgumentError);
}

TEST(PartsOfRaggedTensors, OfSeveralAxes) {
  const Tensor values = {1, 2, 3, 4, 5, 6};
  const auto x = RaggedTensor::from_nested_row_lengths(values, {{2, 1}, {2, 1, 3}});
  EXPECT_EQ(x.to_string(), "[[[1, 2], [3]], [[4, 5, 6]]]");
  EXPECT_EQ(x.nested_value_rowids()[0].to_vector<std::int64_t>(), (Ints{0, 0, 1}));
  EXPECT_EQ(x.nested_value_rowids()[1].to_vector<std::int64_t>(), (Ints{0, 0, 1, 2, 2, 2}));
  const auto y = RaggedTensor::from_nested_value_rowids(values, {{0, 0, 1}, {0, 0, 1, 2, 2, 2}});
  EXPECT_EQ(y.to_string(), x.to_string());

  const auto m = RaggedTensor::from_row_splits(tf::reshape(tf::range(24), {4, 3, 2}), {0, 1, 4});
  EXPECT_EQ(m.merge_dims(1, 2).shape(), (ls::Shape{2, ls::kUnknownDim, 2}));
  EXPECT_EQ(m.merge_dims(1, 2).row_lengths().to_vector<std::int64_t>(), (Ints{3, 9}));
  EXPECT_EQ(m.merge_dims(2, 3).to_string(),
            "[[[0, 1, 2, 3, 4, 5]], [[6, 7, 8, 9, 10, 11], [12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23]]]");
  EXPECT_EQ(m.merge_dims(0, 1).shape(), (ls::Shape{4, 3, 2}));
  EXPECT_EQ(m.merge_dims(-2, -1).shape(), (ls::Shape{2, ls::kUnknownDim, 6}));
  EXPECT_EQ(m.merge_dims(1, -1).row_lengths().to_vector<std::int64_t>(), (Ints{6, 18}));
  EXPECT_EQ(m.merge_dims(0, -1).shape(), (ls::Shape{24}));
  EXPECT_THROW(m.merge_dims(2, 1), ls::errors::InvalidArgumentError);
  EXPECT_THROW(m.merge_dims(0, 4), ls::errors::InvalidArgumentError);
}

TEST(PartsOfRaggedTensors, ByPartitionsAndSegments) {
  EXPECT_EQ(tf::ragged::stack_dynamic_partitions(Tensor{"a", "b", "c", "d", "e"}, {3, 0, 2, 2, 3}, 5).to_list(),
            ls::Json::parse(R"([["b"], [], ["c", "d"], ["a", "e"], []])"));
  EXPECT_EQ(tf::ragged::stack_dynamic_partitions(Tensor{{1, 2}, {3, 4}}, {{1, 0}, {0, 1}}, 2).to_string(),
            "[[2, 3], [1, 4]]");
  EXPECT_EQ(tf::ragged::row_splits_to_segment_ids({0, 3, 3, 5, 6, 9}).to_vector<std::int64_t>(),
            (Ints{0, 0, 0, 2, 2, 3, 4, 4, 4}));
  EXPECT_EQ(tf::ragged::segment_ids_to_row_splits({0, 0, 0, 2, 2, 3, 4, 4, 4}).to_vector<std::int64_t>(),
            (Ints{0, 3, 3, 5, 6, 9}));
  EXPECT_EQ(tf::ragged::segment_ids_to_row_splits({0, 0, 2}, 5).to_vector<std::int64_t>(), (Ints{0, 2, 2, 3, 3, 3}));
}

TEST(Crosses, AreTensorFlows) {
  const auto a = tf::ragged::constant({{"a"}, {"b", "c"}}), b = tf::ragged::constant({{"d"}, {"e"}}),
             c = tf::ragged::constant({{"f"}, {"g"}});
  EXPECT_EQ(tf::ragged::cross({a, b, c}).to_list(), ls::Json::parse(R"([["a_X_d_X_f"], ["b_X_e_X_g", "c_X_e_X_g"]])"));
  EXPECT_EQ(tf::ragged::cross_hashed({a, b, c}, {.num_buckets = 100}).to_string(), "[[78], [66, 74]]");
  EXPECT_EQ(tf::ragged::cross_hashed({tf::ragged::constant({{1, 2}, {3}}), Tensor{{7}, {8}}}).to_string(),
            "[[3664341731679759082, 1375251797817012800], [7337512518617037356]]");

  const auto sparse = tf::sparse::from_dense({{"x", ""}, {"y", "z"}});
  const Tensor dense = {{"p"}, {"q"}};
  const auto crossed = tf::sparse::cross({sparse, dense});
  EXPECT_EQ(crossed.indices().to_vector<std::int64_t>(), (Ints{0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(crossed.values().to_vector<std::string>(), (Strings{"x_X_p", "y_X_q", "z_X_q"}));
  EXPECT_EQ(crossed.shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(tf::sparse::cross({sparse, dense}, {.separator = "-"}).values().to_vector<std::string>(),
            (Strings{"x-p", "y-q", "z-q"}));
  EXPECT_EQ(tf::sparse::cross_hashed({sparse, dense}, 50).values().to_vector<std::int64_t>(), (Ints{2, 42, 1}));
  EXPECT_EQ(tf::sparse::cross_hashed({tf::sparse::from_dense({{1, 2}, {0, 3}}), Tensor{{5}, {6}}}, 50)
                .values()
                .to_vector<std::int64_t>(),
            (Ints{33, 38, 43}));
  EXPECT_THROW(tf::sparse::cross({a, b}), ls::errors::InvalidArgumentError);
}

TEST(SparseTensors, SegmentsAndShapes) {
  const Tensor d = {{1., 2.}, {3., 4.}, {5., 6.}, {7., 8.}};
  expect_near(tf::sparse::segment_sum(d, {0, 1, 3}, {0, 0, 2}), {4, 6, 0, 0, 7, 8});
  expect_near(tf::sparse::segment_mean(d, {0, 1, 3}, {0, 0, 2}), {2, 3, 0, 0, 7, 8});
  expect_near(tf::sparse::segment_sqrt_n(d, {0, 1, 3}, {0, 0, 2}, {.num_segments = 4}),
              {2.8284271, 4.2426405, 0, 0, 7, 8, 0, 0});
  const tf::SparseTensor s({.indices = {{0, 1}, {1, 0}}, .values = {1, 2}, .dense_shape = {3, 4}});
  EXPECT_EQ(tf::sparse::reset_shape(s).shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(tf::sparse::reset_shape(s, ls::Shape{5, 5}).shape(), (ls::Shape{5, 5}));
  EXPECT_THROW(tf::sparse::reset_shape(s, ls::Shape{2, 5}), ls::errors::InvalidArgumentError);
}

TEST(CharactersOfStrings, InAnyEncoding) {
  const auto [characters, offsets] =
      tf::strings::unicode_split_with_offsets(Tensor{"G\u00f6\u00f6d", "\U0001f60a"}, "UTF-8");
  EXPECT_EQ(characters.to_list(), ls::Json::parse(R"([["G", "\u00f6", "\u00f6", "d"], ["\ud83d\ude0a"]])"));
  EXPECT_EQ(offsets.to_string(), "[[0, 1, 3, 5], [0]]");
  const Tensor wide =
      tf::strings::unicode_transcode("a\u00e9", {.input_encoding = "UTF-8", .output_encoding = "UTF-16-BE"});
  const auto [of_wide, offsets_of_wide] = tf::strings::unicode_split_with_offsets(wide, "UTF-16-BE");
  EXPECT_EQ(of_wide.to_vector<std::string>(), (Strings{std::string("\0a", 2), std::string("\0\xe9", 2)}));
  EXPECT_EQ(offsets_of_wide.to_vector<std::int64_t>(), (Ints{0, 2}));
  const Tensor bad = Tensor::strings({"a\xff"
                                      "b"},
                                     {});
  EXPECT_EQ(tf::strings::unicode_split(bad).to_vector<std::string>(), (Strings{"a", "\xef\xbf\xbd", "b"}));
  EXPECT_EQ(tf::strings::unicode_split(bad, {.errors = "ignore"}).to_vector<std::string>(), (Strings{"a", "b"}));
  EXPECT_EQ(tf::strings::unicode_split(bad, {.replacement_char = 63}).to_vector<std::string>(),
            (Strings{"a", "?", "b"}));
  EXPECT_EQ(
      tf::strings::unsorted_segment_join(Tensor{"a", "b", "c", "d"}, {2, 0, 2, 0}, 3, ":").to_vector<std::string>(),
      (Strings{"b:d", "", "a:c"}));
}

TEST(Boxes, AreSuppressed) {
  const Tensor boxes = {{0., 0., 1., 1.}, {0., .1, 1., 1.1}, {0., .9, 1., 1.9}, {0., 2., 1., 3.}};
  const Tensor scores = {.9, .75, .6, .95};
  const auto [padded, valid] =
      tf::image::non_max_suppression_padded(boxes, scores, 5, {.pad_to_max_output_size = true});
  EXPECT_EQ(padded.to_vector<int>(), (std::vector<int>{3, 0, 2, 0, 0}));
  EXPECT_EQ(int(valid), 3);
  EXPECT_EQ(tf::image::non_max_suppression_padded(boxes, scores, 2).first.to_vector<int>(), (std::vector<int>{3, 0}));
  const Tensor overlaps = {{1., .8, .1}, {.8, 1., .3}, {.1, .3, 1.}};
  EXPECT_EQ(tf::image::non_max_suppression_overlaps(overlaps, {.5, .9, .7}, 3).to_vector<int>(),
            (std::vector<int>{1, 2}));
  EXPECT_EQ(tf::image::non_max_suppression_overlaps(overlaps, {.5, .9, .7}, 3,
                                                    {.overlap_threshold = .2, .score_threshold = .6})
                .to_vector<int>(),
            (std::vector<int>{1}));
}

TEST(Correlations, AreKeras) {
  const Tensor y_true = {{1., 2., 3., 5.}, {2., 2., 1., 0.}}, y_pred = {{1., 1.5, 3., 4.}, {0., 1., 1., 2.}};
  expect_near(keras::metrics::pearson_correlation(y_true, y_pred), {0.97455847, -0.85280287});
  expect_near(keras::metrics::concordance_correlation(y_true, y_pred), {0.91666669, -0.79999995});
  expect_near(keras::metrics::concordance_correlation(y_true, y_pred, {.axis = 0}), {-0.33333331, 0, 1, 0.66666669});
}

TEST(MovingAverages, AreTensorFlows) {
  tf::Variable v({1., 2.}, {.name = "w"});
  tf::train::ExponentialMovingAverage ema(0.9);
  ema.apply({v});
  v.assign({3., 0.});
  ema.apply({v});
  v.assign({5., 1.});
  ema.apply({v});
  expect_near(ema.average(v), {1.58000016, 1.71999991});
  EXPECT_EQ(ema.average_name(v), "w/ExponentialMovingAverage");
  EXPECT_TRUE(ema.average(tf::Variable(1.)) == ls::None);
  EXPECT_THROW(ema.apply({tf::Variable(1)}), ls::errors::InvalidArgumentError);
  tf::train::ExponentialMovingAverage early(0.99, {.num_updates = 3});
  early.apply({v});
  v.assign({0., 0.});
  early.apply({v});
  expect_near(early.average(v), {1.53846145, 0.30769229});
}

class Plain : public keras::Layer {};
class Registered : public keras::Layer {};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Registered, "Parts")
Tensor doubled(const Tensor& x) { return x * 2; }
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(doubled, "Parts")
Tensor tripled(const Tensor& x) { return x * 3; }

TEST(RegisteredNames, AreKeras) {
  EXPECT_EQ(keras::saving::get_registered_name<Plain>(), "Plain");
  EXPECT_EQ(keras::saving::get_registered_name<Registered>(), "Parts>Registered");
  EXPECT_EQ(keras::saving::get_registered_name<doubled>(), "Parts>doubled");
  EXPECT_EQ(keras::utils::get_registered_name<tripled>(), "tripled");
  EXPECT_TRUE(keras::saving::get_registered_object("Parts>Registered"));
  EXPECT_FALSE(keras::saving::get_registered_object("Registered"));
  EXPECT_FALSE(keras::saving::get_registered_object("Plain"));
}

TEST(CustomObjects, OfAllThreads) {
  auto objects = keras::saving::get_custom_objects();
  const auto model_with = [] {
    const auto x = keras::Input({2});
    return keras::Model(x, keras::layers::Dense(2, {.activation = tripled})(x)).get_config();
  };
  objects["tripled"] = keras::custom_object<tripled>();
  EXPECT_TRUE(objects.contains("tripled"));
  const auto config = model_with();
  const auto model = keras::Model::from_config(config);
  const Tensor x = {{1., -2.}};
  expect_near(model(x), numbers(tf::matmul(x, model.weights()[0]) * 3));
  objects.clear();
  EXPECT_FALSE(objects.contains("tripled"));
  EXPECT_THROW(keras::Model::from_config(config), ls::Error);
}

TEST(StateOfCheckpoints, NamesTheNewest) {
  const std::string folder = testing::TempDir() + "parts_state_" + std::to_string(::getpid());
  EXPECT_FALSE(tf::train::get_checkpoint_state(folder));
  tf::train::Checkpoint checkpoint({{"v", tf::Variable(1.)}});
  tf::train::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 3});
  manager.save();
  manager.save();
  const auto state = tf::train::get_checkpoint_state(folder);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->model_checkpoint_path, folder + "/ckpt-2");
  EXPECT_EQ(state->all_model_checkpoint_paths.size(), 2u);
}

TEST(KerasFileEditor, ChangesWeights) {
  const std::string folder = testing::TempDir() + "parts_editor_" + std::to_string(::getpid());
  const auto model = [] {
    return keras::Sequential(
        {keras::layers::Input({3, 2}), keras::layers::LSTM(2), keras::layers::Dense(4), keras::layers::Dense(1)});
  };
  auto trained = model();
  trained.compile({.optimizer = "sgd", .loss = "mse"});
  trained.fit(tf::ones({2, 3, 2}), tf::ones({2, 1}), {.verbose = 0});
  ls::io::gfile::makedirs(folder);
  trained.save(folder + "/m.keras");
  keras::saving::KerasFileEditor editor(folder + "/m.keras");
  EXPECT_EQ(editor.to_string(),
            "Weights structure\n"
            "  > layers\n"
            "  │   ├─ dense\n"
            "  │   │   ├─ 0: shape=(2, 4), dtype=float32\n"
            "  │   │   └─ 1: shape=(4,), dtype=float32\n"
            "  │   ├─ dense_1\n"
            "  │   │   ├─ 0: shape=(4, 1), dtype=float32\n"
            "  │   │   └─ 1: shape=(1,), dtype=float32\n"
            "  │   └─ lstm\n"
            "  │       └─ cell\n"
            "  │           ├─ 0: shape=(2, 8), dtype=float32\n"
            "  │           ├─ 1: shape=(2, 8), dtype=float32\n"
            "  │           └─ 2: shape=(8,), dtype=float32\n"
            "  └─ optimizer\n"
            "      ├─ 0: shape=(), dtype=int64\n"
            "      └─ 1: shape=(), dtype=float32\n");
  EXPECT_EQ(editor.compare(trained).status, "success");
  EXPECT_EQ(editor.compare(trained).match_count, 9);
  EXPECT_EQ(editor.metadata()["keras_version"], "3.15.1");

  editor.delete_object("optimizer");
  editor.rename_object("dense_1", "head");
  EXPECT_EQ(editor.compare(trained).errors,
            (Strings{"object 'layers/dense_1' is in the reference model, and not in the file",
                     "object 'optimizer' is in the reference model, and not in the file",
                     "object 'layers/head' is in the file, and not in the reference model"}));
  editor.rename_object("layers/head", "dense_1");
  editor.delete_weight("layers/dense", "1");
  editor.add_weights("dense", {{"1", tf::ones({4})}});
  editor.add_object("layers/extra", {{"0", tf::ones({2})}});
  editor.delete_object("extra");
  EXPECT_THROW(editor.delete_object("missing"), ls::errors::NotFoundError);
  EXPECT_THROW(editor.delete_weight("dense", "7"), ls::errors::NotFoundError);
  EXPECT_THROW(editor.add_object("nowhere/extra", {}), ls::errors::NotFoundError);
  EXPECT_THROW(editor.rename_object("dense", "dense_1"), ls::errors::AlreadyExistsError);
  EXPECT_THROW(editor.save(folder + "/x.h5"), ls::errors::InvalidArgumentError);
  editor.save(folder + "/x.weights.h5");

  auto again = model();
  again.load_weights(folder + "/x.weights.h5");
  const auto weights = again.get_weights(), expected = trained.get_weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    expect_near(weights[i], i == 4 ? Numbers{1, 1, 1, 1} : numbers(expected[i]));
}

}  // namespace parts_and_crosses

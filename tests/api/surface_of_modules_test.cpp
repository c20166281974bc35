// Functions and classes of tf.config, tf.data.experimental, tf.io.gfile, tf.summary and others. Numbers are those of
// TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/sums.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace keras = lockstep::keras;
namespace kops = lockstep::keras::ops;
using ls::constant;
using ls::Tensor;

namespace surface_of_modules {

class SurfaceOfModules : public testing::Test {
 protected:
  const Tensor x = waves({3, 4}, 0.7), img = tf::abs(waves({1, 8, 6, 3}, 0.21)), k1 = waves({2, 3, 2}, 0.4);
  const Tensor seq = waves({1, 9, 3}, 0.5), vol = waves({1, 4, 4, 4, 3}, 0.17);
};

TEST_F(SurfaceOfModules, AreTensorFlows) {
  expect_sums({
      {"conv1d_transpose",
       ls::nn::conv1d_transpose(seq.index({ls::ellipsis, {{}, 2}}), waves({2, 3, 2}, .4), {1, 18, 3}, 2, "SAME"),
       33.730527, -3.61722684},
      {"conv1d_transpose_words",
       ls::nn::conv1d_transpose(seq.index({ls::ellipsis, {{}, 2}}), k1,
                                {.output_shape = {1, 10, 3}, .strides = 1, .padding = "VALID"}),
       26.8380627, 3.38019643},
      {"conv3d_transpose", ls::nn::conv3d_transpose(vol, waves({2, 2, 2, 1, 3}, .4), {1, 8, 4, 8, 1}, {1, 2, 1, 2, 1}),
       397.713951, 15.4016597},
      {"rfft2d", tf::abs(ls::signal::rfft2d(img[0])), 192.913333, 735.331786},
      {"rfft2d_length", tf::math::imag(ls::signal::rfft2d(img.index({0, ls::ellipsis, 0}), {.fft_length = {4, 8}})),
       20.0841303, -35.7426558},
      {"irfft2d", ls::signal::irfft2d(ls::signal::rfft2d(img.index({0, ls::ellipsis, 0}))), 29.6305584, 116.046386},
      {"irfft2d_length",
       ls::signal::irfft2d(ls::signal::rfft2d(img.index({0, ls::ellipsis, 0})), {.fft_length = {6, 4}}), 29.6305593,
       109.039386},
      {"rfft3d", tf::math::real(ls::signal::rfft3d(vol[0])), 327.985514, 92.5773141},
      {"rfft_words", tf::math::real(ls::signal::rfft(x, {.fft_length = {6}})), 12.3471355, -9.43046311},
      {"binary_accuracy",
       keras::metrics::binary_accuracy({{0., 1.}, {1., 1.}}, {{.2, .7}, {.45, .9}}, {.threshold = .4}), 4, 10},
      {"binary_accuracy_default", keras::metrics::binary_accuracy({{0., 1.}, {1., 1.}}, {{.2, .7}, {.45, .9}}), 3, 7},
      {"categorical_accuracy",
       keras::metrics::categorical_accuracy({{0., 1., 0.}, {1., 0., 0.}}, {{.1, .8, .1}, {.1, .8, .1}}), 1, 1},
      {"sparse_accuracy", keras::metrics::sparse_categorical_accuracy({1, 0}, {{.1, .8, .1}, {.1, .8, .1}}), 1, 1},
      {"top_k_accuracy",
       keras::metrics::top_k_categorical_accuracy({{0., 1., 0.}, {1., 0., 0.}}, {{.3, .5, .2}, {.1, .8, .2}}, {.k = 2}),
       1, 1},
      {"sparse_top_k",
       keras::metrics::sparse_top_k_categorical_accuracy({2, 0}, {{.3, .5, .2}, {.1, .8, .2}}, {.k = 2}), 0, 0},
      {"bartlett", kops::bartlett(5), 2, 6},
      {"blackman", kops::blackman(5), 1.67999998, 5.03999969},
      {"hamming", kops::hamming(5), 2.24000007, 6.72000021},
      {"hanning", kops::hanning(5), 2, 6},
      {"kaiser", kops::kaiser(5, 7.), 1.85603185, 5.56809554},
      {"geomspace", kops::geomspace(1., 1000., 4), 1111, 4321},
      {"geomspace_open", kops::geomspace(1., 16., {.num = 4, .endpoint = false}), 14.9999987, 48.9999952},
      {"layer_normalization", kops::layer_normalization(x), 10.4479005, 10.9113191},
      {"layer_normalization_words", kops::layer_normalization(x, {.gamma = x[0], .beta = x[1], .epsilon = 1e-2}),
       6.32872957, -16.7668827},
      {"saturate_cast", kops::saturate_cast(x * 400, "uint8"), 1414, 5273},
      {"truncatediv", tf::truncatediv({7, -7}, {2, 2}), 6, -3},
      {"truncatemod", tf::truncatemod({7, -7}, {2, 2}), 2, -1},
      {"dtypes_cast", tf::dtypes::cast(x * 10, tf::int32), 67, 60},
      {"static_value", tf::get_static_value(x), 7.32591194, 6.54107629},
      {"dropout_shape",
       tf::cast(ls::nn::dropout(tf::ones({4, 3}), {.rate = .5, .noise_shape = {4, 1}, .seed = 5}) > 0, ls::int32)
                   .index({ls::all, 0}) *
               0 +
           1,
       4, 10},
  });
}

TEST_F(SurfaceOfModules, HaveTensorFlowsGradients) {
  expect_sums({
      {"conv1d_transpose",
       gradient_of_squares(seq.index({ls::ellipsis, {{}, 2}}),
                           [&](const Tensor& v) {
                             return ls::nn::conv1d_transpose(v, k1, {1, 18, 3}, 2, "SAME");
                           }),
       99.822509, 47.9473082},
      {"conv3d_transpose",
       gradient_of_squares(
           vol,
           [&](const Tensor& v) {
             return ls::nn::conv3d_transpose(v, waves({2, 2, 2, 1, 3}, .4), {1, 8, 4, 8, 1}, {1, 2, 1, 2, 1});
           }),
       2895.46205, 284.450085},
      {"irfft2d",
       gradient_of_squares(img[0], [&](const Tensor& v) { return ls::signal::irfft2d(ls::signal::rfft2d(v)); }),
       275.368873, 1097.98212},
  });
}

TEST(SurfaceConfig, HasOneProcessorThatMayBeDivided) {
  EXPECT_EQ(ls::len(tf::config::list_physical_devices("GPU")), 0);
  for (const auto& gpu : tf::config::list_physical_devices("GPU"))
    tf::config::experimental::set_memory_growth(gpu, true);
  const auto cpus = tf::config::list_physical_devices("CPU");
  std::ostringstream text;
  text << cpus[0];
  EXPECT_EQ(text.str(), "PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')");
  EXPECT_EQ(tf::distribute::MirroredStrategy().num_replicas_in_sync(), 1);
  tf::config::set_logical_device_configuration(
      cpus[0], {tf::config::LogicalDeviceConfiguration(), tf::config::LogicalDeviceConfiguration()});
  EXPECT_EQ(tf::config::list_logical_devices("CPU")[1].name, "/device:CPU:1");
  EXPECT_EQ(tf::distribute::MirroredStrategy().num_replicas_in_sync(), 2);
  const tf::distribute::MirroredStrategy named(
      {.devices = {{"CPU:0", "CPU:1", "CPU:2"}}, .cross_device_ops = tf::distribute::HierarchicalCopyAllReduce()});
  EXPECT_EQ(named.num_replicas_in_sync(), 3);
  tf::config::experimental::set_virtual_device_configuration(cpus[0],
                                                             {tf::config::experimental::VirtualDeviceConfiguration()});
  EXPECT_EQ(tf::distribute::MirroredStrategy().num_replicas_in_sync(), 1);
  tf::config::set_visible_devices({}, "GPU");
  EXPECT_NE(error_of([] { tf::config::set_visible_devices({}, "CPU"); }), "no error");
}

TEST(DataExperimental, GivesFunctionsForApply) {
  using tf::data::Dataset;
  namespace experimental = tf::data::experimental;
  const auto values = [](const Dataset& dataset) {
    Numbers out;
    for (const Tensor& each : dataset) {
      for (const double number : numbers(tf::reshape(each, {-1}))) out.push_back(number);
    }
    return out;
  };
  const auto five = Dataset::range(5);
  EXPECT_EQ(experimental::cardinality(five).numpy(), 5);
  EXPECT_EQ(experimental::cardinality(five.repeat()), experimental::INFINITE_CARDINALITY);
  EXPECT_EQ(five.take(experimental::cardinality(five) / 2).len(), 2);
  EXPECT_EQ(values(Dataset::from_tensor_slices({3, 1, 3}).apply(experimental::unique())), (Numbers{3, 1}));
  EXPECT_EQ(values(five.apply(experimental::map_and_batch([](const Tensor& x) { return x * 2; }, 2))),
            (Numbers{0, 2, 4, 6, 8}));
  EXPECT_EQ(values(five.apply(experimental::take_while([](const Tensor& x) { return x < 3; }))), (Numbers{0, 1, 2}));
  EXPECT_EQ(values(five.apply(experimental::scan(std::int64_t{1},
                                                 [](const Tensor& s, const Tensor& x) {
                                                   return std::pair{s + x, s};
                                                 }))),
            (Numbers{1, 1, 2, 4, 7}));
  EXPECT_EQ(values(experimental::choose_from_datasets({five, five.map([](const Tensor& x) { return x + 10; })},
                                                      Dataset::range(2).repeat(2))),
            (Numbers{0, 10, 1, 11}));
  EXPECT_EQ(values(five.apply(
                experimental::group_by_window([](const Tensor& x) { return x % 2; },
                                              [](std::int64_t, const Dataset& group) { return group.batch(3); }, 3))),
            (Numbers{0, 2, 4, 1, 3}));
  EXPECT_EQ(experimental::cardinality(
                five.filter([](const Tensor&) { return true; }).apply(experimental::assert_cardinality(5))),
            5);
  // TensorFlow 2.21 with seed 1: tf.data.Dataset.range(5).shuffle(5, seed=1).
  EXPECT_EQ(values(five.apply(experimental::shuffle_and_repeat(5, {.count = 1, .seed = 1}))),
            values(five.shuffle(5, 1)));
}

class SurfaceFolder : public testing::Test {
 protected:
  SurfaceFolder() { ls::io::gfile::makedirs(folder); }
  ~SurfaceFolder() override { ls::io::gfile::rmtree(folder); }
  const std::string folder = testing::TempDir() + "surface_of_modules_" + std::to_string(::getpid());
};

TEST_F(SurfaceFolder, OfGfile) {
  namespace gfile = tf::io::gfile;
  const std::string path = gfile::join(folder, "a", "b.txt");
  EXPECT_FALSE(gfile::exists(path));
  EXPECT_NE(error_of([&] { gfile::GFile(path, "w").close(); }), "no error");  // its folder is not there
  gfile::makedirs(gfile::join(folder, "a"));
  {
    gfile::GFile file(path, "w");
    file.write("one\ntwo\n");
  }
  {
    gfile::GFile file(path, "a");
    file.write("three");
  }
  std::vector<std::string> lines;
  for (const std::string& line : gfile::GFile(path)) lines.push_back(line);
  EXPECT_EQ(lines, (std::vector<std::string>{"one\n", "two\n", "three"}));
  gfile::GFile file("file://" + path, "rb");
  EXPECT_EQ(file.read(3), "one");
  file.seek(4);
  EXPECT_EQ(file.readline(), "two\n");
  EXPECT_EQ(file.tell(), 8);
  EXPECT_EQ(gfile::stat(path).length, 13);
  EXPECT_EQ(gfile::listdir(folder), (std::vector<std::string>{"a"}));
  EXPECT_EQ(gfile::glob(gfile::join(folder, "*", "*.txt")), (std::vector<std::string>{path}));
  gfile::copy(path, path + "2");
  EXPECT_NE(error_of([&] { gfile::copy(path, path + "2"); }), "no error");
  gfile::rename(path + "2", path, true);
  EXPECT_EQ(std::get<2>(gfile::walk(folder)[1]), (std::vector<std::string>{"b.txt"}));
  gfile::remove(path);
  EXPECT_TRUE(gfile::isdir(gfile::join(folder, "a")));
  EXPECT_NE(error_of([&] { gfile::rmtree(path); }), "no error");
}

TEST_F(SurfaceFolder, OfSummaries) {
  const auto writer = tf::summary::create_file_writer(folder);
  EXPECT_FALSE(tf::summary::scalar("loss", 1.0, {.step = 0}));  // no writer is the default
  {
    const auto scope = writer.as_default();
    EXPECT_TRUE(tf::summary::scalar("loss", Tensor(0.5), {.step = 3}));
    EXPECT_TRUE(tf::summary::histogram("weights", {1., 2., 4.}, {.step = 3, .buckets = 2}));
    EXPECT_TRUE(tf::summary::image("images", tf::ones({5, 4, 3, 1}), {.step = 3, .max_outputs = 2}));
    EXPECT_TRUE(tf::summary::text("note", "hello", {.step = 3}));
    EXPECT_NE(error_of([] { tf::summary::scalar("loss", 1.0); }), "no error");  // no step
  }
  {
    const auto scope = writer.as_default(7);
    EXPECT_TRUE(tf::summary::scalar("loss", 0.25));
  }
  std::int64_t records = 0;
  for (const Tensor& record : tf::data::TFRecordDataset(tf::io::gfile::glob(folder + "/*"))) {
    ++records;
    static_cast<void>(record);
  }
  EXPECT_EQ(records, 6);  // the version of the file, and the summaries
}

TEST(SurfaceEager, HasNoGraphs) {
  const Tensor x = {1., 2.};
  tf::Variable v(tf::zeros({2}));
  EXPECT_TRUE(tf::is_tensor(x));
  EXPECT_FALSE(tf::is_tensor(1.0));
  EXPECT_FALSE(tf::is_tensor("a"));
  tf::group(v.assign(x), x);
  EXPECT_EQ(numbers(v), (Numbers{1, 2}));
  {
    const tf::name_scope scope("scope");
    const tf::control_dependencies dependencies({x});
    tf::no_op();
  }
  tf::assert_equal(x, x);
  tf::Assert(tf::reduce_all(x > 0), {"x is", x});
  EXPECT_NE(error_of([&] { tf::Assert(x > 1, {"x is", x}); }).find("x is [1 2]"), std::string::npos);
  EXPECT_NE(error_of([&] { tf::debugging::assert_rank_in(x, {0, 2}); }), "no error");
  EXPECT_NE(error_of([&] { tf::debugging::assert_integer(x); }), "no error");
  EXPECT_NE(error_of([&] { tf::debugging::assert_scalar(x); }), "no error");
  tf::debugging::assert_rank_at_least(x, 1);
  const auto level = ls::log_level();
  tf::get_logger().setLevel("ERROR");
  EXPECT_EQ(ls::log_level(), ls::LogLevel::kError);
  ls::set_log_level(level);
  EXPECT_EQ(tf::as_dtype("float32"), tf::float32);
}

TEST(SurfaceNames, AreWherePythonHasThem) {
  EXPECT_EQ(keras::version(), ls::version());
  EXPECT_EQ(keras::backend::standardize_dtype(tf::float32), "float32");
  EXPECT_FALSE(keras::utils::is_keras_tensor(tf::ones({2})));
  EXPECT_EQ(numbers(tf::random::experimental::Generator::from_seed(1).normal({3})),
            numbers(tf::random::Generator::from_seed(1).normal({3})));
  EXPECT_FALSE(tf::saved_model::contains_saved_model("no_such_folder"));
  const tf::train::ClusterSpec cluster;
  EXPECT_TRUE((std::is_same_v<tf::distribute::cluster_resolver::TFConfigClusterResolver,
                              tf::distribute::TFConfigClusterResolver>));
}

}  // namespace surface_of_modules

// Control flow, scans, tf.debugging, tf.print, keras.random with parameters, and custom wrappers, as Keras and
// TensorFlow programs write them. The expected values are from Keras and TensorFlow.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lockstep/bases.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
using ls::Tensor;

namespace checks_and_branches {

TEST(Branches, SwitchAndCase) {
  const std::vector<double> expected{4, 4, 6, 6};
  const std::vector<double> expected_case{2, 1, 2, 2};
  const std::vector<int> places{-1, 0, 1, 5};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Tensor place = ls::constant(places[i]);
    const Tensor chosen = kops::switch_(
        place, {[](const Tensor& a) { return a + 1; }, [](const Tensor& a) { return a * 2; }}, ls::constant(3.0));
    EXPECT_EQ(chosen.item<double>(), expected[i]);
    EXPECT_EQ(
        ls::switch_case(place, {[] { return ls::constant(1.0); }, [] { return ls::constant(2.0); }}).item<double>(),
        expected_case[i]);
  }
  const Tensor x = ls::constant(2);
  EXPECT_EQ(ls::case_({{x > 3, [] { return ls::constant(1); }}, {x > 1, [] { return ls::constant(2); }}}).item<int>(),
            2);
  EXPECT_EQ(
      ls::case_({{x > 3, [] { return ls::constant(1); }}}, {.default_fn = [] { return ls::constant(5); }}).item<int>(),
      5);
  EXPECT_NE(error_of([&] { ls::case_({{x > 3, [] { return ls::constant(1); }}}); }), "no error");
}

TEST(Branches, AssociativeScan) {
  const Tensor x = waves({5, 2}, 0.7);
  expect_near(numbers(kops::associative_scan([](const Tensor& a, const Tensor& b) { return a * b + b; }, x)),
              {0, 0.64421767, 0.985449731, 1.41930413, 0.665102124, -0.84865129, -2.31015682, -1.54309201, 0.827058256,
               -0.00913149491});
  expect_near(numbers(kops::associative_scan([](const Tensor& a, const Tensor& b) { return a + b; }, x,
                                             {.reverse = true, .axis = 1})),
              {0.64421767, 0.64421767, 1.84865904, 0.863209367, -0.0157950819, -0.350783229, -1.85402846, -0.982452631,
               -0.614452779, 0.0168139003});
  const auto [a, b] = kops::associative_scan(
      [](const keras::Structure& p, const keras::Structure& q) {
        return keras::Structure{Tensor(p[0]) * Tensor(q[0]), Tensor(q[0]) * Tensor(p[1]) + Tensor(q[1])};
      },
      {x, x + 1});
  expect_near(numbers(a), {0, 0.64421767, 0, 0.556094706, 0, -0.195068702, -0.0, 0.191645756, 0, 0.00322231255});
  expect_near(numbers(b), {1, 1.64421773, 2.97089958, 3.28251362, 2.33020425, -0.502233982, -1.90252531, 0.510968506,
                           1.5697341, 1.02540529});
}

TEST(Checks, ThatFailNameTheElement) {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  ls::debugging::assert_equal(x, x);
  ls::debugging::assert_greater(x, 0);
  ls::debugging::assert_less_equal(x, {{1.0, 2.0}, {3.0, 4.0}});
  ls::debugging::assert_non_negative(x);
  ls::debugging::assert_rank(x, 2);
  ls::debugging::assert_type(x, "float32");
  ls::debugging::assert_shapes({{x, {"N", 2}}, {x[0], {"N"}}});
  ls::debugging::assert_near(ls::constant({1.0}), ls::constant({1.0 + 1e-6}));
  EXPECT_NE(error_of([] { ls::debugging::assert_near(ls::constant({1.0}), ls::constant({1.00001})); }), "no error");
  EXPECT_EQ(error_of([&] { ls::debugging::assert_less(x, 4, {.message = "too large"}); }),
            "too large: assert_less: x < y does not hold at [1, 1]: found x = 4, y = 4");
  EXPECT_NE(error_of([&] { ls::debugging::assert_shapes({{x, {"N", "M"}}, {x, {"M", 3}}}); }), "no error");
  EXPECT_NE(error_of([&] { ls::debugging::assert_rank(x, 3); }), "no error");
  EXPECT_NE(error_of([&] { ls::debugging::assert_positive(x - 1); }), "no error");
  const Tensor infinite = x / 0.0;
  EXPECT_NE(error_of([&] { ls::debugging::check_numerics(infinite, "x"); }), "no error");
  EXPECT_THROW(ls::debugging::assert_type(x, "float33"), ls::Error);
}

TEST(Checks, ValuesAreWrittenAsInTensorFlow) {
  EXPECT_EQ(ls::strings::format("x is {}, y {}", {ls::constant({1.5, 2.25}), ls::constant("a")}).item<std::string>(),
            "x is [1.5 2.25], y \"a\"");
  EXPECT_EQ(ls::strings::format("{}", ls::ops::range(10)).item<std::string>(), "[0 1 2 ... 7 8 9]");
  testing::internal::CaptureStderr();
  ls::print("loss:", ls::constant(0.1), ls::constant({{1.0, 2.5}}), "done",
            keras::Structure{ls::constant(1), ls::constant({2, 3})}, keras::Structure{{"a", ls::constant(1)}},
            ls::constant("s"), ls::constant({"s", "t"}), true, 3, 2.5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "loss: 0.1 [[1 2.5]] done [1, [2 3]] {'a': 1} \"s\" [\"s\" \"t\"] True 3 2.5\n");
  testing::internal::CaptureStdout();
  ls::print("a", 1, {.output_stream = "stdout", .sep = "-", .end = "!"});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a-1!");
  EXPECT_THROW(ls::print("a", {.output_stream = "log"}), ls::Error);
}

TEST(RandomNumbers, OfParameters) {
  expect_near(numbers(keras::random::gamma({2, 3}, 0.7, {.seed = 3})),
              {0.433216363, 2.73419476, 0.319466263, 0.0387611091, 0.00483373413, 0.0392069742});
  expect_near(numbers(keras::random::gamma({2, 3}, Tensor{0.5, 1.0, 4.0}, {.dtype = "float64", .seed = 3})),
              {0.237091358, 0.228396681, 2.46721842, 2.30365426, 0.846676702, 1.98465335});
  expect_near(numbers(keras::random::beta({4}, 2.0, Tensor{0.5, 1.0, 3.0, 7.0}, {.seed = 5})),
              {0.981837153, 0.990992665, 0.240085274, 0.451743841});
  expect_near(numbers(keras::random::binomial({2, 3}, 10, 0.3, {.seed = 7})), {4, 2, 3, 3, 7, 3});
  expect_near(numbers(keras::random::binomial({2, 2}, Tensor{5.0, 100.0}, Tensor{0.5, 0.9}, {.seed = 7})),
              {4, 95, 2, 88});
  ls::ops::random::set_seed(3);
  expect_near(numbers(ls::ops::random::gamma({2}, 0.7, {.seed = 1})), {2.9709959, 2.69290304});
  expect_near(numbers(ls::ops::random::gamma({2}, Tensor{0.7, 3.0}, {.beta = 2.0, .seed = 1})),
              {0.264120847, 2.29383111, 0.571866512, 0.258324116});
  expect_near(numbers(ls::ops::random::poisson({3}, 4.0, {.seed = 1})), {0, 3, 4});
  expect_near(numbers(ls::nn::dropout(ls::ops::ones({8}), {.rate = 0.4, .seed = 1})),
              {1.66666663, 1.66666663, 1.66666663, 0, 0, 1.66666663, 0, 0});
  expect_near(numbers(ls::nn::dropout(ls::ops::ones({8}), 0.4)),
              {0, 1.66666663, 1.66666663, 0, 1.66666663, 1.66666663, 0, 0});
}

// Draws of known shapes: the symbolic call that makes a node of a functional model takes no seeds.
class Noise : public layers::Layer {
 public:
  keras::random::SeedGenerator generator = track("generator", keras::random::SeedGenerator(7));
  keras::Structure call(const keras::Structure& x) override {
    return x + keras::random::normal({3}, {.seed = generator}) + 10 * keras::random::uniform({3});
  }
};

TEST(RandomNumbers, FunctionalModelsTakeNoSeeds) {
  keras::utils::set_random_seed(5);
  auto inputs = keras::Input({3});
  keras::Model model(inputs, keras::make_layer<Noise>()(inputs));
  const Tensor zeros = ls::ops::zeros({1, 3});
  expect_near(numbers(model(zeros)), {6.73714113, 6.74799204, 1.77022409});
  expect_near(numbers(model(zeros)), {2.38865995, 1.97564673, 3.8063755});
}

TEST(Lines, DtypesByTheirNames) {
  EXPECT_EQ(ls::ops::zeros({2}, "int32").dtype(), ls::int32);
  EXPECT_EQ(ls::ops::ones({2}, {.dtype = "float64"}).dtype(), ls::float64);
  EXPECT_EQ(ls::ops::ones_like(ls::constant({1, 2}), "float32").dtype(), ls::float32);
  EXPECT_EQ(ls::ops::cast(ls::constant({1, 2}), {.dtype = "bool"}).dtype(), ls::DType::kBool);
  EXPECT_EQ(ls::ops::range(5, {.dtype = ls::int64}).dtype(), ls::int64);
  EXPECT_EQ(ls::ops::range(1, 5, {.dtype = "float32"}).dtype(), ls::float32);
  EXPECT_EQ(ls::ops::constant({1, 2}, "float16").dtype(), ls::float16);
  EXPECT_EQ(ls::ops::one_hot(ls::constant({1}), 3, {.dtype = "int32"}).dtype(), ls::int32);
  EXPECT_EQ(error_of([] { ls::ops::zeros({2}, "float33"); }), "unknown dtype 'float33'");
}

TEST(Lines, TensorsAreExtentsOfImages) {
  const Tensor image = ls::ops::cast(ls::ops::range(24), ls::float32).reshape(4, 6, 1);
  const Tensor one = ls::constant(1);
  EXPECT_EQ(numbers(ls::image::crop_to_bounding_box(image, one, one + 1, 2, 3)), (Numbers{8, 9, 10, 14, 15, 16}));
  EXPECT_EQ(ls::image::pad_to_bounding_box(image, one, 0, one * 6, 6).shape(), (ls::Shape{6, 6, 1}));
  EXPECT_EQ(ls::image::resize_with_crop_or_pad(image, one, one).shape(), (ls::Shape{1, 1, 1}));
}

class Twice : public layers::Wrapper {
 public:
  using Wrapper::Wrapper;
  keras::Structure call(const keras::Structure& x) override { return 2 * Tensor(layer(x)); }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Twice, "Checks");

TEST(Lines, WrappersOfOnesOwn) {
  auto inputs = keras::Input({2});
  auto wrapper = keras::make_layer<Twice>(layers::Dense(2, {.kernel_initializer = "ones", .name = "inner"}),
                                          keras::LayerOptions{.name = "outer"});
  keras::Model model(inputs, wrapper(inputs));
  const Tensor x = waves({5, 2}, 0.7);
  const Numbers expected = {1.28843534,    1.28843534,  3.69731808,  3.69731808,  -0.0315901637,
                            -0.0315901637, -3.70805693, -3.70805693, -1.22890556, -1.22890556};
  expect_near(numbers(model(x)), expected);
  EXPECT_EQ(wrapper.get_config().at("layer").at("class_name"), "Dense");
  const std::string path = testing::TempDir() + "/wrapper_of_ones_own.keras";
  model.save(path);
  expect_near(numbers(keras::load_model(path)(x)), expected);
}

}  // namespace checks_and_branches

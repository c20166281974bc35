#include "lockstep/keras/initializers/initializers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/random/seeds.h"

namespace lockstep::initializers {
namespace {

std::vector<float> first(const InitializerPtr& initializer, const Shape& shape, std::size_t count = 5) {
  std::vector<float> values = (*initializer)(shape).to_vector<float>();
  values.resize(std::min(count, values.size()));
  return values;
}

struct Case {
  InitializerPtr initializer;
  Shape shape;
  std::vector<float> values;
};

TEST(Initializers, DrawKerassNumbersBitForBit) {
  const std::vector<Case> cases = {
      {GlorotUniform({.seed = 42}),
       {3, 4},
       {-0.402855515f, -0.00293135643f, 0.39895165f, -0.888413191f, -0.780284643f}},
      {GlorotUniform({.seed = 0}),
       {784, 128},
       {-0.0468794815f, 0.0334192291f, 0.0486767069f, 0.0439283028f, -0.0180733055f}},
      {GlorotNormal({.seed = 42}), {3, 4}, {0.00961156934f, -0.96624881f, 0.0629512891f, 0.493274003f, -0.0130089177f}},
      {HeNormal({.seed = 1337}),
       {3, 3, 2, 5},
       {0.230325088f, -0.33695215f, -0.108268321f, 0.0742327124f, 0.611360133f}},
      {HeUniform({.seed = 1}), {64, 33}, {0.231775731f, -0.0245069861f, 0.0614156127f, -0.0657702237f, -0.15113765f}},
      {LecunNormal({.seed = 2}), {7}, {-0.274755031f, -0.0803540945f, -0.355977178f, -0.0804906785f, 0.154205918f}},
      {LecunUniform({.seed = 3}), {5, 1}, {-0.47108981f, 0.680630684f, 0.0500005484f, 0.528338909f, -0.491386145f}},
      {RandomNormal({.seed = 42}),
       {2, 3},
       {0.00079085381f, -0.0795043483f, 0.00517972326f, 0.0405872986f, -0.080517754f}},
      {RandomUniform({.seed = 42}),
       {2, 3},
       {-0.0217566844f, -0.000158309937f, 0.0215458535f, -0.0479797982f, -0.0421401858f}},
      {TruncatedNormal({.seed = 42}),
       {2, 3},
       {0.00079085381f, -0.0795043483f, 0.00517972326f, 0.0405872986f, -0.00107039255f}},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(first(c.initializer, c.shape), ::testing::ElementsAreArray(c.values)) << c.initializer->class_name();
  }
}

TEST(Initializers, OrthogonalIsKerassToRounding) {
  const std::vector<float> square = {0.0150792599f, -0.773680866f, 0.633395791f, 0.773883283f, -0.392094314f};
  EXPECT_THAT(first(Orthogonal({.seed = 42}), {3, 3}), ::testing::Pointwise(::testing::FloatNear(3e-7f), square));
  const std::vector<float> wide = {0.00906383991f, 0.0593638867f, -0.922799647f, 0.380571395f, -0.901831925f};
  EXPECT_THAT(first(Orthogonal({.seed = 42}), {2, 4}), ::testing::Pointwise(::testing::FloatNear(3e-7f), wide));
}

TEST(Initializers, DrawTheirSeedWhenMade) {
  random::set_random_seed(42);
  const InitializerPtr a = get("glorot_uniform");
  get("zeros");
  const InitializerPtr b = get("GlorotUniform");
  EXPECT_EQ(first(a, {3, 4}), first(GlorotUniform({.seed = 686579304}), {3, 4}));
  EXPECT_EQ(first(b, {3, 4}), first(GlorotUniform({.seed = 119540832}), {3, 4}));
  EXPECT_TRUE(a->get_config()["seed"].is_null());
}

TEST(Initializers, ConfigsAreKerass) {
  EXPECT_EQ(
      dump_json(serialize(GlorotUniform())),
      R"({"module": "keras.initializers", "class_name": "GlorotUniform", "config": {"seed": null, "input_axes": null, "output_axes": null}, "registered_name": null})");
  for (const char* name :
       {"glorot_uniform", "he_normal", "random_normal", "random_uniform", "truncated_normal", "zeros", "ones",
        "orthogonal", "identity", "variance_scaling", "lecun_uniform", "constant"}) {
    const InitializerPtr made = get(name);
    EXPECT_EQ(serialize(get(serialize(made))), serialize(made)) << name;
  }
  const InitializerPtr old =
      get(Json{{"class_name", "GlorotUniform"}, {"config", {{"seed", 42}, {"dtype", "float32"}}}});
  EXPECT_EQ(first(old, {3, 4}), first(GlorotUniform({.seed = 42}), {3, 4}));
}

TEST(Initializers, AxesReplacePositions) {
  const InitializerPtr query = with_axes(GlorotUniform({.seed = 1}), {0}, {1, 2});
  const InitializerPtr same = VarianceScaling({.scale = 1,
                                               .mode = "fan_avg",
                                               .distribution = "uniform",
                                               .seed = 1,
                                               .input_axes = Axes{0},
                                               .output_axes = Axes{1, 2}});
  EXPECT_EQ(first(query, {4, 2, 3}, 24), first(same, {4, 2, 3}, 24));
  EXPECT_NE(first(query, {4, 2, 3}, 24), first(GlorotUniform({.seed = 1}), {4, 2, 3}, 24));
}

TEST(Initializers, UnknownNamesHaveASuggestion) {
  try {
    get("glorot_unifrom");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("glorot_uniform"));
  }
}

}  // namespace
}  // namespace lockstep::initializers

// Layers that a model computes in one pass against the same layers called one by one: values, gradients, moving
// averages, and weights that change between calls.
#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

// A model, and a function that calls its layers apart.
struct Both {
  Shape input;
  Model model;
  std::function<Tensor(const Tensor&, bool training)> apart;

  Shape batch(std::int64_t size) const {
    Shape shape{size};
    for (const std::int64_t dim : input.dims()) shape.push_back(dim);
    return shape;
  }
};

Tensor numbers(const Shape& shape, double seed) {
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(seed + static_cast<double>(i) * 1.7) * 1.3 + 0.2);
  return Tensor::from_vector(values, shape);
}

Both both(const Shape& input, const std::vector<LayerHandle>& stack, bool residual) {
  const auto call = [stack, residual](const Tensor& x, const CallOptions& options) {
    Tensor y = x, first;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      y = stack[i](y, options).leaf();
      if (i == 0) first = y;
    }
    return residual ? y + first : y;
  };
  const Tensor in = layers::Input(input);
  Both made{input, Model(in, call(in, {})),
            [call](const Tensor& x, bool training) { return call(x, {.training = training}); }};
  double seed = 0;
  for (const auto& weight : made.model.weights()) {
    const bool variance = weight->path().find("variance") != std::string::npos;
    const Tensor value = numbers(weight->shape(), ++seed) * 0.5;
    weight->assign(variance ? ops::abs(value) + 0.3 : value);
  }
  return made;
}

void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const auto a = got.to_vector<float>(), b = want.to_vector<float>();
  double size = 1;
  for (const float value : b) size = std::max(size, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * size) << what << " at " << i;
}

std::vector<Both> cases() {
  using namespace layers;
  std::vector<Both> all;
  all.push_back(both({9, 11, 3},
                     {Conv2D(20, 3, {.padding = "same"}), BatchNormalization(), ReLU(),
                      DepthwiseConv2D(3, {.strides = 2, .padding = "same", .use_bias = false}), BatchNormalization(),
                      ReLU({.max_value = 6}), Conv2D(7, 1, {.use_bias = false}), BatchNormalization()},
                     false));
  all.push_back(both(
      {8, 8, 16},
      {Conv2D(18, 3, {.padding = "same", .use_bias = false}), BatchNormalization({.scale = false}), Activation("silu"),
       Conv2D(18, 3, {.padding = "same"}), BatchNormalization({.center = false}), Activation("gelu")},
      true));
  all.push_back(both({6, 6, 4},
                     {Conv2D(5, 3, {.activation = "relu"}), BatchNormalization(), LeakyReLU(),
                      Conv2DTranspose(6, 3, {.strides = 2}), BatchNormalization(), Activation("tanh")},
                     false));
  all.push_back(both({12}, {Dense(9), BatchNormalization(), ReLU({.negative_slope = 0.1})}, false));
  return all;
}

TEST(Fusion, InferenceEqualsLayersApart) {
  for (const Both& test : cases()) {
    for (const std::int64_t batch : {1, 5}) {
      const Tensor x = numbers(test.batch(batch), 40);
      for (int call = 0; call < 3; ++call) expect_near(test.model(x), test.apart(x, false), "first weights");
    }
    const Tensor x = numbers(test.batch(2), 41);
    for (const auto& weight : test.model.weights()) {
      weight->assign(weight->read() * 1.5);
      expect_near(test.model(x), test.apart(x, false), "changed " + weight->path());
    }
  }
}

TEST(Fusion, TrainingEqualsLayersApart) {
  for (const Both& test : cases()) {
    const Tensor x = numbers(test.batch(6), 50);
    const auto variables = test.model.trainable_variables();
    const auto moving = test.model.non_trainable_weights();
    std::vector<Tensor> before;
    for (const auto& weight : moving) before.push_back(weight->read());
    const auto step = [&](bool fused) {
      for (std::size_t i = 0; i < moving.size(); ++i) moving[i]->assign(before[i]);
      GradientTape tape;
      const Tensor y = fused ? test.model(x, {.training = true}).leaf() : test.apart(x, true);
      Tensors results = tape.gradient(ops::reduce_sum(y * numbers(y.shape(), 60)), variables);
      results.push_back(y);
      for (const auto& weight : moving) results.push_back(weight->read());
      return results;
    };
    const Tensors got = step(true), want = step(false);
    for (std::size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i], "result " + std::to_string(i));
  }
}

}  // namespace
}  // namespace lockstep::keras

// Graphs from "x" to "y", run as programs and by the plain operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/graph/compiled_internal.h"
#include "lockstep/graph/test_builder_internal.h"

namespace lockstep::graph::compiled_test {

using Ints = std::vector<std::int64_t>;

inline const ops::Attrs kFloats{{"T", DType::kFloat32}};

inline Tensor numbers(const Shape& shape, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  for (float& value : values) value = uniform(random);
  return Tensor::from_vector(values, shape);
}

// A graph from "x" to "y".
struct Network : Builder {
  void input() { (*this)("x", "Placeholder", {}, {{"dtype", DType::kFloat32}}); }
  void unary(const std::string& name, const std::string& op, const std::string& x) { (*this)(name, op, {x}, kFloats); }
  void binary(const std::string& name, const std::string& op, const std::string& a, const std::string& b) {
    (*this)(name, op, {a, b}, kFloats);
  }
  void integers(const std::string& name, const std::vector<std::int32_t>& values) {
    constant(name, Tensor::from_vector(values));
  }
  void conv(const std::string& name, const std::string& x, const Shape& kernel, std::int64_t stride,
            const std::string& padding, const std::string& op = "Conv2D", std::int64_t dilation = 1) {
    constant(name + "/kernel", numbers(kernel, static_cast<unsigned>(name.size() + 7)));
    (*this)(name, op, {x, name + "/kernel"},
            {{"T", DType::kFloat32},
             {"strides", Ints{1, stride, stride, 1}},
             {"dilations", Ints{1, dilation, dilation, 1}},
             {"padding", padding}});
  }
  void scale_shift(const std::string& name, const std::string& x, std::int64_t channels) {
    constant(name + "/scale", numbers({channels}, 3, 0.5f, 2));
    constant(name + "/shift", numbers({channels}, 4));
    binary(name + "/mul", "Mul", x, name + "/scale");
    binary(name, "AddV2", name + "/mul", name + "/shift");
  }
  void reduce(const std::string& name, const std::string& op, const std::string& x,
              const std::vector<std::int32_t>& axes, bool keep) {
    integers(name + "/axes", axes);
    (*this)(name, op, {x, name + "/axes"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}, {"keep_dims", keep}});
  }
};

struct Case {
  std::string name;
  Shape row;  // of the input
  std::function<void(Network&)> build;
  bool by_rows = true;
};

struct Prepared {
  Network g;
  std::unique_ptr<Plan> plan;
  CompiledPlan compiled;

  explicit Prepared(const Case& c) {
    g.input();
    c.build(g);
    g.finish();
    plan = std::make_unique<Plan>(g.graph, *g.library, std::vector<Output>{g.graph.parse_output("x")},
                                  std::vector<Output>{g.graph.parse_output("y")}, std::vector<int>{}, "test");
  }
  RunBudget budget{RunLimits::none(), 0};
  RunContext context{*g.resources, *g.library, budget};
  std::optional<Tensors> as_program(const Tensor& x) { return compiled.run(*plan, {x}, context); }
  Tensor plainly(const Tensor& x) { return plan->run({x}, context)[0]; }
};

inline void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  float largest = 0;
  for (const float value : y) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5f * largest) << i;
}

}  // namespace lockstep::graph::compiled_test

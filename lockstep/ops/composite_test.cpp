// Composites with their own kernels against their plain operations: values, gradients, second gradients; and the
// same bytes from any number of threads.
#include <array>
#include <cstring>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/fused_loss_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/lstm_cell_internal.h"

namespace lockstep::ops {
namespace {

class Numbers {
 public:
  explicit Numbers(unsigned seed) : engine_(seed) {}
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool coin() { return whole(0, 1) == 1; }
  Tensor tensor(const Ints& shape, double scale = 1.0) {
    std::normal_distribution<float> values;
    at::Tensor x = at::empty(shape, at::kFloat);
    float* const to = x.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < x.numel(); ++i) to[i] = static_cast<float>(scale) * values(engine_);
    return wrap(std::move(x));
  }
  Tensor mask(const Ints& shape) {
    at::Tensor x = at::empty(shape, at::kBool);
    bool* const to = x.mutable_data_ptr<bool>();
    for (std::int64_t i = 0; i < x.numel(); ++i) to[i] = whole(0, 3) > 0;
    return wrap(std::move(x));
  }

 private:
  std::mt19937 engine_;
};

struct Results {
  Tensors values, gradients, second;
};

// Outputs of f, the gradients of a sum of their products with fixed numbers, and with `second` those of the sum of the
// gradients' squares.
Results results_of(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, bool second) {
  set_grad_enabled(true);
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(make_leaf(input));
  Results results;
  results.values = f(leaves);
  Numbers numbers(77);
  Tensors seeds;
  for (const Tensor& value : results.values) seeds.push_back(numbers.tensor(value.shape().dims()));
  results.gradients = grad(results.values, leaves, seeds, second, second);
  if (second) {
    Tensor total;
    for (const Tensor& gradient : results.gradients) {
      if (!gradient.defined() || !requires_grad(gradient)) continue;
      const Tensor sum = reduce_sum(square(gradient));
      total = total.defined() ? total + sum : sum;
    }
    if (total.defined()) results.second = grad({total}, leaves, {}, false, false);
  }
  set_grad_enabled(false);
  return results;
}

void expect_close(const Tensors& got, const Tensors& want, const std::string& what, double tolerance) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << what << ' ' << i;
    if (!want[i].defined()) continue;
    const at::Tensor a = aten(got[i]).detach().to(at::kDouble), b = aten(want[i]).detach().to(at::kDouble);
    ASSERT_EQ(a.sizes(), b.sizes()) << what << ' ' << i;
    if (a.numel() == 0) continue;
    const double difference = (a - b).abs().max().item<double>(), size = b.abs().max().item<double>();
    EXPECT_LE(difference, tolerance * (1 + size)) << what << ' ' << i;
  }
}

void expect_same_bytes(const Tensors& got, const Tensors& want, const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!want[i].defined()) continue;
    const at::Tensor a = aten(got[i]).detach().contiguous(), b = aten(want[i]).detach().contiguous();
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0) << what << ' ' << i;
  }
}

void compare(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, const std::string& what,
             double tolerance = 2e-5) {
  const int threads = intra_op_threads();
  set_intra_op_threads(1);
  const Results got = results_of(f, inputs, false);
  for (const int count : {2, 5}) {
    set_intra_op_threads(count);
    const Results other = results_of(f, inputs, false);
    expect_same_bytes(other.values, got.values, what + " threads");
    expect_same_bytes(other.gradients, got.gradients, what + " gradients, threads");
  }
  set_intra_op_threads(threads);
  const Results recorded = results_of(f, inputs, true);
  const ScopedPlain plain;
  const Results want = results_of(f, inputs, true);
  expect_close(got.values, want.values, what + " values", tolerance);
  expect_close(got.gradients, want.gradients, what + " gradients", tolerance);
  expect_close(recorded.second, want.second, what + " second gradients", tolerance);
}

TEST(Composite, RecurrentLayers) {
  for (unsigned seed = 0; seed < 48; ++seed) {
    Numbers numbers(seed);
    const char* const cells[] = {"LSTM", "GRU", "GRU", "SimpleRNN"};
    RecurrentOptions options{.cell = cells[seed % 4], .reset_after = seed % 4 == 1};
    const char* const activations[] = {"tanh", "sigmoid", "linear", "hard_sigmoid"};
    options.activation = seed < 24 ? "tanh" : activations[numbers.whole(0, 3)];
    options.recurrent_activation = seed < 24 ? "sigmoid" : activations[numbers.whole(0, 1) ? 3 : 1];
    options.return_sequences = numbers.coin(), options.go_backwards = numbers.coin(),
    options.zero_output_for_mask = numbers.coin();
    const std::int64_t batch = numbers.whole(1, 40), steps = numbers.whole(1, 9), units = numbers.whole(1, 70),
                       gates = seed % 4 == 0   ? 4
                               : seed % 4 == 3 ? 1
                                               : 3;
    const bool biased = seed % 4 == 1 && numbers.coin();
    const Tensor mask = numbers.coin() ? numbers.mask({batch, steps}) : Tensor();
    Tensors dropped(seed % 3 == 2 ? static_cast<std::size_t>(gates) : 0);
    for (Tensor& factors : dropped) factors = cast(numbers.mask({batch, units}), DType::kFloat32) * 1.25;
    const double scale = 1.0 / std::sqrt(static_cast<double>(units));
    Tensors inputs = {numbers.tensor({batch, steps, gates * units}), numbers.tensor({units, gates * units}, scale),
                      numbers.tensor({batch, units})};
    if (options.cell == "LSTM") inputs.push_back(numbers.tensor({batch, units}));
    if (biased) inputs.push_back(numbers.tensor({gates * units}));
    compare(
        [&](const Tensors& x) {
          const std::size_t states = options.cell == "LSTM" ? 2 : 1;
          auto made =
              try_recurrent(x[0], x[1], biased ? x.back() : Tensor(), mask, dropped,
                            Tensors(x.begin() + 2, x.begin() + 2 + static_cast<std::ptrdiff_t>(states)), options);
          EXPECT_TRUE(made.has_value());
          Tensors out = {made->output};
          out.insert(out.end(), made->states.begin(), made->states.end());
          return out;
        },
        inputs, fmt::format("{} seed {}", options.cell, seed), 1e-4);
  }
}

TEST(Composite, Normalizations) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Numbers numbers(seed);
    const std::int64_t columns = numbers.whole(1, seed % 3 == 0 ? 300 : 40);
    Ints shape = {numbers.whole(1, 12), numbers.whole(1, seed % 8 == 0 ? 3000 : 30), columns};
    if (numbers.coin()) shape.erase(shape.begin());
    if (shape.size() == 2 && shape[0] == 1) shape[0] = 2;
    const bool gamma = numbers.coin(), beta = numbers.coin(), centered = numbers.coin();
    Tensors inputs = {numbers.tensor(shape) * 2.0 + 3.0};
    if (gamma) inputs.push_back(numbers.tensor({columns}));
    if (beta) inputs.push_back(numbers.tensor({columns}));
    const auto first = [&](const Tensors& x) { return gamma ? x[1] : Tensor(); };
    const auto second = [&](const Tensors& x) { return beta ? x.back() : Tensor(); };
    compare(
        [&](const Tensors& x) -> Tensors {
          const auto made = try_batch_norm(x[0], first(x), second(x), 1e-3);
          EXPECT_TRUE(made.has_value());
          return {made->y, made->mean, made->variance};
        },
        inputs, fmt::format("batch seed {}", seed), 2e-4);
    compare(
        [&](const Tensors& x) -> Tensors { return {*try_normalize_rows(x[0], first(x), second(x), 1e-3, centered)}; },
        inputs, fmt::format("rows seed {}", seed), 2e-4);
    const std::int64_t groups = columns % 4 == 0 ? 4 : columns % 3 == 0 ? 3 : 1;
    if (inputs[0].num_elements() > inputs[0].dim(0) * groups) {
      compare([&](const Tensors& x) -> Tensors { return {*try_group_norm(x[0], groups, first(x), second(x), 1e-3)}; },
              inputs, fmt::format("groups seed {}", seed), 2e-4);
    }
    compare([&](const Tensors& x) -> Tensors { return {*try_scale_shift(x[0], x[1], x[2])}; },
            {inputs[0], numbers.tensor({columns}), numbers.tensor({columns})}, fmt::format("scale seed {}", seed),
            2e-4);
  }
}

// An activation in the pass of the normalization before it.
TEST(Composite, NormalizationsWithActivations) {
  for (const char* const name : {"relu", "relu6", "leaky_relu", "silu", "gelu", "hard_silu"}) {
    for (const std::int64_t columns : {3, 16, 70}) {
      Numbers numbers(static_cast<unsigned>(columns));
      const Tensors inputs = {numbers.tensor({5, 70, columns}) * 3.0 + 1.0, numbers.tensor({columns}),
                              numbers.tensor({columns})};
      compare(
          [&](const Tensors& x) -> Tensors {
            const ScopedFollower follower(name, 0.2);
            const auto made = try_batch_norm(x[0], x[1], x[2], 1e-3);
            EXPECT_TRUE(made.has_value() && follower.taken());
            return {made->y, made->mean, made->variance};
          },
          inputs, fmt::format("batch norm, {}, {} columns", name, columns), 2e-4);
      compare(
          [&](const Tensors& x) -> Tensors {
            const ScopedFollower follower(name, 0.2);
            Tensor y = *try_scale_shift(x[0], x[1], x[2]);
            EXPECT_TRUE(follower.taken());
            return {y};
          },
          inputs, fmt::format("scale, {}, {} columns", name, columns), 2e-4);
    }
  }
}

// Equal extrema share their gradient.
TEST(Composite, Extrema) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    Numbers numbers(seed);
    const Shape shape = seed % 2 == 0 ? Shape{numbers.whole(2, 5), numbers.whole(60, 90), numbers.whole(140, 300)}
                                      : Shape{numbers.whole(4, 6), numbers.whole(12, 16), 11, numbers.whole(33, 80)};
    const Axes axes = seed % 2 == 0 ? Axes(Ints{1}) : seed % 4 == 1 ? Axes(Ints{1, 2}) : Axes(Ints{0, 1, 2});
    const bool keep = numbers.coin(), highest = numbers.coin();
    const Tensor x = numbers.tensor(shape.dims());
    const auto f = [&](const Tensors& in) -> Tensors {
      return {highest ? reduce_max(in[0], axes, keep) : reduce_min(in[0], axes, keep)};
    };
    compare(f, {x}, fmt::format("extremum seed {}", seed));
    compare(f, {round(x * 2.0)}, fmt::format("equal extrema seed {}", seed));
  }
  const Tensor odd = wrap(at::full({2, 100, 100}, NAN));
  EXPECT_TRUE(aten(reduce_max(odd, Axes(Ints{1}))).isnan().all().item<bool>());
}

TEST(Composite, Channels) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    Numbers numbers(seed);
    const std::int64_t images = numbers.whole(1, 4), channels = numbers.whole(8, 70);
    const bool flat = numbers.coin(), keep = numbers.coin();
    const Ints shape = flat ? Ints{images, numbers.whole(2050, 2100), channels}
                            : Ints{images, numbers.whole(40, 60), numbers.whole(52, 60), channels};
    const Tensor x = numbers.tensor(shape),
                 factors = numbers.tensor(flat ? Ints{images, 1, channels} : Ints{images, 1, 1, channels});
    const Axes axes = flat ? Axes(Ints{1}) : numbers.coin() ? Axes(Ints{1, 2}) : Axes(Ints{2});
    compare([&](const Tensors& in) -> Tensors { return {reduce_mean(in[0], axes, keep)}; }, {x},
            fmt::format("mean seed {}", seed));
    compare([&](const Tensors& in) -> Tensors { return {seed % 2 ? in[0] * in[1] : in[1] * in[0]}; }, {x, factors},
            fmt::format("product seed {}", seed), 1e-4);
    std::vector<std::int64_t> amounts = {0, 0};
    for (std::size_t i = 1; i + 1 < shape.size(); ++i)
      amounts.push_back(numbers.whole(0, 3)), amounts.push_back(numbers.whole(0, 3));
    amounts.push_back(0), amounts.push_back(0);
    const Tensor paddings =
        reshape(constant_ints(amounts), constant_ints({static_cast<std::int64_t>(shape.size()), 2}));
    compare(
        [&](const Tensors& in) -> Tensors {
          return {call1("Pad", {in[0], paddings})};
        },
        {x}, fmt::format("padding seed {}", seed));
  }
}

// Images that are enlarged and reduced, and entries that are repeated.
TEST(Composite, Resizing) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    Numbers numbers(seed);
    const Ints shape = {numbers.whole(1, 3), numbers.whole(1, 40), numbers.whole(1, 40), numbers.whole(1, 20)};
    const Tensor size = constant_ints({numbers.whole(1, 90), numbers.whole(1, 90)});
    const char* const name = seed % 2 == 0 ? "ResizeBilinear" : "ResizeNearestNeighbor";
    const bool corners = numbers.coin(), half = !corners && numbers.coin();
    compare(
        [&](const Tensors& x) -> Tensors {
          return {call1(name, {x[0], size}, {{"align_corners", corners}, {"half_pixel_centers", half}})};
        },
        {numbers.tensor(shape)}, fmt::format("{} seed {}", name, seed), 1e-5);

    Ints volume = {numbers.whole(1, 3)}, times;
    const int axes = static_cast<int>(seed % 3) + 1, first = numbers.coin() ? 1 : 2;
    if (first == 2) volume.push_back(numbers.whole(1, 9));
    for (int i = 0; i < axes; ++i) volume.push_back(numbers.whole(1, 12)), times.push_back(numbers.whole(1, 3));
    if (first == 1) volume.push_back(numbers.whole(1, 20));
    const Tensor x = numbers.tensor(volume);
    const auto repeated = [&](const Tensors& in) -> Tensors { return {try_repeat(in[0], first, times).value()}; };
    compare(repeated, {x}, fmt::format("repeat seed {}", seed), 1e-5);
    at::Tensor want = aten(x);
    for (int i = 0; i < axes; ++i) want = want.repeat_interleave(times[static_cast<std::size_t>(i)], first + i);
    EXPECT_TRUE(at::equal(aten(repeated({x})[0]), want)) << seed;
  }
}

// Masks for all or some of batch, heads and steps, also such that hide all keys; and dropout.
TEST(Composite, Attention) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Numbers numbers(seed);
    const std::int64_t batch = numbers.whole(1, 4), heads = numbers.whole(1, 3), rows = numbers.whole(1, 40),
                       columns = seed % 8 == 7 ? 1500 : numbers.whole(1, 40), size = numbers.whole(1, 40),
                       value_size = numbers.whole(1, 40);
    const Tensors inputs = {numbers.tensor({batch, rows, heads, size}), numbers.tensor({batch, columns, heads, size}),
                            numbers.tensor({batch, columns, heads, value_size})};
    const auto or_one = [&](std::int64_t extent) { return numbers.coin() ? extent : 1; };
    Tensor mask, factors;
    if (seed % 3 > 0) mask = numbers.mask({or_one(batch), or_one(heads), or_one(rows), or_one(columns)});
    if (seed % 5 > 2) factors = cast(numbers.mask({batch, heads, rows, columns}), DType::kFloat32) * 1.5;
    const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(size)),
                                   .blind_rows_are_zero = numbers.coin()};
    compare(
        [&](const Tensors& x) -> Tensors {
          const auto made = try_attention(x[0], x[1], x[2], mask, factors, options);
          EXPECT_TRUE(made.has_value());
          return {*made};
        },
        inputs, fmt::format("attention seed {}", seed), 5e-5);
  }
}

TEST(Composite, EinsumAndBias) {
  struct Case {
    const char* equation;
    Ints x, kernel, bias;
  };
  for (const Case& c :
       {Case{"ab,bc->ac", {5, 7}, {7, 3}, {3}}, Case{"abc,cde->abde", {3, 5, 6}, {6, 2, 4}, {2, 4}},
        Case{"abcd,cde->abe", {3, 5, 2, 4}, {2, 4, 6}, {6}}, Case{"abc,bc->a", {9, 2, 4}, {2, 4}, {}}}) {
    Numbers numbers(3);
    const Tensors inputs = {numbers.tensor(c.x), numbers.tensor(c.kernel), numbers.tensor(c.bias)};
    const Results got = results_of(
        [&](const Tensors& in) -> Tensors { return {try_einsum_bias(c.equation, in[0], in[1], in[2]).value()}; },
        inputs, false);
    const Results want = results_of(
        [&](const Tensors& in) -> Tensors {
          return {einsum(c.equation, {in[0], in[1]}) + in[2]};
        },
        inputs, false);
    expect_close(got.values, want.values, c.equation, 1e-5);
    expect_close(got.gradients, want.gradients, c.equation, 1e-5);
  }
  const Tensor x = Numbers(1).tensor({4, 5, 5}), matrix = Numbers(2).tensor({5, 5}),
               cube = Numbers(2).tensor({5, 5, 5});
  EXPECT_FALSE(try_einsum_bias("abc,bcd->abd", x, cube, {}));
  for (const char* const other : {"abc,cb->ab", "abb,bc->ac", "abc,cd->adb", "abc,cd->acd"})
    EXPECT_FALSE(try_einsum_bias(other, x, matrix, {})) << other;
}

TEST(Composite, Activations) {
  for (const char* const name : {"gelu", "gelu_tanh", "silu", "relu", "leaky_relu", "relu6", "hard_sigmoid",
                                 "hard_silu", "tanh", "sigmoid", "elu", "selu"}) {
    for (const std::int64_t count : {1, 7, 16, 100, 200000}) {
      Numbers numbers(static_cast<unsigned>(count));
      compare([&](const Tensors& x) -> Tensors { return {*try_unary(name, x[0], 0.3)}; },
              {numbers.tensor({count}, 3.0)}, fmt::format("{} {}", name, count));
    }
    const Tensor odd = wrap(at::tensor({0.0f, -0.0f, 6.0f, -3.0f, 3.0f, 1e30f, -20.0f, 90.0f, -90.0f, NAN}));
    const at::Tensor got = aten(*try_unary(name, odd, 0.3));
    const ScopedPlain plain;
    const at::Tensor want = aten(*try_unary(name, odd, 0.3));
    EXPECT_TRUE(at::allclose(got, want, 1e-6, 1e-6, true)) << name << got << want;
  }
}

// Operations that have their own loops for large tensors.
TEST(Composite, LargeTensors) {
  Numbers numbers(5);
  const Tensor images = numbers.tensor({4, 17, 19, 24}), volumes = numbers.tensor({2, 9, 11, 13, 16});
  const auto of = [](const char* name, Attrs attrs = {}) {
    return [name, attrs](const Tensors& x) { return Tensors{call1(name, std::span<const Tensor>(x), attrs)}; };
  };
  compare(of("Softmax"), {numbers.tensor({40, 7, 100}, 4.0)}, "softmax");
  compare(of("Mul"), {numbers.tensor({300, 70}), numbers.tensor({300, 70})}, "product");
  for (const char* const padding : {"SAME", "VALID"}) {
    for (const auto& [size, stride] : {std::pair{2, 2}, {3, 1}, {3, 2}, {2, 3}}) {
      const auto attrs = [&, size = size, stride = stride](bool volume) {
        const Ints sizes = volume ? Ints{1, size, 3, size, 1} : Ints{1, size, 3, 1},
                   strides = volume ? Ints{1, stride, 2, stride, 1} : Ints{1, stride, 2, 1};
        return Attrs{{"ksize", sizes}, {"strides", strides}, {"padding", std::string(padding)}};
      };
      const std::string what = fmt::format("{} {} {}", padding, size, stride);
      compare(of("AvgPool", attrs(false)), {images}, "average pool " + what);
      // Volumes against those with channels first, which LibTorch computes.
      Attrs first = attrs(true);
      first.set("ksize", Ints{1, 1, size, 3, size});
      first.set("strides", Ints{1, 1, stride, 2, stride});
      first.set("data_format", std::string("NCDHW"));
      for (const char* const name : {"MaxPool3D", "AvgPool3D"}) {
        const Results got = results_of(of(name, attrs(true)), {volumes}, false);
        const Results want = results_of(
            [&](const Tensors& x) {
              const Tensor y = call1(name, {transpose(x[0], {0, 4, 1, 2, 3})}, first);
              return Tensors{transpose(y, {0, 2, 3, 4, 1})};
            },
            {volumes}, false);
        const std::string pool = fmt::format("{} {}", name, what);
        expect_close(got.values, want.values, pool, name[0] == 'M' ? 0 : 1e-6);
        expect_close(got.gradients, want.gradients, pool, 1e-6);
      }
    }
  }
}

TEST(Composite, LstmSteps) {
  const char* const names[] = {"tanh", "sigmoid", "relu", "hard_sigmoid", "linear"};
  for (unsigned seed = 0; seed < 20; ++seed) {
    Numbers numbers(seed);
    const std::int64_t batch = numbers.whole(1, 5), pixels = numbers.whole(1, 400), units = numbers.whole(1, 40);
    const Tensors inputs = {numbers.tensor({batch, 2, pixels, 4 * units}), numbers.tensor({batch, pixels, 4 * units}),
                            numbers.tensor({batch, pixels, units})};
    compare(
        [&](const Tensors& x) -> Tensors {
          const auto made =
              try_lstm_step(unstack(x[0], 1)[1], x[1], x[2], names[seed % 5], seed % 2 ? "sigmoid" : "hard_sigmoid");
          if (seed % 4 == 3) return {made->h};
          return {made->h, made->c};
        },
        inputs, fmt::format("LSTM step {}", seed));
  }
}

// Matrices with many rows, whose gradients are computed block by block, or as sums of parts of the rows.
TEST(Composite, LongProducts) {
  for (const auto& [rows, in, out] :
       {std::array<std::int64_t, 3>{20480, 40, 24}, std::array<std::int64_t, 3>{20480, 64, 3},
        std::array<std::int64_t, 3>{8200, 160, 130}}) {
    for (const bool relu : {false, true}) {
      Numbers numbers(static_cast<unsigned>(rows));
      const Tensors inputs = {numbers.tensor({rows, in}), numbers.tensor({in, out}), numbers.tensor({out})};
      const std::string what = fmt::format("{} rows, relu {}", rows, relu);
      const auto product = [&](const Tensors& x) { return Tensors{*try_dense_bias_act(x[0], x[1], x[2], relu)}; };
      const auto plain = [&](const Tensors& x) {
        const at::Tensor y = at::addmm(aten(x[2]), aten(x[0]), aten(x[1]));
        return Tensors{wrap(relu ? at::relu(y) : y)};
      };
      const Results got = results_of(product, inputs, false), want = results_of(plain, inputs, false);
      expect_close(got.values, want.values, what, 1e-5);
      expect_close(got.gradients, want.gradients, what, 1e-5);
      const int threads = intra_op_threads();
      for (const int count : {1, 5}) {
        set_intra_op_threads(count);
        const Results other = results_of(product, inputs, false);
        expect_same_bytes(other.values, got.values, what);
        expect_same_bytes(other.gradients, got.gradients, what);
      }
      set_intra_op_threads(threads);
    }
  }
}

TEST(Composite, ConvLstms) {
  const char* const names[] = {"tanh", "sigmoid", "relu", "hard_sigmoid", "linear"};
  for (unsigned seed = 0; seed < 24; ++seed) {
    Numbers numbers(seed);
    const std::int64_t batch = numbers.whole(1, 4), steps = numbers.whole(1, 4), units = numbers.whole(1, 20),
                       height = seed % 3 == 0 ? 1 : numbers.whole(4, 9), width = numbers.whole(4, 12);
    const Ints state{batch, height, width, units};
    Tensors inputs = {
        numbers.tensor({batch, steps, height, width, 4 * units}),
        numbers.tensor({height == 1 ? 1 : numbers.whole(1, 5), numbers.whole(1, 5), units, 4 * units}, 0.3)};
    const bool given = numbers.coin();
    if (given) inputs.push_back(numbers.tensor(state)), inputs.push_back(numbers.tensor(state));
    const ConvLstmOptions options{.activation = names[seed % 5],
                                  .recurrent_activation = seed % 2 ? "sigmoid" : "hard_sigmoid",
                                  .sequences = numbers.coin(),
                                  .backwards = numbers.coin()};
    compare(
        [&](const Tensors& x) -> Tensors {
          const auto made = try_conv_lstm(x[0], x[1], given ? x[2] : Tensor(), given ? x[3] : Tensor(), options);
          if (seed % 4 == 3) return {made->output};
          return {made->output, made->h, made->c};
        },
        inputs, fmt::format("ConvLSTM {}", seed), 1e-4);
  }
}

// Conv1D's windows of one row.
TEST(Composite, ConvolutionsOfLines) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Numbers numbers(seed);
    const std::int64_t window = numbers.whole(3, 12), dilation = seed % 3 == 2 ? numbers.whole(2, 3) : 1,
                       steps = (window - 1) * dilation + numbers.whole(8, 150), in = numbers.whole(16, 40),
                       out = numbers.whole(16, 70);
    const ConvOptions options{.padding = numbers.coin() ? "SAME" : "VALID", .dilations = {1, dilation}};
    const Tensors inputs = {numbers.tensor({numbers.whole(1, 6), 1, steps, in}), numbers.tensor({1, window, in, out})};
    compare([&](const Tensors& x) -> Tensors { return {conv2d(x[0], x[1], options)}; }, inputs,
            fmt::format("line {}", seed), 1e-4);
  }
}

TEST(Composite, ConvolutionsOfVolumes) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    Numbers numbers(seed);
    const auto extents = [&](std::int64_t low, std::int64_t high) {
      return Ints{numbers.whole(low, high), numbers.whole(low, high), numbers.whole(low, high)};
    };
    Ints size = extents(1, 3), at = extents(4, 9);
    std::int64_t in = numbers.whole(1, 20), out = numbers.whole(1, 20);
    Ints strides = {1, 1, 1}, dilations = strides;
    (numbers.coin() ? strides : dilations) = extents(1, 2);
    if (seed % 4 == 3) {  // slices that are convolved by Winograd's algorithm
      size[1] = size[2] = 3, strides[1] = strides[2] = dilations[1] = dilations[2] = 1;
      in = numbers.whole(16, 24), out = numbers.whole(16, 24);
    }
    const bool same = numbers.coin();
    for (std::size_t i = 0; i < 3 && !same; ++i) dilations[i] = 1;
    const ConvOptions options{
        .strides = strides, .padding = same ? "SAME" : "VALID", .dilations = dilations, .data_format = "NDHWC"};
    const Tensors inputs = {numbers.tensor({2, at[0], at[1], at[2], in}),
                            numbers.tensor({size[0], size[1], size[2], in, out})};
    compare([&](const Tensors& x) -> Tensors { return {conv3d(x[0], x[1], options)}; }, inputs,
            fmt::format("volume {}", seed), 1e-4);
    const Results got =
        results_of([&](const Tensors& x) -> Tensors { return {conv3d(x[0], x[1], options)}; }, inputs, false);
    const Results want = results_of(  // float64: LibTorch's
        [&](const Tensors& x) -> Tensors {
          return {cast(conv3d(cast(x[0], DType::kFloat64), cast(x[1], DType::kFloat64), options), DType::kFloat32)};
        },
        inputs, false);
    expect_close(got.values, want.values, fmt::format("volume {}", seed), 1e-5);
    expect_close(got.gradients, want.gradients, fmt::format("volume {}", seed), 1e-5);
    // The transposed convolution, back to the shape of inputs[0].
    const auto transposed = [&](const Tensors& x) -> Tensors {
      return {call1("Conv3DBackpropInputV2", {constant_ints(inputs[0].shape().dims()), x[1], x[0]},
                    {{"strides", Ints{1, strides[0], strides[1], strides[2], 1}},
                     {"dilations", Ints{1, dilations[0], dilations[1], dilations[2], 1}},
                     {"padding", std::string(options.padding)}})};
    };
    const Tensors given = {numbers.tensor(aten(got.values[0]).sizes().vec()), inputs[1]};
    compare(transposed, given, fmt::format("transposed volume {}", seed), 1e-4);
    Tensors wide;
    for (const Tensor& x : given) wide.push_back(cast(x, DType::kFloat64));
    expect_close(transposed(given), transposed(wide), fmt::format("transposed volume {}", seed), 1e-5);
  }
}

TEST(Composite, CrossEntropy) {
  for (const auto& [rows, classes] : {std::pair{1, 1}, {3, 10}, {5, 17}, {64, 2}, {300, 1000}}) {
    Numbers numbers(static_cast<unsigned>(rows));
    const Tensor logits = numbers.tensor({rows, classes}, 5.0), shares = softmax(numbers.tensor({rows, classes}));
    at::Tensor index = at::empty({rows}, at::kInt);
    for (int i = 0; i < rows; ++i) index[i] = numbers.whole(0, classes - 1);
    const std::string what = fmt::format("{} x {}", rows, classes);
    compare([&](const Tensors& x) -> Tensors { return {*try_softmax_cross_entropy(x[0], wrap(index))}; }, {logits},
            what + " by class");
    compare([&](const Tensors& x) -> Tensors { return {*try_softmax_cross_entropy(x[0], x[1])}; }, {logits, shares},
            what + " by shares");
    // The operations of graphs, whose second output is the gradient.
    for (const auto& [name, labels] : {std::pair{"SparseSoftmaxCrossEntropyWithLogits", wrap(index)},
                                       std::pair{"SoftmaxCrossEntropyWithLogits", shares}}) {
      const Results got = results_of(
          [&](const Tensors& x) {
            return Tensors{call(name, {x[0], labels})[0]};
          },
          {logits}, false);
      const Results want = results_of(
          [&](const Tensors& x) { return Tensors{*try_softmax_cross_entropy(x[0], labels)}; }, {logits}, false);
      expect_close(got.values, want.values, what + name, 1e-6);
      expect_close(got.gradients, want.gradients, what + name, 1e-6);
      const Tensors twice =
          call(name, {cast(logits, DType::kFloat64), name[1] == 'p' ? labels : cast(labels, DType::kFloat64)});
      expect_close(call(name, {logits, labels}), twice, what + name + " float64", 1e-5);
    }
  }
  // Logits that are infinite or not numbers give what LibTorch gives.
  const Tensor odd =
      Tensor::from_vector(std::vector<float>{INFINITY, 0, 1, -INFINITY, 0, 1, NAN, 0, 1, 1e30f, 0, 1}, Shape{4, 3});
  for (const std::int64_t label : {0, 1}) {
    const Tensor labels = constant_ints({label, label, label, label});
    const at::Tensor got = aten(*try_softmax_cross_entropy(odd, labels));
    const ScopedPlain plain;
    EXPECT_TRUE(at::allclose(got, aten(*try_softmax_cross_entropy(odd, labels)), 1e-6, 1e-6, true)) << got;
  }
}

}  // namespace
}  // namespace lockstep::ops

// Tensors and variables: constants, indexing, shapes, broadcasting, reductions, dtypes, strings, and assignment.
#include "guide.h"

namespace {

using ls::Tensor;
namespace ops = ls::ops;

// The elements in row-major order.
std::vector<double> elements(const Tensor& tensor) {
  return ops::cast(tensor, ls::DType::kFloat64).to_vector<double>();
}

}  // namespace

void tensors_and_variables(const std::string& folder) {
  namespace keras = ls::keras;
  using Slice = ops::SliceSpec;
  ls::random::set_random_seed(42);

  const auto rank_0_tensor = Tensor::scalar(4);
  const Tensor rank_1_tensor = {2.0, 3.0, 4.0};
  const Tensor rank_2_tensor({{1, 2}, {3, 4}, {5, 6}}, ls::DType::kFloat16);
  const Tensor rank_3_tensor = {{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}},
                                {{10, 11, 12, 13, 14}, {15, 16, 17, 18, 19}},
                                {{20, 21, 22, 23, 24}, {25, 26, 27, 28, 29}}};
  report("scalar", rank_0_tensor);
  report("size", static_cast<double>(rank_3_tensor.num_elements()));
  report("ndim", rank_3_tensor.rank());
  report("last_axis", static_cast<double>(rank_3_tensor.shape()[-1]));
  report("half", ops::reduce_sum(rank_2_tensor));
  report("vector", rank_1_tensor[1]);

  // Arithmetic.
  const Tensor a = {{1, 2}, {3, 4}};
  const Tensor b = {{1, 1}, {1, 1}};
  const ls::Tensors results = {a + b,
                               a * b,
                               ops::matmul(a, b),
                               a - 3 * b,
                               -a,
                               ops::floor_div(a, Tensor::scalar(2)),
                               ops::floor_mod(a, Tensor::scalar(3))};
  for (const auto& result : results) {
    for (const double value : elements(result)) report("arithmetic", value);
  }
  for (const double value : elements(a / b)) report("true_division", value);
  const Tensor c = {{4.0, 5.0}, {10.0, 1.0}};
  report("max", ops::reduce_max(c));
  for (const double value : elements(ops::argmax(c, 1))) report("argmax", value);
  for (const double value : elements(ls::nn::softmax(c))) report("softmax", value);

  // Indexing and slices.
  const Tensor fibonacci = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
  report("first", fibonacci[0]);
  report("last", fibonacci[-1]);
  const ls::Tensors parts = {fibonacci[{{}, 4}], fibonacci[{4, {}}], fibonacci[{2, 7}], fibonacci[{{}, {}, 2}],
                             fibonacci[{{}, {}, -1}]};
  for (const auto& part : parts) report("slice", ops::reduce_sum(part * ops::range(part.dim(0))));
  report("element", ops::strided_slice(rank_2_tensor, {Slice::at(1), Slice::at(1)}));
  report("column", ops::reduce_sum(ops::strided_slice(rank_2_tensor, {Slice::all(), Slice::at(1)})));
  report("features", ops::reduce_sum(ops::strided_slice(rank_3_tensor, {Slice::all(), Slice::all(), Slice::at(4)})));
  report("gather", ops::reduce_sum(ops::gather(fibonacci, {0, 3, 6}) * Tensor{1, 10, 100}));
  report("gather_nd", ops::gather_nd(rank_3_tensor, {1, 1, 3}));
  report("where", ops::reduce_sum(ops::where(ops::greater(fibonacci, 5), fibonacci, -fibonacci)));

  // Shapes.
  const Tensor x = {{1}, {2}, {3}};
  report("reshaped", ops::reshape(x, {1, 3})[0][2]);
  const std::pair<ops::Ints, int> shapes[] = {{{-1}, 0}, {{3 * 2, 5}, 0}, {{3, -1}, 1}};
  for (const auto& [shape, axis] : shapes)
    report("reshape", ops::reduce_sum(ops::cumsum(ops::reshape(rank_3_tensor, shape), axis)));
  report("transposed", ops::reduce_sum(ops::transpose(rank_3_tensor, {2, 0, 1})[3]));
  report("expanded", static_cast<double>(ops::expand_dims(x, 0).dim(0)));
  report("concatenated", ops::reduce_sum(ops::concat({x, x * 2}, 0)));
  report("stacked", static_cast<double>(ops::stack({x, x}, 1).dim(1)));
  report("tiled", ops::reduce_sum(ops::tile(x, {2, 3})));
  report("squeezed", ops::squeeze(x)[1]);

  // Types.
  const Tensor the_f64_tensor({2.2, 3.3, 4.4}, ls::DType::kFloat64);
  const auto the_f16_tensor = ops::cast(the_f64_tensor, ls::DType::kFloat16);
  const auto the_u8_tensor = ops::cast(the_f16_tensor, ls::DType::kUInt8);
  report("float16", ops::reduce_sum(ops::cast(the_f16_tensor, ls::DType::kFloat64)));
  report("uint8", ops::reduce_sum(ops::cast(the_u8_tensor, ls::DType::kInt32)));

  // Broadcasting.
  const auto x_1 = ops::reshape(Tensor{1, 2, 3}, {3, 1});
  const auto y = ops::range(Tensor::scalar(1), Tensor::scalar(5), Tensor::scalar(1));
  for (const double value : elements(ops::mul(x_1, y))) report("outer", value);
  report("broadcast", ops::reduce_sum(ops::broadcast_to(Tensor{1, 2, 3}, {3, 3})));
  report("einsum", ops::reduce_sum(ops::einsum("ij,kj->ik", {c, c})));

  // Strings.
  const Tensor words = {"Gray wolf", "Quick brown fox", "Lazy dog"};
  report("strings", static_cast<double>(words.dim(0)));
  report("letters", static_cast<double>(words[2].string_values()[0].size()));

  // Variables.
  const ls::Variable my_variable({{1.0, 2.0}, {3.0, 4.0}});
  report("index", ops::argmax(my_variable, 0)[0]);
  report("read", ops::reduce_sum(my_variable * 2.0));
  const ls::Variable v({2.0, 3.0});
  v.assign({1.0, 2.0});
  v.assign_add({2.0, 3.0});
  v.assign_sub({7.0, 9.0});
  for (const double value : elements(v)) report("assigned", value);
  const ls::Variable w(v.value());
  w.assign(v * 2.0);
  report("copy", ops::reduce_sum(v) + 10.0 * ops::reduce_sum(w));
  const ls::Variable step_counter(1, {.trainable = false});
  step_counter.assign_add(1);
  report("step", step_counter);

  // Random numbers.
  report("normal", ops::reduce_sum(ls::random::normal({3, 4}, {.seed = 7})));
  report("uniform", ops::reduce_sum(ls::random::uniform({5}, {.minval = -1.0, .maxval = 1.0, .seed = 9})));
  for (const double value : elements(ls::random::randint({4}, 0, 100, {.seed = 5}))) report("randint", value);

  const keras::Sequential model({ls::layers::Input({4}), ls::layers::Dense(2)});
  report("model", ops::reduce_sum(model(waves({3, 4}, 0.3))));
  model.save(folder + "/model.keras");
}

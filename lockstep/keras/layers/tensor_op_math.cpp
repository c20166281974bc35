// keras.ops.math and keras.ops.core
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras::tensor_ops {

void add_math_and_core(Rows& rows) {
  rows["Rsqrt"] = {"Rsqrt", "keras.src.ops.math", floating(ops::rsqrt)};
  rows["Erf"] = {"Erf", "keras.src.ops.math", floating(ops::erf)};
  rows["Logsumexp"] = {"Logsumexp", "keras.src.ops.math", reduction(ops::reduce_logsumexp, false, true)};
  rows["Cast"] = {"Cast", "keras.src.ops.core", [](const CallArguments& call, const Json& config) {
                    return Structure(ops::cast(tensor_operand(call), dtype_of(get(config, "dtype"))));
                  }};
  // What is a tensor already stays as it is, but for its dtype.
  rows["ConvertToTensor"] = {"ConvertToTensor", "keras.src.ops.core",
                             [](const CallArguments& call, const Json& config) {
                               const Tensor x = tensor_operand(call);
                               return Structure(ops::cast(ops::identity(x), dtype_or(config, x.dtype())));
                             }};
  rows["Erfc"] = {"Erfc", "keras.src.ops.math", floating(ops::erfc)};
  rows["StopGradient"] = {"StopGradient", "keras.src.ops.core", unary(ops::stop_gradient)};
  const auto math = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.math", std::move(run)}; };
  const auto core = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.core", std::move(run)}; };
  math("Erfinv", floating([](const Tensor& x) { return ops::call1("Erfinv", {x}); }));
  math("TopK", [](const CallArguments& call, const Json& config) {
    const ops::TopK best = ops::top_k(tensor_operand(call), get(config, "k").get<std::int64_t>());
    return Structure::list({best.values, best.indices});
  });
  math("InTopK", [](const CallArguments& call, const Json& config) {
    return Structure(ops::in_top_k(ops::cast(tensor_operand(call, 0, "targets"), DType::kInt32),
                                   floating_operand(call, 1, "predictions"), get(config, "k").get<std::int64_t>()));
  });
  core("Unstack", [](const CallArguments& call, const Json& config) {
    Structure::List out;
    for (Tensor& each : ops::unstack(tensor_operand(call), axis_or(config, 0))) out.emplace_back(std::move(each));
    return Structure::list(std::move(out));
  });
  core("Slice", [](const CallArguments& call, const Json& config) {
    const Tensor start = tensor_operand(call, 1, "start_indices");
    Tensors sizes;
    const Tensor x = tensor_operand(call, 0, "inputs");
    const Json shape = get(config, "shape");
    for (int i = 0; i < x.rank(); ++i) {
      const Json size = shape.at(static_cast<std::size_t>(i));
      sizes.push_back(size.is_null() ? ops::dim_of(x, i) : Tensor::scalar(size.get<std::int32_t>()));
    }
    return Structure(ops::slice(x, ops::cast(start, DType::kInt32), ops::stack(sizes)));
  });
  core("SaturateCast", [](const CallArguments& call, const Json& config) {
    return Structure(ops::saturate_cast(tensor_operand(call), dtype_of(get(config, "dtype"))));
  });
}

}  // namespace lockstep::keras::tensor_ops

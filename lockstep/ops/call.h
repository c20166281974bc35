// Calling an operation: run it now, or record it where a graph is being built.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

// Takes operations down instead of running them: a tracer, a functional model under construction.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // `attrs` is complete: type and number attributes inferred, defaults filled in. Returns symbols.
  virtual Tensors record(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs) = 0;
  // `results` of `arguments`, whose gradients a function computes; without them where only shapes are inferred.
  using Gradient = std::function<Tensors(const Tensors& dys)>;
  virtual Tensors record_gradient(const Tensors& results, const Tensors& arguments, const Gradient& gradient);
};

// Runs `name` on the inputs (a list argument's tensors stand in line), or records it when an input is
// symbolic or, for stateful operations and reads of variables, when a recorder is active on this
// thread. Type and number attributes are inferred from the inputs where absent.
// Throws Unimplemented for an operation without a kernel, InvalidArgument for inputs that do not fit
// (naming the operation, shapes and dtypes); LibTorch's exceptions are translated here.
Tensors call(std::string_view name, std::span<const Tensor> inputs, Attrs attrs = {});
Tensors call(std::string_view name, std::initializer_list<Tensor> inputs, Attrs attrs = {});
// For operations with exactly one output.
Tensor call1(std::string_view name, std::initializer_list<Tensor> inputs, Attrs attrs = {});
Tensor call1(std::string_view name, std::span<const Tensor> inputs, Attrs attrs = {});

// Runs the kernel on values whatever recorder is active; `attrs` must be complete.
Tensors run_kernel(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs);

// Completes attributes and checks inputs against the signature.
Attrs complete_attrs(const Signature& signature, std::span<const Tensor> inputs, Attrs attrs);

struct OutputType {
  DType dtype;
  Shape shape;
};
// Dtypes by the signature and shapes by the row's rule, for recorders.
std::vector<OutputType> infer_outputs(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs);

// While one lives, this thread's stateful operations and variable reads go to `recorder`.
class ScopedRecorder {
 public:
  explicit ScopedRecorder(Recorder* recorder);
  ~ScopedRecorder();
  ScopedRecorder(const ScopedRecorder&) = delete;
  ScopedRecorder& operator=(const ScopedRecorder&) = delete;
  static Recorder* active();

 private:
  Recorder* previous_;
};

}  // namespace lockstep::ops

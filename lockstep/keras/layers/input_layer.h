// Where values enter a model.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/dtype_like.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

// A name, or None for a default one.
class OptionalName : public std::string {
 public:
  OptionalName() = default;
  OptionalName(std::nullopt_t) {}
  template <std::convertible_to<std::string_view> T>
  OptionalName(const T& name) : std::string(std::string_view(name)) {}
};

// A dtype by name, "int32", or as lockstep::int32.
class DTypeName : public OptionalName {
 public:
  using OptionalName::OptionalName;
  DTypeName(DType dtype) : OptionalName(dtype_name(dtype)) {}
  template <std::derived_from<DTypeLike> T>  // np::float32
  DTypeName(const T& dtype) : DTypeName(static_cast<DType>(dtype)) {}
};

struct InputOptions {
  std::optional<std::int64_t> batch_size = std::nullopt;
  DTypeName dtype = {};  // default: the policy's compute dtype
  bool sparse = false;
  bool ragged = false;
  OptionalName name = {};
  bool optional = false;
};

// The placeholder layer of a functional model; its one call's output is the input tensor.
class InputLayer : public Layer {
 public:
  // `batch_shape` includes the batch axis. Throws InvalidArgument for negative extents and unknown dtypes.
  static std::shared_ptr<InputLayer> create(Shape batch_shape, const InputOptions& options = {});
  static std::shared_ptr<InputLayer> from_config(const Json& config);

  Json module() const override { return "keras.layers"; }
  Json get_config() const override;
  Structure call(const Structure& inputs, const CallContext& context) override;
  bool supports_masking() const override { return true; }
  const Shape& batch_shape() const { return batch_shape_; }
  DType input_dtype() const { return dtype_; }
  bool optional() const { return options_.optional; }
  Tensor output() { return outputs_of(0).leaf(); }

 private:
  InputLayer(Shape batch_shape, const InputOptions& options);
  Shape batch_shape_;
  InputOptions options_;
  DType dtype_ = DType::kFloat32;
};

}  // namespace lockstep::keras

namespace lockstep::layers {

using InputOptions = keras::InputOptions;

Tensor make_input(const Shape& shape, const InputOptions& options);
// keras.Input: a symbolic tensor. `shape` is without the batch axis, kUnknownDim for None.
template <std::convertible_to<Shape> S = Shape>
Tensor Input(const S& shape, const InputOptions& options = {}) {
  return make_input(shape, options);
}
// All arguments by name: Input({.shape = {28, 28}, .name = "image"}).
struct InputKeywords {
  FieldNamesOnly names_only = {};
  Shape shape = {};
  std::optional<std::int64_t> batch_size = std::nullopt;
  keras::DTypeName dtype = {};
  bool sparse = false;
  bool ragged = false;
  Shape batch_shape = Shape::unknown_rank();  // with the batch axis, in the place of shape and batch_size
  keras::OptionalName name = {};
};
Tensor Input(const InputKeywords& keywords);
// The same from a shape with its batch axis.
Tensor InputWithBatchShape(const Shape& batch_shape, const InputOptions& options = {});

}  // namespace lockstep::layers

namespace lockstep::keras {
using layers::Input;
}
namespace lockstep {
using layers::Input;
}

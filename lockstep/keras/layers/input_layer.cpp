#include "lockstep/keras/layers/input_layer.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"

namespace lockstep::keras {
namespace {

// A dtype, for which configs may hold a policy; empty for null.
struct InputDtype {
  std::string& name;
};
// Either shape may be given; configs are written with batch_shape.
struct InputArguments {
  std::optional<Ints> batch_shape = {}, shape = {};
  InputOptions options = {};
};

template <typename V>
void fields(V& v, InputArguments& a) {
  v.renamed("batch_input_shape", "batch_shape", Dims{a.batch_shape});
  v.renamed("input_shape", "shape", Dims{a.shape});
  v("batch_shape", Dims{a.batch_shape});
  v("shape", Dims{a.shape}, Field::kUnwritten);
  v("batch_size", a.options.batch_size, Field::kUnwritten);
  v("dtype", InputDtype{a.options.dtype});
  v("sparse", a.options.sparse);
  v("ragged", a.options.ragged);
  v("name", NullAs{a.options.name, ""});
  v("optional", a.options.optional);
  for (const char* key : {"input_tensor", "type_spec", "trainable", "input_dtype", "autocast"}) v.dropped(key);
}

}  // namespace

template <>
struct FieldType<InputDtype> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "dtype, policy or null"; }
  static bool read(const Json& found, const InputDtype& v) {
    if (found.is_null()) return true;
    v.name = found.is_string() ? found.get<std::string>() : DTypePolicy::from_config(found).name();
    return true;
  }
  static Json write(const InputDtype& v) { return v.name.empty() ? Json(nullptr) : Json(v.name); }
};

InputLayer::InputLayer(Shape batch_shape, const InputOptions& options)
    : Layer("InputLayer", {.name = options.name}), batch_shape_(std::move(batch_shape)), options_(options) {
  dtype_ = compute_dtype();
  if (!options.dtype.empty()) {
    const auto parsed = parse_dtype(options.dtype);
    if (!parsed) throw_invalid_argument(fmt::format("InputLayer '{}': unknown dtype '{}'", name(), options.dtype));
    dtype_ = *parsed;
  }
  for (std::int64_t dim : batch_shape_.dims()) {
    if (dim < kUnknownDim) {
      throw_invalid_argument(
          fmt::format("InputLayer '{}': shape {} has a negative entry", name(), batch_shape_.to_string()));
    }
  }
  set_built_in_constructor();
}

std::shared_ptr<InputLayer> InputLayer::create(Shape batch_shape, const InputOptions& options) {
  std::shared_ptr<InputLayer> layer(new InputLayer(std::move(batch_shape), options));
  layer->add_node({}, TensorInfo{layer->dtype_, layer->batch_shape_});
  return layer;
}

std::shared_ptr<InputLayer> InputLayer::from_config(const Json& config) {
  FieldReader reader("InputLayer", config);
  InputArguments arguments;
  fields(reader, arguments);
  reader.finish();
  auto& [batch_shape, shape, options] = arguments;
  if (!batch_shape) {
    if (!shape) throw_invalid_argument(fmt::format("InputLayer '{}' requires batch_shape or shape", options.name));
    batch_shape = std::move(shape);
    batch_shape->insert(batch_shape->begin(), options.batch_size.value_or(kUnknownDim));
  }
  return create(Shape(std::move(*batch_shape)), options);
}

std::vector<FieldDescription> describe_input_layer() { return describe_fields<InputArguments>(); }

Json InputLayer::get_config() const {
  InputArguments arguments{batch_shape_.dims(), {}, options_};
  arguments.options.dtype = dtype_name(dtype_);
  arguments.options.name = name();
  return with_fields(nullptr, arguments);
}

Structure InputLayer::call(const Structure& inputs, const CallContext&) { return inputs; }

}  // namespace lockstep::keras

namespace lockstep::layers {

Tensor InputWithBatchShape(const Shape& batch_shape, const InputOptions& options) {
  return keras::InputLayer::create(batch_shape, options)->output();
}

Tensor make_input(const Shape& shape, const InputOptions& options) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.insert(dims.begin(), options.batch_size.value_or(kUnknownDim));
  return InputWithBatchShape(Shape(std::move(dims)), options);
}

Tensor Input(const InputKeywords& keywords) {
  InputOptions options{
      .dtype = keywords.dtype, .sparse = keywords.sparse, .ragged = keywords.ragged, .name = keywords.name};
  if (keywords.batch_shape.known_rank()) return InputWithBatchShape(keywords.batch_shape, options);
  options.batch_size = keywords.batch_size;
  return make_input(keywords.shape, options);
}

}  // namespace lockstep::layers

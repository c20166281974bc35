#include "lockstep/keras/layers/normalization.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/layers/batch_normalization_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/following_internal.h"
#include "lockstep/keras/layers/multi_axis_normalization_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// Keras's functions give the dtype of their input, which rounds if that is an integer.
Tensor cast_back(const Tensor& y, DType given, DType layer) { return ops::cast(ops::cast(y, given), layer); }

int checked_axis(std::int64_t axis, const Shape& shape, const std::string& who) {
  const int rank = shape.rank();
  if (axis < -rank || axis >= rank)
    throw_invalid_argument(fmt::format("{}: axis {} is not among the axes of {}", who, axis, shape.to_string()));
  const int at = static_cast<int>(axis < 0 ? axis + rank : axis);
  if (shape[at] == kUnknownDim) {
    throw_invalid_argument(
        fmt::format("{}: axis {} of its input must be known, found shape {}", who, axis, shape.to_string()));
  }
  return at;
}

ops::Ints broadcast_shape(const Tensor& x, const std::vector<int>& axes) {
  ops::Ints shape(static_cast<std::size_t>(x.rank()), 1);
  for (int axis : axes) shape[static_cast<std::size_t>(axis)] = x.dim(axis);
  return shape;
}

bool is_last_axis(const std::vector<std::int64_t>& axes, const Tensor& x) {
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == x.rank() - 1);
}

class BatchNormalizationLayer : public ConfiguredLayer<BatchNormalizationLayer, BatchNormalizationOptions>,
                                public OldRules {
 public:
  static constexpr const char* kClass = "BatchNormalization";
  template <typename V>
  static void fields(V& v, BatchNormalizationOptions& o) {
    v.dropped("fused");
    v.dropped("adjustment");
    v.dropped("virtual_batch_size", -1);
    v.dropped("mode", 0);
    v("axis", OneAxis{o.axis});
    batch_normalization_fields(v, o);
    v("synchronized", o.synchronized);
    v("renorm", o.renorm);
    v("renorm_clipping", o.renorm_clipping);
    v("renorm_momentum", null_unless(o.renorm, o.renorm_momentum));
  }
  explicit BatchNormalizationLayer(BatchNormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.renorm) read_clipping();
  }
  // Of Keras 2, which computes images and volumes with TensorFlow's fused operation: it takes no masks, and its
  // variance for the moving statistics has the divisor n - 1.
  void use_fused_statistics() { fused_statistics_ = true; }
  // Of Keras 1, whose statistics are of all elements.
  void ignore_masks() { ignores_masks_ = true; }

  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "training", "mask"}; }
  std::vector<InputSpec> input_spec() const override {
    if (!weights_.moving_mean) return {};
    return {InputSpec{.ndim = rank_, .axes = {{static_cast<int>(options_.axis), weights_.moving_mean->shape()[0]}}}};
  }

  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    rank_ = shape.rank();
    const Shape channels = {shape[checked_axis(options_.axis, shape, fmt::format("BatchNormalization '{}'", name()))]};
    const auto add = [&](WeightOptions weight) { return add_weight(std::move(weight)); };
    weights_ = add_batch_normalization_weights(options_, channels, add);
    if (!options_.renorm) return;
    // As Keras does, from copies of the initializers, so that random ones without a seed draw other values.
    const auto copy = [](const initializers::InitializerArg& initializer) {
      return initializers::get(initializers::serialize(initializer.object()));
    };
    const auto stddev = [&]() -> initializers::InitializerPtr {
      return initializers::Initializer::of_function(
          [variance = copy(options_.moving_variance_initializer)](const Shape& shape, DType dtype) {
            return ops::sqrt(variance(shape, dtype));
          });
    };
    moving_stddev_ = add(moving_weight("moving_stddev", channels, stddev()));
    renorm_mean_ = add(moving_weight("renorm_mean", channels, copy(options_.moving_mean_initializer)));
    renorm_stddev_ = add(moving_weight("renorm_stddev", channels, stddev()));
  }

  std::optional<ops::FixedNorm> fixed() const {
    if (!weights_.moving_mean || (options_.axis != -1 && options_.axis != rank_ - 1)) return std::nullopt;
    if (compute_dtype() != DType::kFloat32 || weights_.moving_mean->dtype() != DType::kFloat32) return std::nullopt;
    const auto read = [](const VariablePtr& variable) { return variable ? variable->read() : Tensor(); };
    return ops::FixedNorm{read(weights_.gamma), read(weights_.beta), read(weights_.moving_mean),
                          read(weights_.moving_variance), options_.epsilon.value};
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& given = inputs.leaf();
    const DType dtype = wide(given.dtype());
    const Tensor x = ops::cast(given, dtype);
    const auto read = [&](const VariablePtr& variable) { return read_as(variable, dtype); };
    const bool last_axis = options_.axis == -1 || options_.axis == rank_ - 1;
    Tensor mean = read(weights_.moving_mean), variance = read(weights_.moving_variance);
    Tensor gamma = read(weights_.gamma), beta = read(weights_.beta);
    if (context.training && trainable()) {
      const bool fused_statistics = computes_fused_statistics();
      const bool masked = context.mask.is_leaf() && !fused_statistics && !ignores_masks_;
      const Tensor mask = masked ? context.mask.leaf() : Tensor();
      if (last_axis && !mask.defined() && !options_.renorm && !synchronizing_replica(x)) {
        if (auto fused = ops::try_batch_norm(x, gamma, beta, options_.epsilon.value)) {
          update(weights_.moving_mean, mean, fused->mean);
          update(weights_.moving_variance, variance, unbiased(fused->variance, x, fused_statistics));
          return ops::cast(fused->y, compute_dtype());
        }
      }
      const ops::Moments batch = moments(x, mask);
      if (options_.renorm) {
        renormalize(batch, gamma, beta);
      } else {
        update(weights_.moving_mean, mean, batch.mean);
        update(weights_.moving_variance, variance, unbiased(batch.variance, x, fused_statistics));
      }
      mean = batch.mean;
      variance = batch.variance;
    }
    Tensor factor = ops::rsqrt(variance + options_.epsilon.value);
    if (gamma.defined()) factor = factor * gamma;
    Tensor shift = ops::neg(mean * factor);
    if (beta.defined()) shift = shift + beta;
    if (last_axis) {
      if (auto fused = ops::try_scale_shift(x, factor, shift)) return ops::cast(*fused, compute_dtype());
    } else {
      const int axis = static_cast<int>(options_.axis < 0 ? options_.axis + rank_ : options_.axis);
      const ops::Ints shape = broadcast_shape(x, {axis});
      factor = ops::reshape(factor, shape);
      shift = ops::reshape(shift, shape);
    }
    return ops::cast(x * factor + shift, compute_dtype());
  }

 private:
  ops::Ints reduction_axes(const Tensor& x) const {
    ops::Ints axes;
    const int kept = static_cast<int>(options_.axis < 0 ? options_.axis + rank_ : options_.axis);
    for (int i = 0; i < x.rank(); ++i) {
      if (i != kept) axes.push_back(i);
    }
    return axes;
  }

  bool computes_fused_statistics() const {
    const bool channels =
        options_.axis == -1 || options_.axis == rank_ - 1 || options_.axis == 1 || options_.axis == 1 - rank_;
    return fused_statistics_ && (rank_ == 4 || rank_ == 5) && channels && !options_.renorm && !options_.synchronized &&
           compute_dtype() != DType::kFloat64;
  }

  // The variance of a batch with the divisor n - 1, if it is requested and n is greater than 1.
  Tensor unbiased(const Tensor& variance, const Tensor& x, bool wanted) const {
    if (!wanted) return variance;
    const DType dtype = variance.dtype();
    const auto size = [&](const Tensor& t) { return ops::cast(ops::reduce_prod(ops::shape_of(t)), dtype); };
    const Tensor n = size(x) / size(variance);
    return variance * (n / ops::maximum(n - 1.0, 1.0));
  }

  // With which the moments are shared; null: with nobody.
  distribute::ReplicaContext* synchronizing_replica(const Tensor& x) const {
    distribute::ReplicaContext* const replica = options_.synchronized ? distribute::get_replica_context() : nullptr;
    return replica && replica->num_replicas_in_sync() > 1 && !x.is_symbolic() ? replica : nullptr;
  }

  // Mean and biased variance over all axes but the channels', of the elements that count.
  ops::Moments moments(const Tensor& x, const Tensor& mask) const {
    const ops::Ints axes = reduction_axes(x);
    distribute::ReplicaContext* const replica = synchronizing_replica(x);
    if (!mask.defined() && !replica) return ops::moments(x, axes);
    Tensor weight = mask.defined() ? ops::expand_dims(ops::cast(mask, x.dtype()), -1) : ops::ones_like(x);
    Tensor total = ops::reduce_sum(ops::broadcast_to(weight, ops::shape_of(x)), axes);
    Tensor sum = ops::reduce_sum(x * weight, axes);
    if (replica) {
      total = replica->all_reduce(distribute::ReduceOp::kSum, total);
      sum = replica->all_reduce(distribute::ReduceOp::kSum, sum);
    }
    const double tiny = mask.defined() ? backend::epsilon() : 0.0;
    const Tensor mean = sum / (total + tiny);
    const Tensor centered = x - ops::reshape(mean, channel_shape(x));
    Tensor squares = ops::reduce_sum(ops::square(centered) * weight, axes);
    if (replica) squares = replica->all_reduce(distribute::ReduceOp::kSum, squares);
    return {mean, squares / (total + tiny)};
  }
  ops::Ints channel_shape(const Tensor& x) const {
    return broadcast_shape(x, {static_cast<int>(options_.axis < 0 ? options_.axis + rank_ : options_.axis)});
  }

  void update(const VariablePtr& moving, const Tensor& old, const Tensor& batch) const {
    assign_as(moving, moving_average(old, batch, options_.momentum));
  }

  void read_clipping() {
    const std::string who = fmt::format("BatchNormalization '{}': renorm_clipping", name());
    if (options_.renorm_clipping.is_null()) options_.renorm_clipping = Json::object();
    if (!options_.renorm_clipping.is_object())
      throw_invalid_argument(fmt::format("{} is {}, expected an object with rmax, rmin and dmax", who,
                                         dump_json(options_.renorm_clipping).substr(0, 60)));
    for (const auto& [key, value] : options_.renorm_clipping.items()) {
      std::optional<double>* const bound = key == "rmax"   ? &rmax_
                                           : key == "rmin" ? &rmin_
                                           : key == "dmax" ? &dmax_
                                                           : nullptr;
      if (!bound) throw_invalid_argument(fmt::format("{} has the key '{}', expected rmax, rmin or dmax", who, key));
      if (value.is_null()) continue;
      if (!value.is_number())
        throw_invalid_argument(
            fmt::format("{}: {} is {}, expected a number", who, key, dump_json(value).substr(0, 60)));
      *bound = value.get<double>();
    }
    if (rmax_ && rmin_ && *rmax_ < *rmin_)
      throw_invalid_argument(fmt::format("{}: rmax is {}, less than rmin, which is {}", who, *rmax_, *rmin_));
    if (dmax_ && *dmax_ < 0) throw_invalid_argument(fmt::format("{}: dmax is {}, expected at least 0", who, *dmax_));
  }

  // Batch renormalization (Ioffe 2017): scale and offset such that a batch is normalized by the moving statistics of
  // the training, within the clipping. Updates these and the moving statistics.
  void renormalize(const ops::Moments& batch, Tensor& gamma, Tensor& beta) const {
    const DType dtype = batch.mean.dtype();
    const double epsilon = options_.epsilon;
    const Tensor stddev = ops::sqrt(batch.variance + epsilon);
    const Tensor renorm_mean = read_as(renorm_mean_, dtype), renorm_stddev = read_as(renorm_stddev_, dtype);
    const Tensor divisor = ops::maximum(renorm_stddev, ops::sqrt(Tensor::scalar(epsilon, dtype)));
    Tensor r = stddev / divisor, d = (batch.mean - renorm_mean) / divisor;
    if (rmin_) r = ops::maximum(r, *rmin_);
    if (rmax_) r = ops::minimum(r, *rmax_);
    if (dmax_) d = ops::clip_by_value(d, -*dmax_, *dmax_);
    r = ops::stop_gradient(r);
    d = ops::stop_gradient(d);
    const Tensor offset = gamma.defined() ? d * gamma : d;
    gamma = gamma.defined() ? r * gamma : r;
    beta = beta.defined() ? offset + beta : offset;

    const double momentum = options_.renorm_momentum;
    assign_as(renorm_mean_, moving_average(renorm_mean, batch.mean, momentum));
    assign_as(renorm_stddev_, moving_average(renorm_stddev, stddev, momentum));
    update(weights_.moving_mean, read_as(weights_.moving_mean, dtype), batch.mean);
    const Tensor moving_stddev = moving_average(read_as(moving_stddev_, dtype), stddev, options_.momentum);
    assign_as(moving_stddev_, moving_stddev);
    assign_as(weights_.moving_variance, ops::relu(ops::square(moving_stddev) - epsilon));
  }

  int rank_ = 0;
  bool fused_statistics_ = false, ignores_masks_ = false;
  BatchNormalizationWeights weights_;
  VariablePtr moving_stddev_, renorm_mean_, renorm_stddev_;  // with renorm
  std::optional<double> rmax_, rmin_, dmax_;                 // of renorm_clipping
};

class LayerNormalizationLayer : public ConfiguredLayer<LayerNormalizationLayer, LayerNormalizationOptions> {
 public:
  static constexpr const char* kClass = "LayerNormalization";
  template <typename V>
  static void fields(V& v, LayerNormalizationOptions& o) {
    v("axis", o.axis);
    v("epsilon", null_read_as(o.epsilon, backend::epsilon()));
    v("center", o.center);
    v("scale", o.scale);
    v("rms_scaling", o.rms_scaling);
    v("beta_initializer", o.beta_initializer);
    v("gamma_initializer", o.gamma_initializer);
    v("beta_regularizer", o.beta_regularizer);
    v("gamma_regularizer", o.gamma_regularizer);
    v("beta_constraint", o.beta_constraint);
    v("gamma_constraint", o.gamma_constraint);
  }
  explicit LayerNormalizationLayer(LayerNormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.axis.empty()) throw_invalid_argument(fmt::format("LayerNormalization '{}' needs an axis", name()));
    std::sort(options_.axis.begin(), options_.axis.end());
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    if (!built() && options_.axis.size() == 1) config["axis"] = options_.axis[0];
    return config;
  }
  bool supports_masking() const override { return true; }

  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    Shape kept;
    for (std::int64_t axis : options_.axis) {
      kept.push_back(shape[checked_axis(axis, shape, fmt::format("LayerNormalization '{}'", name()))]);
    }
    if (options_.scale || options_.rms_scaling) {
      gamma_ = add_weight({.shape = kept,
                           .initializer = options_.gamma_initializer.object(),
                           .autocast = false,
                           .regularizer = options_.gamma_regularizer.object(),
                           .constraint = options_.gamma_constraint.object(),
                           .name = "gamma"});
    }
    if (options_.center && !options_.rms_scaling) {
      beta_ = add_weight({.shape = kept,
                          .initializer = options_.beta_initializer.object(),
                          .autocast = false,
                          .regularizer = options_.beta_regularizer.object(),
                          .constraint = options_.beta_constraint.object(),
                          .name = "beta"});
    }
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const DType dtype = wide(inputs.leaf().dtype());
    const Tensor x = ops::cast(inputs, dtype);
    if (!options_.rms_scaling && is_last_axis(options_.axis, x)) {
      if (auto fused =
              ops::try_normalize_rows(x, read_as(gamma_, dtype), read_as(beta_, dtype), options_.epsilon.value, true))
        return cast_back(*fused, inputs.leaf().dtype(), compute_dtype());
    }
    const ops::Moments m = ops::moments(x, options_.axis, true);
    Tensor factor = ops::rsqrt(m.variance + options_.epsilon.value);
    if (options_.rms_scaling) {
      Tensor y = x * factor;
      if (gamma_) y = y * spread(gamma_, x);
      return cast_back(y, inputs.leaf().dtype(), compute_dtype());
    }
    if (gamma_) factor = factor * spread(gamma_, x);
    Tensor shift = ops::neg(m.mean) * factor;
    if (beta_) shift = shift + spread(beta_, x);
    return cast_back(x * factor + shift, inputs.leaf().dtype(), compute_dtype());
  }

 private:
  Tensor spread(const VariablePtr& variable, const Tensor& x) const {
    const Tensor value = ops::cast(variable->read(), x.dtype());
    std::vector<int> axes;
    for (std::int64_t axis : options_.axis) axes.push_back(static_cast<int>(axis < 0 ? axis + x.rank() : axis));
    if (axes.size() == 1 && axes[0] == x.rank() - 1) return value;
    return ops::reshape(value, broadcast_shape(x, axes));
  }
  VariablePtr gamma_, beta_;
};

class GroupNormalizationLayer : public ConfiguredLayer<GroupNormalizationLayer, GroupNormalizationOptions> {
 public:
  static constexpr const char* kClass = "GroupNormalization";
  template <typename V>
  static void fields(V& v, GroupNormalizationOptions& o) {
    v("groups", o.groups);
    v("axis", o.axis);
    v("epsilon", o.epsilon);
    v("center", o.center);
    v("scale", o.scale);
    v("beta_initializer", o.beta_initializer);
    v("gamma_initializer", o.gamma_initializer);
    v("beta_regularizer", o.beta_regularizer);
    v("gamma_regularizer", o.gamma_regularizer);
    v("beta_constraint", o.beta_constraint);
    v("gamma_constraint", o.gamma_constraint);
  }
  explicit GroupNormalizationLayer(GroupNormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.groups < 1 && options_.groups != -1) {
      throw_invalid_argument(
          fmt::format("GroupNormalization '{}': groups is {}, expected at least 1, or -1", name(), options_.groups));
    }
  }
  bool supports_masking() const override { return true; }

  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    const std::int64_t channels =
        shape[checked_axis(options_.axis, shape, fmt::format("GroupNormalization '{}'", name()))];
    if (options_.groups == -1) options_.groups = channels;
    if (channels % options_.groups != 0) {
      throw_invalid_argument(fmt::format("GroupNormalization '{}': {} channels are not a multiple of {} groups", name(),
                                         channels, options_.groups));
    }
    if (options_.scale) {
      gamma_ = add_weight({.shape = {channels},
                           .initializer = options_.gamma_initializer.object(),
                           .autocast = false,
                           .regularizer = options_.gamma_regularizer.object(),
                           .constraint = options_.gamma_constraint.object(),
                           .name = "gamma"});
    }
    if (options_.center) {
      beta_ = add_weight({.shape = {channels},
                          .initializer = options_.beta_initializer.object(),
                          .autocast = false,
                          .regularizer = options_.beta_regularizer.object(),
                          .constraint = options_.beta_constraint.object(),
                          .name = "beta"});
    }
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& given = inputs.leaf();
    const int rank = given.rank(), axis = static_cast<int>(options_.axis < 0 ? options_.axis + rank : options_.axis);
    if (axis == rank - 1 && compute_dtype() == DType::kFloat32) {
      if (auto own = ops::try_group_norm(given, options_.groups, gamma_ ? gamma_->read() : Tensor(),
                                         beta_ ? beta_->read() : Tensor(), options_.epsilon.value))
        return *std::move(own);
    }
    const std::int64_t in_group = given.dim(axis) / options_.groups;
    Tensors sizes;
    ops::Ints shape = {-1}, flat(static_cast<std::size_t>(rank) + 1, 1), axes;
    int unknown = 1;
    for (int i = 0; i < rank; ++i) {
      if (i == axis) {
        if (i > 0) shape.push_back(options_.groups);
        sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(options_.groups)));
        sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(in_group)));
        shape.push_back(in_group);
        continue;
      }
      sizes.push_back(ops::dim_of(given, i));
      if (i > 0) shape.push_back(given.dim(i));
      unknown += i > 0 && given.dim(i) == kUnknownDim;
    }
    flat[static_cast<std::size_t>(axis)] = options_.groups;
    flat[static_cast<std::size_t>(axis) + 1] = in_group;
    for (int i = 1; i <= rank; ++i) {
      if (i != axis) axes.push_back(i);
    }
    Tensor x = unknown > 1 ? ops::reshape(given, ops::stack(sizes)) : ops::reshape(given, shape);
    x = ops::cast(x, wide(given.dtype()));
    const ops::Moments m = ops::moments(x, axes, true);
    Tensor factor = ops::rsqrt(m.variance + options_.epsilon.value);
    if (gamma_) factor = factor * ops::reshape(ops::cast(gamma_->read(), x.dtype()), flat);
    Tensor shift = ops::neg(m.mean) * factor;
    if (beta_) shift = shift + ops::reshape(ops::cast(beta_->read(), x.dtype()), flat);
    Tensor y = ops::reshape(x * factor + shift, ops::shape_of(given));
    return cast_back(y, given.dtype(), compute_dtype());
  }

 private:
  VariablePtr gamma_, beta_;
};

class UnitNormalizationLayer : public ConfiguredLayer<UnitNormalizationLayer, UnitNormalizationOptions> {
 public:
  static constexpr const char* kClass = "UnitNormalization";
  template <typename V>
  static void fields(V& v, UnitNormalizationOptions& o) {
    v("axis", OneOrMany{o.axis});
  }
  explicit UnitNormalizationLayer(UnitNormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    set_built_in_constructor();
  }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    return ops::unit_vectors(x, options_.axis, 1e-12);
  }
};

class RMSNormalizationLayer : public ConfiguredLayer<RMSNormalizationLayer, RMSNormalizationOptions> {
 public:
  static constexpr const char* kClass = "RMSNormalization";
  template <typename V>
  static void fields(V& v, RMSNormalizationOptions& o) {
    v("axis", o.axis);
    v("epsilon", null_read_as(o.epsilon, backend::epsilon()));
  }
  explicit RMSNormalizationLayer(RMSNormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    std::sort(options_.axis.begin(), options_.axis.end());
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    if (!built() && options_.axis.size() == 1) config["axis"] = options_.axis[0];
    return config;
  }
  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    Shape kept;
    for (std::int64_t axis : options_.axis)
      kept.push_back(shape[checked_axis(axis, shape, fmt::format("RMSNormalization '{}'", name()))]);
    scale_ = add_weight({.shape = kept, .initializer = initializers::Ones(), .name = "scale"});
  }
  std::vector<std::string> argument_names() const override { return {"x"}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const DType dtype = wide(inputs.leaf().dtype());
    const Tensor x = ops::cast(inputs, dtype);
    const Tensor scale = ops::cast(value(scale_), dtype);
    if (is_last_axis(options_.axis, x)) {
      if (auto fused = ops::try_normalize_rows(x, scale, Tensor(), options_.epsilon.value, false))
        return ops::cast(*fused, inputs.leaf().dtype());
    }
    // Keras multiplies by the scale as it is, whatever the axes: along the last ones.
    const Tensor factor = ops::rsqrt(ops::reduce_mean(ops::square(x), options_.axis, true) + options_.epsilon.value);
    return ops::cast(x * factor * scale, inputs.leaf().dtype());
  }

 private:
  VariablePtr scale_;
};

}  // namespace

std::optional<ops::FixedNorm> fixed_norm(const Layer& layer) {
  const auto* const normalization = dynamic_cast<const BatchNormalizationLayer*>(&layer);
  return normalization && !layer.activity_regularizer() ? normalization->fixed() : std::nullopt;
}

void register_normalization_layers(ClassTable& registry) {
  registry.add(with_several_axes(flagged_row<BatchNormalizationLayer>(
      "fused_statistics",
      [](BatchNormalizationLayer& layer, const Json& fused) {
        fused == Json(false) ? layer.ignore_masks() : layer.use_fused_statistics();
      },
      {"BatchNormalizationV1", "BatchNormalizationV2", "SyncBatchNormalization"})));
  registry.add(layer_row<LayerNormalizationLayer>());
  registry.add(layer_row<GroupNormalizationLayer>());
  registry.add(layer_row<UnitNormalizationLayer>());
  registry.add(layer_row<RMSNormalizationLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle BatchNormalization(BatchNormalizationOptions options) {
  return std::make_shared<keras::BatchNormalizationLayer>(std::move(options));
}
LayerHandle LayerNormalization(LayerNormalizationOptions options) {
  return std::make_shared<keras::LayerNormalizationLayer>(std::move(options));
}
LayerHandle GroupNormalization(GroupNormalizationOptions options) {
  return std::make_shared<keras::GroupNormalizationLayer>(std::move(options));
}
LayerHandle UnitNormalization(UnitNormalizationOptions options) {
  return std::make_shared<keras::UnitNormalizationLayer>(std::move(options));
}
LayerHandle RMSNormalization(RMSNormalizationOptions options) {
  return std::make_shared<keras::RMSNormalizationLayer>(std::move(options));
}

}  // namespace lockstep::layers

#include "lockstep/keras/preprocessing/categories.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/io/fingerprint_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/preprocessing/categories_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// ---- Discretization: quantiles are estimated from a summary, as Keras does -------------------------------

// Values in ascending order, and how many elements each stands for.
struct Summary {
  std::vector<float> values, weights;
};

// np.interp: linear between points with ascending x, constant beyond them.
double interpolated(double x, const std::vector<double>& xs, const std::vector<double>& ys) {
  const auto above = std::upper_bound(xs.begin(), xs.end(), x);
  if (above == xs.begin()) return ys.front();
  if (above == xs.end()) return ys.back();
  const auto i = static_cast<std::size_t>(above - xs.begin()) - 1;
  return (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) * (x - xs[i]) + ys[i];
}

Summary compressed(Summary summary, double epsilon) {
  if (static_cast<double>(summary.values.size()) * epsilon < 1) return summary;
  std::vector<float> sums(summary.weights.size());
  std::partial_sum(summary.weights.begin(), summary.weights.end(), sums.begin());
  std::vector<double> shares, values(summary.values.begin(), summary.values.end()), totals(sums.begin(), sums.end());
  for (const float sum : sums) shares.push_back(sum / sums.back());
  Summary out;
  double before = 0;
  const auto count = static_cast<std::int64_t>(std::ceil(1.0 / epsilon));
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = epsilon + static_cast<double>(i) * epsilon;
    const double total = interpolated(share, shares, totals);
    out.values.push_back(static_cast<float>(interpolated(share, shares, values)));
    out.weights.push_back(static_cast<float>(total - before));
    before = total;
  }
  return out;
}

std::vector<float> boundaries_of(const Summary& summary, std::int64_t num_bins) {
  std::vector<float> values = compressed(summary, 1.0 / static_cast<double>(num_bins)).values;
  values.pop_back();
  return values;
}

Summary summary_of(std::vector<float> values, double epsilon) {
  std::sort(values.begin(), values.end());
  const double step = std::max(static_cast<double>(values.size()) * epsilon, 1.0);
  Summary out;
  for (auto i = static_cast<std::size_t>(step - 1); i < values.size(); i += static_cast<std::size_t>(step)) {
    out.values.push_back(values[i]);
    out.weights.push_back(static_cast<float>(step));
  }
  return out;
}

Summary merged(const Summary& a, const Summary& b, double epsilon) {
  Summary both = a;
  both.values.insert(both.values.end(), b.values.begin(), b.values.end());
  both.weights.insert(both.weights.end(), b.weights.begin(), b.weights.end());
  std::vector<std::size_t> order(both.values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return both.values[i] < both.values[j]; });
  Summary sorted;
  for (const std::size_t i : order) {
    sorted.values.push_back(both.values[i]);
    sorted.weights.push_back(both.weights[i]);
  }
  return compressed(std::move(sorted), epsilon);
}

// A config as DataLayer classes and HashedCrossing write it: their own keys, then name and a dtype that is a string.
Json with_name_and_dtype(Json config, const Layer& layer) {
  config["name"] = layer.name();
  config["dtype"] = std::string(layer.dtype_policy().name());
  return config;
}

class DiscretizationLayer : public ConfiguredLayer<DiscretizationLayer, WithSparse<DiscretizationOptions>>,
                            public OldRules {
 public:
  static constexpr const char* kClass = "Discretization";
  template <typename V>
  static void fields(V& v, WithSparse<DiscretizationOptions>& o) {
    v("bin_boundaries", o.bin_boundaries);
    v("num_bins", o.num_bins);
    v("epsilon", null_unless(!o.bin_boundaries, o.epsilon));  // for adapt()
    v("output_mode", o.output_mode);
    v("sparse", o.sparse);
  }
  explicit DiscretizationLayer(WithSparse<DiscretizationOptions> options) : ConfiguredLayer(std::move(options)) {
    const std::string who = fmt::format("Discretization '{}'", name());
    normalize_choice(options_.output_mode, {"int", "one_hot", "multi_hot", "count"}, who + ": output_mode");
    check_sparse(options_.sparse, options_.output_mode, who);
    if (!options_.bin_boundaries && !options_.num_bins)
      throw_invalid_argument(fmt::format("{} requires bin_boundaries or num_bins", who));
    if (options_.num_bins && *options_.num_bins < 1)
      throw_invalid_argument(fmt::format("invalid {}: num_bins is {}, expected at least 1", who, *options_.num_bins));
    if (!(options_.epsilon > 0 && options_.epsilon < 1))
      throw_invalid_argument(fmt::format("invalid {}: epsilon is {}, expected between 0 and 1", who, options_.epsilon));
    if (options_.bin_boundaries && !std::is_sorted(options_.bin_boundaries->begin(), options_.bin_boundaries->end()))
      throw_invalid_argument(fmt::format("invalid {}: bin_boundaries are not in ascending order", who));
  }
  Json get_config() const override { return with_name_and_dtype(with_fields_of(options_), *this); }
  bool casts_inputs() const override { return false; }  // to the policy's dtype
  Structure call(const Structure& inputs, const CallContext&) override {
    if (!options_.bin_boundaries) {
      throw_failed_precondition(fmt::format(
          "Discretization '{}' requires bin boundaries: call adapt() with data, or give bin_boundaries", name()));
    }
    const std::vector<float> boundaries(options_.bin_boundaries->begin(), options_.bin_boundaries->end());
    const Tensor& given = inputs.leaf();
    const bool wide = given.dtype() == DType::kInt32 || given.dtype() == DType::kInt64;
    const Tensor x = wide ? given : ops::cast(given, DType::kFloat32);
    const Tensor bins = ops::call1("Bucketize", {x}, {{"boundaries", boundaries}});
    return encode_categories(bins, options_.output_mode, static_cast<std::int64_t>(boundaries.size()) + 1,
                             options_.output_mode == "int" ? integers_ : compute_dtype());
  }
  // Of "int": int32 whatever the policy is; in Keras 2 that of the policy.
  void set_integers(DType dtype) { integers_ = dtype; }
  void adapt(const Structure& data) {
    Summary summary;
    add(summary, data);
    finish(summary);
  }
  void adapt(const data::Dataset& batches) {
    Summary summary;
    for (const data::Element& element : batches) add(summary, element.is_list() ? element[0].leaf() : element.leaf());
    finish(summary);
  }

 private:
  DType integers_ = DType::kInt32;
  static Json with_fields_of(const WithSparse<DiscretizationOptions>& options) {
    Json config = Json::object();
    FieldWriter writer(config);
    fields(writer, const_cast<WithSparse<DiscretizationOptions>&>(options));
    return config;
  }
  void add(Summary& summary, const Structure& batch) const {
    if (!options_.num_bins) {
      throw_failed_precondition(
          fmt::format("Discretization '{}' was made with bin_boundaries; adapt() requires num_bins", name()));
    }
    summary = merged(summary_of(ops::cast(batch.leaf(), DType::kFloat32).to_vector<float>(), options_.epsilon), summary,
                     options_.epsilon);
  }
  void finish(const Summary& summary) {
    if (summary.values.empty()) throw_invalid_argument(fmt::format("Discretization '{}': adapt() got no data", name()));
    const std::vector<float> values = boundaries_of(summary, *options_.num_bins);
    options_.bin_boundaries.emplace(values.begin(), values.end());
  }
};

// ---- hashes -----------------------------------------------------------------------------------------------

template <typename Options>
Options with_output_dtype(Options options) {
  if (options.output_mode == "int" && is_floating(options.dtype.compute_dtype())) options.dtype = "int64";
  return options;
}

void check_bins(std::int64_t num_bins, const std::string& who) {
  if (num_bins < 1)
    throw_invalid_argument(fmt::format("invalid {}: num_bins is {}, expected at least 1", who, num_bins));
}

class HashingLayer : public ConfiguredLayer<HashingLayer, WithSparse<HashingOptions>> {
 public:
  static constexpr const char* kClass = "Hashing";
  template <typename V>
  static void fields(V& v, WithSparse<HashingOptions>& o) {
    v("num_bins", o.num_bins, Field::kRequired);
    v("salt", o.salt);
    v("mask_value", o.mask_value);
    v("output_mode", o.output_mode);
    v("sparse", o.sparse);
  }
  explicit HashingLayer(WithSparse<HashingOptions> options) : ConfiguredLayer(with_output_dtype(std::move(options))) {
    const std::string who = fmt::format("Hashing '{}'", name());
    check_bins(options_.num_bins, who);
    normalize_choice(options_.output_mode, {"int", "one_hot", "multi_hot", "count"}, who + ": output_mode");
    check_sparse(options_.sparse, options_.output_mode, who);
    normalize_salt(options_.salt, who);
    const Json& mask = options_.mask_value;
    if (!mask.is_null() && !mask.is_string() && !mask.is_number_integer())
      throw_invalid_argument(fmt::format("invalid {}: mask_value is {}, expected a string or an integer", who,
                                         dump_json(mask).substr(0, 60)));
  }
  bool casts_inputs() const override { return false; }
  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor x = inputs.leaf();
    if (options_.output_mode == "one_hot" && x.rank() > 0 && x.dim(-1) == 1) x = ops::squeeze(x, {-1});
    return encode_categories(bins(x), options_.output_mode, options_.num_bins, compute_dtype());
  }

 private:
  Tensor bins(const Tensor& x) const {
    const bool masked = !options_.mask_value.is_null() && options_.num_bins > 1;
    const Tensor bins = hash_buckets(x, options_.num_bins - (masked ? 1 : 0), options_.salt);
    if (!masked) return bins;
    return ops::where(ops::equal(x, mask_like(x)), ops::zeros_like(bins), bins + 1);
  }
  Tensor mask_like(const Tensor& x) const {
    const Json& mask = options_.mask_value;
    if (mask.is_string() != (x.dtype() == DType::kString)) {
      throw_invalid_argument(fmt::format("Hashing '{}': mask_value is {}, but its input is {}", name(), dump_json(mask),
                                         dtype_name(x.dtype())));
    }
    if (mask.is_string()) return Tensor::strings({mask.get<std::string>()}, Shape{});
    return ops::cast(Tensor::scalar(mask.get<std::int64_t>()), x.dtype());
  }
};

// Where TensorFlow's SparseCrossHashed begins the fingerprint of a combination.
constexpr std::uint64_t kCrossingKey = 0xDECAFCAFFE;

std::vector<std::uint64_t> features_of(const Tensor& x) {
  std::vector<std::uint64_t> out;
  if (x.dtype() == DType::kString) {
    for (const std::string& text : x.string_values()) out.push_back(io::fingerprint64(text));
  } else {
    for (const std::int64_t value : ops::cast(x, DType::kInt64).to_vector<std::int64_t>())
      out.push_back(static_cast<std::uint64_t>(value));
  }
  return out;
}

class HashedCrossingLayer : public ConfiguredLayer<HashedCrossingLayer, WithSparse<HashedCrossingOptions>> {
 public:
  static constexpr const char* kClass = "HashedCrossing";
  template <typename V>
  static void fields(V& v, WithSparse<HashedCrossingOptions>& o) {
    v("num_bins", o.num_bins, Field::kRequired);
    v("output_mode", o.output_mode);
    v("sparse", o.sparse);
  }
  explicit HashedCrossingLayer(const WithSparse<HashedCrossingOptions>& options)
      : ConfiguredLayer(options, {.dtype = options.dtype                  ? *options.dtype
                                           : options.output_mode == "int" ? DTypePolicy("int64")
                                                                          : DTypePolicy()}) {
    const std::string who = fmt::format("HashedCrossing '{}'", name());
    check_bins(options_.num_bins, who);
    normalize_choice(options_.output_mode, {"int", "one_hot"}, who + ": output_mode");
  }
  Json get_config() const override {
    return with_name_and_dtype(
        {{"num_bins", options_.num_bins}, {"output_mode", options_.output_mode}, {"sparse", options_.sparse}}, *this);
  }
  bool casts_inputs() const override { return false; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const std::vector<Tensor> features = inputs.flatten();
    check(features);
    return encode_categories(bins(features), options_.output_mode, options_.num_bins, compute_dtype());
  }

 private:
  void check(const std::vector<Tensor>& features) const {
    if (features.size() < 2)
      throw_invalid_argument(fmt::format("HashedCrossing '{}' requires two inputs or more", name()));
    for (const Tensor& x : features) {
      const bool fits = x.rank() < 2 || (x.rank() == 2 && x.dim(1) == 1);
      if (!fits || x.rank() != features[0].rank())
        throw_invalid_argument(
            fmt::format("invalid input of HashedCrossing '{}': found shape {}, expected (), (batch) or (batch, 1), the "
                        "same for all inputs",
                        name(), x.shape().to_string()));
      if (x.dtype() != DType::kString && !is_integer(x.dtype()))
        throw_invalid_argument(
            fmt::format("invalid input of HashedCrossing '{}': found {}, expected integers or strings", name(),
                        dtype_name(x.dtype())));
    }
  }
  Tensor traced_bins(const std::vector<Tensor>& features) const {
    Tensors columns;
    std::vector<DType> types;
    DType internal = DType::kString;
    for (const Tensor& x : features) {
      const bool text = x.dtype() == DType::kString;
      columns.push_back(ops::reshape(text ? x : ops::cast(x, DType::kInt64), {-1, 1}));
      types.push_back(columns.back().dtype());
      if (!text) internal = DType::kInt64;
    }
    const Tensors crossed = ops::call("SparseCross", columns,
                                      {{"N", std::int64_t{0}},
                                       {"sparse_types", std::vector<DType>()},
                                       {"dense_types", types},
                                       {"hashed_output", true},
                                       {"num_buckets", options_.num_bins},
                                       {"hash_key", static_cast<std::int64_t>(kCrossingKey)},
                                       {"out_type", DType::kInt64},
                                       {"internal_type", internal}});
    return ops::reshape(crossed[1], ops::shape_of(features[0]));
  }
  Tensor bins(const std::vector<Tensor>& features) const {
    if (std::any_of(features.begin(), features.end(), [](const Tensor& x) { return x.is_symbolic(); })) {
      if (graph::TraceScope::current()) return traced_bins(features);
      return ops::cast(ops::equal(features[0], features[0]), DType::kInt64);
    }
    std::vector<std::vector<std::uint64_t>> columns;
    for (const Tensor& x : features) columns.push_back(features_of(x));
    std::vector<std::int64_t> out(columns[0].size());
    for (std::size_t row = 0; row < out.size(); ++row) {
      std::uint64_t hash = kCrossingKey;
      for (const auto& column : columns) hash = io::fingerprint_cat(hash, column.at(row));
      out[row] = static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(options_.num_bins));
    }
    return Tensor::from_vector(out, features[0].shape());
  }
};

}  // namespace

std::vector<float> bin_boundaries(const Tensor& summary, std::int64_t num_bins) {
  const std::vector<float> all = ops::cast(summary, DType::kFloat32).to_vector<float>();
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  return boundaries_of({{all.begin(), middle}, {middle, all.end()}}, num_bins);
}

Tensor encode_categories(const Tensor& categories, const std::string& output_mode, std::int64_t depth, DType dtype) {
  if (output_mode == "int") return ops::cast(categories, dtype);
  Tensor x = categories.rank() == 0 ? ops::expand_dims(categories, -1) : categories;
  if (output_mode == "one_hot") {
    if (x.rank() > 1 && x.dim(-1) == 1) x = ops::squeeze(x, {-1});
    return ops::one_hot(x, depth, dtype);
  }
  const bool binary = output_mode == "multi_hot";
  if (x.rank() <= 2) return ops::cast(ops::bincount(x, depth, Tensor(), binary), dtype);
  const Tensor rows = ops::one_hot(x, depth, dtype);
  return binary ? ops::reduce_max(rows, ops::Ints{1}) : ops::reduce_sum(rows, ops::Ints{1});
}

void check_sparse(bool sparse, const std::string& output_mode, const std::string& who) {
  if (sparse && output_mode != "one_hot" && output_mode != "multi_hot" && output_mode != "count")
    throw_invalid_argument(
        fmt::format("invalid {}: sparse requires output_mode 'one_hot', 'multi_hot' or 'count'", who));
}

void normalize_salt(std::optional<std::vector<std::int64_t>>& salt, const std::string& who) {
  if (!salt) return;
  if (salt->size() == 1) salt->push_back(salt->front());
  if (salt->size() != 2)
    throw_invalid_argument(
        fmt::format("invalid {}: found a salt of {} numbers, expected one or two", who, salt->size()));
}

Tensor hash_buckets(const Tensor& values, std::int64_t num_buckets,
                    const std::optional<std::vector<std::int64_t>>& salt) {
  Tensor x = values;
  if (is_floating(x.dtype())) x = ops::cast(x, DType::kInt64);
  if (x.dtype() != DType::kString) x = ops::call1("AsString", {x});
  if (salt) return ops::call1("StringToHashBucketStrong", {x}, {{"num_buckets", num_buckets}, {"key", *salt}});
  return ops::call1("StringToHashBucketFast", {x}, {{"num_buckets", num_buckets}});
}

void register_category_layers(ClassTable& registry) {
  registry.add(flagged_row<DiscretizationLayer>("integers", [](DiscretizationLayer& layer, const Json& dtype) {
    const auto found = dtype.is_string() ? parse_dtype(dtype.text()) : std::nullopt;
    layer.set_integers(found && is_integer(*found) ? *found : DType::kInt64);
  }));
  registry.add(layer_row<HashingLayer>());
  registry.add(layer_row<HashedCrossingLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Discretization(DiscretizationOptions options) {
  return std::make_shared<keras::DiscretizationLayer>(std::move(options));
}
LayerHandle Hashing(std::int64_t num_bins, HashingOptions options) {
  options.num_bins = num_bins;
  return std::make_shared<keras::HashingLayer>(std::move(options));
}
LayerHandle HashedCrossing(std::int64_t num_bins, HashedCrossingOptions options) {
  options.num_bins = num_bins;
  return std::make_shared<keras::HashedCrossingLayer>(std::move(options));
}

}  // namespace lockstep::layers

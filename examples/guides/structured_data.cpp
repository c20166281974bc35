// Structured data: numbers and categories of a table, preprocessed by layers that learn from it.
#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;
using ls::data::Dataset;
using ls::data::Element;

constexpr std::int64_t kRows = 64;

// Column `name` of the elements, (batch, 1).
Dataset feature_of(const Dataset& dataset, const std::string& name) {
  const auto feature_ds = dataset.map([name](const Element& x, const Element&) { return x[name]; });
  return feature_ds.map([](const ls::Tensor& x) { return ops::expand_dims(x, -1); });
}

keras::Structure encode_numerical_feature(const keras::Structure& feature, const std::string& name,
                                          const Dataset& dataset) {
  const auto normalizer = layers::Normalization();
  normalizer.adapt(feature_of(dataset, name));
  report("mean " + name, normalizer.weight("mean").value().index({0}));
  return normalizer(feature);
}

keras::Structure encode_categorical_feature(const keras::Structure& feature, const std::string& name,
                                            const Dataset& dataset, bool is_string) {
  const auto lookup =
      is_string ? layers::StringLookup({.output_mode = "binary"}) : layers::IntegerLookup({.output_mode = "binary"});
  lookup.adapt(feature_of(dataset, name));
  report("vocabulary " + name, static_cast<double>(lookup.vocabulary_size()));
  return lookup(feature);
}

}  // namespace

void structured_data(const std::string& folder) {
  ls::random::set_random_seed(4);

  const auto index = ops::range(kRows);
  const auto real = ops::cast(index, ls::float64);
  const std::vector<std::string> kinds = {"normal", "fixed", "reversible", "fixed", "normal"};
  std::vector<std::string> thal_column;
  for (std::size_t i = 0; i < kRows; ++i) thal_column.push_back(kinds[i % 5]);
  const std::vector<std::pair<std::string, ls::Tensor>> table = {
      {"age", ops::cast(3.0 + 2.5 * ops::sin(real), ls::float32)},
      {"trestbps", ops::cast(12.0 + 2.0 * ops::cos(0.7 * real), ls::float32)},
      {"sex", ops::cast(index * 7 % 2, ls::int64)},
      {"cp", ops::cast(index * 5 % 4, ls::int64)},
      {"thal", ls::Tensor::strings(thal_column, {kRows})},
  };
  const auto target = ops::cast(ops::sin(real) + 0.2 * ops::cast(index % 4, ls::float64) > 0.2, ls::int64);

  const auto dataframe_to_dataset = [&](const ls::Range& rows) {
    Element::Dict columns;
    for (const auto& [name, values] : table) columns.emplace_back(name, values[rows]);
    const auto ds = Dataset::from_tensor_slices({Element::dict(columns), target[rows]});
    return ds.shuffle(ds.cardinality());
  };
  const auto train_ds = dataframe_to_dataset({0, 48}).batch(8);
  const auto val_ds = dataframe_to_dataset({48, {}}).batch(8);
  for (const auto& [x, y] : train_ds.take(1)) {
    report("age", ops::reduce_sum(x["age"]));
    report("target", ops::reduce_sum(y));
  }

  const auto sex = keras::Input({1}, {.dtype = "int64", .name = "sex"});
  const auto cp = keras::Input({1}, {.dtype = "int64", .name = "cp"});
  const auto thal = keras::Input({1}, {.dtype = "string", .name = "thal"});
  const auto age = keras::Input({1}, {.name = "age"});
  const auto trestbps = keras::Input({1}, {.name = "trestbps"});
  const auto sex_encoded = encode_categorical_feature(sex, "sex", train_ds, false);
  const auto cp_encoded = encode_categorical_feature(cp, "cp", train_ds, false);
  const auto thal_encoded = encode_categorical_feature(thal, "thal", train_ds, true);
  const auto age_encoded = encode_numerical_feature(age, "age", train_ds);
  const auto trestbps_encoded = encode_numerical_feature(trestbps, "trestbps", train_ds);
  const auto all_features = layers::concatenate({sex_encoded, cp_encoded, thal_encoded, age_encoded, trestbps_encoded});
  auto x = layers::Dense(16, {.activation = "relu"})(all_features);
  x = layers::Dropout(0.5)(x);
  const auto output = layers::Dense(1, {.activation = "sigmoid"})(x);
  const keras::Model model({sex, cp, thal, age, trestbps}, output);
  model.compile({.optimizer = "adam", .loss = "binary_crossentropy", .metrics = {"accuracy"}});
  const auto history = model.fit(train_ds, {.epochs = 3, .verbose = 0, .validation_data = val_ds});
  for (const char* name : {"loss", "accuracy", "val_loss"}) {
    for (const double value : history.history[name]) report(name, value);
  }

  const Element sample = {{"age", ls::Tensor{6.0}},
                          {"sex", ls::Tensor{1}},
                          {"cp", ls::Tensor{1}},
                          {"trestbps", ls::Tensor{14.5}},
                          {"thal", ls::Tensor{"fixed"}}};
  const ls::Tensor probability = model.predict(sample, {.verbose = 0});
  report("probability", probability.index({0, 0}));

  // Single layers.
  const auto buckets = layers::Discretization({.bin_boundaries = {2.0, 3.0, 4.0}});
  const auto one_hot = layers::CategoryEncoding(4, {.output_mode = "one_hot"});
  const ls::Tensor counts = ops::reduce_sum(one_hot(buckets(table[0].second)), 0);
  for (int i = 0; i < 4; ++i) report("bucket", counts[i]);
  const auto hashing = layers::Hashing(5, {.salt = 1337});
  const ls::Tensor hashes = hashing({"normal", "fixed", "reversible"});
  for (int i = 0; i < 3; ++i) report("hash", hashes[i]);
  const auto crossing = layers::HashedCrossing(7);
  const ls::Tensor crossed = crossing({ls::Tensor{"normal", "fixed"}, ls::Tensor{"a", "b"}});
  for (int i = 0; i < 2; ++i) report("crossing", crossed[i]);
  const auto lookup = layers::StringLookup({.num_oov_indices = 2, .vocabulary = {"fixed", "normal"}});
  const ls::Tensor indices = lookup({"normal", "fixed", "rare", "other"});
  for (int i = 0; i < 4; ++i) report("index", indices[i]);
  const auto inverse = layers::StringLookup(
      {.num_oov_indices = 2, .vocabulary = lookup.get_vocabulary().string_values(), .invert = true});
  report("inverse", ls::strings::length(inverse(ls::Tensor{3})));
  const auto normalization = layers::Normalization({.mean = 3.0, .variance = 2.0});
  report("normalized", normalization(ls::Tensor{{5.0}}));
  model.save(folder + "/model.keras");
}

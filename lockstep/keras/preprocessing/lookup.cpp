#include "lockstep/keras/preprocessing/lookup.h"

#include <charconv>

#include "lockstep/data/dataset.h"
#include "lockstep/keras/layers/built_in_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/preprocessing/categories_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/keras/preprocessing/lookup_internal.h"
#include "lockstep/keras/preprocessing/vocabulary_internal.h"
#include "lockstep/ops/ragged_elements_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// Arguments that both classes write at the beginning, and at the end, of their configs.
template <typename V, typename Options>
void first_fields(V& v, Options& o) {
  v("invert", o.invert);
  v("max_tokens", o.max_tokens);
  v("num_oov_indices", o.num_oov_indices);
  v("oov_token", o.oov_token);
  v("mask_token", o.mask_token);
  v("output_mode", o.output_mode);
}

void name_output_mode(std::string& mode) {
  if (mode == "binary") mode = "multi_hot";  // Keras 2
  if (mode == "tf-idf") mode = "tf_idf";
}

// The tokens in vocabulary.txt, one per line. Trailing empty lines are stripped, but not below the config's
// vocabulary_size: there an empty line is the token "". (Keras strips it too, and then fails to load the file.)
std::vector<std::string> keys_in(const std::string& text, const std::string&, std::optional<std::int64_t> size,
                                 std::string*) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  const bool has_tokens = text.find_first_not_of("\r\n") != std::string::npos;
  const std::size_t kept = has_tokens && size ? static_cast<std::size_t>(std::max<std::int64_t>(*size, 0)) : 0;
  while (lines.size() > kept && lines.back().empty()) lines.pop_back();
  return lines;
}
std::vector<std::int64_t> keys_in(const std::string& text, const std::string& who, std::optional<std::int64_t>,
                                  std::int64_t*) {
  std::vector<std::int64_t> out;
  for (const std::string& line : keys_in(text, who, std::nullopt, static_cast<std::string*>(nullptr))) {
    const char* const end = line.data() + line.size();
    if (const auto [rest, error] = std::from_chars(line.data(), end, out.emplace_back());
        error != std::errc() || rest != end)
      throw_data_loss(
          fmt::format("invalid vocabulary of {}: found '{}', expected an integer", who, line.substr(0, 60)));
  }
  return out;
}

// StringLookup and IntegerLookup.
template <typename Derived, typename OptionsT, typename Key>
class LookupLayer : public ConfiguredLayer<Derived, OptionsT>, public KeepsVocabulary, public OldRules {
 public:
  // As Keras 2, which takes int64 of an IntegerLookup for the dtype of its vocabulary.
  void set_numbers(const Json& dtype) {
    const auto found = dtype.is_string() ? parse_dtype(dtype.text()) : std::nullopt;
    const bool of_keys = std::is_same_v<Key, std::int64_t> && found == DType::kInt64;
    const bool numbers = found && (is_floating(*found) || is_integer(*found)) && !of_keys;
    table_.set_numbers(numbers ? *found : DType::kFloat32);
  }
  Json get_build_config() const override { return Json::object(); }
  void build_from_config(const Json&) override { this->set_built(); }
  bool casts_inputs() const override { return false; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    if (!ops::holds_ragged(x)) return found(x);
    const std::string& mode = this->options_.output_mode;
    if (mode != "int") throw_unimplemented(fmt::format("{}: ragged inputs with output_mode '{}'", who(), mode));
    const RaggedTensor rows = ops::ragged_in(x);
    return rows.with_flat_values(found(rows.flat_values()));
  }

  void adapt(const Structure& data) {
    start_adapting();
    const Tensor& batch = data.leaf();
    table_.count(batch.rank() == 1 ? ops::expand_dims(batch, -1) : batch);
    finish_adapting();
  }
  void adapt(const data::Dataset& batches) {
    start_adapting();
    for (const data::Element& element : batches) table_.count(element.is_list() ? element[0].leaf() : element.leaf());
    finish_adapting();
  }

  Tensor vocabulary(bool include_special_tokens) const override {
    std::vector<Key> tokens = table_.vocabulary(include_special_tokens);
    const auto count = static_cast<std::int64_t>(tokens.size());
    return tensor_of(std::move(tokens), Shape{count});
  }
  void set_vocabulary(const Tensor& vocabulary, const std::vector<double>& idf_weights) override {
    table_.set_vocabulary(table_.keys_of(vocabulary), idf_weights);
    note_size();
  }
  std::int64_t vocabulary_size() const override { return table_.size(); }
  DType input_dtype() const override {
    if constexpr (std::is_same_v<Key, std::string>) {
      return this->options_.invert ? DType::kInt64 : DType::kString;
    } else {
      return parse_dtype(this->options_.vocabulary_dtype).value_or(DType::kInt64);
    }
  }
  bool vocabulary_in_config() const override { return this->options_.vocabulary.has_value(); }
  bool has_idf_weights() const override { return table_.counts_documents(); }
  Tensor idf_weights() const override { return table_.idf_weights(); }
  void load_idf_weights(const Tensor& weights) override { table_.set_idf_weights(weights); }
  void load_vocabulary(const std::string& text) override {
    std::vector<Key> tokens = keys_in(text, who(), this->options_.vocabulary_size, static_cast<Key*>(nullptr));
    std::vector<double> weights;
    if (const Tensor& idf = table_.idf_weights(); idf.defined()) {
      const std::vector<float> values = idf.to_vector<float>();
      // Those of padding are not the tokens'.
      weights.assign(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), tokens.size())));
    }
    if (tokens.empty()) return;
    table_.set_vocabulary(std::move(tokens), weights);
    note_size();
  }

  IndexLookup<Key>& table() { return table_; }
  // After the table has learnt a vocabulary.
  void note_size() { this->options_.vocabulary_size = table_.size(); }

 protected:
  explicit LookupLayer(OptionsT options) : ConfiguredLayer<Derived, OptionsT>(std::move(options)), table_(settings()) {
    auto& o = this->options_;
    o.salt = table_.settings().salt;
    this->set_built();
    if (o.vocabulary) {
      const auto& given = *o.vocabulary;
      const auto idf = o.idf_weights.value_or(std::vector<double>());
      table_.set_vocabulary(std::vector<Key>(given.begin(), given.end()), idf);
      note_size();
    } else if (o.idf_weights) {
      throw_invalid_argument(fmt::format("invalid {}: idf_weights require a vocabulary", who()));
    }
  }
  std::string who() const { return fmt::format("{} '{}'", Derived::kClass, this->name()); }

 private:
  Tensor found(const Tensor& x) const {
    if (this->options_.invert) return table_.tokens(x);
    return table_.encode(table_.places(x), this->options_.vocabulary_size);
  }
  LookupSettings<Key> settings() {
    auto& o = this->options_;
    bool hash_integers = false;
    if constexpr (requires { o.oov_method; }) hash_integers = o.oov_method == "farmhash";
    name_output_mode(o.output_mode);
    check_sparse(o.sparse, o.output_mode, who());
    return {.who = who(),
            .max_tokens = o.max_tokens,
            .num_oov_indices = o.num_oov_indices,
            .mask_token = o.mask_token,
            .oov_token = o.oov_token,
            .invert = o.invert,
            .output_mode = o.output_mode,
            .pad_to_max_tokens = o.pad_to_max_tokens,
            .hash_integers = hash_integers,
            .salt = o.salt};
  }
  void start_adapting() {
    if (vocabulary_in_config())
      throw_failed_precondition(
          fmt::format("{} was made with a vocabulary; adapt() requires a layer without one", who()));
    table_.start_counting();
  }
  void finish_adapting() {
    table_.finish_counting();
    note_size();
  }

  IndexLookup<Key> table_;
};

class StringLookupLayer : public LookupLayer<StringLookupLayer, WithSparse<StringLookupOptions>, std::string> {
 public:
  static constexpr const char* kClass = "StringLookup";
  template <typename V>
  static void fields(V& v, WithSparse<StringLookupOptions>& o) {
    first_fields(v, o);
    v("sparse", o.sparse);
    v("pad_to_max_tokens", o.pad_to_max_tokens);
    v("idf_weights", o.idf_weights);
    v("vocabulary", o.vocabulary);
    v("vocabulary_size", o.vocabulary_size);
    v("oov_method", o.oov_method);
    v("salt", o.salt);
    v("encoding", null_ignored(o.encoding));
    v.dropped("has_input_vocabulary");
    v.dropped("vocabulary_dtype", "string");
  }
  explicit StringLookupLayer(WithSparse<StringLookupOptions> options) : LookupLayer(std::move(options)) {
    normalize_choice(options_.oov_method, {"floormod", "farmhash"}, who() + ": oov_method");
  }
};

class IntegerLookupLayer : public LookupLayer<IntegerLookupLayer, WithSparse<IntegerLookupOptions>, std::int64_t> {
 public:
  static constexpr const char* kClass = "IntegerLookup";
  template <typename V>
  static void fields(V& v, WithSparse<IntegerLookupOptions>& o) {
    first_fields(v, o);
    v("sparse", o.sparse);
    v("pad_to_max_tokens", o.pad_to_max_tokens);
    v("vocabulary_dtype", o.vocabulary_dtype);
    v("idf_weights", o.idf_weights);
    v("vocabulary", o.vocabulary);
    v("vocabulary_size", o.vocabulary_size);
    v("oov_method", o.oov_method);
    v("salt", o.salt);
    v.dropped("has_input_vocabulary");
  }
  explicit IntegerLookupLayer(WithSparse<IntegerLookupOptions> options) : LookupLayer(checked(std::move(options))) {}

 private:
  static WithSparse<IntegerLookupOptions> checked(WithSparse<IntegerLookupOptions> options) {
    const std::string who = fmt::format("IntegerLookup '{}'", options.name);
    normalize_choice(options.oov_method, {"floormod", "farmhash"}, who + ": oov_method");
    normalize_choice(options.vocabulary_dtype, {"int64"}, who + ": vocabulary_dtype");
    return options;
  }
};

}  // namespace

std::string vocabulary_text(const Tensor& vocabulary) {
  if (vocabulary.dtype() == DType::kString) return fmt::format("{}", fmt::join(vocabulary.string_values(), "\n"));
  return fmt::format("{}", fmt::join(vocabulary.to_vector<std::int64_t>(), "\n"));
}

IndexLookup<std::string>& string_lookup_of(Layer& layer) { return dynamic_cast<StringLookupLayer&>(layer).table(); }

void register_lookup_layers(ClassTable& registry) {
  registry.add(flagged_row<StringLookupLayer>(
      "numbers", [](StringLookupLayer& layer, const Json& dtype) { layer.set_numbers(dtype); }));
  registry.add(flagged_row<IntegerLookupLayer>(
      "numbers", [](IntegerLookupLayer& layer, const Json& dtype) { layer.set_numbers(dtype); }));
}

}  // namespace lockstep::keras

namespace lockstep::layers {
namespace {

keras::KeepsVocabulary& vocabulary_of(const LayerHandle& layer, const char* what) {
  auto* found = layer ? dynamic_cast<keras::KeepsVocabulary*>(&keras::built_in_of(*layer)) : nullptr;
  if (!found) {
    throw_invalid_argument(
        fmt::format("{} requires a StringLookup, IntegerLookup or TextVectorization layer, found '{}'", what,
                    layer ? layer.name() : "none"));
  }
  return *found;
}

}  // namespace

LayerHandle StringLookup(StringLookupOptions options) {
  return std::make_shared<keras::StringLookupLayer>(std::move(options));
}
LayerHandle IntegerLookup(IntegerLookupOptions options) {
  return std::make_shared<keras::IntegerLookupLayer>(std::move(options));
}
Tensor get_vocabulary(const LayerHandle& layer, bool include_special_tokens) {
  return vocabulary_of(layer, "get_vocabulary").vocabulary(include_special_tokens);
}
void set_vocabulary(const LayerHandle& layer, const Tensor& vocabulary, const std::vector<double>& idf_weights) {
  vocabulary_of(layer, "set_vocabulary").set_vocabulary(vocabulary, idf_weights);
}
std::int64_t vocabulary_size(const LayerHandle& layer) {
  return vocabulary_of(layer, "vocabulary_size").vocabulary_size();
}

}  // namespace lockstep::layers

namespace lockstep::keras {

Tensor LayerHandle::get_vocabulary(bool include_special_tokens) const {
  return layers::get_vocabulary(*this, include_special_tokens);
}
void LayerHandle::set_vocabulary(const Tensor& vocabulary, const std::vector<double>& idf_weights) const {
  layers::set_vocabulary(*this, vocabulary, idf_weights);
}
std::int64_t LayerHandle::vocabulary_size() const { return layers::vocabulary_size(*this); }

}  // namespace lockstep::keras

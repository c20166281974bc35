#include "lockstep/data/dataset.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/preprocessing/categories_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/keras/preprocessing/lookup.h"
#include "lockstep/keras/preprocessing/lookup_internal.h"
#include "lockstep/keras/preprocessing/vocabulary_internal.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/ragged_elements_internal.h"

namespace lockstep::keras {

// A function is written as Keras writes a lambda: its name does not find it again.
template <typename Result>
struct FieldType<layers::TextRule<Result>> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "string or null"; }
  static bool read(const Json& found, layers::TextRule<Result>& v) {
    if (!found.is_null() && !found.is_string()) return false;
    v = found.is_null() ? layers::TextRule<Result>() : layers::TextRule<Result>(found.get<std::string>());
    return true;
  }
  static Json write(const layers::TextRule<Result>& v) {
    if (v.function())
      return {
          {"module", "builtins"}, {"class_name", "function"}, {"config", "<lambda>"}, {"registered_name", "function"}};
    return v ? Json(*v) : Json(nullptr);
  }
};

namespace {

using namespace layers;

// Tokens of several texts: those of text i end at ends[i].
struct Tokens {
  std::vector<std::string> all;
  std::vector<std::int64_t> ends;
};

// The length of the character that begins at `at`; 0 for an invalid one.
std::size_t character_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Longer forms than necessary, surrogates, and values beyond Unicode.
  const unsigned char second = length > 1 ? byte(at + 1) : 0;
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

void split_characters(const std::string& text, std::vector<std::string>& out) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    out.push_back(length == 0 ? "\xEF\xBF\xBD" : text.substr(at, length));
    at += std::max<std::size_t>(length, 1);
  }
}

Tokens words_of(const Tensor& texts) {
  const Tensors split =
      ops::call("StringSplitV2", {texts, Tensor::strings({""}, Shape{})}, {{"maxsplit", std::int64_t{-1}}});
  const std::vector<std::int64_t> places = split[0].to_vector<std::int64_t>();
  Tokens tokens{split[1].string_values(), std::vector<std::int64_t>(static_cast<std::size_t>(texts.dim(0)), 0)};
  for (std::size_t i = 0; i < places.size(); i += 2) ++tokens.ends[static_cast<std::size_t>(places[i])];
  std::int64_t end = 0;
  for (std::int64_t& count : tokens.ends) count = end += count;
  return tokens;
}

class TextVectorizationLayer : public ConfiguredLayer<TextVectorizationLayer, WithSparse<TextVectorizationOptions>>,
                               public KeepsVocabulary,
                               public OldRules {
 public:
  void count_in_floats() { table().set_numbers(DType::kFloat32); }
  static constexpr const char* kClass = "TextVectorization";
  template <typename V>
  static void fields(V& v, WithSparse<TextVectorizationOptions>& o) {
    v("max_tokens", o.max_tokens);
    v("standardize", o.standardize);
    v("split", o.split);
    v("ngrams", o.ngrams);
    v("output_mode", o.output_mode);
    v("output_sequence_length", o.output_sequence_length);
    v("pad_to_max_tokens", o.pad_to_max_tokens);
    v("sparse", o.sparse);
    v("ragged", o.ragged);
    v("vocabulary", o.vocabulary);
    v("idf_weights", o.idf_weights);
    v("encoding", null_ignored(o.encoding));
    v("vocabulary_size", o.vocabulary_size);
    v.dropped("has_input_vocabulary");
  }
  explicit TextVectorizationLayer(WithSparse<TextVectorizationOptions> options) : ConfiguredLayer(std::move(options)) {
    const std::string who = fmt::format("TextVectorization '{}'", name());
    if (options_.standardize)
      normalize_choice(*options_.standardize, {"lower_and_strip_punctuation", "lower", "strip_punctuation"},
                       who + ": standardize");
    if (options_.split) normalize_choice(*options_.split, {"whitespace", "character"}, who + ": split");
    if (options_.output_mode == "binary") options_.output_mode = "multi_hot";  // Keras 2
    if (options_.output_mode == "tf-idf") options_.output_mode = "tf_idf";
    // Keras 3 has no sparse one_hot of texts.
    check_sparse(options_.sparse, options_.output_mode == "one_hot" ? "int" : options_.output_mode, who);
    read_ngrams(who);
    if (options_.output_sequence_length && options_.output_mode != "int")
      throw_invalid_argument(fmt::format("invalid {}: output_sequence_length requires output_mode 'int'", who));
    if (options_.ragged && options_.output_mode != "int")
      throw_invalid_argument(
          fmt::format("invalid {}: ragged requires output_mode 'int', found '{}'", who, options_.output_mode));
    if (options_.output_sequence_length && *options_.output_sequence_length < 0)
      throw_invalid_argument(
          fmt::format("invalid {}: output_sequence_length is {}", who, *options_.output_sequence_length));
    lookup_ = track("_lookup_layer", StringLookup({.max_tokens = options_.max_tokens,
                                                   .mask_token = "",
                                                   .vocabulary = options_.vocabulary,
                                                   .idf_weights = options_.idf_weights,
                                                   .output_mode = options_.output_mode,
                                                   .pad_to_max_tokens = options_.pad_to_max_tokens,
                                                   .encoding = options_.encoding,
                                                   .vocabulary_size = options_.vocabulary_size})
                                         .ptr());
    if (options_.vocabulary) options_.vocabulary_size = table().size();
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    config["vocabulary_size"] =
        table().empty() && options_.vocabulary_size ? *options_.vocabulary_size : table().size();
    return config;
  }
  bool casts_inputs() const override { return false; }
  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor x = inputs.leaf();
    if (x.dtype() != DType::kString)
      throw_invalid_argument(fmt::format("invalid input of TextVectorization '{}': found {}, expected strings", name(),
                                         dtype_name(x.dtype())));
    if (graph::stands_for_shape(x)) return output_of(x);
    if (x.is_symbolic()) return traced(standardized(x));
    x = standardized(x);
    const std::optional<std::int64_t> length = options_.output_sequence_length;
    if (!tokenizes()) {
      const Tensor places = table().places(x);
      if (!length || places.rank() != 2) return table().encode(places, std::nullopt);
      if (options_.ragged) return ops::slice_axis(places, 1, 0, *length);
      Tokens rows;
      for (std::int64_t row = 1; row <= x.dim(0); ++row) rows.ends.push_back(row * x.dim(1));
      return padded(places.to_vector<std::int64_t>(), rows.ends, *length, 0);
    }
    Tokens tokens = tokens_of(x);
    const auto count = static_cast<std::int64_t>(tokens.all.size());
    if (options_.ragged) {
      tokens.ends.insert(tokens.ends.begin(), 0);
      return shortened(RaggedTensor::from_row_splits(
          table().places(Tensor::strings(std::move(tokens.all), Shape{count})), Tensor::from_vector(tokens.ends)));
    }
    const std::vector<std::int64_t> places =
        table().places(Tensor::strings(tokens.all, Shape{count})).to_vector<std::int64_t>();
    std::int64_t longest = 0, begin = 0;
    for (const std::int64_t end : tokens.ends) longest = std::max(longest, end - begin), begin = end;
    if (options_.output_mode == "int") return padded(places, tokens.ends, length.value_or(longest), 0);
    return table().encode(padded(places, tokens.ends, longest, kNone), std::nullopt);
  }

  void adapt(const Structure& data) {
    start_adapting();
    const Tensor& texts = data.leaf();
    count(texts.rank() == 1 ? ops::expand_dims(texts, -1) : texts);
    finish_adapting();
  }
  void adapt(const data::Dataset& batches) {
    start_adapting();
    for (const data::Element& element : batches) count(element.is_list() ? element[0].leaf() : element.leaf());
    finish_adapting();
  }

  Tensor vocabulary(bool include_special_tokens) const override { return kept().vocabulary(include_special_tokens); }
  void set_vocabulary(const Tensor& vocabulary, const std::vector<double>& idf_weights) override {
    kept().set_vocabulary(vocabulary, idf_weights);
    options_.vocabulary_size = table().size();
  }
  std::int64_t vocabulary_size() const override { return table().size(); }
  DType input_dtype() const override { return DType::kString; }
  bool vocabulary_in_config() const override { return kept().vocabulary_in_config(); }
  bool has_idf_weights() const override { return kept().has_idf_weights(); }
  Tensor idf_weights() const override { return kept().idf_weights(); }
  // Files have the vocabulary a second time, for the lookup layer inside, which takes it.
  void load_idf_weights(const Tensor&) override {}
  void load_vocabulary(const std::string&) override {}

 private:
  // No column has this number.
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  IndexLookup<std::string>& table() const { return string_lookup_of(*lookup_); }
  KeepsVocabulary& kept() const { return dynamic_cast<KeepsVocabulary&>(*lookup_); }
  bool splits() const { return options_.split || options_.split.function(); }
  bool tokenizes() const { return splits() || !widths_.empty(); }

  void read_ngrams(const std::string& who) {
    const Json& given = options_.ngrams;
    const auto add = [&](const Json& width) {
      const std::int64_t value = width.is_number_integer() ? width.get<std::int64_t>() : 0;
      if (value < 1 || value > 1000)
        throw_invalid_argument(fmt::format("invalid {}: ngrams is {}, expected numbers of words from 1 to 1000", who,
                                           dump_json(given).substr(0, 60)));
      widths_.push_back(value);
    };
    if (given.is_array()) {
      for (const Json& width : given) add(width);
    } else if (!given.is_null()) {
      add(given);
      const std::int64_t most = widths_[0];
      widths_.clear();
      for (std::int64_t width = 1; width <= most; ++width) widths_.push_back(width);
    }
  }

  Tensor standardized(Tensor x) const {
    if (const auto& function = options_.standardize.function()) {
      const Tensor changed = function(x);
      if (!changed.defined() || changed.dtype() != DType::kString || changed.shape() != x.shape())
        throw_invalid_argument(
            fmt::format("invalid result of the function 'standardize' of TextVectorization '{}': "
                        "found {}, expected strings of shape {}",
                        name(), changed.to_string().substr(0, 80), x.shape().to_string()));
      return changed;
    }
    const std::string how = options_.standardize.value_or("");
    if (how.starts_with("lower")) x = ops::call1("StringLower", {x});
    if (how.ends_with("punctuation")) {
      x = ops::call1(
          "StaticRegexReplace", {x},
          {{"pattern", std::string(R"([!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\'])")}, {"rewrite", std::string()}});
    }
    return x;
  }
  Tensor one_column(const Tensor& texts) const {
    if (texts.rank() < 2) return texts;
    if (texts.rank() > 2 || texts.dim(1) != 1)
      throw_invalid_argument(
          fmt::format("invalid input of TextVectorization '{}': found shape {}, expected (batch) or (batch, 1)", name(),
                      texts.shape().to_string()));
    return ops::squeeze(texts, {1});
  }
  ops::Attrs ngrams_attrs() const {
    return {{"separator", std::string(" ")}, {"ngram_widths", widths_},      {"left_pad", std::string()},
            {"right_pad", std::string()},    {"pad_width", std::int64_t{0}}, {"preserve_short_sequences", false}};
  }
  Tokens tokens_of(Tensor texts) const {
    if (splits()) texts = one_column(texts);
    Tokens tokens;
    if (const auto& function = options_.split.function()) {
      tokens = joined(function(texts), texts);
    } else if (!options_.split) {
      tokens.all = texts.string_values();
      const std::int64_t rows = texts.rank() > 1 ? texts.dim(0) : 1;
      for (std::int64_t row = 1; row <= rows; ++row) tokens.ends.push_back(row * texts.num_elements() / rows);
    } else if (*options_.split == "whitespace") {
      tokens = words_of(texts);
    } else {
      for (const std::string& text : texts.string_values()) {
        split_characters(text, tokens.all);
        tokens.ends.push_back(static_cast<std::int64_t>(tokens.all.size()));
      }
    }
    if (widths_.empty()) return tokens;
    std::vector<std::int64_t> splits = {0};
    splits.insert(splits.end(), tokens.ends.begin(), tokens.ends.end());
    const auto count = static_cast<std::int64_t>(tokens.all.size());
    const Tensors joined =
        ops::call("StringNGrams", {Tensor::strings(std::move(tokens.all), Shape{count}), Tensor::from_vector(splits)},
                  ngrams_attrs());
    splits = joined[1].to_vector<std::int64_t>();
    return {joined[0].string_values(), std::vector<std::int64_t>(splits.begin() + 1, splits.end())};
  }
  Tokens joined(const std::vector<std::vector<std::string>>& rows, const Tensor& texts) const {
    if (static_cast<std::int64_t>(rows.size()) != texts.num_elements())
      throw_invalid_argument(
          fmt::format("invalid result of the function 'split' of TextVectorization '{}': found the "
                      "tokens of {} texts, expected those of {}",
                      name(), rows.size(), texts.num_elements()));
    Tokens tokens;
    for (const std::vector<std::string>& row : rows) {
      tokens.all.insert(tokens.all.end(), row.begin(), row.end());
      tokens.ends.push_back(static_cast<std::int64_t>(tokens.all.size()));
    }
    return tokens;
  }
  // Tokens of a traced function, and where each row begins and ends.
  struct Rows {
    Tensor tokens, splits;
  };
  Rows traced_words(const Tensor& texts) const {
    const Tensors split =
        ops::call("StringSplitV2", {texts, Tensor::strings({""}, Shape{})}, {{"maxsplit", std::int64_t{-1}}});
    const RaggedTensor rows = ops::traced_rows_of(split);
    return {rows.flat_values(), rows.row_splits()};
  }
  static Rows traced_characters(const Tensor& texts) {
    const Tensors decoded = ops::call("UnicodeDecode", {texts}, {{"input_encoding", std::string("UTF-8")}});
    const Tensor count = ops::call1("Size", {decoded[1]}, {{"out_type", DType::kInt64}});
    const Tensor each = ops::range(Tensor::scalar(std::int64_t{0}), count + 1, Tensor::scalar(std::int64_t{1}));
    return {ops::call1("UnicodeEncode", {decoded[1], each}, {{"output_encoding", std::string("UTF-8")}}), decoded[0]};
  }
  Rows traced_rows(Tensor texts) const {
    if (options_.split.function())
      throw_unimplemented(
          fmt::format("TextVectorization '{}' with a function as split cannot be part of an exported graph", name()));
    Rows rows;
    if (!options_.split) {
      const Tensor shape = ops::shape_of(texts, DType::kInt64);
      const Tensor one = Tensor::from_vector(std::vector<std::int64_t>{1});
      const Tensor length = texts.rank() > 1 ? ops::slice(shape, {1}, {1}) : ops::slice(shape, {0}, {1});
      const Tensor count = texts.rank() > 1 ? ops::slice(shape, {0}, {1}) : one;
      const Tensor each = ops::range(Tensor::scalar(std::int64_t{0}), ops::reshape(count, Shape{}) + 1,
                                     Tensor::scalar(std::int64_t{1}));
      rows = {ops::reshape(texts, {-1}), each * length};
    } else {
      texts = one_column(texts);
      rows = *options_.split == "whitespace" ? traced_words(texts) : traced_characters(texts);
    }
    if (widths_.empty()) return rows;
    const Tensors joined = ops::call("StringNGrams", {rows.tokens, rows.splits}, ngrams_attrs());
    return {joined[0], joined[1]};
  }
  RaggedTensor shortened(const RaggedTensor& rows) const {
    const std::optional<std::int64_t> length = options_.output_sequence_length;
    return length ? rows.index({ops::SliceSpec::all(), ops::SliceSpec::range(0, *length, 1)}) : rows;
  }
  Structure traced(const Tensor& x) const {
    const bool integers = options_.output_mode == "int";
    const std::int64_t length = options_.output_sequence_length.value_or(-1);
    if (!tokenizes()) {
      const Tensor places = table().places(x);
      if (length < 0 || x.rank() != 2) return table().encode(places, std::nullopt);
      if (options_.ragged) return ops::slice_axis(places, 1, 0, length);
      return ops::slice(ops::pad(places, {{0, 0}, {0, length}}), {0, 0}, {-1, length});
    }
    const Rows rows = traced_rows(x);
    if (options_.ragged) return shortened(RaggedTensor::from_row_splits(table().places(rows.tokens), rows.splits));
    const Tensor ragged =
        ops::call1("RaggedTensorToTensor",
                   {Tensor::from_vector(std::vector<std::int64_t>{-1, length}), table().places(rows.tokens),
                    Tensor::scalar(integers ? std::int64_t{0} : kNone), rows.splits},
                   {{"row_partition_types", std::vector<std::string>{"ROW_SPLITS"}}});
    const Tensor dense = ops::ensure_shape(ragged, Shape{kUnknownDim, length});
    return integers ? dense : table().encode(dense, std::nullopt);
  }
  static Tensor padded(const std::vector<std::int64_t>& places, const std::vector<std::int64_t>& ends,
                       std::int64_t length, std::int64_t fill) {
    std::vector<std::int64_t> out(ends.size() * static_cast<std::size_t>(length), fill);
    std::int64_t begin = 0;
    for (std::size_t row = 0; row < ends.size(); ++row) {
      const std::int64_t last = std::min(ends[row], begin + length);
      std::copy(places.begin() + begin, places.begin() + last,
                out.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(length));
      begin = ends[row];
    }
    return Tensor::from_vector(out, Shape{static_cast<std::int64_t>(ends.size()), length});
  }
  // A symbol of the output's shape.
  Tensor output_of(const Tensor& x) const {
    Tensor rows = table().places(x);
    if (!tokenizes() && !options_.output_sequence_length) return table().encode(rows, options_.vocabulary_size);
    if (rows.rank() == 2) rows = ops::reduce_max(rows, ops::Ints{1});
    if (options_.output_mode != "int") return table().encode(ops::expand_dims(rows, -1), options_.vocabulary_size);
    if (options_.output_sequence_length) return ops::one_hot(rows, *options_.output_sequence_length, DType::kInt64);
    const Tensor some = ops::reshape(ops::where(ops::equal(rows, rows)), {-1});
    return ops::gather(ops::expand_dims(rows, -1), some, 1);
  }

  void start_adapting() const {
    if (vocabulary_in_config())
      throw_failed_precondition(fmt::format(
          "TextVectorization '{}' was made with a vocabulary; adapt() requires a layer without one", name()));
    table().start_counting();
  }
  void count(const Tensor& texts) const {
    const Tensor x = standardized(texts);
    if (!tokenizes()) return table().count(x);
    const Tokens tokens = tokens_of(x);
    table().count(tokens.all, tokens.ends);
  }
  void finish_adapting() {
    table().finish_counting();
    options_.vocabulary_size = table().size();
  }

  std::vector<std::int64_t> widths_;
  LayerPtr lookup_;
};

}  // namespace

void register_text_vectorization(ClassTable& registry) {
  registry.add(flagged_row<TextVectorizationLayer>(
      "numbers", [](TextVectorizationLayer& layer, const Json&) { layer.count_in_floats(); }));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle TextVectorization(TextVectorizationOptions options) {
  return std::make_shared<keras::TextVectorizationLayer>(std::move(options));
}

}  // namespace lockstep::layers

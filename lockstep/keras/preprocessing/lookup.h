// keras.layers: strings and integers as numbers of a vocabulary, and strings as sequences of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/core.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::layers {

// The vocabulary comes from the constructor, from set_vocabulary() or from adapt(). A token's number is its index in
// it: the mask token (output mode "int" only), num_oov_indices places for tokens outside of the vocabulary, then the
// tokens, from the most frequent one that adapt() saw to the rarest.
//
// Output modes: "int", "one_hot", "multi_hot", "count" as in categories.h, all int64; "tf_idf" is the count times the
// token's inverse document frequency, float32. The output of one_hot, multi_hot, count and tf_idf has as many columns
// as the vocabulary has entries, or max_tokens of them with pad_to_max_tokens.
//
// A `.keras` file has the vocabulary among its assets, unless it was given to the constructor; an exported SavedModel
// has it as a table. An .h5 file cannot have it: Unimplemented.

struct StringLookupOptions {
  std::optional<std::int64_t> max_tokens = {};  // of the vocabulary, special tokens included; at least 2
  std::int64_t num_oov_indices = 1;             // 0: a token outside of the vocabulary is an error
  std::optional<std::string> mask_token = {};
  std::optional<std::string> oov_token = "[UNK]";  // the string of an unknown number with `invert`
  OptionalList<std::string> vocabulary = {};
  OptionalList<double> idf_weights = {};  // as many as tokens; with "tf_idf" only
  bool invert = false;                    // numbers to strings; with "int" only
  std::string output_mode = "int";
  bool pad_to_max_tokens = false;
  std::string encoding = "utf-8";
  std::string name = {};
  std::string oov_method = "floormod";   // or "farmhash"; strings are hashed with both
  OptionalList<std::int64_t> salt = {};  // of the hash that spreads unknown tokens (categories.h)
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
  std::optional<std::int64_t> vocabulary_size = {};  // in files; the layer keeps it up to date
};
LayerHandle StringLookup(StringLookupOptions options = {});

struct IntegerLookupOptions {
  std::optional<std::int64_t> max_tokens = {};
  std::int64_t num_oov_indices = 1;
  std::optional<std::int64_t> mask_token = {};
  std::optional<std::int64_t> oov_token = -1;
  OptionalList<std::int64_t> vocabulary = {};
  std::string vocabulary_dtype = "int64";
  OptionalList<double> idf_weights = {};
  bool invert = false;
  std::string output_mode = "int";
  bool pad_to_max_tokens = false;
  std::string oov_method = "floormod";   // or "farmhash"
  OptionalList<std::int64_t> salt = {};  // with "farmhash" only
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
  std::optional<std::int64_t> vocabulary_size = {};
};
LayerHandle IntegerLookup(IntegerLookupOptions options = {});

// How strings are changed, or split into tokens: the name of a rule, nothing, or a function, which is not saved.
template <typename Result>
class TextRule : public std::optional<std::string> {
 public:
  using Function = std::function<Result(const Tensor& texts)>;

  TextRule(std::nullopt_t = std::nullopt) {}
  TextRule(const char* rule) : optional(rule) {}
  TextRule(std::string rule) : optional(std::move(rule)) {}
  template <typename Fn>
  requires(std::is_invocable_v<Fn&, const Tensor&>) TextRule(Fn function) : function_(std::move(function)) {
    static_assert(std::is_invocable_r_v<Result, Fn&, const Tensor&>,
                  "TextVectorization: a function as standardize returns a Tensor of strings, a function as split the "
                  "tokens of each text, a std::vector<std::vector<std::string>> as strings::split does");
  }
  const Function& function() const { return function_; }

 private:
  Function function_;
};

struct TextVectorizationOptions {
  std::optional<std::int64_t> max_tokens = {};
  // Or "lower", "strip_punctuation", nothing, a function of string tensors.
  TextRule<Tensor> standardize = "lower_and_strip_punctuation";
  // Or "character", nothing, a function of a string tensor (batch).
  TextRule<std::vector<std::vector<std::string>>> split = "whitespace";
  Json ngrams = nullptr;  // a list of widths, or a number n for 1 to n; words are joined by spaces
  std::string output_mode = "int";
  std::optional<std::int64_t> output_sequence_length = {};  // with "int": cut and filled with zeros to this length
  bool pad_to_max_tokens = false;
  OptionalList<std::string> vocabulary = {};
  OptionalList<double> idf_weights = {};
  bool ragged = false;  // with "int": calls return ragged tensors, RaggedTensor(layer(x))
  std::string encoding = "utf-8";
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
  std::optional<std::int64_t> vocabulary_size = {};
};
// Strings of shape (batch) or (batch, 1) to (batch, length) with "int", else to (batch, vocabulary).
LayerHandle TextVectorization(TextVectorizationOptions options = {});

// Of the three classes: the vocabulary, strings or int64. Without special tokens it begins with the first token.
Tensor get_vocabulary(const LayerHandle& layer, bool include_special_tokens = true);
// With or without special tokens at the beginning. Throws InvalidArgument for repeated tokens and for more than
// max_tokens.
void set_vocabulary(const LayerHandle& layer, const Tensor& vocabulary, const std::vector<double>& idf_weights = {});
std::int64_t vocabulary_size(const LayerHandle& layer);

}  // namespace lockstep::layers

// The table behind the lookup layers: tokens to places of a vocabulary and back.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/preprocessing/categories_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/table_resource_internal.h"

namespace lockstep::keras {

template <typename Key>
struct LookupSettings {
  std::string who;  // for messages: "StringLookup 'words'"
  std::optional<std::int64_t> max_tokens;
  std::int64_t num_oov_indices = 1;
  std::optional<Key> mask_token, oov_token;
  bool invert = false;
  std::string output_mode;
  bool pad_to_max_tokens = false;
  bool hash_integers = false;  // spreads unknown integers by their hash, not by their remainder
  std::optional<std::vector<std::int64_t>> salt;
};

inline Tensor tensor_of(std::vector<std::string> keys, const Shape& shape) {
  return Tensor::strings(std::move(keys), shape);
}
inline Tensor tensor_of(const std::vector<std::int64_t>& keys, const Shape& shape) {
  return Tensor::from_vector(keys, shape);
}

template <typename Key>
class IndexLookup {
 public:
  static constexpr bool kStrings = std::is_same_v<Key, std::string>;

  // Throws InvalidArgument for settings that do not fit together.
  explicit IndexLookup(LookupSettings<Key> settings) : set_(std::move(settings)) {
    normalize_choice(set_.output_mode, {"int", "one_hot", "multi_hot", "count", "tf_idf"}, set_.who + ": output_mode");
    if (set_.max_tokens && *set_.max_tokens < 2)
      throw_invalid_argument(
          fmt::format("invalid {}: max_tokens is {}, expected at least 2", set_.who, *set_.max_tokens));
    if (set_.pad_to_max_tokens && !set_.max_tokens)
      throw_invalid_argument(fmt::format("invalid {}: pad_to_max_tokens requires max_tokens", set_.who));
    if (set_.num_oov_indices < 0 || set_.num_oov_indices > std::numeric_limits<std::int32_t>::max())
      throw_invalid_argument(fmt::format("invalid {}: num_oov_indices is {}", set_.who, set_.num_oov_indices));
    if (set_.invert && set_.output_mode != "int")
      throw_invalid_argument(fmt::format("invalid {}: invert requires output_mode 'int'", set_.who));
    if (set_.salt && !kStrings && !set_.hash_integers)
      throw_invalid_argument(fmt::format("invalid {}: salt requires oov_method 'farmhash'", set_.who));
    normalize_salt(set_.salt, set_.who);
  }

  const LookupSettings<Key>& settings() const { return set_; }
  bool counts_documents() const { return set_.output_mode == "tf_idf"; }
  // Entries of the vocabulary, special ones included.
  std::int64_t size() const { return token_start() + static_cast<std::int64_t>(tokens_.size()); }
  bool empty() const { return tokens_.empty(); }
  const Tensor& idf_weights() const { return idf_; }
  void set_idf_weights(Tensor weights) { idf_ = std::move(weights); }
  // The dtype of encoded places; Keras 2 has floats.
  void set_numbers(DType dtype) { numbers_ = dtype; }

  std::vector<Key> vocabulary(bool include_special_tokens) const {
    std::vector<Key> out = include_special_tokens ? special_tokens() : std::vector<Key>();
    out.insert(out.end(), tokens_.begin(), tokens_.end());
    return out;
  }

  // With or without special tokens at its beginning.
  void set_vocabulary(std::vector<Key> vocabulary, const std::vector<double>& idf) {
    if (vocabulary.empty()) throw_invalid_argument(fmt::format("invalid {}: found an empty vocabulary", set_.who));
    if (counts_documents() == idf.empty())
      throw_invalid_argument(
          fmt::format("invalid {}: idf_weights and output_mode 'tf_idf' require each other", set_.who));
    if (!idf.empty() && idf.size() != vocabulary.size())
      throw_invalid_argument(fmt::format("invalid {}: found {} idf_weights, expected {}, one for each token", set_.who,
                                         idf.size(), vocabulary.size()));
    const std::vector<Key> special = special_tokens();
    const bool found =
        vocabulary.size() >= special.size() && std::equal(special.begin(), special.end(), vocabulary.begin());
    std::vector<float> weights(idf.begin(), idf.end());
    if (found) {
      vocabulary.erase(vocabulary.begin(), vocabulary.begin() + static_cast<std::ptrdiff_t>(special.size()));
    } else if (!idf.empty()) {
      double mean = 0;
      for (const double weight : idf) mean += weight / static_cast<double>(idf.size());
      weights.insert(weights.begin(), special.size(), static_cast<float>(mean));
    }
    set_tokens(std::move(vocabulary));
    if (counts_documents()) set_weights(std::move(weights));
  }

  // Indices of keys, int64 of the same shape; keys are symbolic while shapes are inferred. A traced function looks them
  // up in a table.
  Tensor places(const Tensor& keys) const {
    if (graph::stands_for_shape(keys)) return ops::cast(ops::equal(keys, keys), DType::kInt64);
    if (keys.is_symbolic()) return traced_places(keys);
    require_vocabulary();
    const std::vector<Key> given = keys_of(keys);
    std::vector<std::int64_t> out(given.size());
    std::vector<std::int64_t> buckets;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (set_.mask_token && given[i] == *set_.mask_token) {
        out[i] = mask_place();
      } else if (const auto known = index_.find(given[i]); known != index_.end()) {
        out[i] = known->second;
      } else if (set_.num_oov_indices == 0) {
        throw_invalid_argument(fmt::format("{} requires tokens of its vocabulary, as num_oov_indices is 0: found {}",
                                           set_.who, text_of(given[i])));
      } else {
        if (set_.num_oov_indices > 1 && buckets.empty()) buckets = buckets_of(keys).template to_vector<std::int64_t>();
        out[i] = oov_start() + (buckets.empty() ? 0 : buckets[i]);
      }
    }
    return Tensor::from_vector(out, keys.shape());
  }

  // The tokens at places of any integer dtype.
  Tensor tokens(const Tensor& places) const {
    if (graph::stands_for_shape(places)) {
      if constexpr (kStrings) return ops::call1("AsString", {places});
      return ops::cast(places, DType::kInt64);
    }
    if (places.is_symbolic()) return traced_tokens(places);
    require_vocabulary();
    std::vector<Key> out;
    for (const std::int64_t place : ops::cast(places, DType::kInt64).to_vector<std::int64_t>()) {
      const std::int64_t token = place - token_start();
      if (set_.mask_token && place == 0) {
        out.push_back(*set_.mask_token);
      } else if (token >= 0 && token < static_cast<std::int64_t>(tokens_.size())) {
        out.push_back(tokens_[static_cast<std::size_t>(token)]);
      } else if (set_.oov_token) {
        out.push_back(*set_.oov_token);
      } else {
        throw_invalid_argument(
            fmt::format("{} requires an oov_token for indices outside of its vocabulary: found {}", set_.who, place));
      }
    }
    return tensor_of(std::move(out), places.shape());
  }

  // Places as the output mode asks for. `size`: of the vocabulary, where it has not been read yet.
  Tensor encode(const Tensor& places, const std::optional<std::int64_t>& size_in_file) const {
    if (set_.output_mode == "int") return ops::cast(places, numbers_);
    const std::int64_t depth = set_.pad_to_max_tokens ? *set_.max_tokens : empty() ? size_in_file.value_or(0) : size();
    if (depth == 0)
      throw_failed_precondition(
          fmt::format("{} requires a vocabulary for output_mode '{}': call adapt() with data, or give a vocabulary",
                      set_.who, set_.output_mode));
    if (!counts_documents()) return encode_categories(places, set_.output_mode, depth, numbers_);
    const Tensor counts = encode_categories(places, "count", depth, DType::kFloat32);
    if (graph::stands_for_shape(counts)) return counts;
    if (!idf_.defined())
      throw_failed_precondition(fmt::format("{} requires idf_weights: call adapt() with data", set_.who));
    return counts * idf_;
  }

  // ---- learning a vocabulary ----
  void start_counting() {
    counts_.clear();
    document_counts_.clear();
    documents_ = 0;
  }
  // Tokens of documents that end at these places.
  void count(const std::vector<Key>& tokens, const std::vector<std::int64_t>& ends) {
    for (const Key& token : tokens) ++counts_[token];
    if (!counts_documents()) return;
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      std::unordered_set<Key> seen;
      for (; begin < end; ++begin) {
        const Key& token = tokens[static_cast<std::size_t>(begin)];
        if (seen.insert(token).second) ++document_counts_[token];
      }
      ++documents_;
    }
  }
  void count(const Tensor& batch) {
    const std::vector<Key> tokens = keys_of(batch);
    // One row of a batch is a document; a batch of rank 1 is one.
    const std::int64_t rows = batch.rank() < 2 ? 1 : batch.dim(0);
    std::vector<std::int64_t> ends;
    for (std::int64_t row = 1; row <= rows; ++row)
      ends.push_back(row * static_cast<std::int64_t>(tokens.size()) / std::max<std::int64_t>(rows, 1));
    count(tokens, ends);
  }
  // The most frequent tokens first; of equally frequent ones the greatest.
  void finish_counting() {
    if (set_.mask_token) counts_.erase(*set_.mask_token);
    if (set_.oov_token) counts_.erase(*set_.oov_token);
    if (counts_.empty()) throw_invalid_argument(fmt::format("{}: adapt() found no tokens", set_.who));
    std::vector<std::pair<std::int64_t, Key>> sorted;
    for (const auto& [token, count] : counts_) sorted.emplace_back(count, token);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    if (set_.max_tokens) {
      const std::int64_t most = std::max<std::int64_t>(*set_.max_tokens - token_start(), 0);
      sorted.resize(std::min(sorted.size(), static_cast<std::size_t>(most)));
    }
    std::vector<Key> tokens;
    std::vector<float> weights;
    double mean = 0;
    for (auto& [count, token] : sorted) {
      if (counts_documents()) {
        const double in = static_cast<double>(document_counts_[token]);
        weights.push_back(static_cast<float>(std::log(1 + static_cast<double>(documents_) / (1 + in))));
        mean += weights.back() / static_cast<double>(sorted.size());
      }
      tokens.push_back(std::move(token));
    }
    set_tokens(std::move(tokens));
    if (counts_documents()) {
      weights.insert(weights.begin(), static_cast<std::size_t>(token_start()), static_cast<float>(mean));
      set_weights(std::move(weights));
    }
    start_counting();
  }

  // The elements of a tensor of strings, or of integers.
  std::vector<Key> keys_of(const Tensor& keys) const {
    check_keys(keys);
    if constexpr (kStrings) {
      return keys.string_values();
    } else {
      return ops::cast(keys, DType::kInt64).template to_vector<std::int64_t>();
    }
  }

 private:
  void check_keys(const Tensor& keys) const {
    if ((keys.dtype() == DType::kString) != kStrings)
      throw_invalid_argument(fmt::format("invalid input of {}: found {}, expected {}", set_.who,
                                         dtype_name(keys.dtype()), kStrings ? "strings" : "integers"));
  }
  // Tokens that modes other than "int" skip have a number outside of the columns.
  std::int64_t mask_place() const { return set_.output_mode == "int" ? 0 : std::numeric_limits<std::int64_t>::max(); }

  // One table for all traces of a vocabulary, so that a file has it once.
  Tensor graph_table() const {
    require_vocabulary();
    if (graph_table_) return Tensor::resource(graph_table_);
    std::vector<Key> tokens = tokens_;
    std::vector<std::int64_t> places(tokens_.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = token_start() + static_cast<std::int64_t>(i);
    if (set_.mask_token) {
      tokens.push_back(*set_.mask_token);
      places.push_back(mask_place());
    }
    const auto count = static_cast<std::int64_t>(tokens.size());
    Tensor from = tensor_of(std::move(tokens), Shape{count}), to = Tensor::from_vector(places, Shape{count});
    if (set_.invert) std::swap(from, to);
    const auto table = std::make_shared<ops::TableResource>("lookup_table", from.dtype(), to.dtype());
    table->insert(from, to, true);
    graph_table_ = table;
    return Tensor::resource(graph_table_);
  }
  static Tensor find_in_table(const Tensor& table, const Tensor& keys, const Tensor& default_value) {
    return graph::record_operation("LookupTableFindV2", {table, keys, default_value})[0];
  }
  Tensor traced_places(const Tensor& keys) const {
    check_keys(keys);
    const Tensor known = kStrings ? keys : ops::cast(keys, DType::kInt64);
    const std::int64_t unknown = set_.num_oov_indices == 1 ? oov_start() : -1;
    const Tensor found = find_in_table(graph_table(), known, Tensor::scalar(unknown));
    if (set_.num_oov_indices == 1) return found;
    const Tensor is_known = ops::greater_equal(found, Tensor::scalar(std::int64_t{0}));
    if (set_.num_oov_indices > 1) return ops::where(is_known, found, buckets_of(keys) + oov_start());
    require_all(is_known, "requires tokens of its vocabulary, as num_oov_indices is 0");
    return found;
  }
  Tensor traced_tokens(const Tensor& places) const {
    const Tensor known = ops::cast(places, DType::kInt64);
    Key unknown{};
    if (set_.oov_token) unknown = *set_.oov_token;
    const Tensor table = graph_table();
    if (!set_.oov_token) {
      const std::int64_t first = set_.mask_token ? 0 : token_start();
      const Tensor fits =
          ops::logical_and(ops::greater_equal(known, Tensor::scalar(first)), ops::less(known, Tensor::scalar(size())));
      require_all(fits, "requires an oov_token for indices outside of its vocabulary");
    }
    return find_in_table(table, known, tensor_of(std::vector<Key>{unknown}, Shape{}));
  }
  void require_all(const Tensor& condition, const char* what) const {
    ops::call("Assert", {ops::reduce_all(condition), Tensor::strings({fmt::format("{} {}", set_.who, what)}, Shape{})});
  }

  void require_vocabulary() const {
    if (!has_vocabulary_)
      throw_failed_precondition(
          fmt::format("{} requires a vocabulary: call adapt() with data, or give a vocabulary", set_.who));
  }
  std::int64_t oov_start() const { return set_.mask_token && set_.output_mode == "int" ? 1 : 0; }
  std::int64_t token_start() const { return oov_start() + set_.num_oov_indices; }
  static std::string text_of(const Key& key) {
    if constexpr (kStrings)
      return fmt::format("'{}'", key);
    else
      return fmt::format("{}", key);
  }
  std::vector<Key> special_tokens() const {
    std::vector<Key> out;
    if (oov_start() == 1) out.push_back(*set_.mask_token);
    Key unknown{};
    if constexpr (kStrings) unknown = "None";  // as Keras writes it
    out.insert(out.end(), static_cast<std::size_t>(set_.num_oov_indices), set_.oov_token.value_or(unknown));
    return out;
  }
  Tensor buckets_of(const Tensor& keys) const {
    if (kStrings || set_.hash_integers) return hash_buckets(keys, set_.num_oov_indices, set_.salt);
    return ops::floor_mod(ops::cast(keys, DType::kInt64), Tensor::scalar(set_.num_oov_indices));
  }
  void set_tokens(std::vector<Key> tokens) {
    if (set_.max_tokens && token_start() + static_cast<std::int64_t>(tokens.size()) > *set_.max_tokens)
      throw_invalid_argument(
          fmt::format("invalid {}: found a vocabulary of {} entries, expected at most max_tokens, {}", set_.who,
                      token_start() + static_cast<std::int64_t>(tokens.size()), *set_.max_tokens));
    std::unordered_map<Key, std::int64_t> index;
    index.reserve(tokens.size());
    std::int64_t place = token_start();
    for (const Key& token : tokens) {
      if (!index.emplace(token, place++).second)
        throw_invalid_argument(fmt::format("invalid {}: the vocabulary has {} twice", set_.who, text_of(token)));
      if (set_.mask_token && token == *set_.mask_token)
        throw_invalid_argument(fmt::format("invalid {}: the vocabulary has the mask token {} behind its beginning",
                                           set_.who, text_of(token)));
      if (set_.oov_token && set_.invert && token == *set_.oov_token)
        throw_invalid_argument(fmt::format("invalid {}: the vocabulary has the oov token {} behind its beginning",
                                           set_.who, text_of(token)));
    }
    tokens_ = std::move(tokens);
    index_ = std::move(index);
    has_vocabulary_ = true;
    graph_table_ = nullptr;
  }
  void set_weights(std::vector<float> weights) {
    if (set_.pad_to_max_tokens) weights.resize(static_cast<std::size_t>(*set_.max_tokens), 0.0f);
    const auto count = static_cast<std::int64_t>(weights.size());
    idf_ = Tensor::from_vector(weights, Shape{count});
  }

  LookupSettings<Key> set_;
  bool has_vocabulary_ = false;  // one of special tokens only has no tokens_
  std::vector<Key> tokens_;
  std::unordered_map<Key, std::int64_t> index_;
  Tensor idf_;
  mutable std::shared_ptr<ops::TableResource> graph_table_;  // of traces
  DType numbers_ = DType::kInt64;
  std::unordered_map<Key, std::int64_t> counts_, document_counts_;
  std::int64_t documents_ = 0;
};

// The table of a StringLookup layer.
IndexLookup<std::string>& string_lookup_of(Layer& layer);

}  // namespace lockstep::keras

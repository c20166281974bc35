// keras.preprocessing.sequence: pairs of words for word2vec.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::utils {

struct SkipgramsKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t vocabulary_size = 0;  // words are 1 ... vocabulary_size - 1; 0 stands for none
  std::int64_t window_size = 4;      // words on each side
  double negative_samples = 1.0;     // random pairs for each pair of the text; 0: none
  bool shuffle = true;
  Tensor sampling_table = {};                       // the probability of each word; undefined: all are used
  std::optional<std::int64_t> seed = std::nullopt;  // of shuffling
};
using WordPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
// const auto [couples, labels] = skipgrams(words, {...}): the label of a pair of the text is 1, of a random one 0.
// Numbers are those of Python's global generator. Throws InvalidArgument for a word outside of the table.
std::pair<WordPairs, std::vector<std::int32_t>> skipgrams(const std::vector<std::int64_t>& sequence,
                                                          const SkipgramsKeywords& o);
std::pair<WordPairs, std::vector<std::int32_t>> skipgrams(const std::vector<std::int32_t>& sequence,
                                                          const SkipgramsKeywords& o);

struct SamplingTableKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t size = 0;
  double sampling_factor = 1e-5;
};
// The probability of each word of a string, by its rank, with which skipgrams uses it: float64 (size).
Tensor make_sampling_table(const SamplingTableKeywords& o);
inline Tensor make_sampling_table(std::int64_t size, double sampling_factor = 1e-5) {
  return make_sampling_table({{}, size, sampling_factor});
}

}  // namespace lockstep::utils

#include "lockstep/keras/skipgrams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/random/python_random.h"

namespace lockstep::utils {
namespace {

template <typename T>
std::vector<T> in_order(const std::vector<T>& items, const std::vector<std::int64_t>& order) {
  std::vector<T> out;
  for (const std::int64_t i : order) out.push_back(items[static_cast<std::size_t>(i)]);
  return out;
}

}  // namespace

std::pair<WordPairs, std::vector<std::int32_t>> skipgrams(const std::vector<std::int64_t>& sequence,
                                                          const SkipgramsKeywords& o) {
  const std::vector<double> table =
      o.sampling_table.defined() ? o.sampling_table.astype(DType::kFloat64).to_vector<double>() : std::vector<double>{};
  const auto length = static_cast<std::int64_t>(sequence.size());
  WordPairs couples;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t word = sequence[static_cast<std::size_t>(i)];
    if (word == 0) continue;
    if (o.sampling_table.defined()) {
      if (word < 0 || word >= static_cast<std::int64_t>(table.size()))
        throw_invalid_argument(fmt::format("skipgrams: word {} is outside of the sampling table, which has {} entries",
                                           word, table.size()));
      if (table[static_cast<std::size_t>(word)] < random::python_random()) continue;
    }
    for (std::int64_t j = std::max<std::int64_t>(0, i - o.window_size); j < std::min(length, i + o.window_size + 1);
         ++j) {
      const std::int64_t other = sequence[static_cast<std::size_t>(j)];
      if (j != i && other != 0) couples.emplace_back(word, other);
    }
  }
  std::vector<std::int32_t> labels(couples.size(), 1);
  if (o.negative_samples > 0 && !couples.empty()) {
    std::vector<std::int64_t> words;
    for (const auto& couple : couples) words.push_back(couple.first);
    words = in_order(words, random::python_shuffle(static_cast<std::int64_t>(words.size())));
    const auto count = static_cast<std::size_t>(static_cast<double>(labels.size()) * o.negative_samples);
    for (std::size_t i = 0; i < count; ++i)
      couples.emplace_back(words[i % words.size()], random::python_randint(1, o.vocabulary_size - 1));
    labels.resize(labels.size() + count, 0);
  }
  if (o.shuffle) {
    const std::int64_t seed = o.seed ? *o.seed : random::python_randint(0, 10000000);
    const auto order = random::python_shuffled(seed, static_cast<std::int64_t>(couples.size()));
    random::python_shuffled(seed,
                            static_cast<std::int64_t>(labels.size()));  // from the current state of Python's generator
    couples = in_order(couples, order);
    labels = in_order(labels, order);
  }
  return {std::move(couples), std::move(labels)};
}

std::pair<WordPairs, std::vector<std::int32_t>> skipgrams(const std::vector<std::int32_t>& sequence,
                                                          const SkipgramsKeywords& o) {
  return skipgrams(std::vector<std::int64_t>(sequence.begin(), sequence.end()), o);
}

Tensor make_sampling_table(const SamplingTableKeywords& o) {
  constexpr double kGamma = 0.577;
  std::vector<double> table;
  for (std::int64_t i = 0; i < o.size; ++i) {
    const auto rank = static_cast<double>(std::max<std::int64_t>(i, 1));
    const double f = o.sampling_factor * (rank * (std::log(rank) + kGamma) + 0.5 - 1.0 / (12.0 * rank));
    table.push_back(std::min(1.0, f / std::sqrt(f)));
  }
  return Tensor::from_vector(table, Shape{o.size});
}

}  // namespace lockstep::utils

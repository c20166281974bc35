// tf.random's samplers of candidates, for losses of many classes. Numbers are TensorFlow's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::ops::random {

// const auto [sampled, true_expected, sampled_expected] = log_uniform_candidate_sampler(...).
struct CandidateSamples {
  Tensor sampled_candidates;      // int64 (num_sampled)
  Tensor true_expected_count;     // float32, the shape of true_classes
  Tensor sampled_expected_count;  // float32 (num_sampled)
};

struct CandidateSamplerKeywords {
  FieldNamesOnly names_only = {};
  Tensor true_classes = {};  // int64 (batch, num_true)
  std::int64_t num_true = 1;
  std::int64_t num_sampled = 1;
  bool unique = true;
  std::int64_t range_max = 0;  // classes are 0 ... range_max - 1
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};  // has no effect
};
CandidateSamples uniform_candidate_sampler(const CandidateSamplerKeywords& o);
CandidateSamples log_uniform_candidate_sampler(const CandidateSamplerKeywords& o);
CandidateSamples learned_unigram_candidate_sampler(const CandidateSamplerKeywords& o);

struct FixedUnigramKeywords {
  FieldNamesOnly names_only = {};
  Tensor true_classes = {};
  std::int64_t num_true = 1;
  std::int64_t num_sampled = 1;
  bool unique = true;
  std::int64_t range_max = 0;
  std::string vocab_file = {};  // or unigrams: how often each class comes
  double distortion = 1.0;
  std::int64_t num_reserved_ids = 0;
  std::int64_t num_shards = 1;
  std::int64_t shard = 0;
  std::vector<float> unigrams = {};
  std::optional<std::int64_t> seed = std::nullopt;
};
CandidateSamples fixed_unigram_candidate_sampler(const FixedUnigramKeywords& o);

struct AllCandidateKeywords {
  FieldNamesOnly names_only = {};
  Tensor true_classes = {};
  std::int64_t num_true = 1;
  std::int64_t num_sampled = 1;
  bool unique = true;
  std::optional<std::int64_t> seed = std::nullopt;
};
CandidateSamples all_candidate_sampler(const AllCandidateKeywords& o);

// By position.
inline CandidateSamples uniform_candidate_sampler(const Tensor& true_classes, std::int64_t num_true,
                                                  std::int64_t num_sampled, bool unique, std::int64_t range_max,
                                                  std::optional<std::int64_t> seed = std::nullopt) {
  return uniform_candidate_sampler({{}, true_classes, num_true, num_sampled, unique, range_max, seed});
}
inline CandidateSamples log_uniform_candidate_sampler(const Tensor& true_classes, std::int64_t num_true,
                                                      std::int64_t num_sampled, bool unique, std::int64_t range_max,
                                                      std::optional<std::int64_t> seed = std::nullopt) {
  return log_uniform_candidate_sampler({{}, true_classes, num_true, num_sampled, unique, range_max, seed});
}
inline CandidateSamples learned_unigram_candidate_sampler(const Tensor& true_classes, std::int64_t num_true,
                                                          std::int64_t num_sampled, bool unique, std::int64_t range_max,
                                                          std::optional<std::int64_t> seed = std::nullopt) {
  return learned_unigram_candidate_sampler({{}, true_classes, num_true, num_sampled, unique, range_max, seed});
}
inline CandidateSamples all_candidate_sampler(const Tensor& true_classes, std::int64_t num_true,
                                              std::int64_t num_sampled, bool unique,
                                              std::optional<std::int64_t> seed = std::nullopt) {
  return all_candidate_sampler({{}, true_classes, num_true, num_sampled, unique, seed});
}

}  // namespace lockstep::ops::random

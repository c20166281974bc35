#include "lockstep/random/candidate_samplers.h"

#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::ops::random {
namespace {

template <typename Keywords>
CandidateSamples draw(std::string_view op, const Keywords& o, Attrs attrs = {}) {
  const auto [seed, seed2] = lockstep::random::op_seeds(o.seed);
  attrs.set("num_true", o.num_true);
  attrs.set("num_sampled", o.num_sampled);
  attrs.set("unique", o.unique);
  attrs.set("seed", seed);
  attrs.set("seed2", seed2);
  const Tensors out = call(op, {cast(o.true_classes, DType::kInt64)}, std::move(attrs));
  return {out[0], out[1], out[2]};
}

}  // namespace

CandidateSamples uniform_candidate_sampler(const CandidateSamplerKeywords& o) {
  return draw("UniformCandidateSampler", o, {{"range_max", o.range_max}});
}
CandidateSamples log_uniform_candidate_sampler(const CandidateSamplerKeywords& o) {
  return draw("LogUniformCandidateSampler", o, {{"range_max", o.range_max}});
}
CandidateSamples learned_unigram_candidate_sampler(const CandidateSamplerKeywords& o) {
  return draw("LearnedUnigramCandidateSampler", o, {{"range_max", o.range_max}});
}
CandidateSamples fixed_unigram_candidate_sampler(const FixedUnigramKeywords& o) {
  return draw("FixedUnigramCandidateSampler", o,
              {{"range_max", o.range_max},
               {"vocab_file", o.vocab_file},
               {"distortion", static_cast<float>(o.distortion)},
               {"num_reserved_ids", o.num_reserved_ids},
               {"num_shards", o.num_shards},
               {"shard", o.shard},
               {"unigrams", o.unigrams}});
}
CandidateSamples all_candidate_sampler(const AllCandidateKeywords& o) { return draw("AllCandidateSampler", o); }

}  // namespace lockstep::ops::random

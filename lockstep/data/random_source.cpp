// Dataset.random and sample_from_datasets.
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/data/seed_source_internal.h"
#include "lockstep/data/sequence_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {
namespace {

// The words of a Philox generator, as TensorFlow's RandomDataset gives them.
class RandomIterator : public NodeIterator {
 public:
  explicit RandomIterator(Seeds seeds) : seeds_(seeds), words_(words_from(seeds, 0)) {}
  bool next(Item& out) override {
    out = Item(Tensor::scalar<std::int64_t>(words_.next()));
    ++given_;
    return true;
  }
  Json save() const override { return {{"seeds", {seeds_.first, seeds_.second}}, {"given", given_}}; }
  void restore(const Json& state) override {
    const std::int64_t given = state_count(state, "given");
    seeds_ = state_pair(state, "seeds");
    words_ = words_from(seeds_, static_cast<std::uint64_t>(given));
    given_ = given;
  }

 private:
  Seeds seeds_;
  ops::PhiloxStream words_;
  std::int64_t given_ = 0;
};

class RandomNode : public DatasetNode {
 public:
  RandomNode(Seeds seeds, bool rerandomize) : DatasetNode("random"), seeds_(seeds, rerandomize) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<RandomIterator>(seeds_.next());
  }
  std::int64_t cardinality() const override { return kInfiniteCardinality; }
  ElementSpec element_spec() const override { return TensorSpec(Shape(), DType::kInt64); }
  std::optional<Element> sample(std::int64_t) const override { return Element(Tensor::scalar<std::int64_t>(0)); }
  Json save_node() const override { return seeds_.save(); }
  void restore_node(const Json& state) const override { seeds_.restore(state); }

 private:
  mutable SeedSource seeds_;
};

}  // namespace

NodePtr random_node(std::pair<std::int64_t, std::int64_t> seeds, bool rerandomize_each_iteration) {
  return std::make_shared<RandomNode>(seeds, rerandomize_each_iteration);
}

NodePtr sample_node(const std::vector<Dataset>& datasets, const SampleOptions& options) {
  if (datasets.empty()) throw_invalid_argument("sample_from_datasets requires at least one dataset");
  if (!options.weights.empty() && options.weights.size() != datasets.size()) {
    throw_invalid_argument(
        fmt::format("sample_from_datasets: found {} weights for {} datasets", options.weights.size(), datasets.size()));
  }
  std::vector<NodePtr> nodes{nullptr};
  std::vector<float> logits;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const double weight = options.weights.empty() ? 1 : options.weights[i];
    if (!(weight >= 0 && std::isfinite(weight))) {
      throw_invalid_argument(
          fmt::format("sample_from_datasets: invalid weight: found {}, expected a number of at least 0", weight));
    }
    if (weight == 0) continue;
    nodes.push_back(datasets[i].node());
    logits.push_back(options.weights.empty() ? 1.0F : std::log(static_cast<float>(weight)));
  }
  if (logits.empty()) return take_node(datasets[0].node(), 0);
  if (logits.size() == 1) return nodes[1];
  const Tensor rows = Tensor::from_vector(logits, {1, static_cast<std::int64_t>(logits.size())});
  // A row of two words seeds one draw.
  const Dataset words = Dataset::random({options.seed, options.rerandomize_each_iteration}).batch(2);
  nodes[0] = words
                 .map([rows](const Tensor& seed) {
                   const Tensor drawn =
                       ops::call1("StatelessMultinomial", {rows, Tensor::scalar<std::int32_t>(1), seed},
                                  {{"output_dtype", DType::kInt64}});
                   return ops::reshape(drawn, ops::Ints{});
                 })
                 .node();
  return choose_node(std::move(nodes), options.stop_on_empty_dataset);
}

}  // namespace lockstep::data

// Dataset.rejection_resample.
#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {
namespace {

using Shares = std::vector<float>;

Shares shares_of(const std::vector<double>& shares, std::string_view name, std::size_t classes) {
  const auto valid = [](double share) { return share >= 0 && share <= std::numeric_limits<float>::max(); };
  if (shares.empty() || shares.size() != classes || !std::all_of(shares.begin(), shares.end(), valid)) {
    throw_invalid_argument(
        fmt::format("rejection_resample: invalid {}: found {} numbers, expected the share of each of {} classes, "
                    "numbers of at least "
                    "0",
                    name, shares.size(), classes));
  }
  return Shares(shares.begin(), shares.end());
}

// The probability of accepting an element of each class, and of an element of the input.
struct Acceptance {
  Shares of_class;
  float as_it_comes = 0;
};
Acceptance acceptance(const Shares& initial, const Shares& target) {
  Shares ratios;
  for (std::size_t i = 0; i < target.size(); ++i)
    ratios.push_back(target[i] / (initial[i] + std::numeric_limits<float>::min()));
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  Acceptance out{{}, *least};
  for (const float ratio : ratios) out.of_class.push_back((ratio - *least) / (*most - *least));
  return out;
}

// (class, element) of each element.
Element with_class(const Element& element, const Tensor& its_class) { return Element::list({its_class, element}); }

std::size_t class_number(const Tensor& its_class, std::size_t classes) {
  const auto number = its_class.item<std::int64_t>();
  if (number < 0 || number >= static_cast<std::int64_t>(classes)) {
    throw_invalid_argument(fmt::format(
        "rejection_resample: class_func gave the class {}, but target_dist has {} classes", number, classes));
  }
  return static_cast<std::size_t>(number);
}

// TensorFlow's draws of a scalar, each of which skips 256 blocks of the generator of its operation.
float draw(std::pair<std::int64_t, std::int64_t> seeds, std::int64_t number) {
  ops::PhiloxStream words(
      ops::philox_from_seeds(seeds.first, seeds.second).skipped(static_cast<std::uint64_t>(number) * 256));
  return words.next_float();
}

// The shares of the classes before each element, estimated from the elements of the batches of 32 up to its own.
Dataset estimated_shares(const Dataset& classes, std::size_t count) {
  const auto number = static_cast<std::int64_t>(count);
  return classes.batch(32)
      .scan(Tensor::from_vector(std::vector<std::int64_t>(count, 10)),
            [count, number](const Tensor& seen, const Tensor& batch) {
              auto counts = seen.to_vector<std::int64_t>();
              for (const std::int64_t each : ops::cast(batch, DType::kInt64).to_vector<std::int64_t>())
                if (each >= 0 && each < number) ++counts[static_cast<std::size_t>(each)];
              std::int64_t sum = 0;
              for (const std::int64_t each : counts) sum += each;
              std::vector<float> shares;
              for (int row = 0; row < 32; ++row)
                for (const std::int64_t each : counts)
                  shares.push_back(static_cast<float>(static_cast<double>(each) / static_cast<double>(sum)));
              return std::pair{Tensor::from_vector(counts), Tensor::from_vector(shares, {32, number})};
            })
      .unbatch();
}

}  // namespace

Dataset Dataset::resample_elements(std::function<Tensor(const Element&)> class_of,
                                   const ResampleOptions& options) const {
  const std::size_t classes = options.target_dist.size();
  const Shares target = shares_of(options.target_dist, "target_dist", classes);
  const auto labelled = map_elements([class_of](const Element& e) { return with_class(e, class_of(e)); });
  const auto seeds = random::op_seeds_in_graph(options.seed, 0);
  // A row of the shares for each element; zip ends with the elements.
  Dataset shares;
  if (options.initial_dist.empty()) {
    shares = estimated_shares(map_elements([class_of](const Element& e) { return Element(class_of(e)); }), classes);
  } else {
    const Shares initial = shares_of(options.initial_dist, "initial_dist", classes);
    shares = from_tensors(Element(Tensor::from_vector(initial))).repeat();
    const Acceptance known = acceptance(initial, target);
    if (known.as_it_comes == 1) return labelled;
  }
  const Dataset drawn =
      zip({shares, labelled})
          .scan_elements(Element(Tensor::scalar<std::int64_t>(0)),
                         [target, classes, seeds](const Element& state, const Element& element) {
                           const auto number = state.leaf().item<std::int64_t>();
                           const auto parts = element.parts<2>();
                           const Acceptance probabilities = acceptance(parts[0].leaf().to_vector<float>(), target);
                           const Element labelled_element = parts[1];
                           const auto pair = labelled_element.parts<2>();
                           const bool accepted =
                               draw(seeds, number) < probabilities.of_class[class_number(pair[0].leaf(), classes)];
                           return std::pair<Element, Element>(
                               Element(Tensor::scalar<std::int64_t>(number + 1)),
                               Element::list({Element(Tensor::scalar(accepted)), labelled_element}));
                         })
          .filter_elements([](const Element& e) { return e.parts<2>()[0].leaf().item<bool>(); })
          .map_elements([](const Element& e) { return Element(e.parts<2>()[1]); });
  // Each element is the next one of either dataset; both go over all elements.
  const Dataset words = random({options.seed}).batch(2);
  const Dataset choice = zip({shares, words}).map_elements([target](const Element& e) {
    const auto parts = e.parts<2>();
    const float original = acceptance(parts[0].leaf().to_vector<float>(), target).as_it_comes;
    const Tensor logits = ops::log(Tensor::from_vector(std::vector<float>{original, 1 - original}, {1, 2}));
    const Tensor number = ops::call1("StatelessMultinomial", {logits, Tensor::scalar<std::int32_t>(1), parts[1].leaf()},
                                     {{"output_dtype", DType::kInt64}});
    return Element(ops::reshape(number, ops::Ints{}));
  });
  return choose_from_datasets({labelled, drawn}, choice, true);
}

}  // namespace lockstep::data

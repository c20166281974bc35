// What Dataset::window() and Dataset::parts() return.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// Gives kConvert(element) for each element of a dataset.
template <auto kConvert>
class ConvertingIterator {
 public:
  explicit ConvertingIterator(DatasetInputIterator iterator) : iterator_(std::move(iterator)) {}
  auto operator*() const { return kConvert(*iterator_); }
  ConvertingIterator& operator++() {
    ++iterator_;
    return *this;
  }
  friend bool operator==(const ConvertingIterator& a, const ConvertingIterator& b) {
    return a.iterator_ == b.iterator_;
  }

 private:
  DatasetInputIterator iterator_;
};

// The result of Dataset::window(): each element is a dataset, for (const Dataset& window : windows).
class Windows {
 public:
  explicit Windows(Dataset lists) : lists_(std::move(lists)) {}

  // fn takes a window, or where elements have two parts the windows of each, and returns a dataset or, for map, an
  // element.
  template <typename Fn>
  Dataset flat_map(Fn fn) const {
    return lists_.flat_map(window_function<Dataset>(std::move(fn)));
  }
  template <typename Fn>
  Dataset map(Fn fn) const {
    return lists_.map(window_function<Element>(std::move(fn)));
  }
  Windows take(std::int64_t count) const { return Windows(lists_.take(count)); }
  Windows skip(std::int64_t count) const { return Windows(lists_.skip(count)); }
  std::int64_t cardinality() const { return lists_.cardinality(); }

  static Dataset dataset_of(const Element& list);
  using Iterator = ConvertingIterator<&Windows::dataset_of>;
  Iterator begin() const { return Iterator(lists_.begin()); }
  Iterator end() const { return Iterator(lists_.end()); }

 private:
  // Part `index` of each element, a tuple.
  static Dataset part_of(const Element& list, std::size_t index);
  template <typename Result, typename Fn>
  static std::function<Result(const Element&)> window_function(Fn fn) {
    static_assert(std::is_invocable_r_v<Result, Fn&, const Dataset&> ||
                      std::is_invocable_r_v<Result, Fn&, const Dataset&, const Dataset&>,
                  "Dataset.window(...).flat_map(fn), map(fn): fn must take a dataset, or two where elements have two "
                  "parts, and return a dataset (flat_map) or an element (map)");
    require_function(fn, "Dataset.window(...).flat_map and map");
    return [fn = std::move(fn)](const Element& list) mutable -> Result {
      if constexpr (std::is_invocable_v<Fn&, const Dataset&>) {
        return fn(dataset_of(list));
      } else {
        return fn(part_of(list, 0), part_of(list, 1));
      }
    };
  }

  Dataset lists_;  // of lists of elements
};

template <std::size_t N>
class DatasetParts {
 public:
  static std::array<Element, N> parts_of(const LoopElement& element) { return element.template parts<N>(); }
  using Iterator = ConvertingIterator<&DatasetParts::parts_of>;

  explicit DatasetParts(Dataset dataset) : dataset_(std::move(dataset)) {}
  Iterator begin() const { return Iterator(dataset_.begin()); }
  Iterator end() const { return Iterator(dataset_.end()); }

 private:
  Dataset dataset_;
};

}  // namespace lockstep::data

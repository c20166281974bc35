// Iterators of datasets, and their elements in a loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "lockstep/base/json.h"
#include "lockstep/data/element.h"

namespace lockstep::data {

class DatasetNode;
class NodeIterator;

// Iterates once over a dataset. For one thread at a time; movable, not copyable.
class DatasetIterator {
 public:
  explicit DatasetIterator(std::shared_ptr<const DatasetNode> node);
  ~DatasetIterator();
  DatasetIterator(DatasetIterator&&) noexcept;
  DatasetIterator& operator=(DatasetIterator&&) noexcept;

  // The next element; empty at the end, and from then on.
  std::optional<Element> next();
  // Skips up to n elements, without computing them where that is possible. Returns the number of skipped ones.
  std::int64_t skip(std::int64_t n);

  // The position of the iterator: seeds and counts, no data. An iterator of a dataset that was built in the same way
  // over the same data continues exactly after restore_state(), including shuffle buffers and the seeds of later
  // iterators. Functions given to map and the like are assumed to be pure.
  // restore_state throws InvalidArgument when the state is of another pipeline.
  Json save_state() const;
  void restore_state(const Json& state);

 private:
  void require() const;
  std::shared_ptr<const DatasetNode> node_;
  std::unique_ptr<NodeIterator> iterator_;
};

template <typename E>
class LoopElementOf;
using LoopElement = LoopElementOf<Element>;

}  // namespace lockstep::data

// It is copied as the element that it is.
template <typename E>
inline constexpr bool lockstep::internal::kIsNested<lockstep::data::LoopElementOf<E>> = true;

namespace lockstep::data {

// An element in a loop: also for (const Tensor& x : dataset), which refers to the element's tensor. The conversion to a
// value is hidden, since with both, tensors.push_back(element) would be ambiguous.
template <typename E>
class LoopElementOf : public E {
 public:
  LoopElementOf(E element) : E(std::move(element)) {}
  operator const Tensor&() const { return this->leaf(); }
  operator Tensor() const requires(sizeof(E) == 0);
};

// For `for (const Element& element : dataset)`.
class DatasetInputIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Element;
  using difference_type = std::ptrdiff_t;
  using pointer = const LoopElement*;
  using reference = const LoopElement&;

  DatasetInputIterator() = default;  // the end
  // Elements are read when they are asked for. Copies are the same iterator, as in Python.
  explicit DatasetInputIterator(std::shared_ptr<DatasetIterator> iterator);

  // Throws OutOfRange at the end, as for the first element of an empty dataset.
  const LoopElement& operator*() const&;
  Element operator*() && { return *std::as_const(*this); }  // const auto& [x, y] = *dataset.begin();
  const LoopElement* operator->() const { return &**this; }
  DatasetInputIterator& operator++();
  // *iterator++ is Python's next(iterator). Throws OutOfRange at the end.
  class Taken {
   public:
    explicit Taken(LoopElement element) : element_(std::move(element)) {}
    const LoopElement& operator*() const& { return element_; }
    Element operator*() && { return std::move(element_); }

   private:
    LoopElement element_;
  };
  Taken operator++(int) {
    Taken taken(std::as_const(*this).operator*());
    ++*this;
    return taken;
  }
  friend bool operator==(const DatasetInputIterator& a, const DatasetInputIterator& b) {
    return a.at_end() == b.at_end();
  }
  // for (const auto& [x, y] : dataset.as_numpy_iterator()): the elements from here on.
  DatasetInputIterator begin() const { return *this; }
  DatasetInputIterator end() const { return {}; }
  // The next element, if there is one: next.has_value(), next.get_value().
  struct OptionalElement : std::optional<Element> {
    using optional::optional;
    const Element& get_value() const { return value(); }
  };
  OptionalElement get_next_as_optional() {
    if (at_end()) return {};
    return OptionalElement(next(*this));
  }
  Element get_next() { return next(*this); }
  // Python's next(iterator). Throws OutOfRange at the end.
  friend Element next(DatasetInputIterator& iterator) { return *iterator++; }
  friend Element next(DatasetInputIterator&& iterator) { return *iterator++; }  // next(iter(dataset))
  // What checkpoints save and restore: its position is behind the last element that was read.
  const std::shared_ptr<DatasetIterator>& source() const { return iterator_; }

 private:
  struct State;
  bool at_end() const;
  std::shared_ptr<DatasetIterator> iterator_;
  std::shared_ptr<State> state_;  // null: the end
};

}  // namespace lockstep::data

template <>
struct std::tuple_size<lockstep::data::LoopElement> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::data::LoopElement> {
  using type = lockstep::data::Element;
};

// Static shapes: dimensions that may be unknown, or an unknown rank.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/list.h"

namespace lockstep {

// The extent of a dimension that is not known before run time (Keras writes None).
inline constexpr std::int64_t kUnknownDim = -1;

// An extent as Shape({None, 28}) gives it: a number or None.
class Dim {
 public:
  Dim(std::nullopt_t) {}
  template <std::integral I>
  Dim(I extent) : extent_(static_cast<std::int64_t>(extent)) {}
  operator std::int64_t() const { return extent_; }

 private:
  std::int64_t extent_ = kUnknownDim;
};

// Dimensions, outermost first; kUnknownDim for an unknown one. A default Shape is a scalar's.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  // With None among them. A template, so that Shape({}) is the one above.
  template <typename D = Dim>
  Shape(std::initializer_list<std::type_identity_t<D>> dims) : dims_(dims.begin(), dims.end()) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}
  static Shape unknown_rank() {
    Shape shape;
    shape.known_rank_ = false;
    return shape;
  }

  bool known_rank() const { return known_rank_; }
  bool fully_known() const;
  bool is_fully_defined() const { return fully_known(); }
  int rank() const { return static_cast<int>(dims_.size()); }  // 0 when the rank is unknown
  // Empty when the rank is unknown.
  std::optional<int> ndims() const { return known_rank_ ? std::optional(rank()) : std::nullopt; }
  const std::vector<std::int64_t>& dims() const& { return dims_; }
  std::vector<std::int64_t> dims() && { return std::move(dims_); }
  // The dimension of an axis; negative axes count from the end. Throws InvalidArgument when the shape has no such axis.
  std::int64_t operator[](int axis) const { return dims_[position(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[position(axis)]; }
  // Axes begin, … before end, as Python's shape[1:]: shape[{1, {}}]. As there, indices beyond the axes mean the ends.
  // Of unknown rank where this shape is.
  struct Axes {
    std::optional<int> begin, end;
  };
  Shape operator[](const Axes& axes) const;
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  std::size_t size() const { return dims_.size(); }
  bool empty() const { return dims_.empty(); }
  // const auto [batch, height, width, channels] = x.shape().parts<4>(). Throws InvalidArgument for another rank.
  template <std::size_t N>
  std::array<std::int64_t, N> parts() const {
    if (dims_.size() != N) throw_other_rank(N);
    std::array<std::int64_t, N> out;
    std::copy(dims_.begin(), dims_.end(), out.begin());
    return out;
  }
  void push_back(std::int64_t dim);

  // Product of the dimensions; empty when one is unknown or the product does not fit 63 bits.
  std::optional<std::int64_t> num_elements() const;

  // True when some tensor could have both shapes.
  bool compatible_with(const Shape& other) const;
  bool is_compatible_with(const Shape& other) const { return compatible_with(other); }
  Shape concatenate(const Shape& other) const { return followed_by(other); }
  // Whether each tensor of this shape has the other shape, too: (2, None) is a subtype of (None, None).
  bool is_subtype_of(const Shape& other) const;
  // This shape with what the other one knows. Throws InvalidArgument for shapes that are not compatible.
  Shape merge_with(const Shape& other) const;
  // What both shapes have in common: None where their dimensions differ, of unknown rank where their ranks do.
  Shape most_specific_compatible_shape(const Shape& other) const;
  // This shape, or where its rank is unknown one of that rank (of unknown rank for the bounds). These, and those below,
  // throw InvalidArgument for a shape that is not so.
  Shape with_rank(int rank) const;
  Shape with_rank_at_least(int rank) const;
  Shape with_rank_at_most(int rank) const;
  void assert_has_rank(int rank) const;
  void assert_same_rank(const Shape& other) const;
  void assert_is_compatible_with(const Shape& other) const;
  void assert_is_fully_defined() const;

  // "(None, 28, 28, 1)", "(3,)", "()", "<unknown>": as Python prints it.
  std::string to_string() const;
  // The dimensions. Throws InvalidArgument for a shape of unknown rank.
  List<std::int64_t> as_list() const;

  friend bool operator==(const Shape& a, const Shape& b) = default;
  // The axes of a, then those of b; of unknown rank where one of them is.
  friend Shape operator+(const Shape& a, const Shape& b) { return a.followed_by(b); }

 private:
  std::size_t position(int axis) const {
    const int from_start = axis < 0 ? axis + rank() : axis;
    if (from_start < 0 || from_start >= rank()) throw_no_axis(axis);
    return static_cast<std::size_t>(from_start);
  }
  Shape followed_by(const Shape& other) const;
  [[noreturn]] void throw_no_axis(int axis) const;
  [[noreturn]] void throw_other_rank(std::size_t expected) const;

  std::vector<std::int64_t> dims_;
  bool known_rank_ = true;
};

// np.prod(shape). Throws InvalidArgument for a shape that is not fully known.
std::int64_t prod(const Shape& shape);

}  // namespace lockstep

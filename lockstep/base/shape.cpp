#include "lockstep/base/shape.h"

#include "lockstep/base/error.h"
#include "lockstep/base/list.h"

namespace lockstep {

bool Shape::fully_known() const {
  if (!known_rank_) return false;
  for (std::int64_t dim : dims_) {
    if (dim < 0) return false;
  }
  return true;
}

std::optional<std::int64_t> Shape::num_elements() const {
  if (!fully_known()) return std::nullopt;
  std::int64_t count = 1;
  for (std::int64_t dim : dims_) {
    if (__builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

bool Shape::compatible_with(const Shape& other) const {
  if (!known_rank_ || !other.known_rank_) return true;
  if (dims_.size() != other.dims_.size()) return false;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i] >= 0 && other.dims_[i] >= 0 && dims_[i] != other.dims_[i]) return false;
  }
  return true;
}

Shape Shape::followed_by(const Shape& other) const {
  if (!known_rank_ || !other.known_rank_) return unknown_rank();
  Shape out = *this;
  out.dims_.insert(out.dims_.end(), other.dims_.begin(), other.dims_.end());
  return out;
}

void Shape::throw_no_axis(int axis) const {
  throw_invalid_argument("invalid axis " + std::to_string(axis) + ": shape " + to_string() + " has rank " +
                         (known_rank_ ? std::to_string(rank()) : "unknown"));
}

void Shape::throw_other_rank(std::size_t expected) const {
  throw_invalid_argument("shape " + to_string() + " has rank " + (known_rank_ ? std::to_string(rank()) : "unknown") +
                         ", expected " + std::to_string(expected));
}

Shape Shape::operator[](const Axes& axes) const {
  if (!known_rank_) throw_no_axis(axes.begin.value_or(0));
  return Shape(List<std::int64_t>(dims_)[List<std::int64_t>::Range{axes.begin, axes.end}]);
}

std::int64_t prod(const Shape& shape) {
  const auto count = shape.num_elements();
  if (!count) throw_invalid_argument("the product of shape " + shape.to_string() + " is not known");
  return *count;
}

void Shape::push_back(std::int64_t dim) { dims_.push_back(dim); }

std::string Shape::to_string() const {
  if (!known_rank_) return "<unknown>";
  std::string text = "(";
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (i > 0) text += ", ";
    text += dims_[i] < 0 ? "None" : std::to_string(dims_[i]);
  }
  if (dims_.size() == 1) text += ",";
  return text + ")";
}

}  // namespace lockstep

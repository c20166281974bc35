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
  if (!known_rank_) return unknown_rank();
  return Shape(List<std::int64_t>(dims_)[List<std::int64_t>::Range{axes.begin, axes.end}]);
}

bool Shape::is_subtype_of(const Shape& other) const {
  if (!other.known_rank_) return true;
  if (!known_rank_ || dims_.size() != other.dims_.size()) return false;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (other.dims_[i] >= 0 && dims_[i] != other.dims_[i]) return false;
  }
  return true;
}

Shape Shape::merge_with(const Shape& other) const {
  assert_is_compatible_with(other);
  if (!known_rank_) return other;
  Shape out = *this;
  for (std::size_t i = 0; i < other.dims_.size(); ++i) {
    if (out.dims_[i] < 0) out.dims_[i] = other.dims_[i];
  }
  return out;
}

Shape Shape::most_specific_compatible_shape(const Shape& other) const {
  if (!known_rank_ || !other.known_rank_ || dims_.size() != other.dims_.size()) return unknown_rank();
  Shape out = *this;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i] != other.dims_[i]) out.dims_[i] = kUnknownDim;
  }
  return out;
}

Shape Shape::with_rank(int rank) const {
  assert_has_rank(rank);
  return known_rank_ ? *this
                     : Shape(std::vector<std::int64_t>(static_cast<std::size_t>(std::max(rank, 0)), kUnknownDim));
}

Shape Shape::with_rank_at_least(int rank) const {
  if (known_rank_ && this->rank() < rank) {
    throw_invalid_argument("shape " + to_string() + " must have rank at least " + std::to_string(rank));
  }
  return *this;
}

Shape Shape::with_rank_at_most(int rank) const {
  if (known_rank_ && this->rank() > rank) {
    throw_invalid_argument("shape " + to_string() + " must have rank at most " + std::to_string(rank));
  }
  return *this;
}

void Shape::assert_has_rank(int rank) const {
  if (known_rank_ && this->rank() != rank) {
    throw_invalid_argument("shape " + to_string() + " must have rank " + std::to_string(rank));
  }
}

void Shape::assert_same_rank(const Shape& other) const {
  if (known_rank_ && other.known_rank_ && rank() != other.rank()) {
    throw_invalid_argument("shapes " + to_string() + " and " + other.to_string() + " must have the same rank");
  }
}

void Shape::assert_is_compatible_with(const Shape& other) const {
  if (!compatible_with(other)) {
    throw_invalid_argument("shapes " + to_string() + " and " + other.to_string() + " are not compatible");
  }
}

void Shape::assert_is_fully_defined() const {
  if (!fully_known()) throw_invalid_argument("shape " + to_string() + " is not fully defined");
}

List<std::int64_t> Shape::as_list() const {
  if (!known_rank_) throw_invalid_argument("as_list() requires a shape of known rank");
  return dims_;
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

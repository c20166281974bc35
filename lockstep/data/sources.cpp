#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/tensor/array_internal.h"

namespace lockstep::data {
namespace {

// Elements by number: all that sources of known length need.
class CountingIterator : public NodeIterator {
 public:
  explicit CountingIterator(std::int64_t size) : size_(size) {}

  bool next(Item& out) override {
    if (next_ >= size_) return false;
    out = at(next_++);
    return true;
  }
  std::int64_t advance(std::int64_t n) override {
    const std::int64_t count = std::min(n, size_ - next_);
    next_ += count;
    return count;
  }
  Json save() const override { return {{"next", next_}}; }
  void restore(const Json& state) override {
    const std::int64_t next = state_count(state, "next");
    if (next > size_) {
      throw_invalid_argument(fmt::format("invalid state of a dataset iterator: found element {} of {}", next, size_));
    }
    next_ = next;
  }

 protected:
  virtual Item at(std::int64_t index) const = 0;

 private:
  std::int64_t size_;
  std::int64_t next_ = 0;
};

class RowsIterator : public CountingIterator {
 public:
  explicit RowsIterator(std::shared_ptr<const RowStore> store)
      : CountingIterator(store->num_rows()), store_(std::move(store)) {}

 protected:
  Item at(std::int64_t index) const override { return Item(store_, index); }

 private:
  std::shared_ptr<const RowStore> store_;
};

class SlicesNode : public DatasetNode {
 public:
  explicit SlicesNode(const Element& tensors)
      : DatasetNode("from_tensor_slices"), store_(std::make_shared<RowStore>(tensors, "from_tensor_slices")) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<RowsIterator>(store_); }
  std::int64_t cardinality() const override { return store_->num_rows(); }
  ElementSpec element_spec() const override { return store_->spec(); }
  std::optional<Element> sample(std::int64_t copies) const override {
    if (store_->num_rows() == 0) return std::nullopt;
    return RowStore::row(store_, std::min(copies, store_->num_rows()) - 1);
  }

 private:
  std::shared_ptr<const RowStore> store_;
};

using Elements = std::shared_ptr<const std::vector<Element>>;

class ElementsIterator : public CountingIterator {
 public:
  explicit ElementsIterator(Elements elements)
      : CountingIterator(static_cast<std::int64_t>(elements->size())), elements_(std::move(elements)) {}

 protected:
  Item at(std::int64_t index) const override { return (*elements_)[static_cast<std::size_t>(index)]; }

 private:
  Elements elements_;
};

class ElementsNode : public DatasetNode {
 public:
  explicit ElementsNode(std::vector<Element> elements)
      : DatasetNode("from_tensors"), elements_(std::make_shared<std::vector<Element>>(std::move(elements))) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<ElementsIterator>(elements_); }
  std::int64_t cardinality() const override { return static_cast<std::int64_t>(elements_->size()); }
  ElementSpec element_spec() const override {
    if (elements_->empty()) return ElementSpec();
    ElementSpec spec = spec_of(elements_->front());
    for (const Element& element : *elements_) spec = merge_specs(spec, spec_of(element));
    return spec;
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    if (elements_->empty()) return std::nullopt;
    return (*elements_)[std::min(static_cast<std::size_t>(copies), elements_->size()) - 1];
  }

 private:
  Elements elements_;
};

class RangeIterator : public CountingIterator {
 public:
  RangeIterator(std::int64_t size, std::int64_t start, std::int64_t step)
      : CountingIterator(size), start_(start), step_(step) {}

 protected:
  Item at(std::int64_t index) const override { return Element(Tensor::scalar<std::int64_t>(start_ + index * step_)); }

 private:
  std::int64_t start_, step_;
};

class RangeNode : public DatasetNode {
 public:
  RangeNode(std::int64_t start, std::int64_t stop, std::int64_t step)
      : DatasetNode("range"), start_(start), step_(step) {
    if (step == 0) throw_invalid_argument("range: invalid step: found 0, expected another integer");
    const bool up = step > 0;
    if (up ? start < stop : start > stop) {
      const auto distance = up ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                               : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
      const auto stride = up ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
      size_ = static_cast<std::int64_t>((distance - 1) / stride + 1);
    }
  }
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<RangeIterator>(size_, start_, step_);
  }
  std::int64_t cardinality() const override { return size_; }
  ElementSpec element_spec() const override { return TensorSpec(Shape(), DType::kInt64); }
  std::optional<Element> sample(std::int64_t copies) const override {
    return Element(Tensor::scalar<std::int64_t>(copies <= size_ ? start_ + step_ * (copies - 1) : start_));
  }

 private:
  std::int64_t start_, step_, size_ = 0;
};

class GeneratorIterator : public NodeIterator {
 public:
  GeneratorIterator(std::function<Dataset::Generator()> make, const ElementSpec& spec)
      : make_(std::move(make)), generator_(made()), spec_(spec) {}
  bool next(Item& out) override {
    if (ended_) return false;
    std::optional<Element> element = generator_();
    ended_ = !element.has_value();
    if (element) {
      ++given_;
      out = Item(declared(*element, spec_));
    }
    return !ended_;
  }
  Json save() const override { return {{"given", given_}, {"ended", ended_}}; }
  void restore(const Json& state) override {
    const std::int64_t given = state_count(state, "given");
    generator_ = made();
    given_ = 0;
    ended_ = false;
    advance(given);
    ended_ = state_at(state, "ended") == Json(true);
  }

 private:
  // Numbers of the dtypes of the signature, as NumPy converts what a generator of Python yields.
  static Element declared(const Element& element, const ElementSpec& spec) {
    if (spec.is_list() && element.is_list() && spec.size() == element.size()) {
      Element::List parts;
      for (std::size_t i = 0; i < spec.size(); ++i) parts.push_back(declared(element.parts()[i], spec.parts()[i]));
      return Element::list(std::move(parts));
    }
    if (spec.is_dict() && element.is_dict()) {
      Element::Dict parts;
      for (const auto& [name, part] : element.entries())
        parts.emplace_back(name, spec.contains(name) ? declared(part, spec.at(name)) : part);
      return Element::dict(std::move(parts));
    }
    if (!spec.is_leaf() || !element.is_leaf()) return element;
    const DType found = element.leaf().dtype(), wanted = spec.leaf().dtype;
    const auto is_number = [](DType dtype) { return is_integer(dtype) || is_floating(dtype); };
    return found != wanted && is_number(found) && is_number(wanted) ? Element(ops::cast(element.leaf(), wanted))
                                                                    : element;
  }
  Dataset::Generator made() const {
    Dataset::Generator generator = make_();
    require_function(generator, "Dataset.from_generator: the function's result");
    return generator;
  }
  std::function<Dataset::Generator()> make_;
  Dataset::Generator generator_;
  ElementSpec spec_;
  std::int64_t given_ = 0;
  bool ended_ = false;
};

class GeneratorNode : public DatasetNode {
 public:
  GeneratorNode(std::function<Dataset::Generator()> make, ElementSpec spec)
      : DatasetNode("from_generator"), make_(std::move(make)), spec_(std::move(spec)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<GeneratorIterator>(make_, spec_);
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override { return spec_; }
  // Zeros of the declared shapes: a generator may not be asked for elements out of turn.
  std::optional<Element> sample(std::int64_t copies) const override {
    return spec_.map([&](const TensorSpec& spec) {
      std::vector<std::int64_t> dims = spec.shape.dims();
      for (std::int64_t& dim : dims) dim = dim == kUnknownDim ? copies : dim;
      if (spec.dtype == DType::kString) {
        const Shape shape(dims);
        return Tensor::strings(std::vector<std::string>(static_cast<std::size_t>(shape.num_elements().value())), shape);
      }
      return Tensor::zeros(Shape(dims), spec.dtype);
    });
  }

 private:
  std::function<Dataset::Generator()> make_;
  ElementSpec spec_;
};

}  // namespace

NodePtr elements_node(std::vector<Element> elements) { return std::make_shared<ElementsNode>(std::move(elements)); }
NodePtr empty_node() { return elements_node(std::vector<Element>()); }

Dataset Dataset::from_tensors(const Element& element) {
  return Dataset(elements_node(std::vector<Element>(1, element.map(as_tensor))));
}

Dataset::Vector::Vector(std::initializer_list<Vector> parts) {
  Element::List items;
  for (const Vector& part : parts) items.push_back(part.element);
  element = Element::list(std::move(items));
}
Dataset::Vector::Vector(std::initializer_list<std::pair<std::string_view, Vector>> entries) {
  Element::Dict items;
  for (const auto& [name, value] : entries) items.emplace_back(name, value.element);
  element = Element::dict(std::move(items));
}

Dataset Dataset::from_tensor_slices(const Element& tensors) {
  if (tensors.num_leaves() == 0) throw_invalid_argument("from_tensor_slices requires at least one tensor");
  if (auto rows = ragged_rows(tensors)) return Dataset(elements_node(std::move(*rows)));
  return Dataset(std::make_shared<SlicesNode>(tensors.map(as_tensor)));
}

Dataset Dataset::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  return Dataset(std::make_shared<RangeNode>(start, stop, step));
}
Dataset Dataset::range(std::int64_t start, std::int64_t stop, std::int64_t step, const RangeKeywords& o) {
  const Dataset numbers = range(start, stop, step);
  if (DType(o.output_type) == DType::kInt64) return numbers;
  return numbers.map([dtype = DType(o.output_type)](const Tensor& number) { return ops::cast(number, dtype); });
}

ElementSpec Dataset::described(ElementSpec types, const std::optional<Nested<Shape>>& shapes) {
  const auto set = [](const auto& self, ElementSpec& spec, const Nested<Shape>& shape) -> void {
    if (spec.is_leaf()) {
      spec.leaf().shape = shape.leaf();
    } else if (spec.is_list()) {
      if (!shape.is_list() || shape.size() != spec.size())
        throw_invalid_argument("Dataset.from_generator: output_types and output_shapes differ in their structure");
      for (std::size_t i = 0; i < spec.size(); ++i) self(self, spec.parts()[i], shape.parts()[i]);
    } else {
      for (auto& [name, part] : spec.entries()) self(self, part, shape.at(name));
    }
  };
  if (shapes) set(set, types, *shapes);
  return types;
}

Dataset Dataset::generated(std::function<Generator()> make, ElementSpec spec) {
  require_function(make, "Dataset.from_generator");
  return Dataset(std::make_shared<GeneratorNode>(std::move(make), std::move(spec)));
}

}  // namespace lockstep::data

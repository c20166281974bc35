// batch, padded_batch and unbatch.
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/ops/ragged_elements_internal.h"

namespace lockstep::data {
namespace {

Shape with_first(std::int64_t dim, const Shape& shape) {
  if (!shape.known_rank()) return shape;
  std::vector<std::int64_t> dims{dim};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(std::move(dims));
}

// Reads up to `size` items and makes one element of them.
class GroupIterator : public NodeIterator {
 public:
  GroupIterator(const NodePtr& input, std::int64_t size, bool drop_remainder)
      : input_(input->make_iterator()), size_(size), drop_remainder_(drop_remainder) {}

  bool next(Item& out) override {
    std::vector<Item> items;
    Item item;
    while (static_cast<std::int64_t>(items.size()) < size_ && input_->next(item)) items.push_back(std::move(item));
    if (items.empty() || (drop_remainder_ && static_cast<std::int64_t>(items.size()) < size_)) return false;
    out = Item(combine(items));
    return true;
  }
  std::int64_t advance(std::int64_t n) override {
    std::int64_t groups = 0;
    while (groups < n) {
      const std::int64_t taken = input_->advance(size_);
      if (taken == size_ || (taken > 0 && !drop_remainder_)) ++groups;
      if (taken < size_) break;
    }
    return groups;
  }
  Json save() const override { return {{"input", input_->save()}}; }
  void restore(const Json& state) override { input_->restore(state_at(state, "input")); }

 protected:
  virtual Element combine(const std::vector<Item>& items) const = 0;

 private:
  std::unique_ptr<NodeIterator> input_;
  std::int64_t size_;
  bool drop_remainder_;
};

class BatchIterator : public GroupIterator {
 public:
  using GroupIterator::GroupIterator;

 protected:
  Element combine(const std::vector<Item>& items) const override {
    const auto& store = items[0].store();
    bool rows_of_one_store = store != nullptr;
    for (const Item& item : items) rows_of_one_store = rows_of_one_store && item.store() == store;
    if (rows_of_one_store) {
      std::vector<std::int64_t> rows;
      rows.reserve(items.size());
      for (const Item& item : items) rows.push_back(item.row());
      return store->gather(rows);
    }
    std::vector<Element> elements;
    for (const Item& item : items) elements.push_back(item.element());
    return stack_elements(elements);
  }
};

class GroupNode : public DatasetNode {
 public:
  GroupNode(std::string name, NodePtr input, std::int64_t size, bool drop_remainder)
      : DatasetNode(std::move(name), {std::move(input)}), size_(size), drop_remainder_(drop_remainder) {}
  std::int64_t cardinality() const override {
    const std::int64_t n = input()->cardinality();
    if (n < 0) return n;
    return n / size_ + (n % size_ != 0 && !drop_remainder_ ? 1 : 0);
  }
  std::int64_t batch_size() const override { return size_; }

 protected:
  std::int64_t size() const { return size_; }
  bool drop_remainder() const { return drop_remainder_; }
  std::int64_t first_dim() const { return drop_remainder_ ? size_ : kUnknownDim; }
  std::vector<Element> sample_elements(std::int64_t copies) const {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return {};
    return std::vector<Element>(static_cast<std::size_t>(drop_remainder_ ? size_ : copies), *element);
  }

 private:
  std::int64_t size_;
  bool drop_remainder_;
};

class BatchNode : public GroupNode {
 public:
  BatchNode(NodePtr input, std::int64_t size, bool drop_remainder)
      : GroupNode("batch", std::move(input), size, drop_remainder) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<BatchIterator>(input(), size(), drop_remainder());
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return batch_node(inputs[0], size(), drop_remainder());
  }
  ElementSpec element_spec() const override {
    return input()->element_spec().map([&](const TensorSpec& spec) {
      if (!spec.ragged) return TensorSpec(with_first(first_dim(), spec.shape), spec.dtype);
      TensorSpec batch = spec;
      batch.ragged->shape = with_first(first_dim(), spec.ragged->shape);
      ++batch.ragged->ragged_rank;
      return batch;
    });
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::vector<Element> elements = sample_elements(copies);
    if (elements.empty()) return std::nullopt;
    return stack_elements(elements);
  }
};

// ---- ragged_batch --------------------------------------------------------------------------------------

Element stack_ragged(const std::vector<Element>& elements, const ElementSpec& spec) {
  const std::vector<TensorSpec> specs = spec.flatten();
  std::vector<Tensors> rows;
  for (const Element& element : elements) rows.push_back(element.flatten());
  for (std::size_t c = 0; c < specs.size(); ++c) {
    const auto fixed = [&](const Tensors& leaves) { return leaves.at(c).shape() == specs[c].shape; };
    if (std::all_of(rows.begin(), rows.end(), fixed)) continue;
    for (Tensors& leaves : rows)
      if (leaves[c].is_value()) leaves[c] = ops::variant_of_ragged(leaves[c]);
  }
  std::vector<Element> ragged;
  for (const Tensors& leaves : rows) ragged.push_back(elements[0].pack(leaves));
  return stack_elements(ragged);
}

class RaggedBatchIterator : public GroupIterator {
 public:
  RaggedBatchIterator(const NodePtr& input, std::int64_t size, bool drop_remainder)
      : GroupIterator(input, size, drop_remainder), spec_(input->element_spec()) {}

 protected:
  Element combine(const std::vector<Item>& items) const override {
    std::vector<Element> elements;
    for (const Item& item : items) elements.push_back(item.element());
    return stack_ragged(elements, spec_);
  }

 private:
  ElementSpec spec_;
};

class RaggedBatchNode : public GroupNode {
 public:
  RaggedBatchNode(NodePtr input, std::int64_t size, bool drop_remainder)
      : GroupNode("ragged_batch", std::move(input), size, drop_remainder) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<RaggedBatchIterator>(input(), size(), drop_remainder());
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return ragged_batch_node(inputs[0], size(), drop_remainder());
  }
  ElementSpec element_spec() const override {
    return input()->element_spec().map([&](const TensorSpec& spec) {
      Shape shape = spec.shape;
      if (shape.known_rank())
        for (int axis = 0; axis < shape.rank(); ++axis) shape[axis] = kUnknownDim;
      return TensorSpec(with_first(first_dim(), shape), spec.dtype);
    });
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::vector<Element> elements = sample_elements(copies);
    if (elements.empty()) return std::nullopt;
    return stack_ragged(elements, input()->element_spec());
  }
};

// ---- padded_batch --------------------------------------------------------------------------------------

// The value at a dtype's bytes, for filling.
std::vector<std::byte> scalar_bytes(double value, DType dtype) {
  const formats::TensorData data = Tensor::scalar(value, dtype).to_data();
  return {data.bytes.begin(), data.bytes.end()};
}

struct Padding {
  std::vector<Shape> shapes;  // one for each leaf, or empty
  PaddingValues values;       // one, or one for each leaf
};

Shape padded_shape(const std::vector<Tensor>& values, const Shape* wanted, std::size_t component) {
  const int rank = values[0].rank();
  if (wanted && wanted->known_rank() && wanted->rank() != rank) {
    throw_invalid_argument(
        fmt::format("padded_batch: invalid shape of component {}: found {}, expected one that fits the padded shape {}",
                    component, values[0].shape().to_string(), wanted->to_string()));
  }
  Shape out(std::vector<std::int64_t>(static_cast<std::size_t>(rank), 0));
  for (const Tensor& value : values) {
    if (value.rank() != rank || value.dtype() != values[0].dtype()) {
      throw_invalid_argument(fmt::format(
          "padded_batch: mismatched elements: component {} is {} {} and {} {}; ranks and dtypes must be equal",
          component, dtype_name(values[0].dtype()), values[0].shape().to_string(), dtype_name(value.dtype()),
          value.shape().to_string()));
    }
    for (int axis = 0; axis < rank; ++axis) out[axis] = std::max(out[axis], value.dim(axis));
  }
  for (int axis = 0; wanted && wanted->known_rank() && axis < rank; ++axis) {
    if ((*wanted)[axis] == kUnknownDim) continue;
    if (out[axis] > (*wanted)[axis]) {
      throw_invalid_argument(
          fmt::format("padded_batch: invalid size of component {}: found {} on axis {}, expected at most that of the "
                      "padded shape {}",
                      component, out[axis], axis, wanted->to_string()));
    }
    out[axis] = (*wanted)[axis];
  }
  return out;
}

// Calls fn(source, target, count) for each run of elements along the last axis.
template <typename Fn>
void for_each_run(const Shape& from, const Shape& to, Fn fn) {
  const int rank = from.rank();
  if (rank == 0) return fn(0, 0, 1);
  const std::int64_t count = from[-1];
  std::int64_t runs = 1;
  for (int axis = 0; axis + 1 < rank; ++axis) runs *= from[axis];
  for (std::int64_t run = 0; run < runs; ++run) {
    std::int64_t rest = run, target = 0, stride = to[-1];
    for (int axis = rank - 2; axis >= 0; --axis) {
      target += rest % from[axis] * stride;
      rest /= from[axis];
      stride *= to[axis];
    }
    fn(run * count, target, count);
  }
}

Tensor pad_and_stack(const std::vector<Tensor>& values, const Shape& shape, const PaddingValue& padding) {
  const auto n = static_cast<std::int64_t>(values.size());
  const Shape out_shape = with_first(n, shape);
  const std::int64_t per_row = shape.num_elements().value();
  if (values[0].dtype() == DType::kString) {
    std::vector<std::string> out(static_cast<std::size_t>(n * per_row), padding.text);
    for (std::int64_t i = 0; i < n; ++i) {
      const Tensor& value = values[static_cast<std::size_t>(i)];
      for_each_run(value.shape(), shape, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        std::copy_n(value.string_values().begin() + from, count, out.begin() + i * per_row + to);
      });
    }
    return Tensor::strings(std::move(out), out_shape);
  }
  const DType dtype = values[0].dtype();
  const std::size_t size = dtype_size(dtype);
  std::span<std::byte> memory;
  const formats::TensorData data = formats::TensorData::allocate(dtype, out_shape, memory);
  const std::vector<std::byte> fill = scalar_bytes(padding.number, dtype);
  for (std::size_t at = 0; at < memory.size(); at += size) std::memcpy(&memory[at], fill.data(), size);
  for (std::int64_t i = 0; i < n; ++i) {
    const formats::TensorData row = values[static_cast<std::size_t>(i)].to_data();
    if (row.bytes.empty()) continue;
    for_each_run(row.shape, shape, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::memcpy(memory.data() + static_cast<std::size_t>(i * per_row + to) * size,
                  row.bytes.data() + static_cast<std::size_t>(from) * size, static_cast<std::size_t>(count) * size);
    });
  }
  return Tensor::from_data(data);
}

Element stack_padded(const std::vector<Element>& elements, const Padding& padding) {
  const std::size_t leaves = elements[0].num_leaves();
  std::vector<Tensors> columns(leaves);
  for (const Element& element : elements) {
    const Tensors values = element.flatten();
    if (values.size() != leaves) throw_invalid_argument("padded_batch: mismatched elements: their structures differ");
    for (std::size_t c = 0; c < leaves; ++c) columns[c].push_back(values[c]);
  }
  if (!padding.shapes.empty() && padding.shapes.size() != leaves) {
    throw_invalid_argument(
        fmt::format("padded_batch: invalid padded_shapes: found {} shapes, expected {}, one for each tensor",
                    padding.shapes.size(), leaves));
  }
  if (padding.values.size() != 1 && padding.values.size() != leaves) {
    throw_invalid_argument(
        fmt::format("padded_batch: invalid padding_values: found {}, expected {}, one for each tensor",
                    padding.values.size(), leaves));
  }
  Tensors out;
  for (std::size_t c = 0; c < leaves; ++c) {
    const Shape shape = padded_shape(columns[c], padding.shapes.empty() ? nullptr : &padding.shapes[c], c);
    out.push_back(pad_and_stack(columns[c], shape, padding.values[padding.values.size() == 1 ? 0 : c]));
  }
  return elements[0].pack(out);
}

class PaddedBatchIterator : public GroupIterator {
 public:
  PaddedBatchIterator(const NodePtr& input, std::int64_t size, bool drop_remainder, Padding padding)
      : GroupIterator(input, size, drop_remainder), padding_(std::move(padding)) {}

 protected:
  Element combine(const std::vector<Item>& items) const override {
    std::vector<Element> elements;
    for (const Item& item : items) elements.push_back(item.element());
    return stack_padded(elements, padding_);
  }

 private:
  Padding padding_;
};

class PaddedBatchNode : public GroupNode {
 public:
  PaddedBatchNode(NodePtr input, std::int64_t size, bool drop_remainder, Padding padding)
      : GroupNode("padded_batch", std::move(input), size, drop_remainder), padding_(std::move(padding)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<PaddedBatchIterator>(input(), size(), drop_remainder(), padding_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return padded_batch_node(inputs[0], size(), padding_.shapes, padding_.values, drop_remainder());
  }
  ElementSpec element_spec() const override {
    std::size_t component = 0;
    return input()->element_spec().map([&](const TensorSpec& spec) {
      Shape shape = spec.shape;
      if (shape.known_rank()) shape = Shape(std::vector<std::int64_t>(shape.dims().size(), kUnknownDim));
      if (component < padding_.shapes.size()) shape = padding_.shapes[component];
      ++component;
      return TensorSpec(with_first(first_dim(), shape), spec.dtype);
    });
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::vector<Element> elements = sample_elements(copies);
    if (elements.empty()) return std::nullopt;
    const Element one = stack_padded(elements, padding_);
    return copies == 1 ? one : stack_padded(elements, longer(one, copies - 1));
  }

 private:
  // Pads axes without a fixed extent to a larger size than in `batch`, so that samples of different batches differ in
  // these axes.
  Padding longer(const Element& batch, std::int64_t places) const {
    Padding padding = padding_;
    padding.shapes.clear();
    for (const Tensor& leaf : batch.flatten()) {
      std::vector<std::int64_t> dims(leaf.shape().dims().begin() + 1, leaf.shape().dims().end());
      const std::size_t component = padding.shapes.size();
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        const bool fixed = component < padding_.shapes.size() && padding_.shapes[component].dims().at(axis) >= 0;
        if (!fixed) dims[axis] += places;
      }
      padding.shapes.emplace_back(dims);
    }
    return padding;
  }

  Padding padding_;
};

// ---- unbatch -------------------------------------------------------------------------------------------

class UnbatchIterator : public NodeIterator {
 public:
  explicit UnbatchIterator(const NodePtr& input) : input_(input->make_iterator()), start_(input_->save()) {}

  bool next(Item& out) override {
    while (row_ >= num_rows()) {
      Item item;
      if (!input_->next(item)) return false;
      open(item);
      ++consumed_;
      row_ = 0;
    }
    out = rows_ ? Item(rows_, row_) : Item(ragged_[static_cast<std::size_t>(row_)]);
    ++row_;
    return true;
  }
  Json save() const override {
    return {{"start", start_}, {"consumed", consumed_}, {"row", row_}, {"input", input_->save()}};
  }
  void restore(const Json& state) override {
    start_ = state_at(state, "start");
    consumed_ = state_count(state, "consumed");
    row_ = state_count(state, "row");
    rows_.reset();
    ragged_.clear();
    input_->restore(start_);
    if (consumed_ > 0) open(items_at(*input_, {consumed_ - 1})[0]);
    if (consumed_ > 0 && row_ > num_rows()) {
      throw_invalid_argument(
          fmt::format("invalid state of unbatch: found row {}, expected a row of the current element", row_));
    }
    input_->restore(state_at(state, "input"));
  }

 private:
  void open(const Item& item) {
    const Element element = item.element();
    rows_.reset();
    ragged_.clear();
    if (auto rows = ragged_rows(element)) {
      ragged_ = std::move(*rows);
    } else {
      rows_ = std::make_shared<RowStore>(element, "unbatch");
    }
  }
  std::int64_t num_rows() const { return rows_ ? rows_->num_rows() : static_cast<std::int64_t>(ragged_.size()); }

  std::unique_ptr<NodeIterator> input_;
  Json start_;
  std::shared_ptr<const RowStore> rows_;
  std::vector<Element> ragged_;  // the rows of an element with ragged tensors
  std::int64_t row_ = 0;
  std::int64_t consumed_ = 0;
};

class UnbatchNode : public DatasetNode {
 public:
  explicit UnbatchNode(NodePtr input) : DatasetNode("unbatch", {std::move(input)}) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<UnbatchIterator>(input()); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return unbatch_node(inputs[0]); }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override {
    return input()->element_spec().map([](const TensorSpec& spec) {
      if (spec.ragged && spec.ragged->shape.known_rank() && spec.ragged->shape.rank() > 0) {
        TensorSpec row = spec;
        const std::vector<std::int64_t>& dims = spec.ragged->shape.dims();
        row.ragged->shape = Shape(std::vector<std::int64_t>(dims.begin() + 1, dims.end()));
        row.ragged->ragged_rank = std::max(spec.ragged->ragged_rank - 1, 0);
        return row;
      }
      if (spec.shape.rank() == 0) return spec;
      return TensorSpec(Shape(std::vector<std::int64_t>(spec.shape.dims().begin() + 1, spec.shape.dims().end())),
                        spec.dtype);
    });
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    if (const auto rows = ragged_rows(*element)) return rows->empty() ? std::nullopt : std::optional(rows->front());
    const auto rows = std::make_shared<RowStore>(*element, "unbatch");
    if (rows->num_rows() == 0) return std::nullopt;
    return RowStore::row(rows, 0);
  }
};

}  // namespace

NodePtr batch_node(NodePtr input, std::int64_t size, bool drop_remainder) {
  return std::make_shared<BatchNode>(std::move(input), size, drop_remainder);
}
NodePtr ragged_batch_node(NodePtr input, std::int64_t size, bool drop_remainder) {
  return std::make_shared<RaggedBatchNode>(std::move(input), size, drop_remainder);
}

NodePtr padded_batch_node(NodePtr input, std::int64_t size, std::vector<Shape> shapes, PaddingValues values,
                          bool drop_remainder) {
  return std::make_shared<PaddedBatchNode>(std::move(input), size, drop_remainder,
                                           Padding{std::move(shapes), std::move(values)});
}

NodePtr unbatch_node(NodePtr input) { return std::make_shared<UnbatchNode>(std::move(input)); }

}  // namespace lockstep::data

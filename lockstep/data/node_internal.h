// The parts of a dataset: nodes that describe it, and the iterators that walk them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/row_store_internal.h"
#include "lockstep/ops/function_draws_internal.h"

namespace lockstep::data {

using NodePtr = std::shared_ptr<const DatasetNode>;

// An element on its way: a row of a store, or an element that was computed.
class Item {
 public:
  Item() = default;
  Item(Element element) : element_(std::move(element)) {}
  Item(std::shared_ptr<const RowStore> store, std::int64_t row) : store_(std::move(store)), row_(row) {}

  const std::shared_ptr<const RowStore>& store() const { return store_; }  // null for a computed element
  std::int64_t row() const { return row_; }
  Element element() const { return store_ ? RowStore::row(store_, row_) : element_; }

 private:
  std::shared_ptr<const RowStore> store_;
  std::int64_t row_ = 0;
  Element element_;
};

class NodeIterator {
 public:
  virtual ~NodeIterator() = default;
  // False at the end, and afterwards.
  virtual bool next(Item& out) = 0;
  // Leaves out up to n elements; returns how many there were.
  virtual std::int64_t advance(std::int64_t n);
  // Seeds and counts. restore() may be called on an iterator that has moved.
  virtual Json save() const = 0;
  virtual void restore(const Json& state) = 0;
};

class DatasetNode {
 public:
  explicit DatasetNode(std::string name, std::vector<NodePtr> inputs = {})
      : name_(std::move(name)), inputs_(std::move(inputs)) {}
  virtual ~DatasetNode() = default;

  virtual std::unique_ptr<NodeIterator> make_iterator() const = 0;
  virtual std::int64_t cardinality() const = 0;
  virtual ElementSpec element_spec() const = 0;
  // An element as the dataset gives them, made without touching the seeds of iterators; for learning what
  // functions return. It is element `copies` of a source, and as many go into a batch, so that sizes that vary show.
  // Empty: not known.
  virtual std::optional<Element> sample(std::int64_t copies) const = 0;
  // Whether its input is names of files, so that a worker can take some of them: readers, and what makes readers of
  // names.
  virtual bool reads_files() const { return false; }
  // How many elements of its input become one of its own; 0: it does not batch.
  virtual std::int64_t batch_size() const { return 0; }
  // The same transformation of the same number of other inputs; without the state that is not part of the description.
  virtual NodePtr with_inputs(std::vector<NodePtr> inputs) const;

  // The state that is not part of the description (see Dataset::save_state); null if there is none.
  virtual const Options* options() const { return nullptr; }  // what with_options() set here
  virtual Json save_node() const { return nullptr; }
  virtual void restore_node(const Json&) const {}
  // The states of the nodes below, where they are not those of the elements that were delivered, because the elements
  // are made ahead.
  virtual std::optional<Json> delivered_nodes() const { return std::nullopt; }

  const std::string& name() const { return name_; }
  const std::vector<NodePtr>& inputs() const { return inputs_; }
  const NodePtr& input() const { return inputs_[0]; }

 private:
  std::string name_;
  std::vector<NodePtr> inputs_;
};

// The states of a node and all below it, in the order of a walk from the root.
Json save_nodes(const DatasetNode& root);
void restore_nodes(const DatasetNode& root, const Json& state);

// A member of a saved state. Throws InvalidArgument when it is missing or of another type: the state is of
// another pipeline.
const Json& state_at(const Json& state, std::string_view key);
std::int64_t state_int(const Json& state, std::string_view key);
// 0 to `most`.
std::int64_t state_count(const Json& state, std::string_view key,
                         std::int64_t most = std::numeric_limits<std::int64_t>::max());
std::pair<std::int64_t, std::int64_t> state_pair(const Json& state, std::string_view key);

// The elements number indices[0] < indices[1] < … counted from where the iterator stands. Throws
// FailedPrecondition when there are fewer, InvalidArgument when the numbers do not increase.
std::vector<Item> items_at(NodeIterator& iterator, const std::vector<std::int64_t>& indices);

// The number of elements when it is finite and known.
std::optional<std::int64_t> known(std::int64_t cardinality);

ElementSpec spec_of(const Element& element);
// Shapes with the dimensions unknown in which a and b differ.
ElementSpec merge_specs(const ElementSpec& a, const ElementSpec& b);

// The states of the random operations of functions below a repeat, and of functions of the datasets that flat_map and
// interleave make: passes and datasets continue each other's, as the functions of an iterator of TensorFlow belong to
// the iterator of the whole dataset.
class SharedFunctions {
 public:
  // While it lives, iterators that are made on this thread share the states; none, where `functions` is null.
  class Scope {
   public:
    explicit Scope(SharedFunctions* functions);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SharedFunctions* const before_;
  };
  // Those of the repeat above this one, or new ones.
  static std::shared_ptr<SharedFunctions> of_repeat();
  // Those of the datasets that a node's function makes. They live shorter than the states, so that their functions are
  // known by their types: lambdas in one place of the program are one function.
  static std::shared_ptr<SharedFunctions> of_datasets(const void* function);
  // The states of a node's function: new ones where nothing is shared.
  static std::shared_ptr<ops::FunctionDraws> draws_of(const void* function, const std::type_info& type);

 private:
  static std::shared_ptr<SharedFunctions> make(bool by_type);

  std::weak_ptr<SharedFunctions> self_;
  std::mutex mutex_;
  bool by_type_ = false;
  std::map<const void*, std::shared_ptr<ops::FunctionDraws>> draws_;
  std::map<std::type_index, std::shared_ptr<ops::FunctionDraws>> draws_of_types_;
  std::map<const void*, std::shared_ptr<SharedFunctions>> datasets_;
};

// The function of an iterator, a member of its node: its random operations have their own states, which begin anew
// with each iterator that is not of a further pass of a repeat.
template <typename Function>
class IteratorFunction {
 public:
  explicit IteratorFunction(const Function& fn) : fn_(fn), draws_(SharedFunctions::draws_of(&fn, fn.target_type())) {}
  template <typename... Arguments>
  auto operator()(const Arguments&... arguments) {
    const ops::FunctionDraws::Call call(*draws_, ops::FunctionDraws::Nesting::kApart);
    auto result = fn_(arguments...);
    called_ = true;
    return result;
  }
  // Whether a call that is left out could change what later ones return.
  bool may_draw() const { return !called_ || !draws_->empty(); }
  void reset() { draws_->restore(Json::array()); }
  Json save(Json state) const {
    if (!draws_->empty()) state["draws"] = draws_->save();
    return state;
  }
  void restore(const Json& state) { draws_->restore(state.value("draws", Json::array())); }
  // Of an element that is not an iterator's.
  template <typename... Arguments>
  static auto sample(const Function& fn, const Arguments&... arguments) {
    const SharedFunctions::Scope none(nullptr);
    IteratorFunction once(fn);
    return once(arguments...);
  }

 private:
  Function fn_;
  std::shared_ptr<ops::FunctionDraws> draws_;
  bool called_ = false;
};

// A node that passes on its input's elements unchanged.
class PassingNode : public DatasetNode {
 public:
  using DatasetNode::DatasetNode;
  std::int64_t cardinality() const override { return input()->cardinality(); }
  ElementSpec element_spec() const override { return input()->element_spec(); }
  std::optional<Element> sample(std::int64_t copies) const override { return input()->sample(copies); }
};

// The nodes, by the files that have them. Arguments have been checked by Dataset's functions.
NodePtr empty_node();
NodePtr elements_node(std::vector<Element> elements);
NodePtr map_node(NodePtr input, MapFunction fn);
NodePtr filter_node(NodePtr input, FilterFunction fn);
NodePtr take_while_node(NodePtr input, FilterFunction fn);
NodePtr batch_node(NodePtr input, std::int64_t size, bool drop_remainder);
NodePtr ragged_batch_node(NodePtr input, std::int64_t size, bool drop_remainder);
NodePtr padded_batch_node(NodePtr input, std::int64_t size, std::vector<Shape> shapes, PaddingValues values,
                          bool drop_remainder);
NodePtr unbatch_node(NodePtr input);
// Lists of elements. Throws InvalidArgument for sizes below 1.
NodePtr window_node(NodePtr input, std::int64_t size, std::int64_t shift, std::int64_t stride, bool drop_remainder);
NodePtr shuffle_node(NodePtr input, std::int64_t buffer_size, std::pair<std::int64_t, std::int64_t> seeds,
                     bool reshuffle_each_iteration);
NodePtr cache_node(NodePtr input);
NodePtr file_cache_node(NodePtr input, std::string filename);
NodePtr scan_node(NodePtr input, Element initial_state, ScanFunction fn);
NodePtr unique_node(NodePtr input);
NodePtr ignore_errors_node(NodePtr input, bool log_warning);
NodePtr group_by_window_node(NodePtr input, KeyFunction key, GroupFunction reduce,
                             std::function<std::int64_t(std::int64_t)> window_size);
NodePtr random_node(std::pair<std::int64_t, std::int64_t> seeds, bool rerandomize_each_iteration);
NodePtr sample_node(const std::vector<Dataset>& datasets, const SampleOptions& options);
NodePtr prefetch_node(NodePtr input, std::int64_t buffer_size);
NodePtr interleave_node(NodePtr input, FlatMapFunction fn, std::int64_t cycle_length, std::int64_t block_length);
NodePtr options_node(NodePtr input, Options options);

}  // namespace lockstep::data

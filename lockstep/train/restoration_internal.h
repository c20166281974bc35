// One restore of a checkpoint into live objects, which may continue while more of them are created.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/keras/build_observers_internal.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/keras/trainer/training_state.h"
#include "lockstep/train/restore_order_internal.h"
#include "lockstep/train/restore_report.h"
#include "lockstep/train/tracked_node_internal.h"

namespace lockstep::train {

class Restoration : public keras::BuildObserver, public std::enable_shared_from_this<Restoration> {
 public:
  struct Options {
    bool skip_slot_variables = false;
    // Values that differ from their variable in axes with one element, or in a floating or an integer dtype, are
    // changed to fit it instead of being an error.
    bool change_values = false;
    bool counter_is_optional = true;  // a name-based file need not hold save_counter
    // Whose training state is taken, and of how many workers that restore together. Where they read the same files each
    // looks at the checksums of its part of them.
    int worker = 0;
    int workers = 1;
    std::shared_ptr<io::FileSystem> files = nullptr;  // null: the machine's
  };
  // Reads the index and the object graph. Errors are those of formats::BundleReader.
  Restoration(NodePtr root, const std::string& prefix, Options options);
  // The object graph of a file; empty when it has none.
  static std::optional<formats::CheckpointGraph> read_graph(const std::string& prefix);
  // Objects that are built later get their values from now on, as long as somebody holds the restoration by a
  // shared_ptr.
  void keep_restoring() { waiting_ = !complete_; }
  void on_built() override;

  // Binds saved objects to live ones and brings over the values of those not bound before. All values of
  // one call are read and checked before the first is assigned: after an error nothing has changed.
  // Throws InvalidArgument for a shape or dtype that differs, NotFound for a missing tensor, DataLoss.
  void bind();
  // bind() in two steps: finds and reads, then assigns.
  void match();
  void commit();
  // The part of commit() that objects may refuse, which several workers do together: sets the states of iterators and
  // of users' objects. When one throws, the earlier ones get their states back.
  void set_states();
  void undo_states();
  // Whether a value for the variable was found.
  bool takes(const distribute::VariableImpl& variable) const;
  // Variables for which a file of this form has no values, because they have no meaning in it.
  std::set<const distribute::VariableImpl*> idle() const;
  // Everything is bound; later calls of bind() have nothing to do.
  bool complete() const { return complete_; }

  // Checks the state at the time of the call; returns the missing values, empty if there are none.
  std::string unmatched_live_object() const;
  std::string unconsumed_saved_object() const;
  // Of files with an object graph.
  bool only_root_matched() const;
  // The file has no object graph: variables are found by their names.
  bool named() const { return named_; }
  // Paths in the checkpoint of stored values that no live object took.
  std::vector<std::string> unrestored() const;
  RestoreReport report() const;

  const std::string& prefix() const { return reader_.prefix(); }
  const formats::CheckpointGraph& graph() const { return graph_; }
  // Of this worker, read with the first bind().
  const std::optional<keras::TrainingState>& training_state() const { return training_state_; }

 private:
  // Variables and states below the root that have no value.
  std::vector<RestoreReport::Missing> unmatched() const;
  struct Pending {  // an assignment that has been checked
    distribute::VariablePtr variable;
    Tensor value;
    std::shared_ptr<optimizers::SlotRange> range;  // the value has only these elements; null: all
  };
  void observe(const TrackedNode& node);
  void observe_hidden(const Children& children, std::set<Identity>& seen);
  void bind_by_name();
  void bind_from_root();
  void bind_node(int number);
  void follow(int number, const Children& children, bool alias);
  bool fits(int saved, const Tracked& child) const;
  void take_values(int number);
  void take_table(const std::string& key, const NodePtr& node);
  void take_hidden();
  void take_slots();
  bool build_optimizers();
  bool is_mine_to_check(const std::string& key);
  void queue(const std::string& key, const distribute::VariablePtr& variable);
  bool can_change(const formats::TensorInfo& info, distribute::VariableImpl& variable) const;
  Tensor changed(const formats::TensorInfo& info, Tensor value, const distribute::VariableImpl& variable);

  RestoreOrder order_;
  NodePtr root_;
  Options options_;
  formats::BundleReader reader_;
  bool named_ = false;  // without an object graph
  formats::CheckpointGraph graph_;
  std::vector<std::string> paths_;
  std::vector<NodePtr> bound_;                              // live object of each saved node
  std::vector<std::pair<int, std::string_view>> found_at_;  // the saved node and the name that led to it
  std::map<Identity, int> saved_of_;                        // and the reverse
  std::vector<bool> taken_;                                 // values brought over
  std::set<const distribute::VariableImpl*> restored_;      // of names and of values outside the graph
  std::vector<RestoreReport::Changed> reshaped_, converted_;
  std::set<std::string> inconsistent_;  // edges that were warned about
  std::vector<int> open_;
  std::vector<Pending> pending_;
  struct PendingTable {
    NodePtr node;
    Tensor keys, values;
  };
  std::vector<PendingTable> pending_tables_;
  std::vector<std::pair<NodePtr, double>> pending_numbers_;
  std::vector<std::pair<NodePtr, std::string>> pending_states_, previous_states_;
  std::size_t num_extra_ = 0;              // tensors outside the graph
  std::map<std::string, int> checked_by_;  // the worker, for each tensor
  bool state_read_ = false;
  std::optional<keras::TrainingState> training_state_;
  bool complete_ = false;
  std::recursive_mutex built_mutex_;  // one thread at a time looks for new parts
  bool waiting_ = false;              // for objects that are built later
};

// The prefix of a SavedModel's variables when the path is the folder of one, else the path.
std::string saved_model_variables(const std::string& path);

}  // namespace lockstep::train

// Losses and metrics of a compiled model, matched to its outputs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/keras/callbacks/log_value.h"
#include "lockstep/keras/nested.h"
#include "lockstep/keras/trainer/compile.h"

namespace lockstep::keras {

class ModelImpl;

// One output's part of a loss before its division.
struct LossPart {
  losses::Reduced reduced;
  double weight = 1.0;
  bool of_whole_batch = false;  // not of a replica's rows: each replica has all of it
};

// Input of losses that mix rows in one of several replicas.
struct WholeBatch {
  const Structure& y;
  const Structure& sample_weight;
  std::function<Tensor(const Tensor& rows)> gather;  // the rows of all replicas; differentiable
};

// Resolved once the first batch shows how many outputs there are and of which shapes.
class Compiled {
 public:
  // The version of Keras that a file of the model comes from decides what masks do to metrics.
  Compiled(CompileOptions options, const ModelImpl& model) : options_(std::move(options)), model_(model) {}

  // Matches losses and metrics to outputs; does nothing when done before. Replicas may call it at once. Throws
  // InvalidArgument when a list has another length than the outputs or a dict names no output, saying which outputs
  // there are. An undefined y_pred is one output of any shape, which requires metrics that do not depend on outputs.
  void resolve(const std::vector<std::string>& output_names, const Structure& y, const Structure& y_pred);
  bool resolved() const { return resolved_; }
  // Whether the class of one of the metrics depends on the shapes of the outputs: "crossentropy".
  bool metrics_depend_on_outputs() const;
  // Whether compile() was given metrics.
  bool expects_metrics() const { return !options_.metrics.empty() || !options_.weighted_metrics.empty(); }

  // The parts of each output that has a loss. Leaves of y and sample_weight belong to outputs in order, those of dicts
  // by name; one sample_weight serves all.
  std::vector<LossPart> loss_parts(const Structure& y, const Structure& y_pred, const Structure& sample_weight,
                                   const WholeBatch* whole = nullptr) const;

  // Takes one batch into the metrics. `loss` is the batch's total, `output_losses` each output's own.
  void update(const Structure& y, const Structure& y_pred, const Structure& sample_weight, double loss,
              const std::vector<double>& output_losses, std::int64_t rows);
  // A replica's part of update(), for its rows: each output's own loss, and the metrics.
  void add_output_losses(const std::vector<double>& output_losses, std::int64_t rows);
  void update_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight);
  // loss, <output>_loss when several have one, then metrics, in Keras's order of results.
  Results results() const;
  void reset();
  // The sums so far: of each metric's variables the copies of this worker's replicas. Restored before the first batch
  // is known, metrics take their state up with the next update. With other numbers of replicas the totals stay.
  Json save_state() const;
  void restore_state(const Json& state);
  // The same for metrics that have seen a batch: they have the state at once.
  void set_state(const Json& state);
  // Whether the metrics have yet to load a restored state, and the batch with which they do.
  bool has_restored_metrics() const { return !saved_.is_null() && !saved_.at("metrics").empty(); }
  void restore_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight);

  std::vector<metrics::MetricPtr> metrics() const;
  std::size_t num_losses() const { return losses_.size(); }
  // Counts a step whose batch does not come, as TensorFlow does: what the last one counted without its data.
  void count_again(bool static_rows);
  Results with_repeated_names(Results results) const;
  // "a_loss", … where the losses of outputs are reported by themselves. Empty before the first batch.
  std::vector<std::string> output_loss_names() const;

 private:
  struct OutputLoss {
    std::size_t output;
    losses::LossPtr loss;
    double weight;
  };
  static bool is_unreduced(const OutputLoss& item);
  struct OutputMetric {
    std::size_t output;
    metrics::MetricPtr metric;
    std::string log_name;
    bool weighted;
  };
  // A mean weighted by samples, in double.
  struct Tracker {
    double total = 0;
    double count = 0;
    double result() const { return count > 0 ? total / count : 0; }
  };
  // Targets or weights in the order of the outputs. As in Keras a dict goes by the names of the outputs where the model
  // gives a list of them; any other structure is flattened.
  Tensors by_output(const Structure& values, const Structure& y_pred) const;
  // The sample weights and the mask of an output. In Keras 2 those of one axis less than the losses count for all
  // losses along the last axis; Keras 3 multiplies these by them.
  struct Counted {
    Tensor weight, mask;
  };
  Counted counted_of(const Tensors& weights, std::size_t output, const Tensor& predicted) const;
  void resolve_losses(const std::vector<std::string>& names);
  void resolve_metrics(const MetricTree& tree, bool weighted, const std::vector<std::string>& names, const Tensors& y,
                       const Tensors& y_pred);
  void add_metric(const MetricTree& item, std::size_t output, bool weighted, const std::vector<std::string>& names,
                  const Tensors& y, const Tensors& y_pred);

  CompileOptions options_;
  const ModelImpl& model_;
  mutable std::mutex mutex_;  // for concurrent replicas
  bool resolved_ = false;
  std::vector<std::string> output_names_;
  std::vector<OutputLoss> losses_;
  std::vector<OutputMetric> metrics_;
  Tracker loss_tracker_;
  double last_rows_ = 0;  // that loss_tracker_ counted
  std::vector<Tracker> output_trackers_;
  Json saved_ = nullptr;  // a restored state that the metrics have yet to take
};

}  // namespace lockstep::keras

#include "lockstep/keras/callbacks/tensor_board.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/callbacks/event_file_internal.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/models/from_config_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/ops/functions.h"

namespace lockstep::callbacks {
namespace {

using internal::EventFile;
using internal::Message;

class TensorBoardCallback final : public keras::Callback, public keras::ReadsTogether {
 public:
  explicit TensorBoardCallback(TensorBoardOptions options) : options_(std::move(options)) {
    const Json& frequency = options_.update_freq;
    if (frequency.is_number_integer() && frequency.get<std::int64_t>() > 0) {
      every_ = frequency.get<std::int64_t>();
    } else if (frequency == "batch") {
      every_ = 1;
    } else if (frequency != "epoch") {
      throw_invalid_argument(
          fmt::format("TensorBoard: update_freq is {}, expected \"epoch\", \"batch\" or a number of "
                      "batches of at least 1",
                      dump_json(frequency).substr(0, 60)));
    }
    if (options_.histogram_freq < 0)
      throw_invalid_argument(
          fmt::format("TensorBoard: histogram_freq is {}, expected at least 0", options_.histogram_freq));
  }
  std::string class_name() const override { return "TensorBoard"; }

  void on_train_begin(const keras::Logs&) override {
    batches_ = 0;
    if (!writes() || !options_.write_graph || !trainer_) return;
    const std::string kind = trainer_->model().class_name();
    if (kind != "Functional" && kind != "Sequential") return;
    const Message tensor = Message()
                               .varint(1, internal::kString)
                               .message(2, Message())
                               .bytes(8, dump_json(keras::model_to_json(trainer_->model())));
    train().write(0, "keras", tensor, "graph_keras_model", "1", 0);
  }
  void on_train_end(const keras::Logs&) override { train_.reset(), validation_.reset(); }
  void on_epoch_begin(int, const keras::Logs&) override {
    started_ = std::chrono::steady_clock::now();
    iterations_ = iterations();
  }
  void on_train_batch_begin(std::int64_t, const keras::Logs&) override {
    ++batches_;
    if (options_.write_steps_per_second && every_) batch_started_ = std::chrono::steady_clock::now();
  }
  void on_train_batch_end(std::int64_t, const keras::Logs& logs) override {
    if (!every_ || batches_ % *every_ != 0 || !writes()) return;
    if (options_.write_steps_per_second)
      scalar(train(), batches_, "batch_steps_per_second", 1.0 / seconds_since(batch_started_));
    for (const auto& [name, value] : logs) scalar(train(), batches_, "batch_" + name, value);
  }
  void on_test_end(const keras::Logs& logs) override {
    if (!writes() || !trainer_ || !trainer_->optimizer()) return;
    for (const auto& [name, value] : logs)
      scalar(validation(), iterations(), fmt::format("evaluation_{}_vs_iterations", name), value);
  }
  void on_epoch_end(int epoch, keras::Logs& logs) override {
    if (!writes()) return;
    for (const auto& [name, value] : logs) {
      const bool of_validation = name.starts_with("val_");
      scalar(of_validation ? validation() : train(), epoch, "epoch_" + (of_validation ? name.substr(4) : name), value);
    }
    if (trainer_ && trainer_->optimizer() && !logs.contains("learning_rate"))
      scalar(train(), epoch, "epoch_learning_rate", static_cast<double>(trainer_->optimizer().learning_rate()));
    if (options_.write_steps_per_second)
      scalar(train(), epoch, "epoch_steps_per_second",
             static_cast<double>(iterations() - iterations_) / seconds_since(started_));
    if (options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0) write_histograms(epoch);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
  }
  bool writes() const { return !trainer_ || !trainer_->strategy() || trainer_->strategy()->is_chief(); }
  std::int64_t iterations() const {
    return trainer_ && trainer_->optimizer() && trainer_->optimizer().built() ? trainer_->optimizer().iterations() : 0;
  }
  EventFile& train() { return opened(train_, "train"); }
  EventFile& validation() { return opened(validation_, "validation"); }
  EventFile& opened(std::unique_ptr<EventFile>& file, const char* folder) const {
    if (!file) file = std::make_unique<EventFile>(io::join_path(options_.log_dir, folder));
    return *file;
  }
  static void scalar(EventFile& file, std::int64_t step, const std::string& tag, double value) {
    file.scalar(step, tag, value);
  }
  void write_histograms(int epoch) {
    if (!trainer_) return;
    for (const keras::LayerPtr& layer : trainer_->model().sublayers()) {
      for (const keras::VariablePtr& weight : layer->weights()) {
        std::string tag = weight->path() + "/histogram";
        std::replace(tag.begin(), tag.end(), ':', '_');
        train().histogram(epoch, tag, ops::cast(weight->numpy(), DType::kFloat64).to_vector<double>());
      }
    }
  }

  TensorBoardOptions options_;
  std::optional<std::int64_t> every_;  // batches between scalars of batches
  std::int64_t batches_ = 0, iterations_ = 0;
  Clock::time_point started_, batch_started_;
  std::unique_ptr<EventFile> train_, validation_;
};

}  // namespace

keras::CallbackPtr TensorBoard(TensorBoardOptions options) {
  return std::make_shared<TensorBoardCallback>(std::move(options));
}

}  // namespace lockstep::callbacks

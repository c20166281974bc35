// An event file is a TFRecord file of Event messages (tensorflow/core/util/event.proto): the version "brain.Event:2",
// then one Summary each. Fields by number:
//   Event      1 wall_time (double), 2 step (varint), 3 file_version, 5 summary
//   Summary    1 value: 1 tag, 8 tensor, 9 metadata
//   metadata   1 plugin_data: 1 plugin_name, 2 content; 4 data_class (1 scalar, 2 tensor)
//   tensor     1 dtype, 2 shape: 2 dim: 1 size; 4 tensor_content, 8 string_val
#include "lockstep/keras/callbacks/tensor_board.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include <unistd.h>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/models/from_config_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/ops/functions.h"

namespace lockstep::callbacks {
namespace {

constexpr std::uint64_t kFloat = 1, kDouble = 2, kString = 7;  // DataType

class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    number(static_cast<std::uint64_t>(field) << 3);
    number(value);
    return *this;
  }
  Message& fixed(int field, double value) {
    number(static_cast<std::uint64_t>(field) << 3 | 1);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    number(static_cast<std::uint64_t>(field) << 3 | 2);
    number(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  const std::string& text() const { return bytes_; }

 private:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

template <typename T>
std::string_view raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

class EventFile {
 public:
  explicit EventFile(const std::string& folder) {
    io::FileSystem& files = io::posix_file_system();
    io::make_directories(files, folder);
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    static std::atomic<int> number{0};
    file_ = files.create(io::join_path(folder, fmt::format("events.out.tfevents.{:.0f}.{}.{}.{}.v2", now(), host.data(),
                                                           getpid(), number++)),
                         0644);
    record(Message().fixed(1, now()).bytes(3, "brain.Event:2"));
  }
  void write(std::int64_t step, const std::string& tag, const Message& tensor, const char* plugin,
             std::string_view content, std::uint64_t data_class) {
    Message metadata;
    metadata.message(1, Message().bytes(1, plugin).bytes(2, content));
    if (data_class != 0) metadata.varint(4, data_class);
    const Message value = Message().bytes(1, tag).message(8, tensor).message(9, metadata);
    record(
        Message().fixed(1, now()).varint(2, static_cast<std::uint64_t>(step)).message(5, Message().message(1, value)));
  }

 private:
  void record(const Message& event) {
    const std::string out = formats::tfrecord(event.text());
    file_->write_at(end_, io::as_bytes(out));
    end_ += out.size();
  }
  std::unique_ptr<io::WritableFile> file_;
  std::uint64_t end_ = 0;
};

// Left edge, right edge and count of 30 buckets, as tf.summary.histogram makes them.
std::vector<double> histogram(const std::vector<double>& values) {
  constexpr std::size_t kBuckets = 30;
  std::vector<double> rows(3 * kBuckets, 0.0);
  if (values.empty()) return rows;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = *least, high = *most, width = (high - low) / kBuckets;
  if (!(high > low)) {
    for (std::size_t i = 0; i < kBuckets; ++i) rows[3 * i] = low - 0.5, rows[3 * i + 1] = low + 0.5;
    rows.back() = static_cast<double>(values.size());
    return rows;
  }
  for (std::size_t i = 0; i < kBuckets; ++i) {
    rows[3 * i] = low + width * static_cast<double>(i);
    rows[3 * i + 1] = i + 1 == kBuckets ? high : low + width * static_cast<double>(i + 1);
  }
  for (const double value : values) {
    const auto bucket = static_cast<std::size_t>(std::clamp((value - low) / width, 0.0, kBuckets - 1.0));
    rows[3 * bucket + 2] += 1;
  }
  return rows;
}

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
    const Message tensor =
        Message().varint(1, kString).message(2, Message()).bytes(8, dump_json(keras::model_to_json(trainer_->model())));
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
    const std::vector<float> content = {static_cast<float>(value)};
    file.write(step, tag, Message().varint(1, kFloat).message(2, Message()).bytes(4, raw(content)), "scalars", "", 1);
  }
  void write_histograms(int epoch) {
    if (!trainer_) return;
    for (const keras::LayerPtr& layer : trainer_->model().sublayers()) {
      for (const keras::VariablePtr& weight : layer->weights()) {
        std::string tag = weight->path() + "/histogram";
        std::replace(tag.begin(), tag.end(), ':', '_');
        const std::vector<double> rows = histogram(ops::cast(weight->numpy(), DType::kFloat64).to_vector<double>());
        const Message shape =
            Message().message(2, Message().varint(1, rows.size() / 3)).message(2, Message().varint(1, 3));
        train().write(epoch, tag, Message().varint(1, kDouble).message(2, shape).bytes(4, raw(rows)), "histograms", "",
                      2);
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

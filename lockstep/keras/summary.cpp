#include "lockstep/keras/summary.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/callbacks/event_file_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/image_functions.h"

namespace lockstep::summary {

struct WriterState {
  std::string folder;  // empty: records are dropped
  std::string suffix;
  std::mutex mutex;
  std::unique_ptr<callbacks::internal::EventFile> file;
  bool closed = false;
};

namespace {

thread_local std::shared_ptr<WriterState> current;
thread_local std::optional<std::int64_t> current_step;

// Calls `write` with the file of this thread's writer and the step.
template <typename Write>
bool record(const char* function, const std::optional<std::int64_t>& given, Write write) {
  if (!current || current->folder.empty()) return false;
  const std::optional<std::int64_t> step = given ? given : current_step;
  if (!step) {
    throw_invalid_argument(
        fmt::format("summary.{}: no step is known: give {{.step = ...}}, as_default(step) or set_step()", function));
  }
  const std::lock_guard lock(current->mutex);
  if (current->closed) throw_failed_precondition(fmt::format("summary.{}: the writer is closed", function));
  if (!current->file)
    current->file = std::make_unique<callbacks::internal::EventFile>(current->folder, current->suffix);
  write(*current->file, *step);
  return true;
}

}  // namespace

DefaultWriter::DefaultWriter(std::shared_ptr<WriterState> writer, std::optional<std::int64_t> step)
    : previous_(std::exchange(current, std::move(writer))), previous_step_(current_step) {
  if (step) current_step = step;
}
DefaultWriter::~DefaultWriter() {
  current = previous_;
  current_step = previous_step_;
}
void SummaryWriter::set_as_default(const StepKeywords& o) const {
  current = state_;
  if (o.step) current_step = o.step;
}
void SummaryWriter::close() const {
  const std::lock_guard lock(state_->mutex);
  state_->file.reset();
  state_->closed = true;
}
SummaryWriter create_file_writer(const std::string& logdir, const FileWriterKeywords& o) {
  if (logdir.empty()) throw_invalid_argument("summary.create_file_writer: the folder has no name");
  auto state = std::make_shared<WriterState>();
  state->folder = logdir;
  state->suffix = o.filename_suffix;
  return SummaryWriter(std::move(state));
}
SummaryWriter create_noop_writer() { return SummaryWriter(std::make_shared<WriterState>()); }

bool scalar(const std::string& name, const Tensor& data, const StepKeywords& o) {
  return record("scalar", o.step, [&](auto& file, std::int64_t step) { file.scalar(step, name, data.item<double>()); });
}
bool scalar(const std::string& name, const Tensor& data, std::int64_t step) {
  return scalar(name, data, StepKeywords{{}, step});
}
bool histogram(const std::string& name, const Tensor& data, const HistogramKeywords& o) {
  return record("histogram", o.step, [&](auto& file, std::int64_t step) {
    const Tensor values = ops::cast(ops::reshape(data, {-1}), DType::kFloat64);
    file.histogram(step, name, values.template to_vector<double>(), static_cast<std::size_t>(o.buckets));
  });
}
bool image(const std::string& name, const Tensor& data, const ImageKeywords& o) {
  if (data.rank() != 4) {
    throw_invalid_argument(fmt::format("summary.image: found shape {}, expected (batch, height, width, channels)",
                                       data.shape().to_string()));
  }
  return record("image", o.step, [&](auto& file, std::int64_t step) {
    const Tensor images = lockstep::image::convert_image_dtype(data, DType::kUInt8, true);
    std::vector<std::string> parts = {std::to_string(data.dim(2)), std::to_string(data.dim(1))};
    for (std::int64_t i = 0; i < std::min(o.max_outputs, data.dim(0)); ++i)
      parts.push_back(static_cast<std::string>(io::encode_png(images[i])));
    const auto count = static_cast<std::int64_t>(parts.size());
    file.texts(step, name, parts, {count}, "images", 3);
  });
}
bool text(const std::string& name, const std::string& data, const StepKeywords& o) {
  return internal::texts(name, Tensor::strings({data}, {}), o);
}
bool internal::texts(const std::string& name, const Tensor& data, const StepKeywords& o) {
  return record("text", o.step, [&](auto& file, std::int64_t step) {
    file.texts(step, name, data.string_values(), data.shape().dims(), "text", 2);
  });
}
bool should_record_summaries() { return current && !current->folder.empty(); }

void experimental::set_step(std::optional<std::int64_t> step) { current_step = step; }
std::optional<std::int64_t> experimental::get_step() { return current_step; }

}  // namespace lockstep::summary

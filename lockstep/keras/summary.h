// tf.summary: event files that TensorBoard shows.
//
//   auto writer = tf::summary::create_file_writer("logs/train");
//   {
//     const auto scope = writer.as_default();   // with writer.as_default():
//     tf::summary::scalar("loss", loss, {.step = epoch});
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::summary {

struct WriterState;
// While it lives, summaries of this thread go to the writer; then to the one before.
class [[nodiscard]] DefaultWriter {
 public:
  DefaultWriter(std::shared_ptr<WriterState> writer, std::optional<std::int64_t> step);
  ~DefaultWriter();
  DefaultWriter(const DefaultWriter&) = delete;
  DefaultWriter& operator=(const DefaultWriter&) = delete;

 private:
  std::shared_ptr<WriterState> previous_;
  std::optional<std::int64_t> previous_step_;
};
struct StepKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> step = std::nullopt;  // default: that of as_default() or set_step()
};
// Every record is in the file at once.
class SummaryWriter {
 public:
  explicit SummaryWriter(std::shared_ptr<WriterState> state) : state_(std::move(state)) {}
  DefaultWriter as_default(const StepKeywords& o = {}) const { return {state_, o.step}; }
  DefaultWriter as_default(std::int64_t step) const { return {state_, step}; }
  // From now on, without an end.
  void set_as_default(const StepKeywords& o = {}) const;
  void flush() const {}
  void close() const;  // further summaries throw FailedPrecondition

 private:
  std::shared_ptr<WriterState> state_;
};
struct FileWriterKeywords {
  FieldNamesOnly names_only = {};
  std::string filename_suffix = ".v2";
};
// The file is made with its first record.
SummaryWriter create_file_writer(const std::string& logdir, const FileWriterKeywords& o = {});
SummaryWriter create_noop_writer();

// Where no writer is the default, summaries are dropped. Throw InvalidArgument where no step is known. Return whether
// they were written.
bool scalar(const std::string& name, const Tensor& data, const StepKeywords& o = {});
bool scalar(const std::string& name, const Tensor& data, std::int64_t step);
struct HistogramKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> step = std::nullopt;
  std::int64_t buckets = 30;
};
bool histogram(const std::string& name, const Tensor& data, const HistogramKeywords& o = {});
inline bool histogram(const std::string& name, const Tensor& data, std::int64_t step) {
  return histogram(name, data, HistogramKeywords{{}, step});
}
struct ImageKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> step = std::nullopt;
  std::int64_t max_outputs = 3;
};
// (batch, height, width, channels): floating numbers from 0 to 1, or uint8.
bool image(const std::string& name, const Tensor& data, const ImageKeywords& o = {});
inline bool image(const std::string& name, const Tensor& data, std::int64_t step) {
  return image(name, data, ImageKeywords{{}, step});
}
// A string, or a tensor of strings; TensorBoard shows Markdown.
bool text(const std::string& name, const std::string& data, const StepKeywords& o = {});
template <typename T>
requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) bool text(const std::string& name, const T& data,
                                                                                 const StepKeywords& o = {});
bool should_record_summaries();
inline void flush(const SummaryWriter& writer) { writer.flush(); }

// Traces of the profiler are not written.
struct TraceKeywords {
  FieldNamesOnly names_only = {};
  bool graph = true;
  bool profiler = false;
};
inline void trace_on(const TraceKeywords& = {}) {}
inline void trace_off() {}

namespace experimental {
void set_step(std::optional<std::int64_t> step);
std::optional<std::int64_t> get_step();
}  // namespace experimental

namespace internal {
bool texts(const std::string& name, const Tensor& data, const StepKeywords& o);
}
template <typename T>
requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) bool text(const std::string& name, const T& data,
                                                                                 const StepKeywords& o) {
  return internal::texts(name, static_cast<Tensor>(data), o);
}

}  // namespace lockstep::summary

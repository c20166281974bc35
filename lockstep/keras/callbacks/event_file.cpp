// An event file is a TFRecord file of Event messages (tensorflow/core/util/event.proto): the version "brain.Event:2",
// then one Summary each. Fields by number:
//   Event      1 wall_time (double), 2 step (varint), 3 file_version, 5 summary
//   Summary    1 value: 1 tag, 8 tensor, 9 metadata
//   metadata   1 plugin_data: 1 plugin_name, 2 content; 4 data_class (1 scalar, 2 tensor)
//   tensor     1 dtype, 2 shape: 2 dim: 1 size; 4 tensor_content, 8 string_val
#include "lockstep/keras/callbacks/event_file_internal.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include <unistd.h>

#include <fmt/format.h>

#include "lockstep/formats/record_file_internal.h"

namespace lockstep::callbacks::internal {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Left edge, right edge and count of buckets, as tf.summary.histogram makes them.
std::vector<double> rows_of(const std::vector<double>& values, std::size_t buckets) {
  std::vector<double> rows(3 * buckets, 0.0);
  if (values.empty()) return rows;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = *least, high = *most, width = (high - low) / static_cast<double>(buckets);
  if (!(high > low)) {
    for (std::size_t i = 0; i < buckets; ++i) rows[3 * i] = low - 0.5, rows[3 * i + 1] = low + 0.5;
    rows.back() = static_cast<double>(values.size());
    return rows;
  }
  for (std::size_t i = 0; i < buckets; ++i) {
    rows[3 * i] = low + width * static_cast<double>(i);
    rows[3 * i + 1] = i + 1 == buckets ? high : low + width * static_cast<double>(i + 1);
  }
  for (const double value : values) {
    const auto bucket =
        static_cast<std::size_t>(std::clamp((value - low) / width, 0.0, static_cast<double>(buckets) - 1.0));
    rows[3 * bucket + 2] += 1;
  }
  return rows;
}

Message shape_of(const std::vector<std::int64_t>& dims) {
  Message shape;
  for (const std::int64_t dim : dims) shape.message(2, Message().varint(1, static_cast<std::uint64_t>(dim)));
  return shape;
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::string_view suffix) {
  io::FileSystem& files = io::posix_file_system();
  io::make_directories(files, folder);
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  static std::atomic<int> number{0};
  file_ = files.create(io::join_path(folder, fmt::format("events.out.tfevents.{:.0f}.{}.{}.{}{}", now(), host.data(),
                                                         getpid(), number++, suffix)),
                       0644);
  record(Message().fixed(1, now()).bytes(3, "brain.Event:2"));
}
void EventFile::write(std::int64_t step, const std::string& tag, const Message& tensor, const char* plugin,
                      std::string_view content, std::uint64_t data_class) {
  Message metadata;
  metadata.message(1, Message().bytes(1, plugin).bytes(2, content));
  if (data_class != 0) metadata.varint(4, data_class);
  const Message value = Message().bytes(1, tag).message(8, tensor).message(9, metadata);
  record(Message().fixed(1, now()).varint(2, static_cast<std::uint64_t>(step)).message(5, Message().message(1, value)));
}
void EventFile::scalar(std::int64_t step, const std::string& tag, double value) {
  const std::vector<float> content = {static_cast<float>(value)};
  write(step, tag, Message().varint(1, kFloat).message(2, Message()).bytes(4, raw(content)), "scalars", "", 1);
}
void EventFile::histogram(std::int64_t step, const std::string& tag, const std::vector<double>& values,
                          std::size_t buckets) {
  const std::vector<double> rows = rows_of(values, buckets);
  const Message shape = shape_of({static_cast<std::int64_t>(rows.size() / 3), 3});
  write(step, tag, Message().varint(1, kDouble).message(2, shape).bytes(4, raw(rows)), "histograms", "", 2);
}
void EventFile::texts(std::int64_t step, const std::string& tag, const std::vector<std::string>& values,
                      const std::vector<std::int64_t>& shape, const char* plugin, std::uint64_t data_class) {
  Message tensor = Message().varint(1, kString).message(2, shape_of(shape));
  for (const std::string& value : values) tensor.bytes(8, value);
  write(step, tag, tensor, plugin, "", data_class);
}
void EventFile::record(const Message& event) {
  const std::string out = formats::tfrecord(event.text());
  file_->write_at(end_, io::as_bytes(out));
  end_ += out.size();
}

}  // namespace lockstep::callbacks::internal

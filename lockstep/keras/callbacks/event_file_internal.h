// An event file of TensorBoard: a TFRecord file of Event messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::callbacks::internal {

// TensorFlow's DataType.
inline constexpr std::uint64_t kFloat = 1, kDouble = 2, kString = 7;

// A protocol buffer.
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

class EventFile {
 public:
  // Makes the folder. The name of the file is like TensorFlow's.
  explicit EventFile(const std::string& folder, std::string_view suffix = ".v2");
  // data_class: 1 of scalars, 2 of tensors, 3 of lists of bytes; 0: none.
  void write(std::int64_t step, const std::string& tag, const Message& tensor, const char* plugin,
             std::string_view content, std::uint64_t data_class);
  void scalar(std::int64_t step, const std::string& tag, double value);
  void histogram(std::int64_t step, const std::string& tag, const std::vector<double>& values,
                 std::size_t buckets = 30);
  void texts(std::int64_t step, const std::string& tag, const std::vector<std::string>& values,
             const std::vector<std::int64_t>& shape, const char* plugin, std::uint64_t data_class);

 private:
  void record(const Message& event);
  std::unique_ptr<io::WritableFile> file_;
  std::uint64_t end_ = 0;
};

}  // namespace lockstep::callbacks::internal

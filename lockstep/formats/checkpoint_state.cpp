#include "lockstep/formats/checkpoint_state.h"

#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/atomic_file.h"

namespace lockstep::formats {
namespace {

std::string text_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\\': out += "\\\\"; break;
      case '"': out += "\\\""; break;
      case '\'': out += "\\'"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (byte < 0x20 || byte == 0x7F) {
          out += fmt::format("\\{:03o}", byte);
        } else {
          out.push_back(c);
        }
    }
  }
  return out + "\"";
}

// Protobuf's text format as far as four scalar fields need it.
class TextParser {
 public:
  TextParser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  CheckpointState run() {
    for (skip(); !text_.empty(); skip()) {
      const std::string_view name = word();
      skip();
      take(':');
      skip();
      if (take('[')) {
        for (skip(); !take(']'); skip()) {
          field(name);
          skip();
          take(',');
        }
      } else {
        field(name);
      }
      skip();
      if (!take(',')) take(';');
    }
    return std::move(state_);
  }

 private:
  [[noreturn]] void malformed() const {
    throw_data_loss(
        fmt::format("{}: not a checkpoint state file (unexpected text at \"{}\")", what_, text_.substr(0, 20)));
  }

  void skip() {
    while (!text_.empty()) {
      if (text_.front() == '#') {
        text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
      } else if (std::string_view(" \t\r\n").find(text_.front()) == std::string_view::npos) {
        return;
      } else {
        text_.remove_prefix(1);
      }
    }
  }

  bool take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::string_view word() {
    std::size_t size = 0;
    while (size < text_.size() && (text_[size] == '_' || (text_[size] >= 'a' && text_[size] <= 'z'))) ++size;
    if (size == 0) malformed();
    const auto result = text_.substr(0, size);
    text_.remove_prefix(size);
    return result;
  }

  void field(std::string_view name) {
    if (name == "model_checkpoint_path") {
      state_.model_checkpoint_path = string();
    } else if (name == "all_model_checkpoint_paths") {
      state_.all_model_checkpoint_paths.push_back(string());
    } else if (name == "all_model_checkpoint_timestamps") {
      state_.all_model_checkpoint_timestamps.push_back(number());
    } else if (name == "last_preserved_timestamp") {
      state_.last_preserved_timestamp = number();
    } else {
      throw_data_loss(fmt::format("{}: not a checkpoint state file (unknown field {})", what_, name));
    }
  }

  double number() {
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc{}) malformed();
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

  std::string string() {
    std::string out;
    if (text_.empty() || (text_.front() != '"' && text_.front() != '\'')) malformed();
    while (!text_.empty() && (text_.front() == '"' || text_.front() == '\'')) {  // adjacent pieces join
      const char quote = text_.front();
      text_.remove_prefix(1);
      while (!take(quote)) {
        if (text_.empty() || text_.front() == '\n') malformed();
        const char c = text_.front();
        text_.remove_prefix(1);
        out.push_back(c == '\\' ? escape() : c);
      }
      skip();
    }
    return out;
  }

  char escape() {
    if (text_.empty()) malformed();
    const char c = text_.front();
    constexpr std::string_view kNames = "abfnrtv\\'\"?";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"?";
    if (const auto at = kNames.find(c); at != std::string_view::npos) {
      text_.remove_prefix(1);
      return kValues[at];
    }
    const bool hex = c == 'x' || c == 'X';
    if (hex) text_.remove_prefix(1);
    const auto most = std::min<std::size_t>(hex ? 2 : 3, text_.size());
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + most, value, hex ? 16 : 8);
    if (error != std::errc{} || value > 0xFF) malformed();
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return static_cast<char>(value);
  }

  std::string_view text_;
  std::string_view what_;
  CheckpointState state_;
};

std::string relative_to(const std::string& directory, const std::string& path) {
  const std::string start = directory.ends_with('/') ? directory : directory + "/";
  return path.starts_with(start) ? path.substr(start.size()) : path;
}

}  // namespace

std::string CheckpointState::to_text() const {
  std::string out = fmt::format("model_checkpoint_path: {}\n", text_literal(model_checkpoint_path));
  for (const auto& path : all_model_checkpoint_paths)
    out += fmt::format("all_model_checkpoint_paths: {}\n", text_literal(path));
  for (const double time : all_model_checkpoint_timestamps) {
    out += fmt::format("all_model_checkpoint_timestamps: {}\n", python_float(time));
  }
  if (last_preserved_timestamp != 0) {
    out += fmt::format("last_preserved_timestamp: {}\n", python_float(last_preserved_timestamp));
  }
  return out;
}

CheckpointState CheckpointState::parse(std::string_view text, std::string_view what) {
  return TextParser(text, what).run();
}

std::optional<CheckpointState> read_checkpoint_state(const std::string& directory, std::string_view name,
                                                     io::FileSystem& files) {
  const std::string path = io::join_path(directory, std::string(name));
  if (!io::is_file(files, path)) return std::nullopt;
  CheckpointState state = CheckpointState::parse(io::read_text(files, path), path);
  if (state.model_checkpoint_path.empty()) {
    throw_data_loss(fmt::format("{}: the checkpoint state names no newest checkpoint (model_checkpoint_path)", path));
  }
  state.model_checkpoint_path = io::join_path(directory, state.model_checkpoint_path);
  for (auto& one : state.all_model_checkpoint_paths) one = io::join_path(directory, one);
  return state;
}

void write_checkpoint_state(const std::string& directory, CheckpointState state, std::string_view name,
                            io::FileSystem& files) {
  state.model_checkpoint_path = relative_to(directory, state.model_checkpoint_path);
  for (auto& one : state.all_model_checkpoint_paths) one = relative_to(directory, one);
  io::write_atomically(io::join_path(directory, std::string(name)), state.to_text(), files);
}

std::optional<std::string> latest_checkpoint(const std::string& directory, std::string_view name,
                                             io::FileSystem& files) {
  const auto state = read_checkpoint_state(directory, name, files);
  if (!state || !checkpoint_exists(state->model_checkpoint_path, files)) return std::nullopt;
  return state->model_checkpoint_path;
}

}  // namespace lockstep::formats

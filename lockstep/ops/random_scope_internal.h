// Which node of a loaded graph runs on this thread.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::ops {

// While one lives, stateful random operations of its thread that run inside of it have their own state, as each
// node of a TensorFlow graph has. Scopes nest: the state belongs to the names of all of them. Outside of scopes,
// operations with the same seeds continue each other, as in TensorFlow's eager execution.
class RandomScope {
 public:
  explicit RandomScope(std::string_view name);  // the name must outlive the scope
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  static bool active();
  // The names, the outermost first, separated by slashes.
  static std::string path();

 private:
  std::string_view name_;
  const RandomScope* outer_;
};

}  // namespace lockstep::ops

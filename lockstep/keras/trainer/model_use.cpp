#include "lockstep/keras/trainer/model_use_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::keras {

void ModelUse::enter(bool trains, const std::string& model) {
  std::unique_lock lock(mutex_);
  if (depth_ > 0 && user_ == std::this_thread::get_id()) {
    ++depth_;
    return;
  }
  ended_.wait(lock, [this] { return depth_ == 0 || trains_; });
  if (depth_ > 0) {
    throw_failed_precondition(fmt::format(
        "model '{}' is being trained by another thread: use it after the training, or a copy of it", model));
  }
  user_ = std::this_thread::get_id();
  depth_ = 1;
  trains_ = trains;
}

void ModelUse::leave() {
  const std::lock_guard lock(mutex_);
  if (--depth_ == 0) ended_.notify_all();
}

}  // namespace lockstep::keras

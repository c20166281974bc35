// Notifications that a layer, an optimizer or an object of a user has got new variables or parts. A checkpoint may
// contain values for variables that did not exist when it was restored: its restoration observes the objects that it
// has found.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::keras {

class BuildObserver {
 public:
  virtual ~BuildObserver() = default;
  virtual void on_built() = 0;
};

// The observers of one object, which it does not keep alive. Thread-safe.
class BuildObservers {
 public:
  // Does nothing for one that is in the list.
  void add(const std::shared_ptr<BuildObserver>& observer) {
    const std::lock_guard lock(mutex_);
    std::erase_if(list_, [](const auto& each) { return each.expired(); });
    for (const auto& each : list_) {
      if (each.lock() == observer) return;
    }
    list_.push_back(observer);
  }
  void notify() {
    std::vector<std::weak_ptr<BuildObserver>> list;
    {
      const std::lock_guard lock(mutex_);
      list = list_;
    }
    for (const auto& each : list) {
      if (const auto observer = each.lock()) observer->on_built();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<BuildObserver>> list_;
};

// Access to the member build_observers_ of Layer, Optimizer and Trackable, which is null until the object is observed.
struct BuildAccess {
  template <typename Object>
  static void observe(Object& object, const std::shared_ptr<BuildObserver>& observer) {
    if (!object.build_observers_) object.build_observers_ = std::make_shared<BuildObservers>();
    object.build_observers_->add(observer);
  }
  // To be called when the object has been built, or has got new parts.
  template <typename Object>
  static void notify(const Object& object) {
    if (const std::shared_ptr<BuildObservers> observers = object.build_observers_) observers->notify();
  }
};

}  // namespace lockstep::keras

// One thread at a time trains a model, evaluates it or predicts with it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::keras {

class ModelUse {
 public:
  // While one exists, this thread uses the model; it may do so again, in a callback. Waits while another thread
  // evaluates or predicts. Throws FailedPrecondition while another thread trains, which may take long.
  class Scope {
   public:
    Scope(ModelUse& use, bool trains, const std::string& model) : use_(use) { use_.enter(trains, model); }
    ~Scope() { use_.leave(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ModelUse& use_;
  };

 private:
  void enter(bool trains, const std::string& model);
  void leave();

  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread::id user_;  // while depth_ > 0
  int depth_ = 0;
  bool trains_ = false;
};

}  // namespace lockstep::keras

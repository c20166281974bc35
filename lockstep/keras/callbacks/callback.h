// Callbacks, which observe and control fit, evaluate and predict (keras.callbacks).
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/base/list.h"
#include "lockstep/keras/callbacks/logs.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::optimizers {
class OptimizerPtr;
}

namespace lockstep::keras {

class Model;
class ProgressBar;
class Trainer;

// The arguments of the fit() that begins.
struct CallbackParams {
  int verbose = 0;
  int epochs = 1;
  std::optional<std::int64_t> steps;  // absent while the length of the data is unknown
  // params()["epochs"]: the fields by name; -1 for absent steps. Throws NotFound for another name.
  std::int64_t operator[](std::string_view name) const;
};

// The state with which a callback continues in another process; null values: nothing.
struct CallbackState {
  Json values = nullptr;
  std::vector<std::pair<std::string, Tensor>> tensors = {};
};

// Base of all callbacks; every hook does nothing by default. Epochs and batches count from 0.
//
//   class StopAtLoss : public keras::Callback {
//    public:
//     void on_epoch_end(int, keras::Logs& logs) override {
//       if (logs.at("loss") < 0.1) request_stop();
//     }
//   };
//   model.fit(x, y, {.epochs = 20, .callbacks = {StopAtLoss()}});
class Callback {
 public:
  using KerasFamily = Callback;
  virtual ~Callback();
  void set_params(const CallbackParams& params) { params_ = params; }
  // Set by fit, evaluate and predict.
  void set_trainer(Trainer* trainer) { trainer_ = trainer; }

  virtual void on_train_begin(const Logs&) {}
  virtual void on_train_end(const Logs&) {}
  // Logs are const or not, and numbers of batches int or std::int64_t, as an override writes them.
  virtual void on_epoch_begin(int epoch, Logs& logs) { on_epoch_begin(epoch, std::as_const(logs)); }
  virtual void on_epoch_begin(int, const Logs&) {}
  // May add to the logs ("learning_rate"): later callbacks and the history see it.
  virtual void on_epoch_end(int epoch, Logs& logs) { on_epoch_end(epoch, std::as_const(logs)); }
  // The same for classes that only read the logs.
  virtual void on_epoch_end(int, const Logs&) {}
  virtual void on_train_batch_begin(std::int64_t batch, const Logs& logs) {
    on_train_batch_begin(static_cast<int>(batch), logs);
  }
  virtual void on_train_batch_end(std::int64_t batch, const Logs& logs) {
    on_train_batch_end(static_cast<int>(batch), logs);
  }
  virtual void on_train_batch_begin(int batch, const Logs& logs) { on_batch_begin(std::int64_t{batch}, logs); }
  virtual void on_train_batch_end(int batch, const Logs& logs) { on_batch_end(std::int64_t{batch}, logs); }
  // The older names of the two.
  virtual void on_batch_begin(std::int64_t batch, const Logs& logs) { on_batch_begin(static_cast<int>(batch), logs); }
  virtual void on_batch_begin(int, const Logs&) {}
  virtual void on_batch_end(std::int64_t batch, const Logs& logs) { on_batch_end(static_cast<int>(batch), logs); }
  virtual void on_batch_end(int, const Logs&) {}
  virtual void on_test_begin(const Logs&) {}
  virtual void on_test_end(const Logs&) {}
  virtual void on_test_batch_begin(std::int64_t batch, const Logs& logs) {
    on_test_batch_begin(static_cast<int>(batch), logs);
  }
  virtual void on_test_batch_begin(int, const Logs&) {}
  virtual void on_test_batch_end(std::int64_t batch, const Logs& logs) {
    on_test_batch_end(static_cast<int>(batch), logs);
  }
  virtual void on_test_batch_end(int, const Logs&) {}
  virtual void on_predict_begin(const Logs&) {}
  virtual void on_predict_end(const Logs&) {}
  virtual void on_predict_batch_begin(std::int64_t batch, const Logs& logs) {
    on_predict_batch_begin(static_cast<int>(batch), logs);
  }
  virtual void on_predict_batch_begin(int, const Logs&) {}
  virtual void on_predict_batch_end(std::int64_t batch, const Logs& logs) {
    on_predict_batch_end(static_cast<int>(batch), logs);
  }
  virtual void on_predict_batch_end(int, const Logs&) {}
  // In place of on_epoch_begin where a resumed fit continues within an epoch, of which `batches` are done.
  virtual void on_epoch_resume(int epoch, std::int64_t batches) {
    static_cast<void>(batches);
    Logs logs;
    on_epoch_begin(epoch, logs);
  }
  // After every callback has seen the end of a training batch, or of an epoch: here Trainer::training_state() is
  // complete.
  virtual void after_callbacks() {}

  // By default the name of the C++ class.
  virtual std::string class_name() const { return unqualified_name(typeid(*this)); }
  // The constructor's arguments, for classes registered with register_keras_serializable().
  virtual Json get_config() const { return Json::object(); }
  // For exact resuming. The n-th saved state of a class, by its registered name if it has one, is that of the n-th
  // callback of this class; restore_state comes after on_train_begin.
  virtual CallbackState save_state() const { return {}; }
  virtual void restore_state(const CallbackState&) {}

 protected:
  // The model of the running loop, as a plain Model: include lockstep/keras/models/model.h. Throw FailedPrecondition
  // where no loop runs.
  Model model() const;
  // The same as an object of a class derived from Model: model<GAN>().generator. Throws InvalidArgument where the
  // model is of another class.
  template <typename M>
  M& model() const {
    if (M* const found = dynamic_cast<M*>(own_model())) return *found;
    throw_other_model(typeid(M));
  }
  const optimizers::OptimizerPtr& optimizer() const;
  const CallbackParams& params() const { return params_; }
  // fit ends after the batch at hand, or after the epoch where no batch is (model().stop_training = true).
  void request_stop() const;
  Trainer& trainer() const;

  CallbackParams params_;
  Trainer* trainer_ = nullptr;

 private:
  Model* own_model() const;
  [[noreturn]] void throw_other_model(std::type_index wanted) const;
};

using CallbackPtr = Handle<Callback>;
// The config of a callback, and the callback of a config, of classes registered with register_keras_serializable().
// Throws InvalidArgument for a class that is not registered.
Json serialize_callback(const CallbackPtr& callback);
CallbackPtr deserialize_callback(const Json& config);

// A callback as fit takes it: an object of a class derived from Callback, or a shared pointer to one. An object that
// has a name is used itself, so that it can be read after fit, before whose end it must not be destroyed.
class CallbackArg {
 public:
  template <typename T>
  requires std::derived_from<std::remove_reference_t<T>, Callback> CallbackArg(T&& callback) {
    if constexpr (std::is_lvalue_reference_v<T>) {
      static_assert(!std::is_const_v<std::remove_reference_t<T>>,
                    "callbacks change in fit and cannot be const objects");
      ptr_ = std::shared_ptr<Callback>(std::shared_ptr<Callback>(), &callback);
    } else {
      ptr_ = std::make_shared<T>(std::move(callback));
    }
  }
  template <std::derived_from<Callback> T>
  CallbackArg(std::shared_ptr<T> callback) : ptr_(std::move(callback)) {}

  operator const CallbackPtr&() const { return ptr_; }

 private:
  CallbackPtr ptr_;
};
// The argument `callbacks`: callbacks in braces, or a vector of callbacks.
class CallbackArgs : public std::vector<CallbackArg> {
 public:
  using vector::vector;
  CallbackArgs(std::vector<CallbackArg> callbacks) : vector(std::move(callbacks)) {}
  template <std::convertible_to<CallbackArg> C>
  CallbackArgs(const std::vector<C>& callbacks) : vector(callbacks.begin(), callbacks.end()) {}
  // One, not in braces.
  template <typename C>
  requires(std::is_constructible_v<CallbackArg, C&&> && !std::is_same_v<std::remove_cvref_t<C>, CallbackArg>)
      CallbackArgs(C&& callback)
      : vector{CallbackArg(std::forward<C>(callback))} {}
};

// The result of fit(): Keras's History. `history` keeps the order in which names first came; history["loss"] gives the
// values of one name.
class History : public Callback {
 public:
  void on_train_begin(const Logs&) override;
  void on_epoch_end(int epoch, Logs& logs) override;
  std::string class_name() const override { return "History"; }
  CallbackState save_state() const override;
  void restore_state(const CallbackState& state) override;

  using Callback::params;

  List<int> epoch;
  class Values : public std::vector<std::pair<std::string, LogValues>> {
   public:
    Values() = default;
    Values(vector values) : vector(std::move(values)) {}
    using vector::operator[];
    // The values of one name, each as a number. Throws NotFound, naming those that exist.
    List<double> operator[](std::string_view name) const;
    using vector::at;
    List<double> at(std::string_view name) const { return (*this)[name]; }
    // Python's `name in history.history`, history.history.get(name, otherwise), .keys().
    bool contains(std::string_view name) const;
    List<double> get(std::string_view name, const List<double>& otherwise = {}) const {
      return contains(name) ? (*this)[name] : otherwise;
    }
    List<std::string> keys() const;
    const Values& items() const { return *this; }
  };
  Values history;

  List<double> operator[](std::string_view name) const { return history[name]; }
  List<double> at(std::string_view name) const { return history[name]; }
};

// Draws the bars; fit() adds one by itself unless verbose is 0.
class ProgbarLogger : public Callback {
 public:
  // Bars go to `out`, standard output by default.
  explicit ProgbarLogger(std::ostream* out = nullptr);
  ~ProgbarLogger() override;
  void on_train_begin(const Logs&) override;
  void on_epoch_begin(int epoch, const Logs&) override;
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_batch_end(std::int64_t batch, const Logs& logs) override;
  void on_test_begin(const Logs&) override;
  void on_test_end(const Logs& logs) override;
  void on_test_batch_end(std::int64_t batch, const Logs& logs) override;
  void on_predict_begin(const Logs&) override;
  void on_predict_end(const Logs&) override;
  void on_predict_batch_end(std::int64_t batch, const Logs& logs) override;

 private:
  void reset();
  void update(std::int64_t batch, const Logs& logs);
  void finalize(const Logs& logs);

  std::ostream* out_;
  std::unique_ptr<ProgressBar> bar_;
  std::int64_t seen_ = 0;
  bool in_fit_ = false;
};

// Hooks from functions.
struct LambdaCallbackOptions {
  std::function<void(int, const Logs&)> on_epoch_begin;
  std::function<void(int, Logs&)> on_epoch_end;  // may add to the logs
  std::function<void(const Logs&)> on_train_begin;
  std::function<void(const Logs&)> on_train_end;
  std::function<void(std::int64_t, const Logs&)> on_train_batch_begin;
  std::function<void(std::int64_t, const Logs&)> on_train_batch_end;
  std::function<void(const Logs&)> on_test_begin;
  std::function<void(const Logs&)> on_test_end;
  std::function<void(std::int64_t, const Logs&)> on_test_batch_begin;
  std::function<void(std::int64_t, const Logs&)> on_test_batch_end;
  std::function<void(const Logs&)> on_predict_begin;
  std::function<void(const Logs&)> on_predict_end;
  std::function<void(std::int64_t, const Logs&)> on_predict_batch_begin;
  std::function<void(std::int64_t, const Logs&)> on_predict_batch_end;
};
CallbackPtr LambdaCallback(LambdaCallbackOptions options);

// Calls the hooks of all callbacks in order.
class CallbackList {
 public:
  CallbackList(std::vector<CallbackPtr> callbacks, Trainer* trainer, CallbackParams params);
  template <typename... Args, typename... Given>
  void each(void (Callback::*hook)(Args...), Given&&... args) {
    for (const CallbackPtr& callback : callbacks_) ((*callback).*hook)(args...);
  }
  // The states of all callbacks, as {"class", "values"}; tensors' names begin with the index in this list.
  CallbackState save_state() const;
  // Gives the n-th callback of a class the state that the n-th of that class had; others are left as they are.
  void restore_state(const CallbackState& state);

 private:
  std::vector<CallbackPtr> callbacks_;
  CallbackParams params_;
};

}  // namespace lockstep::keras

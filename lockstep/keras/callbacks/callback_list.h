// keras.callbacks.CallbackList: callbacks in training loops of your own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::callbacks {

struct CallbackListOptions {
  FieldNamesOnly names_only = {};
  bool add_history = false;
  bool add_progbar = false;
  std::optional<keras::Model> model = std::nullopt;  // for callbacks that use it, such as EarlyStopping
  // The callbacks' params().
  int verbose = 1;
  int epochs = 1;
  std::optional<std::int64_t> steps = std::nullopt;
};

// Calls the hooks of all callbacks in order. request_stop() and the like set model.stop_training, which the loop must
// read itself.
//
//   callbacks::CallbackList list({callbacks::EarlyStopping({.monitor = "loss"})}, {.model = model, .epochs = 10});
//   list.on_train_begin();
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     list.on_epoch_begin(epoch);
//     …
//     list.on_epoch_end(epoch, {{"loss", loss}});
//   }
//   list.on_train_end();
class CallbackList {
 public:
  explicit CallbackList(const keras::CallbackArgs& callbacks, const CallbackListOptions& options = {});

  void on_train_begin(const keras::Logs& logs = {});
  void on_train_end(const keras::Logs& logs = {});
  void on_epoch_begin(int epoch, const keras::Logs& logs = {});
  void on_epoch_end(int epoch, const keras::Logs& logs = {});
  void on_train_batch_begin(std::int64_t batch, const keras::Logs& logs = {});
  void on_train_batch_end(std::int64_t batch, const keras::Logs& logs = {});
  // The older names of the two.
  void on_batch_begin(std::int64_t batch, const keras::Logs& logs = {}) { on_train_batch_begin(batch, logs); }
  void on_batch_end(std::int64_t batch, const keras::Logs& logs = {}) { on_train_batch_end(batch, logs); }
  void on_test_begin(const keras::Logs& logs = {});
  void on_test_end(const keras::Logs& logs = {});
  void on_test_batch_begin(std::int64_t batch, const keras::Logs& logs = {});
  void on_test_batch_end(std::int64_t batch, const keras::Logs& logs = {});
  void on_predict_begin(const keras::Logs& logs = {});
  void on_predict_end(const keras::Logs& logs = {});
  void on_predict_batch_begin(std::int64_t batch, const keras::Logs& logs = {});
  void on_predict_batch_end(std::int64_t batch, const keras::Logs& logs = {});

  // The first History of the list. Throws FailedPrecondition without add_history.
  const keras::History& history() const;

 private:
  std::optional<keras::Model> model_;
  std::shared_ptr<keras::History> history_;
  std::unique_ptr<keras::CallbackList> list_;
};

}  // namespace lockstep::callbacks

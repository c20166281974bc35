#include "lockstep/saving/callback_bases.h"

#include "lockstep/base/overrides_internal.h"

namespace lockstep::callbacks {

const BuiltInCallback& BuiltInCallback::plain() {
  static const auto* const callback = new BuiltInCallback(keras::CallbackPtr());
  return *callback;
}

keras::Callback& BuiltInCallback::held() {
  built_in_->set_params(params_);
  built_in_->set_trainer(trainer_);
  return *built_in_;
}

void BuiltInCallback::on_train_begin(const Logs& logs) { held().on_train_begin(logs); }
void BuiltInCallback::on_train_end(const Logs& logs) { held().on_train_end(logs); }
void BuiltInCallback::on_epoch_begin(int epoch, const Logs& logs) { held().on_epoch_begin(epoch, logs); }
void BuiltInCallback::on_train_batch_begin(std::int64_t batch, const Logs& logs) {
  held().on_train_batch_begin(batch, logs);
  on_batch_begin(batch, logs);
}
void BuiltInCallback::on_train_batch_end(std::int64_t batch, const Logs& logs) {
  held().on_train_batch_end(batch, logs);
  on_batch_end(batch, logs);
}
void BuiltInCallback::on_test_begin(const Logs& logs) { held().on_test_begin(logs); }
void BuiltInCallback::on_test_end(const Logs& logs) { held().on_test_end(logs); }
void BuiltInCallback::on_test_batch_begin(std::int64_t batch, const Logs& logs) {
  held().on_test_batch_begin(batch, logs);
}
void BuiltInCallback::on_test_batch_end(std::int64_t batch, const Logs& logs) { held().on_test_batch_end(batch, logs); }
void BuiltInCallback::on_predict_begin(const Logs& logs) { held().on_predict_begin(logs); }
void BuiltInCallback::on_predict_end(const Logs& logs) { held().on_predict_end(logs); }
void BuiltInCallback::on_predict_batch_begin(std::int64_t batch, const Logs& logs) {
  held().on_predict_batch_begin(batch, logs);
}
void BuiltInCallback::on_predict_batch_end(std::int64_t batch, const Logs& logs) {
  held().on_predict_batch_end(batch, logs);
}
void BuiltInCallback::on_epoch_resume(int epoch, std::int64_t batches) { held().on_epoch_resume(epoch, batches); }
void BuiltInCallback::after_callbacks() { held().after_callbacks(); }

void BuiltInCallback::on_epoch_end(int epoch, Logs& logs) {
  using Hook = void (keras::Callback::*)(int, const Logs&);
  const bool own = overrides<keras::Callback>(*this, plain(), Hook(&keras::Callback::on_epoch_end));
  if (own) return on_epoch_end(epoch, std::as_const(logs));
  held().on_epoch_end(epoch, logs);
}

void BuiltInCallback::on_epoch_end(int epoch, const Logs& logs) {
  Logs copy = logs;
  held().on_epoch_end(epoch, copy);
}

}  // namespace lockstep::callbacks

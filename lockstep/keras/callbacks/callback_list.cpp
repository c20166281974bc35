#include "lockstep/keras/callbacks/callback_list.h"

#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::callbacks {

using keras::Callback;
using keras::Logs;

CallbackList::CallbackList(const keras::CallbackArgs& callbacks, const CallbackListOptions& options)
    : model_(options.model) {
  std::vector<keras::CallbackPtr> all(callbacks.begin(), callbacks.end());
  bool has_bar = false;
  for (const keras::CallbackPtr& callback : all) {
    if (!history_) history_ = std::dynamic_pointer_cast<keras::History>(callback);
    has_bar = has_bar || std::dynamic_pointer_cast<keras::ProgbarLogger>(callback);
  }
  if (options.add_progbar && !has_bar) all.push_back(std::make_shared<keras::ProgbarLogger>());
  if (options.add_history && !history_) {
    history_ = std::make_shared<keras::History>();
    all.push_back(history_);
  }
  list_ = std::make_unique<keras::CallbackList>(
      std::move(all), model_ ? &model_->trainer() : nullptr,
      keras::CallbackParams{.verbose = options.verbose, .epochs = options.epochs, .steps = options.steps});
}

void CallbackList::on_train_begin(const Logs& logs) { list_->each(&Callback::on_train_begin, logs); }
void CallbackList::on_train_end(const Logs& logs) { list_->each(&Callback::on_train_end, logs); }
void CallbackList::on_epoch_begin(int epoch, const Logs& logs) {
  Logs own = logs;
  list_->each<int, Logs&>(&Callback::on_epoch_begin, epoch, own);
}
void CallbackList::on_epoch_end(int epoch, const Logs& logs) {
  Logs own = logs;
  list_->each<int, Logs&>(&Callback::on_epoch_end, epoch, own);
}

#define LOCKSTEP_BATCH_HOOK(hook)                                         \
  void CallbackList::hook(std::int64_t batch, const Logs& logs) {         \
    list_->each<std::int64_t, const Logs&>(&Callback::hook, batch, logs); \
  }
LOCKSTEP_BATCH_HOOK(on_train_batch_begin)
LOCKSTEP_BATCH_HOOK(on_train_batch_end)
LOCKSTEP_BATCH_HOOK(on_test_batch_begin)
LOCKSTEP_BATCH_HOOK(on_test_batch_end)
LOCKSTEP_BATCH_HOOK(on_predict_batch_begin)
LOCKSTEP_BATCH_HOOK(on_predict_batch_end)
#undef LOCKSTEP_BATCH_HOOK

void CallbackList::on_test_begin(const Logs& logs) { list_->each(&Callback::on_test_begin, logs); }
void CallbackList::on_test_end(const Logs& logs) { list_->each(&Callback::on_test_end, logs); }
void CallbackList::on_predict_begin(const Logs& logs) { list_->each(&Callback::on_predict_begin, logs); }
void CallbackList::on_predict_end(const Logs& logs) { list_->each(&Callback::on_predict_end, logs); }

const keras::History& CallbackList::history() const {
  if (!history_) throw_failed_precondition("CallbackList: history() requires add_history = true");
  return *history_;
}

}  // namespace lockstep::callbacks

#include "lockstep/keras/callbacks/callback.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/callbacks/progress_bar_internal.h"

namespace lockstep::keras {
namespace {

std::string saved_name(const Callback& callback) {
  const RegisteredClass* const row = find_registered(typeid(callback));
  return row ? row->registered_name() : callback.class_name();
}

LogItems items(const Logs& logs) { return LogItems(logs.begin(), logs.end()); }

class FunctionCallback : public Callback {
 public:
  explicit FunctionCallback(LambdaCallbackOptions options) : options_(std::move(options)) {}
  void on_train_begin(const Logs& logs) override {
    if (options_.on_train_begin) options_.on_train_begin(logs);
  }
  void on_train_end(const Logs& logs) override {
    if (options_.on_train_end) options_.on_train_end(logs);
  }
  void on_epoch_begin(int epoch, const Logs& logs) override {
    if (options_.on_epoch_begin) options_.on_epoch_begin(epoch, logs);
  }
  void on_epoch_end(int epoch, Logs& logs) override {
    if (options_.on_epoch_end) options_.on_epoch_end(epoch, logs);
  }
  void on_train_batch_begin(std::int64_t batch, const Logs& logs) override {
    if (options_.on_train_batch_begin) options_.on_train_batch_begin(batch, logs);
  }
  void on_train_batch_end(std::int64_t batch, const Logs& logs) override {
    if (options_.on_train_batch_end) options_.on_train_batch_end(batch, logs);
  }
  void on_test_begin(const Logs& logs) override {
    if (options_.on_test_begin) options_.on_test_begin(logs);
  }
  void on_test_end(const Logs& logs) override {
    if (options_.on_test_end) options_.on_test_end(logs);
  }
  void on_test_batch_begin(std::int64_t batch, const Logs& logs) override {
    if (options_.on_test_batch_begin) options_.on_test_batch_begin(batch, logs);
  }
  void on_test_batch_end(std::int64_t batch, const Logs& logs) override {
    if (options_.on_test_batch_end) options_.on_test_batch_end(batch, logs);
  }
  void on_predict_begin(const Logs& logs) override {
    if (options_.on_predict_begin) options_.on_predict_begin(logs);
  }
  void on_predict_end(const Logs& logs) override {
    if (options_.on_predict_end) options_.on_predict_end(logs);
  }
  void on_predict_batch_begin(std::int64_t batch, const Logs& logs) override {
    if (options_.on_predict_batch_begin) options_.on_predict_batch_begin(batch, logs);
  }
  void on_predict_batch_end(std::int64_t batch, const Logs& logs) override {
    if (options_.on_predict_batch_end) options_.on_predict_batch_end(batch, logs);
  }

 private:
  LambdaCallbackOptions options_;
};

}  // namespace

Callback::~Callback() = default;

Logs::Logs(std::initializer_list<value_type> items) {
  for (const auto& [name, value] : items) (*this)[name] = value;
}

Logs::const_iterator Logs::find(std::string_view name) const {
  return std::find_if(begin(), end(), [name](const value_type& item) { return item.first == name; });
}

LogValue& Logs::operator[](std::string_view name) {
  const auto known =
      std::find_if(items_.begin(), items_.end(), [&](const value_type& item) { return item.first == name; });
  return known != items_.end() ? known->second : items_.emplace_back(std::string(name), LogValue()).second;
}

std::int64_t CallbackParams::operator[](std::string_view name) const {
  if (name == "verbose") return verbose;
  if (name == "epochs") return epochs;
  if (name == "steps") return steps.value_or(-1);
  throw_not_found(fmt::format("the parameters of a callback have no '{}', only verbose, epochs and steps", name));
}
const LogValue& Logs::at(std::string_view name) const {
  const auto known = find(name);
  if (known != end()) return known->second;
  std::string names;
  for (const auto& [key, value] : items_) names += (names.empty() ? "" : ", ") + key;
  throw_not_found(fmt::format("logs have no '{}'; they have: {}", name, names));
}

void History::on_train_begin(const Logs&) {
  epoch.clear();
  history.clear();
}

void History::on_epoch_end(int epoch_index, Logs& logs) {
  epoch.push_back(epoch_index);
  for (const auto& [name, value] : logs) {
    auto known = std::find_if(history.begin(), history.end(), [&](const auto& item) { return item.first == name; });
    if (known == history.end()) known = history.insert(history.end(), {name, {}});
    known->second.push_back(value);
  }
}

CallbackState History::save_state() const { return {{{"epoch", epoch}, {"history", history}}, {}}; }

void History::restore_state(const CallbackState& state) {
  epoch = state.values.at("epoch").get<std::vector<int>>();
  history = state.values.at("history").get<std::vector<std::pair<std::string, LogValues>>>();
}

List<double> History::Values::operator[](std::string_view name) const {
  std::string names;
  for (const auto& [key, values] : *this) {
    if (key == name) return List<double>(values.begin(), values.end());
    names += (names.empty() ? "" : ", ") + key;
  }
  throw_not_found(fmt::format("history has no '{}'; it has: {}", name, names));
}

bool History::Values::contains(std::string_view name) const {
  return std::ranges::any_of(*this, [&](const auto& entry) { return entry.first == name; });
}
List<std::string> History::Values::keys() const {
  List<std::string> names;
  for (const auto& [name, values] : *this) names.push_back(name);
  return names;
}

ProgbarLogger::ProgbarLogger(std::ostream* out) : out_(out ? out : &std::cout) {}
ProgbarLogger::~ProgbarLogger() = default;

void ProgbarLogger::reset() {
  seen_ = 0;
  bar_ =
      std::make_unique<ProgressBar>(*out_, params_.steps, params_.verbose, out_ == &std::cout && stdout_is_terminal());
}

void ProgbarLogger::update(std::int64_t batch, const Logs& logs) {
  seen_ = batch + 1;
  bar_->update(seen_, items(logs), false);
}

void ProgbarLogger::finalize(const Logs& logs) {
  if (!params_.steps) bar_->set_target(seen_);
  bar_->update(params_.steps.value_or(seen_), items(logs), true);
}

void ProgbarLogger::on_train_begin(const Logs&) { in_fit_ = true; }
void ProgbarLogger::on_epoch_begin(int epoch, const Logs&) {
  reset();
  if (params_.verbose != 0 && params_.epochs > 1)
    *out_ << fmt::format("Epoch {}/{}\n", epoch + 1, params_.epochs) << std::flush;
}
void ProgbarLogger::on_epoch_end(int, Logs& logs) { finalize(logs); }
void ProgbarLogger::on_train_batch_end(std::int64_t batch, const Logs& logs) { update(batch, logs); }
void ProgbarLogger::on_test_begin(const Logs&) {
  if (!in_fit_) reset();
}
void ProgbarLogger::on_test_batch_end(std::int64_t batch, const Logs& logs) {
  if (!in_fit_) update(batch, logs);
}
void ProgbarLogger::on_test_end(const Logs& logs) {
  if (!in_fit_) finalize(logs);
}
void ProgbarLogger::on_predict_begin(const Logs&) { reset(); }
void ProgbarLogger::on_predict_batch_end(std::int64_t batch, const Logs&) { update(batch, {}); }
void ProgbarLogger::on_predict_end(const Logs&) { finalize({}); }

Json serialize_callback(const CallbackPtr& callback) {
  return serialize_object({}, callback->class_name(), callback->get_config(), false, typeid(*callback));
}

CallbackPtr deserialize_callback(const Json& config) {
  const std::optional<ObjectConfig> object = parse_object_config(config);
  if (!object) throw_invalid_argument("invalid callback: expected a config with class_name and config");
  if (CallbackPtr callback = make_registered<Callback>(*object, false)) return callback;
  throw_unknown_object("callback", object->registered_name.empty() ? object->class_name : object->registered_name,
                       registered_names(typeid(Callback)));
}

CallbackPtr LambdaCallback(LambdaCallbackOptions options) {
  return std::make_shared<FunctionCallback>(std::move(options));
}

CallbackList::CallbackList(std::vector<CallbackPtr> callbacks, Trainer* trainer, CallbackParams params)
    : callbacks_(std::move(callbacks)), params_(params) {
  for (std::size_t i = 0; i < callbacks_.size(); ++i) {
    if (!callbacks_[i]) throw_invalid_argument(fmt::format("callbacks: entry {} is an empty handle", i));
  }
  for (const CallbackPtr& callback : callbacks_) {
    callback->set_params(params_);
    callback->set_trainer(trainer);
  }
}

CallbackState CallbackList::save_state() const {
  CallbackState all{Json::array(), {}};
  for (std::size_t i = 0; i < callbacks_.size(); ++i) {
    CallbackState one = callbacks_[i]->save_state();
    all.values.push_back({{"class", saved_name(*callbacks_[i])}, {"values", std::move(one.values)}});
    for (auto& [name, tensor] : one.tensors) all.tensors.emplace_back(fmt::format("{}/{}", i, name), std::move(tensor));
  }
  return all;
}

void CallbackList::restore_state(const CallbackState& state) {
  std::map<std::string, std::vector<std::size_t>> saved;  // places of each class, the next first
  for (std::size_t i = state.values.size(); i-- > 0;)
    saved[state.values[i].at("class").get<std::string>()].push_back(i);
  for (const CallbackPtr& callback : callbacks_) {
    auto& places = saved[saved_name(*callback)];
    if (places.empty()) continue;
    const std::size_t place = places.back();
    places.pop_back();
    CallbackState one{state.values[place].at("values"), {}};
    if (one.values.is_null()) continue;
    const std::string start = fmt::format("{}/", place);
    for (const auto& [name, tensor] : state.tensors) {
      if (name.starts_with(start)) one.tensors.emplace_back(name.substr(start.size()), tensor);
    }
    callback->restore_state(one);
  }
}

}  // namespace lockstep::keras

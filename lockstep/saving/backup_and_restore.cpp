#include "lockstep/saving/backup_and_restore.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/collectives/together.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/memory_file_system_internal.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::callbacks {
namespace {

using keras::Callback;
using keras::Logs;

constexpr const char* kWeights = "latest.weights.h5";
constexpr const char* kMetadata = "training_metadata.json";
constexpr const char* kState = "training_state";  // a tensor bundle: what Keras does not keep
constexpr const char* kPrevious = ".bkp";

class Backup final : public Callback, public keras::ReadsTogether {
 public:
  explicit Backup(BackupAndRestoreOptions options)
      : folder_(options.backup_dir), options_(std::move(options)), files_(io::posix_file_system()) {
    if (folder_.empty()) throw_invalid_argument("BackupAndRestore: backup_dir is empty");
  }

  void on_train_begin(const Logs&) override {
    due_ = false;
    keras::ModelImpl& model = trainer_->model();
    if (!model.built()) {
      throw_failed_precondition(
          fmt::format("To use the BackupAndRestore callback, the model must be built before fit. Model '{}' "
                      "is unbuilt; call it on a batch of data first.",
                      model.name()));
    }
    if (on_chief([&] { return std::string(any_weights() ? "yes" : ""); }) == "yes") trainer_->build_optimizer();
    // Which backup was taken, and its epoch.
    const std::set<const distribute::VariableImpl*> ranges = make_slots_whole();
    const std::string found = on_chief([&] { return load(); });
    if (found.empty()) return;
    share_variables(model, ranges);
    const Json taken = Json::parse(found);
    if (taken["epoch"].is_null()) return;
    auto whole = load_state(in_folder(kState + taken["suffix"].get<std::string>()));
    if (whole) forget_history(*whole);
    trainer_->resume(whole ? std::move(*whole) : keras::TrainingState{{{"epoch", taken["epoch"]}}, {}});
  }
  void on_train_batch_end(std::int64_t batch, const Logs&) override { due_ = options_.save_freq.due(batch); }
  void on_epoch_end(int, Logs&) override { due_ = !options_.save_freq.batches; }
  void after_callbacks() override {
    if (std::exchange(due_, false) || trainer_->preempted()) save();
  }
  void on_train_end(const Logs&) override {
    on_chief([&] {
      if (options_.delete_checkpoint) {
        io::remove_directory_at_once(folder_, files_);
      } else {
        remove_states();
      }
      return std::string();
    });
  }
  std::string class_name() const override { return "BackupAndRestore"; }
  keras::CallbackState save_state() const override { return {{{"save_freq", options_.save_freq.save_state()}}, {}}; }
  void restore_state(const keras::CallbackState& state) override {
    options_.save_freq.restore_state(state.values.at("save_freq"));
  }

 private:
  // The history of a resumed fit begins with it, as in Keras.
  static void forget_history(keras::TrainingState& state) {
    if (!state.values.contains("callbacks")) return;
    for (std::size_t i = 0; i < state.values["callbacks"].size(); ++i) {
      Json& callback = state.values["callbacks"][i];
      if (callback.value("class", "") == "History") callback["values"] = nullptr;
    }
  }
  // A fit that follows one that has ended begins as in Keras: weights and epoch are those of the backup, callbacks
  // start over, and it trains on where the first one stopped early.
  void remove_states() const {
    for (const std::string suffix : {"", kPrevious}) {
      const std::string state = in_folder(kState + suffix);
      for (const std::string& path : {formats::bundle_index_path(state), formats::bundle_data_path(state, 0, 1)})
        io::remove_all(files_, path);
    }
  }
  std::string in_folder(const std::string& name) const { return io::join_path(folder_, name); }

  collectives::CommunicatorPtr workers() const {
    return trainer_->strategy() ? trainer_->strategy()->workers() : nullptr;
  }

  std::string backup_name() const { return fmt::format("the backup in {}", folder_); }

  // The chief runs it, and all workers get its result.
  std::string on_chief(const std::function<std::string()>& work) const {
    const auto group = workers();
    if (!group) return work();
    return collectives::run_together(*group, backup_name(),
                                     [&] { return group->rank() == 0 ? work() : std::string(); })[0];
  }

  bool any_weights() const {
    return io::is_file(files_, in_folder(kWeights)) ||
           io::is_file(files_, in_folder(std::string(kWeights) + kPrevious));
  }

  // The newest backup that is whole: JSON of its suffix and its epoch; empty when there is none.
  std::string load() {
    try {
      return load("");
    } catch (const Error& error) {
      const bool older = io::is_file(files_, in_folder(std::string(kWeights) + kPrevious));
      if (error.code() != Code::kDataLoss || !older) throw;
      log_warning("the backup in {} cannot be used ({}); the one before it is", folder_, error.message());
      return load(kPrevious);
    }
  }

  std::string load(const std::string& suffix) {
    const std::string weights = in_folder(kWeights + suffix);
    const auto epoch = read_epoch(in_folder(kMetadata + suffix));
    if (!epoch && !io::is_file(files_, weights)) return {};
    const std::string state = in_folder(kState + suffix);
    if (io::is_file(files_, formats::bundle_index_path(state)))
      keras::load_training_state(formats::BundleReader(state));  // whole?
    if (io::is_file(files_, weights)) load_weights(trainer_->model(), weights, suffix);
    return dump_json({{"suffix", suffix}, {"epoch", epoch ? Json(*epoch) : Json(nullptr)}});
  }

  // The chief alone reads values, so it must have slots as a whole. Returns those of which workers had ranges.
  std::set<const distribute::VariableImpl*> make_slots_whole() const {
    std::set<const distribute::VariableImpl*> ranges;
    for (const auto& slot : trainer_->optimizer()->variables()) {
      if (!optimizers::slot_range(*slot)) continue;
      optimizers::keep_whole(*slot);
      ranges.insert(slot.get());
    }
    return ranges;
  }

  // Sends the chief's loaded values to the others.
  void share_variables(keras::ModelImpl& model, const std::set<const distribute::VariableImpl*>& ranges) const {
    const auto group = workers();
    if (!group) return;
    auto variables = model.weights();
    const auto slots = trainer_->optimizer()->variables();
    variables.insert(variables.end(), slots.begin(), slots.end());
    for (const keras::Layer* layer : model.flatten_layers()) {
      for (const auto& [name, optimizer] : layer->own_optimizers()) {
        const auto tracked = optimizer->variables();
        variables.insert(variables.end(), tracked.begin(), tracked.end());
      }
    }
    for (const auto& variable : variables) {
      // A separate copy: the loaded value may be mapped, and copies may share memory.
      Tensor value = Tensor::zeros(variable->shape(), variable->dtype());
      if (group->rank() == 0) {
        const formats::TensorData loaded = variable->numpy().to_data();
        value = Tensor::from_data(formats::TensorData::copy_of(loaded.dtype, loaded.shape, loaded.bytes));
      }
      group->broadcast(value, 0);
      variable->shared_value() = std::move(value);
      if (ranges.contains(variable.get())) optimizers::keep_range(*variable, group);
    }
  }

  // The chief's file, which each worker reads.
  std::optional<keras::TrainingState> load_state(const std::string& prefix) const {
    const auto group = workers();
    if (!group) {
      if (!io::is_file(files_, formats::bundle_index_path(prefix))) return std::nullopt;
      return keras::load_training_state(formats::BundleReader(prefix));
    }
    io::MemoryFileSystem copies;
    for (const std::string& path : {formats::bundle_index_path(prefix), formats::bundle_data_path(prefix, 0, 1)}) {
      const bool here = group->rank() == 0 && io::is_file(files_, path);
      std::string bytes =
          group->broadcast(here ? std::string(io::as_text(files_.map(path)->bytes())) : std::string(), 0);
      if (!bytes.empty()) copies.put(path, std::move(bytes));
    }
    if (!io::is_file(copies, formats::bundle_index_path(prefix))) return std::nullopt;
    return keras::load_training_state(formats::BundleReader(prefix, copies), group->rank(), group->size());
  }

  // The format goes by the name, which a copy's suffix would hide.
  void load_weights(keras::ModelImpl& model, const std::string& path, const std::string& suffix) {
    if (suffix.empty()) {
      saving::load_weights(model, path);
      return;
    }
    const std::string plain = io::temporary_sibling(in_folder(kWeights)) + ".weights.h5";
    copy(path, plain);
    try {
      saving::load_weights(model, plain);
    } catch (...) {
      io::remove_all(files_, plain);
      throw;
    }
    io::remove_all(files_, plain);
  }

  std::optional<int> read_epoch(const std::string& path) {
    if (!io::is_file(files_, path)) return std::nullopt;
    const Json json = parse_json(io::read_text(files_, path), path);
    if (!json.is_object() || !json.contains("epoch") || !json["epoch"].is_number_integer() || json["epoch"] < 0) {
      throw_data_loss(
          fmt::format("{}: no backup's metadata: an object with a whole number \"epoch\" is expected", path));
    }
    return json["epoch"].get<int>();
  }

  void copy(const std::string& from, const std::string& to) {
    if (files_.link(from, to)) return;
    const auto bytes = files_.map(from);
    io::AtomicFile file(to, files_, bytes->bytes().size());
    file.append(bytes->bytes());
    file.commit();
  }

  void save() {
    const keras::TrainingState state = trainer_->training_state();
    std::vector<std::string> values{dump_json(state.values)};
    if (const auto group = workers()) values = group->all_gather(values[0]);
    optimizers::run_on_chief(workers().get(), backup_name(), trainer_->optimizer()->variables(),
                             [&] { write(state, values); });
  }

  void write(const keras::TrainingState& state, const std::vector<std::string>& values) {
    const auto files_of = [](const std::string& suffix) {
      const std::string state = kState + suffix;
      return std::vector<std::string>{kWeights + suffix, kMetadata + suffix, formats::bundle_index_path(state),
                                      formats::bundle_data_path(state, 0, 1)};
    };
    const auto names = files_of(""), previous = files_of(kPrevious);
    std::vector<std::string> owned = names;
    if (options_.double_checkpoint) owned.insert(owned.end(), previous.begin(), previous.end());
    io::make_directories(files_, io::parent_directory(folder_));
    io::AtomicDirectory folder(folder_, owned, files_);
    const auto staged = [&](const std::string& name) { return io::join_path(folder.staging_path(), name); };
    for (std::size_t i = 0; options_.double_checkpoint && i < names.size(); ++i) {
      if (io::is_file(files_, in_folder(names[i]))) copy(in_folder(names[i]), staged(previous[i]));
    }
    saving::save_weights(trainer_->model(), staged(kWeights));
    io::write_atomically(staged(kMetadata),
                         fmt::format("{{\"epoch\": {}, \"batch\": {}}}", state.epoch(), state.batches()), files_);
    formats::BundleWriter rest(staged(kState), files_);
    for (const auto& [name, tensor] : keras::store_training_state(values, state)) rest.add(name, tensor);
    rest.finish();
    folder.commit();
  }

  std::string folder_;
  BackupAndRestoreOptions options_;
  io::FileSystem& files_;
  bool due_ = false;  // a backup, once all callbacks have seen the batch or the epoch
};

}  // namespace

keras::CallbackPtr BackupAndRestore(BackupAndRestoreOptions options) {
  return std::make_shared<Backup>(std::move(options));
}

}  // namespace lockstep::callbacks

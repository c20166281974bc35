#include "lockstep/keras/callbacks/backup_and_restore.h"

#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
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

class Backup final : public Callback {
 public:
  Backup(std::string folder, BackupAndRestoreOptions options)
      : folder_(std::move(folder)), options_(std::move(options)), files_(io::posix_file_system()) {
    if (folder_.empty()) throw_invalid_argument("BackupAndRestore: backup_dir is empty");
  }

  void on_train_begin(const Logs&) override {
    due_ = false;
    try {
      load("");
    } catch (const Error& error) {
      const bool older = io::is_file(files_, in_folder(std::string(kWeights) + kPrevious));
      if (error.code() != Code::kDataLoss || !older) throw;
      spdlog::warn("the backup in {} cannot be used ({}); the one before it is", folder_, error.message());
      load(kPrevious);
    }
  }
  void on_train_batch_end(std::int64_t batch, const Logs&) override { due_ = options_.save_freq.due(batch); }
  void on_epoch_end(int, Logs&) override { due_ = !options_.save_freq.batches; }
  void on_settled() override {
    if (std::exchange(due_, false) || trainer_->preempted()) save();
  }
  void on_train_end(const Logs&) override {
    if (options_.delete_checkpoint) io::remove_all(files_, folder_);
  }
  std::string class_name() const override { return "BackupAndRestore"; }
  keras::CallbackState save_state() const override { return {{{"save_freq", options_.save_freq.save_state()}}, {}}; }
  void restore_state(const keras::CallbackState& state) override {
    options_.save_freq.restore_state(state.values.at("save_freq"));
  }

 private:
  std::string in_folder(const std::string& name) const { return io::join_path(folder_, name); }

  void load(const std::string& suffix) {
    keras::ModelImpl& model = trainer_->model();
    if (!model.built()) {
      throw_failed_precondition(fmt::format("To use the BackupAndRestore callback, the model must be built before fit. Model '{}' "
                                            "is unbuilt; call it on a batch of data first.", model.name()));
    }
    const std::string weights = in_folder(kWeights + suffix);
    const std::string metadata = in_folder(kMetadata + suffix);
    const auto epoch = read_epoch(metadata);
    if (io::is_file(files_, weights)) {
      trainer_->build_optimizer();
      load_weights(model, weights, suffix);
    }
    if (!epoch) return;
    const std::string state = in_folder(kState + suffix);
    std::optional<keras::TrainingState> whole;
    if (io::is_file(files_, formats::bundle_index_path(state))) whole = keras::load_training_state(formats::BundleReader(state));
    trainer_->resume(whole ? std::move(*whole) : keras::TrainingState{{{"epoch", *epoch}}, {}});
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
    const Json json = Json::parse(io::read_text(files_, path), nullptr, false);
    if (!json.is_object() || !json.contains("epoch") || !json["epoch"].is_number_integer() || json["epoch"] < 0) {
      throw_data_loss(fmt::format("{}: no backup's metadata: an object with a whole number \"epoch\" is expected", path));
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
    const keras::TrainingState state = trainer_->training_state();
    saving::save_weights(trainer_->model(), staged(kWeights));
    io::write_atomically(staged(kMetadata), fmt::format("{{\"epoch\": {}, \"batch\": {}}}", state.epoch(), state.batches()), files_);
    formats::BundleWriter rest(staged(kState), files_);
    for (const auto& [name, tensor] : keras::store_training_state({dump_json(state.values)}, state)) rest.add(name, tensor);
    rest.finish();
    folder.commit();
  }

  std::string folder_;
  BackupAndRestoreOptions options_;
  io::FileSystem& files_;
  bool due_ = false;  // a backup, once all callbacks have seen the batch or the epoch
};

}  // namespace

keras::CallbackPtr BackupAndRestore(const std::string& backup_dir, BackupAndRestoreOptions options) {
  return std::make_shared<Backup>(backup_dir, std::move(options));
}

}  // namespace lockstep::callbacks

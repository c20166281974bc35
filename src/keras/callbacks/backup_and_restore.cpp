#include "lockstep/keras/callbacks/backup_and_restore.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
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
constexpr const char* kPrevious = ".bkp";

class Backup final : public Callback {
 public:
  Backup(std::string folder, BackupAndRestoreOptions options)
      : folder_(std::move(folder)), options_(std::move(options)), files_(io::posix_file_system()) {
    if (folder_.empty()) throw_invalid_argument("BackupAndRestore: backup_dir is empty");
  }

  void on_train_begin(const Logs&) override {
    try {
      load("");
    } catch (const Error& error) {
      const bool older = io::is_file(files_, in_folder(std::string(kWeights) + kPrevious));
      if (error.code() != Code::kDataLoss || !older) throw;
      spdlog::warn("the backup in {} cannot be used ({}); the one before it is", folder_, error.message());
      load(kPrevious);
    }
  }
  void on_epoch_begin(int epoch, const Logs&) override { epoch_ = epoch; }
  void on_train_batch_end(std::int64_t batch, const Logs&) override {
    batch_ = batch;
    if (options_.save_freq.due(batch)) save();
  }
  void on_epoch_end(int epoch, Logs&) override {
    epoch_ = epoch + 1;
    batch_ = 0;
    if (!options_.save_freq.batches) save();
  }
  void on_train_end(const Logs&) override {
    if (options_.delete_checkpoint) io::remove_all(files_, folder_);
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
    if (epoch) trainer_->restored_epoch = *epoch;
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
    std::vector<std::string> owned{kWeights, kMetadata};
    if (options_.double_checkpoint) {
      for (const char* name : {kWeights, kMetadata}) owned.push_back(std::string(name) + kPrevious);
    }
    io::make_directories(files_, io::parent_directory(folder_));
    io::AtomicDirectory folder(folder_, owned, files_);
    const auto staged = [&](const std::string& name) { return io::join_path(folder.staging_path(), name); };
    for (const char* name : {kWeights, kMetadata}) {
      if (options_.double_checkpoint && io::is_file(files_, in_folder(name))) copy(in_folder(name), staged(std::string(name) + kPrevious));
    }
    saving::save_weights(trainer_->model(), staged(kWeights));
    io::write_atomically(staged(kMetadata), fmt::format("{{\"epoch\": {}, \"batch\": {}}}", epoch_, batch_), files_);
    folder.commit();
  }

  std::string folder_;
  BackupAndRestoreOptions options_;
  io::FileSystem& files_;
  int epoch_ = 0;
  std::int64_t batch_ = 0;
};

}  // namespace

keras::CallbackPtr BackupAndRestore(const std::string& backup_dir, BackupAndRestoreOptions options) {
  return std::make_shared<Backup>(backup_dir, std::move(options));
}

}  // namespace lockstep::callbacks

#include "lockstep/train/checkpoint_manager.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/train/checkpoint_files_internal.h"

namespace lockstep::train {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// N of "NAME-N"; empty for other names.
std::optional<std::int64_t> number_of(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + "-")) return std::nullopt;
  std::int64_t number = 0;
  const char* begin = file.data() + name.size() + 1;
  const char* end = file.data() + file.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && stop == end && begin != end ? std::optional(number) : std::nullopt;
}

bool is_damage(const Error& error) {
  return error.code() == Code::kDataLoss || error.code() == Code::kNotFound || error.code() == Code::kOutOfRange;
}

}  // namespace

CheckpointManager::CheckpointManager(Checkpoint checkpoint, const CheckpointManagerKeywords& o)
    : CheckpointManager(std::move(checkpoint), o.directory,
                        {o.max_to_keep, o.keep_checkpoint_every_n_hours, o.checkpoint_name, o.step_counter,
                         o.checkpoint_interval, o.init_fn}) {}

CheckpointManager::CheckpointManager(Checkpoint checkpoint, const TextArg& directory, CheckpointManagerOptions options)
    : checkpoint_(std::move(checkpoint)), directory_(directory), options_(std::move(options)) {
  if (options_.max_to_keep && *options_.max_to_keep <= 0) {
    throw_invalid_argument(
        fmt::format("CheckpointManager: invalid max_to_keep: found {}, expected a positive number, or none",
                    *options_.max_to_keep));
  }
  if (options_.checkpoint_interval && !options_.step_counter) {
    throw_invalid_argument("CheckpointManager: checkpoint_interval requires a step_counter");
  }
  if (directory_.empty())
    throw_invalid_argument("CheckpointManager: invalid directory: found an empty string, expected a path");
  if (options_.checkpoint_name.empty())
    throw_invalid_argument("CheckpointManager: invalid checkpoint_name: found an empty string, expected a file name");
  if (is_chief()) recover();
  if (options_.workers) {
    share_state();
    require_seen_by_chief();
  }
}

CheckpointManager::~CheckpointManager() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_warning("{}: an asynchronous save failed: {}", directory_, error.what());
  }
}

// The chief's knowledge, broadcast to all.
void CheckpointManager::share_state() {
  Json state{{"latest", latest_ ? Json(*latest_) : Json(nullptr)},
             {"last_preserved", last_preserved_},
             {"managed", Json::array()}};
  for (const Managed& each : managed_) state["managed"].push_back({each.path, each.time});
  state = parse_json(options_.workers->broadcast(dump_json(state), 0), "the chief's list of checkpoints");
  if (is_chief()) return;
  latest_.reset();
  if (!state["latest"].is_null()) latest_ = state["latest"].get<std::string>();
  last_preserved_ = state["last_preserved"];
  managed_.clear();
  for (const Json& each : state["managed"]) managed_.push_back({each[0], each[1]});
}

// Where folders are not shared the chief's are all that counts; what another worker has is not passed over in silence.
void CheckpointManager::require_seen_by_chief() const {
  if (latest_) return;
  const auto found = candidates();
  const auto all = options_.workers->all_gather(found.empty() ? "" : found.front());
  for (int rank = 1; rank < options_.workers->size(); ++rank) {
    const std::string& theirs = all[static_cast<std::size_t>(rank)];
    if (theirs.empty() || !all[0].empty()) continue;
    throw_failed_precondition(fmt::format(
        "{} has the checkpoint {}, but {}, the chief, sees none in that folder: start the worker that has the "
        "checkpoints as the chief, share the folder, or choose an empty one",
        options_.workers->member_name(rank), theirs, options_.workers->member_name(0)));
  }
}

// Continues with the checkpoints of an earlier manager, which its state file lists.
void CheckpointManager::recover() {
  const double present = now();
  std::optional<formats::CheckpointState> state;
  try {
    state = formats::read_checkpoint_state(directory_);
  } catch (const Error& error) {
    if (!is_damage(error)) throw;
    log_warning("{}; checkpoints are searched by name instead", error.message());
    const auto found = candidates();
    if (!found.empty()) latest_ = found.front();
  }
  if (!state) {
    last_preserved_ = present - 1;
    return;
  }
  latest_ = state->model_checkpoint_path;
  last_preserved_ = state->last_preserved_timestamp;
  if (last_preserved_ > present) {
    log_warning("{}: last_preserved_timestamp is in the future; the current time is used instead", directory_);
    last_preserved_ = present;
  }
  const auto& paths = state->all_model_checkpoint_paths;
  const auto& times = state->all_model_checkpoint_timestamps;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const double time = times.size() == paths.size() ? std::min(times[i], present) : last_preserved_;
    if (time > last_preserved_) managed_.push_back({paths[i], time});
  }
}

std::int64_t CheckpointManager::step() const { return options_.step_counter->numpy().item<std::int64_t>(); }

bool CheckpointManager::too_early(bool check_interval) {
  if (!options_.checkpoint_interval) return false;
  const std::int64_t current = step();
  if (last_step_) {
    if (current == *last_step_) return true;
    if (check_interval && current < *last_step_ + *options_.checkpoint_interval) return true;
  }
  last_step_ = current;
  return false;
}

CheckpointPath CheckpointManager::save(std::optional<std::int64_t> checkpoint_number, bool check_interval,
                                       const CheckpointOptions& options) {
  const auto last_step = last_step_;
  if (too_early(check_interval)) return std::nullopt;
  const auto counter = checkpoint_.save_counter();
  const std::int64_t before = counter->numpy().item<std::int64_t>();
  counter->assign(Tensor::scalar<std::int64_t>(before + 1));
  const std::string path =
      io::join_path(directory_, fmt::format("{}-{}", options_.checkpoint_name, checkpoint_number.value_or(before + 1)));
  CheckpointOptions all = options;
  if (!all.workers) all.workers = options_.workers;
  try {
    if (!std::exchange(cleaned_, true)) remove_leftovers();
    // Alone the thread that writes keeps the record; of several workers all do, the chief on disk.
    checkpoint_.write_then(path, all, [this, path] { record(path); });
  } catch (...) {
    counter->assign(Tensor::scalar<std::int64_t>(before));
    last_step_ = last_step;
    throw;
  }
  if (!is_chief()) record(path);
  return path;
}

// The new checkpoint is named before old ones go, and again without them. One that cannot be named is taken back.
void CheckpointManager::record(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto managed = managed_;
  const auto latest = latest_;
  std::erase_if(managed_, [&](const Managed& each) { return each.path == path; });
  managed_.push_back({path, now()});
  latest_ = path;
  try {
    write_state();
  } catch (...) {
    const auto state = formats::read_checkpoint_state(directory_);
    if (!state || state->model_checkpoint_path != path) {
      managed_ = managed;
      latest_ = latest;
      delete_checkpoint(path);
    }
    throw;
  }
  sweep();
  write_state();
}

void CheckpointManager::remove_leftovers() {
  if (too_many()) {
    sweep();
    write_state();
  }
  if (!is_chief()) return;
  auto& files = io::posix_file_system();
  if (!io::is_directory(files, directory_)) return;
  const auto names = files.list(directory_);
  const std::set<std::string> all(names.begin(), names.end());
  // NAME-N of "NAME-N.index" and of "NAME-N.data-…"
  const auto is_ours = [&](const std::string& file) {
    return number_of(file.substr(0, file.rfind('.')), options_.checkpoint_name).has_value();
  };
  for (const std::string& name : names) {
    const std::string target = io::temporary_target(name);
    const bool temporary = (is_ours(target) || target == "checkpoint" || target == "checkpoint.shared") &&
                           (options_.workers || io::is_abandoned_temporary(name));
    const std::string prefix = name.substr(0, name.rfind('.'));
    const bool orphan = is_ours(name) && is_shard(name, prefix) && !all.contains(prefix + ".index");
    if (!temporary && !orphan) continue;
    try {
      files.remove_file(io::join_path(directory_, name));
    } catch (const Error& error) {
      log_warning("leftovers of a killed save could not be removed: {}", error.message());
    }
  }
}

bool CheckpointManager::too_many() const {
  return options_.max_to_keep && managed_.size() > static_cast<std::size_t>(*options_.max_to_keep);
}

void CheckpointManager::sweep() {
  while (too_many()) {
    const Managed oldest = managed_.front();
    managed_.erase(managed_.begin());
    if (options_.keep_checkpoint_every_n_hours &&
        oldest.time - *options_.keep_checkpoint_every_n_hours * 3600 >= last_preserved_) {
      last_preserved_ = oldest.time;
      continue;
    }
    if (!is_chief() || delete_checkpoint(oldest.path)) continue;
    managed_.insert(managed_.begin(), oldest);  // the next save tries again
    return;
  }
}

void CheckpointManager::write_state() const {
  if (!is_chief()) return;
  formats::CheckpointState state;
  state.model_checkpoint_path = *latest_;
  for (const Managed& each : managed_) {
    state.all_model_checkpoint_paths.push_back(each.path);
    state.all_model_checkpoint_timestamps.push_back(each.time);
  }
  state.last_preserved_timestamp = last_preserved_;
  formats::write_checkpoint_state(directory_, std::move(state));
}

CheckpointPath CheckpointManager::latest_checkpoint() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

List<std::string> CheckpointManager::checkpoints() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const Managed& each : managed_) paths.push_back(each.path);
  return paths;
}

// Every checkpoint there is: the newest by the state file, the managed ones, then the others in the
// folder under our name; each once, newest first.
std::vector<std::string> CheckpointManager::candidates() const {
  std::vector<std::string> found;
  const auto add = [&](const std::string& path) {
    if (std::find(found.begin(), found.end(), path) == found.end()) found.push_back(path);
  };
  if (latest_) add(*latest_);
  for (auto each = managed_.rbegin(); each != managed_.rend(); ++each) add(each->path);
  auto& files = io::posix_file_system();
  if (!io::is_directory(files, directory_)) return found;
  std::vector<std::pair<std::int64_t, std::string>> numbered;
  for (const std::string& file : files.list(directory_)) {
    if (!file.ends_with(".index")) continue;
    const std::string name = file.substr(0, file.size() - 6);
    if (const auto number = number_of(name, options_.checkpoint_name))
      numbered.emplace_back(*number, io::join_path(directory_, name));
  }
  std::sort(numbered.rbegin(), numbered.rend());
  for (const auto& [number, path] : numbered) add(path);
  return found;
}

CheckpointPath CheckpointManager::restore_or_initialize() {
  wait();
  std::string list;
  if (latest_ && is_chief()) {
    for (const std::string& path : candidates()) list += path + '\n';
  }
  if (options_.workers) list = options_.workers->broadcast(list, 0);
  std::vector<std::string> paths;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = list.find('\n', at);
    paths.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  if (!paths.empty()) return restore_first(paths);
  if (options_.init_fn) options_.init_fn();
  return std::nullopt;
}

// The first that is whole; with several workers on all of them.
CheckpointPath CheckpointManager::restore_first(const std::vector<std::string>& paths) {
  std::string first_error;
  for (const std::string& path : paths) {
    try {
      status_ = checkpoint_.restore(path, {.workers = options_.workers});
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      if (is_chief()) log_warning("checkpoint {} cannot be used: {}", path, error.message());
      if (first_error.empty()) first_error = error.message();
      continue;
    }
    if (options_.checkpoint_interval) last_step_ = step();
    return path;
  }
  throw_data_loss(fmt::format("{}: no checkpoint in the folder can be read; the newest: {}", directory_, first_error));
}

}  // namespace lockstep::train

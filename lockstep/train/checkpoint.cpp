#include "lockstep/train/checkpoint.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <ostream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/collectives/together.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/memory_file_system_internal.h"
#include "lockstep/train/async_saver_internal.h"
#include "lockstep/train/live_graph_internal.h"
#include "lockstep/train/restoration_internal.h"
#include "lockstep/train/shared_save_internal.h"

namespace lockstep::train {
namespace {

// The checkpoint object itself, or with a given root that object with more edges.
class RootNode final : public TrackedNode {
 public:
  RootNode(Children objects, NodePtr root) : objects_(std::move(objects)), root_(std::move(root)) {
    std::sort(objects_.begin(), objects_.end(), [](const Child& a, const Child& b) { return a.first < b.first; });
    if (!root_) return;
    const Children own = root_->edges();
    std::erase_if(objects_, [&](const Child& object) {
      const auto same =
          std::find_if(own.begin(), own.end(), [&](const Child& each) { return each.first == object.first; });
      if (same == own.end()) return false;
      if (same->second.node().identity() == object.second.node().identity()) return true;
      throw_invalid_argument(fmt::format(
          "Checkpoint: invalid object '{}': the root has a part of that name; choose another name", object.first));
    });
  }
  void track(const std::string& name, const Tracked& object) {
    std::erase_if(objects_, [&](const Child& each) { return each.first == name; });
    RootNode one({{name, object}}, root_);  // checks the name
    objects_.insert(objects_.end(), one.objects_.begin(), one.objects_.end());
    std::sort(objects_.begin(), objects_.end(), [](const Child& a, const Child& b) { return a.first < b.first; });
    keras::BuildAccess::notify(*this);
  }
  Identity identity() const override { return root_ ? root_->identity() : Identity{this, {}}; }
  Children edges() const override {
    Children all = root_ ? root_->edges() : Children{};
    all.insert(all.end(), objects_.begin(), objects_.end());
    if (save_counter) all.emplace_back("save_counter", save_counter);
    return all;
  }
  Children aliases(const formats::CheckpointNode& saved) const override {
    return root_ ? root_->aliases(saved) : Children{};
  }
  bool hides(const formats::CheckpointNode& saved, std::string_view name) const override {
    return root_ && root_->hides(saved, name);
  }
  Children hidden() const override { return root_ ? root_->hidden() : Children{}; }
  distribute::VariablePtr variable() const override { return root_ ? root_->variable() : nullptr; }
  std::optional<std::string> python_state() const override { return root_ ? root_->python_state() : std::nullopt; }
  void set_python_state(const std::string& state) const override { root_->set_python_state(state); }
  const lookup::MutableHashTable* table() const override { return root_ ? root_->table() : nullptr; }
  bool unbuilt_optimizer() const override { return root_ && root_->unbuilt_optimizer(); }
  void build(const std::vector<distribute::VariablePtr>& variables) const override { root_->build(variables); }
  distribute::VariablePtr slot(std::string_view name, const distribute::VariablePtr& of) const override {
    return root_ ? root_->slot(name, of) : nullptr;
  }

  void observe(const std::shared_ptr<keras::BuildObserver>& observer) const override {
    if (root_) root_->observe(observer);
    keras::BuildAccess::observe(*this, observer);
  }

  distribute::VariablePtr save_counter;

 private:
  friend struct keras::BuildAccess;
  mutable std::shared_ptr<keras::BuildObservers> build_observers_;
  Children objects_;
  NodePtr root_;
};

formats::TensorData text_list(std::vector<std::string> texts) {
  formats::TensorData data;
  data.dtype = DType::kString;
  data.shape = Shape{static_cast<std::int64_t>(texts.size())};
  data.strings = std::move(texts);
  return data;
}

// State of the job that belongs to none of the objects.
formats::NamedTensors job_state(const CheckpointOptions& options) {
  formats::NamedTensors state;
  if (!options.metadata.is_null()) state.emplace_back(kMetadataKey, text_list({dump_json(options.metadata)}));
  if (options.training_state) {
    auto tensors = keras::store_training_state({dump_json(options.training_state->values)}, *options.training_state);
    std::move(tensors.begin(), tensors.end(), std::back_inserter(state));
  }
  return state;
}

}  // namespace

// The root's own edge "root", which leads back to it, is left out: it holds nothing.
struct Checkpoint::State {
  std::shared_ptr<RootNode> node;
  Tracked root;
  std::shared_ptr<Restoration> restoration;  // kept for objects that are built later
  CopyBuffers buffers;

  // Facts about a group of workers.
  struct Job {
    collectives::CommunicatorPtr workers;
    collectives::CommunicatorPtr background;        // for asynchronous saves
    std::map<std::string, std::vector<int>> ranks;  // that see a folder
  };
  Job job;
  Job& job_of(const collectives::CommunicatorPtr& workers) {
    if (job.workers != workers) job = Job{workers, nullptr, {}};
    return job;
  }

  std::unique_ptr<AsyncSaver> async;  // last: its thread ends first
  AsyncSaver& saver() {
    if (!async) async = std::make_unique<AsyncSaver>();
    return *async;
  }
  void wait() {
    if (async) async->wait();
  }

  State(Children objects, NodePtr from)
      : node(std::make_shared<RootNode>(std::move(objects), std::move(from))), root(NodePtr(node)) {}
  void make_counter() {
    if (node->save_counter) return;
    distribute::VariableOptions options{.trainable = false, .name = "save_counter"};
    options.aggregation = distribute::VariableAggregation::kOnlyFirstReplica;
    const distribute::ScopedOwnInitialValues alone;  // the chief may be the only one who saves
    node->save_counter = distribute::Variable::create(Tensor::scalar<std::int64_t>(0), options);
    keras::BuildAccess::notify(*node);  // an earlier read() may have its value
  }
};

Checkpoint::Checkpoint(std::initializer_list<Child> objects) : Checkpoint(Children(objects)) {}
Checkpoint::Checkpoint(Children objects) : state_(std::make_shared<State>(std::move(objects), nullptr)) {}
Checkpoint::Checkpoint(const keras::Model& model, const optimizers::OptimizerPtr& optimizer)
    : Checkpoint(Children{{"model", model}, {"optimizer", optimizer}}) {}
Checkpoint::Checkpoint(const Tracked& root, Children objects)
    : state_(std::make_shared<State>(std::move(objects), root.ptr())) {}

void Checkpoint::track(const std::string& name, const Tracked& object) const { state_->node->track(name, object); }

distribute::VariablePtr Checkpoint::save_counter() const {
  state_->make_counter();
  return state_->node->save_counter;
}
const Tracked& Checkpoint::root() const { return state_->root; }

List<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [edge, object] : root().node().edges()) names.push_back(edge);
  return names;
}

bool Checkpoint::contains(const std::string& name) const {
  const std::vector<std::string> all = names();
  return std::ranges::find(all, name) != all.end();
}

std::ostream& operator<<(std::ostream& out, const Checkpoint& checkpoint) {
  return out << fmt::format("Checkpoint({})", fmt::join(checkpoint.names(), ", "));
}

distribute::Variable Checkpoint::operator[](const std::string& name) const {
  for (const auto& [edge, object] : root().node().edges()) {
    if (edge != name) continue;
    if (const distribute::VariablePtr variable = object.node().variable()) return variable;
    throw_invalid_argument(fmt::format("Checkpoint: '{}' is not a variable: use the object itself", name));
  }
  throw_not_found(fmt::format("Checkpoint: no object has the name '{}': there are {}", name, fmt::join(names(), ", ")));
}

std::string Checkpoint::write(const std::string& prefix, const CheckpointOptions& options) const {
  return write_then(prefix, options, {});
}

std::string Checkpoint::write_then(const std::string& prefix, const CheckpointOptions& options,
                                   const std::function<void()>& after) const {
  if (prefix.empty()) throw_invalid_argument("Checkpoint: invalid prefix: found an empty string, expected a path");
  LiveValues values = values_of(build_live_graph(state_->root.ptr()), job_state(options));
  if (options.workers && options.workers->size() > 1) {
    if (options.experimental_sharding_callback.max_shard_size()) {
      throw_invalid_argument(
          "Checkpoint: MaxShardSizePolicy is not for several workers, each of which writes a file of its own: use "
          "ShardByTaskPolicy");
    }
    write_shared(prefix, std::move(values), options, after);
  } else {
    write_local(prefix, std::move(values), options, after);
  }
  return prefix;
}

void Checkpoint::write_local(const std::string& prefix, LiveValues values, const CheckpointOptions& options,
                             const std::function<void()>& after) const {
  const auto write = [=](const LiveValues& of_save) {
    write_checkpoint(of_save, prefix, options.experimental_sharding_callback);
    if (after) after();
    for (const auto& callback : options.experimental_write_callbacks) callback(prefix);
  };
  if (!options.enable_async) {
    state_->wait();
    return write(values);
  }
  std::vector<formats::TensorData*> tensors;
  std::uint64_t bytes = 0;
  for (auto& [key, data] : values.contents) {
    tensors.push_back(&data);
    bytes += data.bytes.size();
  }
  AsyncSaver& saver = state_->saver();
  if (saver.failed()) saver.wait();
  saver.make_room(bytes, options.async_byte_budget);
  {
    std::vector<std::unique_ptr<optimizers::WholeSlot>> whole;  // the copy is
    for (const auto& [key, range] : std::exchange(values.ranges, {}))
      whole.push_back(std::make_unique<optimizers::WholeSlot>(*range));
    state_->buffers.copy(std::move(tensors));
  }
  saver.submit(bytes, [write, values = std::move(values)] { write(values); });
}

void Checkpoint::write_shared(const std::string& prefix, LiveValues values, const CheckpointOptions& options,
                              const std::function<void()>& after) const {
  const std::string directory = io::parent_directory(prefix);
  State::Job& job = state_->job_of(options.workers);
  auto ranks = job.ranks.find(directory);
  if (ranks == job.ranks.end()) ranks = job.ranks.emplace(directory, ranks_at(*options.workers, directory)).first;
  SharedPart part = shared_part(*options.workers, ranks->second, prefix, values);
  const auto write = [=](collectives::Communicator& group, SharedPart mine) {
    write_together(group, std::move(mine), after);
    for (const auto& callback : options.experimental_write_callbacks) callback(prefix);
  };
  if (!options.enable_async) {
    state_->wait();
    return write(*options.workers, std::move(part));
  }
  if (!job.background) job.background = options.workers->duplicate("checkpoints");
  std::vector<formats::TensorData*> tensors;
  std::uint64_t bytes = 0;
  for (auto* const pieces : {&part.pieces, &part.sent}) {
    for (auto& piece : *pieces) {
      tensors.push_back(&piece);
      bytes += piece.bytes.size();
    }
  }
  AsyncSaver& saver = state_->saver();
  // A failed save is thrown on all workers by the same call, though one may have learnt of it before another.
  const auto failed = options.workers->all_gather(saver.failed() ? "failed" : "");
  if (std::any_of(failed.begin(), failed.end(), [](const std::string& each) { return !each.empty(); })) saver.wait();
  saver.make_room(bytes, options.async_byte_budget);
  state_->buffers.copy(std::move(tensors));
  saver.submit(bytes, [write, group = job.background, part = std::move(part)] { write(*group, part); });
}

void Checkpoint::wait() const { state_->wait(); }

namespace {

std::string plan_of(const LiveValues& values, const std::vector<int>& ranks, const std::string& prefix) {
  constexpr std::size_t kMostLines = 64;
  const auto tensors = planned_tensors(values);
  return train::plan_text(plan_save(tensors, ranks), tensors, prefix, kMostLines);
}

}  // namespace

std::string Checkpoint::plan_text(const std::string& prefix, int num_workers) const {
  if (num_workers < 1)
    throw_invalid_argument(fmt::format("plan_text: invalid num_workers: found {}, expected at least 1", num_workers));
  std::vector<int> ranks(static_cast<std::size_t>(num_workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  return plan_of(values_of(build_live_graph(state_->root.ptr())), ranks, prefix);
}

std::string Checkpoint::plan_text(const std::string& prefix, collectives::Communicator& workers) const {
  std::string folder = io::parent_directory(prefix);
  while (!io::is_directory(io::posix_file_system(), folder)) folder = io::parent_directory(folder);
  const std::vector<int> ranks = ranks_at(workers, workers.broadcast(workers.rank() == 0 ? folder : "", 0));
  std::string text = plan_of(values_of(build_live_graph(state_->root.ptr())), ranks, prefix);
  if (static_cast<int>(ranks.size()) == workers.size()) return text;
  std::vector<std::string> others;
  for (int rank = 0; rank < workers.size(); ++rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) others.push_back(workers.member_name(rank));
  }
  return text + fmt::format("{} {} not see this folder of the chief's, and write{} nothing\n", fmt::join(others, ", "),
                            others.size() == 1 ? "does" : "do", others.size() == 1 ? "s" : "");
}

std::string Checkpoint::save(const std::string& prefix, const CheckpointOptions& options) const {
  const auto counter = save_counter();
  const std::int64_t before = counter->numpy().item<std::int64_t>();
  counter->assign(Tensor::scalar<std::int64_t>(before + 1));
  const std::string path = fmt::format("{}-{}", prefix, before + 1);
  try {
    return write_then(path, options, [path] {
      formats::write_checkpoint_state(io::parent_directory(path), {path, {path}, {}, 0});
    });
  } catch (...) {
    counter->assign(Tensor::scalar<std::int64_t>(before));
    throw;
  }
}

struct LoadStatus::Shared {
  std::shared_ptr<Restoration> restoration;  // null: nothing was restored
  bool partial = false;

  ~Shared() {
    if (!restoration || partial) return;
    for (const std::string& path : restoration->unrestored()) {
      log_warning("{}: value in checkpoint could not be found in the restored object: {}", restoration->prefix(), path);
    }
  }
};

namespace {

void require_index(const std::string& prefix) {
  if (io::is_file(io::posix_file_system(), formats::bundle_index_path(prefix))) return;
  throw_not_found(
      fmt::format("Error when restoring from checkpoint or SavedModel at {}: there is no file {}. Please "
                  "double-check that the path is correct; you may be missing the checkpoint suffix (e.g. the "
                  "'-1' in 'path/to/ckpt-1')",
                  prefix, formats::bundle_index_path(prefix)));
}

// A file of the chief's on another machine: in a temporary file, which ends with its mapping. The chief sends it in
// parts, so that it takes no memory.
class ReceivedFile {
 public:
  explicit ReceivedFile(const std::string& name) {
    std::error_code ignored;  // the file cannot be made then
    path_ = io::temporary_sibling(io::join_path(std::filesystem::temp_directory_path(ignored).string(), name));
    attempt([this] { file_ = files_.create(path_, 0600); });
  }
  ~ReceivedFile() {
    if (files_.stat(path_)) files_.remove_file(path_);
  }
  ReceivedFile(const ReceivedFile&) = delete;
  ReceivedFile& operator=(const ReceivedFile&) = delete;
  void append(std::string_view bytes) {
    attempt([&] { file_->write_at(size_, io::as_bytes(bytes)); });
    size_ += bytes.size();
  }
  // Throws what has failed since the beginning, when no other rank waits for this one any more.
  std::shared_ptr<const io::FileBytes> map() {
    attempt([this] { file_->close(); });
    if (failure_) std::rethrow_exception(failure_);
    return files_.map(path_);
  }

 private:
  void attempt(const std::function<void()>& work) {
    if (failure_) return;
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  io::FileSystem& files_ = io::posix_file_system();
  std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::uint64_t size_ = 0;
  std::exception_ptr failure_;
};

// The chief's files of a checkpoint, for the ranks that do not see them. Empty where nobody needs them.
std::shared_ptr<io::FileSystem> files_from_chief(collectives::Communicator& group, const std::string& prefix) {
  constexpr std::size_t kPart = 16 << 20;
  auto& files = io::posix_file_system();
  const bool chief = group.rank() == 0;
  const auto seen = collectives::run_together(group, fmt::format("restoring {}", prefix), [&] {
    if (chief) require_index(prefix);
    return std::string(io::is_file(files, formats::bundle_index_path(prefix)) ? "yes" : "");
  });
  if (std::all_of(seen.begin(), seen.end(), [](const std::string& each) { return !each.empty(); })) return nullptr;
  std::string names;
  if (chief) {
    for (const std::string& name : files.list(io::parent_directory(prefix))) {
      if (name.starts_with(io::base_name(prefix) + ".data-") || name == io::base_name(prefix) + ".index")
        names += name + '\n';
    }
  }
  names = group.broadcast(names, 0);
  const bool needs = seen[static_cast<std::size_t>(group.rank())].empty();
  std::vector<std::pair<std::string, std::unique_ptr<ReceivedFile>>> received;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = names.find('\n', at);
    const std::string path = io::join_path(io::parent_directory(prefix), names.substr(at, end - at));
    at = end + 1;
    const auto sent = chief ? files.map(path) : nullptr;
    if (needs) received.emplace_back(path, std::make_unique<ReceivedFile>(io::base_name(path)));
    for (std::size_t part = 0;; part += kPart) {
      std::string_view bytes = sent ? io::as_text(sent->bytes()) : std::string_view();
      bytes = bytes.substr(std::min(part, bytes.size()), kPart);
      const std::string got = group.broadcast(std::string(bytes), 0);
      if (needs) received.back().second->append(got);
      if (got.size() < kPart) break;
    }
  }
  const auto memory = std::make_shared<io::MemoryFileSystem>();
  collectives::run_together(group, fmt::format("restoring {}", prefix), [&] {
    for (const auto& [path, file] : received) memory->put(path, file->map());
    return std::string();
  });
  return needs ? memory : nullptr;
}

}  // namespace

LoadStatus Checkpoint::load(const std::string& prefix, const CheckpointOptions& options) const {
  state_->wait();
  Restoration::Options how{.skip_slot_variables = options.experimental_skip_slot_variables};
  std::shared_ptr<Restoration> restoration;
  const auto match = [&] {
    restoration = std::make_shared<Restoration>(state_->root.ptr(), prefix, how);
    restoration->match();
    restoration->set_states();
    return std::string();
  };
  if (options.workers && options.workers->size() > 1) {
    how.worker = options.workers->rank();
    how.workers = options.workers->size();
    how.files = files_from_chief(*options.workers, prefix);
    try {
      collectives::run_together(*options.workers, fmt::format("restoring {}", prefix), match);
    } catch (...) {
      if (restoration) restoration->undo_states();
      throw;
    }
  } else {
    require_index(prefix);
    match();
  }
  restoration->commit();
  restoration->keep_restoring();
  state_->restoration = restoration;
  return LoadStatus(std::make_shared<LoadStatus::Shared>(restoration));
}

LoadStatus Checkpoint::read(const std::string& prefix, const CheckpointOptions& options) const {
  return load(prefix, options);
}

LoadStatus Checkpoint::restore(const std::optional<std::string>& path, const CheckpointOptions& options) const {
  if (!path) return LoadStatus(std::make_shared<LoadStatus::Shared>());
  const bool fresh = !state_->node->save_counter;
  state_->make_counter();
  try {
    return load(saved_model_variables(*path), options);
  } catch (...) {
    if (fresh) state_->node->save_counter = nullptr;
    throw;
  }
}

const std::optional<keras::TrainingState>& LoadStatus::training_state() const {
  static const std::optional<keras::TrainingState> kNone;
  return shared_->restoration ? shared_->restoration->training_state() : kNone;
}

void LoadStatus::require() const {
  if (!shared_->restoration) {
    throw_failed_precondition("No checkpoint specified (save_path=None); nothing is being restored.");
  }
  shared_->restoration->bind();
}

LoadStatus LoadStatus::assert_existing_objects_matched() const {
  require();
  const std::string missing = shared_->restoration->unmatched_live_object();
  if (!missing.empty()) {
    throw_failed_precondition(
        fmt::format("{}: an object was not bound to checkpointed values: {}", shared_->restoration->prefix(), missing));
  }
  return *this;
}

LoadStatus LoadStatus::assert_consumed() const {
  assert_existing_objects_matched();
  const std::string missing = shared_->restoration->unconsumed_saved_object();
  if (!missing.empty()) {
    throw_failed_precondition(fmt::format("{}: unresolved object in checkpoint {}: no object was restored from it",
                                          shared_->restoration->prefix(), missing));
  }
  return *this;
}

LoadStatus LoadStatus::assert_nontrivial_match() const {
  require();
  if (shared_->restoration->named()) return assert_existing_objects_matched();
  if (shared_->restoration->only_root_matched()) {
    throw_failed_precondition(
        fmt::format("{}: nothing except the root object matched a checkpointed value", shared_->restoration->prefix()));
  }
  return *this;
}

LoadStatus LoadStatus::expect_partial() const {
  shared_->partial = true;
  return *this;
}

RestoreReport LoadStatus::report() const {
  require();
  return shared_->restoration->report();
}

std::vector<Json> checkpoint_metadata(const std::string& prefix) {
  const formats::BundleReader reader(prefix);
  std::vector<Json> all;
  if (!reader.contains(std::string(kMetadataKey))) return all;
  for (const std::string& text : reader.read(std::string(kMetadataKey)).strings)
    all.push_back(parse_json(text, prefix + ", metadata"));
  return all;
}

std::ostream& operator<<(std::ostream& out, const CheckpointPath& path) { return out << path.value_or("None"); }

CheckpointPath latest_checkpoint(const std::string& directory, const std::string& latest_filename) {
  return formats::latest_checkpoint(directory, latest_filename);
}

}  // namespace lockstep::train

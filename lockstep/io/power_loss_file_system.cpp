#include "lockstep/io/power_loss_file_system_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

class CopiedBytes final : public FileBytes {
 public:
  explicit CopiedBytes(std::string data) : data_(std::move(data)) { bytes_ = as_bytes(data_); }

 private:
  std::string data_;
};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (!part.empty() && part != ".") parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

}  // namespace

class PowerLossFile final : public WritableFile {
 public:
  PowerLossFile(PowerLossFileSystem& files, PowerLossFileSystem::NodePtr node)
      : files_(files), node_(std::move(node)) {}
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(files_.mutex_);
    PowerLossFileSystem::write(node_->bytes, offset, as_text(bytes));
    node_->writes.push_back({offset, std::string(as_text(bytes))});
  }
  void reserve(std::uint64_t) override {}
  void sync() override {
    const std::lock_guard lock(files_.mutex_);
    node_->synced = node_->bytes;
    node_->writes.clear();
  }
  void close() override {}

 private:
  PowerLossFileSystem& files_;
  PowerLossFileSystem::NodePtr node_;
};

PowerLossFileSystem::PowerLossFileSystem() : root_(std::make_shared<Node>()) { root_->is_directory = true; }

void PowerLossFileSystem::write(std::string& bytes, std::uint64_t offset, std::string_view data) {
  if (bytes.size() < offset + data.size()) bytes.resize(offset + data.size());
  bytes.replace(offset, data.size(), data);
}

PowerLossFileSystem::NodePtr PowerLossFileSystem::find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& part : parts_of(path)) {
    const auto found = node->entries.find(part);
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

PowerLossFileSystem::NodePtr PowerLossFileSystem::at(const std::string& path) const {
  NodePtr node = find(path);
  if (!node) throw_not_found(fmt::format("{}: no such file or folder", path));
  return node;
}

void PowerLossFileSystem::apply(const Change& change, std::map<std::string, NodePtr> Node::*entries) {
  for (const Entry& entry : change) {
    auto& all = (*entry.folder).*entries;
    if (entry.node) {
      all[entry.name] = entry.node;
    } else {
      all.erase(entry.name);
    }
  }
}

void PowerLossFileSystem::change(Change change) {
  apply(change, &Node::entries);
  changes_.push_back(std::move(change));
}

std::unique_ptr<WritableFile> PowerLossFileSystem::create(const std::string& path, std::uint32_t) {
  const std::lock_guard lock(mutex_);
  if (find(path)) throw_already_exists(fmt::format("{}: is there already", path));
  const auto node = std::make_shared<Node>();
  change({{at(parent_directory(path)), base_name(path), node}});
  return std::make_unique<PowerLossFile>(*this, node);
}

std::shared_ptr<const FileBytes> PowerLossFileSystem::map(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = at(path);
  if (node->is_directory) throw_invalid_argument(fmt::format("{}: is a folder", path));
  return std::make_shared<CopiedBytes>(node->bytes);
}

std::optional<FileStat> PowerLossFileSystem::stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) return std::nullopt;
  if (node->is_directory) return FileStat{FileStat::Kind::kDirectory, 0, 0755};
  return FileStat{FileStat::Kind::kFile, node->bytes.size(), 0644};
}

std::vector<std::string> PowerLossFileSystem::list(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, node] : at(directory)->entries) names.push_back(name);
  return names;
}

void PowerLossFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const NodePtr moved = at(from);
  if (const NodePtr replaced = find(to); replaced && !replaced->entries.empty())
    throw_already_exists(fmt::format("{}: a folder that is not empty", to));
  change({{at(parent_directory(from)), base_name(from), nullptr}, {at(parent_directory(to)), base_name(to), moved}});
}

bool PowerLossFileSystem::exchange(const std::string& a, const std::string& b) {
  const std::lock_guard lock(mutex_);
  const NodePtr first = at(a);
  const NodePtr second = at(b);
  change({{at(parent_directory(a)), base_name(a), second}, {at(parent_directory(b)), base_name(b), first}});
  return true;
}

void PowerLossFileSystem::remove_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  at(path);
  change({{at(parent_directory(path)), base_name(path), nullptr}});
}

void PowerLossFileSystem::remove_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (!at(path)->entries.empty()) throw_already_exists(fmt::format("{}: is not empty", path));
  change({{at(parent_directory(path)), base_name(path), nullptr}});
}

void PowerLossFileSystem::make_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (find(path)) throw_already_exists(fmt::format("{}: is there already", path));
  const auto node = std::make_shared<Node>();
  node->is_directory = true;
  change({{at(parent_directory(path)), base_name(path), node}});
}

void PowerLossFileSystem::sync_path(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = at(path);
  // A change that concerns two folders is synced by either.
  std::erase_if(changes_, [&](const Change& change) {
    const bool concerned =
        std::any_of(change.begin(), change.end(), [&](const Entry& entry) { return entry.folder == node; });
    if (concerned) apply(change, &Node::synced_entries);
    return concerned;
  });
}

std::size_t PowerLossFileSystem::unsynced() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = changes_.size();
  std::vector<NodePtr> rest{root_};
  while (!rest.empty()) {
    const NodePtr node = rest.back();
    rest.pop_back();
    count += node->writes.size();
    for (const auto& [name, child] : node->entries) rest.push_back(child);
  }
  return count;
}

// Makes what survives of a node, and of all below it, all that there is.
void PowerLossFileSystem::settle(const NodePtr& node, std::mt19937_64& random, std::set<Node*>& seen) {
  if (!seen.insert(node.get()).second) return;
  std::shuffle(node->writes.begin(), node->writes.end(), random);
  for (const Write& each : node->writes) {
    const auto fate = random() % 3;
    if (fate == 0) continue;
    write(node->synced, each.offset, fate == 1 ? each.bytes : each.bytes.substr(0, random() % (each.bytes.size() + 1)));
  }
  node->writes.clear();
  node->bytes = node->synced;
  node->entries = node->synced_entries;
  for (const auto& [name, child] : node->entries) settle(child, random, seen);
}

void PowerLossFileSystem::lose_power(std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  for (const Change& change : changes_) {
    if (random() % 2 == 0) apply(change, &Node::synced_entries);
  }
  changes_.clear();
  std::set<Node*> seen;
  settle(root_, random, seen);
}

}  // namespace lockstep::io

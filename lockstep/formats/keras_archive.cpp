#include "lockstep/formats/keras_archive.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/paths_internal.h"
#include "lockstep/io/zip.h"

namespace lockstep::formats {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kMetadata = "metadata.json";
constexpr std::string_view kWeights = "model.weights.h5";
constexpr std::string_view kAssets = "assets/";

// Windows takes a backslash for a slash.
bool safe_path(std::string_view path) { return io::is_path_below(path) && path.find('\\') == std::string_view::npos; }

std::string date_saved() {
  std::tm date{};
  date.tm_year = 80;
  date.tm_mday = 1;
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH"); epoch != nullptr && *epoch != '\0') {
    char* end = nullptr;
    const std::time_t seconds = std::strtoll(epoch, &end, 10);
    if (*end == '\0' && seconds >= 0) gmtime_r(&seconds, &date);
  }
  return fmt::format("{:04}-{:02}-{:02}@{:02}:{:02}:{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday,
                     date.tm_hour, date.tm_min, date.tm_sec);
}

std::string metadata_text(const KerasArchivePlan& plan) {
  Json metadata = Json::object();
  metadata["keras_version"] = plan.keras_version;
  metadata["date_saved"] = date_saved();
  return dump_json(metadata);
}

void check_assets(const std::string& path, const KerasArchivePlan& plan) {
  for (const KerasAsset& asset : plan.assets) {
    if (!safe_path(asset.path)) {
      throw_invalid_argument(fmt::format("{}: \"{}\" cannot be the path of an asset", path, asset.path));
    }
  }
}

void list_files(io::FileSystem& files, const std::string& directory, const std::string& prefix, int depth,
                std::vector<std::string>& out) {
  if (depth > 32) return;
  for (const auto& name : files.list(directory)) {
    const auto path = io::join_path(directory, name);
    if (files.is_link(path)) continue;
    if (io::is_directory(files, path)) {
      list_files(files, path, prefix + name + "/", depth + 1, out);
    } else {
      out.push_back(prefix + name);
    }
  }
}

}  // namespace

void write_keras_archive(const std::string& path, const KerasArchivePlan& plan, io::FileSystem& files) {
  check_assets(path, plan);
  Hdf5Writer weights;
  add_weights(weights, plan.weights);
  const std::string config = dump_json(plan.config);
  io::ZipWriter zip(path, files, weights.size() + config.size() + 4096);
  zip.add(kMetadata, metadata_text(plan));
  zip.add(kConfig, config);
  zip.begin(kWeights, weights.size());
  weights.write([&](std::span<const std::byte> bytes) { zip.append(bytes); });
  zip.end();
  for (const KerasAsset& asset : plan.assets) zip.add(fmt::format("{}{}", kAssets, asset.path), asset.bytes);
  zip.finish();
}

void write_keras_directory(const std::string& path, const KerasArchivePlan& plan, io::FileSystem& files) {
  check_assets(path, plan);
  io::AtomicDirectory directory(path, {std::string(kConfig), std::string(kMetadata), std::string(kWeights), "assets"},
                                files);
  const std::string& staging = directory.staging_path();
  io::write_atomically(io::join_path(staging, std::string(kMetadata)), metadata_text(plan), files);
  io::write_atomically(io::join_path(staging, std::string(kConfig)), dump_json(plan.config), files);
  write_keras_weights(io::join_path(staging, std::string(kWeights)), plan.weights, files);
  for (const KerasAsset& asset : plan.assets) {
    const auto target = io::join_path(staging, fmt::format("{}{}", kAssets, asset.path));
    io::make_directories(files, io::parent_directory(target));
    io::write_atomically(target, asset.bytes, files);
  }
  directory.commit();
}

struct KerasArchive::Source {
  std::string path;
  std::vector<std::string> names;
  std::function<io::SharedBytes(const std::string&)> read;

  bool has(std::string_view name) const { return std::find(names.begin(), names.end(), name) != names.end(); }
};

KerasArchive KerasArchive::open(const std::string& path, io::FileSystem& files) {
  auto source = std::make_shared<Source>();
  source->path = path;
  if (io::is_directory(files, path)) {
    list_files(files, path, "", 0, source->names);
    source->read = [path, &files](const std::string& name) {
      auto mapped = files.map(io::join_path(path, name));
      return io::SharedBytes{mapped->bytes(), mapped};
    };
  } else {
    auto zip = std::make_shared<io::ZipReader>(path, files);
    for (const auto& member : zip->members()) source->names.push_back(member.name);
    source->read = [zip](const std::string& name) {
      return name == kConfig || name == kMetadata ? zip->read_text(*zip->find(name)) : zip->read(name);
    };
  }
  KerasArchive archive;
  if (!source->has(kConfig)) {
    throw_not_found(
        fmt::format("{}: not a Keras model: config.json is missing; a Keras archive holds config.json and "
                    "model.weights.h5",
                    path));
  }
  auto json = [&](std::string_view name) {
    const auto bytes = source->read(std::string(name));
    std::string_view text = io::as_text(bytes.bytes);
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    return parse_json(text, fmt::format("{} of {}", name, path));
  };
  archive.config_ = json(kConfig);
  if (source->has(kMetadata)) archive.metadata_ = json(kMetadata);
  if (!source->has(kWeights)) {
    if (source->has("model.weights.npz")) {
      throw_unimplemented(
          fmt::format("{}: its weights are a pickled .npz, which is never read; save it again as h5", path));
    }
    throw_not_found(fmt::format("{}: no model.weights.h5 in it", path));
  }
  auto image = source->read(std::string(kWeights));
  archive.weights_ = std::make_shared<KerasWeights>(
      KerasWeights::from_image(image.bytes, image.owner, fmt::format("{} of {}", kWeights, path)));
  archive.source_ = std::move(source);
  return archive;
}

std::vector<std::string> KerasArchive::assets() const {
  std::vector<std::string> result;
  for (const auto& name : source_->names) {
    if (name.starts_with(kAssets) && safe_path(name)) result.push_back(name.substr(kAssets.size()));
  }
  return result;
}

std::string KerasArchive::asset(const std::string& asset_path) const {
  const auto name = fmt::format("{}{}", kAssets, asset_path);
  if (!safe_path(name) || !source_->has(name))
    throw_not_found(fmt::format("{}: no asset \"{}\"", source_->path, asset_path));
  return std::string(io::as_text(source_->read(name).bytes));
}

}  // namespace lockstep::formats

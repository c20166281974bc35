// For the judged tests: lists, copies and dumps HDF5 files through our own reader and writer.
//   h5_probe list FILE          one line a group, dataset and attribute
//   h5_probe dump FILE PATH     the raw little-endian values of a dataset on stdout
//   h5_probe copy FILE TARGET   rewrites all groups, readable datasets and text attributes
//   h5_probe archive FILE TARGET  rewrites a .keras archive from its config, weights and assets
//   h5_probe legacy FILE TARGET   rewrites a whole-model .h5 from its configs and weights
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/hdf5_writer.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {
namespace {

void list(const Hdf5File& file, const Hdf5Node& node, const std::string& path) {
  if (node.kind == Hdf5Node::Kind::kGroup) fmt::print("group {}\n", path);
  if (node.kind == Hdf5Node::Kind::kLink) fmt::print("refused {}: {}\n", path, node.unreadable_reason);
  if (node.kind == Hdf5Node::Kind::kDataset) {
    if (node.unreadable_reason.empty()) {
      const TensorData value = file.read(node);
      fmt::print("dataset {} {} {} {}\n", path, dtype_name(node.dtype), node.shape.to_string(),
                 node.dtype == DType::kString ? value.strings.size() : value.bytes.size());
      for (const auto& text : value.strings) fmt::print("  string {}\n", text);
    } else {
      fmt::print("refused {}: {}\n", path, node.unreadable_reason);
    }
  }
  for (const auto& attribute : node.attributes) {
    fmt::print("attribute {}@{} {}", path, attribute.name, dtype_name(attribute.value.dtype));
    if (attribute.value.dtype != DType::kInvalid) fmt::print(" {}", attribute.value.shape.to_string());
    for (const auto& text : attribute.value.strings) fmt::print(" [{}]", text);
    fmt::print("\n");
  }
  for (const auto& child : node.children) list(file, child, path.empty() ? child.name : path + "/" + child.name);
}

void copy(const Hdf5File& file, const Hdf5Node& node, const std::string& path, Hdf5Writer& writer) {
  if (node.kind == Hdf5Node::Kind::kGroup) writer.add_group(path);
  if (node.kind == Hdf5Node::Kind::kDataset) {
    if (!node.unreadable_reason.empty() || node.dtype == DType::kString) return;
    writer.add_dataset(path, node.dtype, node.shape, [&file, &node] { return file.read(node); });
  }
  for (const auto& attribute : node.attributes) {
    if (node.kind == Hdf5Node::Kind::kDataset && attribute.name == "dtype") continue;  // written with the dataset
    const auto& value = attribute.value;
    const bool text = value.dtype == DType::kString;
    if (text && value.shape.rank() == 0) writer.set_attribute(path, attribute.name, value.strings.at(0));
    if (text && value.shape.rank() == 1) writer.set_attribute(path, attribute.name, value.strings);
    if (!text && value.shape == Shape{0}) writer.set_attribute(path, attribute.name, std::vector<std::string>{});
  }
  for (const auto& child : node.children)
    copy(file, child, path.empty() ? child.name : path + "/" + child.name, writer);
}

void copy_archive(const std::string& from, const std::string& to) {
  const auto archive = KerasArchive::open(from);
  KerasArchivePlan plan;
  plan.config = archive.config();
  for (const auto& info : archive.weights().list()) {
    plan.weights.add(info.name, info.dtype, info.shape,
                     [&archive, &info] { return archive.weights().read(info.name); });
  }
  for (const auto& path : archive.assets()) plan.assets.push_back({path, archive.asset(path)});
  write_keras_archive(to, plan);
}

void copy_legacy(const std::string& from, const std::string& to) {
  const auto model = LegacyH5::open(from);
  auto entry = [&](const TensorInfo& info, std::size_t cut) {
    return WeightEntry{info.name.substr(cut), info.dtype, info.shape,
                       [&model, &info] { return model.read(info.name); }};
  };
  LegacyH5Plan plan;
  plan.model_config = model.model_config();
  plan.training_config = model.training_config();
  const std::string root = plan.model_config.is_null() ? "" : "model_weights/";
  for (const auto& layer : model.layers()) {
    plan.layers.push_back({layer.name, {}});
    for (const auto& info : layer.weights)
      plan.layers.back().weights.push_back(entry(info, root.size() + layer.name.size() + 1));
  }
  for (const auto& info : model.optimizer_weights())
    plan.optimizer_weights.push_back(entry(info, std::string("optimizer_weights/").size()));
  write_legacy_h5(to, plan);
}

int run(const std::vector<std::string>& args) {
  if (args.size() < 2) throw_invalid_argument("usage: h5_probe list|dump|copy|archive|legacy FILE [PATH|TARGET]");
  if (args[0] == "archive" && args.size() == 3) return copy_archive(args[1], args[2]), 0;
  if (args[0] == "legacy" && args.size() == 3) return copy_legacy(args[1], args[2]), 0;
  auto mapped = io::posix_file_system().map(args[1]);
  const Hdf5File file(mapped->bytes(), mapped, args[1]);
  if (args[0] == "list") {
    list(file, file.root(), "");
  } else if (args[0] == "dump" && args.size() == 3) {
    const Hdf5Node* node = file.find(args[2]);
    if (node == nullptr) throw_not_found(fmt::format("{}: no \"{}\"", args[1], args[2]));
    const TensorData value = file.read(*node);
    std::fwrite(value.bytes.data(), 1, value.bytes.size(), stdout);
  } else if (args[0] == "copy" && args.size() == 3) {
    Hdf5Writer writer;
    copy(file, file.root(), "", writer);
    std::ofstream out(args[2], std::ios::binary);
    writer.write([&](std::span<const std::byte> bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
  } else {
    throw_invalid_argument("usage: h5_probe list|dump|copy|archive|legacy FILE [PATH|TARGET]");
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::formats

int main(int argc, char** argv) {
  try {
    return lockstep::formats::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

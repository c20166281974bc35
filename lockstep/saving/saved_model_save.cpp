#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/together.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/proto/fingerprint.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/saving/fingerprint_internal.h"
#include "lockstep/saving/saved_model_export_internal.h"
#include "lockstep/saving/saved_model_state_internal.h"

namespace lockstep::saved_model {
namespace {

constexpr char kTensorFlowVersion[] = "2.11.0";  // the oldest that knows all that is written here

void write_checkpoint(const Export& exported, const std::string& prefix) {
  formats::BundleWriter bundle(prefix);
  for (std::size_t i = 0; i < exported.variables().size(); ++i) {
    bundle.add(exported.keys()[i], exported.variables()[i]->variable->numpy().to_data());
  }
  bundle.add(std::string(formats::kObjectGraphKey), Tensor::strings({exported.checkpoint_graph()}, Shape{}).to_data());
  bundle.finish();
}

tensorflow::SavedModel describe(const Export& exported) {
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  auto* meta = model.add_meta_graphs();
  auto* info = meta->mutable_meta_info_def();
  info->add_tags("serve");
  for (const std::string& tag : exported.options().extra_tags) info->add_tags(tag);
  info->set_tensorflow_version(kTensorFlowVersion);
  info->set_tensorflow_git_version("unknown");
  info->set_stripped_default_attrs(true);
  for (const auto& [name, alias] : exported.options().function_aliases) {
    (*info->mutable_function_aliases())[name] = alias;
  }
  write_outer_graph(exported, meta);
  exported.write_objects(meta->mutable_object_graph_def());
  return model;
}

std::uint64_t signature_hash(const tensorflow::MetaGraphDef& meta) {
  std::map<std::string, const tensorflow::SignatureDef*> sorted;
  for (const auto& [key, def] : meta.signature_def()) sorted.emplace(key, &def);
  std::uint64_t hash = 0;
  for (const auto& [key, def] : sorted) {
    hash = fingerprint_cat(hash, fingerprint64(key));
    hash = fingerprint_cat(hash, fingerprint64(formats::serialize_proto(*def, "signature")));
  }
  return hash;
}

std::uint64_t objects_hash(const tensorflow::SavedObjectGraph& objects) {
  struct Item {
    std::uint64_t number;
    std::string name;
    const tensorflow::SavedConcreteFunction* function;
  };
  std::vector<Item> items;
  for (const auto& [name, function] : objects.concrete_functions()) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    items.push_back({digits < name.size() ? std::stoull(name.substr(digits)) : 0, name.substr(0, digits), &function});
  }
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return std::tie(a.number, a.name) < std::tie(b.number, b.name); });
  std::uint64_t hash = 0;
  for (const Item& item : items) {
    hash = fingerprint_cat(hash, fingerprint64(item.name));
    hash = fingerprint_cat(hash, fingerprint64(formats::serialize_proto(*item.function, "function")));
  }
  return hash;
}

std::string fingerprint_of(const tensorflow::SavedModel& model, const std::string& bytes, const std::string& index) {
  const auto& meta = model.meta_graphs(0);
  tensorflow::FingerprintDef fingerprint;
  fingerprint.set_saved_model_checksum(fingerprint64(bytes));
  fingerprint.set_graph_def_program_hash(fingerprint64(formats::serialize_proto(meta.graph_def(), "graph")));
  fingerprint.set_signature_def_hash(signature_hash(meta));
  fingerprint.set_saved_object_graph_hash(objects_hash(meta.object_graph_def()));
  fingerprint.set_checkpoint_hash(fingerprint64(index));
  fingerprint.mutable_version()->set_producer(1);
  return formats::serialize_proto(fingerprint, "fingerprint.pb");
}

}  // namespace

void save(const Exportable& model, const std::string& path, const SaveOptions& options) {
  check_io_device(options.experimental_io_device);
  if (options.workers) {
    SaveOptions alone = options;
    alone.workers = nullptr;
    return collectives::run_on_chief(options.workers.get(), fmt::format("saving {}", path),
                                     [&] { save(model, path, alone); });
  }
  const Export exported(model, options);
  const tensorflow::SavedModel description = describe(exported);
  const std::string bytes = formats::serialize_proto(description, "saved_model.pb");
  io::AtomicDirectory folder(path, {"saved_model.pb", "saved_model.pbtxt", "variables", "assets", "fingerprint.pb",
                                    "keras_metadata.pb", "debug"});
  const std::string& staging = folder.staging_path();
  io::FileSystem& files = io::posix_file_system();
  const std::string variables = io::join_path(staging, "variables");
  files.make_directory(variables);
  files.make_directory(io::join_path(staging, "assets"));
  const std::string prefix = io::join_path(variables, "variables");
  write_checkpoint(exported, prefix);
  const std::string index(io::as_text(files.map(formats::bundle_index_path(prefix))->bytes()));
  io::write_atomically(io::join_path(staging, "fingerprint.pb"), fingerprint_of(description, bytes, index));
  io::write_atomically(io::join_path(staging, "saved_model.pb"), bytes);
  folder.commit();
}

}  // namespace lockstep::saved_model

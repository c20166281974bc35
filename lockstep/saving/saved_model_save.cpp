#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/collectives/together.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/op_versions_internal.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/saved_model_fingerprint_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/saving/saved_model_export_internal.h"
#include "lockstep/saving/saved_model_state_internal.h"
#include "lockstep/train/shared_save_internal.h"

namespace lockstep::saved_model {
namespace {

constexpr char kTensorFlowVersion[] = "2.11.0";  // the oldest that knows all that is written here

void write_checkpoint(const Export& exported, const std::string& prefix) {
  formats::NamedTensors contents;
  for (std::size_t i = 0; i < exported.variables().size(); ++i)
    contents.emplace_back(exported.keys()[i], exported.variables()[i]->variable->numpy().to_data());
  contents.emplace_back(formats::kObjectGraphKey, Tensor::strings({exported.checkpoint_graph()}, Shape{}).to_data());
  train::write_checkpoint({std::move(contents), {}}, prefix, exported.options().experimental_sharding_callback);
}

tensorflow::SavedModel describe(const Export& exported) {
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  auto* meta = model.add_meta_graphs();
  auto* info = meta->mutable_meta_info_def();
  info->add_tags("serve");
  for (const std::string& tag : exported.options().extra_tags) info->add_tags(tag);
  info->set_tensorflow_version(kTensorFlowVersion);
  info->set_tensorflow_git_version(fmt::format("lockstep {}", version()));
  info->set_stripped_default_attrs(true);
  for (const auto& [name, alias] : exported.options().function_aliases) {
    (*info->mutable_function_aliases())[name] = alias;
  }
  write_outer_graph(exported, meta);
  exported.write_objects(meta->mutable_object_graph_def());
  return model;
}

void check_versions(const tensorflow::SavedModel& model, const std::string& wanted, const std::string& path) {
  if (wanted.empty()) return;
  const formats::TensorFlowVersion version = formats::parse_tensorflow_version(wanted);
  const auto oldest = formats::oldest_tensorflow(model.meta_graphs(0).graph_def(), true);
  std::string newer;
  for (const auto& [name, since] : oldest.newer) {
    if (since > version) newer += fmt::format("{}{} ({})", newer.empty() ? "" : ", ", name, since.to_string());
  }
  if (newer.empty()) return;
  throw_failed_precondition(
      fmt::format("{}: TensorFlow {} cannot run this model: it lacks {}; nothing was written", path, wanted, newer));
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
  write_folder(describe(exported), path, options.min_tensorflow,
               [&](const std::string& prefix) { write_checkpoint(exported, prefix); });
}

void write_folder(const tensorflow::SavedModel& description, const std::string& path, const std::string& min_tensorflow,
                  const std::function<void(const std::string&)>& write_variables) {
  check_versions(description, min_tensorflow, path);
  const std::string bytes = formats::serialize_proto(description, "saved_model.pb");
  io::AtomicDirectory folder(path, {"saved_model.pb", "saved_model.pbtxt", "variables", "assets", "fingerprint.pb",
                                    "keras_metadata.pb", "debug"});
  const std::string& staging = folder.staging_path();
  io::FileSystem& files = io::posix_file_system();
  files.make_directory(io::join_path(staging, "assets"));
  std::string index;
  if (write_variables) {
    const std::string variables = io::join_path(staging, "variables");
    files.make_directory(variables);
    const std::string prefix = io::join_path(variables, "variables");
    write_variables(prefix);
    index = io::as_text(files.map(formats::bundle_index_path(prefix))->bytes());
  }
  io::write_atomically(io::join_path(staging, "fingerprint.pb"),
                       formats::saved_model_fingerprint(description, bytes, index));
  io::write_atomically(io::join_path(staging, "saved_model.pb"), bytes);
  folder.commit();
}

}  // namespace lockstep::saved_model

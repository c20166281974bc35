#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/artifact_internal.h"
#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/report_internal.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/saved_model_fingerprint_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/zip.h"

namespace lockstep::cli {
namespace {

// Every member of an archive, its checksum too.
void read_members(const std::string& path) {
  const io::ZipReader zip(path);
  for (const io::ZipMember& member : zip.members()) zip.read(member);
}

void check_assets(const Artifact& artifact) {
  if (artifact.kind != formats::Kind::kSavedModel) return;
  for (const std::string& asset : artifact.assets) {
    const std::string path = io::join_path(io::join_path(artifact.path, "assets"), asset);
    if (!io::is_file(io::posix_file_system(), path)) {
      throw_not_found(fmt::format("{}: the asset {} is missing; copy it there from where the model was saved",
                                  artifact.path, path));
    }
  }
}

// A SavedModel without the values of its variables: opening them reports it.
void check_variables(const Artifact& artifact) {
  if (artifact.kind != formats::Kind::kSavedModel || artifact.saved_model->has_variables) return;
  auto& files = io::posix_file_system();
  const std::string folder = io::join_path(artifact.path, "variables");
  const auto names = io::is_directory(files, folder) ? files.list(folder) : std::vector<std::string>();
  const bool cut =
      std::ranges::any_of(names, [](const auto& name) { return name.find(".data-") != std::string::npos; });
  if (artifact.saved_model->needs_variables || cut)
    const formats::BundleReader reader(io::join_path(folder, "variables"));
}

// A graph of TensorFlow 1 whose checkpoint is missing.
void check_checkpoint(const Artifact& artifact) {
  if (artifact.kind == formats::Kind::kMetaGraph && formats::has_variables(artifact.graph->requirements))
    const formats::BundleReader reader(formats::checkpoint_of_meta_graph(artifact.path));
}

// Names in HDF5 files have no checksums.
void check_names(const Artifact& artifact) {
  if (const auto* weights = dynamic_cast<const formats::KerasWeights*>(artifact.tensors.get())) weights->check_names();
  if (const auto* legacy = dynamic_cast<const formats::LegacyH5*>(artifact.tensors.get())) legacy->check_names();
}

void verify_all(const std::string& path) {
  const Artifact artifact = open_artifact(path);
  auto& files = io::posix_file_system();
  if (io::is_file(files, artifact.path) &&
      (artifact.kind == formats::Kind::kKeras || artifact.kind == formats::Kind::kNpz)) {
    read_members(artifact.path);
  }
  if (artifact.kind == formats::Kind::kSavedModel) formats::check_saved_model_fingerprint(artifact.path);
  check_variables(artifact);
  check_checkpoint(artifact);
  check_assets(artifact);
  check_names(artifact);
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  // The records of a TFRecord file were checked when it was opened.
  if (artifact.kind != formats::Kind::kFrozenGraph && artifact.kind != formats::Kind::kTFRecord) {
    for (const auto& info : artifact.tensors->list()) {
      bytes += artifact.tensors->read(info.name).bytes.size();
      ++count;
    }
  }
  if (artifact.kind == formats::Kind::kTFRecord) {
    fmt::print("{}: whole (tfrecord, {} records)\n", artifact.path, artifact.tensors->list().front().shape[0]);
    return;
  }
  fmt::print("{}: whole ({}, {} tensors, {} bytes)\n", artifact.path, formats::kind_name(artifact.kind), count, bytes);
}

}  // namespace

int verify(const Arguments& arguments) {
  try {
    verify_all(arguments.text("PATH"));
  } catch (const Error& e) {
    report(e.message());
    return kDamaged;
  }
  return 0;
}

}  // namespace lockstep::cli

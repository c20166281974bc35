#include "lockstep/cli/artifact_internal.h"

#include "lockstep/base/error.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/idx.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_config.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/inflate_internal.h"

namespace lockstep::cli {
namespace {

using formats::Kind;

// A listing without bytes: an empty one, or the constants of a graph.
class NamesOnly final : public formats::TensorReader {
 public:
  explicit NamesOnly(std::vector<formats::TensorInfo> infos) : infos_(std::move(infos)) {}
  const std::vector<formats::TensorInfo>& list() const override { return infos_; }
  formats::TensorData read(const std::string& name) const override {
    throw_unimplemented("the value of the constant '" + name + "' cannot be read without the graph");
  }

 private:
  std::vector<formats::TensorInfo> infos_;
};

// One array as a listing of one.
class OneTensor final : public formats::TensorReader {
 public:
  explicit OneTensor(formats::TensorData data) : data_(std::move(data)), infos_{{"array", data_.dtype, data_.shape}} {}
  const std::vector<formats::TensorInfo>& list() const override { return infos_; }
  formats::TensorData read(const std::string&) const override { return data_; }

 private:
  formats::TensorData data_;
  std::vector<formats::TensorInfo> infos_;
};

// The records of a TFRecord file as one tensor of strings. The constructor reads and checks all of them.
class Records final : public formats::TensorReader {
 public:
  explicit Records(std::string path) : path_(std::move(path)) {
    std::int64_t count = 0;
    formats::RecordReader reader = open();
    while (reader.next()) ++count;
    infos_ = {{"records", DType::kString, Shape{count}}};
  }
  const std::vector<formats::TensorInfo>& list() const override { return infos_; }
  formats::TensorData read(const std::string&) const override {
    std::vector<std::string> records;
    formats::RecordReader reader = open();
    while (auto record = reader.next()) records.push_back(std::move(*record));
    formats::TensorData data;
    data.dtype = DType::kString;
    data.shape = Shape{static_cast<std::int64_t>(records.size())};
    data.strings = std::move(records);
    return data;
  }

 private:
  formats::RecordReader open() const {
    const bool gzipped = io::looks_like_gzip(io::posix_file_system().map(path_)->bytes());
    return {path_, formats::RecordFormat::kTFRecord,
            gzipped ? formats::RecordCompression::kGzip : formats::RecordCompression::kNone};
  }

  std::string path_;
  std::vector<formats::TensorInfo> infos_;
};

void open_keras(Artifact& artifact) {
  const auto archive = std::make_shared<formats::KerasArchive>(formats::KerasArchive::open(artifact.path));
  artifact.tensors = {archive, &archive->weights()};
  artifact.config = archive->config();
  if (artifact.config.is_object() && artifact.config.contains("compile_config")) {
    artifact.training = artifact.config["compile_config"];
    artifact.config.erase("compile_config");
  }
  const Json& metadata = archive->metadata();
  if (metadata.is_object() && metadata.contains("keras_version") && metadata["keras_version"].is_string()) {
    artifact.version = "Keras " + metadata["keras_version"].get<std::string>();
  }
  artifact.assets = archive->assets();
}

void open_h5(Artifact& artifact) {
  const auto file = std::make_shared<formats::LegacyH5>(formats::LegacyH5::open(artifact.path));
  artifact.tensors = file;
  artifact.config = file->model_config();
  artifact.training = file->training_config();
  artifact.version = "Keras " + file->keras_version();
}

void open_weights_h5(Artifact& artifact) {
  // Keras 2's files of weights have the layout of its whole models.
  const auto image = io::posix_file_system().map(artifact.path);
  if (formats::Hdf5File::recognise(image->bytes()) &&
      formats::LegacyH5::recognise(formats::Hdf5File(image->bytes(), image, artifact.path))) {
    return open_h5(artifact);
  }
  artifact.tensors = std::make_shared<formats::KerasWeights>(formats::KerasWeights::open(artifact.path));
}

void open_saved_model(Artifact& artifact) {
  artifact.saved_model = formats::read_saved_model_info(artifact.path);
  artifact.assets = artifact.saved_model->assets;
  if (!artifact.saved_model->tensorflow_version.empty()) {
    artifact.version = artifact.saved_model->writer;
  }
  if (artifact.saved_model->has_variables) {
    artifact.tensors = std::make_shared<formats::BundleReader>(io::join_path(artifact.path, "variables/variables"));
  } else {
    artifact.tensors = std::make_shared<NamesOnly>(std::vector<formats::TensorInfo>{});
  }
}

void open_meta_graph(Artifact& artifact) {
  auto info = formats::read_meta_graph_info(artifact.path);
  artifact.graph = std::move(info.graph);
  artifact.version = info.writer;
  const std::string prefix = formats::checkpoint_of_meta_graph(artifact.path);
  if (prefix != artifact.path && formats::checkpoint_exists(prefix)) {
    artifact.tensors = std::make_shared<formats::BundleReader>(prefix);
  } else {
    artifact.tensors = std::make_shared<NamesOnly>(artifact.graph->constants);
  }
}

}  // namespace

Artifact open_artifact(const std::string& path) {
  const formats::Detected found = formats::detect(path);
  Artifact artifact{found.kind, found.path, {}, nullptr};
  switch (found.kind) {
    case Kind::kKeras: open_keras(artifact); break;
    case Kind::kKerasH5: open_h5(artifact); break;
    case Kind::kWeightsH5: open_weights_h5(artifact); break;
    case Kind::kSavedModel: open_saved_model(artifact); break;
    case Kind::kFrozenGraph:
      artifact.graph = formats::read_frozen_graph_info(artifact.path);
      artifact.tensors = std::make_shared<NamesOnly>(artifact.graph->constants);
      break;
    case Kind::kMetaGraph: open_meta_graph(artifact); break;
    case Kind::kTfCheckpoint: artifact.tensors = std::make_shared<formats::BundleReader>(artifact.path); break;
    case Kind::kSafetensors: artifact.tensors = std::make_shared<formats::SafetensorsReader>(artifact.path); break;
    case Kind::kNpy: artifact.tensors = std::make_shared<OneTensor>(formats::read_npy(artifact.path)); break;
    case Kind::kIdx: artifact.tensors = std::make_shared<OneTensor>(formats::read_idx(artifact.path)); break;
    case Kind::kTFRecord: artifact.tensors = std::make_shared<Records>(artifact.path); break;
    case Kind::kKerasConfig:
      artifact.config = formats::read_keras_config(artifact.path);
      artifact.version = "Keras " + formats::version_of_keras_config(artifact.config);
      artifact.tensors = std::make_shared<NamesOnly>(std::vector<formats::TensorInfo>{});
      break;
    case Kind::kNpz: artifact.tensors = std::make_shared<formats::NpzReader>(artifact.path); break;
  }
  return artifact;
}

bool is_optimizer_tensor(const std::string& name) {
  return name.starts_with("optimizer/") || name.starts_with("optimizer_weights/") ||
         name.find("/.OPTIMIZER_SLOT/") != std::string::npos;
}

}  // namespace lockstep::cli

// Any file or folder that lockstep can read: its tensors and metadata.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/saved_model_info_internal.h"
#include "lockstep/formats/tensor_data.h"

namespace lockstep::cli {

struct Artifact {
  formats::Kind kind;
  std::string path;
  std::string version;  // of the format's writer: "Keras 3.15.1", "TensorFlow 2.21.0"; empty if unknown
  std::shared_ptr<const formats::TensorReader> tensors;  // never null
  Json config = nullptr;                                 // of the model, without its compile config
  Json training = nullptr;                               // compile config
  std::optional<formats::SavedModelInfo> saved_model;
  std::optional<formats::FrozenGraphInfo> graph;
  std::vector<std::string> assets;
};

// Throws NotFound, InvalidArgument, DataLoss or Unimplemented.
Artifact open_artifact(const std::string& path);

// Tensors of an optimizer rather than of the model.
bool is_optimizer_tensor(const std::string& name);

}  // namespace lockstep::cli

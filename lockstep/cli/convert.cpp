#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/artifact_internal.h"
#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/engine_loader_internal.h"
#include "lockstep/cli/output_path_internal.h"
#include "lockstep/cli/target_kind_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/tensor_bundle.h"

namespace lockstep::cli {
namespace {

using formats::Kind;

// True when the conversion needs only the tensors: no model has to be built.
bool between_listings(Kind from, Kind to) {
  if (to == Kind::kSafetensors) return true;
  const bool plain = from == Kind::kSafetensors || from == Kind::kNpz || from == Kind::kWeightsH5;
  const bool listing = plain || from == Kind::kTfCheckpoint;
  return (to == Kind::kTfCheckpoint && plain) || (to == Kind::kWeightsH5 && listing);
}

bool can_hold(Kind kind, DType dtype) {
  if (dtype == DType::kVariant) return false;
  const bool complex = is_complex(dtype);
  if (kind == Kind::kSafetensors) return dtype != DType::kString && !complex;
  return kind == Kind::kTfCheckpoint || (dtype != DType::kString && !complex);
}

void write_listing(const formats::TensorReader& reader, const std::vector<formats::TensorInfo>& infos,
                   formats::TensorWriter& writer) {
  for (const auto& info : infos) writer.add(info.name, reader.read(info.name));
  writer.finish();
}

void write_weights_h5(const Artifact& source, const std::vector<formats::TensorInfo>& infos, const std::string& out) {
  formats::WeightsPlan plan;
  for (const auto& info : infos) {
    const std::size_t slash = info.name.rfind('/');
    if (slash == std::string::npos || info.name.find("/vars/") == std::string::npos) {
      throw_invalid_argument(
          fmt::format("{}: '{}' is not a Keras weight path (such as layers/dense/vars/0); convert the model it "
                      "belongs to, or write safetensors or tf_checkpoint",
                      source.path, info.name));
    }
    plan.add(info.name, source.tensors->read(info.name));
  }
  formats::write_keras_weights(out, plan);
}

}  // namespace

int convert(const Arguments& arguments) {
  const std::string out = arguments.text("OUT");
  const Kind to = target_kind(out, arguments.maybe("--to"));
  if (arguments.has("--min-tf") && to != Kind::kSavedModel) {
    throw_usage(fmt::format("convert: --min-tf requires a SavedModel, and {} is a {} file", out, kind_name(to)));
  }
  if (arguments.has("--dialect") && to != Kind::kKerasH5)
    throw_usage(fmt::format("--dialect requires an .h5 file of a model, found {}: {}", formats::kind_name(to), out));
  if (arguments.has("--by-name") && to != Kind::kTfCheckpoint)
    throw_usage(fmt::format("--by-name requires a checkpoint of TensorFlow, found {}: {}", kind_name(to), out));
  const std::string in = arguments.text("IN");
  const formats::Detected found = formats::detect(in);
  if (arguments.has("--weights") || arguments.has("--quantize") || !between_listings(found.kind, to))
    return run_in_engine("convert", arguments);

  const Artifact source = open_artifact(in);
  if (source.kind == Kind::kFrozenGraph) {
    throw_unimplemented(
        fmt::format("{}: a frozen graph keeps constants, not variables, so it has no weights to convert", in));
  }
  std::vector<formats::TensorInfo> kept;
  std::vector<std::string> left;
  for (const auto& info : source.tensors->list()) {
    if (can_hold(to, info.dtype)) {
      kept.push_back(info);
    } else {
      left.push_back(info.name);
    }
  }
  create_parent_directories(out);
  switch (to) {
    case Kind::kSafetensors: {
      formats::SafetensorsWriter writer(out, {{"format", "lockstep"}});
      write_listing(*source.tensors, kept, writer);
      break;
    }
    case Kind::kTfCheckpoint: {
      formats::BundleWriter writer(out);
      write_listing(*source.tensors, kept, writer);
      break;
    }
    default: write_weights_h5(source, kept, out);
  }
  fmt::print("{} -> {} ({}): {} tensors\n", in, out, formats::kind_name(to), kept.size());
  if (!left.empty())
    fmt::print("not converted, because {} cannot contain them: {}\n", formats::kind_name(to), fmt::join(left, ", "));
  if (!source.config.is_null()) {
    fmt::print("not converted, because {} cannot contain it: the model's config{}\n", formats::kind_name(to),
               source.training.is_null() ? "" : " and its compile arguments");
  }
  return 0;
}

}  // namespace lockstep::cli

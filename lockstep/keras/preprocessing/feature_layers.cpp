#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/merging.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/keras/layers/unexported_layer_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/keras/preprocessing/feature_layers_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

constexpr const char* kFeatureSpace = "keras.src.layers.preprocessing.feature_space";

class FeatureIdentity : public UnexportedLayer<FeatureIdentity, NamedOptions> {
 public:
  static constexpr const char* kClass = "TFDIdentity";
  static constexpr const char* kModule = kFeatureSpace;
  template <typename V>
  static void fields(V&, NamedOptions&) {}
  explicit FeatureIdentity(NamedOptions options) : UnexportedLayer(std::move(options)) {}
  Structure call(const Structure& inputs, const CallContext&) override { return inputs; }
};

class FeatureConcat : public UnexportedLayer<FeatureConcat, ConcatenateOptions> {
 public:
  static constexpr const char* kClass = "TFDConcat";
  static constexpr const char* kModule = kFeatureSpace;
  template <typename V>
  static void fields(V& v, ConcatenateOptions& o) {
    v("axis", o.axis, Field::kRequired);
  }
  explicit FeatureConcat(ConcatenateOptions options) : UnexportedLayer(std::move(options)) {}
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensors parts = in_common_dtype(inputs.flatten());
    if (parts.empty()) throw_invalid_argument(fmt::format("TFDConcat '{}' requires inputs", name()));
    return ops::concat(parts, static_cast<int>(options_.axis));
  }
};

}  // namespace

void register_feature_layers(ClassTable& registry) {
  registry.add(layer_row<FeatureIdentity>());
  registry.add(layer_row<FeatureConcat>());
}

LayerHandle feature_identity(std::string name) {
  return std::make_shared<FeatureIdentity>(NamedOptions{.name = std::move(name), .dtype = "float32"});
}
LayerHandle feature_concat() { return std::make_shared<FeatureConcat>(ConcatenateOptions{.axis = -1}); }

}  // namespace lockstep::keras

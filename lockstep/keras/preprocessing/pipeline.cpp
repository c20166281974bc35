#include "lockstep/keras/preprocessing/pipeline.h"

#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class PipelineLayer : public ConfiguredLayer<PipelineLayer, PipelineOptions> {
 public:
  static constexpr const char* kClass = "Pipeline";
  template <typename V>
  static void fields(V& v, PipelineOptions& o) {
    v("layers", o.layers, Field::kRequired);
  }
  explicit PipelineLayer(PipelineOptions options) : ConfiguredLayer(std::move(options)) {
    std::vector<LayerTree> parts;
    for (const LayerHandle& layer : options_.layers) parts.emplace_back(layer);
    track_tree("layers", LayerTree::list(std::move(parts)));
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    config.erase("trainable");
    config.erase("dtype");
    return config;
  }
  TrainingArgument training_argument() const override { return TrainingArgument::kDefaultTrue; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "training", "mask"}; }
  void build(const Nested<Shape>&) override {}
  Structure call(const Structure& inputs, const CallContext& context) override {
    Structure x = inputs;
    for (const LayerHandle& layer : options_.layers) {
      CallOptions options;
      if (layer->training_argument() != TrainingArgument::kNone) options.training = context.training;
      x = (*layer)(x, options);
    }
    return x;
  }
};

}  // namespace

void register_pipeline(ClassTable& registry) { registry.add(layer_row<PipelineLayer>()); }

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Pipeline(std::vector<LayerHandle> layers, PipelineOptions options) {
  options.layers = std::move(layers);
  return std::make_shared<keras::PipelineLayer>(std::move(options));
}

}  // namespace lockstep::layers

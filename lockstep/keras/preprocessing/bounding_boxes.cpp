// The layer of augmentation.h that gives images the same number of boxes.
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class MaxNumBoundingBoxesLayer : public ConfiguredLayer<MaxNumBoundingBoxesLayer, MaxNumBoundingBoxesOptions> {
 public:
  static constexpr const char* kClass = "MaxNumBoundingBoxes";
  template <typename V>
  static void fields(V& v, MaxNumBoundingBoxesOptions& o) {
    v("data_format", DataFormat{o.data_format});
    v("bounding_box_format", o.bounding_box_format);
    v("max_number", o.max_number, Field::kRequired);
    v("fill_value", o.fill_value, Field::kUnwritten);
  }
  explicit MaxNumBoundingBoxesLayer(MaxNumBoundingBoxesOptions options) : ConfiguredLayer(std::move(options)) {
    const std::string who = fmt::format("MaxNumBoundingBoxes '{}'", name());
    normalize_data_format(options_.data_format, who + ": data_format");
    if (options_.max_number < 1)
      throw_invalid_argument(fmt::format("{}: max_number is {}, expected at least 1", who, options_.max_number));
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    if (!options_.bounding_box_format) config.erase("bounding_box_format");
    return config;
  }
  TrainingArgument training_argument() const override { return TrainingArgument::kDefaultTrue; }
  std::vector<std::string> argument_names() const override { return {"data"}; }
  bool casts_inputs() const override { return false; }

  Structure call(const Structure& inputs, const CallContext&) override {
    if (!inputs.is_dict()) return inputs;
    if (!options_.bounding_box_format)
      throw_invalid_argument(fmt::format(
          "MaxNumBoundingBoxes '{}' was called with bounding boxes: it requires a bounding_box_format, such as 'xyxy'",
          name()));
    Structure::Dict out;
    for (const auto& [key, value] : inputs.entries())
      out.emplace_back(key, key == "bounding_boxes" ? padded(value) : value);
    return Structure::dict(std::move(out));
  }

 private:
  Structure padded(const Structure& boxes) const {
    Structure::Dict out;
    for (const auto& [key, value] : boxes.entries()) {
      if (key != "boxes" && key != "labels")
        throw_invalid_argument(fmt::format(
            "MaxNumBoundingBoxes '{}': bounding_boxes has the key '{}', expected 'boxes' and 'labels'", name(), key));
      out.emplace_back(key, first(value.leaf()));
    }
    return Structure::dict(std::move(out));
  }
  // The first max_number rows of each image, (batch, rows, …), with the fill value where there are fewer.
  Tensor first(const Tensor& x) const {
    Tensors sizes = {ops::dim_of(x, 0), Tensor::scalar(static_cast<std::int32_t>(options_.max_number))};
    for (int axis = 2; axis < x.rank(); ++axis) sizes.push_back(ops::dim_of(x, axis));
    const Tensor fill =
        ops::fill(ops::stack(sizes), Tensor::scalar(static_cast<double>(options_.fill_value), x.dtype()));
    return ops::slice_axis(ops::concat({x, fill}, 1), 1, 0, options_.max_number);
  }
};

}  // namespace

void register_bounding_box_layers(ClassTable& registry) { registry.add(layer_row<MaxNumBoundingBoxesLayer>()); }

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle MaxNumBoundingBoxes(std::int64_t max_number, MaxNumBoundingBoxesOptions options) {
  options.max_number = max_number;
  return std::make_shared<keras::MaxNumBoundingBoxesLayer>(std::move(options));
}

}  // namespace lockstep::layers

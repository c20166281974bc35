// Whole-model `.h5` files, and `.h5` files of weights alone, as Keras 1 to 3 write them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// A layer's weights in the order of its attribute `weight_names`.
struct LegacyLayer {
  std::string name;
  std::vector<TensorInfo> weights;  // `name` is the full path in the file, to be given to read()
};

class LegacyH5 final : public TensorReader {
 public:
  // True when the file has the marks of the format: attribute `model_config` or `layer_names`, or a group
  // `model_weights`; false for Keras 3's `.weights.h5`.
  static bool recognise(const Hdf5File& file);
  // Throws DataLoss for a damaged file and for names that leave their group, NotFound for a weight that is named
  // but not there.
  static LegacyH5 open(const std::string& path, io::FileSystem& files = io::posix_file_system());
  static LegacyH5 from_image(std::span<const std::byte> image, std::shared_ptr<const void> owner, std::string what);

  const std::string& keras_version() const { return keras_version_; }  // "1" if the file has no version
  const std::string& backend() const { return backend_; }              // empty if the file does not name it
  const Json& model_config() const { return model_config_; }           // null in a file of weights
  const Json& training_config() const { return training_config_; }     // null when it was not compiled

  const std::vector<LegacyLayer>& layers() const { return layers_; }  // as in `layer_names`, weightless ones too
  const std::vector<TensorInfo>& top_level_weights() const { return top_level_; }
  // In the order of `weight_names`; empty when the optimizer was not saved.
  const std::vector<TensorInfo>& optimizer_weights() const { return optimizer_; }
  // An optimizer weight's name as its writer gave it ("adam/iteration", "Adam/m/dense/kernel:0").
  static std::string_view optimizer_weight_name(const TensorInfo& info);

  const std::vector<TensorInfo>& list() const override { return infos_; }
  TensorData read(const std::string& name) const override;
  void read_into(const std::string& name, std::span<std::byte> target) const;
  // Throws DataLoss where a name has changed: a weight, or a group of weights, that nothing names, or one of the names
  // of the format with another character.
  void check_names() const;

 private:
  explicit LegacyH5(Hdf5File file);
  std::vector<std::string> names_of(const Hdf5Node& group, const std::string& attribute, const std::string& path) const;
  std::vector<TensorInfo> weights_of(const Hdf5Node& group, const std::string& path);
  const Hdf5Node& dataset(const std::string& path) const;
  Json json_attribute(const std::string& name) const;

  std::shared_ptr<const Hdf5File> file_;
  std::string keras_version_ = "1";
  std::string backend_;
  Json model_config_;
  Json training_config_;
  std::vector<LegacyLayer> layers_;
  std::vector<TensorInfo> top_level_;
  std::vector<TensorInfo> optimizer_;
  std::vector<TensorInfo> infos_;
};

struct LegacyLayerPlan {
  std::string name;
  std::vector<WeightEntry> weights;  // paths as in `weight_names`: "sequential/dense/kernel"
};

// The content of a whole-model `.h5` that is written. With a null model_config it is a file of weights alone.
struct LegacyH5Plan {
  Json model_config;
  Json training_config;  // null: not compiled
  std::vector<LegacyLayerPlan> layers;
  std::vector<WeightEntry> top_level_weights;
  std::vector<WeightEntry> optimizer_weights;  // paths as in `weight_names`: "adam/iteration"
  std::string keras_version = "3.15.1";
  std::string backend = "tensorflow";
};

// Writes the file as one transaction, laid out as Keras 3 does.
void write_legacy_h5(const std::string& path, const LegacyH5Plan& plan,
                     io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats

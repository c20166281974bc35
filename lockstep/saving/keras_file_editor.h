// keras.saving.KerasFileEditor: the weights of a `.keras` or `.weights.h5` file, changed and saved again.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::saving {

//   keras::saving::KerasFileEditor editor("old.weights.h5");
//   editor.summary();
//   editor.rename_object("dense_2", "head");
//   editor.add_object("layers/einsum_dense", {{"0", kernel}, {"1", bias}});
//   editor.save("new.weights.h5");
//
// An object is named by its path ("layers/dense_2"), or by the last part of it where no other object has that. Unlike
// Keras's, it keeps objects that have weights only in others within them (LSTM, MultiHeadAttention).
class KerasFileEditor {
 public:
  using Weights = std::map<std::string, Tensor>;  // "0", "1", … of an object
  // Throws InvalidArgument for another suffix, and as formats::KerasArchive and formats::KerasWeights do.
  explicit KerasFileEditor(const std::string& filepath);

  const Json& metadata() const { return metadata_; }  // of a .keras file; else null
  const Json& config() const { return config_; }
  // By the paths of the objects.
  const std::map<std::string, Weights>& weights() const { return objects_; }

  // The objects and weights as a tree.
  std::string to_string() const;
  void summary() const;  // to standard output

  struct Comparison {
    std::string status;  // "success" or "error"
    int error_count = 0;
    int match_count = 0;
    std::vector<std::string> errors;  // one line for each
  };
  // With what the model would be saved as: its weights, and those of its optimizer when it is built. Keras, too, counts
  // weights that are in one of them only, and other shapes. An object without a counterpart is one error.
  Comparison compare(const keras::Model& reference_model) const;

  // Below throw NotFound for a missing object or weight, InvalidArgument for a name that several objects have and for
  // a new name with a slash, AlreadyExists for a new name that another object has.
  void rename_object(const std::string& object_name, const std::string& new_name);
  void delete_object(const std::string& object_name);
  // Throws NotFound where no object is at the path without its last part.
  void add_object(const std::string& object_path, const Weights& weights);
  void delete_weight(const std::string& object_name, const std::string& weight_name);
  void add_weights(const std::string& object_name, const Weights& weights);

  // Writes a ".weights.h5" as one transaction. Throws InvalidArgument for another suffix.
  void save(const std::string& filepath) const;
  void resave_weights(const std::string& filepath) const { save(filepath); }

 private:
  // The path of the object, which may have weights itself or in objects within it.
  std::string path_of(const std::string& object_name) const;
  bool has_object(const std::string& path) const;

  std::string filepath_;
  Json metadata_, config_;
  std::map<std::string, Weights> objects_;
};
std::ostream& operator<<(std::ostream& out, const KerasFileEditor& editor);

}  // namespace lockstep::saving

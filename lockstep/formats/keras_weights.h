// Keras 3's weights: `.weights.h5`, the same image inside `.keras`, and shards under a `.weights.json`.
// A listing of "layers/dense/vars/0" -> tensor, where the path below the root is the object's and the last part
// counts its variables (or is a word such as "idf_weights").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/hdf5_writer.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// One variable to be written. `data` is called once, when its bytes are due.
struct WeightEntry {
  std::string path;  // "layers/dense/vars/0", "optimizer/vars/3"
  DType dtype = DType::kInvalid;
  Shape shape;
  TensorSource data;
};

// The content of a weights file. Entries may come in any order: the file is sorted by path.
struct WeightsPlan {
  std::vector<WeightEntry> entries;
  // Groups to exist even when empty, with the text of their attribute `name`: {"layers/dense/vars", "dense"}.
  std::vector<std::pair<std::string, std::string>> groups;

  void add(std::string path, TensorData tensor);
  void add(std::string path, DType dtype, Shape shape, TensorSource source);
};

// Puts the plan into a writer of HDF5 files.
void add_weights(Hdf5Writer& writer, const WeightsPlan& plan);

// Writes `path` (".weights.h5") as one transaction.
void write_keras_weights(const std::string& path, const WeightsPlan& plan,
                         io::FileSystem& files = io::posix_file_system());

// The HDF5 files of `path`: of a ".weights.json" its shards, of others itself. Throws DataLoss for names of shards that
// are not in its folder.
std::vector<std::string> weight_files(const std::string& path, io::FileSystem& files = io::posix_file_system());

class KerasWeights final : public TensorReader {
 public:
  // An HDF5 image, for instance of an archive. `what` names it in errors.
  static KerasWeights from_image(std::span<const std::byte> image, std::shared_ptr<const void> owner, std::string what);
  // ".weights.h5", or ".weights.json" with its shards. Throws InvalidArgument for a legacy `.h5` file, DataLoss where
  // the shards do not have the groups that ".weights.json" lists, or others.
  static KerasWeights open(const std::string& path, io::FileSystem& files = io::posix_file_system());

  const std::vector<TensorInfo>& list() const override { return infos_; }  // sorted by path, numbers by value
  TensorData read(const std::string& name) const override;
  // Into memory of the caller's, of exactly the tensor's size: loads without a second copy.
  void read_into(const std::string& name, std::span<std::byte> target) const;
  const TensorInfo* find(std::string_view name) const;

  // The variables of the object at `inner_path` ("layers/dense", "" for the root): those of "<inner_path>/vars",
  // in order. Empty when there are none. Files of tf.keras 2.13 ("_layer_checkpoint_dependencies" for "layers") are
  // understood. Throws DataLoss when the keys are numbers but not 0..n-1.
  std::vector<TensorInfo> variables(std::string_view inner_path) const;
  // True when the file has a group at `inner_path`.
  bool has_object(std::string_view inner_path) const;
  // The attribute `name` of "<inner_path>/vars"; empty without one.
  std::string object_name(std::string_view inner_path) const;
  // Throws DataLoss where a group or a dataset has lost its name: variables of one object that are not numbered 0..n-1,
  // or, in a file with groups "vars", a dataset outside of them.
  void check_names() const;

 private:
  struct Place {
    std::size_t file = 0;
    const Hdf5Node* node = nullptr;
    std::size_t info = 0;
  };
  void add_file(Hdf5File file);
  void collect(std::size_t file, const Hdf5Node& node, const std::string& path);
  void finish();
  void check_map(const Json& map, const std::string& path) const;
  const Place& place(std::string_view name) const;
  // The path of an object that the file has under another one than today's Keras: earlier versions of Keras 3 wrote
  // objects that a layer has in a private and in a public attribute under the private name, and tf.keras 2.13 wrote the
  // layers of a model as
  // "_layer_checkpoint_dependencies". There a layer with weights counted twice: "dense", "dense_2", "dense_4".
  std::string stored_path(std::string_view inner_path) const;

  std::vector<std::unique_ptr<Hdf5File>> files_;
  std::vector<TensorInfo> infos_;
  std::map<std::string, Place, std::less<>> places_;
  // Numbers of the groups of one class, ascending, by "<path of _layer_checkpoint_dependencies>/<class>".
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> old_numbers_;
};

}  // namespace lockstep::formats

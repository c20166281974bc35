// Tensors of a checkpoint by name.
#include <ostream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/printing.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/restoration_internal.h"

namespace lockstep::train {
namespace {

std::string prefix_of(const std::optional<std::string>& given) {
  if (!given) throw_not_found("there is no checkpoint: expected a prefix or a folder, found none");
  const std::string& path = *given;
  auto& files = io::posix_file_system();
  if (io::is_file(files, formats::bundle_index_path(path)) || !io::is_directory(files, path)) return path;
  const std::string variables = saved_model_variables(path);
  if (variables != path) return variables;
  const auto latest = formats::latest_checkpoint(path);
  if (!latest) throw_not_found(fmt::format("{}: the folder has no checkpoint", path));
  return *latest;
}

}  // namespace

CheckpointReader::CheckpointReader(const std::optional<std::string>& path)
    : reader_(std::make_shared<formats::BundleReader>(prefix_of(path))) {}

bool CheckpointReader::has_tensor(const std::string& name) const { return reader_->contains(name); }

Tensor CheckpointReader::get_tensor(const std::string& name) const {
  if (!has_tensor(name)) {
    std::vector<std::string> known;
    for (const auto& info : reader_->list()) known.push_back(info.name);
    throw_not_found(
        fmt::format("{}: key {} not found in checkpoint{}", reader_->prefix(), name, did_you_mean(name, known)));
  }
  return Tensor::from_data(reader_->read(name));
}

ReaderMap<Shape> CheckpointReader::get_variable_to_shape_map() const {
  ReaderMap<Shape> shapes;
  for (const auto& info : reader_->list()) shapes.emplace(info.name, info.shape);
  return shapes;
}

ReaderMap<DType> CheckpointReader::get_variable_to_dtype_map() const {
  ReaderMap<DType> dtypes;
  for (const auto& info : reader_->list()) dtypes.emplace(info.name, info.dtype);
  return dtypes;
}

std::ostream& operator<<(std::ostream& out, const CheckpointVariables& variables) {
  const char* separator = "";
  out << "[";
  for (const auto& [name, shape] : variables) {
    out << separator << "('" << name << "', " << shape.as_list() << ")";
    separator = ", ";
  }
  return out << "]";
}
CheckpointVariables list_variables(const std::optional<std::string>& path) {
  const auto shapes = CheckpointReader(path).get_variable_to_shape_map();
  return {shapes.begin(), shapes.end()};
}

}  // namespace lockstep::train

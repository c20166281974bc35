#include "lockstep/data/fashion_mnist.h"

#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/idx.h"
#include "lockstep/ops/functions.h"

namespace lockstep::datasets {
namespace {

std::string folder_or_default(const std::string& folder) {
  if (!folder.empty()) return folder;
  const char* from_environment = std::getenv("LOCKSTEP_FASHION_MNIST");
  return from_environment && *from_environment ? from_environment : kFashionMnistFolder;
}

Tensor read(const std::string& path, int rank) {
  formats::TensorData data;
  try {
    data = formats::read_idx(path);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
    throw_not_found(
        fmt::format("Fashion-MNIST is not installed: {} does not exist; install Debian's package dataset-fashion-mnist "
                    "(apt-get install "
                    "dataset-fashion-mnist), or set LOCKSTEP_FASHION_MNIST to a folder with its four .gz files",
                    path));
  }
  if (data.dtype != DType::kUInt8 || data.shape.rank() != rank) {
    throw_data_loss(fmt::format("invalid {}: found {} {}, expected uint8 of {} axes", path, dtype_name(data.dtype),
                                data.shape.to_string(), rank));
  }
  if (rank == 3) data.shape.push_back(1);
  return Tensor::from_data(data);
}

ImageLabels read_part(const std::string& folder, const std::string& prefix) {
  ImageLabels part{read(folder + "/" + prefix + "-images-idx3-ubyte.gz", 3),
                   read(folder + "/" + prefix + "-labels-idx1-ubyte.gz", 1)};
  if (part.images.dim(0) != part.labels.dim(0)) {
    throw_data_loss(fmt::format("{}: invalid {}: found {} images and {} labels, expected equal numbers", folder, prefix,
                                part.images.dim(0), part.labels.dim(0)));
  }
  return part;
}

}  // namespace

TrainTest fashion_mnist(const std::string& folder) {
  const std::string from = folder_or_default(folder);
  return {read_part(from, "train"), read_part(from, "t10k")};
}

ImageLabels as_float(const ImageLabels& part) {
  return {ops::cast(part.images, DType::kFloat32), ops::cast(part.labels, DType::kInt64)};
}

}  // namespace lockstep::datasets

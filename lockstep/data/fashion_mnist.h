// Fashion-MNIST, as Debian's package dataset-fashion-mnist installs it.
#pragma once

#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep::datasets {

struct ImageLabels {
  Tensor images;  // uint8 (n, 28, 28, 1), 0 … 255
  Tensor labels;  // uint8 (n,), 0 … 9
};
struct TrainTest {
  ImageLabels train;  // 60,000
  ImageLabels test;   // 10,000
};

inline constexpr char kFashionMnistFolder[] = "/usr/share/datasets/fashion-mnist";

// keras.datasets.fashion_mnist.load_data(), with a channel axis. The folder is that of the Debian package
// unless the environment variable LOCKSTEP_FASHION_MNIST or `folder` names another. Throws NotFound naming
// the package when a file is missing, DataLoss when one is damaged.
TrainTest fashion_mnist(const std::string& folder = "");

// Images as float32 raw pixels and labels as int64: the command line's `fashion-mnist`.
ImageLabels as_float(const ImageLabels& part);

}  // namespace lockstep::datasets

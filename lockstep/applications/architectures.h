// keras.applications by their modules: applications::vgg16::preprocess_input, applications::vgg16::VGG16.
#pragma once

#include "lockstep/applications/applications.h"

namespace lockstep::applications {

// keras.applications.vgg16.preprocess_input and the like.
#define LOCKSTEP_PREPROCESSING(architecture, mode)                                  \
  namespace architecture {                                                          \
  inline Tensor preprocess_input(const Tensor& x) { return preprocessed(x, mode); } \
  using applications::decode_predictions;                                           \
  }
LOCKSTEP_PREPROCESSING(convnext, "")
LOCKSTEP_PREPROCESSING(densenet, "torch")
LOCKSTEP_PREPROCESSING(efficientnet, "")
LOCKSTEP_PREPROCESSING(efficientnet_v2, "")
LOCKSTEP_PREPROCESSING(inception_resnet_v2, "tf")
LOCKSTEP_PREPROCESSING(inception_v3, "tf")
LOCKSTEP_PREPROCESSING(mobilenet, "tf")
LOCKSTEP_PREPROCESSING(mobilenet_v2, "tf")
LOCKSTEP_PREPROCESSING(mobilenet_v3, "")
LOCKSTEP_PREPROCESSING(nasnet, "tf")
LOCKSTEP_PREPROCESSING(resnet, "caffe")
LOCKSTEP_PREPROCESSING(resnet50, "caffe")
LOCKSTEP_PREPROCESSING(resnet_v2, "tf")
LOCKSTEP_PREPROCESSING(vgg16, "caffe")
LOCKSTEP_PREPROCESSING(vgg19, "caffe")
LOCKSTEP_PREPROCESSING(xception, "tf")
#undef LOCKSTEP_PREPROCESSING
namespace densenet {
using applications::DenseNet121;
using applications::DenseNet169;
using applications::DenseNet201;
}  // namespace densenet
namespace inception_resnet_v2 {
using applications::InceptionResNetV2;
}
namespace inception_v3 {
using applications::InceptionV3;
}
namespace mobilenet {
using applications::MobileNet;
}
namespace mobilenet_v2 {
using applications::MobileNetV2;
}
namespace resnet {
using applications::ResNet101;
using applications::ResNet152;
using applications::ResNet50;
}  // namespace resnet
namespace resnet50 {
using applications::ResNet50;
}
namespace resnet_v2 {
using applications::ResNet101V2;
using applications::ResNet152V2;
using applications::ResNet50V2;
}  // namespace resnet_v2
namespace vgg16 {
using applications::VGG16;
}
namespace vgg19 {
using applications::VGG19;
}
namespace xception {
using applications::Xception;
}

}  // namespace lockstep::applications

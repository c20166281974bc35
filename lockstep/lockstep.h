// All of lockstep: train Keras models natively under any tf.distribute strategy, save them once, load them anywhere.
#pragma once

#include "lockstep/applications/architectures.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/version.h"
#include "lockstep/base/zip.h"
#include "lockstep/collectives/together.h"
#include "lockstep/data/data.h"
#include "lockstep/distribute/distribute.h"
#include "lockstep/graph/serialized_tensor.h"
#include "lockstep/io/gfile.h"
#include "lockstep/keras/keras.h"
#include "lockstep/mixed_arguments.h"
#include "lockstep/names.h"
#include "lockstep/numpy/functions.h"
#include "lockstep/ops/ops.h"
#include "lockstep/positions.h"
#include "lockstep/random/numpy_random.h"
#include "lockstep/random/python_module.h"
#include "lockstep/random/random.h"
#include "lockstep/random/tensorflow_random.h"
#include "lockstep/results.h"
#include "lockstep/saving/saving.h"
#include "lockstep/tensor/format.h"
#include "lockstep/tensor/nest.h"
#include "lockstep/tensor/none.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/train/train.h"

namespace lockstep::layers {
using keras::Layer;
}
// zip(model.weights(), other.weights()), len(model.layers()) without a namespace.
namespace lockstep::data {
using lockstep::len;
}  // namespace lockstep::data
namespace lockstep::distribute {
using lockstep::len;
using lockstep::zip;
}  // namespace lockstep::distribute
namespace lockstep::keras {
using lockstep::len;
using lockstep::zip;
}  // namespace lockstep::keras

// Functions that have overloads in several of these headers, in the namespaces of their second names: all of them.
namespace lockstep {
using ops::constant;
using ops::convert_to_tensor;
using ops::ensure_shape;
}  // namespace lockstep
namespace lockstep::nn {
using activations::elu;
using activations::leaky_relu;
using activations::relu;
using ops::in_top_k;
using ops::top_k;
}  // namespace lockstep::nn

namespace lockstep::image {
using io::decode_and_crop_jpeg;
using io::decode_bmp;
using io::decode_gif;
using io::decode_image;
using io::decode_jpeg;
using io::decode_png;
using io::encode_jpeg;
using io::encode_png;
using io::extract_jpeg_shape;
using io::is_jpeg;
}  // namespace lockstep::image

namespace lockstep {
using TensorShape = Shape;
}
// TensorFlow's packages of operations: math::top_k, linalg::solve; also ops::math::top_k, ops::nn::softmax.
namespace lockstep {
namespace linalg = lockstep::ops;
namespace math = lockstep::ops;
}  // namespace lockstep
namespace lockstep::ops {
namespace linalg = lockstep::ops;
namespace math = lockstep::ops;
namespace audio = lockstep::audio;
namespace image = lockstep::image;
namespace io = lockstep::io;
namespace lookup = lockstep::lookup;
namespace ragged = lockstep::ragged;
namespace signal = lockstep::signal;
namespace sparse = lockstep::sparse;
namespace nn = lockstep::nn;
namespace strings = lockstep::strings;
}  // namespace lockstep::ops

// The package tensorflow as Python has it, with `namespace tf = lockstep::tf;`: tf::reduce_mean is ops::reduce_mean,
// tf::random::normal is ops::random::normal, tf::Variable, tf::data, tf::keras and others are those of lockstep.
namespace lockstep::tf {
using namespace lockstep;
using namespace lockstep::ops;
namespace random = lockstep::ops::random;
// tf.compat.v1 and tf.compat.v2: the functions of tf that have the same arguments in them.
namespace compat {
namespace v1 = lockstep::tf;
namespace v2 = lockstep::tf;
}  // namespace compat
}  // namespace lockstep::tf

// keras.metrics has the functions of keras.losses too.
namespace lockstep::metrics {
using losses::binary_crossentropy;
using losses::binary_focal_crossentropy;
using losses::categorical_crossentropy;
using losses::categorical_focal_crossentropy;
using losses::categorical_hinge;
using losses::hinge;
using losses::huber;
using losses::kl_divergence;
using losses::log_cosh;
using losses::mean_absolute_error;
using losses::mean_absolute_percentage_error;
using losses::mean_squared_error;
using losses::mean_squared_logarithmic_error;
using losses::poisson;
using losses::sparse_categorical_crossentropy;
using losses::squared_hinge;
}  // namespace lockstep::metrics

// Names of earlier versions of Keras.
namespace lockstep::utils {
using custom_object_scope = keras::CustomObjectScope;
using keras::CustomObjectScope;
using keras::get_custom_objects;
using keras::get_registered_name;
using keras::get_registered_object;
using keras::register_keras_serializable;
}  // namespace lockstep::utils

// Keras's packages by their names in Python: keras::layers::Dense, keras::models::load_model.
namespace lockstep::keras {
namespace activations = lockstep::activations;
namespace applications = lockstep::applications;
namespace callbacks = lockstep::callbacks;
namespace constraints = lockstep::constraints;
namespace datasets = lockstep::datasets;
namespace initializers = lockstep::initializers;
namespace layers = lockstep::layers;
namespace losses = lockstep::losses;
namespace metrics = lockstep::metrics;
namespace ops = lockstep::keras_ops;
namespace optimizers = lockstep::optimizers;
namespace quantizers = lockstep::quantizers;
namespace random = lockstep::random;
namespace regularizers = lockstep::regularizers;
namespace tree = lockstep::keras_tree;
namespace utils = lockstep::utils;
namespace preprocessing {
using utils::image_dataset_from_directory;
using utils::text_dataset_from_directory;
using utils::timeseries_dataset_from_array;
}  // namespace preprocessing
namespace preprocessing::image {
using utils::array_to_img;
using utils::img_to_array;
using utils::load_img;
using utils::save_img;
}  // namespace preprocessing::image
namespace preprocessing::sequence {
using utils::make_sampling_table;
using utils::pad_sequences;
using utils::skipgrams;
}  // namespace preprocessing::sequence
namespace mixed_precision {
using backend::dtype_policy;
using keras::set_dtype_policy;
using optimizers::LossScaleOptimizer;
using Policy = DTypePolicy;
inline void set_global_policy(const DTypePolicy& policy) { set_dtype_policy(policy.name()); }
inline DTypePolicy global_policy() { return dtype_policy(); }
}  // namespace mixed_precision
namespace saving {
using custom_object_scope = CustomObjectScope;
using keras::custom_object;
using keras::CustomObjectScope;
using keras::get_custom_objects;
using keras::get_registered_name;
using keras::get_registered_object;
using keras::load_model;
using keras::register_keras_serializable;
using lockstep::saving::deserialize_keras_object;
using lockstep::saving::KerasFileEditor;
using lockstep::saving::save_model;
using lockstep::saving::serialize_keras_object;
}  // namespace saving
namespace models {
using keras::clone_model;
using keras::load_model;
using keras::Model;
using keras::model_from_json;
using keras::Sequential;
using lockstep::saving::save_model;
}  // namespace models
}  // namespace lockstep::keras

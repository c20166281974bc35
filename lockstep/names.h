// Names of classes and functions in the modules where TensorFlow and Keras have them: distribute::cluster_resolver,
// train::ClusterSpec, random::experimental::Generator, keras::version(), ...; included by lockstep.h.
#pragma once

#include <string>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/distribute/cluster_resolver.h"
#include "lockstep/io/gfile.h"
#include "lockstep/keras/backend.h"
#include "lockstep/random/generator.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::distribute::cluster_resolver {
using distribute::ClusterResolver;
using distribute::SimpleClusterResolver;
using distribute::SlurmClusterResolver;
using distribute::TFConfigClusterResolver;
}  // namespace lockstep::distribute::cluster_resolver

namespace lockstep::train {
using distribute::ClusterSpec;
}

namespace lockstep::random::experimental {
using lockstep::random::Generator;
using lockstep::random::get_global_generator;
using lockstep::random::set_global_generator;
}  // namespace lockstep::random::experimental

namespace lockstep::keras {
using lockstep::version;
}

namespace lockstep::keras::backend {
inline std::string standardize_dtype(DTypeLike dtype) { return std::string(dtype_name(dtype)); }
inline bool is_float_dtype(DTypeLike dtype) { return is_floating(dtype); }
inline bool is_int_dtype(DTypeLike dtype) { return is_integer(dtype); }
inline bool is_keras_tensor(const Tensor& x) { return x.defined() && x.is_symbolic(); }
// Messages of errors are one line.
inline void enable_traceback_filtering() {}
inline void disable_traceback_filtering() {}
}  // namespace lockstep::keras::backend

namespace lockstep::utils {
using keras::backend::is_keras_tensor;
using keras::backend::standardize_dtype;
}  // namespace lockstep::utils

// The codes of tf.errors: error.code() == errors::NOT_FOUND.
namespace lockstep::errors {
inline constexpr Code CANCELLED = Code::kCancelled;
inline constexpr Code UNKNOWN = Code::kUnknown;
inline constexpr Code INVALID_ARGUMENT = Code::kInvalidArgument;
inline constexpr Code DEADLINE_EXCEEDED = Code::kDeadlineExceeded;
inline constexpr Code NOT_FOUND = Code::kNotFound;
inline constexpr Code ALREADY_EXISTS = Code::kAlreadyExists;
inline constexpr Code PERMISSION_DENIED = Code::kPermissionDenied;
inline constexpr Code RESOURCE_EXHAUSTED = Code::kResourceExhausted;
inline constexpr Code FAILED_PRECONDITION = Code::kFailedPrecondition;
inline constexpr Code ABORTED = Code::kAborted;
inline constexpr Code OUT_OF_RANGE = Code::kOutOfRange;
inline constexpr Code UNIMPLEMENTED = Code::kUnimplemented;
inline constexpr Code INTERNAL = Code::kInternal;
inline constexpr Code UNAVAILABLE = Code::kUnavailable;
inline constexpr Code DATA_LOSS = Code::kDataLoss;
}  // namespace lockstep::errors

namespace lockstep::saved_model {
inline const std::string SERVING = "serve";
inline const std::string TRAINING = "train";
inline const std::string GPU = "gpu";
inline const std::string TPU = "tpu";
inline const std::string DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default";
inline const std::string CLASSIFY_METHOD_NAME = "tensorflow/serving/classify";
inline const std::string PREDICT_METHOD_NAME = "tensorflow/serving/predict";
inline const std::string REGRESS_METHOD_NAME = "tensorflow/serving/regress";
inline const std::string CLASSIFY_INPUTS = "inputs";
inline const std::string CLASSIFY_OUTPUT_CLASSES = "classes";
inline const std::string CLASSIFY_OUTPUT_SCORES = "scores";
inline const std::string PREDICT_INPUTS = "inputs";
inline const std::string PREDICT_OUTPUTS = "outputs";
inline const std::string REGRESS_INPUTS = "inputs";
inline const std::string REGRESS_OUTPUTS = "outputs";
inline const std::string ASSETS_DIRECTORY = "assets";
inline const std::string ASSETS_KEY = "saved_model_assets";
inline const std::string DEBUG_DIRECTORY = "debug";
inline const std::string DEBUG_INFO_FILENAME_PB = "saved_model_debug_info.pb";
inline const std::string VARIABLES_DIRECTORY = "variables";
inline const std::string VARIABLES_FILENAME = "variables";
inline const std::string SAVED_MODEL_FILENAME_PB = "saved_model.pb";
inline const std::string SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt";
inline constexpr int SAVED_MODEL_SCHEMA_VERSION = 1;
inline bool contains_saved_model(const std::string& export_dir) {
  return io::gfile::exists(io::gfile::join(export_dir, "saved_model.pb"));
}
}  // namespace lockstep::saved_model

// The environment variable OMP_NUM_THREADS sets the number of threads; these change nothing.
namespace lockstep::config::threading {
inline void set_intra_op_parallelism_threads(int) {}
inline void set_inter_op_parallelism_threads(int) {}
}  // namespace lockstep::config::threading

// Names of classes and functions in the modules where TensorFlow and Keras have them: distribute::cluster_resolver,
// train::ClusterSpec, random::experimental::Generator, keras::version(), ...; included by lockstep.h.
#pragma once

#include <string>

#include "lockstep/base/dtype_like.h"
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

namespace lockstep::saved_model {
inline const std::string SERVING = "serve";
inline const std::string TRAINING = "train";
inline const std::string DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default";
inline bool contains_saved_model(const std::string& export_dir) {
  return io::gfile::exists(io::gfile::join(export_dir, "saved_model.pb"));
}
}  // namespace lockstep::saved_model

// The environment variable OMP_NUM_THREADS sets the number of threads; these change nothing.
namespace lockstep::config::threading {
inline void set_intra_op_parallelism_threads(int) {}
inline void set_inter_op_parallelism_threads(int) {}
}  // namespace lockstep::config::threading

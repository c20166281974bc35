// Arrays of users, converted to a model's inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/cli/options_internal.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::cli {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// The arrays of a .npy (under the name "arr_0") or .npz file. Floats are float32 afterwards, as Keras takes them.
NamedTensors read_arrays(const std::string& path, bool floats_to_float32 = true);
// True when the names are NumPy's arr_0, arr_1, …
bool positional(const NamedTensors& arrays);
// In the order of `names`: positional arrays by position, others by name. One array for one name fits whatever it is
// called. Throws InvalidArgument, naming the missing and the existing arrays.
std::vector<Tensor> arrange(const NamedTensors& arrays, const std::vector<std::string>& names, const std::string& path);

// Writes a .npy for a single output, else a .npz; creates missing folders. Throws InvalidArgument for a .npy with
// several outputs.
void write_outputs(const std::string& path, const NamedTensors& outputs);

// Names of a functional model's inputs and of its outputs (the layers that produce them, or the keys of a dict), in the
// order of flattening; empty for a subclassed model. Inputs of a dict have the names of their layers where `arrays` has
// an array for each of these, named after `prefix`.
std::vector<std::string> input_names(const keras::Model& model, const NamedTensors& arrays,
                                     std::string_view prefix = "");
std::vector<std::string> output_names(const keras::Model& model);
// The model's input structure with these leaves.
keras::Structure input_structure(const keras::Model& model, std::vector<Tensor> leaves);

// Whether a file has the values of MODEL's weights: it is more than an architecture, or --weights is given.
bool has_weights(const Arguments& arguments);
// What the memory and the time of a run of MODEL grow with: bytes of its weights, where a file has their values, and a
// multiple of those of the inputs.
std::int64_t held_bytes(const Arguments& arguments, const keras::Model& model, const std::vector<Tensor>& inputs);

struct Examples {
  keras::Structure x;
  keras::Structure y;
  keras::Structure sample_weight;
};

// The data of --data: a .npz, "fashion-mnist" (its test part when `evaluate`), or "fashion-mnist:test". Inputs are
// multiplied by `rescale`.
Examples read_examples(const std::string& name, const keras::Model& model, bool evaluate,
                       std::optional<double> rescale);

// The factor of --rescale; empty when the option was not given.
std::optional<double> rescale_of(const Arguments& arguments);

// Whether this process prints results: of several workers only the chief does.
bool prints_output(const Arguments& arguments);
// 1 (a progress bar) for a process that prints to a terminal, else 0.
int verbosity(const Arguments& arguments);

}  // namespace lockstep::cli

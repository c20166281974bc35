// keras.export.ExportArchive: SavedModels with user-defined endpoints.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/keras/models/model.h"
#include "lockstep/ops/function.h"
#include "lockstep/saving/saved_model.h"
#include "lockstep/train/module.h"

namespace lockstep::saved_model {

using lockstep::TensorSpec;

struct EndpointKeywords {
  FieldNamesOnly names_only = {};
  Specs input_signature = {};
};

struct WriteOutKeywords {
  FieldNamesOnly names_only = {};
  SaveOptions options = {};
  bool verbose = true;  // has no effect: nothing is printed
};

//   saved_model::ExportArchive archive;
//   archive.track(model);
//   archive.add_endpoint("serve", [&](const Tensor& x) { return model(x, {.training = false}); },
//                        saved_model::TensorSpec({kUnknownDim, 3}, DType::kFloat32, "x"));
//   archive.write_out("path/to/location");
//
// Every endpoint is a function of the loaded object and a signature; the first one is also the signature
// "serving_default", unless one of that name is added.
class ExportArchive {
 public:
  // Tracks the variables of a layer or a model; everything that endpoints use must be tracked.
  void track(const keras::LayerHandle& resource);
  // Tracks the variables and modules of a tf.Module under the names of its attributes, which the loaded object has. A
  // function of the module that is called, `@tf.function def __call__(self, x)`, is the endpoint "__call__".
  void track(const Module& module);

  // A function of one argument, a tensor or a structure of tensors. Names of specs are the signature's input names; an
  // empty one of a single spec is "inputs". As in Keras a list of one spec, {TensorSpec(...)}, lists the argument.
  // Throws AlreadyExists for a second endpoint of that name. Positional arguments are templates, because GCC would take
  // {.input_signature = ...} for a list.
  template <std::convertible_to<Specs> S = Specs>
  void add_endpoint(const std::string& name, std::function<Structure(const Structure&)> fn, const S& input_signature) {
    add_function(name, std::move(fn), input_signature);
  }
  void add_endpoint(const std::string& name, std::function<Structure(const Structure&)> fn, EndpointKeywords keywords) {
    add_function(name, std::move(fn), std::move(keywords.input_signature));
  }
  // Of several arguments, one spec for each. Throws InvalidArgument for specs without a name.
  template <typename Fn>
  requires(std::is_invocable_v<Fn&, const std::vector<Structure>&> &&
           !std::is_invocable_v<Fn&, const Tensor&>) void add_endpoint(const std::string& name, Fn fn,
                                                                       std::vector<Specs> input_signature) {
    add_function_of_several(name, std::move(fn), std::move(input_signature));
  }
  // track(), and an endpoint that calls the layer or model without training.
  void track_and_add_endpoint(const std::string& name, const keras::LayerHandle& resource, Specs input_signature);
  // Variables that the loaded object has under this name.
  void add_variable_collection(const std::string& name, const std::vector<VariablePtr>& variables);

  // Writes the SavedModel. Throws FailedPrecondition without an endpoint, and for a variable that an endpoint uses and
  // that was not tracked.
  void write_out(const std::string& path, const SaveOptions& options = {}) const;
  void write_out(const std::string& path, const WriteOutKeywords& keywords) const { write_out(path, keywords.options); }

 private:
  void add(const std::string& name, ExportFunction function);
  void add_function(const std::string& name, std::function<Structure(const Structure&)> fn, Specs input_signature);
  void add_function_of_several(const std::string& name, std::function<Structure(const std::vector<Structure>&)> fn,
                               std::vector<Specs> input_signature);

  Exportable contents_;
};

// Signatures of a SavedModel: one function, which is "serving_default", or several by their names.
class Signatures {
 public:
  Signatures() = default;
  Signatures(const Function& function) : entries_{{"serving_default", function}} {}
  Signatures(std::initializer_list<std::pair<std::string, Function>> entries) : entries_(entries) {}
  Signatures(const std::map<std::string, Function>& entries) : entries_(entries.begin(), entries.end()) {}
  const std::vector<std::pair<std::string, Function>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, Function>> entries_;
};
struct SaveModuleKeywords {
  FieldNamesOnly names_only = {};
  Signatures signatures = {};  // default: the only function with an input signature
  SaveOptions options = {};
};

// tf.saved_model.save of a tf.Module: its variables and modules, and the functions that these track, under the names of
// their attributes: see Function::concrete_functions(). The inputs of a signature have the names of the specs; the only
// spec without a name is "inputs", others are args_0, args_1, ... Throws InvalidArgument for a signature whose function
// has no input signature and is not from get_concrete_function(), FailedPrecondition for a variable that a function
// uses and the module does not track.
void save(const Module& module, const std::string& path, const SaveModuleKeywords& keywords = {});

}  // namespace lockstep::saved_model

// keras.export; `export` is a keyword of C++.
namespace lockstep::keras::export_ {
using saved_model::ExportArchive;
}  // namespace lockstep::keras::export_

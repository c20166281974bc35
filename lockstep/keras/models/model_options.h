// The keyword arguments of the methods of models.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/tensor_spec.h"
#include "lockstep/keras/layers/dtype_policy.h"
#include "lockstep/keras/nested.h"

namespace lockstep::keras {

struct SummaryOptions {
  int line_length = 0;  // 0: Keras's default width, 88 or 108 columns, but no more than the terminal has
  std::function<void(const std::string& text)> print_fn = {};  // summary() calls it once; default: standard output
  bool expand_nested = false;
  bool show_trainable = false;
};

struct QuantizeOptions {
  FieldNamesOnly names_only = {};
  // Regular expressions (RE2): only layers in whose name one of them is found. Empty: all.
  std::vector<std::string> filters = {};
};

struct SaveKeywords {
  FieldNamesOnly names_only = {};
  std::string filepath = {};
  bool overwrite = true;
  bool include_optimizer = true;  // of .h5 files, as in Keras
};
struct SaveOptions {
  FieldNamesOnly names_only = {};
  bool overwrite = true;
  bool include_optimizer = true;
};
struct SaveWeightsKeywords {
  FieldNamesOnly names_only = {};
  std::string filepath = {};
  bool overwrite = true;
};
struct OverwriteOptions {
  FieldNamesOnly names_only = {};
  bool overwrite = true;
};
struct LoadWeightsKeywords {
  FieldNamesOnly names_only = {};
  std::string filepath = {};
  bool skip_mismatch = false;
  bool by_name = false;
};
struct LoadWeightsOptions {
  FieldNamesOnly names_only = {};
  bool skip_mismatch = false;  // skip variables with other shapes, with a warning
  bool by_name = false;        // of .h5 files of Keras 2: layers are matched by their names
};

// Of export_().
struct ExportOptions {
  FieldNamesOnly names_only = {};
  std::string format = "tf_saved_model";  // the only one
  bool verbose = true;                    // has no effect: nothing is printed
  // Default: that of the model's inputs, with an open batch axis. Names are those of the inputs of the signature.
  Nested<TensorSpec> input_signature = {};
};

struct ModelOptions {
  bool trainable = true;
  std::string name = {};  // default: the snake-case class name, numbered per process
};

// All arguments by name: keras::Model({.inputs = x, .outputs = y, .name = "encoder"}). Without inputs and outputs those
// of a model whose class overrides call(): Model({.name = "mine"}). Throws InvalidArgument where one of both is
// missing.
struct ModelArguments {
  FieldNamesOnly names_only = {};
  struct Tensors : Structure {
    Tensors() = default;
    template <std::convertible_to<Structure> S>
    Tensors(const S& structure) : Structure(structure), given(true) {}
    Tensors(std::initializer_list<Structure> items) : Structure(items), given(true) {}
    Tensors(std::initializer_list<Structure::Entry> entries) : Structure(entries), given(true) {}
    bool given = false;
  };
  Tensors inputs = {};
  Tensors outputs = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};  // of a class of models; functional models have those of their layers
};

// Arguments of compute_loss() by name.
struct LossArguments {
  FieldNamesOnly names_only = {};
  Structure x = {};
  Structure y = {};
  Structure y_pred = {};
  Structure sample_weight = {};
  bool training = true;  // without effect, as in Keras
};

// Arguments of get_layer() by name: get_layer({.index = 0}).
struct GetLayerArguments {
  FieldNamesOnly names_only = {};
  std::string name = {};
  std::optional<int> index = std::nullopt;
};

}  // namespace lockstep::keras

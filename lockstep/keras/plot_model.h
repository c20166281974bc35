// keras.utils.plot_model: a model as a picture.
#pragma once

#include <string>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::utils {

struct PlotOptions {
  FieldNamesOnly names_only = {};
  std::string to_file = "model.svg";  // of plot_model(), where it is not given by position
  bool show_shapes = false;
  bool show_dtype = false;
  bool show_layer_names = false;
  std::string rankdir = "TB";  // direction of the edges: "TB" (downwards), "BT", "LR" or "RL"
  bool expand_nested = false;  // models inside the model as frames around their layers
  bool show_layer_activations = false;
  bool show_trainable = false;
};

// The picture as an SVG document, which needs no other program to be shown: a box for each layer, with the strings that
// Keras has in its boxes. Throws FailedPrecondition for a model that has not been built, and InvalidArgument for an
// unknown rankdir.
std::string model_to_svg(const keras::Model& model, const PlotOptions& options = {});

// The same as a graph of Graphviz's language, as Keras's model_to_dot() writes it.
std::string model_to_dot(const keras::Model& model, const PlotOptions& options = {});

// Writes either of them: to_file ends in .svg or .dot (InvalidArgument otherwise).
void plot_model(const keras::Model& model, const PlotOptions& options = {});
inline void plot_model(const keras::Model& model, const TextArg& to_file, PlotOptions options = {}) {
  options.to_file = to_file;
  plot_model(model, options);
}

}  // namespace lockstep::utils

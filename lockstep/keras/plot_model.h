// keras.utils.plot_model: a model as a picture.
#pragma once

#include <concepts>
#include <string>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::utils {

struct PlotOptions {
  FieldNamesOnly names_only = {};
  bool show_shapes = false;
  bool show_dtype = false;
  bool show_layer_names = false;
  std::string rankdir = "TB";  // direction of the edges: "TB" (downwards), "BT", "LR" or "RL"
  bool expand_nested = false;  // models inside the model as frames around their layers
  bool show_layer_activations = false;
  bool show_trainable = false;
};

// The picture as an SVG document, which needs no other program to be shown: a box for each layer, with the texts that
// Keras has in its boxes. Throws FailedPrecondition for a model that has not been built, and InvalidArgument for an
// unknown rankdir.
std::string model_to_svg(const keras::Model& model, const PlotOptions& options = {});

// The same as a graph of Graphviz's language, as Keras's model_to_dot() writes it.
std::string model_to_dot(const keras::Model& model, const PlotOptions& options = {});

// Writes either of them: to_file ends in .svg or .dot (InvalidArgument otherwise).
void write_plot(const keras::Model& model, const std::string& to_file, const PlotOptions& options);
// A template, because GCC would take {.to_file = "a.svg", .show_shapes = true} for a text.
template <std::convertible_to<std::string> Text>
void plot_model(const keras::Model& model, const Text& to_file, const PlotOptions& options = {}) {
  write_plot(model, to_file, options);
}
// plot_model(model, {.to_file = "model.svg", .show_shapes = true}).
struct PlotKeywords {
  FieldNamesOnly names_only = {};
  std::string to_file = "model.svg";
  bool show_shapes = false;
  bool show_dtype = false;
  bool show_layer_names = false;
  std::string rankdir = "TB";
  bool expand_nested = false;
  bool show_layer_activations = false;
  bool show_trainable = false;
};
inline void plot_model(const keras::Model& model, const PlotKeywords& o = {}) {
  write_plot(model, o.to_file,
             {.show_shapes = o.show_shapes,
              .show_dtype = o.show_dtype,
              .show_layer_names = o.show_layer_names,
              .rankdir = o.rankdir,
              .expand_nested = o.expand_nested,
              .show_layer_activations = o.show_layer_activations,
              .show_trainable = o.show_trainable});
}

}  // namespace lockstep::utils

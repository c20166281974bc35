// What a picture of a model shows: boxes, frames and edges.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/plot_model.h"

namespace lockstep::utils {

// A piece of text in a box, of which a part is bold: "Output shape: (None, 4)".
struct PlotText {
  std::string plain, bold;
  std::string color = {};  // of the background behind white text; empty: white behind black
};

// A layer, or a frame around the layers of a nested model.
struct PlotItem {
  const keras::Operation* operation = nullptr;  // of a box
  std::string class_name = {};                  // of a box
  std::string name = {};                        // of a layer, or of the model in a frame
  std::string activation = {};                  // empty: not shown
  std::vector<PlotText> cells = {};             // the last line of a box
  std::vector<PlotItem> items = {};             // of a frame
  bool is_frame() const { return !operation; }
};

struct PlotGraph {
  std::vector<PlotItem> items;
  std::vector<std::pair<const keras::Operation*, const keras::Operation*>> edges;  // each once
};

// Throws FailedPrecondition for a model that has not been built, InvalidArgument for an unknown rankdir.
PlotGraph plot_graph(const keras::Model& model, const PlotOptions& options);

// The first line of a box: (name, class name) with names, else (class name, "").
std::pair<std::string, std::string> plot_title(const PlotItem& item, const PlotOptions& options);

// '&', '<', '>' and '"' as XML entities.
std::string plot_escaped(const std::string& text);

}  // namespace lockstep::utils

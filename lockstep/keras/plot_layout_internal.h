// Places for the boxes and edges of a picture, in layers from the sources of the graph to its ends.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep::utils {

// `across` are the coordinates within a layer, `along` those in the direction of the edges.
struct PlotPoint {
  double across = 0, along = 0;
};

struct PlotRectangle {
  PlotPoint at = {};  // the least coordinates
  double width = 0;   // across
  double depth = 0;   // along
};

struct PlotLayout {
  std::vector<PlotRectangle> rectangles;       // in the order of the items
  std::vector<std::vector<PlotPoint>> routes;  // of each edge, the points between its ends
  double width = 0, depth = 0;
};

// Items of these sizes (their places are ignored), and edges between their numbers without cycles.
PlotLayout place_in_layers(const std::vector<PlotRectangle>& sizes,
                           const std::vector<std::pair<std::size_t, std::size_t>>& edges);

}  // namespace lockstep::utils

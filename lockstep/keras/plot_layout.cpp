// Layered drawing: longest paths give the layers, barycenters the order within them, and the places across are the
// nearest ones to the means of neighbours that keep the distances.
#include "lockstep/keras/plot_layout_internal.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace lockstep::utils {
namespace {

constexpr double kGapAcross = 24, kGapAlong = 44;
constexpr int kSweeps = 8;

// An item, or the point at which an edge passes a layer.
struct Vertex {
  double width = 0, depth = 0;
  std::size_t layer = 0;
  std::vector<std::size_t> before = {}, after = {};
  double center = 0;
};

class Layers {
 public:
  Layers(const std::vector<PlotRectangle>& sizes, const std::vector<std::pair<std::size_t, std::size_t>>& edges)
      : edges_(edges) {
    for (const PlotRectangle& size : sizes) vertices_.push_back({size.width, size.depth});
    assign_layers();
    add_passing_points();
    layers_.resize(number_of_layers());
    for (std::size_t i = 0; i < vertices_.size(); ++i) layers_[vertices_[i].layer].push_back(i);
    order();
    place_across();
  }

  PlotLayout layout(std::size_t items) const {
    PlotLayout made;
    std::vector<double> top(layers_.size()), depth(layers_.size());
    double along = 0;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      for (const std::size_t i : layers_[layer]) depth[layer] = std::max(depth[layer], vertices_[i].depth);
      top[layer] = along;
      along += depth[layer] + kGapAlong;
    }
    double least = 0, greatest = 0;
    for (std::size_t i = 0; i < vertices_.size(); ++i) {
      const Vertex& v = vertices_[i];
      least = i == 0 ? v.center - v.width / 2 : std::min(least, v.center - v.width / 2);
      greatest = i == 0 ? v.center + v.width / 2 : std::max(greatest, v.center + v.width / 2);
    }
    for (std::size_t i = 0; i < items; ++i) {
      const Vertex& v = vertices_[i];
      made.rectangles.push_back(
          {{v.center - v.width / 2 - least, top[v.layer] + (depth[v.layer] - v.depth) / 2}, v.width, v.depth});
    }
    for (const std::vector<std::size_t>& points : points_) {
      std::vector<PlotPoint> route;
      for (const std::size_t i : points) {
        const Vertex& v = vertices_[i];
        route.push_back({v.center - least, top[v.layer]});
        route.push_back({v.center - least, top[v.layer] + depth[v.layer]});
      }
      made.routes.push_back(std::move(route));
    }
    made.width = greatest - least;
    made.depth = layers_.empty() ? 0 : along - kGapAlong;
    return made;
  }

 private:
  void assign_layers() {
    std::vector<std::vector<std::size_t>> targets(vertices_.size()), sources(vertices_.size());
    std::vector<std::size_t> waiting(vertices_.size()), ready;
    for (const auto& [from, to] : edges_) {
      targets[from].push_back(to);
      sources[to].push_back(from);
      ++waiting[to];
    }
    for (std::size_t i = 0; i < vertices_.size(); ++i) {
      if (waiting[i] == 0) ready.push_back(i);
    }
    for (std::size_t next = 0; next < ready.size(); ++next) {
      for (const std::size_t to : targets[ready[next]]) {
        vertices_[to].layer = std::max(vertices_[to].layer, vertices_[ready[next]].layer + 1);
        if (--waiting[to] == 0) ready.push_back(to);
      }
    }
    // Sources stand next to the first of those that read them.
    for (std::size_t i = 0; i < vertices_.size(); ++i) {
      if (!sources[i].empty() || targets[i].empty()) continue;
      std::size_t nearest = vertices_[targets[i][0]].layer;
      for (const std::size_t to : targets[i]) nearest = std::min(nearest, vertices_[to].layer);
      vertices_[i].layer = nearest - 1;
    }
  }

  void add_passing_points() {
    for (const auto& [from, to] : edges_) {
      std::vector<std::size_t> points;
      std::size_t last = from;
      for (std::size_t layer = vertices_[from].layer + 1; layer < vertices_[to].layer; ++layer) {
        Vertex point;
        point.layer = layer;
        vertices_.push_back(point);
        points.push_back(vertices_.size() - 1);
        link(last, points.back());
        last = points.back();
      }
      link(last, to);
      points_.push_back(std::move(points));
    }
  }

  void link(std::size_t from, std::size_t to) {
    vertices_[from].after.push_back(to);
    vertices_[to].before.push_back(from);
  }

  std::size_t number_of_layers() const {
    std::size_t count = 0;
    for (const Vertex& v : vertices_) count = std::max(count, v.layer + 1);
    return count;
  }

  // Within each layer by the mean position of neighbours in the layer before or after.
  void order() {
    std::vector<double> position(vertices_.size());
    const auto number = [&](const std::vector<std::size_t>& layer) {
      for (std::size_t i = 0; i < layer.size(); ++i) position[layer[i]] = static_cast<double>(i);
    };
    for (const auto& layer : layers_) number(layer);
    const auto sort = [&](std::vector<std::size_t>& layer, bool by_sources) {
      std::map<std::size_t, double> mean;
      for (const std::size_t i : layer) {
        const auto& near = by_sources ? vertices_[i].before : vertices_[i].after;
        double sum = 0;
        for (const std::size_t other : near) sum += position[other];
        mean[i] = near.empty() ? position[i] : sum / static_cast<double>(near.size());
      }
      std::stable_sort(layer.begin(), layer.end(), [&](std::size_t a, std::size_t b) { return mean[a] < mean[b]; });
      number(layer);
    };
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (auto& layer : layers_) sort(layer, true);
      for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) sort(*layer, false);
    }
    for (auto& layer : layers_) sort(layer, true);
  }

  void place_across() {
    for (const auto& layer : layers_) {
      double at = 0;
      for (const std::size_t i : layer) {
        vertices_[i].center = at + vertices_[i].width / 2;
        at += vertices_[i].width + kGapAcross;
      }
    }
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (const auto& layer : layers_) settle(layer, true);
      for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) settle(*layer, false);
    }
  }

  // The least squares of the distances to the wanted places under which neighbours keep their distance: an isotonic
  // regression of the wanted places without the distances.
  void settle(const std::vector<std::size_t>& layer, bool by_sources) {
    struct Group {
      double sum = 0;
      std::size_t count = 0;
      double mean() const { return sum / static_cast<double>(count); }
    };
    std::vector<Group> groups;
    std::vector<double> offset(layer.size());
    for (std::size_t i = 0; i < layer.size(); ++i) {
      const Vertex& v = vertices_[layer[i]];
      if (i > 0) offset[i] = offset[i - 1] + (vertices_[layer[i - 1]].width + v.width) / 2 + kGapAcross;
      const auto& near = by_sources ? v.before : v.after;
      double wanted = v.center;
      if (!near.empty()) {
        wanted = 0;
        for (const std::size_t other : near) wanted += vertices_[other].center;
        wanted /= static_cast<double>(near.size());
      }
      groups.push_back({wanted - offset[i], 1});
      while (groups.size() > 1 && groups[groups.size() - 2].mean() > groups.back().mean()) {
        const Group last = groups.back();
        groups.pop_back();
        groups.back().sum += last.sum;
        groups.back().count += last.count;
      }
    }
    std::size_t i = 0;
    for (const Group& group : groups) {
      for (std::size_t end = i + group.count; i < end; ++i) vertices_[layer[i]].center = group.mean() + offset[i];
    }
  }

  const std::vector<std::pair<std::size_t, std::size_t>>& edges_;
  std::vector<Vertex> vertices_;  // items first
  std::vector<std::vector<std::size_t>> layers_;
  std::vector<std::vector<std::size_t>> points_;  // of each edge
};

}  // namespace

PlotLayout place_in_layers(const std::vector<PlotRectangle>& sizes,
                           const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
  return Layers(sizes, edges).layout(sizes.size());
}

}  // namespace lockstep::utils

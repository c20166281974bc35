#include "lockstep/keras/plot_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/keras/plot_graph_internal.h"
#include "lockstep/keras/plot_layout_internal.h"

namespace lockstep::utils {
namespace {

using keras::Operation;

constexpr double kTitleSize = 16, kTextSize = 14, kTitleHeight = 34, kLineHeight = 32, kMargin = 12;
constexpr double kFrameMargin = 16, kFrameTitle = 26, kPage = 12;

// Of a text in Helvetica, in the unit of `size`.
double text_width(const std::string& text, double size, bool bold) {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // within a character of several bytes
    if (std::string_view("iljftrI.,:;'|!()[] ").find(c) != std::string_view::npos) {
      width += 0.33;
    } else if (std::string_view("mwMW").find(c) != std::string_view::npos) {
      width += 0.88;
    } else {
      width += byte >= 0x80 || (c >= 'A' && c <= 'Z') ? 0.7 : 0.56;
    }
  }
  return width * size * (bold ? 1.08 : 1);
}

double width_of(const PlotText& text) {
  return text_width(text.plain, kTextSize, false) + text_width(text.bold, kTextSize, true) + 2 * kMargin;
}

class Picture {
 public:
  Picture(const PlotGraph& graph, const PlotOptions& options)
      : graph_(graph), options_(options), sideways_(options.rankdir == "LR" || options.rankdir == "RL") {
    const Block page = place(graph.items);
    width_ = sideways_ ? page.depth : page.width;
    height_ = sideways_ ? page.width : page.depth;
    extent_ = page.depth;
    for (std::size_t i = 0; i < graph.items.size(); ++i) draw(graph.items[i], page.parts[i], {0, 0});
    draw_edges(page, {0, 0});
  }

  std::string text() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"{2:.0f} {2:.0f} "
        "{0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
        "<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"6\" markerHeight=\"6\" "
        "orient=\"auto\"><path d=\"M0 0L10 5L0 10z\"/></marker></defs>\n"
        "<rect x=\"{2:.0f}\" y=\"{2:.0f}\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n{3}{4}</svg>\n",
        width_ + 2 * kPage, height_ + 2 * kPage, -kPage, boxes_, lines_);
  }

 private:
  struct Part;
  // The places of items within a frame or on the page.
  struct Block {
    std::vector<Part> parts;
    std::vector<std::pair<const Operation*, const Operation*>> edges;  // between different parts
    std::vector<std::vector<PlotPoint>> routes;
    double width = 0, depth = 0;
  };
  struct Part {
    PlotRectangle place;
    Block inside;  // of a frame
  };
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
  };

  static bool contains(const PlotItem& item, const Operation* operation) {
    if (!item.is_frame()) return item.operation == operation;
    return std::any_of(item.items.begin(), item.items.end(),
                       [&](const PlotItem& each) { return contains(each, operation); });
  }
  static std::optional<std::size_t> part_with(const std::vector<PlotItem>& items, const Operation* operation) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (contains(items[i], operation)) return i;
    }
    return std::nullopt;
  }

  double title_width(const PlotItem& item) const {
    const auto [bold, plain] = plot_title(item, options_);
    return text_width(bold, kTitleSize, true) + text_width(plain, kTitleSize, false) + 2 * kMargin;
  }

  PlotRectangle size_of(const PlotItem& item, Block& inside) const {
    if (!item.is_frame()) {
      double width = title_width(item), height = kTitleHeight, cells = 0;
      if (!item.activation.empty()) {
        width = std::max(width, width_of({"Activation: ", item.activation}));
        height += kLineHeight;
      }
      for (const PlotText& cell : item.cells) cells += width_of(cell);
      if (!item.cells.empty()) height += kLineHeight;
      width = std::max(width, cells);
      return {{}, sideways_ ? height : width, sideways_ ? width : height};
    }
    inside = place(item.items);
    const double frame = 2 * kFrameMargin;
    const double title = text_width(item.name, kTextSize, false) + frame;
    if (sideways_) return {{}, inside.width + frame + kFrameTitle, std::max(inside.depth + frame, title)};
    return {{}, std::max(inside.width + frame, title), inside.depth + frame + kFrameTitle};
  }

  Block place(const std::vector<PlotItem>& items) const {
    Block block;
    std::vector<PlotRectangle> sizes;
    for (const PlotItem& item : items) {
      block.parts.emplace_back();
      sizes.push_back(size_of(item, block.parts.back().inside));
    }
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (const auto& edge : graph_.edges) {
      const auto from = part_with(items, edge.first), to = part_with(items, edge.second);
      if (!from || !to || *from == *to) continue;
      edges.emplace_back(*from, *to);
      block.edges.push_back(edge);
    }
    PlotLayout layout = place_in_layers(sizes, edges);
    for (std::size_t i = 0; i < items.size(); ++i) block.parts[i].place = layout.rectangles[i];
    block.routes = std::move(layout.routes);
    block.width = layout.width;
    block.depth = layout.depth;
    return block;
  }

  // From the coordinates of the layout to those of the page.
  std::pair<double, double> on_page(PlotPoint p) const {
    const bool back = options_.rankdir == "BT" || options_.rankdir == "RL";
    const double along = back ? extent_ - p.along : p.along;
    return sideways_ ? std::pair(along, p.across) : std::pair(p.across, along);
  }
  Box box_of(const PlotRectangle& place, PlotPoint origin) const {
    const PlotPoint a{origin.across + place.at.across, origin.along + place.at.along};
    const auto [x1, y1] = on_page(a);
    const auto [x2, y2] = on_page({a.across + place.width, a.along + place.depth});
    return {std::min(x1, x2), std::min(y1, y2), std::abs(x2 - x1), std::abs(y2 - y1)};
  }

  void draw(const PlotItem& item, const Part& part, PlotPoint origin) {
    const Box box = box_of(part.place, origin);
    if (!item.is_frame()) {
      boxes_ += box_text(item, box);
      places_[item.operation] = {part.place, origin};
      return;
    }
    boxes_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"black\" "
        "stroke-dasharray=\"5 3\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\">{}</text>\n",
        box.x, box.y, box.width, box.height, box.x + kFrameMargin / 2, box.y + 18, kTextSize, plot_escaped(item.name));
    const PlotPoint inner = inner_origin(part, origin);
    for (std::size_t i = 0; i < item.items.size(); ++i) draw(item.items[i], part.inside.parts[i], inner);
    draw_edges(part.inside, inner);
  }

  // The title stands above the layers, whatever the direction of the edges.
  PlotPoint inner_origin(const Part& part, PlotPoint origin) const {
    PlotPoint inner{origin.across + part.place.at.across, origin.along + part.place.at.along};
    const double title = options_.rankdir == "BT" ? 0 : kFrameTitle;
    inner.across += sideways_ ? kFrameMargin + kFrameTitle : (part.place.width - part.inside.width) / 2;
    inner.along += sideways_ ? (part.place.depth - part.inside.depth) / 2 : kFrameMargin + title;
    return inner;
  }

  std::string rectangle(double x, double y, double width, double height, const std::string& fill) const {
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" stroke=\"black\"/>\n", x, y,
        width, height, fill);
  }
  std::string line(double x, double y, double size, const char* color, const std::string& plain_before,
                   const std::string& bold, const std::string& plain_after = {}) const {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"middle\" xml:space=\"preserve\">{}"
        "<tspan font-weight=\"bold\">{}</tspan>{}</text>\n",
        x, y + size * 0.35, size, color, plot_escaped(plain_before), plot_escaped(bold), plot_escaped(plain_after));
  }

  std::string box_text(const PlotItem& item, const Box& box) const {
    const double middle = box.x + box.width / 2;
    const auto [bold, plain] = plot_title(item, options_);
    std::string out = rectangle(box.x, box.y, box.width, kTitleHeight, "black") +
                      line(middle, box.y + kTitleHeight / 2, kTitleSize, "white", "", bold, plain);
    double y = box.y + kTitleHeight;
    if (!item.activation.empty()) {
      out += rectangle(box.x, y, box.width, kLineHeight, "white") +
             line(middle, y + kLineHeight / 2, kTextSize, "black", "Activation: ", item.activation);
      y += kLineHeight;
    }
    double wanted = 0, x = box.x;
    for (const PlotText& cell : item.cells) wanted += width_of(cell);
    for (const PlotText& cell : item.cells) {
      const double width = width_of(cell) * box.width / wanted;
      const bool plain_cell = cell.color.empty();
      out += rectangle(x, y, width, kLineHeight, plain_cell ? "white" : cell.color) +
             line(x + width / 2, y + kLineHeight / 2, kTextSize, plain_cell ? "black" : "white", cell.plain, cell.bold);
      x += width;
    }
    return out;
  }

  void draw_edges(const Block& block, PlotPoint origin) {
    for (std::size_t i = 0; i < block.edges.size(); ++i) {
      const auto& [from, from_origin] = places_.at(block.edges[i].first);
      const auto& [to, to_origin] = places_.at(block.edges[i].second);
      std::vector<PlotPoint> points = {
          {from_origin.across + from.at.across + from.width / 2, from_origin.along + from.at.along + from.depth}};
      for (const PlotPoint& point : block.routes[i])
        points.push_back({origin.across + point.across, origin.along + point.along});
      points.push_back({to_origin.across + to.at.across + to.width / 2, to_origin.along + to.at.along});
      lines_ += curve(points);
    }
  }

  std::string curve(const std::vector<PlotPoint>& points) const {
    const auto [x, y] = on_page(points[0]);
    std::string path = fmt::format("M{:.1f} {:.1f}", x, y);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const PlotPoint &a = points[i - 1], &b = points[i];
      const double middle = (a.along + b.along) / 2;
      const auto [x1, y1] = on_page({a.across, middle});
      const auto [x2, y2] = on_page({b.across, middle});
      const auto [x3, y3] = on_page(b);
      path += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, x2, y2, x3, y3);
    }
    return fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"black\" stroke-width=\"2\" marker-end=\"url(#arrow)\"/>\n", path);
  }

  const PlotGraph& graph_;
  const PlotOptions& options_;
  const bool sideways_;
  double width_ = 0, height_ = 0, extent_ = 0;
  std::map<const Operation*, std::pair<PlotRectangle, PlotPoint>> places_;
  std::string boxes_, lines_;
};

// ---- Graphviz ----------------------------------------------------------------------------------------------------

std::string dot_label(const PlotItem& item, const PlotOptions& options) {
  const std::size_t columns = std::max<std::size_t>(1, item.cells.size());
  const auto [bold, plain] = plot_title(item, options);
  std::string table = fmt::format(
      "<<table border=\"0\" cellborder=\"1\" bgcolor=\"black\" cellpadding=\"10\"><tr><td colspan=\"{}\" "
      "bgcolor=\"black\"><font point-size=\"16\" color=\"white\"><b>{}</b>{}</font></td></tr>",
      columns, plot_escaped(bold), plot_escaped(plain));
  if (!item.activation.empty())
    table += fmt::format(
        "<tr><td bgcolor=\"white\" colspan=\"{}\"><font point-size=\"14\">Activation: <b>{}</b></font></td></tr>",
        columns, plot_escaped(item.activation));
  std::string cells;
  for (const PlotText& cell : item.cells) {
    const bool plain_cell = cell.color.empty();
    cells += fmt::format("<td bgcolor=\"{}\"><font point-size=\"14\"{}>{}<b>{}</b></font></td>",
                         plain_cell ? "white" : cell.color, plain_cell ? "" : " color=\"white\"",
                         plot_escaped(cell.plain), plot_escaped(cell.bold));
  }
  if (!cells.empty()) table += "<tr>" + cells + "</tr>";
  return table + "</table>>";
}

// The number of each box is its name.
void write_dot(const std::vector<PlotItem>& items, const PlotOptions& options,
               std::map<const Operation*, std::size_t>& numbers, std::size_t& frames, std::string& out) {
  for (const PlotItem& item : items) {
    if (!item.is_frame()) {
      const std::size_t number = numbers.emplace(item.operation, numbers.size()).first->second;
      out +=
          fmt::format("{} [label={}, fontname=\"Helvetica\", border=0, margin=0];\n", number, dot_label(item, options));
      continue;
    }
    std::string name;
    for (const char c : item.name) name += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    out += fmt::format("subgraph cluster_{} {{\nstyle=dashed;\nlabel=\"{}\";\nlabeljust=\"l\";\n", frames++, name);
    write_dot(item.items, options, numbers, frames, out);
    out += "}\n";
  }
}

}  // namespace

std::string model_to_svg(const keras::Model& model, const PlotOptions& options) {
  const PlotGraph graph = plot_graph(model, options);
  return Picture(graph, options).text();
}

std::string model_to_dot(const keras::Model& model, const PlotOptions& options) {
  const PlotGraph graph = plot_graph(model, options);
  std::string out = fmt::format("digraph G {{\nrankdir={};\nconcentrate=true;\nsplines=ortho;\nnode [shape=record];\n",
                                options.rankdir);
  std::map<const Operation*, std::size_t> numbers;
  std::size_t frames = 0;
  write_dot(graph.items, options, numbers, frames, out);
  for (const auto& [from, to] : graph.edges)
    out += fmt::format("{} -> {} [penwidth=2];\n", numbers.at(from), numbers.at(to));
  return out + "}\n";
}

void plot_model(const keras::Model& model, const PlotOptions& options) {
  const bool svg = options.to_file.ends_with(".svg");
  if (!svg && !options.to_file.ends_with(".dot"))
    throw_invalid_argument(
        fmt::format("plot_model: to_file is '{}', expected a name that ends in .svg or .dot", options.to_file));
  io::write_atomically(options.to_file, svg ? model_to_svg(model, options) : model_to_dot(model, options));
}

}  // namespace lockstep::utils

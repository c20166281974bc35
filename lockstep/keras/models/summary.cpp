#include "lockstep/keras/models/summary_internal.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_set>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/format.h"

namespace lockstep::keras {
namespace {

using Row = std::vector<std::string>;
enum class Align { kLeft, kRight, kCenter };

int terminal_columns() {
  if (const char* columns = std::getenv("COLUMNS")) {
    const int value = std::atoi(columns);
    if (value > 0) return value;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::size_t width_of(const std::string& text) {
  std::size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

std::string first_columns(const std::string& text, std::size_t count) {
  std::size_t end = 0, seen = 0;
  while (end < text.size() && (seen < count || (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80) {
      if (seen == count) break;
      ++seen;
    }
    ++end;
  }
  return text.substr(0, end);
}

std::string right_stripped(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// Lines of at most `width` columns, broken at spaces; a longer word ends in an ellipsis.
std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find(' ', at);
    while (end != std::string::npos && end < text.size() && text[end] == ' ') ++end;
    const std::string word = text.substr(at, end == std::string::npos ? std::string::npos : end - at);
    if (!line.empty() && width_of(line) + width_of(right_stripped(word)) > width) {
      lines.push_back(right_stripped(line));
      line.clear();
    }
    line += word;
    at = end == std::string::npos ? text.size() : end;
  }
  lines.push_back(right_stripped(line));
  for (std::string& cut : lines) {
    if (width_of(cut) > width) cut = first_columns(cut, width - 1) + "…";
  }
  return lines;
}

std::string aligned(const std::string& text, std::size_t width, Align align) {
  const std::size_t missing = width - std::min(width, width_of(text));
  const std::size_t left = align == Align::kLeft ? 0 : align == Align::kRight ? missing : missing / 2;
  return std::string(left, ' ') + text + std::string(missing - left, ' ');
}

std::string repeat(const char* piece, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += piece;
  return out;
}

// A table as the rich library draws it: heavy head, a line between rows.
class Table {
 public:
  Table(Row header, std::vector<Align> align, std::vector<int> content_widths, int width)
      : header_(std::move(header)), align_(std::move(align)) {
    for (int w : content_widths) widths_.push_back(w + 2);
    int total = 0;
    for (int w : widths_) total += w;
    int excess = total - (width - static_cast<int>(widths_.size()) - 1);
    int left = static_cast<int>(widths_.size());
    for (int& w : widths_) {
      if (excess <= 0) break;
      const int cut = std::min(w, static_cast<int>(std::nearbyint(static_cast<double>(excess) / left)));
      w = std::max(3, w - cut);
      excess -= cut;
      --left;
    }
  }

  void add(Row row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::string out = line("┏", "━", "┳", "┓") + cells(header_, "┃") + line("┡", "━", "╇", "┩");
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i > 0) out += line("├", "─", "┼", "┤");
      out += cells(rows_[i], "│");
    }
    return out + line("└", "─", "┴", "┘");
  }

 private:
  std::string line(const char* left, const char* fill, const char* middle, const char* right) const {
    std::string out = left;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      out += repeat(fill, static_cast<std::size_t>(widths_[i])) + (i + 1 < widths_.size() ? middle : right);
    }
    return out + "\n";
  }
  std::string cells(const Row& row, const char* border) const {
    std::vector<std::vector<std::string>> wrapped;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      wrapped.push_back(wrap(row[i], static_cast<std::size_t>(widths_[i] - 2)));
      height = std::max(height, wrapped.back().size());
    }
    std::string out;
    for (std::size_t y = 0; y < height; ++y) {
      out += border;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string piece = y < wrapped[i].size() ? wrapped[i][y] : "";
        out += fmt::format(" {} {}", aligned(piece, static_cast<std::size_t>(widths_[i] - 2), align_[i]), border);
      }
      out += "\n";
    }
    return out;
  }

  Row header_;
  std::vector<Align> align_;
  std::vector<int> widths_;
  std::vector<Row> rows_;
};

std::string with_commas(std::int64_t number) { return lockstep::format("{:,}", number); }

std::string shape_text(const Shape& shape) {
  std::vector<std::string> dims;
  for (std::int64_t dim : shape.dims()) dims.push_back(dim == kUnknownDim ? "None" : std::to_string(dim));
  return fmt::format("({})", fmt::join(dims, ", "));
}

std::string output_shape(Operation& operation) {
  std::vector<Shape> shapes;
  if (!operation.inbound_nodes().empty()) {
    for (const TensorInfo& info : operation.inbound_nodes().back()->outputs.flatten()) shapes.push_back(info.shape);
  } else {
    auto* layer = dynamic_cast<Layer*>(&operation);
    if (!layer || !layer->build_shapes() || !layer->built()) return "?";
    try {
      shapes = layer->compute_output_shape(*layer->build_shapes()).flatten();
    } catch (const Error&) {
      return "?";
    }
  }
  if (shapes.size() == 1) return shape_text(shapes[0]);
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(shape_text(shape));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

bool sequential_like(const ModelImpl& model) {
  const auto* functional = dynamic_cast<const FunctionalImpl*>(&model);
  if (!functional) return true;
  for (const auto& level : functional->nodes_by_depth()) {
    if (level.size() > 1 || (level.size() == 1 && level[0]->arguments.tensors().size() > 1)) return false;
  }
  for (const OperationPtr& operation : functional->operations()) {
    int calls = 0;
    for (const auto& node : operation->inbound_nodes()) calls += functional->owns(node.get());
    if (calls > 1) return false;
  }
  return true;
}

std::string connections(const FunctionalImpl& model, const Operation& operation) {
  std::string out;
  for (const auto& node : operation.inbound_nodes()) {
    if (!model.owns(node.get())) continue;
    for (const Tensor& input : node->arguments.tensors()) {
      const KerasTensor* symbol = as_keras_tensor(input);
      if (!symbol) continue;
      if (!out.empty()) out += ", ";
      out += fmt::format("{}[{}][{}]", symbol->operation()->name(), symbol->node_index(), symbol->tensor_index());
    }
  }
  return out.empty() ? "-" : out;
}

struct Count {
  std::int64_t elements = 0;
  double bytes = 0;
};
Count count(const std::vector<VariablePtr>& variables) {
  Count out;
  for (const VariablePtr& variable : variables) {
    const std::int64_t n = variable->shape().num_elements().value_or(0);
    out.elements += n;
    out.bytes += static_cast<double>(n) * static_cast<double>(dtype_size(variable->dtype()));
  }
  return out;
}

class Summary {
 public:
  Summary(ModelImpl& model, const SummaryOptions& options)
      : model_(model), options_(options), sequential_(sequential_like(model)) {}

  std::string text() {
    Table table = make_table();
    for (const OperationPtr& operation : model_.operations()) add_rows(table, *operation, 0);
    std::string out = fmt::format("Model: \"{}\"\n", model_.name()) + table.text();
    const Count trainable = count(model_.trainable_weights());
    const Count frozen = count(model_.non_trainable_weights());
    const auto optimizer_variables = model_.optimizer_variables();
    const Count optimizer = count(optimizer_variables);
    add_count(
        out, "Total params",
        {trainable.elements + frozen.elements + optimizer.elements, trainable.bytes + frozen.bytes + optimizer.bytes});
    add_count(out, "Trainable params", trainable);
    add_count(out, "Non-trainable params", frozen);
    if (!optimizer_variables.empty()) add_count(out, "Optimizer params", optimizer);
    return out;
  }

 private:
  Table make_table() const {
    Row header = {"Layer (type)", "Output Shape", "Param #"};
    std::vector<Align> align = {Align::kLeft, Align::kLeft, Align::kRight};
    std::vector<double> edges =
        sequential_ ? std::vector<double>{0.45, 0.80, 1.0} : std::vector<double>{0.3, 0.56, 0.74, 1.0};
    int length = sequential_ ? 88 : 108;
    if (!sequential_) {
      header.push_back("Connected to");
      align.push_back(Align::kLeft);
    }
    if (options_.show_trainable) {
      length += 12;
      for (double& edge : edges) edge *= 0.9;
      edges.push_back(1.0);
      header.push_back("Trainable");
      align.push_back(Align::kCenter);
    }
    length = options_.line_length > 0 ? options_.line_length : std::min(length, terminal_columns() - 4);
    std::vector<int> widths;
    int used = 0;
    for (double edge : edges) {
      const int width = static_cast<int>(edge * length) - used;
      if (width < 4) throw_invalid_argument(fmt::format("{} columns are too few to print a summary", length));
      widths.push_back(width);
      used += width;
    }
    return Table(std::move(header), std::move(align), std::move(widths), length);
  }

  void add_rows(Table& table, Operation& operation, int level) {
    std::string name = level ? repeat("   ", static_cast<std::size_t>(level)) + "└ " : "";
    name += fmt::format("{} ({})", operation.name(), operation.class_name());
    auto* layer = dynamic_cast<Layer*>(&operation);
    Row row = {name, output_shape(operation), parameters(layer)};
    if (!sequential_) row.push_back(connections(dynamic_cast<const FunctionalImpl&>(model_), operation));
    if (options_.show_trainable) {
      row.push_back(layer && !layer->weights().empty() ? (layer->trainable() ? "Y" : "N") : "-");
    }
    table.add(std::move(row));
    auto* nested = dynamic_cast<ModelImpl*>(layer);
    if (!options_.expand_nested || !nested) return;
    for (const LayerPtr& inner : nested->layers()) add_rows(table, *inner, level + 1);
  }

  static std::string parameters(Layer* layer) {
    if (!layer) return "0";
    return layer->built() ? with_commas(layer->count_params()) : "0 (unbuilt)";
  }
  static void add_count(std::string& out, const char* what, const Count& count) {
    out += fmt::format(" {}: {} ({})\n", what, with_commas(count.elements), readable_size(count.bytes));
  }

  ModelImpl& model_;
  const SummaryOptions& options_;
  bool sequential_;
};

}  // namespace

std::string readable_size(double bytes) {
  static const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  for (const char* unit : kUnits) {
    if (std::abs(bytes) < 1024.0) return fmt::format("{:.2f} {}", bytes, unit);
    bytes /= 1024.0;
  }
  return fmt::format("{:.2f} EB", bytes);
}

std::string summary_text(ModelImpl& model, const SummaryOptions& options) { return Summary(model, options).text(); }

}  // namespace lockstep::keras

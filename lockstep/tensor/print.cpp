// A tensor's text, as TensorFlow and NumPy print arrays (numpy.array2string).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <ostream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/tensor/array_internal.h"
#include "lockstep/tensor/aten_internal.h"
#include "lockstep/tensor/print_internal.h"
#include "lockstep/tensor/print_options_internal.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {
namespace {

std::mutex options_mutex;
ArrayPrintOptions options_of_process;

template <typename T>
std::string chars(T value, std::chars_format format) {
  char text[512];
  const auto end = std::to_chars(text, text + sizeof text, value, format);
  return {text, end.ptr};
}

// "12" and "5" of 12.5; shortest digits that give the value, no more than `precision` after the point.
template <typename T>
std::pair<std::string, std::string> positional(T value, int precision) {
  std::string text = chars(value, std::chars_format::fixed);
  std::size_t point = text.find('.');
  if (point != std::string::npos && text.size() - point - 1 > static_cast<std::size_t>(precision)) {
    text = fmt::format("{:.{}f}", value, precision);
    point = text.find('.');
    if (point != std::string::npos) text.erase(text.find_last_not_of('0') + 1);
  }
  if (point == std::string::npos) return {text, ""};
  return {text.substr(0, point), text.substr(point + 1)};
}

// The formatted elements of an array, all as wide as the alignment of columns asks for.
template <typename T>
std::vector<std::string> float_texts(const std::vector<T>& values) {
  const ArrayPrintOptions options = array_print_options();
  T largest = 0, smallest = 0;
  for (const T value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    const T size = std::abs(value);
    largest = std::max(largest, size);
    smallest = smallest == 0 ? size : std::min(smallest, size);
  }
  const bool scientific =
      !options.suppress && largest > 0 && (largest >= T(1e8) || smallest < T(1e-4) || largest / smallest > T(1000));
  struct Parts {
    std::string whole, fraction, exponent;
  };
  std::vector<Parts> parts;
  std::size_t left = 0, right = 0, exponents = 0;
  for (const T value : values) {
    Parts part;
    if (!std::isfinite(value)) {
      part.whole = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
      parts.push_back(std::move(part));
      continue;
    }
    if (scientific) {
      std::string text = chars(value, std::chars_format::scientific);
      std::size_t e = text.find('e');
      if (e > static_cast<std::size_t>(options.precision) + 2 + (value < 0 ? 1U : 0U)) {
        text = fmt::format("{:.{}e}", value, options.precision);
        e = text.find('e');
        const std::size_t last = text.find_last_not_of('0', e - 1);
        text.erase(last + 1, e - last - 1);
        e = text.find('e');
      }
      part.exponent = text.substr(e);
      const std::string mantissa = text.substr(0, e);
      const std::size_t point = mantissa.find('.');
      part.whole = mantissa.substr(0, point);
      if (point != std::string::npos) part.fraction = mantissa.substr(point + 1);
    } else {
      std::tie(part.whole, part.fraction) = positional(value, options.precision);
    }
    left = std::max(left, part.whole.size());
    right = std::max(right, part.fraction.size());
    exponents = std::max(exponents, part.exponent.size());
    parts.push_back(std::move(part));
  }
  const std::size_t tail = right + 1 + exponents;
  for (const Parts& part : parts) {
    if (part.whole.find('n') != std::string::npos)
      left = std::max(left, part.whole.size() > tail ? part.whole.size() - tail : 0);
  }
  std::vector<std::string> texts;
  for (const Parts& part : parts) {
    if (part.whole.find('n') != std::string::npos) {
      texts.push_back(fmt::format("{:>{}}", part.whole, left + tail));
    } else if (scientific) {
      texts.push_back(fmt::format("{:>{}}.{:0<{}}{}", part.whole, left, part.fraction, right, part.exponent));
    } else {
      texts.push_back(fmt::format("{:>{}}.{:<{}}", part.whole, left, part.fraction, right));
    }
  }
  return texts;
}

template <typename T>
std::vector<std::string> integer_texts(const std::vector<T>& values) {
  std::vector<std::string> texts;
  std::size_t width = 0;
  for (const T value : values) texts.push_back(std::to_string(value));
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text.insert(0, width - text.size(), ' ');
  return texts;
}

std::string quoted(const std::string& bytes) {
  const char quote = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  std::string text = {'b', quote};
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      text += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte < 0x20 || byte >= 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + quote;
}

// One number by itself: Python's str() of a NumPy scalar.
template <typename T>
std::string float_scalar(T value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  const T size = std::abs(value);
  if (size != 0 && (size < T(1e-4) || size >= T(1e16))) return chars(value, std::chars_format::scientific);
  const std::string text = chars(value, std::chars_format::fixed);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

// The numbers of the elements that are shown, in order, and where rows are cut.
class Layout {
 public:
  // `separator` stands between elements, " " or ", "; `indent` in front of all lines but the first; `width` is that of
  // a line.
  Layout(const Shape& shape, std::string separator, std::string indent, std::size_t width)
      : shape_(shape),
        summarized_(shape.num_elements().value_or(0) > options_.threshold),
        separator_(std::move(separator)),
        indent_(std::move(indent)),
        width_(width) {}

  std::vector<std::int64_t> shown() const {
    std::vector<std::int64_t> elements;
    collect(0, 0, elements);
    return elements;
  }
  // `texts` are those of shown().
  std::string draw(std::vector<std::string> texts) {
    texts_ = std::move(texts);
    next_ = 0;
    return draw_axis(0, indent_, width_);
  }

 private:
  bool cut(int axis) const { return summarized_ && shape_[axis] > 2 * options_.edge_items; }

  void collect(int axis, std::int64_t at, std::vector<std::int64_t>& elements) const {
    if (axis == shape_.rank()) return elements.push_back(at);
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (cut(axis) && i == options_.edge_items) i = shape_[axis] - options_.edge_items;
      collect(axis + 1, at * shape_[axis] + i, elements);
    }
  }

  std::string draw_axis(int axis, const std::string& indent, std::size_t width) {
    if (axis == shape_.rank()) return texts_[next_++];
    const std::int64_t extent = shape_[axis];
    const bool last_axis = axis + 1 == shape_.rank();
    const std::string comma = separator_.substr(0, separator_.size() - 1);
    const std::string between =
        last_axis ? separator_ : comma + std::string(static_cast<std::size_t>(shape_.rank() - axis - 1), '\n');
    std::string text, line = indent;
    const auto end_line = [&] {
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    };
    const auto add = [&](const std::string& word, bool more) {
      if (!last_axis) {
        text += indent + word + (more ? between : "");
        return;
      }
      const std::vector<std::string> rows = lines_of(word);  // of an array in an array, several
      std::size_t longest = 0;
      for (const std::string& row : rows) longest = std::max(longest, row.size());
      if (line.size() + longest > width - 1 && line.size() > indent.size()) {
        end_line();
        line = indent;
      }
      const std::string below(line.size(), ' ');
      line += rows[0];
      for (std::size_t i = 1; i < rows.size(); ++i) {
        end_line();
        line = below + rows[i];
      }
      line += std::string(longest - rows.back().size(), ' ') + (more ? between : "");
    };
    for (std::int64_t i = 0; i < extent; ++i) {
      if (cut(axis) && i == options_.edge_items) {
        add("...", true);
        i = extent - options_.edge_items;
      }
      add(draw_axis(axis + 1, indent + ' ', width - 1), i + 1 < extent);
    }
    if (last_axis) text += line;
    return "[" + (text.size() >= indent.size() ? text.substr(indent.size()) : "") + "]";
  }

  static std::vector<std::string> lines_of(const std::string& word) {
    std::vector<std::string> lines = {""};
    for (const char c : word) {
      if (c == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += c;
      }
    }
    return lines;
  }

  const ArrayPrintOptions options_ = array_print_options();
  const Shape& shape_;
  bool summarized_;
  std::string separator_, indent_;
  std::size_t width_;
  std::vector<std::string> texts_;
  std::size_t next_ = 0;
};

template <typename T>
std::vector<T> picked(const Tensor& tensor, const std::vector<std::int64_t>& elements) {
  const std::vector<T> all = tensor.to_vector<T>();
  std::vector<T> out;
  for (const std::int64_t i : elements) out.push_back(all[static_cast<std::size_t>(i)]);
  return out;
}

std::vector<float> picked_floats(const Tensor& tensor, const std::vector<std::int64_t>& elements) {
  return picked<float>(wrap(aten(tensor).to(at::kFloat)), elements);
}

// The number with the fewest digits that is this one in half precision.
float with_fewest_digits(float half) {
  for (int digits = 1; digits < 6; ++digits) {
    const float shorter = std::strtof(fmt::format("{:.{}g}", half, digits).c_str(), nullptr);
    if (static_cast<float>(at::Half(shorter)) == half) return shorter;
  }
  return half;
}

template <typename T>
std::vector<std::string> texts_of_integers(const Tensor& tensor, const std::vector<std::int64_t>& elements) {
  return integer_texts(picked<T>(tensor, elements));
}

std::vector<std::string> element_texts(const Tensor& tensor, const std::vector<std::int64_t>& elements) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return float_texts(picked<float>(tensor, elements));
    case DType::kFloat64: return float_texts(picked<double>(tensor, elements));
    case DType::kInt8: return texts_of_integers<std::int8_t>(tensor, elements);
    case DType::kInt16: return texts_of_integers<std::int16_t>(tensor, elements);
    case DType::kInt32: return texts_of_integers<std::int32_t>(tensor, elements);
    case DType::kInt64: return texts_of_integers<std::int64_t>(tensor, elements);
    case DType::kUInt8: return texts_of_integers<std::uint8_t>(tensor, elements);
    case DType::kUInt16: return texts_of_integers<std::uint16_t>(tensor, elements);
    case DType::kUInt32: return texts_of_integers<std::uint32_t>(tensor, elements);
    case DType::kUInt64: return texts_of_integers<std::uint64_t>(tensor, elements);
    default: break;
  }
  std::vector<std::string> texts;
  if (tensor.dtype() == DType::kBool) {
    for (const bool value : picked<bool>(tensor, elements)) texts.push_back(value ? " True" : "False");
  } else if (tensor.dtype() == DType::kString) {
    for (const std::int64_t i : elements) texts.push_back(quoted(tensor.string_values()[static_cast<std::size_t>(i)]));
  } else if (tensor.dtype() == DType::kBFloat16) {
    for (const float value : picked_floats(tensor, elements)) texts.push_back(fmt::format("{:g}", value));
  } else if (is_floating(tensor.dtype())) {
    std::vector<float> values = picked_floats(tensor, elements);
    if (tensor.dtype() == DType::kFloat16) std::ranges::transform(values, values.begin(), with_fewest_digits);
    return float_texts(values);
  } else {
    texts.assign(elements.size(), fmt::format("<{}>", dtype_name(tensor.dtype())));
  }
  return texts;
}

// numpy.array2string of an array with axes.
std::string array_text(const Tensor& tensor, const std::string& separator, const std::string& indent,
                       std::size_t width) {
  if (tensor.num_elements() == 0) return "[]";
  Layout layout(tensor.shape(), separator, indent, width);
  return layout.draw(element_texts(tensor, layout.shown()));
}

std::string value_text(const Tensor& tensor) {
  if (tensor.rank() > 0)
    return array_text(tensor, " ", " ", static_cast<std::size_t>(array_print_options().line_width));
  if (tensor.dtype() == DType::kFloat64) return float_scalar(tensor.item<double>());
  if (tensor.dtype() == DType::kFloat16) return float_scalar(with_fewest_digits(tensor.item<float>()));
  if (is_floating(tensor.dtype()) && tensor.dtype() != DType::kBFloat16) return float_scalar(tensor.item<float>());
  const std::string text = element_texts(tensor, {0})[0];
  return text.substr(text.find_first_not_of(' '));
}

// repr() of a number or a string: of a float32, its digits as a float64.
std::string scalar_repr(const Tensor& tensor) {
  if (is_floating(tensor.dtype())) return python_float(tensor.item<double>());
  return value_text(tensor);
}

// "array([1, 2], dtype=int32)".
std::string array_repr(const Tensor& tensor) {
  const ArrayPrintOptions options = array_print_options();
  const DType dtype = tensor.dtype();
  const auto width = static_cast<std::size_t>(options.line_width);
  const std::string text = "array(" + array_text(tensor, ", ", std::string(sizeof "array(", ' '), width - 1);
  std::string more;
  const bool empty = tensor.num_elements() == 0;
  if ((empty && tensor.rank() > 1) || tensor.num_elements() > options.threshold)
    more = "shape=" + tensor.shape().to_string();
  const bool implied = dtype == DType::kBool || dtype == DType::kInt64 || dtype == DType::kFloat64;
  if (empty || !implied) {
    more += more.empty() ? "" : ", ";
    more += dtype == DType::kString ? "dtype=object" : "dtype=" + std::string(dtype_name(dtype));
  }
  if (more.empty()) return text + ")";
  more += ")";
  const std::size_t last_line = text.size() + 1 - (text.rfind('\n') + 1);
  const std::string space = last_line + more.size() + 1 > width ? "\n" + std::string(sizeof "array(" - 1, ' ') : " ";
  return text + "," + space + more;
}

// What RaggedTensor.numpy() returns: an array of the shape with a text for each element, which is a number, a string or
// an array itself.
struct RaggedArray {
  Shape shape;
  std::vector<std::string> texts;
};
std::string text_of(const RaggedArray& array) {
  if (array.texts.empty()) {  // lists in lists, as tolist() gives them
    const std::int64_t rows = array.shape.rank() > 1 ? array.shape[0] : 0;
    std::string text = "[";
    for (std::int64_t i = 0; i < rows; ++i) text += i ? ", []" : "[]";
    return text + "]";
  }
  Layout layout(array.shape, ", ", " ", static_cast<std::size_t>(array_print_options().line_width));
  std::vector<std::string> shown;
  for (const std::int64_t i : layout.shown()) shown.push_back(array.texts[static_cast<std::size_t>(i)]);
  return layout.draw(std::move(shown));
}
RaggedArray ragged_array(const Tensors& row_splits, std::size_t level, const Tensor& flat_values) {
  RaggedArray out;
  if (level == row_splits.size()) {
    out.shape = flat_values.shape();
    const Tensor elements = flat_values.reshape(-1);
    for (std::int64_t i = 0; i < elements.num_elements(); ++i) out.texts.push_back(value_text(elements[i]));
    return out;
  }
  const RaggedArray values = ragged_array(row_splits, level + 1, flat_values);
  const auto splits = row_splits[level].astype(DType::kInt64).to_vector<std::int64_t>();
  const std::size_t rows = splits.size() - 1;
  const std::vector<std::int64_t> extents(values.shape.begin() + 1, values.shape.end());
  const auto shape_of = [&](std::vector<std::int64_t> outer) {
    outer.insert(outer.end(), extents.begin(), extents.end());
    return Shape(outer);
  };
  if (rows == 0) {
    out.shape = shape_of({0, 0});
    return out;
  }
  const auto length = [&](std::size_t row) { return splits[row + 1] - splits[row]; };
  bool uniform = true;
  for (std::size_t row = 1; row < rows; ++row) uniform = uniform && length(row) == length(0);
  if (uniform) return {shape_of({static_cast<std::int64_t>(rows), length(0)}), values.texts};
  const auto size = *Shape(extents).num_elements();
  for (std::size_t row = 0; row < rows; ++row) {
    const auto at = [&](std::int64_t place) {
      return values.texts.begin() + static_cast<std::ptrdiff_t>(place * size);
    };
    out.texts.push_back(text_of({shape_of({length(row)}), {at(splits[row]), at(splits[row + 1])}}));
  }
  out.shape = Shape({static_cast<std::int64_t>(rows)});
  return out;
}

// The parts of a variant that holds a ragged tensor, its values the last of them; nothing of others.
const Tensors* ragged_parts(const Tensor& variant) {
  const TensorImpl* impl = variant.impl().get();
  if (variant.dtype() != DType::kVariant || !impl->list || variant.rank() != 0) return nullptr;
  const Tensors& parts = impl->list->elements;
  const bool defined = std::ranges::all_of(parts, [](const Tensor& part) { return part.defined(); });
  if (parts.size() < 2 || !defined || !parts.back().is_value() || parts.back().rank() < 1) return nullptr;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const bool integers = parts[i].dtype() == DType::kInt64 || parts[i].dtype() == DType::kInt32;
    if (!integers || !parts[i].is_value() || parts[i].rank() != 1 || parts[i].num_elements() == 0) return nullptr;
  }
  return &parts;
}

}  // namespace

std::string ragged_text(const Tensors& row_splits, const Tensor& flat_values) {
  return text_of(ragged_array(row_splits, 0, flat_values));
}
std::string numpy_repr(const Tensor& tensor) { return tensor.rank() > 0 ? array_repr(tensor) : scalar_repr(tensor); }
std::string repr(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_value()) return tensor.to_string();
  const std::string text = numpy_repr(tensor);
  if (is_array(tensor)) {
    if (tensor.rank() > 0 || tensor.dtype() == DType::kString) return text;
    if (tensor.dtype() == DType::kBool) return fmt::format("np.{}_", text);
    return fmt::format("np.{}({})", dtype_name(tensor.dtype()), value_text(tensor));
  }
  return fmt::format("<tf.Tensor: shape={}, dtype={}, numpy={}{}>", tensor.shape().to_string(),
                     dtype_name(tensor.dtype()), text.find('\n') == std::string::npos ? "" : "\n", text);
}

ArrayPrintOptions array_print_options() {
  const std::lock_guard lock(options_mutex);
  return options_of_process;
}
void set_array_print_options(const ArrayPrintOptions& options) {
  const std::lock_guard lock(options_mutex);
  options_of_process = options;
}

std::ostream& operator<<(std::ostream& out, const Item& item) {
  if (item.is_bool()) return out << (item.integer() ? "True" : "False");
  return item.is_integer() ? out << item.integer() : out << python_float(item.value());
}

std::string Tensor::to_string() const {
  if (!defined()) return "None";
  const std::string tail = fmt::format("shape={}, dtype={}", shape().to_string(), dtype_name(dtype()));
  if (const Tensors* parts = is_symbolic() ? nullptr : ragged_parts(*this))
    return fmt::format("<tf.RaggedTensor {}>", ragged_text({parts->begin(), parts->end() - 1}, parts->back()));
  if (!is_value()) return fmt::format("<{} tensor {}>", is_symbolic() ? "symbolic" : "resource", tail);
  const std::string text = value_text(*this);
  return fmt::format("tf.Tensor({}{}, {})", text.find('\n') == std::string::npos ? "" : "\n", text, tail);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << (is_array(tensor) ? value_text(tensor) : tensor.to_string());
}
namespace {

std::string item_text(const Tensor& tensor) { return repr(tensor); }
std::string item_text(const Shape& shape) { return shape.to_string(); }

// Of a list, the items' repr().
template <typename T>
std::ostream& print(std::ostream& out, const Nested<T>& structure, bool is_item = false) {
  if (structure.is_leaf()) return is_item ? out << item_text(structure.leaf()) : out << structure.leaf();
  const char* separator = "";
  if (structure.is_list()) {
    out << "[";
    for (const auto& item : structure.parts()) {
      print(out << separator, item, true);
      separator = ", ";
    }
    return out << "]";
  }
  out << "{";
  for (const auto& [key, item] : structure.entries()) {
    print(out << separator << "'" << key << "': ", item, true);
    separator = ", ";
  }
  return out << "}";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Nested<Tensor>& structure) { return print(out, structure); }
std::ostream& operator<<(std::ostream& out, const Nested<Shape>& structure) { return print(out, structure); }

}  // namespace lockstep

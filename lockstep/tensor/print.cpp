// A tensor's text, as TensorFlow and NumPy print arrays (numpy.array2string).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/tensor/array_internal.h"
#include "lockstep/tensor/aten_internal.h"
#include "lockstep/tensor/print_internal.h"
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
  // In repr() commas separate the elements; the text stands behind `prefix` characters and before `suffix` ones.
  explicit Layout(const Shape& shape, const std::string& separator = " ", std::size_t prefix = 0,
                  std::size_t suffix = 0)
      : shape_(shape),
        separator_(separator),
        prefix_(prefix),
        suffix_(suffix),
        summarized_(shape.num_elements().value_or(0) > options_.threshold) {}

  bool summarized() const { return summarized_; }

  std::vector<std::int64_t> shown() const {
    std::vector<std::int64_t> elements;
    collect(0, 0, elements);
    return elements;
  }
  // `texts` are those of shown().
  std::string draw(std::vector<std::string> texts) {
    texts_ = std::move(texts);
    next_ = 0;
    return draw_axis(0, std::string(prefix_ + 1, ' '), static_cast<std::size_t>(options_.line_width) - suffix_);
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
    const std::string between = last_axis ? separator_
                                          : separator_.substr(0, separator_.size() - 1) +
                                                std::string(static_cast<std::size_t>(shape_.rank() - axis - 1), '\n');
    std::string text, line = indent;
    const auto add = [&](const std::string& word, bool more) {
      if (!last_axis) {
        text += indent + word + (more ? between : "");
        return;
      }
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += word + (more ? between : "");
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

  const ArrayPrintOptions options_ = array_print_options();
  const Shape& shape_;
  const std::string separator_;  // ends with a space
  const std::size_t prefix_, suffix_;
  const bool summarized_;
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

// A scalar as a number of Python.
std::string scalar_text(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat64) return float_scalar(tensor.item<double>());
  if (tensor.dtype() == DType::kFloat16) return float_scalar(with_fewest_digits(tensor.item<float>()));
  if (is_floating(tensor.dtype()) && tensor.dtype() != DType::kBFloat16) return float_scalar(tensor.item<float>());
  const std::string text = element_texts(tensor, {0})[0];
  return text.substr(text.find_first_not_of(' '));
}

// NumPy's default dtypes are not written.
bool is_implied(DType dtype) {
  return dtype == DType::kInt64 || dtype == DType::kFloat64 || dtype == DType::kBool || dtype == DType::kComplex128;
}

}  // namespace

std::string array_text(const Tensor& tensor) {
  if (tensor.rank() == 0) return scalar_text(tensor);
  Layout layout(tensor.shape());
  return layout.draw(element_texts(tensor, layout.shown()));
}

std::string array_repr(const Tensor& tensor) {
  if (tensor.rank() == 0) return scalar_text(tensor);
  const std::string prefix = "array(";
  const bool implied = is_implied(tensor.dtype()) && tensor.num_elements() > 0;
  Layout layout(tensor.shape(), ", ", prefix.size(), 1);
  std::string text = prefix + (tensor.num_elements() > 0 ? layout.draw(element_texts(tensor, layout.shown())) : "[]");
  std::vector<std::string> facts;
  if (layout.summarized() || (tensor.num_elements() == 0 && tensor.shape() != Shape{0}))
    facts.push_back("shape=" + tensor.shape().to_string());
  if (!implied) {
    const bool texts = tensor.dtype() == DType::kString;
    facts.push_back(fmt::format("dtype={}", texts ? "object" : std::string(dtype_name(tensor.dtype()))));
  }
  if (facts.empty()) return text + ")";
  const std::string tail = fmt::format("{})", fmt::join(facts, ", "));
  const std::size_t last_line = text.size() - (text.rfind('\n') + 1);
  const bool fits = last_line + tail.size() + 1 <= static_cast<std::size_t>(array_print_options().line_width);
  return text + (fits ? ", " : ",\n" + std::string(prefix.size(), ' ')) + tail;
}

std::string repr(const Tensor& tensor) {
  if (!tensor.is_value()) return tensor.to_string();
  const std::string text = array_repr(tensor);
  if (is_array(tensor)) return text;
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
  if (!is_value()) return fmt::format("<{} tensor {}>", is_symbolic() ? "symbolic" : "resource", tail);
  const std::string text = array_text(*this);
  return fmt::format("tf.Tensor({}{}, {})", text.find('\n') == std::string::npos ? "" : "\n", text, tail);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << (is_array(tensor) ? array_text(tensor) : tensor.to_string());
}
namespace {

std::ostream& print_item(std::ostream& out, const Shape& shape) { return out << shape; }
std::ostream& print_item(std::ostream& out, const Tensor& tensor) { return out << repr(tensor); }

template <typename T>
std::ostream& print_item(std::ostream& out, const Nested<T>& structure) {
  if (structure.is_leaf()) return print_item(out, structure.leaf());
  const char* separator = "";
  if (structure.is_list()) {
    out << "[";
    for (const auto& item : structure.parts()) {
      print_item(out << separator, item);
      separator = ", ";
    }
    return out << "]";
  }
  out << "{";
  for (const auto& [key, item] : structure.entries()) {
    print_item(out << separator << "'" << key << "': ", item);
    separator = ", ";
  }
  return out << "}";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Nested<Tensor>& structure) {
  return structure.is_leaf() ? out << structure.leaf() : print_item(out, structure);
}
std::ostream& operator<<(std::ostream& out, const Nested<Shape>& structure) { return print_item(out, structure); }

}  // namespace lockstep

#include "lockstep/numpy/functions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/printf.h>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/tensor/print_options_internal.h"

namespace lockstep::np {
namespace {

using Longs = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

Tensor array_of(const Longs& values) { return Tensor::from_vector(values).numpy(); }
Tensor array_of(const Doubles& values) { return Tensor::from_vector(values).numpy(); }
Doubles doubles(const Tensor& x) { return x.astype(DType::kFloat64).flatten().to_vector<double>(); }
Longs longs(const Tensor& x) { return x.astype(DType::kInt64).flatten().to_vector<std::int64_t>(); }

// The indices of the elements in ascending order of these; equal ones keep their order.
template <typename T>
Longs order_of(const std::vector<T>& values) {
  Longs order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] < values[static_cast<std::size_t>(b)];
  });
  return order;
}

struct Groups {
  Longs index, inverse, counts;
};

template <typename T>
Groups groups_of(const std::vector<T>& values) {
  Groups groups;
  groups.inverse.resize(values.size());
  for (const std::int64_t i : order_of(values)) {
    const auto at = static_cast<std::size_t>(i);
    if (groups.index.empty() || values[static_cast<std::size_t>(groups.index.back())] != values[at]) {
      groups.index.push_back(i);
      groups.counts.push_back(0);
    }
    groups.inverse[at] = static_cast<std::int64_t>(groups.index.size()) - 1;
    ++groups.counts.back();
  }
  return groups;
}

Groups groups_of(const Tensor& flat) {
  if (flat.dtype() == DType::kString) return groups_of(flat.to_vector<std::string>());
  if (is_floating(flat.dtype())) return groups_of(doubles(flat));
  if (is_integer(flat.dtype()) || flat.dtype() == DType::kBool) return groups_of(longs(flat));
  throw_invalid_argument(fmt::format("np.unique: {} is not supported", dtype_name(flat.dtype())));
}

Tensor elements(const Tensor& flat, const Longs& indices) {
  return ops::gather(flat, Tensor::from_vector(indices)).numpy();
}

// Whether each element of `flat` is in `test`.
std::vector<bool> contained(const Tensor& flat, const Tensor& test) {
  const auto of = [](const auto& values, auto sorted) {
    std::ranges::sort(sorted);
    std::vector<bool> found;
    for (const auto& value : values) found.push_back(std::ranges::binary_search(sorted, value));
    return found;
  };
  if (flat.dtype() == DType::kString || test.dtype() == DType::kString)
    return of(flat.to_vector<std::string>(), test.flatten().to_vector<std::string>());
  if (is_floating(flat.dtype()) || is_floating(test.dtype())) return of(doubles(flat), doubles(test));
  return of(longs(flat), longs(test));
}

Tensor those(const Tensor& flat, const std::vector<bool>& wanted, bool value) {
  Longs indices;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == value) indices.push_back(static_cast<std::int64_t>(i));
  }
  return elements(flat, indices);
}

}  // namespace

finfo::finfo(DTypeLike of) : dtype(of) {
  const auto set = [&](int digits, int exponents) {
    bits = 1 + digits + exponents;
    const int largest = (1 << (exponents - 1)) - 1;
    eps = std::ldexp(1.0, -digits);
    max = std::ldexp(2.0 - eps, largest);
    min = -max;
    tiny = std::ldexp(1.0, 1 - largest);
  };
  if (dtype == DType::kFloat64 || dtype == DType::kComplex128)
    set(52, 11);
  else if (dtype == DType::kFloat32 || dtype == DType::kComplex64)
    set(23, 8);
  else if (dtype == DType::kFloat16)
    set(10, 5);
  else
    throw_invalid_argument(fmt::format("np.finfo: found {}, expected a dtype of fractions", dtype_name(dtype)));
}

iinfo::iinfo(DTypeLike of) : dtype(of), bits(static_cast<int>(8 * dtype_size(dtype))) {
  if (!is_integer(dtype))
    throw_invalid_argument(fmt::format("np.iinfo: found {}, expected a dtype of integers", dtype_name(dtype)));
  const bool is_signed = dtype_name(dtype).front() == 'i';
  max = ~std::uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  if (is_signed) min = -static_cast<std::int64_t>(max) - 1;
}
Tensor argsort(const Array& x, int axis) {
  if (x.dtype() != DType::kString)
    return internal::cast(ops::argsort(static_cast<const Tensor&>(x), axis), DType::kInt64);
  if (x.rank() != 1) throw_unimplemented(fmt::format("np.sort: texts of {} axes, expected one", x.rank()));
  return array_of(order_of(x.to_vector<std::string>()));
}
Tensor sort(const Array& x, int axis) {
  if (x.dtype() == DType::kString) return elements(x, order_of(x.to_vector<std::string>()));
  return keras_ops::sort(static_cast<const Tensor&>(x), axis).numpy();
}

Tensor unique(const Array& ar) {
  const Tensor flat = ar.flatten();
  return elements(flat, groups_of(flat).index);
}

keras::Structure unique(const Array& ar, const UniqueKeywords& o) {
  const Tensor flat = ar.flatten();
  const Groups groups = groups_of(flat);
  keras::Structure::List parts = {elements(flat, groups.index)};
  if (o.return_index) parts.emplace_back(array_of(groups.index));
  if (o.return_inverse) parts.emplace_back(array_of(groups.inverse).reshape(ar.shape()));
  if (o.return_counts) parts.emplace_back(array_of(groups.counts));
  return parts.size() == 1 ? parts[0] : keras::Structure::list(std::move(parts));
}

Tensor isin(const Array& element, const Array& test_elements) {
  return Tensor(contained(element.flatten(), test_elements)).numpy().reshape(element.shape());
}

Tensor intersect1d(const Array& a, const Array& b) {
  const Tensor all = unique(a);
  return those(all, contained(all, b), true);
}

Tensor setdiff1d(const Array& a, const Array& b) {
  const Tensor all = unique(a);
  return those(all, contained(all, b), false);
}

Tensor union1d(const Array& a, const Array& b) {
  const auto [x, y] = internal::together(a, b);
  return unique(concatenate({x.flatten(), y.flatten()}));
}

Tensor bincount(const Array& x, const BincountKeywords& o) {
  const Longs numbers = longs(x);
  std::size_t size = static_cast<std::size_t>(std::max<std::int64_t>(o.minlength, 0));
  for (const std::int64_t number : numbers) {
    if (number < 0) throw_invalid_argument(fmt::format("np.bincount: found {}, expected no negative number", number));
    size = std::max(size, static_cast<std::size_t>(number) + 1);
  }
  if (!o.weights) {
    Longs counts(size);
    for (const std::int64_t number : numbers) ++counts[static_cast<std::size_t>(number)];
    return array_of(counts);
  }
  const Doubles weights = doubles(*o.weights);
  if (weights.size() != numbers.size()) {
    throw_invalid_argument(
        fmt::format("np.bincount: {} weights were given for {} numbers", weights.size(), numbers.size()));
  }
  Doubles sums(size);
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[static_cast<std::size_t>(numbers[i])] += weights[i];
  return array_of(sums);
}

namespace {

Doubles edges_of(const Doubles& values, const HistogramKeywords& o) {
  if (o.bins.edges().defined()) return doubles(o.bins.edges());
  double first = 0, last = 1;
  if (o.range) {
    std::tie(first, last) = *o.range;
  } else if (!values.empty()) {
    const auto [low, high] = std::ranges::minmax(values);
    first = low, last = high;
  }
  if (!std::isfinite(first) || !std::isfinite(last) || first > last || o.bins.count() < 1)
    throw_invalid_argument(
        fmt::format("np.histogram: invalid bins or range: found {} bins from {} to {}", o.bins.count(), first, last));
  if (first == last) first -= 0.5, last += 0.5;
  return doubles(linspace(first, last, LinspaceKeywords{{}, o.bins.count() + 1, true, DType::kFloat64}));
}

}  // namespace

Histogram histogram(const Array& a, const HistogramKeywords& o) {
  const Doubles values = doubles(a);
  const Doubles edges = edges_of(values, o);
  if (edges.size() < 2 || !std::ranges::is_sorted(edges))
    throw_invalid_argument("np.histogram: invalid bins: expected two or more edges in ascending order");
  Longs counts(edges.size() - 1);
  for (const double value : values) {
    if (!(value >= edges.front() && value <= edges.back())) continue;
    const auto bin = static_cast<std::size_t>(std::ranges::upper_bound(edges, value) - edges.begin()) - 1;
    ++counts[std::min(bin, counts.size() - 1)];
  }
  const Tensor hist = array_of(counts), bin_edges = array_of(edges);
  return {o.density ? divide(hist, multiply(diff(bin_edges), hist.sum())) : hist, bin_edges};
}

Tensor argwhere(const Array& a) { return ops::where(static_cast<const Tensor&>(a)).numpy(); }

Tensor diff(const Array& a, const DiffKeywords& o) {
  return keras_ops::diff(static_cast<const Tensor&>(a), o.n, o.axis).numpy();
}

keras::Structure gradient(const Array& f, double spacing, const GradientKeywords& o) {
  const Tensor x = internal::to_float(f);
  const auto along = [&](int axis) {
    const std::int64_t count = x.dim(axis < 0 ? axis + x.rank() : axis);
    if (count < 2)
      throw_invalid_argument(fmt::format("np.gradient: axis {} has {} elements, expected 2 or more", axis, count));
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      return keras_ops::take(x, np::arange(begin, end), axis);
    };
    const Tensor inner = (part(2, count) - part(0, count - 2)) / (2.0 * spacing);
    const Tensor first = (part(1, 2) - part(0, 1)) / spacing,
                 last = (part(count - 1, count) - part(count - 2, count - 1)) / spacing;
    return keras_ops::concatenate({first, inner, last}, axis).numpy();
  };
  if (o.axis || x.rank() == 1) return along(o.axis.value_or(0));
  keras::Structure::List all;
  for (int axis = 0; axis < x.rank(); ++axis) all.push_back(along(axis));
  return keras::Structure::list(std::move(all));
}

Tensor average(const Array& a, const AverageKeywords& o) {
  const Tensor x = internal::to_float(a);
  const keras_ops::OpArgument axis = o.axis ? keras_ops::OpArgument(*o.axis) : nullptr;
  if (!o.weights) return keras_ops::average(x, axis).numpy();
  return keras_ops::average(x, axis, internal::cast(*o.weights, x.dtype())).numpy();
}

Tensor cov(const Array& m) {
  const Tensor rows = internal::to_float(m), x = rows.rank() == 1 ? rows.reshape(1, -1) : rows;
  const Tensor centered = x - x.mean(ops::AxisKeywords{{}, 1, true});
  const Tensor sums = matmul(centered, centered.transpose()) / static_cast<double>(x.dim(1) - 1);
  return rows.rank() == 1 ? sums.reshape(ShapeArg(Shape{})) : sums;
}
Tensor cov(const Array& m, const Array& y) { return cov(vstack({atleast_2d(m), atleast_2d(y)})); }

Tensor corrcoef(const Array& x) {
  const Tensor c = cov(x);
  if (c.rank() == 0) return c / c;
  const Tensor deviations = sqrt(diag(c));
  return clip(c / expand_dims(deviations, 1) / deviations, -1.0, 1.0);
}
Tensor corrcoef(const Array& x, const Array& y) { return corrcoef(vstack({atleast_2d(x), atleast_2d(y)})); }

Tensor column_stack(const std::vector<Array>& columns) {
  Tensors parts;
  for (const Array& column : columns) parts.push_back(column.rank() < 2 ? column.reshape(-1, 1) : column.numpy());
  return concatenate(parts, 1);
}

Tensor delete_(const Array& arr, const Array& obj, std::optional<int> axis) {
  const Tensor x = axis ? Tensor(arr) : arr.flatten();
  const int along = axis.value_or(0);
  const std::int64_t extent = x.dim(along);
  std::vector<bool> dropped(static_cast<std::size_t>(extent));
  for (const std::int64_t index : longs(obj)) {
    if (index < -extent || index >= extent)
      throw_out_of_range(fmt::format("np.delete: index {} is out of range for an axis of {}", index, extent));
    dropped[static_cast<std::size_t>(index < 0 ? index + extent : index)] = true;
  }
  Longs kept;
  for (std::int64_t i = 0; i < extent; ++i) {
    if (!dropped[static_cast<std::size_t>(i)]) kept.push_back(i);
  }
  return ops::gather(x, Tensor::from_vector(kept), along).numpy();
}

keras::Structure unravel_index(const Array& indices, const Shape& shape) {
  const std::int64_t size = shape.num_elements().value();
  Tensor rest = internal::cast(indices, DType::kInt64);
  for (const std::int64_t index : longs(rest)) {
    if (index < 0 || index >= size) {
      throw_out_of_range(
          fmt::format("np.unravel_index: index {} is out of range for shape {}", index, shape.to_string()));
    }
  }
  keras::Structure::List coordinates(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    coordinates[static_cast<std::size_t>(axis)] = mod(rest, shape[axis]);
    rest = floor_divide(rest, shape[axis]);
  }
  return keras::Structure::list(std::move(coordinates));
}

Tensor interp(const Array& x, const Array& xp, const Array& fp) {
  const Doubles places = doubles(xp), values = doubles(fp);
  if (places.empty() || places.size() != values.size()) {
    throw_invalid_argument(fmt::format("np.interp: found {} points and {} values, expected as many of both",
                                       places.size(), values.size()));
  }
  Doubles out;
  for (const double at : doubles(x)) {
    const auto next = static_cast<std::size_t>(std::ranges::upper_bound(places, at) - places.begin());
    if (next == 0 || next == places.size()) {
      out.push_back(next == 0 ? values.front() : values.back());
      continue;
    }
    const double slope = (values[next] - values[next - 1]) / (places[next] - places[next - 1]);
    out.push_back(slope * (at - places[next - 1]) + values[next - 1]);
  }
  return array_of(out).reshape(x.shape());
}

Tensor convolve(const Array& a, const Array& v, const ConvolveKeywords& o) {
  const std::string& mode = o.mode;
  Doubles longer = doubles(a), shorter = doubles(v);
  if (longer.size() < shorter.size()) std::swap(longer, shorter);
  if (shorter.empty()) throw_invalid_argument("np.convolve: found an empty vector");
  Doubles full(longer.size() + shorter.size() - 1);
  for (std::size_t i = 0; i < longer.size(); ++i) {
    for (std::size_t k = 0; k < shorter.size(); ++k) full[i + k] += longer[i] * shorter[k];
  }
  std::size_t first = 0, count = full.size();
  if (mode == "same") {
    first = (shorter.size() - 1) / 2, count = longer.size();
  } else if (mode == "valid") {
    first = shorter.size() - 1, count = longer.size() - shorter.size() + 1;
  } else if (mode != "full") {
    throw_invalid_argument(fmt::format("np.convolve: unknown mode '{}', expected full, same or valid", mode));
  }
  const auto begin = full.begin() + static_cast<std::ptrdiff_t>(first);
  const Tensor out = array_of(Doubles(begin, begin + static_cast<std::ptrdiff_t>(count)));
  const DType dtype = ops::array_dtype(a.dtype(), v.dtype());
  return internal::cast(out, dtype);
}

namespace fft {

Tensor rfftfreq(std::int64_t n, double d) { return np::arange(n / 2 + 1) / (static_cast<double>(n) * d); }
Tensor fftfreq(std::int64_t n, double d) {
  const std::int64_t positive = (n - 1) / 2 + 1;
  return np::concatenate({np::arange(positive), np::arange(-(n / 2), std::int64_t{0})}) / (static_cast<double>(n) * d);
}

}  // namespace fft

namespace {

std::vector<std::string> words_of(const std::string& line, const std::string& delimiter) {
  std::vector<std::string> words;
  if (delimiter.empty()) {
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(delimiter, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + delimiter.size();
  }
  return words;
}

std::optional<double> number_of(std::string word) {
  word.erase(0, std::min(word.find_first_not_of(" \t\""), word.size()));
  word.erase(word.find_last_not_of(" \t\"") + 1);
  double value = 0;
  const char* const begin = word.data() + (word.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// What a field has that is not a number; nothing: it is an error.
Tensor numbers_in(const std::string& fname, const LoadtxtKeywords& o, std::string_view who,
                  std::optional<double> missing) {
  const auto number_in = [&](const std::string& word, std::size_t line) {
    const std::optional<double> found = number_of(word);
    if (!found && !missing)
      throw_invalid_argument(fmt::format("np.{}: {}, line {}: '{}' is not a number", who, fname, line, word));
    return found ? *found : *missing;
  };
  std::istringstream stream(io::read_text(io::posix_file_system(), fname, std::uint64_t{4} << 30));
  Doubles values;
  std::int64_t rows = 0, columns = 0;
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (static_cast<std::int64_t>(number) <= o.skiprows) continue;
    if (!o.comments.empty()) line = line.substr(0, line.find(o.comments));
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::vector<std::string> words = words_of(line, o.delimiter);
    const auto given = static_cast<std::int64_t>(words.size());
    if (rows > 0 && o.usecols.empty() && given != columns) {
      throw_invalid_argument(
          fmt::format("np.{}: {}, line {}: found {} columns, expected {}", who, fname, number, given, columns));
    }
    if (o.usecols.empty()) {
      for (const std::string& word : words) values.push_back(number_in(word, number));
    } else {
      for (const std::int64_t column : o.usecols) {
        const std::int64_t at = column < 0 ? column + given : column;
        if (at < 0 || at >= given) {
          throw_invalid_argument(fmt::format("np.{}: {}, line {}: found {} columns, none with index {}", who, fname,
                                             number, given, column));
        }
        values.push_back(number_in(words[static_cast<std::size_t>(at)], number));
      }
    }
    columns = o.usecols.empty() ? given : static_cast<std::int64_t>(o.usecols.size());
    ++rows;
  }
  const Tensor flat = internal::cast(array_of(values), o.dtype);
  return rows > 1 && columns > 1 ? flat.reshape(rows, columns) : flat;
}

}  // namespace

Tensor loadtxt(const std::string& fname, const LoadtxtKeywords& o) {
  return numbers_in(fname, o, "loadtxt", std::nullopt);
}
Tensor genfromtxt(const std::string& fname, const GenfromtxtKeywords& o) {
  return numbers_in(fname,
                    {.delimiter = o.delimiter,
                     .skiprows = o.skip_header,
                     .usecols = o.usecols,
                     .dtype = o.dtype,
                     .comments = o.comments},
                    "genfromtxt", std::numeric_limits<double>::quiet_NaN());
}

namespace {

// Throws InvalidArgument unless it is one conversion of a number by printf.
std::string checked_format(const std::string& format) {
  const std::size_t percent = format.find('%');
  const std::size_t end = format.find_first_not_of("+-# 0123456789.", percent == std::string::npos ? 0 : percent + 1);
  if (percent == std::string::npos || end == std::string::npos ||
      std::string_view("dieEfFgG").find(format[end]) == std::string_view::npos ||
      format.find('%', end) != std::string::npos)
    throw_invalid_argument(fmt::format("np.savetxt: invalid fmt '{}', expected one number, such as %.4f", format));
  return format;
}

std::string text_of(double value, const std::string& format) {
  const bool whole = format.find_first_of("di") != std::string::npos;
  return whole ? fmt::sprintf(format, static_cast<std::int64_t>(value)) : fmt::sprintf(format, value);
}

}  // namespace

void savetxt(const std::string& fname, const Array& X, const SavetxtKeywords& o) {
  if (X.rank() < 1 || X.rank() > 2)
    throw_invalid_argument(fmt::format("np.savetxt: found an array of {} axes, expected 1 or 2", X.rank()));
  const std::string format = checked_format(o.fmt);
  const Doubles values = doubles(X);
  const std::size_t columns = X.rank() == 2 ? static_cast<std::size_t>(X.dim(1)) : 1;
  std::string text = o.header.empty() ? "" : o.comments + o.header + "\n";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += text_of(values[i], format) + ((i + 1) % columns == 0 ? "\n" : o.delimiter);
  io::write_atomically(fname, text);
}

void set_printoptions(const PrintOptions& o) {
  ArrayPrintOptions options = array_print_options();
  if (o.precision) options.precision = std::clamp(*o.precision, 0, 100);
  if (o.threshold) options.threshold = *o.threshold;
  if (o.edgeitems) options.edge_items = std::max<std::int64_t>(*o.edgeitems, 1);
  if (o.linewidth) options.line_width = std::max<std::int64_t>(*o.linewidth, 1);
  if (o.suppress) options.suppress = *o.suppress;
  set_array_print_options(options);
}

}  // namespace lockstep::np

// Tensors as text, and distances between sequences.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "lockstep/io/fingerprint_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// ---- StringFormat ------------------------------------------------------------------------------------------------
// The shortest of two precisions that reads back as the same number.
std::string float_text(double value, bool single) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", single ? 6 : 15, value);
  const double back = std::strtod(text, nullptr);
  const bool same = single ? static_cast<float>(back) == static_cast<float>(value) : back == value;
  if (!same) std::snprintf(text, sizeof(text), "%.*g", single ? 9 : 17, value);
  return text;
}

std::string escaped(const std::string& bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '"': out += "\\\""; break;
      case '\'': out += "\\'"; break;
      case '\\': out += "\\\\"; break;
      default: out += byte < 0x20 || byte == 0x7f ? fmt::format("\\{:03o}", byte) : std::string(1, c);
    }
  }
  return out + "\"";
}

class Summary {
 public:
  // As in TensorFlow, "all elements" means as many at each end as the tensor has: none for an empty tensor.
  Summary(const Tensor& tensor, std::int64_t summarize)
      : tensor_(tensor), ends_(summarize < 0 ? tensor.num_elements() : std::min(summarize, tensor.num_elements())) {
    if (tensor.dtype() == DType::kString) return;
    const at::Tensor& x = dense(tensor);
    if (is_float(x)) {
      reals_ = x.to(at::kDouble).contiguous();
    } else {
      ints_ = (x.scalar_type() == at::kUInt64 ? x.view(at::kLong) : x.to(at::kLong)).contiguous();
    }
  }
  std::string text() {
    if (ends_ == 0 && tensor_.dtype() == DType::kBool) return "";
    if (ends_ == 0 && tensor_.rank() == 0) return "...";
    add(0, 0);
    return out_;
  }

 private:
  void add_element(std::int64_t at) {
    if (tensor_.dtype() == DType::kString) {
      out_ += escaped(tensor_.string_values()[static_cast<std::size_t>(at)]);
    } else if (reals_.defined()) {
      out_ += float_text(reals_.const_data_ptr<double>()[at], tensor_.dtype() != DType::kFloat64);
    } else if (tensor_.dtype() == DType::kUInt64) {
      out_ += std::to_string(static_cast<std::uint64_t>(ints_.const_data_ptr<std::int64_t>()[at]));
    } else {
      out_ += std::to_string(ints_.const_data_ptr<std::int64_t>()[at]);
    }
  }
  void add_space(int axis) {
    const int rank = tensor_.rank();
    if (axis == rank - 1) {
      out_ += ' ';
      return;
    }
    out_.append(static_cast<std::size_t>(rank - axis - 1), '\n');
    out_.append(static_cast<std::size_t>(axis + 1), ' ');
  }
  void add(int axis, std::int64_t at) {
    if (axis == tensor_.rank()) return add_element(at);
    const std::int64_t count = tensor_.dim(axis);
    std::int64_t each = 1;
    for (int i = axis + 1; i < tensor_.rank(); ++i) each *= tensor_.dim(i);
    out_ += '[';
    for (std::int64_t i = 0; i < std::min(ends_, count); ++i) {
      if (i > 0) add_space(axis);
      add(axis + 1, at + each * i);
    }
    if (count > ends_ && count - ends_ > ends_) {
      add_space(axis);
      out_ += "...";
    }
    for (std::int64_t i = std::max(ends_, count - ends_); i < count; ++i) {
      add_space(axis);
      add(axis + 1, at + each * i);
    }
    out_ += ']';
  }

  const Tensor& tensor_;
  std::int64_t ends_;
  at::Tensor reals_, ints_;
  std::string out_;
};

Tensors string_format(const Call& call) {
  const auto& pattern = call.attr<std::string>("template");
  const auto& placeholder = call.attr<std::string>("placeholder");
  const auto summarize = call.attr<std::int64_t>("summarize");
  if (placeholder.empty()) throw_invalid_argument("the placeholder must not be empty");
  std::string out;
  std::size_t begin = 0;
  int input = 0;
  for (;;) {
    const std::size_t at = pattern.find(placeholder, begin);
    out += pattern.substr(begin, at == std::string::npos ? at : at - begin);
    if (at == std::string::npos) break;
    if (input >= call.num_inputs())
      throw_invalid_argument(fmt::format("the template has more placeholders than the {} tensors", call.num_inputs()));
    out += Summary(call.input(input++), summarize).text();
    begin = at + placeholder.size();
  }
  if (input != call.num_inputs())
    throw_invalid_argument(fmt::format("the template has {} placeholders for {} tensors", input, call.num_inputs()));
  return {Tensor::strings({out}, Shape{})};
}

// ---- EditDistance ------------------------------------------------------------------------------------------------
// The coordinates of a group, and the places of its entries.
using Groups = std::map<Ints, Ints>;

Groups groups_of(const Sparse& x) {
  Groups groups;
  for (std::int64_t i = 0; i < x.count; ++i) groups[Ints(x.row(i), x.row(i) + x.rank - 1)].push_back(i);
  return groups;
}

// Numbers that are equal exactly where the values are.
template <typename Equal>
std::int64_t levenshtein(const Ints& a, const Ints& b, const Equal& equal) {
  Ints row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t replace = diagonal + (equal(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

Tensors edit_distance(const Call& call) {
  const Sparse hypothesis = sparse_in(call, 0, 1, 2), truth = sparse_in(call, 3, 4, 5);
  if (hypothesis.rank != truth.rank || truth.rank < 2)
    throw_invalid_argument("hypothesis and truth must have the same rank of at least 2");
  const bool normalize = call.attr<bool>("normalize");
  Ints shape;
  for (std::int64_t i = 0; i + 1 < truth.rank; ++i)
    shape.push_back(std::max(hypothesis.shape[static_cast<std::size_t>(i)], truth.shape[static_cast<std::size_t>(i)]));
  element_count(shape, sizeof(float));
  at::Tensor out = at::zeros(shape, at::kFloat);
  const Groups ours = groups_of(hypothesis), theirs = groups_of(truth);
  at::Tensor a, b;
  const bool strings = truth.values.dtype() == DType::kString;
  if (!strings) a = dense(hypothesis.values).contiguous(), b = dense(truth.values).contiguous();
  const std::size_t width = strings ? 0 : static_cast<std::size_t>(a.element_size());
  const auto equal = [&](std::int64_t i, std::int64_t j) {
    const auto p = static_cast<std::size_t>(i), q = static_cast<std::size_t>(j);
    if (strings) return hypothesis.values.string_values()[p] == truth.values.string_values()[q];
    return std::equal(static_cast<const char*>(a.const_data_ptr()) + p * width,
                      static_cast<const char*>(a.const_data_ptr()) + (p + 1) * width,
                      static_cast<const char*>(b.const_data_ptr()) + q * width);
  };
  const auto set = [&](const Ints& group, float value) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < group.size(); ++i) at = at * shape[i] + group[i];
    out.mutable_data_ptr<float>()[at] = value;
  };
  for (const auto& [group, places] : theirs) {
    const auto found = ours.find(group);
    const auto length = static_cast<float>(places.size());
    if (found == ours.end()) {
      set(group, normalize ? 1.0f : length);
      continue;
    }
    const auto distance = static_cast<float>(levenshtein(found->second, places, equal));
    set(group, normalize ? distance / length : distance);
  }
  for (const auto& [group, places] : ours) {
    if (theirs.contains(group)) continue;
    set(group, normalize ? std::numeric_limits<float>::infinity() : static_cast<float>(places.size()));
  }
  return one(out);
}

// ---- Fingerprint -------------------------------------------------------------------------------------------------
// Eight bytes for each entry of the first axis, the low one first: of its bytes, or for strings of the fingerprints of
// its strings where it has several.
Tensors fingerprint(const Call& call) {
  if (string_in(call, 1) != "farmhash64")
    throw_invalid_argument(fmt::format("unknown method '{}' (expected farmhash64)", string_in(call, 1)));
  const Tensor& data = call.input(0);
  if (data.rank() < 1) throw_invalid_argument("data must have at least one axis");
  const std::int64_t rows = data.dim(0);
  at::Tensor out = at::empty({rows, 8}, at::kByte);
  const auto bytes_of = [](std::uint64_t code) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(code >> (8 * i)));
    return bytes;
  };
  const bool texts = data.dtype() == DType::kString;
  const at::Tensor numbers = texts ? at::Tensor() : dense(data).contiguous();
  const std::size_t size = texts
                               ? data.string_values().size() / static_cast<std::size_t>(std::max<std::int64_t>(rows, 1))
                           : rows == 0 ? 0
                                       : numbers.nbytes() / static_cast<std::size_t>(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * size;
    std::string bytes;
    if (!texts) {
      bytes.assign(static_cast<const char*>(numbers.const_data_ptr()) + first, size);
    } else if (size == 1) {
      bytes = data.string_values()[first];
    } else {
      for (std::size_t i = 0; i < size; ++i) bytes += bytes_of(io::fingerprint64(data.string_values()[first + i]));
    }
    const std::string code = bytes_of(io::fingerprint64(bytes));
    std::copy(code.begin(), code.end(), out.mutable_data_ptr<std::uint8_t>() + row * 8);
  }
  return one(out);
}

}  // namespace

void register_text(Table& table) {
  table.add("StringFormat", scalar_rule, string_format);
  table.add("EditDistance", nullptr, edit_distance);
  table.add("Fingerprint", nullptr, fingerprint);
}

}  // namespace lockstep::ops

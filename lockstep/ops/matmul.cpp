// Matrix products and Einsum.
#include <algorithm>
#include <map>

#include <ATen/core/grad_mode.h>

#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/gram_matrix_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/product_internal.h"

namespace lockstep::ops {
namespace {

Shapes matmul_shape(const Call& call) {
  const Shape &a = call.input(0).shape(), &b = call.input(1).shape();
  const bool ta = call.attr<bool>("transpose_a"), tb = call.attr<bool>("transpose_b");
  if ((a.known_rank() && a.rank() != 2) || (b.known_rank() && b.rank() != 2))
    throw_invalid_argument("both inputs must be matrices");
  const std::int64_t rows = a.known_rank() ? a[ta ? 1 : 0] : kUnknownDim,
                     columns = b.known_rank() ? b[tb ? 0 : 1] : kUnknownDim;
  const std::int64_t left = a.known_rank() ? a[ta ? 0 : 1] : kUnknownDim,
                     right = b.known_rank() ? b[tb ? 1 : 0] : kUnknownDim;
  if (left != right && left != kUnknownDim && right != kUnknownDim) {
    throw_invalid_argument(fmt::format("the inner dimensions differ: {} and {}", left, right));
  }
  return {Shape{rows, columns}};
}

// LibTorch has no integer matrix product for odd types; int64 serves them.
at::Tensor any_product(const at::Tensor& a, const at::Tensor& b) {
  const auto type = a.scalar_type();
  if (at::isIntegralType(type, true)) return at::matmul(a.to(at::kLong), b.to(at::kLong)).to(type);
  return at::matmul(a, b);
}

Tensors matmul(const Call& call) {
  matmul_shape(call);
  const bool ta = call.attr<bool>("transpose_a"), tb = call.attr<bool>("transpose_b");
  const at::Tensor &a = in(call, 0), &b = in(call, 1);
  if (has_product(a, b)) return one(product(a, ta, b, tb));
  return one(any_product(ta ? a.t() : a, tb ? b.t() : b));
}

Shapes batch_matmul_shape(const Call& call) {
  const Shape &a = call.input(0).shape(), &b = call.input(1).shape();
  if (!a.known_rank() || !b.known_rank()) return {Shape::unknown_rank()};
  if (a.rank() < 2 || b.rank() < 2) throw_invalid_argument("both inputs must have at least two axes");
  if (call.name() == "BatchMatMul" && a.rank() != b.rank())  // the others broadcast
    throw_invalid_argument(fmt::format("the inputs have {} and {} axes", a.rank(), b.rank()));
  const bool ta = call.attr<bool>("adj_x"), tb = call.attr<bool>("adj_y");
  const std::int64_t left = a[ta ? -2 : -1], right = b[tb ? -1 : -2];
  if (left != right && left != kUnknownDim && right != kUnknownDim) {
    throw_invalid_argument(fmt::format("the inner dimensions differ: {} and {}", left, right));
  }
  Shape out = broadcast_shape(Shape(Ints(a.dims().begin(), a.dims().end() - 2)),
                              Shape(Ints(b.dims().begin(), b.dims().end() - 2)));
  out.push_back(a[ta ? -1 : -2]);
  out.push_back(b[tb ? -2 : -1]);
  return {out};
}
Tensors batch_matmul(const Call& call) {
  batch_matmul_shape(call);
  if (!call.attrs().find("Tout") && has_batch_product(in(call, 0), in(call, 1))) {
    return one(batch_product(in(call, 0), call.attr<bool>("adj_x"), in(call, 1), call.attr<bool>("adj_y")));
  }
  const auto adjoint = [](const at::Tensor& x) {
    const at::Tensor t = x.transpose(-1, -2);
    return has_complex(x) ? t.conj() : t;
  };
  at::Tensor a = call.attr<bool>("adj_x") ? adjoint(in(call, 0)) : in(call, 0);
  at::Tensor b = call.attr<bool>("adj_y") ? adjoint(in(call, 1)) : in(call, 1);
  if (const auto* out = call.find_attr<DType>("Tout")) {
    const auto type = to_scalar_type(*out);
    return one(any_product(a.to(type), b.to(type)));
  }
  return one(any_product(a, b));
}

// ---- Einsum --------------------------------------------------------------------------------------------
struct Equation {
  std::vector<std::string> inputs;  // labels; '.' stands for the ellipsis
  std::string output;
};

std::string parse_labels(std::string_view text) {
  std::string labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      labels += '.';
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels += text[i];
    } else {
      throw_invalid_argument(fmt::format("einsum: '{}' is not a label", text[i]));
    }
  }
  if (std::count(labels.begin(), labels.end(), '.') > 1)
    throw_invalid_argument("einsum: more than one ellipsis in a term");
  return labels;
}
Equation parse_equation(const std::string& text, int num_inputs) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find("->", arrow + 2) != std::string::npos) {
    throw_invalid_argument(fmt::format("einsum equation '{}' must have exactly one '->'", text));
  }
  Equation equation;
  std::string_view left = std::string_view(text).substr(0, arrow);
  for (std::size_t begin = 0;;) {
    const std::size_t comma = left.find(',', begin);
    equation.inputs.push_back(
        parse_labels(left.substr(begin, comma == std::string_view::npos ? comma : comma - begin)));
    if (comma == std::string_view::npos) break;
    begin = comma + 1;
  }
  equation.output = parse_labels(std::string_view(text).substr(arrow + 2));
  if (static_cast<int>(equation.inputs.size()) != num_inputs) {
    throw_invalid_argument(
        fmt::format("einsum equation '{}' has {} terms for {} inputs", text, equation.inputs.size(), num_inputs));
  }
  return equation;
}

Shapes einsum_shape(const Call& call) {
  const Equation equation = parse_equation(call.attr<std::string>("equation"), call.num_inputs());
  std::map<char, std::int64_t> dims;
  Shape broadcast;
  for (int i = 0; i < call.num_inputs(); ++i) {
    const Shape& x = call.input(i).shape();
    if (!x.known_rank()) return {Shape::unknown_rank()};
    const std::string& labels = equation.inputs[static_cast<std::size_t>(i)];
    const bool dots = labels.find('.') != std::string::npos;
    const int wide = x.rank() - static_cast<int>(labels.size()) + (dots ? 1 : 0);
    if (wide < 0 || (!dots && wide > 0))
      throw_invalid_argument(fmt::format("einsum term '{}' does not fit shape {}", labels, x.to_string()));
    int axis = 0;
    for (char label : labels) {
      if (label == '.') {
        broadcast = broadcast_shape(broadcast, Shape(Ints(x.dims().begin() + axis, x.dims().begin() + axis + wide)));
        axis += wide;
        continue;
      }
      const std::int64_t dim = x[axis++];
      auto [known, fresh] = dims.try_emplace(label, dim);
      if (!fresh && known->second == kUnknownDim) known->second = dim;
      if (dim != kUnknownDim && known->second != dim) {
        throw_invalid_argument(fmt::format("einsum label '{}' is {} and {}", label, known->second, dim));
      }
    }
  }
  Shape out;
  for (char label : equation.output) {
    if (label == '.') {
      for (auto dim : broadcast.dims()) out.push_back(dim);
    } else if (auto known = dims.find(label); known != dims.end()) {
      out.push_back(known->second);
    } else {
      throw_invalid_argument(fmt::format("einsum equation '{}': the output label '{}' is not a label of an input",
                                         call.attr<std::string>("equation"), label));
    }
  }
  return {out};
}

// Two float32 operands whose labels make one stack of matrix products; nothing for any other equation.
std::optional<at::Tensor> einsum_product(const Equation& equation, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat || a.numel() == 0 || b.numel() == 0)
    return std::nullopt;
  const std::string &left = equation.inputs[0], &right = equation.inputs[1], &out = equation.output;
  const auto has = [](const std::string& labels, char label) { return labels.find(label) != std::string::npos; };
  for (const std::string* labels : {&left, &right, &out}) {
    for (char label : *labels) {
      if (label == '.' || std::count(labels->begin(), labels->end(), label) > 1) return std::nullopt;
    }
  }
  std::string stack, rows, inner, columns;
  for (char label : left) {
    const bool shared = has(right, label), kept = has(out, label);
    if (!shared && !kept) return std::nullopt;
    (shared && kept ? stack : shared ? inner : rows) += label;
  }
  for (char label : right) {
    if (has(left, label)) continue;
    if (!has(out, label)) return std::nullopt;
    columns += label;
  }
  const auto arranged = [&](const at::Tensor& x, const std::string& labels, const std::string& first,
                            const std::string& last) {
    Ints order, shape;
    for (char label : stack) {
      order.push_back(static_cast<std::int64_t>(labels.find(label)));
      shape.push_back(x.size(order.back()));
    }
    for (const std::string* part : {&first, &last}) {
      shape.push_back(1);
      for (char label : *part) {
        order.push_back(static_cast<std::int64_t>(labels.find(label)));
        shape.back() *= x.size(order.back());
      }
    }
    return x.permute(order).reshape(shape);
  };
  const at::Tensor x = arranged(a, left, rows, inner), y = arranged(b, right, inner, columns);
  if (!stack.empty() && !has_batch_product(x, y)) return std::nullopt;
  const std::string made = stack + rows + columns;
  // The result is computed in its order of axes if that keeps the rows of the matrices contiguous.
  Ints in_memory;
  if (rows.size() == 1 && columns.size() == 1 && out.back() == columns[0]) {
    for (char label : out) in_memory.push_back(static_cast<std::int64_t>(made.find(label)));
  }
  const at::Tensor z = stack.empty() ? product(x, false, y, false) : batch_product(x, false, y, false, in_memory);
  Ints shape, order;
  for (char label : made)
    shape.push_back(has(left, label) ? a.size(static_cast<std::int64_t>(left.find(label)))
                                     : b.size(static_cast<std::int64_t>(right.find(label))));
  for (char label : out) order.push_back(static_cast<std::int64_t>(made.find(label)));
  return z.view(shape).permute(order).contiguous();
}

Tensors einsum(const Call& call) {
  einsum_shape(call);
  Equation equation = parse_equation(call.attr<std::string>("equation"), call.num_inputs());
  if (call.num_inputs() == 2) {
    if (auto made = einsum_product(equation, in(call, 0), in(call, 1))) return one(std::move(*made));
  }
  std::string known, text;
  for (const auto& labels : equation.inputs) known += labels;
  const auto spell = [&text](const std::string& labels) {
    for (char label : labels) {
      if (label == '.') text += "..";
      text.push_back(label);
    }
  };
  std::string plain, repeated;  // an output label that is repeated makes a diagonal
  for (char label : equation.output) {
    if (known.find(label) == std::string::npos) continue;
    (plain.find(label) == std::string::npos ? plain : repeated) += label;
  }
  if (!repeated.empty() && equation.output.size() != 2)
    throw_unimplemented("einsum with a repeated label in a longer output");
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    if (i > 0) text.push_back(',');
    spell(equation.inputs[i]);
  }
  text += "->";
  spell(plain);
  std::vector<at::Tensor> operands;
  for (int i = 0; i < call.num_inputs(); ++i) operands.push_back(in(call, i));
  at::Tensor out = at::einsum(text, operands);
  if (!repeated.empty()) out = at::diag_embed(out);
  return one(narrow_to(out, in(call, 0).scalar_type()));
}

}  // namespace

// Three axes and more are matrices with many rows.
std::optional<Tensor> try_dense_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu) {
  const bool values = x.is_value() && kernel.is_value() && (!bias.defined() || bias.is_value());
  if (!values || x.dtype() != DType::kFloat32 || kernel.dtype() != DType::kFloat32 || x.rank() < 2 ||
      kernel.rank() != 2)
    return std::nullopt;
  if (x.dim(-1) != kernel.dim(0) ||
      (bias.defined() && (bias.dtype() != DType::kFloat32 || bias.rank() != 1 || bias.dim(0) != kernel.dim(1))))
    return std::nullopt;
  const at::Tensor &a = aten(x), &w = aten(kernel);
  const at::Tensor rows = a.dim() == 2 ? a : a.reshape({-1, a.size(-1)});
  at::Tensor y;
  if (has_product(rows, w)) {
    y = product(rows, false, w, false, bias.defined() ? aten(bias) : at::Tensor(), relu);
  } else {
    y = bias.defined() ? at::addmm(aten(bias), rows, w) : at::mm(rows, w);
    if (relu) y = y.requires_grad() ? at::relu(y) : at::relu_(y);
  }
  if (a.dim() != 2) {
    Ints shape = a.sizes().vec();
    shape.back() = w.size(1);
    y = y.reshape(shape);
  }
  return wrap(std::move(y));
}

std::optional<Tensor> try_gram_matrix(const Tensor& x) {
  if (!x.is_value() || x.dtype() != DType::kFloat32 || x.rank() != 2) return std::nullopt;
  const at::Tensor& rows = aten(x);
  if (!has_product(rows, rows) || (at::GradMode::is_enabled() && rows.requires_grad())) return std::nullopt;
  return wrap(gram_matrix(rows));
}

std::optional<Tensor> try_einsum_bias(std::string_view text, const Tensor& x, const Tensor& kernel,
                                      const Tensor& bias) {
  if (!x.is_value() || !kernel.is_value() || (bias.defined() && !bias.is_value())) return std::nullopt;
  const Equation equation = parse_equation(std::string(text), 2);
  const std::string &left = equation.inputs[0], &right = equation.inputs[1], &out = equation.output;
  // Labels that both operands have, at the end of one and at the beginning of the other, once each.
  const std::size_t inner = left.size() + right.size() < out.size() ? 0 : (left.size() + right.size() - out.size()) / 2;
  if (inner == 0 || inner > left.size() || inner > right.size() || (left + right).find('.') != std::string::npos)
    return std::nullopt;
  const std::string kept = left.substr(0, left.size() - inner), made = right.substr(inner);
  std::string all = left + made;
  std::sort(all.begin(), all.end());
  if (left.substr(kept.size()) != right.substr(0, inner) || out != kept + made ||
      std::adjacent_find(all.begin(), all.end()) != all.end())
    return std::nullopt;
  const auto has_rank = [](const Tensor& t, std::size_t rank) { return t.rank() == static_cast<int>(rank); };
  if (!has_rank(x, left.size()) || !has_rank(kernel, right.size()) || kernel.num_elements() == 0) return std::nullopt;
  const auto part = [](const Tensor& t, std::size_t from, std::size_t count) {
    return Shape(Ints(t.shape().dims().begin() + static_cast<std::ptrdiff_t>(from),
                      t.shape().dims().begin() + static_cast<std::ptrdiff_t>(from + count)));
  };
  const Shape columns = part(kernel, inner, made.size());
  if (part(x, kept.size(), inner) != part(kernel, 0, inner) || (bias.defined() && bias.shape() != columns))
    return std::nullopt;
  const std::int64_t depth = *part(kernel, 0, inner).num_elements(), width = *columns.num_elements();
  const auto y = try_dense_bias_act(wrap(aten(x).reshape({-1, depth})), wrap(aten(kernel).reshape({depth, width})),
                                    bias.defined() ? wrap(aten(bias).reshape({width})) : bias, false);
  if (!y) return std::nullopt;
  Ints shape = part(x, 0, kept.size()).dims();
  shape.insert(shape.end(), columns.dims().begin(), columns.dims().end());
  return wrap(aten(*y).reshape(shape));
}

void register_matmul(Table& table) {
  table.add("MatMul", matmul_shape, matmul);
  for (auto name : {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) table.add(name, batch_matmul_shape, batch_matmul);
  table.add("Einsum", einsum_shape, einsum);
}

}  // namespace lockstep::ops

// One operation: its signature as TensorFlow registers it, its shape rule, its kernel.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

class Attrs;

// A function of a graph's library, given as an attribute, such as the body of a While.
struct FunctionName {
  std::string name;
  std::shared_ptr<const Attrs> attrs;  // may be null
};

using Attr = std::variant<std::int64_t, float, bool, std::string, DType, Shape, Tensor, FunctionName,
                          std::vector<std::int64_t>, std::vector<float>, std::vector<bool>, std::vector<std::string>,
                          std::vector<DType>, std::vector<Shape>, std::vector<FunctionName>>;

// The attributes of one node by name. Absent ones take the signature's default in get().
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, Attr>> items) : items_(items) {}

  void set(const std::string& name, Attr value) { items_.insert_or_assign(name, std::move(value)); }
  const Attr* find(std::string_view name) const;
  const std::map<std::string, Attr, std::less<>>& items() const { return items_; }

 private:
  std::map<std::string, Attr, std::less<>> items_;
};

// One input or output of a signature.
struct ArgDef {
  std::string name;
  DType dtype = DType::kInvalid;  // a fixed type, or
  std::string type_attr;          // the attr that holds it (T), or
  std::string type_list_attr;     // the attr that holds a list of types, one tensor each
  std::string number_attr;        // N of "N*T": how many tensors
  bool is_ref = false;
};

struct AttrDef {
  std::string name;
  std::string type;      // "type", "int", "float", "bool", "string", "shape", "tensor", "func", "list(…)"
  std::size_t kind = 0;  // the same as index of Attr's alternative
  std::vector<DType> allowed_types;
  std::vector<std::string> allowed_strings;
  std::optional<std::int64_t> minimum;
  std::optional<Attr> default_value;
};

struct Signature {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
  bool stateful = false;

  const AttrDef* find_attr(std::string_view name) const;
};

// The view of a call that shape rules and kernels get.
class Call {
 public:
  Call(const Signature& signature, std::span<const Tensor> inputs, const Attrs& attrs)
      : signature_(signature), inputs_(inputs), attrs_(attrs) {}

  const Signature& signature() const { return signature_; }
  const std::string& name() const { return signature_.name; }
  std::span<const Tensor> inputs() const { return inputs_; }
  // Throws Internal when the call has no input i.
  const Tensor& input(int i) const {
    if (i < 0 || i >= num_inputs()) throw_no_input(i);
    return inputs_[static_cast<std::size_t>(i)];
  }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const Attrs& attrs() const { return attrs_; }

  // The attribute, or its default. Throws InvalidArgument when it is neither given nor has a default,
  // or is of another type. T is one of Attr's alternatives (or int, std::string_view for convenience).
  template <typename T>
  const T& attr(std::string_view name) const;

  // Null for an attribute that this operation does not have, such as one of a later version of it.
  template <typename T>
  const T* find_attr(std::string_view name) const {
    return signature_.find_attr(name) ? &attr<T>(name) : nullptr;
  }

 private:
  [[noreturn]] void throw_no_input(int i) const;

  const Signature& signature_;
  std::span<const Tensor> inputs_;
  const Attrs& attrs_;
};

// Output shapes from input shapes and attributes (Tensor::shape() of each input may hold unknowns;
// constant_value() and constant_value_as_shape() of symbol.h return the known values).
using ShapeRule = std::function<std::vector<Shape>(const Call&)>;
// Computes eagerly on values. Differentiable through LibTorch's autograd where TensorFlow's op is.
using Kernel = std::function<Tensors(const Call&)>;

// A row of the op table.
struct Op {
  const Signature* signature = nullptr;
  ShapeRule shape;  // empty: all outputs of unknown shape
  Kernel kernel;    // empty: known by signature only
};

}  // namespace lockstep::ops

// The op table: every TensorFlow operation lockstep knows, by name.
//
// Signatures of all registered operations come from signatures.tsv (name, inputs, outputs, attributes, statefulness and
// shapes of inputs, as TensorFlow 2.21's registry and shape functions have them: tools/op_shapes.py). A row adds what
// lockstep computes: a shape rule and a kernel. A new operation is one kernel and one row in its family's register_…
// function.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

struct InputLimit;

class Table {
 public:
  // The table with all families in it; built once, immutable afterwards.
  static const Table& instance();

  // Null for a name that TensorFlow does not have.
  const Op* find(std::string_view name) const;
  // Throws Unimplemented for an unknown name or one without a kernel, naming the nearest known one.
  const Op& at(std::string_view name) const;
  std::vector<std::string> names_with_kernel() const;

  // For the register_… functions: gives a row to a name of signatures.tsv.
  void add(std::string_view name, ShapeRule shape, Kernel kernel);

 private:
  Table();
  mutable std::unordered_map<std::string, Op> rows_;
};

// Registered by their families, one file each, listed in table.cpp:
void register_arithmetic(Table& table);  // elementwise math, comparison, casts
void register_reduction(Table& table);   // Sum, Mean, Max, ArgMax, Cumsum, …
void register_segments(Table& table);    // SegmentSum, UnsortedSegmentMax, …
void register_top_k(Table& table);       // TopKV2, InTopKV2
void register_array(Table& table);       // Reshape, Pack, ConcatV2, StridedSlice, GatherV2, …
void register_matmul(Table& table);      // MatMul, BatchMatMulV2, Einsum, …
void register_nn(Table& table);          // activations, softmax, losses, normalization, BiasAdd
void register_conv(Table& table);        // convolutions
void register_pool(Table& table);        // pooling
void register_random(Table& table);      // stateless and stateful random numbers
void register_variables(Table& table);   // resource variables
void register_strings(Table& table);     // string operations
void register_lists(Table& table);       // TensorList
void register_image(Table& table);       // resizing

// Parses one line of signatures.tsv; throws Internal for a malformed one.
Signature parse_signature(std::string_view line);
// The limits of its last column, none or one for each input.
std::vector<InputLimit> parse_input_limits(std::string_view line, const Signature& signature);

}  // namespace lockstep::ops

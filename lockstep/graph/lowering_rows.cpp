// Operations along axes, of segments and of matrices, by the kernels of the table: which of them take each row of a
// batch to separate results.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/graph/lowering_internal.h"
#include "lockstep/ops/table_resource_internal.h"

namespace lockstep::graph {
namespace {

using inference::Dims;
using Inputs = std::span<const Lowered>;
using LoweredTensors = std::vector<Lowered>;

// Whether the inputs after the first are the same for all rows, or have the rows of the first.
bool others_fit(Inputs inputs) {
  return std::ranges::all_of(inputs.subspan(1), [&](const Lowered& input) {
    return input.is_constant() ? !input.other.defined() : !input.dims.empty() && input.dims[0] == inputs[0].dims[0];
  });
}

// The first input has rows, and at least `rank` axes; what is computed stays within the last `rank` - 1 of them.
template <std::size_t kRank>
LoweredTensors within_rows(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  return lowering.customs(step, inputs, like, !x.is_constant() && x.dims.size() >= kRank && others_fit(inputs));
}

// The second input is the axis.
LoweredTensors along_axis(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  std::int64_t axis = lowering.integers(inputs[1]).at(0);
  axis += axis < 0 ? static_cast<std::int64_t>(x.dims.size()) : 0;
  return {lowering.custom(step, inputs, like[0], !x.is_constant() && axis > 0)};
}

LoweredTensors one_hot(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& indices = inputs[0];
  const std::int64_t axis = step.attr<std::int64_t>("axis"), rank = static_cast<std::int64_t>(indices.dims.size());
  const bool rows = !indices.is_constant() && rank > 0 && axis != 0 && others_fit(inputs);
  const bool fits = rows && (axis == -1 || axis == rank) && like[0].dtype == DType::kFloat32 &&
                    (indices.dtype == DType::kInt32 || indices.dtype == DType::kInt64) && inputs[2].is_constant() &&
                    inputs[3].is_constant();
  if (!fits) return {lowering.custom(step, inputs, like[0], rows)};
  lowering.require_by_rows(rows);
  const float on = lowering.float_number(inputs[2]), off = lowering.float_number(inputs[3]);
  Lowered out = lowering.result(like[0]);
  const std::int64_t count = inference::product_of(indices.dims), depth = out.dims.back();
  const auto work = [=, wide = indices.dtype == DType::kInt64](const std::vector<const float*>& memory, float* to) {
    std::fill_n(to, count * depth, off);
    const auto set = [&](const auto* numbers) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (numbers[i] >= 0 && numbers[i] < depth) to[i * depth + numbers[i]] = on;
      }
    };
    if (wide) return set(reinterpret_cast<const std::int64_t*>(memory[0]));
    set(reinterpret_cast<const std::int32_t*>(memory[0]));
  };
  lowering.program().add(inference::custom({indices.value}, out.value, out.dims, work));
  if (on == 1.0f && off == 0.0f) lowering.note_hot(out, indices);
  return {out};
}

// How many indices [outer, count, inner] are i, or whether any is, for i below `depth`: [outer, inner, depth].
struct Counts {
  std::int64_t outer = 1, count = 1, inner = 1, depth = 0;
  bool sums = false;
  bool refuses_negative = false;
};
template <typename Index, typename Number>
void count_indices(const Counts& p, const Index* indices, Number* to) {
  std::fill_n(to, p.outer * p.inner * p.depth, Number{0});
  for (std::int64_t at = 0; at < p.outer * p.count * p.inner; ++at) {
    if (indices[at] < 0 && p.refuses_negative) throw inference::InvalidInput{};
    if (indices[at] < 0 || indices[at] >= p.depth) continue;
    Number& number = to[(at / (p.count * p.inner) * p.inner + at % p.inner) * p.depth + indices[at]];
    number = p.sums ? number + Number{1} : Number{1};
  }
}
// Integers of 4 or 8 bytes to float32, or integers of 4 or 8 bytes.
Lowered count_indices(Lowering& lowering, const Lowered& indices, const Lowered& like, const Counts& p) {
  Lowered out = lowering.result(like);
  const auto work = [=, wide = indices.dtype == DType::kInt64, type = like.dtype](
                        const std::vector<const float*>& memory, float* to) {
    const auto count = [&](const auto* from) {
      if (type == DType::kInt64) return count_indices(p, from, reinterpret_cast<std::int64_t*>(to));
      if (type == DType::kInt32) return count_indices(p, from, reinterpret_cast<std::int32_t*>(to));
      count_indices(p, from, to);
    };
    if (wide) return count(reinterpret_cast<const std::int64_t*>(memory[0]));
    count(reinterpret_cast<const std::int32_t*>(memory[0]));
  };
  lowering.program().add(inference::custom({indices.value}, out.value, out.dims, work));
  return out;
}

// Of each row, or of all numbers.
LoweredTensors bincount(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered &x = inputs[0], &weights = inputs[2];
  const bool rows = !x.is_constant() && x.dims.size() == 2 && others_fit(inputs);
  const bool fits = !x.is_constant() && x.value >= 0 && inputs[1].is_constant() && weights.is_constant() &&
                    inference::product_of(weights.dims) == 0 && like[0].dtype != DType::kFloat64;
  if (!fits) return {lowering.custom(step, inputs, like[0], rows)};
  lowering.require_by_rows(rows);
  Counts counts;
  counts.outer = x.dims.size() == 2 ? x.dims[0] : 1, counts.count = x.dims.back();
  counts.depth = like[0].dims.back(), counts.sums = !step.attr<bool>("binary_output"), counts.refuses_negative = true;
  return {count_indices(lowering, x, like[0], counts)};
}

// Sums, maxima, ... of the rows of each segment, if the segments are known. The rows of a batch are along a later axis.
LoweredTensors segments(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered &x = inputs[0], &ids = inputs[1];
  const auto axes = static_cast<int>(ids.dims.size());  // that become one
  const bool known = ids.is_constant() && !ids.other.defined() && !x.is_constant() && inputs[2].is_constant() &&
                     !inputs[2].other.defined();
  if (!known) return {lowering.custom(step, inputs, like[0], false)};
  Lowered out_like = like[0];
  if (lowering.by_rows()) {
    lowering.require_by_rows(x.row_axis >= axes && out_like.dtype != DType::kInvalid);
    out_like.rowwise = true, out_like.row_axis = x.row_axis - axes + 1;
    out_like.other_dims.assign(x.other_dims.begin() + axes, x.other_dims.end());
    out_like.other_dims.insert(out_like.other_dims.begin(), out_like.dims.at(0));
  }
  if (x.dtype != DType::kFloat32 || step.node->op != "UnsortedSegmentSum")
    return {lowering.custom(step, inputs, out_like, true)};
  Dims numbers = lowering.integers(ids);
  for (const std::int64_t id : numbers) lowering.require(id < out_like.dims.at(0));
  Lowered out = lowering.result(out_like);
  lowering.program().add(inference::segment_sum(x.value, out.value, out.dims, std::move(numbers)));
  return {out};
}

template <int kAxes, bool kInverse>
LoweredTensors fourier(Lowering& lowering, const Step& step, Inputs inputs, Inputs like) {
  const Lowered& x = inputs[0];
  const auto fits = [&] {
    if (x.is_constant() || x.dtype != DType::kComplex64 || x.dims.size() <= kAxes) return false;
    return std::all_of(x.dims.end() - kAxes, x.dims.end(), inference::has_fourier);
  };
  if (!fits()) return within_rows<kAxes + 1>(lowering, step, inputs, like);
  Lowered out = lowering.result(like[0]);
  lowering.program().add(inference::fourier(x.value, out.value, out.dims, kAxes, kInverse));
  return {out};
}

}  // namespace

Lowered reduce_hot(Lowering& lowering, const Lowering::Hot& hot, const Dims& axes, bool sums, const Lowered& like) {
  Counts counts;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(hot.indices.dims.size()); ++i) {
    (i < axes.front()  ? counts.outer
     : i > axes.back() ? counts.inner
                       : counts.count) *= hot.indices.dims[static_cast<std::size_t>(i)];
  }
  counts.depth = hot.dims.back(), counts.sums = sums;
  return count_indices(lowering, hot.indices, like, counts);
}

std::optional<LoweredTensors> lower_lookup(Lowering& lowering, const Step& step, Inputs inputs) {
  if (step.node->op != "LookupTableFindV2") return std::nullopt;
  const Lowered &handle = inputs[0], &keys = inputs[1], &missing = inputs[2];
  lowering.require(handle.is_constant() && handle.dtype == DType::kResource && !keys.is_constant() && keys.value >= 0 &&
                   missing.is_constant() && missing.dims.empty() && has_bytes(missing.dtype) &&
                   keys.dtype == step.attr<DType>("Tin") && missing.dtype == step.attr<DType>("Tout"));
  const auto table = std::dynamic_pointer_cast<ops::TableResource>(handle.constant.resource_value());
  lowering.require(table != nullptr);
  lowering.require_by_rows(keys.row_axis == 0);
  Lowered like = keys;
  like.dtype = missing.dtype;
  Lowered out = lowering.result(like);
  const auto work = [=, dtype = keys.dtype, dims = keys.dims, other = missing.constant,
                     count = inference::product_of(keys.dims)](const std::vector<const float*>& memory, float* to) {
    const Tensor found = [&] {
      try {
        return table->find(Lowering::view_of(memory[0], dtype, dims), other);
      } catch (const Error&) {
        throw inference::InvalidInput{};  // the plain operation reports it, with the node
      }
    }();
    if (found.dtype() != other.dtype() || found.num_elements() != count) throw inference::InvalidInput{};
    const formats::TensorData data = found.to_data();
    std::memcpy(to, data.bytes.data(), data.bytes.size());
  };
  lowering.program().add(inference::custom({keys.value}, out.value, out.dims, work));
  return LoweredTensors{out};
}

LoweringRule find_row_rule(std::string_view op) {
  static const std::unordered_map<std::string_view, LoweringRule> table = [] {
    std::unordered_map<std::string_view, LoweringRule> rules = {
        {"OneHot", one_hot},        {"DenseBincount", bincount},  {"FFT", fourier<1, false>},
        {"IFFT", fourier<1, true>}, {"FFT2D", fourier<2, false>}, {"IFFT2D", fourier<2, true>}};
    for (const char* name : {"TopK", "TopKV2", "RFFT", "IRFFT", "MatrixDiagV2", "MatrixDiagV3", "InTopKV2"})
      rules.emplace(name, within_rows<2>);
    for (const char* name :
         {"RFFT2D", "IRFFT2D", "Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "MatrixSolve",
          "MatrixTriangularSolve", "MatrixExponential", "MatrixBandPart", "MatrixDiagPartV2", "MatrixDiagPartV3",
          "MatrixSetDiagV3", "Svd", "Qr", "SelfAdjointEigV2"})
      rules.emplace(name, within_rows<3>);
    for (const char* name : {"ArgMax", "ArgMin", "Cumsum", "Cumprod", "CumulativeLogsumexp"})
      rules.emplace(name, along_axis);
    for (const char* name : {"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"})
      rules.emplace(name, segments);
    return rules;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph

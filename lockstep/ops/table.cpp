#include "lockstep/ops/table_internal.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/graph_rows_internal.h"

namespace lockstep::ops {

// Generated from signatures.tsv by the build: one string for each line.
extern const std::string_view kSignatureLines[];
extern const std::size_t kSignatureCount;

namespace {

std::string_view line_name(std::string_view line) { return line.substr(0, line.find('\t')); }

// The line of an operation, or an empty view; lines are sorted by name.
std::string_view find_line(std::string_view name) {
  const auto* end = kSignatureLines + kSignatureCount;
  const auto* line = std::lower_bound(kSignatureLines, end, name,
                                      [](std::string_view a, std::string_view b) { return line_name(a) < b; });
  return line != end && line_name(*line) == name ? *line : std::string_view();
}

// Signatures are parsed when first asked for and live as long as the process, each at the place of its line.
struct Loaded {
  Signature signature;
  std::vector<InputLimit> limits;
};
Loaded* loaded_signatures() {
  static Loaded* const all = new Loaded[kSignatureCount];
  return all;
}

const Signature* load_signature(std::string_view line) {
  const auto* at = std::find_if(kSignatureLines, kSignatureLines + kSignatureCount,
                                [&](std::string_view each) { return each.data() == line.data(); });
  Loaded& loaded = loaded_signatures()[at - kSignatureLines];
  loaded.signature = parse_signature(line);
  loaded.limits = parse_input_limits(line, loaded.signature);
  return &loaded.signature;
}

std::mutex& rows_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Operations that TensorFlow registers as not differentiable, of those whose kernels autograd could differentiate.
bool is_differentiable(std::string_view name) {
  static constexpr std::string_view kNot[] = {"HSVToRGB",
                                              "SparseConcat",
                                              "OneHot",
                                              "ExtractGlimpse",
                                              "ResizeBilinearGrad",
                                              "FakeQuantWithMinMaxArgsGradient",
                                              "FakeQuantWithMinMaxVarsGradient",
                                              "FakeQuantWithMinMaxVarsPerChannelGradient"};
  return std::find(std::begin(kNot), std::end(kNot), name) == std::end(kNot);
}

Kernel without_gradient(Kernel kernel) {
  return [kernel = std::move(kernel)](const Call& call) {
    const GradientsOff off;
    return kernel(call);
  };
}

}  // namespace

std::span<const InputLimit> input_limits(const Signature& signature) {
  const auto first = reinterpret_cast<std::uintptr_t>(loaded_signatures());
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(&signature) - first;
  if (offset >= kSignatureCount * sizeof(Loaded)) return {};  // of a test
  return loaded_signatures()[offset / sizeof(Loaded)].limits;
}

Table::Table() {
  register_arithmetic(*this);
  register_reduction(*this);
  register_segments(*this);
  register_top_k(*this);
  register_array(*this);
  register_matmul(*this);
  register_nn(*this);
  register_conv(*this);
  register_pool(*this);
  register_random(*this);
  register_variables(*this);
  register_strings(*this);
  register_lists(*this);
  register_image(*this);
  register_audio(*this);
  register_backprop(*this);
  register_candidate_sampling(*this);
  register_ctc(*this);
  register_example_json(*this);
  register_fake_quant(*this);
  register_fractional_pool(*this);
  register_fused_nodes(*this);
  register_image_boxes(*this);
  register_image_codecs(*this);
  register_image_patches(*this);
  register_incomplete_gamma(*this);
  register_linalg(*this);
  register_low_discrepancy(*this);
  register_matrix_functions(*this);
  register_optionals(*this);
  register_parse_example(*this);
  register_proto_messages(*this);
  register_quantized_resize(*this);
  register_partition(*this);
  register_quantized(*this);
  register_quantized_fused(*this);
  register_ragged(*this);
  register_ragged_variant(*this);
  register_random_counts(*this);
  register_random_generators(*this);
  register_recurrent_blocks(*this);
  register_sets(*this);
  register_sparse(*this);
  register_sparse_cross(*this);
  register_sparse_matrices(*this);
  register_special_math(*this);
  register_summaries(*this);
  register_tensor_arrays(*this);
  register_text(*this);
  register_tridiagonal(*this);
  register_unicode(*this);
  register_truncated_normal(*this);
  register_unicode_scripts(*this);
  register_uniform_quantized(*this);
}

const Table& Table::instance() {
  static const Table* table = new Table();
  return *table;
}

void Table::add(std::string_view name, ShapeRule shape, Kernel kernel) {
  if (find_line(name).empty()) throw_internal(fmt::format("op table: '{}' is not in signatures.tsv", name));
  const auto [row, fresh] = rows_.try_emplace(std::string(name));
  if (!fresh) throw_internal(fmt::format("op table: '{}' has two rows", name));
  row->second.shape = std::move(shape);
  row->second.kernel = is_differentiable(name) ? std::move(kernel) : without_gradient(std::move(kernel));
}

const Op* Table::find(std::string_view name) const {
  const std::lock_guard lock(rows_mutex());
  auto row = rows_.find(std::string(name));
  if (row != rows_.end() && row->second.signature) return &row->second;
  const std::string_view line = find_line(name);
  if (line.empty()) return nullptr;
  if (row == rows_.end()) row = rows_.try_emplace(std::string(name)).first;
  row->second.signature = load_signature(line);
  return &row->second;
}

const Op& Table::at(std::string_view name) const {
  const Op* op = find(name);
  if (op && op->kernel) return *op;
  if (op) throw_unimplemented(fmt::format("operation '{}' is known but not implemented", name));
  const std::string nearest = nearest_name(name, names_with_kernel());
  throw_unimplemented(fmt::format("unknown operation '{}'{}", name,
                                  nearest.empty() ? "" : fmt::format("; the nearest known one is '{}'", nearest)));
}

std::vector<std::string> Table::names_with_kernel() const {
  const std::lock_guard lock(rows_mutex());
  std::vector<std::string> names;
  for (const auto& [name, op] : rows_) {
    if (op.kernel) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep::ops

#include "lockstep/inference/chain_internal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace lockstep::inference {
namespace {

constexpr std::int64_t kBlock = 512;  // floats
constexpr std::size_t kMostOperands = 32, kMostBuffers = 24;
constexpr std::int64_t kMostRepeated = 65536;  // floats of a constant
constexpr std::int64_t kShortRow = 128;        // floats

}  // namespace

std::int64_t product_of(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < out.size() - a.size() ? 1 : a[i - (out.size() - a.size())];
    const std::int64_t y = i < out.size() - b.size() ? 1 : b[i - (out.size() - b.size())];
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Constant Constant::of(std::vector<float> values) {
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return {kept->data(), static_cast<std::int64_t>(kept->size()), kept};
}

int Chain::add_operand(Operand operand) {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Operand& known = operands_[i];
    if (known.value == operand.value && known.constant.data == operand.constant.data && known.dims == operand.dims)
      return static_cast<int>(i);
  }
  operands_.push_back(std::move(operand));
  return static_cast<int>(operands_.size()) - 1;
}

int Chain::add(Instruction instruction) {
  code_.push_back(instruction);
  return static_cast<int>(operands_.size() + code_.size()) - 1;
}

int Chain::whole_operand(int value) const {
  int found = -1, readers = 0;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].value != value) continue;
    ++readers;
    if (is_whole(static_cast<int>(i))) found = static_cast<int>(i);
  }
  return readers == 1 ? found : -1;
}

bool Chain::can_follow(const Chain& inner) const {
  if (operands_.size() + inner.operands_.size() > kMostOperands || code_.size() + inner.code_.size() > kMostBuffers)
    return false;
  if (dims_ == inner.dims_) return true;
  for (std::size_t i = 0; i < inner.operands_.size(); ++i) {
    if (!inner.is_whole(static_cast<int>(i)) && product_of(inner.operands_[i].dims) != 1) return false;
  }
  return true;
}

Chain Chain::after(const Chain& inner, int at) const {
  Chain out(dims_);
  std::vector<int> inner_registers, outer_registers;
  for (const Operand& operand : inner.operands_) inner_registers.push_back(out.add_operand(operand));
  for (std::size_t i = 0; i < operands_.size(); ++i)
    outer_registers.push_back(static_cast<int>(i) == at ? -1 : out.add_operand(operands_[i]));
  for (const Instruction& i : inner.code_) {
    inner_registers.push_back(out.add({i.function, inner_registers[static_cast<std::size_t>(i.a)],
                                       inner_registers[static_cast<std::size_t>(i.b)], i.alpha}));
  }
  outer_registers[static_cast<std::size_t>(at)] = inner_registers.back();
  for (const Instruction& i : code_) {
    outer_registers.push_back(out.add({i.function, outer_registers[static_cast<std::size_t>(i.a)],
                                       outer_registers[static_cast<std::size_t>(i.b)], i.alpha}));
  }
  return out;
}

bool Chain::drop_first(Function function, int at) {
  if (code_.empty() || code_[0].function != function || code_[0].a != at) return false;
  const auto reads = [&](const Instruction& in) { return in.a == at || (is_binary(in.function) && in.b == at); };
  if (std::any_of(code_.begin() + 1, code_.end(), reads)) return false;
  const int first = static_cast<int>(operands_.size());
  code_.erase(code_.begin());
  for (Instruction& in : code_) {
    for (int* const source : {&in.a, &in.b}) *source = *source == first ? at : *source > first ? *source - 1 : *source;
  }
  return true;
}

void Chain::prepare() {
  if (code_.empty()) return;
  join_gelu();
  join_silu();
  drop_unread();
  collapse_axes();
  lengthen_rows();
  assign_buffers();
}

namespace {

// What a register is, where it is factor · x^power · share(x)^shares: share is that of the normal distribution below x.
// With `doubled` it is 2 · share(x) - 1 instead.
struct Monomial {
  double factor = 1;
  int x = -1;  // a register; -1: a number alone
  int power = 0, shares = 0;
  bool doubled = false;
};

constexpr double kRootOfHalf = 0.70710678118654752;
bool is_near(double a, double b) { return std::abs(a - b) < 1e-6 * std::abs(b); }

std::optional<Monomial> product(const Monomial& a, const Monomial& b) {
  if (a.doubled || b.doubled || (a.x >= 0 && b.x >= 0 && a.x != b.x)) return std::nullopt;
  return Monomial{a.factor * b.factor, std::max(a.x, b.x), a.power + b.power, a.shares + b.shares};
}

std::optional<Monomial> monomial_of(Function function, const Monomial& a, const Monomial& b) {
  const bool linear = a.power == 1 && a.shares == 0 && !a.doubled;
  switch (function) {
    case Function::kMul: return product(a, b);
    case Function::kDiv:
      if (b.x >= 0 || b.factor == 0) return std::nullopt;
      return product(a, {1 / b.factor});
    case Function::kNeg: return product(a, {-1});
    case Function::kErf:
      if (!linear || !is_near(a.factor, kRootOfHalf)) return std::nullopt;
      return Monomial{1, a.x, 0, 1, true};
    case Function::kErfc:
      if (!linear || !is_near(a.factor, -kRootOfHalf)) return std::nullopt;
      return Monomial{2, a.x, 0, 1};
    case Function::kAdd:
      if (a.doubled && b.x < 0 && b.factor == 1) return Monomial{2, a.x, 0, 1};
      if (b.doubled && a.x < 0 && a.factor == 1) return Monomial{2, b.x, 0, 1};
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

// x · share(x) in any order of its factors.
void Chain::join_gelu() {
  const auto itself = [](std::size_t number) { return Monomial{1, static_cast<int>(number), 1, 0}; };
  std::vector<Monomial> known;
  for (const Operand& operand : operands_) {
    const bool number = operand.constant && product_of(operand.dims) == 1;
    known.push_back(number ? Monomial{*operand.constant.data} : itself(known.size()));
  }
  for (Instruction& in : code_) {
    const auto m =
        monomial_of(in.function, known[static_cast<std::size_t>(in.a)], known[static_cast<std::size_t>(in.b)]);
    const bool gelu = m && m->power == 1 && m->shares == 1 && is_near(m->factor, 1);
    if (gelu) in = {Function::kGelu, m->x, m->x, 0};
    known.push_back(m && !gelu ? *m : itself(known.size()));
  }
}

// x · sigmoid(x), where nothing else reads the sigmoid.
void Chain::join_silu() {
  const std::size_t first = operands_.size();
  std::vector<int> readers(first + code_.size(), 0);
  for (const Instruction& in : code_) {
    ++readers[static_cast<std::size_t>(in.a)];
    if (is_binary(in.function)) ++readers[static_cast<std::size_t>(in.b)];
  }
  for (Instruction& in : code_) {
    if (in.function != Function::kMul) continue;
    for (const auto& [x, s] : {std::pair(in.a, in.b), std::pair(in.b, in.a)}) {
      const auto at = static_cast<std::size_t>(s);
      if (at < first || readers[at] != 1) continue;
      if (code_[at - first].function != Function::kSigmoid || code_[at - first].a != x) continue;
      in = {Function::kSilu, x, x, 0};
      break;
    }
  }
}

void Chain::drop_unread() {
  const int first = static_cast<int>(operands_.size());
  for (std::size_t i = code_.size() - 1; i-- > 0;) {
    const int own = first + static_cast<int>(i);
    const auto reads = [&](const Instruction& in) { return in.a == own || (is_binary(in.function) && in.b == own); };
    if (std::any_of(code_.begin() + static_cast<std::ptrdiff_t>(i) + 1, code_.end(), reads)) continue;
    code_.erase(code_.begin() + static_cast<std::ptrdiff_t>(i));
    for (Instruction& in : code_) in.a -= in.a > own, in.b -= in.b > own;
  }
}

void Chain::collapse_axes() {
  // Strides in the axes of the result; 0 where an operand is broadcast.
  std::vector<Dims> strides;
  for (const Operand& operand : operands_) {
    Dims own(dims_.size(), 0);
    if (product_of(operand.dims) == product_of(dims_)) {
      std::int64_t stride = 1;
      for (std::size_t i = dims_.size(); i-- > 0; stride *= dims_[i]) own[i] = stride;
    } else if (product_of(operand.dims) != 1) {  // one element may have more axes than the result: of a joined chain
      std::int64_t stride = 1;
      for (std::size_t i = operand.dims.size(); i-- > 0; stride *= operand.dims[i])
        own[i + dims_.size() - operand.dims.size()] = operand.dims[i] == 1 ? 0 : stride;
    }
    strides.push_back(own);
  }
  // Joins axis i with the one before where all operands go through both with one stride.
  axes_.clear();
  layouts_.assign(operands_.size(), {});
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i] == 1) continue;
    bool joins = !axes_.empty();
    for (std::size_t o = 0; joins && o < operands_.size(); ++o)
      joins = layouts_[o].strides.back() == strides[o][i] * dims_[i];
    if (joins) {
      axes_.back() *= dims_[i];
    } else {
      axes_.push_back(dims_[i]);
    }
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      if (!joins) layouts_[o].strides.push_back(0);
      layouts_[o].strides.back() = strides[o][i];
    }
  }
  if (axes_.empty()) {
    axes_ = {1};
    for (Layout& layout : layouts_) layout.strides = {1};
  }
}

// Loops over short last axes are made longer: constants that keep the last two axes apart are repeated, so that these
// become one, as often as that helps.
void Chain::lengthen_rows() {
  while (axes_.size() > 1 && axes_.back() < kBlock / 2 && join_last_axes()) {
  }
}

bool Chain::join_last_axes() {
  const std::size_t last = axes_.size() - 1;
  const std::int64_t row = axes_[last];
  const auto continues = [&](const Layout& layout) { return layout.strides[last - 1] == layout.strides[last] * row; };
  std::int64_t times = axes_[last - 1];
  bool all = true;
  for (std::size_t o = 0; o < operands_.size(); ++o) {
    if (continues(layouts_[o])) continue;
    if (!operands_[o].constant) return false;
    all = false;
  }
  if (!all) {
    times = std::min(times, std::max<std::int64_t>(1, kBlock / row));
    while (times > 1 && axes_[last - 1] % times != 0) --times;
    if (times < 2) return false;
  }
  std::vector<Dims> sources(operands_.size());  // of constants that are repeated: places of a row, by outer index
  for (std::size_t o = 0; o < operands_.size(); ++o) {
    const Dims& strides = layouts_[o].strides;
    if (continues(layouts_[o])) continue;
    // A part of the axis has to have the same numbers as the others.
    if (times < axes_[last - 1] && strides[last - 1] != 0) return false;
    sources[o] = {0};
    for (std::size_t axis = last - 1; axis-- > 0;) {
      if (strides[axis] == 0) continue;
      Dims further;
      for (std::int64_t i = 0; i < axes_[axis]; ++i) {
        for (const std::int64_t at : sources[o]) further.push_back(at + i * strides[axis]);
      }
      if (static_cast<std::int64_t>(further.size()) * times * row > kMostRepeated) return false;
      sources[o] = std::move(further);
    }
  }
  for (std::size_t o = 0; o < operands_.size(); ++o) {
    Dims& strides = layouts_[o].strides;
    if (sources[o].empty()) {
      strides[last - 1] *= times;
      continue;
    }
    std::vector<float> repeated;
    for (const std::int64_t at : sources[o]) {
      for (std::int64_t i = 0; i < times; ++i) {
        const float* const from = operands_[o].constant.data + at + i * strides[last - 1];
        for (std::int64_t k = 0; k < row; ++k) repeated.push_back(from[k * strides[last]]);
      }
    }
    operands_[o].constant = Constant::of(std::move(repeated));
    std::int64_t stride = times * row;
    for (std::size_t axis = last - 1; axis-- > 0;) {
      if (strides[axis] == 0) continue;
      strides[axis] = stride;
      stride *= axes_[axis];
    }
    strides[last - 1] = 0, strides[last] = 1;
  }
  axes_[last - 1] /= times, axes_[last] *= times;
  if (axes_[last - 1] == 1) {
    axes_.erase(axes_.end() - 2);
    for (Layout& layout : layouts_) layout.strides.erase(layout.strides.end() - 2);
    return true;
  }
  return false;
}

void Chain::assign_buffers() {
  // Buffers of registers are used again after the last reader.
  const std::size_t first = operands_.size(), count = first + code_.size();
  std::vector<std::size_t> last_read(count, 0);
  for (std::size_t i = 0; i < code_.size(); ++i) {
    last_read[static_cast<std::size_t>(code_[i].a)] = i;
    if (is_binary(code_[i].function)) last_read[static_cast<std::size_t>(code_[i].b)] = i;
  }
  slots_.assign(count, {});
  std::vector<int> free;
  int buffers = 0;
  gathers_ = axes_.size() > 1 && axes_.back() < kShortRow;
  for (std::size_t o = 0; o < first; ++o) {
    Layout& layout = layouts_[o];
    layout.is_row = gathers_ ? std::ranges::any_of(layout.strides, [](std::int64_t stride) { return stride != 0; })
                             : layout.strides.back() != 0;
    slots_[o].is_row = layout.is_row;
  }
  for (std::size_t i = 0; i < code_.size(); ++i) {
    const Instruction& in = code_[i];
    const auto a = static_cast<std::size_t>(in.a), b = static_cast<std::size_t>(in.b);
    Slot& slot = slots_[first + i];
    slot.is_row = slots_[a].is_row || (is_binary(in.function) && slots_[b].is_row);
    for (const std::size_t source : {a, b}) {  // elementwise: a result may take its operand's place
      if (source == b && (!is_binary(in.function) || a == b)) continue;
      if (slots_[source].buffer >= 0 && last_read[source] == i) free.push_back(slots_[source].buffer);
    }
    if (i + 1 == code_.size()) {
      slot.buffer = -2;
    } else if (free.empty()) {
      slot.buffer = buffers++;
    } else {
      slot.buffer = free.back();
      free.pop_back();
    }
  }
}

void Chain::run_row(const float* const* operands, std::int64_t count, float* to) const {
  alignas(64) static thread_local std::array<float, kMostBuffers * kBlock> buffers;
  const Kernels& loops = kernels();
  const std::size_t first = operands_.size();
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t size = std::min(kBlock, count - at);
    const auto address = [&](int number) -> const float* {
      const auto n = static_cast<std::size_t>(number);
      if (n < first) return operands[n] + (slots_[n].is_row ? at : 0);
      return buffers.data() + slots_[n].buffer * kBlock;
    };
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const Instruction& in = code_[i];
      const Slot& slot = slots_[first + i];
      const bool last = slot.buffer == -2;
      float* const result = last ? to + at : buffers.data() + slot.buffer * kBlock;
      loops.apply(in.function, in.alpha, slot.is_row ? size : 1, address(in.a),
                  slots_[static_cast<std::size_t>(in.a)].is_row, is_binary(in.function) ? address(in.b) : nullptr,
                  is_binary(in.function) && slots_[static_cast<std::size_t>(in.b)].is_row, result);
      if (last && !slot.is_row) std::fill_n(result + 1, size - 1, *result);
    }
  }
}

void Chain::run(const Memory& memory, std::int64_t begin, std::int64_t end, float* to, int own_operand,
                const float* own) const {
  std::array<const float*, kMostOperands> bases, at;
  for (std::size_t o = 0; o < operands_.size(); ++o) {
    bases[o] = static_cast<int>(o) == own_operand ? own
               : operands_[o].constant            ? operands_[o].constant.data
                                                  : memory[static_cast<std::size_t>(operands_[o].value)];
  }
  const std::int64_t row = axes_.back();
  for (std::int64_t position = begin; position < end;) {
    const Block block = block_at(position, end);
    std::int64_t rest = position / row;
    at = bases;
    for (std::size_t o = 0; o < operands_.size(); ++o) at[o] += position % row * layouts_[o].strides.back();
    for (std::size_t axis = axes_.size() - 1; axis-- > 0;) {
      const std::int64_t index = rest % axes_[axis];
      rest /= axes_[axis];
      for (std::size_t o = 0; o < operands_.size(); ++o) at[o] += index * layouts_[o].strides[axis];
    }
    if (gathers_) gather(block, at.data());
    run_row(at.data(), block.rows * block.columns, to + position);
    position += block.rows * block.columns;
  }
}

// A part of a row, or as many whole ones of the last axis but one as fit into the buffers.
Chain::Block Chain::block_at(std::int64_t position, std::int64_t end) const {
  const std::int64_t row = axes_.back(), within = position % row;
  if (!gathers_ || within != 0 || end - position < row) return {1, std::min(row - within, end - position)};
  const std::int64_t outer = axes_[axes_.size() - 2], left = outer - position / row % outer;
  return {std::min({kBlock / row, left, (end - position) / row}), row};
}

// Operands that are not the block's elements in their order are copied.
void Chain::gather(const Block& block, const float** operands) const {
  alignas(64) static thread_local std::array<float, kMostOperands * kBlock> buffers;
  for (std::size_t o = 0; o < operands_.size(); ++o) {
    const Layout& layout = layouts_[o];
    const std::int64_t column = layout.strides.back(), row = layout.strides[layout.strides.size() - 2];
    if (!layout.is_row || (column == 1 && (block.rows == 1 || row == block.columns))) continue;
    float* const to = buffers.data() + static_cast<std::int64_t>(o) * kBlock;
    kernels().copy_plane({block.rows, block.columns, row, column, block.columns, 1}, operands[o], to);
    operands[o] = to;
  }
}

}  // namespace lockstep::inference

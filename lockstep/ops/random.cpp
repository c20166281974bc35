// Random numbers as TensorFlow draws them on a CPU; the numbers themselves come from philox_internal.h.
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "lockstep/base/entropy_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/incomplete_gamma_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/random_draws_internal.h"
#include "lockstep/ops/random_scope_internal.h"

namespace lockstep::ops {
namespace {

using Kind = RandomKind;

// Pieces are whole groups, so any number of threads gives the same numbers.
template <typename T, typename F>
void fill_parallel(at::Tensor& out, const F& fill) {
  T* data = static_cast<T*>(out.mutable_data_ptr());
  parallel_for(0, (out.numel() + 255) / 256, 16, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * 256, last = std::min(out.numel(), end * 256);
    fill(first, std::span<T>(data + first, static_cast<std::size_t>(last - first)));
  });
}

template <typename T>
void fill_kind(at::Tensor& out, const PhiloxState& state, Kind kind) {
  fill_parallel<T>(out, [&](std::int64_t offset, std::span<T> part) {
    if (kind == Kind::kUniform) return philox_uniform(state, offset, part);
    if (kind == Kind::kNormal) return philox_normal(state, offset, part);
    philox_truncated_normal(state, offset, part);
  });
}

}  // namespace

at::Tensor draw_random(const PhiloxState& state, const Ints& shape, DType dtype, RandomKind kind) {
  element_count(shape);
  if (kind == Kind::kFullInt) {
    if (!is_integer(dtype) || dtype_size(dtype) < 4)
      throw_invalid_argument(
          fmt::format("random words of {} are not drawn; use a 32- or 64-bit integer dtype", dtype_name(dtype)));
    at::Tensor out = at::empty(shape, to_scalar_type(dtype));
    if (dtype_size(dtype) == 8) {
      fill_parallel<std::uint64_t>(
          out, [&](std::int64_t at, std::span<std::uint64_t> part) { philox_full_int(state, at, part); });
    } else {
      fill_parallel<std::uint32_t>(
          out, [&](std::int64_t at, std::span<std::uint32_t> part) { philox_full_int(state, at, part); });
    }
    return out;
  }
  if (dtype == DType::kFloat64) {
    at::Tensor out = at::empty(shape, at::kDouble);
    fill_kind<double>(out, state, kind);
    return out;
  }
  at::Tensor out = at::empty(shape, at::kFloat);
  const bool half = dtype == DType::kFloat16;
  if (kind == Kind::kUniform && (half || dtype == DType::kBFloat16)) {
    fill_parallel<float>(
        out, [&](std::int64_t at, std::span<float> part) { philox_uniform16(state, at, half ? 10 : 7, part); });
  } else {
    fill_kind<float>(out, state, kind);
  }
  return out.to(to_scalar_type(dtype));
}

namespace {

template <typename Word, typename T>
void reduce_words(const at::Tensor& words, at::Tensor& out, T low, T high) {
  const Word range = static_cast<Word>(high) - static_cast<Word>(low);
  const auto* from = static_cast<const Word*>(words.const_data_ptr());
  T* to = static_cast<T*>(out.mutable_data_ptr());
  for (std::int64_t i = 0; i < out.numel(); ++i) to[i] = static_cast<T>(static_cast<Word>(low) + from[i] % range);
}

}  // namespace

at::Tensor draw_random_ints(const PhiloxState& state, const Ints& shape, const at::Tensor& low,
                            const at::Tensor& high) {
  const std::int64_t a = low.item().to<std::int64_t>(), b = high.item().to<std::int64_t>();
  const bool any = std::find(shape.begin(), shape.end(), 0) == shape.end();
  if (any && a >= b) throw_invalid_argument(fmt::format("minval must be less than maxval, found {} >= {}", a, b));
  const at::ScalarType type = low.scalar_type();
  if (type != at::kInt && type != at::kLong)
    throw_invalid_argument(
        fmt::format("minval and maxval must be int32 or int64, they are {}", dtype_name(from_scalar_type(type))));
  const at::Tensor words = draw_random(state, shape, from_scalar_type(type), Kind::kFullInt);
  at::Tensor out = at::empty(shape, type);
  if (type == at::kInt) {
    reduce_words<std::uint32_t, std::int32_t>(words, out, static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
  } else {
    reduce_words<std::uint64_t, std::int64_t>(words, out, a, b);
  }
  return out;
}

PhiloxState stateless_seed_in(const Call& call, int i) {
  const Ints seed = ints_in(call, i);
  if (seed.size() != 2) throw_invalid_argument("the seed must have two numbers");
  return philox_from_stateless_seed(seed[0], seed[1]);
}

namespace {

std::uint64_t bits_at(const at::Tensor& x, std::int64_t i) {
  return static_cast<const std::uint64_t*>(x.const_data_ptr())[i];
}
PhiloxState from_key_input(const Call& call) {
  const at::Tensor key = in(call, 1).contiguous(), counter = in(call, 2).contiguous();
  if (key.numel() != 1 || counter.numel() < 2) throw_invalid_argument("key must have one number and counter two");
  const std::int64_t algorithm = int_in(call, 3);
  if (algorithm != 1 && algorithm != 3)
    throw_invalid_argument(fmt::format("unsupported algorithm {}: only Philox (1) is drawn on a CPU", algorithm));
  return {bits_at(key, 0), bits_at(counter, 0), bits_at(counter, 1)};
}

thread_local const RandomScope* t_scope = nullptr;

// The state of a stateful operation belongs to its node, or else to its name, attributes and seeds, as TensorFlow
// caches kernels; both seeds zero: drawn from the system once.
struct StatefulStates {
  std::mutex mutex;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, PhiloxState> of;
};

// "(T=int32, dtype=float32)": without the seeds.
std::string attributes_of(const Call& call) {
  const Signature& signature = call.signature();
  std::string all;
  for (const AttrDef& definition : signature.attrs) {
    if (definition.name == "seed" || definition.name == "seed2") continue;
    std::string text;
    if (const Attr* given = call.attrs().find(definition.name)) {
      std::visit(
          [&]<typename T>(const T& value) {
            if constexpr (std::is_same_v<T, DType>) {
              text = dtype_name(value);
            } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
              text = fmt::format("{}", value);
            }
          },
          *given);
    }
    for (std::size_t i = 0; text.empty() && i < signature.inputs.size(); ++i) {
      if (signature.inputs[i].type_attr == definition.name) text = dtype_name(call.input(static_cast<int>(i)).dtype());
    }
    all += fmt::format("{}{}={}", all.empty() ? "(" : ", ", definition.name, text);
  }
  return all + ")";
}

StatefulStates& stateful_states() {
  static StatefulStates* const instance = new StatefulStates();
  return *instance;
}

}  // namespace

RandomScope::RandomScope(std::string_view name) : name_(name), outer_(t_scope) { t_scope = this; }
RandomScope::~RandomScope() { t_scope = outer_; }
bool RandomScope::active() { return t_scope != nullptr; }
std::string RandomScope::path() {
  std::string path;
  for (const RandomScope* each = t_scope; each; each = each->outer_) path.insert(0, "/" + std::string(each->name_));
  return path;
}

PhiloxState advance_stateful(const Call& call, std::uint64_t blocks) {
  const std::int64_t seed = call.attr<std::int64_t>("seed"), seed2 = call.attr<std::int64_t>("seed2");
  if (!RandomScope::active() && FunctionDraws::active())
    return FunctionDraws::advance(call.name() + attributes_of(call), seed, seed2, blocks);
  StatefulStates& states = stateful_states();
  const std::lock_guard lock(states.mutex);
  std::string owner = call.name() + (RandomScope::active() ? RandomScope::path() : attributes_of(call));
  // Each device has its operations.
  if (ReplicaDraws::device() > 0) owner += fmt::format("/device {}", ReplicaDraws::device());
  auto [at, fresh] = states.of.try_emplace({owner, seed, seed2});
  if (fresh) at->second = philox_of_op_seeds(seed, seed2);
  const PhiloxState state = at->second;
  at->second = state.skipped(blocks);
  return state;
}

namespace {

void add_stateless(Table& table, const std::string& suffix, Kind kind) {
  const std::string prefix = kind == Kind::kTruncatedNormal ? "StatelessTruncated" : "StatelessRandom";
  table.add(prefix + suffix, shape_of_input(0), [kind](const Call& call) {
    return one(draw_random(stateless_seed_in(call, 1), ints_in(call, 0), call.attr<DType>("dtype"), kind));
  });
  table.add(prefix + suffix + "V2", shape_of_input(0), [kind](const Call& call) {
    return one(draw_random(from_key_input(call), ints_in(call, 0), call.attr<DType>("dtype"), kind));
  });
}
void add_stateful(Table& table, std::string_view name, Kind kind) {
  table.add(name, shape_of_input(0), [kind](const Call& call) {
    const Ints shape = ints_in(call, 0);
    return one(draw_random(advance_stateful(call, static_cast<std::uint64_t>(element_count(shape)) * 256), shape,
                           call.attr<DType>("dtype"), kind));
  });
}

at::Tensor unsigned_vector(std::initializer_list<std::uint64_t> values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kUInt64);
  std::copy(values.begin(), values.end(), static_cast<std::uint64_t*>(out.mutable_data_ptr()));
  return out;
}

// As TensorFlow counts them: a tensor of one row, one element or none is not shuffled, and no numbers are drawn for it.
std::int64_t rows_to_shuffle(const Tensor& x) { return x.rank() == 0 || *x.shape().num_elements() < 2 ? 1 : x.dim(0); }
Tensors reordered_rows(const Tensor& x, const Ints& order) {
  return {call1("GatherV2", {x, Tensor::from_vector(order), Tensor::scalar<std::int32_t>(0)})};
}

// TensorFlow gives it no gradient.
Tensors shuffle(const Call& call) {
  const Tensor x = detach(call.input(0));
  const std::int64_t rows = rows_to_shuffle(x);
  if (rows < 2) return {x};
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  philox_shuffle(advance_stateful(call, static_cast<std::uint64_t>(rows - 1 + 3) / 4), order);
  return reordered_rows(x, order);
}

Tensors stateless_shuffle(const Call& call) {
  const std::int64_t rows = rows_to_shuffle(call.input(0));
  if (rows < 2) return {call.input(0)};
  Ints order(static_cast<std::size_t>(rows));
  philox_shuffle(from_key_input(call), order);
  return reordered_rows(call.input(0), order);
}

// Row by row, one double each from one stream.
Tensors multinomial(const Call& call) {
  const at::Tensor logits = in(call, 0).to(at::kFloat).contiguous();
  const std::int64_t samples = int_in(call, 1), rows = logits.size(0), classes = logits.size(1);
  if (classes == 0) throw_invalid_argument("num_classes must be positive");
  const bool stateless = call.name().starts_with("Stateless");
  // TensorFlow reserves 256 blocks for each of the samples, rounded up to fours, twice, as they are doubles.
  const auto reserved = static_cast<std::uint64_t>(rows * ((samples + 3) / 4 * 4) * 2) * 256;
  PhiloxStream stream(stateless ? stateless_seed_in(call, 2) : advance_stateful(call, reserved));
  at::Tensor out = at::empty({rows, samples}, at::kLong);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = logits.const_data_ptr<float>() + r * classes;
    float highest = -INFINITY;
    for (std::int64_t c = 0; c < classes; ++c) highest = std::isfinite(row[c]) ? std::max(highest, row[c]) : highest;
    std::vector<double> sums(static_cast<std::size_t>(classes));
    double total = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      if (std::isfinite(row[c])) total += std::exp(static_cast<double>(row[c] - highest));
      sums[static_cast<std::size_t>(c)] = total;
    }
    for (std::int64_t s = 0; s < samples; ++s) {
      const double target = stream.next_double() * total;
      const auto found = std::upper_bound(sums.begin(), sums.end(), target);
      out.mutable_data_ptr<std::int64_t>()[r * samples + s] = std::min<std::int64_t>(found - sums.begin(), classes - 1);
    }
  }
  return one(out.to(to_scalar_type(call.attr<DType>("output_dtype"))));
}
Shapes multinomial_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  return {Shape{x.known_rank() ? x[0] : kUnknownDim, known_int(call, 1).value_or(kUnknownDim)}};
}

}  // namespace

at::Tensor draw_random_gamma(const PhiloxState& state, const Ints& shape, const at::Tensor& given) {
  const at::Tensor alpha = given.to(at::kDouble).contiguous();
  const std::int64_t count = element_count(shape), alphas = std::max<std::int64_t>(alpha.numel(), 1);
  if (count == 0) return at::empty(shape, given.scalar_type());
  if (alpha.numel() == 0 || count % alphas != 0)
    throw_invalid_argument(fmt::format("invalid shape of alpha: {} samples of {} alphas", count, alphas));
  const double* const values = alpha.const_data_ptr<double>();
  for (std::int64_t i = 0; i < alphas; ++i) {
    if (!(values[i] > 0)) throw_invalid_argument(fmt::format("alpha is {}, expected a number above 0", values[i]));
  }
  // Element i of the stream is sample i % samples of alpha i / samples.
  const std::int64_t samples = count / alphas;
  std::vector<double> drawn(static_cast<std::size_t>(count));
  parallel_for(0, count, 64, [&](std::int64_t begin, std::int64_t end) {
    philox_gamma(
        state, begin, [&](std::int64_t i) { return values[i / samples]; },
        std::span<double>(drawn).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
  at::Tensor out = at::empty({samples, alphas}, at::kDouble);
  double* const to = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < count; ++i) to[i % samples * alphas + i / samples] = drawn[static_cast<std::size_t>(i)];
  at::Tensor result = out.reshape(shape).to(given.scalar_type());
  if (!given.requires_grad() || !grad_enabled()) return result;
  const at::Tensor wide = given.expand(shape), held = given.detach();
  return dense(with_adjoint(wrap(wide), wrap(result), [held, result](const Tensor& dy) {
    return wrap(dense(dy) * gamma_sample_by_alpha(held, result));
  }));
}

namespace {

// Reads the state of a Generator (counter low, counter high, key) and moves its counter.
Tensors read_and_skip(const Call& call) {
  auto variable = std::dynamic_pointer_cast<VariableResource>(call.input(0).resource_value());
  if (!variable) throw_invalid_argument("the resource is not a variable");
  const Tensor old = variable->read();
  const auto words = old.to_vector<std::int64_t>();
  if (words.size() < 3) throw_invalid_argument("the state of a generator has three numbers");
  const PhiloxState state{0, static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1])};
  const auto delta = static_cast<std::uint64_t>(in(call, 2).to(at::kLong).item<std::int64_t>());
  const PhiloxState next = state.skipped(delta * 256);
  variable->assign(Tensor::from_vector(std::vector<std::int64_t>{
      static_cast<std::int64_t>(next.counter_low), static_cast<std::int64_t>(next.counter_high), words[2]}));
  return {old};
}

}  // namespace

std::vector<StatefulRandomState> stateful_random_states() {
  StatefulStates& states = stateful_states();
  const std::lock_guard lock(states.mutex);
  std::vector<StatefulRandomState> all;
  for (const auto& [operation, state] : states.of) {
    const auto& [name, seed, seed2] = operation;
    all.emplace_back(name, seed, seed2, state.key, state.counter_low, state.counter_high);
  }
  return all;
}

void set_stateful_random_states(const std::vector<StatefulRandomState>& all) {
  StatefulStates& states = stateful_states();
  const std::lock_guard lock(states.mutex);
  states.of.clear();
  for (const auto& [name, seed, seed2, key, low, high] : all) states.of[{name, seed, seed2}] = {key, low, high};
}

void register_random(Table& table) {
  add_stateless(table, "Uniform", Kind::kUniform);
  add_stateless(table, "Normal", Kind::kNormal);
  table.add("StatelessTruncatedNormal", shape_of_input(0), [](const Call& call) {
    return one(
        draw_random(stateless_seed_in(call, 1), ints_in(call, 0), call.attr<DType>("dtype"), Kind::kTruncatedNormal));
  });
  table.add("StatelessTruncatedNormalV2", shape_of_input(0), [](const Call& call) {
    return one(draw_random(from_key_input(call), ints_in(call, 0), call.attr<DType>("dtype"), Kind::kTruncatedNormal));
  });
  add_stateless(table, "UniformFullInt", Kind::kFullInt);
  table.add("StatelessRandomUniformInt", shape_of_input(0), [](const Call& call) {
    return one(draw_random_ints(stateless_seed_in(call, 1), ints_in(call, 0), in(call, 2), in(call, 3)));
  });
  table.add("StatelessRandomUniformIntV2", shape_of_input(0), [](const Call& call) {
    return one(draw_random_ints(from_key_input(call), ints_in(call, 0), in(call, 4), in(call, 5)));
  });
  table.add(
      "StatelessRandomGetKeyCounter",
      [](const Call&) {
        return Shapes{Shape{1}, Shape{2}};
      },
      [](const Call& call) {
        const PhiloxState state = stateless_seed_in(call, 0);
        return Tensors{wrap(unsigned_vector({state.key})),
                       wrap(unsigned_vector({state.counter_low, state.counter_high}))};
      });
  table.add(
      "StatelessRandomGetKeyCounterAlg",
      [](const Call&) {
        return Shapes{Shape{1}, Shape{2}, Shape{}};
      },
      [](const Call& call) {
        const PhiloxState state = stateless_seed_in(call, 0);
        return Tensors{wrap(unsigned_vector({state.key})),
                       wrap(unsigned_vector({state.counter_low, state.counter_high})),
                       wrap(at::scalar_tensor(1, at::kInt))};
      });
  table.add("StatelessRandomGetAlg", scalar_rule, [](const Call&) { return one(at::scalar_tensor(1, at::kInt)); });
  add_stateful(table, "RandomUniform", Kind::kUniform);
  add_stateful(table, "RandomStandardNormal", Kind::kNormal);
  add_stateful(table, "TruncatedNormal", Kind::kTruncatedNormal);
  table.add("RandomUniformInt", shape_of_input(0), [](const Call& call) {
    const Ints shape = ints_in(call, 0);
    return one(draw_random_ints(advance_stateful(call, static_cast<std::uint64_t>(element_count(shape)) * 256), shape,
                                in(call, 1), in(call, 2)));
  });
  table.add("StatelessRandomGammaV2", shape_of_input(0), [](const Call& call) {
    return one(draw_random_gamma(stateless_seed_in(call, 1), ints_in(call, 0), in(call, 2)));
  });
  table.add("StatelessRandomGammaV3", shape_of_input(0), [](const Call& call) {
    return one(draw_random_gamma(from_key_input(call), ints_in(call, 0), in(call, 4)));
  });
  table.add("RandomShuffle", same_shape, shuffle);
  table.add("StatelessShuffle", same_shape, stateless_shuffle);
  table.add("Multinomial", multinomial_shape, multinomial);
  table.add("StatelessMultinomial", multinomial_shape, multinomial);
  table.add(
      "RngReadAndSkip", [](const Call&) { return Shapes{Shape{3}}; }, read_and_skip);
}

}  // namespace lockstep::ops

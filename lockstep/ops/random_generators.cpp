// Random numbers of tf.random.Generator's state, and stateful gamma and Poisson numbers.
#include "lockstep/base/entropy_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/random_draws_internal.h"

namespace lockstep::ops {
namespace {

// A Generator's variable holds counter low, counter high and key. A draw moves the counter by 256 blocks a number.
PhiloxState take_from_generator(const Call& call, std::int64_t numbers) {
  const auto variable = std::dynamic_pointer_cast<VariableResource>(call.input(0).resource_value());
  if (!variable) throw_invalid_argument("the resource is not a variable");
  const std::int64_t algorithm = int_in(call, 1);
  if (algorithm != 1 && algorithm != 3)
    throw_invalid_argument(fmt::format("unsupported algorithm {}: only Philox (1) is drawn on a CPU", algorithm));
  const auto words = variable->read().to_vector<std::int64_t>();
  if (words.size() < 3) throw_invalid_argument("the state of a generator has three numbers");
  const PhiloxState state{static_cast<std::uint64_t>(words[2]), static_cast<std::uint64_t>(words[0]),
                          static_cast<std::uint64_t>(words[1])};
  const PhiloxState next = state.skipped(static_cast<std::uint64_t>(numbers) * 256);
  variable->assign(Tensor::from_vector(std::vector<std::int64_t>{
      static_cast<std::int64_t>(next.counter_low), static_cast<std::int64_t>(next.counter_high), words[2]}));
  return state;
}

void add_generator_rows(Table& table) {
  const auto add = [&](std::string_view name, RandomKind kind) {
    table.add(name, shape_of_input(2), [kind](const Call& call) {
      const Ints shape = ints_in(call, 2);
      return one(draw_random(take_from_generator(call, element_count(shape)), shape, call.attr<DType>("dtype"), kind));
    });
  };
  add("StatefulUniform", RandomKind::kUniform);
  add("StatefulUniformFullInt", RandomKind::kFullInt);
  add("StatefulStandardNormalV2", RandomKind::kNormal);
  add("StatefulTruncatedNormal", RandomKind::kTruncatedNormal);
  table.add("StatefulUniformInt", shape_of_input(2), [](const Call& call) {
    const Ints shape = ints_in(call, 2);
    return one(draw_random_ints(take_from_generator(call, element_count(shape)), shape, in(call, 3), in(call, 4)));
  });
  table.add("StatefulRandomBinomial", shape_of_input(2), [](const Call& call) {
    const Ints shape = ints_in(call, 2);
    const at::Tensor &counts = in(call, 3), &probabilities = in(call, 4);
    const auto both = at::broadcast_tensors({counts, probabilities});
    const std::int64_t groups = std::max<std::int64_t>(both[0].numel(), 1), each = element_count(shape) / groups;
    return one(draw_random_binomial(take_from_generator(call, groups * 200 * (each + 3) / 4), shape, counts,
                                    probabilities, call.attr<DType>("dtype")));
  });
  table.add("RngSkip", no_outputs, [](const Call& call) {
    take_from_generator(call, int_in(call, 2));
    return Tensors{};
  });
}

// The shape in the first input and that of the second one behind it.
Shapes samples_shape(const Call& call) {
  const Shape first = shape_from_input(call, 0), &own = call.input(1).shape();
  if (!first.known_rank() || !own.known_rank()) return {Shape::unknown_rank()};
  std::vector<std::int64_t> dims = first.dims();
  dims.insert(dims.end(), own.dims().begin(), own.dims().end());
  return {Shape(std::move(dims))};
}
Ints sampled(const Call& call) {
  Ints shape = ints_in(call, 0);
  const auto own = in(call, 1).sizes();
  shape.insert(shape.end(), own.begin(), own.end());
  return shape;
}
PhiloxState stateful_for(const Call& call, const Ints& shape) {
  return advance_stateful(call, static_cast<std::uint64_t>(element_count(shape)) * 256);
}

Tensors gamma_samples(const Call& call) {
  const Ints shape = sampled(call);
  return one(draw_random_gamma(stateful_for(call, shape), shape, in(call, 1)));
}
Tensors poisson_samples(const Call& call) {
  const Ints shape = sampled(call);
  return one(draw_random_poisson(stateful_for(call, shape), shape, in(call, 1), call.attr<DType>("dtype")));
}

Tensors system_integers(const Call& call) {
  const auto word = [] { return static_cast<std::int64_t>(draw_entropy()) << 32 | draw_entropy(); };
  const std::int64_t high = word();
  return one(
      draw_random(philox_from_seeds(high, word()), ints_in(call, 0), call.attr<DType>("dtype"), RandomKind::kFullInt));
}

}  // namespace

void register_random_generators(Table& table) {
  add_generator_rows(table);
  table.add("RandomGamma", samples_shape, gamma_samples);
  for (auto name : {"RandomPoisson", "RandomPoissonV2"}) table.add(name, samples_shape, poisson_samples);
  table.add("NonDeterministicInts", shape_of_input(0), system_integers);
}

}  // namespace lockstep::ops

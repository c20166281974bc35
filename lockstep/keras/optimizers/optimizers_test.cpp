#include "lockstep/keras/optimizers/optimizers.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::optimizers {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;
using Values = std::vector<float>;

VariablePtr variable(const Values& values, const Shape& shape, std::string path = "dense/kernel") {
  auto made = distribute::Variable::create(Tensor::from_vector(values, shape), {.name = "kernel"});
  made->set_path(std::move(path));
  return made;
}

Values values_of(const VariablePtr& v) { return v->numpy().to_vector<float>(); }

const std::vector<Values> kGradients = {{0.1f, -0.2f}, {0.3f, 0.4f}, {-0.5f, 0.05f}};

struct Case {
  OptimizerPtr optimizer;
  std::vector<Values> after;  // the weights after each step
};

// w0 = [1, 2]; numbers of Keras 3.15.1.
std::vector<Case> cases() {
  return {
      {SGD(), {{0.9990000f, 2.0020001f}, {0.9960000f, 1.9980001f}, {1.0010000f, 1.9975002f}}},
      {SGD({.momentum = 0.9}), {{0.9990000f, 2.0020001f}, {0.9951000f, 1.9998001f}, {0.9965900f, 1.9973201f}}},
      {SGD({.momentum = 0.9, .nesterov = true}),
       {{0.9981000f, 2.0037999f}, {0.9915900f, 1.9978199f}, {0.9979309f, 1.9950879f}}},
      {RMSprop(), {{0.9968379f, 2.0031621f}, {0.9938228f, 2.0003049f}, {0.9965380f, 1.9999311f}}},
      {RMSprop({.momentum = 0.9}), {{0.9968379f, 2.0031621f}, {0.9909769f, 2.0031509f}, {0.9884172f, 2.0027671f}}},
      {RMSprop({.centered = true}), {{0.9966668f, 2.0033333f}, {0.9933895f, 2.0004404f}, {0.9961137f, 2.0000598f}}},
      {Adam(), {{0.9990000f, 2.0009999f}, {0.9980822f, 2.0006337f}, {0.9982432f, 2.0002816f}}},
      {Adam({.amsgrad = true}), {{0.9990000f, 2.0009999f}, {0.9980822f, 2.0006337f}, {0.9982432f, 2.0002816f}}},
      {AdamW(), {{0.9989960f, 2.0009921f}, {0.9980742f, 2.0006177f}, {0.9982312f, 2.0002575f}}},
      {Adamax(), {{0.9990000f, 2.0009999f}, {0.9983158f, 2.0007105f}, {0.9984258f, 2.0004814f}}},
      {Nadam(), {{0.9989372f, 2.0010629f}, {0.9979451f, 2.0001812f}, {0.9987918f, 2.0000205f}}},
      {Adagrad(), {{0.9996985f, 2.0005345f}, {0.9990277f, 1.9998043f}, {0.9997730f, 1.9997133f}}},
      {Adadelta(), {{0.9999986f, 2.0000014f}, {0.9999967f, 1.9999996f}, {0.9999990f, 1.9999993f}}},
      {Ftrl(), {{0.0462359f, 0.3102260f}, {0.0455651f, 0.3094957f}, {0.0463104f, 0.3094048f}}},
      {Lion(), {{0.9990000f, 2.0009999f}, {0.9980000f, 1.9999999f}, {0.9990000f, 1.9989998f}}},
      {Lamb(), {{0.9984189f, 2.0015812f}, {0.9963413f, 2.0007524f}, {0.9972700f, 1.9987195f}}},
      {Adafactor(), {{0.9984189f, 2.0015812f}, {0.9968017f, 2.0000358f}, {0.9989400f, 1.9997252f}}},
      {SGD({.clipnorm = 0.25}), {{0.9990000f, 2.0020001f}, {0.9975000f, 2.0000000f}, {0.9999876f, 1.9997512f}}},
      {SGD({.global_clipnorm = 0.25}), {{0.9990000f, 2.0020001f}, {0.9975000f, 2.0000000f}, {0.9999876f, 1.9997512f}}},
      {SGD({.clipvalue = 0.25}), {{0.9990000f, 2.0020001f}, {0.9965000f, 1.9995000f}, {0.9990000f, 1.9990001f}}},
      {SGD({.weight_decay = 0.1}), {{0.9980000f, 2.0000000f}, {0.9940020f, 1.9940001f}, {0.9980080f, 1.9915061f}}},
      {Adam({.weight_decay = 0.1}), {{0.9989000f, 2.0007999f}, {0.9978823f, 2.0002337f}, {0.9979435f, 1.9996814f}}},
      {Muon(), {{0.9989960f, 2.0009921f}, {0.9980742f, 2.0006177f}, {0.9982312f, 2.0002575f}}},
      {SGD({.learning_rate = 0.1, .loss_scale_factor = 4}),
       {{0.9975000f, 2.0050001f}, {0.9900000f, 1.9950001f}, {1.0025001f, 1.9937501f}}},
  };
}

TEST(Optimizers, FollowKerasStepByStep) {
  for (const Case& c : cases()) {
    const VariablePtr w = variable({1, 2}, {2});
    for (std::size_t step = 0; step < 3; ++step) {
      c.optimizer->apply({Tensor::from_vector(kGradients[step])}, {w});
      EXPECT_THAT(values_of(w), Pointwise(FloatNear(5e-7f), c.after[step]))
          << dump_json(c.optimizer->get_config()) << " step " << step;
    }
    EXPECT_EQ(c.optimizer->iterations(), 3);
  }
}

// An embedding's gradient: rows 0, 2 and 0 of three, so that one comes twice. Numbers of Keras 3.15.1 after two steps.
TEST(Optimizers, SquareTheRowsOfAGatheredVariableBeforeTheyAreAddedUp) {
  const std::vector<std::pair<OptimizerPtr, Values>> after = {
      {SGD({.momentum = 0.9}), {0.9844000f, -1.0117000f, 2, 3, 3.0078001f, 0.4883000f}},
      {RMSprop(), {0.9923860f, -1.0043797f, 2, 3, 3.0060194f, 0.4939806f}},
      {RMSprop({.momentum = 0.5, .centered = true}), {0.9892102f, -1.0057267f, 2, 3, 3.0081391f, 0.4918608f}},
      {Adam(), {0.9975143f, -1.0014299f, 2, 3, 3.0019650f, 0.4980348f}},
      {Adam({.amsgrad = true}), {0.9975143f, -1.0014299f, 2, 3, 3.0019650f, 0.4980348f}},
      {AdamW({.weight_decay = 0.1}), {0.9973145f, -1.0012299f, 1.9995999f, 2.9994001f, 3.0013649f, 0.4979349f}},
      {Adamax(), {0.9982368f, -1.0010579f, 2, 3, 3.0017631f, 0.4982369f}},
      {Nadam(), {0.9974589f, -1.0014617f, 2, 3, 3.0020089f, 0.4979911f}},
      {Adagrad(), {0.9980728f, -1.0011930f, 2, 3, 3.0012648f, 0.4985027f}},
      {Adadelta(), {0.9999958f, -1.0000024f, 2, 3, 3.0000033f, 0.4999968f}},
      {Ftrl(), {0.2909660f, -0.3926123f, 0, 0, 0.4658021f, 0.1357646f}},
      {Lion(), {0.9980000f, -1.0020001f, 2, 3, 3.0019999f, 0.4980000f}},
      {Lamb(), {0.9938688f, -1.0035268f, 2, 3, 3.0048470f, 0.4951529f}},
      {Adafactor(), {0.9942131f, -1.0031847f, 2, 3, 3.0041699f, 0.4954102f}},
      {SGD({.clipnorm = 0.25}), {0.9968377f, -1.0023718f, 2, 3, 3.0015812f, 0.4976283f}},
      {SGD({.global_clipnorm = 0.25}), {0.9968377f, -1.0023718f, 2, 3, 3.0015812f, 0.4976283f}},
      {SGD({.clipvalue = 0.15}), {0.9945000f, -1.0005000f, 2, 3, 3.0029998f, 0.4970000f}},
      {Adam({.gradient_accumulation_steps = 2}), {0.9990000f, -1.0009999f, 2, 3, 3.0009999f, 0.4990000f}},
  };
  for (const auto& [optimizer, expected] : after) {
    const VariablePtr w = variable({1, -1, 2, 3, 3, 0.5f}, {3, 2});
    for (const float step : {1.0f, 2.0f}) {
      const Tensor factors = Tensor::from_vector<float>(
          {.1f * step, .4f * step, -.2f * step, .3f * step, .3f * step, -.1f * step}, {3, 2});
      GradientTape tape;
      const Tensor rows = ops::gather(w->read(), Tensor::from_vector<std::int32_t>({0, 2, 0}));
      optimizer->apply(tape.gradient(ops::reduce_sum(rows * factors), std::vector<VariablePtr>{w}), {w});
    }
    EXPECT_THAT(values_of(w), Pointwise(FloatNear(1e-6f), expected)) << dump_json(optimizer->get_config());
  }
}

TEST(Optimizers, DoublesGiveWhatTheFusedPassGives) {
  for (const Case& c : cases()) {
    const VariablePtr w = distribute::Variable::create(Tensor::from_vector<double>({1, 2}), {.name = "kernel"});
    for (const Values& g : kGradients) c.optimizer->apply({Tensor::from_vector<double>({g[0], g[1]})}, {w});
    const std::vector<double> found = w->numpy().to_vector<double>();
    EXPECT_NEAR(found[0], c.after[2][0], 5e-7) << c.optimizer->class_name();
    EXPECT_NEAR(found[1], c.after[2][1], 5e-7) << c.optimizer->class_name();
  }
}

// Long variables run eight elements at a time and on several threads: neither may show.
TEST(Optimizers, LongVariablesGiveWhatShortOnesGive) {
  const std::vector<std::function<OptimizerPtr()>> makers = {
      [] { return SGD({.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}); },
      [] { return Adam({.weight_decay = 0.1}); },
      [] { return Adam({.amsgrad = true}); },
      [] { return RMSprop({.momentum = 0.9, .centered = true}); },
      [] { return Nadam({.weight_decay = 0.1}); },
      [] { return Adamax(); },
      [] { return Adagrad(); },
      [] { return Adadelta(); },
      [] { return Lion({.weight_decay = 0.1}); }};
  const std::int64_t n = 100003;
  Values start(n), g(n);
  for (std::int64_t i = 0; i < n; ++i) {
    start[static_cast<std::size_t>(i)] = static_cast<float>(i % 97) / 7.0f - 5.0f;
    g[static_cast<std::size_t>(i)] = static_cast<float>(i % 89) / 11.0f - 4.0f;
  }
  const int threads = ops::intra_op_threads();
  for (const auto& make : makers) {
    std::vector<Values> results;
    for (int count : {1, 2, 3}) {
      ops::set_intra_op_threads(count);
      const VariablePtr w = variable(start, {n});
      const OptimizerPtr optimizer = make();
      for (int step = 0; step < 3; ++step) optimizer->apply({Tensor::from_vector(g)}, {w});
      results.push_back(values_of(w));
    }
    ops::set_intra_op_threads(threads);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    for (std::size_t i : {0u, 1u, 7u, 8u, 50000u, 100002u}) {
      const VariablePtr one = variable({start[i]}, {1});
      const OptimizerPtr optimizer = make();
      for (int step = 0; step < 3; ++step) optimizer->apply({Tensor::from_vector(Values{g[i]})}, {one});
      EXPECT_EQ(values_of(one)[0], results[0][i]) << make()->class_name() << " element " << i;
    }
  }
}

// As TensorFlow's operations do; numbers of Keras 3.15.1 on it.
TEST(Optimizers, NumbersBelowTheNormalOnesAreZero) {
  for (const auto& [momentum, after] : {std::pair{2e-39f, 0.0f}, std::pair{1.2e-38f, 1.2e-38f}}) {
    const VariablePtr w = variable(Values(11, 1.0f), {11});
    const OptimizerPtr optimizer = Adam({.learning_rate = 0.1});
    optimizer->build({w});
    const VariablePtr m = optimizer->variables()[2], v = optimizer->variables()[3];
    m->assign(Tensor::full({11}, momentum));
    v->assign(Tensor::full({11}, 1e-5));
    optimizer->apply({Tensor::zeros({11})}, {w});
    EXPECT_EQ(values_of(m), Values(11, after));
  }
}

TEST(Optimizers, ReplicasGradientsAreSummedAndAppliedOnce) {
  distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto scope = strategy.scope();
  const VariablePtr w = variable({1}, {1});
  const OptimizerPtr sgd = SGD(0.1);
  strategy.run_replicas([&](int replica) { sgd->apply({Tensor::from_vector<float>({replica + 1.0f})}, {w}); });
  EXPECT_NEAR(values_of(w)[0], 0.7f, 1e-6);
  EXPECT_EQ(sgd->iterations(), 1);
}

TEST(Optimizers, FollowKerasOnMatrices) {
  const std::vector<Values> gradients = {{.1f, -.2f, .3f, .4f}, {.3f, .4f, -.1f, .2f}, {-.5f, .05f, .2f, -.1f}};
  const std::vector<Case> matrices = {
      {Muon(),
       {{0.9997730f, 2.0001864f, 2.9998221f, 3.9998467f},
        {0.9995247f, 2.0001354f, 2.9999430f, 3.9995964f},
        {0.9996738f, 1.9999321f, 2.9997959f, 3.9993627f}}},
      {Adafactor(),
       {{0.9978787f, 2.0030000f, 2.9971540f, 3.9973168f},
        {0.9943758f, 1.9996976f, 2.9984436f, 3.9954927f},
        {0.9983314f, 1.9992188f, 2.9961965f, 3.9968529f}}},
      {Lamb(),
       {{0.9972614f, 2.0027387f, 2.9972613f, 3.9972613f},
        {0.9937137f, 2.0013235f, 2.9957142f, 3.9936581f},
        {0.9946789f, 1.9992104f, 2.9920964f, 3.9902763f}}},
  };
  for (const Case& c : matrices) {
    const VariablePtr w = variable({1, 2, 3, 4}, {2, 2});
    for (std::size_t step = 0; step < 3; ++step) {
      c.optimizer->apply({Tensor::from_vector(gradients[step], {2, 2})}, {w});
      EXPECT_THAT(values_of(w), Pointwise(FloatNear(6e-7f), c.after[step])) << c.optimizer->class_name() << " " << step;
    }
  }
}

TEST(Optimizers, AveragesWeights) {
  const VariablePtr w = variable({1, 2}, {2}), w2 = variable({1, 2}, {2});
  const OptimizerPtr plain = SGD({.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.9});
  const OptimizerPtr overwriting =
      SGD({.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.9, .ema_overwrite_frequency = 2});
  for (const Values& g : kGradients) {
    plain->apply({Tensor::from_vector(g)}, {w});
    overwriting->apply({Tensor::from_vector(g)}, {w2});
  }
  EXPECT_THAT(values_of(w), Pointwise(FloatNear(3e-7f), Values{1.01f, 1.975f}));
  EXPECT_THAT(values_of(plain->variables()[2]), Pointwise(FloatNear(3e-7f), Values{0.9893f, 2.0119f}));
  EXPECT_THAT(values_of(w2), Pointwise(FloatNear(3e-7f), Values{1.037f, 2.011f}));
  EXPECT_THAT(values_of(overwriting->variables()[2]), Pointwise(FloatNear(3e-7f), Values{0.992f, 2.0155f}));
  plain->finalize_variable_values();
  EXPECT_THAT(values_of(w), Pointwise(FloatNear(3e-7f), Values{0.9893f, 2.0119f}));
}

TEST(Optimizers, AccumulateGradients) {
  const VariablePtr w = variable({1, 2}, {2});
  const OptimizerPtr adam = Adam({.gradient_accumulation_steps = 2});
  const std::vector<Values> after = {
      {1, 2}, {0.9990000f, 1.9990001f}, {0.9990000f, 1.9990001f}, {0.9990526f, 1.9989108f}};
  for (std::size_t step = 0; step < 4; ++step) {
    adam->apply({Tensor::from_vector(kGradients[step % 3])}, {w});
    EXPECT_THAT(values_of(w), Pointwise(FloatNear(3e-7f), after[step])) << step;
  }
  EXPECT_EQ(adam->iterations(), 4);
}

TEST(LossScale, LeavesStepsOutThatAreNotFinite) {
  const VariablePtr w = variable({1, 2}, {2});
  const OptimizerPtr inner = SGD({.momentum = 0.9}), scaled = LossScaleOptimizer(inner);
  const auto times = [](Values g, float scale) {
    for (float& value : g) value *= scale;
    return Tensor::from_vector(g);
  };
  EXPECT_EQ(scaled->scale_loss(Tensor::scalar(2.0f)).item<float>(), 65536.0f);
  scaled->apply({times(kGradients[0], 32768)}, {w});
  EXPECT_THAT(values_of(w), Pointwise(FloatNear(3e-7f), Values{0.9990000f, 2.0020001f}));
  scaled->apply({Tensor::from_vector(Values{INFINITY, 1})}, {w});
  EXPECT_THAT(values_of(w), Pointwise(FloatNear(3e-7f), Values{0.9990000f, 2.0020001f}));
  scaled->apply({times(kGradients[2], 16384)}, {w});
  EXPECT_THAT(values_of(w), Pointwise(FloatNear(3e-7f), Values{1.0031000f, 2.0033002f}));
  const Variables state = scaled->variables();
  ASSERT_EQ(state.size(), 7u);  // own four, then iteration, learning_rate, momentum
  EXPECT_EQ(state[2]->numpy().item<std::int32_t>(), 1);
  EXPECT_EQ(state[3]->numpy().item<float>(), 16384.0f);
  EXPECT_EQ(inner->iterations(), 2);
  EXPECT_THAT(values_of(state[6]), Pointwise(FloatNear(3e-7f), Values{0.0041f, 0.0013f}));
}

// A path from its first '/' on: optimizers of one class are numbered.
std::string last_part(const std::string& path) { return path.substr(path.find('/')); }

TEST(Optimizers, SlotsHaveKerassOrderAndNames) {
  const Variables two = {variable({1, 2}, {2}, "sequential/dense/kernel"), variable({1}, {1}, "sequential/dense/bias")};
  const auto names = [&](const OptimizerPtr& optimizer) {
    optimizer->build(two);
    std::vector<std::string> paths;
    for (const VariablePtr& v : optimizer->variables()) paths.push_back(v->path());
    return paths;
  };
  EXPECT_THAT(names(Adam({.name = "adam"})),
              ::testing::ElementsAre("adam/iteration", "adam/learning_rate", "adam/sequential_dense_kernel_momentum",
                                     "adam/sequential_dense_kernel_velocity", "adam/sequential_dense_bias_momentum",
                                     "adam/sequential_dense_bias_velocity"));
  EXPECT_EQ(names(SGD()).size(), 2u);
  EXPECT_EQ(names(SGD({.momentum = 0.5})).size(), 4u);
  EXPECT_EQ(names(RMSprop({.momentum = 0.5, .centered = true})).size(), 8u);
  EXPECT_EQ(last_part(names(Nadam()).back()), "/u_product");
  EXPECT_EQ(names(Adam(schedules::ExponentialDecay(0.1, 10, 0.5))).size(), 5u);  // no learning rate variable
  EXPECT_EQ(names(Adam({.use_ema = true, .gradient_accumulation_steps = 2})).size(), 10u);
  EXPECT_EQ(names(Adafactor()).size(), 8u);
}

TEST(Optimizers, ComeBackFromConfigs) {
  for (const Case& c : cases()) {
    const Json config = serialize(c.optimizer);
    EXPECT_EQ(serialize(deserialize(config)), config);
  }
  const OptimizerPtr scheduled = Adam({.learning_rate = schedules::CosineDecay(0.1, 10)});
  EXPECT_EQ(serialize(deserialize(serialize(scheduled))), serialize(scheduled));
  const OptimizerPtr scaled = LossScaleOptimizer(Adam());
  EXPECT_EQ(serialize(deserialize(serialize(scaled))), serialize(scaled));
  EXPECT_EQ(
      dump_json(Adam({.name = "adam"})->get_config()),
      R"({"name": "adam", "learning_rate": 0.0010000000474974513, "weight_decay": null, "clipnorm": null, "global_clipnorm": null, "clipvalue": null, "use_ema": false, "ema_momentum": 0.99, "ema_overwrite_frequency": null, "loss_scale_factor": null, "gradient_accumulation_steps": null, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-07, "amsgrad": false})");
}

TEST(Optimizers, ReadKeras2Configs) {
  const OptimizerPtr old = deserialize(Json{
      {"class_name", "Custom>SGD"},
      {"config",
       {{"name", "SGD"}, {"lr", 0.5}, {"momentum", 0.9}, {"jit_compile", false}, {"is_legacy_optimizer", false}}}});
  EXPECT_EQ(old->learning_rate(), 0.5f);
  EXPECT_EQ(old->get_config()["momentum"], 0.9);
  const OptimizerPtr decayed =
      deserialize(Json{{"class_name", "Adam"}, {"config", {{"learning_rate", 0.1}, {"decay", 1.0}}}});
  const VariablePtr w = variable({1, 2}, {2});
  EXPECT_FLOAT_EQ(decayed->learning_rate(), 0.1f);
  decayed->apply({Tensor::from_vector(kGradients[0])}, {w});
  EXPECT_FLOAT_EQ(decayed->learning_rate(), 0.05f);
  EXPECT_EQ(get("rmsprop")->class_name(), "RMSprop");
}

TEST(Optimizers, ConstraintsAndExclusions) {
  const VariablePtr w = variable({1, -2}, {2}), bias = variable({4}, {1}, "dense/bias");
  w->set_constraint([](const Tensor&) { return Tensor::from_vector(Values{7, 7}); });
  const OptimizerPtr sgd = SGD({.weight_decay = 10});
  sgd->exclude_from_weight_decay({}, {"bias"});
  sgd->apply({Tensor::from_vector(Values{0, 0}), Tensor::from_vector(Values{0})}, {w, bias});
  EXPECT_THAT(values_of(w), ::testing::ElementsAre(7, 7));
  EXPECT_THAT(values_of(bias), ::testing::ElementsAre(4));
}

// Also for expressions and names of which an engine that backtracks tries 2^60 ways.
TEST(Optimizers, ExpressionsTakeTimeInProportionToTheNames) {
  const std::string expression = "(x+x+)+y", name = std::string(60, 'x');
  const VariablePtr w = variable({1, 2, 3, 4}, {2, 2}, name);
  const OptimizerPtr sgd = SGD({.weight_decay = 1});
  sgd->exclude_from_weight_decay({}, {expression});
  const Tensor zeros = Tensor::zeros({2, 2}, DType::kFloat32);
  sgd->apply({zeros}, {w});
  Muon({.exclude_layers = {expression}})->apply({zeros}, {w});
  EXPECT_THROW(SGD()->exclude_from_weight_decay({}, {"(x"}), errors::InvalidArgumentError);
  EXPECT_THROW(Muon({.exclude_layers = {"(x"}}), errors::InvalidArgumentError);
}

TEST(Optimizers, ReportTheError) {
  const VariablePtr w = variable({1, 2}, {2}), other = variable({1, 2}, {2});
  const OptimizerPtr sgd = SGD();
  EXPECT_THROW(sgd->apply({Tensor()}, {w}), Error);
  EXPECT_THROW(sgd->apply({Tensor::from_vector(Values{1})}, {w}), Error);
  sgd->apply({Tensor::from_vector(Values{1, 1})}, {w});
  EXPECT_THROW(sgd->apply({Tensor::from_vector(Values{1, 1})}, {other}), Error);
  EXPECT_THROW(SGD({.clipnorm = 1, .clipvalue = 1}), Error);
  EXPECT_THROW(SGD({.gradient_accumulation_steps = 1}), Error);
  EXPECT_THROW(Adam(schedules::ExponentialDecay(0.1, 10, 0.5))->set_learning_rate(1), Error);
  EXPECT_THROW(get("adamm"), Error);
}

}  // namespace
}  // namespace lockstep::optimizers

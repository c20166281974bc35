#include "lockstep/keras/serialization.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/models/from_config_internal.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

class Doubled : public Layer {
 public:
  Doubled() : Layer("Doubled") {}
  void build(const Nested<Shape>&) override { offset_ = add_weight({.shape = {}, .name = "offset"}); }
  Structure call(const Structure& inputs, const CallContext&) override { return inputs.leaf() * 2.0 + value(offset_); }
  VariablePtr offset_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Doubled)

class Times : public Layer {
 public:
  explicit Times(std::int64_t factor) : Layer("Times"), factor(factor) {}
  static std::unique_ptr<Times> from_config(const Json& config) {
    return std::make_unique<Times>(config.at("factor").get<std::int64_t>());
  }
  Json get_config() const override { return {{"factor", factor}}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return inputs.leaf() * static_cast<double>(factor);
  }
  std::int64_t factor;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Times, "Unit", "Multiplied")

class Offset : public losses::Loss {
 public:
  Offset() = default;
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override { return y_pred - y_true; }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Offset, "Unit")

class NotRegistered : public losses::Loss {
 public:
  Tensor call(const Tensor&, const Tensor& y_pred) const override { return y_pred; }
};

class Pair : public Model {
 public:
  Pair() : Model("Pair"), first(track("first", layers::Dense(3))), second(track("second", layers::Dense(2))) {}
  Structure call(const Structure& x, const CallContext&) override { return second(first(x)); }
  LayerHandle first, second;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Pair, "Unit")

class Still : public optimizers::Optimizer {
 public:
  Still() : Optimizer("Still", {}) {}
  void create_slots() override {}
  void update(Step&) override {}
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Still, "Unit")

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Registration, ALayerIsWrittenUnderItsRegisteredNameWithItsBaseConfig) {
  const auto layer = std::make_shared<Times>(3);
  layer->set_name("thrice");
  layer->set_trainable(false);
  const Json object = serialize_operation(*layer);
  EXPECT_TRUE(object["module"].is_null());
  EXPECT_EQ(object["class_name"], "Multiplied");
  EXPECT_EQ(object["registered_name"], "Unit>Multiplied");
  EXPECT_EQ(object["config"]["factor"], 3);
  EXPECT_EQ(object["config"]["name"], "thrice");
  EXPECT_EQ(object["config"]["trainable"], false);
  const LayerPtr again = deserialize_layer(object);
  EXPECT_EQ(dynamic_cast<Times&>(*again).factor, 3);
  EXPECT_EQ(again->name(), "thrice");
  EXPECT_FALSE(again->trainable());
}

TEST(Registration, TrainableAndDtypeHoldForVariablesMadeAfterwards) {
  const Json object = parse_json(
      R"({"module": "my.module", "class_name": "Doubled", "registered_name": "Custom>Doubled",
          "config": {"name": "d", "trainable": false, "dtype": "float64"}, "build_config": {"input_shape": [null, 2]}})",
      "test");
  const LayerPtr layer = deserialize_layer(object);
  EXPECT_TRUE(layer->trainable_weights().empty());
  ASSERT_EQ(layer->weights().size(), 1u);
  EXPECT_EQ(layer->weights()[0]->dtype(), DType::kFloat64);
}

TEST(Registration, TheLegacyFormNamesThePackageInTheClassName) {
  const LayerPtr layer = deserialize_layer(
      parse_json(R"({"class_name": "Unit>Multiplied", "config": {"name": "x", "factor": 2}})", "test"));
  EXPECT_EQ(dynamic_cast<Times&>(*layer).factor, 2);
}

TEST(Registration, AModelIsBuiltFromItsConfigAndKeptByItsLayer) {
  const Pair model;
  model.build_for(Shape{kUnknownDim, 4});
  const Json object = serialize_operation(*model.impl());
  EXPECT_EQ(object["registered_name"], "Unit>Pair");
  const Model again(model_from_json(object));
  EXPECT_EQ(again.name(), model.name());
  EXPECT_EQ(again.weights().size(), 4u);
  again.set_weights(model.get_weights());
  const Tensor x = Tensor::full({2, 4}, 0.5);
  EXPECT_EQ(again(x).leaf().to_vector<float>(), model(x).leaf().to_vector<float>());
}

TEST(Registration, ALossKeepsItsNameAndReduction) {
  const Json object = parse_json(
      R"({"module": "m", "class_name": "Offset", "registered_name": "Unit>Offset",
          "config": {"name": "mine", "reduction": "sum"}})",
      "test");
  const auto loss = losses::deserialize(object);
  EXPECT_EQ(loss->name(), "mine");
  EXPECT_EQ((*loss)(Tensor::zeros({2, 1}), Tensor::full({2, 1}, 2.0)).item<float>(), 4.0f);
  const Json written = losses::serialize(loss);
  EXPECT_EQ(written["registered_name"], "Unit>Offset");
  EXPECT_EQ(written["config"]["reduction"], "sum");
  EXPECT_EQ(std::make_shared<Offset>()->name(), "offset");
}

TEST(Registration, AnOptimizerKeepsTheCommonArguments) {
  const Json object = parse_json(
      R"({"module": "m", "class_name": "Still", "registered_name": "Unit>Still",
          "config": {"name": "still", "learning_rate": 0.25, "weight_decay": 0.5}})",
      "test");
  const auto optimizer = optimizers::deserialize(object);
  EXPECT_EQ(optimizer->learning_rate(), 0.25f);
  const Json config = optimizers::serialize(optimizer)["config"];
  EXPECT_EQ(config["weight_decay"], 0.5);
  EXPECT_EQ(config["name"], "still");
}

TEST(Registration, AClassThatIsNotRegisteredIsWrittenByItsName) {
  const Json object = losses::serialize(std::make_shared<NotRegistered>());
  EXPECT_TRUE(object["module"].is_null());
  EXPECT_EQ(object["registered_name"], "NotRegistered");
}

TEST(Registration, BuiltInClassesGoBeforeClassesOfTheSameName) {
  const LayerPtr layer = deserialize_layer(parse_json(
      R"({"module": "keras.layers", "class_name": "Dense", "registered_name": null, "config": {"units": 2}})", "test"));
  EXPECT_EQ(layer->module(), "keras.layers");
}

TEST(Registration, BadNamesAreRejected) {
  EXPECT_NE(message_of([] { register_keras_serializable<NotRegistered>("a>b"); }).find("invalid package"),
            std::string::npos);
  EXPECT_NE(message_of([] { register_keras_serializable<NotRegistered>("Unit", "Offset"); }).find("already registered"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              (void)deserialize_layer(parse_json(R"({"module": "m", "class_name": "Doubledd", "config": {}})", "test"));
            }).find("Doubled"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              (void)deserialize_layer(parse_json(
                  R"({"module": "m", "class_name": "Multiplied", "registered_name": "Unit>Multiplied", "config": {}})",
                  "test"));
            }).find("Unit>Multiplied"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::keras

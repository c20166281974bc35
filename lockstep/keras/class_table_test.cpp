#include "lockstep/keras/class_table_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"

namespace lockstep::keras {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<const ClassTable*> tables() {
  return {&layer_classes(),      &optimizers::classes(),   &losses::classes(),       &metrics::classes(),
          &schedules::classes(), &initializers::classes(), &regularizers::classes(), &constraints::classes()};
}

// A value of the type; readers check types before constructors check values.
Json value_of(const std::string& type) {
  const Json layer = {{"class_name", "SimpleRNNCell"}, {"config", {{"units", 2}}}};
  if (type == "integer" || type == "integer or list of integers") return 2;
  if (type == "number") return 0.5;
  if (type == "string") return "text";
  if (type == "list of numbers" || type == "number or list of numbers") return {0.5, 0.25};
  if (type == "layer") return layer;
  if (type == "list of layers") return Json::array({layer});
  const Json optimizer = {{"class_name", "SGD"}, {"config", Json::object()}};
  if (type == "optimizer") return optimizer;
  if (type == "OptimizerMap")
    return {{"config", {{"default_optimizer", optimizer}, {"optimizer_map", Json::object()}}}};
  return "relu";
}

// The error of a class for a config; empty if the config is accepted.
std::string error_of(const ClassRow& row, const Json& config) {
  try {
    row.make(config);
  } catch (const errors::InvalidArgumentError& error) {
    return error.message();
  }
  return "";
}

TEST(ClassTables, EveryClassRejectsUnknownAndMissingArguments) {
  int classes = 0, required = 0;
  for (const ClassTable* table : tables()) {
    for (const ClassRow* row : table->rows()) {
      // An InputLayer takes the shape under several names; models are nested layers.
      if (!row->describe || row->name == "InputLayer") continue;
      Json config = Json::object();
      for (const FieldDescription& field : row->describe()) {
        if (field.required) config[field.key] = value_of(field.type);
      }
      Json unknown = config;
      unknown["frobnicate"] = 1;
      EXPECT_THAT(error_of(*row, unknown), AllOf(HasSubstr(row->name), HasSubstr("unknown keyword 'frobnicate'")))
          << table->kind();
      for (const auto& [key, value] : config.items()) {
        Json without = config;
        without.erase(key);
        EXPECT_THAT(error_of(*row, without), HasSubstr("'" + key + "' is missing")) << row->name;
        ++required;
      }
      ++classes;
    }
  }
  EXPECT_GT(classes, 180);
  EXPECT_GT(required, 60);
}

TEST(ClassTables, NearestArgumentIsNamed) {
  EXPECT_THAT(error_of(*losses::classes().find("Huber"), {{"detla", 1.0}}), HasSubstr("did you mean 'delta'"));
  EXPECT_THAT(error_of(*layer_classes().find("Dense"), {{"units", 2}, {"name", "d"}, {"use_bais", true}}),
              AllOf(HasSubstr("Dense 'd'"), HasSubstr("did you mean 'use_bias'")));
}

TEST(ClassTables, WrongTypesAreNamed) {
  EXPECT_THAT(error_of(*losses::classes().find("huber"), {{"delta", "x"}}),
              HasSubstr("Huber: 'delta' is \"x\", expected number"));
  EXPECT_THAT(error_of(*optimizers::classes().find("ADAM"), {{"learning_rate", "fast"}}),
              HasSubstr("expected number or schedule"));
}

TEST(ClassTables, KeywordsOfOlderKerasAreRead) {
  const auto config = [](const char* name, const Json& given) {
    return std::static_pointer_cast<optimizers::Optimizer>(optimizers::classes().find(name)->make(given))->get_config();
  };
  EXPECT_FLOAT_EQ(config("sgd", {{"lr", 0.5}})["learning_rate"].get<float>(), 0.5f);
  EXPECT_EQ(config("sgd", {{"lr", 0.5}, {"decay", 0.1}})["learning_rate"]["class_name"], "InverseTimeDecay");
  EXPECT_EQ(config("adam", {{"is_legacy_optimizer", false}, {"jit_compile", true}})["beta_1"], 0.9);
}

}  // namespace
}  // namespace lockstep::keras

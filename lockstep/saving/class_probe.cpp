// Makes objects from configs, for the judged tests:
//   class_probe OBJECTS.json
// OBJECTS is [{"family", "class_name", "config"}, …]. Prints a list with {"config": …} of each object, or {"error": …}.
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/json.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/optimizers/optimizers.h"

namespace {

using namespace lockstep;

template <typename Base>
Json config_of(const keras::ClassTable& table, const std::string& name, const Json& config) {
  const keras::ClassRow* row = table.find(name);
  if (!row) return {{"unknown", true}};
  return {{"config", std::static_pointer_cast<Base>(row->make(config))->get_config()}};
}

Json answer(const Json& object) {
  const auto family = object.at("family").get<std::string>(), name = object.at("class_name").get<std::string>();
  const Json& config = object.at("config");
  if (family == "layers") return config_of<keras::Layer>(keras::layer_classes(), name, config);
  if (family == "optimizers") return config_of<optimizers::Optimizer>(optimizers::classes(), name, config);
  if (family == "schedules") return config_of<schedules::LearningRateSchedule>(schedules::classes(), name, config);
  if (family == "losses") return config_of<losses::Loss>(losses::classes(), name, config);
  if (family == "metrics") return config_of<metrics::Metric>(metrics::classes(), name, config);
  if (family == "initializers") return config_of<initializers::Initializer>(initializers::classes(), name, config);
  if (family == "regularizers") return config_of<regularizers::Regularizer>(regularizers::classes(), name, config);
  return config_of<constraints::Constraint>(constraints::classes(), name, config);
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::string path = count > 1 ? values[1] : "";
    Json answers = Json::array();
    for (const Json& object : parse_json(io::read_text(io::posix_file_system(), path), path)) {
      try {
        answers.push_back(answer(object));
      } catch (const std::exception& error) {
        answers.push_back({{"error", error.what()}});
      }
    }
    fmt::print("{}\n", dump_json(answers));
  } catch (const std::exception& error) {
    fmt::print(stderr, "class_probe: {}\n", error.what());
    return 1;
  }
}

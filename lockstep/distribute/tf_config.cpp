// TF_CONFIG, read without trust.
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/cluster_resolver.h"

namespace lockstep::distribute {
namespace {

constexpr const char* kExample =
    "{\"cluster\": {\"worker\": [\"host1:2222\", \"host2:2222\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}";

// A part of the JSON for a message, cut where it is long.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 80;
  std::string text = dump_json(value);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

std::string kind(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a truth value";
  return value.is_null() ? "null" : "a number";
}

// A member that is there and not null.
const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

Json parsed(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG is set to {}, which is not JSON; unset it to train alone, or set it like {}",
                    text.empty() ? "an empty text" : "blanks", kExample));
  }
  Json config;
  try {
    config = parse_json(text, "TF_CONFIG");
  } catch (const Error& e) {
    const bool single = text.find('"') == std::string::npos && text.find('\'') != std::string::npos;
    throw_invalid_argument(
        fmt::format("{}; {}", e.message(),
                    single ? "JSON's strings stand in double quotes" : fmt::format("it should be like {}", kExample)));
  }
  if (!config.is_object()) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG is {}, {}; expected an object like {}", kind(config), shown(config), kExample));
  }
  return config;
}

std::string address_of(const std::string& job, int id, const Json& value) {
  if (!value.is_string()) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG: the address of {} {} is {}, {}; expected a string such as \"10.0.0.1:2222\"", job, id,
                    kind(value), shown(value)));
  }
  const std::string address = value.get<std::string>();
  if (address.empty()) {
    throw_invalid_argument(fmt::format(
        "TF_CONFIG: the address \"\" of {} {} is empty; expected a string such as \"10.0.0.1:2222\"", job, id));
  }
  return address;
}

ClusterSpec::Tasks tasks_of(const std::string& job, const Json& value) {
  ClusterSpec::Tasks tasks;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      tasks[static_cast<int>(i)] = address_of(job, static_cast<int>(i), value[i]);
  } else if (value.is_object()) {
    for (const auto& [key, address] : value.items()) {
      const auto id = whole_number(key);
      if (!id || *id < 0) {
        throw_invalid_argument(fmt::format(
            "TF_CONFIG: the job {} has a task numbered {}; expected a whole number from 0 on", shown(job), shown(key)));
      }
      if (tasks.contains(*id))
        throw_invalid_argument(
            fmt::format("TF_CONFIG: the job {} has the task {} twice, in {}", shown(job), *id, shown(value)));
      tasks[*id] = address_of(job, *id, address);
    }
  } else {
    throw_invalid_argument(fmt::format(
        "TF_CONFIG: the job {} is {}, {}; expected a list of addresses{}", shown(job), kind(value), shown(value),
        value.is_string() ? fmt::format(": [{}]", shown(value)) : " such as [\"10.0.0.1:2222\"]"));
  }
  return tasks;
}

ClusterSpec cluster_of(const Json& config, const std::string& own_job) {
  const Json* cluster = member(config, "cluster");
  if (!cluster) return {};
  if (!cluster->is_object()) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG: \"cluster\" is {}, {}; expected an object such as {{\"worker\": [\"10.0.0.1:2222\"]}}",
                    kind(*cluster), shown(*cluster)));
  }
  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const auto& [job, value] : cluster->items()) {
    ClusterSpec::Tasks tasks = tasks_of(job, value);
    if (!tasks.empty()) {
      jobs[job] = std::move(tasks);
    } else if (job == own_job || cluster->size() == 1) {
      throw_invalid_argument(
          fmt::format("TF_CONFIG: the job {} has no tasks, {}; list the address of each", shown(job), shown(value)));
    }
  }
  return ClusterSpec(std::move(jobs));
}

const Json* task_of(const Json& config) {
  const Json* task = member(config, "task");
  if (task && !task->is_object()) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG: \"task\" is {}, {}; expected an object such as {{\"type\": \"worker\", \"index\": 0}}",
                    kind(*task), shown(*task)));
  }
  return task;
}

std::string task_type_of(const Json& config) {
  const Json* task = task_of(config);
  const Json* type = task ? member(*task, "type") : nullptr;
  if (!type) {
    if (!task || !member(config, "cluster")) return "";
    throw_invalid_argument(fmt::format(
        "TF_CONFIG: the task {} has no \"type\"; add \"type\": \"worker\" (or chief, evaluator)", shown(*task)));
  }
  if (!type->is_string()) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG: the task's \"type\" is {}, {}; expected chief, worker, evaluator or ps", kind(*type),
                    shown(*type)));
  }
  return type->get<std::string>();
}

std::optional<int> task_id_of(const Json& config) {
  const Json* task = task_of(config);
  const Json* index = task ? member(*task, "index") : nullptr;
  if (!index) {
    if (!task || !member(*task, "type")) return std::nullopt;
    throw_invalid_argument(fmt::format(
        "TF_CONFIG: the task {} has no \"index\"; add \"index\": 0 for the first of its job", shown(*task)));
  }
  std::optional<int> number;
  if (index->is_string()) number = whole_number(index->get<std::string>());
  if (index->is_number()) {
    const double value = index->get<double>();
    if (value == std::floor(value) && std::abs(value) < 1e9) number = static_cast<int>(value);
  }
  if (!number || *number < 0) {
    throw_invalid_argument(
        fmt::format("TF_CONFIG: the task's \"index\" is {}; expected a whole number from 0 on", shown(*index)));
  }
  return number;
}

std::string rpc_layer_of(const Json& config) {
  const Json* layer = member(config, "rpc_layer");
  if (!layer) return "";
  if (!layer->is_string()) {
    throw_invalid_argument(fmt::format("TF_CONFIG: \"rpc_layer\" is {}, {}; expected a string such as \"grpc\"",
                                       kind(*layer), shown(*layer)));
  }
  return layer->get<std::string>();
}

ClusterResolver read(const TFConfigOptions& options, const Environment& environment) {
  const auto text = environment("TF_CONFIG");
  if (!text && !options.task_type) return {};
  const Json config = text ? parsed(*text) : Json::object();
  const std::string type = options.task_type ? *options.task_type : task_type_of(config);
  const std::optional<int> id = options.task_id ? options.task_id : task_id_of(config);
  const std::string layer = options.rpc_layer ? *options.rpc_layer : rpc_layer_of(config);
  ClusterSpec cluster = cluster_of(config, type);
  if (cluster.empty() && type.empty()) return {};
  return ClusterResolver(std::move(cluster), type, id, layer, "TF_CONFIG");
}

}  // namespace

TFConfigClusterResolver::TFConfigClusterResolver(const TFConfigOptions& options, const Environment& environment)
    : ClusterResolver(read(options, environment)) {}

}  // namespace lockstep::distribute

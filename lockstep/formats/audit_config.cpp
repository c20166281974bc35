// Keras configs: what keras.saving.deserialize_keras_object would import or execute.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "lockstep/formats/audit_internal.h"

namespace lockstep::formats {
namespace {

using Risk = AuditFinding::Risk;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_keras_module(std::string_view module) {
  return module == "keras" || module.starts_with("keras.") || module == "tf_keras" || module.starts_with("tf_keras.") ||
         module.starts_with("tensorflow.keras") || module.starts_with("tensorflow.python.keras");
}

struct RunningClass {
  std::string_view name;
  Risk risk;
  std::string_view detail;
};

constexpr std::array kRunningClasses = {
    RunningClass{"__lambda__", Risk::kCode, "Python bytecode, which Keras executes when safe mode is off"},
    RunningClass{"Lambda", Risk::kCode, "a Lambda layer: calls a Python function"},
    RunningClass{"TorchModuleWrapper", Risk::kCode, "a pickled PyTorch module; unpickling executes code"},
    RunningClass{"JaxLayer", Risk::kCode, "a JaxLayer: calls a Python function"},
    RunningClass{"FlaxLayer", Risk::kCode, "a FlaxLayer: calls a Python module"},
    RunningClass{"TFSMLayer", Risk::kFileRead, "a TFSMLayer: loads and runs a SavedModel from another path"},
};

// Functions of TensorFlow that a TFOpLambda layer of Keras 2 may name, and that do more than compute.
constexpr std::array<std::string_view, 12> kReachingFunctions = {"io.",     "raw_ops.", "py_function", "numpy_function",
                                                                 "compat.", "train.",   "data.",       "saved_model.",
                                                                 "load_",   "summary.", "debugging.",  "distribute."};

// Modules of Keras whose functions are activations, losses, metrics and the like. Others write files and download.
constexpr std::array<std::string_view, 9> kFunctionModules = {
    "activations", "losses", "metrics", "ops", "initializers", "regularizers", "constraints", "backend", "random"};

bool is_plain_function_module(std::string_view module) {
  for (const std::string_view prefix : {"keras.src.", "keras.", "tf_keras.src.", "tf_keras."}) {
    if (module.starts_with(prefix)) {
      module.remove_prefix(prefix.size());
      break;
    }
  }
  const auto first = module.substr(0, module.find('.'));
  return std::find(kFunctionModules.begin(), kFunctionModules.end(), first) != kFunctionModules.end();
}

class ConfigWalk {
 public:
  ConfigWalk(Auditor& auditor, std::string where) : auditor_(auditor), path_(std::move(where)) {}

  void visit(const Json& value) {
    if (value.is_string()) return auditor_.path_text(value.text(), path_);
    if (value.is_object()) {
      object(value);
      for (const auto& [key, child] : value.items()) step(fmt::format(".{}", key), child);
    } else if (value.is_array()) {
      std::size_t index = 0;
      for (const Json& child : value) step(fmt::format("[{}]", index++), child);
    }
  }

 private:
  void step(const std::string& suffix, const Json& child) {
    const std::size_t length = path_.size();
    path_ += path_.ends_with(": ") ? suffix.substr(suffix.starts_with('.') ? 1 : 0) : suffix;
    visit(child);
    path_.resize(length);
  }

  void object(const Json& value) {
    const std::string name = text_of(value, "class_name");
    if (!name.empty()) described(value, name);
    if (text_of(value, "function_type") == "lambda" || text_of(value, "output_shape_type") == "lambda" ||
        text_of(value, "mask_type") == "lambda") {
      auditor_.add(Risk::kCode, path_, "Python bytecode of a Lambda layer of Keras 2");
    }
  }

  void described(const Json& value, const std::string& name) {
    const std::string plain = name.starts_with("keras>") || name.starts_with("Keras>") ? name.substr(6) : name;
    for (const RunningClass& each : kRunningClasses) {
      if (plain == each.name) auditor_.add(each.risk, path_, std::string(each.detail));
    }
    const auto config = value.find("config");
    if (config == value.end() || (name.starts_with("__") && name != "__typespec__")) return;
    if (config->is_object()) options(*config, plain);
    const std::string module = text_of(value, "module");
    const std::string registered = text_of(value, "registered_name");
    if (name == "function") {
      const std::string function = config->is_string() ? config->get<std::string>() : std::string("?");
      if (module == "builtins" || module.empty()) {
        auditor_.add(Risk::kCustomObject, path_, fmt::format("function \"{}\"", function));
      } else if (!is_plain_function_module(module)) {
        auditor_.add(Risk::kCode, path_,
                     fmt::format("names function {}.{}, which loading would import", module, function));
      }
      return;
    }
    const bool packaged = registered.find('>') != std::string::npos && !registered.starts_with("keras>");
    if (!module.empty() && is_keras_module(module) && !packaged) return;
    if (!module.empty() && module != "builtins" && !is_keras_module(module)) {
      auditor_.add(Risk::kCustomObject, path_, fmt::format("class {}.{}, which loading would import", module, name));
    } else if (packaged || !is_keras_class(plain)) {
      auditor_.add(Risk::kCustomObject, path_, fmt::format("class \"{}\"", registered.empty() ? name : registered));
    }
  }

  void options(const Json& config, const std::string& name) {
    if (name == "StringLookup" || name == "IntegerLookup" || name == "TextVectorization") {
      for (const char* key : {"vocabulary", "idf_weights"}) {
        if (const auto file = text_of(config, key); !file.empty()) {
          auditor_.add(Risk::kFileRead, path_, fmt::format("{} reads its {} from \"{}\"", name, key, file));
        }
      }
    }
    if (name == "TFOpLambda" || name == "SlicingOpLambda") {
      const std::string function = text_of(config, "function");
      for (const std::string_view prefix : kReachingFunctions) {
        if (function.starts_with(prefix)) {
          auditor_.add(Risk::kCode, path_, fmt::format("calls tf.{}", function));
          break;
        }
      }
    }
  }

  Auditor& auditor_;
  std::string path_;
};

bool is_drive(std::string_view text) {
  return text.size() > 2 && std::isalpha(static_cast<unsigned char>(text[0])) != 0 && text[1] == ':' &&
         (text[2] == '\\' || text[2] == '/');
}

bool is_url(std::string_view text) {
  const auto colon = text.find("://");
  return colon != std::string_view::npos && colon > 1 && colon < 10 &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '+'; });
}

}  // namespace

void Auditor::config(const Json& config, const std::string& where) { ConfigWalk(*this, where + ": ").visit(config); }

bool leaves_folder(std::string_view path) {
  if (path.starts_with('/') || path.starts_with('\\') || is_drive(path)) return true;
  while (!path.empty()) {
    const auto part = path.substr(0, path.find_first_of("/\\"));
    if (part == "..") return true;
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return false;
}

void Auditor::path_text(std::string_view text, const std::string& where) {
  constexpr std::size_t kLongestPath = 4096;
  if (text.size() > kLongestPath) return;
  // One slash alone, or a slash before a blank, is text.
  const bool rooted = text.size() > 1 && text[0] == '/' && std::isgraph(static_cast<unsigned char>(text[1])) != 0 &&
                      text.find('/', 1) != std::string_view::npos;
  if (rooted || is_drive(text)) add(Risk::kPath, where, fmt::format("absolute path \"{}\"", text));
  if (is_url(text)) add(Risk::kPath, where, fmt::format("URL \"{}\"", text));
}

}  // namespace lockstep::formats

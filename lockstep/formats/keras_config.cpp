#include "lockstep/formats/keras_config.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/yaml.h"

namespace lockstep::formats {

Json read_keras_config(const std::string& path, io::FileSystem& files) {
  const auto file = files.map(path);
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  Json config = json ? parse_json(text, path) : parse_yaml(text, path);
  if (!config.is_object() || !config.contains("class_name") || !config.contains("config"))
    throw_invalid_argument(fmt::format("{}: expected the class_name and config of a Keras model", path));
  return config;
}

std::string version_of_keras_config(const Json& config) {
  const Json version = config.value("keras_version", Json());
  if (version.is_string()) return version.get<std::string>();
  return config.contains("module") ? "" : "1";
}

}  // namespace lockstep::formats

// Shapes as Keras writes them in configs: lists of integers and null, and lists and dicts of these.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

Json shape_to_json(const Shape& shape) {
  if (!shape.known_rank()) return nullptr;
  Json dims = Json::array();
  for (std::int64_t dim : shape.dims()) dims.push_back(dim == kUnknownDim ? Json(nullptr) : Json(dim));
  return dims;
}

Json shapes_to_json(const Nested<Shape>& shapes) {
  if (shapes.is_leaf()) return shape_to_json(shapes.leaf());
  if (shapes.is_list()) {
    Json out = Json::array();
    for (const auto& item : shapes.parts()) out.push_back(shapes_to_json(item));
    return out;
  }
  Json out = Json::object();
  for (const auto& [key, item] : shapes.entries()) out[key] = shapes_to_json(item);
  return out;
}

Shape shape_from_json(const Json& json, std::string_view what) {
  if (json.is_object() && json.contains("items")) return shape_from_json(json["items"], what);
  if (!json.is_array()) throw_invalid_argument(fmt::format("{}: {} is not a shape", what, dump_json(json)));
  if (json.size() > 64) throw_invalid_argument(fmt::format("{}: a shape of rank {} (at most 64)", what, json.size()));
  Shape shape;
  for (const Json& dim : json) {
    if (dim.is_null()) {
      shape.push_back(kUnknownDim);
    } else if (dim.is_number_integer() && dim.get<std::int64_t>() >= 0) {
      shape.push_back(dim.get<std::int64_t>());
    } else {
      throw_invalid_argument(fmt::format("{}: {} has the entry {}, expected null or an integer of at least 0", what,
                                         dump_json(json), dump_json(dim)));
    }
  }
  return shape;
}

Nested<Shape> shapes_from_json(const Json& json, std::string_view what) {
  if (json.is_object() && !json.contains("items")) {
    Nested<Shape>::Dict out;
    for (const auto& [key, value] : json.items()) out.emplace_back(key, shapes_from_json(value, what));
    return Nested<Shape>::dict(std::move(out));
  }
  if (json.is_array() && !json.empty() && (json[0].is_array() || json[0].is_object())) {
    Nested<Shape>::List out;
    for (const Json& value : json) out.push_back(shapes_from_json(value, what));
    return Nested<Shape>::list(std::move(out));
  }
  return shape_from_json(json, what);
}

}  // namespace lockstep::keras

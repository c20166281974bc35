#include "lockstep/base/json.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Where a double can be converted to an integer: [-2^63, 2^63) and (-1, 2^64).
constexpr double kTwoTo63 = 9223372036854775808.0;

bool is_pair_with_key(const JsonItem& item) {
  const Json& value = item.peek();
  return value.is_array() && value.size() == 2 && value[0].is_string();
}

std::vector<Json> take_items(std::initializer_list<JsonItem> items) {
  std::vector<Json> out;
  out.reserve(items.size());
  for (const JsonItem& item : items) out.push_back(item.take());
  return out;
}

std::vector<JsonMember>::const_iterator find_member(const std::vector<JsonMember>& members, std::string_view key) {
  return std::find_if(members.begin(), members.end(), [&](const JsonMember& each) { return each.key() == key; });
}

// "'a', 'b'": the keys of an object, the first ones of many.
std::string list_keys(const std::vector<JsonMember>& members) {
  constexpr std::size_t kShown = 10;
  std::string out;
  for (std::size_t i = 0; i < std::min(members.size(), kShown); ++i) {
    out += fmt::format("{}'{}'", i == 0 ? "" : ", ", members[i].key());
  }
  return members.empty() ? "no keys" : out + (members.size() > kShown ? ", …" : "");
}

std::partial_ordering compare_integers(const Json& a, const Json& b) {
  const bool a_is_big = a.is_number_unsigned(), b_is_big = b.is_number_unsigned();
  if (a_is_big && b_is_big) return a.get<std::uint64_t>() <=> b.get<std::uint64_t>();
  if (a_is_big) {
    const auto other = b.get<std::int64_t>();
    return other < 0 ? std::partial_ordering::greater : a.get<std::uint64_t>() <=> static_cast<std::uint64_t>(other);
  }
  if (b_is_big) return 0 <=> compare_integers(b, a);
  return a.get<std::int64_t>() <=> b.get<std::int64_t>();
}

}  // namespace

Json::Json(const char* text) : Json(std::string(text)) {}
Json::Json(std::string_view text) : Json(std::string(text)) {}
Json::Json(const std::string& text) : Json(std::string(text)) {}

Json::Json(std::string&& text) {
  value_.text = new std::string(std::move(text));
  type_ = Type::kString;
}

Json::Json(std::vector<Json> items) {
  value_.items = new std::vector<Json>(std::move(items));
  type_ = Type::kArray;
}

Json::Json(std::vector<JsonMember> members) {
  value_.members = new std::vector<JsonMember>(std::move(members));
  type_ = Type::kObject;
}

Json::Json(std::initializer_list<JsonItem> items)
    : Json(std::all_of(items.begin(), items.end(), is_pair_with_key) ? object(items) : Json(take_items(items))) {}

Json Json::array() { return std::vector<Json>(); }
Json Json::array(std::initializer_list<JsonItem> items) { return take_items(items); }
Json Json::object() { return std::vector<JsonMember>(); }

Json Json::object(std::initializer_list<JsonItem> items) {
  Json out = object();
  for (const JsonItem& item : items) {
    if (!is_pair_with_key(item)) item.peek().throw_mismatch("a pair of a key and a value");
    Json pair = item.take();
    if (!out.contains(pair[0].text())) out[pair[0].text()] = std::move(pair[1]);
  }
  return out;
}

Json::Json(const Json& other) : value_(other.value_) {
  switch (other.type_) {
    case Type::kString: value_.text = new std::string(*other.value_.text); break;
    case Type::kArray: value_.items = new std::vector<Json>(*other.value_.items); break;
    case Type::kObject: value_.members = new std::vector<JsonMember>(*other.value_.members); break;
    default: break;
  }
  type_ = other.type_;
}

void Json::destroy() {
  if (is_string()) delete value_.text;
  if (is_array()) delete value_.items;
  if (is_object()) delete value_.members;
}

std::string_view Json::type_name() const {
  switch (type_) {
    case Type::kNull: return "null";
    case Type::kBoolean: return "boolean";
    case Type::kString: return "string";
    case Type::kArray: return "array";
    case Type::kObject: return "object";
    default: return "number";
  }
}

void Json::throw_mismatch(std::string_view expected) const {
  std::string found(type_name());
  if (!is_structured() && !is_null()) found += " " + dump_json(*this);
  if (found.size() > 80) found = found.substr(0, 77) + "...";
  throw JsonError(fmt::format("invalid value in JSON: found {}, expected {}", found, expected));
}

bool Json::boolean() const {
  if (!is_boolean()) throw_mismatch("a boolean");
  return value_.boolean;
}

double Json::number() const {
  switch (type_) {
    case Type::kInteger: return static_cast<double>(value_.integer);
    case Type::kUnsigned: return static_cast<double>(value_.whole);
    case Type::kFloat: return value_.number;
    default: throw_mismatch("a number");
  }
}

std::int64_t Json::signed_integer() const {
  if (type_ == Type::kInteger) return value_.integer;
  if (type_ == Type::kUnsigned && value_.whole <= static_cast<std::uint64_t>(INT64_MAX)) {
    return static_cast<std::int64_t>(value_.whole);
  }
  if (is_number_float() && value_.number >= -kTwoTo63 && value_.number < kTwoTo63) {
    return static_cast<std::int64_t>(value_.number);
  }
  throw_mismatch(is_number() ? "a signed integer of 64 bits" : "a number");
}

std::uint64_t Json::unsigned_integer() const {
  if (type_ == Type::kUnsigned) return value_.whole;
  if (type_ == Type::kInteger && value_.integer >= 0) return static_cast<std::uint64_t>(value_.integer);
  if (is_number_float() && value_.number > -1.0 && value_.number < 2 * kTwoTo63) {
    return static_cast<std::uint64_t>(value_.number);
  }
  throw_mismatch(is_number() ? "an unsigned integer of 64 bits" : "a number");
}

const std::string& Json::text() const {
  if (!is_string()) throw_mismatch("a string");
  return *value_.text;
}

std::size_t Json::size() const {
  switch (type_) {
    case Type::kNull: return 0;
    case Type::kArray: return value_.items->size();
    case Type::kObject: return value_.members->size();
    default: return 1;
  }
}

std::size_t Json::array_size() const {
  if (!is_array()) throw_mismatch("an array");
  return value_.items->size();
}

const Json& Json::element(std::size_t index) const {
  if (index >= size()) throw JsonError(fmt::format("JSON index {} is outside of {} items", index, size()));
  if (is_array()) return (*value_.items)[index];
  return is_object() ? (*value_.members)[index].value() : *this;
}

const Json& Json::item(std::size_t index) const {
  if (!is_array()) throw_mismatch("an array");
  return element(index);
}

void Json::push_back(Json value) {
  if (is_null()) *this = array();
  if (!is_array()) throw_mismatch("an array");
  value_.items->push_back(std::move(value));
}

Json& Json::member(std::string_view key) {
  if (is_null()) *this = object();
  if (const Json* found = lookup(key)) return const_cast<Json&>(*found);
  return value_.members->emplace_back(std::string(key), Json()).value();
}

const Json* Json::lookup(std::string_view key) const {
  if (!is_object()) throw_mismatch("an object");
  const auto found = find_member(*value_.members, key);
  return found == value_.members->end() ? nullptr : &found->value();
}

Json& Json::at(std::string_view key) & { return const_cast<Json&>(std::as_const(*this).at(key)); }

const Json& Json::at(std::string_view key) const& {
  if (const Json* found = lookup(key)) return *found;
  throw JsonError(fmt::format("invalid object in JSON: found {}, expected the key '{}'", list_keys(items()), key));
}

bool Json::contains(std::string_view key) const { return is_object() && lookup(key); }

Json::const_iterator Json::find(std::string_view key) const {
  if (!is_object()) return end();
  return {this, static_cast<std::size_t>(find_member(*value_.members, key) - value_.members->begin())};
}

Json::iterator Json::find(std::string_view key) {
  return {this, static_cast<std::size_t>(std::as_const(*this).find(key) - std::as_const(*this).begin())};
}

std::size_t Json::erase(std::string_view key) {
  if (!contains(key)) return 0;
  value_.members->erase(find_member(*value_.members, key));
  return 1;
}

void Json::update(const Json& other) {
  if (!other.is_object()) other.throw_mismatch("an object");
  if (!is_object()) throw_mismatch("an object");
  for (const JsonMember& entry : other.items()) member(entry.key()) = entry.value();
}

Json Json::pop(std::string_view key) {
  Json value = std::move(at(key));
  erase(key);
  return value;
}

std::vector<JsonMember>& Json::items() & { return const_cast<std::vector<JsonMember>&>(std::as_const(*this).items()); }

std::vector<JsonMember> Json::items() && { return std::move(items()); }

List<std::string> Json::keys() const {
  List<std::string> keys;
  for (const auto& [key, value] : items()) keys.push_back(key);
  return keys;
}

const std::vector<JsonMember>& Json::items() const& {
  static const std::vector<JsonMember> kNone;
  if (is_null()) return kNone;
  if (!is_object()) throw_mismatch("an object");
  return *value_.members;
}

bool Json::equal(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array()) return *a.value_.items == *b.value_.items;
  if (a.is_object() && b.is_object()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      [](const auto& x, const auto& y) { return x.key() == y.key() && x.value() == y.value(); });
  }
  if (a.is_null() || a.is_boolean()) {
    return a.type_ == b.type_ && (a.is_null() || a.value_.boolean == b.value_.boolean);
  }
  return compare(a, b) == 0;
}

std::partial_ordering Json::compare(const Json& a, const Json& b) {
  if (a.is_string() && b.is_string()) return a.text() <=> b.text();
  if (!a.is_number() || !b.is_number()) return std::partial_ordering::unordered;
  if (a.is_number_integer() && b.is_number_integer()) return compare_integers(a, b);
  return a.number() <=> b.number();
}

}  // namespace lockstep

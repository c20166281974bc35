// JSON values and text, as Python's json module reads and writes them, because Keras's files are written by it.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/list.h"

namespace lockstep {

class Json;
class JsonItem;
class JsonMember;

// A value has another type than the one that is read, an object lacks a key, or a number does not fit.
class JsonError final : public errors::InvalidArgumentError {
 public:
  using errors::InvalidArgumentError::InvalidArgumentError;
};

namespace json_types {

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, char>;
template <class T>
concept Text = std::is_convertible_v<const T&, std::string_view>;
template <class T>
concept Range = !std::is_same_v<T, Json> && !Text<T> && requires(const T& range) {
  typename T::value_type;
  range.begin();
  range.end();
};
template <class T>
concept Scalar = Number<T> || std::is_same_v<T, std::string>;
template <class T>
inline constexpr bool kIsVector = false;
template <Scalar T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
concept Dict = Range<T> && requires {
  typename T::mapped_type;
};
template <class T>
inline constexpr bool kIsTuple = false;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class T>
concept Tuple = kIsTuple<T>;

}  // namespace json_types

// Null, a boolean, an integer of 64 bits, a double, a string (UTF-8), an array, or an object, which keeps the order of
// its keys, as Python's dict does. A list of pairs whose first items are strings makes an object, any other list an
// array; Json::array makes an array of such a list:
//
//   const Json config = {{"units", 3}, {"kernel_size", {5, 5}}, {"name", nullptr}};
//   const int units = config["units"];
//
// Access of a wrong type, a missing key or an index outside throws JsonError. Several threads may read a value.
class Json {
 public:
  enum class Type : std::uint8_t { kNull, kBoolean, kInteger, kUnsigned, kFloat, kString, kArray, kObject };
  template <bool kConst>
  class Iterator;
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;
  using value_type = Json;

  Json(std::nullptr_t = nullptr) noexcept {}
  template <json_types::Number T>
  Json(T value) noexcept {
    if constexpr (std::is_same_v<T, bool>) {
      set(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      set(static_cast<double>(value));
    } else if constexpr (std::is_signed_v<T>) {
      set(static_cast<std::int64_t>(value));
    } else {
      set(static_cast<std::uint64_t>(value));
    }
  }
  Json(const char* text);
  Json(std::string_view text);
  Json(const std::string& text);
  Json(std::string&& text);
  Json(std::vector<Json> items);
  Json(std::vector<JsonMember> members);  // keys must differ
  Json(std::initializer_list<JsonItem> items);
  // Vectors, sets and the like make arrays, maps with strings as keys objects, pairs and tuples arrays.
  template <json_types::Range T>
  Json(const T& range) : Json(from_range(range)) {}
  template <json_types::Tuple T>
  Json(const T& tuple) : Json(from_tuple(tuple, std::make_index_sequence<std::tuple_size_v<T>>())) {}
  static Json array();
  static Json array(std::initializer_list<JsonItem> items);
  static Json object();
  static Json object(std::initializer_list<JsonItem> items);
  // parse_json for text that has no name.
  static Json parse(std::string_view text);

  Json(const Json& other);
  Json(Json&& other) noexcept : type_(other.type_), value_(other.value_) { other.type_ = Type::kNull; }
  Json& operator=(Json other) noexcept {
    std::swap(type_, other.type_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~Json() {
    if (type_ >= Type::kString) destroy();
  }

  Type type() const { return type_; }
  // "null", "boolean", "number", "string", "array" or "object".
  std::string_view type_name() const;
  bool is_null() const { return type_ == Type::kNull; }
  bool is_boolean() const { return type_ == Type::kBoolean; }
  bool is_number_integer() const { return type_ == Type::kInteger || type_ == Type::kUnsigned; }
  bool is_number_unsigned() const { return type_ == Type::kUnsigned; }  // an integer built from an unsigned one
  bool is_number_float() const { return type_ == Type::kFloat; }
  bool is_number() const { return type_ >= Type::kInteger && type_ <= Type::kFloat; }
  bool is_string() const { return type_ == Type::kString; }
  bool is_array() const { return type_ == Type::kArray; }
  bool is_object() const { return type_ == Type::kObject; }
  bool is_structured() const { return type_ >= Type::kArray; }

  // The value as a number (whole numbers are read of floats too, without their fraction), bool, std::string, a vector,
  // pair or tuple of these, or a class that is constructed from a Json.
  template <class T>
  T get() const {
    if constexpr (std::is_same_v<T, Json>) {
      return *this;
    } else if constexpr (std::is_same_v<T, bool>) {
      return boolean();
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(number());
    } else if constexpr (std::is_integral_v<T>) {
      return integer<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      return text();
    } else if constexpr (json_types::Range<T>) {
      return to_vector<T>();
    } else if constexpr (json_types::Tuple<T>) {
      return to_tuple<T>(std::make_index_sequence<std::tuple_size_v<T>>());
    } else {
      return T(*this);
    }
  }
  template <class T>
  requires(json_types::Scalar<T> || json_types::kIsVector<T>) operator T() const { return get<T>(); }

  // A string without a copy.
  const std::string& text() const;

  // Items of an array or members of an object; 0 for null, 1 for any other value.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  // Of an array or an object's values.
  iterator begin();
  iterator end();
  const_iterator begin() const;
  const_iterator end() const;
  Json& front() { return element(0); }
  Json& back() { return element(size() - 1); }
  const Json& front() const { return element(0); }
  const Json& back() const { return element(size() - 1); }

  // An array's items; of a temporary, here and below, values. push_back makes an array of null.
  template <class T>
  requires std::is_integral_v<T> Json& operator[](T index) & { return item(static_cast<std::size_t>(index)); }
  template <class T>
  requires std::is_integral_v<T>
  const Json& operator[](T index) const& { return item(static_cast<std::size_t>(index)); }
  template <class T>
  requires std::is_integral_v<T> Json operator[](T index) && {
    return std::move(item(static_cast<std::size_t>(index)));
  }
  template <class T>
  requires std::is_integral_v<T>
  const Json& at(T index) const& { return item(static_cast<std::size_t>(index)); }
  template <class T>
  requires std::is_integral_v<T> Json at(T index) && {
    return std::move(item(static_cast<std::size_t>(index)));
  }
  void push_back(Json value);

  // An object's members. operator[] of a value that is not const adds the key, and makes an object of null.
  Json& operator[](const char* key) & { return member(key); }
  Json& operator[](std::string_view key) & { return member(key); }
  const Json& operator[](const char* key) const& { return at(key); }
  const Json& operator[](std::string_view key) const& { return at(key); }
  Json operator[](const char* key) && { return std::move(member(key)); }
  Json operator[](std::string_view key) && { return std::move(member(key)); }
  Json& at(std::string_view key) &;
  const Json& at(std::string_view key) const&;
  Json at(std::string_view key) && { return std::move(at(key)); }
  bool contains(std::string_view key) const;
  std::size_t count(std::string_view key) const { return contains(key) ? 1 : 0; }
  iterator find(std::string_view key);
  const_iterator find(std::string_view key) const;
  std::size_t erase(std::string_view key);
  // The members of another object are added or replace those of the same key: config.update({{"units", 3}}). Throws if
  // one of the two is not an object.
  void update(const Json& other);
  // Removes a member and returns it. Throws if there is none.
  Json pop(std::string_view key);
  // The member, or the given default if the key is missing. Throws if this is not an object.
  template <class T>
  requires(!std::is_array_v<T>) T value(std::string_view key, const T& otherwise)
  const {
    const Json* found = lookup(key);
    return found ? found->get<T>() : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const { return value(key, std::string(otherwise)); }
  List<std::string> keys() const;  // of an object, in order
  // for (const auto& [key, value] : json.items()). Null has none.
  std::vector<JsonMember>& items() &;
  const std::vector<JsonMember>& items() const&;
  std::vector<JsonMember> items() &&;

  // Compact JSON in UTF-8: {"a":[1,2.0]}. Throws if a string is not UTF-8. See dump_json for Python's spelling.
  std::string dump() const;

  // Numbers are compared by value, whatever their types; objects are equal if their orders are equal too.
  friend bool operator==(const Json& a, const Json& b) { return equal(a, b); }
  friend std::partial_ordering operator<=>(const Json& a, const Json& b) { return compare(a, b); }
  template <json_types::Number T>
  friend bool operator==(const Json& a, T b) {
    return equal(a, Json(b));
  }
  template <json_types::Number T>
  friend std::partial_ordering operator<=>(const Json& a, T b) {
    return compare(a, Json(b));
  }

 private:
  union Value {
    bool boolean;
    std::int64_t integer;
    std::uint64_t whole;
    double number;
    std::string* text;
    std::vector<Json>* items;
    std::vector<JsonMember>* members;
  };

  void set(bool value) noexcept { type_ = Type::kBoolean, value_.boolean = value; }
  void set(std::int64_t value) noexcept { type_ = Type::kInteger, value_.integer = value; }
  void set(std::uint64_t value) noexcept { type_ = Type::kUnsigned, value_.whole = value; }
  void set(double value) noexcept { type_ = Type::kFloat, value_.number = value; }
  void destroy();
  bool boolean() const;
  double number() const;
  std::int64_t signed_integer() const;
  std::uint64_t unsigned_integer() const;
  std::size_t array_size() const;  // throws if this is not an array
  [[noreturn]] void throw_mismatch(std::string_view expected) const;
  Json& element(std::size_t index) { return const_cast<Json&>(std::as_const(*this).element(index)); }
  const Json& element(std::size_t index) const;
  Json& item(std::size_t index) { return const_cast<Json&>(std::as_const(*this).item(index)); }
  const Json& item(std::size_t index) const;
  Json& member(std::string_view key);
  const Json* lookup(std::string_view key) const;
  static bool equal(const Json& a, const Json& b);
  static std::partial_ordering compare(const Json& a, const Json& b);

  template <class T>
  T integer() const {
    if constexpr (std::is_signed_v<T>) {
      const std::int64_t wide = signed_integer();
      if (static_cast<std::int64_t>(static_cast<T>(wide)) != wide) throw_mismatch("a smaller integer");
      return static_cast<T>(wide);
    } else {
      const std::uint64_t wide = unsigned_integer();
      if (static_cast<std::uint64_t>(static_cast<T>(wide)) != wide) throw_mismatch("a smaller integer");
      return static_cast<T>(wide);
    }
  }
  template <class T>
  T to_vector() const {
    T out;
    const std::size_t count = array_size();
    for (std::size_t i = 0; i < count; ++i) out.push_back(item(i).get<typename T::value_type>());
    return out;
  }
  template <class T, std::size_t... kIndex>
  T to_tuple(std::index_sequence<kIndex...>) const {
    if (array_size() != sizeof...(kIndex))
      throw_mismatch("an array of " + std::to_string(sizeof...(kIndex)) + " items");
    return T(item(kIndex).template get<std::tuple_element_t<kIndex, T>>()...);
  }
  template <class T>
  static auto from_range(const T& range);
  template <class T, std::size_t... kIndex>
  static std::vector<Json> from_tuple(const T& tuple, std::index_sequence<kIndex...>) {
    using std::get;
    std::vector<Json> out;
    out.reserve(sizeof...(kIndex));
    (out.push_back(Json(get<kIndex>(tuple))), ...);
    return out;
  }

  Type type_ = Type::kNull;
  Value value_{};
};

// A key of an object and its value.
class JsonMember {
 public:
  JsonMember(std::string key, Json value) : key_(std::move(key)), value_(std::move(value)) {}
  const std::string& key() const { return key_; }
  Json& value() { return value_; }
  const Json& value() const { return value_; }

  template <std::size_t kIndex, class T>
  requires std::is_same_v<std::remove_const_t<T>, JsonMember>
  friend auto& get(T& member) {
    if constexpr (kIndex == 0) {
      return std::as_const(member.key_);
    } else {
      return member.value_;
    }
  }

 private:
  std::string key_;
  Json value_;
};

// An element of the braces that initialize a Json; it can be moved out of them.
class JsonItem {
 public:
  JsonItem() = default;
  JsonItem(std::initializer_list<JsonItem> items) : value_(items) {}
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, JsonItem> && std::is_convertible_v<T, Json>) JsonItem(T&& value)
      : value_(std::forward<T>(value)) {}
  const Json& peek() const { return value_; }
  Json take() const { return std::move(value_); }

 private:
  mutable Json value_;
};

// Iterates over an array's items or an object's values; a change of their number makes it invalid.
template <bool kConst>
class Json::Iterator {
 public:
  using Owner = std::conditional_t<kConst, const Json, Json>;
  using iterator_category = std::random_access_iterator_tag;
  using value_type = Json;
  using difference_type = std::ptrdiff_t;
  using pointer = Owner*;
  using reference = Owner&;

  Iterator() = default;
  Iterator(Owner* owner, std::size_t index) : owner_(owner), index_(static_cast<difference_type>(index)) {}
  operator Iterator<true>() const requires(!kConst) { return {owner_, static_cast<std::size_t>(index_)}; }
  reference operator*() const { return owner_->element(static_cast<std::size_t>(index_)); }
  pointer operator->() const { return &**this; }
  reference operator[](difference_type n) const { return *(*this + n); }
  // Of an object.
  const std::string& key() const { return owner_->items()[static_cast<std::size_t>(index_)].key(); }
  reference value() const { return **this; }

  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this += -1; }
  Iterator operator++(int) { return std::exchange(*this, *this + 1); }
  Iterator operator--(int) { return std::exchange(*this, *this + -1); }
  Iterator& operator+=(difference_type n) {
    index_ += n;
    return *this;
  }
  Iterator& operator-=(difference_type n) { return *this += -n; }
  friend Iterator operator+(Iterator it, difference_type n) { return it += n; }
  friend Iterator operator+(difference_type n, Iterator it) { return it += n; }
  friend Iterator operator-(Iterator it, difference_type n) { return it += -n; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) { return a.index_ - b.index_; }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }
  friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.index_ <=> b.index_; }

 private:
  Owner* owner_ = nullptr;
  difference_type index_ = 0;
};

inline Json::iterator Json::begin() { return {this, 0}; }
inline Json::iterator Json::end() { return {this, size()}; }
inline Json::const_iterator Json::begin() const { return {this, 0}; }
inline Json::const_iterator Json::end() const { return {this, size()}; }

template <class T>
auto Json::from_range(const T& range) {
  if constexpr (json_types::Dict<T>) {
    std::vector<JsonMember> out;
    for (const auto& [key, value] : range) out.emplace_back(std::string(key), Json(value));
    return out;
  } else {
    std::vector<Json> out;
    for (const auto& value : range) out.push_back(Json(static_cast<const typename T::value_type&>(value)));
    return out;
  }
}

// Parses JSON with Python's extra tokens NaN, Infinity and -Infinity; a later duplicate key wins.
// `what` names the text in errors ("config.json of model.keras"). Throws DataLoss with the position
// for malformed text, text that is not UTF-8, and nesting deeper than 512 levels.
Json parse_json(std::string_view text, std::string_view what);

// The text Python's json.dumps gives by default: separators ", " and ": ", ASCII with \uXXXX
// escapes, floats in their shortest round-trip form ("1e-07", "0.001", "1.0").
std::string dump_json(const Json& value);
// The same on a stream: std::cout << model.get_config().
template <std::same_as<Json> J>
std::ostream& operator<<(std::ostream& out, const J& value) {
  return out << dump_json(value);
}

// The shortest decimal that reads back as `value`, spelled as Python's repr spells it.
std::string python_float(double value);

}  // namespace lockstep

template <>
struct std::tuple_size<lockstep::JsonMember> : std::integral_constant<std::size_t, 2> {};
template <>
struct std::tuple_element<0, lockstep::JsonMember> {
  using type = const std::string;
};
template <>
struct std::tuple_element<1, lockstep::JsonMember> {
  using type = lockstep::Json;
};

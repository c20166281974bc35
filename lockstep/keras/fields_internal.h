// The arguments of a Keras class, listed once: read from configs, written to configs, resolved and described.
//
// A class lists its arguments in fields(visitor, options), in the order of Keras's config:
//
//   template <typename V>
//   void fields(V& v, HuberOptions& o) {
//     v("delta", o.delta);
//     v("reduction", NullAs{o.reduction, "none"});
//     v.dropped("fn");             // keywords of older versions of Keras
//     v.renamed("d", o.delta);
//   }
//
// Visitors: FieldReader, FieldWriter, FieldResolver and FieldDescriber. A type of argument is a specialization of
// FieldType.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/keras/numbers.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/tensor/axes.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::keras {

enum class Field {
  kOptional,
  kRequired,   // a config without it is rejected
  kUnwritten,  // accepted, but Keras leaves it out of configs
};

// An argument as `lockstep layers NAME` and the like show it.
struct FieldDescription {
  std::string key;
  std::string type;    // "integer", "number or null", "initializer", …
  Json default_value;  // null for required arguments
  bool required = false;
};

// Reads and writes a type: name() of the expected value, read() which returns false for a value of another type,
// write(), and kTakesNull: whether read() gets null values, which are otherwise of another type.
template <typename T>
struct FieldType;

// Null is false, as in Python.
template <>
struct FieldType<bool> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "boolean"; }
  static bool read(const Json& found, bool& v);
  static Json write(const bool& v);
};
#define LOCKSTEP_FIELD_TYPE(Type, text)           \
  template <>                                     \
  struct FieldType<Type> {                        \
    static constexpr bool kTakesNull = false;     \
    static std::string name() { return text; }    \
    static bool read(const Json& found, Type& v); \
    static Json write(const Type& v);             \
  }
LOCKSTEP_FIELD_TYPE(int, "integer");
LOCKSTEP_FIELD_TYPE(std::int64_t, "integer");
LOCKSTEP_FIELD_TYPE(double, "number");
LOCKSTEP_FIELD_TYPE(Number, "number");
LOCKSTEP_FIELD_TYPE(std::string, "string");
LOCKSTEP_FIELD_TYPE(Ints, "integer or list of integers");
LOCKSTEP_FIELD_TYPE(Window, "integer or list of integers");
LOCKSTEP_FIELD_TYPE(std::vector<double>, "number or list of numbers");
LOCKSTEP_FIELD_TYPE(std::vector<std::string>, "list of strings");
#undef LOCKSTEP_FIELD_TYPE
template <>
struct FieldType<Axes> : FieldType<Ints> {};
// Axes of a reduction: all of them where configs hold null.
template <>
struct FieldType<ops::Axes> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return FieldType<Ints>::name() + " or null"; }
  static bool read(const Json& found, ops::Axes& v);
  static Json write(const ops::Axes& v);
};

template <>
struct FieldType<Json> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "any"; }
  static bool read(const Json& found, Json& v) {
    v = found;
    return true;
  }
  static Json write(const Json& v) { return v; }
};

template <typename T>
struct FieldType<std::optional<T>> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return FieldType<T>::name() + " or null"; }
  static bool read(const Json& found, std::optional<T>& v) {
    v.reset();
    return found.is_null() || FieldType<T>::read(found, v.emplace());
  }
  static Json write(const std::optional<T>& v) { return v ? FieldType<T>::write(*v) : Json(nullptr); }
};

template <typename T>
struct FieldType<OptionalList<T>> : FieldType<std::optional<std::vector<T>>> {};
template <>
struct FieldType<OptionalWindow> : FieldType<std::optional<Window>> {};

// The name of a family of objects, as the type of an argument.
template <typename T>
inline constexpr const char* kObjectKind = "object";

template <typename T>
struct FieldType<ObjectArg<T>> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return kObjectKind<T>; }
  static bool read(const Json& found, ObjectArg<T>& v) {
    v = found.is_null() ? ObjectArg<T>() : ObjectArg<T>(found);
    return true;
  }
  static Json write(const ObjectArg<T>& v) {
    if (v.name()) return *v.name();
    if (v.config()) return *v.config();
    return serialize(v.object());
  }
};

// References to options whose configs have a special form.

// A value for which configs may hold null, which options hold as `null`.
template <typename T>
struct NullAs {
  T& value;
  std::type_identity_t<T> null = {};
  bool written = true;  // as null
  bool refused = false;
};
template <typename T, typename... Rest>
NullAs(T&, Rest...) -> NullAs<T>;
template <std::derived_from<std::string> T, typename... Rest>
NullAs(T&, Rest...) -> NullAs<std::string>;
template <std::derived_from<Ints> T, typename... Rest>
NullAs(T&, Rest...) -> NullAs<Ints>;
template <std::derived_from<std::vector<double>> T, typename... Rest>
NullAs(T&, Rest...) -> NullAs<std::vector<double>>;
template <typename T>
struct FieldType<NullAs<T>> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return FieldType<T>::name() + " or null"; }
  static bool read(const Json& found, const NullAs<T>& v) {
    if (!found.is_null()) return FieldType<T>::read(found, v.value);
    v.value = v.null;
    return !v.refused;
  }
  static Json write(const NullAs<T>& v) {
    if (v.written && v.value == v.null) return nullptr;
    if constexpr (std::same_as<T, Ints> || std::same_as<T, std::vector<double>>) {
      if (v.value.size() == 1) return v.value[0];
    }
    return FieldType<T>::write(v.value);
  }
};
// The same for a number or text for which only files that others write hold null.
template <typename T>
NullAs<T> null_read_as(T& value, std::type_identity_t<T> null) {
  return {value, std::move(null), false};
}
// An argument data_format, for which only files that others write hold null.
struct DataFormat {
  std::string& value;
};
template <>
struct FieldType<DataFormat> {
  using Held = FieldType<NullAs<std::string>>;
  static constexpr bool kTakesNull = Held::kTakesNull;
  static std::string name() { return Held::name(); }
  static bool read(const Json& found, const DataFormat& v) { return Held::read(found, held(v)); }
  static Json write(const DataFormat& v) { return Held::write(held(v)); }

 private:
  static NullAs<std::string> held(const DataFormat& v) { return null_read_as(v.value, "channels_last"); }
};
// An argument that Keras ignores unless it is `used`.
template <typename T>
NullAs<T> null_unless(bool used, T& value) {
  return {value, value, false, used};
}
// An argument that Keras always ignores.
template <typename T>
NullAs<T> null_ignored(T& value) {
  return null_unless(false, value);
}

// Integers that are written as a number where there is only one.
struct OneOrMany {
  Ints& values;
};
template <>
struct FieldType<OneOrMany> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return FieldType<Ints>::name(); }
  static bool read(const Json& found, const OneOrMany& v) { return FieldType<Ints>::read(found, v.values); }
  static Json write(const OneOrMany& v) { return v.values.size() == 1 ? Json(v.values[0]) : Json(v.values); }
};

// One axis, which configs may hold as a list of one.
struct OneAxis {
  std::int64_t& axis;
};
template <>
struct FieldType<OneAxis> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "integer"; }
  static bool read(const Json& found, const OneAxis& v) {
    Ints axes;
    if (!FieldType<Ints>::read(found, axes) || axes.size() != 1) return false;
    v.axis = axes[0];
    return true;
  }
  static Json write(const OneAxis& v) { return v.axis; }
};

// A number that is written as an integer where it is whole, like numbers of steps.
struct WholeIfPossible {
  double& value;
};
template <>
struct FieldType<WholeIfPossible> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "number"; }
  static bool read(const Json& found, const WholeIfPossible& v) { return FieldType<double>::read(found, v.value); }
  static Json write(const WholeIfPossible& v);
};
// A number without a default, which options hold as empty until it is given. `whole`: written as WholeIfPossible.
struct RequiredNumber {
  std::optional<double>& value;
  bool whole = false;
};
template <>
struct FieldType<RequiredNumber> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "number"; }
  static bool read(const Json& found, const RequiredNumber& v) {
    return FieldType<double>::read(found, v.value.emplace());
  }
  static Json write(const RequiredNumber& v);
};
struct WholeNumbersIfPossible {
  std::vector<double>& values;
};
template <>
struct FieldType<WholeNumbersIfPossible> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "list of numbers"; }
  static bool read(const Json& found, const WholeNumbersIfPossible& v) {
    return FieldType<std::vector<double>>::read(found, v.values);
  }
  static Json write(const WholeNumbersIfPossible& v);
};

template <typename T>
using FieldTypeOf = FieldType<std::remove_cvref_t<T>>;

// Reads a config. Keys that fields() does not list are rejected by finish().
class FieldReader {
 public:
  // Throws InvalidArgument when `config` is not a JSON object (null counts as an empty one).
  FieldReader(std::string class_name, const Json& config);

  template <typename T>
  void operator()(const char* key, T&& v, Field kind = Field::kOptional) {
    using Type = FieldTypeOf<T>;
    const Json* found = take(key);
    const bool null = found && found->is_null() && !Type::kTakesNull;
    if (kind == Field::kRequired && (!found || null)) {
      if (!renamed_.contains(key)) missing(key);
    } else if (found && (null || !Type::read(*found, v))) {
      fail(key, Type::name());
    }
  }
  // A keyword of an older Keras for the one named `now`, which is listed after it.
  template <typename T>
  void renamed(const char* key, const char* now, T&& v) {
    const Json* found = take(key);
    legacy_.insert(key);
    if (!found || found->is_null()) return;
    if (!FieldTypeOf<T>::read(*found, v)) fail(key, FieldTypeOf<T>::name());
    renamed_.insert(now);
  }
  // A keyword of an older Keras that is ignored when it holds this value (null: any).
  void dropped(const char* key, const Json& harmless = nullptr);
  // The value under a key, which counts as listed; null when there is none.
  const Json* take(const char* key);
  const Json& config() const { return config_; }
  const std::string& class_name() const { return class_name_; }
  // Throws InvalidArgument for a key that is not listed, naming class, key and the nearest key that is.
  void finish() const;
  // "Dense 'hidden': 'units' is "x", expected integer" as InvalidArgument.
  [[noreturn]] void fail(const char* key, const std::string& expected) const;

 private:
  [[noreturn]] void missing(const char* key) const;
  // "Dense 'hidden'", or the class alone where the config has no name.
  std::string who() const;

  std::string class_name_;
  Json config_;
  std::set<std::string> used_, legacy_, renamed_;
};

class FieldWriter {
 public:
  explicit FieldWriter(Json& config) : config_(config) {}

  template <typename T>
  void operator()(const char* key, T&& v, Field kind = Field::kOptional) {
    if (kind != Field::kUnwritten) config_[key] = FieldTypeOf<T>::write(v);
  }
  template <typename T>
  void renamed(const char*, const char*, T&&) {}
  void dropped(const char*, const Json& = nullptr) {}

 private:
  Json& config_;
};

// Turns names and configs into objects, in the order of the constructor, so that seeds are drawn as Keras draws them.
class FieldResolver {
 public:
  // `owner`: "Dense 'hidden'", for errors.
  explicit FieldResolver(std::string owner) : owner_(std::move(owner)) {}

  template <typename T>
  void operator()(const char*, T&&, Field = Field::kOptional) {}
  template <typename T>
  void operator()(const char* key, ObjectArg<T>& arg, Field = Field::kOptional) {
    try {
      arg = get(arg);
    } catch (const Error& error) {
      fail(key, error);
    }
  }
  template <typename T>
  void renamed(const char*, const char*, T&&) {}
  void dropped(const char*, const Json& = nullptr) {}

 private:
  // "Dense 'hidden': 'kernel_regularizer': unknown regularizer 'L3'", with the code of the error.
  [[noreturn]] void fail(const char* key, const Error& error) const;

  std::string owner_;
};

class FieldDescriber {
 public:
  template <typename T>
  void operator()(const char* key, T&& v, Field kind = Field::kOptional) {
    const bool required = kind == Field::kRequired;
    fields_.push_back({key, FieldTypeOf<T>::name(), required ? Json(nullptr) : FieldTypeOf<T>::write(v), required});
  }
  template <typename T>
  void renamed(const char*, const char*, T&&) {}
  void dropped(const char*, const Json& = nullptr) {}

  std::vector<FieldDescription> take() { return std::move(fields_); }

 private:
  std::vector<FieldDescription> fields_;
};

// The arguments of a class with these options; the defaults are those of default-constructed options.
template <typename Options>
std::vector<FieldDescription> describe_fields() {
  Options options;
  FieldDescriber describer;
  fields(describer, options);
  return describer.take();
}

template <typename Options>
Options read_fields(const std::string& class_name, const Json& config) {
  FieldReader reader(class_name, config);
  Options options;
  fields(reader, options);
  reader.finish();
  return options;
}

// `config` (null: an empty one) with the arguments after its keys.
template <typename Options>
Json with_fields(Json config, const Options& options) {
  if (config.is_null()) config = Json::object();
  FieldWriter writer(config);
  fields(writer, const_cast<Options&>(options));
  return config;
}

// The same for what own_fields() lists: a family's arguments without those that all its classes have.
template <typename Options>
Json with_own_fields(Json config, const Options& options) {
  if (config.is_null()) config = Json::object();
  FieldWriter writer(config);
  own_fields(writer, const_cast<Options&>(options));
  return config;
}

}  // namespace lockstep::keras

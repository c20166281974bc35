// Arguments of the functions of Dataset all by name, and what from_generator() takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// dataset.h includes this file after the class.

namespace lockstep::data {

struct Dataset::GroupByWindowArguments {
  class Key {
   public:
    template <typename Fn>
    Key(Fn fn) : function(key_function(std::move(fn))) {}
    KeyFunction function;
  };
  class Reduce {
   public:
    template <typename Fn>
    Reduce(Fn fn) : function(group_function(std::move(fn))) {}
    GroupFunction function;
  };
  FieldNamesOnly names_only = {};
  Key key_func;
  Reduce reduce_func;
  std::optional<std::int64_t> window_size = std::nullopt;
  std::function<std::int64_t(std::int64_t key)> window_size_func = {};
};
inline Dataset Dataset::group_by_window(const GroupByWindowArguments& o) const {
  return group_elements(o.key_func.function, o.reduce_func.function, {o.window_size, o.window_size_func});
}
struct Dataset::ScanArguments {
  class State : public Element {
   public:
    template <typename T>
    requires(std::is_arithmetic_v<T> || std::is_convertible_v<const T&, Element>) State(const T& state)
        : Element(of(state)) {}

   private:
    template <typename T>
    static Element of(const T& state) {
      if constexpr (std::is_arithmetic_v<T>) {
        return Tensor(state);
      } else {
        return state;
      }
    }
  };
  class Function {
   public:
    template <typename Fn>
    Function(Fn fn) : function(scan_function(std::move(fn))) {}
    ScanFunction function;
  };
  FieldNamesOnly names_only = {};
  State initial_state;
  Function scan_func;
};
inline Dataset Dataset::scan(const ScanArguments& o) const {
  return scan_elements(o.initial_state, o.scan_func.function);
}
struct Dataset::ResampleArguments {
  class Class {
   public:
    template <typename Fn>
    Class(Fn fn) : function(internal::element_function<Tensor>(std::move(fn))) {}
    std::function<Tensor(const Element&)> function;
  };
  FieldNamesOnly names_only = {};
  Class class_func;
  std::vector<double> target_dist = {};
  std::vector<double> initial_dist = {};
  std::optional<std::int64_t> seed = std::nullopt;
};
inline Dataset Dataset::rejection_resample(const ResampleArguments& o) const {
  return resample_elements(o.class_func.function, {{}, o.target_dist, o.initial_dist, o.seed});
}
struct Dataset::BucketArguments {
  FieldNamesOnly names_only = {};
  GroupByWindowArguments::Key element_length_func;
  std::vector<std::int64_t> bucket_boundaries = {};
  std::vector<std::int64_t> bucket_batch_sizes = {};
  PaddedShapes padded_shapes = {};
  PaddingValues padding_values = 0;
  bool pad_to_bucket_boundary = false;
  bool no_padding = false;
  bool drop_remainder = false;
};
inline Dataset Dataset::bucket_by_sequence_length(const BucketArguments& o) const {
  return bucket_elements(
      o.element_length_func.function, o.bucket_boundaries, o.bucket_batch_sizes,
      {{}, o.padded_shapes, o.padding_values, o.pad_to_bucket_boundary, o.no_padding, o.drop_remainder});
}
class Dataset::GeneratorMaker {
 public:
  template <typename Fn>
  GeneratorMaker(Fn fn) {
    if constexpr (std::is_convertible_v<Fn, std::function<Generator()>>) {
      make_ = std::move(fn);
    } else if constexpr (requires { fn().has_value(); }) {
      make_ = [fn = std::move(fn)] {
        return Generator([next = fn]() mutable -> std::optional<Element> {
          auto item = next();
          if (!item) return std::nullopt;
          return element(*item);
        });
      };
    } else {
      make_ = [fn = std::move(fn)]() mutable {
        auto items = std::make_shared<std::decay_t<decltype(fn())>>(fn());
        return Generator([items, next = items->begin()]() mutable -> std::optional<Element> {
          if (next == items->end()) return std::nullopt;
          return element(*next++);
        });
      };
    }
  }

 private:
  friend class Dataset;
  template <typename T>
  static Element element(const T& item) {
    if constexpr (std::is_convertible_v<const T&, Element>) {
      return item;
    } else if constexpr (requires { std::tuple_size<T>::value; }) {  // yield i, 0.5
      return std::apply([](const auto&... part) { return Element::list({element(part)...}); }, item);
    } else {
      return Tensor(item);
    }
  }
  std::function<Generator()> make_;
};
// The older way to describe elements: dtypes, {int32, float32}, {{"x", float32}, {"y", int32}}, ...
struct Dataset::OutputTypes : std::optional<ElementSpec> {
  struct Entry;
  OutputTypes(std::nullopt_t = std::nullopt) {}
  template <std::same_as<DType> D>
  OutputTypes(D dtype) : optional(TensorSpec(Shape::unknown_rank(), dtype)) {}
  inline OutputTypes(std::initializer_list<OutputTypes> parts);
  inline OutputTypes(std::initializer_list<Entry> dict);
};
struct Dataset::OutputTypes::Entry {
  const char* name;
  OutputTypes types;
};
Dataset::OutputTypes::OutputTypes(std::initializer_list<OutputTypes> parts) {
  ElementSpec::List list;
  for (const OutputTypes& part : parts) list.push_back(*part);
  emplace(ElementSpec::list(std::move(list)));
}
Dataset::OutputTypes::OutputTypes(std::initializer_list<Entry> dict) {
  ElementSpec::Dict entries;
  for (const Entry& entry : dict) entries.emplace_back(entry.name, *entry.types);
  emplace(ElementSpec::dict(std::move(entries)));
}
// ... and shapes in the same structure: {} of scalars, {None}, {{}, {None}}. Unknown by default.
struct Dataset::OutputShapes : PaddedShapes {
  using PaddedShapes::PaddedShapes;
  OutputShapes() : PaddedShapes(Shape()) {}
};
// output_signature, or output_types with output_shapes.
struct Dataset::GeneratorOptions {
  FieldNamesOnly names_only = {};
  OutputTypes output_types = {};
  OutputShapes output_shapes = std::nullopt;
  ElementSpec output_signature = {};
};
template <int>
Dataset Dataset::from_generator(GeneratorMaker make, ElementSpec spec) {
  return generated(std::move(make.make_), std::move(spec));
}
inline Dataset Dataset::from_generator(GeneratorMaker make, const GeneratorOptions& options) {
  return generated(std::move(make.make_), options.output_types ? described(*options.output_types, options.output_shapes)
                                                               : options.output_signature);
}
template <int>
Dataset Dataset::from_generator(GeneratorMaker make, OutputTypes output_types, OutputShapes output_shapes) {
  return from_generator(std::move(make), GeneratorOptions{{}, std::move(output_types), std::move(output_shapes)});
}
template <int>
Dataset Dataset::from_generator(GeneratorMaker make, OutputTypes output_types) {
  return from_generator(std::move(make), GeneratorOptions{{}, std::move(output_types)});
}

}  // namespace lockstep::data

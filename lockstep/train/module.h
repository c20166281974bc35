// tf.Module: objects with variables and other modules, for programs without Keras.
#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/ops/function.h"
#include "lockstep/ops/lookup_tables.h"
#include "lockstep/train/trackable.h"

namespace lockstep {

//   class Dense : public ls::Module {
//    public:
//     Dense(int in_features, int out_features)
//         : w(track("w", ls::Variable(ops::ones({in_features, out_features})))) {}
//     Tensor operator()(const Tensor& x) const { return ops::matmul(x, w); }
//     ls::Variable w;
//   };
//
// Copies are the same module: they share variables and modules. Checkpoints contain the tracked objects.
class Module {
 public:
  explicit Module(std::string name = {});
  virtual ~Module() = default;

  std::string name() const;  // default: the snake-case class name
  // Each once: this module's own by the name of the attribute, then those of its modules.
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  std::vector<Variable> non_trainable_variables() const;
  std::vector<Module> submodules() const;
  // Those that track() got, by the names of their attributes. A function that captures `this` is valid as long as the
  // object that it was made in.
  std::vector<std::pair<std::string, Function>> functions() const;

  operator train::Tracked() const;

  // module.v = tf.Variable(...): module.track("v", Variable(...)), in the class or from outside.
  Variable track(const std::string& attribute, const Variable& variable);
  std::vector<Variable> track(const std::string& attribute, const std::vector<Variable>& variables);
  template <std::derived_from<Module> M>
  M track(const std::string& attribute, const M& module) {
    add(attribute, static_cast<const Module&>(module));
    return module;
  }
  template <std::derived_from<Module> M>
  std::vector<M> track(const std::string& attribute, const std::vector<M>& modules) {
    add_list(attribute, {modules.begin(), modules.end()});
    return modules;
  }
  // A dict: track("heads", std::map<std::string, Head>{{"a", Head()}}).
  template <std::derived_from<Module> M>
  std::map<std::string, M> track(const std::string& attribute, const std::map<std::string, M>& modules) {
    add_dict(attribute, {modules.begin(), modules.end()});
    return modules;
  }
  template <std::derived_from<Module> M>
  std::shared_ptr<M> track(const std::string& attribute, const std::shared_ptr<M>& module) {
    add(attribute, static_cast<const Module&>(*module));
    return module;
  }
  template <std::derived_from<Module> M>
  std::vector<std::shared_ptr<M>> track(const std::string& attribute, const std::vector<std::shared_ptr<M>>& modules) {
    std::vector<Module> all;
    for (const auto& module : modules) all.push_back(*module);
    add_list(attribute, all);
    return modules;
  }
  // A function of tf.function, which saved_model::save() writes: Function f = track("f", function(...)). It needs an
  // input signature, or a call before.
  template <typename Fn>
  Function track(const std::string& attribute, const CheckedFunction<Fn>& function) {
    return track(attribute, Function(function));
  }
  Function track(const std::string& attribute, const Function& function);
  // A table of tf.lookup. Functions that use it keep its entries; checkpoints have those of a MutableHashTable.
  template <lookup::Table T>
  requires(!std::convertible_to<const T&, train::Tracked>) T track(const std::string&, const T& table) { return table; }
  // Lists and dicts in each other: track("slots", std::map<std::string, std::vector<Variable>>{...}). Models, layers,
  // optimizers, metrics of Keras, for checkpoints: as in TensorFlow, variables() lacks theirs.
  template <std::convertible_to<train::Tracked> T>
  requires(!std::derived_from<T, Module> && !std::convertible_to<const T&, Variable>) T
      track(const std::string& attribute, const T& object) {
    std::vector<Variable> variables;
    std::vector<Module> modules;
    collect(object, variables, modules);
    add(attribute, train::Tracked(object), std::move(variables), std::move(modules));
    return object;
  }

 private:
  struct State;
  void add(const std::string& attribute, const Module& module);
  void add_list(const std::string& attribute, const std::vector<Module>& modules);
  void add_dict(const std::string& attribute, const std::map<std::string, Module>& modules);
  void add(const std::string& attribute, train::Tracked object, std::vector<Variable> variables,
           std::vector<Module> modules);
  // The variables and modules in lists and dicts.
  template <typename T>
  static void collect(const T& object, std::vector<Variable>& variables, std::vector<Module>& modules) {
    if constexpr (std::is_same_v<T, Variable>) {
      variables.push_back(object);
    } else if constexpr (std::derived_from<T, Module>) {
      modules.push_back(object);
    } else if constexpr (requires { typename T::mapped_type; }) {
      for (const auto& [key, value] : object) collect(value, variables, modules);
    } else if constexpr (requires {
                           typename T::value_type;
                           object.begin();
                         }) {
      for (const auto& value : object) collect(value, variables, modules);
    }
  }
  static void visit(const std::shared_ptr<State>& state, std::vector<const State*>& seen,
                    std::vector<Variable>& variables, std::vector<Module>& modules);

  std::shared_ptr<State> state_;
};

}  // namespace lockstep

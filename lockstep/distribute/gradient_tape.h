// tf.GradientTape: gradients of recorded computations.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

// What a gradient is taken with respect to, as a leaf of a dict or of nested lists: a variable or a tensor.
class GradientSource {
 public:
  GradientSource() = default;
  template <typename T>
  requires(std::is_convertible_v<const T&, distribute::Variable> || std::is_convertible_v<const T&, Tensor>)
      GradientSource(const T& source) {
    if constexpr (std::is_convertible_v<const T&, distribute::Variable>) {
      variable_ = source;
    } else {
      tensor_ = static_cast<Tensor>(source);
    }
  }
  const distribute::Variable& variable() const { return variable_; }  // empty: it is the tensor
  const Tensor& tensor() const { return tensor_; }

 private:
  distribute::Variable variable_;
  Tensor tensor_;
};
template <>
inline constexpr bool internal::kTakesOthers<GradientSource> = true;
extern template class Nested<GradientSource>;

// The targets of a tape: a tensor, the leaves of a structure, or several tensors in braces.
class Targets : public Tensors {
 public:
  Targets(const Tensor& target) : Tensors{target} {}
  Targets(const distribute::Variable& target) : Tensors{target} {}
  Targets(const Nested<Tensor>& targets) : Tensors(targets.flatten()) {}
  Targets(const Tensors& targets) : Tensors(targets) {}
  Targets(std::initializer_list<Tensor> targets) : Tensors(targets) {}
  Targets(std::initializer_list<Nested<Tensor>::Entry> targets) : Targets(Nested<Tensor>(targets)) {}  // a dict
};

// The gradients of N sources.
template <std::size_t N>
class Gradients : public std::array<Tensor, N> {
 public:
  explicit Gradients(const Tensors& gradients) { std::copy(gradients.begin(), gradients.end(), this->begin()); }
  operator Tensors() const { return Tensors(this->begin(), this->end()); }
};

// What a source without a connection to the targets gets: an undefined tensor, or zeros of its shape.
struct UnconnectedGradients {
  static constexpr std::string_view NONE = "none";
  static constexpr std::string_view ZERO = "zero";
};

struct GradientOptions {
  Tensor output_gradients = {};
  std::string_view unconnected_gradients = UnconnectedGradients::NONE;
};

struct JacobianKeywords {
  FieldNamesOnly names_only = {};
  std::string_view unconnected_gradients = UnconnectedGradients::NONE;
  std::optional<std::int64_t> parallel_iterations = std::nullopt;  // these two have no effect
  bool experimental_use_pfor = true;
};

// Records on the thread on which it was made, from construction until end_recording() or destruction. Trainable
// variables that are read are watched automatically.
class GradientTape {
  template <typename Sources>
  static constexpr bool kAreVariables = requires(const Sources& all) {
    { *all.begin() } -> std::convertible_to<distribute::Variable>;
  };

 public:
  struct Options {
    bool persistent = false;  // gradient() may be called more than once
    bool watch_accessed_variables = true;
  };
  GradientTape();
  explicit GradientTape(Options options);
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  // Records operations on a tensor, and on all copies of its handle, from now on.
  void watch(const Tensor& tensor);
  void watch(const distribute::Variable& variable);
  // Several: tape.watch({x, y}), tape.watch(model.trainable_variables()), a list or dict of tensors.
  void watch(std::initializer_list<GradientSource> sources) { watch_each(sources); }
  template <typename Sources>
  requires(std::same_as<Sources, Nested<Tensor>> || kAreVariables<Sources> ||
           (std::is_convertible_v<const Sources&, Nested<Tensor>> && !std::is_convertible_v<const Sources&, Tensor> &&
            !std::is_convertible_v<const Sources&, distribute::Variable>)) void watch(const Sources& sources) {
    if constexpr (kAreVariables<Sources>) {
      watch_each(sources);
    } else {
      watch_each(Nested<Tensor>(sources).flatten());
    }
  }

  // d target / d source for each source, in the form in which the sources are given: one, some in braces (const auto
  // [dw, db] = tape.gradient(loss, {w, b})), a vector, or a dict ({{"w", w}, {"b", b}}); an undefined tensor for a
  // source without a connection, and for a tensor that was neither watched by this tape nor computed. Several targets
  // count as their sum. A target that is not a scalar counts with weights
  // of one, or with `output_gradients`. Calling it on an innermost tape that is still recording gives gradients that an
  // outer tape can differentiate again. Tapes of one thread are independent, also where they record the same
  // operations.
  // Throws FailedPrecondition on a second call unless persistent, and for a variable that was read across the replicas
  // of a strategy, which a tape cannot record: call the step with strategy.run(). `ready` may be called with a source's
  // gradient before all are complete.
  using Ready = std::function<void(std::size_t source, const Tensor& gradient)>;
  using Variables = std::vector<distribute::Variable>;
  List<Tensor> gradient(const Targets& targets, const Variables& sources, const Tensor& output_gradients = {},
                        const Ready& ready = {});
  // A template, so that tensors in braces are sources of the array below.
  template <std::derived_from<Tensors> Sources>
  List<Tensor> gradient(const Targets& targets, const Sources& sources, const Tensor& output_gradients = {}) {
    return gradient_of_tensors(targets, sources, output_gradients);
  }
  template <std::size_t N>
  Gradients<N> gradient(const Targets& targets, const distribute::Variable (&sources)[N],
                        const Tensor& output_gradients = {}) {
    return Gradients<N>(gradient(targets, Variables(sources, sources + N), output_gradients));
  }
  // Of tensors, or of variables and tensors.
  // Weights are a template, here and below, as GCC would take {.output_gradients = ...} for a tensor.
  template <std::size_t N>
  Gradients<N> gradient(const Targets& targets, const GradientSource (&sources)[N]) {
    return gradient(targets, sources, Tensor());
  }
  template <std::size_t N, std::convertible_to<Tensor> Weights>
  Gradients<N> gradient(const Targets& targets, const GradientSource (&sources)[N], const Weights& output_gradients) {
    const auto all = Nested<GradientSource>::list({sources, sources + N});
    return Gradients<N>(gradient_of(targets, all, static_cast<Tensor>(output_gradients)).flatten());
  }
  Nested<Tensor> gradient(const Targets& targets, std::initializer_list<Nested<GradientSource>::Entry> sources) {
    return gradient_of(targets, Nested<GradientSource>(sources), Tensor());
  }
  template <std::convertible_to<Tensor> Weights>
  Nested<Tensor> gradient(const Targets& targets, std::initializer_list<Nested<GradientSource>::Entry> sources,
                          const Weights& output_gradients) {
    return gradient_of(targets, Nested<GradientSource>(sources), static_cast<Tensor>(output_gradients));
  }
  template <typename Sources>
  requires(std::is_convertible_v<const Sources&, Nested<GradientSource>> &&
           !std::is_convertible_v<const Sources&, Tensor> && !std::is_convertible_v<const Sources&, Variables> &&
           !std::is_convertible_v<const Sources&, Tensors>) Nested<Tensor> gradient(const Targets& targets,
                                                                                    const Sources& sources) {
    return gradient_of(targets, sources, Tensor());
  }
  template <typename Sources, std::convertible_to<Tensor> Weights>
  requires(std::is_convertible_v<const Sources&, Nested<GradientSource>> &&
           !std::is_convertible_v<const Sources&, Tensor> && !std::is_convertible_v<const Sources&, Variables> &&
           !std::is_convertible_v<const Sources&, Tensors>) Nested<Tensor> gradient(const Targets& targets,
                                                                                    const Sources& sources,
                                                                                    const Weights& output_gradients) {
    return gradient_of(targets, sources, static_cast<Tensor>(output_gradients));
  }
  // Of one variable or tensor.
  template <typename Source>
  requires std::is_convertible_v<const Source&, Tensor> Tensor gradient(const Targets& targets, const Source& source) {
    return gradient(targets, source, Tensor());
  }
  template <typename Source, std::convertible_to<Tensor> Weights>
  requires std::is_convertible_v<const Source&, Tensor> Tensor gradient(const Targets& targets, const Source& source,
                                                                        const Weights& output_gradients) {
    if constexpr (std::is_convertible_v<const Source&, distribute::Variable>) {
      return gradient(targets, Variables{source}, output_gradients)[0];
    } else {
      return gradient_of_tensors(targets, {static_cast<Tensor>(source)}, output_gradients)[0];
    }
  }
  // With options: tape.gradient(z, x, {.unconnected_gradients = "zero"}).
  template <typename Source>
  requires std::is_convertible_v<const Source&, Tensor> Tensor gradient(const Targets& targets, const Source& source,
                                                                        const GradientOptions& options) {
    return filled(gradient(targets, source, options.output_gradients), source, options);
  }
  List<Tensor> gradient(const Targets& targets, const Variables& sources, const GradientOptions& options);
  template <std::size_t N>
  Gradients<N> gradient(const Targets& targets, const distribute::Variable (&sources)[N],
                        const GradientOptions& options) {
    return Gradients<N>(gradient(targets, Variables(sources, sources + N), options));
  }
  template <std::size_t N>
  Gradients<N> gradient(const Targets& targets, const GradientSource (&sources)[N], const GradientOptions& options) {
    const auto all = Nested<GradientSource>::list({sources, sources + N});
    return Gradients<N>(gradient_of(targets, all, options).flatten());
  }
  Nested<Tensor> gradient(const Targets& targets, std::initializer_list<Nested<GradientSource>::Entry> sources,
                          const GradientOptions& options) {
    return gradient_of(targets, Nested<GradientSource>(sources), options);
  }
  template <typename Sources>
  requires(std::is_convertible_v<const Sources&, Nested<GradientSource>> &&
           !std::is_convertible_v<const Sources&, Tensor> &&
           !std::is_convertible_v<const Sources&, Variables>) Nested<Tensor> gradient(const Targets& targets,
                                                                                      const Sources& sources,
                                                                                      const GradientOptions& options) {
    return gradient_of(targets, Nested<GradientSource>(sources), options);
  }

  // The derivative of each element of the target with respect to each of the source, shape target + source; undefined
  // for a source without a connection.
  Tensor jacobian(const Tensor& target, const Tensor& source);
  Tensor jacobian(const Tensor& target, const distribute::Variable& source);
  // Of several variables or tensors: tape.jacobian(loss, model.trainable_variables()), jacobian(y, {a, b}).
  List<Tensor> jacobian(const Tensor& target, const Variables& sources);
  template <std::derived_from<Tensors> Sources>
  List<Tensor> jacobian(const Tensor& target, const Sources& sources) {
    return jacobians_of_tensors(target, sources);
  }
  template <std::size_t N>
  Gradients<N> jacobian(const Tensor& target, const distribute::Variable (&sources)[N]) {
    return Gradients<N>(jacobian(target, Variables(sources, sources + N)));
  }
  template <std::size_t N>
  Gradients<N> jacobian(const Tensor& target, const Tensor (&sources)[N]) {
    return Gradients<N>(jacobians_of_tensors(target, Tensors(sources, sources + N)));
  }
  // By name: tape.jacobian(y, x, {.unconnected_gradients = "zero"}).
  template <typename Source>
  requires std::is_convertible_v<const Source&, Tensor> Tensor jacobian(const Tensor& target, const Source& source,
                                                                        const JacobianKeywords& o) {
    const Tensor found = jacobian(target, source);
    if (found.defined() || o.unconnected_gradients != UnconnectedGradients::ZERO) return found;
    return zero_jacobian(target, static_cast<Tensor>(source));
  }
  // The same for each row by itself: shape (rows,) + a row of the target + a row of the source, where row i of the
  // target depends on row i of the source only. Throws InvalidArgument when the numbers of rows differ.
  Tensor batch_jacobian(const Tensor& target, const Tensor& source);

  // The variables that the tape has watched, in the order of their first use.
  Variables watched_variables() const;
  // Drops the recorded operations.
  void reset();

  // The tape records nothing while the returned guard exists: auto paused = tape.stop_recording(). Throws
  // FailedPrecondition where the tape does not record, or an inner tape records.
  class Pause {
   public:
    explicit Pause(GradientTape& tape);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    GradientTape& tape_;
  };
  [[nodiscard("recording continues when the guard ends: auto paused = tape.stop_recording();")]] Pause
  stop_recording() {
    return Pause(*this);
  }
  // Ends the recording before the tape does.
  void end_recording();

  // Leaves out the variables of frozen layers, whose gradients are not asked for.
  void watch_trained_only() { trained_only_ = true; }

  // The leaf that stands for a variable on this thread's tapes; undefined when no tape watches it.
  static Tensor leaf_of(distribute::VariableImpl& variable, const Tensor& value);

 private:
  template <typename Sources>
  void watch_each(const Sources& sources) {
    for (const auto& each : sources) {
      const GradientSource& source = each;
      if (source.variable()) {
        watch(source.variable());
      } else {
        watch(source.tensor());
      }
    }
  }
  Tensors compute(const Tensors& targets, const Tensors& leaves, const Tensor& output_gradients,
                  const Ready& ready = {});

  List<Tensor> gradient_of_tensors(const Targets& targets, const Tensors& sources, const Tensor& output_gradients);
  Nested<Tensor> gradient_of(const Targets& targets, const Nested<GradientSource>& sources,
                             const Tensor& output_gradients);
  Nested<Tensor> gradient_of(const Targets& targets, const Nested<GradientSource>& sources,
                             const GradientOptions& options);
  // The tensor, or none where it is a leaf that only other tapes have watched.
  Tensor known(const Tensor& source) const;
  Tensors leaves_of(const Variables& sources, std::vector<std::size_t>& places) const;
  bool others_may_differentiate() const;
  Tensor jacobian_of(const Tensor& target, const Tensor& leaf);
  List<Tensor> jacobians_of_tensors(const Tensor& target, const Tensors& sources);
  static Tensor zero_jacobian(const Tensor& target, const Tensor& source);
  Tensors gradients_of_picks(std::string_view function, const Tensor& target, const Tensor& leaf, std::int64_t count,
                             const std::function<Tensor(std::int64_t)>& pick);

  Options options_;
  // Whether a read of the variable is recorded.
  bool takes(distribute::VariableImpl& variable) const;

  bool trained_only_ = false;
  bool recording_ = true;
  bool used_ = false;
  GradientTape* outer_ = nullptr;
  GradientTape* older_ = nullptr;  // the next of this thread's tapes that live
  bool previous_grad_mode_ = false;
  // Of each variable the values that the tape has read, each with the leaf that represents it.
  std::unordered_map<distribute::VariableImpl*, std::vector<std::pair<Tensor, Tensor>>> leaves_;
  Variables watched_;        // the variables of leaves_, in order
  Tensors watched_tensors_;  // by watch()

  static Tensor filled(const Tensor& gradient, const Tensor& source, const GradientOptions& options);
};

}  // namespace lockstep

template <std::size_t N>
struct std::tuple_size<lockstep::Gradients<N>> : std::integral_constant<std::size_t, N> {};
template <std::size_t I, std::size_t N>
struct std::tuple_element<I, lockstep::Gradients<N>> {
  using type = lockstep::Tensor;
};

// Variables: one logical value with one copy for each local replica.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/base/mutex.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/indexed_slices.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::distribute {

// How copies are synchronized; numbers as in tensorflow.VariableSynchronization. Here and below also by TensorFlow's
// names.
enum class VariableSynchronization {
  kAuto = 0,
  kNone = 1,
  kOnWrite = 2,
  kOnRead = 3,
  AUTO = kAuto,
  NONE = kNone,
  ON_WRITE = kOnWrite,
  ON_READ = kOnRead
};
// How the values of replicas are combined; numbers as in tensorflow.VariableAggregationV2.
enum class VariableAggregation {
  kNone = 0,
  kSum = 1,
  kMean = 2,
  kOnlyFirstReplica = 3,
  NONE = kNone,
  SUM = kSum,
  MEAN = kMean,
  ONLY_FIRST_REPLICA = kOnlyFirstReplica
};

struct VariableOptions {
  FieldNamesOnly names_only = {};
  std::optional<bool> trainable = std::nullopt;  // default: true, but false for kOnRead
  std::string name = "Variable";
  DTypeLike dtype = DType::kInvalid;                     // default: that of the initial value
  std::function<Tensor(const Tensor&)> constraint = {};  // optimizers apply it after each update
  VariableSynchronization synchronization = VariableSynchronization::kAuto;
  VariableAggregation aggregation = VariableAggregation::kNone;
  std::optional<Shape> shape = std::nullopt;  // of all values, with unknown extents; default: that of the initial value
};

// A value, or an object that makes one for a shape and a dtype: keras::initializers::Zeros().
class InitialValue {
 public:
  using Maker = std::function<Tensor(const Shape& shape, DType dtype)>;
  InitialValue() = default;
  template <std::convertible_to<Tensor> T>
  InitialValue(const T& value) : value_(value) {}
  InitialValue(std::initializer_list<Values> values) : value_(values) {}
  template <typename T>
  requires requires(const T& initializer, const Shape& shape, DType dtype) {
    { (*initializer)(shape, dtype) } -> std::convertible_to<Tensor>;
  }
  InitialValue(const T& initializer)
      : make_([initializer](const Shape& shape, DType dtype) { return Tensor((*initializer)(shape, dtype)); }) {}

  // Throws InvalidArgument for a value of another shape, and where an initializer is given no shape.
  Tensor value(const Shape& shape, DType dtype) const;

 private:
  Tensor value_;
  Maker make_;
};

// Arguments by name: of keras.Variable, Variable({.initializer = x, .trainable = false}), and of tf.Variable,
// Variable({.initial_value = 1.0, .name = "v"}).
struct KerasVariableArguments {
  FieldNamesOnly names_only = {};
  InitialValue initializer = {};
  Shape shape = Shape::unknown_rank();
  DTypeLike dtype = DType::kInvalid;  // default: float32 of an initializer, else that of the value
  bool trainable = true;
  std::string name = "variable";
};
struct VariableArguments {
  FieldNamesOnly names_only = {};
  InitialValue initial_value = {};
  std::optional<bool> trainable = std::nullopt;
  std::string name = "Variable";
  DTypeLike dtype = DType::kInvalid;
  std::function<Tensor(const Tensor&)> constraint = {};
  VariableSynchronization synchronization = VariableSynchronization::kAuto;
  VariableAggregation aggregation = VariableAggregation::kNone;
  std::optional<Shape> shape = std::nullopt;
};

class ReplicaContext;
class Strategy;
class Variable;
class VariableImpl;
class VariableSlice;

// While an object of it exists, variables made on this thread keep the worker's own initial value: a value read from a
// file will replace it.
class ScopedOwnInitialValues {
 public:
  ScopedOwnInitialValues();
  ~ScopedOwnInitialValues();
  ScopedOwnInitialValues(const ScopedOwnInitialValues&) = delete;
  ScopedOwnInitialValues& operator=(const ScopedOwnInitialValues&) = delete;

 private:
  bool previous_;
};

// The keyword arguments of assignments, which have no effect here: assignments return the variable.
struct AssignKeywords {
  FieldNamesOnly names_only = {};
  bool use_locking = false;
  std::string name = {};
  bool read_value = true;
};

// A number for all elements, and numbers or tensors in braces, as arguments of Target's assign, assign_add and
// assign_sub, which take tensors and return a Result. Numbers are converted to the dtype of Target.
template <typename Target, typename Result>
class AssignmentForms {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> Result assign(T value)
  const { return self().assign(self().filled(value)); }
  template <typename T>
  requires std::is_arithmetic_v<T> Result assign_add(T delta)
  const { return self().assign_add(self().filled(delta)); }
  template <typename T>
  requires std::is_arithmetic_v<T> Result assign_sub(T delta)
  const { return self().assign_sub(self().filled(delta)); }
  Result assign(std::initializer_list<Values> value) const { return self().assign(Tensor(value, self().dtype())); }
  Result assign_add(std::initializer_list<Values> delta) const {
    return self().assign_add(Tensor(delta, self().dtype()));
  }
  Result assign_sub(std::initializer_list<Values> delta) const {
    return self().assign_sub(Tensor(delta, self().dtype()));
  }
  // Templates, so that numbers alone are Values.
  template <int = 0>
  Result assign(std::initializer_list<Tensor> parts) const {
    return self().assign(stacked(parts));
  }
  template <int = 0>
  Result assign_add(std::initializer_list<Tensor> parts) const {
    return self().assign_add(stacked(parts));
  }
  template <int = 0>
  Result assign_sub(std::initializer_list<Tensor> parts) const {
    return self().assign_sub(stacked(parts));
  }
  Result assign(const Tensor& value, const AssignKeywords&) const { return self().assign(value); }
  Result assign_add(const Tensor& delta, const AssignKeywords&) const { return self().assign_add(delta); }
  Result assign_sub(const Tensor& delta, const AssignKeywords&) const { return self().assign_sub(delta); }

 private:
  const Target& self() const { return static_cast<const Target&>(*this); }
  Tensor stacked(std::initializer_list<Tensor> parts) const {
    Tensors cast;
    for (const Tensor& part : parts) cast.push_back(part.is_number() ? ops::cast(part, self().dtype()) : part);
    return ops::stack(cast);
  }
};

// tf.Variable under a strategy. Created inside strategy.scope() it has num_replicas copies,
// elsewhere one. kAuto and kOnWrite variables are mirrored: every copy is the same after each write.
// kOnRead variables are written by each replica on its own and combined when read across replicas.
//
// Reads and writes follow tf.distribute (TensorFlow 2.21):
//   in a replica:   read gives the replica's copy. A write to a mirrored variable combines the
//                   replicas' arguments by the aggregation (SUM, MEAN, ONLY_FIRST_REPLICA) and must be
//                   made by all replicas; with NONE each replica writes its own copy, as kOnRead does.
//   across replicas: a mirrored read gives the first copy; a kOnRead read combines the copies
//                   (FailedPrecondition with aggregation NONE). A write sets every copy; for kOnRead
//                   SUM it is split over the copies so that the total is the value.
// Values are immutable, so copies that are equal share memory.
//
// With several workers each holds the copies of its own replicas; combining then goes over all workers, so every worker
// must make the same call. A mirrored variable starts everywhere with the chief's initial value.
//
// A cheap handle: copies refer to the same variable. It converts to a Tensor, its value: v * 2.0. Calls of an empty
// handle throw FailedPrecondition.
class Variable : public std::shared_ptr<VariableImpl>, public AssignmentForms<Variable, Variable> {
 public:
  Variable() = default;
  template <typename T, typename = std::enable_if_t<std::is_same_v<T, std::nullptr_t>>>
  Variable(T) {}  // empty
  Variable(std::shared_ptr<VariableImpl> impl) : std::shared_ptr<VariableImpl>(std::move(impl)) {}
  // Throws InvalidArgument for kNone synchronization under a strategy, for MEAN with a dtype that is not floating, and
  // for a shape that the initial value does not have.
  // A template, because GCC would take {.initial_value = x} for a list of tensors.
  template <std::convertible_to<Tensor> T>
  requires std::is_class_v<T>
  explicit Variable(const T& initial_value, VariableOptions options = {})
      : Variable(create(static_cast<Tensor>(initial_value), std::move(options))) {}
  explicit Variable(std::initializer_list<Values> initial_value, VariableOptions options = {})
      : Variable(create(Tensor(initial_value), std::move(options))) {}
  // lambda: tf.ones([2]), which is called at once.
  template <std::invocable F>
  requires std::convertible_to<std::invoke_result_t<const F&>, Tensor>
  explicit Variable(const F& make, VariableOptions options = {})
      : Variable(create(static_cast<Tensor>(make()), std::move(options))) {}
  // float32, int32 of an integer, bool of a bool.
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>) explicit Variable(T initial_value,
                                                                                VariableOptions options = {})
      : Variable(Number(initial_value), std::move(options)) {}
  template <std::same_as<bool> T>
  explicit Variable(T initial_value, VariableOptions options = {})
      : Variable(create(Tensor(initial_value), std::move(options))) {}
  explicit Variable(const KerasVariableArguments& o)
      : Variable(o.initializer.value(o.shape, o.dtype), {.trainable = o.trainable, .name = o.name, .dtype = o.dtype}) {}
  explicit Variable(const VariableArguments& o)
      : Variable(o.initial_value.value(Shape::unknown_rank(), o.dtype),
                 {{}, o.trainable, o.name, o.dtype, o.constraint, o.synchronization, o.aggregation, o.shape}) {}
  static Variable create(Tensor initial_value, VariableOptions options = {});

  const std::string& name() const;
  const std::string& path() const;
  DType dtype() const;
  Shape shape() const;
  bool trainable() const;

  Tensor read() const;
  Tensor value() const { return read(); }
  Tensor read_value() const { return read(); }
  Tensor numpy() const;
  operator Tensor() const { return read(); }
  // float(v), int(v), …: the value of a variable of one element.
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
  explicit operator T() const {
    return read().template item<T>();
  }
  // Return the variable, as the other forms do.
  Variable assign(const Tensor& value) const;
  Variable assign_add(const Tensor& delta) const;
  Variable assign_sub(const Tensor& delta) const;
  using AssignmentForms::assign, AssignmentForms::assign_add, AssignmentForms::assign_sub;

  // The elements at these indices; with repeated indices the last update counts, or all of them do.
  Variable scatter_nd_update(const Tensor& indices, const Tensor& updates) const;
  Variable scatter_nd_add(const Tensor& indices, const Tensor& updates) const;
  Variable scatter_nd_sub(const Tensor& indices, const Tensor& updates) const;
  Variable scatter_nd_max(const Tensor& indices, const Tensor& updates) const;
  Variable scatter_nd_min(const Tensor& indices, const Tensor& updates) const;
  // Rows of the first axis.
  Variable scatter_update(const IndexedSlices& rows) const;
  Variable scatter_add(const IndexedSlices& rows) const;
  Variable scatter_sub(const IndexedSlices& rows) const;
  Variable scatter_max(const IndexedSlices& rows) const;
  Variable scatter_min(const IndexedSlices& rows) const;
  Variable scatter_mul(const IndexedSlices& rows) const;
  Variable scatter_div(const IndexedSlices& rows) const;

  // A part, which can be assigned to: v[0].assign({1.0, 2.0}), v.index({{1, 3}, 0}).assign_add(1.0).
  VariableSlice operator[](std::int64_t index) const;
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) Tensor operator[](const T& entries) const {
    return read()[entries];
  }
  VariableSlice operator[](const Range& range) const;
  VariableSlice index(std::initializer_list<ops::SliceSpec> entries) const;

  // for (const auto& row : v).
  TensorRows begin() const { return read().begin(); }
  TensorRows end() const { return read().end(); }

  // The other members of the variable.
  VariableImpl* operator->() const { return &impl(); }
  VariableImpl& operator*() const { return impl(); }

 private:
  friend AssignmentForms;
  Tensor filled(Number value) const;
  VariableImpl& impl() const {
    if (!get()) throw_empty();
    return *get();
  }
  explicit Variable(Number initial_value, VariableOptions options);
  [[noreturn]] static void throw_empty();
};
using VariablePtr = Variable;

// The value of a part of a variable. Assignments change that part of the variable, and return the variable; values
// broadcast to the part's shape.
class VariableSlice : public Tensor, public AssignmentForms<VariableSlice, Variable> {
 public:
  VariableSlice(Variable variable, std::vector<ops::SliceSpec> entries);

  Variable assign(const Tensor& value) const;
  Variable assign_add(const Tensor& delta) const;
  Variable assign_sub(const Tensor& delta) const;
  using AssignmentForms::assign, AssignmentForms::assign_add, AssignmentForms::assign_sub;

 private:
  friend AssignmentForms;
  Tensor filled(Number value) const;

  Variable variable_;
  std::vector<ops::SliceSpec> entries_;
};
inline VariableSlice Variable::operator[](std::int64_t index) const {
  return VariableSlice(*this, {ops::SliceSpec::at(index)});
}
inline VariableSlice Variable::operator[](const Range& range) const {
  return VariableSlice(*this, {ops::SliceSpec::range(range.begin, range.end, range.step)});
}
inline VariableSlice Variable::index(std::initializer_list<ops::SliceSpec> entries) const {
  return VariableSlice(*this, entries);
}
std::ostream& operator<<(std::ostream& out, const Variable& variable);
// `count is None` of Python.
inline bool operator==(const Variable& variable, const NoneType&) { return !variable.get(); }

// Argument-dependent lookup finds these operators for a Variable.
using ops::operator+;
using ops::operator-;
using ops::operator*;
using ops::operator/;

// The implementation behind Variable handles.
class VariableImpl : public VariableResource, public std::enable_shared_from_this<VariableImpl> {
 public:
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  // The name within its owner's scopes ("sequential/dense/kernel"); the name until set.
  const std::string& path() const { return path_.empty() ? name_ : path_; }
  void set_path(std::string path) { path_ = std::move(path); }

  std::string resource_name() const override { return path(); }
  DType dtype() const override { return dtype_; }
  Shape shape() const override { return shape_; }
  bool is_initialized() const override { return true; }
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }
  // As it was made: what tapes watch, as in TensorFlow, where a frozen layer of Keras leaves its variables as they are.
  bool made_trainable() const { return made_trainable_; }
  VariableSynchronization synchronization() const { return synchronization_; }
  VariableAggregation aggregation() const { return aggregation_; }
  // The projection that optimizers apply after each update (keras.constraints); may be empty.
  using Constraint = std::function<Tensor(const Tensor&)>;
  const Constraint& constraint() const { return constraint_; }
  void set_constraint(Constraint constraint) { constraint_ = std::move(constraint); }

  // While a graph is traced on this thread this is a ReadVariableOp on handle(); under a GradientTape
  // a trainable variable's value is tied to the tape.
  Tensor read() override;
  Tensor value() { return read(); }
  Tensor numpy() const;  // the value across replicas as a plain tensor, outside tapes and traces

  // Throw InvalidArgument when the shape or the dtype differs. Inside a trace they are recorded.
  void assign(const Tensor& value) override;
  void assign_add(const Tensor& delta);
  void assign_sub(const Tensor& delta);

  // The resource tensor that stands for this variable in graphs.
  Tensor handle();

  int num_copies() const { return num_copies_; }
  // Throws FailedPrecondition, naming the variable, when the strategy has replicas for which it holds no copy: it was
  // made outside of the strategy's scope().
  void require_made_under(const Strategy& strategy) const;
  // The value of each replica's copy (TensorFlow's `.values`).
  Tensor copy(int replica) const;
  // Writes one copy only.
  void set_copy(int replica, Tensor value);

  // Whether replicas, also those of other workers, have values of their own: kOnRead under several replicas.
  bool has_own_copies() const;
  // Gives such a variable the value that a read across replicas returned before it was saved. Each worker writes its
  // own copies: no communication.
  void restore(const Tensor& value);

  // For optimizers' in-place updates across replicas of a mirrored variable: the value that all copies share from now
  // on. Values written to it become the variable's value.
  Tensor& shared_value();

 private:
  friend class Variable;
  friend struct VariableMemory;
  VariableImpl() = default;
  void check(const Tensor& value, const char* what) const;
  void update(const Tensor& argument, const char* op);
  void write_everywhere(const Tensor& value);
  void write_shares(const Tensor& total);
  bool is_in_worker_memory() const;
  void wait_for_pending_update() const;
  Tensor combined(const ReplicaContext& context, const Tensors& values) const;
  int num_replicas() const;
  ReplicaContext* replica_context() const;

  std::string name_, path_;
  DType dtype_ = DType::kInvalid;
  Shape shape_;
  bool trainable_ = true;
  bool made_trainable_ = true;  // also while a layer is frozen
  Constraint constraint_;
  VariableSynchronization synchronization_ = VariableSynchronization::kAuto;
  VariableAggregation aggregation_ = VariableAggregation::kNone;
  int num_copies_ = 1;
  collectives::CommunicatorPtr workers_;  // null: this process is all of the job
  // One entry while all copies are equal. A replica's first write of its own copy makes the others' entries while they
  // may be read: copies_mutex_ guards that. All other writes are made across replicas.
  Tensors copies_;
  mutable Mutex copies_mutex_;
  // See VariableMemory (variable_memory_internal.h).
  Tensor worker_memory_;
  std::shared_ptr<collectives::Pending> pending_update_;  // null: none
  Tensor handle_;
};

// abs(v), pow(v, 2).
using lockstep::abs;
using lockstep::pow;

}  // namespace lockstep::distribute

namespace lockstep {
using distribute::Variable;
using distribute::VariableAggregation;
using distribute::VariableSynchronization;
}  // namespace lockstep

template <>
struct std::hash<lockstep::distribute::Variable> : std::hash<std::shared_ptr<lockstep::distribute::VariableImpl>> {};

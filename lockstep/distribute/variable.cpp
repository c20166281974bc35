#include "lockstep/distribute/variable.h"

#include <ostream>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/parameter_server_strategy.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/distribute/variable_memory_internal.h"
#include "lockstep/distribute/variable_operators.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/tensor/array_internal.h"
#include "lockstep/tensor/print_internal.h"

namespace lockstep::distribute {
namespace {

thread_local bool t_own_initial_values = false;

ReduceOp reduce_op(VariableAggregation aggregation) {
  return aggregation == VariableAggregation::kSum ? ReduceOp::kSum : ReduceOp::kMean;
}

Tensor keep_dtype(const Tensor& value, DType dtype) {
  return value.dtype() == dtype ? value : ops::call1("Cast", {value}, {{"DstT", dtype}});
}

Tensor apply(const char* op, const Tensor& value, const Tensor& argument) {
  return op ? ops::call1(op, {value, argument}) : argument;
}

// The chief's value, on every worker.
Tensor from_chief(collectives::Communicator& workers, const Tensor& value, const std::string& name) {
  const bool chief = workers.rank() == 0;
  return collectives::gather(workers, chief ? value : Tensor(), fmt::format("the value of variable '{}'", name))[0];
}

}  // namespace

ScopedOwnInitialValues::ScopedOwnInitialValues() : previous_(std::exchange(t_own_initial_values, true)) {}
ScopedOwnInitialValues::~ScopedOwnInitialValues() { t_own_initial_values = previous_; }

Variable Variable::create(Tensor initial_value, VariableOptions options) {
  if (!initial_value.is_value())
    throw_invalid_argument(fmt::format("variable '{}': the initial value must be known", options.name));
  if (options.dtype != DType::kInvalid) initial_value = ops::cast(initial_value, options.dtype);
  Strategy* const strategy = Strategy::current();
  if (strategy && strategy->num_replicas_in_sync() > 1 && options.synchronization == VariableSynchronization::kNone) {
    throw_invalid_argument(
        fmt::format("variable '{}': synchronization NONE is not supported under a strategy", options.name));
  }
  if (options.aggregation == VariableAggregation::kMean && !is_floating(initial_value.dtype()) &&
      !is_complex(initial_value.dtype())) {
    throw_invalid_argument(fmt::format("variable '{}': aggregation MEAN needs a floating dtype, found {}", options.name,
                                       dtype_name(initial_value.dtype())));
  }
  if (options.shape && !options.shape->compatible_with(initial_value.shape())) {
    throw_invalid_argument(fmt::format("variable '{}': the initial value has shape {}, expected {}", options.name,
                                       initial_value.shape().to_string(), options.shape->to_string()));
  }
  Variable variable(std::shared_ptr<VariableImpl>(new VariableImpl()));
  variable->name_ = std::move(options.name);
  variable->dtype_ = initial_value.dtype();
  variable->shape_ = options.shape.value_or(initial_value.shape());
  variable->synchronization_ = options.synchronization;
  if (strategy && options.synchronization == VariableSynchronization::kAuto) {
    variable->synchronization_ = VariableSynchronization::kOnWrite;
  }
  variable->constraint_ = std::move(options.constraint);
  variable->aggregation_ = options.aggregation;
  variable->trainable_ = options.trainable.value_or(options.synchronization != VariableSynchronization::kOnRead);
  variable->made_trainable_ = variable->trainable_;
  variable->num_copies_ = strategy ? strategy->num_local_replicas() : 1;
  if (strategy) variable->workers_ = strategy->workers();
  if (variable->workers_ && !t_own_initial_values)
    initial_value = from_chief(*variable->workers_, initial_value, variable->name_);
  variable->copies_ = {as_tensor(initial_value)};
  if (auto* const servers = dynamic_cast<ParameterServerStrategy*>(strategy)) servers->add(variable);
  return variable;
}

Tensor InitialValue::value(const Shape& shape, DType dtype) const {
  if (make_) {
    if (!shape.known_rank())
      throw_invalid_argument("Variable requires a shape where its value is made by an initializer");
    return make_(shape, dtype == DType::kInvalid ? DType::kFloat32 : dtype);
  }
  if (!value_.defined()) throw_invalid_argument("Variable requires an initial value");
  if (shape.known_rank() && shape != value_.shape()) {
    throw_invalid_argument(fmt::format("invalid Variable: its initial value has shape {}, expected {}",
                                       value_.shape().to_string(), shape.to_string()));
  }
  return value_;
}
Variable::Variable(Number initial_value, VariableOptions options)
    : Variable(create(initial_value.is_integer() ? Tensor::scalar(static_cast<std::int32_t>(initial_value.integer()))
                                                 : Tensor::scalar(static_cast<float>(initial_value.value())),
                      std::move(options))) {}

void Variable::throw_empty() { throw_failed_precondition("this Variable handle is empty: it refers to no variable"); }

const std::string& Variable::name() const { return impl().name(); }
const std::string& Variable::path() const { return impl().path(); }
DType Variable::dtype() const { return impl().dtype(); }
Shape Variable::shape() const { return impl().shape(); }
bool Variable::trainable() const { return impl().trainable(); }
Tensor Variable::read() const { return impl().read(); }
Tensor Variable::numpy() const { return impl().numpy().numpy(); }
Variable Variable::assign(const Tensor& value) const {
  impl().assign(value);
  return *this;
}
Variable Variable::assign_add(const Tensor& delta) const {
  impl().assign_add(delta);
  return *this;
}
Variable Variable::assign_sub(const Tensor& delta) const {
  impl().assign_sub(delta);
  return *this;
}
Tensor Variable::filled(Number value) const {
  return Tensor::full(shape().fully_known() ? shape() : read().shape(), value.value(), dtype());
}
Variable Variable::scatter_nd_update(const Tensor& indices, const Tensor& updates) const {
  return assign(ops::tensor_scatter_nd_update(read(), indices, ops::cast(updates, dtype())));
}
Variable Variable::scatter_nd_add(const Tensor& indices, const Tensor& updates) const {
  return assign(ops::tensor_scatter_nd_add(read(), indices, ops::cast(updates, dtype())));
}
Variable Variable::scatter_nd_sub(const Tensor& indices, const Tensor& updates) const {
  return assign(ops::tensor_scatter_nd_sub(read(), indices, ops::cast(updates, dtype())));
}
Variable Variable::scatter_nd_max(const Tensor& indices, const Tensor& updates) const {
  return assign(ops::tensor_scatter_nd_max(read(), indices, ops::cast(updates, dtype())));
}
Variable Variable::scatter_nd_min(const Tensor& indices, const Tensor& updates) const {
  return assign(ops::tensor_scatter_nd_min(read(), indices, ops::cast(updates, dtype())));
}

namespace {
// The product of the rows of each index, and 1 for others.
Tensor product_of_rows(const IndexedSlices& rows, const Variable& variable) {
  const Tensor values = ops::cast(rows.values, variable.dtype());
  return ops::call1("UnsortedSegmentProd", {values, rows.indices, Tensor::scalar(variable.read().dim(0))});
}
}  // namespace

Variable Variable::scatter_update(const IndexedSlices& rows) const {
  return scatter_nd_update(ops::expand_dims(rows.indices, -1), rows.values);
}
Variable Variable::scatter_add(const IndexedSlices& rows) const {
  return scatter_nd_add(ops::expand_dims(rows.indices, -1), rows.values);
}
Variable Variable::scatter_sub(const IndexedSlices& rows) const {
  return scatter_nd_sub(ops::expand_dims(rows.indices, -1), rows.values);
}
Variable Variable::scatter_max(const IndexedSlices& rows) const {
  return scatter_nd_max(ops::expand_dims(rows.indices, -1), rows.values);
}
Variable Variable::scatter_min(const IndexedSlices& rows) const {
  return scatter_nd_min(ops::expand_dims(rows.indices, -1), rows.values);
}
Variable Variable::scatter_mul(const IndexedSlices& rows) const {
  return assign(read() * product_of_rows(rows, *this));
}
Variable Variable::scatter_div(const IndexedSlices& rows) const {
  return assign(read() / product_of_rows(rows, *this));
}

VariableSlice::VariableSlice(Variable variable, std::vector<ops::SliceSpec> entries)
    : Tensor(ops::strided_slice(variable.read(), entries)),
      variable_(std::move(variable)),
      entries_(std::move(entries)) {}
Tensor VariableSlice::filled(Number value) const { return Tensor::scalar(value.value(), dtype()); }
Variable VariableSlice::assign(const Tensor& value) const {
  const Tensor part = ops::broadcast_to(ops::cast(value, dtype()), shape());
  return variable_.assign(ops::updated_slice(variable_.read(), entries_, part));
}
Variable VariableSlice::assign_add(const Tensor& delta) const {
  return assign(ops::strided_slice(variable_.read(), entries_) + ops::cast(delta, dtype()));
}
Variable VariableSlice::assign_sub(const Tensor& delta) const {
  return assign(ops::strided_slice(variable_.read(), entries_) - ops::cast(delta, dtype()));
}

// As tf.Variable's text.
std::ostream& operator<<(std::ostream& out, const Variable& variable) {
  if (!variable) return out << "<empty tf.Variable>";
  const std::string shape = variable.shape().to_string(), dtype(dtype_name(variable.dtype()));
  const Tensor value = variable.numpy();
  if (variable.path() != variable.name()) {  // a variable of a layer, as Keras prints it
    std::ostringstream text;
    text << value.numpy();
    return out << fmt::format("<Variable path={}, shape={}, dtype={}, value={}>", variable.path(), shape, dtype,
                              text.str());
  }
  const std::string text = numpy_repr(value);
  return out << fmt::format("<tf.Variable '{}:0' shape={} dtype={}, numpy={}{}>", variable.name(), shape, dtype,
                            text.find('\n') == std::string::npos ? "" : "\n", text);
}

Tensor VariableImpl::handle() {
  if (!handle_.defined()) handle_ = Tensor::resource(std::shared_ptr<Resource>(std::shared_ptr<Resource>(), this));
  return handle_;
}

// Outside of every strategy's scope a variable with copies is used across replicas, as in its own strategy's scope.
ReplicaContext* VariableImpl::replica_context() const {
  const bool outside = (num_copies_ > 1 || workers_) && !Strategy::current();
  return outside ? nullptr : get_replica_context();
}

Tensor VariableImpl::read() {
  if (ops::ScopedRecorder::active()) return ops::call1("ReadVariableOp", {handle()}, {{"dtype", dtype_}});
  const bool summed = workers_ && synchronization_ == VariableSynchronization::kOnRead;  // over workers of one replica
  if ((num_copies_ > 1 || summed) && !replica_context()) return numpy();
  const Tensor value = copy(num_copies_ > 1 ? current_local_replica() : 0);
  if (ops::grad_enabled()) {
    const Tensor leaf = GradientTape::leaf_of(*this, value);
    if (leaf.defined()) return leaf;
  }
  return value;
}

Tensor VariableImpl::numpy() const {
  if (synchronization_ != VariableSynchronization::kOnRead || (num_copies_ == 1 && !workers_)) return copy(0);
  switch (aggregation_) {
    case VariableAggregation::kOnlyFirstReplica:
      return workers_ ? from_chief(*workers_, copies_[0], path()) : copies_[0];
    case VariableAggregation::kNone:
      throw_failed_precondition(
          fmt::format("variable '{}' (ON_READ) has aggregation NONE: its {} copies cannot be combined into one value",
                      path(), num_replicas()));
    default: break;
  }
  Tensors all;
  for (int i = 0; i < num_copies_; ++i) all.push_back(copy(i));
  return keep_dtype(reduce_over_job(reduce_op(aggregation_), all, workers_.get(), num_replicas()), dtype_);
}

int VariableImpl::num_replicas() const { return num_copies_ * (workers_ ? workers_->size() : 1); }

void VariableImpl::require_made_under(const Strategy& strategy) const {
  if (num_copies_ == strategy.num_local_replicas() && workers_.get() == strategy.communicator()) return;
  throw_failed_precondition(
      fmt::format("variable '{}' was made outside of the scope of this {}; make it, or the model it belongs to, while "
                  "strategy.scope() lives",
                  path(), strategy.name()));
}

void VariableImpl::check(const Tensor& value, const char* what) const {
  if (value.dtype() != dtype_ || !shape_.compatible_with(value.shape())) {
    throw_invalid_argument(fmt::format("{} of variable '{}': found {}{}, expected {}{}", what, path(),
                                       dtype_name(value.dtype()), value.shape().to_string(), dtype_name(dtype_),
                                       shape_.to_string()));
  }
}

namespace {
// An update of a variable of unknown shape has the shape of the value.
void check_update(const VariableImpl& variable, const Tensor& delta, const char* what) {
  if (variable.shape().fully_known()) return;
  const Shape shape = variable.copy(0).shape();
  if (delta.shape() == shape) return;
  throw_invalid_argument(fmt::format("{} of variable '{}': found shape {}, expected {}", what, variable.path(),
                                     delta.shape().to_string(), shape.to_string()));
}
}  // namespace

namespace {

// An array takes the dtype of the variable, as in TensorFlow.
Tensor converted(const Tensor& given, DType dtype) {
  return is_array(given) && given.dtype() != dtype ? ops::cast(given, dtype) : given;
}

}  // namespace

void VariableImpl::assign(const Tensor& given) {
  const Tensor value = converted(given, dtype_);
  if (ops::ScopedRecorder::active()) {
    ops::call("AssignVariableOp", {handle(), value});
    return;
  }
  check(value, "assign");
  update(ops::grad_enabled() ? ops::detach(value) : value, nullptr);
}

void VariableImpl::assign_add(const Tensor& given) {
  const Tensor delta = converted(given, dtype_);
  if (ops::ScopedRecorder::active()) {
    ops::call("AssignAddVariableOp", {handle(), delta});
    return;
  }
  check(delta, "assign_add");
  check_update(*this, delta, "assign_add");
  update(ops::grad_enabled() ? ops::detach(delta) : delta, "AddV2");
}

void VariableImpl::assign_sub(const Tensor& given) {
  const Tensor delta = converted(given, dtype_);
  if (ops::ScopedRecorder::active()) {
    ops::call("AssignSubVariableOp", {handle(), delta});
    return;
  }
  check(delta, "assign_sub");
  check_update(*this, delta, "assign_sub");
  update(ops::grad_enabled() ? ops::detach(delta) : delta, "Sub");
}

void VariableImpl::set_copy(int replica, Tensor value) {
  check(value, "set_copy");
  wait_for_pending_update();
  const std::lock_guard lock(copies_mutex_);
  if (copies_.size() == 1 && num_copies_ > 1) copies_.resize(static_cast<std::size_t>(num_copies_), copies_[0]);
  copies_[copies_.size() == 1 ? 0 : static_cast<std::size_t>(replica)] = as_tensor(value);
}

void VariableImpl::write_everywhere(const Tensor& value) { copies_ = {as_tensor(value)}; }

bool VariableImpl::has_own_copies() const {
  return synchronization_ == VariableSynchronization::kOnRead && num_replicas() > 1;
}

void VariableImpl::restore(const Tensor& value) {
  check(value, "restore");
  wait_for_pending_update();
  if (aggregation_ == VariableAggregation::kSum) {
    write_shares(value);
  } else {
    write_everywhere(value);
  }
}

void VariableImpl::update(const Tensor& argument, const char* op) {
  wait_for_pending_update();
  ReplicaContext* const context = replica_context();
  const bool on_read = synchronization_ == VariableSynchronization::kOnRead;
  if (num_copies_ == 1 && !workers_) {
    write_everywhere(apply(op, copies_[0], argument));
    return;
  }
  if (context) {
    const int replica = context->local_replica();
    if (on_read || aggregation_ == VariableAggregation::kNone) {
      set_copy(replica, apply(op, copy(replica), argument));
      return;
    }
    context->merge_call(
        [&](const Tensors& arguments) { write_everywhere(apply(op, copies_[0], combined(*context, arguments))); },
        argument);
    return;
  }
  if (!on_read) {
    Tensors updated;
    for (const Tensor& value : copies_) updated.push_back(apply(op, value, argument));
    copies_ = std::move(updated);
    return;
  }
  if (aggregation_ != VariableAggregation::kSum) {
    Tensors updated;
    for (const Tensor& value : copies_) updated.push_back(apply(op, value, argument));
    copies_ = std::move(updated);
    return;
  }
  write_shares(apply(op, numpy(), argument));
}

// SUM: equal shares; of an integer the first copy takes the remainder, so the total is exact.
void VariableImpl::write_shares(const Tensor& total) {
  const Tensor count = Tensor::scalar(static_cast<double>(num_replicas()), dtype_);
  const Tensor share = ops::call1(is_integer(dtype_) ? "FloorDiv" : "RealDiv", {total, count});
  copies_.assign(static_cast<std::size_t>(num_copies_), share);
  if (is_integer(dtype_) && (!workers_ || workers_->rank() == 0)) {
    const Tensor others = ops::call1("Mul", {share, Tensor::scalar(static_cast<double>(num_replicas() - 1), dtype_)});
    copies_[0] = ops::call1("Sub", {total, others});
  }
}

// Aggregates the replicas' arguments of a write to a mirrored variable, over all workers.
Tensor VariableImpl::combined(const ReplicaContext& context, const Tensors& values) const {
  if (aggregation_ != VariableAggregation::kOnlyFirstReplica)
    return keep_dtype(context.combine(reduce_op(aggregation_), values), dtype_);
  return workers_ && !context.alone() ? from_chief(*workers_, values[0], path()) : values[0];
}

Tensor VariableImpl::copy(int replica) const {
  wait_for_pending_update();
  std::unique_lock<Mutex> lock;
  if (num_copies_ > 1) lock = std::unique_lock(copies_mutex_);
  Tensor value = copies_[copies_.size() == 1 ? 0 : static_cast<std::size_t>(replica)];
  if (is_in_worker_memory()) ops::make_writable(value);
  return value;
}

bool VariableImpl::is_in_worker_memory() const { return worker_memory_.defined() && same(copies_[0], worker_memory_); }

void VariableMemory::set(VariableImpl& variable, Tensor value) {
  variable.check(value, "VariableMemory::set");
  variable.worker_memory_ = std::move(value);
  variable.copies_ = {variable.worker_memory_};
}

void VariableMemory::set_pending_update(VariableImpl& variable, std::shared_ptr<collectives::Pending> update) {
  variable.pending_update_ = std::move(update);
}

void VariableImpl::wait_for_pending_update() const {
  if (pending_update_) pending_update_->wait();
}

Tensor VariableMemory::value_without_copy(const VariableImpl& variable) {
  variable.wait_for_pending_update();
  return variable.is_in_worker_memory() ? variable.worker_memory_ : variable.numpy();
}

Tensor& VariableImpl::shared_value() {
  wait_for_pending_update();
  if (copies_.size() != 1) copies_.resize(1);
  if (!is_in_worker_memory()) worker_memory_ = Tensor();  // it was replaced
  return copies_[0];
}

std::vector<Variable> operator+(std::vector<Variable> a, const std::vector<Variable>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace lockstep::distribute

// The tables of the families of Keras's classes. Layers: families_internal.h.
#pragma once

#include "lockstep/keras/class_table_internal.h"

namespace lockstep::initializers {
class Initializer;
const keras::ClassFamily<Initializer>& classes();
}  // namespace lockstep::initializers

namespace lockstep::regularizers {
class Regularizer;
const keras::ClassFamily<Regularizer>& classes();
}  // namespace lockstep::regularizers

namespace lockstep::constraints {
class Constraint;
const keras::ClassFamily<Constraint>& classes();
}  // namespace lockstep::constraints

namespace lockstep::losses {
class Loss;
const keras::ClassFamily<Loss>& classes();
}  // namespace lockstep::losses

namespace lockstep::metrics {
class Metric;
const keras::ClassFamily<Metric>& classes();
}  // namespace lockstep::metrics

namespace lockstep::optimizers {
class Optimizer;
const keras::ClassFamily<Optimizer>& classes();
}  // namespace lockstep::optimizers

namespace lockstep::schedules {
class LearningRateSchedule;
const keras::ClassFamily<LearningRateSchedule>& classes();
}  // namespace lockstep::schedules

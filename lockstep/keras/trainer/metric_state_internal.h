// The state of a metric's variables, for exact resume.
#pragma once

#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/keras/callbacks/log_value.h"
#include "lockstep/keras/metrics/metric.h"

namespace lockstep::keras {
// For each variable the copies of this worker's replicas, as lists of numbers.
Json save_metric_state(const metrics::Metric& metric);
// Each replica gets its copy back. With another number of replicas the first one gets the sum. Throws InvalidArgument
// when the state belongs to another metric.
void restore_metric_state(const metrics::Metric& metric, const Json& state);

// Zeros in the copies of this worker's replicas; other workers keep theirs.
void clear_metric_state(const metrics::Metric& metric);

// A metric's result for logs and history: a number, or the numbers of a vector.
LogValue metric_log_value(const metrics::Metric& metric);

}  // namespace lockstep::keras

// print(history.history["loss"]), print(model.evaluate(x, y)), print(logs): lists and dicts on streams, as Python
// prints them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "lockstep/base/list.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/callbacks/log_value.h"
#include "lockstep/keras/callbacks/logs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

std::ostream& operator<<(std::ostream& out, const List<double>& list);
std::ostream& operator<<(std::ostream& out, const List<float>& list);
std::ostream& operator<<(std::ostream& out, const List<int>& list);
std::ostream& operator<<(std::ostream& out, const List<std::int64_t>& list);
std::ostream& operator<<(std::ostream& out, const List<std::string>& list);
std::ostream& operator<<(std::ostream& out, const List<Tensor>& list);

}  // namespace lockstep
namespace lockstep::keras {

// A list of the values, or the only value: what evaluate() returns in Python.
std::ostream& operator<<(std::ostream& out, const Results& results);
std::ostream& operator<<(std::ostream& out, const LogValues& values);
std::ostream& operator<<(std::ostream& out, const Logs& logs);
std::ostream& operator<<(std::ostream& out, const History::Values& history);

}  // namespace lockstep::keras

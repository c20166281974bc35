// Shared by the operations on resource variables. For sources of lockstep/ops only.
#pragma once

#include "lockstep/ops/op.h"

namespace lockstep::ops {

class Table;

// The variable behind input i. Throws InvalidArgument for another resource, and where the call declares another dtype.
VariableResource& variable_in(const Call& call, int i = 0);

void register_apply_rules(Table& table);  // update rules of optimizers

}  // namespace lockstep::ops

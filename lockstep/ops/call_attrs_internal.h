// Attributes that an operation hands on to another one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ops/table_internal.h"

namespace lockstep::ops {

// Those attributes of a call that operation `name` has, too.
Attrs shared_attrs(const Call& call, std::string_view name, const std::vector<std::string>& without = {"T"});

}  // namespace lockstep::ops

// YAML text as PyYAML writes it, because Keras 1 and 2 wrote architectures with it.
#pragma once

#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep {

// The value of one YAML document: mappings with texts as keys, sequences, scalars with the types of YAML 1.1, anchors
// and aliases. Tags of tuples and texts are ignored, since JSON has neither. `what` names the text in errors. Throws
// DataLoss with the line for malformed text, nesting deeper than 200 levels and aliases that multiply the text, and
// Unimplemented for other tags, which name Python objects.
Json parse_yaml(std::string_view text, std::string_view what);

}  // namespace lockstep

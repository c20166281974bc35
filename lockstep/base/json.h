// JSON as Python's json module reads and writes it, because Keras's files are written by it.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lockstep {

// Keeps the order of keys, as Python's dict does.
using Json = nlohmann::ordered_json;

// Parses JSON with Python's extra tokens NaN, Infinity and -Infinity; a later duplicate key wins.
// `what` names the text in errors ("config.json of model.keras"). Throws DataLoss with the position
// for malformed text, text that is not UTF-8, and nesting deeper than 512 levels.
Json parse_json(std::string_view text, std::string_view what);

// The text Python's json.dumps gives by default: separators ", " and ": ", ASCII with \uXXXX
// escapes, floats in their shortest round-trip form ("1e-07", "0.001", "1.0").
std::string dump_json(const Json& value);

// The shortest decimal that reads back as `value`, spelled as Python's repr spells it.
std::string python_float(double value);

}  // namespace lockstep

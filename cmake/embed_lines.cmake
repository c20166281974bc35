# Writes the lines of the text file IN into OUT as an array LINES of COUNT std::string_view in NAMESPACE.
file(READ ${IN} text)
string(REGEX REPLACE "\n+$" "" text "${text}")
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\t" "\\t" text "${text}")
string(REPLACE "\n" "\",\n    \"" text "${text}")
file(WRITE ${OUT} "#include <cstddef>\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n
extern const std::string_view ${LINES}[];\nextern const std::size_t ${COUNT};
const std::string_view ${LINES}[] = {\n    \"${text}\",\n};
const std::size_t ${COUNT} = sizeof(${LINES}) / sizeof(${LINES}[0]);\n\n}  // namespace ${NAMESPACE}\n")

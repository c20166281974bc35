# Writes the bytes of the file IN into OUT as a std::string_view BYTES in NAMESPACE.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${hex}")
string(LENGTH "${hex}" digits)
math(EXPR size "${digits} / 2")
file(WRITE ${OUT} "#include <string_view>\n\nnamespace ${NAMESPACE} {\n
extern const std::string_view ${BYTES};\nconst std::string_view ${BYTES}(\"${text}\", ${size});\n\n}  // namespace ${NAMESPACE}\n")

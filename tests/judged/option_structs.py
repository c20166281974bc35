"""The option structs of the C++ headers: which fields they have, in which order, and which classes take them."""

import re

import lockstep_tool as tool

MACROS = {"LOCKSTEP_OPTIMIZER_OPTIONS": "lockstep/keras/optimizers/optimizer.h"}
STRUCT = re.compile(r"^struct (\w+Options)(?: : [^{]*)? \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?:inline )?[\w:]+ (\w+)\(([^;{}()]*(?:\{\}[^;{}()]*)?)\)(?:;| \{)", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace lockstep::(\w+) \{", re.MULTILINE)


def plain(text):
    return re.sub(r"//[^\n]*", "", text)


def fields(body):
    """The names of a struct's fields, in order."""
    names = []
    for declaration in plain(body).split(";"):
        declaration = re.sub(r"\{[^{}]*\}", "", declaration.split("=")[0]).strip()
        if re.fullmatch(r"[\w:]+(<.*>)? \w+", declaration, re.DOTALL):
            names.append(declaration.split()[-1])
        elif declaration in MACROS:
            names += macro(declaration)
    return names


def macro(name):
    text = (tool.ROOT / MACROS[name]).read_text()
    body = re.search(rf"#define {name}((?:.*\\\n)*.*)", text)[1].replace("\\\n", "\n")
    return fields(body)


def by_class():
    """{(family, class): fields of its options}"""
    out = {}
    for path in sorted((tool.ROOT / "lockstep" / "keras").rglob("*.h")):
        text = path.read_text()
        family = NAMESPACE.search(text)
        structs = {name: fields(body) for name, body in STRUCT.findall(text)}
        for function, arguments in FUNCTION.findall(text) if family else []:
            used = re.findall(r"\b(\w+Options)\b", arguments)
            if used and used[-1] in structs:
                out[family[1], function] = structs[used[-1]]
    return out

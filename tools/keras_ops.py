#!/usr/bin/env python3
"""Writes lockstep/keras/operations/functions_*.h: the functions of keras.ops, with Keras's signatures.

keras_ops.py [--check]: run it with the judges' Python after a row was added to lockstep/keras/layers/tensor_op_*.cpp.
A function is written when its class has a row. --check reports whether the functions of the files are as they would be written;
functions that could be added are no error.
"""
import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys
import textwrap

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "lockstep/keras/operations"
# Functions that return several tensors.
SEVERAL = {"array_split", "divmod", "frexp", "hsplit", "dsplit", "vsplit", "meshgrid", "modf", "moments", "split", "unstack",
           "top_k", "qr", "svd", "eig", "eigh", "slogdet", "lu_factor", "lstsq", "stft", "fft", "fft2", "ifft2", "rfft",
           "histogram", "nonzero", "unravel_index", "ctc_decode", "unique"}
# Those whose arguments are functions or vary in number are written by hand in operations.h.
BY_HAND = {"einsum", "meshgrid", "cond", "while_loop", "scan", "map", "fori_loop", "associative_scan", "switch", "jvp",
           "vectorized_map", "arange", "array", "full", "size", "ndim", "custom_gradient", "broadcast_to", "reshape", "tile", "where",
           "rearrange"}
KEYWORDS = {"and", "or", "not", "xor", "bitand", "bitor", "compl", "default", "switch"}


def rows():
    """The classes of keras.ops that the library has: names in its tables which are not those of TensorFlow operations."""
    text = "".join(path.read_text() for path in (ROOT / "lockstep/keras/layers").glob("tensor_op_*.cpp"))
    text = re.sub(r'call1?\(\s*"\w+"', "", text)
    return set(re.findall(r'"([A-Z]\w+)"', text)) | {f"Segment{kind}" for kind in ("Sum", "Max", "Min", "Prod")}


def call_of(function):
    """The class that stands for the function, its constructor's arguments and those of its call."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "symbolic_call" \
                and isinstance(node.func.value, ast.Call) and isinstance(node.func.value.func, ast.Name):
            made = node.func.value
            cls = getattr(inspect.getmodule(function), made.func.id, None)
            if cls is None:
                return None
            names = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
            config = dict(zip(names, map(ast.unparse, made.args)))
            config.update({k.arg: ast.unparse(k.value) for k in made.keywords})
            return made.func.id, config, [ast.unparse(a) for a in node.args], {k.arg: ast.unparse(k.value) for k in node.keywords}
    return None


def default(value):
    if value is None:
        return "nullptr"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (tuple, list)):
        return "{" + ", ".join(map(default, value)) + "}"
    return None


def capitals(name):
    return "".join(part.capitalize() for part in name.split("_"))


def struct_name(fields, functions, suffix):
    """UniqueOptions of keras.ops.unique; up to three arguments that several functions share have a struct named after them,
    AxisKeepdimsOptions. Defaults other than None that differ between functions are part of that name."""
    if len(functions) == 1 or len(fields) > 3:
        return capitals(functions[0]) + suffix
    parts = []
    for _, name, value in fields:
        parts.append(capitals(name))
        if name in ("axes", "axis", "data_format", "dtype", "fill_value", "k", "mode") and value != "nullptr":
            words = re.findall(r"\w+", value.replace("-", "Minus").replace("_", " "))
            parts += [word[0].upper() + word[1:] for word in words]
    return "".join(parts) + suffix


def optional_arguments(function):
    """The arguments that have defaults, as fields of a struct: all functions with the same ones share it."""
    return tuple(("OpArgument", p.name, default(p.default)) for p in inspect.signature(function).parameters.values()
                 if p.default is not p.empty)


def later_arguments(function, row):
    """All arguments after the first, likewise."""
    options = row[1].values()
    return tuple(("OpArgument" if p.name in options else "Operand", p.name, "nullptr" if p.default is p.empty else default(p.default))
                 for p in list(inspect.signature(function).parameters.values())[1:])


def function_text(name, function, row, struct, keywords_struct):
    cls, config, positional, keywords = row
    parameters = list(inspect.signature(function).parameters.values())
    known = {p.name for p in parameters}
    used = list(config.values()) + positional + list(keywords.values())
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        return None
    if any(value not in known for value in used):
        return None
    tensors = [p for p in parameters if p.name in positional or p.name in keywords.values()]
    options = [p for p in parameters if p.name in config.values()]
    if any(p.name in KEYWORDS for p in parameters):
        return None
    if any(p.default is not p.empty and default(p.default) is None for p in parameters):
        return None
    several = "Structure" if name in SEVERAL else "Tensor"
    arguments = ", ".join(p.name for p in parameters if p.name in positional)
    named = ", ".join(f'{{"{k}", {v}}}' for k, v in keywords.items())
    values = "{" + ", ".join(f'{{"{k}", {v}}}' for k, v in config.items()) + "}" if config else "{}"
    call = f'internal::run{"_several" if several == "Structure" else ""}("{cls}", {{{arguments}}}, {values}'
    call += f", {{{named}}})" if named else ")"

    def declared(p):
        kind = "const OpArgument&" if p in options else "const Operand&"
        return f"{kind} {p.name}" + ("" if p.default is p.empty else f" = {default(p.default)}")

    text = f"{several} {name}({', '.join(map(declared, parameters))}) {{\n  return {call};\n}}\n"
    # By keyword too, where all arguments with defaults are options.
    optional = [p for p in parameters if p.default is not p.empty]
    if optional and all(p in options for p in optional):
        required = [p for p in parameters if p.default is p.empty]
        # A template loses against the function below where braces fit both.
        text = "template <int = 0>\n" + text
        pass_on = ", ".join([p.name for p in required] + [f"o.{p.name}" for p in optional])
        text += f"inline {several} {name}({', '.join([declared(p) for p in required] + [f'const {struct}& o'])}) {{\n" \
                f"  return {name}({pass_on});\n}}\n"
    elif keyword_arguments(function, row):
        text = "template <int = 0>\n" + text
    else:
        text = "inline " + text
    # As a layer's activation, which takes the overload of one tensor.
    if hasattr(keras.activations, name) and "template" in text and len(parameters) - len(optional) == 1:
        text += f"inline Tensor {name}(const Tensor& {parameters[0].name}) {{\n  return {name}<0>({parameters[0].name});\n}}\n"
    # All arguments after the first by keyword.
    if keyword_arguments(function, row):
        text += f"inline {several} {name}({declared(parameters[0])}, const {keywords_struct}& o) {{\n" \
                f"  return {name}({', '.join([parameters[0].name] + ['o.' + p.name for p in parameters[1:]])});\n}}\n"
    return text


def keyword_arguments(function, row):
    """Whether no struct of optional arguments has all that are usually given by keyword: one is required, or an operand."""
    rest, options = list(inspect.signature(function).parameters.values())[1:], row[1].values()
    return any(p.default is not p.empty and p.name not in options for p in rest) or \
        any(p.name in options for p in rest) and any(p.default is p.empty for p in rest)


def written():
    """The functions that the files have."""
    return {name for path in FOLDER.glob("functions_*.h") for name in re.findall(r"^(?:inline )?(?:Tensor|Structure) (\w+)\(", path.read_text(), re.M)}


def files(only=None):
    known, modules, left_out = rows(), {}, []
    candidates = {name: getattr(package, name) for package in (keras.ops, keras.ops.image) for name in dir(package)}
    chosen, sharing, later = {}, {}, {}
    for name, function in sorted(candidates.items()):
        if name.startswith("_") or not inspect.isfunction(function) or name in BY_HAND or name in KEYWORDS:
            continue
        row = call_of(function)
        if row is None or row[0] not in known or (only is not None and name not in only):
            continue
        chosen[name] = function, row
        sharing.setdefault(optional_arguments(function), []).append(name)
        if keyword_arguments(function, row):
            later.setdefault(later_arguments(function, row), []).append(name)
    used = set()
    for name, (function, row) in chosen.items():
        fields = optional_arguments(function), later_arguments(function, row)
        structs = [struct_name(key, of.get(key, [name]), suffix) for key, of, suffix in zip(fields, (sharing, later), ("Options", "Keywords"))]
        text = function_text(name, function, row, *structs)
        if text is None:
            left_out.append(name)
            continue
        used |= {(struct, key) for struct, key in zip(structs, fields) if f"const {struct}& o" in text}
        module = function.__module__.rsplit(".", 1)[-1]
        modules.setdefault(module if module in ("nn", "image") else f"numpy_{'a_l' if name < 'm' else 'm_z'}" if module == "numpy" else "math",
                           []).append(text)
    out = {}
    declared = {"Options": [], "Keywords": []}
    assert len({struct for struct, _ in used}) == len(used), sorted(used)
    for struct, key in sorted(used):
        lines = "".join(f"  {kind} {n} = {d};\n" for kind, n, d in key)
        declared["Options" if struct.endswith("Options") else "Keywords"].append(f"struct {struct} {{\n  FieldNamesOnly names_only = {{}};\n{lines}}};\n")
    for suffix, what in ("Options", "The optional arguments"), ("Keywords", "All arguments after the first"):
        out[suffix.lower()] = f"// {what} of functions of keras.ops, by keyword. Generated by tools/keras_ops.py.\n#pragma once\n\n" \
            '#include "lockstep/base/field_names_only.h"\n#include "lockstep/keras/operations/operand.h"\n\n' \
            "namespace lockstep::keras_ops {\n\n" + "\n".join(declared[suffix]) + "\n}  // namespace lockstep::keras_ops\n"
    for module, texts in modules.items():
        out["functions_" + module] = \
            f"// Functions of keras.ops with Keras's signatures; see operations.h. Generated by tools/keras_ops.py.\n#pragma once\n\n" \
            '#include "lockstep/keras/operations/keywords.h"\n#include "lockstep/keras/operations/options.h"\n\nnamespace lockstep::keras_ops {\n\n' + "".join(texts) + \
            "\n}  // namespace lockstep::keras_ops\n"
    return out, left_out


def main():
    check = "--check" in sys.argv
    out, left_out = files(written() if check else None)
    stale = []
    for name, text in out.items():
        path = FOLDER / f"{name}.h"
        text = subprocess.run(["clang-format-14", f"--assume-filename={path}"], input=text, text=True, capture_output=True, check=True).stdout
        if check:
            stale += [] if path.exists() and path.read_text() == text else [path.name]
        else:
            path.write_text(text)
    print("stale:" if check else "left out:", *(stale if check else left_out))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

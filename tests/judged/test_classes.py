"""The tables of classes: their names, arguments and defaults are those of Keras, and docs/support_matrix.md shows them."""

import json
import subprocess
import sys

import pytest

import keras_names
import lockstep_tool as tool
import option_structs

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own tables")

# Arguments whose defaults look different and are not, with the reason.
OTHER_DEFAULTS = {
    ("layers", "CategoryEncoding", "num_tokens"): "lockstep needs it in all modes",
    ("layers", "InputLayer", "batch_shape"): "what configs hold; constructors take the shape without the batch",
    ("layers", "InputLayer", "sparse"): "None is False",
    ("layers", "InputLayer", "ragged"): "None is False",
    ("optimizers", "Muon", "exclude_layers"): "None is an empty list",
    **{("layers", f"{kind}{rank}D", key): "null stands for Keras's default, which depends on the rank"
       for kind, key in (("ZeroPadding", "padding"), ("Cropping", "cropping")) for rank in (1, 2, 3)},
}
# Classes that share a struct with others whose order in Keras is another one.
OTHER_ORDER = {("layers", "Conv3DTranspose"), ("layers", "SimpleRNN"), ("layers", "GRUCell")}
FAMILIES = list(keras_names.modules())


@pytest.fixture(scope="module")
def ours():
    """{family: {class: {argument: what the tool prints about it}}}"""
    tables = {family: json.loads(tool.ok(family, "--json")) for family in FAMILIES}
    return {family: {row["name"]: {a["name"]: a for a in row["arguments"]} for row in rows} for family, rows in tables.items()}


def test_stored_names_are_those_of_keras():
    assert keras_names.stored() == keras_names.of_keras(), "run tests/judged/keras_names.py"


def test_support_matrix_is_current():
    command = [sys.executable, tool.ROOT / "tools" / "support_matrix.py", "--check"]
    subprocess.run(command, check=True, env={**tool.os.environ, "LOCKSTEP": tool.BIN})


def plain(value):
    """A default as JSON has it: tuples as lists; one number for a list of equal ones."""
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return items[0] if items and all(item == items[0] for item in items) else items
    return value


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_those_of_keras(family, ours):
    found, _ = keras_names.classes(keras_names.modules()[family])
    wrong, compared = [], 0
    for name, arguments in ours[family].items():
        if name not in found:
            continue
        parameters = keras_names.arguments(found[name])
        for key, argument in arguments.items():
            if key not in parameters or key in ("name", "dtype") or (family, name, key) in OTHER_DEFAULTS:
                continue
            expected = parameters[key].default
            compared += 1
            if argument["required"] != (expected is parameters[key].empty):
                wrong.append(f"{name}: {key} is {'required' if argument['required'] else 'optional'}")
            elif key == "activation" and expected is None and argument["default"] == "linear":
                continue  # two names of the same
            elif not argument["required"] and plain(argument["default"]) != plain(expected):
                wrong.append(f"{name}: the default of {key} is {argument['default']}, in Keras {expected}")
    assert not wrong, "\n".join(wrong)
    assert compared > 3


def test_options_stand_in_the_order_of_keras():
    """Designated initializers are written in the order of declaration: that of Keras's signature, but `activation` directly behind
    the required arguments."""
    required = {"units", "filters", "kernel_size", "equation", "output_shape"}
    names, wrong, compared = keras_names.stored(), [], 0
    for (family, name), found in option_structs.by_class().items():
        if name not in names.get(family, {}) or (family, name) in OTHER_ORDER:
            continue
        expected = [key for key in names[family][name]["arguments"] if key in found]
        if "activation" in expected:
            expected.sort(key=lambda key: 0 if key in required else 1 if key == "activation" else 2)
        compared += len(expected) > 1
        order = [key for key in found if key in expected]
        if order != expected:
            wrong.append(f"{family}.{name}: {order}, in Keras {expected}")
    assert not wrong, "\n".join(wrong)
    assert compared > 130, "option structs are not found"


@pytest.mark.parametrize("family", FAMILIES)
def test_other_names_find_the_class(family, ours):
    for name, row in keras_names.stored()[family].items():
        if name not in ours[family]:
            continue
        for other in [name, *row["also"]][-2:]:
            assert json.loads(tool.ok(family, other, "--json"))["name"] == name


def test_operations_are_those_of_tensorflow():
    """Names, arguments and attributes are those that TensorFlow has registered."""
    from tensorflow.python.framework import op_def_registry
    listed = json.loads(tool.ok("ops", "--json"))
    names = {op["name"] for op in listed}
    assert len(names) == len(listed) > 300
    assert {"Conv2D", "MatMul", "While", "Placeholder", "Const", "VarHandleOp"} <= names
    assert not names & {"PyFunc", "WriteFile"}
    for op in listed:
        real = op_def_registry.get(op["name"])
        assert real is not None, op["name"]
        assert [text.split(":")[0] for text in op["inputs"]] == [arg.name for arg in real.input_arg]
        assert [text.split(":")[0] for text in op["outputs"]] == [arg.name for arg in real.output_arg]
        assert {text.split(":")[0] for text in op["attributes"]} == {attr.name for attr in real.attr}
        assert op["stateful"] == real.is_stateful
    assert tool.ok("ops").split() == sorted(op["name"] for op in listed)
    assert tool.ok("ops", "MatMul").splitlines()[0] == "MatMul"
    assert "MatMul" in tool.refused("ops", "Matmul")


def test_one_class_is_printed(ours):
    text = tool.ok("losses", "huber_loss")
    assert text.splitlines()[0] == "keras.losses.Huber"
    assert any(line.split() == ["delta", "number", "1.0"] for line in text.splitlines())
    assert "units" in tool.ok("layers", "Dense") and "required" in tool.ok("layers", "Dense")
    assert "did you mean" in tool.refused("optimizers", "adamm") or "nearest" in tool.refused("optimizers", "adamm")
    assert set(tool.ok("layers").split()) >= set(ours["layers"])

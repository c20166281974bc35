"""Predictions of each layer of the table, for models that Keras saved, against Keras's own."""

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool
from layer_table import MORE, TABLE


def cases():
    """The telling rows of each class always; the rest of a class drawn by the seed, or all of it."""
    by_class = {}
    for row in TABLE + MORE:
        by_class.setdefault(row[0], []).append(row)
    for name, rows in by_class.items():
        chosen = tool.pick(range(len(rows)), 6, name)
        for index in chosen:
            yield pytest.param(rows[index], id=f"{name}-{index}")


def make_inputs(rng, shapes, options, batch):
    if "ints" in options:
        return [rng.integers(0, options["ints"], (batch, *shape)).astype("int32") for shape in shapes]
    return [rng.normal(0, 1, (batch, *shape)).astype("float32") for shape in shapes]


def build(name, kwargs, shapes, options):
    dtype = "int32" if "ints" in options else "float32"
    inputs = [keras.Input(shape, dtype=dtype, name=f"in_{i}") for i, shape in enumerate(shapes)]
    layer = getattr(keras.layers, name)(**kwargs)
    if name in ("MultiHeadAttention",):
        outputs = layer(*inputs)
    else:
        outputs = layer(inputs if len(inputs) > 1 else inputs[0], **options.get("call", {}))
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("row", list(cases()))
def test_layer(row, tmp_path, request):
    name, kwargs, shapes, options = row
    rng = tool.generator(request.node.name)
    model = build(name, kwargs, shapes, options)
    tool.randomise(model, rng)
    path = tmp_path / "model.keras"
    model.save(path)
    inputs = make_inputs(rng, shapes, options, batch=5)
    try:
        expected = answers.predict(model, inputs if len(inputs) > 1 else inputs[0], batch_size=2)
    except Exception as e:  # TensorFlow's CPU kernels lack some layouts: nothing to compare with
        pytest.skip(f"Keras itself refuses: {str(e).splitlines()[0][:100]}")
    outputs = tool.predict(path, inputs if len(inputs) > 1 else inputs[0], tmp_path, "--batch-size", 2)
    assert len(outputs) == len(expected)
    for i, ((_, ours), theirs) in enumerate(zip(outputs, expected)):
        tool.assert_close(ours, theirs, options.get("rtol", 1e-5), f"{name}({kwargs}) output {i}")


H5 = ["Dense", "Conv2D", "BatchNormalization", "LSTM", "Embedding", "LayerNormalization", "Concatenate", "MaxPooling2D"]


@pytest.mark.parametrize("name", H5)
def test_layer_from_h5(name, tmp_path, request):
    _, kwargs, shapes, options = next(row for row in TABLE if row[0] == name)
    rng = tool.generator(request.node.name)
    model = build(name, kwargs, shapes, options)
    tool.randomise(model, rng)
    path = tmp_path / "model.h5"
    model.save(path)
    inputs = make_inputs(rng, shapes, options, batch=3)
    inputs = inputs if len(inputs) > 1 else inputs[0]
    outputs = tool.predict(path, inputs, tmp_path)
    tool.assert_close(outputs[0][1], answers.predict(model, inputs)[0], 1e-5, name)


def test_loaded_file_decides_not_the_extension(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    path = tmp_path / "model.h5"
    model.save(path)
    odd = tmp_path / "model.hdf5"
    path.rename(odd)
    x = np.ones((2, 3), "float32")
    tool.assert_close(tool.predict(odd, x, tmp_path, single=True)[0][1], model.predict(x, verbose=0))

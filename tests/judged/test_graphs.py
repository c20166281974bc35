"""Random functional graphs: several inputs and outputs, shared layers, nested models, merges. Predictions against Keras's."""

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool

SHAPES = [(6,), (4, 3), (6, 5, 2)]
L = keras.layers


def vector(rng, t, width):
    """Any tensor as (batch, width)."""
    if len(t.shape) == 4:
        t = [L.GlobalAveragePooling2D(), L.GlobalMaxPooling2D(), L.Flatten()][rng.integers(3)](t)
    elif len(t.shape) == 3:
        t = L.Flatten()(t) if rng.integers(2) else L.LSTM(3)(t)
    return L.Dense(width)(t)


def step(rng, t):
    """One random layer that fits the rank of t."""
    rank = len(t.shape)
    if rank == 2:
        choices = [lambda: L.Dense(int(rng.integers(2, 7)), activation=str(rng.choice(["relu", "tanh", "sigmoid"])))(t),
                   lambda: L.BatchNormalization()(t), lambda: L.LayerNormalization()(t), lambda: L.Dropout(0.3)(t),
                   lambda: L.Activation("softplus")(t), lambda: L.Rescaling(0.5, 0.1)(t), lambda: L.Reshape((-1, 1))(t)]
    elif rank == 3:
        choices = [lambda: L.Dense(3)(t), lambda: L.LSTM(3, return_sequences=True)(t), lambda: L.LayerNormalization()(t),
                   lambda: L.Softmax()(t), lambda: L.Flatten()(t)]
    else:
        choices = [lambda: L.Conv2D(3, 3, padding="same", activation="relu")(t), lambda: L.BatchNormalization()(t),
                   lambda: L.ZeroPadding2D(1)(t), lambda: L.LeakyReLU()(t),
                   lambda: L.MaxPooling2D(2, padding="same")(t), lambda: L.AveragePooling2D(2, strides=1, padding="same")(t)]
    return choices[rng.integers(len(choices))]()


def merge(rng, a, b):
    """Two tensors of any ranks as one."""
    width = int(rng.integers(2, 6))
    a, b = vector(rng, a, width), vector(rng, b, width)
    return [L.Add(), L.Concatenate(), L.Multiply(), L.Average(), L.Maximum(), L.Subtract()][rng.integers(6)]([a, b])


def nested(rng, t):
    """A model used as a layer, twice: its weights are shared."""
    width = t.shape[-1]
    inner_input = keras.Input((width,))
    hidden = L.Dense(width, activation="tanh")(inner_input)
    if rng.integers(2):
        inner = keras.Model(inner_input, L.Add()([hidden, inner_input]), name=f"inner_{rng.integers(10**6)}")
    else:
        inner = keras.Sequential([keras.Input((width,)), L.Dense(width, activation="tanh"), L.Dropout(0.1)])
    return L.Concatenate()([inner(t), inner(L.Dense(width)(t))])


def random_graph(rng):
    inputs = [keras.Input(SHAPES[rng.integers(3)], name=f"input_{i}") for i in range(rng.integers(1, 4))]
    tensors = list(inputs)
    for _ in range(rng.integers(4, 9)):
        pick = tensors[rng.integers(len(tensors))]
        kind = rng.integers(6)
        if kind == 0:
            tensors.append(merge(rng, pick, tensors[rng.integers(len(tensors))]))
        elif kind == 1:
            tensors.append(nested(rng, vector(rng, pick, 4)))
        elif kind == 2:
            shared = L.Dense(3, name=f"shared_{len(tensors)}")
            other = vector(rng, tensors[rng.integers(len(tensors))], 4)
            tensors.append(L.Add()([shared(vector(rng, pick, 4)), shared(other)]))
        else:
            tensors.append(step(rng, pick))
    outputs = [vector(rng, t, 2) for t in inputs]          # every input counts
    outputs = [L.Concatenate()(outputs) if len(outputs) > 1 else outputs[0]]
    outputs += [t for t in tensors[-int(rng.integers(1, 3)):] if not any(t is i for i in inputs)]
    form = rng.integers(3)
    if len(outputs) == 1:
        outputs = outputs[0]
    elif form == 0:
        outputs = {f"out_{chr(97 + i)}": t for i, t in enumerate(outputs)}
    if form == 1 and len(inputs) > 1:
        return keras.Model({t.name: t for t in inputs}, outputs)
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs)


@pytest.mark.parametrize("number", range(100 if tool.CONFORMANCE else 12))
def test_random_graph(number, tmp_path):
    rng = tool.generator("graph", number)
    model = random_graph(rng)
    tool.randomise(model, rng, 0.3)
    path = tmp_path / ("model.h5" if number % 5 == 4 and not isinstance(model.output, dict) else "model.keras")
    model.save(path)
    feed = {t.name: rng.normal(0, 1, (4, *t.shape[1:])).astype("float32") for t in model.inputs}
    structured = feed if isinstance(model.input, dict) else [feed[t.name] for t in model.inputs]
    if isinstance(structured, list) and len(structured) == 1:
        structured = structured[0]
    expected = answers.predict(model, structured)
    # By name, and by position where Keras has positions.
    given = feed if number % 2 or isinstance(model.input, dict) else [feed[t.name] for t in model.inputs]
    outputs = tool.predict(path, given, tmp_path, "--batch-size", 3)
    assert len(outputs) == len(expected)
    for (name, ours), theirs in zip(outputs, expected, strict=True):
        tool.assert_close(ours, theirs, 1e-5, f"graph {number} output {name}")


def test_names_of_outputs(tmp_path):
    """Several outputs come under the names of Keras's output_names; those of a dict model under its keys."""
    x = keras.Input((3,), name="x")
    model = keras.Model(x, [L.Dense(2, name="first")(x), L.Dense(1, name="second")(x)])
    model.save(tmp_path / "m.keras")
    outputs = tool.predict(tmp_path / "m.keras", np.ones((2, 3), "float32"), tmp_path)
    assert [name for name, _ in outputs] == ["first", "second"]

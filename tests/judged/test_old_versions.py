"""Models that Keras 2 saved (tf-keras), against what it computes: layers whose meaning or arguments changed in Keras 3."""

import keras
import numpy as np
import pytest
import tf_keras
from tf_keras.src.saving.legacy.hdf5_format import preprocess_weights_for_loading

import lockstep_tool as tool
import test_keras_1

L = tf_keras.layers
SEQUENCE, IMAGE = (6, 3), (8, 7, 3)

# Rows: input shape, layer. hard_sigmoid had the slope 0.2 until Keras 2, and has 1/6 since Keras 3.
ROWS = [
    (SEQUENCE, lambda: L.LSTM(4, recurrent_activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.LSTM(4, return_sequences=True, go_backwards=True, recurrent_activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.LSTM(4, implementation=1)),
    (SEQUENCE, lambda: L.GRU(4, recurrent_activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.GRU(4, recurrent_activation="hard_sigmoid", reset_after=False)),
    (SEQUENCE, lambda: L.SimpleRNN(4, activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.Bidirectional(L.LSTM(3, recurrent_activation="hard_sigmoid"))),
    (SEQUENCE, lambda: L.RNN([L.LSTMCell(3, recurrent_activation="hard_sigmoid"), L.GRUCell(2)])),
    (SEQUENCE, lambda: L.TimeDistributed(L.Dense(2, activation="hard_sigmoid"))),
    (SEQUENCE, lambda: L.Conv1D(4, 3, padding="causal", activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.Activation("hard_sigmoid")),
    (SEQUENCE, lambda: L.Activation("leaky_relu")),
    (SEQUENCE, lambda: L.Activation("swish")),
    (SEQUENCE, lambda: L.LeakyReLU(alpha=0.1)),
    (SEQUENCE, lambda: L.ThresholdedReLU(theta=0.4)),
    (SEQUENCE, lambda: L.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2)),
    (SEQUENCE, lambda: L.BatchNormalization(axis=1, epsilon=1e-5, momentum=0.9)),
    (SEQUENCE, lambda: L.LayerNormalization()),
    (IMAGE, lambda: L.BatchNormalization(axis=[-1])),
    (IMAGE, lambda: L.DepthwiseConv2D(3)),
    (IMAGE, lambda: L.SeparableConv2D(3, 3)),
    (IMAGE, lambda: L.Conv2DTranspose(3, 3, strides=2, output_padding=1)),
    (IMAGE, lambda: L.GroupNormalization(3)),
    (IMAGE, lambda: L.UpSampling2D(2, interpolation="bilinear")),
    (IMAGE, lambda: L.Resizing(5, 6)),
    (IMAGE, lambda: L.Rescaling(0.5, 1.0)),
]


def model_of(shape, rng):
    """One model of the rows of this input shape, an output for each, with random weights."""
    x = tf_keras.Input(shape)
    model = tf_keras.Model(x, [tf_keras.layers.Flatten()(make()(x)) for given, make in ROWS if given == shape])
    values = []
    for weight, value in zip(model.weights, model.get_weights()):
        drawn = rng.normal(0, 0.7, value.shape)
        values.append((np.abs(drawn) + 0.3 if "variance" in weight.name else drawn).astype("float32"))
    model.set_weights(values)
    return model


@pytest.mark.parametrize(("shape", "name"), [(SEQUENCE, "m.h5"), (SEQUENCE, "m.keras"), (IMAGE, "m.h5")])
def test_predictions_of_keras_2(shape, name, tmp_path):
    rng = tool.generator("old", name, len(shape))
    model = model_of(shape, rng)
    model.save(tmp_path / name)
    x = rng.normal(0, 1.5, (4, *shape)).astype("float32")
    expected = model.predict(x, verbose=0)
    outputs = tool.predict(tmp_path / name, x, tmp_path)
    assert len(outputs) == len(expected)
    rows = [number for number, row in enumerate(ROWS) if row[0] == shape]
    for number, (_, ours), theirs in zip(rows, outputs, expected):
        tool.assert_close(ours, theirs, 1e-5, f"row {number}")


def test_keras_3_reads_what_a_model_of_keras_2_becomes(tmp_path):
    rng = tool.generator("old", "becomes")
    model = tf_keras.Sequential([L.InputLayer(SEQUENCE), L.LSTM(4, recurrent_activation="hard_sigmoid"),
                                 L.ThresholdedReLU(theta=0.1), L.Dense(3, activation="hard_sigmoid")])
    model.set_weights([rng.normal(0, 0.7, value.shape) for value in model.get_weights()])
    model.save(tmp_path / "m.h5")
    x = rng.normal(0, 1.5, (4, *SEQUENCE)).astype("float32")
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.keras")
    # Keras 3 has no name for it.
    functions = {"keras2_hard_sigmoid": lambda x: keras.ops.clip(0.2 * x + 0.5, 0, 1)}
    again = keras.models.load_model(tmp_path / "out.keras", custom_objects=functions)
    tool.assert_close(again.predict(x, verbose=0), model.predict(x, verbose=0), 1e-5)
    tool.assert_close(tool.predict(tmp_path / "out.keras", x, tmp_path)[0][1], model.predict(x, verbose=0), 1e-5)
    # A file of Keras 3 means its own.
    ours = keras.Sequential([keras.Input(SEQUENCE), keras.layers.LSTM(4, recurrent_activation="hard_sigmoid")])
    tool.randomise(ours, rng)
    ours.save(tmp_path / "three.h5")
    tool.assert_close(tool.predict(tmp_path / "three.h5", x, tmp_path)[0][1], ours.predict(x, verbose=0), 1e-5)


def test_states_given_with_the_sequence(tmp_path):
    """Keras 1 and 2 save a recurrent layer with initial states as called on a list."""
    rng = tool.generator("old", "states")
    words, more = tf_keras.Input((5,)), tf_keras.Input((4,))
    embed = L.Embedding(7, 3, mask_zero=True)
    _, h, c = L.LSTM(4, return_state=True)(embed(words))
    x = L.LSTM(4, return_sequences=True, recurrent_activation="hard_sigmoid")(embed(more), initial_state=[h, c])
    x = L.Bidirectional(L.GRU(4, return_sequences=True))(x, initial_state=[h, c])
    model = tf_keras.Model([words, more], [x, L.SimpleRNN(4)(x, initial_state=h)])
    model.set_weights([rng.normal(0, 0.7, value.shape) for value in model.get_weights()])
    model.save(tmp_path / "m.h5")
    inputs = [rng.integers(0, 7, (3, n)).astype("float32") for n in (5, 4)]
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.h5", inputs, tmp_path), model.predict(inputs, verbose=0)):
        tool.assert_close(ours, theirs, 1e-5)


@pytest.mark.parametrize(("old", "make"), [
    ("CuDNNLSTM", lambda: L.LSTM(4, return_sequences=True)), ("CuDNNGRU", lambda: L.GRU(4)),
    ("Bidirectional", lambda: L.Bidirectional(L.LSTM(4)))])
def test_layers_of_cudnn(old, make, tmp_path):
    rng = tool.generator("old", old)
    layer = make()
    x = rng.normal(0, 1.5, (3, *SEQUENCE)).astype("float32")
    layer(x)
    values = test_keras_1.random_weights(layer, rng)
    saved = []
    for part in [values[:3], values[3:]] if old == "Bidirectional" else [values]:
        units, gates = part[1].shape[0], 3 if old == "CuDNNGRU" else 4
        kernels = np.hstack([kernel.T.reshape(kernel.shape) for kernel in np.hsplit(part[0], gates)])
        recurrent = np.hstack([kernel.T for kernel in np.hsplit(part[1], gates)])
        bias = part[2].reshape(-1) if gates == 3 else np.concatenate([0.25 * part[2], 0.75 * part[2]])
        assert bias.shape == (2 * gates * units,)
        saved += [kernels, recurrent, bias.astype("float32")]
    for back, value in zip(preprocess_weights_for_loading(layer, list(saved), "2.2.4", "tensorflow"), values):
        np.testing.assert_allclose(back, value, rtol=1e-6)
    inner = {"class_name": "CuDNNGRU" if old == "CuDNNGRU" else "CuDNNLSTM",
             "config": {"name": "inner", "trainable": True, "units": 4, "return_sequences": old == "CuDNNLSTM",
                        "return_state": False, "go_backwards": False, "stateful": False, "unit_forget_bias": True,
                        "kernel_initializer": "glorot_uniform", "recurrent_initializer": "orthogonal",
                        "bias_initializer": "zeros", "time_major": False}}
    if inner["class_name"] == "CuDNNGRU":
        del inner["config"]["unit_forget_bias"]
    row = (SEQUENCE, old, {"merge_mode": "concat", "layer": inner} if old == "Bidirectional" else inner["config"])
    names, config = test_keras_1.model_of([row], SEQUENCE)
    config["config"]["layers"][1]["config"]["name"] = names[0]
    test_keras_1.write(tmp_path / "m.h5", config, [("input_1", []), (names[0], saved)], version="2.2.4")
    if not tool.CONTROL:
        tool.assert_close(tool.predict(tmp_path / "m.h5", x, tmp_path)[0][1], np.asarray(layer(x)), 1e-5)

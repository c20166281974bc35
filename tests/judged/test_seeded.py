"""Whole seeded runs: after keras.utils.set_random_seed the order of the data and the dropout masks are Keras's."""

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool
import train_table as table
from test_train import compare


@pytest.mark.parametrize("name, batch_size, rows, seed", [
    ("dense", 8, 29, 1), ("dropout", 8, 29, 42), ("cnn", 16, 50, 7), ("dropout", 5, 5, 0), ("lstm", 4, 18, 123456), ("recurrent_dropout", 5, 18, 3),
    ("dense", 10, 1000, 99)])
def test_seeded_run(name, batch_size, rows, seed, tmp_path, request):
    rng = tool.generator(request.node.name)
    keras.utils.set_random_seed(seed)
    start = table.MODELS[name](None)
    start.compile(optimizer="adam", loss="mse", metrics=["mae"])
    start.save(tmp_path / "start.keras")
    x, y = table.inputs(rng, start, rows), table.targets(rng, "real", rows)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", batch_size, "--seed", seed,
            "--save", tmp_path / "ours.keras", "--history", tmp_path / "h.json")
    keras.utils.set_random_seed(seed)
    model = keras.models.load_model(tmp_path / "start.keras")
    theirs = answers.fit(model, x, y, epochs=2, batch_size=batch_size, shuffle=True, seed=seed)
    compare(keras.models.load_model(tmp_path / "ours.keras"), model)
    tool.assert_history(tool.load_history(tmp_path / "h.json"), theirs)


def dropped_values(x):
    return keras.layers.Dropout(0.4)(keras.layers.Dense(8)(x))


def dropped_scores(x):
    x = keras.layers.Reshape((4, 2))(keras.layers.Dense(8)(x))
    return keras.layers.Flatten()(keras.layers.Attention(dropout=0.4)([x, x], return_attention_scores=True)[1])


def dropped_steps(x):
    x = keras.layers.Reshape((3, 2, 2))(keras.layers.Dense(12)(x))
    return keras.layers.Flatten()(keras.layers.TimeDistributed(keras.layers.SimpleRNN(3, dropout=0.4))(x))


@pytest.mark.parametrize("part", [dropped_values, dropped_scores, dropped_steps])
def test_seedless_dropout(part, tmp_path):
    """A layer without a seed takes one from the global seed when the model is loaded, in Keras's order. Recurrent layers draw
    in validation too, for each step of TimeDistributed."""
    validation = {"validation_split": 0.3} if part is dropped_steps else {}
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.layers.Dense(4)(part(inputs)))
    model.compile(optimizer="sgd", loss="mse")
    model.save(tmp_path / "start.keras")
    rng = tool.generator("seedless")
    x, y = rng.normal(0, 1, (20, 6)).astype("float32"), rng.normal(0, 1, (20, 4)).astype("float32")
    np.savez(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--seed", 5,
            "--save", tmp_path / "ours.keras", *(["--validation-split", 0.3] if validation else []))
    keras.utils.set_random_seed(5)
    model = keras.models.load_model(tmp_path / "start.keras")
    answers.fit(model, x, y, epochs=2, batch_size=8, shuffle=True, seed=5, **validation)
    compare(keras.models.load_model(tmp_path / "ours.keras"), model)


def test_same_run_twice(tmp_path):
    model = table.dropout_model()
    model.compile(optimizer="adam", loss="mse")
    model.save(tmp_path / "start.keras")
    rng = tool.generator("twice")
    np.savez(tmp_path / "d.npz", x=table.inputs(rng, model, 40), y=table.targets(rng, "real", 40))
    for out in ("a.keras", "b.keras"):
        tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--seed", 3,
                "--save", tmp_path / out)
    if not tool.CONTROL:
        assert (tmp_path / "a.keras").read_bytes() == (tmp_path / "b.keras").read_bytes()


def dense_layers(x):
    y = keras.layers.LayerNormalization()(keras.layers.Dense(6, bias_initializer="he_normal")(x))
    return keras.layers.Dense(3, kernel_initializer=keras.initializers.Orthogonal(2.0, seed=4))(y)


def conv_lstm(x):
    y = keras.layers.ConvLSTM1D(2, 2)(keras.layers.Reshape((3, 4, 1))(x))
    return keras.layers.Dense(3)(keras.layers.Flatten()(y))


@pytest.mark.parametrize("architecture, features", [(dense_layers, 5), (conv_lstm, 12)])
def test_new_weights_of_an_architecture(architecture, features, tmp_path):
    """A model of JSON starts from its initializers, in Keras's order and with Keras's numbers."""
    x = keras.Input((features,))
    text = keras.Model(x, architecture(x)).to_json()
    (tmp_path / "m.json").write_text(text)
    np.savez(tmp_path / "d.npz", x=np.zeros((2, features), "float32"), y=np.zeros((2, 3), "float32"))
    tool.ok("fit", tmp_path / "m.json", "--data", tmp_path / "d.npz", "--loss", "mse", "--optimizer", "sgd", "--epochs", 0, "--seed", 9,
            "--save", tmp_path / "ours.keras")
    keras.utils.set_random_seed(9)
    theirs = keras.models.model_from_json(text)
    for ours, weight in zip(keras.models.load_model(tmp_path / "ours.keras").weights, theirs.weights, strict=True):
        tool.assert_close(ours.numpy(), weight.numpy(), 1e-5, weight.path)

"""The loss CTC: values of a fit and the weights that it gives, against Keras's."""

import keras
import numpy as np
import pytest

import lockstep_tool as tool


@pytest.mark.parametrize("reduction, steps", [("sum_over_batch_size", 9), ("sum", 9), ("sum", 3)])
def test_ctc(reduction, steps, tmp_path):
    """With 3 steps most labels do not fit; a label among others that is the blank has the blank's probability."""
    rng = tool.generator("ctc", reduction)
    model = keras.Sequential([keras.Input((steps, 4)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(5)])
    tool.randomise(model, rng)
    model.compile(keras.optimizers.SGD(0.01), keras.losses.CTC(reduction=reduction))
    model.save(tmp_path / "m.keras")
    x = rng.normal(0, 1, (7, steps, 4)).astype("float32")
    y = rng.integers(1, 5, (7, 4))
    y[1, 2:], y[3, 1:], y[4, :] = 0, 0, 0  # shorter labels, and none
    y[5], y[6] = [2, 2, 2, 2], [3, 0, 1, 2]
    np.savez(tmp_path / "d.npz", x=x, y=y)
    keras.utils.set_random_seed(3)
    theirs = keras.models.load_model(tmp_path / "m.keras")
    history = theirs.fit(x, y, epochs=3, batch_size=3, shuffle=False, verbose=0)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 3, "--batch-size", 3, "--no-shuffle", "--seed", 3,
            "--save", tmp_path / "o.keras", "--history", tmp_path / "h.json")
    tool.assert_history(tool.load_history(tmp_path / "h.json"), history.history)
    for a, b in zip(keras.models.load_model(tmp_path / "o.keras").weights, theirs.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 1e-4, b.path, atol=1e-6)


@pytest.mark.parametrize("blank", [0, 2, -1])
def test_ctc_of_any_labels(blank, tmp_path):
    inputs = [keras.Input((4,), dtype="int32"), keras.Input((6, 5)), keras.Input((), dtype="int32"), keras.Input((), dtype="int32")]
    model = keras.Model(inputs, keras.ops.ctc_loss(*inputs, mask_index=blank))
    model.save(tmp_path / "m.keras")
    rng = tool.generator("ctc labels", str(blank))
    x = [rng.integers(-1, 6, (6, 4)).astype("int32"), rng.normal(0, 1, (6, 6, 5)).astype("float32"),
         rng.integers(1, 5, 6).astype("int32"), rng.integers(2, 7, 6).astype("int32")]
    tool.assert_close(tool.predict(tmp_path / "m.keras", x, tmp_path)[0][1], model.predict(x, verbose=0), 1e-5)

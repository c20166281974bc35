"""N replicas give what one gives, and a saved model does not show what trained it."""

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool
import train_table as table
from test_train import compare

STRATEGIES = ["one_device:cpu", "mirrored:2", "mirrored:4"]


def start_model(tmp, name, optimizer, rng, rows):
    loss, activation, kind, metrics = table.loss_of("scce")
    model = table.MODELS[name](activation)
    tool.randomise(model, rng, 0.3)
    model.compile(optimizer=table.OPTIMIZERS[optimizer](), loss=loss, metrics=metrics)
    model.save(tmp / "start.keras")
    np.savez(tmp / "d.npz", x=table.inputs(rng, model, rows), y=table.targets(rng, kind, rows),
             sample_weight=rng.uniform(0.5, 2, rows).astype("float32"))
    return model


def fit(tmp, strategy, out, batch_size=8, epochs=2, *options):
    tool.ok("fit", tmp / "start.keras", "--data", tmp / "d.npz", "--epochs", epochs, "--batch-size", batch_size, "--no-shuffle",
            "--strategy", strategy, "--save", tmp / out, "--history", tmp / (out + ".json"), *options)
    return tool.load_history(tmp / (out + ".json"))


# Rows and batches that divide evenly, that do not, from the first on too, and that leave replicas without a row.
SIZES = [(32, 8), (29, 8), (17, 4), (9, 8), (5, 4), (7, 5), (3, 1)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name, optimizer", [("dense", "sgd-global-clipnorm"), ("dropout", "adam"), ("regularized", "adamw"),
                                             ("lstm", "rmsprop-centered"), ("recurrent_dropout", "adam")])
def test_replicas_compute_what_one_does(strategy, name, optimizer, tmp_path, request):
    rng = tool.generator(request.node.name)
    rows, batch = SIZES[rng.integers(len(SIZES))] if not tool.CONFORMANCE else (29, 8)
    start_model(tmp_path, name, optimizer, rng, rows)
    one = fit(tmp_path, "default", "one.keras", batch)
    many = fit(tmp_path, strategy, "many.keras", batch)
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, strategy)
    tool.assert_history(many, one, 1e-5)


@pytest.mark.parametrize("rows, batch", SIZES)
def test_uneven_batches(rows, batch, tmp_path, request):
    start_model(tmp_path, "dense", "sgd-momentum", tool.generator(request.node.name), rows)
    one = fit(tmp_path, "default", "one.keras", batch)
    for strategy in ("mirrored:2", "mirrored:4"):
        many = fit(tmp_path, strategy, "many.keras", batch)
        compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, strategy)
        tool.assert_history(many, one, 1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["dice", "tversky", "circle"])
def test_losses_over_the_batch(loss, weighted, tmp_path, request):
    """Losses that are not sums over rows, in replicas and workers; uneven shares, one without rows."""
    rng = tool.generator(request.node.name)
    model = table.dense_model("sigmoid")
    if loss == "circle":
        model = keras.Sequential([keras.Input((6,)), *model.layers, keras.layers.UnitNormalization()])
    tool.randomise(model, rng, 0.3)
    model.compile(optimizer=table.OPTIMIZERS["sgd-momentum"](), loss=loss)
    model.save(tmp_path / "start.keras")
    arrays = {"x": table.inputs(rng, model, 25), "y": rng.integers(0, 3, 25) if loss == "circle" else table.targets(rng, "binary", 25)}
    if weighted:
        arrays["sample_weight"] = rng.uniform(0.5, 2, 25).astype("float32")
    np.savez(tmp_path / "d.npz", **arrays)
    one = fit(tmp_path, "default", "one.keras", 8)
    # It multiplies by 80: with MKL's kernels for AVX2 instead of AVX-512, three replicas differ by 1.2e-4 from one, and momenta by
    # 5.2e-4.
    near = 5e-4 if loss == "circle" else 1e-5
    theirs = answers.fit(model, **arrays, batch_size=8, epochs=2, rtol=2e-3 if loss == "circle" else 1e-4)
    tool.assert_history(one, theirs)
    for strategy in ("mirrored:2", "mirrored:3"):
        many = fit(tmp_path, strategy, "many.keras", 8)
        compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), near, strategy)
        tool.assert_history(many, one, near)
    if tool.CONTROL:
        return
    tool.ok("launch", "-n", 2, "--", "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8,
            "--no-shuffle", "--save", tmp_path / "jobs.keras")
    compare(keras.models.load_model(tmp_path / "jobs.keras"), keras.models.load_model(tmp_path / "one.keras"), near, "workers")


X, L = keras.losses, keras.layers


def scalar_model(activation=None):
    return keras.Sequential([keras.Input((6,)), *table.dense_model(activation).layers, L.Dense(1), L.Reshape(())])


def masked_model(activation=None):
    return keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(9, 4, mask_zero=True), L.LSTM(5, return_sequences=True),
                             L.Dense(4, activation=activation)])


PLAIN = {name: (table.dense_model, *row[:3], ()) for name, row in table.LOSSES.items()}  # …, axes of a sample's weights beyond the first
MIXED = {  # by rows that replicas must share, by values that do not count, or with the weights in the denominator
    "bce-over-rows": (table.dense_model, lambda: X.BinaryCrossentropy(axis=0), "sigmoid", "binary", None),
    "scalar": (scalar_model, "mse", None, "scalar", None),
    "scalar-log-cosh": (scalar_model, "log_cosh", None, "scalar", None),
    "weighted-mean": (table.dense_model, lambda: X.MeanSquaredError(reduction="mean_with_sample_weight"), None, "real", ()),
    "masked": (masked_model, "sparse_categorical_crossentropy", "softmax", "classes", (1,)),
    "masked-weighted-mean": (masked_model, lambda: X.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight"), "softmax", "classes", (5,)),
    "masked-sum": (masked_model, lambda: X.SparseCategoricalCrossentropy(reduction="sum"), "softmax", "classes", (5,)),
    "masked-ignore": (masked_model, lambda: X.SparseCategoricalCrossentropy(ignore_class=2), "softmax", "classes", (5,)),
}


LOSSES = [(name, weighted) for name in [*MIXED, *tool.pick(PLAIN, 6, "losses")] for weighted in (False, True)
          if not weighted or {**PLAIN, **MIXED}[name][-1] is not None]  # Keras gives no weights to samples that one value stands for


@pytest.mark.quick(9)
@pytest.mark.parametrize("name, weighted", LOSSES)
def test_each_loss_in_shares(name, weighted, tmp_path, request):
    """25 rows in batches of 8: the shares are uneven, and the last batch leaves all but one without a row."""
    rng = tool.generator(request.node.name)
    make, loss, activation, kind, axes = {**PLAIN, **MIXED}[name]
    model = make(activation)
    tool.randomise(model, rng, 0.3)
    model.compile(optimizer=table.OPTIMIZERS["sgd-momentum"](), loss=loss() if callable(loss) else loss)
    model.save(tmp_path / "start.keras")
    y = {"scalar": lambda: rng.normal(0, 1, 25).astype("float32"), "classes": lambda: rng.integers(0, 4, (25, 5))}
    arrays = {"x": table.inputs(rng, model, 25), "y": y[kind]() if kind in y else table.targets(rng, kind, 25)}
    if weighted:
        arrays["sample_weight"] = rng.uniform(0.5, 2, (25, *axes)).astype("float32")
    np.savez(tmp_path / "d.npz", **arrays)
    one = fit(tmp_path, "default", "one.keras", 8)
    model = keras.models.load_model(tmp_path / "start.keras")  # Keras does not save all arguments of its losses
    tool.assert_history(one, answers.fit(model, **arrays, batch_size=8, epochs=2))
    compare(keras.models.load_model(tmp_path / "one.keras"), model, 1e-4, "one")
    for strategy in ("mirrored:2", "mirrored:3"):
        many = fit(tmp_path, strategy, "many.keras", 8)
        compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, strategy)
        tool.assert_history(many, one, 1e-5)
    if tool.CONTROL:
        return
    tool.ok("launch", "-n", 2, "--", "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8,
            "--no-shuffle", "--save", tmp_path / "jobs.keras")
    compare(keras.models.load_model(tmp_path / "jobs.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "workers")


@pytest.mark.parametrize("extension", [".keras", ".h5", ".weights.h5"])
@pytest.mark.parametrize("name", ["cnn", "dropout"])
def test_same_state_same_bytes(name, extension, tmp_path, request):
    """Nothing is trained: what was loaded is saved again under each strategy."""
    model = start_model(tmp_path, name, "adam", tool.generator(request.node.name), 16)
    data = np.load(tmp_path / "d.npz")
    model.fit(data["x"], data["y"], verbose=0)
    model.save(tmp_path / "start.keras")
    if tool.CONTROL:
        pytest.skip("Keras writes the time into its files")
    fit(tmp_path, "default", "one" + extension, 8, 0)
    expected = (tmp_path / ("one" + extension)).read_bytes()
    for strategy in STRATEGIES:
        fit(tmp_path, strategy, "many" + extension, 8, 0)
        assert (tmp_path / ("many" + extension)).read_bytes() == expected, f"other bytes under {strategy}"


def test_strategy_that_is_none(tmp_path, request):
    start_model(tmp_path, "dense", "sgd", tool.generator(request.node.name), 8)
    line = tool.refused("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--strategy", "miror:2")
    assert "miror:2" in line or tool.CONTROL

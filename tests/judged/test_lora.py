"""Layers with LoRA: files that Keras saved and that lockstep saves, predictions and training."""

import json
import zipfile

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool

L = keras.layers


def text(rank, alpha=None):
    return [keras.Input((6,), dtype="int32"), L.Embedding(7, 4, lora_rank=rank, lora_alpha=alpha, embeddings_regularizer="l2"),
            L.Conv1D(6, 3, padding="causal", lora_rank=rank, lora_alpha=alpha, activation="relu"),
            L.EinsumDense("abc,cde->abde", (6, 2, 5), bias_axes="de", lora_rank=rank, lora_alpha=alpha),
            L.Flatten(), L.Dense(3, lora_rank=rank, lora_alpha=alpha, kernel_regularizer="l1")]


def images(rank, alpha=None):
    return [keras.Input((7, 6, 4)), L.Conv2D(4, 3, groups=2, use_bias=False, lora_rank=rank, lora_alpha=alpha, kernel_regularizer="l2"),
            L.BatchNormalization(), L.Reshape((5, 4, 2, 2)),
            L.Conv3D(2, 2, use_bias=False, lora_rank=rank, lora_alpha=alpha, activation="tanh"), L.Flatten(),
            L.Dense(3, use_bias=False, lora_rank=rank)]


def made(layers, rng, rank=2, alpha=None):
    model = keras.Sequential(layers(rank, alpha))
    tool.randomise(model, rng, 0.4)
    return model


def inputs(model, rng, n=9):
    if model.inputs[0].dtype == "int32":
        return rng.integers(0, 7, (n, 6)).astype("int32")
    return rng.normal(0, 1, (n, *model.input_shape[1:])).astype("float32")


def config(path):
    layers = json.loads(zipfile.ZipFile(path).read("config.json"))["config"]["layers"]
    return [{k: v for k, v in layer["config"].items() if k != "seed"} for layer in layers]


@pytest.mark.quick(3)
@pytest.mark.parametrize("alpha", [None, 5, 0.5])
@pytest.mark.parametrize("layers", [text, images])
def test_files(layers, alpha, tmp_path, request):
    """Keras adds LoRA's part to the kernels that it saves, and sets the part to zero when it loads them."""
    rng = tool.generator(request.node.name)
    model = made(layers, rng, alpha=alpha)
    x = inputs(model, rng)
    expected = answers.predict(model, x)[0]
    model.save(tmp_path / "m.keras")
    model.save(tmp_path / "m.h5")
    tool.assert_close(tool.predict(tmp_path / "m.keras", x, tmp_path, single=True)[0][1], expected, 2e-5, "of .keras")
    tool.assert_close(tool.predict(tmp_path / "m.h5", x, tmp_path, single=True)[0][1], expected, 2e-5, "of .h5")
    # From the matrices of the .h5 to merged kernels, and to matrices again.
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "c.keras")
    keras.models.load_model(tmp_path / "m.h5").save(tmp_path / "k.keras")
    assert config(tmp_path / "c.keras") == config(tmp_path / "k.keras")
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "c.h5")
    for made_by_us, of_keras in (("c.keras", "k.keras"), ("c.h5", "m.h5")):
        ours, theirs = (keras.models.load_model(tmp_path / name) for name in (made_by_us, of_keras))
        for a, b in zip(ours.weights, theirs.weights, strict=True):
            tool.assert_close(np.asarray(a), np.asarray(b), 1e-6, f"{made_by_us}: {b.path}")
            assert a.trainable == b.trainable
        tool.assert_close(ours.predict(x, verbose=0), expected, 2e-5, made_by_us)


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("layers, optimizer, alpha", [(text, "adam", None), (text, "sgd", 3), (images, "adam", 0.7)])
def test_training(layers, optimizer, alpha, tmp_path, request):
    """From an .h5, which keeps the matrices: all but the frozen kernels are trained."""
    rng = tool.generator(request.node.name)
    model = made(layers, rng, rank=3, alpha=alpha)
    x, y = inputs(model, rng, 20), rng.normal(0, 1, (20, 3)).astype("float32")
    model.save(tmp_path / "start.h5")
    model = keras.models.load_model(tmp_path / "start.h5", compile=False)
    before = [np.asarray(v) for v in model.weights]
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "start.h5", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
            "--optimizer", optimizer, "--loss", "mean_squared_error", "--save", tmp_path / "ours.h5")
    model.compile(optimizer, "mean_squared_error")
    answers.fit(model, x, y, epochs=2, batch_size=8)
    ours = keras.models.load_model(tmp_path / "ours.h5", compile=False)
    for a, b in zip(ours.weights, model.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 1e-4, b.path, atol=2e-6)
    frozen = [v.path for v, old in zip(ours.weights, before) if np.array_equal(np.asarray(v), old)]
    assert len(frozen) == sum(hasattr(layer, "lora_enabled") for layer in model.layers), frozen


def test_invalid_arguments(tmp_path):
    if tool.CONTROL:
        pytest.skip("messages of the tool")
    model = keras.Sequential([keras.Input((4,)), L.Dense(3, name="d", lora_rank=2)])
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", np.ones((2, 4), "float32"))
    for key, value, message in (("lora_rank", -1, "rank is -1"), ("lora_rank", "two", "lora_rank"), ("lora_alpha", "x", "lora_alpha"),
                                ("kernel_constraint", "NonNeg", "kernel_constraint"), ("lora_rank", 10 ** 12, "too many elements")):
        changed = tmp_path / "changed.keras"
        with zipfile.ZipFile(tmp_path / "m.keras") as source, zipfile.ZipFile(changed, "w") as target:
            for name in source.namelist():
                data = source.read(name)
                if name == "config.json":
                    tree = json.loads(data)
                    tree["config"]["layers"][1]["config"][key] = value
                    data = json.dumps(tree).encode()
                target.writestr(name, data)
        line = tool.refused("predict", changed, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        assert message in line and "'d'" in line, line

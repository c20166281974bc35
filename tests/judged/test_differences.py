"""Small differences between files, versions and dtypes, each of which gave other numbers, other dtypes or a refusal."""

import io
import zipfile

import h5py
import keras
import numpy as np
import pytest

import lockstep_tool as tool

L = keras.layers


@pytest.mark.parametrize("mode", ["int", "one_hot"])
@pytest.mark.parametrize("dtype", [None, "float32", "float16", "int32"])
def test_hashed_crossing_has_the_dtype_of_its_policy(mode, dtype, tmp_path):
    rng = tool.generator("hashed", str(dtype))
    inputs = [keras.Input((1,), dtype="int32") for _ in range(2)]
    model = keras.Model(inputs, L.HashedCrossing(7, output_mode=mode, dtype=dtype)(inputs))
    model.save(tmp_path / "m.keras")
    x = [rng.integers(0, 5, (4, 1)).astype("int32") for _ in inputs]
    tool.assert_close(tool.predict(tmp_path / "m.keras", x, tmp_path)[0][1], np.asarray(model.predict(x, verbose=0)))


def renamed(path, target, names):
    """The archive with objects of its weights file under other names."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    weights = io.BytesIO(entries["model.weights.h5"])
    with h5py.File(weights, "a") as file:
        for old, new in names.items():
            assert old in file, f"{list(file['layers'])} has no {old}"
            file.move(old, new)
    entries["model.weights.h5"] = weights.getvalue()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def test_archives_with_private_names(tmp_path):
    """Earlier versions of Keras 3 wrote what a layer has in a private and in a public attribute under the private name; Keras
    reads both."""
    rng = tool.generator("private")
    x = keras.Input((4, 6))
    y = L.MultiHeadAttention(2, 3, name="attention")(x, x)
    model = keras.Model(x, L.Pipeline([L.Dense(3), L.Bidirectional(L.LSTM(2)), L.BatchNormalization()], name="pipe")(y))
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    attention = "layers/multi_head_attention"
    renamed(tmp_path / "m.keras", tmp_path / "old.keras", {
        "layers/pipeline/layers": "layers/pipeline/_pipeline_layers",
        **{f"{attention}/{part}_dense": f"{attention}/_{part}_dense" for part in ("query", "key", "value", "output")}})
    data = rng.normal(0, 1, (5, 4, 6)).astype("float32")
    wanted = model.predict(data, verbose=0)
    tool.assert_close(keras.models.load_model(tmp_path / "old.keras").predict(data, verbose=0), wanted, 1e-6)
    tool.assert_close(tool.predict(tmp_path / "old.keras", data, tmp_path)[0][1], wanted, 1e-5)

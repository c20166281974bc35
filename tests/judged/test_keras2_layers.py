"""Layers of Keras 2 that Keras 3 lacks, or that compute in other dtypes there, in files of tf-keras."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.usefixtures("eagerly")


def several_axes(L):
    x = tf_keras.Input((4, 3, 2))
    y = L.BatchNormalization(axis=[1, 3], momentum=0.8, gamma_regularizer="l2")(L.BatchNormalization(axis=[-1, 2], scale=False)(x))
    return tf_keras.Model(x, L.Dense(1)(L.Flatten()(y))), lambda rng: rng.normal(1, 2, (12, 4, 3, 2)).astype("float32")


def random_sizes(L):
    x = tf_keras.Input((5, 4, 2))
    y = L.GlobalAveragePooling2D()(L.Conv2D(3, 2)(L.RandomWidth((-0.3, 0.0), "nearest")(L.RandomHeight(0.3)(x))))
    return tf_keras.Model(x, y), lambda rng: rng.normal(1, 2, (12, 5, 4, 2)).astype("float32")


@pytest.mark.skipif(tool.CONTROL, reason="the tool converts")
@pytest.mark.parametrize("make", [several_axes, random_sizes], ids=lambda make: make.__name__)
def test_layers_that_keras_3_lacks(make, tmp_path):
    """Statistics of several axes, whose weights have the rank of the inputs, and sizes that change in training."""
    trains = make is several_axes

    def written():
        tf_keras.utils.set_random_seed(1)
        model, data = make(tf_keras.layers)
        rng = tool.generator("axes", make.__name__)
        x, y = data(rng), rng.normal(0, 1, (12, 1)).astype("float32")
        model.compile(tf_keras.optimizers.SGD(0.02, momentum=0.9), "mse")
        for name in ("m.h5", "m.keras"):
            model.save(tmp_path / name)
        wanted = model.predict(x, verbose=0)
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        if trains:
            model.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0)
        return x, wanted, [np.asarray(w) for w in model.weights]

    def again():
        loaded = tf_keras.models.load_model(tmp_path / "again.h5")
        return loaded.predict(x, verbose=0), [layer.get_config().get("axis", layer.get_config().get("factor")) for layer in loaded.layers]

    x, wanted, trained = stored.original(written, tmp_path)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "again.h5")
    values, arguments = stored.original(again, files=[tmp_path / "again.h5"])
    tool.assert_close(values, wanted, 1e-5)
    assert [[1, 3], [3, 2]] == arguments[2:0:-1] if trains else [0.3, [-0.3, 0.0]] == arguments[1:3]
    for name in ("m.h5", "m.keras"):
        tool.assert_close(tool.predict(tmp_path / name, x, tmp_path)[0][1], wanted, 1e-5, name)
        tool.ok("fit", tmp_path / name, "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "o.h5")
        for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "o.h5"), trained, strict=True):
            if trains:
                tool.assert_close(ours, theirs, 1e-4, name, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_lookups_with_a_dtype_of_integers(dtype, tmp_path):
    def written():
        words, numbers = tf_keras.Input((2,), dtype="string", name="a"), tf_keras.Input((2,), dtype="int64", name="b")
        L, outputs = tf_keras.layers, []
        for mode in ("int", "multi_hot", "count"):
            outputs += [L.StringLookup(vocabulary=["a", "b"], output_mode=mode, dtype=dtype)(words),
                        L.IntegerLookup(vocabulary=[3, 5], output_mode=mode, dtype=dtype)(numbers)]
        model = tf_keras.Model([words, numbers], outputs)
        model.save(tmp_path / "m.h5")
        x = [np.array([["a", "b"], ["c", "a"]]), np.array([[3, 5], [7, 3]])]
        return [np.asarray(v) for v in model([tf.constant(x[0]), tf.constant(x[1])])]

    wanted = stored.original(written, tmp_path)
    x = {"a": np.array([[b"a", b"b"], [b"c", b"a"]]), "b": np.array([[3, 5], [7, 3]])}
    for (name, found), value in zip(tool.predict(tmp_path / "m.h5", x, tmp_path), wanted, strict=True):
        tool.assert_close(found, value, 1e-6, name)


def test_resized_integers(tmp_path):
    """Of the dtype of the layer, and not rounded; in Keras 3 they remain integers."""
    def written():
        L, x = tf_keras.layers, tf_keras.Input((4, 5, 3), dtype="uint8")
        outputs = [L.Resizing(3, 4)(x), L.Resizing(3, 4, "nearest")(x), L.Resizing(3, 3, crop_to_aspect_ratio=True, dtype="mixed_float16")(x)]
        model = tf_keras.Model(x, [L.Conv2D(1, 2)(y) for y in outputs] + outputs)
        for name in ("m.h5", "m.keras"):
            model.save(tmp_path / name)
        data = tool.generator("resized").integers(0, 255, (3, 4, 5, 3)).astype("uint8")
        return data, [np.asarray(v) for v in model(data)]

    data, wanted = stored.original(written, tmp_path)
    for file in ("m.h5", "m.keras"):
        for (name, found), value in zip(tool.predict(tmp_path / file, data, tmp_path), wanted, strict=True):
            tool.assert_close(found, value, 1e-3, name)
    assert "Keras 2 converts integers to the layer's dtype" in tool.run("convert", tmp_path / "m.h5", tmp_path / "m3.keras").err


def test_resized_images_of_integers(tmp_path):
    """Keras 2 drops the fraction; Keras 3 rounds."""
    def written():
        L, x = tf_keras.layers, tf_keras.Input((4, 5, 3), dtype="uint8")
        model = tf_keras.Model(x, [L.Resizing(7, 6, way, dtype=dtype)(x) for way, dtype in (
            ("bilinear", "uint8"), ("bicubic", "int32"), ("area", "int32"), ("gaussian", "uint8"), ("lanczos5", "int64"), ("nearest", "uint8"))])
        for name in ("m.h5", "m.keras"):
            model.save(tmp_path / name)
        data = tool.generator("resized integers").integers(60, 180, (3, 4, 5, 3)).astype("uint8")
        return data, [np.asarray(v) for v in model(data)]

    data, wanted = stored.original(written, tmp_path)
    for file in ("m.h5", "m.keras"):
        for (name, found), value in zip(tool.predict(tmp_path / file, data, tmp_path), wanted, strict=True):
            assert found.dtype == value.dtype and np.abs(found.astype(int) - value.astype(int)).max() <= 1, name
            # Sums that are integers but for rounding errors may be dropped to the one below; rounding would change half of all.
            assert (found != value).mean() < 0.1, f"{name}: {(found != value).mean()} of the pixels differ"

"""Layers on inputs of unknown size, with other policies than the layers within them, and other options that few models have."""

import json
import zipfile

import keras
import numpy as np
import pytest

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.usefixtures("eagerly")
L = keras.layers

# Rows: a layer, the shape of its inputs, the shape of their data.
ROWS = {
    # The size of the images is in the data only.
    "adaptive-average-1d": (lambda: L.AdaptiveAveragePooling1D(3), [(None, 2)], [(7, 2)]),
    "adaptive-max-2d": (lambda: L.AdaptiveMaxPooling2D((2, 3)), [(None, None, 2)], [(5, 7, 2)]),
    "adaptive-max-3d": (lambda: L.AdaptiveMaxPooling3D(2), [(None, 4, 3, 2)], [(5, 4, 3, 2)]),
    **{f"up-{i}": (lambda i=i: L.UpSampling2D((2, 3), interpolation=i), [(None, None, 2)], [(4, 3, 2)])
       for i in ("bilinear", "bicubic", "lanczos3")},
    "crop": (lambda: L.CenterCrop(3, 2), [(None, None, 2)], [(5, 4, 2)]),
    "crop-larger": (lambda: L.CenterCrop(6, 5), [(None, 4, 2)], [(5, 4, 2)]),
    "resize-crop": (lambda: L.Resizing(3, 5, crop_to_aspect_ratio=True), [(None, None, 2)], [(5, 4, 2)]),
    "resize-pad": (lambda: L.Resizing(3, 5, pad_to_aspect_ratio=True), [(None, None, 2)], [(5, 4, 2)]),
    # A window that is larger than the sequence.
    "window": (lambda: L.MultiHeadAttention(2, 3, sliding_window=3), [(1, 4), (2, 4)], [(1, 4), (2, 4)]),
    "window-keys": (lambda: L.GroupQueryAttention(2, 2, 1, sliding_window=4), [(5, 4), (2, 4)], [(5, 4), (2, 4)]),
    # Policies: TimeDistributed applies call() of its layer, Bidirectional casts what its layers return.
    "steps-wide": (lambda: L.TimeDistributed(L.Dropout(0.4), dtype="float64"), [(4, 2)], [(4, 2)]),
    "steps-half": (lambda: L.TimeDistributed(L.Dense(3), dtype="mixed_float16"), [(4, 2)], [(4, 2)]),
    "steps-of-float": (lambda: L.TimeDistributed(L.Dense(3, dtype="float64")), [(4, 2)], [(4, 2)]),
    "steps-of-mixed": (lambda: L.TimeDistributed(L.Dense(3, dtype="mixed_float16")), [(4, 2)], [(4, 2)]),
    "steps-of-norms": (lambda: L.TimeDistributed(L.LayerNormalization(dtype="mixed_float16")), [(4, 2)], [(4, 2)]),
    "steps-half-of-norms": (lambda: L.TimeDistributed(L.RMSNormalization(dtype="float32"), dtype="float16"), [(4, 2)], [(4, 2)]),
    "steps-of-steps": (lambda: L.TimeDistributed(L.TimeDistributed(L.Dense(3, dtype="float16"), dtype="mixed_float16")), [(4, 3, 2)], [(4, 3, 2)]),
    "both-wide": (lambda: L.Bidirectional(L.GRU(2, return_sequences=True), dtype="float64"), [(4, 2)], [(4, 2)]),
    "both-half": (lambda: L.Bidirectional(L.LSTM(2), merge_mode="sum", dtype="float16"), [(4, 2)], [(4, 2)]),
    # An integer policy casts floating inputs; Discretization has its inputs in float32, whatever its policy is.
    "resize-bytes": (lambda: L.Resizing(4, 5, dtype="uint8"), [(3, 3, 2)], [(3, 3, 2)]),
    "flatten-integers": (lambda: L.Flatten(dtype="int32"), [(3, 2)], [(3, 2)]),
    "bins-half": (lambda: L.Discretization([0.1001, 0.1002, 0.3], dtype="float16"), [(40,)], [(40,)]),
}


@pytest.mark.parametrize("name", ROWS)
def test_predictions(name, tmp_path):
    make, shapes, extents = ROWS[name]

    def written():
        rng = tool.generator("details", name)
        inputs = [keras.Input(shape, name=f"in_{i}") for i, shape in enumerate(shapes)]
        layer = make()
        model = keras.Model(inputs, layer(*inputs) if len(inputs) > 1 else layer(inputs[0]))
        tool.randomise(model, rng)
        model.save(tmp_path / "m.keras")
        arrays = [rng.uniform(0, 3, (3, *extent)).astype("float32") for extent in extents]
        if name.startswith("bins"):
            arrays[0][:] = np.linspace(0.0995, 0.1009, arrays[0].size, dtype="float32").reshape(arrays[0].shape)
        return arrays, np.asarray(model(arrays if len(arrays) > 1 else arrays[0], training=False))

    arrays, wanted = stored.original(written, tmp_path)
    found = tool.predict(tmp_path / "m.keras", arrays, tmp_path)[0][1]
    tool.assert_close(found, wanted, 3e-3 if "half" in name else 1e-5, name)


def test_a_scalar_weight_is_not_taken_for_the_learning_rate(tmp_path):
    """The file has the step and the rate of an optimizer that was never built. The rate's shape is that of the weight's momentum."""
    def written():
        rng = tool.generator("scalar weight")
        inputs = [keras.Input((1, 3), name=name) for name in ("a", "b")]
        model = keras.Model(inputs, L.Attention(use_scale=True)(inputs))  # one key: the scale has no gradient
        model.compile(keras.optimizers.SGD(0.5, momentum=0.9), "mse")
        model.save(tmp_path / "m.keras")
        a, b, y = (rng.normal(0, 1, (4, 1, 3)).astype("float32") for _ in range(3))
        tool.save_npz(tmp_path / "d.npz", x_a=a, x_b=b, y=y)
        model = keras.models.load_model(tmp_path / "m.keras")
        model.fit([a, b], y, batch_size=2, shuffle=False, verbose=0)
        return np.asarray(model.weights[0])

    wanted = stored.original(written, tmp_path)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 2, "--no-shuffle", "--save", tmp_path / "o.keras")
    tool.assert_close(stored.weights(keras, tmp_path / "o.keras")[0], wanted, 1e-6)


@pytest.mark.parametrize("optimizer", ["SGD", "Ftrl"])
def test_variables_without_gradients_keep_their_values(optimizer, tmp_path):
    """Neither decay nor penalties nor constraints change what is behind floor, ceil, round or a cast to integers."""
    arguments = {"SGD": dict(weight_decay=0.1), "Ftrl": dict(l1_regularization_strength=0.01, l2_regularization_strength=0.1)}[optimizer]
    cuts = [keras.ops.floor, keras.ops.ceil, keras.ops.round, keras.ops.trunc, keras.ops.sign, lambda t: keras.ops.cast(keras.ops.cast(t, "int32"), "float32")]

    def written():
        keras.utils.set_random_seed(3)
        x = keras.Input((4,))
        parts = [cut(L.Dense(3, kernel_constraint=keras.constraints.MaxNorm(0.4))(x)) for cut in cuts]
        model = keras.Model(x, L.Dense(1)(L.Concatenate()(parts + [L.Dense(2, "tanh")(x)])))
        model.compile(getattr(keras.optimizers, optimizer)(0.01, **arguments), "mse")
        model.save(tmp_path / "m.keras")
        rng = tool.generator("without gradients")
        data, y = rng.normal(0, 1, (8, 4)).astype("float32"), rng.normal(0, 1, (8, 1)).astype("float32")
        tool.save_npz(tmp_path / "d.npz", x=data, y=y)
        model.fit(data, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        return [np.asarray(w) for w in model.weights]

    wanted = stored.original(written, tmp_path)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "o.keras")
    for found, value in zip(stored.weights(keras, tmp_path / "o.keras"), wanted, strict=True):
        tool.assert_close(found, value, 1e-5, atol=1e-6)


def test_images_keep_their_dtype_in_inference(tmp_path):
    """Layers that do not change images in inference give bytes as bytes; RandomCrop casts nothing there."""
    def written():
        rng = tool.generator("bytes in inference")
        layers = [L.RandomHue(0.3), L.RandomSaturation(0.3), L.RandomColorDegeneration(0.3), L.RandomPosterization(3), L.RandomInvert(0.5),
                  L.RandomGrayscale(0.4), L.RandomColorJitter(contrast_factor=0.3), L.RandomCrop(4, 3), L.RandomCrop(4, 3, dtype="float64"),
                  L.ContrastLimitedAdaptiveHistogramEqualization(tile_grid_size=(2, 2)), L.RandomFlip(), L.RandomErasing(0.4),
                  L.RandomContrast(0.4), L.RandomBrightness(0.4), L.MixUp()]
        x = keras.Input((6, 5, 3), dtype="uint8")
        model = keras.Model(x, [layer(x) for layer in layers])
        model.save(tmp_path / "m.keras")
        data = rng.integers(0, 256, (3, 6, 5, 3)).astype("uint8")
        return data, [np.asarray(v) for v in model(data, training=False)]

    data, wanted = stored.original(written, tmp_path)
    for (name, found), value in zip(tool.predict(tmp_path / "m.keras", data, tmp_path), wanted, strict=True):
        tool.assert_close(found, value, 1e-5, name)


def test_calls_for_outputs_run_from_the_last(tmp_path):
    """Keras runs the calls of a shared layer that give the outputs of a model from the last one; dropout masks and moving statistics
    follow from the order."""
    def written():
        rng = tool.generator("calls from the last")
        inputs = [keras.Input((4,), name=name) for name in ("a", "b", "c")]
        shared = keras.Sequential([L.Dense(4), L.BatchNormalization(momentum=0.5), L.Dropout(0.4, seed=3)])
        model = keras.Model(inputs, dict(zip("xyz", (L.Activation("linear", name=f"of_{t.name}")(shared(t)) for t in inputs))))
        model.compile(keras.optimizers.SGD(0.1), {name: "mse" for name in "xyz"})
        model.save(tmp_path / "m.keras")
        arrays = [rng.normal(i, 1 + i, (8, 4)).astype("float32") for i in range(6)]
        tool.save_npz(tmp_path / "d.npz", **{f"x_{n}": v for n, v in zip("abc", arrays)}, **{f"y_{n}": v for n, v in zip("xyz", arrays[3:])})
        keras.utils.set_random_seed(5)
        model = keras.models.load_model(tmp_path / "m.keras")
        model.fit(arrays[:3], dict(zip("xyz", arrays[3:])), batch_size=4, shuffle=False, verbose=0)
        return [[v.path, np.asarray(v)] for v in model.weights]

    wanted = stored.original(written, tmp_path)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4, "--no-shuffle", "--seed", 5, "--save", tmp_path / "o.keras")
    for found, (path, value) in zip(stored.weights(keras, tmp_path / "o.keras"), wanted, strict=True):
        if "seed" not in path:
            tool.assert_close(found, value, 1e-4, path, atol=1e-6)


def test_string_lookup_keeps_its_oov_method(tmp_path):
    def written():
        x = keras.Input((3,), dtype="string")
        layer = L.StringLookup(vocabulary=["a", "b"], num_oov_indices=3, oov_method="farmhash", salt=[3, 4])
        keras.Model(x, layer(x)).save(tmp_path / "m.keras")
        return layer.get_config()["oov_method"]

    method = stored.original(written, tmp_path)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "o.keras")
    with zipfile.ZipFile(tmp_path / "o.keras") as archive:
        assert json.loads(archive.read("config.json"))["config"]["layers"][1]["config"]["oov_method"] == method


def test_weights_in_a_column(tmp_path):
    """Weights (batch, 1) of targets (batch): Keras reads both as vectors."""
    def written():
        rng = tool.generator("column of weights")
        model = keras.Sequential([keras.Input((4,)), L.Dense(3, "softmax")])
        tool.randomise(model, rng)
        M = keras.metrics
        model.compile("sgd", "sparse_categorical_crossentropy",
                      weighted_metrics=[M.IoU(3, [0, 2], sparse_y_pred=False), M.MeanIoU(3, sparse_y_pred=False, dtype="float32"), "accuracy"])
        model.save(tmp_path / "m.keras")
        x, y, weight = rng.normal(0, 2, (12, 4)).astype("float32"), rng.integers(0, 3, 12), rng.uniform(0.2, 3, (12, 1)).astype("float32")
        tool.save_npz(tmp_path / "d.npz", x=x, y=y, sample_weight=weight)
        return model.fit(x, y, sample_weight=weight, epochs=2, batch_size=4, shuffle=False, verbose=0).history

    wanted = stored.original(written, tmp_path)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--history", tmp_path / "h.json")
    found = json.loads((tmp_path / "h.json").read_text())
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, 1e-5, err_msg=key)

"""Small differences between files, versions and dtypes, each of which gave other numbers, other dtypes or a refusal."""

import io
import json
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.usefixtures("eagerly")
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
    def written():
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
        return data, wanted

    data, wanted = stored.original(written, tmp_path)
    tool.assert_close(tool.predict(tmp_path / "old.keras", data, tmp_path)[0][1], wanted, 1e-5)


def test_dropped_elements_have_no_gradient(tmp_path):
    """The root's gradient at zero is infinite or NaN; where dropout has put a zero, it goes no further."""
    rng = tool.generator("dropped")
    x = keras.Input((6,))
    y = L.Dense(3)(keras.ops.sqrt(keras.ops.abs(L.Dropout(0.4)(L.Dense(8)(x)))))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=True)
    model.save(tmp_path / "m.keras")
    keras.utils.set_random_seed(5)
    model = keras.models.load_model(tmp_path / "m.keras")
    data = {"x": rng.normal(0, 1, (8, 6)).astype("float32"), "y": rng.normal(0, 1, (8, 3)).astype("float32")}
    model.fit(data["x"], data["y"], batch_size=4, epochs=1, verbose=0)
    tool.save_npz(tmp_path / "d.npz", **data)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4, "--seed", 5, "--save", tmp_path / "o.keras")
    for ours, theirs in zip(keras.models.load_model(tmp_path / "o.keras").get_weights(), model.get_weights(), strict=True):
        assert np.isfinite(theirs).all()
        tool.assert_close(ours, theirs, 1e-4)


def keras_2_models():
    """Models of tf-keras that Keras 3 trains otherwise, with the vocabulary of their input."""
    T = tf_keras.layers
    repeated = tf_keras.Sequential([T.InputLayer((5,)), T.Embedding(4, 3), T.GlobalAveragePooling1D(), T.Dense(2)])
    yield "rows of an embedding that come several times", repeated, 4
    T_in = tf_keras.Input((4,))
    base = tf_keras.Sequential([T.InputLayer((4,)), T.Dense(3), T.BatchNormalization(), T.Dropout(0.5)], name="base")
    yield "a base model that is called with training=False", tf_keras.Model(T_in, T.Dense(2)(base(T_in, training=False))), None
    inner = tf_keras.Model(T_in, T.Activation("tanh")(T.BatchNormalization()(T.Dense(3)(T_in))), name="inner")
    x = tf_keras.Input((4,))
    yield "a layer that is called with training=True", tf_keras.Model(x, T.Dense(2)(T.BatchNormalization()(inner(x, training=False), training=True))), None
    yield "statistics of steps", tf_keras.Sequential([T.InputLayer((4, 3)), T.TimeDistributed(T.BatchNormalization()), T.LSTM(2)]), None
    yield "the variance of images", tf_keras.Sequential([T.InputLayer((3, 2, 4)), T.BatchNormalization(momentum=0.5), T.Flatten(), T.Dense(2)]), None
    part = tf_keras.Sequential([T.InputLayer((3,)), T.Dense(4, activity_regularizer="l2"), T.BatchNormalization(momentum=0.5)])
    yield "a model of each step, called again for its mask", tf_keras.Sequential([T.InputLayer((4, 3)), T.TimeDistributed(part), T.LSTM(2)]), None
    yield "a second layer that goes forwards", tf_keras.Sequential([T.InputLayer((4, 3)), T.Bidirectional(T.LSTM(1, go_backwards=True))]), None
    frozen = [T.Bidirectional(T.LSTM(2, return_sequences=True)), T.MultiHeadAttention(2, 2), T.ConvLSTM1D(2, 2)]
    for layer in frozen:
        layer.trainable = False
    x = tf_keras.Input((4, 3))
    y = frozen[1](frozen[0](x), x)
    yield "parts of frozen layers", tf_keras.Model(x, T.Dense(2)(T.Flatten()(frozen[2](T.Reshape((2, 4, 2))(y))))), None


@pytest.mark.quick(4)
@pytest.mark.parametrize("number", range(8))
def test_training_of_keras_2(number, tmp_path):
    def written():
        what, model, words = list(keras_2_models())[number]
        rng = tool.generator("training of keras 2", number)
        model.set_weights([rng.normal(0, 0.5, w.shape) if w.min() == w.max() == 0 or w.ndim > 1 else w for w in model.get_weights()])
        # Adam would enlarge the noise in gradients of biases before a normalization.
        model.compile(tf_keras.optimizers.Adam(0.05) if words else tf_keras.optimizers.SGD(0.05), "mse")
        model.save(tmp_path / "m.h5")
        shape = (12, *model.input_shape[1:])
        x = (rng.integers(0, words, shape) if words else rng.normal(0, 1, shape)).astype("float32")
        y = rng.normal(0, 1, (12, 2)).astype("float32")
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        wanted = tf_keras.models.load_model(tmp_path / "m.h5").predict(x, verbose=0)  # which may change statistics
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        return what, x, wanted, model.get_weights()

    what, x, wanted, weights = stored.original(written, tmp_path)
    tool.assert_close(tool.predict(tmp_path / "m.h5", x, tmp_path)[0][1], wanted, 1e-5, what)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "o.h5")
    for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "o.h5"), weights, strict=True):
        tool.assert_close(ours, theirs, 1e-4, what, atol=1e-6)


def test_keras_3_reads_calls_with_states_of_keras_2(tmp_path):
    """Keras 2 names an argument that Keras 3's recurrent layers do not have."""
    def written():
        T, rng = tf_keras.layers, tool.generator("constants")
        x = tf_keras.Input((4, 3))
        y, *states = T.Bidirectional(T.LSTM(2, return_state=True, return_sequences=True))(x)
        model = tf_keras.Model(x, T.Bidirectional(T.LSTM(2))(y, initial_state=states))
        model.save(tmp_path / "m.keras")
        data = rng.normal(0, 1, (5, 4, 3)).astype("float32")
        return data, model.predict(data, verbose=0)

    data, wanted = stored.original(written, tmp_path)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "o.keras")
    read = stored.original(lambda: keras.models.load_model(tmp_path / "o.keras").predict(data, verbose=0), files=[tmp_path / "o.keras"])
    tool.assert_close(read, wanted, 1e-5)


def calls_with_states():
    x, h, c = keras.Input((4, 3)), keras.Input((2,)), keras.Input((2,))
    yield [x, h], L.GRU(2, name="made")(x, initial_state=h)
    yield [x, h], L.GRU(2, name="made")(x, initial_state=[h])
    yield [x, h, c], L.LSTM(2, name="made")(x, initial_state=[h, c])
    yield [x, h, c], L.Bidirectional(L.LSTM(2), name="made")(x, initial_state=[h, c, c, h])
    yield [x, h, c], L.RNN([L.GRUCell(2), L.LSTMCell(2)], name="made")(x, initial_state=[h, h, c])


@pytest.mark.parametrize("number", range(5))
def test_shapes_of_states_are_in_build_configs(number, tmp_path):
    model = keras.Model(*list(calls_with_states())[number])
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "o.keras")
    configs = []
    for name in ("m.keras", "o.keras"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            layers = json.loads(archive.read("config.json"))["config"]["layers"]
        configs.append(next(layer for layer in layers if layer["name"] == "made")["build_config"])
    assert configs[0] == configs[1]
    keras.models.load_model(tmp_path / "o.keras")


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("module", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_convolutional_layers_in_both_directions(module, rank, sequences, tmp_path):
    def written():
        rng = tool.generator("both directions", rank, sequences)
        T = module.layers
        shape = (3, *(4, 5)[:rank], 2)
        x = module.Input(shape)
        inner = getattr(T, f"ConvLSTM{rank}D")(2, 2, padding="same", return_sequences=sequences)
        model = module.Model(x, T.Bidirectional(inner, merge_mode="concat" if sequences else "ave")(x))
        model.set_weights([rng.normal(0, 0.5, w.shape) for w in model.get_weights()])
        data = rng.normal(0, 1, (4, *shape)).astype("float32")
        for name in ("m.keras", "m.h5"):
            model.save(tmp_path / name)
        return data, model.predict(data, verbose=0)

    data, wanted = stored.original(written, tmp_path)
    for name in ("m.keras", "m.h5"):
        tool.assert_close(tool.predict(tmp_path / name, data, tmp_path)[0][1], wanted, 1e-5, name)
        tool.ok("convert", tmp_path / name, tmp_path / f"o_{name}")
        path = tmp_path / f"o_{name}" if module is keras or name == "m.h5" else tmp_path / name
        read = stored.original(lambda: module.models.load_model(path).predict(data, verbose=0), files=[path])
        tool.assert_close(read, wanted, 1e-6, name)


def test_nested_models_of_keras_2_called_with_a_dict(tmp_path):
    T, rng = tf_keras.layers, tool.generator("dict of keras 2")
    a, b = tf_keras.Input((3,), name="inner_a"), tf_keras.Input((2,), name="inner_b")
    inner = tf_keras.Model({"first": a, "second": b}, {"sum": T.Add()([T.Dense(2)(a), b]), "other": T.Dense(3)(b)}, name="inner")
    x, y = tf_keras.Input((3,), name="x"), tf_keras.Input((2,), name="y")
    made = inner({"second": y, "first": x})
    model = tf_keras.Model([x, y], T.Concatenate()([made["sum"], made["other"]]))
    data = {"x": rng.normal(0, 1, (5, 3)).astype("float32"), "y": rng.normal(0, 1, (5, 2)).astype("float32")}
    wanted = model.predict(list(data.values()), verbose=0)
    for name in ("m.h5", "m.keras"):
        model.save(tmp_path / name)
        tool.assert_close(tool.predict(tmp_path / name, data, tmp_path)[0][1], wanted, 1e-5, name)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "o.h5")
    tool.assert_close(tf_keras.models.load_model(tmp_path / "o.h5").predict(list(data.values()), verbose=0), wanted, 1e-5)


def test_masks_of_joined_sequences_are_written(tmp_path):
    """Keras 2 passes masks on by itself; Keras 3 has them as operations in the config."""
    T, rng = tf_keras.layers, tool.generator("joined masks")
    x = tf_keras.Input((4, 3))
    masked = T.Masking()(x)
    y = T.Concatenate(name="joined")([T.Dense(2)(masked), x])
    model = tf_keras.Model(x, T.LSTM(3)(T.Concatenate(axis=1, name="longer")([y, y])))
    data = rng.normal(0, 1, (5, 4, 3)).astype("float32")
    data[rng.random((5, 4)) < 0.4] = 0
    wanted = model.predict(data, verbose=0)
    model.save(tmp_path / "m.h5")
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "o.keras")
    tool.assert_close(keras.models.load_model(tmp_path / "o.keras").predict(data, verbose=0), wanted, 1e-5)
    tool.assert_close(tool.predict(tmp_path / "m.h5", data, tmp_path)[0][1], wanted, 1e-5)


@pytest.mark.parametrize("name", ["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"])
def test_merged_masks_of_keras_2(name, tmp_path):
    """In Keras 2 a step counts if it does in all inputs; in Keras 3 if it does in any."""
    def written():
        T, rng = tf_keras.layers, tool.generator("merged masks", name)
        x, y, z = [tf_keras.Input((4, 3)) for _ in range(3)]
        both = getattr(T, name)()([T.Masking()(x), T.Masking()(y)])
        one = getattr(T, name)()([T.Masking()(y), T.Dense(3)(z)])
        model = tf_keras.Model([x, y, z], [T.LSTM(3)(both), T.GRU(2)(one)])
        data = [rng.normal(0, 1, (6, 4, 3)).astype("float32") for _ in range(3)]
        for part in data:
            part[rng.random((6, 4)) < 0.4] = 0
        model.save(tmp_path / "m.h5")
        return data, model.predict(data, verbose=0)

    data, wanted = stored.original(written, tmp_path)
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.h5", data, tmp_path), wanted, strict=True):
        tool.assert_close(ours, theirs, 1e-5)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "o.h5")
    read = stored.original(lambda: tf_keras.models.load_model(tmp_path / "o.h5").predict(data, verbose=0), files=[tmp_path / "o.h5"])
    for ours, theirs in zip(read, wanted, strict=True):
        tool.assert_close(ours, theirs, 1e-5)


@pytest.mark.parametrize("count", [7, 2000, 5000])
@pytest.mark.parametrize("kind", ["AdaptiveAveragePooling1D", "AdaptiveMaxPooling1D"])
def test_adaptive_pools_of_unequal_windows(kind, count, tmp_path):
    model = keras.Sequential([keras.Input((3001, 2)), getattr(keras.layers, kind)(count)])
    model.save(tmp_path / "m.keras")
    x = tool.generator("adaptive", kind, str(count)).normal(size=(2, 3001, 2)).astype("float32")
    ((_, ours),) = tool.predict(tmp_path / "m.keras", x, tmp_path)
    tool.assert_close(ours, model.predict(x, verbose=0), 1e-5, kind)


def layers_after_masks():
    """They drop masks in Keras 2; in Keras 3 they pass them on."""
    T = tf_keras.layers
    yield T.Rescaling(0.5)
    yield T.Normalization(mean=0.1, variance=2.0)
    yield T.Identity()


@pytest.mark.parametrize("number", range(3))
def test_layers_of_keras_2_that_drop_masks(number, tmp_path):
    def written():
        T, rng = tf_keras.layers, tool.generator("dropped masks", number)
        x = tf_keras.Input((4,))
        y = T.Embedding(5, 3, mask_zero=True)(x)
        model = tf_keras.Model(x, [T.LSTM(2)(list(layers_after_masks())[number](y)), T.LSTM(2)(y)])
        data = rng.integers(0, 3, (6, 4)).astype("float32")
        for name in ("m.h5", "m.keras"):
            model.save(tmp_path / name)
        return data, model.predict(data, verbose=0)

    data, wanted = stored.original(written, tmp_path)
    for name in ("m.h5", "m.keras"):
        for (_, ours), theirs in zip(tool.predict(tmp_path / name, data, tmp_path), wanted, strict=True):
            tool.assert_close(ours, theirs, 1e-5)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "o.h5")
    read = stored.original(lambda: tf_keras.models.load_model(tmp_path / "o.h5").predict(data, verbose=0), files=[tmp_path / "o.h5"])
    for ours, theirs in zip(read, wanted, strict=True):
        tool.assert_close(ours, theirs, 1e-5)


def masks_of_steps(x):
    """Steps of steps, whose masks TimeDistributed of Keras 2 passes to its layer, and makes of those of its layer."""
    T = tf_keras.layers
    words = T.TimeDistributed(T.Embedding(5, 3, mask_zero=True))(x)
    yield T.LSTM(2)(T.TimeDistributed(T.LSTM(2))(words))
    yield T.LSTM(2)(T.TimeDistributed(T.Bidirectional(T.GRU(2)))(words))
    yield T.LSTM(2)(T.TimeDistributed(T.GlobalAveragePooling1D())(words))
    yield T.TimeDistributed(T.GRU(2))(T.TimeDistributed(T.LSTM(2, return_sequences=True))(words))
    yield T.LSTM(2)(T.TimeDistributed(T.LSTM(2))(T.TimeDistributed(T.Dense(2))(words)))


@pytest.mark.parametrize("number", tool.pick(range(5), 2, "masks of steps"))
def test_masks_of_steps_in_keras_2(number, tmp_path):
    def written():
        rng = tool.generator("masks of steps", number)
        x = tf_keras.Input((4, 3))
        for i, y in enumerate(masks_of_steps(x)):
            if i == number:
                break
        model = tf_keras.Model(x, y)
        model.set_weights([rng.normal(0, 0.6, w.shape) for w in model.get_weights()])
        data = rng.integers(0, 3, (6, 4, 3)).astype("float32")
        data[1, 2:] = data[3, :2] = 0
        for name in ("m.h5", "m.keras"):
            model.save(tmp_path / name)
        return data, model.predict(data, verbose=0)

    data, wanted = stored.original(written, tmp_path)
    for name in ("m.h5", "m.keras"):
        tool.assert_close(tool.predict(tmp_path / name, data, tmp_path)[0][1], wanted, 1e-5, name)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "o.h5")
    read = stored.original(lambda: tf_keras.models.load_model(tmp_path / "o.h5").predict(data, verbose=0), files=[tmp_path / "o.h5"])
    tool.assert_close(read, wanted, 1e-5)


@pytest.mark.parametrize("dtype", [None, "int32", "uint8"])
def test_bins_of_keras_2_have_the_dtype_of_the_layer(dtype, tmp_path):
    x = tf_keras.Input((4,))
    model = tf_keras.Model(x, tf_keras.layers.Discretization([-0.5, 0.5], dtype=dtype)(x))
    model.save(tmp_path / "m.h5")
    data = tool.generator("bins", str(dtype)).normal(0, 1, (5, 4)).astype("float32")
    tool.assert_close(tool.predict(tmp_path / "m.h5", data, tmp_path)[0][1], model.predict(data, verbose=0))


@pytest.mark.parametrize(("dtype", "policy"), tool.pick([(dtype, policy) for dtype in ("int32", "int8", "int64", "bool") for policy in
                                                          ("float32", "mixed_bfloat16", "float64", "mixed_float16")], 4, "dense of integers"))
def test_dense_of_integers(dtype, policy, tmp_path):
    rng = tool.generator("dense of integers", dtype, policy)
    x = keras.Input((4,))
    model = keras.Model(x, L.Dense(3, dtype=policy)(keras.ops.cast(x * 3.0, dtype)))
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    data = rng.normal(0, 1, (5, 4)).astype("float32")
    ours, theirs = tool.predict(tmp_path / "m.keras", data, tmp_path)[0][1], model.predict(data, verbose=0)
    tool.assert_close(np.asarray(ours).astype("float64"), np.asarray(theirs).astype("float64"), 1e-5 if policy.startswith("float") else 1e-2)


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_diagonals_have_a_shape(offset, tmp_path):
    rng, x = tool.generator("diagonals", str(offset)), keras.Input((3, 4))
    trace = keras.ops.trace(x, offset=offset, axis1=1, axis2=2)
    diagonal = keras.ops.diagonal(x, offset=offset, axis1=1, axis2=2)
    model = keras.Model(x, [L.Dense(2)(L.Reshape((1,))(trace)), L.Dense(2)(diagonal)])
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    data = rng.normal(0, 1, (5, 3, 4)).astype("float32")
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.keras", data, tmp_path), model.predict(data, verbose=0), strict=True):
        tool.assert_close(ours, theirs, 1e-5)


def test_tables_of_integers_stay_those_of_keras_2(tmp_path):
    T = tf_keras.layers
    x = tf_keras.Input((4,), dtype="int32")
    model = tf_keras.Model(x, T.IntegerLookup(vocabulary=[3, 1, 7], num_oov_indices=2)(x))
    data = tool.generator("tables").integers(0, 9, (5, 4)).astype("int32")
    model.save(tmp_path / "m.h5")
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "o.h5")
    wanted = model.predict(data, verbose=0)
    tool.assert_close(tf_keras.models.load_model(tmp_path / "o.h5").predict(data, verbose=0), wanted)
    tool.assert_close(tool.predict(tmp_path / "o.h5", data, tmp_path)[0][1], wanted)


def masked_model(module, rng):
    """Two outputs whose predictions have masks."""
    T = module.layers
    x = module.Input((4, 3), name="x")
    masked = T.Masking()(x)
    model = module.Model(x, [T.Dense(2, "sigmoid", name="a")(masked), T.Dense(2, "sigmoid", name="b")(T.LSTM(3, return_sequences=True)(masked))])
    model.set_weights([rng.normal(0, 0.7, w.shape) for w in model.get_weights()])
    return model


def metrics_of(module):
    M = module.metrics
    return [M.Precision(thresholds=0.4), M.AUC(num_thresholds=9), M.TruePositives(), M.RootMeanSquaredError(), M.MeanAbsoluteError(),
            M.SensitivityAtSpecificity(0.4), M.BinaryAccuracy(), *([M.BinaryIoU()] if module is keras else [])]  # tf-keras fails


@pytest.mark.parametrize("how", ["graph", "eager", "keras 2"])
def test_masks_in_metrics_and_losses_of_outputs(how, tmp_path):
    """In Keras 3 masks count for means of functions only, in Keras 2 for all metrics. The loss of an output is a mean of batches in
    graphs of Keras 3, and one of rows elsewhere."""
    module = tf_keras if how == "keras 2" else keras
    path = tmp_path / ("m.h5" if how == "keras 2" else "m.keras")

    def written():
        tf.config.run_functions_eagerly(how == "eager")
        rng = tool.generator("masks in metrics", how)
        model = masked_model(module, rng)
        options = dict(loss="mse", metrics=[metrics_of(module), ["mae"]], weighted_metrics=[[], metrics_of(module)])
        model.compile(module.optimizers.SGD(0.1), **options, run_eagerly=how == "eager")
        model.save(path)
        x = rng.normal(0, 1, (10, 4, 3)).astype("float32")
        x[rng.random((10, 4)) < 0.4] = 0
        y = [rng.integers(0, 2, (10, 4, 2)).astype("float32") for _ in range(2)]
        tool.save_npz(tmp_path / "d.npz", x=x, y_a=y[0], y_b=y[1])
        return module.models.load_model(path).evaluate(x, y, batch_size=4, verbose=0, return_dict=True)

    wanted = stored.original(written, tmp_path)
    found = json.loads(tool.ok("evaluate", path, "--data", tmp_path / "d.npz", "--batch-size", 4, "--json"))
    tool.assert_history({name: [found[name]] for name in sorted(found)}, {name: [wanted[name]] for name in sorted(wanted)})


def test_adjusted_r2_score_counts_numbers(tmp_path):
    rng = tool.generator("adjusted")
    model = keras.Sequential([keras.Input((3,)), L.Dense(2)])
    model.compile("sgd", "mse", metrics=[keras.metrics.R2Score(num_regressors=2)], run_eagerly=True)
    model.save(tmp_path / "m.keras")
    x, y = rng.normal(0, 1, (9, 3)).astype("float32"), rng.normal(0, 1, (9, 2)).astype("float32")
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    found = json.loads(tool.ok("evaluate", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--batch-size", 4, "--json"))
    assert np.isclose(found["r2_score"], model.evaluate(x, y, batch_size=4, verbose=0, return_dict=True)["r2_score"], rtol=1e-5)


STATEFUL = {
    "cells": ((4, 2), lambda: [L.RNN([L.LSTMCell(2), L.GRUCell(3)], stateful=True)]),
    "lstm": ((4, 2), lambda: [L.Bidirectional(L.LSTM(2, stateful=True))]),
    "convolutional": ((3, 4, 4, 2), lambda: [L.ConvLSTM2D(2, 2, stateful=True, return_sequences=True), L.Flatten(), L.Dense(2)]),
    "channels first": ((3, 2, 5), lambda: [L.ConvLSTM1D(2, 2, stateful=True, data_format="channels_first")]),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_states_stay_from_batch_to_batch(name, tmp_path):
    shape, layers = STATEFUL[name]

    def written():
        rng = tool.generator("stateful", name)
        model = keras.Sequential([keras.Input(batch_shape=(2, *shape)), *layers()])
        tool.randomise(model, rng)
        model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
        model.save(tmp_path / "m.keras")
        x = rng.normal(0, 1, (8, *shape)).astype("float32")
        try:
            wanted = keras.models.load_model(tmp_path / "m.keras").predict(x, batch_size=2, verbose=0)
        except Exception:  # TensorFlow's CPU kernels lack some layouts: nothing to compare with
            return None
        y = rng.normal(0, 1, wanted.shape).astype("float32")
        model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        return x, wanted, [[v.path, np.asarray(v)] for v in model.weights]

    given = stored.original(written, tmp_path)
    if given is None:
        pytest.skip("Keras itself refuses: kernels lack a layout")
    x, wanted, trained = given
    tool.assert_close(tool.predict(tmp_path / "m.keras", x, tmp_path, "--batch-size", 2)[0][1], wanted, 1e-5)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 2, "--no-shuffle", "--save", tmp_path / "o.keras")
    for ours, (path, theirs) in zip(stored.weights(keras, tmp_path / "o.keras"), trained, strict=True):
        tool.assert_close(ours, theirs, 1e-4, path)


def test_adapted_normalization_counts_in_int64(tmp_path):
    layer = L.Normalization()
    layer.adapt(np.arange(12.0).reshape(4, 3))
    model = keras.Sequential([keras.Input((3,)), layer])
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "o.keras")
    dtypes = []
    for name in ("m.keras", "o.keras"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            weights = h5py.File(io.BytesIO(archive.read("model.weights.h5")))["layers/normalization/vars"]
            dtypes.append([weights[key].dtype for key in sorted(weights)])
    assert dtypes[0] == dtypes[1]


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adafactor", "Nadam"])
def test_scaled_losses(name, fitted, tmp_path):
    """A LossScaleOptimizer that was never built has four variables in a file, as many as SGD in it has without rates; the inner
    Adafactor has none in the place of factors, and the inner Nadam not its product."""
    def written():
        rng = tool.generator("scaled", name)
        model = keras.Sequential([keras.Input((5,)), L.Dense(3)])
        model.compile(keras.optimizers.LossScaleOptimizer(getattr(keras.optimizers, name)(0.01), initial_scale=8.0), "mse", run_eagerly=True)
        x, y = rng.normal(0, 1, (12, 5)).astype("float32"), rng.normal(0, 1, (12, 3)).astype("float32")
        if fitted:
            model.fit(x, y, batch_size=6, shuffle=False, verbose=0)
        model.save(tmp_path / "m.keras")
        model = keras.models.load_model(tmp_path / "m.keras")
        model.fit(x, y, batch_size=6, shuffle=False, verbose=0)
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        model.save(tmp_path / "k.keras")
        model = keras.models.load_model(tmp_path / "k.keras")
        return [[v.path, np.asarray(v)] for v in [*model.weights, *model.optimizer.variables]]

    wanted = stored.original(written, tmp_path)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 6, "--no-shuffle", "--save", tmp_path / "o.keras")
    trained = keras.models.load_model(tmp_path / "o.keras")
    for ours, (path, theirs) in zip([*trained.weights, *trained.optimizer.variables], wanted, strict=True):
        tool.assert_close(np.asarray(ours), theirs, 1e-4, path)


def test_none_as_a_boolean(tmp_path):
    """It is false where the default is true."""
    rng, x = tool.generator("none"), keras.Input((3, 4))
    model = keras.Model(x, [L.Dense(3, use_bias=None)(x), L.LayerNormalization(center=None, scale=None)(x), L.GRU(3, reset_after=None)(x),
                            L.BatchNormalization(scale=None)(x), L.AdditiveAttention(use_scale=None)([x, x]), L.Conv1D(2, 2, use_bias=None)(x)])
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    data = rng.normal(0, 1, (5, 3, 4)).astype("float32")
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.keras", data, tmp_path), model(data), strict=True):
        tool.assert_close(ours, np.asarray(theirs), 2e-5, atol=1e-6)


@pytest.mark.parametrize("steps", [3, 4])
def test_weights_of_rows_weigh_their_steps_in_keras_2(steps, tmp_path):
    """Keras 3 multiplies the four rows of losses by them, or refuses."""
    T, rng = tf_keras.layers, tool.generator("weights of rows", steps)
    model = tf_keras.Sequential([T.InputLayer((steps, 3)), T.Masking(), T.Dense(2)])
    model.compile(tf_keras.optimizers.SGD(0.1), "mse", weighted_metrics=["mae"])
    model.save(tmp_path / "m.h5")
    x, y, w = rng.normal(0, 1, (4, steps, 3)).astype("float32"), rng.normal(0, 1, (4, steps, 2)).astype("float32"), rng.uniform(0, 2, 4).astype("float32")
    x[0, 0] = 0
    tool.save_npz(tmp_path / "d.npz", x=x, y=y, sample_weight=w)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--history", tmp_path / "h.json",
            "--save", tmp_path / "o.h5")
    history = model.fit(x, y, sample_weight=w, epochs=2, batch_size=4, shuffle=False, verbose=0).history
    tool.assert_history(tool.load_history(tmp_path / "h.json"), dict(sorted(history.items())))
    for ours, theirs in zip(tf_keras.models.load_model(tmp_path / "o.h5").get_weights(), model.get_weights(), strict=True):
        tool.assert_close(ours, theirs, 1e-4)


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_evenly_spread_thresholds_take_predictions_for_probabilities(scale, tmp_path):
    """Keras counts predictions below 0 as 0 and those above 1 as 1; only AUC has a threshold below 0."""
    def written():
        rng, M = tool.generator("thresholds", scale), keras.metrics
        x = keras.Input((1,))
        model = keras.Model(x, L.Activation("linear")(x))
        curves = [M.AUC(20, curve=curve, summation_method=way, name=f"{curve}_{way}".lower()) for curve in ("ROC", "PR")
                  for way in ("interpolation", "majoring", "minoring")]
        model.compile("sgd", "mse", run_eagerly=True, metrics=[
            *curves, M.AUC(multi_label=True, num_labels=1, name="labels"), M.PrecisionAtRecall(0.1), M.SpecificityAtSensitivity(0.1, num_thresholds=5),
            M.SensitivityAtSpecificity(0.9), M.Precision([0.0, 0.25, 0.5, 0.75, 1.0]), M.TruePositives([0.0, 0.5, 1.0]), M.FalseNegatives([0.0, 0.3])])
        model.save(tmp_path / "m.keras")
        data = rng.normal(0.5, scale, (40, 1)).astype("float32")
        data[:3], data[3:6] = 0, 1
        labels = rng.integers(0, 2, (40, 1)).astype("float32")
        tool.save_npz(tmp_path / "d.npz", x=data, y=labels)
        return model.evaluate(data, labels, verbose=0, return_dict=True)

    wanted = stored.original(written, tmp_path)
    ours = json.loads(tool.ok("evaluate", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--json"))
    for name, value in wanted.items():
        np.testing.assert_allclose(ours[name], np.asarray(value), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("module", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_weights_of_rows_for_some_outputs(module, tmp_path):
    rng, T = tool.generator("weights of some outputs"), module.layers
    x = module.Input((4,))
    model = module.Model(x, [T.Dense(2, name="a")(x), T.Dense(1, name="b")(x)])
    model.compile(module.optimizers.SGD(0.1), "mse", weighted_metrics=[["mae"], ["mae"]])
    saved = tmp_path / ("m.keras" if module is keras else "m.h5")  # Keras 3 reads other names of metrics from .h5
    model.save(saved)
    data, w = rng.normal(0, 1, (6, 4)).astype("float32"), rng.uniform(0, 2, 6).astype("float32")
    y = [rng.normal(0, 1, (6, n)).astype("float32") for n in (2, 1)]
    tool.save_npz(tmp_path / "d.npz", x=data, y_a=y[0], y_b=y[1], sample_weight_b=w)
    tool.ok("fit", saved, "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 3, "--no-shuffle", "--history", tmp_path / "h.json")
    history = model.fit(data, y, sample_weight=[None, w], epochs=2, batch_size=3, shuffle=False, verbose=0).history
    tool.assert_history(tool.load_history(tmp_path / "h.json"), dict(sorted(history.items())))
    tool.save_npz(tmp_path / "d.npz", x=data, y_a=y[0], y_b=y[1], sample_weight_c=w)
    assert "no output for the array 'sample_weight_c'; the outputs are a, b" in tool.refused(
        "fit", saved, "--data", tmp_path / "d.npz", "--epochs", 1)


@pytest.mark.parametrize("name", ["m.h5", "m.keras"])
def test_states_of_stacked_cells_are_lists_in_keras_2(name, tmp_path):
    T, rng = tf_keras.layers, tool.generator("states of stacked cells")
    x, *states = [tf_keras.Input(shape) for shape in ((4, 3), (5,), (5,), (6,), (6,))]
    model = tf_keras.Model([x, *states], T.RNN([T.LSTMCell(5), T.LSTMCell(6)])(x, initial_state=[states[:2], states[2:]]))
    model.save(tmp_path / name)
    data = [rng.normal(0, 1, (2, *v.shape[1:])).astype("float32") for v in model.inputs]
    tool.assert_close(tool.predict(tmp_path / name, data, tmp_path)[0][1], model(data).numpy(), 1e-5)

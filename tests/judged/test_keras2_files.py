"""Files of Keras 2 (.h5) in both directions: what tf-keras saved is converted and opened by tf-keras again, and models of
Keras 3 are written for it (--dialect keras2)."""

import io
import json
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import layer_table
import lockstep_tool as tool
import stored
from keras2_models import (
    arrays, bidirectional, data_of, dense, image, IMAGE, mixed, MODELS, nested, NOT_IN_KERAS_3, others,
    predicted, randomised, recurrent, SEQUENCE, shared, VECTOR)

pytestmark = pytest.mark.usefixtures("eagerly")
L = tf_keras.layers


@pytest.mark.quick(9)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_models_of_keras_2_stay_models_of_keras_2(make, tmp_path):
    def written():
        rng = tool.generator("keras2", make.__name__)
        model = randomised(make(), rng)
        data = data_of(model, rng)
        by_name = isinstance(model.input, dict)
        model.save(tmp_path / "m.h5")
        return [model.name, [layer.name for layer in model.layers]], model.get_weights(), data, by_name, predicted(model, data, by_name)

    def read():
        again = tf_keras.models.load_model(tmp_path / "out.h5")
        return [again.name, [layer.name for layer in again.layers]], again.get_weights(), predicted(again, data, by_name)

    rtol = 2e-3 if make is mixed else 1e-6
    names, weights, data, by_name, expected = stored.original(written, tmp_path, rtol=max(rtol, 1e-4))
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.h5")
    names_again, weights_again, predicted_again = stored.original(read, files=[tmp_path / "out.h5"], rtol=max(rtol, 1e-4))
    assert names_again == names
    for ours, theirs in zip(weights_again, weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(predicted_again, expected, strict=True):
        tool.assert_close(ours, theirs, rtol)
    if tool.CONTROL:
        return
    # And the file means the same here.
    x = data if by_name else list(data.values())
    rtol = max(rtol, 1e-5)
    for (_, ours), (_, theirs) in zip(tool.predict(tmp_path / "out.h5", x, tmp_path), tool.predict(tmp_path / "m.h5", x, tmp_path),
                                      strict=True):
        tool.assert_close(ours, theirs, 0)
    if make not in NOT_IN_KERAS_3:
        def three():
            return predicted(keras.models.load_model(tmp_path / "out.h5", compile=False), data, by_name)

        for ours, theirs in zip(stored.original(three, files=[tmp_path / "out.h5"]), expected, strict=True):
            tool.assert_close(ours, theirs, rtol)


def as_keras_2_13(monkeypatch):
    """Weights under the names that Keras 2.12 and 2.13 gave: attributes in alphabetical order, `_layer_checkpoint_dependencies`
    among them, and layers that a container has twice counted twice."""
    from tf_keras.src.saving import saving_lib
    skipped = saving_lib.ATTR_SKIPLIST - {"_layer_checkpoint_dependencies"}

    def attributes(trackable):
        for name in sorted(dir(trackable)):
            if not name.startswith("__") and name not in skipped:
                try:
                    yield name, getattr(trackable, name)
                except Exception:
                    pass

    def container(items, weights_store, assets_store, inner_path, visited_trackables):
        used = {}
        for item in list(items.values()) if isinstance(items, dict) else items:
            if saving_lib._is_keras_trackable(item):
                name = saving_lib.generic_utils.to_snake_case(item.__class__.__name__)
                used[name] = used.get(name, -1) + 1
                path = f"{inner_path}/{name}_{used[name]}" if used[name] else f"{inner_path}/{name}"
                saving_lib._save_state(item, weights_store, assets_store, path, visited_trackables)

    monkeypatch.setattr(saving_lib, "_walk_trackable", attributes)
    monkeypatch.setattr(saving_lib, "_save_container_state", container)


@pytest.mark.parametrize("make", [image, recurrent, bidirectional, nested, shared, others], ids=lambda make: make.__name__)
def test_names_of_weights_in_keras_2_13(make, tmp_path):
    if tool.CONTROL:
        return  # tf-keras does not read what older versions wrote

    def written():
        rng = tool.generator("keras2.13", make.__name__)
        model = randomised(make(), rng)
        data = data_of(model, rng)
        expected = predicted(model, data, False)
        with pytest.MonkeyPatch.context() as patch:
            as_keras_2_13(patch)
            model.save(tmp_path / "m.keras")
        return data, expected

    data, expected = stored.original(written, tmp_path)
    with zipfile.ZipFile(tmp_path / "m.keras") as archive, h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as weights:
        assert "_layer_checkpoint_dependencies" in weights
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.keras", list(data.values()), tmp_path), expected, strict=True):
        tool.assert_close(ours, theirs)


# What Keras 2 has no class, activation or argument for.
LACKING = {"ReversibleEmbedding", "MelSpectrogram", "RMSNormalization", "GroupQueryAttention", "STFTSpectrogram"}


def rows_for_keras_2():
    for number, (name, kwargs, shapes, options) in enumerate(layer_table.TABLE + layer_table.MORE):
        activations = {kwargs.get("activation"), kwargs.get("recurrent_activation")} - {None}
        known = all(a != "hard_sigmoid" and a in keras2_activations() for a in activations)
        broken = name == "LayerNormalization" and isinstance(kwargs.get("axis"), list)  # in tf-keras itself
        on_gpus = kwargs.get("data_format") == "channels_first" and name.startswith(("Conv", "MaxPool", "AveragePool"))  # of Keras alone
        on_gpus = on_gpus or (name.endswith("Transpose") and kwargs.get("dilation_rate", 1) != 1)
        if hasattr(L, name) and name not in LACKING and known and not broken and not on_gpus and all(isinstance(s, tuple) for s in shapes):
            yield pytest.param(name, kwargs, shapes, options, id=f"{number}-{name}")


def keras2_activations():
    return {"elu", "exponential", "gelu", "leaky_relu", "linear", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
            "softmax", "softplus", "softsign", "swish", "tanh"}


@pytest.mark.parametrize(("name", "kwargs", "shapes", "options"), tool.pick(rows_for_keras_2(), 36, "keras2"))
def test_layers_of_keras_3_for_keras_2(name, kwargs, shapes, options, tmp_path):
    def written():
        rng = tool.generator("keras2", name, str(kwargs))
        whole = "ints" in options
        inputs = [keras.Input(shape, dtype="int32" if whole else None) for shape in shapes]
        layer = getattr(keras.layers, name)(**kwargs)
        call = options.get("call", {})
        several = name == "MultiHeadAttention"
        y = layer(*inputs, **call) if several else layer(inputs if len(inputs) > 1 else inputs[0], **call)
        model = keras.Model(inputs, y)
        tool.randomise(model, rng)
        x = [(rng.integers(0, options["ints"], (3, *shape)) if whole else rng.normal(0, 1, (3, *shape)))
             .astype("int32" if whole else "float32") for shape in shapes]
        model.save(tmp_path / "m.keras")
        return x, arrays(model.predict(x, verbose=0))

    def read():
        return arrays(tf_keras.models.load_model(tmp_path / "out.h5", compile=False).predict(x, verbose=0))

    x, wanted = stored.original(written, tmp_path)
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.h5", "--dialect", "keras2")
    for ours, theirs in zip(stored.original(read, files=[tmp_path / "out.h5"]), wanted, strict=True):
        tool.assert_close(ours, theirs, options.get("rtol", 1e-5), name, atol=1e-6)


REFUSED = [
    (lambda: keras.layers.RMSNormalization(), "RMSNormalization"),
    (lambda: keras.layers.Activation("celu", name="act"), "layer 'act': Keras 2 has no activation 'celu'"),
    (lambda: keras.layers.Activation("hard_sigmoid", name="act"), "slope"),
    (lambda: keras.layers.Resizing(3, 3, pad_to_aspect_ratio=True, name="r"), "Resizing 'r': Keras 2 has no argument"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_keras_2_lacks_is_named(number, tmp_path):
    make, text = REFUSED[number]
    keras.Sequential([keras.Input(IMAGE), make()]).save(tmp_path / "m.keras")
    if tool.CONTROL:
        return
    line = tool.refused("convert", tmp_path / "m.keras", tmp_path / "out.h5", "--dialect", "keras2", code=1)
    assert text in line
    assert not (tmp_path / "out.h5").exists()


def test_operations_without_a_form_in_keras_2_are_written_for_keras_3(tmp_path):
    rng = tool.generator("keras2", "operations")
    x = tf_keras.Input(VECTOR)
    most = tf.expand_dims(tf.reduce_max(x, 1), [1])  # tf.expand_dims of Keras 2 is written with a number
    model = randomised(tf_keras.Model(x, L.Dense(3)(x * 2.0 + most)), rng)
    model.save(tmp_path / "m.h5")
    data = rng.normal(0, 1, (4, *VECTOR)).astype("float32")
    if tool.CONTROL:
        return
    result = tool.run("convert", tmp_path / "m.h5", tmp_path / "out.h5")
    assert result.code == 0 and "written for Keras 3" in result.err, str(result)
    np.save(tmp_path / "x.npy", data)  # Keras does not read back its own .h5 files of such models
    tool.ok("predict", tmp_path / "out.h5", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    tool.assert_close(np.load(tmp_path / "y.npy"), model.predict(data, verbose=0), 1e-5)
    tool.refused("convert", tmp_path / "m.h5", tmp_path / "two.h5", "--dialect", "keras2", code=1)


def test_the_dialect_of_a_file_can_be_chosen(tmp_path):
    rng = tool.generator("keras2", "dialect")
    model = randomised(dense(), rng)
    model.save(tmp_path / "m.h5")
    x = rng.normal(0, 1, (4, *VECTOR)).astype("float32")
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "three.h5", "--dialect", "keras3")
    with h5py.File(tmp_path / "three.h5") as file:
        assert str(file.attrs["keras_version"]).startswith("3")
    tool.assert_close(keras.models.load_model(tmp_path / "three.h5").predict(x, verbose=0), model.predict(x, verbose=0), 1e-5)
    assert "keras2" in tool.refused("convert", tmp_path / "m.h5", tmp_path / "o.h5", "--dialect", "keras1", code=2)
    assert ".h5" in tool.refused("convert", tmp_path / "m.h5", tmp_path / "o.keras", "--dialect", "keras2", code=2)


def test_calls_keep_their_argument_training(tmp_path):
    """Keras 2 obeys it in training and in inference."""
    x, core = tf_keras.Input(VECTOR), tf_keras.Input(VECTOR)
    inner = tf_keras.Model(core, L.BatchNormalization()(core, training=True))
    outputs = [L.BatchNormalization()(x, training=False), inner(x), L.BatchNormalization()(L.Dropout(0.5)(x, training=False), training=True)]
    tf_keras.Model(x, outputs).save(tmp_path / "m.h5")
    values = tool.generator("argument training").normal(0, 1, (6, *VECTOR)).astype("float32")

    def both(name):
        return lambda: [np.asarray(y) for training in (False, True) for y in tf_keras.models.load_model(tmp_path / name, compile=False)(values, training=training)]

    tool.ok("convert", tmp_path / "m.h5", tmp_path / "again.h5")
    found, wanted = (stored.original(both(name), files=[tmp_path / name]) for name in ("again.h5", "m.h5"))
    for ours, theirs in zip(found, wanted, strict=True):
        tool.assert_close(ours, theirs, 1e-6)


def attending(module, **kwargs):
    x = module.Input((4,))
    y = module.layers.Embedding(5, 3, mask_zero=True)(x)
    return module.Model(x, module.layers.MultiHeadAttention(2, 3, name="layer", **kwargs)(y, y))


def called(module, layer, **kwargs):
    x = module.Input(VECTOR)
    return module.Model(x, layer(x, **kwargs))


@pytest.mark.parametrize(("module", "make", "text"), [
    *[(module, lambda m: attending(m, dropout=0.1), "hides everything") for module in (keras, tf_keras)],
    *[(module, lambda m: attending(m, activity_regularizer="l2"), "activity regularizer") for module in (keras, tf_keras)],
    (tf_keras, lambda m: called(m, m.layers.Dropout(0.5, name="layer"), training=True), "argument training"),
    *[(module, attending, "") for module in (keras, tf_keras)],
    *[(module, lambda m: called(m, m.layers.Dropout(0.5)), "") for module in (keras, tf_keras)],
    (tf_keras, lambda m: m.Sequential([m.layers.InputLayer(VECTOR), m.layers.Dropout(0.5)]), "")])
def test_what_files_of_the_other_version_change(module, make, text, tmp_path):
    """Each version computes it in its way, and no config tells the other one to do so."""
    make(module).save(tmp_path / ("m.keras" if module is keras else "m.h5"))
    if tool.CONTROL:
        return
    for name in ("out.keras", "out.h5"):
        dialect = ["--dialect", "keras2"] if name == "out.h5" else []
        same = (module is keras) == (name == "out.keras")
        messages = tool.run("convert", next(tmp_path.glob("m.*")), tmp_path / name, *dialect).err
        assert ("layer 'layer'" in messages and text in messages) if text and not same else not messages, messages


def test_training_in_calls_of_keras_3(tmp_path):
    """Keras 3 writes it into configs, and replaces it by that of the model's call; Keras 2 obeys it."""
    called(keras, keras.layers.Dropout(0.5), training=False).save(tmp_path / "m.keras")
    if not tool.CONTROL:
        tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.h5", "--dialect", "keras2")
        assert (tf_keras.models.load_model(tmp_path / "out.h5", compile=False)(np.ones((50, *VECTOR)), training=True).numpy() == 0).any()


def test_cells_of_one_path(tmp_path):
    """Both directions have a cell, whose weights had one name in the file."""
    rng = tool.generator("keras2", "cells")
    model = keras.Sequential([keras.Input(SEQUENCE), keras.layers.Bidirectional(keras.layers.RNN(keras.layers.GRUCell(2)))])
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    x = rng.normal(0, 1, (4, *SEQUENCE)).astype("float32")
    if tool.CONTROL:
        return
    for dialect, module in ("keras2", tf_keras), ("keras3", keras):
        tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.h5", "--dialect", dialect)
        again = module.models.load_model(tmp_path / "out.h5", compile=False)
        tool.assert_close(again.predict(x, verbose=0), model.predict(x, verbose=0), 1e-5, dialect)


def test_embeddings_with_the_dtype_of_their_indices(tmp_path):
    """Keras 2.0 wrote the dtype of the input into the config of an Embedding, whose weights were floats."""
    rng = tool.generator("keras2", "embedding")
    model = randomised(tf_keras.Sequential([L.InputLayer((4,), dtype="int32"), L.Embedding(7, 3), L.Flatten(), L.Dense(2)]), rng)
    x = rng.integers(0, 7, (5, 4)).astype("int32")
    expected = model(x).numpy()
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "a") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1]["config"]["dtype"] = "int32"
        file.attrs["model_config"] = json.dumps(config).encode()
        file.attrs["keras_version"] = b"2.0.4"
    np.save(tmp_path / "x.npy", x)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "m.keras")
    for name in ("m.h5", "m.keras"):
        tool.ok("predict", tmp_path / name, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        tool.assert_close(np.load(tmp_path / "y.npy"), expected, 1e-6, name)


def operation(op, constants=None, **attributes):
    """A layer for one operation of TensorFlow, as functional models of TensorFlow 2.0 to 2.3 have it."""
    from tf_keras.src.engine.base_layer import TensorFlowOpLayer
    node = {"name": op, "op": op, "input": ["a", "b", "c"], "attr": attributes}
    return TensorFlowOpLayer(node, op, constants)


def test_operations_of_tensorflow(tmp_path):
    tf.config.run_functions_eagerly(False)  # these layers add to a graph
    real, index = {"T": {"type": "DT_FLOAT"}}, {"Tidx": {"type": "DT_INT32"}}
    x = tf_keras.Input((4, 3))
    y = operation("Mul", {1: [[[1.0, -2.0, 0.5]]]}, **real)(x)
    y = operation("AddV2", {0: 3.0}, **real)(y)
    z = operation("Mean", {1: [1]}, keep_dims={"b": True}, **real, **index)(y)
    y = operation("Square", **real)(operation("Sub", **real)([y, z]))
    y = operation("ConcatV2", {2: -1}, N={"i": "2"}, **real, **index)([y, x])
    a = operation("LeakyRelu", alpha={"f": 0.125}, **real)(L.Dense(2)(y))
    model = tf_keras.Model(x, [a, operation("Transpose", {1: [0, 2, 1]}, Tperm={"type": "DT_INT32"}, **real)(y)])
    model.save(tmp_path / "m.h5")
    data = tool.generator("operations").normal(0, 1, (3, 4, 3)).astype("float32")
    expected = [np.asarray(v) for v in model(data)]
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.h5", data, tmp_path), expected, strict=True):
        tool.assert_close(ours, theirs)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "sm", "--to", "saved_model")
    for (_, ours), theirs in zip(tool.predict(tmp_path / "sm", data, tmp_path), expected, strict=True):
        tool.assert_close(ours, theirs)


def test_archives_of_windows(tmp_path):
    """There tf-keras joined the path of an object with backslashes, so that each object has one group below the root."""
    rng = tool.generator("keras2", "windows")
    model = randomised(tf_keras.Sequential([L.InputLayer(SEQUENCE), L.LSTM(4), L.Dense(6, "tanh"), L.Dense(2)]), rng)
    model.save(tmp_path / "m.keras")
    x = rng.normal(0, 1, (5, *SEQUENCE)).astype("float32")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive, zipfile.ZipFile(tmp_path / "w.keras", "w") as windows:
        for name in archive.namelist():
            data = archive.read(name)
            if name == "model.weights.h5":
                out = io.BytesIO()
                with h5py.File(io.BytesIO(data)) as file, h5py.File(out, "w") as flat:
                    def visit(path, node):
                        if isinstance(node, h5py.Dataset):
                            owner, number = path.rsplit("/vars/", 1)
                            flat.require_group(owner.replace("/", "\\")).create_dataset(f"vars/{number}", data=node[()])
                    file.visititems(visit)
                data = out.getvalue()
            windows.writestr(name, data)
    tool.assert_close(tool.predict(tmp_path / "w.keras", x, tmp_path)[0][1], model(x).numpy(), 1e-6)


O = keras.ops
COLOURS = np.array([1.0, 2.0, 3.0], "float32")
# Operations of keras.ops on a and b of shape (4, 6, 3), which Keras 2 has as functions of TensorFlow.
OPERATIONS = [
    lambda a, b: a + b, lambda a, b: 2 - a, lambda a, b: a * COLOURS, lambda a, b: a / b, lambda a, b: 1 / a, lambda a, b: -a, lambda a, b: a**2,
    lambda a, b: a // 2.0, lambda a, b: a % 2.0, lambda a, b: O.maximum(a, 0.1), lambda a, b: a[:, 0], lambda a, b: a[..., ::-1],
    lambda a, b: a[:, -1, 2:, 0], lambda a, b: a[:, None], lambda a, b: O.concatenate([a, b], -1), lambda a, b: O.stack([a, b], 1),
    lambda a, b: O.split(a, [1, 3], axis=2)[1], lambda a, b: O.split(a, 3, axis=-1)[2], lambda a, b: O.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]]),
    lambda a, b: O.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]], "reflect"), lambda a, b: O.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]], constant_values=2.0),
    lambda a, b: O.mean(a, (1, 2)), lambda a, b: O.sum(a, 1, keepdims=True), lambda a, b: O.max(a, 1), lambda a, b: O.std(a, 1),
    lambda a, b: O.logsumexp(a, -1), lambda a, b: O.norm(a, axis=-1), lambda a, b: O.transpose(a, (0, 2, 1, 3)), lambda a, b: O.expand_dims(a, 1),
    lambda a, b: O.squeeze(a[:, :1], 1), lambda a, b: O.relu(a), lambda a, b: O.gelu(a), lambda a, b: O.gelu(a, False), lambda a, b: O.leaky_relu(a, 0.3),
    lambda a, b: O.softmax(a, 1), lambda a, b: O.where(a > 0.5, a, 0.0), lambda a, b: O.cast(O.logical_and(a > 0, b <= 0), "float32"),
    lambda a, b: O.image.resize(a, (8, 9)), lambda a, b: O.image.resize(a, (2, 3), interpolation="nearest"),
    lambda a, b: O.matmul(a, O.transpose(b, (0, 1, 3, 2))), lambda a, b: O.clip(a, 0.0, 1.0), lambda a, b: O.tile(a, (1, 2, 1, 1)),
    lambda a, b: O.repeat(a, 2, axis=1), lambda a, b: O.take(a, np.array([0, 2]), axis=1), lambda a, b: O.normalize(a), lambda a, b: O.flip(a, axis=1),
    lambda a, b: O.one_hot(O.cast(abs(a[..., 0]), "int32"), 4), lambda a, b: O.cumsum(a, axis=1), lambda a, b: O.unstack(a, axis=3)[1],
    lambda a, b: O.reshape(a, (-1, 72)), lambda a, b: O.depth_to_space(O.concatenate([a, b, a, b], -1), 2), lambda a, b: O.sqrt(O.abs(a)),
    lambda a, b: O.argmax(a, axis=1), lambda a, b: O.argmin(a, axis=-1),
]


def test_operations_of_keras_3_for_keras_2(tmp_path):
    rng = tool.generator("keras2", "functions")
    a, b = keras.Input((4, 6, 3)), keras.Input((4, 6, 3))
    model = keras.Model([a, b], [operation(a, b) for operation in OPERATIONS])
    x = [rng.normal(0, 1, (3, 4, 6, 3)).astype("float32") for _ in range(2)]
    model.save(tmp_path / "m.keras")
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.h5", "--dialect", "keras2")
    two = tf_keras.models.load_model(tmp_path / "out.h5", compile=False)
    ours = tool.predict(tmp_path / "out.h5", x, tmp_path)
    for number, (theirs, (_, back), wanted) in enumerate(zip(two(x), ours, model(x), strict=True)):
        tool.assert_close(np.asarray(theirs), np.asarray(wanted), 1e-5, f"operation {number} in tf-keras", atol=1e-6)
        tool.assert_close(back, np.asarray(wanted), 1e-5, f"operation {number} read again", atol=1e-6)


@pytest.mark.parametrize(("make", "text"), [(lambda x: O.mean(O.cast(x, "int32"), 1), "another dtype"), (lambda x: O.argsort(x, 1), "no form in Keras 2"),
                                            (lambda x: x + O.cast(x, "int32"), "does not combine")])
def test_operations_that_keras_2_lacks_are_named(make, text, tmp_path):
    x = keras.Input(VECTOR)
    keras.Model(x, make(x)).save(tmp_path / "m.keras")
    if not tool.CONTROL:
        assert text in tool.refused("convert", tmp_path / "m.keras", tmp_path / "out.h5", "--dialect", "keras2", code=1)


def two_outputs(K, metrics, weighted=None):
    inputs = K.Input((5,))
    h = K.layers.Dense(6, "tanh")(inputs)
    model = K.Model(inputs, [K.layers.Dense(3, "softmax", name="kind")(h), K.layers.Dense(3, "softmax", name="share")(h)])
    losses = {"kind": K.losses.SparseCategoricalCrossentropy(), "share": K.losses.KLDivergence()}
    model.compile("sgd", losses, metrics=metrics, weighted_metrics=weighted, loss_weights={"kind": 1.0, "share": 0.5})
    return model


def evaluated(model, x, kind, share):
    return model.evaluate(x, {"kind": kind, "share": share}, batch_size=8, verbose=0, return_dict=True)


@pytest.mark.skipif(tool.CONTROL, reason="the tool converts")
def test_compile_arguments_in_the_other_version(tmp_path):
    """Losses and metrics mean the same after a conversion in either direction."""
    rng = tool.generator("compile_arguments")
    x = rng.normal(size=(8, 5)).astype("float32")
    kind, share = rng.integers(0, 3, 8), rng.dirichlet([1, 1, 1], 8).astype("float32")
    # tf-keras writes "fn" and the reduction "auto"; names of functions that Keras 3 does not know
    model = two_outputs(tf_keras, {"kind": ["acc"], "share": ["kullback_leibler_divergence"]})
    expected = evaluated(model, x, kind, share)
    model.save(tmp_path / "2.keras")
    model.save(tmp_path / "2.h5")
    for source in ("2.keras", "2.h5"):
        for target in ("3.keras", "3.h5"):
            tool.ok("convert", tmp_path / source, tmp_path / target, *(["--dialect", "keras3"] if target == "3.h5" else []))
            found = evaluated(keras.models.load_model(tmp_path / target), x, kind, share)
            # Keras 3 writes the name of the output before names that have it already
            found = {key.replace("kind_kind", "kind").replace("share_share", "share"): value for key, value in found.items()}
            assert found.keys() == expected.keys(), f"{source} to {target}"
            assert all(np.isclose(found[key], expected[key], rtol=1e-5) for key in expected), f"{source} to {target}"
    # Keras 2 would take "accuracy" in a file for that of one-hot targets, and the names of a file as they are
    model = two_outputs(keras, {"kind": ["accuracy"], "share": ["accuracy"]}, {"kind": ["accuracy"]})
    expected = evaluated(model, x, kind, share)
    model.save(tmp_path / "new.keras")
    tool.ok("convert", tmp_path / "new.keras", tmp_path / "old.h5", "--dialect", "keras2")
    found = evaluated(tf_keras.models.load_model(tmp_path / "old.h5"), x, kind, share)
    assert found.keys() == expected.keys()
    assert all(np.isclose(found[key], expected[key], rtol=1e-5) for key in expected)


@pytest.mark.skipif(tool.CONTROL, reason="the tool loads")
def test_boundaries_that_were_learnt(tmp_path):
    """tf-keras keeps a summary of the values that Discretization.adapt() has seen, not the boundaries."""
    rng = tool.generator("boundaries")
    layer = tf_keras.layers.Discretization(num_bins=5)
    layer.adapt(rng.normal(size=(300, 1)).astype("float32"))
    model = tf_keras.Sequential([tf_keras.Input((1,)), layer])
    x = rng.normal(size=(40, 1)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    for name in ("m.keras", "m.h5"):
        model.save(tmp_path / name)
        tool.ok("predict", tmp_path / name, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        assert np.array_equal(np.load(tmp_path / "y.npy"), model.predict(x, verbose=0)), name
        tool.ok("convert", tmp_path / name, tmp_path / "ours.h5", "--dialect", "keras2")
        assert np.array_equal(tf_keras.models.load_model(tmp_path / "ours.h5").predict(x, verbose=0), model.predict(x, verbose=0)), name


@pytest.mark.skipif(tool.CONTROL, reason="the tool loads")
@pytest.mark.parametrize("axis, mean", [(-1, [[[1.0, 2.0, 3.0]]]), ((1, 2), [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]), (None, [2.0])])
def test_means_with_leading_axes_of_one(axis, mean, tmp_path):
    """Keras 2 takes them in Normalization, Keras 3 does not."""
    model = tf_keras.Sequential([tf_keras.Input((2, 3)), tf_keras.layers.Normalization(axis=axis, mean=mean, variance=mean)])
    x = tool.generator("means", str(axis)).normal(size=(4, 2, 3)).astype("float32")
    model.save(tmp_path / "m.h5")
    tool.assert_close(tool.predict(tmp_path / "m.h5", x, tmp_path)[0][1], model.predict(x, verbose=0))


@pytest.mark.skipif(tool.CONTROL, reason="the tool evaluates")
@pytest.mark.parametrize("keras2", [True, False])
@pytest.mark.parametrize("loss", [{"a": "mean_squared_error", "c": "mean_absolute_error"}, {"b": "mean_absolute_error"}])
def test_outputs_without_an_entry_in_the_losses(loss, keras2, tmp_path):
    """Keras 2, and Keras 3 for a dict of outputs, train them with no loss."""
    library, rng = tf_keras if keras2 else keras, tool.generator("entries", *loss)
    inputs = library.Input((3,))
    model = library.Model(inputs, {name: library.layers.Dense(2, name=name)(inputs) for name in "abc"})
    model.compile("sgd", loss, metrics={"a": ["mean_absolute_error"]})
    model.save(tmp_path / "m.keras")
    x, y = rng.normal(size=(8, 3)).astype("float32"), {name: rng.normal(size=(8, 2)).astype("float32") for name in "abc"}
    tool.save_npz(tmp_path / "d.npz", x=x, **{f"y_{name}": value for name, value in y.items()})
    found = json.loads(tool.ok("evaluate", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--json"))
    expected = model.evaluate(x, y, verbose=0, return_dict=True)
    assert found.keys() == expected.keys()
    assert all(np.isclose(found[key], expected[key], rtol=1e-5) for key in expected)


@pytest.mark.skipif(tool.CONTROL, reason="the tool evaluates")
@pytest.mark.parametrize("key", ["metrics", "weighted_metrics"])
def test_names_of_metrics_in_files_of_keras_3(key, tmp_path):
    """Keras 3 makes objects of the names in an .h5 file, which have the names of their classes, but not in a .keras file."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "softmax")])
    model.compile("sgd", keras.losses.MeanSquaredError(), **{key: ["mse", "MAE", "acc", "bce", "BinaryAccuracy", "kl_divergence"]})
    rng = tool.generator("names of metrics")
    x, y = rng.normal(size=(8, 3)).astype("float32"), np.eye(2, dtype="float32")[rng.integers(0, 2, 8)]
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    for name in ("m.h5", "m.keras"):
        model.save(tmp_path / name)
        expected = keras.models.load_model(tmp_path / name).evaluate(x, y, verbose=0, return_dict=True)
        found = json.loads(tool.ok("evaluate", tmp_path / name, "--data", tmp_path / "d.npz", "--json"))
        assert found.keys() == expected.keys(), name
        assert all(np.isclose(found[of], expected[of], rtol=1e-5) for of in expected), name


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
def test_radial_constraint(tmp_path):
    """A constraint that Keras 3 does not have, on kernels of odd and even size."""
    model = tf_keras.Sequential([tf_keras.Input((7, 7, 2)), *[
        L.Conv2D(3, size, kernel_constraint=tf_keras.constraints.RadialConstraint(), padding="same") for size in (2, 3, 4, 5)]])
    # The constraint of tf-keras fails in a graph of its training step.
    model.compile(tf_keras.optimizers.legacy.SGD(0.1), tf_keras.losses.MeanSquaredError(), run_eagerly=True)
    rng = tool.generator("radial")
    x, y = rng.normal(size=(4, 7, 7, 2)).astype("float32"), rng.normal(size=(4, 7, 7, 3)).astype("float32")
    model.save(tmp_path / "m.h5")
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4, "--save", tmp_path / "o.h5")
    model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    for ours, theirs in zip(tf_keras.models.load_model(tmp_path / "o.h5").get_weights(), model.get_weights(), strict=True):
        tool.assert_close(ours, theirs, 1e-5)


@pytest.mark.parametrize(("module", "name"), [(tf_keras, "m.h5"), (tf_keras, "m.keras"), (keras, "m.h5")], ids=range(3))
def test_metrics_of_the_users_own(module, name, tmp_path):
    """Functions of programs are left out with a warning; the rest of the compile arguments counts."""
    def own(y_true, y_pred):
        return y_pred - y_true

    model = module.Sequential([module.Input((3,)), module.layers.Dense(2)])
    model.compile(module.optimizers.SGD(0.25), "mse", metrics=[own])
    model.save(tmp_path / name)
    for target in ("o.keras", "o.h5"):
        done = tool.run("convert", tmp_path / name, tmp_path / target)
        assert done.code == 0 and "compiled without metrics" in done.err and "'own'" in done.err, done
    again = keras.models.load_model(tmp_path / "o.keras")
    assert again.optimizer.get_config()["learning_rate"] == 0.25 and again.loss == "mse"

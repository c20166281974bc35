"""SavedModels: real TensorFlow writes and lockstep runs; lockstep writes and every loader of TensorFlow runs, and trains."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import dtypes

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

F32 = tf.float32
CONSTANT = tf.cast([[5, -1]], dtypes.int4)
X34 = tf.TensorSpec([None, 4], F32, name="x")


class Affine(tf.Module):
    def __init__(self):
        super().__init__()
        rng = tool.generator("affine")
        self.w = tf.Variable(rng.normal(size=(4, 3)).astype("f"), name="w")
        self.b = tf.Variable(rng.normal(size=(3,)).astype("f"), name="w")  # the same name on purpose

    @tf.function(input_signature=[X34])
    def __call__(self, x):
        return tf.nn.relu(x @ self.w + self.b)


class Loops(tf.Module):
    """while, if, TensorArray and case, as autograph writes them."""

    @tf.function(input_signature=[tf.TensorSpec([None], F32, name="x"), tf.TensorSpec([], tf.int32, name="n")])
    def __call__(self, x, n):
        total = tf.zeros_like(x)
        parts = tf.TensorArray(F32, size=n)
        for i in tf.range(n):
            if tf.reduce_sum(total) > 10.0:
                total = total - x
            else:
                total = total + x * tf.cast(i, F32)
            parts = parts.write(i, total)
        picked = tf.switch_case(n % 3, [lambda: total, lambda: -total, lambda: total * 2])
        return {"total": picked, "steps": parts.stack()}


class Words(tf.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.table = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                          tf.lookup.TextFileIndex.LINE_NUMBER), 1)
        self.counts = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -7)
        self.counts.insert(tf.constant(["red", "green"]), tf.constant([5, 6], tf.int64))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def __call__(self, words):
        return {"index": self.table.lookup(words), "count": self.counts.lookup(words)}


def run(path, tmp_path, inputs, *options):
    return dict(tool.predict(path, inputs, tmp_path, *options))


def compare(path, tmp_path, inputs, *options):
    """The signature serving_default in TensorFlow and here."""
    theirs = tf.saved_model.load(str(path)).signatures["serving_default"](**{k: tf.constant(v) for k, v in inputs.items()})
    ours = run(path, tmp_path, inputs, *options)
    assert sorted(ours) == sorted(theirs)
    for name, value in theirs.items():
        tool.assert_close(ours[name], value.numpy(), what=name)


class FourBits(tf.Module):
    """int4 and uint4 as types of constants, variables and casts; TensorFlow has hardly another operation of them."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.cast([[1, -3], [7, -8]], dtypes.int4), trainable=False)
        self.u = tf.Variable(tf.cast([0, 9, 15], dtypes.uint4), trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
    def __call__(self, x):
        small, plain = tf.cast(x, dtypes.int4), tf.cast(x, dtypes.uint4)
        before = tf.cast(self.w, tf.int32)
        self.w.assign(tf.cast(before - 5, dtypes.int4))
        parts = [small, plain, self.w.read_value(), self.u, tf.identity(CONSTANT), tf.cast(small, dtypes.uint4)]
        return {"before": before} | {f"part_{i}": tf.cast(part, tf.int32) for i, part in enumerate(parts)}


@pytest.mark.parametrize("rows", [1, 3, 17])
def test_module(tmp_path, rows):
    tf.saved_model.save(Affine(), str(tmp_path / "m"))
    compare(tmp_path / "m", tmp_path, {"x": tool.generator("module", rows).normal(size=(rows, 4)).astype("f")}, "--batch-size", "32")


class Growing(tf.Module):
    """Variables of partly unknown shapes."""

    def __init__(self):
        super().__init__()
        self.rows = tf.Variable(np.arange(6.).reshape(2, 3).astype("f"), shape=tf.TensorShape([None, 3]))
        self.any = tf.Variable(np.arange(4), shape=tf.TensorShape(None))
        self.empty = tf.Variable(np.zeros((0, 3), "f"), shape=tf.TensorShape([None, 3]))

    def read(self, x):
        return {"joined": tf.concat([self.rows, x], 0), "shape": tf.shape(self.rows), "any": self.any, "size": tf.shape(self.empty)}

    def assign(self, x):
        self.any.assign(tf.zeros([2, 2], tf.int64))
        self.empty.assign(x)
        self.rows.assign(tf.concat([self.rows, x], 0))
        return {"rows": self.rows * 2., "any": self.any.read_value(), "size": tf.shape(self.empty), "picked": tf.gather(self.rows, [1, 0])}

    def loop(self, x):
        for i in tf.range(3):
            self.rows.assign(tf.concat([self.rows, x[:1] * tf.cast(i, F32)], 0))
        return {"rows": self.rows.read_value()}

    def add(self, x):
        self.rows.assign_add(x[:2])
        return {"rows": self.rows.read_value()}


def test_numbers_of_four_bits(tmp_path):
    tf.saved_model.save(FourBits(), str(tmp_path / "m"))
    compare(tmp_path / "m", tmp_path, {"x": np.array([0, 1, -3, 7, 8, 15, 16, 20, -9, 100, -128], "int32")})


def test_a_constant_that_cannot_be_read_is_named(tmp_path):
    """The first function that captures it, and the second one, too."""
    module = tf.Module()
    module.constant = tf.constant(np.array([1, 1]).astype("int2"))
    module.sum = tf.function(lambda x: x + tf.cast(module.constant[0], F32), input_signature=[tf.TensorSpec([], F32)])
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.sum)
    np.save(tmp_path / "x.npy", np.float32(3))
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert "a constant of type DT_INT2" in line and "Const" in line


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("name", ["read", "assign", "loop", "add"])
def test_variables_of_unknown_shapes(name, rows, tmp_path):
    module = Growing()
    function = tf.function(getattr(module, name), input_signature=[tf.TensorSpec([None, 3], name="x")])
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=function)
    inputs = {"x": tool.generator("growing", rows).normal(size=(rows, 3)).astype("f")}
    if name != "add" or rows > 1:
        return compare(tmp_path / "m", tmp_path, inputs)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shapes must be equal"):
        function(inputs["x"])
    tool.save_npz(tmp_path / "x.npz", **inputs)
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert "has shape (2, 3), the update (1, 3)" in line


@pytest.mark.parametrize("n", [0, 1, 5, 6, 7])
def test_control_flow(tmp_path, n):
    module = Loops()
    tf.saved_model.save(module, str(tmp_path / "m"))
    inputs = {"x": np.array([1, -2, 5], "f"), "n": np.array(n, "i4")}
    if n > 0:
        return compare(tmp_path / "m", tmp_path, inputs)
    # No step was written, and a TensorArray of unknown element shape cannot be stacked then.
    with pytest.raises(tf.errors.InvalidArgumentError, match="empty list"):
        module(**{k: tf.constant(v) for k, v in inputs.items()})
    np.savez(tmp_path / "x.npz", **inputs)
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert "TensorListStack" in line and "empty list" in line


def test_tables(tmp_path):
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("red\ngreen\nblue\n")
    tf.saved_model.save(Words(str(vocabulary)), str(tmp_path / "m"))
    vocabulary.unlink()
    compare(tmp_path / "m", tmp_path, {"words": np.array([b"blue", b"red", b"??", b"green"])})


def cnn():
    return keras.Sequential([
        keras.Input((12, 12, 1), name="image"), keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.BatchNormalization(),
        keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dense(8, activation="relu"),
        keras.layers.Dropout(0.5), keras.layers.Dense(5)])


def two_inputs():
    a, b = keras.Input((4,), name="a"), keras.Input((6, 3), name="b")
    h = keras.layers.Concatenate()([keras.layers.Dense(3)(a), keras.layers.LSTM(4)(b)])
    return keras.Model([a, b], [keras.layers.Dense(2)(h), keras.layers.Softmax()(h)])


def words_in():
    return keras.Sequential([keras.Input((5,), dtype="int32", name="ids"), keras.layers.Embedding(11, 4, mask_zero=True),
                             keras.layers.LSTM(3), keras.layers.Dense(2)])


def dict_out():
    x = keras.Input((4,), name="x")
    return keras.Model(x, {"b": keras.layers.Dense(2)(x), "a": keras.layers.Dense(3)(x)})


MODELS = {"cnn": cnn, "two_inputs": two_inputs, "words": words_in, "dict_out": dict_out}


def inputs_of(model, rows):
    rng = tool.generator("inputs", rows)
    feeds = {}
    for tensor in model.inputs:
        shape = (rows, *tensor.shape[1:])
        feeds[tensor.name] = (rng.integers(0, 11, shape).astype("i4") if "int" in tensor.dtype else rng.normal(size=shape).astype("f"))
    return feeds


def call(model, feeds):
    values = [feeds[t.name] for t in model.inputs]
    result = model(values if len(values) > 1 else values[0], training=False)
    if isinstance(result, dict):
        return {k: v.numpy() for k, v in result.items()}
    result = result if isinstance(result, (list, tuple)) else [result]
    return {f"output_{i}": v.numpy() for i, v in enumerate(result)}


@pytest.mark.parametrize("name", MODELS)
def test_keras_export_is_run(tmp_path, name):
    model = MODELS[name]()
    model.export(str(tmp_path / "m"), verbose=False)
    feeds = inputs_of(model, 3)
    ours = run(tmp_path / "m", tmp_path, feeds)
    for key, value in call(model, feeds).items():
        tool.assert_close(ours[key], value, what=key)


def test_tf_keras_save_is_run(tmp_path):
    def written():
        import tf_keras
        model = tf_keras.Sequential([tf_keras.layers.InputLayer((6, 3)), tf_keras.layers.LSTM(4, return_sequences=True),
                                     tf_keras.layers.GRU(3), tf_keras.layers.Dense(2)])
        model.compile("adam", "mse")
        rng = tool.generator("tf_keras")
        x = rng.normal(size=(5, 6, 3)).astype("f")
        model.fit(x, np.zeros((5, 2), "f"), verbose=0)
        model.save(str(tmp_path / "m"), save_format="tf")
        return x, model(x).numpy()

    x, wanted = stored.original(written, tmp_path)
    tool.assert_close(tool.predict(tmp_path / "m", x, tmp_path)[0][1], wanted)


# ---- lockstep writes ----------------------------------------------------------------------------------------

@pytest.fixture(params=MODELS)
def written(request, tmp_path):
    model = MODELS[request.param]()
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    return model, tmp_path / "sm", inputs_of(model, 3)


def same(ours, theirs):
    assert sorted(ours) == sorted(theirs)
    for key in theirs:
        tool.assert_close(np.asarray(ours[key]), theirs[key], what=key)


def test_loads_in_tensorflow_2(written):
    model, path, feeds = written
    loaded = tf.saved_model.load(str(path))
    for key in ("serving_default", "serve"):
        same(loaded.signatures[key](**{k: tf.constant(v) for k, v in feeds.items()}), call(model, feeds))
    for rows in (1, 17):
        more = inputs_of(model, rows)
        same(loaded.signatures["serving_default"](**{k: tf.constant(v) for k, v in more.items()}), call(model, more))


def test_loads_in_tensorflow_1(written):
    model, path, feeds = written
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta.signature_def["serving_default"]
        out = session.run({k: v.name for k, v in signature.outputs.items()}, {signature.inputs[k].name: v for k, v in feeds.items()})
    same(out, call(model, feeds))


def test_loads_as_tfsm_layer(written):
    model, path, feeds = written
    layer = keras.layers.TFSMLayer(str(path), call_endpoint="serving_default")
    if len(feeds) == 1:
        same(layer(next(iter(feeds.values()))), call(model, feeds))
    assert len(layer.trainable_weights) == len(model.trainable_weights)


def test_gradients_are_tensorflows(written):
    model, path, feeds = written
    loaded = tf.saved_model.load(str(path))
    values = [tf.constant(feeds[t.name]) for t in model.inputs]
    argument = values if len(values) > 1 else values[0]
    total = lambda out: tf.add_n([tf.reduce_sum(t**2) for t in tf.nest.flatten(out)])
    with tf.GradientTape() as tape:
        ours = total(loaded(argument))
    ours = tape.gradient(ours, loaded.trainable_variables)
    with tf.GradientTape() as tape:
        theirs = total(model(argument, training=False))
    theirs = tape.gradient(theirs, [v.value for v in model.trainable_variables])
    for a, b in zip(ours, theirs, strict=True):
        tool.assert_close(tf.convert_to_tensor(a).numpy(), tf.convert_to_tensor(b).numpy(), rtol=1e-4)


def test_trains_as_hub_layer(tmp_path):
    import tensorflow_hub as hub
    import tf_keras
    model = cnn()
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    layer = hub.KerasLayer(str(tmp_path / "sm"), trainable=True, input_shape=(12, 12, 1))
    top = tf_keras.Sequential([layer, tf_keras.layers.Dense(2)])
    top.compile(tf_keras.optimizers.SGD(0.01), "mse")
    rng = tool.generator("hub")
    x, y = rng.normal(size=(16, 12, 12, 1)).astype("f"), rng.normal(size=(16, 2)).astype("f")
    assert len(layer.trainable_weights) == len(model.trainable_weights)
    history = top.fit(x, y, epochs=5, batch_size=16, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_penalties_of_weights_as_hub_layer(tmp_path):
    import tensorflow_hub as hub
    regularizers = keras.regularizers
    model = keras.Sequential([keras.Input((12, 12, 1)), keras.layers.Conv2D(4, 3, kernel_regularizer=regularizers.L2(.01)),
                              keras.layers.BatchNormalization(gamma_regularizer=regularizers.L1(.02)), keras.layers.Flatten(),
                              keras.layers.Dense(5, kernel_regularizer=regularizers.L1L2(.01, .02)),
                              keras.layers.Dense(2, kernel_regularizer="l2", trainable=False)])
    tool.randomise(model, tool.generator("penalties"))
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    layer = hub.KerasLayer(str(tmp_path / "sm"), trainable=True)
    x = tool.generator("penalties", 2).normal(size=(3, 12, 12, 1)).astype("f")
    tool.assert_close(layer(x).numpy(), model(x, training=False).numpy())
    tool.assert_close(np.array(layer.losses), np.array(model.losses))
    slopes = []
    for of, call, weights in ((layer, lambda: layer(x), layer.trainable_weights),
                              (model, lambda: model(x, training=False), [w.value for w in model.trainable_weights])):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(call()**2) + tf.add_n(of.losses)
        slopes.append(tape.gradient(total, weights))
    assert len(slopes[0]) == len(slopes[1])
    for ours, theirs in zip(*slopes, strict=True):
        tool.assert_close(ours.numpy(), theirs.numpy(), 1e-4)


def test_bytes_depend_on_the_state_alone(tmp_path):
    model = cnn()
    model.save(tmp_path / "m.keras")
    for name in ("one", "two"):
        tool.ok("convert", tmp_path / "m.keras", tmp_path / name, "--to", "saved_model")
    for file in ("saved_model.pb", "fingerprint.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


@pytest.mark.parametrize("damage", ["truncated", "no_index", "no_pb", "flipped"])
def test_damage_is_reported(tmp_path, damage):
    tf.saved_model.save(Affine(), str(tmp_path / "m"))
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((2, 4), "f"))
    pb = tmp_path / "m" / "saved_model.pb"
    if damage == "truncated":
        pb.write_bytes(pb.read_bytes()[:-700])
    elif damage == "no_index":
        (tmp_path / "m" / "variables" / "variables.index").unlink()
    elif damage == "no_pb":
        pb.unlink()
    else:
        data = tmp_path / "m" / "variables" / "variables.data-00000-of-00001"
        raw = bytearray(data.read_bytes())
        raw[3] ^= 0x40
        data.write_bytes(bytes(raw))
    tool.refused("predict", tmp_path / "m", "--input", x, "--output", tmp_path / "y.npy")

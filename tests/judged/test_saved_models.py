"""SavedModels: real TensorFlow writes and lockstep runs; lockstep writes and every loader of TensorFlow runs, and trains."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

F32 = tf.float32
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


def v1_model(path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(F32, [None, 3], name="x")
        w = v1.get_variable("w", initializer=np.arange(6, dtype="f").reshape(3, 2), use_resource=False)
        b = v1.get_variable("b", initializer=np.array([1, -1], "f"), use_resource=True)
        y = tf.identity(tf.cond(tf.reduce_sum(x) > 0, lambda: x @ w + b, lambda: x @ w - b), name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"x": x}, {"y": y})


@pytest.mark.parametrize("sign", [1, -1])
def test_v1_saved_model(tmp_path, sign):
    v1_model(str(tmp_path / "m"))
    x = sign * np.abs(tool.generator("v1").normal(size=(4, 3))).astype("f")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "m"))
        signature = meta.signature_def["serving_default"]
        theirs = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: x})
    ours = tool.predict(tmp_path / "m", x, tmp_path, "--batch-size", "32")
    tool.assert_close(ours[0][1], theirs)


@pytest.mark.parametrize("resource", [False, True])
def test_v1_variables_without_a_shape(resource, tmp_path):
    """validate_shape=False: values of other sizes are assigned, and the last one is saved."""
    v1, path = tf.compat.v1, str(tmp_path / "m")
    inputs = {rows: tool.generator("any", rows).normal(size=(rows, 3)).astype("f") for rows in (1, 2, 5)}
    with tf.Graph().as_default(), v1.Session() as session:
        x, first = v1.placeholder(F32, [None, 3]), v1.placeholder_with_default(np.ones((2, 3), "f"), None)
        v = v1.get_variable("v", initializer=first, validate_shape=False, use_resource=resource)
        steps = {"read": v.read_value(), "set": v1.assign(v, tf.reshape(x, [-1]), validate_shape=False), "strict": v1.assign(v, x), "add": v1.assign_add(v, x),
                 "grow": v1.assign(v, tf.concat([v, x], 0), validate_shape=False)}
        signatures = {}
        for name, step in steps.items():
            with tf.control_dependencies([step]):
                signatures[name] = v1.saved_model.predict_signature_def({"x": x}, {"y": v.read_value()})
        session.run(v1.global_variables_initializer())
        session.run(v1.assign(v, inputs[5], validate_shape=False))
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    for name in steps:
        for value in inputs.values():
            with tf.Graph().as_default(), v1.Session() as session:
                signature = v1.saved_model.load(session, ["serve"], path).signature_def[name]
                feeds = {signature.inputs["x"].name: value}
                if len(value) == 5 or name not in (["add"] if resource else ["strict", "add"]):
                    theirs = session.run(signature.outputs["y"].name, feeds)
                    tool.assert_close(run(path, tmp_path, {"x": value}, "--signature", name, "--batch-size", "8")["y"], theirs)
                    continue
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(signature.outputs["y"].name, feeds)
            tool.save_npz(tmp_path / "x.npz", x=value)
            line = tool.refused("predict", path, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--signature", name)
            assert "has shape (5, 3)" in line and f"({len(value)}, 3)" in line


def words_model(tmp_path):
    """A graph of TensorFlow 1 with a partitioned variable, a reference variable, a local one and a table of a file."""
    v1 = tf.compat.v1
    (tmp_path / "words.txt").write_text("a\nb\nc\n")
    words = v1.placeholder(tf.string, [None], name="words")
    asset = tf.constant(str(tmp_path / "words.txt"))
    v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        asset, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    rows = v1.get_variable("rows", [5, 2], partitioner=v1.fixed_size_partitioner(2), use_resource=True)
    bias = v1.get_variable("bias", initializer=np.array([1, -1], "f"), use_resource=False)
    calls = v1.get_variable("calls", initializer=3.0, collections=[v1.GraphKeys.LOCAL_VARIABLES], trainable=False)
    y = tf.gather(tf.convert_to_tensor(rows), table.lookup(words) + 1) * calls + bias
    return words, tf.identity(y, name="y"), table


def test_saved_model_in_text(tmp_path):
    v1 = tf.compat.v1
    data = np.array([b"c", b"x", b"a"])
    with tf.Graph().as_default(), v1.Session() as session:
        words, y, table = words_model(tmp_path)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": v1.saved_model.predict_signature_def({"words": words}, {"y": y})},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.group(v1.local_variables_initializer(), v1.tables_initializer()))
        builder.save(as_text=True)
        theirs = session.run(y, {words: data})
    assert not (tmp_path / "m/saved_model.pb").exists()
    (tmp_path / "words.txt").unlink()
    tool.assert_close(tool.predict(tmp_path / "m", {"words": data}, tmp_path)[0][1], theirs)
    assert "written by TensorFlow" in tool.ok("inspect", tmp_path / "m")
    tool.ok("verify", tmp_path / "m")


@pytest.mark.parametrize("form", ["v1", "v2", "text"])
def test_meta_graph_with_its_checkpoint(form, tmp_path):
    v1 = tf.compat.v1
    rng = tool.generator("meta")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(F32, [None, 3], name="x")
        rate = v1.placeholder_with_default(0.0, [], name="rate")
        w = v1.get_variable("w", [3, 4], partitioner=v1.fixed_size_partitioner(2, axis=1), use_resource=False)
        b = v1.get_variable("b", initializer=rng.normal(size=4).astype("f"), use_resource=form == "v2")
        calls = v1.get_variable("calls", initializer=2.0, collections=[v1.GraphKeys.LOCAL_VARIABLES], trainable=False)
        y = tf.nn.softmax(v1.nn.dropout(x, rate=rate) @ tf.convert_to_tensor(w) * calls + b, name="y")
        v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(y[:, 0]), name="train")
        (tmp_path / "lost.txt").write_text("a\n")
        words = tf.lookup.TextFileInitializer(str(tmp_path / "lost.txt"), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                              tf.lookup.TextFileIndex.LINE_NUMBER)
        tf.identity(tf.lookup.StaticVocabularyTable(words, 1).lookup(tf.constant(["a"])), name="found")
        steps = v1.get_variable("steps", initializer=0, use_resource=form == "v2")
        with tf.control_dependencies([v1.assign_add(steps, 2)]):  # which the reads after it see
            later = tf.add(tf.identity(steps) + steps, 1, name="later")
        v1.assign_add(b, [1., 2., 3., 4.], name="changed")  # its output is the variable itself
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        data = rng.normal(size=(4, 3)).astype("f")
        session.run("train", {x: data})
        version = v1.train.SaverDef.V1 if form == "v1" else v1.train.SaverDef.V2
        saver = v1.train.Saver(write_version=version)
        prefix = saver.save(session, str(tmp_path / "model.ckpt"), global_step=7)
        if form == "text":
            saver.export_meta_graph(prefix + ".meta", as_text=True)
        elif form == "v1":  # as the first versions wrote it
            meta = saver.export_meta_graph()
            meta.ClearField("meta_info_def")
            pathlib.Path(prefix + ".meta").write_bytes(meta.SerializeToString())
        theirs, bias = session.run([y, later], {x: data}), session.run(b)
    (tmp_path / "lost.txt").unlink()
    ours = tool.predict(prefix + ".meta", {"x": data}, tmp_path, "--outputs", "y:0,later:0")
    for (_, value), other in zip(ours, theirs, strict=True):
        tool.assert_close(value, other)
    if form != "v2":
        (_, changed), = tool.predict(prefix + ".meta", {}, tmp_path, "--outputs", "changed:0")
        tool.assert_close(changed, bias + np.float32([1, 2, 3, 4]))
    tool.ok("convert", prefix + ".meta", tmp_path / "s", "--to", "saved_model", "--outputs", "y,later:0")
    tool.ok("verify", tmp_path / "s")
    loaded = tf.saved_model.load(str(tmp_path / "s")).signatures["serving_default"](x=tf.constant(data))
    tool.assert_close(loaded["y"].numpy(), theirs[0])
    tool.assert_close(dict(tool.predict(tmp_path / "s", {"x": data}, tmp_path))["y"], theirs[0])
    done = tool.run("predict", prefix + ".meta", "--outputs", "found", "--output", tmp_path / "y.npy")
    assert done.code == 1 and "lost.txt" in done.err and "has no values: the graph's table initializer has not run" in done.err
    assert "--outputs is missing" in tool.run("predict", prefix + ".meta", "--output", tmp_path / "y.npy").err
    shown = tool.ok("inspect", prefix + ".meta")
    assert "kind       meta_graph" in shown and "w/Adam_1" in shown
    tool.ok("verify", prefix + ".meta")


@pytest.mark.parametrize("name", ["g.pb", "g.pbtxt"])
def test_frozen_graph(name, tmp_path):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    model = two_inputs()
    def run(a, b):
        first, *rest = tf.nest.flatten(model([a, b]))
        branches = [lambda x=first, n=n: x + float(n) for n in range(3)]
        return [tf.switch_case(tf.shape(a)[0] - n, branches) for n in (0, 1, 5)] + rest

    fn = tf.function(run).get_concrete_function(tf.TensorSpec([None, 4], F32, name="a"), tf.TensorSpec([None, 6, 3], F32, name="b"))
    frozen = convert_variables_to_constants_v2(fn)  # lowers While and Case to Switch, Merge, …
    tf.io.write_graph(frozen.graph.as_graph_def(), str(tmp_path), name, as_text=name.endswith("txt"))
    feeds = inputs_of(model, 2)
    names = [t.name for t in frozen.outputs]
    ours = tool.predict(tmp_path / name, feeds, tmp_path, "--outputs", ",".join(names))
    for (_, value), theirs in zip(ours, fn(**{name: tf.constant(value) for name, value in feeds.items()}), strict=True):
        tool.assert_close(value, theirs.numpy())


@pytest.mark.parametrize("name", ["g.pb", "g.pbtxt"])
def test_values_that_do_not_fit_a_placeholder(name, tmp_path):
    """A session refuses other shapes; Python converts dtypes for it, which the tool does within floats and within integers."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x, n, d = v1.placeholder(F32, [None, 4], "x"), v1.placeholder(tf.int32, None, "n"), v1.placeholder_with_default(tf.zeros([2, 2]), [None, 2], "d")
        tf.identity(x * 2, "x2"), tf.identity(n + 1, "n2"), tf.identity(d + 1, "d2")

        def theirs(key, value):
            return session.run(f"{key}2:0", {f"{key}:0": value})

        tf.io.write_graph(graph.as_graph_def(), str(tmp_path), name, as_text=name.endswith("txt"))
        for key, value in [("x", np.ones((3, 4))), ("n", np.arange(3)), ("d", np.ones((3, 2), "f"))]:
            tool.assert_close(tool.predict(tmp_path / name, {key: value}, tmp_path, "--outputs", f"{key}2")[0][1], theirs(key, value))
        for key, value, found in [("x", np.ones((2, 3), "f"), "float32(2, 3), expected float32(None, 4)"),
                                  ("x", np.ones(4, "f"), "float32(4,), expected float32(None, 4)"),
                                  ("d", np.ones((2, 3), "f"), "float32(2, 3), expected float32(None, 2)")]:
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                theirs(key, value)
            given = tool.save_npz(tmp_path / "x.npz", **{key: value})
            command = ["predict", tmp_path / name, "--input", given, "--output", tmp_path / "y.npz", "--outputs", f"{key}2"]
            assert f"placeholder '{key}': found {found}" in tool.refused(*command)
        tool.save_npz(given, n=np.ones(2, "f"))
        assert "placeholder 'n': found float32(2,), expected int32" in tool.refused(*command[:-1], "n2")


@pytest.mark.parametrize("producer, known", [(0, False), (21, False), (22, True)])
def test_placeholders_of_old_graphs(producer, known, tmp_path):
    """Before version 22 of graphs the shape of a placeholder of unknown rank was written like that of a scalar."""
    with tf.Graph().as_default() as graph:
        tf.identity(tf.compat.v1.placeholder(F32, [], "x") * 2, "y")
    definition = graph.as_graph_def()
    definition.versions.producer = producer
    (tmp_path / "g.pb").write_bytes(definition.SerializeToString())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(definition, name="")
        given = {"x": np.ones(3, "f")}
        if not known:
            theirs = session.run("y:0", {"x:0": given["x"]})
            tool.assert_close(tool.predict(tmp_path / "g.pb", given, tmp_path, "--outputs", "y")[0][1], theirs)
        else:
            with pytest.raises(ValueError, match="Cannot feed"):
                session.run("y:0", {"x:0": given["x"]})
            tool.save_npz(tmp_path / "x.npz", **given)
            tool.refused("predict", tmp_path / "g.pb", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--outputs", "y")


@pytest.mark.parametrize("op, window, options", [("Conv2D", 4, {}), ("Conv2D", 6, {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 1, 0, 0, 0, 0]}),
                                                 ("Conv2D", 2, {"dilations": [1, 3, 1, 1]}), ("MaxPool", 4, {}), ("AvgPool", 5, {})])
def test_windows_longer_than_an_image(op, window, options, tmp_path):
    """The output would have a negative size."""
    options = {"strides": [1, 1, 1, 1], "padding": "VALID", **options}
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(F32, None, "x")
        if op == "Conv2D":
            y = tf.raw_ops.Conv2D(input=x, filter=tf.ones([window, 2, 1, 3]), **options)
        else:
            y = getattr(tf.raw_ops, op)(**{"value" if op == "AvgPool" else "input": x}, ksize=[1, window, 2, 1], **options)
        tf.identity(y, "y")
        given = np.ones((2, 2, 5, 1), "f")
        with pytest.raises(tf.errors.InvalidArgumentError, match="output size would be negative"):
            session.run("y:0", {x: given})
    tf.io.write_graph(graph.as_graph_def(), str(tmp_path), "g.pb", as_text=False)
    tool.save_npz(tmp_path / "x.npz", x=given)
    line = tool.refused("predict", tmp_path / "g.pb", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--outputs", "y")
    assert f"{op}: the output size would be -" in line


def test_tables_of_a_graph(tmp_path):
    v1, data = tf.compat.v1, np.array([b"b", b"x", b"a"])
    with tf.Graph().as_default() as graph, v1.Session() as session:
        words = v1.placeholder(tf.string, [None], name="words")
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([3, 5], tf.int64))
        y = tf.identity(tf.lookup.StaticHashTable(entries, -1).lookup(words), name="y")
        session.run(v1.tables_initializer())
        theirs = session.run(y, {words: data})
    tf.io.write_graph(graph.as_graph_def(), str(tmp_path), "g.pb", as_text=False)
    tool.assert_close(tool.predict(tmp_path / "g.pb", {"words": data}, tmp_path, "--outputs", "y")[0][1], theirs)


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


def test_functions_that_freezing_left_over(tmp_path):
    """TensorFlow loads no library with a function whose own functions are missing."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(F32, [None], name="x")
        inner = tf.function(lambda x: x * 2)
        tf.identity(tf.function(lambda x: inner(x) + 1)(x), name="y")
        tf.identity(tf.function(lambda x: inner(x) - 1)(x), name="unused")
    proto = v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["y"])
    lost = proto.library.function.add()
    lost.CopyFrom(next(f for f in proto.library.function if any("f" in n.attr for n in f.node_def)))
    lost.signature.name = "left_over"
    next(n for n in lost.node_def if "f" in n.attr).attr["f"].func.name = "removed"
    (tmp_path / "g.pb").write_bytes(proto.SerializeToString())
    tool.ok("convert", tmp_path / "g.pb", tmp_path / "m", "--to", "saved_model", "--outputs", "y")
    y, = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"](x=tf.constant([1., 2.])).values()
    assert y.numpy().tolist() == [3., 5.]

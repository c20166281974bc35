"""Graphs of TensorFlow 1, in files that real TensorFlow writes and lockstep runs: SavedModels of sessions, MetaGraphDefs and frozen graphs."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool
from test_saved_models import inputs_of, run, two_inputs

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read graphs")

F32 = tf.float32


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

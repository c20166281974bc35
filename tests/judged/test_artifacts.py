"""What published SavedModels contain: collectives, TPU calls, composite and default arguments, several MetaGraphs, assets."""

import contextlib
import io
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function
from tensorflow.python.tools import saved_model_cli

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

R = tf.raw_ops
F32 = tf.float32
X = np.random.default_rng(0).normal(size=(4, 3)).astype("f")
SPEC = [tf.TensorSpec([None, 3], F32, name="x")]
KEYS = dict(group_key=1, instance_key=1)


def saved(function, path, specs=SPEC):
    module = tf.Module()
    module.run = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, str(path), signatures=module.run)
    return module


def reduce_old(x, size, final="Id"):
    return R.CollectiveReduce(input=x, group_size=size, **KEYS, merge_op="Add", final_op=final, subdiv_offsets=[0])


def reduce_new(x, size, merge="Add"):
    return R.CollectiveReduceV2(input=x, group_size=size, **KEYS, ordering_token=[], merge_op=merge, final_op="Id")


def nccl(x, devices, reduction="sum"):
    return R.NcclAllReduce(input=x, reduction=reduction, num_devices=devices, shared_name="a")


def alone(x):
    return {"nccl": nccl(x, 1), "old": reduce_old(x, 1, "Div"), "new": reduce_new(x, 1), "reduce": R.NcclReduce(input=[x], reduction="sum"),
            "gather": R.CollectiveGatherV2(input=x, group_size=1, **KEYS, ordering_token=[])}


def test_collectives_of_one_device_give_their_input(tmp_path):
    saved(alone, tmp_path / "m")
    ours = dict(tool.predict(tmp_path / "m", {"x": X}, tmp_path))
    assert sorted(ours) == ["gather", "nccl", "new", "old", "reduce"]
    for name, value in ours.items():
        np.testing.assert_array_equal(value, X, err_msg=name)


@pytest.mark.parametrize("devices", [2, 4])
def test_collectives_within_a_graph_are_joined(tmp_path, devices):
    """TensorFlow's CPU has no such kernel for a graph on one device: the sums are what it documents."""
    def towers(x):
        scaled = [x * (i + 1) for i in range(devices)]
        return {"nccl": tf.add_n([nccl(t, devices) * (i + 1) for i, t in enumerate(scaled)]),
                "max": tf.add_n([reduce_new(t, devices, "Max") for t in scaled])}

    saved(towers, tmp_path / "m")
    ours = dict(tool.predict(tmp_path / "m", {"x": X}, tmp_path))
    total = sum(range(devices + 1))
    tool.assert_close(ours["nccl"], X * total * total)
    tool.assert_close(ours["max"], np.maximum(X, X * devices) * devices)


def test_collectives_of_other_devices_are_named(tmp_path):
    saved(lambda x: {"y": nccl(x, 2)}, tmp_path / "m")
    np.savez(tmp_path / "x.npz", x=X)
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert "NcclAllReduce connects 2 devices" in line and "export the model for one replica" in line


def test_calls_on_a_tpu(tmp_path):
    inner = tf.function(lambda x: x * 3, input_signature=SPEC).get_concrete_function()
    saved(lambda x: {"y": R.TPUPartitionedCall(args=[x], device_ordinal=R.TPUOrdinalSelector(), Tout=[F32], f=inner)[0]}, tmp_path / "m")
    tool.assert_close(dict(tool.predict(tmp_path / "m", {"x": X}, tmp_path))["y"], X * 3)


def test_devices_are_dropped(tmp_path):
    def placed(x):
        with tf.device("/job:worker/replica:0/task:3/device:GPU:1"):
            y = x * 2
        with tf.device("/device:TPU:0"):
            return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: y + 1, lambda: y - 1)}

    saved(placed, tmp_path / "m")
    tool.assert_close(dict(tool.predict(tmp_path / "m", {"x": X}, tmp_path))["y"], X * 2 + np.sign(X.sum()))
    assert any("TPU" in device for device in json.loads(tool.ok("inspect", tmp_path / "m", "--json"))["devices"])


def test_composite_arguments_and_results(tmp_path):
    saved(lambda r: {"a": r * 2, "b": tf.sparse.from_dense(r.to_tensor())}, tmp_path / "m", [tf.RaggedTensorSpec([None, None], F32)])
    rows = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    signature = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    names = sorted(signature.structured_input_signature[1])
    theirs = signature(**dict(zip(names, (rows.values, rows.row_splits))))
    ours = dict(tool.predict(tmp_path / "m", dict(zip(names, (rows.values.numpy(), rows.row_splits.numpy()))), tmp_path))
    expected = {"a": theirs["a"].values, "a_1": theirs["a"].row_splits, "b_indices": theirs["b"].indices, "b_values": theirs["b"].values,
                "b_dense_shape": theirs["b"].dense_shape}
    assert sorted(ours) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(ours[name], value.numpy(), err_msg=name)


def test_sparse_placeholders_of_tensorflow_1(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        sparse = v1.sparse_placeholder(F32, [None, 3], name="sp")
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"sp": sparse}, {"y": tf.sparse.reduce_sum(sparse, 1), "z": sparse * 2.0})
    feeds = {"sp_indices": np.array([[0, 1], [2, 2]]), "sp_values": np.array([5, 7], "f"), "sp_dense_shape": np.array([3, 3])}
    theirs = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"](**{k: tf.constant(v) for k, v in feeds.items()})
    ours = dict(tool.predict(tmp_path / "m", feeds, tmp_path))
    np.testing.assert_array_equal(ours["y"], theirs["y"].numpy())
    np.testing.assert_array_equal(ours["z_values"], theirs["z"].values.numpy())
    np.testing.assert_array_equal(ours["z_indices"], theirs["z"].indices.numpy())


def test_arguments_with_defaults(tmp_path):
    module = tf.Module()

    @tf.function(input_signature=[*SPEC, tf.TensorSpec([], F32, name="scale")])
    def scaled(x, scale=tf.constant(3.0)):
        return {"y": x * scale}

    module.run = scaled
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=scaled)
    tool.assert_close(dict(tool.predict(tmp_path / "m", {"x": X}, tmp_path))["y"], scaled(X)["y"].numpy())
    given = {"x": X, "scale": np.float32(-2)}
    tool.assert_close(dict(tool.predict(tmp_path / "m", given, tmp_path))["y"], X * -2)


def graphs_of_several_tags(path, vocabulary):
    v1 = tf.compat.v1
    builder = v1.saved_model.Builder(str(path))

    def build(factor):
        x, words = v1.placeholder(F32, [None, 3], "x"), v1.placeholder(tf.string, [None], "words")
        part = v1.get_variable("part", [6, 2], initializer=v1.initializers.random_normal(seed=1), use_resource=False,
                               partitioner=v1.fixed_size_partitioner(3))
        whole = v1.get_variable("whole", [6, 2], initializer=v1.initializers.random_normal(seed=2), use_resource=True,
                                partitioner=v1.fixed_size_partitioner(2))
        local = v1.get_local_variable("local", initializer=5.0)
        y = (tf.reduce_sum(tf.nn.embedding_lookup(part, [0, 1, 5, 3])) + tf.reduce_sum(tf.convert_to_tensor(whole)) + local + x) * factor
        table = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(
            vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 2)
        signatures = {"serving_default": v1.saved_model.predict_signature_def({"x": x}, {"y": y}),
                      "ids": v1.saved_model.predict_signature_def({"words": words}, {"ids": table.lookup(words)})}
        return signatures, v1.group(v1.tables_initializer(), v1.local_variables_initializer())

    for tags, factor in ((["train"], 10.0), (["serve"], 1.0), (["serve", "gpu"], 2.0)):
        with tf.Graph().as_default(), v1.Session() as session:
            signatures, init = build(factor)
            session.run(v1.global_variables_initializer())
            assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
            if factor == 10.0:
                builder.add_meta_graph_and_variables(session, tags, signatures, main_op=init, assets_collection=assets)
            else:
                builder.add_meta_graph(tags, signatures, main_op=init, assets_collection=assets)
    builder.save()


def test_tags_choose_the_graph(tmp_path):
    """Partitioned variables, by reference and as resources; a local variable and a table made by the init op; an asset."""
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("a\nb\nc\n")
    graphs_of_several_tags(tmp_path / "m", str(vocabulary))
    vocabulary.unlink()
    v1, words = tf.compat.v1, np.array([b"c", b"?", b"a"])
    for tags in (["serve"], ["train"], ["serve", "gpu"]):
        for key, feeds in (("serving_default", {"x": X}), ("ids", {"words": words})):
            with tf.Graph().as_default(), v1.Session() as session:
                signature = v1.saved_model.load(session, tags, str(tmp_path / "m")).signature_def[key]
                theirs = session.run({k: v.name for k, v in signature.outputs.items()},
                                     {signature.inputs[k].name: v for k, v in feeds.items()})
            given = [] if tags == ["serve"] else ["--tags", ",".join(tags)]
            ours = dict(tool.predict(tmp_path / "m", feeds, tmp_path, "--signature", key, *given))
            for name, value in theirs.items():
                tool.assert_close(ours[name], value, what=f"{tags} {name}")
    report = json.loads(tool.ok("inspect", tmp_path / "m", "--json"))
    assert report["tags"] == ["serve"] and report["other_tags"] == [["train"], ["serve", "gpu"]]
    assert [sorted(each) for each in report["other_signatures"]] == [["ids", "serving_default"]] * 2
    assert report["other_signatures"][0] == report["signatures"]
    np.savez(tmp_path / "x.npz", x=X)
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--tags", "tpu")
    assert "{tpu}" in line and "{train}, {serve}" in line


def test_files_that_are_assets_are_read(tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("7")
    module = tf.Module()
    module.note = tf.saved_model.Asset(str(note))
    module.run = tf.function(lambda x: {"y": tf.strings.to_number(tf.io.read_file(module.note)) * x}, input_signature=SPEC)
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.run)
    note.unlink()
    tool.assert_close(dict(tool.predict(tmp_path / "m", {"x": X}, tmp_path))["y"], X * 7)
    (tmp_path / "secret").write_text("1")
    saved(lambda x: {"y": x + tf.strings.to_number(tf.io.read_file(str(tmp_path / "secret")))}, tmp_path / "n")
    np.savez(tmp_path / "x.npz", x=X)
    line = tool.refused("predict", tmp_path / "n", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert "not among the model's assets" in line


def test_the_oldest_tensorflow_is_named(tmp_path):
    keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3), keras.layers.Flatten(), keras.layers.Dense(2)]).save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--min-tf", "1.15")
    report = json.loads(tool.ok("inspect", tmp_path / "sm", "--json"))
    assert report["version"].startswith("lockstep ") and report["min_tensorflow"] == "1.12"
    line = tool.refused("convert", tmp_path / "m.keras", tmp_path / "no", "--min-tf", "1.4", code=1)
    assert "TensorFlow 1.4" in line and "StatefulPartitionedCall (1.12)" in line and not (tmp_path / "no").exists()
    tool.refused("convert", tmp_path / "m.keras", tmp_path / "n.h5", "--min-tf", "2.4", code=2)
    tool.refused("convert", tmp_path / "m.keras", tmp_path / "no", "--min-tf", "new", code=2)
    saved(lambda x: {"y": tf.random.stateless_uniform([2], [1, 2]) + x[0, 0]}, tmp_path / "theirs")
    report = json.loads(tool.ok("inspect", tmp_path / "theirs", "--json"))
    assert report["min_tensorflow"] == "2.6" and report["version"] == f"TensorFlow {tf.__version__}", report["min_tensorflow_because"]


def test_failures_name_cause_and_remedy(tmp_path):
    """What a copied or newer SavedModel lacks, in one line each."""
    import shutil
    from tensorflow.core.protobuf import saved_model_pb2
    module = tf.Module()
    module.w = tf.Variable(np.ones((3, 2), "f"))
    module.run = tf.function(lambda x: {"y": x @ module.w}, input_signature=SPEC)
    tf.saved_model.save(module, str(tmp_path / "served" / "1"), signatures=module.run)
    np.savez(tmp_path / "x.npz", x=X)

    def line(path, code=1):
        return tool.refused("predict", path, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", code=code)

    def changed(name, change):
        path = shutil.copytree(tmp_path / "served" / "1", tmp_path / name)
        model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        for function in model.meta_graphs[0].graph_def.library.function:
            for node in function.node_def:
                if node.op == "MatMul":
                    change(node)
        (path / "saved_model.pb").write_bytes(model.SerializeToString())
        return line(path)

    assert f"give {tmp_path}/served/1" in line(tmp_path / "served")
    new_op = changed("op", lambda node: setattr(node, "op", "MatMulV9"))
    assert "unknown operation MatMulV9" in new_op and "newer than 2.21" in new_op
    new_attr = changed("attr", lambda node: node.attr["sparsity"].CopyFrom(node.attr["T"]))
    assert "MatMul has the attribute 'sparsity'" in new_attr and "newer version" in new_attr
    for missing, words in (("variables/variables.data-00000-of-00001", "number 1 of 1, is missing"),
                           ("variables/variables.index", "copied or exported in part"), ("saved_model.pb", "without its saved_model.pb")):
        path = shutil.copytree(tmp_path / "served" / "1", tmp_path / "part")
        (path / missing).unlink()
        assert words in line(path)
        shutil.rmtree(path)


def test_tables_of_tensors(tmp_path):
    """Dense tables, whose values may be vectors, from a checkpoint and while the graph runs."""
    module = tf.Module()
    module.table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, [-1.0, -2.0], -1, -9)
    module.table.insert(tf.constant([5, 7], tf.int64), [[1.0, 2.0], [3.0, 4.0]])
    module.words = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, "", "$")
    module.words.insert(["a", "b"], tf.constant([3, 4], tf.int64))

    def run(keys, words):
        before = module.table.lookup(keys)
        module.table.insert_or_assign(keys[:1], [[9.0, 8.0]])
        module.table.erase(tf.constant([7], tf.int64))
        made = R.AnonymousMutableHashTableOfTensors(key_dtype=tf.string, value_dtype=tf.int64, value_shape=[2])
        R.LookupTableInsertV2(table_handle=made, keys=["x", "y"], values=tf.constant([[1, 22], [3, 4]], tf.int64))
        return {"before": before, "after": module.table.lookup(keys), "size": module.table.size(), "words": module.words.lookup(words),
                "pairs": R.LookupTableFindV2(table_handle=made, keys=["y", "?"], default_value=tf.constant([-1, -2], tf.int64))}

    path = tmp_path / "n"
    module.run = tf.function(run, input_signature=[tf.TensorSpec([None], tf.int64, name="keys"), tf.TensorSpec([None], tf.string, name="words")])
    tf.saved_model.save(module, str(path), signatures=module.run)
    feeds = {"keys": np.array([6, 5, 7]), "words": np.array([b"b", b"?"])}
    theirs = tf.saved_model.load(str(path)).signatures["serving_default"](**{k: tf.constant(v) for k, v in feeds.items()})
    ours = dict(tool.predict(path, feeds, tmp_path))
    for name, value in theirs.items():
        tool.assert_close(ours[name], value.numpy(), what=name)


@function.Defun(F32, F32)
def sine_times(x, y):
    return tf.sin(x) * y


def test_queues_and_old_arrays(tmp_path):
    """Queues that a graph fills and empties, and TensorArrays whose handles are strings."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(F32, [4, 3], "x")
        names = tf.constant(["a", "b", "c", "d"])
        out = {}
        for kind, queue in (("fifo", tf.queue.FIFOQueue(9, [F32, tf.string], [[3], []])), ("padding", tf.queue.PaddingFIFOQueue(9, [F32], [[None]])),
                            ("priority", tf.queue.PriorityQueue(9, [F32], [[3]])), ("shuffle", tf.queue.RandomShuffleQueue(9, 0, [F32], [[3]]))):
            if kind == "fifo":
                filled = [queue.enqueue_many([x, names]), queue.enqueue([x[0], "e"])]
            elif kind == "padding":
                filled = [queue.enqueue([x[i, :i]]) for i in range(4)]
            elif kind == "priority":
                filled = [queue.enqueue([tf.constant(p, tf.int64), x[i]]) for i, p in enumerate((5, 1, 3, 1))]
            else:
                filled = [queue.enqueue_many([x])]
            for first, second in zip(filled, filled[1:]):
                second._add_control_input(first)
            with tf.control_dependencies(filled):
                size = queue.size()
            with tf.control_dependencies([size]):
                parts = queue.dequeue_many(4)
            for i, part in enumerate(parts if isinstance(parts, list) else [parts]):
                out[f"{kind}_{i}"] = tf.sort(part, 0) if kind == "shuffle" else tf.identity(part)
            with tf.control_dependencies([out[f"{kind}_0"]]):
                closed = queue.close()
            out[kind + "_size"] = size
            with tf.control_dependencies([closed]):
                out[kind + "_closed"] = queue.is_closed()
        staged = R.Stage(values=[x, names], shared_name="area")
        with tf.control_dependencies([staged]):
            out["staged_size"] = R.StageSize(dtypes=[F32, tf.string], shared_name="area")
        with tf.control_dependencies([out["staged_size"]]):
            out["staged_x"], out["staged_names"] = R.Unstage(dtypes=[F32, tf.string], shared_name="area")
        keyed = dict(dtypes=[F32, tf.string], shared_name="keys")
        put = [R.MapStage(key=tf.constant(key, tf.int64), indices=[0, 1], values=[x[i], names[i]], **keyed) for i, key in enumerate((7, 3))]
        put.append(R.MapStage(key=tf.constant(5, tf.int64), indices=[1], values=["z"], **keyed))
        with tf.control_dependencies(put):
            out["keyed_size"], out["keyed_parts"] = R.MapSize(**keyed), R.MapIncompleteSize(**keyed)
            out["peeked"] = R.MapPeek(key=tf.constant(3, tf.int64), indices=[0, 1], **keyed)[1]
        with tf.control_dependencies([out["keyed_size"], out["keyed_parts"], out["peeked"]]):
            out["keyed_name"] = R.MapUnstage(key=tf.constant(3, tf.int64), indices=[1], dtypes=[tf.string], shared_name="keys")[0]
        with tf.control_dependencies([out["keyed_name"]]):
            out["keyed_x"] = R.MapUnstage(key=tf.constant(3, tf.int64), indices=[0], dtypes=[F32], shared_name="keys")[0]
        with tf.control_dependencies([out["keyed_x"]]):
            out["any_key"], (_, out["any_name"]) = R.MapUnstageNoKey(indices=[0, 1], **keyed)
        body = tf.function(lambda i, y: y * tf.cast(i, F32) + 1.).get_concrete_function(tf.TensorSpec([], tf.int32), tf.TensorSpec([4, 3], F32))
        body.add_to_graph(graph)
        out["counted"] = R.For(start=5, limit=-2, delta=-3, input=[x], body=body)[0]
        lock = R.MutexLock(mutex=R.MutexV2(shared_name="lock"))
        with tf.control_dependencies([lock]):
            out["locked"] = x * 2
        with tf.control_dependencies([out["locked"]]), tf.control_dependencies([R.ConsumeMutexLock(mutex_lock=lock)]):
            temporary = R.TemporaryVariable(shape=[4, 3], dtype=F32, var_name="sum")
        temporary = R.AssignAdd(ref=R.Assign(ref=temporary, value=x * 3), value=x)
        out["temporary"] = R.DestroyTemporaryVariable(ref=temporary, var_name="sum")
        out["slope"] = tf.gradients(tf.reduce_sum(sine_times(x, x + 1)), x)[0]
        handle = R.TensorArrayV3(size=4, dtype=F32, clear_after_read=False)[0]
        flow = R.TensorArrayScatterV3(handle=handle, indices=tf.range(4), value=x, flow_in=0.0)
        out["row"] = R.TensorArrayReadV3(handle=handle, index=2, flow_in=flow, dtype=F32)
        out["rows"] = R.TensorArrayGatherV3(handle=handle, indices=[3, 0], flow_in=flow, dtype=F32)
        out["count"] = R.TensorArraySizeV3(handle=handle, flow_in=flow)
        outputs = {name: tf.identity(value, name=name) for name, value in out.items()}
        theirs = session.run(outputs, {x: np.tile(X[:1], (4, 1)) * np.arange(1, 5, dtype="f")[:, None]})
        definition = graph.as_graph_def()
    for node in definition.node:  # TensorFlow has removed the version of 2016, which differs in the type of the handle
        if node.op.startswith("TensorArray"):
            node.op = node.op.replace("V3", "V2")
            node.attr.pop("identical_element_shapes", None)
    (tmp_path / "g.pb").write_bytes(definition.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.tile(X[:1], (4, 1)) * np.arange(1, 5, dtype="f")[:, None])
    tool.ok("predict", tmp_path / "g.pb", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--outputs", ",".join(outputs))
    ours = dict(tool.load_outputs(tmp_path / "y.npz"))
    for name, value in theirs.items():
        tool.assert_close(ours[name], value, what=name)


def test_functions_of_the_root_are_listed(tmp_path):
    module = tf.Module()
    module.scaled = tf.function(lambda x, factor=2., training=False: x * factor if training else x)
    module.nested = tf.function(lambda d, t: d["a"] + d["b"][0] * t[0], input_signature=[
        {"a": tf.TensorSpec([None]), "b": [tf.TensorSpec([None])]}, (tf.TensorSpec([]),)])
    module.ragged = tf.function(lambda r: r.to_tensor(), input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    module.exact = tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([2], name="x"))
    for training in (True, False):
        module.scaled.get_concrete_function(tf.TensorSpec([None, 3], name="x"), training=training)
    tf.saved_model.save(module, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    found = json.loads(tool.ok("inspect", tmp_path / "m", "--json"))["functions"]
    assert {k: len(v) for k, v in found.items()} == {k: len(getattr(loaded, k).concrete_functions) for k in ("nested", "ragged", "scaled")} | {"exact": 1}
    assert sorted(found["scaled"]) == ["x: float32 (None, 3), 2.0, False", "x: float32 (None, 3), 2.0, True"] and found["exact"] == ["x"]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        saved_model_cli._show_all(str(tmp_path / "m"))  # `saved_model_cli show --dir m --all`
    for name in re.findall(r"name='(\w+)'", shown.getvalue().split("Concrete Functions:")[1]):
        assert any(name + ": " in trace for traces in found.values() for trace in traces) or name == "x"


@pytest.mark.parametrize("n", [1, 4])
def test_gradients_of_branches_in_old_loops(n, tmp_path):
    """The loop holds a TensorArray; its branches save values for the gradient only where they are taken."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_control_flow_v2()
        x, count = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.int32, [], "n")

        def body(i, a, sums):
            a = v1.cond(i % 2 > 0, lambda: a * 1.5, lambda: tf.sin(a))
            return i + 1, a, sums.write(i, tf.reduce_sum(a, 1))

        _, y, sums = v1.while_loop(lambda i, *_: i < count, body, [0, x, tf.TensorArray(tf.float32, count)])
        outputs = {"y": y, "sums": sums.stack(), "slope": tf.gradients(tf.reduce_sum(y), x)[0]}
        v1.enable_control_flow_v2()
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x, "n": count}, outputs)
    feeds = {"x": np.ones((2, 3), "f"), "n": np.int32(n)}
    theirs = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"](**{k: tf.constant(v) for k, v in feeds.items()})
    ours = dict(tool.predict(tmp_path / "m", feeds, tmp_path))
    for key, value in theirs.items():
        tool.assert_close(ours[key], value.numpy(), what=key)

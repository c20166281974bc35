"""Modules of TensorFlow Hub for TensorFlow 1: MetaGraphs with and without tags, variables without operations that restore them."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub
from tensorflow.core.protobuf import saved_model_pb2

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

v1 = tf.compat.v1
X = np.random.default_rng(2).normal(0, 1, (5, 3)).astype("f")


def build(training, resources):
    """A graph with variables, one of them partitioned, a local variable and a table; its signatures."""
    x, words = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.string, [None], "words")
    with v1.variable_scope("module", use_resource=resources):
        w = v1.get_variable("w", [3, 4], initializer=v1.random_normal_initializer(seed=3))
        rows = v1.get_variable("rows", [5, 4], initializer=v1.random_normal_initializer(seed=4), partitioner=v1.fixed_size_partitioner(2))
        count = v1.get_variable("count", [], initializer=v1.constant_initializer(3.), collections=[v1.GraphKeys.LOCAL_VARIABLES], trainable=False)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], tf.constant([3, 1, 4])), 0)
    y = tf.tanh(x @ w) * (2. if training else 1.) + count
    found = v1.nn.embedding_lookup(rows, table.lookup(words), partition_strategy="div")
    info = v1.saved_model.build_tensor_info
    signature = lambda inputs, outputs: v1.saved_model.build_signature_def(
        {k: info(t) for k, t in inputs.items()}, {k: info(t) for k, t in outputs.items()})
    return {"default": signature({"x": x}, {"default": y}), "words": signature({"words": words}, {"rows": found, "sum": tf.reduce_sum(found, 1)}),
            "both": signature({"x": x, "words": words}, {"default": y + found})}


@pytest.fixture(scope="module", params=[False, True], ids=["references", "resources"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("hub") / "module"
    (path / "variables").mkdir(parents=True)
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    for tags in ([], ["train"]):
        with tf.Graph().as_default() as graph:
            signatures = build(bool(tags), request.param)
            meta = v1.train.export_meta_graph(graph=graph)
            meta.meta_info_def.tags.extend(tags)
            for key, signature in signatures.items():
                meta.signature_def[key].CopyFrom(signature)
            saved.meta_graphs.add().CopyFrom(meta)
            if not tags:
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    v1.train.Saver().save(session, str(path / "variables" / "variables"), write_meta_graph=False, write_state=False)
    (path / "saved_model.pb").write_bytes(saved.SerializeToString())
    (path / "tfhub_module.pb").write_bytes(b"\x08\x03")
    return path


@pytest.mark.parametrize("signature", ["default", "words", "both"])
@pytest.mark.parametrize("tags", [[], ["train"]])
def test_signature(folder, signature, tags, tmp_path):
    feeds = {"x": X, "words": np.array([b"b", b"?", b"c", b"a", b"b"])}
    function = hub.load(str(folder), tags=tags or None).signatures[signature]
    feeds = {k: v for k, v in feeds.items() if k in function.structured_input_signature[1]}
    theirs = function(**{k: tf.constant(v) for k, v in feeds.items()})
    ours = dict(tool.predict(folder, feeds, tmp_path, "--signature", signature, *(["--tags", ",".join(tags)] if tags else [])))
    assert sorted(ours) == sorted(theirs)
    for key, value in theirs.items():
        tool.assert_close(ours[key], value.numpy(), what=key)


class Affine(tf.Module):
    def __init__(self):
        rng = np.random.default_rng(5)
        self.w = tf.Variable(rng.normal(size=(3, 2)).astype("f"), name="w")
        self.b = tf.Variable(rng.normal(size=2).astype("f"), name="b")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x"), tf.TensorSpec([], tf.bool, name="training")])
    def __call__(self, x, training):
        return tf.tanh(x @ self.w + self.b) * tf.where(training, 2., 1.)


@pytest.mark.parametrize("listed", [False, True])
def test_variables_that_a_layer_trains(listed, gradient_probe, tmp_path):
    module = Affine()
    if listed:  # tf.Module has properties of these names
        root = tf.train.Checkpoint(trainable_variables=[module.w], variables=[module.w, module.b], __call__=module.__call__)
    tf.saved_model.save(root if listed else module, str(tmp_path / "m"))
    layer = hub.KerasLayer(str(tmp_path / "m"), trainable=True)
    with tf.GradientTape() as tape:
        y = layer(X, training=True)
        total = tf.reduce_sum(tf.math.log1p(y * y))
    theirs = {v.name.split(":")[0]: g.numpy() for v, g in zip(layer.trainable_weights, tape.gradient(total, layer.trainable_weights))}
    np.savez(tmp_path / "x.npz", x=X)
    assert gradient_probe(tmp_path / "m", tmp_path / "x.npz", tmp_path / "y.npz", "layer") == "ok"
    ours = dict(np.load(tmp_path / "y.npz"))
    tool.assert_close(ours["#0"], y.numpy())
    assert sorted(theirs) == (["w"] if listed else [])
    assert {k.removeprefix("gradient/") for k in ours} - {"#0", "x"} == set(theirs)
    for name, value in theirs.items():
        tool.assert_close(ours[f"gradient/{name}"], value, what=name)


class Moving(tf.Module):
    """A penalty, moving means that a branch changes, a loop and a TensorArray."""
    def __init__(self):
        rng = np.random.default_rng(6)
        self.w, self.b = (tf.Variable(rng.normal(size=s).astype("f"), name=n) for s, n in (((3, 3), "w"), ((3,), "b")))
        self.mean, self.count = tf.Variable(tf.zeros(3), False, name="mean"), tf.Variable(0., False, name="count")

    @tf.function(input_signature=[])
    def penalty(self):
        return .1 * tf.reduce_sum(self.w**2)

    def center(self, x):
        self.count.assign_add(1.)
        self.mean.assign(.9 * self.mean + .1 * tf.reduce_mean(x, 0))
        return x - tf.reduce_mean(x, 0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([], tf.bool)])
    def __call__(self, x, training=False):
        x = tf.cond(training, lambda: self.center(x), lambda: x - self.mean)
        x = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.tanh(x @ self.w + self.b)), [0, x])[1]
        steps = tf.TensorArray(tf.float32, 4, element_shape=[None, 3])
        steps = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32) + self.b)), [0, steps])[1]
        return {"sum": tf.reduce_sum(steps.stack(), 0), "count": self.count + 0.}


@pytest.mark.parametrize("training", [False, True, None])
def test_training_as_a_layer(training, gradient_probe, tmp_path):
    def written():
        module = Moving()
        root = tf.train.Checkpoint(trainable_variables=[module.w, module.b], variables=[module.w, module.b, module.mean, module.count],
                                   regularization_losses=[module.penalty], __call__=module.__call__)
        tf.saved_model.save(root, str(tmp_path / "m"))
        layer = hub.KerasLayer(str(tmp_path / "m"), trainable=True)
        theirs = {}
        for step in range(4):
            with tf.GradientTape() as tape:
                total = tf.add_n([tf.reduce_sum(tf.math.log1p(y * y)) for y in tf.nest.flatten(layer(X, training=training))] + layer.losses)
            theirs[f"loss/{step}"] = total.numpy()
            for variable, slope in zip(layer.trainable_weights, tape.gradient(total, layer.trainable_weights)):
                variable.assign_sub(slope * .01)
        theirs |= {f"#{i}": y.numpy() for i, y in enumerate(tf.nest.flatten(layer(X, training=training)))}
        return theirs | {f"weight/{i}": w.numpy() for i, w in enumerate(layer.weights)}

    theirs = stored.original(written, tmp_path)
    np.savez(tmp_path / "x.npz", x=X)
    how = "" if training is None else int(training)
    assert gradient_probe(tmp_path / "m", tmp_path / "x.npz", tmp_path / "y.npz", f"train:4:{how}") == "ok"
    ours = dict(np.load(tmp_path / "y.npz"))
    assert sorted(ours) == sorted(theirs)
    for name, value in theirs.items():
        tool.assert_close(ours[name], value, 1e-4, what=name)

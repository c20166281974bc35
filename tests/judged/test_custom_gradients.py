"""Gradients that a file registers (tf.custom_gradient, gradient_override_map) instead of those of its operations."""

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

X = np.random.default_rng(7).normal(0, 1, (4, 3)).astype("f")


@tf.custom_gradient
def scaled(x):
    return x * 1.0, lambda dy: dy * 3 - 1


@tf.custom_gradient
def with_intermediates(x):
    e = tf.exp(x)
    slope = 1 / (1 + e) + x  # which the result does not need
    return tf.math.log(1 + e), lambda dy: dy * slope


@tf.custom_gradient
def two_results(x, y):
    def grad(da, db):
        return da * y + db, tf.reduce_sum(da * x, 0) * 2
    return (x * y, x - y), grad


@tf.custom_gradient
def rounded(x):
    return tf.round(x), lambda dy: tf.where(tf.abs(x) < 1, dy, tf.zeros_like(dy))


class Module(tf.Module):
    def __init__(self):
        rng = np.random.default_rng(3)
        self.w = tf.Variable(rng.normal(0, 1, (3, 3)).astype("f"), name="w")
        self.table = tf.Variable(rng.normal(0, 1, (5, 3)).astype("f"), name="table")

    def of_variable(self, x):
        @tf.custom_gradient
        def product(x):
            def grad(dy, variables=None):
                return tf.matmul(dy, self.w, transpose_b=True) * 2, [tf.matmul(x, dy, transpose_a=True) * .5 for _ in variables]
            return x @ self.w, grad
        return product(x)

    def of_rows(self, x):
        @tf.custom_gradient
        def rows(x):
            def grad(dy, variables=None):
                return dy, [tf.IndexedSlices(dy * 2, tf.constant([0, 4, 4, 1]), tf.constant([5, 3])) for _ in variables]
            return x + tf.gather(self.table, [0, 4, 4, 1]), grad
        return rows(x)

    def in_branches(self, x):
        return tf.cond(tf.reduce_sum(x) > -100, lambda: scaled(tf.sin(x)), lambda: x)

    def in_a_loop(self, x):
        return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, scaled(tf.tanh(x)) + x), [0, x])[1]

    def in_a_call(self, x):
        inner = tf.function(lambda x: scaled(x) * self.w[0])
        return inner(inner(x))

    def in_each_other(self, x):
        @tf.custom_gradient
        def outer(x):
            y = scaled(tf.sin(x))
            return y, lambda dy: dy * y * x
        return outer(x)

    def of_two_results(self, x):
        a, b = two_results(x, self.w[1])
        return a + b * 3

    def of_one_result(self, x):
        return two_results(x, self.w[1])[1]

    def activations(self, x):
        return tf.nn.silu(x) + tf.nn.silu(x, beta=.3) * self.w[2]


FUNCTIONS = {"scaled": lambda self, x: scaled(x * self.w[0]), "with_intermediates": lambda self, x: with_intermediates(x * self.w[0]),
             "rounded": lambda self, x: rounded(x) * x, **{k: v for k, v in vars(Module).items() if k[0] != "_"}}


def results(function, variables):
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x=x)
        total = tf.add_n([tf.reduce_sum(tf.math.log1p(tf.square(tf.cast(v, tf.float64)))) for v in y.values()])
    slopes = tape.gradient(total, {"x": x} | variables)
    return {k: v.numpy() for k, v in y.items()} | {f"gradient/{k}": tf.convert_to_tensor(v).numpy() for k, v in slopes.items() if v is not None}


def save(module, function, path, saved):
    traced = tf.function(lambda x: {"y": function(module, x)}, input_signature=[tf.TensorSpec([4, 3], name="x")])
    module.run = traced
    tf.saved_model.save(module, str(path), traced, tf.saved_model.SaveOptions(experimental_custom_gradients=saved))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_registered_gradient(name, gradient_probe, tmp_path):
    save(Module(), FUNCTIONS[name], tmp_path / "m", True)
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    theirs = results(loaded.signatures["serving_default"], {"w": loaded.w, "table": loaded.table})
    np.savez(tmp_path / "x.npz", x=X)
    assert gradient_probe(tmp_path / "m", tmp_path / "x.npz", tmp_path / "y.npz") == "ok"
    ours = dict(np.load(tmp_path / "y.npz"))
    for key in ours.keys() | theirs.keys():
        if key in ours and key in theirs:
            tool.assert_close(ours[key], theirs[key], 1e-5, key, atol=1e-6)
        else:
            assert not np.any(ours.get(key, theirs.get(key))), f"{key} is in one of both only"
    tool.assert_close(tool.predict(tmp_path / "m", {"x": X}, tmp_path)[0][1], ours["y"])


@pytest.mark.parametrize("name", ["scaled", "in_a_call", "activations"])
def test_gradients_that_were_not_saved(name, gradient_probe, tmp_path):
    save(Module(), FUNCTIONS[name], tmp_path / "m", False)
    graph = tmp_path / "m" / "saved_model.pb"  # TensorFlow finds the gradients that this process has registered
    graph.write_bytes(graph.read_bytes().replace(b"CustomGradient-", b"CustomGradienT-"))
    model = tf.saved_model.load(str(tmp_path / "m"))
    loaded = model.signatures["serving_default"]
    tool.assert_close(tool.predict(tmp_path / "m", {"x": X}, tmp_path)[0][1], loaded(x=tf.constant(X))["y"].numpy())
    with pytest.raises(LookupError, match="No gradient defined"):
        results(loaded, {})
    np.savez(tmp_path / "x.npz", x=X)
    answer = gradient_probe(tmp_path / "m", tmp_path / "x.npz", tmp_path / "y.npz")
    assert "the gradient 'CustomGradienT-" in answer and "experimental_custom_gradients=True" in answer


@pytest.mark.parametrize("gradient", ["Identity", "Unknown"])
def test_overridden_gradients(gradient, gradient_probe, tmp_path):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, X.shape, "x")
        with graph.gradient_override_map({"Sign": gradient}):
            y = tf.identity(tf.sign(x) + x * x, "y")
        (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
        if gradient == "Identity":
            slope = tf.gradients(tf.reduce_sum(tf.math.log1p(tf.square(tf.cast(y, tf.float64)))), x)[0]
            with tf.compat.v1.Session(graph=graph) as session:
                theirs = session.run(slope, {x: X})
    np.savez(tmp_path / "x.npz", x=X)
    answer = gradient_probe(tmp_path / "g.pb", tmp_path / "x.npz", tmp_path / "y.npz", "y:0")
    if gradient == "Unknown":
        assert "the gradient 'Unknown'" in answer
    else:
        tool.assert_close(np.load(tmp_path / "y.npz")["gradient/x"], theirs)

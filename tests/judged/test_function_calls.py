"""Functions of loaded SavedModels: arguments by position and keyword, defaults, values of Python, several traces."""

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

X = np.random.default_rng(9).normal(0, 1, (4, 3)).astype("f")
SPEC = tf.TensorSpec([None, 3], name="x")


def scalar(dtype=tf.float32, name=None):
    return tf.TensorSpec([], dtype, name)


class Functions(tf.Module):
    def __init__(self):
        self.w = tf.Variable(X[:3] * 2)
        for function in TRACES:
            for arguments, keywords in TRACES[function]:
                getattr(self, function).get_concrete_function(*arguments, **keywords)

    @tf.function(input_signature=[SPEC, scalar(), scalar(tf.int32)])
    def with_defaults(self, x, factor=2.5, shift=3):
        return x @ self.w * factor + tf.cast(shift, tf.float32)

    @tf.function
    def powers(self, x, power=2, *, scale=1.5):
        return x ** power * scale

    @tf.function
    def modes(self, x, mode="sum", axis=None):
        return {"sum": tf.reduce_sum, "max": tf.reduce_max}[mode](x, axis)

    @tf.function
    def keywords(self, *, a, b=None):
        return a * 2 if b is None else a + b

    @tf.function
    def any_keywords(self, x, **more):
        return x + more["b"] * 2 - more.get("c", 0)


TRACES = {
    "powers": [((SPEC, 3), {}), ((SPEC,), {}), ((SPEC,), {"scale": 4.}), ((SPEC, scalar()), {"scale": scalar()})],
    "modes": [((SPEC, "max"), {}), ((SPEC,), {}), ((SPEC, "sum", 1), {})],
    "keywords": [((), {"a": SPEC}), ((), {"a": SPEC, "b": SPEC})],
    "any_keywords": [((SPEC,), {"b": SPEC}), ((SPEC,), {"b": SPEC, "c": 3.})],
}

f, i, s = np.float32, np.int32, np.array
CALLS = {
    "defaults": ("with_defaults", [X], {}), "first_default": ("with_defaults", [X, f(.5)], {}), "by_keyword": ("with_defaults", [X], {"shift": i(7)}),
    "all_keywords": ("with_defaults", [], {"shift": i(7), "x": X, "factor": f(3)}), "power": ("powers", [X], {}), "other_power": ("powers", [X, i(3)], {}),
    "power_by_keyword": ("powers", [X], {"power": i(3)}), "scale": ("powers", [X], {"scale": f(4)}), "tensors": ("powers", [X, f(3)], {"scale": f(2)}),
    "mode": ("modes", [X], {}), "other_mode": ("modes", [X, s(b"max")], {}), "axis": ("modes", [X, s(b"sum"), i(1)], {}), "axis_only": ("modes", [X], {"axis": i(1)}),
    "keyword_only": ("keywords", [], {"a": X}), "both_keywords": ("keywords", [], {"b": X, "a": X}), "any": ("any_keywords", [X], {"b": X}),
    "any_two": ("any_keywords", [X], {"b": X, "c": f(3)}),
}
WRONG = {"unknown_keyword": ("with_defaults", [X], {"shif": i(7)}), "untraced_value": ("modes", [X, s(b"max"), i(1)], {}), "missing": ("with_defaults", [], {"shift": i(7)}),
         "too_many": ("modes", [X, s(b"sum"), i(1), X], {}), "untraced_mode": ("modes", [X, s(b"mean")], {})}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("functions") / "m"
    tf.saved_model.save(Functions(), str(path))
    return path


def called(loaded, name, arguments, keywords, tensors):
    """TensorFlow takes values of Python where a function was traced with them."""
    def give(value):
        value = np.asarray(value)
        return tf.constant(value) if value.ndim or tensors else value.item().decode() if value.dtype.kind == "S" else value.item()
    return getattr(loaded, name)(*[give(v) for v in arguments], **{k: give(v) for k, v in keywords.items()})


def ask(gradient_probe, saved, tmp_path, name, arguments, keywords):
    np.savez(tmp_path / "x.npz", **{f"arg_{k}": v for k, v in enumerate(arguments)}, **keywords)
    return gradient_probe(saved, tmp_path / "x.npz", tmp_path / "y.npz", f"call:{name}")


@pytest.mark.parametrize("case", CALLS)
def test_call(case, gradient_probe, saved, tmp_path):
    name, arguments, keywords = CALLS[case]
    theirs = tf.nest.flatten(called(tf.saved_model.load(str(saved)), name, arguments, keywords, case == "tensors"))
    assert ask(gradient_probe, saved, tmp_path, name, arguments, keywords) == "ok"
    ours = np.load(tmp_path / "y.npz")
    for number, value in enumerate(theirs):
        tool.assert_close(ours[f"#{number}"], value.numpy())


@pytest.mark.parametrize("case", WRONG)
def test_wrong_call(case, gradient_probe, saved, tmp_path):
    name, arguments, keywords = WRONG[case]
    with pytest.raises((TypeError, ValueError)):
        called(tf.saved_model.load(str(saved)), name, arguments, keywords, False)
    answer = ask(gradient_probe, saved, tmp_path, name, arguments, keywords)
    assert f"function '{name}'" in answer, answer


@pytest.mark.parametrize("given", [{}, {"factor": f(3)}])
def test_tensors_as_defaults(given, gradient_probe, tmp_path):
    module = tf.Module()
    factor = tf.constant(2.5)
    module.run = tf.function(lambda x, factor=factor: {"y": x * factor}, input_signature=[SPEC, scalar(name="factor")])
    tf.saved_model.save(module, str(tmp_path / "m"), module.run)
    theirs = tf.saved_model.load(str(tmp_path / "m")).run(tf.constant(X), **{k: tf.constant(v) for k, v in given.items()})["y"].numpy()
    assert ask(gradient_probe, tmp_path / "m", tmp_path, "run", [X], given) == "ok"
    tool.assert_close(np.load(tmp_path / "y.npz")["#0"], theirs)

"""Graphs and loops of small tensors, which run as programs of their own kernels, against TensorFlow; the same graphs with larger tensors."""

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

R = tf.raw_ops
UNARY = ("Neg Abs Square Sign Exp Log Log1p Expm1 Sqrt Rsqrt Tanh Sigmoid Sin Cos Tan Atan Erf Floor Ceil Round Rint Relu Relu6 Elu "
         "Softplus Softsign Reciprocal Inv IsNan IsInf IsFinite ZerosLike OnesLike Snapshot").split()
BINARY = ("AddV2 Sub Mul RealDiv Div DivNoNan Maximum Minimum SquaredDifference Pow Less LessEqual Greater GreaterEqual Equal "
          "NotEqual FloorDiv FloorMod").split()
OF_INTEGERS = "Neg Abs Square Sign ZerosLike AddV2 Sub Mul FloorDiv FloorMod Maximum Minimum SquaredDifference Less LessEqual Equal NotEqual".split()


def unary(x):
    """Of an array of floats."""
    out = {name: getattr(R, name)(**{"input" if name == "Snapshot" else "features" if name in FEATURES else "x": x}) for name in UNARY}
    return out | {f"cast_{t.name}": tf.cast(x, t) for t in (tf.int32, tf.int64, tf.float32, tf.float64, tf.bool)}


FEATURES = {"Relu", "Relu6", "Elu", "Softplus", "Softsign"}


def binary(x):
    out = {}
    for key, y in {"same": x[::-1] * 1.5, "scalar": tf.constant(2, x.dtype), "row": x[-1:], "column": x[..., :1]}.items():
        out |= {f"{name}_{key}": getattr(R, name)(x=x, y=y) for name in BINARY}
        out |= {f"{name}_{key}_swapped": getattr(R, name)(x=y, y=x) for name in ("Sub", "RealDiv", "Less")}
        out[f"select_{key}"] = tf.where(x > y, x, y)
        out[f"logic_{key}"] = (x > 0) & (y > 0) | ~(x < y)
    return out | {"sum": tf.add_n([x, x, x]), "outer": x[:, None] * x[None]}


def integers(x):
    x = tf.cast(x * 3, tf.int32)
    out = {}
    for kind in (tf.int32, tf.int64):
        a, b = tf.cast(x, kind), tf.cast(x[::-1] * 2 + 3, kind) | 4
        for name in OF_INTEGERS:
            op = getattr(R, name)
            out[f"{name}_{kind.name}"] = op(x=a) if name in UNARY else op(x=a, y=b)
        big = a + kind.max
        out |= {f"wrapped_{kind.name}": big * 3 + a * a - kind.min, f"float_{kind.name}": tf.cast(a, tf.float64)}
    return out


def arrays(x):
    """Of a matrix: shapes, slices, joins, reductions."""
    rows = tf.shape(x)[0]
    out = {"shape": tf.shape(x, tf.int64), "size": tf.size(x), "rank": tf.rank(x), "flat": tf.reshape(x, [-1]),
           "halves": tf.reshape(x, tf.stack([rows, 2, -1])), "expanded": x[:, None], "squeezed": tf.squeeze(x[:1], 0),
           "all_squeezed": tf.squeeze(x[None, :1, :1]), "filled": tf.fill([2, rows], x[0, 0]), "range": tf.range(rows, 0, -2),
           "range64": tf.range(tf.cast(rows, tf.int64)), "transposed": tf.transpose(x), "cube": tf.transpose(tf.stack([x, x * 2]), [2, 0, 1]),
           "packed": tf.stack([x, -x], 1), "joined": tf.concat([x, x * 2, x[:, :1]], 1), "tall": tf.concat([x, x], 0),
           "gathered": tf.gather(x, [1, 0, 1]), "columns": tf.gather(x, [[3], [0]], axis=1), "sliced": tf.slice(x, [1, 0], [-1, 2]),
           "product": x @ tf.transpose(x), "transposed_product": tf.matmul(x, x, transpose_a=True), "bias": tf.nn.bias_add(x, x[0])}
    for key, part in {"rows": x[1:], "back": x[::-1, ::-2], "element": x[-1, 1], "step": x[:, 1::2], "none": x[2:1], "far": x[-100:100],
                      "down": x[5:0:-1], "last": x[..., -1]}.items():
        out[f"part_{key}"] = part
    for i, part in enumerate([*tf.unstack(x, 4, axis=1), *tf.split(x, 2, 1), *tf.unstack(x[:2], 2)]):
        out[f"cut_{i}"] = part
    for name in ("sum", "mean", "prod", "max", "min"):
        for axis in (None, 0, [1], [0, -1], []):
            for keep in (False, True):
                key = "_".join(map(str, [name, axis, int(keep)])).translate(str.maketrans("", "", "[], -"))
                out[f"reduced_{key}"] = getattr(tf, f"reduce_{name}")(x, axis, keepdims=keep)
    return out | {"all": tf.reduce_all(x > -1, 0), "any": tf.reduce_any(x > 1, 1), "longest": tf.reduce_max(tf.cast(x, tf.int32), 1)}


GROUPS = {f.__name__: f for f in (unary, binary, integers, arrays)}


@pytest.mark.parametrize("name,kind", [("unary", tf.float32), ("unary", tf.float64), ("binary", tf.float32), ("integers", tf.float32),
                                       ("arrays", tf.float32), ("arrays", tf.float64)])
def test_operations(name, kind, tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], kind, name="x")])
        def __call__(self, x):
            return GROUPS[name](x)

    module = Module()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    run = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    rng = tool.generator("small", name, kind.name)
    special = np.array([[0, -0.0, 1, -1], [np.inf, -np.inf, .5, 2.5]])
    arrays_of = [rng.normal(0, 2, (rows, 4)) for rows in (2, 3, 300)] + ([special] if name == "unary" else [])
    for x in (x.astype(kind.as_numpy_dtype) for x in arrays_of):
        theirs = run(x=tf.constant(x))
        ours = dict(tool.predict(tmp_path / "m", {"x": x}, tmp_path, "--batch-size", 1000))
        assert sorted(ours) == sorted(theirs)
        for key, value in theirs.items():
            if key == "Erf" and kind == tf.float64 and np.isinf(x).any():
                continue  # TensorFlow's gives NaN for infinities
            tool.assert_close(ours[key], value.numpy(), 1e-5, what=f"{key} of {x.shape}")


class Loops(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="n"), tf.TensorSpec([None], tf.float32, name="x")])
    def __call__(self, n, x):
        less = lambda i, *_: i < n
        step = lambda i: i + 1
        w = tf.reshape(tf.range(16.0), [4, 4]) * .05
        fibonacci = tf.while_loop(less, lambda i, a, b: (step(i), b, a + b), [0, tf.constant(0, tf.int64), tf.constant(1, tf.int64)])
        state = tf.while_loop(less, lambda i, s: (step(i), tf.tanh(s @ w + .1)), [0, tf.ones([1, 4])])
        longer = tf.while_loop(less, lambda i, s: (step(i), tf.concat([s, s[-1:] * .5 + 1], 0)), [0, x],
                               shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])
        untouched = tf.while_loop(less, lambda i, s, big: (step(i), s + tf.reduce_sum(big), big), [0, 0.0, x])
        swapped = tf.while_loop(less, lambda i, a, b: (step(i), b, a), [0, x, -x])
        halved = tf.while_loop(lambda i, s: tf.reduce_any(s > .5), lambda i, s: (step(i), s * .5), [0, tf.abs(x)])
        nested = tf.while_loop(less, lambda i, s: (step(i), tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + .5), [0, s])[1] * .9), [0, 1.0])
        results = {"fibonacci": fibonacci, "state": state, "longer": longer, "untouched": untouched, "swapped": swapped, "halved": halved,
                   "nested": nested}
        return {f"{name}_{i}": value for name, values in results.items() for i, value in enumerate(values)}


@pytest.mark.parametrize("n,count", [(0, 3), (1, 5), (17, 3), (30, 500), (9, 2000)])
def test_loops(n, count, tmp_path):
    module = Loops()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    inputs = {"n": np.int32(n), "x": tool.generator("loops", n).normal(size=count).astype("f")}
    theirs = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"](**{k: tf.constant(v) for k, v in inputs.items()})
    ours = dict(tool.predict(tmp_path / "m", inputs, tmp_path))
    assert sorted(ours) == sorted(theirs)
    for key, value in theirs.items():
        tool.assert_close(ours[key], value.numpy(), 1e-5, what=key)


# What depends on the number of rows, or on the place of a row among them: batches run in parts of a few rows.
ROWS = {
    "more": lambda x, n: x * tf.cast(n > 3, tf.float32), "cond": lambda x, n: tf.cond(n > 3, lambda: x + 1, lambda: x - 1),
    "least": lambda x, n: x / tf.cast(tf.minimum(n, 2), tf.float32), "first": lambda x, n: tf.where((tf.range(n) < 2)[:, None], x, -x),
    "groups": lambda x, n: x + tf.cast(tf.range(n) // 4, tf.float32)[:, None], "even": lambda x, n: x * tf.cast(n % 2, tf.float32),
    "drop": lambda x, n: tf.nn.experimental.stateless_dropout(x, .9, [1, 3]), "equal": lambda x, n: x * tf.cast(tf.equal(n, 8), tf.float32),
    "any": lambda x, n: x * tf.cast(tf.reduce_any(tf.range(n) > 4), tf.float32), "size": lambda x, n: x * tf.cast(tf.size(x) > 20, tf.float32),
    "masked": lambda x, n: x * tf.cast(tf.sequence_mask(3, n), tf.float32)[:, None], "eye": lambda x, n: x + tf.reduce_sum(tf.eye(n, 5), 1, keepdims=True),
    "count": lambda x, n: tf.reshape(x * tf.cast(tf.fill([n, 1], 2) > 1, tf.float32), [n, -1]), "relu": lambda x, n: x + tf.nn.relu(tf.cast(n, tf.float32) - 3.),
    "half": lambda x, n: tf.repeat(x, 2, 0)[:n], "begin": lambda x, n: tf.slice(tf.reshape(tf.stack([x, -x], 1), [-1, 5]), [0, 0], [n, 5]),
    "steps": lambda x, n: tf.while_loop(lambda i, y: i < tf.minimum(n, 5), lambda i, y: (i + 1, y + 1.), [0, x])[1]}


@pytest.mark.parametrize("name", ROWS)
def test_numbers_of_rows(name, tmp_path):
    module = tf.Module()
    module.run = tf.function(lambda x: {"y": ROWS[name](x, tf.shape(x)[0])}, input_signature=[tf.TensorSpec([None, 5], name="x")])
    tf.saved_model.save(module, str(tmp_path / "m"), module.run)
    for rows in (2, 3, 8, 9):
        x = tool.generator("rows", name, rows).normal(size=(rows, 5)).astype("f")
        ours = dict(tool.predict(tmp_path / "m", {"x": x}, tmp_path))
        tool.assert_close(ours["y"], module.run(tf.constant(x))["y"].numpy(), 1e-6, f"{name} of {rows} rows")


def test_kernels_are_no_rows(tmp_path):
    """The kernel is an input, too, whose depth is the size of the batch."""
    module = tf.Module()
    module.run = tf.function(lambda x, w: {"y": tf.nn.conv3d(x, w, [1] * 5, "SAME")},
                             input_signature=[tf.TensorSpec([None, 4, 5, 3, 3], name="x"), tf.TensorSpec([2, 3, 2, 3, 4], name="w")])
    tf.saved_model.save(module, str(tmp_path / "m"), module.run)
    rng = tool.generator("kernels")
    x, w = rng.normal(size=(2, 4, 5, 3, 3)).astype("f"), rng.normal(size=(2, 3, 2, 3, 4)).astype("f")
    ours = dict(tool.predict(tmp_path / "m", {"x": x, "w": w}, tmp_path))
    tool.assert_close(ours["y"], module.run(tf.constant(x), tf.constant(w))["y"].numpy(), 1e-5)


def test_errors_name_the_node(tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
        def __call__(self, x):
            return {"y": (x + 1) // (x - 2)}

    module = Module()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], "i4"))
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert "Integer division by zero" in line and "node 'floordiv'" in line


@pytest.fixture
def version_1():
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    yield v1
    v1.enable_control_flow_v2()


@pytest.mark.parametrize("n", [0, 1, 7])
def test_frames_of_version_1(n, tmp_path, version_1):
    """Loops of Enter, Merge, Switch, NextIteration and Exit: nested, with branches, arrays, variables and gradients."""
    v1, path = version_1, str(tmp_path / "m")
    with tf.Graph().as_default(), v1.Session() as session:
        count, x = v1.placeholder(tf.int32, [], name="n"), v1.placeholder(tf.float32, [3], name="x")
        total = v1.get_variable("total", initializer=np.float32(1.5), use_resource=False)
        less = lambda i, *_: i < count
        simple = tf.while_loop(less, lambda i, s: (i + 1, s * .9 + x), [0, x])[1]
        nested = tf.while_loop(less, lambda i, s: (i + 1, tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t * .5 + x), [0, s])[1]), [0, x])[1]
        branch = tf.while_loop(less, lambda i, s: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: s + x, lambda: s * total)), [0, x])[1]
        _, array = tf.while_loop(less, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))), [0, tf.TensorArray(tf.float32, count)])
        guarded = tf.cond(count > 3, lambda: tf.while_loop(less, lambda i, s: (i + 1, s + 1.0), [0, x])[1], lambda: -x)

        def counted(i, s):
            with tf.control_dependencies([v1.assign_add(total, 2.0)]):
                return i + 1, s + tf.identity(x)
        with tf.control_dependencies([branch]):
            added = tf.while_loop(less, counted, [tf.constant(0), x], parallel_iterations=1)[1]
        with tf.control_dependencies([added]):
            after = total.read_value() + 0.0
        products = tf.while_loop(less, lambda i, s: (i + 1, tf.tanh(s * x + s * s)), [0, x])[1]
        outputs = {"simple": simple, "nested": nested, "branch": branch, "guarded": guarded, "added": added, "after": after,
                   "sum": array.size(), "gradient": tf.gradients(tf.reduce_sum(products), x)[0]}
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"n": count, "x": x}, {k: tf.identity(v) for k, v in outputs.items()})
    inputs = {"n": np.int32(n), "x": np.array([.5, -1, 2], "f")}
    theirs = tf.saved_model.load(path).signatures["serving_default"](**{k: tf.constant(v) for k, v in inputs.items()})
    ours = dict(tool.predict(path, inputs, tmp_path))
    assert sorted(ours) == sorted(theirs)
    for key, value in theirs.items():
        tool.assert_close(ours[key], value.numpy(), 1e-5, what=key)


@pytest.mark.parametrize("x", [-2.0, 0.5, 2.0])
def test_branches_that_controls_leave(x, tmp_path):
    """A frozen graph whose branches became Switch and Merge: a Merge has controls in both, of which one comes."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def checked(x, most):
        with tf.control_dependencies([tf.debugging.assert_less(x, most)]):
            return tf.identity(x)

    def branches(x):
        inner = lambda: tf.cond(x > 1.0, lambda: checked(x, 3.0) * 2, lambda: checked(x, 1.5) * 3)
        y = tf.cond(x > 0.0, inner, lambda: checked(x, 0.0))
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.cond(y > 0.0, lambda: checked(y, 99.0) + 1, lambda: checked(y, 0.5) - 1)), [0, y])[1]

    concrete = tf.function(branches).get_concrete_function(tf.TensorSpec([], tf.float32, name="x"))
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=True)
    (tmp_path / "g.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    ours = tool.predict(tmp_path / "g.pb", {"x": np.float32(x)}, tmp_path, "--outputs", frozen.outputs[0].name)
    tool.assert_close(ours[0][1], concrete(tf.constant(x)).numpy())

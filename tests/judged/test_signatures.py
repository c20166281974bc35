"""Signatures of TensorFlow with state, resources that pass through calls, and inputs of other shapes than the traced ones."""

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

ROWS = np.arange(70, dtype="float32")


def spec(*shape, dtype=tf.float32, name="x"):
    return tf.TensorSpec(shape, dtype, name=name)


class Counter(tf.Module):
    """Calls and a running total, by every kind of assignment."""

    def __init__(self):
        self.calls = tf.Variable(0, dtype=tf.int64)
        self.total, self.last = tf.Variable(5.0), tf.Variable(tf.zeros([2]))

    @tf.function(input_signature=[spec(None)])
    def __call__(self, x):
        self.calls.assign_add(1)
        before = self.total.read_value()
        after = self.total.assign_add(tf.reduce_sum(x))
        self.last.assign(tf.stack([x[0], x[-1]]))
        self.last.scatter_nd_update([[1]], [before])
        self.total.assign_sub(1.0)
        return {"calls": self.calls.read_value(), "after": after, "now": self.total, "last": self.last, "rows": x * self.total}


class Words(tf.Module):
    """A table that the signature fills."""

    def __init__(self):
        self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        self.table.insert(tf.constant(["a"]), tf.constant([7], tf.int64))

    @tf.function(input_signature=[spec(None, dtype=tf.string)])
    def __call__(self, x):
        known = self.table.lookup(x)
        self.table.insert(x, tf.range(tf.size(x, tf.int64)))
        return {"known": known, "now": self.table.lookup(x), "size": self.table.size()}


class Handles(tf.Module):
    """Variables and tables as inputs and outputs of calls, of If, While and Case."""

    def __init__(self):
        self.a, self.b = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
        self.table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)

    @tf.function(input_signature=[spec(), spec(dtype=tf.int32, name="n")])
    def __call__(self, x, n):
        @tf.function
        def pick(first, second):
            return tf.cond(x > 0, lambda: first, lambda: second)

        @tf.function
        def add(handle, amount):
            tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.stack([amount, -amount]))
            return handle, tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

        picked = pick(self.a.handle, self.b.handle)
        same, read = add(picked, x)
        _, handle, steps = tf.while_loop(lambda i, handle, steps: i < n,
                                         lambda i, handle, steps: (i + 1, add(handle, 1.0)[0], steps + 2),
                                         [0, same, 0])
        case = tf.switch_case(n % 2, [lambda: add(handle, 10.0)[1], lambda: read])
        self.table.insert(tf.range(2, dtype=tf.int64), case)
        return {"read": read, "case": case, "steps": steps, "table": self.table.lookup(tf.constant([1, 5], tf.int64)),
                "end": tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)}


class Random(tf.Module):
    def __init__(self):
        self.generator = tf.random.Generator.from_seed(7)

    @tf.function(input_signature=[spec(None)])
    def __call__(self, x):
        return {"y": x + self.generator.uniform(tf.shape(x)), "z": self.generator.normal(tf.shape(x))}


class Shapes(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]))

    @tf.function(input_signature=[spec(), spec(dtype=tf.string, name="s"), spec(2, 4, name="m")])
    def __call__(self, x, s, m):
        return {"twice": x * 2, "length": tf.strings.length(s), "product": m @ self.w}


def signature_of(path):
    return tf.saved_model.load(str(path)).signatures["serving_default"]


def judge(module, tmp_path, inputs, *options):
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    theirs = signature_of(tmp_path / "m")(**{name: tf.constant(value) for name, value in inputs.items()})
    ours = dict(tool.predict(tmp_path / "m", inputs, tmp_path, *options))
    assert sorted(ours) == sorted(theirs)
    for name, value in theirs.items():
        tool.assert_close(ours[name], value.numpy(), what=name)


@pytest.mark.parametrize("module,x", [(Counter, ROWS), (Random, ROWS), (Words, np.array([b"b", b"a", b"c"] * 20))])
@pytest.mark.parametrize("batch", [16, 1000])
def test_state_changes_once(module, x, batch, tmp_path):
    """An input of several batches makes one call, as in TensorFlow: parts would change the state several times."""
    judge(module(), tmp_path, {"x": x}, "--batch-size", batch)


class Slopes(tf.Module):
    """Gradients of branches in branches and in loops: TensorFlow keeps what they computed in optionals and in lists of lists."""

    def __init__(self):
        self.w = tf.Variable(np.arange(6, dtype="f").reshape(2, 3) / 7)

    @tf.function(input_signature=[spec(2, 3), spec(dtype=tf.int32, name="n")])
    def __call__(self, x, n):
        def inner(t):
            return tf.cond(tf.reduce_sum(t) > 0, lambda: tf.tanh(t * self.w) * t, lambda: tf.exp(t) - self.w)

        def rows(t):
            return tf.scan(lambda a, r: tf.sin(a) + r * r, t, initializer=self.w[0])

        def step(i, t):
            return i + 1, tf.cond(i % 2 == 0, lambda: inner(t) + rows(t), lambda: t * self.w)

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cond(n > 0, lambda: inner(x) * rows(x), lambda: x * x)
            y = tf.while_loop(lambda i, t: i < n, step, [0, y])[1] + rows(rows(x))
            z = tf.reduce_sum(tf.tanh(y))
        return dict(zip("zxw", [z, *tape.gradient(z, [x, self.w])]))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_gradients_of_control_flow(n, tmp_path):
    judge(Slopes(), tmp_path, {"x": np.array([[.5, -1, 2], [.1, .3, -.7]], "f"), "n": np.int32(n)})


@pytest.mark.parametrize("x,n", [(2.5, 0), (-1.5, 3), (4.0, 4)])
def test_resources_pass_through_calls(x, n, tmp_path):
    judge(Handles(), tmp_path, {"x": np.float32(x), "n": np.int32(n)})


M = np.arange(8, dtype="float32").reshape(2, 4)


@pytest.mark.parametrize("x,s,m", [(np.float32(3), np.array(b"abc"), M), (ROWS, np.array([b"a", b"bcd"]), M),
                                   (ROWS.reshape(7, 10), np.array([[b""]]), np.tile(M, (3, 1)))])
def test_inputs_of_other_shapes(x, s, m, tmp_path):
    judge(Shapes(), tmp_path, {"x": x, "s": s, "m": m}, "--batch-size", 2)


def test_shapes_that_cannot_run_are_named(tmp_path):
    module = Shapes()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    inputs = {"x": np.float32(1), "s": np.array(b"a"), "m": np.ones([2, 3], "f")}
    with pytest.raises(tf.errors.InvalidArgumentError):
        signature_of(tmp_path / "m")(**{name: tf.constant(value) for name, value in inputs.items()})
    np.savez(tmp_path / "x.npz", **inputs)
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert "input 'm' is float32(2, 3), expected float32(2, 4)" in line


RULES = {  # the update rule: its slots, its numbers in the order of the operation's arguments, its flags, whether it exists for rows
    "Adadelta": (("accum", "accum_update"), dict(lr=.1, rho=.9, epsilon=.01), {}, True),
    "Adagrad": (("accum",), dict(lr=.1), dict(update_slots=False), True),
    "AdagradV2": (("accum",), dict(lr=.1, epsilon=.01), dict(update_slots=False), True),
    "Adam": (("m", "v"), dict(beta1_power=.9, beta2_power=.99, lr=.1, beta1=.9, beta2=.99, epsilon=.01), dict(use_nesterov=True), False),
    "AdamWithAmsgrad": (("m", "v", "vhat"), dict(beta1_power=.9, beta2_power=.99, lr=.1, beta1=.9, beta2=.99, epsilon=.01), {}, False),
    "AdaMax": (("m", "v"), dict(beta1_power=.9, lr=.1, beta1=.9, beta2=.99, epsilon=.01), {}, False),
    "AdagradDA": (("gradient_accumulator", "gradient_squared_accumulator"), dict(lr=.1, l1=.2, l2=.3, global_step=tf.constant(3, tf.int64)), {}, True),
    "AddSign": (("m",), dict(lr=.1, alpha=1.5, sign_decay=.7, beta=.9), {}, False),
    "CenteredRMSProp": (("mg", "ms", "mom"), dict(lr=.1, rho=.9, momentum=.5, epsilon=.6), {}, True),
    "Ftrl": (("accum", "linear"), dict(lr=.1, l1=.2, l2=.3, lr_power=-.5), dict(multiply_linear_by_lr=True), True),
    "FtrlV2": (("accum", "linear"), dict(lr=.1, l1=.2, l2=.3, l2_shrinkage=.1, lr_power=-.4), dict(multiply_linear_by_lr=True), True),
    "KerasMomentum": (("accum",), dict(lr=.1, momentum=.9), dict(use_nesterov=True), True),
    "Momentum": (("accum",), dict(lr=.1, momentum=.9), dict(use_nesterov=True), True),
    "PowerSign": (("m",), dict(lr=.1, logbase=.8, sign_decay=.7, beta=.9), {}, False),
    "ProximalAdagrad": (("accum",), dict(lr=.1, l1=.2, l2=.3), {}, True),
    "ProximalGradientDescent": ((), dict(alpha=.1, l1=.2, l2=.3), {}, True),
    "RMSProp": (("ms", "mom"), dict(lr=.1, rho=.9, momentum=.5, epsilon=.01), {}, True)}


class Rules(tf.Module):
    """Each update rule on whole gradients and on rows, one of which comes twice."""

    def __init__(self):
        self.values, rng = {}, tool.generator("rules")
        for rule, (slots, _, flags, of_rows) in RULES.items():
            for flag in (False, True) if flags else (False,):
                for rows in (False, True) if of_rows else (False,):
                    for slot in ("var", *slots):
                        value = np.abs(rng.normal(size=(4, 3)).astype("f")) * (.1 if slot in ("mg", "linear") else 1)
                        self.values[f"{rule}-{int(flag)}-{int(rows)}-{slot}"] = tf.Variable(value)

    @tf.function(input_signature=[spec(4, 3)])
    def __call__(self, x):
        out = {}
        for key in [key for key in self.values if key.endswith("-var")]:
            rule, flag, rows, _ = key.split("-")
            slots, numbers, flags, _ = RULES[rule]
            args = {slot: self.values[f"{rule}-{flag}-{rows}-{slot}"].handle for slot in ("var", *slots)}
            op = getattr(tf.raw_ops, ("ResourceSparseApply" if rows == "1" else "ResourceApply") + rule)
            args |= dict(indices=[1, 3, 1, 0]) if rows == "1" else {}
            args["delta" if rule == "ProximalGradientDescent" and rows == "0" else "grad"] = x
            op(**args, **numbers, **{k: v == (flag == "1") for k, v in flags.items()})
            out |= {f"{rule}_{flag}_{rows}_{slot}": self.values[f"{rule}-{flag}-{rows}-{slot}"].read_value() for slot in ("var", *slots)}
        return out


def test_update_rules(tmp_path):
    judge(Rules(), tmp_path, {"x": tool.generator("gradient").normal(size=(4, 3)).astype("f")})


REFUSED = {"Ftrl": (dict(lr=0.), [3, 2]), "FtrlV2": (dict(l2_shrinkage=-.1), [3, 2]), "Adagrad": ({}, [3, 0]), "ProximalAdagrad": (dict(l1=-.1), [3, 2]),
           "ProximalGradientDescent": ({}, [3, 0])}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_update_rules(rule, tmp_path):
    numbers, shape = REFUSED[rule]
    module, slots = tf.Module(), ("var", *RULES[rule][0])
    module.variables_of = [tf.Variable(tf.ones(shape)) for _ in slots]
    handles = {slot: v.handle for slot, v in zip(slots, module.variables_of)}
    op = getattr(tf.raw_ops, "ResourceSparseApply" + rule)

    @tf.function(input_signature=[spec(2, shape[1], name="x")])
    def run(x):
        op(**handles, **RULES[rule][1] | numbers, grad=x, indices=[2, 0])
        return module.variables_of[0].read_value()

    module.run = run
    x = np.ones((2, shape[1]), "f")
    with pytest.raises(tf.errors.InvalidArgumentError):
        module.run(x)
    tf.saved_model.save(module, str(tmp_path / "m"), module.run)
    np.savez(tmp_path / "x.npz", x=x)
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", code=1)
    assert next(iter(numbers), "one element") in line and rule in line


def test_parts_of_references(tmp_path):
    """What graphs of TensorFlow 1 do to variables without a resource."""
    v1, path = tf.compat.v1, str(tmp_path / "m")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2, 3], name="x")
        last, outputs = tf.no_op(), {}
        variables = [v1.get_variable(f"v{i}", initializer=np.arange(12, dtype="f").reshape(4, 3) + i, use_resource=False) for i in range(19)]
        counter = v1.get_variable("counter", initializer=3, use_resource=False)
        updates = [getattr(v1, f"scatter_{how}") for how in ("update", "add", "sub", "mul", "div", "max", "min")]
        for i, (variable, update) in enumerate(zip(variables, updates)):
            with tf.control_dependencies([last]):
                last = update(variable, [2, 0], x)
            outputs[f"rows{i}"] = tf.identity(last)
        for i, how in enumerate(("update", "add", "sub")):
            with tf.control_dependencies(list(outputs.values())):
                outputs[f"elements{i}"] = tf.identity(getattr(v1, f"scatter_nd_{how}")(variables[7 + i], [[1, 2], [3, 0]], x[0, :2]))
        with tf.control_dependencies(list(outputs.values())):
            outputs["slice"] = tf.identity(variables[10][1:3].assign(x * 3))
            outputs["count"] = tf.identity(v1.count_up_to(counter, 9))
            outputs["descent"] = tf.identity(tf.raw_ops.ApplyGradientDescent(var=variables[11], alpha=.5, delta=tf.tile(x, [2, 1])))
            outputs["maximum"] = tf.identity(tf.raw_ops.ApplyAdaMax(var=variables[14], m=variables[15], v=variables[16], beta1_power=.9, lr=.1, beta1=.9,
                                                                    beta2=.99, epsilon=.01, grad=tf.tile(x, [2, 1])))
            outputs["proximal"] = tf.identity(tf.raw_ops.SparseApplyProximalAdagrad(var=variables[17], accum=variables[18], lr=.1, l1=.2, l2=.3, grad=x, indices=[3, 2]))
            outputs["adagrad"] = tf.identity(tf.raw_ops.SparseApplyAdagrad(var=variables[12], accum=variables[13], lr=.1, grad=x, indices=[3, 2]))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"x": x}, outputs)
    value = np.array([[1, -2, 3], [.5, 4, 20]], "f")
    theirs = tf.saved_model.load(path).signatures["serving_default"](x=tf.constant(value))
    ours = dict(tool.predict(path, {"x": value}, tmp_path))
    assert sorted(ours) == sorted(theirs)
    for name, expected in theirs.items():
        tool.assert_close(ours[name], expected.numpy(), what=name)

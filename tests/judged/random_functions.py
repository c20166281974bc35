"""Random functions of TensorFlow: some of many operations of several families in a row, with branches, loops and calls.

Values have a kind: "m" is a float matrix [rows, 4], "v" a float vector [rows], "image" floats [rows, 6, 5, 3], "i" and "s" integers and
texts [rows], "scalar" a float. An operation takes values of any earlier step and adds one or two.
"""

import numpy as np
import tensorflow as tf

R = tf.raw_ops
INPUTS = dict(a=([None, 4], tf.float32), b=([None, 4], tf.float32), q=([None, 6, 5, 3], tf.float32), v=([None], tf.float32), n=([], tf.int32),
              i=([None], tf.int32), s=([None], tf.string))
WORDS = ["apple", "Banana", "cat dog", "", "häus", "zebra a", "42", "x-y"]
POSITIVE, SMALL = lambda x: tf.abs(x) + .3, lambda x: tf.tanh(x) * .9
UNARY = {**dict.fromkeys("Neg Abs Square Sign Tanh Sigmoid Sin Cos Atan Erf Relu Elu Selu Softplus Softsign Floor Rint Asinh".split(), tf.identity),
         **dict.fromkeys("Sqrt Rsqrt Lgamma Digamma Reciprocal Log Log1p Expint Spence".split(), POSITIVE),
         **dict.fromkeys("Acos Asin Atanh Tan Erfinv Sinh Cosh Expm1 Exp".split(), SMALL)}
FEATURES = {"Relu", "Elu", "Selu", "Softplus", "Softsign"}


def variables(rng):
    values = {"w": (4, 4), "bias": (4,), "filters": (3, 3, 3, 3), "row": (4,), "count": ()}
    return {name: tf.Variable(rng.normal(0, .5, shape).astype("f"), name=name) for name, shape in values.items()}


def inputs(rng):
    rows = int(rng.integers(1, 6))
    of = lambda *shape: rng.normal(0, 1, (rows, *shape)).astype("f")
    return dict(a=of(4), b=of(4), q=of(6, 5, 3), v=of(), n=np.int32(rng.integers(0, 6)), i=rng.integers(0, 9, rows).astype("i4"),
                s=np.array([WORDS[k].encode() for k in rng.integers(0, len(WORDS), rows)]))


class Steps:
    """A function that grows: `values` are those of each kind, `made` what the steps have added."""

    def __init__(self, rng, w, values, n, depth=0):
        self.rng, self.w, self.values, self.n, self.depth, self.made = rng, w, {k: list(v) for k, v in values.items()}, n, depth, []

    def any(self, kind):
        return self.values[kind][self.rng.integers(len(self.values[kind]))]

    def one_of(self, *choices):
        return choices[self.rng.integers(len(choices))]()

    def add(self, kind, x):
        x = tf.ensure_shape(x, [None, 4]) if kind == "m" else x
        if kind in ("m", "v", "image", "scalar") and self.rng.random() < .7:
            x = self.one_of(lambda: tf.tanh(x), lambda: tf.clip_by_value(x, -3., 3.), lambda: tf.math.softsign(x))
        self.values[kind].append(x)
        self.made.append((kind, x))

    def some(self, count):
        families = [self.elementwise, self.reduction, self.movement, self.indexing, self.product, self.picture, self.integer, self.text, self.rows]
        families += [self.branch, self.loop, self.call, self.state] if self.depth < 2 else []
        for _ in range(count):
            families[self.rng.integers(len(families))]()
        return self

    def inner(self, x):
        """A few steps more, in a branch or a body: a matrix that follows from x."""
        values = self.values | {"m": [x]}
        return Steps(self.rng, self.w, values, self.n, self.depth + 1).some(int(self.rng.integers(1, 4))).values["m"][-1]

    def elementwise(self):
        kind = str(self.rng.choice(["m", "v", "image", "scalar"]))
        x, y = self.any(kind), self.any(kind)
        name = str(self.rng.choice(list(UNARY)))
        self.add(kind, self.one_of(
            lambda: getattr(R, name)(**{"features" if name in FEATURES else "x": UNARY[name](x)}), lambda: x * y, lambda: tf.maximum(x, y),
            lambda: x / POSITIVE(y), lambda: tf.where(x > y, x, y * 2), lambda: tf.math.floormod(x, POSITIVE(y)), lambda: tf.pow(POSITIVE(x), SMALL(y)),
            lambda: tf.math.xlogy(x, POSITIVE(y)), lambda: tf.math.divide_no_nan(x, tf.round(y)), lambda: tf.stop_gradient(x) * y))

    def reduction(self):
        x, i = self.any("m"), self.any("i") % 3
        self.one_of(
            lambda: self.add("v", self.one_of(*[lambda f=f: f(x, 1) for f in (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_logsumexp, tf.reduce_prod)])),
            lambda: self.add("scalar", self.one_of(*[lambda f=f: f(self.any("image")) for f in (tf.reduce_mean, tf.reduce_max, tf.reduce_min)])),
            lambda: self.add("m", tf.nn.softmax(x)), lambda: self.add("m", tf.cumsum(x, 1, reverse=True, exclusive=True)),
            lambda: self.add("m", tf.math.cumprod(x, 0)), lambda: self.add("m", tf.sort(x, 1)),
            lambda: self.add("m", tf.gather(tf.math.unsorted_segment_mean(x, i, 3), i)), lambda: self.add("i", tf.argmax(x, 1, output_type=tf.int32)),
            lambda: self.add("v", tf.nn.sparse_softmax_cross_entropy_with_logits(self.any("i") % 4, x)), lambda: self.add("m", tf.clip_by_norm(x, 1.5)))

    def movement(self):
        x, y = self.any("m"), self.any("m")
        count = tf.shape(x)[0]
        self.add("m", self.one_of(
            lambda: tf.reshape(tf.transpose(x), [-1, 4]), lambda: tf.tile(x, [2, 1])[count:], lambda: tf.concat([x[:, 2:], y[:, :2]], 1),
            lambda: tf.concat(tf.split(x, [3, -1], 1)[::-1], 1), lambda: tf.pad(x[:, :3], [[0, 0], [1, 0]], "REFLECT"), lambda: tf.roll(x, self.n, 1),
            lambda: tf.slice(x, [self.n % count, 0], [1, 4]) + y, lambda: x[::-1, ::-1], lambda: x[:, self.n % 4:self.n % 4 + 1] * y,
            lambda: tf.reduce_sum(tf.stack([x, y], 1), 1), lambda: tf.reverse_sequence(x, self.any("i") % 5, 1, batch_axis=0)))

    def indexing(self):
        x, i = self.any("m"), self.any("i")
        at = (i % tf.shape(x)[0])[:, None]
        self.add("m", self.one_of(
            lambda: tf.gather_nd(x, at), lambda: tf.gather(self.w["w"], i % 4), lambda: tf.gather(x, tf.stack([i, i + 1, i + 2, i], 1) % 4, batch_dims=1),
            lambda: tf.scatter_nd(at, x, tf.shape(x)), lambda: tf.tensor_scatter_nd_add(x, at, self.any("m")), lambda: tf.one_hot(i % 5, 4) + x,
            lambda: tf.boolean_mask(x, tf.ones_like(i) > 0), lambda: tf.dynamic_stitch(tf.dynamic_partition(tf.range(tf.size(i)), i % 2, 2),
                                                                                       tf.dynamic_partition(x * 2., i % 2, 2))))

    def product(self):
        x, w = self.any("m"), self.w["w"]
        square = tf.matmul(w, w, transpose_b=True) + tf.eye(4) * 2.
        self.add("m", self.one_of(
            lambda: x @ w, lambda: tf.nn.bias_add(x @ w, self.w["bias"]), lambda: tf.einsum("bi,ji->bj", x, w), lambda: tf.linalg.matvec(w, x),
            lambda: tf.matmul(x, x, transpose_b=True) @ x, lambda: x @ tf.linalg.inv(square), lambda: x @ tf.linalg.cholesky(square),
            lambda: tf.math.real(tf.signal.ifft(tf.signal.fft(tf.complex(x, x)) * tf.complex(.5, .3))), lambda: x @ tf.linalg.band_part(w, 1, -1),
            lambda: tf.math.real(tf.sqrt(tf.complex(x, self.any("m")) + 3.))))

    def picture(self):
        x, f = self.any("image"), self.w["filters"]
        self.one_of(
            lambda: self.add("image", self.one_of(
                lambda: tf.nn.conv2d(x, f, 1, "SAME", dilations=int(self.rng.integers(1, 3))), lambda: tf.nn.depthwise_conv2d(x, f[..., :1], [1] * 4, "SAME"),
                lambda: tf.nn.depthwise_conv2d(x, f[..., :1], [1] * 4, "SAME", dilations=[2, 2]), lambda: tf.nn.max_pool2d(x, 3, 1, "SAME"),
                lambda: tf.nn.conv2d_transpose(x[:, ::2, ::2], f, tf.shape(x), 2, "SAME"), lambda: tf.nn.avg_pool2d(x, [2, 3], 1, "SAME"),
                lambda: tf.image.resize(tf.image.crop_and_resize(x, [[.1, .1, .8, .9]], [0], [4, 3]), [6, 5]) + x, lambda: tf.image.adjust_contrast(x, 1.3),
                lambda: tf.image.resize(tf.nn.conv2d(x, f, 2, "VALID"), [6, 5]), lambda: x - tf.reduce_mean(x, [1, 2], keepdims=True))),
            lambda: self.add("m", tf.reduce_mean(x, [1, 2]) @ self.w["w"][:3]),
            lambda: self.add("image", x * self.any("m")[:, None, None, :3]))

    def integer(self):
        kind = [tf.int32, tf.int64, tf.int16, tf.uint8][self.rng.integers(4)]
        x, y = tf.cast(self.any("i") % 100, kind), tf.cast(self.any("i") % 50 + 1, kind)
        self.add("i", tf.abs(tf.cast(self.one_of(lambda: x * y, lambda: x // y, lambda: x % y, lambda: tf.bitwise.bitwise_xor(x, y), lambda: tf.cumsum(x),
                                                 lambda: tf.sort(x), lambda: tf.bitwise.left_shift(x, y % 3), lambda: tf.where(x > y, x, y)), tf.int32)))

    def text(self):
        s = self.any("s")
        self.one_of(
            lambda: self.add("s", self.one_of(lambda: tf.strings.join([s, s], "-"), lambda: tf.strings.upper(s), lambda: tf.strings.substr(s, 0, 3),
                                              lambda: tf.strings.regex_replace(s, "[aeiou]", "*"), lambda: tf.strings.as_string(self.any("i")),
                                              lambda: tf.gather(s, self.any("i") % tf.size(s)), lambda: "<" + s, lambda: tf.where(self.any("i") > 3, s, "no"))),
            lambda: self.add("i", self.one_of(lambda: tf.strings.length(s), lambda: tf.cast(tf.strings.to_hash_bucket_fast(s, 31), tf.int32),
                                              lambda: tf.cast(tf.strings.split(s, "a").row_lengths(), tf.int32))))

    def rows(self):
        """Ragged and sparse rows. (A map of ragged rows is missing: TensorFlow aborts where its gradient is of a branch.)"""
        x, i = self.any("m"), self.any("i") % 3
        ragged = tf.RaggedTensor.from_row_lengths(tf.repeat(x, i, axis=0), i)
        sparse = tf.sparse.from_dense(tf.where(x > 0., x, 0.))
        self.add("m", self.one_of(
            lambda: tf.reduce_sum(ragged, 1), lambda: ragged.to_tensor(.5, shape=[None, 3, 4])[:, 0], lambda: tf.reduce_sum(tf.concat([ragged, ragged], 1), 1),
            lambda: tf.sparse.sparse_dense_matmul(sparse, self.w["w"]), lambda: tf.sparse.to_dense(sparse), lambda: tf.sparse.add(sparse, x),
            lambda: tf.sparse.to_dense(tf.sparse.fill_empty_rows(sparse, .3)[0])))

    def branch(self):
        x = self.any("m")
        self.add("m", self.one_of(
            lambda: tf.cond(self.n > 2, lambda: self.inner(x), lambda: self.inner(x)), lambda: tf.cond(self.any("scalar") > 0, lambda: self.inner(x), lambda: -x),
            lambda: tf.switch_case(self.n % 3, [lambda: self.inner(x) for _ in range(3)])))

    def loop(self):
        x, w = self.any("m"), self.w["w"]
        count, matrix = tf.shape(x)[0], tf.TensorShape([None, 4])
        rows = tf.TensorArray(tf.float32, count, element_shape=[4], clear_after_read=False)
        self.add("m", self.one_of(
            lambda: tf.while_loop(lambda k, y: k < self.n % 4, lambda k, y: (k + 1, tf.tanh(self.inner(y))), [0, x], shape_invariants=[tf.TensorShape([]), matrix])[1],
            lambda: tf.while_loop(lambda k, y: k < count, lambda k, y: (k + 1, y.write(k, tf.sin(x[k]))), [0, rows])[1].gather(self.any("i") % count),
            lambda: tf.scan(lambda y, row: tf.tanh(row + tf.linalg.matvec(w, y)), x, initializer=self.w["bias"]),
            lambda: tf.map_fn(lambda row: tf.nn.softmax(row) * row[0], x), lambda: tf.vectorized_map(lambda row: row * tf.reduce_sum(row), x)))

    def call(self):
        x = self.any("m")
        self.add("m", tf.function(self.inner, autograph=False)(x))

    def state(self):
        self.w["count"].assign_add(1.)
        self.w["row"].assign(tf.reduce_mean(self.any("m"), 0))
        self.w["row"].scatter_nd_add([[1]], [1.])
        self.add("scalar", self.w["count"].read_value() * .1)
        self.add("m", self.any("m") + self.w["row"])


def function(rng, w, count=None):
    """A function of INPUTS, whose results are named by their step and kind."""
    def run(**x):
        values = {"m": [x["a"], x["b"]], "v": [x["v"]], "image": [x["q"]], "i": [x["i"]], "s": [x["s"]], "scalar": [w["bias"][0]]}
        steps = Steps(rng, w, values, x["n"]).some(int(rng.integers(5, 25)) if count is None else count)
        return {f"step{k}_{kind}": tf.identity(value) for k, (kind, value) in enumerate(steps.made)}

    return tf.function(run, autograph=False).get_concrete_function(**{k: tf.TensorSpec(shape, kind, name=k) for k, (shape, kind) in INPUTS.items()})

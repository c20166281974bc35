"""Modules of TensorFlow with nested state, tables, data sets, control flow and structured arguments: name -> class.

Each has `inputs(rng)`, a dict of arrays, and a function `run` with these parameters, which returns a dict.
"""

import collections

import numpy as np
import tensorflow as tf
import tf_keras

MODULES = {}
F, I, L, S, B = tf.float32, tf.int32, tf.int64, tf.string, tf.bool
WORDS = np.array([b"apple", b"b", b"Cat dog", b"", b"zebra", b"b", b"x-y-z"])


def floats(rng, *shape):
    return rng.normal(0, 1, shape).astype("f")


def module(*specs, **inputs):
    """A module from a function(self, ...) -> dict; its attributes come from `state(self, rng)`, an attribute of the function."""
    def decorate(function):
        MODULES[function.__name__] = (function, specs, inputs)
        return function
    return decorate


def make(name, rng):
    function, specs, inputs = MODULES[name]
    self = tf.Module()
    self.w = tf.Variable(floats(rng, 3, 3), name="w")
    self.b = tf.Variable(floats(rng, 3), name="b")
    STATE.get(name, lambda *_: None)(self, rng)
    named = [tf.TensorSpec(spec.shape, spec.dtype, key) if isinstance(spec, tf.TensorSpec) else spec for spec, key in zip(specs, inputs)]
    self.run = tf.function(lambda *args: function(self, *args), input_signature=named)
    return self, {key: value(rng) for key, value in inputs.items()}


STATE = {}


def state(function):
    STATE[function.__name__.removesuffix("_state")] = function
    return function


def spec(dtype, *shape):
    return tf.TensorSpec(shape, dtype)


ROWS = spec(F, None, 3)
of_rows = lambda rng: floats(rng, int(rng.integers(2, 6)), 3)


@module(ROWS, x=of_rows)
def nested_lists(self, x):
    for level in self.layers:
        x = tf.tanh(x @ level["w"] + level["more"][0])
    return {"y": x, "first": self.layers[0]["w"]}


@state
def nested_lists_state(self, rng):
    self.layers = [{"w": tf.Variable(floats(rng, 3, 3)), "more": (tf.Variable(floats(rng, 3)), tf.constant(2.))} for _ in range(3)]


@module(ROWS, x=of_rows)
def state_that_counts(self, x):
    self.count.assign_add(1)
    self.sum.assign_add(tf.reduce_sum(x, 0))
    self.steps.scatter_add(tf.IndexedSlices([1., 2.], [0, 3]))
    return {"mean": self.sum / tf.cast(self.count, F), "steps": self.steps.read_value(), "count": self.count.read_value()}


@state
def state_that_counts_state(self, rng):
    self.count, self.sum, self.steps = tf.Variable(0, dtype=L), tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([4]), trainable=False)


@module(spec(S, None), x=lambda rng: rng.choice(WORDS, 5))
def static_table(self, x):
    return {"id": self.table.lookup(x), "word": self.back.lookup(self.table.lookup(x)), "size": self.table.size()}


@state
def static_table_state(self, rng):
    self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["apple", "b", "zebra"], tf.constant([4, 5, 6], L)), -1)
    self.back = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([4, 5, 6], L), ["A", "B", "Z"]), "?")


@module(spec(S, None), x=lambda rng: rng.choice(WORDS, 6))
def vocabulary_table(self, x):
    ids = self.table.lookup(x)
    return {"id": ids, "rows": tf.nn.embedding_lookup(self.rows, ids), "size": self.table.size()}


@state
def vocabulary_table_state(self, rng):
    self.table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(["apple", "b"], tf.constant([0, 1], L)), 3)
    self.rows = tf.Variable(floats(rng, 5, 4))


@module(spec(L, None), x=lambda rng: rng.integers(0, 6, 5))
def mutable_tables(self, x):
    before = self.table.lookup(x)
    self.table.insert(x, tf.cast(x, F)[:, None] * [1., 2.])
    self.dense.insert(x, x * 2)
    self.table.remove(x[:1])
    _, values = self.dense.export()
    return {"before": before, "after": self.table.lookup(x), "size": self.table.size(), "other": self.dense.lookup(x + 1),
            "found": tf.reduce_sum(tf.cast(values > 0, I))}


@state
def mutable_tables_state(self, rng):
    self.table = tf.lookup.experimental.MutableHashTable(L, F, [-1., -2.])
    self.dense = tf.lookup.experimental.DenseHashTable(L, L, -7, empty_key=-1, deleted_key=-2)
    self.table.insert(tf.constant([2], L), [[7., 8.]])


@module(spec(S, None), x=lambda rng: rng.choice(WORDS, 3))
def words_that_change(self, x):
    self.last.assign(tf.strings.join([self.last, x[0]], "+"))
    return {"last": self.last.read_value(), "count": tf.strings.length(self.last)}


@state
def words_that_change_state(self, rng):
    self.last = tf.Variable("none", trainable=False)


@module(ROWS, x=of_rows)
def slots_of_an_optimizer(self, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ self.w + self.b))
    self.optimizer.apply_gradients(zip(tape.gradient(loss, [self.w, self.b]), [self.w, self.b]))
    return {"loss": tf.stop_gradient(loss), "w": tf.stop_gradient(self.w.read_value())}


@state
def slots_of_an_optimizer_state(self, rng):
    self.optimizer = tf_keras.optimizers.legacy.Adam(.1)


@module(ROWS, spec(I), x=of_rows, n=lambda rng: np.int32(rng.integers(0, 5)))
def while_loop_of_many(self, x, n):
    i, y, rows = tf.while_loop(lambda i, y, rows: (i < n) & (tf.reduce_sum(tf.abs(y)) < 100), lambda i, y, rows: (
        i + 1, tf.tanh(y @ self.w) + x, tf.concat([rows, y[:1]], 0)), [0, x, x[:0]], shape_invariants=[tf.TensorShape([]), x.shape, tf.TensorShape([None, 3])])
    return {"i": i, "y": y, "rows": rows}


@module(ROWS, spec(I), x=of_rows, n=lambda rng: np.int32(rng.integers(-1, 4)))
def switch_case(self, x, n):
    return {"y": tf.switch_case(n, [lambda: x @ self.w, lambda: x + self.b, lambda: tf.sin(x) * self.b[0]], default=lambda: tf.zeros_like(x)),
            "z": tf.case([(n > 1, lambda: x * 2.), (n > 0, lambda: x @ self.w)], default=lambda: x)}


@module(ROWS, x=of_rows)
def nested_conditions(self, x):
    s, w, b = tf.reduce_sum(x), tf.identity(self.w), tf.identity(self.b)  # TensorFlow has no gradient of variables there
    y = tf.cond(s > 0, lambda: tf.cond(s > 1, lambda: x @ w, lambda: x * b), lambda: tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, tf.cond(i > 0, lambda: a @ w, lambda: a + b)), [0, x])[1])
    return {"y": y}


@module(ROWS, x=of_rows)
def map_fn(self, x):
    a = tf.map_fn(lambda r: tf.reduce_sum(r * self.w, 1), x)
    b, c = tf.map_fn(lambda rs: (rs[0] * rs[1], tf.cast(tf.argmax(rs[0]), I)), (x, x + 1.), fn_output_signature=(F, I))
    return {"a": a, "b": b, "c": c}


@module(ROWS, x=of_rows)
def scans(self, x):
    forward = tf.scan(lambda a, r: tf.tanh(a @ self.w + r[None]), x, initializer=tf.zeros([1, 3]))
    back = tf.scan(lambda a, r: a * .5 + r, x, reverse=True)
    return {"forward": forward, "back": back, "fold": tf.foldl(lambda a, r: a + r * self.b, x), "right": tf.foldr(lambda a, r: a * r, x)}


@module(ROWS, x=of_rows)
def vectorized_map(self, x):
    return {"a": tf.vectorized_map(lambda r: tf.tensordot(self.w, r, 1) + tf.reduce_max(r), x),
            "b": tf.vectorized_map(lambda r: tf.where(r > 0, r, tf.exp(r)), x)}


@module(ROWS, x=of_rows)
def autograph_loops(self, x):
    total, b = tf.zeros([3]), tf.identity(self.b)
    for i in tf.range(tf.shape(x)[0]):
        if tf.reduce_sum(x[i]) > 1.:
            continue
        total += x[i] * tf.cast(i + 1, F) * b
        if total[0] > 3.:
            break
    return {"total": total}


@module(ROWS, x=of_rows)
def tensor_arrays(self, x):
    n = tf.shape(x)[0]
    array = tf.TensorArray(F, 0, dynamic_size=True, element_shape=[3])
    for i in tf.range(n):
        array = array.write(i, x[i] * self.b)
    parts = tf.TensorArray(F, n, infer_shape=False).split(tf.reshape(x, [-1]), tf.fill([n], 3))
    return {"stack": array.stack(), "concat": parts.concat(), "last": array.read(n - 1), "gather": array.gather([1, 0, 1])}


@module(spec(F, None), spec(L, None), x=lambda rng: floats(rng, 6), splits=lambda rng: np.array([0, 2, 2, 5, 6]))
def ragged_inside(self, x, splits):
    r = tf.RaggedTensor.from_row_splits(x, splits)
    s = tf.ragged.map_flat_values(tf.exp, r) * 2.
    return {"dense": s.to_tensor(-1.), "mean": tf.reduce_sum(r, 1), "lengths": r.row_lengths(), "joined": tf.concat([r, s], 1).flat_values,
            "sliced": r[:, :1].to_tensor(), "max": tf.reduce_max(s.values), "taken": tf.gather(r, [2, 0]).to_tensor()}


@module(spec(S, None), x=lambda rng: rng.choice(WORDS, 4))
def ragged_words(self, x):
    parts = tf.strings.split(x, "-")
    return {"words": parts.to_tensor("_"), "counts": parts.row_lengths(), "upper": tf.strings.upper(parts).to_tensor(""),
            "bigrams": tf.strings.ngrams(parts, 2).to_tensor(""), "joined": tf.strings.reduce_join(parts, axis=1, separator="+")}


@module(spec(S, None), x=lambda rng: rng.choice(WORDS, 5))
def texts(self, x):
    return {"length": tf.strings.length(x, "UTF8_CHAR"), "part": tf.strings.substr(x, 0, 1), "hash": tf.strings.to_hash_bucket_fast(x, 11),
            "strong": tf.strings.to_hash_bucket_strong(x, 11, [1, 2]), "match": tf.strings.regex_full_match(x, "[a-z]+"),
            "replaced": tf.strings.regex_replace(x, "([a-c])", "<\\1>"), "lower": tf.strings.lower(x), "format": tf.strings.format("{} of {}", (tf.size(x), x)),
            "code": tf.io.decode_base64(tf.io.encode_base64(x)), "bytes": tf.strings.bytes_split(x).to_tensor(""), "number": tf.strings.to_number(tf.strings.as_string(tf.strings.length(x)))}


@module(spec(B, None), spec(L, None), p=lambda rng: rng.random(6) > .5, i=lambda rng: rng.integers(-4, 9, 6))
def booleans(self, p, i):
    return {"and": p & (i > 1), "any": tf.reduce_any(p), "where": tf.where(p), "mask": tf.boolean_mask(i, p), "xor": tf.math.logical_xor(p, i > 2),
            "int": tf.cast(p, L) * i, "bits": tf.bitwise.bitwise_and(i, 5), "shift": tf.bitwise.left_shift(i, tf.ones_like(i)), "mod": i % 3, "div": i // 4}


@module(tf.TensorSpec([None, 3], F), tf.TensorSpec([], F), x=of_rows, scale=lambda rng: np.float32(1.5))
def variables_of_kinds(self, x, scale):
    self.running.assign(self.running * .9 + tf.reduce_mean(x, 0) * .1)
    return {"y": x @ tf.cast(self.half, F) * scale + self.running, "z": x * tf.cast(self.wide, F) + tf.cast(self.whole, F)}


@state
def variables_of_kinds_state(self, rng):
    self.half = tf.Variable(floats(rng, 3, 3).astype("f2"))
    self.wide = tf.Variable(rng.normal(0, 1, 3))
    self.whole = tf.Variable([1, 2, 3])
    self.running = tf.Variable(tf.zeros([3]), trainable=False, aggregation=tf.VariableAggregation.MEAN, synchronization=tf.VariableSynchronization.ON_READ)


@module(ROWS, x=of_rows)
def sparse_inside(self, x):
    s = tf.sparse.from_dense(tf.where(x > 0, x, tf.zeros_like(x)))
    t = tf.sparse.reorder(tf.sparse.concat(0, [s, s]))
    return {"product": tf.sparse.sparse_dense_matmul(s, self.w), "sum": tf.sparse.reduce_sum(t, 1), "dense": tf.sparse.to_dense(t * 2.),
            "turned": tf.sparse.to_dense(tf.sparse.transpose(s)), "softmax": tf.sparse.softmax(s).values, "slice": tf.sparse.to_dense(tf.sparse.slice(t, [0, 1], [2, 2])),
            "max": tf.stop_gradient(tf.sparse.reduce_max(tf.sparse.from_dense(tf.stop_gradient(x)), 0)), "filled": tf.sparse.to_dense(tf.sparse.fill_empty_rows(s, 5.)[0]), "lookup": tf.nn.safe_embedding_lookup_sparse(self.w, tf.sparse.from_dense([[1, 2], [0, 1]]))}


@module(spec(F, None, 8, 7, 3), x=lambda rng: floats(rng, 2, 8, 7, 3))
def pictures(self, x):
    y = tf.nn.conv2d(x, self.k, [1, 2, 1, 1], [[0, 0], [1, 2], [0, 1], [0, 0]]) + self.b
    y = tf.nn.relu6(tf.nn.batch_normalization(y, tf.reduce_mean(y, [0, 1, 2]), tf.math.reduce_variance(y, [0, 1, 2]), self.b, None, 1e-3))
    return {"y": tf.nn.max_pool2d(y, 2, 2, "SAME"), "z": tf.image.resize(x, [4, 4], "bilinear", antialias=True), "p": tf.nn.space_to_depth(x[:, :, :6], 2),
            "t": tf.nn.conv2d_transpose(y, self.k, tf.shape(x), [1, 2, 1, 1], [[0, 0], [1, 2], [0, 1], [0, 0]]) if False else tf.nn.depthwise_conv2d(x, self.k, [1, 1, 1, 1], "SAME")}


@state
def pictures_state(self, rng):
    self.k = tf.Variable(floats(rng, 3, 2, 3, 3))


@module(ROWS, x=of_rows)
def inner_functions(self, x):
    @tf.function
    def step(x, w, twice=False):
        y = tf.tanh(x @ w)
        return y * 2 if twice else y

    @tf.function
    def both(x):
        return step(x, self.w), step(x, self.w, twice=True)
    a, b = both(x)
    return {"y": step(a, tf.transpose(self.w)) + b}


@module(ROWS, x=of_rows)
def gradients_inside(self, x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.tanh(x @ self.w) ** 2)
    dx, dw = tape.gradient(y, [x, self.w])
    return {"dx": dx, "dw": dw, "y": y}


@module(ROWS, x=of_rows)
def training_step(self, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x), x @ self.w + self.b))
    slopes = tape.gradient(loss, [self.w, self.b])
    for v, m, g in zip([self.w, self.b], self.momenta, slopes):
        m.assign(.9 * m + g)
        v.assign_sub(.1 * m)
    return {"loss": loss, "w": self.w.read_value()}


@state
def training_step_state(self, rng):
    self.momenta = [tf.Variable(tf.zeros([3, 3]), trainable=False), tf.Variable(tf.zeros([3]), trainable=False)]


@module(ROWS, x=of_rows)
def jacobians(self, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(x @ self.w)
    return {"j": tape.batch_jacobian(y, x)}


@module(spec(F, None, 4, 4), x=lambda rng: floats(rng, 2, 4, 4))
def matrices(self, x):
    square = x @ tf.linalg.matrix_transpose(x) + tf.eye(4)
    return {"inv": tf.linalg.inv(square), "chol": tf.linalg.cholesky(square), "det": tf.linalg.det(square), "solve": tf.linalg.solve(square, x),
            "trace": tf.linalg.trace(x), "band": tf.linalg.band_part(x, 1, 0), "norm": tf.norm(x, axis=[1, 2]), "log": tf.linalg.logdet(square),
            "exp": tf.linalg.expm(x * .1), "tri": tf.linalg.triangular_solve(tf.linalg.cholesky(square), x), "e": tf.linalg.eigvalsh(square), "s": tf.linalg.svd(x, compute_uv=False),
            "pinv": tf.linalg.pinv(x), "lstsq": tf.linalg.lstsq(square, x), "einsum": tf.einsum("bij,bkj->bik", x, square)}


@module(spec(F, None, 8), x=lambda rng: floats(rng, 2, 8))
def signals(self, x):
    frames = tf.signal.frame(x, 4, 2)
    return {"stft": tf.abs(tf.signal.stft(x, 4, 2)), "rfft": tf.math.real(tf.signal.rfft(x)), "dct": tf.signal.dct(x), "frames": frames,
            "window": frames * tf.signal.hann_window(4), "back": tf.signal.overlap_and_add(frames, 2), "irfft": tf.signal.irfft(tf.signal.rfft(x)),
            "mel": tf.abs(tf.signal.rfft(x)) @ tf.signal.linear_to_mel_weight_matrix(4, 5, 16000., 80., 7600.)}


@module(ROWS, spec(I, None), x=lambda rng: floats(rng, 5, 3), i=lambda rng: np.sort(rng.integers(0, 4, 5)).astype("i4"))
def segments(self, x, i):
    return {"sum": tf.math.segment_sum(x, i), "mean": tf.math.segment_mean(x, i), "max": tf.math.unsorted_segment_max(x, i, 4), "sqrt": tf.math.unsorted_segment_sqrt_n(x, i, 4),
            "sparse": tf.sparse.segment_mean(x, [0, 2, 3], [0, 0, 1]), "parts": tf.concat(tf.dynamic_partition(x, i % 2, 2), 0), "count": tf.math.bincount(i, minlength=5),
            "unique": tf.unique_with_counts(i).count, "search": tf.searchsorted(tf.cast(i, F), x[:, 0]), "top": tf.math.top_k(x, 2).values, "sorted": tf.argsort(x, 1)}


@module(ROWS, x=of_rows)
def shapes(self, x):
    n = tf.shape(x)[0]
    a, b, c = tf.unstack(x, axis=1)
    return {"meshed": tf.stack(tf.meshgrid(a, b)), "tiled": tf.repeat(x, tf.range(n), axis=0), "moved": tf.transpose(tf.reshape(x, [n, 1, 3]), [2, 0, 1]),
            "padded": tf.pad(x, [[n, 1], [0, n]], constant_values=2.), "strided": x[::-2, tf.newaxis, ..., 1:], "set": tf.tensor_scatter_nd_update(x, [[0, 1]], [c[0] * 5]),
            "space": tf.linspace(a[0], c[0], 5), "one_hot": tf.one_hot(tf.argmax(x, 1), 4), "roll": tf.roll(x, [1, -1], [0, 1]), "grid": tf.broadcast_to(a[:, None], [n, n + 1]), "b": b}


@module(ROWS, x=of_rows)
def numbers_of_types(self, x):
    return {"half": tf.cast(x, tf.float16) * tf.constant(1.5, tf.float16), "b16": tf.cast(tf.cast(x, tf.bfloat16) * 2, F), "wide": tf.cast(x, tf.float64) ** 2,
            "u8": tf.saturate_cast(x * 100, tf.uint8), "i8": tf.cast(x * 10, tf.int8), "u32": tf.cast(tf.abs(x) * 1e3, tf.uint32), "c": tf.abs(tf.complex(x, x[::-1]))}


@module(spec(F, None, 4, 3), x=lambda rng: floats(rng, 2, 4, 3))
def recurrent_loop(self, x):
    def step(h, r):
        z = tf.sigmoid(r @ self.w + h @ self.u)
        return z * h + (1 - z) * tf.tanh(r @ self.w + (h * z) @ self.u)
    return {"y": tf.transpose(tf.scan(step, tf.transpose(x, [1, 0, 2]), tf.zeros([tf.shape(x)[0], 3])), [1, 0, 2])}


@state
def recurrent_loop_state(self, rng):
    self.u = tf.Variable(floats(rng, 3, 3))


@module(spec(F, None, 5, 6), spec(I, None), x=lambda rng: floats(rng, 2, 5, 6), lengths=lambda rng: rng.integers(1, 6, 2).astype("i4"))
def attention(self, x, lengths):
    mask = tf.sequence_mask(lengths, 5, F)
    q, k, v = tf.split(tf.einsum("btd,dhe->bthe", x, self.heads), 3, axis=-1)
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) / 2. + (1 - mask)[:, None, None] * -1e9
    y = tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), v)
    y = tf.reverse_sequence(tf.reshape(y, [-1, 5, 8]), lengths, seq_axis=1)
    return {"y": tf.nn.gelu(y), "pool": tf.reduce_sum(y * mask[..., None], 1) / tf.reduce_sum(mask, 1, keepdims=True)}


@state
def attention_state(self, rng):
    self.heads = tf.Variable(floats(rng, 6, 2, 12) / 2)


@module(ROWS, x=of_rows)
def losses(self, x):
    y = x @ self.w
    return {"ce": tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(x), y), "huber": tf.where(tf.abs(x - y) < 1, .5 * (x - y) ** 2, tf.abs(x - y) - .5), "l2": tf.nn.l2_loss(y),
            "poisson": tf.nn.log_poisson_loss(tf.abs(x), y), "weighted": tf.nn.weighted_cross_entropy_with_logits(tf.sigmoid(x), y, 2.), "moments": tf.stack(tf.nn.moments(y, 0)),
            "norm": tf.nn.l2_normalize(y, 1), "clip": tf.clip_by_global_norm([y], 1.)[0][0], "lrn": tf.nn.local_response_normalization(y[:, None, None])[:, 0, 0]}


@module(ROWS, x=of_rows)
def higher_order(self, x):
    return {"y": tf.gradients(tf.gradients(tf.reduce_sum(tf.tanh(x) * x), x)[0], x)[0], "h": tf.hessians(tf.reduce_sum(tf.sin(self.b) * x[0]), self.b.read_value())[0] if False else x}


@module(spec(S), line=lambda rng: np.array(b"3,b,2.5,1 2 3"))
def parsing(self, line):
    n, word, value, rest = tf.io.decode_csv(line, [[0], [""], [0.], [""]])
    numbers = tf.strings.to_number(tf.strings.split(rest), I)
    example = tf.io.serialize_tensor(numbers)
    return {"n": n, "word": word, "value": value, "numbers": numbers, "again": tf.io.parse_tensor(example, I), "raw": tf.io.decode_raw(word, tf.uint8)}


# Sorted by name, no example ends with a zero byte, which NumPy would drop.
@module(spec(S, None), x=lambda rng: np.array([tf.train.Example(features=tf.train.Features(feature={
    "f": tf.train.Feature(float_list=tf.train.FloatList(value=rng.normal(0, 1, 2))), "i": tf.train.Feature(int64_list=tf.train.Int64List(value=rng.integers(0, 9, k))),
    "j": tf.train.Feature(int64_list=tf.train.Int64List(value=range(k))), "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w%d" % k]))})).SerializeToString(deterministic=True) for k in range(3)], object))
def examples(self, x):
    found = tf.io.parse_example(x, {"f": tf.io.FixedLenFeature([2], F), "i": tf.io.VarLenFeature(L), "r": tf.io.RaggedFeature(L, "j"),
                                    "s": tf.io.FixedLenFeature([], S, "none"), "missing": tf.io.FixedLenFeature([1], F, [4.])})
    return {"f": found["f"], "i": tf.sparse.to_dense(found["i"]), "r": found["r"].to_tensor(), "s": found["s"], "m": found["missing"]}


Pair = collections.namedtuple("Pair", "first second")


@module(ROWS, x=of_rows)
def named_tuples(self, x):
    def body(i, pair):
        return i + 1, Pair(pair.first @ self.w, {"z": pair.second["z"] + pair.first})
    _, pair = tf.while_loop(lambda i, _: i < 3, body, [0, Pair(tf.sin(x), {"z": x})])
    return {"a": pair.first, "b": pair.second["z"]}


@module(ROWS, spec(I), x=of_rows, n=lambda rng: np.int32(3))
def recursion_of_calls(self, x, n):
    def power(k):
        return x if k == 0 else tf.function(lambda: power(k - 1) * self.b)()
    return {"y": power(4), "chosen": tf.cond(n > 2, lambda: power(2), lambda: power(1))}


@module(ROWS, x=of_rows)
def checks(self, x):
    with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(x), 100.), tf.debugging.assert_equal(tf.shape(x)[1], 3)]):
        y = tf.debugging.check_numerics(x * 2., "finite")
    return {"y": tf.ensure_shape(y, [None, 3]), "z": tf.stop_gradient(y) * x, "p": tf.identity_n([x, y])[1]}


@module(spec(L, None), spec(F, None), i=lambda rng: rng.integers(0, 10, 6), x=lambda rng: floats(rng, 6))
def features(self, i, x):
    cross = tf.sparse.cross_hashed([i[:, None], tf.strings.as_string(i)[:, None]], 13)
    return {"cross": tf.sparse.to_dense(cross), "bucket": tf.raw_ops.Bucketize(input=x, boundaries=[-1., 0., 1.]), "embedding": tf.gather(self.rows, i % 4),
            "histogram": tf.histogram_fixed_width(x, [-2., 2.], 5), "quantized": tf.quantization.fake_quant_with_min_max_args(x), "set": tf.sets.size(tf.sets.intersection(i[None], i[None, :2])),
            "confusion": tf.math.confusion_matrix(i % 3, (i + 1) % 3), "in": tf.math.in_top_k(i % 2, tf.stack([x, -x], 1), 1)}


@state
def features_state(self, rng):
    self.rows = tf.Variable(floats(rng, 4, 2))


@module(ROWS, x=of_rows)
def random_without_state(self, x):
    shape = tf.shape(x)
    return {"u": tf.random.stateless_uniform(shape, [1, 2]), "n": tf.random.stateless_normal(shape, [3, 4]) * x, "t": tf.random.stateless_truncated_normal(shape, [5, 6]),
            "i": tf.random.stateless_uniform(shape, [7, 8], 0, 10, I), "c": tf.random.stateless_categorical(x, 4, [1, 1]), "b": tf.random.stateless_binomial([5], [1, 2], 10., .3),
            "g": tf.random.stateless_gamma([4], [1, 2], 2.), "p": tf.random.stateless_poisson([4], [1, 2], 3.)}


@module(ROWS, x=of_rows)
def generators(self, x):
    return {"u": self.g.uniform(tf.shape(x)), "n": self.g.normal([3]) * x, "i": self.g.uniform([4], 0, 9, I), "s": self.g.make_seeds(2)}


@state
def generators_state(self, rng):
    self.g = tf.random.Generator.from_seed(int(rng.integers(1, 99)), alg="philox")


@module(ROWS, x=of_rows)
def reused_children(self, x):
    return {"y": self.first(self.second(x)) + self.same(x), "names": tf.constant([v.name for v in self.variables])}


class Dense(tf.Module):
    def __init__(self, rng, name):
        super().__init__(name)
        with self.name_scope:
            self.kernel, self.bias = tf.Variable(floats(rng, 3, 3), name="kernel"), tf.Variable(floats(rng, 3), name="bias")

    @tf.Module.with_name_scope
    @tf.function
    def __call__(self, x):
        return tf.nn.elu(x @ self.kernel + self.bias)


@state
def reused_children_state(self, rng):
    self.first, self.second = Dense(rng, "one"), Dense(rng, "two")
    self.same = self.first


@module(spec(F, None, 3), spec(F, 3), x=of_rows, center=lambda rng: floats(rng, 3))
def distances(self, x, center):
    d = tf.reduce_sum(tf.math.squared_difference(x[:, None], x[None]), -1)
    near = tf.math.reduce_euclidean_norm(x - center, 1)
    return {"d": tf.sqrt(d + 1e-3), "near": near, "cos": tf.reduce_sum(tf.nn.l2_normalize(x, 1) * tf.nn.l2_normalize(center, 0), 1), "order": tf.argsort(near), "std": tf.math.reduce_std(x, 0),
            "lse": tf.reduce_logsumexp(x, 1), "acc": tf.math.accumulate_n([x, x * 2.]), "cum": tf.math.cumulative_logsumexp(x, 1), "poly": tf.math.polyval([x, x * 2, x + 1], x)}


@module(spec(tf.float64, None, 3), x=lambda rng: rng.normal(0, 1, (3, 3)))
def special_functions(self, x):
    p = tf.abs(x) + .2
    return {"lgamma": tf.math.lgamma(p), "digamma": tf.math.digamma(p), "erf": tf.math.erf(x), "erfinv": tf.math.erfinv(tf.tanh(x)), "ndtri": tf.math.ndtri(tf.sigmoid(x)),
            "igamma": tf.math.igamma(p, p + 1), "betainc": tf.math.betainc(p, p, tf.sigmoid(x)), "zeta": tf.math.zeta(p + 2, p), "i0": tf.math.bessel_i0e(x),
            "xlog": tf.math.xlog1py(x, p), "atan": tf.atan2(x, p), "next": tf.math.nextafter(x, x + 1), "sinc": tf.math.divide_no_nan(tf.sin(x), x), "softplus": tf.math.softplus(x)}


@module(spec(I, None, None), i=lambda rng: rng.integers(-9, 9, (3, 4)).astype("i4"))
def integers(self, i):
    return {"sum": tf.reduce_sum(i, 1), "prod": tf.reduce_prod(i, 0), "max": tf.reduce_max(i), "cumsum": tf.cumsum(i, 1), "sign": tf.sign(i), "trunc": tf.truncatediv(i, 4),
            "mod": tf.math.floormod(i, 4), "pow": i ** 2, "inverse": tf.math.invert_permutation([2, 0, 1]), "bits": tf.bitwise.invert(i), "clip": tf.clip_by_value(i, -3, 3),
            "mean": tf.reduce_mean(i), "eq": tf.equal(i[0], i[1]), "where": tf.where(i > 0, i, -i), "range": tf.range(i[0, 0], i[0, 0] + 7, 2), "diff": tf.sparse.to_dense(tf.sets.difference(i[:1], i[:1, :1]))}


@module(spec(F, None, 6, 6, 1), x=lambda rng: floats(rng, 2, 6, 6, 1))
def image_ops(self, x):
    rgb = tf.sigmoid(tf.image.grayscale_to_rgb(x))
    boxes = tf.constant([[0., 0, .5, .5], [.1, .1, .6, .6], [.4, .4, 1, 1]])
    return {"flip": tf.image.flip_left_right(x), "rot": tf.image.rot90(x), "crop": tf.image.central_crop(x, .5), "grad": tf.stack(tf.image.image_gradients(x)),
            "patches": tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"), "ssim": tf.image.total_variation(x), "gray": tf.image.rgb_to_grayscale(rgb),
            "sobel": tf.image.sobel_edges(x), "std": tf.image.per_image_standardization(x), "pad": tf.image.pad_to_bounding_box(x, 1, 1, 9, 9), "nms": tf.image.non_max_suppression(boxes, [.9, .8, .7], 2),
            "boxes": tf.image.crop_and_resize(x, boxes[:2], [0, 1], [3, 3]), "gamma": tf.image.adjust_gamma(rgb, .7), "yiq": tf.image.rgb_to_yuv(rgb)}


@module(spec(F, None, None, None, 3), x=lambda rng: floats(rng, 2, 10, 14, 3))
def quotients_by_constants(self, x):
    """TensorFlow multiplies by the reciprocal; the width of the resized image is 11, not 12."""
    steps = tf.cast(tf.range(2000), F)
    return {"pad": tf.image.resize_with_pad(x, 12, 12), "whole": tf.floor(steps / 49.), "root": tf.floor(steps / tf.sqrt(tf.constant(9.))), "both": tf.constant([1., 2.]) / 49.}


@module(spec(F, None, 3), x=lambda rng: floats(rng, 11, 3))
def batches_of_requests(self, x):
    """Rows are added up to an allowed size, and all are run in parts; means over rows show both."""
    padded = tf.nondifferentiable_batch_function(1, 16, 10, allowed_batch_sizes=[4, 8])(lambda t: t - tf.reduce_mean(t, 0))
    whole = tf.nondifferentiable_batch_function(1, 100, 10)(lambda t: (t * 2, tf.reduce_sum(t, 1)))
    return {"padded": tf.stop_gradient(padded(x)), "doubled": tf.stop_gradient(whole(x)[0]), "sums": tf.stop_gradient(whole(x)[1])}


@module(ROWS, x=of_rows)
def optional_results(self, x):
    values = tf.experimental.Optional.from_value(x * self.b)
    return {"y": tf.cond(values.has_value(), lambda: values.get_value(), lambda: x), "none": tf.experimental.Optional.empty(tf.TensorSpec([], F)).has_value()}


@module(ROWS, x=of_rows)
def switches_of_lists(self, x):
    a, b = tf.cond(tf.reduce_mean(x) > 0, lambda: (x, [x @ self.w]), lambda: (x * 2., [x + self.b]))
    return {"y": a + b[0], "r": tf.recompute_grad(lambda t: tf.tanh(t * 2.))(x)}


@module(ROWS, x=of_rows)
def open_weights(self, x):
    return {"y": x @ self.kernel, "shape": tf.shape(self.kernel), "rows": tf.gather(self.kernel, [2, 0, 2])}


@state
def open_weights_state(self, rng):
    self.kernel = tf.Variable(floats(rng, 3, 2), shape=[3, None])
    self.kernel.assign(floats(rng, 3, 5))

"""Modules with tf.data in their functions, as in module_table.py."""

import numpy as np
import tensorflow as tf

from module_table import F, I, L, ROWS, S, WORDS, floats, module, of_rows, spec, state

D = tf.data.Dataset
INTS = spec(L, None)
of_ints = lambda rng: rng.integers(0, 9, int(rng.integers(3, 9)))


def stack(dataset, dtype, *shape):
    """The elements of a dataset of scalars or tensors of one shape, stacked."""
    array = dataset.reduce(tf.zeros([0, *shape], dtype), lambda found, x: tf.concat([found, x[None]], 0))
    return tf.ensure_shape(array, [None, *shape])


@module(ROWS, x=of_rows)
def data_of_rows(self, x):
    rows = D.from_tensor_slices(x)
    return {"mapped": stack(rows.map(lambda r: tf.tensordot(self.w, r, 1)), F, 3), "kept": stack(rows.filter(lambda r: r[0] > 0), F, 3),
            "count": rows.cardinality(), "sum": rows.reduce(tf.zeros([3]), lambda a, r: a * .5 + r)}


@module(spec(I), spec(I), n=lambda rng: np.int32(rng.integers(0, 12)), k=lambda rng: np.int32(rng.integers(1, 4)))
def data_of_numbers(self, n, k):
    n, k = tf.cast(n, L), tf.cast(k, L)
    r = D.range(n)
    return {"batches": stack(r.batch(k, drop_remainder=True).map(tf.reduce_sum), L), "last": stack(r.batch(k).map(tf.reduce_max), L),
            "steps": stack(D.range(10, n - 3, -k), L), "int": stack(D.range(5, output_type=I), I), "float": stack(D.range(4, output_type=F), F),
            "parts": stack(r.skip(2).take(5).shard(2, 1), L), "twice": stack(r.repeat(2).concatenate(D.range(3)), L), "all": stack(r.take(-1), L), "none": stack(r.skip(-1), L),
            "enumerated": stack(r.enumerate(start=3).map(lambda i, x: i * 10 + x), L), "while": stack(r.take_while(lambda x: x < 5), L),
            "count": r.batch(k).cardinality(), "endless": r.repeat().cardinality(), "unknown": r.filter(lambda x: x > 2).cardinality()}


@module(INTS, x=of_ints)
def data_windows(self, x):
    r = D.from_tensor_slices(x)
    sums = lambda d: stack(d.map(tf.reduce_sum), L)
    return {"windows": sums(r.window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3))), "wide": sums(r.window(2, shift=2, stride=2).flat_map(lambda w: w.batch(2))),
            "pairs": sums(D.zip((r, r.skip(1))).window(2).flat_map(lambda a, b: D.zip((a.batch(2), b.batch(2))).map(lambda p, q: p * q))),
            "flat": stack(r.flat_map(lambda n: D.range(n)), L), "interleaved": stack(r.interleave(lambda n: D.range(n, n + 3), cycle_length=2, block_length=2), L),
            "parallel": stack(r.interleave(lambda n: D.range(n, n + 3), cycle_length=3, num_parallel_calls=2), L), "rows": sums(r.batch(4).unbatch().batch(3)),
            "unique": stack(r.unique(), L), "scanned": stack(r.scan(tf.constant(0, L), lambda s, v: (s + v, s * 2)), L)}


@module(spec(S, None), x=lambda rng: rng.choice(WORDS, 6))
def data_of_words(self, x):
    words = D.from_tensor_slices(x)
    parts = words.map(lambda w: tf.strings.bytes_split(w))
    padded = parts.padded_batch(4, padding_values=b"_").map(lambda b: tf.strings.reduce_join(b, 1))
    ids = words.map(lambda w: self.table.lookup(w), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    return {"padded": padded.unbatch().reduce(tf.constant(""), lambda a, w: a + "|" + w), "ids": stack(ids, L), "wide": parts.padded_batch(3, padded_shapes=[12]).reduce(tf.constant(""), lambda a, w: a + tf.strings.reduce_join(w)),
            "long": stack(words.filter(lambda w: tf.strings.length(w) > 1).map(tf.strings.length), I), "unique": words.unique().reduce(tf.constant(""), lambda a, w: a + w)}


@state
def data_of_words_state(self, rng):
    self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["apple", "b", "zebra"], tf.constant([4, 5, 6], L)), -1)


@module(ROWS, x=of_rows)
def data_iterators(self, x):
    total, last, b = tf.zeros([3]), tf.zeros([]), tf.identity(self.b)
    for i, row in D.from_tensor_slices(x).enumerate():
        if row[0] > 1.5:
            break
        total += row * b * tf.cast(i + 1, F)
        last = row[1]
    iterator = iter(D.from_tensor_slices({"a": x, "n": tf.range(tf.shape(x)[0])}).batch(2))
    first, second = next(iterator), iterator.get_next_as_optional()
    return {"total": total, "last": last, "a": first["a"], "n": first["n"], "more": second.has_value(),
            "second": tf.cond(second.has_value(), lambda: second.get_value()["n"], lambda: tf.zeros([0], I))}


@module(ROWS, x=of_rows)
def data_iterator_in_a_loop(self, x):
    iterator = iter(D.from_tensor_slices(x).map(lambda r: r + self.b))
    n = tf.shape(x)[0]
    return {"y": tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y + iterator.get_next())), [0, tf.zeros([3])])[1]}


@module(ROWS, x=of_rows)
def data_in_nested_structures(self, x):
    rows = D.from_tensor_slices({"x": x, "pair": (tf.range(tf.shape(x)[0]), (x[:, 0] > 0,))})
    def change(e):
        return {"x": e["x"] * 2., "label": tf.cast(e["pair"][1][0], F) + tf.cast(e["pair"][0], F)}
    changed = rows.map(change)
    one = tf.nest.map_structure(tf.stop_gradient, changed.batch(100).get_single_element())
    both = D.zip({"l": changed, "r": changed.skip(1)})
    return {"x": one["x"], "label": one["label"], "zipped": stack(both.map(lambda e: e["l"]["x"] - e["r"]["x"]), F, 3),
            "whole": tf.stop_gradient(D.from_tensors((x, self.w)).map(lambda a, b: a @ b).get_single_element())}


@module(INTS, x=of_ints)
def data_groups(self, x):
    r = D.from_tensor_slices(x)
    grouped = r.group_by_window(lambda v: v % 3, lambda k, g: g.batch(2).map(lambda b: k * 100 + tf.reduce_sum(b)), window_size=2)
    sizes = r.group_by_window(lambda v: v % 2, lambda k, g: g.batch(9), window_size_func=lambda k: k + 1)
    buckets = r.bucket_by_sequence_length(lambda v: tf.cast(v, I), [3, 6], [2, 2, 3])
    chosen = D.choose_from_datasets([r, r.map(lambda v: -v)], D.range(2).repeat(4), stop_on_empty_dataset=True)
    return {"grouped": stack(grouped, L), "sizes": stack(sizes.map(tf.reduce_sum), L), "buckets": stack(buckets.map(tf.reduce_sum), L), "chosen": stack(chosen, L),
            "cached": stack(r.cache().repeat(2), L), "counted": stack(r.apply(tf.data.experimental.assert_cardinality(tf.size(x, L))), L),
            "rebatched": stack(r.batch(4).rebatch(3).map(tf.reduce_sum), L), "drawn": stack(D.random(seed=4).take(5), L),
            "sampled": stack(D.sample_from_datasets([r, r.map(lambda v: -v)], [.3, .7], seed=2), L),
            "safe": stack(r.map(lambda v: tf.debugging.check_numerics(1. / tf.cast(v, F), "zero")).ignore_errors(), F)}


@module(INTS, x=of_ints)
def data_shuffles(self, x):
    r = D.from_tensor_slices(x)
    return {"once": stack(r.shuffle(3, seed=5), L), "again": stack(r.shuffle(10, seed=7).repeat(3), L), "fixed": stack(r.shuffle(4, seed=9, reshuffle_each_iteration=False).repeat(2), L)}


@module(spec(F, None), spec(L, None), x=lambda rng: floats(rng, 6), splits=lambda rng: np.array([0, 2, 2, 5, 6]))
def data_of_ragged_rows(self, x, splits):
    rows = D.from_tensor_slices(tf.RaggedTensor.from_row_splits(x, splits))
    dense = rows.map(lambda r: r * 2.)
    batches = D.from_tensor_slices(x).batch(4).map(lambda v: tf.RaggedTensor.from_tensor(v[:, None]))
    ragged = D.range(4).map(lambda n: tf.range(n)).ragged_batch(3)
    return {"sums": stack(dense.map(tf.reduce_sum), F), "flat": batches.reduce(tf.constant(0.), lambda a, r: a * 2. + tf.reduce_sum(r.flat_values)),
            "together": dense.apply(tf.data.experimental.dense_to_ragged_batch(2)).reduce(tf.constant(0.), lambda a, r: a * .5 + tf.reduce_sum(r.to_tensor(-1.))),
            "lengths": ragged.reduce(tf.zeros([0], L), lambda a, r: tf.concat([a, r.row_lengths()], 0))}


@module(ROWS, x=of_rows)
def data_of_sparse_rows(self, x):
    sparse = tf.sparse.from_dense(tf.round(x * 2))
    joined = tf.zeros([0, 3])
    for batch in D.from_tensor_slices(sparse).map(lambda row: tf.sparse.map_values(lambda v: v * 2, row)).batch(2):
        joined = tf.concat([joined, tf.sparse.to_dense(batch)], 0)
    total = tf.constant(0.)
    for element in D.from_tensors({"s": sparse, "x": x}).repeat(2):
        total += tf.sparse.reduce_sum(element["s"]) + tf.reduce_sum(element["x"])
    return {"joined": tf.ensure_shape(joined, [None, 3]), "total": total}


def example(i):
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[i, i + 1]))
    words, floats = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x", b"yz"] * (i % 2))), tf.train.Feature(float_list=tf.train.FloatList(value=[.5 * i] * (i % 3)))
    return tf.train.Example(features=tf.train.Features(feature={"n": number, "w": words, "f": floats})).SerializeToString()


@module(spec(F), x=lambda rng: np.float32(rng.normal()))
def data_of_examples(self, x):
    features = {"n": tf.io.FixedLenFeature([2], L), "w": tf.io.VarLenFeature(S), "f": tf.io.RaggedFeature(F), "z": tf.io.FixedLenFeature([], F, 7.)}
    parsed = D.from_tensor_slices([example(i) for i in range(7)]).batch(3).apply(tf.data.experimental.parse_example_dataset(features))
    numbers, words, floats = tf.zeros([0, 2], L), tf.constant(""), tf.constant(0.)
    for e in parsed:
        numbers = tf.concat([numbers, e["n"]], 0)
        words += tf.strings.reduce_join(tf.sparse.to_dense(e["w"], "-"))
        floats += tf.reduce_sum(e["f"].values) * tf.reduce_sum(e["z"])
    return {"n": tf.ensure_shape(numbers, [None, 2]), "w": words, "f": floats * x}


@module(ROWS, x=of_rows)
def data_of_types(self, x):
    out = {}
    alone = lambda rows, dtype: tf.stop_gradient(tf.cast(rows.unbatch().batch(99).get_single_element(), tf.complex128 if dtype.is_complex else tf.float64))
    for dtype in (tf.float16, tf.bfloat16, tf.float64, tf.int8, tf.uint16, tf.uint64, tf.complex64, tf.bool):
        y = tf.cast(tf.cast(x * 3, tf.int8) if dtype.is_integer or dtype.is_bool else x, dtype)
        rows = D.from_tensor_slices(y)
        out |= {dtype.name: alone(rows.repeat(2).batch(3).prefetch(1), dtype), "padded_" + dtype.name: alone(rows.padded_batch(2, padded_shapes=[5]), dtype)}
    return out


@module(ROWS, x=of_rows)
def data_as_attribute(self, x):
    return {"y": self.numbers.reduce(x, lambda a, n: a + n), "first": next(iter(self.numbers.batch(3))) * x[0, 0]}


@state
def data_as_attribute_state(self, rng):
    self.numbers = D.from_tensor_slices(floats(rng, 7)).map(lambda v: v * 2.)


@module(ROWS, x=of_rows)
def data_with_state(self, x):
    def count(row):
        self.count.assign_add(1)
        return row * tf.cast(self.count, F)
    y = stack(D.from_tensor_slices(x).map(count), F, 3)
    with tf.control_dependencies([y]):
        return {"y": y, "count": self.count.read_value()}


@state
def data_with_state_state(self, rng):
    self.count = tf.Variable(0)


@module(ROWS, x=of_rows)
def data_in_branches(self, x):
    rows = D.from_tensor_slices(x)
    return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: rows.reduce(tf.zeros([3]), lambda a, r: a + r), lambda: rows.batch(2).reduce(tf.zeros([3]), lambda a, r: a - r[0])),
            "deep": rows.map(lambda r: D.from_tensor_slices(r).reduce(tf.constant(0.), lambda a, v: a * .5 + tf.cond(v > 0, lambda: v, lambda: -2. * v))).reduce(tf.constant(0.), lambda a, v: a + v),
            "mapped": tf.map_fn(lambda r: D.from_tensor_slices(r).reduce(tf.constant(1.), lambda a, v: a * v), x)}

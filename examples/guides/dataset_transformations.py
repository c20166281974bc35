"""Transformations of datasets: groups, buckets, mixtures of datasets, states, caches and saved datasets."""

import os

from guide import folder, report, waves

import keras
import numpy as np
import tensorflow as tf

Dataset = tf.data.Dataset
keras.utils.set_random_seed(8)

# scan: running sums, and a state that is a tuple.
for n in Dataset.range(6).scan(initial_state=tf.constant(0, dtype="int64"), scan_func=lambda state, i: (state + i, state + i)):
    report("sum", n)
fibonacci = Dataset.range(8).scan((tf.constant(0), tf.constant(1)), lambda state, _: ((state[1], state[0] + state[1]), state[0]))
for n in fibonacci:
    report("fibonacci", n)

# unique
for n in Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique():
    report("unique", n)

# group_by_window: odd and even numbers.
window_size = 5
grouped = Dataset.range(14).group_by_window(
    key_func=lambda x: x % 2, reduce_func=lambda key, window: window.batch(window_size), window_size=window_size)
for batch in grouped:
    report("group", tf.reduce_sum(batch * tf.range(1, len(batch) + 1, dtype=tf.int64)))
by_size = Dataset.range(12).group_by_window(
    key_func=lambda x: x % 3, reduce_func=lambda key, window: window.batch(10).map(lambda b: b * 10 + key),
    window_size_func=lambda key: key + 1)
for batch in by_size:
    report("size", len(batch))
    report("first", batch[0])

# bucket_by_sequence_length: sentences of similar length in a batch.
elements = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]
sentences = Dataset.from_generator(lambda: elements, tf.int64, output_shapes=[None])
for options in [{}, {"drop_remainder": True}, {"padding_values": np.int64(-1)}]:
    bucketed = sentences.bucket_by_sequence_length(
        element_length_func=lambda elem: tf.shape(elem)[0], bucket_boundaries=[3, 5], bucket_batch_sizes=[2, 2, 2], **options)
    for batch in bucketed:
        report("rows", batch.shape[0])
        report("columns", batch.shape[1])
        report("bucket", tf.reduce_sum(batch))
bounded = sentences.take(3).bucket_by_sequence_length(
    lambda elem: tf.shape(elem)[0], [3, 7], [2, 2, 2], pad_to_bucket_boundary=True)
for batch in bounded:
    report("width", batch.shape[1])

# Mixtures.
zero, one = Dataset.range(0, 6), Dataset.range(100, 110)
for n in Dataset.sample_from_datasets([zero, one], weights=[0.3, 0.7], seed=3):
    report("sample", n)
for n in Dataset.sample_from_datasets([zero.repeat(), one.repeat(), zero], stop_on_empty_dataset=True).take(20):
    report("mixture", n)
for n in Dataset.choose_from_datasets([zero, one], Dataset.range(2).repeat(), stop_on_empty_dataset=False):
    report("choice", n)
random = Dataset.random(seed=4).take(3)
for n in random.concatenate(random):
    report("random", n % 1000)
for n in Dataset.random(seed=4, rerandomize_each_iteration=True).take(3).repeat(2):
    report("rerandomized", n % 1000)

# Other batches, one element, errors.
for batch in Dataset.range(7).batch(3).rebatch(2):
    report("rebatch", tf.reduce_sum(batch))
report("single", Dataset.range(5).batch(10).map(tf.reduce_sum).get_single_element())
for n in Dataset.counter(start=3, step=2).take(3):
    report("counter", n)

# A cache in a file, and a saved dataset.
calls = tf.Variable(0)


def count(x):
    calls.assign_add(1)
    return x * 2


cached = Dataset.range(4).map(count).cache(os.path.join(folder, "cache"))
report("cached", sum(int(n) for n in cached) + sum(int(n) for n in cached))
report("calls", calls)
report("again", sum(int(n) for n in Dataset.range(4).map(count).cache(os.path.join(folder, "cache"))))
pairs = Dataset.from_tensor_slices(({"x": waves((5, 2), 0.3), "name": ["a", "bb", "", "d", "e"]}, [1, 2, 3, 4, 5]))
pairs.save(os.path.join(folder, "saved"))
loaded = Dataset.load(os.path.join(folder, "saved"))
report("cardinality", loaded.cardinality())
for features, label in loaded.shuffle(5, seed=2):
    report("x", tf.reduce_sum(features["x"]))
    report("name", tf.strings.length(features["name"]))
    report("label", label)

model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
report("loss", model.fit(loaded.map(lambda f, y: (f["x"], y)).batch(2), epochs=2, verbose=0).history["loss"][-1])
model.save(folder + "/model.keras")

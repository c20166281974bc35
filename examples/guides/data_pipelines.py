"""Input pipelines: sources, transformations, windows, and training on them."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(41)

dataset = tf.data.Dataset.from_tensor_slices([8, 3, 0, 8, 2, 1])
for elem in dataset:
    report("element", elem)
report("sum", dataset.reduce(0, lambda state, value: state + value))

# Structures: tuples and dicts.
dataset1 = tf.data.Dataset.from_tensor_slices(waves((4, 10), 0.3))
dataset2 = tf.data.Dataset.from_tensor_slices((waves((4,), 0.7), labels(4 * 5, 7).reshape(4, 5)))
dataset3 = tf.data.Dataset.zip((dataset1, dataset2))
for a, (b, c) in dataset3:
    report("zipped", tf.reduce_sum(a) + b + tf.cast(tf.reduce_sum(c), tf.float32))
features = tf.data.Dataset.from_tensor_slices({"a": waves((6,), 0.4), "b": waves((6, 2), 0.9)})
for batch in features.batch(4):
    report("dict", tf.reduce_sum(batch["a"]) + tf.reduce_sum(batch["b"]))


# A generator.
def count(stop):
    i = 0
    while i < stop:
        yield i
        i += 1


ds_counter = tf.data.Dataset.from_generator(lambda: count(25), output_types=tf.int32, output_shapes=())
for count_batch in ds_counter.repeat().batch(10).take(4):
    report("generated", tf.reduce_sum(count_batch * tf.range(10)))

# Batches, with padding.
inc_dataset = tf.data.Dataset.range(100)
dec_dataset = tf.data.Dataset.range(0, -100, -1)
batched_dataset = tf.data.Dataset.zip((inc_dataset, dec_dataset)).batch(7, drop_remainder=True)
report("cardinality", batched_dataset.cardinality())
for x, y in batched_dataset.take(3):
    report("batch", tf.reduce_sum(x * x + y))
padded = tf.data.Dataset.range(8).map(lambda x: tf.fill([tf.cast(x, tf.int32)], x)).padded_batch(4, padded_shapes=(None,))
for batch in padded:
    report("padded", tf.cast(tf.shape(batch)[1], tf.int64) * 100 + tf.reduce_sum(batch))

# Repeat and shuffle in both orders.
numbers = tf.data.Dataset.range(10)
for name, shuffled in [("shuffle_repeat", numbers.shuffle(buffer_size=5).repeat(2)), ("repeat_shuffle", numbers.repeat(2).shuffle(buffer_size=5))]:
    for i, n in shuffled.enumerate():
        report(name, (i + 1) * n)

# filter, take, skip, take_while, concatenate, shard, interleave.
even = numbers.filter(lambda x: x % 2 == 0)
several = even.take(3).concatenate(numbers.skip(8)).concatenate(numbers.take_while(lambda x: x < 3)).concatenate(numbers.shard(3, 1))
for n in several:
    report("selected", n)
for n in tf.data.Dataset.range(1, 4).interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(4), cycle_length=2, block_length=3):
    report("interleaved", n)

# Windows: features of ten steps, and the step that follows as the label.
range_ds = tf.data.Dataset.range(50)


def make_window_dataset(ds, window_size=5, shift=1, stride=1):
    windows = ds.window(window_size, shift=shift, stride=stride)

    def sub_to_batch(sub):
        return sub.batch(window_size, drop_remainder=True)

    return windows.flat_map(sub_to_batch)


ds = make_window_dataset(range_ds, window_size=10, shift=5, stride=3)
for example in ds.take(4):
    report("window", tf.reduce_sum(example * tf.range(10, dtype=tf.int64)))
dense_labels = ds.map(lambda batch: (batch[:-1], batch[1:]))
for window, label in dense_labels.take(2):
    report("label", tf.reduce_sum(label - window))

# Training on a pipeline, with weights of the samples.
x_train, y_train = waves((60, 4), 0.21), labels(60, 3)
train = (tf.data.Dataset.from_tensor_slices((x_train, y_train, waves((60,), 0.1) + 1.5))
         .map(lambda x, y, w: (x / 2.0 + 0.5, y, w), num_parallel_calls=tf.data.AUTOTUNE)
         .cache()
         .shuffle(100)
         .batch(8)
         .prefetch(tf.data.AUTOTUNE))
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)])
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(train, epochs=3, verbose=0)
for value in history.history["loss"]:
    report("loss", value)
report("steps", model.fit(train.repeat(), steps_per_epoch=5, epochs=2, verbose=0).history["loss"][-1])
report("evaluate", model.evaluate(train, verbose=0)[0])


# Batches that a class computes, in a shuffled order.
class WaveBatches(keras.utils.PyDataset):
    def __init__(self, length):
        super().__init__()
        self.length = length
        self.epochs = 0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return waves((6, 4), 0.1 + 0.05 * index), labels(6, 3, index + 1)

    def on_epoch_end(self):
        self.epochs += 1


batches = WaveBatches(7)
of_class = model.fit(batches, validation_data=WaveBatches(2), epochs=2, verbose=0)
for name, values in of_class.history.items():
    for value in values:
        report("class " + name, value)
report("class", tf.reduce_sum(model.predict(WaveBatches(3), verbose=0)))
report("epochs", batches.epochs)

# Sequences of a time series.
series = waves((40, 2), 0.17)
sequences = keras.utils.timeseries_dataset_from_array(series[:-5], series[5:, 0], sequence_length=5, sampling_rate=2, batch_size=8, shuffle=True, seed=3)
for inputs, targets in sequences:
    report("sequence", tf.reduce_sum(inputs[:, -1] * targets[:, None]))
model.save(folder + "/model.keras")

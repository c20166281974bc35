"""Which batches Keras trains and validates on, epoch by epoch: the golden file of epoch_iterator_test.cpp.

python epoch_sequences.py regenerates the file; test_epochs.py compares it with the installed Keras.
"""
import itertools
import json
import pathlib

GOLDEN = pathlib.Path(__file__).parents[2] / "lockstep/keras/trainer/epoch_iterator_golden.inc"
KEYS = ("batches", "steps", "epochs", "execution", "source", "shuffle", "strategy", "validation", "validation_steps")


def cases():
    """Dicts with KEYS; source: arrays, known, unknown or repeated (a dataset of known, unknown, infinite length)."""
    rows = []

    def add(batches, steps=None, epochs=4, execution=1, source="known", shuffle=False, strategy=False, validation="none",
            validation_steps=None):
        rows.append(dict(zip(KEYS, (batches, steps, epochs, execution, source, shuffle, strategy, validation,
                                    validation_steps))))

    for source, batches, steps in itertools.product(("arrays", "known", "unknown"), (1, 4, 5), (None, 1, 2, 4, 5, 7)):
        add(batches, steps, source=source)
    for source, steps, execution in itertools.product(("arrays", "known", "unknown", "repeated"), (None, 3, 4, 6), (2, 3)):
        if source != "repeated" or steps:
            add(5, steps, execution=execution, source=source)
    for source, strategy, steps in itertools.product(("known", "unknown", "repeated"), (False, True), (None, 2, 5)):
        if source != "repeated" or steps:
            add(5, steps, source=source, shuffle=True, strategy=strategy)
    for source, steps, validation_steps in itertools.product(("arrays", "known", "unknown"), (None, 2), (None, 2, 3)):
        add(4, steps, epochs=3, source=source, validation="own", validation_steps=validation_steps)
    for strategy, steps, validation_steps in itertools.product((False, True), (None, 2), (None, 2)):
        add(4, steps, epochs=3, shuffle=True, strategy=strategy, validation="same", validation_steps=validation_steps)
    return rows


def run(case):
    """[training batches, end steps, validation batches] of each epoch; a batch is named by its element."""
    import numpy as np
    import tensorflow as tf
    import keras

    events = []

    def element(data):
        return int(np.ravel(data[0].numpy())[0])

    class Recorder(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            events[-1][0].append(element(data))
            return {"loss": 0.0}

        def test_step(self, data):
            events[-1][2].append(element(data))
            return {"loss": 0.0}

    class Ends(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            events.append([[], [], []])

        def on_train_batch_end(self, batch, logs=None):
            events[-1][1].append(batch)

    def data(source):
        count = case["batches"]
        if source == "arrays":
            return np.arange(count, dtype="float32")[:, None], np.zeros((count, 1), "float32")
        dataset = tf.data.Dataset.range(count)
        if case["shuffle"]:
            dataset = dataset.shuffle(count, seed=3)
        dataset = dataset.map(lambda i: (tf.cast(tf.reshape(i, [1, 1]), tf.float32), tf.zeros([1, 1])))
        if source == "unknown":
            dataset = dataset.filter(lambda x, y: True)
        return dataset.repeat() if source == "repeated" else dataset

    tf.random.set_seed(42)
    options = dict(epochs=case["epochs"], steps_per_epoch=case["steps"], verbose=0, callbacks=[Ends()])
    train = data(case["source"])
    if case["source"] == "arrays":
        options.update(x=train[0], y=train[1], batch_size=1, shuffle=False)
    else:
        options.update(x=train)
    if case["validation"] != "none":
        options.update(validation_data=train if case["validation"] == "same" else data(case["source"]),
                       validation_steps=case["validation_steps"])
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0") if case["strategy"] else tf.distribute.get_strategy()
    with strategy.scope():
        model = Recorder()
        model.compile(run_eagerly=True, steps_per_execution=case["execution"])
    model.fit(**options)
    return events


def text():
    rows = [json.dumps(dict(case, expected=run(case)), separators=(",", ":")) for case in cases()]
    return 'R"golden([\n' + ",\n".join(rows) + '\n])golden"\n'


if __name__ == "__main__":
    GOLDEN.write_text(text())

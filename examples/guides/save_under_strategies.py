"""Saved under one strategy, loaded under another and under none; training resumes from a checkpoint."""

from guide import folder, report, waves

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(19)
x, y = waves((64, 5), 0.27), waves((64, 1), 0.45)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def make():
    model = keras.Sequential([
        keras.layers.Input((5,)),
        keras.layers.Dense(6, activation="tanh"),
        keras.layers.Dense(1),
    ])
    model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.02), loss="mse")
    return model


mirrored = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
with mirrored.scope():
    model = make()
    model.fit(dataset, epochs=2, verbose=0)
    report("mirrored", model.evaluate(dataset, verbose=0))
    model.save(folder + "/model.keras")
    checkpoint = tf.train.Checkpoint(model=model)
    checkpoint.write(folder + "/ckpt")

plain = keras.models.load_model(folder + "/model.keras")
report("none", plain.evaluate(dataset, verbose=0))

one = tf.distribute.OneDeviceStrategy("/cpu:0")
with one.scope():
    loaded = keras.models.load_model(folder + "/model.keras")
    history = loaded.fit(dataset, epochs=2, verbose=0)  # the optimizer continues, too
    for value in history.history["loss"]:
        report("one_device", value)

fresh = make()
checkpoint = tf.train.Checkpoint(model=fresh)
checkpoint.read(folder + "/ckpt")
report("restored", fresh.evaluate(dataset, verbose=0))

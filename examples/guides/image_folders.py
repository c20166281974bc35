"""Images in a folder for each class: datasets of files, halves of a dataset, a snapshot, a model of raw pixels."""

import os
import struct

from guide import folder, report

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def write_image(path, pixels):
    """A BMP file: rows from below, blue first, each row filled to four bytes."""
    height, width, _ = pixels.shape
    row = (3 * width + 3) // 4 * 4
    header = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54 + row * height, 0, 0, 54, 40, width, height, 1, 24, 0, row * height, 0, 0, 0, 0)
    rows = [pixels[y, :, ::-1].tobytes().ljust(row, b"\0") for y in reversed(range(height))]
    with open(path, "wb") as file:
        file.write(header + b"".join(rows))


keras.config.disable_interactive_logging()  # else the counts of files are printed
keras.utils.set_random_seed(19)
for label, name in enumerate(["circles", "squares"]):
    os.makedirs(f"{folder}/shapes/{name}")
    for i in range(12):
        height, width = 14 + i % 3, 18 - i % 2
        pixels = np.arange(height * width * 3) * (7 + 5 * label) % (251 - i)
        write_image(f"{folder}/shapes/{name}/{i:02d}.bmp", pixels.astype("uint8").reshape(height, width, 3))

image_size = (16, 16)
train_ds = keras.utils.image_dataset_from_directory(
    f"{folder}/shapes", validation_split=0.25, subset="training", seed=1337, image_size=image_size, batch_size=6, verbose=False)
val_ds = keras.utils.image_dataset_from_directory(
    f"{folder}/shapes", validation_split=0.25, subset="validation", seed=1337, image_size=image_size, batch_size=6, verbose=False)
for name in train_ds.class_names:
    report("class " + name, len(name))
for images, labels in train_ds.take(1):
    for i in range(6):
        report("label", labels[i])
        report("pixels", tf.reduce_mean(images[i]))

cropped = keras.utils.image_dataset_from_directory(
    f"{folder}/shapes", labels=None, image_size=(8, 12), interpolation="nearest", shuffle=False,
    batch_size=24, crop_to_aspect_ratio=True, verbose=False)
report("cropped", np.mean(next(iter(cropped))))
padded = keras.utils.image_dataset_from_directory(
    f"{folder}/shapes", label_mode="categorical", image_size=(20, 20), interpolation="bicubic", shuffle=False, batch_size=24,
    pad_to_aspect_ratio=True, verbose=False)
images, labels = next(iter(padded))
report("padded", np.mean(images))
report("categories", np.sum(labels[:, 1]))

model = keras.Sequential([
    keras.Input(shape=image_size + (3,)),
    layers.Rescaling(1.0 / 255),
    layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
    layers.BatchNormalization(),
    layers.SeparableConv2D(8, 3, padding="same"),
    layers.MaxPooling2D(pool_size=(3, 3), strides=(2, 2), padding="same"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(1),
], name="shapes")
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss=keras.losses.BinaryCrossentropy(from_logits=True))
history = model.fit(train_ds, epochs=3, validation_data=val_ds, verbose=0)
for name in ["loss", "val_loss"]:
    for value in history.history[name]:
        report(name, value)
predictions = model.predict(val_ds.map(lambda x, y: x).take(1), verbose=0)
report("score", np.sum(predictions))

# Halves of arrays and of datasets.
x = np.arange(40, dtype="float32").reshape(10, 4)
left, right = keras.utils.split_dataset((x, np.arange(10)), left_size=0.7)
for part in (left, right):
    for a, b in part:
        report("row", np.sum(a) + b)
first, second = keras.utils.split_dataset(tf.data.Dataset.from_tensor_slices(x).batch(4), right_size=3, shuffle=True, seed=5)
for part in (first, second):
    for batch in part:
        report("rows", len(batch))
        report("first", batch[0][0])

# Elements that are computed once, also for later programs.
snapshot = tf.data.Dataset.range(5).map(lambda n: n * n).snapshot(folder + "/squares")
for _ in range(2):
    report("snapshot", snapshot.reduce(np.int64(0), lambda state, n: state + n))
model.save(folder + "/model.keras")

"""The quickstart for beginners: images of bytes scaled to fractions, a small dense network, probabilities."""

from guide import folder, labels, report

import keras
import tensorflow as tf

keras.utils.set_random_seed(1)
x_train, y_train = labels(96 * 64, 256, 37).reshape(96, 8, 8).astype("uint8"), labels(96, 10, 3)
x_test, y_test = labels(32 * 64, 256, 41).reshape(32, 8, 8).astype("uint8"), labels(32, 10, 3)
x_train, x_test = x_train / 255.0, x_test / 255.0

model = keras.models.Sequential([
    keras.layers.Input(shape=(8, 8)),
    keras.layers.Flatten(),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dropout(0.2),
    keras.layers.Dense(10),
])
predictions = model(x_train[:1])
report("untrained", tf.reduce_max(tf.nn.softmax(predictions)))
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
report("untrained_loss", loss_fn(y_train[:1], predictions))

model.compile(optimizer="adam", loss=loss_fn, metrics=["accuracy"])
history = model.fit(x_train, y_train, epochs=5, verbose=0)
for value in history.history["loss"]:
    report("loss", value)
loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
report("test_loss", loss)
report("test_accuracy", accuracy)

probability_model = keras.Sequential([
    model,
    keras.layers.Softmax(),
])
probabilities = probability_model(x_test[:5])
for row in probabilities:
    report("probability", row[3])
model.save(folder + "/model.keras")

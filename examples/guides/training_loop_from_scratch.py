"""A training loop from scratch: a tape, an optimizer and metrics by hand, over a shuffled dataset."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(11)
x_train, x_val = waves((96, 8), 0.37), waves((32, 8), 0.53)
y_train, y_val = labels(96, 3), labels(32, 3, 2)

model = keras.Sequential([
    keras.layers.Input((8,)),
    keras.layers.Dense(16, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01)),
    keras.layers.Dense(3),
])
optimizer = keras.optimizers.Adam(learning_rate=0.01)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_accuracy = keras.metrics.SparseCategoricalAccuracy()
val_accuracy = keras.metrics.SparseCategoricalAccuracy()

train_dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(96, 5).batch(32)
val_dataset = tf.data.Dataset.from_tensor_slices((x_val, y_val)).batch(16)


def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
        for penalty in model.losses:
            loss += penalty
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    train_accuracy.update_state(y, logits)
    return loss


for epoch in range(3):
    for x, y in train_dataset:
        report("loss", train_step(x, y))
    report("accuracy", train_accuracy.result())
    train_accuracy.reset_state()
    for x, y in val_dataset:
        val_accuracy.update_state(y, model(x))
    report("val_accuracy", val_accuracy.result())
    val_accuracy.reset_state()
model.save(folder + "/model.keras")

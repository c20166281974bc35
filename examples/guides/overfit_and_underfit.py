"""Overfitting and underfitting: small and large networks, weight penalties, dropout, early stopping, a schedule."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(2)
N_VALIDATION, N_TRAIN, BATCH_SIZE = 40, 120, 16
STEPS_PER_EPOCH = N_TRAIN // BATCH_SIZE
features, targets = waves((160, 6), 0.83), labels(160, 2, 7).reshape(160, 1)
dataset = tf.data.Dataset.from_tensor_slices((features, targets))
validate_ds = dataset.take(N_VALIDATION).cache().batch(BATCH_SIZE)
# One order for all epochs: tf.data reads ahead, so the number of orders that the first fit draws depends on time.
train_ds = dataset.skip(N_VALIDATION).take(N_TRAIN).cache().shuffle(N_TRAIN, reshuffle_each_iteration=False).repeat().batch(BATCH_SIZE)

lr_schedule = keras.optimizers.schedules.InverseTimeDecay(0.01,
                                                          decay_steps=STEPS_PER_EPOCH * 10,
                                                          decay_rate=1,
                                                          staircase=False)


def compile_and_fit(model, name):
    model.compile(optimizer=keras.optimizers.Adam(lr_schedule),
                  loss=keras.losses.BinaryCrossentropy(from_logits=True),
                  metrics=[keras.metrics.BinaryCrossentropy(from_logits=True, name="binary_crossentropy"),
                           "accuracy"])
    history = model.fit(train_ds,
                        steps_per_epoch=STEPS_PER_EPOCH,
                        epochs=6,
                        validation_data=validate_ds,
                        callbacks=[keras.callbacks.EarlyStopping(monitor="val_binary_crossentropy", patience=1)],
                        verbose=0)
    for key in ("loss", "accuracy", "val_binary_crossentropy"):
        for value in history.history[key]:
            report(name + "_" + key, value)


tiny = keras.Sequential([
    keras.layers.Input((6,)),
    keras.layers.Dense(4, activation="elu"),
    keras.layers.Dense(1),
])
compile_and_fit(tiny, "tiny")

combined = keras.Sequential([
    keras.layers.Input((6,)),
    keras.layers.Dense(32, kernel_regularizer=keras.regularizers.l2(0.0001), activation="elu"),
    keras.layers.Dropout(0.5),
    keras.layers.Dense(32, kernel_regularizer=keras.regularizers.l1_l2(0.0001, 0.001), activation="elu"),
    keras.layers.Dropout(0.5),
    keras.layers.Dense(1),
])
compile_and_fit(combined, "combined")
combined.save(folder + "/model.keras")

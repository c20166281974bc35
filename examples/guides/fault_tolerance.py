"""Fault tolerance: interrupted training resumes from its backup, in the same process or in another."""

from guide import folder, report, waves

import os

import keras
import tensorflow as tf


class InterruptingCallback(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 4:
            raise RuntimeError("Interrupting!")


class Recorder(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        report(f"epoch_{epoch}", logs["loss"])


def make_model():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    return model


keras.utils.set_random_seed(28)
dataset = tf.data.Dataset.from_tensor_slices((waves((40, 6), 0.37), waves((40, 1), 0.53))).batch(10)
backup_dir = folder + "/backup"

model = make_model()
try:
    model.fit(dataset, epochs=8, verbose=0,
              callbacks=[keras.callbacks.BackupAndRestore(backup_dir), InterruptingCallback(), Recorder()])
except RuntimeError as error:
    report(str(error), 1)
report("backup", os.path.exists(backup_dir))

# The same model continues with epoch 4; at the end of training the backup is removed.
model.fit(dataset, epochs=8, verbose=0,
          callbacks=[keras.callbacks.BackupAndRestore(backup_dir), Recorder()])
report("backup", os.path.exists(backup_dir))

# As after the start of another process: a new model takes weights and optimizer from the backup.
model = make_model()
try:
    model.fit(dataset, epochs=8, verbose=0,
              callbacks=[keras.callbacks.BackupAndRestore(backup_dir, delete_checkpoint=False),
                         InterruptingCallback(), Recorder()])
except RuntimeError as error:
    report(str(error), 2)
model = make_model()
model.fit(dataset, epochs=6, verbose=0,
          callbacks=[keras.callbacks.BackupAndRestore(backup_dir, delete_checkpoint=False), Recorder()])
report("iterations", model.optimizer.iterations)
report("backup", os.path.exists(backup_dir))
model.save(folder + "/model.keras")

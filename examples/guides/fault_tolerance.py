"""Fault tolerance: interrupted training resumes from its backup, in the same process or in another."""

from guide import folder, report, waves

import os
import signal

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


class Preempted(Exception):
    pass


def end_program():
    raise Preempted()


def train_with_handler(dataset, checkpoint_dir, preempt_at=None):
    keras.utils.set_random_seed(29)
    strategy = tf.distribute.get_strategy()
    model = make_model()
    loss_fn = keras.losses.MeanSquaredError()

    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    checkpoint = tf.train.Checkpoint(model=model)
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        strategy.cluster_resolver, checkpoint, checkpoint_dir,
        tf.distribute.experimental.TerminationConfig(exit_fn=end_program))
    steps_per_epoch = 4
    for epoch in range(handler.total_run_calls // steps_per_epoch, 3):
        iterator = iter(dataset.skip(handler.total_run_calls % steps_per_epoch))
        for step in range(handler.total_run_calls % steps_per_epoch, steps_per_epoch):
            if handler.total_run_calls == preempt_at:
                os.kill(os.getpid(), signal.SIGTERM)
            loss = handler.run(train_step, *next(iterator))
    report("loss_of_last_step", loss)
    report("iterations_of_loop", model.optimizer.iterations)


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

# A custom loop: SIGTERM ends it with a checkpoint, with which it continues.
try:
    train_with_handler(dataset, folder + "/preempted", preempt_at=5)
except Preempted:
    report("preempted", 1)
train_with_handler(dataset, folder + "/preempted")
model.save(folder + "/model.keras")

"""Two workers, described by TF_CONFIG: a custom loop, checkpoints and models that only the chief keeps."""

import json
import os
import shutil
import socket
import subprocess
import sys

from guide import folder, labels, report, waves

import keras
import tensorflow as tf


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def is_chief(task_type, task_id):
    return task_type is None or task_type == "chief" or (task_type == "worker" and task_id == 0)


# Every worker saves, since saving may communicate; all but the chief into a folder that is removed.
def write_filepath(filepath, task_type, task_id):
    if is_chief(task_type, task_id):
        return filepath
    dirpath, base = os.path.split(filepath)
    temp_dir = os.path.join(dirpath, "workertemp_" + str(task_id))
    os.makedirs(temp_dir, exist_ok=True)
    return os.path.join(temp_dir, base)


def train():
    keras.utils.set_random_seed(6)
    per_worker_batch_size = 8
    num_epochs = 2
    num_steps_per_epoch = 3
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    task_type = strategy.cluster_resolver.task_type
    task_id = strategy.cluster_resolver.task_id
    num_workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    global_batch_size = per_worker_batch_size * num_workers

    with strategy.scope():
        multi_worker_model = keras.Sequential([
            keras.layers.Input((6,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(3),
        ])
        optimizer = keras.optimizers.SGD(learning_rate=0.1)
        x, y = waves((96, 6), 0.19), labels(96, 3)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(global_batch_size)
        multi_worker_dataset = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def train_step(iterator):
        def step_fn(inputs):
            x, y = inputs
            with tf.GradientTape() as tape:
                predictions = multi_worker_model(x, training=True)
                per_example_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(y, predictions)
                loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=global_batch_size)
            grads = tape.gradient(loss, multi_worker_model.trainable_variables)
            optimizer.apply_gradients(zip(grads, multi_worker_model.trainable_variables))
            return loss

        per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)

    epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
    step_in_epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="step_in_epoch")
    checkpoint = tf.train.Checkpoint(model=multi_worker_model, epoch=epoch, step_in_epoch=step_in_epoch)
    write_checkpoint_dir = write_filepath(os.path.join(folder, "ckpt"), task_type, task_id)
    checkpoint_manager = tf.train.CheckpointManager(checkpoint, directory=write_checkpoint_dir, max_to_keep=1)

    while epoch.numpy() < num_epochs:
        iterator = iter(multi_worker_dataset)
        total_loss = 0.0
        num_batches = 0
        while step_in_epoch.numpy() < num_steps_per_epoch:
            total_loss += train_step(iterator)
            num_batches += 1
            step_in_epoch.assign_add(1)
        if task_id == 0:
            report("train_loss", total_loss / num_batches)
        checkpoint_manager.save()
        epoch.assign_add(1)
        step_in_epoch.assign(0)

    # Back to the last checkpoint.
    latest_checkpoint = tf.train.latest_checkpoint(write_checkpoint_dir)
    checkpoint.restore(latest_checkpoint)
    if task_id == 0:
        report("workers", num_workers)
        report("restored epoch", epoch.numpy())
        report("restored step", step_in_epoch.numpy())
        report("checkpoints", len(checkpoint_manager.checkpoints))
    write_model_path = write_filepath(os.path.join(folder, "model.keras"), task_type, task_id)
    multi_worker_model.save(write_model_path)
    if not is_chief(task_type, task_id):
        shutil.rmtree(os.path.dirname(write_model_path))


if "TF_CONFIG" in os.environ:  # the other worker
    train()
else:
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})
    other = subprocess.Popen([sys.executable, os.path.abspath(__file__), folder], stdout=subprocess.DEVNULL)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    train()
    assert other.wait() == 0

"""TensorFlow's ParameterServerStrategy with tf-keras on two servers and three workers over loopback, all in this process:

    parameter_server_peer.py FOLDER EPOCHS

reads FOLDER/d.npz and the weights FOLDER/start/model, trains, saves the checkpoint FOLDER/theirs/ckpt-1 and the values of
all variables in theirs.npz; before, it loads the weights FOLDER/ours/model into the same sharded variables and saves them
in read.npz. losses.json gets the losses of both on the data."""

import json
import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tf_keras

from job import free_ports

BATCH = 8


def main(folder, epochs):
    ports = free_ports(5)
    spec = tf.train.ClusterSpec({"worker": [f"127.0.0.1:{port}" for port in ports[:3]], "ps": [f"127.0.0.1:{port}" for port in ports[3:]]})
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)  # fewer than workers and the chief hang
    servers = [tf.distribute.Server(spec, job_name=job, task_index=index, config=config, protocol="grpc") for job in ("ps", "worker")
               for index in range(spec.num_tasks(job))]
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc"),
        variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(200, 3))
    data = np.load(folder / "d.npz")
    x, y = data["x"], data["y"]
    L = tf_keras.layers
    with strategy.scope():
        read, model = [tf_keras.Sequential([L.InputLayer((5,), dtype="int32"), L.Embedding(41, 6), L.Flatten(), L.Dense(3)]) for _ in range(2)]
        model.compile(tf_keras.optimizers.Adam(0.05), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert len(model.variables) == 6, "the table in three shards, the kernel in two, the bias"

    def whole(of):
        shards = [v.numpy() for v in of.variables]
        return [np.concatenate(shards[:3]), np.concatenate(shards[3:5]), shards[5]]

    def loss(of):
        table, kernel, bias = whole(of)
        logits = table[x].reshape(len(x), -1) @ kernel + bias
        return float(tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, logits))

    # A model with an optimizer would restore that too, from slots that Keras 3 orders in another way.
    read.load_weights(str(folder / "ours" / "model")).expect_partial()
    losses = {"ours": loss(read)}
    np.savez(folder / "read.npz", *whole(read))
    read.load_weights(str(folder / "start" / "model")).expect_partial()
    for variable, value in zip(model.variables, read.variables):
        variable.assign(value)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(BATCH)
    model.fit(batches, epochs=epochs, steps_per_epoch=len(x) // BATCH, verbose=0)
    losses["theirs"] = loss(model)
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(folder / "theirs" / "ckpt"))
    np.savez(folder / "theirs.npz", *whole(model), *[tf.convert_to_tensor(v).numpy() for v in model.optimizer.variables])
    (folder / "losses.json").write_text(json.dumps(losses))
    sys.stdout.flush()
    os._exit(0)  # the servers run until then: TensorFlow cannot stop one


main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))

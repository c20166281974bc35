#!/usr/bin/env python3
"""Asynchronous training with a parameter server, and TensorFlow's, alternately, and the table of docs/performance.md.

    bench/servers.py [--build build] [--rounds 3] [--write]

The tutorial's CNN under ParameterServerStrategy on this machine: a chief, two workers and a server are processes of one thread
each, on both sides (TensorFlow: tf-keras, since Keras 3 does not run under it). A step is a batch of 64 that one worker takes.
The images of each class are noise around one image, so that both sides must learn them before their times count. TensorFlow's time
is an epoch's, the first one left out, ours that of 40 epochs; ratios are of the best of all rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from tables import write_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "judged"))
from job import free_ports  # noqa: E402

STEPS, EPOCHS, OUR_EPOCHS, BATCH = 100, 6, 41, 64
ONE_THREAD = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}

PEER = """
import json, os, sys, time
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np, tensorflow as tf, tf_keras
tf.config.threading.set_intra_op_parallelism_threads(1)
task = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
if task != "chief":
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=4)
    tf.distribute.Server(resolver.cluster_spec(), job_name=task, task_index=resolver.task_id, config=config, protocol="grpc").join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
data = np.load(sys.argv[1])
steps, epochs, batch = map(int, sys.argv[2:])
with strategy.scope():
    L = tf_keras.layers
    model = tf_keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                                 L.Dense(64, activation="relu"), L.Dense(10)])
    model.compile(tf_keras.optimizers.Adam(), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.set_weights([data[f"w{i}"] for i in range(6)])
times, losses = [], []
class Times(tf_keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None): self.begin = time.perf_counter()
    def on_epoch_end(self, epoch, logs=None):
        times.append((time.perf_counter() - self.begin) * 1000)
        losses.append(float(logs["loss"]))
batches = tf.data.Dataset.from_tensor_slices((data["x"], data["y"])).repeat().batch(batch).prefetch(4)
model.fit(batches, epochs=epochs, steps_per_epoch=steps, verbose=0, callbacks=[Times()])
print(json.dumps({"epoch_ms": times, "loss": losses}), flush=True)
os._exit(0)
"""


def prepare(folder):
    import keras
    import numpy as np
    import models
    keras.utils.set_random_seed(1)
    model, loss, _ = models.tutorial()
    model.compile("adam", loss, metrics=["accuracy"])
    model.save(folder / "cnn.keras")
    rng = np.random.default_rng(1)
    y = rng.integers(0, 10, STEPS * BATCH)
    x = (rng.random((10, 28, 28, 1), "float32")[y] + rng.normal(0, 0.3, (len(y), 28, 28, 1))).astype("float32")
    np.savez(folder / "data.npz", x=x, y=y)
    np.savez(folder / "peer.npz", x=x, y=y, **{f"w{i}": w for i, w in enumerate(model.get_weights())})
    (folder / "peer.py").write_text(PEER)


def cluster():
    """The environments of a chief, two workers and a server."""
    address = [f"127.0.0.1:{port}" for port in free_ports(4)]
    jobs = {"chief": address[:1], "worker": address[1:3], "ps": address[3:]}
    return [{**os.environ, **ONE_THREAD, "TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})}
            for kind, index in (("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0))]


def run(command):
    """Standard output of the chief of a job, whose other processes end with it."""
    processes = [subprocess.Popen([str(c) for c in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for env in cluster()]
    try:
        out, err = processes[0].communicate(timeout=900)
    finally:
        for process in processes[1:]:
            process.kill()
    if processes[0].returncode:
        raise RuntimeError(err[-500:])
    return out


def ours(build, folder):
    """Milliseconds of a step: the difference of a long and a short job, which start and save alike; the losses of the long one's epochs."""
    seconds = []
    for epochs in (1, OUR_EPOCHS):
        begin = time.perf_counter()
        run([build / "bin" / "lockstep", "fit", folder / "cnn.keras", "--data", folder / "data.npz", "--epochs", epochs, "--batch-size", BATCH,
             "--strategy", "parameter_server", "--history", folder / "history.json"])
        seconds.append(time.perf_counter() - begin)
    return [(seconds[1] - seconds[0]) * 1000 / ((OUR_EPOCHS - 1) * STEPS)], json.loads((folder / "history.json").read_text())["loss"]


def theirs(folder):
    result = json.loads(run([sys.executable, folder / "peer.py", folder / "peer.npz", STEPS, EPOCHS, BATCH]).splitlines()[-1])
    return [ms / STEPS for ms in result["epoch_ms"][1:]], result["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    times = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for _ in range(options.rounds):
            for side, (steps, losses) in (("ours", ours(build, folder)), ("theirs", theirs(folder))):
                if not losses[-1] < 0.1 * losses[0]:
                    raise RuntimeError(f"{side}: the loss went from {losses[0]} to {losses[-1]}")
                times[side] += steps
    cell = {side: f"{min(v):.2f} ({statistics.median(v):.2f}) ms" for side, v in times.items()}
    text = "\n".join(["| step | best (median) | | | target |", "|---|---|---|---|---|",
                      f"| tutorial's CNN, asynchronous, two workers and one server, batch 64 | {cell['ours']} | | | |",
                      f"| - tf-keras ParameterServerStrategy | {cell['theirs']} | ours is faster by | "
                      f"{min(times['theirs']) / min(times['ours']):.2f} | >= 4 |"])
    print(text)
    if options.write:
        write_table("performance.md", "servers.py", text)


if __name__ == "__main__":
    main()

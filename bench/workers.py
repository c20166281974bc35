#!/usr/bin/env python3
"""The tutorial's CNN on two workers with one thread each, global batch 128: lockstep, its own one worker, and tf-keras's
MultiWorkerMirroredStrategy in turns.

    bench/workers.py [--build build] [--rounds 3] [--write]

A step's time is the difference between a long and a short run, so that starting and loading do not count. The weights of
both sides after equal steps are compared first. --write puts the table into docs/performance.md.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- workers.py begins -->", "<!-- workers.py ends -->"
SHORT, LONG, BATCH = 20, 420, 128

PEER = """
import os, sys, time
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np, tensorflow as tf, tf_keras
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = np.load(sys.argv[1])
short, long, batch = map(int, sys.argv[3:6])
with strategy.scope():
    L = tf_keras.layers
    model = tf_keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                                 L.Dense(64, activation="relu"), L.Dense(10)])
    model.set_weights([data[f"w{i}"] for i in range(6)])
    model.compile(tf_keras.optimizers.Adam(), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
def run(steps):
    begin = time.perf_counter()
    model.fit(data["x"][: steps * batch], data["y"][: steps * batch], batch_size=batch, shuffle=False, verbose=0)
    return time.perf_counter() - begin
run(short)
if strategy.cluster_resolver.task_id == 0:
    np.savez(sys.argv[2], *model.get_weights())
first = run(short)
print((run(long) - first) / (long - short) * 1000)
"""


def cluster(index, ports):
    workers = [f"127.0.0.1:{port}" for port in ports]
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})}


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def run_all(commands):
    """Starts the processes of a job and waits for them; what the first printed."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    processes = [subprocess.Popen([str(c) for c in command], env={**env, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for command, more in commands]
    outputs = [p.communicate() for p in processes]
    for process, (_, err) in zip(processes, outputs):
        if process.returncode:
            raise RuntimeError(err[-500:])
    return outputs[0][0]


def ours(tool, folder, workers, steps, save=None):
    ports = free_ports(workers)
    command = [tool, "fit", folder / "cnn.keras", "--data", folder / f"d{steps}.npz", "--batch-size", BATCH, "--no-shuffle"]
    if workers > 1:
        command += ["--strategy", "multi_worker"]
    if save:
        command += ["--save", save]
    begin = time.perf_counter()
    run_all([(command, cluster(i, ports) if workers > 1 else {}) for i in range(workers)])
    return time.perf_counter() - begin


def step_time(tool, folder, workers):
    return (ours(tool, folder, workers, LONG) - ours(tool, folder, workers, SHORT)) / (LONG - SHORT) * 1000


def theirs(folder):
    ports = free_ports(2)
    command = [sys.executable, folder / "peer.py", folder / f"d{LONG}.npz", folder / "theirs.npz", SHORT, LONG, BATCH]
    return float(run_all([(command, cluster(i, ports)) for i in range(2)]).split()[-1])


def prepare(folder):
    import keras
    import numpy as np
    keras.utils.set_random_seed(1)
    L = keras.layers
    model = keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                              L.Dense(64, activation="relu"), L.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.save(folder / "cnn.keras")
    rng = np.random.default_rng(1)
    weights = {f"w{i}": w for i, w in enumerate(model.get_weights())}
    x, y = rng.random((LONG * BATCH, 28, 28, 1), "float32"), rng.integers(0, 10, LONG * BATCH)
    for steps in (SHORT, LONG):
        np.savez(folder / f"d{steps}.npz", x=x[: steps * BATCH], y=y[: steps * BATCH], **(weights if steps == LONG else {}))
    (folder / "peer.py").write_text(PEER)


def check(tool, folder):
    """Both sides after SHORT steps from the same weights."""
    import keras
    import numpy as np
    ours(tool, folder, 2, SHORT, folder / "ours.keras")
    reference = np.load(folder / "theirs.npz")
    for a, name in zip(keras.models.load_model(folder / "ours.keras").get_weights(), reference.files):
        np.testing.assert_allclose(a, reference[name], rtol=1e-3, atol=1e-4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    tool = pathlib.Path(options.build).resolve() / "bin" / "lockstep"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        times = {"two": [], "one": [], "tf": []}
        for _ in range(options.rounds):
            times["tf"].append(theirs(folder))
            if not times["two"]:
                check(tool, folder)
            times["one"].append(step_time(tool, folder, 1))
            times["two"].append(step_time(tool, folder, 2))
    best = {k: min(v) for k, v in times.items()}
    cell = {k: f"{min(v):.2f} ({statistics.median(v):.2f}) ms" for k, v in times.items()}
    table = "\n".join([
        "| tutorial's CNN, 2 workers of one thread, global batch 128 | best (median) | two workers are faster by | target |", "|---|---|---|---|",
        f"| lockstep, two workers | {cell['two']} | | |",
        f"| lockstep, one worker of one thread | {cell['one']} | {best['one'] / best['two']:.2f} | 1.6 |",
        f"| tf-keras MultiWorkerMirroredStrategy | {cell['tf']} | {best['tf'] / best['two']:.2f} | 4 |"])
    print(table)
    if options.write:
        path = ROOT / "docs" / "performance.md"
        text = path.read_text()
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        path.write_text(text[:begin] + "\n" + table + "\n" + text[end:])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What several workers on this machine cost, alternating within one run, and the table of docs/performance.md.

    bench/workers.py [--build build] [--rounds 5] [--folder /tmp] [--write]

Needs a build with -DLOCKSTEP_BENCH=ON. The tutorial's CNN on two workers with one thread each, global batch 128: lockstep, its
own one worker, two such processes of half the batch that know nothing of each other (the most that the machine gives), and
tf-keras's MultiWorkerMirroredStrategy, after the weights of both sides have been compared. Then sums of 100 MB against
plain Gloo, and a checkpoint of 0.5 GB saved and restored by four workers against plain writes and copies in --folder. Best
and median; ratios are best to best.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from tables import write_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "judged"))
from job import cluster_env, free_ports  # noqa: E402

STEPS, EPOCHS, BATCH, CHECKED_STEPS = 60, 8, 128, 20

PEER = """
import os, sys, time
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np, tensorflow as tf, tf_keras
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = np.load(sys.argv[1])
checked, epochs, batch = map(int, sys.argv[3:6])
with strategy.scope():
    L = tf_keras.layers
    model = tf_keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                                 L.Dense(64, activation="relu"), L.Dense(10)])
    model.set_weights([data[f"w{i}"] for i in range(6)])
    model.compile(tf_keras.optimizers.Adam(), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
times = []
class Times(tf_keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None): self.begin = time.perf_counter()
    def on_epoch_end(self, epoch, logs=None): times.append((time.perf_counter() - self.begin) * 1000)
model.fit(data["x"][: checked * batch], data["y"][: checked * batch], batch_size=batch, shuffle=False, verbose=0)
if strategy.cluster_resolver.task_id == 0:
    np.savez(sys.argv[2], *model.get_weights())
model.fit(data["x"], data["y"], batch_size=batch, epochs=epochs, shuffle=False, verbose=0, callbacks=[Times()])
print(times)
"""


def run_all(commands):
    """Starts the processes of a job and waits for them; what each printed."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    processes = [subprocess.Popen([str(c) for c in command], env={**env, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for command, more in commands]
    outputs = [p.communicate() for p in processes]
    for process, (_, err) in zip(processes, outputs):
        if process.returncode:
            raise RuntimeError(err[-500:])
    return [out for out, _ in outputs]


def job(workers, *command):
    """Runs the same command on each worker of a job; returns the JSON on the last line of the chief's output."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    return json.loads(run_all([(command, cluster_env(addresses, i)) for i in range(workers)])[0].splitlines()[-1])


def prepare(folder):
    import keras
    import numpy as np
    import models
    keras.utils.set_random_seed(1)
    model, loss, _ = models.tutorial()
    model.compile("adam", loss, metrics=["accuracy"])
    model.save(folder / "cnn.keras")
    rng = np.random.default_rng(1)
    weights = {f"w{i}": w for i, w in enumerate(model.get_weights())}
    x, y = rng.random((STEPS * BATCH, 28, 28, 1), "float32"), rng.integers(0, 10, STEPS * BATCH)
    np.savez(folder / "data.npz", x=x, y=y)
    np.savez(folder / "peer.npz", x=x, y=y, **weights)
    np.savez(folder / "checked.npz", x=x[: CHECKED_STEPS * BATCH], y=y[: CHECKED_STEPS * BATCH])
    (folder / "peer.py").write_text(PEER)


class Training:
    def __init__(self, build, folder):
        self.bin, self.folder = build / "bin", folder
        self.times = {"tf": [], "one": [], "two": [], "apart": []}

    def ours(self, batch, strategy):
        return [self.bin / "train_bench", self.folder / "cnn.keras", self.folder / "data.npz", batch, EPOCHS, strategy]

    def check(self):
        """Both sides after a few steps from the same weights."""
        import keras
        import numpy as np
        job_command = [self.bin / "lockstep", "fit", self.folder / "cnn.keras", "--data", self.folder / "checked.npz", "--batch-size", BATCH,
                       "--no-shuffle", "--strategy", "multi_worker", "--save", self.folder / "ours.keras"]
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        run_all([(job_command, cluster_env(addresses, i)) for i in range(2)])
        theirs = np.load(self.folder / "theirs.npz")
        for a, name in zip(keras.models.load_model(self.folder / "ours.keras").get_weights(), theirs.files):
            np.testing.assert_allclose(a, theirs[name], rtol=1e-3, atol=1e-4)

    def round(self):
        """Milliseconds a step of each epoch but the first, which warms up."""
        def add(name, epochs, steps=STEPS):
            self.times[name] += [ms / steps for ms in epochs[1:]]
        add("tf", job(2, sys.executable, self.folder / "peer.py", self.folder / "peer.npz", self.folder / "theirs.npz", CHECKED_STEPS, EPOCHS, BATCH))
        if not self.times["one"]:
            self.check()
        add("one", json.loads(run_all([(self.ours(BATCH, "default"), {})])[0])["epoch_ms"])
        add("two", job(2, *self.ours(BATCH, "multi_worker"))["epoch_ms"])
        both = [json.loads(out)["epoch_ms"] for out in run_all([(self.ours(BATCH // 2, "default"), {})] * 2)]
        add("apart", [max(pair) for pair in zip(*both)], 2 * STEPS)

    def rows(self):
        best = {k: min(v) for k, v in self.times.items()}
        cell = {k: f"{min(v):.2f} ({statistics.median(v):.2f}) ms" for k, v in self.times.items()}
        return [("tutorial's CNN, two workers of one thread, global batch 128", cell["two"], "", "", ""),
                ("- our one worker of one thread", cell["one"], "two are faster by", f"{best['one'] / best['two']:.2f}", ">= 1.6"),
                ("- two processes apart, half the batch each", cell["apart"], "the most two could be faster by", f"{best['one'] / best['apart']:.2f}", ""),
                ("- tf-keras MultiWorkerMirroredStrategy", cell["tf"], "ours is faster by", f"{best['tf'] / best['two']:.2f}", ">= 4")]


def cell(values):
    return f"{min(values) * 1000:.1f} ({statistics.median(values) * 1000:.1f}) ms"


def reductions(build, rounds):
    rows = []
    for name, more in (("through shared memory", []), ("--communication ring", ["ring"])):
        runs = [job(2, build / "bin" / "reduce_bench", 100, *more) for _ in range(rounds)]
        sums, gloo = ([r[k] for r in runs] for k in ("sum", "gloo"))
        rows += [(f"sum of 100 MB over two workers, {name}", cell(sums), "", "", ""),
                 ("- plain Gloo", cell(gloo), "its time / ours", f"{min(gloo) / min(sums):.2f}", ">= 0.9")]
    return rows


def saves(build, rounds, folder):
    runs = [job(4, build / "bin" / "save_bench", folder) for _ in range(rounds)]
    values = {k: [r[k] for r in runs] for k in runs[0]}
    least = {k: min(v) for k, v in values.items()}
    return [("save of 0.5 GB by four workers", cell(values["together"]), "bytes of one copy", f"{least['bytes_of_one_copy']:.2f}", "1.00"),
            ("- one plain durable write", cell(values["durable"]), "ours / plain", f"{least['together'] / least['durable']:.2f}", "<= 1.1"),
            ("stall of an asynchronous save of 0.5 GB", cell(values["stall"]), "", "", ""),
            ("- one memcpy of it", cell(values["memcpy"]), "stall / memcpy", f"{least['stall'] / least['memcpy']:.2f}", "<= 1.2"),
            ("restore of 0.5 GB by four workers", cell(values["all"]), "", "", ""),
            ("- by one", cell(values["one"]), "four / one", f"{least['all'] / least['one']:.2f}", "<= 1")]


def table(rows):
    head = ["| work | best (median) | | | target |", "|---|---|---|---|---|"]
    return "\n".join(head + ["| " + " | ".join(row) + " |" for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the disk of interest is")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    with tempfile.TemporaryDirectory() as name:
        prepare(pathlib.Path(name))
        training = Training(build, pathlib.Path(name))
        for _ in range(options.rounds):
            training.round()
    text = table(training.rows() + reductions(build, options.rounds) + saves(build, options.rounds, options.folder))
    print(text)
    if options.write:
        write_table("performance.md", "workers.py", text)


if __name__ == "__main__":
    main()

"""Asynchronous training with parameter servers: with one worker it is the training of one process; nothing is lost, or done twice,
when workers and servers are killed; its checkpoints are TensorFlow's."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import lockstep_tool as tool
import stored
from test_strategies import start_model
from test_train import compare

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras 3 has no parameter servers")


def command(tmp, workers, servers, *options, launch=()):
    return [tool.BIN, "launch", "-n", workers, "--ps", servers, *launch, "--", "fit", tmp / "start.keras", "--data", tmp / "d.npz", *options]


def start(*args):
    return subprocess.Popen(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ok(*args):
    job = start(*args)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, out + err
    return out, err


def iterations(path):
    return int(keras.models.load_model(path).optimizer.iterations)


def pid_of(job, kind, index):
    """The process of a task, once it is there."""
    children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
    wanted = f'"task": {{"type": "{kind}", "index": {index}}}'.encode()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in children.read_text().split():
            if wanted in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                return int(pid)
        time.sleep(0.02)
    raise AssertionError(f"{kind} {index} did not start")


CASES = [("dense", "adam"), ("cnn", "adamw"), ("dense", "sgd-global-clipnorm"), ("lstm", "rmsprop-centered"), ("dropout", "sgd-momentum"),
         ("embedding", "adam"), ("frozen", "adam-ema"), ("dense", "sgd-loss-scale"), ("dense", "sgd-accumulate"), ("dense", "adam-cosine"),
         ("dense", "sgd-decay")]


@pytest.mark.parametrize("name, optimizer", CASES)
def test_one_worker_trains_what_one_process_trains(name, optimizer, tmp_path, request):
    """Weights, slots, metrics and the history, validation and shuffled data included."""
    if not tool.CONFORMANCE and CASES.index((name, optimizer)) > 2:
        pytest.skip("drawn for the full run")
    start_model(tmp_path, name, optimizer, tool.generator(request.node.name), 29)
    options = ("--epochs", 2, "--batch-size", 8, "--seed", 3, "--validation-split", 0.2)
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--save", tmp_path / "one.keras", "--history", tmp_path / "one.json",
            *options)
    ok(*command(tmp_path, 1, 2, *options, "--save", tmp_path / "many.keras", "--history", tmp_path / "many.json"))
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, name)
    tool.assert_history(tool.load_history(tmp_path / "many.json"), tool.load_history(tmp_path / "one.json"), 1e-5)


def test_rows_of_embeddings_and_shards(tmp_path):
    rng = tool.generator("embeddings")
    L = keras.layers
    model = keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(40, 6), L.Flatten(), L.Dense(3)])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.save(tmp_path / "start.keras")
    np.savez(tmp_path / "d.npz", x=rng.integers(0, 40, (30, 5)), y=rng.integers(0, 3, 30))
    options = ("--epochs", 2, "--batch-size", 8, "--no-shuffle")
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--save", tmp_path / "one.keras", *options)
    ok(*command(tmp_path, 1, 2, *options, "--save", tmp_path / "many.keras", "--variable-partitioner", "max_size:400"))
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5)


def test_constraints_are_applied_by_servers(tmp_path):
    """To rows of shards too; one that takes all rows requires a whole variable."""
    rng = tool.generator("constraints")
    L, C = keras.layers, keras.constraints
    model = keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(40, 6, embeddings_constraint=C.UnitNorm(axis=1)), L.Flatten(),
                              L.Dense(4, kernel_constraint=C.MaxNorm(0.4), bias_constraint="non_neg"),
                              L.Dense(3, kernel_constraint=C.MinMaxNorm(0.2, 0.6, 0.7))])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.save(tmp_path / "start.keras")
    np.savez(tmp_path / "d.npz", x=rng.integers(0, 40, (30, 5)), y=rng.integers(0, 3, 30))
    options = ("--epochs", 2, "--batch-size", 8, "--no-shuffle")
    x, y = (np.load(tmp_path / "d.npz")[name] for name in "xy")
    model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0)
    ok(*command(tmp_path, 1, 2, *options, "--save", tmp_path / "many.keras", "--variable-partitioner", "max_size:500"))
    compare(keras.models.load_model(tmp_path / "many.keras"), model, 1e-5)
    job = start(*command(tmp_path, 1, 2, *options, "--save", tmp_path / "many.keras", "--variable-partitioner", "max_size:100"))
    _, err = job.communicate(timeout=120)
    assert job.returncode == 1 and "dense/kernel' has a constraint that takes all its rows, but is partitioned into" in err, err


def regression(tmp, rows=256):
    """A linear model, which any order of small updates brings near its solution."""
    rng = tool.generator("regression")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    model.save(tmp / "start.keras")
    x = rng.normal(size=(rows, 4)).astype("float32")
    np.savez(tmp / "d.npz", x=x, y=x @ np.array([[1], [-2], [0.5], [3]], "float32") + 0.25)


def assert_trained(tmp, steps):
    model = keras.models.load_model(tmp / "out.keras")
    assert int(model.optimizer.iterations) == steps
    np.testing.assert_allclose(model.weights[0].numpy()[:, 0], [1, -2, 0.5, 3], atol=0.01)
    np.testing.assert_allclose(model.weights[1].numpy(), [0.25], atol=0.01)


def test_three_workers_and_two_servers(tmp_path):
    regression(tmp_path)
    ok(*command(tmp_path, 3, 2, "--epochs", 8, "--batch-size", 8, "--save", tmp_path / "out.keras", "--history", tmp_path / "h.json",
                "--checkpoint-dir", tmp_path / "run"))
    assert_trained(tmp_path, 8 * 32)
    history = tool.load_history(tmp_path / "h.json")
    assert list(history) == ["loss", "mae"] and len(history["loss"]) == 8
    assert history["loss"][-1] < 1e-3 * history["loss"][0]
    # TensorFlow reads the checkpoint: one tensor for each variable.
    reader = tf.train.load_checkpoint(str(tmp_path / "run" / "ckpt-8"))
    shapes = reader.get_variable_to_shape_map()
    assert [4, 1] in shapes.values() and not any("part" in key for key in shapes), shapes


def test_exchange_with_tensorflows_strategy(tmp_path):
    """Three workers and two servers each: lockstep learns the data, and both read the sharded variables of the other one.

    How late gradients arrive depends on the load. So both train with a high rate, until little is left of the loss; on a
    loaded machine TensorFlow has ended with 0.88 of 1.10, which is not lockstep's fault."""
    epochs, L = 16, keras.layers

    def peer():
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("parameter_server_peer.py"), tmp_path, str(epochs)],
                              capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr

    def written():
        """TensorFlow reads and trains the model. Its numbers are in files, as they differ from run to run."""
        rng = tool.generator("exchange")
        keras.utils.set_random_seed(int(rng.integers(1000)))
        model = keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(41, 6), L.Flatten(), L.Dense(3)])
        model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.save(tmp_path / "start.keras")
        x, scores = rng.integers(0, 41, (96, 5)), rng.normal(size=(41, 3))
        np.savez(tmp_path / "d.npz", x=x, y=scores[x].sum(axis=1).argmax(axis=1))
        for name in ("start", "ours"):
            tool.ok("convert", tmp_path / "start.keras", tmp_path / name / "model", "--to", "tf_checkpoint")
        peer()

    stored.original(written, tmp_path, files=[pathlib.Path(__file__).with_name("parameter_server_peer.py")])
    data, options = np.load(tmp_path / "d.npz"), ("--batch-size", 8, "--no-shuffle", "--variable-partitioner", "min_size:200:3")
    ok(*command(tmp_path, 3, 2, "--epochs", epochs, "--save", tmp_path / "ours.keras", *options))
    shutil.rmtree(tmp_path / "ours")
    tool.ok("convert", tmp_path / "ours.keras", tmp_path / "ours" / "model", "--to", "tf_checkpoint")
    ours, untrained = (keras.models.load_model(tmp_path / f"{name}.keras") for name in ("ours", "start"))
    if tool.CONFORMANCE:
        peer()
        read = list(np.load(tmp_path / "read.npz").values())
    else:  # by TensorFlow into a model without shards
        again = tf_keras.Sequential([tf_keras.layers.InputLayer((5,), dtype="int32"), tf_keras.layers.Embedding(41, 6), tf_keras.layers.Flatten(),
                                     tf_keras.layers.Dense(3)])
        again.load_weights(str(tmp_path / "ours" / "model")).expect_partial()
        read = again.get_weights()
    for value, theirs in zip(ours.get_weights(), read, strict=True):
        np.testing.assert_array_equal(value, theirs)
    losses = [model.evaluate(data["x"], data["y"], verbose=0) for model in (ours, untrained)]
    assert losses[0] < 0.1 * losses[1], losses

    tool.ok("convert", tmp_path / "start.keras", tmp_path / "back.keras", "--weights", tmp_path / "theirs" / "ckpt-1", "--strict", "optimizer")
    back, theirs = keras.models.load_model(tmp_path / "back.keras"), list(np.load(tmp_path / "theirs.npz").values())
    rate = back.optimizer.variables[1]
    slots = [v.numpy() for v in back.optimizer.variables if v is not rate]
    for ours, value in zip([*back.get_weights(), *slots], theirs, strict=True):
        np.testing.assert_array_equal(ours, value)
    ok(*command(tmp_path, 1, 2, "--weights", tmp_path / "theirs" / "ckpt-1", "--epochs", 1, "--save", tmp_path / "more.keras", *options))
    assert iterations(tmp_path / "more.keras") == (epochs + 1) * 12


@pytest.mark.parametrize("kind", ["worker", "ps"])
def test_a_killed_process_is_started_again(kind, tmp_path):
    regression(tmp_path, 1024)
    job = start(*command(tmp_path, 2, 2, "--epochs", 20, "--batch-size", 8, "--save", tmp_path / "out.keras", "--checkpoint-dir", tmp_path / "run",
                         launch=("--restarts", 2)))
    tool.wait_for(tmp_path / "run" / "checkpoint", job)
    os.kill(pid_of(job, kind, 1), signal.SIGKILL)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, out + err
    assert "was killed by signal 9 (SIGKILL); it is started again (1 of 2)" in err
    steps = iterations(tmp_path / "out.keras")
    assert steps == 20 * 128 if kind == "worker" else steps <= 20 * 128
    assert_trained(tmp_path, steps)


@pytest.mark.skipif(not tool.CONFORMANCE, reason="drawn for the full run")
@pytest.mark.parametrize("kind", ["worker", "ps"])
def test_a_process_hangs(kind, tmp_path):
    """The other worker trains on, and does the task of the worker that hangs, long before the time-out. A server that hangs delays the job."""
    regression(tmp_path, 1024)
    job = start(*command(tmp_path, 2, 1, "--epochs", 20, "--batch-size", 8, "--save", tmp_path / "out.keras", "--checkpoint-dir", tmp_path / "run",
                         "--timeout", 300))
    tool.wait_for(tmp_path / "run" / "checkpoint", job)
    pid = pid_of(job, kind, 0)
    os.kill(pid, signal.SIGSTOP)
    try:
        if kind == "worker":
            reached = max(int(path.name.split("-")[1].split(".")[0]) for path in (tmp_path / "run").glob("ckpt-*.index"))
            tool.wait_for(tmp_path / "run" / f"ckpt-{reached + 2}.index", job)
        else:
            time.sleep(1)
    finally:
        os.kill(pid, signal.SIGCONT)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, out + err
    assert_trained(tmp_path, 20 * 128)


@pytest.mark.skipif(not tool.CONFORMANCE, reason="drawn for the full run")
def test_a_killed_worker_that_is_not_started_again(tmp_path):
    regression(tmp_path, 1024)
    job = start(*command(tmp_path, 2, 1, "--epochs", 20, "--batch-size", 8, "--save", tmp_path / "out.keras", "--checkpoint-dir", tmp_path / "run"))
    tool.wait_for(tmp_path / "run" / "checkpoint", job)
    os.kill(pid_of(job, "worker", 0), signal.SIGKILL)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0 and "it is not started again" in err, out + err
    assert_trained(tmp_path, 20 * 128)


def test_a_stopped_job_is_resumed(tmp_path):
    regression(tmp_path, 1024)
    args = command(tmp_path, 2, 1, "--epochs", 15, "--batch-size", 8, "--save", tmp_path / "out.keras", "--checkpoint-dir", tmp_path / "run")
    job = start(*args)
    tool.wait_for(tmp_path / "run" / "checkpoint", job)
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 42 and "the state is saved" in err, out + err
    out, err = ok(*args)
    assert "resumed after" in out, out + err
    assert_trained(tmp_path, 15 * 128)


def test_wrong_clusters_and_options(tmp_path):
    regression(tmp_path)
    cluster = {"cluster": {"worker": ["127.0.0.1:23451"]}, "task": {"type": "worker", "index": 0}}
    fit = ("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz")
    line = tool.refused(*fit, "--strategy", "parameter_server", env={"TF_CONFIG": json.dumps(cluster)})
    assert "requires a cluster with the jobs chief, worker and ps: found no chief" in line
    assert "--ps requires fit" in tool.refused("launch", "-n", 1, "--ps", 1, "--", "evaluate", tmp_path / "start.keras", code=2)
    line = tool.refused(*fit, "--variable-partitioner", "min_size:100", code=2)
    assert "--variable-partitioner requires fixed:SHARDS, min_size:BYTES:MAX_SHARDS" in line
    assert "requires --ps" in tool.refused("launch", "-n", 1, "--", *fit, "--strategy", "parameter_server", code=2)

"""Several workers compute what one does, and none is ever waited for without end."""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool
import stored
from job import Job, cluster_env, free_ports, listening_ports
from test_strategies import fit, start_model
from test_train import compare

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras does not run on several workers")

# (workers, replicas on each, rows, batch): batches that divide, that do not, and that leave workers without a row.
SHAPES = [(2, 1, 32, 8), (2, 2, 29, 8), (3, 1, 17, 4), (4, 1, 9, 8), (3, 2, 5, 4)]


def fit_job(tmp, shape, out, *options, epochs=2):
    workers, replicas, _, batch = shape
    Job(workers, "fit", tmp / "start.keras", "--data", tmp / "d.npz", "--epochs", epochs, "--batch-size", batch, "--no-shuffle",
        "--strategy", f"multi_worker:{replicas}", "--save", tmp / out, "--history", tmp / (out + ".json"), *options).ok()
    return tool.load_history(tmp / (out + ".json"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name, optimizer", [("dense", "sgd-global-clipnorm"), ("dropout", "adam"), ("regularized", "adamw"),
                                             ("lstm", "rmsprop-centered"), ("recurrent_dropout", "adam")])
def test_workers_compute_what_one_does(shape, name, optimizer, tmp_path, request):
    if not tool.CONFORMANCE and (SHAPES.index(shape) + len(name)) % 2:
        pytest.skip("drawn for the full run")
    start_model(tmp_path, name, optimizer, tool.generator(request.node.name), shape[2])
    one = fit(tmp_path, "default", "one.keras", shape[3], 2, "--seed", 7)
    many = fit_job(tmp_path, shape, "many.keras", "--seed", 7)
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, str(shape))
    tool.assert_history(many, one, 1e-5)


def test_over_tcp_alone(tmp_path, request):
    """On one machine sums go through shared memory unless they may not."""
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    one = fit(tmp_path, "default", "one.keras", 8, 2, "--seed", 7)
    many = fit_job(tmp_path, (3, 2, 29, 8), "many.keras", "--seed", 7, "--communication", "ring")
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "ring")
    tool.assert_history(many, one, 1e-5)


@pytest.mark.parametrize("communication", ["auto", "ring"])
@pytest.mark.parametrize("workers", [2, 3])
def test_gradients_larger_than_a_bucket(workers, communication, tmp_path, request):
    """6 MB of gradients, more than the shared memory holds at once; a batch with fewer rows than workers at the end."""
    rng = tool.generator(request.node.name)
    L = keras.layers
    model = keras.Sequential([L.Input((40,)), L.Dense(1200, activation="relu"), L.Dense(1200, activation="relu"), L.Dense(3)])
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.save(tmp_path / "start.keras")
    np.savez(tmp_path / "d.npz", x=rng.random((25, 40), "float32"), y=rng.integers(0, 3, 25))
    one = fit(tmp_path, "default", "one.keras", 8, 2)
    many = fit_job(tmp_path, (workers, 1, 25, 8), "many.keras", "--communication", communication)
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, communication)
    tool.assert_history(many, one, 1e-5)


@pytest.mark.parametrize("shape", [(2, 1, 32, 8), (3, 1, 17, 4), (2, 2, 29, 8), (4, 1, 9, 8)], ids=str)
def test_a_layer_that_asks_the_others_while_gradients_travel(shape, tmp_path, request):
    rng = tool.generator(request.node.name)
    keras.utils.set_random_seed(int(rng.integers(1000)))
    L = keras.layers
    model = keras.Sequential([L.Input((20,)), L.Dense(64, use_bias=False), L.BatchNormalization(synchronized=True), L.Dense(300, activation="relu"),
                              L.Dense(100), L.Dense(3)])
    model.compile(keras.optimizers.SGD(0.02, momentum=0.5), "mse")
    model.save(tmp_path / "start.keras")
    np.savez(tmp_path / "d.npz", x=rng.random((shape[2], 20), "float32"), y=rng.random((shape[2], 3), "float32"))
    one = fit(tmp_path, "default", "one.keras", shape[3], 2)
    many = fit_job(tmp_path, shape, "many.keras")
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, str(shape))
    tool.assert_history(many, one, 1e-5)


@pytest.mark.parametrize("compression, epsilon", [("float16", 2.0 ** -11), ("bfloat16", 2.0 ** -8)])
def test_compressed_gradients_train_nearly_the_same(compression, epsilon, tmp_path, request):
    start_model(tmp_path, "dense", "sgd-momentum", tool.generator(request.node.name), 64)
    fit_job(tmp_path, (2, 1, 64, 8), "exact.keras", epochs=4)
    losses = fit_job(tmp_path, (2, 1, 64, 8), "rounded.keras", "--compression", compression, epochs=4)["loss"]
    assert losses[-1] < losses[0]
    start, exact, rounded = (np.concatenate([w.ravel() for w in keras.models.load_model(tmp_path / f"{name}.keras").get_weights()])
                             for name in ("start", "exact", "rounded"))
    error, way = np.linalg.norm(rounded - exact), np.linalg.norm(exact - start)
    assert 0 < error < 4 * epsilon * way, f"{error} apart after a way of {way}"


def test_a_compression_that_is_none(tmp_path, request):
    start_model(tmp_path, "dense", "sgd", tool.generator(request.node.name), 8)
    line = tool.refused("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--compression", "zip")
    assert "'zip'" in line and "bfloat16" in line


def test_keras_on_one_worker_is_the_judge(tmp_path, request):
    """The whole way: three workers of lockstep against Keras itself, uneven batches."""
    model = start_model(tmp_path, "dense", "sgd-momentum", tool.generator(request.node.name), 29)
    many = fit_job(tmp_path, (3, 1, 29, 8), "many.keras")
    data = np.load(tmp_path / "d.npz")
    history = answers.fit(model, data["x"], data["y"], sample_weight=data["sample_weight"], batch_size=8, epochs=2)
    compare(keras.models.load_model(tmp_path / "many.keras"), model, 1e-4, "three workers")
    tool.assert_history(many, history, 1e-4)


def test_the_same_job_twice_is_the_same_bytes(tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    for out in ("a.keras", "b.keras"):
        fit_job(tmp_path, (2, 2, 29, 8), out, "--seed", 3)
    assert (tmp_path / "a.keras").read_bytes() == (tmp_path / "b.keras").read_bytes()


@pytest.mark.parametrize("communication", ["auto", "ring"])
def test_connections_from_outside_do_not_disturb_a_job(communication, tmp_path, request):
    """Whatever connects to the ports of a job, and whatever it sends, the job ends as without it."""
    rng = random.Random(f"{tool.SEED}/{communication}")
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    command = ["fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 100, "--batch-size", 8, "--seed", 3,
               "--strategy", "multi_worker", "--communication", communication]
    Job(2, *command, "--save", tmp_path / "alone.keras").ok()
    job = Job(2, *command, "--save", tmp_path / "a.keras")
    held, sent = [], 0
    while any(process.poll() is None for process in job.processes):
        for port in listening_ports([process.pid for process in job.processes]):
            # Text, a greeting of TLS, lengths from 0 to 2^64 - 1, requests of LibTorch's store for 2^50 bytes, anything, nothing.
            number = rng.choice([0, 1, 2**31, 2**40, 2**50, 2**63 - 1, 2**64 - 1])
            store = b"\x09" + struct.pack("<I", 0x3C85F7CE) + bytes([rng.randrange(16)]) + struct.pack("<Q", number)
            message = rng.choice([b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500), store,
                                  struct.pack("<Q", number) + b"x" * 100, struct.pack(">I", number % 2**32), rng.randbytes(5000), b"{}\n", b""])
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                held[-1].sendall(message)
                sent += 1
            if held and (rng.random() < 0.7 or len(held) > 30):
                held.pop(0).close()
        time.sleep(0.02)
    job.ok()
    assert sent > 10
    assert (tmp_path / "a.keras").read_bytes() == (tmp_path / "alone.keras").read_bytes()


def test_evaluate(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 29)
    command = ["evaluate", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--batch-size", 8, "--json"]
    one = json.loads(tool.ok(*command))
    results = Job(2, *command, "--strategy", "multi_worker").ok()
    tool.assert_history({k: [v] for k, v in json.loads(results[0][1]).items()}, {k: [v] for k, v in one.items()}, 1e-6)
    assert results[1][1] == "", "only the chief prints"


@pytest.mark.skipif(not tool.CONFORMANCE, reason="drawn for the full run")
def test_64_processes(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 128)
    fit_job(tmp_path, (64, 1, 128, 64), "many.keras", "--startup-timeout", 120, epochs=2)
    fit(tmp_path, "default", "one.keras", 64, 2)
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "64")


TF_KERAS_WORKER = """
import os, sys
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np, tensorflow as tf, tf_keras
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = np.load(sys.argv[1])
with strategy.scope():
    model = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.Dense(5, activation="relu"), tf_keras.layers.Dense(1)])
    model.set_weights([data[f"w{i}"] for i in range(4)])
    model.compile(tf_keras.optimizers.SGD(0.05, momentum=0.9), "mse")
model.fit(data["x"], data["y"], batch_size=8, epochs=3, shuffle=False, verbose=0)
if strategy.cluster_resolver.task_id == 0:
    np.savez(sys.argv[2], *model.get_weights())
"""


def test_tf_keras_on_two_workers(tmp_path):
    """Even batches, where tf-keras's mean of means is the mean."""
    def written():
        rng = tool.generator("test_tf_keras_on_two_workers")
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(1)])
        tool.randomise(model, rng, 0.3)
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
        model.save(tmp_path / "start.keras")
        x, y = rng.normal(size=(32, 4)).astype("float32"), rng.normal(size=(32, 1)).astype("float32")
        np.savez(tmp_path / "d.npz", x=x, y=y)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            np.savez(folder / "t.npz", x=x, y=y, **{f"w{i}": w for i, w in enumerate(model.get_weights())})
            (folder / "worker.py").write_text(TF_KERAS_WORKER)
            addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
            peers = [subprocess.Popen([sys.executable, folder / "worker.py", folder / "t.npz", folder / "theirs.npz"],
                                      env={**os.environ, **cluster_env(addresses, i)}) for i in range(2)]
            for peer in peers:
                assert peer.wait(timeout=180) == 0
            with np.load(folder / "theirs.npz") as theirs:
                return [theirs[name] for name in theirs.files]

    wanted = stored.original(written, tmp_path)
    fit_job(tmp_path, (2, 1, 32, 8), "ours.keras", epochs=3)
    for ours, theirs in zip(stored.weights(keras, tmp_path / "ours.keras"), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def long_job(tmp, workers, *options, **kwargs):
    return Job(workers, "fit", tmp / "start.keras", "--data", tmp / "d.npz", "--epochs", 100000, "--batch-size", 8, "--seed", 1,
               "--strategy", "multi_worker", "--save", tmp / "never.keras", *options, **kwargs)


def test_evaluating_uneven_rows(tmp_path, request):
    """Sums over workers that have fewer rows than others, or none; Keras fails before the first batch."""
    model = start_model(tmp_path, "cnn", "adam", tool.generator(request.node.name), 7)
    data = np.load(tmp_path / "d.npz")
    expected = answers.evaluate(model, data["x"], data["y"], sample_weight=data["sample_weight"], batch_size=5)
    command = ["evaluate", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--batch-size", 5, "--json", "--strategy", "multi_worker:2"]
    reported = json.loads(Job(3, *command).ok()[0][1])
    tool.assert_history({k: [reported[k]] for k in expected}, {k: [v] for k, v in expected.items()}, 1e-5)


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_lost_worker_is_named(victim, how, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    job = long_job(tmp_path, 3, "--timeout", 60 if how == signal.SIGKILL else 3)
    job.wait_until_connected()
    began = time.time()
    job.kill(victim, how)
    for index, process in enumerate(job.processes):
        if index == victim:
            continue
        out, err = process.communicate(timeout=30)
        assert process.returncode == 1, f"worker {index}: {process.returncode} {out}{err}"
        assert f"worker {victim} ({job.addresses[victim]})" in err.splitlines()[-1], err
        assert err.startswith("lockstep: ") and len(err.splitlines()) == 1, err
    assert time.time() - began < 25, "long before --timeout, and before its default"
    job.kill(victim, signal.SIGKILL)
    job.processes[victim].communicate()
    assert not (tmp_path / "never.keras").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.npz", "start.keras"], "stray files"


def test_a_worker_that_never_starts_is_named(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    ports = free_ports(3)
    env = cluster_env([f"127.0.0.1:{p}" for p in ports], 0)
    line = tool.run("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--strategy", "multi_worker", "--startup-timeout", 1, env=env)
    assert line.code == 1 and f"worker 1 (127.0.0.1:{ports[1]}), worker 2 (127.0.0.1:{ports[2]}) did not start" in line.err, str(line)


@pytest.mark.skipif(not tool.CONFORMANCE, reason="waits for the whole default time-out, in the full run")
def test_a_time_out_is_on_by_default(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    job = long_job(tmp_path, 2)
    job.wait_until_connected()
    began = time.time()
    job.kill(1, signal.SIGSTOP)
    out, err = job.processes[0].communicate(timeout=60)
    assert 20 < time.time() - began < 45 and job.processes[0].returncode == 1
    assert f"worker 1 ({job.addresses[1]})" in err, err
    job.kill(1)
    job.processes[1].communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_waiting_worker_names_the_missing_ones_and_ends_at_a_signal(index, how, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    command = [tool.BIN, "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--strategy", "multi_worker", "--startup-timeout", "600",
               "--checkpoint-dir", tmp_path / "run"]
    alone = subprocess.Popen([str(a) for a in command], env={**os.environ, **cluster_env(addresses, index)}, stderr=subprocess.PIPE, text=True)
    line = alone.stderr.readline()
    assert f"worker {index} ({addresses[index]}) waits for worker {1 - index} ({addresses[1 - index]})" in line and "s left" in line, line
    alone.send_signal(how)
    assert alone.wait(timeout=20) == -how
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.npz", "start.keras"]


def test_a_port_in_use_is_named(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        env = cluster_env([f"127.0.0.1:{port}", f"127.0.0.1:{free_ports(1)[0]}"], 0)
        line = tool.refused("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--strategy", "multi_worker", env=env)
    assert f"port {port}" in line and "in use" in line


@pytest.mark.parametrize("option, mine, theirs, word", [
    ("--seed", ["--seed", "1"], ["--seed", "2"], "--seed"),
    ("--batch-size", ["--batch-size", "8"], ["--batch-size", "4"], "--batch-size"),
    ("--compression", ["--compression", "float16"], [], "compression"),
    ("data", [], ["--rescale", "1/2"], "data x"),
    ("optimizer", ["--optimizer", "adam"], ["--optimizer", "sgd"], "compile config"),
])
def test_workers_with_different_jobs_refuse(option, mine, theirs, word, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    addresses = [f"127.0.0.1:{p}" for p in free_ports(2)]
    command = [tool.BIN, "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--strategy", "multi_worker"]
    peers = [subprocess.Popen([*command, *options], env={**os.environ, **cluster_env(addresses, i)}, stderr=subprocess.PIPE, text=True)
             for i, options in enumerate([mine, theirs])]
    for peer in peers:
        err = peer.communicate(timeout=60)[1]
        assert peer.returncode == 1 and word in err and "worker 1" in err, err


def test_launch(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 29)
    one = fit(tmp_path, "default", "one.keras")
    tool.ok("launch", "-n", 2, "--", "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8,
            "--no-shuffle", "--save", tmp_path / "many.keras", "--history", tmp_path / "many.json")
    tool.assert_history(tool.load_history(tmp_path / "many.json"), one, 1e-5)
    assert pathlib.Path(tmp_path / "many.keras").exists()


def checkpointed(tmp, out, *options, ports=None):
    return Job(2, "fit", tmp / "start.keras", "--data", tmp / "d.npz", "--epochs", 12, "--batch-size", 8, "--seed", 1, "--strategy",
               "multi_worker", "--checkpoint-dir", tmp / out, "--checkpoint-every", 2, "--save", tmp / f"{out}.keras",
               "--history", tmp / f"{out}.json", *options, ports=ports)


def same_end(tmp, a, b):
    assert (tmp / f"{a}.keras").read_bytes() == (tmp / f"{b}.keras").read_bytes()
    assert (tmp / f"{a}.json").read_text() == (tmp / f"{b}.json").read_text()


def test_an_evaluator_follows_the_checkpoints(tmp_path, request):
    """An evaluator outside the job, as tf-keras's SidecarEvaluator; Keras judges its result for the last checkpoint."""
    import tensorflow as tf

    model = start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 29)
    config = {"cluster": {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}, "task": {"type": "evaluator", "index": 0}}
    env = {"TF_CONFIG": json.dumps(config)}
    line = tool.refused("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--strategy", "multi_worker", "--save", tmp_path / "x.keras",
                        env=env)
    assert "evaluator" in line and "lockstep evaluate" in line and not (tmp_path / "x.keras").exists()
    command = [tool.BIN, "evaluate", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--batch-size", "8", "--json", "--strategy", "multi_worker"]
    evaluator = subprocess.Popen([str(a) for a in [*command, "--checkpoint-dir", tmp_path / "run"]], env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
    checkpointed(tmp_path, "run").ok()
    latest = tf.train.latest_checkpoint(str(tmp_path / "run"))
    for line in evaluator.stdout:
        reported = json.loads(line)
        if reported["checkpoint"] == latest:
            break
    evaluator.send_signal(signal.SIGTERM)
    assert evaluator.wait(timeout=20) == -signal.SIGTERM
    tf.train.Checkpoint(model=model).restore(latest).expect_partial()
    data = np.load(tmp_path / "d.npz")
    expected = model.evaluate(data["x"], data["y"], sample_weight=data["sample_weight"], batch_size=8, verbose=0, return_dict=True)
    for name, value in expected.items():
        np.testing.assert_allclose(reported[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("asked", [0, 1])
def test_sigterm_saves_and_the_same_command_resumes(asked, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    checkpointed(tmp_path, "whole").ok()
    job = checkpointed(tmp_path, "stopped")
    tool.wait_for(tmp_path / "stopped" / "checkpoint")
    job.kill(asked, signal.SIGTERM)
    assert [code for code, _, _ in job.wait()] == [42, 42]
    assert not (tmp_path / "stopped.keras").exists()
    checkpointed(tmp_path, "stopped").ok()
    same_end(tmp_path, "whole", "stopped")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_dead_worker_alone_is_started_again(victim, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    checkpointed(tmp_path, "whole").ok()
    job = checkpointed(tmp_path, "lost", "--restarts", 2)
    tool.wait_for(tmp_path / "lost" / "checkpoint")
    job.kill(victim)
    job.processes[victim].communicate()
    job.processes[victim] = job.start(victim)
    job.ok()
    same_end(tmp_path, "whole", "lost")

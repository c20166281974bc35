"""Workers on machines of their own, over a network that is slow, loses packets or is cut: nobody waits without end, the
others are named, and the last good checkpoint stays. Folders need not be shared."""

import os
import random
import shutil
import signal
import time

import keras
import numpy as np
import pytest

import lockstep_tool as tool
import network
from test_strategies import fit, start_model
from test_train import compare

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.skipif(tool.CONTROL, reason="Keras does not run on several workers"),
              pytest.mark.skipif(bool(network.allowed()), reason=network.allowed())]


@pytest.fixture
def net(request, tmp_path):
    made = network.Network(getattr(request, "param", 2), tmp_path, tool.SEED)
    yield made
    made.close()


def training(tmp, *options, epochs=100000):
    return ("fit", tmp / "start.keras", "--data", tmp / "d.npz", "--epochs", epochs, "--batch-size", 8, "--seed", 1, "--strategy", "multi_worker",
            "--save", tmp / "out.keras", *options)


def assert_ended(net, results, victims):
    """Each has ended with one clear line, which names one of the others that it cannot hear."""
    for machine, (code, out, err) in enumerate(results):
        others = victims - {machine} if machine in victims else victims
        others = others or set(range(len(net.hosts))) - {machine}
        last = err.splitlines()[-1]
        assert code == 1, f"worker {machine} ended with {code}: {out}{err}"
        assert any(f"worker {other} ({net.hosts[other]}:5000)" in last for other in others), f"worker {machine}: {err}"
        assert all(line.startswith("lockstep: ") for line in err.splitlines()), err
        assert [line for line in err.splitlines() if "waits for" not in line] == [last], err


def assert_good(folder):
    """A checkpoint that TensorFlow reads, and complete checkpoints only."""
    latest = tf.train.latest_checkpoint(str(folder))
    assert latest
    reader = tf.train.load_checkpoint(latest)
    for name, dtype in reader.get_variable_to_dtype_map().items():
        reader.get_tensor(name)


def drawn(full, quick):
    return full if tool.CONFORMANCE else quick


@pytest.mark.parametrize("net, victim", drawn([(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)], [(2, 0), (3, 1)]), indirect=["net"])
def test_a_cut_line_in_training(net, victim, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    job = net.job(*training(tmp_path, "--timeout", 3, "--checkpoint-dir", tmp_path / "run"))
    tool.wait_for(tmp_path / "run" / "checkpoint")
    began = time.monotonic()
    net.cut = {victim}
    assert_ended(net, network.finish(job), {victim})
    assert time.monotonic() - began < 3 + 6
    assert not (tmp_path / "out.keras").exists()
    assert_good(tmp_path / "run")


def test_a_cut_line_in_a_save(net, tmp_path, request):
    """A checkpoint after each batch: most of the time is spent in saves."""
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    moments = random.Random(tool.SEED)
    for attempt in range(drawn(6, 1)):
        run = tmp_path / f"run{attempt}"
        net.cut = set()
        options = ("--checkpoint-dir", run, "--checkpoint-every", 1)
        job = net.job(*training(tmp_path, "--timeout", 2, *options), port=5000)
        tool.wait_for(run / "checkpoint")
        time.sleep(moments.uniform(0, 0.3))
        net.cut = {moments.choice([0, 1])}
        assert_ended(net, network.finish(job), net.cut)
        assert_good(run)
        net.cut = set()
        latest = tf.train.latest_checkpoint(str(run))
        epochs = int(tf.train.load_checkpoint(latest).get_tensor("save_counter/.ATTRIBUTES/VARIABLE_VALUE")) // 4 + 2
        results = network.finish(net.job(*training(tmp_path, *options, epochs=epochs)))
        assert [code for code, _, _ in results] == [0, 0], results
        names = {p.name for p in run.iterdir()}
        assert not [n for n in names if n.startswith(".")], names
        assert {n.split(".")[0] for n in names if ".data-" in n} == {n.split(".")[0] for n in names if n.endswith(".index")}


@pytest.mark.parametrize("after", drawn([0, 0.05, 0.1, 0.2, 0.4, 0.6], [0, 0.3]), ids=str)
def test_a_cut_line_at_the_start(net, after, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    began = time.monotonic()
    job = net.job(*training(tmp_path, "--timeout", 3, "--startup-timeout", 3))
    time.sleep(after)
    net.cut = {1}
    assert_ended(net, network.finish(job), {1})
    assert time.monotonic() - began < 3 + 3 + 6


def test_a_short_outage_is_sat_out(net, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    fit(tmp_path, "default", "one.keras", 8, 120, "--seed", 1)
    job = net.job(*training(tmp_path, "--timeout", 10, "--checkpoint-dir", tmp_path / "run", "--no-shuffle", epochs=120))
    tool.wait_for(tmp_path / "run" / "checkpoint")
    net.cut = {0, 1}
    time.sleep(2)
    net.cut = set()
    assert [code for code, _, _ in network.finish(job)] == [0, 0]
    compare(keras.models.load_model(tmp_path / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-4, "outage")


def test_delays_and_losses_change_nothing(net, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    fit(tmp_path, "default", "one.keras", 8, 2, "--seed", 1)
    net.delay, net.loss = 0.02, 0.02
    results = network.finish(net.job(*training(tmp_path, "--no-shuffle", epochs=2)))
    assert [code for code, _, _ in results] == [0, 0], results
    compare(keras.models.load_model(tmp_path / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "losses")


@pytest.mark.parametrize("net", [3], indirect=True)
@pytest.mark.parametrize("victim", drawn([0, 1, 2], [0, 2]))
def test_a_killed_machine_is_named(net, victim, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    job = net.job(*training(tmp_path, "--timeout", 90, "--checkpoint-dir", tmp_path / "run"))
    tool.wait_for(tmp_path / "run" / "checkpoint")
    began = time.monotonic()
    job[victim].send_signal(signal.SIGKILL)
    results = network.finish(job)
    assert time.monotonic() - began < 30, "noticed before the time-out"
    for machine in {0, 1, 2} - {victim}:
        code, _, err = results[machine]
        assert code == 1 and len(err.splitlines()) == 1 and f"worker {victim} ({net.hosts[victim]}:5000)" in err, err
    assert_good(tmp_path / "run")


def test_a_worker_that_stands_still_for_a_while_is_waited_for(net, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    fit(tmp_path, "default", "one.keras", 8, 120, "--seed", 1)
    job = net.job(*training(tmp_path, "--timeout", 10, "--checkpoint-dir", tmp_path / "run", "--no-shuffle", epochs=120))
    tool.wait_for(tmp_path / "run" / "checkpoint")
    for machine in (1, 0):
        job[machine].send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        job[machine].send_signal(signal.SIGCONT)
        time.sleep(0.3)
    results = network.finish(job)
    assert [code for code, _, _ in results] == [0, 0], results
    compare(keras.models.load_model(tmp_path / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-4, "stopped")


# ---- what passes between machines ----

def carried_per_epoch(net, tmp, each, *options):
    """Bytes between machines that one more epoch costs, and the model after it."""
    carried = []
    for epochs in (1, 3):
        before = net.carried
        results = network.finish(net.spread_job(each, *training(tmp, "--no-shuffle", *options, epochs=epochs)))
        assert all(code == 0 for code, _, _ in results), results
        carried.append(net.carried - before)
    return (carried[1] - carried[0]) / 2


def test_gradients_of_embeddings_travel_as_rows(net, tmp_path):
    """Of a table of 20,000 rows each batch uses at most 512, which two machines exchange."""
    L = keras.layers
    model = keras.Sequential([keras.Input((64,), dtype="int32"), L.Embedding(20000, 64), L.GlobalAveragePooling1D(), L.Dense(1)])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    model.save(tmp_path / "start.keras")
    rng = tool.generator("rows")
    np.savez(tmp_path / "d.npz", x=rng.integers(0, 20000, (80, 64)), y=rng.normal(size=80))
    fit(tmp_path, "default", "one.keras", 8, 3)
    carried = carried_per_epoch(net, tmp_path, 1)
    rows = 80 * 64 * 64 * 4
    assert rows < carried < 1.5 * rows, (carried, rows)
    compare(keras.models.load_model(tmp_path / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "rows")


def test_each_machine_sends_a_sum_once(net, tmp_path):
    """Three workers on each of two machines, in turns: a ring of all workers would pass the line six times."""
    L = keras.layers
    model = keras.Sequential([keras.Input((100,)), L.Dense(1500, activation="relu"), L.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
    model.save(tmp_path / "start.keras")
    rng = tool.generator("sums")
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(24, 100)).astype("float32"), y=rng.normal(size=24).astype("float32"))
    fit(tmp_path, "default", "one.keras", 8, 3)
    carried = carried_per_epoch(net, tmp_path, 3)
    gradients = 3 * 2 * 4 * model.count_params()  # three batches, both directions
    assert gradients < carried < 1.2 * gradients, (carried, gradients)
    compare(keras.models.load_model(tmp_path / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "sums")


def test_workers_keep_parts_of_the_optimizers_state(net, tmp_path):
    """Two workers on each of two machines, which share the folder of checkpoints or do not; the checkpoint is continued by one
    worker that keeps all of the state, and by two that keep parts of it."""
    L = keras.layers
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((100,)), L.Dense(300, activation="relu"), L.Dense(200, activation="relu"), L.Dense(1)])
    model.compile(keras.optimizers.AdamW(0.01, use_ema=True, ema_momentum=0.5), "mse")
    model.save(tmp_path / "start.keras")
    rng = tool.generator("state")
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(24, 100)).astype("float32"), y=rng.normal(size=24).astype("float32"))
    written, carried = [], [net.carried]
    for folder, seen_here, options in [(tmp_path / "whole", tmp_path / "whole", ()), (tmp_path / "parts", tmp_path / "parts", ("--shard-optimizer",)),
                                       (net.private / "run", net.folder(0) / "run", ("--shard-optimizer",))]:
        results = network.finish(net.spread_job(2, *training(tmp_path, "--no-shuffle", "--checkpoint-dir", folder, "--checkpoint-every", 2, *options,
                                                             epochs=2)))
        assert all(code == 0 for code, _, _ in results), results
        prefixes = sorted(path.with_suffix("") for path in seen_here.glob("ckpt-*.index"))
        readers = [tf.train.load_checkpoint(str(prefix)) for prefix in prefixes]
        values = [(prefix.name, {key: reader.get_tensor(key).tobytes() for key, dtype in reader.get_variable_to_dtype_map().items() if dtype != tf.string})
                  for prefix, reader in zip(prefixes, readers)]
        written.append(([("out.keras", (tmp_path / "out.keras").read_bytes())] + values, len(list(seen_here.glob("ckpt-1.data-*")))))
        carried.append(net.carried)
    assert carried[2] - carried[1] > 1.3 * (carried[1] - carried[0]), "weights are gathered, and slots for the archive"
    assert len(written[0][0]) > 3 and [files for _, files in written] == [4, 4, 2]
    assert written[0][0] == written[1][0] == written[2][0], "to the bit what workers have that keep all of it"
    fit(tmp_path, "default", "one.keras", 8, 4)
    results = network.finish(net.job(*training(tmp_path, "--no-shuffle", "--checkpoint-dir", net.private / "run", "--shard-optimizer", epochs=4)))
    assert all(code == 0 for code, _, _ in results), results
    compare(keras.models.load_model(tmp_path / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 5e-4, "continued in parts")
    fit(tmp_path, "default", "more.keras", 8, 4, "--checkpoint-dir", tmp_path / "parts")
    compare(keras.models.load_model(tmp_path / "more.keras"), keras.models.load_model(tmp_path / "one.keras"), 5e-4, "continued")


# ---- folders of each machine's own ----

def private_training(net, tmp, *options, epochs=4):
    """Data and model are everywhere; what is written is on the machine that writes it."""
    for machine in range(len(net.hosts)):
        for name in ("start.keras", "d.npz"):
            shutil.copy(tmp / name, net.folder(machine) / name)
    return training(net.private, "--checkpoint-dir", net.private / "run", "--checkpoint-every", 3, "--history", net.private / "out.json", *options,
                    epochs=epochs)


@pytest.mark.parametrize("net", [3], indirect=True)
def test_saves_are_gathered_at_the_chief(net, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    one = fit(tmp_path, "default", "one.keras", 8, 4, "--seed", 1)
    planned = network.finish(net.job(*private_training(net, tmp_path, "--dry-run")))
    assert [code for code, _, _ in planned] == [0, 0, 0], planned
    assert "written by 1 of 1 workers" in planned[0][1] and "ckpt-1.data-00000-of-00001" in planned[0][1]
    assert all(f"worker {other} ({net.hosts[other]}:5000)" in planned[0][1].splitlines()[-1] for other in (1, 2)), planned[0][1]
    assert not planned[1][1] and sorted(p.name for p in net.folder(0).iterdir()) == ["d.npz", "start.keras"], "a plan touches nothing"
    results = network.finish(net.job(*private_training(net, tmp_path, "--no-shuffle", "--export", net.private / "served")))
    assert [code for code, _, _ in results] == [0, 0, 0], results
    compare(keras.models.load_model(net.folder(0) / "out.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, "private")
    tool.assert_history(tool.load_history(net.folder(0) / "out.json"), one, 1e-5)
    assert_good(net.folder(0) / "run")
    assert (net.folder(0) / "served" / "saved_model.pb").exists()
    for machine in (1, 2):
        assert sorted(p.name for p in net.folder(machine).iterdir()) == ["d.npz", "start.keras"], "only the chief writes"


@pytest.mark.parametrize("net", [2], indirect=True)
@pytest.mark.parametrize("victim", [0, 1])
def test_the_chief_alone_has_the_checkpoints_and_all_resume(net, victim, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 29)
    command = private_training(net, tmp_path, "--timeout", 5, epochs=25)
    assert [code for code, _, _ in network.finish(net.job(*command))] == [0, 0]
    whole = (net.folder(0) / "out.keras").read_bytes(), (net.folder(0) / "out.json").read_text()
    shutil.rmtree(net.folder(0) / "run")
    for name in ("out.keras", "out.json"):
        os.remove(net.folder(0) / name)
    job = net.job(*command)
    tool.wait_for(net.folder(0) / "run" / "checkpoint")
    job[victim].send_signal(signal.SIGKILL)
    network.finish(job)
    assert not (net.folder(0) / "out.keras").exists(), "it was over too early"
    results = network.finish(net.job(*command))
    assert [code for code, _, _ in results] == [0, 0], results
    assert "resumed after" in results[0][1]
    assert whole == ((net.folder(0) / "out.keras").read_bytes(), (net.folder(0) / "out.json").read_text())
    assert not (net.folder(1) / "run").exists()


@pytest.mark.parametrize("net", [2], indirect=True)
def test_a_folder_that_the_chief_does_not_see_is_no_checkpoint(net, tmp_path, request):
    """The machines have changed places: worker 1's state is rejected, and the error reports it."""
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 29)
    command = private_training(net, tmp_path)
    assert [code for code, _, _ in network.finish(net.job(*command))] == [0, 0]
    shutil.move(net.folder(0) / "run", net.folder(1) / "run")
    results = network.finish(net.job(*command))
    for code, _, err in results:
        assert code == 1 and len(err.splitlines()) == 1, err
        assert "worker 1" in err and str(net.private / "run") in err, err

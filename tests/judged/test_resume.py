"""Joint saves, and training that is killed and resumed: real TensorFlow restores the one, the other ends bit-equal."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import numpy as np
import pytest

from lockstep_tool import BIN, CONFORMANCE, SEED, assert_close, ok, refused, run, wait_for

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

PROBE = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "checkpoint_probe"
KILLS = int(os.environ.get("LOCKSTEP_KILLS", "120" if CONFORMANCE else "8"))  # of a test; half as many of whole jobs
IN_A_ROW = 3


def probe(*args):
    done = subprocess.run([str(PROBE), *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def made(seed, width=64, synchronized=False):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(width, activation="relu"),
                              keras.layers.BatchNormalization(synchronized=synchronized), keras.layers.Dropout(0.5),
                              keras.layers.Dense(width, activation="relu"), keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def values(model):
    return [np.asarray(v) for v in [*model.weights, *model.optimizer.variables]]


def assert_same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        np.testing.assert_array_equal(x, y)


def randomize(model, seed):
    rng = np.random.default_rng(seed)
    for v in [*model.variables, *model.optimizer.variables]:
        if "float" in v.dtype:
            v.assign(rng.random(v.shape))


@pytest.mark.parametrize("ranks,more", [(1, ()), (2, ()), (3, ()), (7, ()), (3, ("async",))])
def test_tensorflow_restores_what_ranks_saved_together(tmp_path, ranks, more):
    model = made(1, width=160)
    randomize(model, 1)
    model.save(tmp_path / "m.keras")
    path = probe("together", tmp_path / "m.keras", tmp_path / "run" / "ckpt", ranks, *more)
    assert path == tf.train.latest_checkpoint(str(tmp_path / "run"))
    shards = sorted((tmp_path / "run").glob("ckpt-1.data-*"))
    assert [s.name for s in shards] == [f"ckpt-1.data-{i:05d}-of-{ranks:05d}" for i in range(ranks)]
    sizes = [s.stat().st_size for s in shards]
    one_copy = sum(v.nbytes for v in values(model))
    assert one_copy <= sum(sizes) < one_copy + 40000
    assert max(sizes) < one_copy / ranks * 1.05 + 40000
    other = made(2, width=160)
    status = tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    status.assert_existing_objects_matched()
    status.assert_consumed()
    assert_same(values(model), values(other))
    metadata = tf.train.load_checkpoint(path).get_tensor("/.LOCKSTEP_STATE/metadata")
    assert [json.loads(each)["rank"] for each in np.atleast_1d(metadata)] == list(range(ranks))
    made(3, width=160).save(tmp_path / "other.keras")
    for readers in {1, ranks, 4}:
        probe("restore_together", tmp_path / "other.keras", path, tmp_path / "out.keras", readers)
        assert_same(values(model), values(keras.models.load_model(tmp_path / "out.keras")))


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    made(5).save(folder / "m.keras")
    rng = np.random.default_rng(3)
    x = rng.random((210, 8)).astype("float32")
    np.savez(folder / "data.npz", x=x, y=(x.sum(1) * 3 / 8).astype("int64") % 3)
    whole = ["fit", folder / "m.keras", "--data", folder / "data.npz", "--epochs", "4", "--batch-size", "16", "--seed", "9",
             "--validation-split", "0.2"]
    ok(*whole, "--save", folder / "whole.keras", "--history", folder / "whole.json")
    return folder, whole


def finished(folder, task_folder):
    assert (folder / "out.keras").read_bytes() == (task_folder / "whole.keras").read_bytes()
    assert json.loads((folder / "out.json").read_text()) == json.loads((task_folder / "whole.json").read_text())


def killed_after(args, seconds):
    """Whether the process was still there to be killed."""
    process = subprocess.Popen([BIN, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True


def readable(folder):
    """The newest checkpoint, if any, is whole: TensorFlow reads it."""
    latest = tf.train.latest_checkpoint(str(folder))
    if latest:
        reader = tf.train.load_checkpoint(latest)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)


def folders(tmp_path):
    for number in range(3 * KILLS):
        folder = tmp_path / f"kill{number}"
        folder.mkdir()
        yield folder
    raise AssertionError("the kills come too late")


@pytest.mark.parametrize("every", [None, 1, 3])
def test_killed_at_any_moment_it_ends_the_same(tmp_path, task, every, record_property):
    task_folder, whole = task
    args = [*whole, "--checkpoint-dir", tmp_path / "run", "--save", tmp_path / "out.keras", "--history", tmp_path / "out.json"]
    if every:
        args += ["--checkpoint-every", every]
    start = time.monotonic()
    ok(*args, own_process=True)
    length = time.monotonic() - start
    finished(tmp_path, task_folder)
    schedule = random.Random(SEED + (every or 0))
    struck = 0
    for folder in folders(tmp_path):
        if struck >= KILLS:
            break
        args = [*whole, "--checkpoint-dir", folder / "run", "--save", folder / "out.keras", "--history", folder / "out.json"]
        if every:
            args += ["--checkpoint-every", every]
        for _ in range(IN_A_ROW):
            struck += killed_after(args, schedule.uniform(0, length))
            readable(folder / "run")
        ok(*args)
        finished(folder, task_folder)
        no_strays(folder)
    record_property("kills", struck)


def test_over_and_with_more_epochs(tmp_path, task):
    task_folder, whole = task
    keep = ["--checkpoint-dir", tmp_path / "run"]
    longer = [a if a != "4" else "6" for a in whole]
    ok(*longer, "--save", tmp_path / "a.keras", "--history", tmp_path / "a.json")
    ok(*whole, *keep)
    assert "resumed after epoch 4" in ok(*whole, *keep, "--save", tmp_path / "out.keras", "--history", tmp_path / "out.json")
    finished(tmp_path, task_folder)
    ok(*longer, *keep, "--save", tmp_path / "b.keras", "--history", tmp_path / "b.json")
    assert (tmp_path / "a.keras").read_bytes() == (tmp_path / "b.keras").read_bytes()
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()


def test_on_another_number_of_replicas(tmp_path, task):
    """Two replicas with statistics of the whole batch continue as one does, up to rounding."""
    made(5, synchronized=True).save(tmp_path / "m.keras")
    whole = [tmp_path / "m.keras" if a == task[0] / "m.keras" else a for a in task[1]]
    ok(*whole, "--history", tmp_path / "whole.json")
    keep = ["--checkpoint-dir", tmp_path / "run", "--checkpoint-every", "2"]
    ok(*[a if a != "4" else "2" for a in whole], *keep)
    out = ok(*whole, *keep, "--strategy", "mirrored:2", "--history", tmp_path / "out.json")
    assert "resumed after" in out
    ours, theirs = (json.loads((tmp_path / name).read_text()) for name in ("out.json", "whole.json"))
    assert list(ours) == list(theirs)
    for name in ("loss", "val_loss"):  # Adam makes more of roundings; one sample more or less counts in the accuracy
        np.testing.assert_allclose(ours[name], theirs[name], rtol=2e-3)


def test_a_damaged_checkpoint_is_named_and_passed_over(tmp_path, task):
    task_folder, whole = task
    keep = ["--checkpoint-dir", tmp_path / "run", "--save", tmp_path / "out.keras", "--history", tmp_path / "out.json"]
    three = [a if a != "4" else "3" for a in whole]
    ok(*three, *keep)
    data = tmp_path / "run" / "ckpt-3.data-00000-of-00001"
    broken = bytearray(data.read_bytes())
    broken[len(broken) // 3] ^= 1
    data.write_bytes(broken)
    result = run(*whole, *keep)
    assert result.code == 0 and "ckpt-3" in result.err and "checksum" in result.err, str(result)
    assert "resumed after epoch 2" in result.out
    finished(tmp_path, task_folder)


def test_two_jobs_in_one_folder(tmp_path, task):
    """The second one would take the first one's unfinished files for leftovers."""
    _, whole = task
    run_folder = tmp_path / "run"
    endless = [a if a != "4" else "100000" for a in whole] + ["--checkpoint-dir", run_folder]
    first = subprocess.Popen([BIN, *map(str, endless)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(run_folder / "checkpoint", first)
        second = [*whole, "--checkpoint-dir", run_folder, "--save", tmp_path / "out.keras"]
        job = run("launch", "-n", "2", "--", *second)
        assert job.code == 1
        for line in (refused(*second), job.err.splitlines()[-1]):
            assert f"{run_folder}: another job" in line, line
            assert f"(process {first.pid})" in line or "process" not in line, line  # not every file system lets it be known
        assert first.poll() is None and not (tmp_path / "out.keras").exists()
    finally:
        first.kill()
        assert first.communicate()[1] == ""
    readable(run_folder)
    assert "resumed after" in ok(*whole, "--checkpoint-dir", run_folder)


def test_the_plan_touches_nothing(tmp_path, task):
    _, whole = task
    out = ok(*whole, "--checkpoint-dir", tmp_path / "run", "--dry-run", "--workers", "3", "--save", tmp_path / "out.keras")
    assert "ckpt-1.data-00002-of-00003" in out and "worker 2" in out
    assert not list(tmp_path.iterdir())
    out = launched(2, [*whole, "--checkpoint-dir", tmp_path / "run", "--dry-run", "--save", tmp_path / "out.keras"])
    assert "ckpt-1.data-00001-of-00002" in out and "not see" not in out
    assert not list(tmp_path.iterdir())
    start = time.monotonic()
    assert "4096 workers" in ok(*whole, "--checkpoint-dir", tmp_path / "run", "--dry-run", "--workers", "4096")
    assert time.monotonic() - start < 10
    refused(*whole, "--dry-run")
    refused(*whole, "--checkpoint-every", "3")


def launched(workers, args, **kwargs):
    return ok("launch", "-n", workers, "--", *args, **kwargs)


def children(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(each) for each in out.split()]


def has_ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill_job(workers, args, seconds, choose=None):
    """Kills all of a job, or the worker that `choose` picks (then the rest must end by itself). Whether there was one to kill."""
    command = [BIN, "launch", "-n", str(workers), "--grace", "2", "--", *map(str, args), "--startup-timeout", "2"]
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        job.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        pass
    job.send_signal(signal.SIGSTOP)  # it starts no more workers, and does not see theirs end
    alive = children(job.pid)
    victims = [choose(alive)] if choose and alive else [] if choose else alive
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.send_signal(signal.SIGCONT if choose else signal.SIGKILL)
    job.wait(timeout=90)
    for pid in alive:
        while not has_ended(pid):
            time.sleep(0.01)
    return bool(victims)


def no_strays(folder):
    names = [p.name for p in folder.rglob("*")]
    assert not [n for n in names if n.startswith(".")], names
    prefixes = {n.split(".")[0] for n in names if n.startswith("ckpt-")}
    indexed = {n[:-len(".index")] for n in names if n.endswith(".index")}
    assert prefixes == indexed and len(prefixes) <= 5, names


def saved_often(whole, folder, timeout=10):
    return [*whole, "--checkpoint-dir", folder / "run", "--checkpoint-every", "2", "--save", folder / "out.keras", "--history", folder / "out.json",
            "--timeout", timeout]


@pytest.mark.parametrize("workers,one", [(2, False), (3, True)], ids=["all", "one"])
def test_a_job_killed_at_any_moment_ends_the_same(tmp_path, task, workers, one, record_property):
    whole = ["12" if a == "4" else a for a in task[1]]  # as long as the start takes
    straight = tmp_path / "straight"
    straight.mkdir()
    start = time.monotonic()
    launched(workers, saved_often(whole, straight))
    length = time.monotonic() - start
    no_strays(straight)
    schedule = random.Random(SEED + workers)
    struck = 0
    for folder in folders(tmp_path):
        if struck >= KILLS // 2:
            break
        for _ in range(IN_A_ROW):
            struck += kill_job(workers, saved_often(whole, folder), schedule.uniform(0, length), schedule.choice if one else None)
            readable(folder / "run")
        launched(workers, saved_often(whole, folder))
        assert (folder / "out.keras").read_bytes() == (straight / "out.keras").read_bytes()
        assert (folder / "out.json").read_text() == (straight / "out.json").read_text()
        no_strays(folder)
    record_property("kills", struck)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGSTOP], ids=["asked", "stopped"])
def test_a_job_asked_to_end_or_with_a_worker_that_is_stopped_at_any_moment_ends_the_same(tmp_path, task, how, record_property):
    whole = ["12" if a == "4" else a for a in task[1]]
    straight = tmp_path / "straight"
    straight.mkdir()
    start = time.monotonic()
    launched(3, saved_often(whole, straight))
    length = time.monotonic() - start
    schedule = random.Random(SEED + how)
    ends = []
    fewest = max(1, KILLS // (5 if how == signal.SIGTERM else 15))
    for folder in folders(tmp_path):
        if any(ends) and len(ends) >= 2 * fewest:
            break
        for _ in range(2):
            command = [BIN, "launch", "-n", "3", "--grace", "1", "--", *saved_often(whole, folder, 2), "--startup-timeout", "2"]
            job = subprocess.Popen([str(a) for a in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(schedule.uniform(0, length))
            victims = [job.pid] if how == signal.SIGTERM else children(job.pid)
            asked = time.monotonic()
            if job.poll() is None and victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(schedule.choice(victims), how)
            err = job.communicate(timeout=60)[1]
            assert time.monotonic() - asked < 20, err
            # 143: before all were training. 1: those that are left name the one that stands still.
            assert job.returncode in ([0, 42, 143] if how == signal.SIGTERM else [0, 1]), err
            assert job.returncode != 1 or ("worker" in err and "127.0.0.1:" in err), err
            assert job.returncode != 42 or (folder / "run" / "checkpoint").exists()
            readable(folder / "run")
            ends.append(job.returncode)
            if job.returncode == 0:
                length *= 0.8  # it came too late: the first run took longer, on a busy machine
        launched(3, saved_often(whole, folder))
        assert (folder / "out.keras").read_bytes() == (straight / "out.keras").read_bytes()
        assert (folder / "out.json").read_text() == (straight / "out.json").read_text()
        no_strays(folder)
    record_property("ends", str(sorted(ends)))


def test_killed_jobs_resume_with_other_numbers_of_workers(tmp_path, task, record_property):
    """1 -> 2 -> 4 -> 3 workers, each killed within an epoch or a save: every example once an epoch, so the weights are those of
    one process to rounding."""
    task_folder, whole = task
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.5), keras.layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.save(tmp_path / "m.keras")
    whole = [tmp_path / "m.keras" if a == task_folder / "m.keras" else "12" if a == "4" else a for a in whole]
    ok(*whole, "--save", tmp_path / "whole.keras", "--history", tmp_path / "whole.json")
    expected = keras.models.load_model(tmp_path / "whole.keras").get_weights()
    schedule = random.Random(SEED)
    struck = 0
    for folder in folders(tmp_path):
        if struck >= KILLS // 2:
            break
        args = saved_often(whole, folder)
        for workers in [1, 2, 4, 3]:
            at = 0.15 + 0.1 * workers + schedule.uniform(0, 0.3)
            struck += killed_after(args, at) if workers == 1 else kill_job(workers, args, at, schedule.choice([None, schedule.choice]))
            readable(folder / "run")
        launched(schedule.choice([2, 3, 4]), args)
        for ours, theirs in zip(keras.models.load_model(folder / "out.keras").get_weights(), expected):
            assert_close(ours, theirs, 1e-4)
        history, whole_history = (json.loads(p.read_text()) for p in (folder / "out.json", tmp_path / "whole.json"))
        for name, each in whole_history.items():
            np.testing.assert_allclose(history[name], each, rtol=1e-4, atol=1e-6)
        no_strays(folder)
    record_property("kills", struck)


def test_workers_come_and_go(tmp_path, task):
    task_folder, whole = task
    out = ""
    for epochs, workers in enumerate([1, 2, 4, 3], 1):
        args = [a if a != "4" else str(epochs) for a in whole] + ["--checkpoint-dir", tmp_path / "run", "--history", tmp_path / "out.json"]
        out = launched(workers, args) if workers > 1 else ok(*args)
        if epochs > 1:
            assert f"resumed after epoch {epochs - 1}" in out
    assert [p.name for p in sorted((tmp_path / "run").glob("ckpt-4.data-*"))] == [f"ckpt-4.data-{i:05d}-of-00003" for i in range(3)]
    history = json.loads((tmp_path / "out.json").read_text())
    whole_history = json.loads((task_folder / "whole.json").read_text())
    assert all(len(v) == 4 for v in history.values())
    np.testing.assert_allclose(history["loss"][0], whole_history["loss"][0], rtol=1e-4)

"""Several workers on this machine: one job, one result, one output; and invalid TF_CONFIGs."""

import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import keras
import numpy as np
import pytest

import lockstep_tool as tool
from test_strategies import start_model
from test_train import compare

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras has no launcher")


def launch(tmp, workers, out, *options, before=()):
    return tool.run("launch", "-n", workers, *before, "--", "fit", tmp / "start.keras", "--data", tmp / "d.npz", "--save", tmp / out,
                    "--history", tmp / (out + ".json"), *options)


@pytest.mark.quick(4)
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("rows, batch", [(29, 8), (9, 4), (5, 4)])
def test_workers_train_what_one_trains(workers, rows, batch, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), rows)
    options = ("--epochs", 2, "--batch-size", batch, "--seed", 3)
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--save", tmp_path / "one.keras", "--history", tmp_path / "one.json",
            *options)
    result = launch(tmp_path, workers, "many.keras", *options)
    assert result.code == 0, str(result)
    assert "[worker" not in result.err, str(result)
    compare(keras.models.load_model(tmp_path / "many.keras"), keras.models.load_model(tmp_path / "one.keras"), 1e-5, workers)
    tool.assert_history(tool.load_history(tmp_path / "many.keras.json"), tool.load_history(tmp_path / "one.json"), 1e-5)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.npz", "many.keras", "many.keras.json", "one.json", "one.keras", "start.keras"]


def test_a_terminal_shows_one_bar_and_the_saved_files(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 32)
    terminal, end = pty.openpty()
    command = ["launch", "-n", 3, "--", "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--save",
               tmp_path / "out.keras", "--checkpoint-dir", tmp_path / "run"]
    job = subprocess.Popen([tool.BIN, *map(str, command)], stdout=end, stderr=end)
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while piece := os.read(terminal, 65536):
            shown += piece
    os.close(terminal)
    lines = shown.decode().replace("\r\n", "\n").splitlines()
    assert job.wait(timeout=60) == 0, shown
    assert [line for line in lines if line.startswith("Epoch")] == ["Epoch 1/2", "Epoch 2/2"], shown
    assert len([line for line in lines if "4/4" in line]) == 2 and "[worker" not in shown.decode(), shown
    assert lines[-2:] == [f"saved {tmp_path / 'out.keras'} (keras)", f"checkpoints in {tmp_path / 'run'}, the newest is {tmp_path / 'run' / 'ckpt-2'}"]


def test_only_the_chief_prints_results_of_evaluate(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 21)
    args = ("evaluate", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--batch-size", 8, "--json")
    alone = json.loads(tool.ok(*args))
    together = json.loads(tool.ok("launch", "-n", 3, "--", *args))
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-5)


def pid_of(launcher, index):
    """The process of a worker, once it is there."""
    children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for pid in children.read_text().split():
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            if f'"index": {index}}}'.encode() in environment:
                return int(pid)
        time.sleep(0.05)
    raise AssertionError(f"worker {index} did not start")


def start(tmp, *options, before=()):
    return subprocess.Popen([tool.BIN, "launch", "-n", "2", *before, "--", "fit", tmp / "start.keras", "--data", tmp / "d.npz", *map(str, options)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_ends_the_job_and_is_named(victim, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 64)
    job = start(tmp_path, "--epochs", 100000, "--batch-size", 8, "--checkpoint-dir", tmp_path / "ckpt", "--save", tmp_path / "out.keras")
    tool.wait_for(tmp_path / "ckpt" / "checkpoint", job)
    began = time.monotonic()
    os.kill(pid_of(job, victim), signal.SIGKILL)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 137, err
    assert re.search(rf"^lockstep: launch: worker {victim} \(127\.0\.0\.1:\d+\) was killed by signal 9", err, re.M), err
    assert time.monotonic() - began < 15, err
    assert not (tmp_path / "out.keras").exists()


def test_a_job_is_started_again_from_its_checkpoints(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 64)
    options = ("--epochs", 40, "--batch-size", 8, "--seed", 5)
    tool.ok("launch", "-n", 2, "--", "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--save", tmp_path / "whole.keras", *options)
    job = start(tmp_path, *options, "--checkpoint-dir", tmp_path / "ckpt", "--save", tmp_path / "again.keras", before=["--restarts", "3"])
    tool.wait_for(tmp_path / "ckpt" / "checkpoint", job)
    os.kill(pid_of(job, 1), signal.SIGKILL)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "starting all workers again (1 of 3)" in err
    compare(keras.models.load_model(tmp_path / "again.keras"), keras.models.load_model(tmp_path / "whole.keras"), 0, "restarted")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_launcher_that_is_stopped_lets_its_workers_save(how, tmp_path, request):
    start_model(tmp_path, "dropout", "adam", tool.generator(request.node.name), 64)
    options = ("--epochs", 40, "--batch-size", 8, "--seed", 5, "--history", tmp_path / "h.json")
    tool.ok("launch", "-n", 2, "--", "fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--save", tmp_path / "whole.keras", *options)
    command = (*options, "--checkpoint-dir", tmp_path / "ckpt", "--save", tmp_path / "again.keras")
    job = start(tmp_path, *command)
    tool.wait_for(tmp_path / "ckpt" / "checkpoint", job)
    job.send_signal(how)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 42, err
    lines = [line for line in err.splitlines() if " waits for " not in line]  # on a busy machine one starts late
    assert lines == [f"lockstep: stopped by {how.name}; the state is saved in {tmp_path / 'ckpt'}, run the same command again to resume"]
    assert not (tmp_path / "again.keras").exists()
    out, err = start(tmp_path, *command).communicate(timeout=60)
    assert err == "" and "resumed after" in out, out + err
    assert (tmp_path / "again.keras").read_bytes() == (tmp_path / "whole.keras").read_bytes()


def test_a_stopped_launcher_without_checkpoints_says_that_nothing_is_saved(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 64)
    job = start(tmp_path, "--epochs", 100000, "--save", tmp_path / "out.keras")
    pid_of(job, 1)
    time.sleep(0.5)
    job.send_signal(signal.SIGINT)
    assert job.communicate(timeout=20)[1] == "lockstep: launch: stopped by SIGINT; nothing is saved, as fit has no --checkpoint-dir\n"
    assert job.returncode == 130


def test_a_second_signal_ends_the_job_at_once(tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 64)
    job = start(tmp_path, "--epochs", 100000, "--checkpoint-dir", tmp_path / "ckpt", before=["--grace", "90"])
    tool.wait_for(tmp_path / "ckpt" / "checkpoint", job)
    os.kill(pid_of(job, 0), signal.SIGSTOP)  # the others wait for it
    job.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert job.poll() is None
    job.send_signal(signal.SIGINT)
    err = job.communicate(timeout=20)[1]  # not after --grace
    assert job.returncode == 130, err
    assert err == ("lockstep: launch: stopped by SIGINT; the workers were killed at the second signal; run the same command again to resume from the last "
                   "checkpoint\n")


CLUSTER = '{"worker": ["127.0.0.1:23451", "127.0.0.1:23452"]}'
MALFORMED = {
    "no JSON": ('{"cluster": {"worker": ["a:1",]}}', "byte 30"),
    "single quotes": ("{'cluster': {}}", "double quotes"),
    "empty": ("", "empty"),
    "cut off": ('{"cluster": {"worker": [', "found the end"),
    "a list": ('["127.0.0.1:1"]', '["127.0.0.1:1"]'),
    "no task": (f'{{"cluster": {CLUSTER}}}', '"task"'),
    "no index": (f'{{"cluster": {CLUSTER}, "task": {{"type": "worker"}}}}', '"index"'),
    "no type": (f'{{"cluster": {CLUSTER}, "task": {{"index": 0}}}}', '"type"'),
    "index out of range": (f'{{"cluster": {CLUSTER}, "task": {{"type": "worker", "index": 2}}}}', "index 2 is out of range"),
    "negative index": (f'{{"cluster": {CLUSTER}, "task": {{"type": "worker", "index": -1}}}}', "-1"),
    "index in words": (f'{{"cluster": {CLUSTER}, "task": {{"type": "worker", "index": "one"}}}}', '"one"'),
    "unknown type": (f'{{"cluster": {CLUSTER}, "task": {{"type": "foo", "index": 0}}}}', '"foo"'),
    "absent job": (f'{{"cluster": {CLUSTER}, "task": {{"type": "chief", "index": 0}}}}', '"chief"'),
    "parameter server": ('{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}', "parameter server"),
    "two chiefs": ('{"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}', '["a:1", "b:1"]'),
    "worker is text": ('{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}', '["a:1"]'),
    "worker is empty": ('{"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}}', '"worker" has no tasks'),
    "address is a number": ('{"cluster": {"worker": [2222]}, "task": {"type": "worker", "index": 0}}', "2222"),
    "no port": ('{"cluster": {"worker": ["a", "b:1"]}, "task": {"type": "worker", "index": 0}}', '"a" of worker 0 has no port'),
    "bad port": ('{"cluster": {"worker": ["a:70000"]}, "task": {"type": "worker", "index": 0}}', "70000"),
    "bad port of another": ('{"cluster": {"worker": ["a:1", "b:99999"]}, "task": {"type": "worker", "index": 0}}', "99999"),
    "duplicate address": ('{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}', "worker 0 and to worker 1"),
    "duplicate host": ('{"cluster": {"worker": ["localhost:1", "127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}', "127.0.0.1:1"),
    "task without cluster": ('{"task": {"type": "worker", "index": 1}}', "worker 1"),
}


@pytest.fixture(scope="module")
def eight_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    start_model(folder, "dense", "adam", tool.generator("eight rows"), 8)
    return folder


# cluster_resolver_test.cpp has the message of each.
@pytest.mark.quick(8)
@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_tf_config_is_quoted(case, eight_rows, tmp_path):
    text, quoted = MALFORMED[case]
    line = tool.refused("fit", eight_rows / "start.keras", "--data", eight_rows / "d.npz", "--strategy", "multi_worker", "--save", tmp_path / "out.keras",
                        env={"TF_CONFIG": text}, timeout=30)
    assert "TF_CONFIG" in line and quoted in line, line
    assert not (tmp_path / "out.keras").exists()


@pytest.mark.parametrize("text", ["{}", '{"cluster": {"worker": ["127.0.0.1:23455"]}, "task": {"type": "worker", "index": "0"}}',
                                  '{"cluster": {"chief": ["127.0.0.1:23455"]}, "task": {"type": "chief", "index": 0}, "environment": "cloud"}',
                                  '{"cluster": {"worker": {"3": "127.0.0.1:23455"}}, "task": {"type": "worker", "index": 3}}',
                                  '{"cluster": {"worker": ["127.0.0.1:23455"], "ps": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}'])
def test_a_cluster_of_one_trains_alone(text, eight_rows, tmp_path):
    result = tool.run("fit", eight_rows / "start.keras", "--data", eight_rows / "d.npz", "--strategy", "multi_worker", "--save", tmp_path / "out.keras",
                      env={"TF_CONFIG": text}, timeout=60)
    assert result.code == 0, str(result)
    assert ('"ps" takes no part' in result.err) == ('"ps"' in text), str(result)
    keras.models.load_model(tmp_path / "out.keras")

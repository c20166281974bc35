"""Each system call of a save and a load, each allocation and each start of a thread fails in turn, once and for good: no signal,
one clear line, and the files are what they were before or what they were to become. Prints the number of faults injected."""

import errno
import json
import os
import pathlib
import random
import shutil
import subprocess

import keras
import numpy as np
import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own manners")

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", tool.ROOT / "build"))
INJECTORS = BUILD / "tests"
ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EINTR)
# Which calls of a command fail in a quick run; all of them in the full one.
QUICK = 12


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run_probe(name, *args, env=None):
    """A program of the tests that uses the library, in place of the tool. One that prints the errors of its actions fails with the first."""
    done = subprocess.run([BUILD / "bin" / name, *map(str, args)], capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})
    assert done.returncode >= 0, f"killed by signal {-done.returncode}: {args}"
    code, err = done.returncode, done.stderr
    if name == "checkpoint_script_probe" and code == 0:
        errors = [result["text"] for (results,) in [json.loads(done.stdout)] for result in results if isinstance(result, dict)]
        code, err = (1, err + errors[0] + "\n") if errors else (0, err)
    return tool.Result(args, code, done.stdout, err)


class Faults:
    """Commands whose n-th call on a file below `work` fails. `probe`: a program of the tests in place of the tool. `kept`: the
    beginnings of names that a command which fails may leave."""

    def __init__(self, tmp_path, make, probe=None, kept=()):
        self.tmp_path, self.make, self.probe, self.kept = tmp_path, make, probe, kept
        self.work, self.log = tmp_path / "work", tmp_path / "log"
        self.injected = 0

    def run(self, args, at=0, error=0, permanent=False):
        """The result, and the calls that were made."""
        self.log.write_text("")
        env = {
            "LD_PRELOAD": str(INJECTORS / "fault_injector.so"), "LOCKSTEP_FAULT_UNDER": str(self.work), "LOCKSTEP_FAULT_LOG": str(self.log),
            "LOCKSTEP_FAULT_AT": str(at), "LOCKSTEP_FAULT_ERRNO": str(error), "LOCKSTEP_FAULT_PERMANENT": str(int(permanent))}
        result = run_probe(self.probe, *args, env=env) if self.probe else tool.run(*args, own_process=True, env=env)
        return result, self.log.read_text().splitlines()

    def start(self):
        """`work` as it is before the command."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.make(self.work)

    def try_all(self, args, check, quick=QUICK):
        """`check` gets the work folder, what it held before and is to hold afterwards, and whether the command succeeded."""
        self.start()
        before = contents(self.work)
        result, calls = self.run(args)
        assert result.code == 0, str(result)
        after = contents(self.work)
        assert len(calls) > 3, calls
        cases = [(at, error, permanent) for at in range(1, len(calls) + 1) for error in ERRORS for permanent in (False, True)]
        for at, error, permanent in tool.pick(cases, quick, key=self.probe or str(args[0])):
            self.start()
            result, made = self.run(args, at, error, permanent)
            where = f"call {at} ({calls[at - 1]}) fails with {errno.errorcode[error]}{' for good' if permanent else ''}: {result}"
            failed = [line.split()[0] for line in made if line.endswith(" failed")]
            assert failed, where
            self.injected += len(failed)
            if result.code != 0:
                lines = [line for line in result.err.splitlines() if line.strip() and not line.startswith("lockstep: warning: ")]
                assert len(lines) == 1 and len(lines[0]) > 15, where
            now = contents(self.work)
            rest = {name for name in set(now) - set(before) - set(after) if not name.startswith(self.kept)}
            # By which a folder is removed; of stat only where it was in the folder that is left.
            removal = {"unlink", "unlinkat", "rmdir", "opendir", "readdir"} & set(failed)
            if not permanent and not removal and not ("stat" in failed and any(name.split("/")[0] in result.err for name in rest)):
                assert not rest, f"{rest} left by {where}"
            check({name: data for name, data in now.items() if name not in rest}, before, after, result.code == 0, where)
        files = "-".join(pathlib.Path(arg).name for arg in args[0 if self.probe else 1:] if str(self.work) in str(arg))
        files = f"{args[0]}-{files}" if self.probe == "fault_probe" else files
        print(f"\n{self.probe or args[0]} {files or pathlib.Path(args[-1]).stem}: {len(calls)} calls, {self.injected} faults injected")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    keras.utils.set_random_seed(tool.SEED)
    for name in ("a", "b"):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        model.save(folder / f"{name}.keras")
        model.save(folder / f"{name}.h5")
    np.savez(folder / "d.npz", x=np.ones((4, 3), "float32"), y=np.ones((4, 2), "float32"))
    tool.ok("convert", folder / "a.keras", folder / "served")
    return folder


@pytest.mark.parametrize("source, target", [("a.keras", "out.h5"), ("a.h5", "out.keras"),
                                            ("a.keras", "out.safetensors"), ("a.keras", "out.weights.h5"), ("a.keras", "ckpt"),
                                            ("a.keras", "served")])
def test_converting(models, tmp_path, source, target):
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    options = ["--to", "tf_checkpoint"] if target == "ckpt" else []
    tool.ok("convert", models / source.replace("a.", "b."), prepared / target, *options)

    def make(work):
        shutil.copy(models / source, work / source)
        shutil.copytree(prepared, work, dirs_exist_ok=True)

    tool.ok("convert", models / source, tmp_path / target, *options)

    def check(now, before, after, success, where):
        if target == "ckpt":  # whose files are replaced one by one
            equal = [tool.run("diff", faults.work / target, folder / target).code == 0 for folder in (tmp_path, prepared)]
            assert equal[0] if success else any(equal), where
        else:
            assert now == after if success else now in (before, after), where

    faults = Faults(tmp_path, make, kept=("ckpt.data-",))  # which may be under the other one of their two names
    faults.try_all(["convert", faults.work / source, faults.work / target, *options], check)


@pytest.mark.parametrize("name", ["a.keras", "a.h5", "d.npz", "served"])
def test_reading(models, tmp_path, name):
    def check(now, before, after, success, where):
        assert now == before == after, where

    faults = Faults(tmp_path, lambda work: (shutil.copytree if name == "served" else shutil.copy)(models / name, work / name))
    faults.try_all(["verify", faults.work / name], check)


def test_training_with_checkpoints(models, tmp_path):
    """Whatever fails, the same command without faults ends with what an undisturbed one gives."""
    fit = ["fit", models / "a.keras", "--data", models / "d.npz", "--epochs", 2, "--seed", 7]
    tool.ok(*fit, "--save", tmp_path / "whole.keras")
    faults = Faults(tmp_path, lambda work: None)
    command = [*fit, "--checkpoint-dir", faults.work / "run", "--save", faults.work / "out.keras"]

    def check(now, before, after, success, where):
        tool.ok(*command)
        assert tool.run("diff", tmp_path / "whole.keras", faults.work / "out.keras").code == 0, where

    faults.try_all(command, check)


def test_training_with_callbacks(models, tmp_path):
    """The same with the files of callbacks."""
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "d.npz", **{name: rng.normal(size=(8, 3 if name.endswith("x") else 2)).astype("float32") for name in ("x", "y", "vx", "vy")})
    job, callbacks = tmp_path / "callbacks.json", tmp_path / "work"
    rows = [("BackupAndRestore", {"backup_dir": str(callbacks / "backup"), "save_freq": 2}),
            ("ModelCheckpoint", {"filepath": str(callbacks / "best.keras"), "save_best_only": True, "monitor": "val_loss"}),
            ("CSVLogger", {"filename": str(callbacks / "log.csv")})]
    job.write_text(json.dumps({"epochs": 2, "batch_size": 2, "seed": 7,
                               "callbacks": [{"class_name": name, "config": config} for name, config in rows]}))

    def command(out):
        return [models / "a.keras", tmp_path / "d.npz", job, out, out.with_suffix(".json")]

    faults = Faults(tmp_path, lambda work: None, probe="callback_probe", kept=("backup/",))  # from which a fit continues
    faults.start()
    assert run_probe("callback_probe", *command(tmp_path / "whole.keras")).code == 0

    def check(now, before, after, success, where):
        done = run_probe("callback_probe", *command(faults.work / "out.keras"))
        assert done.code == 0, f"{where}, then {done}"
        assert tool.run("diff", tmp_path / "whole.keras", faults.work / "out.keras").code == 0, where

    faults.try_all(command(faults.work / "out.keras"), check)


def test_checkpoints_of_iterators_and_tables(tmp_path):
    """The state is the old or the new one as a whole, and the next save removes what a failed one has left. A manager that could not read
    its list of checkpoints does not own those that are there."""
    work = tmp_path / "work"

    def script(number):
        """A program that continues and saves; without a number, one that looks at what is there."""
        made = [{"do": "variable", "as": "v", "name": "v", "dtype": "float32", "shape": [2], "value": [0, 0]},
                {"do": "table", "as": "t", "dtype": "int64"}, {"do": "iterator", "as": "i", "size": 30},
                {"do": "checkpoint", "as": "c", "members": {"v": "v", "t": "t", "i": "i"}},
                {"do": "manager", "as": "m", "checkpoint": "c", "directory": str(work / "run"), "max_to_keep": 1},
                {"do": "manager_restore", "manager": "m"}]
        if number:
            actions = [{"do": "assign", "to": "v", "dtype": "float32", "shape": [2], "value": [number, number]},
                       {"do": "insert", "to": "t", "keys": [f"{number}"], "values": [number]}, *[{"do": "next", "of": "i"}] * number,
                       {"do": "manager_save", "manager": "m"}]
        else:
            actions = [{"do": "value", "of": "v"}, {"do": "entries", "of": "t"}, {"do": "next", "of": "i"}]
        path = tmp_path / f"iterator-and-table-{number}.json"
        path.write_text(json.dumps([[*made, *actions]]))
        return path

    scripts = [script(number) for number in range(4)]

    def run(number):
        result = run_probe("checkpoint_script_probe", scripts[number])
        assert result.code == 0, str(result)
        return json.loads(result.out)[0][-3:]

    states = {}
    for saves in ((1,), (2,), (1, 2), (1, 3), (2, 3), (1, 2, 3)):
        shutil.rmtree(work, ignore_errors=True)
        for number in saves:
            run(number)
        states[saves] = run(0), set(contents(work))
    assert len({json.dumps(state) for state, _ in states.values()}) == 6

    def check(now, before, after, success, where):
        found = run(0)
        # A script goes on when it could not restore.
        possible = [(1, 2)] if success else [(1,), (2,), (1, 2)]
        saves = next((saves for saves in possible if states[saves][0] == found), None)
        assert saves, f"{found}: {where}"
        run(3)
        state, files = states[*saves, 3]
        assert run(0) == state, where
        left = set(contents(work)) - files
        assert files <= set(contents(work)) and all("ckpt-1." in name and "warning" in where for name in left), f"{left}: {where}"

    Faults(tmp_path, lambda _: run(1), probe="checkpoint_script_probe").try_all([scripts[2]], check)


# What a program writes and reads again: the commands of fault_probe.cpp, and the name of the file.
PROGRAMS = {"custom gradients": ("save-gradient", "load-gradient", "model"), "sequences": ("write-records", "read-records", "x.tfrecord")}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_programs(kind, tmp_path):
    """SavedModels with custom gradients, and datasets of SequenceExamples."""
    write, read, name = PROGRAMS[kind]
    path = tmp_path / "work" / name

    def make(work):
        assert run_probe("fault_probe", write, path, 3).code == 0

    def check_saved(now, before, after, success, where):
        assert now == after if success else now in (before, after), where

    def check_read(now, before, after, success, where):
        assert now == before == after and "wrong" not in where, where

    Faults(tmp_path, make, probe="fault_probe").try_all([write, path, 5], check_saved, quick=5)
    Faults(tmp_path, make, probe="fault_probe").try_all([read, path, 3], check_read, quick=5)


MEMORY_AND_THREADS = {
    "verify": ["a.h5"], "inspect": ["a.keras"], "convert": ["a.keras", "out.h5"], "predict": ["a.keras", "--input", "x.npy", "--output", "out.npz"],
    "fit": ["a.keras", "--data", "d.npz", "--epochs", 1, "--strategy", "mirrored:2", "--save", "out.keras"],
}


@pytest.mark.parametrize("command", MEMORY_AND_THREADS)
def test_memory_and_threads(command, models, tmp_path):
    """An output is whole or was never there."""
    for name in ("a.keras", "a.h5", "d.npz"):
        shutil.copy(models / name, tmp_path / name)
    np.save(tmp_path / "x.npy", np.ones((3, 3), "float32"))
    args = [tmp_path / arg if "." in str(arg) else arg for arg in MEMORY_AND_THREADS[command]]
    log, rng = tmp_path / "log", random.Random(f"{tool.SEED}/{command}")

    def run(thread=0, allocation=0, permanent=False):
        return tool.run(command, *args, own_process=True, env={
            "LD_PRELOAD": str(INJECTORS / "resource_injector.so"), "LOCKSTEP_FAULT_LOG": str(log), "LOCKSTEP_FAULT_THREAD": str(thread),
            "LOCKSTEP_FAULT_ALLOCATION": str(allocation), "LOCKSTEP_FAULT_PERMANENT": str(int(permanent))})

    assert run().code == 0
    threads, allocations = map(int, log.read_text().split())
    whole = {path.name: path.stat().st_size for path in tmp_path.glob("out.*")}
    cases = [{"thread": number, "permanent": permanent} for number in range(1, threads + 1) for permanent in (False, True)]
    # The last ones are of the command itself, those before of loading LibTorch.
    for _ in range(200 if tool.CONFORMANCE else 6):
        cases.append({"allocation": allocations - rng.randrange(min(allocations, rng.choice([100, 1000, allocations]))), "permanent": rng.random() < 0.5})
    for case in cases:
        for name in whole:
            (tmp_path / name).unlink(missing_ok=True)
        result = run(**case)
        lines = [line for line in result.err.splitlines() if line.strip() and "warning" not in line]
        assert result.code == 0 or (len(lines) == 1 and len(lines[0]) > 15 and "internal error" not in lines[0]), f"{case}: {result}"
        now = {path.name: path.stat().st_size for path in tmp_path.glob("out.*")}
        assert now == whole or (result.code != 0 and not now), f"{case}: {now}, {result}"
    print(f"\n{command} memory-and-threads: {threads + allocations} calls, {len(cases)} faults injected")

"""Each system call of a save and a load, each allocation and each start of a thread fails in turn, once and for good: no signal,
one clear line, and the files are what they were before or what they were to become. Prints the number of faults injected."""

import errno
import os
import pathlib
import random
import shutil

import keras
import numpy as np
import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own manners")

INJECTORS = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", tool.ROOT / "build")) / "tests"
ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EINTR)
# Which calls of a command fail in a quick run; all of them in the full one.
QUICK = 12


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Faults:
    """Commands whose n-th call on a file below `work` fails."""

    def __init__(self, tmp_path, make):
        self.tmp_path, self.make = tmp_path, make
        self.work, self.log = tmp_path / "work", tmp_path / "log"
        self.injected = 0

    def run(self, args, at=0, error=0, permanent=False):
        """The result, and the calls that were made."""
        self.log.write_text("")
        result = tool.run(*args, own_process=True, env={
            "LD_PRELOAD": str(INJECTORS / "fault_injector.so"), "LOCKSTEP_FAULT_UNDER": str(self.work), "LOCKSTEP_FAULT_LOG": str(self.log),
            "LOCKSTEP_FAULT_AT": str(at), "LOCKSTEP_FAULT_ERRNO": str(error), "LOCKSTEP_FAULT_PERMANENT": str(int(permanent))})
        return result, self.log.read_text().splitlines()

    def start(self):
        """`work` as it is before the command."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.make(self.work)

    def try_all(self, args, check):
        """`check` gets the work folder, what it held before and is to hold afterwards, and whether the command succeeded."""
        self.start()
        before = contents(self.work)
        result, calls = self.run(args)
        assert result.code == 0, str(result)
        after = contents(self.work)
        assert len(calls) > 3, calls
        cases = [(at, error, permanent) for at in range(1, len(calls) + 1) for error in ERRORS for permanent in (False, True)]
        for at, error, permanent in tool.pick(cases, QUICK, key=str(args[0])):
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
            rest = set(now) - set(before) - set(after)
            if not permanent and "unlink" not in failed:
                assert not rest, f"{rest} left by {where}"
            check({name: data for name, data in now.items() if name not in rest}, before, after, result.code == 0, where)
        files = "-".join(pathlib.Path(arg).name for arg in args[1:] if str(self.work) in str(arg))
        print(f"\n{args[0]} {files}: {len(calls)} calls, {self.injected} faults injected")


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
    return folder


@pytest.mark.parametrize("source, target", [("a.keras", "out.h5"), ("a.h5", "out.keras"),
                                            ("a.keras", "out.safetensors"), ("a.keras", "out.weights.h5"), ("a.keras", "ckpt")])
def test_converting(models, tmp_path, source, target):
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    tool.ok("convert", models / source.replace("a.", "b."), prepared / target)

    def make(work):
        shutil.copy(models / source, work / source)
        shutil.copytree(prepared, work, dirs_exist_ok=True)

    def check(now, before, after, success, where):
        # A checkpoint's files are replaced one by one; each is whole.
        for name in set(before) | set(after):
            whole = [each[name] for each in (before, after) if name in each]
            assert name in now and now[name] in whole, f"{name}: {where}"
        assert now == after if success else now in (before, after) or target == "ckpt", where

    faults = Faults(tmp_path, make)
    faults.try_all(["convert", faults.work / source, faults.work / target], check)


@pytest.mark.parametrize("name", ["a.keras", "a.h5", "d.npz"])
def test_reading(models, tmp_path, name):
    def check(now, before, after, success, where):
        assert now == before == after, where

    faults = Faults(tmp_path, lambda work: shutil.copy(models / name, work / name))
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

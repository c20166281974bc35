"""Drives the lockstep command through its command line, and compares what comes out with real Keras.

LOCKSTEP_BIN (or LOCKSTEP) names the tool; LOCKSTEP_BIN=control puts Keras itself in its place (control.py), so that the
tables can be checked where there is no tool. LOCKSTEP_SEED sets the seed of all tables, LOCKSTEP_CONFORMANCE=1 runs them in
full.
"""

import json
import os
import pathlib
import random
import resource
import subprocess
import time
import zlib

import numpy as np

import fork_server

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("LOCKSTEP_BIN") or os.environ.get("LOCKSTEP") or str(ROOT / "build" / "bin" / "lockstep")
CONTROL = BIN == "control"
CONFORMANCE = os.environ.get("LOCKSTEP_CONFORMANCE", "") not in ("", "0")
# Commands run in children of a process that has loaded LibTorch, 0.3 s of CPU less for each; all cases and those of files that
# test processes (conftest.py) start each command by itself.
fork_server_allowed = not CONFORMANCE
SEED = int(os.environ.get("LOCKSTEP_SEED", "20260"))


class Result:
    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    def __str__(self):
        return f"lockstep {' '.join(map(str, self.args))}\nexit {self.code}\n{self.out[-1500:]}{self.err[-1500:]}"


def run(*args, timeout=300, file_size_limit=None, env=None, own_process=False):
    """Runs the tool and returns what came out, whatever its exit code. Never accepts a signal. `own_process`: started by
    itself, so that it takes as long as a user's command."""
    args = [str(a) for a in args]
    if CONTROL:
        import control
        return Result(args, *control.main(args))

    def limits():
        if file_size_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_limit, file_size_limit))

    alone = not fork_server_allowed or own_process or env or file_size_limit is not None
    server = None if alone else fork_server.server(BIN)
    if server:
        code, out, err = server.run(args, timeout)
    else:
        done = subprocess.run([BIN, *args], capture_output=True, timeout=timeout, preexec_fn=limits,
                              env={**os.environ, **(env or {})})
        code, out, err = done.returncode, done.stdout, done.stderr
    result = Result(args, code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
    assert result.code >= 0, f"killed by signal {-result.code}: {result}"
    return result


def ok(*args, **kwargs):
    """Runs the tool, which must succeed; returns its standard output."""
    result = run(*args, **kwargs)
    assert result.code == 0, str(result)
    return result.out


def refused(*args, code=None, **kwargs):
    """Runs the tool, which must fail with one clear line; returns that line."""
    result = run(*args, **kwargs)
    assert result.code != 0, f"accepted: {result}"
    assert code is None or result.code == code, f"exit {code} expected: {result}"
    lines = [line for line in result.err.splitlines() if line.strip()]
    assert len(lines) == 1, f"one line on stderr expected: {result}"
    assert len(lines[0]) > 15, f"a clear line expected: {result}"
    return lines[0]


def wait_for(path, job=None, timeout=90):
    """Returns when `path` exists. Fails when the process `job` ends before."""
    deadline = time.monotonic() + timeout
    while not path.exists():
        assert job is None or job.poll() is None, job.communicate()
        assert time.monotonic() < deadline, f"{path} does not exist after {timeout} s"
        time.sleep(0.02)


def generator(*name):
    """A NumPy generator of its own for each test, from the printed seed."""
    return np.random.default_rng([SEED, zlib.crc32("/".join(map(str, name)).encode())])


def pick(cases, quick, key="pick"):
    """All cases under LOCKSTEP_CONFORMANCE; else the first ones (the telling ones stand first) and some drawn by the seed."""
    cases = list(cases)
    if CONFORMANCE or len(cases) <= quick:
        return cases
    first = cases[: quick - quick // 3]
    rest = cases[quick - quick // 3:]
    return first + random.Random(f"{SEED}/{key}").sample(rest, quick // 3)


def save_npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def load_outputs(path):
    """The arrays of a .npy or .npz file that `predict` wrote, in order, with their names (None for .npy)."""
    data = np.load(path, allow_pickle=False)
    if isinstance(data, np.ndarray):
        return [(None, data)]
    return [(name, data[name]) for name in data.files]


def predict(model, inputs, tmp, *options, single=None, env=None):
    """`lockstep predict` on a list of arrays (positional), a dict (by name) or one array; returns a list of arrays."""
    if isinstance(inputs, np.ndarray):
        source = tmp / "x.npy"
        np.save(source, inputs)
    else:
        source = tmp / "x.npz"
        named = inputs if isinstance(inputs, dict) else {f"arr_{i}": a for i, a in enumerate(inputs)}
        np.savez(source, **named)
    target = tmp / ("y.npy" if single else "y.npz")
    target.unlink(missing_ok=True)
    ok("predict", model, "--input", source, "--output", target, *options, env=env)
    return load_outputs(target)


def assert_close(ours, theirs, rtol=1e-5, what="", atol=0.0):
    """Each element within rtol of the greatest magnitude of its tensor."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, Keras has {theirs.shape}"
    if theirs.dtype.kind in "SUO":
        assert (ours.astype("S") == theirs.astype("S")).all(), f"{what}: strings differ"
        return
    assert ours.dtype == theirs.dtype, f"{what}: dtype {ours.dtype}, Keras has {theirs.dtype}"
    if theirs.dtype.kind in "biu":
        assert (ours == theirs).all(), f"{what}: {np.sum(ours != theirs)} of {theirs.size} elements differ"
        return
    if theirs.dtype.kind == "c":
        ours, theirs = (np.stack([values.real, values.imag], -1) for values in (ours, theirs))
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(b)
    assert (np.isfinite(a) == finite).all() and np.array_equal(a[~finite], b[~finite], equal_nan=True), \
        f"{what}: not finite where Keras is, or the reverse"
    if not finite.any():
        return
    scale = max(np.abs(b[finite]).max(), 1e-6)
    worst = np.abs(a[finite] - b[finite]).max()
    assert worst <= rtol * scale + atol, f"{what}: off by {worst:.3g} where the greatest value is {scale:.3g} (rtol {rtol})"


def assert_history(ours, theirs, rtol=1e-4):
    """Keras's History.history: the same keys in the same order, the same numbers."""
    assert list(ours) == list(theirs), f"history keys {list(ours)}, Keras has {list(theirs)}"
    for name in theirs:
        a, b = np.asarray(ours[name], np.float64), np.asarray(theirs[name], np.float64)
        assert a.shape == b.shape, f"history {name}: {a.shape} values, Keras has {b.shape}"
        assert np.allclose(a, b, rtol=rtol, atol=rtol * 1e-2, equal_nan=True), f"history {name}: {a}, Keras has {b}"


def load_history(path):
    return json.loads(pathlib.Path(path).read_text())


def randomise(model, rng, scale=0.4):
    """Random weights for every variable of a model; variances stay positive."""
    for weight in model.weights:
        if weight.dtype == "string" or "int" in str(weight.dtype):
            continue
        value = rng.normal(0.0, scale, tuple(weight.shape)).astype("float32")
        if "variance" in weight.path or weight.path.endswith("/gamma"):
            value = np.abs(value) + 0.5
        weight.assign(value)

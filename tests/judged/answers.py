"""Stored answers of real Keras (answers/), so that a run need not recompute all of them.

fit(), predict() and evaluate() give what the methods of a Keras model give, and leave the model as those do. An answer is
stored under the digest of all that it follows from: the versions of the judges, the model's config, its variables and those
of its optimizer, the data and the options (or the source of a program). So a row that changes, or other judges, find no answer, and Keras computes; as it
does for what has no digest (custom classes, callbacks, datasets).

A tenth of the answers, drawn by LOCKSTEP_ANSWERS_SEED (printed, another one in each run), is computed in every run and
compared with what is stored; under LOCKSTEP_CONFORMANCE=1 all are. LOCKSTEP_ANSWERS=write stores what is missing and, after
a run of whole files, removes what nothing asked for; LOCKSTEP_ANSWERS=off computes all and compares nothing.
"""

import collections
import functools
import hashlib
import io
import json
import os
import pathlib
import secrets
import zipfile
import zlib

import numpy as np

import lockstep_tool as tool

FOLDER = pathlib.Path(__file__).with_name("answers")
MODE = os.environ.get("LOCKSTEP_ANSWERS", "")
SEED = int(os.environ.get("LOCKSTEP_ANSWERS_SEED") or secrets.randbelow(10**6))
FORMAT = 1  # part of each digest

counts = collections.Counter()
asked = collections.defaultdict(set)  # test file -> digests


class NoDigest(Exception):
    """Something that an answer follows from cannot be known from its content."""


# ---- digests ----

@functools.cache
def versions():
    import keras
    import tensorflow
    return [keras.__version__, tensorflow.__version__, np.__version__, os.environ.get("TF_ENABLE_ONEDNN_OPTS")]


def add(digest, value):
    """Adds a value with its type and structure to a digest."""
    if value is None or isinstance(value, (bool, int, float, str)):
        digest.update(f"{type(value).__name__} {value!r}\n".encode())
    elif isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.dtype.hasobject:
            raise NoDigest
        digest.update(f"array {value.dtype.str} {value.shape}\n".encode() + value.tobytes())
    elif isinstance(value, (list, tuple)):
        digest.update(f"{type(value).__name__} {len(value)}\n".encode())
        for part in value:
            add(digest, part)
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)}\n".encode())
        for name, part in value.items():
            add(digest, name)
            add(digest, part)
    else:
        raise NoDigest


def without_identities(config):
    """A serialized object of Keras's own classes without what differs from process to process."""
    if isinstance(config, dict):
        module = config.get("module")
        if "class_name" in config and module is not None and not str(module).startswith(("keras", "builtins")):
            raise NoDigest
        if ">" in str(config.get("registered_name")):
            raise NoDigest
        return {name: without_identities(part) for name, part in config.items() if name != "shared_object_id"}
    if isinstance(config, (list, tuple)):
        return [without_identities(part) for part in config]
    return config


def variables(model):
    optimizer = getattr(model, "optimizer", None)
    return [*model.variables, *(optimizer.variables if optimizer is not None and optimizer.built else [])]


def digest_of(*parts):
    """The digest of an answer that follows from these parts and the versions of the judges."""
    digest = hashlib.sha256()
    add(digest, [FORMAT, versions(), *parts])
    return digest.hexdigest()[:24]


def key(kind, model, given):
    """The digest of an answer of a model, or None where Keras must compute."""
    import keras
    if MODE == "off" or not model.built:
        return None
    try:
        config = json.dumps(without_identities(keras.saving.serialize_keras_object(model)))
        return digest_of(kind, config, [np.asarray(v) for v in variables(model)], given)
    except (NoDigest, TypeError, ValueError):
        return None


# ---- storage ----

def pack(answer, row):
    """A dict of arrays and JSON values as bytes: a line of JSON, the arrays' elements, compressed."""
    arrays = {name: value for name, value in answer.items() if isinstance(value, np.ndarray)}
    header = {"row": row, "values": {name: value for name, value in answer.items() if name not in arrays},
              "arrays": [[name, array.dtype.name if array.dtype.kind == "V" else array.dtype.str, list(array.shape)] for name, array in arrays.items()]}
    return zlib.compress(json.dumps(header).encode() + b"\n" + b"".join(a.tobytes() for a in arrays.values()), 9)


def unpack(data):
    """The dict that pack() was given."""
    header, _, data = zlib.decompress(data).partition(b"\n")
    header = json.loads(header)
    answer, at = dict(header["values"]), 0
    for name, dtype, shape in header["arrays"]:
        count = int(np.prod(shape))
        answer[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += count * np.dtype(dtype).itemsize
    assert at == len(data)
    return answer


def drawn(name):
    """Whether a stored answer is computed again in this run: its digest, or what several answers share."""
    return tool.CONFORMANCE or zlib.crc32(f"{SEED}/{name}".encode()) % 10 == 0


def assert_same(stored, computed, path, rtol):
    assert list(stored) == list(computed), f"{path}: other parts than Keras's answer has"
    for name, value in computed.items():
        if name == "files":
            continue
        what = f"the stored answer {path.parent.name}/{path.name} is not what Keras computes (make answers): {name}"
        if isinstance(value, np.ndarray):
            tool.assert_close(stored[name], value, rtol, what, atol=2e-6)
        elif isinstance(value, dict):
            tool.assert_history(stored[name], value, max(rtol, 1e-4))
        else:
            assert stored[name] == value, what


def answer(digest, compute, rtol=1e-4, drawn_with=None):
    """(a stored answer, or what compute() gives: a dict of arrays and JSON values; whether it was computed). `rtol`: by which
    Keras's own answers differ between machines. `drawn_with`: a name of answers that are computed again together, because the
    first one starts a process."""
    if digest is None:
        counts["without a digest"] += 1
        return compute(), True
    row = os.environ["PYTEST_CURRENT_TEST"].rsplit(" ", 1)[0]
    name = pathlib.PurePath(row.split("::")[0]).stem
    path = FOLDER / name / f"{digest}.z"
    asked[name].add(path.name)
    if path.exists():
        stored = unpack(path.read_bytes())
        if not drawn(drawn_with or digest):
            counts["stored"] += 1
            return stored, False
        counts["computed again"] += 1
        computed = compute()
        assert_same(stored, computed, path, rtol)
        return computed, True
    counts["not stored"] += 1
    computed = compute()
    if MODE == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack(computed, row.split("::", 1)[1]))
    return computed, True


def with_files(digest, folder, compute, rtol=1e-4):
    """The arrays of an answer about files: compute() writes them to `folder` and gives the arrays; a stored answer holds both.
    Strings become fixed-size ones."""
    def packed():
        arrays = {name: np.asarray(value) for name, value in sorted(compute().items())}
        arrays = {name: value.astype("S") if value.dtype.hasobject else value for name, value in arrays.items()}
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder)) + ("/" if path.is_dir() else "")),
                                 b"" if path.is_dir() else path.read_bytes())
        return {"files": np.frombuffer(written.getvalue(), np.uint8), **arrays}

    found, computed = answer(digest, packed, rtol)
    if not computed:
        with zipfile.ZipFile(io.BytesIO(found["files"].tobytes())) as archive:
            archive.extractall(folder)
    return {name: value for name, value in found.items() if name != "files"}


def remove_unasked(names):
    """Removes the answers of whole test files that no case asked for."""
    for name in names:
        for path in (FOLDER / name).glob("*.z"):
            if path.name not in asked[name]:
                path.unlink()


# ---- what Keras is asked ----

def fit(model, x, y=None, *, shuffle=False, seed=None, rtol=1e-4, **options):
    """model.fit(), silent; its history. `seed`: the one that was set, which the order of shuffled data follows from."""
    assert not shuffle or seed is not None, "shuffled data follow from a seed"

    def compute():
        history = model.fit(x, y, shuffle=shuffle, verbose=0, **options).history
        return {"history": {name: np.asarray(value).tolist() for name, value in history.items()},
                **{f"{i}": np.asarray(v) for i, v in enumerate(variables(model))}}

    found, computed = answer(key("fit", model, [x, y, shuffle, seed, options]), compute, rtol)
    if not computed:
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        state = variables(model)
        assert len(state) == len(found) - 1, "the stored answer has other variables"
        for i, variable in enumerate(state):
            variable.assign(found[f"{i}"])
    return found["history"]


def predict(model, x, **options):
    """The outputs of model.predict(), silent: a list of arrays in the order of keras.tree.flatten()."""
    def compute():
        import keras
        return {f"{i}": value for i, value in enumerate(keras.tree.flatten(model.predict(x, verbose=0, **options)))}

    return list(answer(key("predict", model, [x, options]), compute)[0].values())


def evaluate(model, x, y=None, **options):
    """model.evaluate(return_dict=True), silent."""
    def compute():
        results = model.evaluate(x, y, verbose=0, return_dict=True, **options)
        return {"results": {name: np.asarray(value).tolist() for name, value in results.items()}}

    return answer(key("evaluate", model, [x, y, options]), compute)[0]["results"]

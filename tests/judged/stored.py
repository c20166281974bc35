"""Stored answers (answers.py) of parts of a test that ask the originals: what Keras and TensorFlow compute and the files that they
write (original), what they find in files that we wrote (original with files, weights)."""

import contextlib
import functools
import importlib.metadata
import inspect
import io
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import types
import zipfile

import h5py
import numpy as np

import answers
import lockstep_tool as tool

FOLDER = pathlib.Path(__file__).parent
WITHOUT_NUMBERS = {"answers", "stored", "pytest"}  # modules that no number follows from


# ---- sources ----

def of_tests(value):
    """Whether a function, a class or a module is one of the tests."""
    try:
        return pathlib.Path(inspect.getfile(value)).parent == FOLDER
    except TypeError:
        return False


def named(code):
    """The names that a function and those within it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from named(constant)


class Sources:
    """Collects what a function follows from: its source, the functions, classes and values of the tests that it names, and the
    values of what encloses it."""

    def __init__(self):
        self.found, self.seen = [], set()

    def function(self, function):
        function = inspect.unwrap(function)
        if not of_tests(function):
            self.found.append(f"{function.__module__}.{function.__qualname__}")
        elif function.__code__ not in self.seen:
            self.seen.add(function.__code__)
            columns = [position for position in function.__code__.co_positions() if None not in position]
            lambda_of_a_line = [min(p[2] for p in columns), max(p[3] for p in columns)] if function.__name__ == "<lambda>" else []
            self.found += [function.__qualname__, inspect.getsource(function), *lambda_of_a_line]
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
                self.value(name, cell.cell_contents.__name__ if isinstance(cell.cell_contents, types.ModuleType) else cell.cell_contents)
            for default in function.__defaults__ or ():
                self.value("default", default)
            for name in sorted(set(named(function.__code__))):
                if name in function.__globals__ and not name.startswith("__"):
                    self.value(name, function.__globals__[name])

    def value(self, name, value):
        if isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, types.ModuleType):
            self.module(value)
        elif isinstance(value, type):
            self.kind(value)
        elif isinstance(value, np.random.Generator):
            self.found += [name, json.dumps(value.bit_generator.state)]
        elif isinstance(value, (list, tuple, set, frozenset)):
            for part in sorted(value, key=str) if isinstance(value, (set, frozenset)) else value:
                self.value(name, part)
        elif isinstance(value, dict):
            for key, part in value.items():
                self.found.append(repr(key))
                self.value(name, part)
        elif isinstance(value, (slice, type(Ellipsis), np.dtype)) or type(value).__name__ == "DType":
            self.found += [name, repr(value)]
        elif not isinstance(value, os.PathLike) and not type(value).__module__.startswith("_pytest"):
            if not (value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.ndarray, np.generic))):
                raise TypeError(f"original(): what '{name}' is, a {type(value).__name__}, is not known from its content; make it within the function")
            self.found += [name, repr(value) if isinstance(value, (bytes, complex)) else value]

    def module(self, module):
        if module is tool:
            self.found += [tool.SEED, *map(inspect.getsource, (tool.generator, tool.randomise))]
        elif module.__name__ not in WITHOUT_NUMBERS and of_tests(module):
            self.found += [module.__name__, pathlib.Path(module.__file__).read_text()]

    def kind(self, kind):
        if of_tests(kind) and kind not in self.seen:
            self.seen.add(kind)
            self.found.append(inspect.getsource(kind))
            for part in vars(kind).values():
                if isinstance(part, types.FunctionType):
                    self.function(part)


# ---- structures of arrays ----

def flattened(value, arrays):
    """A description of a structure as JSON, whose numbers go to `arrays`."""
    if isinstance(value, dict):
        return {"dict": [[name, flattened(part, arrays)] for name, part in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [flattened(part, arrays) for part in value]}
    if value is None or isinstance(value, (bool, int, str)):
        return {"is": value}
    array = np.asarray(value)
    arrays[f"{len(arrays):04}"] = array.astype("S") if array.dtype.hasobject else array
    return {"float" if isinstance(value, float) else "array": len(arrays) - 1}


def structured(description, arrays):
    (kind, value), = description.items()
    if kind == "dict":
        return {name: structured(part, arrays) for name, part in value}
    if kind == "list":
        return [structured(part, arrays) for part in value]
    if kind == "is":
        return value
    return float(arrays[f"{value:04}"]) if kind == "float" else arrays[f"{value:04}"]


@functools.cache
def versions():
    return [importlib.metadata.version("tf-keras"), h5py.__version__]


def content(path):
    """What a file that we wrote says, or all files of a folder."""
    if path.is_dir():
        return [[str(part.relative_to(path)), part.read_bytes().hex()] for part in sorted(path.rglob("*")) if part.is_file()]
    return path.read_bytes().hex()


def fresh():
    """Names and seeds do not depend on what was computed before, in this process or another one."""
    random.seed(f"{tool.SEED}/original")
    np.random.seed(tool.SEED % 2**32)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.clear_session(free_memory=False)
    if "tf_keras" in sys.modules:
        backend = sys.modules["tf_keras.src.backend"]
        backend.reset_uids()
        vars(backend._SEED_GENERATOR).pop("generator", None)  # of a test's set_random_seed(): without one, seeds come from random
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(tool.SEED)


def original(compute, folder=None, files=(), rtol=1e-4):
    """What compute() gives, any structure of arrays, numbers and texts: lists for tuples. It is stored with the files that compute()
    writes to `folder`, which is empty before, under the digest of its source and of `files`, which we wrote and which it reads."""
    sources = Sources()
    sources.function(compute)

    def computed():
        fresh()
        arrays = {}
        description = flattened(compute(), arrays)
        return {**arrays, "structure": np.frombuffer(json.dumps(description).encode(), np.uint8)}

    digest = None if answers.MODE == "off" else answers.digest_of("original", versions(), sources.found, [content(pathlib.Path(p)) for p in files])
    if folder is None:
        with tempfile.TemporaryDirectory() as empty:
            found = answers.with_files(digest, pathlib.Path(empty), computed, rtol)
    else:
        found = answers.with_files(digest, pathlib.Path(folder), computed, rtol)
    return structured(json.loads(found["structure"].tobytes()), found)


# ---- weights of files ----

def described(file):
    """All objects of an HDF5 file with their attributes, shapes and dtypes, without the numbers."""
    def attributes(node):
        return [[name, repr(np.asarray(value).tolist())] for name, value in sorted(node.attrs.items())]

    found = [attributes(file)]
    file.visititems(lambda name, node: found.append(
        [name, attributes(node), *([str(node.dtype), list(node.shape)] if isinstance(node, h5py.Dataset) else [])]))
    return found


def datasets(file):
    names = []
    file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
    return names


def order_of_weights(module, path):
    """The datasets in the order of get_weights() of the original, which reads the file with another number in each."""
    target = path.with_name(f"numbered-{path.name}")
    with contextlib.ExitStack() as stack:
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as archive:
                entries = {name: archive.read(name) for name in archive.namelist()}
            weights = io.BytesIO(entries["model.weights.h5"])
        else:
            weights = io.BytesIO(path.read_bytes())
        with h5py.File(weights, "r+") as file:
            names = datasets(file)
            shapes = {name: file[name].shape for name in names}
            for number, name in enumerate(names):
                file[name][...] = np.full(file[name].shape, number + 1).astype(file[name].dtype)
        stack.callback(target.unlink, missing_ok=True)
        if path.suffix == ".keras":
            entries["model.weights.h5"] = weights.getvalue()
            with zipfile.ZipFile(target, "w") as archive:
                for name, data in entries.items():
                    archive.writestr(name, data)
        else:
            target.write_bytes(weights.getvalue())
        found = []
        for value in module.models.load_model(target, compile=False).get_weights():
            name = names[int(value.flat[0]) - 1]
            assert (value == value.flat[0]).all() and value.shape == shapes[name], f"{path}: a weight is not the dataset {name}"
            found.append(name)
        return found


def weights(module, path):
    """get_weights() of a model that we wrote. What is stored is which datasets these are, for a file of this structure; so the
    numbers, which differ between machines, are read from the file."""
    path = pathlib.Path(path)
    others = []
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            # The time of a save says nothing; lockstep writes this one.
            others = [[name, re.sub(r'("date_saved": )"[^"]*"', r'\1"1980-01-01@00:00:00"', archive.read(name).decode())]
                      for name in archive.namelist() if name.endswith(".json")]
            source = io.BytesIO(archive.read("model.weights.h5"))
    else:
        source = path
    with h5py.File(source) as file:
        digest = None if answers.MODE == "off" else answers.digest_of("weights", versions(), module.__name__, path.suffix, described(file), others)
        names = answers.answer(digest, lambda: {"names": np.array(order_of_weights(module, path), "S")})[0]["names"]
        return [file[name.decode()][()] for name in names]

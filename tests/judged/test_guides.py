"""The programs of examples/guides against their Python twins: the same numbers, and models that each reads from the other. What a
twin prints is a stored answer (answers.py); models are exchanged where the twin runs."""

import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

import answers
import lockstep_tool as tool
import twins

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="these are programs of our own")

FOLDER = tool.ROOT / "examples" / "guides"
GUIDES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "guide")
PROGRAM = pathlib.Path(tool.BIN).parent / "guides"


@pytest.fixture(scope="module")
def python():
    process = twins.Twins()
    yield process
    process.close()


def ours(*args):
    """The output of the C++ program."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, cwd=FOLDER, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def numbers(text):
    """The names that a program has printed, in order, each with its values."""
    found = {}
    for name, value in (line.rsplit(" ", 1) for line in text.splitlines()):
        found.setdefault(name, []).append(float(value))
    return found


def exchange(name, python, a, b):
    """Runs the twin, which reads the model in `a` and saves one in `b`, and reads that one; what the twin has printed."""
    printed = python.run(FOLDER / f"{name}.py", b, a / "model.keras")
    assert numbers(ours("--difference", a / "model.keras", b / "model.keras"))["difference"][0] < 1e-5
    return {"numbers": numbers(printed)}


@pytest.mark.parametrize("name", GUIDES)
def test_guide_computes_as_its_twin(name, tmp_path, python):
    a, b = tmp_path / "ours", tmp_path / "theirs"
    a.mkdir(), b.mkdir()
    found = numbers(ours(name, a))
    digest = None if answers.MODE == "off" else answers.digest_of("guide", *[(FOLDER / f"{file}.py").read_text() for file in ("guide", name)])
    expected = answers.answer(digest, lambda: exchange(name, python, a, b), drawn_with="guides")[0]["numbers"]
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


def test_every_guide_has_a_twin_and_is_listed():
    assert GUIDES == sorted(path.stem for path in FOLDER.glob("*.cpp") if path.stem != "guides")
    listed = re.findall(r"^\| \[(\w+)\]\(../examples/guides/", (tool.ROOT / "docs" / "migration.md").read_text(), re.M)
    assert GUIDES == sorted(listed)


def test_saved_datasets_and_caches_are_those_of_tensorflow(tmp_path):
    """A dataset that each side has saved or cached in files is read by the other."""
    import tensorflow as tf

    a, b = tmp_path / "ours", tmp_path / "theirs"
    a.mkdir(), b.mkdir()
    ours("dataset_transformations", a)
    loaded = list(tf.data.Dataset.load(str(a / "saved")).as_numpy_iterator())
    assert [features["name"] for features, _ in loaded] == [b"a", b"bb", b"", b"d", b"e"]
    assert [int(label) for _, label in loaded] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(loaded[4][0]["x"], np.sin(0.3 * np.array([8, 9])).astype("float32"))
    none = tf.data.Dataset.range(0).map(lambda x: x)
    assert list(none.cache(str(a / "cache")).as_numpy_iterator()) == [0, 2, 4, 6]

    x, label = np.sin(0.3 * np.arange(10)).astype("float32").reshape(5, 2), np.array([1, 2, 3, 4, 5], "int32")
    tf.data.Dataset.from_tensor_slices(({"x": x, "name": ["a", "bb", "", "d", "e"]}, label)).save(str(b / "saved"))
    list(tf.data.Dataset.range(4).map(lambda x: x * 2).cache(str(b / "cache")))
    assert ours("--read-dataset", a) == ours("--read-dataset", b)

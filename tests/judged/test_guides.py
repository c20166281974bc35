"""The programs of examples/guides beside their Python twins: the same numbers, and models that each reads from the other."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="these are programs of our own")

FOLDER = tool.ROOT / "examples" / "guides"
GUIDES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "guide")
PROGRAM = pathlib.Path(tool.BIN).parent / "guides"


def numbers(command, folder):
    """The names and values that a program prints, in order."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    done = subprocess.run([*map(str, command), str(folder)], capture_output=True, text=True, cwd=FOLDER, timeout=300,
                          env={**environment, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return [(name, float(value)) for name, value in (line.rsplit(" ", 1) for line in done.stdout.splitlines())]


@pytest.mark.parametrize("name", GUIDES)
def test_guide_computes_as_its_twin(name, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir(), theirs.mkdir()
    found = numbers([PROGRAM, name], ours)
    expected = numbers([sys.executable, FOLDER / f"{name}.py"], theirs)
    assert [name for name, _ in found] == [name for name, _ in expected]
    np.testing.assert_allclose([v for _, v in found], [v for _, v in expected], rtol=1e-5, atol=1e-5)

    # Keras reads our file, lockstep reads Keras's, and the weights are the same.
    loaded = keras.models.load_model(ours / "model.keras", compile=False)
    twin = keras.models.load_model(theirs / "model.keras", compile=False)
    assert [w.path.split("/", 1)[-1] for w in loaded.weights] == [w.path.split("/", 1)[-1] for w in twin.weights]
    for a, b in zip(loaded.get_weights(), twin.get_weights()):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    for folder in (ours, theirs):
        tool.ok("verify", folder / "model.keras")

"""The manners of the command line: exit statuses, folders of outputs, comparisons of integers and complex numbers."""

import subprocess

import keras
import numpy as np
import pytest

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own manners")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """m.keras, d.npz and x.npy."""
    path = tmp_path_factory.mktemp("files")
    rng = tool.generator("command line")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.save(path / "m.keras")
    x = rng.normal(size=(8, 3)).astype("float32")
    np.save(path / "x.npy", x)
    np.savez(path / "d.npz", x=x, y=rng.normal(size=(8, 2)).astype("float32"))
    return path


USAGE = {
    "epochs": (["fit", "--epochs", "x"], "--epochs requires a whole number from 0 to 2147483647, found 'x'"),
    "too many epochs": (["fit", "--epochs", "4294967297"], "found '4294967297'"),
    "batch size": (["fit", "--batch-size", "0"], "--batch-size requires a whole number of at least 1, found '0'"),
    "seed": (["fit", "--seed", "1.5"], "--seed"),
    "strategy": (["fit", "--strategy", "miror:2"], "unknown strategy 'miror:2'"),
    "replicas": (["evaluate", "--strategy", "mirrored:0"], "unknown strategy 'mirrored:0'"),
    "device": (["fit", "--strategy", "one_device:tpu"], "tpu"),
    "timeout": (["fit", "--timeout", "-1"], "--timeout requires a number of seconds greater than 0, found '-1'"),
    "communication": (["fit", "--communication", "rings"], "did you mean 'ring'"),
    "compression": (["fit", "--compression", "zip"], "one of none, float16, bfloat16"),
    "split": (["fit", "--validation-split", "1"], "--validation-split"),
    "weights": (["fit", "--class-weight", "0:1,1"], "CLASS:WEIGHT"),
    "rescale": (["fit", "--rescale", "1/0"], "1/255"),
    "optimizer": (["fit", "--optimizer", "adamm"], "adam"),
    "loss": (["fit", "--loss", "mes"], "mes"),
    "metrics": (["evaluate", "--metrics", "acuracy"], "acuracy"),
    "save": (["fit", "--save", "out.bin"], "out.bin"),
    "save weights only": (["fit", "--save", "out.safetensors"], "out.safetensors"),
    "restarts": (["fit", "--restarts", "1"], "--restarts requires --checkpoint-dir"),
    "workers": (["fit", "--checkpoint-dir", "run", "--workers", "2"], "--workers requires --dry-run"),
    "evaluations": (["evaluate", "--evaluations", "1"], "--evaluations requires --checkpoint-dir"),
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_ends_with_2(case, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command, *options), text = USAGE[case]
    assert text in tool.refused(command, folder / "m.keras", "--data", folder / "d.npz", *options, code=2)
    assert not list(tmp_path.iterdir())


def test_wrong_usage_of_other_commands_ends_with_2(folder, tmp_path):
    predict = ["predict", folder / "m.keras", "--input", folder / "x.npy", "--output"]
    assert ".npy or .npz" in tool.refused(*predict, tmp_path / "o.txt", code=2)
    assert "--outputs" in tool.refused(*predict, tmp_path / "y.npy", "--outputs", "a", code=2)
    assert "--input" in tool.refused("predict", folder / "m.keras", "--output", tmp_path / "y.npy", code=2)
    assert "did you mean 'keras'" in tool.refused("convert", folder / "m.keras", tmp_path / "o", "--to", "kerass", code=2)
    assert "--to" in tool.refused("convert", folder / "m.keras", tmp_path / "o.bin", code=2)
    assert "unexpected argument" in tool.refused("verify", folder / "m.keras", "more", code=2)
    assert "unknown architecture" in tool.refused("new", "ResNett50", tmp_path / "m.keras", code=2)
    assert ".svg or .dot" in tool.refused("plot", folder / "m.keras", tmp_path / "m.png", code=2)
    # What a file holds is not usage.
    tool.refused("fit", folder / "none.keras", "--data", folder / "d.npz", code=1)
    tool.refused("fit", folder / "m.keras", "--data", folder / "none.npz", code=1)
    assert not list(tmp_path.iterdir())


def test_missing_folders_of_outputs_are_created(folder, tmp_path):
    def path(*parts):
        return tmp_path.joinpath(*parts)

    tool.ok("fit", folder / "m.keras", "--data", folder / "d.npz", "--save", path("a", "b", "m.keras"), "--export", path("c", "d", "1"),
            "--history", path("e", "f", "h.json"), "--checkpoint-dir", path("g", "h", "run"))
    keras.models.load_model(path("a", "b", "m.keras"))
    tool.ok("verify", path("c", "d", "1"))
    assert list(tool.load_history(path("e", "f", "h.json"))) == ["loss"]
    assert path("g", "h", "run", "checkpoint").exists()
    for name in ("i/j/y.npy", "k/l/y.npz"):
        tool.ok("predict", folder / "m.keras", "--input", folder / "x.npy", "--output", path(name))
        assert path(name).exists()
    for name, to in [("m/n/m.keras", "keras"), ("m/o/m.h5", "h5"), ("m/p/w.weights.h5", "weights_h5"), ("m/q/1", "saved_model"),
                     ("m/r/ckpt", "tf_checkpoint"), ("m/s/w.safetensors", "safetensors")]:
        tool.ok("convert", folder / "m.keras", path(name), "--to", to)
        tool.ok("verify", path(name))
    (tmp_path / "file").write_text("")
    assert "file" in tool.refused("fit", folder / "m.keras", "--data", folder / "d.npz", "--save", path("file", "m.keras"), code=1)


PAIRS = {  # two arrays, differing elements, max and mean deviation
    "int64": (np.array([2**53, 7], "int64"), np.array([2**53 + 1, 7], "int64"), 1, 1, 0.5),
    "int64 ends": (np.array([-2**63, 0], "int64"), np.array([2**63 - 1, 0], "int64"), 1, 2.0**64 - 1, (2.0**64 - 1) / 2),
    "uint64": (np.array([2**64 - 1, 2**63], "uint64"), np.array([2**64 - 2, 2**63 + 1], "uint64"), 2, 1, 1),
    "complex64": (np.array([1 + 2j, 5], "complex64"), np.array([4 + 6j, 5], "complex64"), 1, 5, 2.5),
    "complex128": (np.array([1j, 2j, 3], "complex128"), np.array([1j, 2j, 4], "complex128"), 1, 1, 1 / 3),
}


@pytest.mark.parametrize("case", PAIRS)
def test_diff_compares_numbers_exactly(case, tmp_path):
    a, b, count, most, mean = PAIRS[case]
    for name, array in (("a.npz", a), ("b.npz", b)):
        np.savez(tmp_path / name, value=array)
    result = tool.run("diff", tmp_path / "a.npz", tmp_path / "b.npz")
    assert result.code == 1, str(result)
    assert f"{count} of {a.size} elements differ, max deviation {most:.6g}, mean deviation {mean:.6g}\n" in result.out, str(result)
    assert tool.run("diff", tmp_path / "a.npz", tmp_path / "a.npz").code == 0


def test_a_closed_pipe_ends_quietly():
    """Like other tools before `head`: no message. The output exceeds what a pipe holds."""
    for arguments in (["ops"], ["ops", "--json"], ["layers"]):
        with subprocess.Popen([tool.BIN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert (process.stderr.read(), process.wait()) == (b"", 141), arguments

"""Bad input is refused with one clear line, and nothing that was there is lost."""

import gzip
import json
import shutil
import struct
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import answers
import lockstep_tool as tool
import train_table as table

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own manners")


@pytest.fixture
def model(tmp_path):
    """tmp_path/m.keras, m.h5, d.npz, x.npy."""
    built = table.dense_model()
    built.compile(optimizer="adam", loss="mse")
    rng = tool.generator("bad")
    x, y = table.inputs(rng, built, 12), table.targets(rng, "real", 12)
    tool.randomise(built, tool.generator("bad weights"))
    answers.fit(built, x, y)
    built.save(tmp_path / "m.keras")
    built.save(tmp_path / "m.h5")
    np.savez(tmp_path / "d.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    return built


def edited_config(tmp_path, edit):
    """m.keras with another config.json."""
    with zipfile.ZipFile(tmp_path / "m.keras") as source, zipfile.ZipFile(tmp_path / "bad.keras", "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "config.json":
                config = json.loads(data)
                edit(config)
                data = json.dumps(config).encode()
            target.writestr(name, data)
    return tmp_path / "bad.keras"


def predict(tmp_path, path, x="x.npy"):
    return ["predict", path, "--input", tmp_path / x, "--output", tmp_path / "y.npy"]


def test_missing_files(model, tmp_path):
    assert "nowhere.keras" in tool.refused(*predict(tmp_path, tmp_path / "nowhere.keras"))
    assert "none.npy" in tool.refused(*predict(tmp_path, tmp_path / "m.keras", "none.npy"))
    for command in ("inspect", "summary"):
        assert "nowhere" in tool.refused(command, tmp_path / "nowhere")
    tool.refused("fit", tmp_path / "m.keras", "--data", tmp_path / "none.npz")


def test_usage(model, tmp_path):
    assert "--epochs" in tool.refused("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--ephocs", 3, code=2)
    assert "predict" in tool.refused("predikt", code=2)
    tool.refused("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--batch-size", "many")
    tool.refused("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--batch-size", 0)
    for command in ("fit", "evaluate", "predict", "summary", "convert", "inspect", "verify", "diff"):
        assert "usage:" in tool.ok(command, "--help")
        assert command in tool.ok("--help")


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_truncated(model, name, tmp_path):
    data = (tmp_path / name).read_bytes()
    rng = tool.generator("cut", name)
    for size in [0, 1, len(data) // 2, len(data) - 1, *rng.integers(2, len(data) - 1, 12)]:
        (tmp_path / ("cut" + name[1:])).write_bytes(data[:size])
        tool.refused(*predict(tmp_path, tmp_path / ("cut" + name[1:])))
        tool.refused("verify", tmp_path / ("cut" + name[1:]), code=3)


def test_saved_model_without_its_variables(model, tmp_path):
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "saved")
    tool.ok("verify", tmp_path / "saved")
    for left in ("variables.data-00000-of-00001", None):
        shutil.rmtree(tmp_path / "part", ignore_errors=True)
        shutil.copytree(tmp_path / "saved", tmp_path / "part")
        (tmp_path / "part" / "variables" / "variables.index").unlink()
        if left is None:
            shutil.rmtree(tmp_path / "part" / "variables")
        assert "copied or exported in part" in tool.refused("verify", tmp_path / "part", code=3)
        tool.refused(*predict(tmp_path, tmp_path / "part"))


def test_flipped_bytes(model, tmp_path):
    """A .keras archive has checksums: every flip is found."""
    data = bytearray((tmp_path / "m.keras").read_bytes())
    rng = tool.generator("flip")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        info = archive.getinfo("model.weights.h5")
        spans = [(i.header_offset + 64, i.header_offset + i.compress_size) for i in (info, archive.getinfo("config.json"))]
    for begin, end in spans:
        for at in rng.integers(begin, end, 6):
            bad = bytearray(data)
            bad[at] ^= 1 << rng.integers(8)
            (tmp_path / "bad.keras").write_bytes(bad)
            tool.refused("verify", tmp_path / "bad.keras", code=3)
            tool.refused(*predict(tmp_path, tmp_path / "bad.keras"))


def test_flipped_bytes_never_crash(model, tmp_path):
    for name in ("m.h5", "m.keras"):
        data = (tmp_path / name).read_bytes()
        rng = tool.generator("anywhere", name)
        for at in rng.integers(0, len(data), 200 if tool.CONFORMANCE else 25):
            bad = bytearray(data)
            bad[at] ^= 0xFF
            (tmp_path / ("bad" + name[1:])).write_bytes(bad)
            for command in (["verify", tmp_path / ("bad" + name[1:])], ["inspect", tmp_path / ("bad" + name[1:])]):
                result = tool.run(*command)
                assert result.code in (0, 1, 3), str(result)


def test_files_of_data(tmp_path):
    """TFRecord and IDX files, plain and gzipped, as `verify`, `inspect`, `diff` and `predict` have them."""
    for name, kind in (("a", ""), ("b", "GZIP")):
        with tf.io.TFRecordWriter(str(tmp_path / name), kind) as writer:
            writer.write(b"one")
            writer.write(b"" if name == "a" else b"two")
    images = np.arange(6, dtype=">i2").reshape(2, 3)
    idx = struct.pack(">HBBII", 0, 11, 2, 2, 3) + images.tobytes()
    (tmp_path / "c").write_bytes(idx)
    (tmp_path / "d").write_bytes(gzip.compress(idx))
    for name, expected in (("a", "tfrecord, 2 records"), ("b", "tfrecord, 2 records"), ("c", "idx, 1 tensors, 12 bytes"), ("d", "idx, 1 tensors, 12 bytes")):
        assert f"whole ({expected})" in tool.ok("verify", tmp_path / name)
        found = json.loads(tool.ok("inspect", tmp_path / name, "--json"))
        assert found["kind"] == expected.split(",")[0]
        assert found["tensors"][0]["shape"] == ([2] if name in "ab" else [2, 3])
        data = bytearray((tmp_path / name).read_bytes())
        (tmp_path / "bad").write_bytes(data[:-1])
        tool.refused("verify", tmp_path / "bad", code=3)
    assert "1 of 2 strings differ" in tool.run("diff", tmp_path / "a", tmp_path / "b").out
    assert tool.run("diff", tmp_path / "c", tmp_path / "d").code == 0
    keras.Sequential([keras.Input((3,)), keras.layers.Rescaling(2.0)]).save(tmp_path / "double.keras")
    tool.ok("predict", tmp_path / "double.keras", "--input", tmp_path / "d", "--output", tmp_path / "y.npy")
    assert (np.load(tmp_path / "y.npy") == 2 * images).all()


def test_wrong_data(model, tmp_path):
    rng = tool.generator("wrong")
    np.save(tmp_path / "rank.npy", rng.normal(size=(4, 2, 6)).astype("float32"))
    np.save(tmp_path / "width.npy", rng.normal(size=(4, 5)).astype("float32"))
    np.save(tmp_path / "text.npy", np.array([b"a", b"b"]))
    np.save(tmp_path / "object.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    (tmp_path / "junk.npy").write_bytes(b"\x93NUMPY junk")
    for name in ("width.npy", "text.npy", "object.npy", "junk.npy"):
        tool.refused(*predict(tmp_path, tmp_path / "m.keras", name))
    assert not (tmp_path / "y.npy").exists()
    x = np.load(tmp_path / "x.npy")
    for arrays in ({"x": x}, {"y": x}, {"x": x, "y": x[:5, :4]}, {"x": x[:, :3], "y": x[:, :4]}, {"z": x}):
        np.savez(tmp_path / "bad.npz", **arrays)
        tool.refused("fit", tmp_path / "m.keras", "--data", tmp_path / "bad.npz", "--save", tmp_path / "out.keras")
    assert not (tmp_path / "out.keras").exists()


def test_unknown_layer(model, tmp_path):
    def edit(config):
        config["config"]["layers"][1]["class_name"] = "Dens"
    line = tool.refused("summary", edited_config(tmp_path, edit))
    assert "Dens" in line and "Dense" in line


def test_names_of_files_are_printed_as_text(tmp_path):
    """A name in a file cannot add a line to the output, nor commands for a terminal."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x\x1b[2J\u2028y.npy", b"not an array")
    for command in ("verify", "inspect"):
        line = tool.refused(command, tmp_path / "a.npz")
        assert r"x\x1b[2J\xe2\x80\xa8y" in line and line.isprintable(), repr(line)


def test_lambda_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda t: t + 1)])
    model.save(tmp_path / "lambda.keras")
    assert "Lambda" in tool.refused("summary", tmp_path / "lambda.keras")
    model.save(tmp_path / "lambda.h5")
    assert "Lambda" in tool.refused("summary", tmp_path / "lambda.h5")


@pytest.mark.quick(6)
@pytest.mark.parametrize("what", ["training_config", "model_config"])
@pytest.mark.parametrize("text", ["[]", "3", "{not json", "\"x\"", "{}", ""])
def test_attributes_of_h5(model, what, text, tmp_path):
    if tool.CONTROL:
        pytest.skip("Keras crashes in many ways")
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        file.attrs[what] = text
    result = tool.run("convert", tmp_path / "m.h5", tmp_path / "c.keras")
    lines = [line for line in result.err.splitlines() if line.strip()]
    assert result.code == 0 and (what, text) == ("training_config", "{}") or result.code in (1, 3) and len(lines) == 1, str(result)


@pytest.mark.parametrize("layer", [1, 2])
def test_weights_of_another_shape(model, layer, tmp_path):
    def edit(config):
        config["config"]["layers"][layer]["config"]["units"] = 9
    line = tool.refused("summary", edited_config(tmp_path, edit))
    if layer == 2:  # the last layer: its weights alone do not fit
        assert "(8, 4)" in line and "(8, 9)" in line and "dense_1" in line
    else:  # the next layer was built for what this one gave
        assert "(None, 9)" in line and "8" in line and "dense_1" in line


@pytest.mark.parametrize("units", [-1, 0, 10**12, 10**18, "many", None, 1.5])
def test_absurd_config(model, units, tmp_path):
    def edit(config):
        config["config"]["layers"][1]["config"]["units"] = units
    tool.refused("summary", edited_config(tmp_path, edit))


COMPILE = [("loss_weights", "many"), ("loss_weights", ["a"]), ("loss_weights", {"dense_1": "b"}), ("loss_weights", True), ("loss", 3),
           ("loss", "zzz"), ("loss", True), ("metrics", 7), ("metrics", ["zzz"]), ("weighted_metrics", [1.5]), ("optimizer", []),
           ("optimizer", 1), ("optimizer", "zzz"), ("run_eagerly", "yes"), ("steps_per_execution", "two"), ("steps_per_execution", 0),
           ("auto_scale_loss", [1]), ("optimizer.config.clipnorm", "x"), ("optimizer.config.learning_rate", "fast"),
           ("optimizer.config.beta_1", [0.9]), ("optimizer.config.use_ema", "no"), ("optimizer.config", 3)]


@pytest.mark.quick(12)
@pytest.mark.parametrize("key, value", COMPILE, ids=[f"{k}={v}" for k, v in COMPILE])
def test_absurd_compile_config(model, key, value, tmp_path):
    def edit(config):
        target = config["compile_config"]
        *way, last = key.split(".")
        for name in way:
            target = target[name]
        target[last] = value
    line = tool.refused("evaluate", edited_config(tmp_path, edit), "--data", tmp_path / "d.npz", "--batch-size", 4)
    assert "internal" not in line and "exception" not in line
    assert any(name in line.lower() for name in [*key.split(".")[-2:], key.split(".")[0].rstrip("s").split("_")[-1]]), line


def test_missing_shard(model, tmp_path):
    model.export(tmp_path / "sm", verbose=False)
    for name in ("variables/variables.data-00000-of-00001", "variables/variables.index", "saved_model.pb"):
        shutil.copytree(tmp_path / "sm", tmp_path / "bad")
        (tmp_path / "bad" / name).unlink()
        tool.refused("verify", tmp_path / "bad", code=3)
        tool.refused(*predict(tmp_path, tmp_path / "bad"))
        shutil.rmtree(tmp_path / "bad")


def test_sharded_weights(model, tmp_path):
    """Weights of Keras in several files, of which the index names each group."""
    model.save_weights(tmp_path / "w.weights.json", max_shard_size=300 / 1024**3)
    assert len(list(tmp_path.glob("w_*.weights.h5"))) > 1
    tool.ok("verify", tmp_path / "w.weights.json")
    found = json.loads(tool.ok("inspect", tmp_path / "w.weights.json", "--json"))
    assert sum(np.prod(t["shape"]) for t in found["tensors"]) >= model.count_params()
    tool.ok("audit", tmp_path / "w.weights.json")
    tool.ok(*predict(tmp_path, tmp_path / "m.keras"), "--weights", tmp_path / "w.weights.json")
    assert np.allclose(np.load(tmp_path / "y.npy"), model(np.load(tmp_path / "x.npy")), atol=1e-5)
    index = json.loads((tmp_path / "w.weights.json").read_text())
    index["weight_map"].popitem()
    (tmp_path / "w.weights.json").write_text(json.dumps(index))
    assert "not in the index" in tool.refused("verify", tmp_path / "w.weights.json", code=3)


def test_fingerprint_of_saved_models(model, tmp_path):
    """Files of two exports that do not belong together, each of them whole."""
    model.export(tmp_path / "a", verbose=False)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "ours")
    model.layers[0].kernel.assign_add(np.full((6, 8), 0.25, "float32"))
    model.export(tmp_path / "b", verbose=False)
    for name in ("a", "ours"):
        tool.ok("verify", tmp_path / name)
        shutil.copytree(tmp_path / "b" / "variables", tmp_path / name / "variables", dirs_exist_ok=True)
        assert "fingerprint" in tool.refused("verify", tmp_path / name, code=3)
    data = (tmp_path / "b" / "saved_model.pb").read_bytes()
    assert b"serving_default" in data
    (tmp_path / "b" / "saved_model.pb").write_bytes(data.replace(b"serving_default", b"serving_defaulx"))
    assert "signatures" in tool.refused("verify", tmp_path / "b", code=3)


@pytest.mark.parametrize("name", ["out.keras", "out.h5", "out.weights.h5"])
def test_full_disk_loses_nothing(model, name, tmp_path):
    fit = ["fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--save", tmp_path / name]
    tool.ok(*fit)
    before = (tmp_path / name).read_bytes()
    for limit in (0, 100, 4096, len(before) - 1):
        tool.refused(*fit, "--epochs", 2, file_size_limit=limit)
        assert (tmp_path / name).read_bytes() == before
        assert not [p for p in tmp_path.iterdir() if ".tmp" in p.name], "a temporary file was left"
    tool.ok("verify", tmp_path / name)


def test_diff(model, tmp_path):
    assert tool.run("diff", tmp_path / "m.keras", tmp_path / "m.keras").code == 0
    model.layers[0].kernel.assign_add(np.full((6, 8), 0.25, "float32"))
    model.save(tmp_path / "n.keras")
    result = tool.run("diff", tmp_path / "m.keras", tmp_path / "n.keras")
    assert result.code == 1 and "0.25" in result.out and "layers/dense/vars/0" in result.out
    # A legacy .h5 is compared by place, not by the names it has there.
    assert tool.run("diff", tmp_path / "m.keras", tmp_path / "m.h5").code == 0
    result = tool.run("diff", tmp_path / "m.h5", tmp_path / "n.keras")
    assert result.code == 1 and "0.25" in result.out and "layers/dense/vars/0" in result.out and "only in" not in result.out
    # So is a model in the folder of a SavedModel of Keras's, and of a checkpoint.
    model.export(tmp_path / "n", verbose=False)
    assert tool.run("diff", tmp_path / "n.keras", tmp_path / "n").code == 0
    result = tool.run("diff", tmp_path / "n", tmp_path / "m.keras")
    assert result.code == 1 and "0.25" in result.out and "only in" not in result.out
    tool.ok("convert", tmp_path / "n.keras", tmp_path / "ckpt", "--to", "tf_checkpoint")
    assert tool.run("diff", tmp_path / "ckpt", tmp_path / "n.keras").code == 0
    assert tool.run("diff", tmp_path / "m.keras", tmp_path / "ckpt").code == 1
    model.compile(optimizer="sgd", loss="mae")
    model.save(tmp_path / "o.keras")
    result = tool.run("diff", tmp_path / "n.keras", tmp_path / "o.keras")
    assert result.code == 1 and "optimizer" in result.out and "compile_config" in result.out


@pytest.mark.parametrize("content, named", {
    b"": "empty",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n": "git lfs pull",
    b"\n\n<!DOCTYPE html>\n<html>": "HTML",
    b"\x1c\0\0\0TFL3" + bytes(64): "TensorFlow Lite",
    b"\x80\x04\x95" + bytes(64): "pickled",
    b"\x1f\x8b\x08" + bytes(64): "gzip",
}.items())
def test_files_that_are_taken_for_models(content, named, tmp_path):
    (tmp_path / "m.bin").write_bytes(content)
    for command in ("inspect", "summary"):
        assert named in tool.refused(command, tmp_path / "m.bin")


def test_saved_models_with_other_files_in_them(model, tmp_path):
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "saved")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    for name in ("variables/variables.data-00000-of-00001", "variables/variables.index", "saved_model.pb"):
        (tmp_path / "saved" / name).write_bytes(pointer)
        line = tool.refused("verify", tmp_path / "saved")
        assert "git lfs pull" in line and name in line
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.placeholder(tf.float32, name="x")
    for name, content in {"saved_model.pb": graph.as_graph_def().SerializeToString(), "saved_model.pbtxt": str(graph.as_graph_def()).encode()}.items():
        (tmp_path / "saved" / "saved_model.pb").unlink(missing_ok=True)
        (tmp_path / "saved" / name).write_bytes(content)
        assert f"{name}: a GraphDef, not a SavedModel; give this file" in tool.refused("inspect", tmp_path / "saved")
        tool.ok("inspect", tmp_path / "saved" / name)


def test_the_graph_of_a_saved_model(model, tmp_path):
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "saved")
    assert "give its folder" in tool.refused("inspect", tmp_path / "saved" / "saved_model.pb")
    shutil.copy(tmp_path / "saved" / "saved_model.pb", tmp_path / "model.pb")
    assert "name it saved_model.pb" in tool.refused("inspect", tmp_path / "model.pb")


def test_unknown_loss_of_an_h5_file(model, tmp_path):
    """The model is read without its compile arguments, with a warning."""
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        training = json.loads(file.attrs["training_config"])
        training["loss"] = {"class_name": "Custom>FocalLoss", "config": {"gamma": 2.0}}
        file.attrs["training_config"] = json.dumps(training)
    result = tool.run("convert", tmp_path / "m.h5", tmp_path / "out.keras")
    assert result.code == 0 and "FocalLoss" in result.err
    assert not keras.models.load_model(tmp_path / "out.keras").compiled

"""Architectures of keras.applications: `lockstep new` writes the models that Keras makes, down to the initial weights of a
seed, and predicts what Keras predicts."""

import json
import zipfile

import keras
import numpy as np
import pytest

import keras_architectures
import lockstep_tool as tool

A = keras.applications
SMALL = dict(input_shape=(32, 32, 3))
TINY = ["--input-shape", "32x32x3"]
# Rows: architecture, arguments of Keras, options of the tool; a small member of each family, and arguments of their own.
ROWS = [
    ("MobileNetV2", dict(input_shape=(96, 96, 3), classes=5), ["--input-shape", "96x96x3", "--classes", 5]),
    ("ResNet50V2", dict(**SMALL, classes=3), [*TINY, "--classes", 3]),
    ("EfficientNetB0", dict(**SMALL, include_top=False, pooling="avg"), [*TINY, "--no-top", "--pooling", "avg"]),
    ("MobileNetV3Small", dict(**SMALL, classes=4, alpha=0.75), [*TINY, "--classes", 4, "--alpha", 0.75]),
    ("MobileNet", dict(**SMALL, classes=4, alpha=0.5, classifier_activation=None),
     [*TINY, "--classes", 4, "--alpha", 0.5, "--activation", "linear"]),
    ("MobileNetV2", dict(alpha=0.35, include_top=False, pooling="max"), ["--alpha", 0.35, "--no-top", "--pooling", "max"]),
    ("MobileNetV3Large", dict(minimalistic=True, classes=3, include_preprocessing=False),
     ["--minimalistic", "--classes", 3, "--no-preprocessing"]),
    ("EfficientNetB1", dict(input_shape=(33, 32, 1), classes=4), ["--input-shape", "33x32x1", "--classes", 4]),
    ("EfficientNetV2B0", dict(**SMALL, classes=4), [*TINY, "--classes", 4]),
    ("EfficientNetV2B1", dict(input_shape=(32, 32, 1), include_top=False, pooling="avg"),
     ["--input-shape", "32x32x1", "--no-top", "--pooling", "avg"]),
    ("DenseNet121", dict(**SMALL, classes=4), [*TINY, "--classes", 4]),
    ("ResNet50", dict(include_top=False), ["--no-top"]),
    ("InceptionV3", dict(input_shape=(75, 80, 3), classes=4), ["--input-shape", "75x80x3", "--classes", 4]),
    ("InceptionResNetV2", dict(input_shape=(75, 75, 3), classes=2), ["--input-shape", "75x75x3", "--classes", 2]),
    ("Xception", dict(input_shape=(71, 71, 3), classes=2), ["--input-shape", "71x71x3", "--classes", 2]),
    ("VGG16", dict(**SMALL, include_top=False, pooling="max"), [*TINY, "--no-top", "--pooling", "max"]),
    ("VGG19", dict(input_shape=(32, 32, 1), include_top=False), ["--input-shape", "32x32x1", "--no-top"]),
    ("NASNetMobile", dict(**SMALL, classes=4), [*TINY, "--classes", 4]),
    ("ConvNeXtTiny", dict(**SMALL, classes=4), [*TINY, "--classes", 4]),
    ("ConvNeXtTiny", dict(input_shape=(32, 32, 4), include_top=False, pooling="avg"),
     ["--input-shape", "32x32x4", "--no-top", "--pooling", "avg"]),
]


def config(path):
    return json.loads(zipfile.ZipFile(path).read("config.json"),
                      object_hook=lambda d: {k: v for k, v in d.items() if k not in ("shared_object_id", "compile_config")})


@pytest.mark.skipif(tool.CONTROL, reason="Keras has no such command")
@pytest.mark.parametrize(("name", "arguments", "options"), tool.pick(ROWS, 2, "applications"),
                         ids=lambda value: value if isinstance(value, str) else "")
def test_new(name, arguments, options, tmp_path):
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    theirs = getattr(A, name)(weights=None, **arguments)
    theirs.save(tmp_path / "theirs.keras")
    tool.ok("new", name, tmp_path / "new" / "ours.keras", "--seed", 7, *options)
    assert config(tmp_path / "new" / "ours.keras") == config(tmp_path / "theirs.keras")
    keras.backend.clear_session()  # counts the names of variables
    ours = keras.models.load_model(tmp_path / "new" / "ours.keras")
    for a, b in zip(ours.weights, theirs.weights, strict=True):
        assert a.name == b.name and a.shape == b.shape, a.path
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7, err_msg=a.path)
    rng = tool.generator("applications", name)
    for weight in theirs.weights:  # statistics and factors that matter
        if weight.path.endswith(("moving_mean", "beta", "bias")):
            weight.assign(rng.normal(0, 0.05, weight.shape))
        if weight.path.endswith(("moving_variance", "gamma")):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    theirs.save(tmp_path / "theirs.keras")
    shape = [n or 40 for n in theirs.input_shape[1:]]
    x = rng.uniform(0, 255 if "rescaling" in theirs.layers[1].name else 1, (2, *shape)).astype("float32")
    tool.assert_close(tool.predict(tmp_path / "theirs.keras", x, tmp_path)[0][1], np.asarray(theirs(x, training=False)), 1e-4, name)


@pytest.mark.parametrize("name", tool.pick(keras_architectures.NAMES, 0, "stored architectures") or ["VGG16"])
def test_stored_architectures_are_those_of_keras(name):
    assert keras_architectures.stored()[name] == keras_architectures.row(name), "run tests/judged/keras_architectures.py"


@pytest.mark.skipif(tool.CONTROL, reason="about the tool's own messages")
def test_command_line(tmp_path):
    assert tool.ok("new").split() == sorted(keras_architectures.NAMES)
    for options, message in [
        (["MobilNet", tmp_path / "m.keras"], "unknown architecture 'MobilNet' (did you mean 'MobileNet'?)"),
        (["ResNet50"], "OUT is missing"),
        (["ResNet50", tmp_path / "m.keras", "--input-shape", "32x32"], "--input-shape requires height x width x channels"),
        (["ResNet50", tmp_path / "m.keras", "--input-shape", "8x32x3"], "expected height and width of at least 32"),
        (["ResNet50", tmp_path / "m.keras", "--alpha", 0.5], "ResNet50 has no argument 'alpha'"),
        (["ResNet50", tmp_path / "m.keras", "--pooling", "sum"], "--pooling requires one of avg, max"),
    ]:
        assert message in str(tool.refused("new", *options))
    assert not (tmp_path / "m.keras").exists()


def test_new_model_trains(tmp_path):
    if tool.CONTROL:
        pytest.skip("Keras has no such command")
    rng = tool.generator("applications train")
    np.savez(tmp_path / "d.npz", x=rng.uniform(-1, 1, (6, 32, 32, 3)).astype("float32"), y=rng.integers(0, 3, 6))
    tool.ok("new", "MobileNet", tmp_path / "m.keras", "--classes", 3, *TINY, "--alpha", 0.25, "--optimizer", "sgd", "--loss",
            "sparse_categorical_crossentropy", "--metrics", "accuracy", "--seed", 1)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--batch-size", 3, "--epochs", 2, "--save", tmp_path / "t.keras",
            "--history", tmp_path / "h.json")
    assert set(tool.load_history(tmp_path / "h.json")) == {"loss", "accuracy"}
    keras.models.load_model(tmp_path / "t.keras")

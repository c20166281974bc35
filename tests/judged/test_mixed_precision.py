"""Mixed precision step by step: losses, scales of the loss and weights, and their state through files after each step."""

import json

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool

L = keras.layers


def cnn(policy):
    return keras.Sequential([
        keras.Input((8, 8, 2)), L.Conv2D(4, 3, activation="relu", dtype=policy), L.BatchNormalization(dtype=policy),
        L.MaxPooling2D(dtype=policy), L.Flatten(dtype=policy), L.Dense(3, dtype=policy),
        L.Activation("softmax", dtype="float32")])


def lstm(policy):
    return keras.Sequential([keras.Input((5, 4)), L.LSTM(6, dtype=policy), L.Dense(3, dtype=policy),
                             L.Activation("softmax", dtype="float32")])


# An initial scale that overflows float16 at first, and one that grows every two steps.
SCALES = {"overflow": dict(initial_scale=2.0 ** 30, dynamic_growth_steps=3), "growth": dict(initial_scale=64.0, dynamic_growth_steps=2)}


def compiled(make, policy, scale):
    model = make(policy)
    tool.randomise(model, np.random.default_rng(3), 0.3)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer, **SCALES[scale]) if scale else optimizer, "categorical_crossentropy")
    return model


@pytest.mark.quick(4)
@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("policy, scale", [("mixed_float16", "overflow"), ("mixed_float16", "growth"), ("mixed_bfloat16", None)])
@pytest.mark.parametrize("make", [cnn, lstm])
def test_steps(make, policy, scale, tmp_path):
    """Each step is a run of the tool that continues from the file of the step before."""
    model = compiled(make, policy, scale)
    rng = tool.generator("mixed", make.__name__, policy, scale)
    path = tmp_path / "0.keras"
    model.save(path)
    coarse = 2e-2 if policy == "mixed_bfloat16" else 4e-3
    scales = []
    for step in range(1, 7 if scale == "growth" else 18 if scale else 4):
        x = rng.normal(0, 1, (8, *model.input_shape[1:])).astype("float32")
        y = np.eye(3, dtype="float32")[rng.integers(0, 3, 8)]
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        after = tmp_path / f"{step}.keras"
        tool.ok("fit", path, "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 8, "--no-shuffle", "--save", after,
                "--history", tmp_path / "h.json")
        theirs = answers.fit(model, x, y, batch_size=8, epochs=1, rtol=coarse)
        ours = json.loads((tmp_path / "h.json").read_text())
        assert abs(ours["loss"][0] - theirs["loss"][0]) <= coarse * max(1, theirs["loss"][0]), f"step {step}"
        loaded = keras.models.load_model(after)
        for a, b in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
            if b.name in ("iteration", "step_counter", "dynamic_scale"):
                assert np.asarray(a) == np.asarray(b), f"step {step}: {b.path} is {np.asarray(a)}, Keras has {np.asarray(b)}"
                if b.name == "dynamic_scale":
                    scales.append(float(np.asarray(b)))
        for a, b in zip(loaded.weights, model.weights, strict=True):
            tool.assert_close(np.asarray(a), np.asarray(b), coarse, f"step {step}: {b.path}", atol=coarse / 10)
        path = after
    if scale == "overflow":
        assert scales[0] < SCALES[scale]["initial_scale"] and len(set(scales)) > 3
    if scale == "growth":
        assert scales[-1] == 8 * SCALES[scale]["initial_scale"]


@pytest.mark.parametrize("loss, activation", [("categorical_crossentropy", "softmax"), ("categorical_crossentropy", "sigmoid"),
                                              ("sparse_categorical_crossentropy", "softmax"), ("binary_crossentropy", "sigmoid")])
def test_half_outputs(loss, activation, tmp_path, request):
    """Keras converts them to float32, and then knows nothing of the logits before a softmax or sigmoid."""
    rng = tool.generator(request.node.name)
    x, classes = rng.normal(0, 1, (12, 4)).astype("float32"), rng.integers(0, 3, 12)
    y = classes if loss.startswith("sparse") else np.eye(3, dtype="float32")[classes] * (rng.random((12, 1)) < 0.7).astype("float32")
    model = keras.Sequential([keras.Input((4,)), L.Dense(3, activation, dtype="mixed_float16")])
    tool.randomise(model, rng, 1.0)
    model.compile(keras.optimizers.SGD(0.05), loss)
    model.save(tmp_path / "m.keras")
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle",
            "--history", tmp_path / "h.json")
    theirs = answers.fit(model, x, y, batch_size=4, epochs=2, rtol=4e-3)
    tool.assert_history(tool.load_history(tmp_path / "h.json"), theirs, 4e-3)


def test_compile_wraps(tmp_path):
    """Keras scales the losses of a model of the policy mixed_float16 by itself, and writes the config of the inner optimizer."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = keras.Sequential([keras.Input((4,)), L.Dense(3)])
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x = np.random.default_rng(1).normal(size=(16, 4)).astype("float32")
    y = np.random.default_rng(2).normal(size=(16, 3)).astype("float32")
    answers.fit(model, x, y, batch_size=8, epochs=1, rtol=4e-3)
    model.save(tmp_path / "m.keras")
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle", "--save", tmp_path / "o.keras")
    answers.fit(model, x, y, batch_size=8, epochs=2, rtol=4e-3)
    # What Keras reads of such a file is the inner optimizer without its state; nothing of it is lost here.
    ours = keras.models.load_model(tmp_path / "o.keras")
    inner = model.optimizer.inner_optimizer
    for a, b in zip(ours.optimizer.variables + ours.weights, inner.variables + model.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 4e-3, b.path, atol=4e-4)


def multiple(patterns):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, L.Dense(3, name="head")(L.Dense(6, "tanh", name="encoder")(inputs)))
    choice = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1, momentum=0.9))
    for pattern, optimizer in patterns.items():
        choice[pattern] = optimizer
    model.compile(keras.optimizers.MultiOptimizer(choice), "mse")
    return model


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("patterns", [
    lambda: {"encoder/.*": keras.optimizers.Adam(0.01)},
    lambda: {"encoder/kernel": keras.optimizers.RMSprop(0.01), ".*/bias": keras.optimizers.Adam(0.02, clipnorm=0.5)},
    lambda: {}], ids=["layer", "paths", "default"])
def test_multi_optimizer(patterns, tmp_path):
    """Trained by turns: Keras, the tool, Keras; every variable of every optimizer."""
    model = multiple(patterns())
    rng = tool.generator("multi")
    x, y = rng.normal(size=(16, 4)).astype("float32"), rng.normal(size=(16, 3)).astype("float32")
    answers.fit(model, x, y, batch_size=8, epochs=1)
    model.save(tmp_path / "m.keras")
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle", "--save", tmp_path / "o.keras")
    answers.fit(model, x, y, batch_size=8, epochs=2)
    ours = keras.models.load_model(tmp_path / "o.keras")
    assert ours.optimizer.get_config() == keras.models.load_model(tmp_path / "m.keras").optimizer.get_config()
    for a, b in zip(ours.optimizer.variables + ours.weights, model.optimizer.variables + model.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 1e-4, b.path, atol=1e-6)
    a = ours.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False).history["loss"]
    b = answers.fit(model, x, y, batch_size=8, epochs=1)["loss"]
    assert np.allclose(a, b, rtol=1e-4)


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
def test_multi_optimizer_checkpoints(tmp_path):
    """A fit that resumes from its checkpoint is the fit that was not interrupted."""
    model = multiple({"encoder/.*": keras.optimizers.Adam(0.01)})
    rng = tool.generator("multi_checkpoints")
    tool.save_npz(tmp_path / "d.npz", x=rng.normal(size=(16, 4)).astype("float32"), y=rng.normal(size=(16, 3)).astype("float32"))
    model.save(tmp_path / "m.keras")
    common = ["--data", tmp_path / "d.npz", "--batch-size", 8, "--seed", 3]
    tool.ok("fit", tmp_path / "m.keras", *common, "--epochs", 3, "--save", tmp_path / "whole.keras")
    tool.ok("fit", tmp_path / "m.keras", *common, "--epochs", 1, "--checkpoint-dir", tmp_path / "c")
    tool.ok("fit", tmp_path / "m.keras", *common, "--epochs", 3, "--checkpoint-dir", tmp_path / "c", "--save", tmp_path / "parts.keras")
    whole, parts = (keras.models.load_model(tmp_path / f"{name}.keras") for name in ("whole", "parts"))
    for a, b in zip(parts.optimizer.variables + parts.weights, whole.optimizer.variables + whole.weights, strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b)), b.path


@pytest.mark.parametrize("change, says", [
    (lambda c: c["optimizer_map"]["config"]["optimizer_map"].update({"(": c["optimizer_map"]["config"]["default_optimizer"]}), "not a regular expression"),
    (lambda c: c["optimizer_map"]["config"]["optimizer_map"].update({"enc.*": c["optimizer_map"]["config"]["default_optimizer"]}), "two keys"),
    (lambda c: c["optimizer_map"].pop("config"), "optimizer_map")], ids=["pattern", "twice", "config"])
def test_multi_optimizer_invalid(change, says, tmp_path):
    if tool.CONTROL:
        pytest.skip("the tool's messages")
    import zipfile
    multiple({"encoder/.*": keras.optimizers.Adam(0.01)}).save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as source, zipfile.ZipFile(tmp_path / "bad.keras", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "config.json":
                config = json.loads(content)
                change(config["compile_config"]["optimizer"]["config"])
                content = json.dumps(config)
            target.writestr(name, content)
    tool.save_npz(tmp_path / "d.npz", x=np.zeros((4, 4), "float32"), y=np.zeros((4, 3), "float32"))
    line = tool.refused("fit", tmp_path / "bad.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4)
    assert says in line, line

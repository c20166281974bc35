"""Quantized layers: models that Keras quantized and saved, and models that lockstep quantizes; predictions, files, training."""

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import answers
import lockstep_tool as tool

pytestmark = pytest.mark.usefixtures("eagerly")

L, Q = keras.layers, keras.quantizers
MODES = {
    "int8": lambda: "int8",
    "int4": lambda: "int4",
    "int8-weights": lambda: Q.Int8QuantizationConfig(activation_quantizer=None),
    "int8-range": lambda: Q.Int8QuantizationConfig(activation_quantizer=Q.AbsMaxQuantizer(value_range=(-50, 50), epsilon=1e-3)),
    "int4-blocks": lambda: Q.Int4QuantizationConfig(block_size=3),
    "int4-channels": lambda: Q.Int4QuantizationConfig(block_size=None),
    "int4-activations": lambda: Q.Int4QuantizationConfig(block_size=-1, activation_quantizer=Q.AbsMaxQuantizer()),
}


def text(dtype=None):
    x = keras.Input((6,), dtype="int32")
    table = L.ReversibleEmbedding(9, 5, tie_weights=False, logit_soft_cap=3.0, name="untied")
    tied = L.ReversibleEmbedding(9, 5, mask_zero=True, name="tied")
    h = L.Embedding(9, 7, name="embedding", dtype=dtype)(x)
    h = L.EinsumDense("abc,cde->abde", (6, 2, 5), bias_axes="de", activation="relu", name="outward", dtype=dtype)(h)
    h = L.EinsumDense("abde,def->abf", (6, 5), name="inward", dtype=dtype)(h)
    h = L.Dense(5, activation="tanh", name="dense", dtype=dtype)(h)
    if dtype:
        return keras.Model(x, h)
    return keras.Model(x, [table(L.Add()([h, table(x)]), reverse=True), tied(L.Add()([h, tied(x)]), reverse=True)])


def dense(dtype=None):
    x = keras.Input((11,))
    h = L.Dense(7, activation="relu", dtype=dtype)(x)
    y = L.Dense(4, use_bias=False, dtype=dtype)(h)
    image = L.Reshape((1, 7))(h)
    return keras.Model(x, [y, L.EinsumDense("abc,dc->adb", (3, 1), dtype=dtype)(image)])


MODELS = {"text": text, "dense": dense}


def quantized(name, mode, rng, dtype=None):
    model = MODELS[name](dtype)
    tool.randomise(model, rng, 0.4)
    how = MODES[mode]()
    model.quantize(how) if isinstance(how, str) else model.quantize(config=how)
    return model


def inputs(model, rng, n=9):
    if model.inputs[0].dtype == "int32":
        return rng.integers(0, 9, (n, 6)).astype("int32")
    return rng.normal(0, 1, (n, *model.input_shape[1:])).astype("float32")


def outputs(model, x):
    return [v.astype("float32") if v.dtype == "bfloat16" else v for v in keras.tree.flatten(model.predict(x, verbose=0))]


def configs(path):
    def plain(found):
        return {key: value for key, value in found.items() if key != "shared_object_id"}

    layers = json.loads(zipfile.ZipFile(path).read("config.json"), object_hook=plain)["config"]["layers"]
    return [layer["config"] for layer in layers]


def same(ours, theirs, rtol, what):
    assert len(ours) == len(theirs)
    for i, (a, b) in enumerate(zip(ours, theirs)):
        tool.assert_close(a, b, rtol, f"{what}: output {i}")


def same_weights(path, model):
    for a, b in zip(keras.models.load_model(path).weights, model.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 1e-6, b.path)


@pytest.mark.quick(7)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_files(name, mode, tmp_path, request):
    rng = tool.generator(request.node.name)
    model = quantized(name, mode, rng)
    x = inputs(model, rng)
    expected = outputs(model, x)
    model.save(tmp_path / "m.keras")
    model.save(tmp_path / "m.h5")
    for file in ("m.keras", "m.h5"):
        same([v for _, v in tool.predict(tmp_path / file, x, tmp_path)], expected, 1e-5, file)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "c.keras")
    assert configs(tmp_path / "c.keras") == configs(tmp_path / "m.keras")
    same_weights(tmp_path / "c.keras", model)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "c.h5")
    same_weights(tmp_path / "c.h5", model)


@pytest.mark.skipif(tool.CONTROL, reason="an option of the tool")
@pytest.mark.parametrize("name, mode, dtype", [(n, m, None) for n in MODELS for m in ("int8", "int4")] +
                         [("text", "int8", "mixed_bfloat16"), ("dense", "int4", "mixed_bfloat16")])
def test_quantize(name, mode, dtype, tmp_path, request):
    """`convert --quantize` gives the integers and scales of model.quantize()."""
    rng = tool.generator(request.node.name)
    model = MODELS[name](dtype)
    tool.randomise(model, rng, 0.4)
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "q.keras", "--quantize", mode)
    model.quantize(mode)
    model.save(tmp_path / "k.keras")
    assert configs(tmp_path / "q.keras") == configs(tmp_path / "k.keras")
    same_weights(tmp_path / "q.keras", model)
    x = inputs(model, rng)
    same([v for _, v in tool.predict(tmp_path / "q.keras", x, tmp_path)], outputs(model, x), 2e-2 if dtype else 1e-5, "predict")


@pytest.mark.skipif(tool.CONTROL, reason="an option of the tool")
def test_attention(tmp_path):
    """The projections of an attention are quantized; unlike Keras's, the file has their policies, with which Keras reads it."""
    x = keras.Input((4, 6))
    model = keras.Model(x, L.MultiHeadAttention(2, 3, name="attention")(x, x))
    rng = tool.generator("attention")
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "q.keras", "--quantize", "int8")
    model.quantize("int8")
    data = rng.normal(0, 1, (5, 4, 6)).astype("float32")
    expected = model.predict(data, verbose=0)
    tool.assert_close(tool.predict(tmp_path / "q.keras", data, tmp_path, single=True)[0][1], expected, 1e-5)
    tool.assert_close(keras.models.load_model(tmp_path / "q.keras").predict(data, verbose=0), expected, 1e-5)


@pytest.mark.quick(3)
@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("mode", ["int8", "int4-blocks", "int4-activations"])
@pytest.mark.parametrize("rank", [None, 2])
def test_training(mode, rank, tmp_path, request):
    """Gradients pass through the floating kernels; with LoRA, which an .h5 keeps, its matrices are trained."""
    rng = tool.generator(request.node.name)
    x = keras.Input((5, 6))
    h = L.Dense(4, activation="tanh")(L.EinsumDense("abc,cd->abd", (5, 6), bias_axes="d")(L.Dense(6, activation="relu")(x)))
    model = keras.Model(x, L.Dense(2)(L.Flatten()(h)))
    tool.randomise(model, rng, 0.4)
    how = MODES[mode]()
    model.quantize(how) if isinstance(how, str) else model.quantize(config=how)
    if rank:
        for layer in model.layers:
            if hasattr(layer, "enable_lora"):
                layer.enable_lora(rank, lora_alpha=3)
        for weight in model.weights:
            if "lora" in weight.path:
                weight.assign(rng.normal(0, 0.3, weight.shape))
    data, y = rng.normal(0, 1, (20, 5, 6)).astype("float32"), rng.normal(0, 1, (20, 2)).astype("float32")
    model.save(tmp_path / "start.h5")
    model = keras.models.load_model(tmp_path / "start.h5", compile=False)
    tool.save_npz(tmp_path / "d.npz", x=data, y=y)
    tool.ok("fit", tmp_path / "start.h5", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
            "--optimizer", "adam", "--loss", "mean_squared_error", "--save", tmp_path / "ours.h5")
    model.compile("adam", "mean_squared_error")
    answers.fit(model, data, y, epochs=2, batch_size=8)
    for a, b in zip(keras.models.load_model(tmp_path / "ours.h5", compile=False).weights, model.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 2e-4, b.path, atol=2e-6)
    # Keras adds LoRA's part to the integers that it saves.
    tool.ok("convert", tmp_path / "start.h5", tmp_path / "ours.keras")
    keras.models.load_model(tmp_path / "start.h5").save(tmp_path / "theirs.keras")
    ours, theirs = (keras.models.load_model(tmp_path / f"{name}.keras") for name in ("ours", "theirs"))
    for a, b in zip(ours.weights, theirs.weights, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), 1e-6, b.path)


@pytest.mark.quick(2)
@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("form", ["length", "name", "quantized", "mixed_float16"])
def test_float8(form, tmp_path, request):
    """Predictions, files and training with the scales that follow from past steps; `convert --quantize`."""
    rng = tool.generator(request.node.name)
    policy = {"length": keras.dtype_policies.QuantizedFloat8DTypePolicy("float8", "float32", amax_history_length=5),
              "name": "float8_from_float32", "mixed_float16": "float8_from_mixed_float16"}.get(form)
    x = keras.Input((4, 8))
    h = L.EinsumDense("abc,cd->abd", (4, 3), bias_axes="d", activation="tanh", dtype=policy)(L.Dense(6, activation="relu", dtype=policy)(x))
    h = L.EinsumDense("abc,cde->abde", (4, 3, 2), bias_axes="de", dtype=policy)(h)
    model = keras.Model(x, L.Dense(2, use_bias=False, dtype=policy)(L.Flatten()(h)))
    tool.randomise(model, rng)
    if form == "quantized":
        model.save(tmp_path / "plain.keras")
        tool.ok("convert", tmp_path / "plain.keras", tmp_path / "q.keras", "--quantize", "float8")
        model.quantize("float8")
        model.save(tmp_path / "m.keras")
        assert configs(tmp_path / "q.keras") == configs(tmp_path / "m.keras")
        same_weights(tmp_path / "q.keras", keras.models.load_model(tmp_path / "m.keras"))
    for weight in model.weights:
        if weight.path.endswith("scale"):
            weight.assign(rng.uniform(0.001, 0.02))
        elif weight.path.endswith("history"):
            weight.assign(rng.uniform(0, 3, weight.shape))
    rtol = 2e-2 if form == "mixed_float16" else 2e-4
    data, y = rng.normal(0, 1, (12, 4, 8)).astype("float32"), rng.normal(0, 1, (12, 2)).astype("float32")
    model.compile("adam", "mean_squared_error", auto_scale_loss=False)
    model.save(tmp_path / "m.keras")
    same([tool.predict(tmp_path / "m.keras", data, tmp_path, single=True)[0][1]], outputs(model, data), rtol, "predict")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "c.keras")
    assert configs(tmp_path / "c.keras") == configs(tmp_path / "m.keras")
    model = keras.models.load_model(tmp_path / "m.keras")
    same_weights(tmp_path / "c.keras", model)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "c.h5")
    same_weights(tmp_path / "c.h5", model)
    tool.save_npz(tmp_path / "d.npz", x=data, y=y)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 3, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "f.keras")
    tf.config.run_functions_eagerly(False)  # where Keras cannot differentiate its float8 layers
    answers.fit(model, data, y, epochs=3, batch_size=4)
    ours = keras.models.load_model(tmp_path / "f.keras")
    for a, b in zip(ours.weights + ours.optimizer.variables, model.weights + model.optimizer.variables, strict=True):
        tool.assert_close(np.asarray(a), np.asarray(b), rtol * 2, b.path, atol=2e-6)


@pytest.mark.skipif(tool.CONTROL, reason="Keras's own exports need TensorFlow's kernels for int8")
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_export(mode, tmp_path, request):
    rng = tool.generator(request.node.name)
    model = quantized("text", mode, rng)
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    x = inputs(model, rng)
    loaded = tf.saved_model.load(str(tmp_path / "sm"))
    got = loaded.signatures["serving_default"](tf.constant(x))
    same([got[f"output_{i}"].numpy() for i in range(len(got))], outputs(model, x), 1e-5, "exported")


def test_unknown_modes_are_named(tmp_path):
    if tool.CONTROL:
        pytest.skip("messages of the tool")
    model = quantized("dense", "int8", tool.generator("modes"))
    model.save(tmp_path / "m.keras")
    for policy, message in (({"mode": "int3", "source_name": "float32"}, "int3"), ({"mode": "int4/0", "source_name": "float32"}, "block size '0'"),
                            ({"mode": "int8", "source_name": "float16"}, "float16"), ({"mode": "int4/9/9", "source_name": "float32"}, "9/9")):
        with zipfile.ZipFile(tmp_path / "m.keras") as source, zipfile.ZipFile(tmp_path / "changed.keras", "w") as target:
            for name in source.namelist():
                data = source.read(name)
                if name == "config.json":
                    tree = json.loads(data)
                    tree["config"]["layers"][1]["config"]["dtype"]["config"] = policy
                    data = json.dumps(tree).encode()
                target.writestr(name, data)
        np.save(tmp_path / "x.npy", np.ones((2, 11), "float32"))
        line = tool.refused("predict", tmp_path / "changed.keras", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        assert message in line, line

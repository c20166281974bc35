"""Random models of wide_models.py: predictions, files in both directions, and training with optimizers of all arguments."""

import keras
import numpy as np
import pytest
import tf_keras

import lockstep_tool as tool
import random_models
import wide_models
from test_random_models import arrays_for

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras would be compared with itself")


def as_given(model, arrays):
    """The data in the structure of the model's inputs."""
    if isinstance(model, keras.Model):
        return keras.tree.map_structure(lambda t: arrays[t.name], model._inputs_struct)
    values = arrays if isinstance(model.input, dict) else list(arrays.values())
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def compare(ours, theirs, what, rtol):
    assert len(ours) == len(theirs), what
    for index, (a, b) in enumerate(zip(ours, theirs)):
        if rtol > 1e-3:
            a, b = a.astype("float32"), b.astype("float32")
        tool.assert_close(a, b, rtol, f"{what}, output {index}", atol=2e-6)


def drawn(module, name, number):
    """A random model with random weights; None where Keras itself does not build or call it."""
    rng = tool.generator(name, number)
    try:
        model, data = wide_models.make(module, rng)
        model.set_weights([v if v.dtype.kind != "f" or "seed" in w.name else np.abs(rng.normal(0, 0.4, v.shape)) + 0.5 if "variance" in w.name or "gamma" in w.name else
                           rng.normal(0, 0.4, v.shape) for w, v in zip(model.weights, model.get_weights())])
        x = data(5)
        wanted = random_models.arrays_of(model(as_given(model, x), training=False))
    except Exception as problem:
        pytest.skip(f"not a model for Keras itself: {problem}")
    return model, data, x, wanted


def is_nested(structure):
    parts = structure.values() if isinstance(structure, dict) else structure if isinstance(structure, (list, tuple)) else []
    return any(isinstance(part, (dict, list, tuple)) for part in parts)


def policies(model):
    return {layer.dtype_policy.compute_dtype for layer in model._flatten_layers()}


def check_keras_3(number, tmp_path):
    keras.utils.set_random_seed(number)
    model, data, x, wanted = drawn(keras, "wide models", number)
    half = "bfloat16" in policies(model)
    rtol = 0.1 if half else 2e-5
    model.save(tmp_path / "m.keras")
    compare([v for _, v in tool.predict(tmp_path / "m.keras", x, tmp_path)], wanted, "predict", rtol)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
    again = keras.models.load_model(tmp_path / "r.keras")
    compare(random_models.arrays_of(again(as_given(again, x), training=False)), wanted, "written again", 1e-6)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.weights.h5")
    fresh = keras.models.model_from_json(model.to_json())
    fresh.load_weights(tmp_path / "r.weights.h5")
    compare(random_models.arrays_of(fresh(as_given(fresh, x), training=False)), wanted, "weights", 1e-6)
    if half or is_nested(model._inputs_struct) or is_nested(model._outputs_struct):
        return
    # Three steps of training.
    names = sorted(model.output) if isinstance(model.output, dict) else model.output_names
    rng = tool.generator("wide targets", number)
    model.compile(wide_models.optimizer(keras, rng), **random_models.losses(names, rng, isinstance(model.output, dict)), run_eagerly=True)
    model.save(tmp_path / "m.keras")
    keras.utils.set_random_seed(5)
    model = keras.models.load_model(tmp_path / "m.keras")
    x = data(12)
    y = [rng.normal(0, 1, (12, *v.shape[1:])).astype("float32") for v in wanted]
    weights = {"sample_weight": rng.uniform(0, 2, 12).astype("float32")} if rng.random() < 0.3 else {}
    try:
        model.fit(as_given(model, x), dict(zip(names, y)) if isinstance(model.output, dict) else y if len(y) > 1 else y[0], batch_size=4, shuffle=True, verbose=0, **weights)
    except Exception as problem:
        pytest.skip(f"not trained by Keras itself: {problem}")
    tool.save_npz(tmp_path / "d.npz", **arrays_for(model, x, names, y), **weights)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4, "--seed", 5, "--save", tmp_path / "o.keras")
    trained = keras.models.load_model(tmp_path / "o.keras")
    what = f"{type(model.optimizer).__name__} {model.optimizer.get_config()}"
    for ours, theirs in zip(trained.weights, model.weights, strict=True):
        if "seed" not in theirs.path:
            tool.assert_close(np.asarray(ours), np.asarray(theirs), 1e-3, f"{theirs.path} after {what}", atol=5e-5)


def check_keras_2(number, tmp_path):
    tf_keras.utils.set_random_seed(number)
    model, data, x, wanted = drawn(tf_keras, "wide models of tf-keras", number)
    names = sorted(model.output) if isinstance(model.output, dict) else model.output_names
    rng = tool.generator("wide targets of tf-keras", number)
    model.compile(tf_keras.optimizers.SGD(0.01), **random_models.losses(names, rng, isinstance(model.output, dict)))
    for name in ("m.h5", "m.keras"):
        try:
            model.save(tmp_path / name)
            tf_keras.models.load_model(tmp_path / name, compile=False)
        except Exception as problem:
            pytest.skip(f"not saved by Keras itself: {problem}")
        compare([v for _, v in tool.predict(tmp_path / name, x, tmp_path)], wanted, name, 2e-5)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "r.h5")
    again = tf_keras.models.load_model(tmp_path / "r.h5", compile=False)
    compare(random_models.arrays_of(again(as_given(again, x), training=False)), wanted, "written again", 1e-6)


@pytest.mark.parametrize("number", range(100 if tool.CONFORMANCE else 1))
def test_models_of_keras_3(number, tmp_path):
    check_keras_3(number, tmp_path)


@pytest.mark.parametrize("number", range(60 if tool.CONFORMANCE else 1))
def test_models_of_keras_2(number, tmp_path):
    check_keras_2(number, tmp_path)

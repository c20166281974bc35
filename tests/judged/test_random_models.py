"""Random functional models (random_models.py): predictions, files in both directions and training against Keras 3 and tf-keras."""

import keras
import numpy as np
import pytest
import tf_keras

import lockstep_tool as tool
import random_models
import stored

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras would be compared with itself")


def as_given(model, arrays):
    """The data in the structure of the model's inputs."""
    values = arrays if isinstance(model.input, dict) else list(arrays.values())
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def compare(ours, theirs, what, rtol=2e-5):
    assert len(ours) == len(theirs), what
    for index, (a, b) in enumerate(zip(ours, theirs)):
        tool.assert_close(a, b, rtol, f"{what}, output {index}", atol=2e-6)


def arrays_for(model, x, names, y):
    """Training data as `lockstep fit` takes them."""
    arrays = {f"x_{name}": v for name, v in x.items()} if len(x) > 1 or isinstance(model.input, dict) else {"x": next(iter(x.values()))}
    named = isinstance(model.output, dict) or len(y) > 1
    return {**arrays, **({f"y_{name}": v for name, v in zip(names, y)} if named else {"y": y[0]})}


def drawn(module, name, number):
    """A random model with random weights; None where Keras itself does not build or call it."""
    rng = tool.generator(name, number)
    try:
        model, data = random_models.make(module, rng)
        model.set_weights([np.abs(rng.normal(0, 0.4, v.shape)) + 0.5 if "variance" in w.name or "gamma" in w.name else
                           v if "seed" in w.name else rng.normal(0, 0.4, v.shape) for w, v in zip(model.weights, model.get_weights())])
        x = data(5)
        wanted = random_models.arrays_of(model(as_given(model, x), training=False))
    except Exception:
        return None
    return model, data, x, wanted


@pytest.mark.parametrize("number", range(100 if tool.CONFORMANCE else 3))
def test_models_of_keras_3(number, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()

    def written():
        keras.utils.set_random_seed(number)
        model, data, x, wanted = drawn(keras, "random models", number) or [None] * 4
        if model is None:
            return None
        names = sorted(model.output) if isinstance(model.output, dict) else model.output_names
        named = isinstance(model.output, dict)
        rng = tool.generator("targets", number)
        model.compile(keras.optimizers.SGD(0.01), **random_models.losses(names, rng, named), run_eagerly=True)
        model.save(folder / "m.keras")
        # Three steps of training.
        keras.utils.set_random_seed(5)
        model = keras.models.load_model(folder / "m.keras")
        more = data(12)
        y = [rng.normal(0, 1, (12, *v.shape[1:])).astype("float32") for v in wanted]
        weights = {name: rng.uniform(0, 2, 12).astype("float32") for name in names} if named and rng.random() < 0.5 else {}
        model.fit(as_given(model, more), dict(zip(names, y)) if named else y if len(y) > 1 else y[0], batch_size=4, shuffle=True, verbose=0,
                  sample_weight=weights or None)
        tool.save_npz(folder / "d.npz", **arrays_for(model, more, names, y), **{f"sample_weight_{name}": value for name, value in weights.items()})
        return x, wanted, [[v.path, np.asarray(v)] for v in model.weights]

    def again():
        model = keras.models.load_model(tmp_path / "r.keras")
        return random_models.arrays_of(model(as_given(model, x), training=False))

    given = stored.original(written, folder, rtol=1e-3)
    if given is None:
        pytest.skip("Keras itself refuses: the model or its training")
    x, wanted, trained = given
    compare([v for _, v in tool.predict(folder / "m.keras", x, tmp_path)], wanted, "predict")
    tool.ok("convert", folder / "m.keras", tmp_path / "r.keras")
    compare(stored.original(again, files=[tmp_path / "r.keras"]), wanted, "written again", 1e-6)
    tool.ok("fit", folder / "m.keras", "--data", folder / "d.npz", "--epochs", 1, "--batch-size", 4, "--seed", 5, "--save", tmp_path / "o.keras")
    for ours, (path, theirs) in zip(stored.weights(keras, tmp_path / "o.keras"), trained, strict=True):
        if "seed" not in path:
            tool.assert_close(ours, theirs, 1e-3, path, atol=2e-5)


# 3008 and 6015 have masks: Keras 3 counts the operations that compute them among the depths that order layers, Keras 2 has none.
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("number", [*range(60 if tool.CONFORMANCE else 1), 3008, 6007, 6015])
def test_models_of_keras_2(number, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()

    def written():
        tf_keras.utils.set_random_seed(number)
        model, data, x, wanted = drawn(tf_keras, "random models of tf-keras", number) or [None] * 4
        if model is None:
            return None
        names = sorted(model.output) if isinstance(model.output, dict) else model.output_names
        named = isinstance(model.output, dict)
        rng = tool.generator("targets of tf-keras", number)
        model.compile(tf_keras.optimizers.SGD(0.01), **random_models.losses(names, rng, named))
        for name in ("m.h5", "m.keras"):
            model.save(folder / name)
        # Three steps of training; the random numbers of tf-keras are not lockstep's.
        more = data(12)
        y = [rng.normal(0, 1, (12, *v.shape[1:])).astype("float32") for v in wanted]
        model = tf_keras.models.load_model(folder / "m.h5")
        try:
            model.fit(as_given(model, more), dict(zip(names, y)) if named else y if len(y) > 1 else y[0], batch_size=4, shuffle=False, verbose=0)
        except Exception:  # a pooling layer of nothing is computed, but has no gradient
            return None
        tool.save_npz(folder / "d.npz", **arrays_for(model, more, names, y))
        return x, wanted, [[v.name, np.asarray(v)] for v in model.weights]

    def again():
        model = tf_keras.models.load_model(tmp_path / "r.h5", compile=False)
        return random_models.arrays_of(model(as_given(model, x), training=False))

    given = stored.original(written, folder, rtol=1e-3)
    if given is None:
        pytest.skip("Keras itself refuses: the model or its training")
    x, wanted, trained = given
    for name in ("m.h5", "m.keras"):
        compare([v for _, v in tool.predict(folder / name, x, tmp_path)], wanted, name)
    tool.ok("convert", folder / "m.h5", tmp_path / "r.h5")
    compare(stored.original(again, files=[tmp_path / "r.h5"]), wanted, "written again", 1e-6)
    tool.ok("fit", folder / "m.h5", "--data", folder / "d.npz", "--epochs", 1, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "o.h5")
    for ours, (name, theirs) in zip(stored.weights(tf_keras, tmp_path / "o.h5"), trained, strict=True):
        tool.assert_close(ours, theirs, 1e-3, name, atol=2e-5)

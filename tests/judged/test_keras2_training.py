"""Training of models of Keras 2 (.h5, .keras, SavedModels): tf-keras and lockstep train on from files as the first model does, whatever
its optimizer, losses and metrics."""

import json
import shutil

import h5py
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import lockstep_tool as tool
import stored
from keras2_models import randomised, VECTOR

pytestmark = pytest.mark.usefixtures("eagerly")
L = tf_keras.layers

OPTIMIZERS = [("SGD", {"learning_rate": "schedule"}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {"clipnorm": 0.5}), ("Adam", {"amsgrad": True}),
              ("Adam", {"learning_rate": "schedule"}), ("RMSprop", {}), ("RMSprop", {"momentum": 0.9, "centered": True}),
              ("Adagrad", {}), ("Adadelta", {}), ("Adamax", {}), ("Ftrl", {}), ("AdamW", {}), ("Lion", {}), ("Adafactor", {}),
              ("SGD", {"weight_decay": 0.01}), ("Adam", {"use_ema": True}), ("Adagrad", {"learning_rate": "schedule"})]
FIRST = [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("Adam", {"amsgrad": True, "decay": 0.01}), ("Adagrad", {}),
         ("Adadelta", {}), ("Adamax", {}), ("Ftrl", {}), ("RMSprop", {}), ("RMSprop", {"momentum": 0.9, "centered": True}),
         ("RMSprop", {"centered": True, "epsilon": 0.01}), ("Nadam", {}), ("Adagrad", {"epsilon": 0.1}), ("Adagrad", {"decay": 0.3}),
         ("Adam", {"learning_rate": "schedule", "decay": 0.2}), ("SGD", {"learning_rate": "schedule", "momentum": 0.8, "decay": 0.1})]


@pytest.mark.quick(8)
@pytest.mark.parametrize("legacy", [False, True], ids=["optimizers", "legacy"])
@pytest.mark.parametrize("number", range(max(len(OPTIMIZERS), len(FIRST))))
def test_training_continues(legacy, number, tmp_path):
    """tf-keras trains, saves; lockstep converts; tf-keras and lockstep train on as the first model does."""
    rows = FIRST if legacy else OPTIMIZERS
    if number >= len(rows):
        return
    name, kwargs = rows[number]
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}

    def written():
        rng = tool.generator("keras2", "training", name, number, legacy)
        given = dict({"learning_rate": 0.02}, **kwargs)
        if given["learning_rate"] == "schedule":
            given["learning_rate"] = tf_keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.7)
        model = randomised(tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(6, "tanh"), L.BatchNormalization(), L.Dense(3)]), rng)
        model.compile(getattr(tf_keras.optimizers.legacy if legacy else tf_keras.optimizers, name)(**given), "mse", metrics=["mae"])
        x, y = rng.normal(0, 1, (24, *VECTOR)).astype("float32"), rng.normal(0, 1, (24, 3)).astype("float32")
        model.fit(x, y, epochs=2, **options)
        model.save(tmp_path / "m.h5")
        if not legacy:
            model.save(tmp_path / "m.keras")
        model.fit(x, y, epochs=2, **options)
        return x, y, model.get_weights()

    def continued():
        again = tf_keras.models.load_model(tmp_path / "out.h5")
        again.fit(x, y, epochs=2, **options)
        return again.get_weights()

    x, y, wanted = stored.original(written, tmp_path)
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.h5")
    if not tool.CONTROL:
        tool.save_npz(tmp_path / "train.npz", x=x, y=y)
        for file in ["m.h5"] if legacy else ["m.h5", "m.keras"]:
            tool.ok("fit", tmp_path / file, "--data", tmp_path / "train.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
                    "--save", tmp_path / "fit.h5")
            for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "fit.h5"), wanted, strict=True):
                tool.assert_close(ours, theirs, 2e-5, f"{name}, {file}", atol=1e-6)
    for ours, theirs in zip(stored.original(continued, files=[tmp_path / "out.h5"]), wanted, strict=True):
        tool.assert_close(ours, theirs, 2e-5, name, atol=1e-6)


O2, M2 = tf_keras.optimizers, tf_keras.metrics
# Files of compiled models, fitted before or not; optimizer, loss, metrics.
COMPILED = [
    ("m.h5", False, lambda: O2.Adadelta(0.5, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
     lambda: tf_keras.losses.Huber(0.3, reduction="none"), lambda: ["MAE", "AUC", "cosine_similarity", M2.MeanRelativeError([1.0, 0.5, 2.0])]),
    ("m.keras", False, lambda: O2.SGD(0.1, momentum=0.5, clipnorm=0.1, clipvalue=0.02), lambda: tf_keras.losses.Huber(0.3),
     lambda: ["MAE", "AUC", M2.MeanRelativeError([1.0, 0.5, 2.0])]),
    ("m.keras", False, lambda: O2.legacy.Adagrad(0.1, clipnorm=0.1, clipvalue=0.02), lambda: "mse", lambda: ["acc", "Precision", "mse"]),
    ("served", True, lambda: O2.legacy.Nadam(0.02), lambda: tf_keras.losses.CosineSimilarity(axis=0), lambda: ["hinge"]),
]


@pytest.mark.parametrize(("name", "fitted", "optimizer", "loss", "metrics"), COMPILED, ids=range(len(COMPILED)))
def test_compiled_models(name, fitted, optimizer, loss, metrics, tmp_path):
    """Training, its history and the names of metrics are those of tf-keras, which reads the same from what is written."""
    options = {"batch_size": 4, "shuffle": False, "verbose": 0}

    def written():
        rng = tool.generator("keras2", "compiled", name, fitted)
        model = randomised(tf_keras.Sequential([L.InputLayer((5,), dtype="int32"), L.Embedding(9, 4), L.Flatten(), L.Dense(3, "sigmoid")]), rng)
        model.compile(optimizer(), loss(), metrics=metrics())
        x, y = rng.integers(0, 9, (11, 5)).astype("int32"), rng.integers(0, 2, (11, 3)).astype("float32")
        if fitted:
            model.fit(x, y, epochs=1, **options)
        model.save(tmp_path / name, **({"save_format": "tf"} if name == "served" else {}))
        return x, y, model.fit(x, y, epochs=2, **options).history, model.get_weights(), model.evaluate(x, y, batch_size=4, verbose=0, return_dict=True)

    x, y, history, weights, evaluated = stored.original(written, tmp_path)
    if tool.CONTROL:
        return
    tool.save_npz(tmp_path / "train.npz", x=x, y=y)
    tool.ok("fit", tmp_path / name, "--data", tmp_path / "train.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle",
            "--save", tmp_path / "fit.h5", "--history", tmp_path / "h.json")
    tool.assert_history(tool.load_history(tmp_path / "h.json"), dict(sorted(history.items())))
    trained = tf_keras.models.load_model(tmp_path / "fit.h5")
    for ours, wanted in zip(trained.get_weights(), weights, strict=True):
        tool.assert_close(ours, wanted, 1e-4, name, atol=1e-6)
    read = trained.evaluate(x, y, batch_size=4, verbose=0, return_dict=True)
    assert list(read) == list(evaluated)
    np.testing.assert_allclose(list(read.values()), list(evaluated.values()), rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("name", ["m.h5", "m.keras", "served"])
@pytest.mark.parametrize("legacy", [False, True], ids=["optimizers", "legacy"])
def test_scaled_losses(legacy, name, tmp_path):
    """A step whose gradients overflow counts in Keras 2. Only SavedModels hold the scale; of .h5 files tf-keras itself
    does not read the state of such an optimizer."""
    if legacy and name == "m.keras":
        return  # tf-keras does not write the state
    def written():
        rng = tool.generator("keras2", "scaled", name, legacy)
        model = randomised(tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(6, "tanh", dtype="mixed_float16"), L.Dense(3)]), rng)
        optimizer = (O2.legacy if legacy else O2).Adam(0.02)
        model.compile(tf_keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=2.0**22, dynamic_growth_steps=3), "mse")
        x, y = rng.normal(0, 1, (24, *VECTOR)).astype("float32"), rng.normal(0, 1, (24, 3)).astype("float32")
        options = {"batch_size": 4, "shuffle": False, "verbose": 0}
        model.fit(x, y, epochs=1, **options)
        assert float(model.optimizer.loss_scale) < 2.0**22
        model.save(tmp_path / name, **({"save_format": "tf"} if name == "served" else {}))
        if name != "served":
            scale = model.optimizer._loss_scale
            scale.current_loss_scale.assign(2.0**22)
            scale.counter.assign(0)
        model.fit(x, y, epochs=2, **options)
        return x, y, type(model.optimizer).__name__, model.get_weights()

    def read():
        return type(tf_keras.models.load_model(tmp_path / "out.h5").optimizer).__name__

    x, y, kind, weights = stored.original(written, tmp_path, rtol=4e-3)
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("convert", tmp_path / name, tmp_path / "out.h5")
    tool.ok("fit", tmp_path / name, "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "fit.h5")
    trained = tf_keras.models.load_model(tmp_path / "fit.h5")
    assert stored.original(read, files=[tmp_path / "out.h5"]) == type(trained.optimizer).__name__ == kind
    for ours, theirs in zip(trained.get_weights(), weights, strict=True):
        tool.assert_close(ours, theirs, 4e-3, name)


@pytest.mark.parametrize("names", [["Adam/iterations:0", *[f"training/Adam/Variable_{i}:0" for i in range(3 * 4)]],
                                   ["/iterations", *[f"param_{i}" for i in range(1, 2 * 4 + 1)]],
                                   ["Variable:0", *[f"Variable_{i}:0" for i in range(1, 2 * 4 + 1)]]], ids=["2.2.4", "2.0.4-theano", "1.2.2"])
def test_state_of_keras_before_tensorflow_2(names, tmp_path):
    """Keras 2.2.4 named slots without their kind; with Theano variables had no scope, so h5py took a name for an absolute path. Keras 1
    gave variables no names, and counted its steps in float32."""
    def written():
        rng = tool.generator("keras2", "standalone")
        model = randomised(tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(6, "tanh"), L.Dense(3)]), rng)
        model.compile(tf_keras.optimizers.legacy.Adam(0.01), "mse")
        x, y = rng.normal(0, 1, (24, *VECTOR)).astype("float32"), rng.normal(0, 1, (24, 3)).astype("float32")
        options = {"batch_size": 8, "shuffle": False, "verbose": 0}
        model.fit(x, y, epochs=2, **options)
        model.save(tmp_path / "m.h5")
        model.fit(x, y, epochs=2, **options)
        return x, y, model.get_weights()

    x, y, wanted = stored.original(written, tmp_path)
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file.attrs["keras_version"] = b"2.2.4"
        group = file["optimizer_weights"]
        values = [group[n][()] for n in group.attrs["weight_names"]]
        del file["optimizer_weights"]
        group = file.create_group("optimizer_weights")
        values[0] = values[0].astype("float32" if names[0] == "Variable:0" else "int64")
        for name, value in zip(names, [*values, *[np.zeros(1, "float32")] * 4]):
            group.create_dataset(name, data=value)
        group.attrs["weight_names"] = [name.encode() for name in names]
        config = json.loads(file.attrs["training_config"])
        config["optimizer_config"] = {"class_name": "Adam", "config": {
            "lr": 0.01, "beta_1": 0.9, "beta_2": 0.999, "decay": 0.0, "epsilon": 1e-07, "amsgrad": False}}
        file.attrs["training_config"] = json.dumps(config).encode()
    if tool.CONTROL:
        return
    tool.save_npz(tmp_path / "train.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "train.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
            "--save", tmp_path / "fit.h5")
    for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "fit.h5"), wanted, strict=True):
        tool.assert_close(ours, theirs, 2e-5, atol=1e-6)


STANDALONE = [("SGD", dict(momentum=0.9, nesterov=True), {}), ("RMSprop", dict(rho=0.8, epsilon=1e-7), {}), ("Adagrad", dict(epsilon=1e-7), {}),
              ("Adadelta", dict(rho=0.9, epsilon=1e-7), {}), ("Adamax", dict(beta_1=0.9, beta_2=0.99, epsilon=1e-8), {}),
              ("Nadam", dict(beta_1=0.9, beta_2=0.99, epsilon=1e-8), dict(schedule_decay=0.01)),
              ("Adam", dict(beta_1=0.9, beta_2=0.99, epsilon=1e-8, amsgrad=True), dict(clipnorm=0.3)), ("SGD", dict(momentum=0.0), dict(clipvalue=0.1))]


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.quick(4)
@pytest.mark.parametrize("number", range(len(STANDALONE)))
def test_optimizers_of_keras_before_tensorflow_2(number, tmp_path):
    """Keras until 2.3 clipped by the norm of all gradients, and its Adagrad began with zeros; its configs have no names."""
    kind, arguments, more = STANDALONE[number]

    def written():
        rng = tool.generator("keras2", "optimizers of 2.2", number)
        model = randomised(tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(6, "tanh"), L.Dense(3)]), rng)
        given = {"decay": 0.0 if "schedule_decay" in more else 0.1, **arguments, **({"initial_accumulator_value": 0.0} if kind == "Adagrad" else {})}
        given.update({{"clipnorm": "global_clipnorm", "schedule_decay": "schedule_decay"}.get(k, k): v for k, v in more.items()})
        model.compile(getattr(tf_keras.optimizers.legacy, kind)(0.05, **given), "mse")
        model.save(tmp_path / "m.h5")
        x, y = rng.normal(0, 1, (24, *VECTOR)).astype("float32"), rng.normal(0, 1, (24, 3)).astype("float32")
        model.fit(x, y, epochs=3, batch_size=8, shuffle=False, verbose=0)
        return x, y, model.get_weights()

    x, y, wanted = stored.original(written, tmp_path)
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file.attrs["keras_version"] = b"2.2.4"
        config = json.loads(file.attrs["training_config"])
        decay = {} if kind == "Nadam" else {"decay": 0.1}
        config["optimizer_config"] = {"class_name": kind, "config": {"lr": 0.05, **decay, **arguments, **more}}
        file.attrs["training_config"] = json.dumps(config).encode()
    tool.save_npz(tmp_path / "train.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "train.npz", "--epochs", 3, "--batch-size", 8, "--no-shuffle", "--save", tmp_path / "fit.h5")
    for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "fit.h5"), wanted, strict=True):
        tool.assert_close(ours, theirs, 2e-5, kind, atol=1e-6)


@pytest.mark.parametrize("one", [False, True], ids=["several", "one"])
def test_accuracy_of_a_file_without_training(one, tmp_path):
    """tf-keras writes "accuracy" of a model that saw no targets as categorical_accuracy, and reads it so: of class numbers the first
    class counts as right."""
    def written():
        rng = tool.generator("accuracy without training", one)
        x = tf_keras.Input(VECTOR)
        ends = [L.Dense(3, "softmax", name="a")(x), L.Dense(2, name="b")(x)]
        model = randomised(tf_keras.Model(x, ends[0] if one else ends), rng)
        loss = "sparse_categorical_crossentropy"
        model.compile("sgd", loss if one else {"a": loss, "b": "mse"}, metrics=["accuracy"] if one else {"a": ["accuracy"]})
        model.save(tmp_path / "m.h5")
        values, classes = rng.normal(0, 1, (20, *VECTOR)).astype("float32"), rng.integers(0, 3, 20)
        other = rng.normal(0, 1, (20, 2)).astype("float32")
        tool.save_npz(tmp_path / "d.npz", x=values, **({"y": classes} if one else {"y_a": classes, "y_b": other}))
        model = tf_keras.models.load_model(tmp_path / "m.h5")
        return model.evaluate(values, classes if one else [classes, other], batch_size=8, verbose=0, return_dict=True)

    wanted = stored.original(written, tmp_path)
    found = json.loads(tool.ok("evaluate", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--batch-size", 8, "--json"))
    assert found == pytest.approx(wanted, 1e-5)


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("loss", ["binary_crossentropy", "binary_focal_crossentropy"])
def test_logarithms_of_probabilities_beyond_0_and_1(loss, tmp_path):
    """Keras 2 adds epsilon to clipped probabilities before it takes logarithms, in losses and in metrics."""
    def written():
        tf.config.run_functions_eagerly(False)  # graphs round other sums
        rng = tool.generator("probabilities", loss)
        model = randomised(tf_keras.Sequential([L.InputLayer((4,)), L.Dense(2)]), rng)
        model.compile("sgd", loss, metrics=["binary_crossentropy"])
        model.save(tmp_path / "m.h5")
        x, y = rng.normal(0, 3, (12, 4)).astype("float32"), rng.integers(0, 2, (12, 2)).astype("float32")
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        return model.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0).history

    wanted = stored.original(written, tmp_path)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--history", tmp_path / "h.json")
    found = json.loads((tmp_path / "h.json").read_text())
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, 1e-5, err_msg=key)


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("legacy", [False, True])
def test_a_scale_of_the_loss_that_does_not_change(legacy, tmp_path):
    """LossScaleOptimizer(dynamic=False), FixedLossScale until TensorFlow 2.3: gradients that are not finite are applied too."""
    def written():
        tf_keras.utils.set_random_seed(1)
        L, module = tf_keras.layers, tf_keras.optimizers.legacy if legacy else tf_keras.optimizers
        model = tf_keras.Sequential([tf_keras.Input((4,)), L.Dense(3, "tanh"), L.Dense(1)])
        model.compile(tf_keras.mixed_precision.LossScaleOptimizer(module.Adam(0.01), dynamic=False, initial_scale=16.0), "mse")
        model.save(tmp_path / "m.h5")
        model.save(tmp_path / "m", save_format="tf")
        rng = tool.generator("fixed scale")
        x, y = rng.normal(0, 1, (12, 4)).astype("float32"), rng.normal(0, 1, (12, 1)).astype("float32")
        y[8] = np.inf
        tool.save_npz(tmp_path / "d.npz", x=x, y=y)
        tool.save_npz(tmp_path / "finite.npz", x=x[:8], y=y[:8])
        model.fit(x[:8], y[:8], epochs=2, batch_size=4, shuffle=False, verbose=0)
        weights = [np.asarray(w) for w in model.weights]
        model.fit(x, y, epochs=1, batch_size=4, shuffle=False, verbose=0)
        return weights, bool(np.isfinite(np.asarray(model.weights[0])).any())

    def again_of(path):
        config = tf_keras.models.load_model(path).optimizer.get_config()
        return [config[key] for key in ("dynamic", "initial_scale", "dynamic_growth_steps")]

    def again():
        return again_of(tmp_path / "o.h5")

    def old():
        return again_of(tmp_path / "old.h5")

    trained, finite = stored.original(written, tmp_path)
    shutil.copy(tmp_path / "m.h5", tmp_path / "old.h5")
    with h5py.File(tmp_path / "old.h5", "a") as file:
        training = json.loads(file.attrs["training_config"])
        inner = training["optimizer_config"]["config"]["inner_optimizer"]
        scale = {"class_name": "FixedLossScale", "config": {"loss_scale_value": 16.0}}
        training["optimizer_config"] = {"class_name": "LossScaleOptimizer", "config": {"optimizer": inner, "loss_scale": scale}}
        file.attrs["training_config"] = json.dumps(training)
    if legacy:
        assert stored.original(old, files=[tmp_path / "old.h5"]) == [False, 16.0, None]
    for name in ("m.h5", "m", "old.h5") if legacy else ("m.h5", "m"):
        tool.ok("fit", tmp_path / name, "--data", tmp_path / "finite.npz", "--epochs", 2, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "o.h5")
        for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "o.h5"), trained, strict=True):
            tool.assert_close(ours, theirs, 1e-4, name)
    assert stored.original(again, files=[tmp_path / "o.h5"]) == [False, 16.0, None]
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "o.h5")
    assert bool(np.isfinite(stored.weights(tf_keras, tmp_path / "o.h5")[0]).any()) == finite


LISTS = {"one": lambda: ["mae"], "two": lambda: ["mae", M2.RootMeanSquaredError(name="r")], "lists": lambda: [["mae"], [M2.RootMeanSquaredError(name="r")]],
         "dict": lambda: {"second": [M2.MeanAbsoluteError(), "mse"]}}


@pytest.mark.quick(4)
@pytest.mark.skipif(tool.CONTROL, reason="the tool evaluates")
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("file", ["m.keras", "m.h5"])
@pytest.mark.parametrize("form", LISTS)
def test_metrics_of_several_outputs(form, file, fitted, tmp_path):
    """A list without lists is for each output; a .keras file has the reported names, before which tf-keras writes the output's again."""
    rng = tool.generator("metrics of several outputs", form, file, fitted)
    x = rng.normal(0, 1, (12, *VECTOR)).astype("float32")
    ys = [rng.normal(0, 1, (12, n)).astype("float32") for n in (2, 1)]

    def evaluated(path, module):
        return module.models.load_model(path).evaluate(x, ys, batch_size=5, verbose=0, return_dict=True)

    def written():
        given = tf_keras.Input(VECTOR)
        model = randomised(tf_keras.Model(given, [L.Dense(2, name="first")(given), L.Dense(1, name="second")(given)]), rng)
        model.compile("sgd", "mse", metrics=LISTS[form]())
        if fitted:
            model.fit(x, ys, batch_size=4, verbose=0)
        model.save(tmp_path / file)
        return evaluated(tmp_path / file, tf_keras)

    expected = stored.original(written, tmp_path)
    tool.save_npz(tmp_path / "d.npz", x=x, y_first=ys[0], y_second=ys[1])
    ours = json.loads(tool.ok("evaluate", tmp_path / file, "--data", tmp_path / "d.npz", "--batch-size", 5, "--json"))
    assert sorted(ours) == sorted(expected)
    for name, value in expected.items():
        tool.assert_close(np.float32(ours[name]), np.float32(value), 1e-5, name)
    if file == "m.keras":
        import keras
        tool.ok("convert", tmp_path / file, tmp_path / "three.keras")
        three = stored.original(lambda: evaluated(tmp_path / "three.keras", keras), files=[tmp_path / "three.keras"])
        assert len(three) == len(expected)
        tool.ok("convert", tmp_path / file, tmp_path / "two.h5", "--dialect", "keras2")
        two = stored.original(lambda: evaluated(tmp_path / "two.h5", tf_keras), files=[tmp_path / "two.h5"])
        assert sorted(two) == sorted(expected)


@pytest.mark.quick(4)
@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
@pytest.mark.parametrize("steps, epochs, size, execution", [(3, 3, 5, 1), (2, 3, 4, 2), (7, 2, 4, 1), (2, 3, 4, 1), (5, 3, 4, 3), (4, 2, 5, 1)])
def test_steps_beyond_a_pass(steps, epochs, size, execution, tmp_path):
    """Epochs of steps_per_epoch continue the pass, and take batches of the next one, of as many as there are epochs; then training ends."""
    rng = tool.generator("steps beyond a pass", steps, epochs, size, execution)
    x, y = rng.normal(0, 1, (10, *VECTOR)).astype("float32"), rng.normal(0, 1, (10, 1)).astype("float32")

    def written():
        model = randomised(tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(4, "tanh"), L.Dense(1)]), rng)
        model.compile(tf_keras.optimizers.SGD(0.1), "mse", metrics=["mae"], steps_per_execution=execution)
        model.save(tmp_path / "m.h5")
        history = model.fit(x, y, steps_per_epoch=steps, epochs=epochs, batch_size=size, shuffle=False, verbose=0, validation_data=(x[:7], y[:7]),
                            validation_steps=2, validation_batch_size=3).history
        return history, model.get_weights()

    history, weights = stored.original(written, tmp_path)
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.save_npz(tmp_path / "v.npz", x=x[:7], y=y[:7])
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--steps-per-epoch", steps, "--epochs", epochs, "--batch-size", size, "--no-shuffle",
            "--validation-data", tmp_path / "v.npz", "--validation-steps", 2, "--validation-batch-size", 3, "--save", tmp_path / "f.h5",
            "--history", tmp_path / "h.json")
    tool.assert_history(tool.load_history(tmp_path / "h.json"), history)
    for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "f.h5"), weights, strict=True):
        tool.assert_close(ours, theirs, 2e-5, "weights", atol=1e-6)


@pytest.mark.skipif(tool.CONTROL, reason="the tool trains")
def test_a_file_that_keras_2_has_read_before(tmp_path):
    """Its optimizer's variables have no name of the optimizer then; SGD without momentum has zeros."""
    rng = tool.generator("a file that keras 2 has read before")
    x, y = rng.normal(0, 1, (12, *VECTOR)).astype("float32"), rng.normal(0, 1, (12, 1)).astype("float32")
    options = {"batch_size": 4, "shuffle": False, "verbose": 0}

    def written():
        model = randomised(tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(4, "tanh"), L.Dense(1)]), rng)
        model.compile(tf_keras.optimizers.SGD(tf_keras.optimizers.schedules.PolynomialDecay(0.2, 8, 0.001)), "mse")
        model.fit(x, y, **options)
        model.save(tmp_path / "first.h5")
        again = tf_keras.models.load_model(tmp_path / "first.h5")
        again.fit(x, y, **options)
        again.save(tmp_path / "m.h5")
        again.fit(x, y, **options)
        return again.get_weights()

    wanted = stored.original(written, tmp_path)
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "f.h5")
    for ours, theirs in zip(stored.weights(tf_keras, tmp_path / "f.h5"), wanted, strict=True):
        tool.assert_close(ours, theirs, 2e-5, "weights", atol=1e-6)

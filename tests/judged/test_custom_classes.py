"""Classes of the user's own: what examples/custom_classes.cpp registers and saves, Keras loads by the same names, and the
other way round."""

import os
import pathlib
import subprocess

import keras
import numpy as np
import pytest

import lockstep_tool as tool

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD") or tool.ROOT / "build")
pytestmark = pytest.mark.skipif(tool.CONTROL, reason="a C++ program")
register = keras.saving.register_keras_serializable("Examples")
ops = keras.ops


@register
class Filled(keras.initializers.Initializer):
    def __init__(self, value):
        self.value = value

    def __call__(self, shape, dtype=None):
        return ops.full(shape, self.value, dtype=dtype)

    def get_config(self):
        return {"value": self.value}


@register
class Fourth(keras.regularizers.Regularizer):
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return ops.sum(ops.square(ops.square(x))) * self.factor

    def get_config(self):
        return {"factor": self.factor}


@register
class AtMostOne(keras.constraints.Constraint):
    def __call__(self, w):
        return ops.minimum(w, 1.0)


@register
class HalfLife(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, initial, steps):
        self.initial, self.steps = initial, steps

    def __call__(self, step):
        return self.initial * 0.5 ** (ops.cast(step, "float32") / self.steps)

    def get_config(self):
        return {"initial": self.initial, "steps": self.steps}


@register
class SignDescent(keras.optimizers.Optimizer):
    def update_step(self, gradient, variable, learning_rate):
        self.assign_sub(variable, ops.sign(gradient) * ops.cast(learning_rate, variable.dtype))


@register
class PowerLoss(keras.losses.Loss):
    def __init__(self, power, **kwargs):
        super().__init__(**kwargs)
        self.power = power

    def call(self, y_true, y_pred):
        return ops.mean(ops.power(ops.abs(y_true - y_pred), self.power), axis=-1)

    def get_config(self):
        return {**super().get_config(), "power": self.power}


@register
class TotalError(keras.metrics.Metric):
    def __init__(self, name="total_error", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight(shape=(), initializer="zeros", name="total")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(ops.sum(ops.abs(y_true - y_pred)))

    def result(self):
        return self.total


@register
class Scale(keras.layers.Layer):
    def __init__(self, offset, **kwargs):
        super().__init__(**kwargs)
        self.offset = offset
        self.size = keras.metrics.Mean(name="size")

    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer=Filled(0.5), regularizer=Fourth(0.01),
                                     constraint=AtMostOne())

    def call(self, x):
        self.size.update_state(ops.abs(x))
        return x * self.scale + self.offset

    def get_config(self):
        return {**super().get_config(), "offset": self.offset}


@register
class Regressor(keras.Model):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.scale = Scale(0.25)
        self.hidden = keras.layers.Dense(units, activation="tanh", kernel_initializer=Filled(0.1),
                                         kernel_regularizer=Fourth(0.02), kernel_constraint=AtMostOne())
        self.out = keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.hidden(self.scale(x)))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


X = np.sin(np.arange(48, dtype="float32")).reshape(16, 3)
Y = X[:, :1] - X[:, 2:]


def compiled(model):
    model.compile(optimizer=SignDescent(HalfLife(0.01, 20)), loss=PowerLoss(1.5), metrics=[TotalError()])
    return model


def program(folder, *arguments):
    done = subprocess.run([BUILD / "bin" / "custom_classes", *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


def numbers(text):
    return np.array([float(word) for word in text.split()], "float32").reshape(-1, 1)


def compare(model, path, folder):
    """Outputs of the program for the file, before and after an epoch of training, against Keras's."""
    ours = program(folder, path)
    tool.assert_close(numbers(ours["predictions"]), model.predict(X, verbose=0), 1e-5, "predictions")
    expected = model.evaluate(X, Y, batch_size=16, verbose=0, return_dict=True)
    for key in ("loss", "total_error", "size"):
        assert float(ours[key]) == pytest.approx(expected[key], rel=1e-5)
    history = model.fit(X, Y, batch_size=4, epochs=1, shuffle=False, verbose=0, validation_data=(X[:5], Y[:5]))
    for key in ("size", "val_size"):
        assert float(ours[f"{key} of the epoch"]) == pytest.approx(history.history[key][0], rel=1e-5)
    tool.assert_close(numbers(ours["trained"]), model.predict(X, verbose=0), 1e-4, "after an epoch")


def test_keras_finds_the_classes_of_a_keras_file(tmp_path):
    program(tmp_path)
    path = tmp_path / "custom_classes.keras"
    model = keras.models.load_model(path)
    assert type(model) is Regressor and type(model.scale) is Scale
    assert type(model.optimizer) is SignDescent and type(model.hidden.kernel_regularizer) is Fourth
    assert model.optimizer.iterations.numpy() == 8
    compare(model, path, tmp_path)


def test_keras_finds_the_classes_of_an_h5_file(tmp_path):
    program(tmp_path)
    path = tmp_path / "custom_classes.h5"
    model = keras.models.load_model(path)
    assert type(model.layers[1]) is Scale and not model.layers[1].trainable
    assert type(model.optimizer) is SignDescent
    # Keras 3.15 cannot continue training a model from an .h5 file some of whose layers are not trainable.
    tool.assert_close(numbers(program(tmp_path, path)["predictions"]), model.predict(X, verbose=0), 1e-5, "predictions")


@pytest.mark.parametrize("kind", ["keras", "h5"])
def test_lockstep_finds_the_classes_of_keras(kind, tmp_path):
    keras.utils.set_random_seed(tool.SEED)
    if kind == "keras":
        model = compiled(Regressor(3))
    else:
        inputs = keras.Input((3,))
        model = compiled(keras.Model(inputs, keras.layers.Dense(1)(Scale(0.25, trainable=False)(inputs))))
    model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    path = tmp_path / f"model.{kind}"
    model.save(path)
    compare(model, path, tmp_path)

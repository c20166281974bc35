"""Exports of models whose layers train in inference: called with training=True, or by default, as random augmentation.

Keras's export computes the same, from the same states of generators, call after call."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not write this")


def dropouts():
    x = keras.Input((6,))
    h = layers.Dropout(0.5, seed=3)(layers.Dense(8)(x), training=True)
    h = layers.BatchNormalization(momentum=0.7)(h, training=True)
    h = layers.GaussianNoise(0.5, seed=1)(layers.AlphaDropout(0.3, seed=2)(h), training=True)
    return keras.Model(x, layers.Dropout(0.4, noise_shape=(None, 1), seed=2)(h, training=True))


def recurrent():
    x = keras.Input((5, 4))
    h = layers.LSTM(5, dropout=0.3, recurrent_dropout=0.4, seed=7, return_sequences=True)(x, training=True)
    cells = layers.StackedRNNCells([layers.GRUCell(3, dropout=0.3, seed=1), layers.LSTMCell(4, recurrent_dropout=0.3, seed=2)])
    h = layers.TimeDistributed(layers.Dropout(0.4, seed=3))(h, training=True)
    return keras.Model(x, layers.RNN(cells)(h, training=True))


def volumes():
    x = keras.Input((3, 6, 6, 2))
    h = layers.ConvLSTM2D(3, 3, dropout=0.3, recurrent_dropout=0.3, seed=4, return_sequences=True)(x, training=True)
    return keras.Model(x, layers.SpatialDropout3D(0.3, seed=5)(h))


def images():
    x = keras.Input((8, 8, 3))
    h = layers.RandomFlip(seed=1)(x)
    h = layers.RandomErasing(seed=2, value_range=(0, 1))(layers.RandomZoom(0.3, seed=3)(h))
    return keras.Model(x, layers.MixUp(0.4, seed=4)(layers.RandomGaussianBlur(seed=5, value_range=(0, 1))(h)))


def given_none():
    """None replaces both the layer's default and what layers before it left."""
    x = keras.Input((8, 8, 3))
    h = layers.RandomContrast(0.5, seed=3)(layers.Dropout(0.5, seed=1)(x, training=True), training=None)
    y = keras.Input((8, 8, 3))
    inner = keras.Model(y, layers.SpatialDropout2D(0.4, seed=2)(y, training=True))
    return keras.Model(x, layers.RandomBrightness(0.3, value_range=(0, 1), seed=5)(inner(h)))


def run(path, inputs):
    """The outputs of calls in turn, and the variables after them."""
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    outputs = [next(iter(signature(tf.constant(x)).values())).numpy() for x in inputs]
    return outputs + [variable.numpy() for variable in loaded.variables]


@pytest.mark.parametrize("make", [dropouts, recurrent, volumes, images, given_none], ids=lambda make: make.__name__)
def test_export(tmp_path, make):
    keras.utils.set_random_seed(5)
    model = make()
    model.save(tmp_path / "m.keras")
    model.export(tmp_path / "theirs", verbose=False)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "ours")
    rng = tool.generator("exports_that_train", make.__name__)
    inputs = [rng.random((rows, *model.input_shape[1:])).astype("f") for rows in (4, 4, 3)]
    expected = run(tmp_path / "theirs", inputs)
    for value, want in zip(run(tmp_path / "ours", inputs), expected, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)
    for path in ("theirs", "ours"):
        (_, value), = tool.predict(tmp_path / path, inputs[0], tmp_path)
        np.testing.assert_allclose(value, expected[0], rtol=1e-4, atol=1e-5)

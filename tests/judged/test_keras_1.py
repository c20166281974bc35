"""Files in the layout of Keras 1, written here from its format, against the same layers of tf-keras with the same weights.

tf-keras reads weights of Keras 1 too: its converter must make the weights of the layer from those that a row writes.
"""

import json

import h5py
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras.src.saving.legacy.hdf5_format import preprocess_weights_for_loading

import lockstep_tool as tool

L = tf_keras.layers
VECTOR, SEQUENCE, IMAGE, VOLUME, WORDS, FRAMES = (5,), (6, 3), (8, 7, 3), (4, 5, 3, 2), (6,), (3, 5, 4, 2)
WEIGHTS = {"init": "glorot_uniform", "W_regularizer": {"name": "L1L2Regularizer", "l1": 0.0, "l2": 0.01},
           "b_regularizer": None, "activity_regularizer": None, "W_constraint": {"name": "MaxNorm", "m": 2, "axis": 0},
           "b_constraint": None, "bias": True}
RECURRENT = {"init": "glorot_uniform", "inner_init": "orthogonal", "W_regularizer": None, "U_regularizer": None,
             "b_regularizer": None, "dropout_W": 0.0, "dropout_U": 0.0, "return_sequences": False, "go_backwards": False,
             "stateful": False, "unroll": False, "consume_less": "cpu", "input_dim": 3, "input_length": 6}
GATED = {**RECURRENT, "activation": "tanh", "inner_activation": "hard_sigmoid"}
CONV = {**WEIGHTS, "nb_filter": 4, "activation": "relu", "border_mode": "valid"}
CONV1 = {**CONV, "filter_length": 3, "subsample_length": 1, "input_dim": 3, "input_length": 6}
CONV2 = {**CONV, "nb_row": 3, "nb_col": 2, "subsample": [1, 1]}
TF, TH = {"dim_ordering": "tf"}, {"dim_ordering": "th"}


def same(weights):
    return weights


def per_gate(order):
    """Keras 1 saved kernel, recurrent kernel and bias of each gate; `order` are its gates in Keras 2's order."""
    return lambda weights: [np.split(weight, len(order), axis=-1)[gate] for gate in order for weight in weights]


def kernel(*axes):
    """A kernel with its axes in another order."""
    return lambda weights: [np.transpose(weights[0], axes), *weights[1:]]


def conv1d(weights):
    return [weights[0][:, None], *weights[1:]]


LSTM_GATES, GRU_GATES = per_gate([0, 2, 1, 3]), per_gate([0, 1, 2])
FILTERS_FIRST = kernel(3, 2, 0, 1)


def both(half):
    """The weights of a Bidirectional, whose halves `half` converts."""
    return lambda weights: half(weights[:len(weights) // 2]) + half(weights[len(weights) // 2:])


class Highway(L.Layer):
    def build(self, shape):
        n = shape[-1]
        self.w, self.w_carry = self.add_weight("w", (n, n)), self.add_weight("w_carry", (n, n))
        self.b, self.b_carry = self.add_weight("b", (n,)), self.add_weight("b_carry", (n,))

    def call(self, x):
        gate = tf.sigmoid(tf.matmul(x, self.w_carry) + self.b_carry)
        return gate * tf.nn.relu(tf.matmul(x, self.w) + self.b) + (1 - gate) * x


class MaxoutDense(L.Layer):
    def build(self, shape):
        self.w, self.b = self.add_weight("w", (3, shape[-1], 4)), self.add_weight("b", (3, 4))

    def call(self, x):
        return tf.reduce_max(tf.stack([tf.matmul(x, self.w[i]) + self.b[i] for i in range(3)]), 0)


class SReLU(L.Layer):
    def build(self, shape):
        self.parts = [self.add_weight(name, (1, shape[-1])) for name in ("t_left", "a_left", "t_right", "a_right")]

    def call(self, x):
        t_left, a_left, t_right, a_right = self.parts
        t_right = t_left + tf.abs(t_right)
        return tf.where(x <= t_left, t_left + a_left * (x - t_left), tf.where(x >= t_right, t_right + a_right * (x - t_right), x))


class ParametricSoftplus(L.Layer):
    def build(self, shape):
        self.alphas, self.betas = self.add_weight("alphas", shape[1:]), self.add_weight("betas", shape[1:])

    def call(self, x):
        return tf.math.softplus(self.betas * x) * self.alphas


class OwnStatistics(L.Layer):
    """BatchNormalization with mode 1 or 2."""

    def __init__(self, mode, axis=-1):
        super().__init__()
        self.mode, self.axis = mode, axis

    def build(self, shape):
        self.parts = [self.add_weight(name, (shape[self.axis],), trainable=name in ("gamma", "beta"))
                      for name in ("gamma", "beta", "running_mean", "running_variance")]

    def call(self, x):
        if self.mode == 1:
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return self.parts[0] * (x - mean) / (tf.sqrt(variance + 0.01) + 0.01) + self.parts[1]
        mean, variance = tf.nn.moments(x, [axis for axis in range(len(x.shape)) if axis != self.axis % len(x.shape)], keepdims=True)
        gamma, beta = (tf.reshape(part, mean.shape) for part in self.parts[:2])
        return (x - mean) / tf.sqrt(variance + 0.01) * gamma + beta


NORMALIZATION = {"epsilon": 0.01, "axis": -1, "momentum": 0.9, "gamma_regularizer": None, "beta_regularizer": None}


# Rows: input shape, class and config of Keras 1, layer of tf-keras, weights of Keras 1. "th": the axes of images are
# turned for tf-keras, whose CPU kernels have the channels last only.
ROWS = [
    (VECTOR, "Dense", {**WEIGHTS, "output_dim": 4, "activation": "tanh", "input_dim": 5}, L.Dense(4, "tanh"), same),
    (VECTOR, "BatchNormalization",
     {"epsilon": 0.01, "mode": 0, "axis": -1, "momentum": 0.9, "gamma_regularizer": None, "beta_regularizer": None},
     L.BatchNormalization(epsilon=0.01, momentum=0.9), same),
    (VECTOR, "PReLU", {"init": "zero"}, L.PReLU(), same),
    (VECTOR, "Highway", {**WEIGHTS, "activation": "relu", "input_dim": 5}, Highway(), same),
    (VECTOR, "Highway", {**WEIGHTS, "transform_bias": -2, "activation": "relu"}, Highway(),
     lambda weights: [weights[i] for i in (0, 2, 1, 3)]),
    (VECTOR, "MaxoutDense", {**WEIGHTS, "output_dim": 4, "nb_feature": 3, "input_dim": 5}, MaxoutDense(), same),
    (SEQUENCE, "SReLU", {"t_left_init": "zero", "a_left_init": "glorot_uniform", "t_right_init": "glorot_uniform",
                         "a_right_init": "one", "shared_axes": [1]}, SReLU(), same),
    (SEQUENCE, "ParametricSoftplus", {"alpha_init": 0.2, "beta_init": 5.0}, ParametricSoftplus(), same),
    (VECTOR, "BatchNormalization", {**NORMALIZATION, "mode": 1}, OwnStatistics(1), same),
    (VECTOR, "BatchNormalization", {**NORMALIZATION, "mode": 2}, OwnStatistics(2), same),
    (SEQUENCE, "BatchNormalization", {**NORMALIZATION, "mode": 2, "axis": 1}, OwnStatistics(2, 1), same),
    (VECTOR, "LeakyReLU", {"alpha": 0.2}, L.LeakyReLU(0.2), same),
    (VECTOR, "ThresholdedReLU", {"theta": 0.5}, L.ThresholdedReLU(0.5), same),
    (VECTOR, "Dropout", {"p": 0.4}, L.Dropout(0.4), same),
    (VECTOR, "Dropout", {"p": "0.5"}, L.Dropout(0.5), same),
    (VECTOR, "GaussianNoise", {"sigma": 0.4}, L.GaussianNoise(0.4), same),
    (VECTOR, "GaussianDropout", {"p": 0.4}, L.GaussianDropout(0.4), same),
    (VECTOR, "RepeatVector", {"n": 2}, L.RepeatVector(2), same),
    (SEQUENCE, "TimeDistributedDense", {**WEIGHTS, "output_dim": 2, "activation": "linear", "input_dim": 3,
                                        "input_length": 6}, L.Dense(2), same),
    (SEQUENCE, "TimeDistributed", {"layer": {"class_name": "Dense", "config": {
        **WEIGHTS, "name": "inner", "trainable": True, "output_dim": 2, "activation": "linear", "input_dim": 3}}},
     L.TimeDistributed(L.Dense(2)), same),
    (SEQUENCE, "LSTM", {**GATED, "output_dim": 4, "forget_bias_init": "one"},
     L.LSTM(4, recurrent_activation="hard_sigmoid"), LSTM_GATES),
    (SEQUENCE, "LSTM", {**GATED, "output_dim": 4, "forget_bias_init": "one", "consume_less": "gpu"},
     L.LSTM(4, recurrent_activation="hard_sigmoid"), same),
    (SEQUENCE, "LSTM", {**GATED, "output_dim": 3, "forget_bias_init": "zero", "return_sequences": True,
                        "inner_activation": "sigmoid"},
     L.LSTM(3, recurrent_activation="sigmoid", return_sequences=True), LSTM_GATES),
    (SEQUENCE, "GRU", {**GATED, "output_dim": 4}, L.GRU(4, recurrent_activation="hard_sigmoid", reset_after=False),
     GRU_GATES),
    (SEQUENCE, "SimpleRNN", {**RECURRENT, "output_dim": 4, "activation": "tanh"}, L.SimpleRNN(4), same),
    (SEQUENCE, "Bidirectional", {"merge_mode": "concat", "layer": {"class_name": "LSTM", "config": {
        **GATED, "name": "inner", "trainable": True, "output_dim": 3, "forget_bias_init": "one"}}},
     L.Bidirectional(L.LSTM(3, recurrent_activation="hard_sigmoid")), both(LSTM_GATES)),
    (SEQUENCE, "Convolution1D", CONV1, L.Conv1D(4, 3, activation="relu"), conv1d),
    (SEQUENCE, "Convolution1D", {**CONV1, "border_mode": "same", "subsample_length": 2, "bias": False},
     L.Conv1D(4, 3, 2, "same", activation="relu", use_bias=False), conv1d),
    (SEQUENCE, "AtrousConvolution1D", {**CONV1, "atrous_rate": 2}, L.Conv1D(4, 3, dilation_rate=2, activation="relu"),
     conv1d),
    (SEQUENCE, "MaxPooling1D", {"stride": 1, "pool_length": 2, "border_mode": "same"}, L.MaxPooling1D(2, 1, "same"),
     same),
    (SEQUENCE, "AveragePooling1D", {"stride": 2, "pool_length": 2, "border_mode": "valid"}, L.AveragePooling1D(2), same),
    (SEQUENCE, "UpSampling1D", {"length": 2}, L.UpSampling1D(2), same),
    (SEQUENCE, "ZeroPadding1D", {"padding": {"left_pad": 2, "right_pad": 1}}, L.ZeroPadding1D((2, 1)), same),
    (SEQUENCE, "Cropping1D", {"cropping": [1, 2]}, L.Cropping1D((1, 2)), same),
    (IMAGE, "Convolution2D", {**CONV2, **TF}, L.Conv2D(4, (3, 2), activation="relu"), same),
    (IMAGE, "Convolution2D", {**CONV2, **TF, "subsample": [2, 1], "border_mode": "same"},
     L.Conv2D(4, (3, 2), (2, 1), "same", activation="relu"), same),
    (IMAGE, "AtrousConvolution2D", {**CONV2, **TF, "atrous_rate": [2, 2]},
     L.Conv2D(4, (3, 2), dilation_rate=2, activation="relu"), same),
    (IMAGE, "Deconvolution2D", {**CONV2, **TF, "output_shape": [None, 10, 8, 4]},
     L.Conv2DTranspose(4, (3, 2), activation="relu"), kernel(0, 1, 3, 2)),
    (IMAGE, "Deconvolution2D", {**CONV2, **TF, "output_shape": [None, 16, 14, 4], "subsample": [2, 2],
                                "border_mode": "same"},
     L.Conv2DTranspose(4, (3, 2), 2, "same", activation="relu"), kernel(0, 1, 3, 2)),
    (IMAGE, "Deconvolution2D", {**CONV2, **TF, "output_shape": [None, 15, 13, 4], "subsample": [2, 2],
                                "border_mode": "same"},
     L.Conv2DTranspose(4, (3, 2), 2, "same", activation="relu", output_padding=(0, 1)), kernel(0, 1, 3, 2)),
    (IMAGE, "Deconvolution2D", {**CONV2, **TF, "nb_row": 1, "output_shape": [None, 15, 14, 4], "subsample": [2, 2]},
     L.Conv2DTranspose(4, (1, 2), 2, activation="relu", output_padding=0), kernel(0, 1, 3, 2)),
    (IMAGE, "SeparableConvolution2D",
     {**CONV, **TF, "nb_row": 3, "nb_col": 2, "subsample": [1, 1], "depth_multiplier": 2, "depthwise_regularizer": None,
      "pointwise_regularizer": None, "depthwise_constraint": None, "pointwise_constraint": None},
     L.SeparableConv2D(4, (3, 2), depth_multiplier=2, activation="relu"), same),
    (IMAGE, "MaxPooling2D", {"pool_size": [2, 2], "strides": [2, 2], "border_mode": "valid", **TF}, L.MaxPooling2D(),
     same),
    (IMAGE, "AveragePooling2D", {"pool_size": [3, 2], "strides": [1, 1], "border_mode": "same", **TF},
     L.AveragePooling2D((3, 2), 1, "same"), same),
    (IMAGE, "GlobalAveragePooling2D", TF, L.GlobalAveragePooling2D(), same),
    (IMAGE, "ZeroPadding2D", {"padding": [1, 2]}, L.ZeroPadding2D((1, 2)), same),
    (IMAGE, "ZeroPadding2D", {"padding": [1, 0, 2, 1]}, L.ZeroPadding2D(((1, 0), (2, 1))), same),
    (IMAGE, "UpSampling2D", {"size": [2, 1]}, L.UpSampling2D((2, 1)), same),
    (IMAGE, "Flatten", {}, L.Flatten(), same),
    (IMAGE, "Reshape", {"target_shape": [8, 21]}, L.Reshape((8, 21)), same),
    ("th", "Convolution2D", {**CONV2, **TH}, L.Conv2D(4, (3, 2), activation="relu"), FILTERS_FIRST),
    ("th", "Deconvolution2D", {**CONV2, **TH, "output_shape": [None, 4, 10, 8]},
     L.Conv2DTranspose(4, (3, 2), activation="relu"), kernel(2, 3, 0, 1)),
    ("th", "MaxPooling2D", {"pool_size": [2, 2], "strides": [2, 2], "border_mode": "valid", **TH}, L.MaxPooling2D(), same),
    ("th", "BatchNormalization",
     {"epsilon": 0.01, "mode": 0, "axis": 1, "momentum": 0.9, "gamma_regularizer": None, "beta_regularizer": None},
     L.BatchNormalization(epsilon=0.01), same),
    # Keras 1 left the order of these out of the file: that of the other layers holds.
    ("th", "ZeroPadding2D", {"padding": [1, 2]}, L.ZeroPadding2D((1, 2)), same),
    ("th", "UpSampling2D", {"size": [2, 1]}, L.UpSampling2D((2, 1)), same),
    ("th", "Cropping2D", {"cropping": [[1, 2], [0, 1]]}, L.Cropping2D(((1, 2), (0, 1))), same),
    (VOLUME, "Convolution3D", {**CONV, **TF, "kernel_dim1": 2, "kernel_dim2": 3, "kernel_dim3": 1, "subsample": [1, 1, 1]},
     L.Conv3D(4, (2, 3, 1), activation="relu"), same),
    (WORDS, "Embedding", {"input_dim": 9, "output_dim": 4, "init": "uniform", "input_length": 6, "mask_zero": False,
                          "activity_regularizer": None, "W_regularizer": None, "W_constraint": None, "dropout": 0.0},
     L.Embedding(9, 4), same),
    (FRAMES, "ConvLSTM2D",
     {"nb_filter": 2, "nb_row": 3, "nb_col": 2, "init": "glorot_uniform", "inner_init": "orthogonal",
      "forget_bias_init": "one", "activation": "tanh", "inner_activation": "hard_sigmoid", "border_mode": "same", **TF,
      "return_sequences": False, "go_backwards": False, "stateful": False},
     L.ConvLSTM2D(2, (3, 2), padding="same", recurrent_activation="hard_sigmoid"), LSTM_GATES),
]


def write(path, config, weights, version="1.2.2", backend=None):
    """A whole-model file of Keras 1; `weights`: of each layer, in order."""
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = version.encode()
        file.attrs["model_config"] = json.dumps(config).encode()
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name, _ in weights]
        if backend:
            file.attrs["backend"] = group.attrs["backend"] = backend.encode()
        for name, values in weights:
            layer = group.create_group(name)
            names = [f"{name}_param_{i}" for i in range(len(values))]
            layer.attrs["weight_names"] = [n.encode() for n in names]
            for n, value in zip(names, values):
                layer.create_dataset(n, data=value)


def random_weights(layer, rng):
    values = [np.abs(rng.normal(0, 0.7, w.shape)) + 0.3 if "variance" in w.name else rng.normal(0, 0.7, w.shape)
              for w in layer.weights]
    layer.set_weights(values)
    return [value.astype("float32") for value in values]


def inbound(name):
    return [[[name, 0, 0]]]


def entry(class_name, config, name, source):
    return {"class_name": class_name, "config": {"name": name, "trainable": True, **config}, "name": name,
            "inbound_nodes": inbound(source) if source else []}


def input_entry(shape, dtype="float32", name="input_1"):
    config = {"batch_input_shape": [None, *shape], "input_dtype": dtype, "sparse": False, "name": name}
    return {"class_name": "InputLayer", "config": config, "name": name, "inbound_nodes": []}


def model_of(rows, shape, dtype="float32"):
    names = [f"{row[1].lower()}_{i}" for i, row in enumerate(rows)]
    layers = [entry(row[1], row[2], name, "input_1") for row, name in zip(rows, names)]
    return names, {"class_name": "Model", "config": {
        "name": "model_1", "layers": [input_entry(shape, dtype), *layers], "input_layers": [["input_1", 0, 0]],
        "output_layers": [[name, 0, 0] for name in names]}}


@pytest.mark.parametrize("shape", [VECTOR, SEQUENCE, IMAGE, "th", VOLUME, WORDS, FRAMES], ids=str)
def test_layers(shape, tmp_path):
    rng = tool.generator("keras1", str(shape))
    rows = [row for row in ROWS if row[0] == shape]
    first = shape == "th"
    last = IMAGE if first else shape
    ours = (last[2], *last[:2]) if first else last
    x = rng.integers(0, 9, (4, *ours)) if shape is WORDS else rng.normal(0, 1.5, (4, *ours))
    x = x.astype("int32" if shape is WORDS else "float32")
    names, config = model_of(rows, ours, x.dtype.name)
    weights, expected = [], []
    for name, (_, class_name, _, layer, convert) in zip(names, rows):
        output = layer(np.moveaxis(x, 1, -1) if first else x)  # builds it
        values = random_weights(layer, rng)
        saved = convert(values)
        # tf-keras would turn the kernel of a layer that has the channels first.
        if hasattr(L, type(layer).__name__) and not (first and class_name.endswith("volution2D")):
            for back, value in zip(preprocess_weights_for_loading(layer, list(saved), "1", "tensorflow"), values):
                np.testing.assert_array_equal(back, value)
        output = layer(np.moveaxis(x, 1, -1) if first else x)
        expected.append(np.moveaxis(np.asarray(output), -1, 1) if first else np.asarray(output))
        weights.append((name, saved))
    write(tmp_path / "m.h5", config, [("input_1", []), *weights])
    if tool.CONTROL:
        return
    outputs = tool.predict(tmp_path / "m.h5", x, tmp_path)
    assert len(outputs) == len(rows)
    for row, (_, found), wanted in zip(rows, outputs, expected, strict=True):
        tool.assert_close(found, wanted, 1e-5, row[1], atol=1e-5)


def test_kernels_of_theano_are_turned_around(tmp_path):
    """Not those of separable convolutions: Keras 2 turned them itself, and its converter left them alone."""
    rng = tool.generator("keras1", "theano")
    separable = {"filters": 4, "kernel_size": [3, 2], "activation": "relu", "data_format": "channels_last"}
    rows = [(IMAGE, "Convolution2D", {**CONV2, **TF}, L.Conv2D(4, (3, 2), activation="relu"), lambda w: [w[0][::-1, ::-1], w[1]], "1.2.2"),
            (IMAGE, "SeparableConv2D", separable, L.SeparableConv2D(4, (3, 2), activation="relu"), same, "2.1.6")]
    for *row, convert, version in rows:
        layer = row[3]
        layer.build((None, *IMAGE))
        values = random_weights(layer, rng)
        names, model = model_of([row], IMAGE)
        write(tmp_path / "m.h5", model, [("input_1", []), (names[0], convert(values))], version, backend="theano")
        if tool.CONTROL:
            return
        x = rng.normal(0, 1.5, (4, *IMAGE)).astype("float32")
        tool.assert_close(tool.predict(tmp_path / "m.h5", x, tmp_path)[0][1], np.asarray(layer(x)), 1e-5, row[1], atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mul", "ave", "max", "concat", "dot"])
def test_a_sequential_of_branches(mode, tmp_path):
    """A Merge of branches is the first layer of a Sequential; the file has the layers of all branches in a row."""
    rng = tool.generator("keras1", mode)
    dense = {**WEIGHTS, "trainable": True, "activation": "tanh"}
    layers = {name: L.Dense(units, "tanh") for name, units in (("z", 4), ("b", 3), ("c", 3), ("a", 2))}

    def config(name, inputs=None):
        out = {**dense, "name": name, "output_dim": layers[name].units}
        return {**out, "batch_input_shape": [None, inputs], "input_dtype": "float32"} if inputs else out

    left = [{"class_name": "Dense", "config": config("z", 5)}, {"class_name": "Dense", "config": config("b")}]
    right = [{"class_name": "Dense", "config": config("c", 4)}]
    merge = {"name": "merge_1", "mode": mode, "concat_axis": 1, "dot_axes": 1, "output_shape": None, "mode_type": "raw",
             "output_shape_type": "raw", "arguments": {}, "output_mask": None, "output_mask_type": "raw",
             "layers": [{"class_name": "Sequential", "config": left}, {"class_name": "Sequential", "config": right}]}
    model = {"class_name": "Sequential", "config": [{"class_name": "Merge", "config": merge},
                                                    {"class_name": "Dense", "config": config("a")}]}
    x, y = (rng.normal(0, 1, (4, n)).astype("float32") for n in (5, 4))
    merged = {"sum": L.Add(), "mul": L.Multiply(), "ave": L.Average(), "max": L.Maximum(),
              "concat": L.Concatenate(), "dot": L.Dot(1)}[mode]

    def run():
        return np.asarray(layers["a"](merged([layers["b"](layers["z"](x)), layers["c"](y)])))

    run()
    write(tmp_path / "m.h5", model, [(n, random_weights(layers[n], rng) if n != "merge_1" else [])
                                     for n in ("z", "b", "c", "a")])
    if tool.CONTROL:
        return
    tool.assert_close(tool.predict(tmp_path / "m.h5", [x, y], tmp_path, single=True)[0][1], run(), 1e-5)


def test_a_merge_of_keras_2(tmp_path):
    """Keras 2.0 still made it of two models, with the missing masks in its calls."""
    rng = tool.generator("keras1", "merge of 2.0")
    merge = {"mode": "concat", "concat_axis": -1, "dot_axes": -1, "output_shape": None, "mode_type": "raw", "output_shape_type": "raw",
             "arguments": {}, "output_mask": None, "output_mask_type": "raw"}
    merged = entry("Merge", merge, "merge_1", "a")
    merged["inbound_nodes"] = [[[name, 0, 0, {"mask": [None, None]}] for name in ("a", "b")]]
    config = {"name": "model_1", "layers": [input_entry((5,), name="a"), input_entry((3,), name="b"), merged],
              "input_layers": [["a", 0, 0], ["b", 0, 0]], "output_layers": [["merge_1", 0, 0]]}
    write(tmp_path / "m.h5", {"class_name": "Model", "config": config}, [("a", []), ("b", []), ("merge_1", [])], "2.0.8", "tensorflow")
    x, y = (rng.normal(0, 1, (4, n)).astype("float32") for n in (5, 3))
    if not tool.CONTROL:
        tool.assert_close(tool.predict(tmp_path / "m.h5", [x, y], tmp_path, single=True)[0][1], np.concatenate([x, y], 1))


@pytest.mark.parametrize(("class_name", "config", "text"), [
    ("BatchNormalization", {"epsilon": 1e-3, "mode": 3, "axis": -1, "momentum": 0.9}, "mode 3"),
    ("Merge", {"mode": "cos", "concat_axis": -1, "dot_axes": -1}, "cos"),
    ("Deconvolution2D", {**CONV2, **TF, "nb_row": 2, "border_mode": "same", "subsample": [1, 2],
                         "output_shape": [None, 8, 13, 4]}, "even kernel"),
])
def test_classes_without_counterpart_are_rejected(class_name, config, text, tmp_path):
    names, model = model_of([(VECTOR, class_name, config)], VECTOR)
    write(tmp_path / "m.h5", model, [("input_1", []), (names[0], [])])
    if not tool.CONTROL:
        assert text in tool.refused("summary", tmp_path / "m.h5")


# Rows: input shape, class and config of Keras 1, shape of its kernel, axes of the constraint.
CONSTRAINED = [
    ((3, 8, 7), "Convolution2D", {**CONV2, **TH}, (4, 3, 3, 2), [0]),
    ((3, 8, 7), "Convolution2D", {**CONV2, **TH}, (4, 3, 3, 2), [1, 2, 3]),
    (IMAGE, "Convolution2D", {**CONV2, **TF}, (3, 2, 3, 4), [0, 1, 2]),
    (IMAGE, "Deconvolution2D", {**CONV2, **TF, "output_shape": [None, 10, 8, 4]}, (3, 2, 3, 4), [2]),
    (SEQUENCE, "Convolution1D", CONV1, (3, 1, 3, 4), [0, 1, 2]),
    (SEQUENCE, "Convolution1D", CONV1, (3, 1, 3, 4), [3]),
]


@pytest.mark.skipif(tool.CONTROL, reason="Keras 3 does not read these files")
@pytest.mark.parametrize("row", CONSTRAINED, ids=str)
def test_constraints_name_the_axes_of_the_kernel_as_it_was(row, tmp_path):
    """A step of the rate 0 leaves kernels that the constraint has scaled."""
    shape, class_name, config, kernel_shape, axes = row
    rng = tool.generator("keras1", "constraints", str(row))
    constraint = {"name": "MaxNorm", "m": 0.4, "axis": axes[0] if len(axes) == 1 else axes}
    config = {**config, "W_constraint": constraint, "W_regularizer": None, "activation": "linear"}
    names, model = model_of([(shape, class_name, config)], shape)
    saved, bias = rng.normal(0, 1, kernel_shape).astype("float32"), rng.normal(0, 1, 4).astype("float32")
    norms = np.sqrt((saved ** 2).sum(tuple(axes), keepdims=True))
    x = rng.normal(0, 1, (4, *shape)).astype("float32")
    outputs = {}
    for name, value in ("start", saved), ("scaled", saved * np.clip(norms, 0, 0.4) / (1e-7 + norms)):
        write(tmp_path / f"{name}.h5", model, [("input_1", []), (names[0], [value, bias])])
        outputs[name] = tool.predict(tmp_path / f"{name}.h5", x, tmp_path)[0][1]
    tool.save_npz(tmp_path / "d.npz", x=x, y=np.zeros_like(outputs["start"]))
    sgd = json.dumps({"class_name": "SGD", "config": {"learning_rate": 0.0}})
    tool.ok("fit", tmp_path / "start.h5", "--data", tmp_path / "d.npz", "--optimizer", sgd, "--loss", "mse", "--save", tmp_path / "out.keras")
    tool.assert_close(tool.predict(tmp_path / "out.keras", x, tmp_path)[0][1], outputs["scaled"], 1e-5)


@pytest.mark.skipif(tool.CONTROL, reason="Keras 3 does not read these files")
@pytest.mark.parametrize("shape", [SEQUENCE, IMAGE], ids=str)
def test_moving_statistics_are_of_all_elements(shape, tmp_path):
    """Also of those that a mask leaves out; the variance of images has the divisor n."""
    rng = tool.generator("keras1", "statistics", str(shape))
    layers = [input_entry(shape), entry("Masking", {"mask_value": 0.0}, "mask", "input_1"),
              entry("BatchNormalization", {**NORMALIZATION, "mode": 0}, "normal", "mask" if shape is SEQUENCE else "input_1")]
    config = {"name": "model_1", "layers": [layers[0], *layers[1 if shape is SEQUENCE else 2:]], "input_layers": [["input_1", 0, 0]],
              "output_layers": [["normal", 0, 0]]}
    start = [np.abs(rng.normal(0, 1, 3)).astype("float32") + 0.2 for _ in range(4)]
    write(tmp_path / "m.h5", {"class_name": "Model", "config": config}, [("input_1", []), ("normal", start)])
    x = rng.normal(0, 1, (4, *shape)).astype("float32")
    x[:2, -1] = 0
    tool.save_npz(tmp_path / "d.npz", x=x, y=x)
    sgd = json.dumps({"class_name": "SGD", "config": {"learning_rate": 0.0}})
    tool.ok("fit", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--optimizer", sgd, "--loss", "mse", "--save", tmp_path / "out.weights.h5")
    axes = tuple(range(x.ndim - 1))
    with h5py.File(tmp_path / "out.weights.h5") as file:
        variables = next(group["vars"] for group in file["layers"].values() if "vars" in group and len(group["vars"]) == 4)
        for name, old, new in ("2", start[2], x.mean(axes)), ("3", start[3], x.var(axes)):
            tool.assert_close(variables[name][()], (old * 0.9 + new * 0.1).astype("float32"), 1e-5, name)


def number(value):
    return {"type": "ndarray", "value": value}


GLOROT = {"class_name": "VarianceScaling", "config": {"scale": 1.0, "mode": "fan_avg", "distribution": "uniform", "seed": None}}
KEPT = {**WEIGHTS, "init": GLOROT, "W_regularizer": {"class_name": "L1L2", "config": {"l1": 0.0, "l2": 0.01}}, "W_constraint": None, "input_dim": 5}
FORMS_OF_KERAS_2 = [
    (VECTOR, "Highway", {**KEPT, "activation": "relu"}, Highway(), same),
    (VECTOR, "MaxoutDense", {**KEPT, "output_dim": 4, "nb_feature": 3}, MaxoutDense(), same),
    (VECTOR, "LeakyReLU", {"alpha": number(0.2)}, L.LeakyReLU(0.2), same),
    (VECTOR, "ELU", {"alpha": number(0.7)}, L.ELU(0.7), same),
    (VECTOR, "ThresholdedReLU", {"theta": number(0.5)}, L.ThresholdedReLU(0.5), same),
    (VECTOR, "ReLU", {"max_value": number(0.9), "negative_slope": number(0.1), "threshold": number(0.2)}, L.ReLU(0.9, 0.1, 0.2), same),
]


def test_forms_of_the_first_files_of_keras_2(tmp_path):
    """Layers that Keras 2 had for compatibility kept the arguments of Keras 1; until 2.2 numbers that were arrays of NumPy are objects."""
    rng = tool.generator("keras1", "forms of keras 2")
    x = rng.normal(0, 1.5, (4, *VECTOR)).astype("float32")
    names, config = model_of(FORMS_OF_KERAS_2, VECTOR)
    weights, expected = [], []
    for name, (_, _, _, layer, _) in zip(names, FORMS_OF_KERAS_2):
        layer(x)
        weights.append((name, random_weights(layer, rng)))
        expected.append(np.asarray(layer(x)))
    write(tmp_path / "m.h5", config, [("input_1", []), *weights], version="2.1.6")
    if tool.CONTROL:
        return
    for row, (_, found), wanted in zip(FORMS_OF_KERAS_2, tool.predict(tmp_path / "m.h5", x, tmp_path), expected, strict=True):
        tool.assert_close(found, wanted, 1e-5, row[1], atol=1e-5)

"""The cases of training tests: optimizers with arguments, losses with data that fits them, and models."""

import keras
import numpy as np

L, O, S = keras.layers, keras.optimizers, keras.optimizers.schedules

OPTIMIZERS = {
    "sgd": lambda: O.SGD(0.05),
    "sgd-momentum": lambda: O.SGD(0.05, momentum=0.9),
    "adam": lambda: O.Adam(0.01),
    "adamw": lambda: O.AdamW(0.01),
    "rmsprop": lambda: O.RMSprop(0.01),
    "sgd-nesterov": lambda: O.SGD(0.05, momentum=0.9, nesterov=True),
    "sgd-decay": lambda: O.SGD(0.05, weight_decay=0.05),
    "sgd-clipnorm": lambda: O.SGD(0.05, clipnorm=0.1),
    "sgd-global-clipnorm": lambda: O.SGD(0.05, momentum=0.5, global_clipnorm=0.2),
    "sgd-clipvalue": lambda: O.SGD(0.05, clipvalue=0.02),
    "sgd-ema": lambda: O.SGD(0.05, use_ema=True, ema_momentum=0.9),
    "sgd-ema-overwrite": lambda: O.SGD(0.05, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=3),
    "sgd-accumulate": lambda: O.SGD(0.05, momentum=0.9, gradient_accumulation_steps=3),
    "sgd-loss-scale": lambda: O.SGD(0.05, loss_scale_factor=8.0),
    "adam-amsgrad": lambda: O.Adam(0.01, amsgrad=True, beta_1=0.8, beta_2=0.9),
    "adam-epsilon": lambda: O.Adam(0.01, epsilon=0.1, weight_decay=0.01),
    "adam-accumulate": lambda: O.Adam(0.01, gradient_accumulation_steps=2),
    "adam-ema": lambda: O.Adam(0.01, use_ema=True, ema_momentum=0.8),
    "adam-clip": lambda: O.Adam(0.01, clipnorm=0.05),
    "adamw-amsgrad": lambda: O.AdamW(0.01, weight_decay=0.1, amsgrad=True),
    "rmsprop-centered": lambda: O.RMSprop(0.01, rho=0.8, momentum=0.5, centered=True),
    "rmsprop-momentum": lambda: O.RMSprop(0.01, momentum=0.9, epsilon=1e-3),
    "sgd-exponential": lambda: O.SGD(S.ExponentialDecay(0.1, 3, 0.5)),
    "adam-exponential-staircase": lambda: O.Adam(S.ExponentialDecay(0.05, 3, 0.5, staircase=True)),
    "adam-cosine": lambda: O.Adam(S.CosineDecay(0.05, 8, alpha=0.1)),
    "sgd-cosine-warmup": lambda: O.SGD(S.CosineDecay(0.01, 8, warmup_target=0.1, warmup_steps=3)),
    "sgd-restarts": lambda: O.SGD(S.CosineDecayRestarts(0.1, 3)),
    "rmsprop-polynomial": lambda: O.RMSprop(S.PolynomialDecay(0.05, 6, 0.001, power=2.0)),
    "sgd-piecewise": lambda: O.SGD(S.PiecewiseConstantDecay([2, 5], [0.1, 0.05, 0.01])),
    "adamw-inverse": lambda: O.AdamW(S.InverseTimeDecay(0.05, 2, 0.5)),
}

MORE_OPTIMIZERS = {
    "adagrad": lambda: O.Adagrad(0.05), "adadelta": lambda: O.Adadelta(0.5), "adamax": lambda: O.Adamax(0.01),
    "nadam": lambda: O.Nadam(0.01), "ftrl": lambda: O.Ftrl(0.05), "lion": lambda: O.Lion(0.003), "lamb": lambda: O.Lamb(0.01),
    "adafactor": lambda: O.Adafactor(0.01), "muon-unscaled": lambda: O.Muon(0.01, rms_rate=None, ns_steps=3),
    "schedule-free": lambda: O.ScheduleFreeAdamW(0.02), "schedule-free-warmup": lambda: O.ScheduleFreeAdamW(
        0.05, beta_1=0.8, beta_2=0.95, epsilon=1e-4, warmup_steps=3, weight_decay=0.01),
    "muon-decays-matrices": lambda: O.Muon(0.01, weight_decay=0.5, adam_weight_decay=None),
    "muon-decays-vectors": lambda: O.Muon(0.01, weight_decay=None, adam_weight_decay=0.5),
    "sgd-clips-nothing": lambda: O.SGD(0.05, clipnorm=0, gradient_accumulation_steps=0),
}

X = keras.losses
LOSSES = {  # name -> (loss, activation of the last layer, kind of targets, metrics)
    "mse": ("mse", None, "real", ["mae"]),
    "scce-logits": (lambda: X.SparseCategoricalCrossentropy(from_logits=True), None, "class", ["accuracy"]),
    "cce": ("categorical_crossentropy", "softmax", "onehot", ["accuracy", "categorical_accuracy"]),
    "bce": ("binary_crossentropy", "sigmoid", "binary", ["accuracy", "binary_accuracy"]),
    "mae": ("mae", None, "real", ["mse", "root_mean_squared_error"]),
    "scce": ("sparse_categorical_crossentropy", "softmax", "class", ["acc", "sparse_categorical_accuracy"]),
    "cce-smoothing": (lambda: X.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), None, "onehot", ["accuracy"]),
    "bce-logits": (lambda: X.BinaryCrossentropy(from_logits=True, label_smoothing=0.2), None, "binary", None),
    "huber": (lambda: X.Huber(0.3), None, "real", None),
    "mse-sum": (lambda: X.MeanSquaredError(reduction="sum"), None, "real", None),
    "mape": ("mape", None, "positive", None),
    "msle": ("msle", "softplus", "positive", None),
    "logcosh": ("log_cosh", None, "real", None),
    "poisson": ("poisson", "softplus", "positive", None),
    "kl": ("kl_divergence", "softmax", "distribution", None),
    "cosine": ("cosine_similarity", None, "real", None),
    "hinge": ("hinge", None, "binary", None),
    "squared-hinge": ("squared_hinge", None, "binary", None),
    "categorical-hinge": ("categorical_hinge", None, "onehot", None),
    "binary-focal": ("binary_focal_crossentropy", "sigmoid", "binary", None),
    "categorical-focal": ("categorical_focal_crossentropy", "softmax", "onehot", None),
    "tversky": (lambda: X.Tversky(alpha=0.3, beta=0.6), "sigmoid", "binary", None),
    "unreduced": (lambda: X.MeanSquaredError(reduction="none"), None, "real", ["mae"]),
    "bce-all-axes": (lambda: X.BinaryCrossentropy(axis=None, label_smoothing=None), "sigmoid", "binary", None),
    "cce-all-axes": (lambda: X.CategoricalCrossentropy(axis=None), "softmax", "onehot", None),  # the last, of logits
    "cce-axes": (lambda: X.CategoricalCrossentropy(axis=[0, 1]), "softplus", "onehot", None),
    "focal-all-axes": (lambda: X.CategoricalFocalCrossentropy(axis=None, from_logits=True), None, "onehot", None),
    "binary-focal-all-axes": (lambda: X.BinaryFocalCrossentropy(axis=None, alpha=None), "sigmoid", "binary", None),
    "ignore-class": (lambda: X.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1), None, "class", None),
}


def loss_of(name):
    loss, activation, kind, metrics = LOSSES[name]
    return (loss() if callable(loss) else loss), activation, kind, metrics


def targets(rng, kind, n, width=4):
    if kind == "real":
        return rng.normal(0, 1, (n, width)).astype("float32")
    if kind == "positive":
        return rng.uniform(0.5, 2.0, (n, width)).astype("float32")
    if kind == "binary":
        return rng.integers(0, 2, (n, width)).astype("float32")
    classes = rng.integers(0, width, n)
    if kind == "class":
        return classes.astype("int64")
    if kind == "onehot":
        return np.eye(width, dtype="float32")[classes]
    p = rng.uniform(0.1, 1.0, (n, width))
    return (p / p.sum(1, keepdims=True)).astype("float32")


def dense_model(activation=None):
    return keras.Sequential([keras.Input((6,)), L.Dense(8, activation="tanh"), L.Dense(4, activation=activation)])


def cnn_model(activation=None):
    # Normalized before the convolution: after it a bias has no gradient but rounding, which Adam magnifies.
    return keras.Sequential([keras.Input((8, 8, 2)), L.BatchNormalization(), L.Conv2D(4, 3, activation="relu"),
                             L.MaxPooling2D(), L.Flatten(), L.Dense(8, activation="relu"), L.Dense(4, activation=activation)])


def regularized_model(activation=None):
    return keras.Sequential([
        keras.Input((6,)),
        L.Dense(8, activation="relu", kernel_regularizer=keras.regularizers.L2(0.02), bias_regularizer="l1",
                activity_regularizer=keras.regularizers.L1(0.01)),
        L.Dense(5, kernel_constraint=keras.constraints.MaxNorm(0.8), kernel_regularizer=keras.regularizers.L1L2(0.01, 0.01)),
        L.Dense(4, activation=activation)])


def constrained_model(activation=None):
    """Norms of whole weights."""
    C = keras.constraints
    return keras.Sequential([keras.Input((6,)), L.Dense(8, activation="relu", kernel_constraint=C.UnitNorm(axis=None)),
                             L.Dense(5, kernel_constraint=C.MaxNorm(1.5, axis=None), bias_constraint=C.MinMaxNorm(0.2, 0.4, 0.7, axis=None)),
                             L.Dense(4, activation=activation)])


def lstm_model(activation=None):
    return keras.Sequential([keras.Input((5, 3)), L.LSTM(6), L.LayerNormalization(), L.Dense(4, activation=activation)])


def embedding_model(activation=None):
    return keras.Sequential([keras.Input((5,), dtype="int32"), L.Embedding(9, 4, mask_zero=True), L.LSTM(5),
                             L.Dense(4, activation=activation)])


def functional_model(activation=None):
    x = keras.Input((6,))
    h = L.Dense(6, activation="relu")(x)
    h = L.Add()([h, x])
    h = L.Concatenate()([L.LayerNormalization()(h), L.BatchNormalization()(x)])
    return keras.Model(x, L.Dense(4, activation=activation)(h))


def dropout_model(activation=None):
    return keras.Sequential([keras.Input((6,)), L.Dense(16, activation="relu"), L.Dropout(0.3, seed=11), L.Dense(8),
                             L.Dropout(0.2, seed=12), L.Dense(4, activation=activation)])


def recurrent_dropout_model(activation=None):
    cells = [L.GRUCell(4, dropout=0.2, recurrent_dropout=0.1, seed=24), L.SimpleRNNCell(3, recurrent_dropout=0.2, seed=25)]
    return keras.Sequential([keras.Input((5, 3)), L.LSTM(4, dropout=0.3, recurrent_dropout=0.2, return_sequences=True, seed=21),
                             L.Bidirectional(L.GRU(3, dropout=0.2, reset_after=False, return_sequences=True, seed=22)),
                             L.RNN(cells), L.Dense(4, activation=activation)])


def frozen_model(activation=None):
    model = functional_model(activation)
    model.layers[1].trainable = False
    model.get_layer(index=-2).trainable = False
    return model


MODELS = {"dense": dense_model, "cnn": cnn_model, "regularized": regularized_model, "constrained": constrained_model, "lstm": lstm_model,
          "embedding": embedding_model, "functional": functional_model, "dropout": dropout_model,
          "recurrent_dropout": recurrent_dropout_model, "frozen": frozen_model}


def inputs(rng, model, n):
    shape = tuple(model.inputs[0].shape[1:])
    if "int" in str(model.inputs[0].dtype):
        return rng.integers(0, 9, (n, *shape)).astype("int32")
    return rng.normal(0, 1, (n, *shape)).astype("float32")

"""Random models of more kinds than random_models.py has: layers that a graph calls again, layers of integers, wrappers, functions
with several results, nested structures of inputs and outputs, policies, optimizers with all their arguments."""

import numpy as np

import random_models


class Maker(random_models.Maker):
    def __call__(self):
        self.policy = self.pick(["float32"] * 7 + ["mixed_bfloat16", "float64"]) if self.three else "float32"
        if not self.three:
            return super().__call__()
        self.keras.config.set_dtype_policy(self.policy)
        try:
            return super().__call__()
        finally:
            self.keras.config.set_dtype_policy("float32")

    # ---- structure ----

    def first(self, t):
        L = self.L
        if "int" not in str(t.dtype):
            return super().first(t)
        width, kind = self.size(), self.rng.integers(6)
        if kind == 0:
            t = L.IntegerLookup(vocabulary=[3, 1, 7, 4], num_oov_indices=self.pick([1, 2]))(t)
            return L.Embedding(6, width)(t)
        if kind == 1:
            return L.Embedding(4, width, mask_zero=self.chance())(L.Hashing(4, salt=self.pick([None, 5]))(t))
        if kind == 2:
            return L.Dense(width)(L.CategoryEncoding(random_models.WORDS, output_mode=self.pick(["multi_hot", "count"]))(t))
        if kind == 3:
            return L.TimeDistributed(L.Embedding(random_models.WORDS, width, mask_zero=not self.three and self.chance()))(L.Reshape((5, 1))(t))
        if kind == 4 and self.three:
            return L.ReversibleEmbedding(random_models.WORDS, width, mask_zero=self.chance())(t)
        return super().first(t)

    def step(self, t):
        if self.chance(0.15):
            return self.again(t)
        return self.rare(t) if self.chance(0.5) else super().step(t)

    def again(self, t):
        """A layer that another tensor of this shape went through."""
        found = []
        for other in self.tensors:
            history = getattr(other, "_keras_history", None)
            layer = history[0] if history is not None else None
            function = type(layer).__name__.endswith("OpLambda")  # whose arguments are in the call
            if isinstance(layer, self.L.Layer) and not isinstance(layer, self.L.InputLayer) and not function:
                try:
                    shape = tuple(layer.input.shape)
                except Exception:  # called several times, or on several tensors
                    continue
                if shape == tuple(t.shape):
                    found.append(layer)
        return self.pick(found)(t) if found else self.rare(t)

    def model(self):
        built = super().model()
        if not self.three or not self.chance(0.3):
            return built
        # The same graph with inputs and outputs in nested structures.
        inputs, outputs = list(self.inputs), list(built.outputs)
        ends = {"first": outputs[0], "rest": outputs[1:]} if len(outputs) > 1 else [outputs[0]]
        return self.keras.Model({"a": inputs[0], "more": inputs[1:]} if len(inputs) > 1 else [inputs[0]], ends)

    # ---- one layer ----

    def rare(self, t):
        L, rank, three = self.L, len(t.shape), self.three
        shape = tuple(t.shape)
        choices = [lambda: L.Identity()(t), lambda: L.Activation(self.pick(["exponential", "relu6", "mish", "hard_sigmoid", "log_softmax", "leaky_relu"]))(L.Activation("tanh")(t)),
                   lambda: L.Rescaling(0.5, offset=-0.1)(t), lambda: L.Flatten()(t), lambda: L.UnitNormalization(axis=1)(t),
                   lambda: L.ReLU(negative_slope=0.2, max_value=2.0, threshold=0.1)(t), lambda: L.Normalization(axis=-1, mean=[0.1] * shape[-1], variance=[2.0] * shape[-1])(t),
                   lambda: L.Softmax(axis=1)(t), lambda: L.Dropout(0.3)(t, training=False), lambda: L.BatchNormalization(axis=1, momentum=0.7)(t),
                   lambda: L.Dense(3, kernel_initializer="he_normal", bias_constraint="non_neg", dtype="float64")(t),
                   lambda: L.Discretization([-0.5, 0.5], output_mode="int")(t)]
        if three:
            O, k = self.keras.ops, self.keras
            choices += [lambda: L.Pipeline([L.Activation("tanh"), L.Rescaling(2.0)])(t), lambda: L.LayerNormalization(rms_scaling=False, scale=self.chance(), center=self.chance())(t),
                        lambda: O.stack([t, -t, t * 0.5], axis=1)[:, 1], lambda: O.add(*O.split(O.concatenate([t, t], -1), 2, axis=-1)), lambda: O.moments(t, axes=[-1], keepdims=True)[1],
                        lambda: O.reshape(t, (-1, 1, int(np.prod(shape[1:])))), lambda: O.meshgrid(O.arange(3.0), O.arange(2.0))[0][0, 0] + t, lambda: O.nan_to_num(t / (t - t + 1.0)),
                        lambda: O.logaddexp(t, 0.5), lambda: O.erf(t), lambda: O.select([t > 0.5, t < -0.5], [t, -t], 0.1), lambda: O.average(t, axis=-1, weights=None),
                        lambda: O.median(t, axis=-1, keepdims=True), lambda: O.squeeze(O.expand_dims(t, -1), -1), lambda: O.full_like(t, 0.3) * t, lambda: O.rot90(t, axes=(1, 2)) if rank > 2 else t * 3.0,
                        lambda: O.argsort(t, axis=-1), lambda: O.count_nonzero(t > 0.2, axis=-1), lambda: O.digitize(t, np.array([-0.3, 0.4])), lambda: O.isclose(t, 0.0), lambda: O.logical_not(t > 0.0),
                        lambda: O.bitwise_and(O.cast(t * 4.0, "int32"), 3), lambda: O.true_divide(O.cast(t * 3.0, "int32"), 2), lambda: O.mod(t, 0.7), lambda: O.power(O.abs(t) + 0.1, 1.5),
                        lambda: O.quantile(t, 0.4, axis=-1, keepdims=True), lambda: O.trace(O.swapaxes(O.expand_dims(t, 1), 1, 2), axis1=1, axis2=2) if rank == 2 else t]
        else:
            import tensorflow as tf
            whole = lambda: tf.cast(t * 3.0, "int32")
            choices += [lambda: tf.reduce_mean(whole(), axis=-1, keepdims=True), lambda: tf.argmax(t, axis=-1), lambda: tf.argmin(t, axis=1, output_type="int32"), lambda: whole() / 4,
                        lambda: tf.one_hot(tf.argmax(t, axis=-1), shape[-1]), lambda: tf.reduce_mean(whole(), axis=1), lambda: L.ThresholdedReLU(0.3)(t), lambda: tf.reduce_prod(tf.sign(t), axis=-1),
                        lambda: tf.stack([t, t * 2.0], axis=1)[:, 1], lambda: tf.split(tf.concat([t, t], -1), 2, axis=-1)[1], lambda: tf.clip_by_value(t, -0.5, 0.4), lambda: tf.math.l2_normalize(t, -1),
                        lambda: tf.math.squared_difference(t, 0.5), lambda: t[:, -1:], lambda: tf.reverse(t, [1]), lambda: tf.cumsum(t, axis=1), lambda: tf.math.divide(t, 2.0), lambda: tf.pow(t, 2)]
        if rank == 2:
            choices += [lambda: L.Dot(axes=1, normalize=True)([t, L.Activation("tanh")(t)]), lambda: L.SpectralNormalization(L.Dense(3, "tanh"), power_iterations=2)(t),
                        lambda: L.Concatenate()([t, t]), lambda: L.EinsumDense("ab,bcd->acd", (2, 3), activation="relu")(t)]
            if three:
                choices += [lambda: self.keras.ops.outer(t[0], t[0])[:1] + self.keras.ops.sum(t, axis=-1, keepdims=True)]
        if rank == 3:
            steps, width = shape[1:]
            inner = lambda: self.keras.Sequential([self.keras.Input((width,)), L.Dense(3, "tanh"), L.BatchNormalization()])
            choices += [lambda: L.TimeDistributed(inner())(t), lambda: L.Bidirectional(self.recurrent(2), merge_mode=None)(t)[1], lambda: L.SpatialDropout1D(0.2)(t, training=False),
                        lambda: L.Bidirectional(L.LSTM(2, return_sequences=True), backward_layer=L.GRU(2, return_sequences=True, go_backwards=True), merge_mode="concat")(t),
                        lambda: L.GlobalMaxPooling1D(keepdims=True)(t), lambda: L.GlobalAveragePooling1D(keepdims=True)(t), lambda: L.Dot(axes=(2, 2))([t, t]), lambda: L.Dot(axes=1)([t, t]),
                        lambda: L.RNN(L.StackedRNNCells([L.SimpleRNNCell(2), L.GRUCell(3, reset_after=False)]))(t), lambda: L.LSTM(2, unit_forget_bias=False, use_bias=self.chance(), recurrent_activation="tanh")(t),
                        lambda: L.GRU(2, activation="relu", recurrent_activation="hard_sigmoid", reset_after=self.chance())(t), lambda: L.SimpleRNN(2, activation="elu", return_sequences=True, go_backwards=True)(t),
                        lambda: L.LSTM(2, time_major=False)(t) if not three else L.LSTM(2, seed=3)(t), lambda: L.MaxPooling1D(2, strides=1, padding="same")(t), lambda: L.Conv1D(3, 2, padding="causal", groups=1, dilation_rate=2)(t),
                        lambda: L.SeparableConv1D(2, 2, padding="same", depth_multiplier=2, pointwise_regularizer="l2")(t), lambda: L.Conv1DTranspose(2, 2, padding="same", strides=2)(t),
                        lambda: L.MultiHeadAttention(2, 2, value_dim=1, use_bias=False, output_shape=4)(t, L.Dense(3)(t)), lambda: L.AdditiveAttention()([t, t], use_causal_mask=False),
                        lambda: L.RepeatVector(2)(L.Flatten()(t)), lambda: L.Concatenate(axis=-1)([t, L.Reshape((steps, width))(t), t]), lambda: L.Masking(0.0)(t), lambda: L.LSTM(2)(L.Identity()(L.Masking()(t))),
                        lambda: L.GRU(2)(L.Rescaling(0.5)(L.Masking()(t))), lambda: L.SimpleRNN(2)(L.Normalization(mean=0.1, variance=2.0)(L.Masking()(t)))]
            if not three:
                choices += [lambda: L.LocallyConnected1D(2, 2)(t)]
        if rank == 4:
            height, wide, channels = shape[1:]
            choices += [lambda: L.MaxPooling2D((1, 2), strides=(2, 1), padding="same")(t), lambda: L.AveragePooling2D((2, 1), padding="same")(t), lambda: L.GlobalMaxPooling2D(keepdims=True)(t),
                        lambda: L.DepthwiseConv2D((1, 2), strides=(1, 1), dilation_rate=(1, 2), padding="same", depth_multiplier=2)(t), lambda: L.UpSampling2D(2)(t), lambda: L.SpatialDropout2D(0.2)(t, training=False),
                        lambda: L.Conv2DTranspose(2, (2, 3), strides=(2, 1), padding="same", use_bias=False)(t), lambda: L.Resizing(3, 4, interpolation=self.pick(["nearest", "bilinear", "area" if not three else "bicubic"]))(t),
                        lambda: L.ConvLSTM1D(2, 2, padding="same", return_state=True, return_sequences=True)(t)[1], lambda: L.ConvLSTM1D(2, 2, padding="valid", data_format="channels_last", unit_forget_bias=False)(t),
                        lambda: L.TimeDistributed(L.LSTM(2))(t), lambda: L.TimeDistributed(L.LSTM(2, return_sequences=True))(t), lambda: L.TimeDistributed(L.GlobalAveragePooling1D())(t), lambda: L.Cropping2D(((0, 0), (0, 0)))(t),
                        lambda: L.Conv2D(2 * channels, 2, padding="same", groups=channels)(t), lambda: L.MultiHeadAttention(1, 2, attention_axes=(1, 2))(t, t), lambda: L.GroupNormalization(-1, axis=-1, epsilon=1e-2)(t)]
        if rank == 5:
            choices += [lambda: L.Cropping3D(((0, 0), (1, 0), (0, 1)))(t), lambda: L.GlobalMaxPooling3D(keepdims=True)(t), lambda: L.Conv3D(2, (1, 2, 2), strides=(1, 2, 1), padding="same")(t),
                        lambda: L.SpatialDropout3D(0.2)(t, training=False), lambda: L.ConvLSTM2D(2, (1, 2), padding="same", strides=(1, 2))(t), lambda: L.TimeDistributed(L.TimeDistributed(L.LSTM(2)))(t),
                        lambda: L.Bidirectional(L.ConvLSTM2D(2, 1, padding="same"))(t), lambda: L.Conv3DTranspose(2, (1, 2, 1), strides=(1, 2, 1))(t), lambda: L.TimeDistributed(L.MaxPooling2D(2, padding="same"))(t)]
        made = self.pick(choices)()
        if "float32" not in str(made.dtype) and self.policy == "float32":
            made = L.Rescaling(0.5, dtype="float32")(made)
        return self.L.Reshape((1,))(made) if len(made.shape) == 1 else made


def make(keras, rng):
    """As random_models.make()."""
    return random_models.make(keras, rng, Maker)


def optimizer(keras, rng):
    """An optimizer of any class with random arguments of those that all have."""
    of = keras.optimizers
    # Adafactor, Lion and Lamb make noise in gradients as large as gradients.
    names = ["SGD", "RMSprop", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "Nadam", "Ftrl"]
    make = getattr(of, names[rng.integers(len(names))])
    chance = lambda share: rng.random() < share
    rates = [0.01, of.schedules.ExponentialDecay(0.02, 2, 0.7), of.schedules.CosineDecay(0.02, 10, warmup_target=0.03, warmup_steps=2),
             of.schedules.PiecewiseConstantDecay([1, 3], [0.02, 0.01, 0.005]), of.schedules.PolynomialDecay(0.02, 5, power=2.0)]
    options = {"learning_rate": rates[0] if chance(0.6) else rates[rng.integers(len(rates))]}
    if chance(0.4):
        options[["clipnorm", "clipvalue", "global_clipnorm"][rng.integers(3)]] = float(np.round(rng.uniform(0.05, 1), 2))
    if chance(0.3):
        options.update(use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=[None, 2][rng.integers(2)])
    if chance(0.3):
        options["weight_decay"] = 0.02
    if chance(0.25):
        options["gradient_accumulation_steps"] = 2
    if make is of.SGD:
        options.update(momentum=[0.0, 0.9][rng.integers(2)], nesterov=chance(0.5))
    if make is of.RMSprop:
        options.update(momentum=[0.0, 0.5][rng.integers(2)], centered=chance(0.5))
    # In the first steps other rules divide noise of gradients by itself.
    if make in (of.RMSprop, of.Adam, of.AdamW, of.Adamax, of.Nadam, of.Adadelta):
        options["epsilon"] = 0.01
    return make(**options)

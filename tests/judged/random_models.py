"""Random functional models of keras or tf_keras from a generator of numbers: branches, shared layers, nested models, masks,
several inputs and outputs, lists and dicts of them, layers of all ranks, recurrent layers with states, wrappers, keras.ops."""

import numpy as np

SHAPES = [(6,), (5, 3), (6, 5, 2), (3, 5, 4, 2)]
WORDS = 9
ACTIVATIONS = ["relu", "tanh", "sigmoid", "elu", "softplus", "selu", "swish", "gelu", "softsign", "linear"]
MOST = 900  # elements of a sample of a tensor


class Maker:
    """Makes one model. `three`: of Keras 3, whose random numbers in training are lockstep's."""

    def __init__(self, keras, rng):
        self.keras, self.rng, self.L = keras, rng, keras.layers
        self.three = keras.__version__.startswith("3")
        self.tensors, self.names = [], 0

    def __call__(self):
        self.inputs = [self.input(i) for i in range(self.pick([1, 1, 2, 3]))]
        self.tensors = [self.first(t) for t in self.inputs]
        for _ in range(self.rng.integers(3, 9)):
            t = self.any()
            if not t.shape or np.prod([d or 1 for d in t.shape[1:]]) > MOST:
                t = self.vector(t)
            kind = self.rng.integers(10)
            made = (self.merge(t) if kind == 0 else self.nested(t) if kind == 1 else self.shared(t) if kind == 2 else
                    self.states(t) if kind == 3 else self.step(t))
            self.tensors.append(made)
        return self.model()

    # ---- draws ----

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def chance(self, share=0.5):
        return bool(self.rng.random() < share)

    def any(self):
        return self.tensors[-1] if self.chance(0.6) else self.pick(self.tensors)

    def size(self):
        return int(self.rng.integers(2, 5))

    def activation(self):
        return self.pick(ACTIVATIONS)

    def name(self):
        self.names += 1
        return f"part_{self.names}"

    # ---- inputs and outputs ----

    def input(self, number):
        shape = self.pick(SHAPES + [(5,)])
        whole = shape == (5,)
        return self.keras.Input(shape, name=f"input_{number}", dtype="int32" if whole else "float32")

    def first(self, t):
        if "int" in str(t.dtype):
            return self.L.Embedding(WORDS, self.size(), mask_zero=self.chance())(t)
        return self.L.Masking()(t) if len(t.shape) == 3 and self.chance(0.4) else t

    def model(self):
        parts = [self.vector(t, 2) for t in self.tensors[:len(self.inputs)]]  # every input counts
        outputs = [self.L.Concatenate()(parts) if len(parts) > 1 else parts[0]]
        outputs += [t for t in self.tensors[-int(self.rng.integers(1, 4)):] if not any(t is i for i in self.inputs)]
        # An output of its own for each, without masks, so that losses and names are clear.
        ends = []
        for i, t in enumerate(outputs):
            ends.append(self.L.Dense(2, name=f"out_{i}")(self.vector(t)) if self.chance(0.7) else
                        self.L.Activation("linear", name=f"out_{i}")(self.vector(t)))
        form = self.pick(["list", "list", "dict", "both"])
        inputs = self.inputs if len(self.inputs) > 1 else self.inputs[0]
        if form == "both":
            inputs = {t.name.split(":")[0]: t for t in self.inputs}
        if len(ends) == 1 and form != "dict":
            return self.keras.Model(inputs, ends[0])
        return self.keras.Model(inputs, {f"out_{i}": t for i, t in enumerate(ends)} if form in ("dict", "both") else ends)

    def vector(self, t, width=None):
        """Any tensor as (batch, width)."""
        L, rank = self.L, len(t.shape)
        width = width or self.size()
        if rank == 5:
            t = self.pick([L.GlobalAveragePooling3D(), L.GlobalMaxPooling3D(), L.Flatten()])(t)
        elif rank == 4:
            t = self.pick([L.GlobalAveragePooling2D(), L.GlobalMaxPooling2D(), L.Flatten()])(t)
        elif rank == 3:
            t = self.pick([L.Flatten(), L.LSTM(3), L.GlobalAveragePooling1D(), L.GRU(2), L.GlobalMaxPooling1D()])(t)
        return L.Dense(width)(t)

    # ---- structure ----

    def merge(self, t):
        L = self.L
        same = [o for o in self.tensors if o is not t and tuple(o.shape) == tuple(t.shape)]
        if same and self.chance(0.7):
            other = self.pick(same)
        else:
            width = self.size()
            t, other = self.vector(t, width), self.vector(self.any(), width)
        choices = [L.Add(), L.Concatenate(), L.Multiply(), L.Average(), L.Maximum(), L.Minimum(), L.Subtract()]
        if len(t.shape) == 3:
            choices += [L.Concatenate(axis=1), L.Dot(axes=-1, normalize=self.chance()), L.Attention(use_scale=self.chance()), L.AdditiveAttention()]
        if len(t.shape) == 2:
            choices += [L.Dot(axes=1)]
        layer = self.pick(choices)
        if self.three and self.chance(0.2):
            O = self.keras.ops
            return self.pick([lambda: t + other, lambda: t * other - 0.5, lambda: O.concatenate([t, other], -1), lambda: O.maximum(t, other),
                              lambda: O.where(t > other, t, 0.3 * other)])()
        return layer([t, other])

    def shared(self, t):
        L = self.L
        if len(t.shape) == 3:
            layer = self.pick([lambda: L.LSTM(3, return_sequences=True), lambda: L.Dense(3), lambda: L.Conv1D(3, 2, padding="same"),
                               lambda: L.Bidirectional(L.GRU(2, return_sequences=True)), lambda: L.BatchNormalization()])()
            return L.Concatenate()([layer(t), layer(L.Activation("tanh")(t))])
        if len(t.shape) == 4:
            layer = self.pick([lambda: L.Conv2D(2, 3, padding="same"), lambda: L.BatchNormalization()])()
            return L.Add()([layer(t), layer(L.Activation("tanh")(t))])
        width = self.size()
        layer = L.Dense(3, self.activation(), kernel_regularizer=self.pick([None, "l2", "l1"]))
        return L.Add()([layer(self.vector(t, width)), layer(self.vector(self.any(), width))])

    def nested(self, t):
        """A model used as a layer, perhaps twice."""
        L, keras = self.L, self.keras
        kind = self.rng.integers(6)
        if kind == 5:
            a, b = keras.Input(tuple(t.shape[1:]), name=f"{self.name()}_a"), keras.Input((3,), name=f"{self.name()}_b")
            parts = {"b": L.Dense(2)(b), "a": L.Activation("tanh")(a)}
            inner = keras.Model({"first": a, "second": b}, parts, name=self.name())
            made = inner({"second": self.vector(self.any(), 3), "first": t})
            return L.Concatenate()([made["b"], self.vector(made["a"], 2)])
        if kind == 0 and len(t.shape) == 3:
            inner_input = keras.Input(t.shape[1:])
            y = L.LSTM(3, return_sequences=self.chance())(L.Dense(4, "relu")(inner_input))
            inner = keras.Model(inner_input, y, name=self.name())
            return inner(t)
        if kind == 1 and len(t.shape) == 3:
            inner = keras.Sequential([keras.Input((t.shape[-1],)), L.Dense(3, "tanh"), L.Dense(2)], name=self.name())
            return L.TimeDistributed(inner)(t)
        width = self.size()
        t = self.vector(t, width)
        if kind == 2:
            a, b = keras.Input((width,), name=f"{self.name()}_a"), keras.Input((width,), name=f"{self.name()}_b")
            hidden = L.Dense(3, "tanh")(L.Add()([a, b]))
            inner = keras.Model([a, b], [hidden, L.Dense(2)(L.BatchNormalization()(hidden))], name=self.name())
            first, second = inner([t, self.vector(self.any(), width)])
            return L.Concatenate()([first, second])
        if kind == 3:
            inner = keras.Sequential([L.Dense(width, "tanh"), L.LayerNormalization()], name=self.name())
            return L.Add()([inner(t), t])
        inner_input = keras.Input((width,))
        deep = keras.Sequential([keras.Input((width,)), L.Dense(width, self.activation()), L.BatchNormalization()], name=self.name())
        inner = keras.Model(inner_input, L.Add()([deep(inner_input), inner_input, deep(L.Dense(width)(inner_input))]), name=self.name())
        if self.chance(0.3):
            inner.trainable = False
        return L.Concatenate()([inner(t), inner(L.Dense(width)(t))])

    def states(self, t):
        """A recurrent layer whose states another one starts from."""
        L = self.L
        if len(t.shape) != 3:
            return self.step(t)
        kind = self.rng.integers(4)
        if kind == 0:
            y, h, c = L.LSTM(3, return_state=True, return_sequences=True)(t)
            return L.LSTM(3)(y, initial_state=[h, c])
        if kind == 1:
            y, h = L.GRU(3, return_state=True, reset_after=self.chance())(t)
            return L.GRU(3, return_sequences=self.chance())(t, initial_state=L.Add()([y, h]))
        if kind == 2:
            y, *ends = L.Bidirectional(L.LSTM(2, return_state=True, return_sequences=True))(t)
            return L.Bidirectional(L.LSTM(2, return_sequences=self.chance()))(y, initial_state=ends)
        if self.chance(0.3):
            return L.Bidirectional(L.RNN(self.pick([L.LSTMCell, L.GRUCell, L.SimpleRNNCell])(2), return_sequences=True))(t)
        return L.RNN([L.LSTMCell(3), L.GRUCell(2), L.SimpleRNNCell(2)][:self.rng.integers(1, 4)], return_sequences=self.chance())(t)

    # ---- one layer ----

    def step(self, t):
        made = [None, None, self.of_vectors, self.of_sequences, self.of_images, self.of_volumes][len(t.shape)](t)
        if self.three and self.chance(0.15):
            O = self.keras.ops
            made = self.pick([lambda: O.tanh(made), lambda: made * 2.0 + 0.1, lambda: 1.0 - made, lambda: O.softmax(made, axis=-1), lambda: O.abs(made) ** 0.5,
                              lambda: O.flip(made, axis=1), lambda: made[:, ::-1], lambda: O.square(made) / (1.0 + O.abs(made)),
                              lambda: made - O.mean(made, axis=-1, keepdims=True), lambda: O.cumsum(made, axis=1), lambda: O.clip(made, -1.0, 1.0),
                              lambda: O.concatenate([made, O.relu(-made)], axis=-1), lambda: O.sort(made, axis=-1), lambda: O.log1p(O.exp(made)),
                              lambda: O.einsum("b...i->b...i", made), lambda: O.leaky_relu(made, 0.3), lambda: O.moveaxis(made, 1, -1),
                              lambda: O.stop_gradient(made) + made, lambda: O.split(made, [1], axis=-1)[0], lambda: O.unstack(made, axis=1)[0] if len(made.shape) > 2 else made,
                              lambda: O.top_k(made, 1)[0], lambda: O.var(made, axis=-1, keepdims=True) + made, lambda: O.logsumexp(made, axis=-1, keepdims=True) - made,
                              lambda: O.tile(made, [1, 2] + [1] * (len(made.shape) - 2)), lambda: O.roll(made, 1, axis=1), lambda: O.norm(made, axis=-1, keepdims=True) * made,
                              lambda: O.maximum(made, 0.0) // 0.5, lambda: O.minimum(made, O.flip(made, -1)), lambda: O.gelu(made), lambda: O.prod(made, axis=-1, keepdims=True),
                              lambda: O.max(made, axis=-1, keepdims=True) * 1.0, lambda: O.pad(made, [[0, 0]] + [[1, 0]] * (len(made.shape) - 1)), lambda: O.expand_dims(made, 1)[:, 0],
                              lambda: O.concatenate([made[:, :1], made], axis=1), lambda: O.matmul(made, O.swapaxes(made, -1, -2)) if len(made.shape) == 3 else made,
                              lambda: O.where(made > 0, made, O.exp(made) - 1.0), lambda: O.repeat(made, 2, axis=-1), lambda: O.reshape(made, (-1, int(np.prod(made.shape[1:])))),
                              lambda: O.hard_sigmoid(made), lambda: O.rms_normalization(made), lambda: O.layer_normalization(made), lambda: O.tril(made) if len(made.shape) > 2 else made,
                              lambda: O.take(made, np.array([0, 0]), axis=1), lambda: O.arctan2(made, 1.5), lambda: O.sum(made, axis=1, keepdims=True) * made])()
        return made

    def dropout(self, *layers):
        return list(layers) if self.three else []

    def of_vectors(self, t):
        L = self.L
        return self.pick([
            lambda: L.Dense(self.size(), self.activation(), use_bias=self.chance(), kernel_regularizer=self.pick([None, "l2"]),
                            kernel_constraint=self.pick([None, "unit_norm", "non_neg"]))(t),
            lambda: L.Dense(self.size(), activity_regularizer="l2", bias_regularizer="l1")(t),
            lambda: L.BatchNormalization(momentum=self.pick([0.9, 0.5]), scale=self.chance(), center=self.chance())(t),
            lambda: L.LayerNormalization(epsilon=1e-3)(t), lambda: L.Activation(self.activation())(t), lambda: L.Rescaling(0.5, 0.1)(t),
            lambda: L.Reshape((-1, 1))(t), lambda: L.RepeatVector(3)(t), lambda: L.PReLU()(t), lambda: L.LeakyReLU()(t), lambda: L.ELU(0.7)(t),
            lambda: L.Softmax()(t), lambda: L.UnitNormalization()(t), lambda: L.EinsumDense("ab,bc->ac", 3, bias_axes="c")(t),
            lambda: L.ReLU(max_value=1.5, threshold=0.1)(t), lambda: L.SpectralNormalization(L.Dense(3))(t),
            lambda: L.ActivityRegularization(0.01, 0.02)(t),
            lambda: L.BatchNormalization()(t, training=self.chance()),
            *self.dropout(lambda: L.Dropout(0.3)(t, training=self.chance()), lambda: L.RMSNormalization()(t), lambda: L.Normalization(mean=0.5, variance=2.0)(t),
                          lambda: L.Dense(3, self.pick(["celu", "glu" if t.shape[-1] % 2 == 0 else "mish", "sparsemax", "hard_tanh", "log_softmax"]))(t) if t.shape[-1] else t,
                          lambda: L.BatchNormalization(renorm=True)(t)),
            *self.dropout(lambda: L.Dropout(0.3)(t), lambda: L.GaussianNoise(0.2)(t), lambda: L.AlphaDropout(0.2)(t), lambda: L.GaussianDropout(0.2)(t)),
        ])()

    def recurrent(self, units, **options):
        L = self.L
        kind = self.pick([L.LSTM, L.GRU, L.SimpleRNN])
        if self.three and self.chance(0.3):
            options["dropout"] = 0.3
        if kind is L.GRU:
            options["reset_after"] = self.chance(0.7)
        return kind(units, unroll=self.chance(0.2), **options)

    def of_sequences(self, t):
        L, steps, width = self.L, t.shape[1], t.shape[2]
        choices = [
            lambda: L.Dense(self.size(), self.activation())(t),
            lambda: self.recurrent(self.size(), return_sequences=self.chance(0.7), go_backwards=self.chance(0.3))(t),
            lambda: L.Bidirectional(self.recurrent(2, return_sequences=self.chance(0.7)), merge_mode=self.pick(["concat", "sum", "mul", "ave"]))(t),
            lambda: L.TimeDistributed(L.Dense(3, self.activation()))(t), lambda: L.TimeDistributed(L.BatchNormalization())(t),
            lambda: L.Conv1D(3, 2, padding=self.pick(["same", "causal"]), dilation_rate=self.pick([1, 2]), activation=self.activation())(t),
            lambda: L.Conv1D(2, 2, strides=2, padding="same")(t), lambda: L.SeparableConv1D(3, 2, padding="same")(t),
            lambda: L.DepthwiseConv1D(2, padding="same", depth_multiplier=self.pick([1, 2]))(t), lambda: L.Conv1DTranspose(2, 3, strides=2)(t),
            lambda: L.MaxPooling1D(2, padding="same")(t), lambda: L.AveragePooling1D(2, strides=1, padding="same")(t),
            lambda: L.LayerNormalization(axis=self.pick([-1, 1]) if self.three else -1, epsilon=1e-3)(t), lambda: L.BatchNormalization(axis=self.pick([-1, 1]))(t),
            lambda: L.Permute((2, 1))(t), lambda: L.ZeroPadding1D(1)(t), lambda: L.UpSampling1D(2)(t), lambda: L.Flatten()(t),
            lambda: L.Reshape((steps, width, 1))(t), lambda: L.MultiHeadAttention(2, 2)(t, t), lambda: L.MultiHeadAttention(2, 2, value_dim=3)(t, t, use_causal_mask=True),
            lambda: L.Softmax(axis=self.pick([1, 2]))(t), lambda: L.PReLU(shared_axes=[1])(t), lambda: L.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d")(t),
            lambda: L.Masking(0.0)(t), lambda: L.GroupNormalization(1)(t), lambda: L.GlobalAveragePooling1D()(t), lambda: L.Activation(self.activation())(t),
            lambda: L.MultiHeadAttention(2, 2)(t, t, return_attention_scores=True)[0],
            *self.dropout(lambda: L.GroupQueryAttention(2, 4, 2)(t, t), lambda: L.RMSNormalization()(t), lambda: L.MultiHeadAttention(2, 3, use_gate=True, dropout=0.2)(t, t),
                          lambda: L.Bidirectional(self.recurrent(2), backward_layer=L.GRU(2, go_backwards=True))(t), lambda: L.AdaptiveAveragePooling1D(2)(t)),
            *self.dropout(lambda: L.SpatialDropout1D(0.3)(t), lambda: L.Dropout(0.2, noise_shape=(None, 1, width))(t)),
        ]
        if steps > 3:
            choices.append(lambda: L.Cropping1D(1)(t))
        return self.pick(choices)()

    def of_images(self, t):
        L, (height, width, channels) = self.L, t.shape[1:]
        choices = [
            lambda: L.Conv2D(3, self.pick([1, 2, 3]), padding="same", activation=self.activation(), strides=self.pick([1, 2]))(t),
            lambda: L.Conv2D(2, (2, 3), padding="same", dilation_rate=self.pick([1, 2]), use_bias=False)(t),
            lambda: L.SeparableConv2D(3, 2, padding="same", depth_multiplier=2)(t), lambda: L.DepthwiseConv2D(2, padding="same", activation="relu")(t),
            lambda: L.Conv2DTranspose(2, 3, strides=self.pick([1, 2]), padding=self.pick(["same", "valid"]))(t), lambda: L.BatchNormalization()(t),
            lambda: L.MaxPooling2D(2, padding="same")(t), lambda: L.AveragePooling2D(2, strides=1, padding="same")(t), lambda: L.LeakyReLU()(t),
            lambda: L.LayerNormalization(axis=self.pick([-1, [1, 2, 3]]), epsilon=1e-3)(t), lambda: L.ZeroPadding2D(((0, 1), (1, 0)))(t),
            lambda: L.UpSampling2D((1, 2), interpolation=self.pick(["nearest", "bilinear"]))(t), lambda: L.Permute((2, 1, 3))(t),
            lambda: L.Reshape((height, width * channels))(t), lambda: L.TimeDistributed(L.Conv1D(2, 2, padding="same"))(t),
            lambda: L.GlobalAveragePooling2D(keepdims=True)(t), lambda: L.PReLU(shared_axes=[1, 2])(t), lambda: L.Resizing(4, 5)(t),
            lambda: L.ConvLSTM1D(2, 2, padding="same", return_sequences=self.chance())(t), lambda: L.Dense(3)(t), lambda: L.GlobalMaxPooling2D()(t),
            lambda: L.UnitNormalization(axis=-1)(t), lambda: L.Flatten()(t), lambda: L.GroupNormalization(1)(t),
            *self.dropout(lambda: L.SpatialDropout2D(0.3)(t), lambda: L.RandomFlip()(t), lambda: L.RandomRotation(0.1)(t), lambda: L.RandomZoom(0.2)(t),
                          lambda: L.RandomTranslation(0.1, 0.2)(t), lambda: L.AdaptiveMaxPooling2D(2)(t), lambda: L.BatchNormalization(synchronized=True)(t)),
        ]
        if height > 3 and width > 3:
            choices += [lambda: L.Cropping2D(((1, 0), (0, 1)))(t), lambda: L.Conv2D(2, 3)(t)]
        return self.pick(choices)()

    def of_volumes(self, t):
        L = self.L
        return self.pick([
            lambda: L.Conv3D(2, 2, padding="same", activation=self.activation())(t), lambda: L.MaxPooling3D(2, padding="same")(t),
            lambda: L.AveragePooling3D(2, strides=1, padding="same")(t), lambda: L.ConvLSTM2D(2, 2, padding="same", return_sequences=self.chance())(t),
            lambda: L.TimeDistributed(L.Conv2D(2, 2, padding="same"))(t), lambda: L.TimeDistributed(L.Flatten())(t), lambda: L.BatchNormalization()(t),
            lambda: L.GlobalAveragePooling3D()(t), lambda: L.Conv3DTranspose(2, 2, padding="same")(t), lambda: L.Reshape((-1, t.shape[-1] * t.shape[-2]))(t),
            lambda: L.UpSampling3D((1, 2, 1))(t), lambda: L.ZeroPadding3D((0, 1, 0))(t), lambda: L.Dense(2)(t), lambda: L.Activation("tanh")(t),
        ])()


def make(keras, rng):
    """A model, and its data for n rows: (model, n -> {input name: array})."""
    model = Maker(keras, rng)()

    def data(n):
        arrays = {}
        for t in model.inputs:
            shape = (n, *t.shape[1:])
            x = rng.integers(0, WORDS, shape).astype("int32") if "int" in str(t.dtype) else rng.normal(0, 1, shape).astype("float32")
            if len(shape) == 3:
                x[rng.random(shape[:2]) < 0.2] = 0
            arrays[t.name.split(":")[0]] = x
        return arrays

    return model, data


def arrays_of(outputs):
    """The outputs of a model as arrays in the order of tree.flatten()."""
    if isinstance(outputs, dict):
        return [np.asarray(outputs[name]) for name in sorted(outputs)]
    return [np.asarray(v) for v in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]

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
            kinds = [self.merge, self.nested, self.shared, self.states, self.masked, self.typed]
            kind = self.rng.integers(12)
            made = (kinds[kind] if kind < len(kinds) else self.step)(t)
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
        kind = self.rng.integers(9)
        if kind == 6:  # in two places, within one another
            width = self.size()
            inner_input = keras.Input((width,))
            core = keras.Sequential([keras.Input((width,)), L.Dense(width, self.activation())], name=self.name())
            middle = keras.Model(inner_input, [core(core(inner_input)), L.BatchNormalization()(inner_input)], name=self.name())
            a, b = middle(self.vector(t, width))
            return L.Add()([a, b, *middle(self.vector(self.any(), width))])
        if kind == 7 and len(t.shape) in (3, 4):  # of each step
            shape = tuple(t.shape[2:])
            inner_input = keras.Input(shape)
            y = L.LSTM(2)(inner_input) if len(shape) == 2 else L.Add()([L.Dense(3)(inner_input), L.Dense(3, "tanh")(inner_input)])
            inner = keras.Model(inner_input, L.BatchNormalization()(y) if self.chance() else y, name=self.name())
            return L.TimeDistributed(inner)(t)
        if kind == 8:
            width = self.size()
            inner_input = keras.Input((width,))
            inner = keras.Model(inner_input, {"x": L.Dense(2)(inner_input), "y": {"z": inner_input * 2.0}} if self.three else {"x": L.Dense(2)(inner_input)}, name=self.name())
            return L.Concatenate()([inner(self.vector(t, width))["x"], inner(self.vector(self.any(), width), training=self.chance())["x"]])
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
        kind = self.rng.integers(7)
        if kind == 4:
            y, *ends = L.RNN([L.GRUCell(3), L.LSTMCell(2)], return_state=True, return_sequences=True)(t)
            return L.RNN([L.GRUCell(3), L.LSTMCell(2)], return_sequences=self.chance())(y, initial_state=ends)
        if kind == 5:
            start = [self.vector(self.any(), 3) for _ in range(2)]
            return L.LSTM(3, return_sequences=self.chance(), go_backwards=self.chance())(t, initial_state=start)
        if kind == 6:
            start = [self.vector(self.any(), 2) for _ in range(2)]
            return L.Bidirectional(L.GRU(2, return_sequences=self.chance()), merge_mode=self.pick(["concat", "sum", "ave"]))(t, initial_state=start)
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

    def masked(self, t):
        """Layers that get masks, given as tensors or passed on by what is before them."""
        L = self.L
        if len(t.shape) != 3:
            return self.step(t)
        steps, width = t.shape[1], t.shape[2]
        positive = (lambda v: self.keras.ops.greater(v[:, :, 0], -0.5)) if self.three else (lambda v: v[:, :, 0] > -0.5)
        mask = positive(t)
        other = L.Dense(width)(L.Masking()(t)) if self.chance() else L.Dense(width)(t)
        sequences = self.chance(0.7)

        def joined():
            a, b = L.Masking()(t), L.Activation("tanh")(t)
            y = self.pick([lambda: L.Add()([a, b]), lambda: L.Concatenate()([a, b]), lambda: L.Concatenate(axis=1)([a, b]), lambda: L.Multiply()([a, a]),
                           lambda: L.Average()([b, a]), lambda: L.Maximum()([a, L.Masking(0.5)(t)]), lambda: L.Subtract()([a, b])])()
            return self.recurrent(3, return_sequences=sequences)(y)

        def passed_on():
            y = L.Masking()(t)
            y = self.pick([lambda: L.TimeDistributed(L.Dense(3))(y), lambda: L.LayerNormalization(epsilon=1e-3)(y), lambda: L.Dense(3)(y), lambda: L.PReLU()(y),
                           lambda: L.Bidirectional(L.GRU(2, return_sequences=True))(y), lambda: L.LSTM(3, return_sequences=True)(y),
                           lambda: L.MultiHeadAttention(2, 2)(y, y), lambda: L.BatchNormalization()(y), lambda: L.Activation("relu")(y)])()
            return self.pick([lambda: L.GlobalAveragePooling1D()(y), lambda: L.LSTM(2)(y), lambda: L.Bidirectional(L.LSTM(2), merge_mode=None)(y)[0],
                              lambda: L.GRU(2, go_backwards=True, return_sequences=True)(y), lambda: L.Attention()([y, y])])()

        choices = [
            joined, passed_on, joined, passed_on,
            lambda: L.Attention(score_mode=self.pick(["dot", "concat"]), use_scale=self.chance())([t, other], mask=[mask, positive(other)], use_causal_mask=self.chance()),
            lambda: L.AdditiveAttention(use_scale=self.chance())([t, other], mask=[mask, mask]),
            lambda: L.Attention()([t, other], return_attention_scores=True)[self.rng.integers(2)],
            lambda: L.MultiHeadAttention(2, 2, output_shape=3)(t, other, attention_mask=self.mask_of_pairs(mask, steps)),
            lambda: self.recurrent(3, return_sequences=sequences)(t, mask=mask),
            lambda: L.Bidirectional(self.recurrent(2, return_sequences=sequences))(t, mask=mask),
            lambda: L.GlobalAveragePooling1D(keepdims=self.chance())(t, mask=mask),
            lambda: L.RNN(L.StackedRNNCells([L.GRUCell(2), L.LSTMCell(3)]), return_sequences=sequences)(t, mask=mask),
            lambda: L.GRU(3, zero_output_for_mask=True, return_sequences=True)(t, mask=mask),
        ]
        if self.three:
            choices += [lambda: L.BatchNormalization()(t, mask=mask), lambda: L.MultiHeadAttention(2, 2)(t, other, query_mask=mask, value_mask=mask),
                        lambda: L.GroupQueryAttention(2, 4, 2)(t, other, attention_mask=self.mask_of_pairs(mask, steps))]
        return self.pick(choices)()

    def mask_of_pairs(self, mask, steps):
        """(batch, steps) as (batch, steps, steps)."""
        if self.three:
            O = self.keras.ops
            return O.logical_or(O.expand_dims(mask, 1), O.expand_dims(mask, 2))
        return self.L.Reshape((1, steps))(mask)

    def typed(self, t):
        """Layers of other types: float64, integers and booleans."""
        L = self.L
        rank = len(t.shape)
        choices = [lambda: L.Dense(3, "tanh", dtype="float64")(t), lambda: L.Activation("relu", dtype="float64")(t), lambda: L.BatchNormalization(dtype="float64")(t),
                   lambda: L.Discretization([-0.7, 0.1, 0.6])(t)]
        if rank == 2:
            choices += [lambda: L.Embedding(5, 3, mask_zero=self.chance())(L.Discretization([-0.5, 0.2, 0.9])(t)),
                        lambda: L.CategoryEncoding(5, output_mode=self.pick(["multi_hot", "count"]))(L.Discretization([-0.5, 0.2, 0.9])(t))]
        if rank == 3:
            choices += [lambda: L.LSTM(2, dtype="float64", return_sequences=self.chance())(t), lambda: L.Conv1D(2, 2, dtype="float64")(t)]
        if self.three:
            O = self.keras.ops
            choices += [lambda: O.cast(t > 0.1, "float32") * t, lambda: O.where(O.logical_and(t > -0.5, t < 0.5), t, 0.0), lambda: O.cast(O.argmax(t, axis=-1, keepdims=True), "float32"),
                        lambda: O.one_hot(O.argmax(t, axis=-1), t.shape[-1]), lambda: O.cast(O.floor(t), "int32") * 2, lambda: O.cast(O.sign(t), "int8"),
                        lambda: O.cast(t, "float64") * 0.5, lambda: O.mean(O.cast(O.floor(t * 3.0), "int32"), axis=-1, keepdims=True), lambda: O.cast(t, "int32") // 2 + 1,
                        lambda: O.any(t > 0.5, axis=-1, keepdims=True), lambda: O.bincount(O.cast(O.clip(t, 0, 3), "int32"), minlength=4) if rank == 2 else t]
        else:
            import tensorflow as tf
            choices += [lambda: tf.cast(t > 0.1, "float32") * t, lambda: tf.where(t > 0.0, t, 0.5 * t), lambda: tf.one_hot(tf.cast(t, "int32"), 3),
                        lambda: tf.reduce_sum(tf.cast(t * 3.0, "int32"), axis=-1, keepdims=True), lambda: tf.cast(t * 2.0, "int32") // 2, lambda: tf.cast(tf.floor(t), "float64")]
        y = self.pick(choices)()
        return y if "float" in str(y.dtype) and self.chance() else L.Rescaling(0.5, dtype="float32")(y)

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
            lambda: L.ConvLSTM1D(2, 2, padding="same", go_backwards=self.chance(), return_sequences=self.chance(), recurrent_activation="sigmoid", strides=self.pick([1, 2]))(t),
            lambda: L.Bidirectional(L.ConvLSTM1D(2, 2, padding="same", return_sequences=self.chance()))(t),
            lambda: L.CenterCrop(max(1, height - 1), max(1, width - 1))(t), lambda: L.Conv2D(4, 1, groups=1, kernel_constraint="max_norm")(t),
            lambda: L.SeparableConv2D(2, 2, strides=2, padding="same", activation="tanh")(t), lambda: L.EinsumDense("abcd,de->abce", (None, None, 3))(t),
            # The gradient of AdaptiveMaxPooling2D over an axis of one element is uninitialized memory in Keras on TensorFlow.
            *self.dropout(lambda: L.SpatialDropout2D(0.3)(t), lambda: L.RandomFlip()(t), lambda: L.RandomRotation(0.1)(t), lambda: L.RandomZoom(0.2)(t),
                          lambda: L.RandomTranslation(0.1, 0.2)(t),
                          lambda: (L.AdaptiveMaxPooling2D if height > 1 < width else L.AdaptiveAveragePooling2D)(2)(t),
                          lambda: L.BatchNormalization(synchronized=True)(t)),
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


def make(keras, rng, maker=Maker):
    """A model, and its data for n rows: (model, n -> {input name: array})."""
    model = maker(keras, rng)()

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
        return [array for name in sorted(outputs) for array in arrays_of(outputs[name])]
    if isinstance(outputs, (list, tuple)):
        return [array for part in outputs for array in arrays_of(part)]
    return [np.asarray(outputs)]


LOSSES = ["mse", "mae", "huber", "log_cosh", "cosine_similarity"]


def losses(names, rng, named):
    """Arguments of compile(): one loss for all outputs, or one for each, with weights."""
    if len(names) == 1 or rng.random() < 0.4:
        return {"loss": LOSSES[rng.integers(4)]}
    each = {name: LOSSES[rng.integers(len(LOSSES))] for name in names}
    weights = {name: float(np.round(rng.uniform(0.1, 2.0), 2)) for name in names}
    if named or rng.random() < 0.5:
        return {"loss": each, **({"loss_weights": weights} if rng.random() < 0.7 else {})}
    return {"loss": list(each.values()), **({"loss_weights": list(weights.values())} if rng.random() < 0.7 else {})}

"""Models of Keras 2 for tests of its files and SavedModels, and the data that they take."""

import numpy as np
import tensorflow as tf
import tf_keras

L = tf_keras.layers
VECTOR, SEQUENCE, IMAGE = (5,), (6, 3), (8, 7, 3)


def dense():
    return tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(6, "relu", kernel_regularizer="l2"), L.Dropout(0.3),
                                L.Dense(3, "softmax", kernel_constraint=tf_keras.constraints.MaxNorm(2.0))])


def input_in_the_first_layer():
    return tf_keras.Sequential([L.Dense(6, "swish", input_shape=VECTOR), L.LeakyReLU(0.1), L.Dense(3)])


def image():
    return tf_keras.Sequential([
        L.InputLayer(IMAGE), L.Conv2D(4, 3, padding="same", use_bias=False), L.BatchNormalization(axis=[-1], epsilon=1e-5), L.ReLU(6.0),
        L.DepthwiseConv2D(3), L.SeparableConv2D(4, 3), L.MaxPooling2D(), L.GlobalAveragePooling2D(), L.Dense(3)])


def recurrent():
    return tf_keras.Sequential([
        L.InputLayer(SEQUENCE), L.LSTM(4, return_sequences=True, recurrent_activation="hard_sigmoid"),
        L.GRU(4, return_sequences=True, reset_after=False), L.GRU(3, return_sequences=True), L.SimpleRNN(2)])


def bidirectional():
    x = tf_keras.Input(SEQUENCE)
    y = L.Bidirectional(L.LSTM(3, return_sequences=True, recurrent_activation="hard_sigmoid"), merge_mode="sum")(x)
    y = L.TimeDistributed(L.Dense(4, "tanh"))(y)
    y = L.RNN([L.LSTMCell(3), L.GRUCell(2)])(y)
    return tf_keras.Model(x, y)


def states():
    x, z = tf_keras.Input(SEQUENCE), tf_keras.Input(SEQUENCE)
    y, h, c = L.LSTM(4, return_state=True, return_sequences=True)(L.Masking(0.0)(x))
    return tf_keras.Model([x, z], [L.LSTM(4)(z, initial_state=[h, c]), L.GRU(4)(y, initial_state=h)])


def shared():
    a, b = tf_keras.Input(VECTOR), tf_keras.Input(VECTOR)
    layer = L.Dense(4, "tanh")
    y = L.Concatenate()([layer(a), layer(b), L.Subtract()([layer(a), layer(layer_input(b))])])
    return tf_keras.Model([a, b], [L.Dense(2, name="first")(y), L.Dense(1, name="second")(y)])


def layer_input(x):
    return L.Activation("relu")(x)


def nested():
    inner = tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(4), L.BatchNormalization(), L.Dense(3)], name="inner")
    x = tf_keras.Input(VECTOR)
    graph = tf_keras.Model(x, L.Add()([L.Dense(3)(x), inner(x)]), name="graph")
    a, b = tf_keras.Input(VECTOR), tf_keras.Input(VECTOR)
    other = tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(2), L.BatchNormalization()], name="other")
    return tf_keras.Model([a, b], [L.Dense(2)(L.Multiply()([graph(a), graph(b)])), other(b), graph(b)])


def frozen():
    model = nested()
    model.get_layer("graph").trainable = False
    return model


def without_input():
    """A nested Sequential that got its input when it was called: tf-keras counts its calls from 0."""
    inner = tf_keras.Sequential([L.Dense(4, "tanh"), L.Dense(3)], name="inner")
    x = tf_keras.Input(VECTOR)
    return tf_keras.Model(x, [inner(x), L.Dense(2)(inner(L.ReLU()(x)))])


def attention():
    q, v = tf_keras.Input((4, 6)), tf_keras.Input((3, 6))
    y = L.MultiHeadAttention(2, 3)(q, v, attention_mask=None)
    y = L.LayerNormalization(epsilon=1e-6)(L.Add()([q, y]))
    return tf_keras.Model([q, v], [L.Attention()([y, v]), L.AdditiveAttention()([y, v])])


def embedding():
    return tf_keras.Sequential([L.InputLayer((7,)), L.Embedding(9, 4, mask_zero=True), L.GRU(3),
                                L.Dense(2)])


def others():
    x = tf_keras.Input(IMAGE)
    parts = [L.LocallyConnected2D(2, 3)(x), L.Conv2DTranspose(2, 3, 2)(x), L.PReLU(shared_axes=[1, 2])(x), L.ThresholdedReLU(0.4)(x),
             L.UpSampling2D()(x), L.ZeroPadding2D()(x), L.Cropping2D()(x), L.GroupNormalization(3)(x), L.Rescaling(0.5)(x),
             L.Resizing(4, 5)(x), L.EinsumDense("abcd,de->abce", (None, None, 4))(x), L.Permute((2, 1, 3))(x)]
    return tf_keras.Model(x, parts)


def inputs_by_name():
    a, b = tf_keras.Input(VECTOR, name="a"), tf_keras.Input(VECTOR, name="b")
    return tf_keras.Model({"a": a, "b": b}, {"sum": L.Add()([a, b]), "dense": L.Dense(2)(b)})


def mixed():
    return tf_keras.Sequential([L.InputLayer(VECTOR), L.Dense(4, "relu", dtype="mixed_float16"), L.Dense(2, dtype="float32")])


def sliced():
    """Parts of tensors, whose indices metadata of SavedModels have as tuples."""
    x = tf_keras.Input(SEQUENCE)
    return tf_keras.Model(x, [x[:, 1:, 0], x[..., ::2], L.Dense(2)(x)[:, -1], tf.transpose(x, (0, 2, 1))])


MODELS = [dense, input_in_the_first_layer, image, recurrent, bidirectional, states, shared, nested, frozen, without_input, attention,
          embedding, others, inputs_by_name, sliced, mixed]
# Keras 3 refuses nested models, old layers, the slope of hard_sigmoid, policies and Keras 2's arguments of attention.
NOT_IN_KERAS_3 = {nested, frozen, without_input, others, states, recurrent, bidirectional, attention, sliced, mixed}


def randomised(model, rng):
    values = [np.abs(rng.normal(0, 0.7, v.shape)) + 0.3 if "variance" in w.name else rng.normal(0, 0.7, v.shape)
              for w, v in zip(model.weights, model.get_weights())]
    model.set_weights(values)
    return model


def data_of(model, rng, rows=4):
    def draw(x):
        whole = any(layer.__class__.__name__ == "Embedding" for layer in model.layers)
        value = rng.integers(0, 9, (rows, *x.shape[1:])) if whole else rng.normal(0, 1.2, (rows, *x.shape[1:]))
        return value.astype("float32")
    return {x.name.split(":")[0]: draw(x) for x in model.inputs}


def arrays(outputs):
    return list(outputs.values()) if isinstance(outputs, dict) else list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def predicted(model, data, by_name):
    """Outputs in the order of tf-keras's flattening."""
    given = data if by_name else list(data.values())
    outputs = model.predict(given if by_name or len(given) > 1 else given[0], verbose=0)
    return [outputs[k] for k in sorted(outputs)] if isinstance(outputs, dict) else arrays(outputs)

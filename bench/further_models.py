"""Further models of compare.py, as users write them: parts of generative, language, recommendation and audio models."""

import keras

L = keras.layers
LABELS = keras.losses.SparseCategoricalCrossentropy


def classifier(inputs, x):
    return keras.Model(inputs, L.Dense(10)(x)), LABELS(from_logits=True), 0


def classifier_of_ids(ids, x, vocabulary):
    return keras.Model(ids, L.Dense(10)(x)), LABELS(from_logits=True), vocabulary


def gan_discriminator():
    x = image = keras.Input((32, 32, 3))
    for i, filters in enumerate((64, 128, 256)):
        x = L.Conv2D(filters, 4, strides=2, padding="same", use_bias=i == 0)(x)
        x = L.LeakyReLU(negative_slope=0.2)(L.BatchNormalization()(x) if i else x)
    return classifier(image, L.Flatten()(x))


def super_resolution():  # the channels become pixels at the end
    image = keras.Input((32, 32, 3))
    x = L.Conv2D(64, 5, padding="same", activation="relu")(image)
    for _ in range(2):
        x = L.Add()([x, L.Conv2D(64, 3, padding="same")(L.Conv2D(64, 3, padding="same", activation="relu")(x))])
    x = keras.ops.reshape(L.Conv2D(12, 3, padding="same")(x), (-1, 32, 32, 2, 2, 3))
    return keras.Model(image, keras.ops.reshape(keras.ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, 64, 64, 3))), "mse", 0


def cnn_lstm():
    video = keras.Input((10, 32, 32, 3))
    x = L.TimeDistributed(L.MaxPooling2D())(L.TimeDistributed(L.Conv2D(16, 3, activation="relu"))(video))
    x = L.TimeDistributed(L.GlobalAveragePooling2D())(L.TimeDistributed(L.Conv2D(32, 3, activation="relu"))(x))
    return classifier(video, L.LSTM(64)(x))


def group_norm():
    image = keras.Input((32, 32, 3))
    x = L.Conv2D(32, 3, padding="same")(image)
    for filters in (32, 64):
        y = x
        for _ in range(2):
            y = L.Conv2D(filters, 3, padding="same")(L.Activation("swish")(L.GroupNormalization(8)(y)))
        x = L.AveragePooling2D(2)(L.Add()([L.Conv2D(filters, 1)(x), y]))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def convnext_blocks():
    image = keras.Input((64, 64, 3))
    x = L.Conv2D(48, 4, strides=4)(image)
    for filters, count in ((48, 3), (96, 2)):
        x = L.LayerNormalization(epsilon=1e-6)(x)
        if filters != 48:
            x = L.Conv2D(filters, 2, strides=2)(x)
        for _ in range(count):
            y = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(7, padding="same")(x))
            x = L.Add()([x, L.Dense(filters)(L.Dense(4 * filters, activation="gelu")(y))])
    return classifier(image, L.LayerNormalization()(L.GlobalAveragePooling2D()(x)))


def bert(width=128, steps=64):
    ids = keras.Input((steps,), dtype="int32")
    x = L.Embedding(8000, width, mask_zero=True)(ids) + L.Embedding(steps, width)(keras.ops.arange(steps))
    x = L.Dropout(0.1, seed=1)(L.LayerNormalization()(x))
    mask = keras.ops.not_equal(ids, 0)[:, None, :]
    for i in range(2):
        y = L.MultiHeadAttention(4, width // 4, dropout=0.1, seed=i)(x, x, attention_mask=mask)
        x = L.LayerNormalization()(x + L.Dropout(0.1, seed=10 + i)(y))
        y = L.Dense(width)(L.Dense(4 * width, activation="gelu")(x))
        x = L.LayerNormalization()(x + L.Dropout(0.1, seed=20 + i)(y))
    return classifier_of_ids(ids, L.Dense(width, activation="tanh")(x[:, 0]), 8000)


def tab_transformer():
    ids = keras.Input((16,), dtype="int32")
    x = L.Embedding(1000, 32)(ids)
    for _ in range(3):
        x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 8)(x, x))
        x = L.LayerNormalization()(x + L.Dense(32)(L.Dense(64, activation="gelu")(x)))
    return classifier_of_ids(ids, L.Dense(64, activation="selu")(L.Flatten()(x)), 1000)


def dlrm():  # the products of all pairs of 26 embeddings
    ids = keras.Input((26,), dtype="int32")
    features = [L.Embedding(5000, 16)(ids[:, i]) for i in range(26)]
    stacked = keras.ops.stack(features, axis=1)
    x = L.Concatenate()([L.Flatten()(L.Dot(axes=(2, 2))([stacked, stacked])), *features])
    return classifier_of_ids(ids, L.Dense(128, activation="relu")(L.Dense(256, activation="relu")(x)), 5000)


def attention_pooling():
    ids = keras.Input((100,), dtype="int32")
    x = L.Bidirectional(L.LSTM(32, return_sequences=True))(L.Embedding(10000, 64)(ids))
    weights = L.Softmax(axis=1)(L.Dense(1)(L.Dense(64, activation="tanh")(x)))
    return classifier_of_ids(ids, keras.ops.sum(x * weights, axis=1), 10000)


def pixel_cnn():
    image = keras.Input((28, 28, 1))
    x = L.Conv2D(64, 7, padding="same", activation="relu")(image)
    for _ in range(3):
        y = L.Conv2D(32, 3, padding="same", activation="relu")(L.Conv2D(32, 1, activation="relu")(x))
        x = x + L.Conv2D(64, 1, activation="relu")(y)
    return keras.Model(image, L.Conv2D(1, 1, activation="sigmoid")(L.Conv2D(64, 1, activation="relu")(x))), "mse", 0


def vae():
    image = keras.Input((28, 28, 1))
    x = L.Conv2D(32, 3, activation="relu", strides=2, padding="same")(image)
    x = L.Conv2D(64, 3, activation="relu", strides=2, padding="same")(x)
    z = L.GaussianNoise(0.5, seed=1)(L.Dense(2)(L.Dense(16, activation="relu")(L.Flatten()(x))))
    x = L.Reshape((7, 7, 64))(L.Dense(7 * 7 * 64, activation="relu")(z))
    for filters in (64, 32):
        x = L.Conv2DTranspose(filters, 3, activation="relu", strides=2, padding="same")(x)
    return keras.Model(image, L.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x)), "mse", 0


def audio():
    x = sound = keras.Input((4000, 1))
    for filters, width, strides in ((32, 80, 4), (32, 3, 1), (64, 3, 1)):
        x = L.MaxPooling1D(4)(L.BatchNormalization()(L.Conv1D(filters, width, strides=strides, activation="relu")(x)))
    return classifier(sound, L.GlobalAveragePooling1D()(x))


def efficientnet_v2_blocks():
    def unit(layer, x):
        return L.Activation("swish")(L.BatchNormalization()(layer(x)))

    image = keras.Input((64, 64, 3))
    x = unit(L.Conv2D(24, 3, strides=2, padding="same", use_bias=False), image)
    for _ in range(2):
        y = unit(L.Conv2D(96, 3, padding="same", use_bias=False), x)
        x = L.Add()([x, L.BatchNormalization()(L.Conv2D(24, 1, use_bias=False)(y))])
    y = unit(L.DepthwiseConv2D(3, strides=2, padding="same", use_bias=False), unit(L.Conv2D(96, 1, use_bias=False), x))
    scale = L.Conv2D(6, 1, activation="swish")(L.GlobalAveragePooling2D(keepdims=True)(y))
    y = L.Multiply()([y, L.Conv2D(96, 1, activation="sigmoid")(scale)])
    x = L.BatchNormalization()(L.Conv2D(48, 1, use_bias=False)(y))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def graph_network():  # edges weighted by the likeness of nodes
    x = nodes = keras.Input((64, 16))
    edges = L.Softmax()(L.Dot(axes=(2, 2))([nodes, nodes]))
    for _ in range(3):
        x = L.Dense(64, activation="relu")(keras.ops.matmul(edges, x))
    return classifier(nodes, keras.ops.max(x, axis=1))


def pyramid():
    image = keras.Input((48, 48, 3))
    x = L.Conv2D(16, 3, padding="same", activation="relu")(L.Rescaling(0.5)(image))
    y = L.UpSampling2D(4, interpolation="bilinear")(L.Conv2D(16, 1)(L.AveragePooling2D(4)(x)))
    x = L.PReLU(shared_axes=[1, 2])(L.Conv2D(32, 3, padding="same")(L.Concatenate()([x, y])))
    return keras.Model(image, L.Conv2D(3, 1)(L.SpatialDropout2D(0.1, seed=1)(x))), "mse", 0


def normalized_mlp():
    x = inputs = keras.Input((64,))
    x = L.ELU()(L.LayerNormalization()(L.Dense(256)(x)))
    x = L.Dense(128, activation="mish")(L.UnitNormalization()(L.Dense(256)(x)))
    return classifier(inputs, L.Dense(64, activation="softplus")(x))


def dense_autoencoder():
    layers = [L.Dense(units, activation="relu") for units in (128, 64, 32, 64, 128)]
    return keras.Sequential([keras.Input((784,)), *layers, L.Dense(784, activation="sigmoid")]), "mse", 0


def stacked_cells():
    series = keras.Input((30, 16))
    return classifier(series, L.RNN(L.StackedRNNCells([L.LSTMCell(48), L.GRUCell(48)]))(series))


def spectral():
    x = image = keras.Input((32, 32, 3))
    for filters, size, strides in ((32, 3, 1), (64, 4, 2)):
        x = L.LeakyReLU()(L.SpectralNormalization(L.Conv2D(filters, size, strides=strides, padding="same"))(x))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def odd_channels():
    x = image = keras.Input((64, 64, 3))
    for filters, size, strides in ((7, 5, 1), (24, 3, 1), (40, 3, 2), (12, 1, 1), (3, 3, 1)):
        x = L.Conv2D(filters, size, strides=strides, activation="relu")(x)
    return classifier(image, L.GlobalAveragePooling2D()(x))


def relative_bias(steps=50, width=128):  # RMS norms, gated linear units, a bias of each distance
    ids = keras.Input((steps,), dtype="int32")
    x, ops = L.Embedding(4000, width)(ids), keras.ops
    places = ops.arange(steps)
    distances = ops.clip(ops.abs(places[None] - places[:, None]), 0, 31)
    bias = ops.transpose(L.Embedding(32, 4)(distances), (2, 0, 1))[None]
    for _ in range(2):
        y = L.RMSNormalization()(x)
        q, k, v = [ops.transpose(ops.reshape(L.Dense(width, use_bias=False)(y), (-1, steps, 4, width // 4)), (0, 2, 1, 3)) for _ in range(3)]
        weights = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) + bias)
        y = ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), (-1, steps, width))
        x = x + L.Dense(width, use_bias=False)(y)
        y = L.RMSNormalization()(x)
        y = L.Dense(4 * width, use_bias=False, activation="silu")(y) * L.Dense(4 * width, use_bias=False)(y)
        x = x + L.Dense(width, use_bias=False)(y)
    return keras.Model(ids, L.Dense(4000, use_bias=False)(L.RMSNormalization()(x))), LABELS(from_logits=True), 4000


# Name: title, batch, batches of a run.
FURTHER = {
    gan_discriminator: ("GAN discriminator with batch normalization, batch 32", 32, 6),
    super_resolution: ("super-resolution 32x32 to 64x64, batch 16", 16, 6),
    cnn_lstm: ("CNN and LSTM on 10 images of 32x32, batch 16", 16, 8),
    group_norm: ("residual blocks with group normalization, batch 32", 32, 6),
    convnext_blocks: ("ConvNeXt blocks 64x64, batch 32", 32, 6),
    bert: ("BERT encoder with masks and dropout, 64 tokens, batch 32", 32, 6),
    tab_transformer: ("TabTransformer, 16 features, batch 128", 128, 20),
    dlrm: ("DLRM, 26 features, batch 128", 128, 20),
    attention_pooling: ("Bidirectional LSTM with attention pooling, batch 32", 32, 10),
    pixel_cnn: ("residual convolutions of PixelCNN 28x28, batch 32", 32, 6),
    vae: ("VAE of convolutions 28x28, batch 64", 64, 10),
    audio: ("Conv1D on audio, 4000 samples, batch 32", 32, 8),
    efficientnet_v2_blocks: ("EfficientNetV2 blocks 64x64, batch 32", 32, 6),
    graph_network: ("graph network, 64 nodes, batch 32", 32, 20),
    pyramid: ("pyramid with bilinear UpSampling2D 48x48, batch 16", 16, 10),
    normalized_mlp: ("MLP with normalizations and activations, batch 128", 128, 40),
    stacked_cells: ("LSTM and GRU cells of one RNN, 30 steps, batch 16", 16, 20),
    spectral: ("CNN with SpectralNormalization 32x32, batch 16", 16, 10),
    odd_channels: ("CNN of 7, 24, 40, 12 and 3 channels 64x64, batch 16", 16, 10),
    relative_bias: ("language model with relative biases and RMS norms, batch 16", 16, 6),
    dense_autoencoder: ("dense autoencoder 784-128-64-32, batch 128", 128, 40),
}
MODELS = {model.__name__: model for model in FURTHER}

"""Models of compare.py after well-known architectures: the blocks that give each its name, at sizes that take milliseconds."""

import keras

from further_models import classifier, classifier_of_ids

L = keras.layers
ops = keras.ops


def normalized(layer, x, activation="relu"):
    return L.Activation(activation)(L.BatchNormalization()(layer(x)))


def squeezed(x, ratio=4, gate="sigmoid"):
    """Squeeze-and-excitation."""
    channels = x.shape[-1]
    scale = L.Dense(channels // ratio, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(x))
    return L.Multiply()([x, L.Dense(channels, activation=gate)(scale)])


def mobilenet_v3():
    image = keras.Input((64, 64, 3))
    x = normalized(L.Conv2D(16, 3, strides=2, padding="same", use_bias=False), image, "hard_silu")
    for kernel, wide, filters, squeeze, activation, strides in (
            (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
            (5, 96, 40, True, "hard_silu", 2), (5, 240, 40, True, "hard_silu", 1), (5, 120, 48, True, "hard_silu", 1)):
        y = normalized(L.Conv2D(wide, 1, use_bias=False), x, activation)
        y = normalized(L.DepthwiseConv2D(kernel, strides=strides, padding="same", use_bias=False), y, activation)
        y = squeezed(y, gate="hard_sigmoid") if squeeze else y
        y = L.BatchNormalization()(L.Conv2D(filters, 1, use_bias=False)(y))
        x = L.Add()([x, y]) if x.shape == y.shape else y
    x = L.GlobalAveragePooling2D()(normalized(L.Conv2D(288, 1, use_bias=False), x, "hard_silu"))
    return classifier(image, L.Dropout(0.2, seed=1)(L.Dense(512, activation="hard_silu")(x)))


def shufflenet():
    def shuffled(x, groups):
        height, width, channels = x.shape[1:]
        x = L.Permute((1, 2, 4, 3))(L.Reshape((height, width, groups, channels // groups))(x))
        return L.Reshape((height, width, channels))(x)

    image = keras.Input((64, 64, 3))
    x = normalized(L.Conv2D(48, 3, strides=2, padding="same", use_bias=False), image)
    x = L.MaxPooling2D(3, 2, padding="same")(x)
    for filters, count in ((96, 3), (192, 3)):
        for i in range(count):
            y = shuffled(normalized(L.Conv2D(filters // 4, 1, groups=3, use_bias=False), x), 3)
            y = L.BatchNormalization()(L.DepthwiseConv2D(3, strides=1 if i else 2, padding="same", use_bias=False)(y))
            y = L.BatchNormalization()(L.Conv2D(filters if i else filters - x.shape[-1], 1, groups=3, use_bias=False)(y))
            x = L.ReLU()(L.Add()([x, y]) if i else L.Concatenate()([L.AveragePooling2D(3, 2, padding="same")(x), y]))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def resnext():
    image = keras.Input((32, 32, 3))
    x = normalized(L.Conv2D(64, 3, padding="same", use_bias=False), image)
    for filters, strides in ((128, 1), (128, 1), (256, 2), (256, 1)):
        y = normalized(L.Conv2D(filters // 2, 1, use_bias=False), x)
        y = normalized(L.Conv2D(filters // 2, 3, strides=strides, padding="same", groups=16, use_bias=False), y)
        y = L.BatchNormalization()(L.Conv2D(filters, 1, use_bias=False)(y))
        side = x if x.shape == y.shape else L.BatchNormalization()(L.Conv2D(filters, 1, strides=strides, use_bias=False)(x))
        x = L.ReLU()(L.Add()([side, y]))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def densenet_blocks(growth=12):
    image = keras.Input((32, 32, 3))
    x = L.Conv2D(24, 3, padding="same", use_bias=False)(image)
    for block in range(3):
        for _ in range(6):
            y = L.Conv2D(4 * growth, 1, use_bias=False)(L.ReLU()(L.BatchNormalization()(x)))
            y = L.Conv2D(growth, 3, padding="same", use_bias=False)(L.ReLU()(L.BatchNormalization()(y)))
            x = L.Concatenate()([x, y])
        if block < 2:
            x = L.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(L.ReLU()(L.BatchNormalization()(x)))
            x = L.AveragePooling2D(2)(x)
    return classifier(image, L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(x))))


def senet():
    image = keras.Input((32, 32, 3))
    x = normalized(L.Conv2D(32, 3, padding="same", use_bias=False), image)
    for filters, strides in ((32, 1), (64, 2), (128, 2)):
        y = normalized(L.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False), x)
        y = squeezed(L.BatchNormalization()(L.Conv2D(filters, 3, padding="same", use_bias=False)(y)), 16)
        x = L.ReLU()(L.Add()([L.Conv2D(filters, 1, strides=strides)(x), y]))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def alexnet():
    image = keras.Input((96, 96, 3))
    x = L.MaxPooling2D(3, 2)(L.Conv2D(64, 11, strides=4, activation="relu")(image))
    x = L.MaxPooling2D(3, 2)(L.Conv2D(128, 5, padding="same", activation="relu")(x))
    x = L.Conv2D(192, 3, padding="same", activation="relu")(x)
    x = L.Flatten()(L.Conv2D(128, 3, padding="same", activation="relu")(x))
    return classifier(image, L.Dropout(0.5, seed=1)(L.Dense(512, activation="relu")(x)))


def lenet():
    x = image = keras.Input((28, 28, 1))
    for filters in (6, 16):
        x = L.AveragePooling2D(2)(L.Conv2D(filters, 5, padding="same", activation="tanh")(x))
    return classifier(image, L.Dense(84, activation="tanh")(L.Dense(120, activation="tanh")(L.Flatten()(x))))


def deeplab():  # dilated convolutions of several rates, enlarged bilinearly
    image = keras.Input((64, 64, 3))
    x = normalized(L.Conv2D(32, 3, strides=2, padding="same", use_bias=False), image)
    low = x = normalized(L.Conv2D(48, 3, padding="same", use_bias=False), x)
    x = normalized(L.Conv2D(64, 3, strides=2, padding="same", use_bias=False), x)
    branches = [normalized(L.Conv2D(32, 1, use_bias=False), x)]
    branches += [normalized(L.Conv2D(32, 3, padding="same", dilation_rate=rate, use_bias=False), x) for rate in (2, 4, 6)]
    pooled = normalized(L.Conv2D(32, 1, use_bias=False), L.GlobalAveragePooling2D(keepdims=True)(x))
    branches.append(L.UpSampling2D(16, interpolation="bilinear")(pooled))
    x = normalized(L.Conv2D(64, 1, use_bias=False), L.Concatenate()(branches))
    x = L.Concatenate()([L.UpSampling2D(2, interpolation="bilinear")(x), L.Conv2D(16, 1)(low)])
    x = normalized(L.Conv2D(32, 3, padding="same", use_bias=False), x)
    return keras.Model(image, L.UpSampling2D(2, interpolation="bilinear")(L.Conv2D(3, 1)(x))), "mse", 0


def pix2pix():
    x = image = keras.Input((64, 64, 3))
    skips = []
    for i, filters in enumerate((32, 64, 128, 128)):
        x = L.Conv2D(filters, 4, strides=2, padding="same", use_bias=False)(x)
        x = L.LeakyReLU(negative_slope=0.3)(L.BatchNormalization()(x) if i else x)
        skips.append(x)
    for i, (filters, skip) in enumerate(zip((128, 64, 32), reversed(skips[:-1]))):
        x = L.BatchNormalization()(L.Conv2DTranspose(filters, 4, strides=2, padding="same", use_bias=False)(x))
        x = L.Concatenate()([L.ReLU()(L.Dropout(0.5, seed=i)(x) if i < 2 else x), skip])
    return keras.Model(image, L.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh")(x)), "mse", 0


def fsrcnn():  # super-resolution that ends in a wide transposed convolution
    image = keras.Input((24, 24, 1))
    x = L.PReLU(shared_axes=[1, 2])(L.Conv2D(56, 5, padding="same")(image))
    x = L.PReLU(shared_axes=[1, 2])(L.Conv2D(12, 1)(x))
    for _ in range(4):
        x = L.PReLU(shared_axes=[1, 2])(L.Conv2D(12, 3, padding="same")(x))
    x = L.PReLU(shared_axes=[1, 2])(L.Conv2D(56, 1)(x))
    return keras.Model(image, L.Conv2DTranspose(1, 9, strides=3, padding="same")(x)), "mse", 0


def attention_unet():
    def unit(x, filters):
        return L.Conv2D(filters, 3, padding="same", activation="relu", kernel_initializer="he_normal")(x)

    image = keras.Input((48, 48, 1))
    skips, x = [], image
    for filters in (16, 32):
        skips.append(unit(unit(x, filters), filters))
        x = L.MaxPooling2D()(skips[-1])
    x = L.Dropout(0.3, seed=1)(unit(unit(x, 64), 64))
    for filters, skip in ((32, skips[1]), (16, skips[0])):
        x = L.Conv2DTranspose(filters, 3, strides=2, padding="same")(x)
        gate = L.Conv2D(1, 1, activation="sigmoid")(L.ReLU()(L.Add()([L.Conv2D(filters, 1)(x), L.Conv2D(filters, 1)(skip)])))
        x = unit(unit(L.Concatenate()([x, L.Multiply()([skip, gate])]), filters), filters)
    return keras.Model(image, L.Conv2D(1, 1, activation="sigmoid")(x)), "mse", 0


def video():  # C3D
    x = frames = keras.Input((8, 32, 32, 3))
    for filters in (16, 32, 64):
        x = L.MaxPooling3D((1 if filters == 16 else 2, 2, 2))(L.Conv3D(filters, 3, padding="same", activation="relu")(x))
    return classifier(frames, L.Dense(128, activation="relu")(L.GlobalAveragePooling3D()(x)))


def pointnet():
    points = keras.Input((512, 3))

    def unit(x, filters):
        return normalized(L.Conv1D(filters, 1), x)

    y = L.GlobalMaxPooling1D()(unit(unit(unit(points, 32), 64), 256))
    turn = L.Reshape((3, 3))(L.Dense(9)(L.Dense(64, activation="relu")(y)))
    x = unit(unit(L.Dot(axes=(2, 1))([points, turn]), 32), 32)
    x = L.GlobalMaxPooling1D()(unit(unit(x, 64), 256))
    return classifier(points, L.Dropout(0.3, seed=1)(normalized(L.Dense(128), x)))


def metric_learning():
    image = keras.Input((32, 32, 3))
    x = image
    for filters in (32, 64, 128):
        x = L.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    return classifier(image, L.UnitNormalization()(L.Dense(64)(L.GlobalAveragePooling2D()(x))))


def inception_time():
    x = series = keras.Input((200, 6))
    for _ in range(3):
        y = L.Conv1D(32, 1, use_bias=False)(x)
        branches = [L.Conv1D(32, width, padding="same", use_bias=False)(y) for width in (39, 19, 9)]
        branches.append(L.Conv1D(32, 1, use_bias=False)(L.MaxPooling1D(3, 1, padding="same")(x)))
        x = L.ReLU()(L.BatchNormalization()(L.Concatenate()(branches)))
    return classifier(series, L.GlobalAveragePooling1D()(x))


def keyword_spotting():  # separable convolutions of a spectrogram
    sound = keras.Input((49, 10, 1))
    x = normalized(L.Conv2D(64, (10, 4), strides=(2, 2), padding="same"), sound)
    for _ in range(4):
        x = normalized(L.Conv2D(64, 1), normalized(L.DepthwiseConv2D(3, padding="same"), x))
    return classifier(sound, L.GlobalAveragePooling2D()(L.Dropout(0.4, seed=1)(x)))


def separable_text():
    ids = keras.Input((300,), dtype="int32")
    x = L.Dropout(0.2, seed=1)(L.Embedding(20000, 64)(ids))
    for filters in (64, 128):
        x = L.SeparableConv1D(filters, 3, padding="same", activation="relu")(x)
        x = L.MaxPooling1D(3)(L.SeparableConv1D(filters, 3, padding="same", activation="relu")(x))
    return classifier_of_ids(ids, L.GlobalAveragePooling1D()(x), 20000)


def conformer(width=96):
    x = sound = keras.Input((100, 40))
    x = L.Dense(width)(x)
    for i in range(2):
        y = L.Dense(4 * width, activation="silu")(L.LayerNormalization()(x))
        x = x + 0.5 * L.Dense(width)(L.Dropout(0.1, seed=3 * i)(y))
        y = L.LayerNormalization()(x)
        x = x + L.Dropout(0.1, seed=3 * i + 1)(L.MultiHeadAttention(4, width // 4)(y, y))
        y = L.Dense(2 * width)(L.LayerNormalization()(x))
        y = y[:, :, :width] * ops.sigmoid(y[:, :, width:])
        y = normalized(L.DepthwiseConv1D(15, padding="same"), y, "silu")
        x = L.LayerNormalization()(x + L.Dense(width)(y))
    return classifier(sound, L.GlobalAveragePooling1D()(x))


def gated_decoder(width=128, steps=64, vocabulary=4000):  # RMS normalization, shared keys, gated products, tied weights
    ids = keras.Input((steps,), dtype="int32")
    embedding = L.ReversibleEmbedding(vocabulary, width)
    x = embedding(ids)
    for _ in range(2):
        y = L.RMSNormalization()(x)
        x = x + L.GroupQueryAttention(width // 4, 4, 2)(y, y, use_causal_mask=True)
        y = L.RMSNormalization()(x)
        x = x + L.Dense(width, use_bias=False)(L.Dense(3 * width, activation="silu", use_bias=False)(y) * L.Dense(3 * width, use_bias=False)(y))
    return keras.Model(ids, embedding(L.RMSNormalization()(x), reverse=True)), keras.losses.SparseCategoricalCrossentropy(from_logits=True), vocabulary


def swin(width=48, window=4, size=16):  # attention within windows, which the second block shifts
    image = keras.Input((64, 64, 3))
    x = L.LayerNormalization()(L.Reshape((size, size, width))(L.Conv2D(width, 4, strides=4)(image)))
    for shift in (0, window // 2):
        y = L.LayerNormalization()(x)
        y = ops.roll(y, (-shift, -shift), (1, 2)) if shift else y
        y = ops.transpose(ops.reshape(y, (-1, size // window, window, size // window, window, width)), (0, 1, 3, 2, 4, 5))
        y = ops.reshape(y, (-1, window * window, width))
        y = L.MultiHeadAttention(3, width // 3)(y, y)
        y = ops.reshape(y, (-1, size // window, size // window, window, window, width))
        y = ops.reshape(ops.transpose(y, (0, 1, 3, 2, 4, 5)), (-1, size, size, width))
        x = x + (ops.roll(y, (shift, shift), (1, 2)) if shift else y)
        x = x + L.Dense(width)(L.Dense(4 * width, activation="gelu")(L.LayerNormalization()(x)))
    return classifier(image, L.GlobalAveragePooling2D()(x))


def experts():  # a mixture of four, weighted by a softmax
    x = inputs = keras.Input((64,))
    for _ in range(2):
        each = ops.stack([L.Dense(128, activation="relu")(L.Dense(64, activation="relu")(x)) for _ in range(4)], axis=1)
        x = ops.einsum("bed,be->bd", each, L.Dense(4, activation="softmax")(x))
    return classifier(inputs, x)


def lstm_attention():  # encoder, decoder and additive attention
    ids = keras.Input((30,), dtype="int32")
    embedded = L.Embedding(5000, 96)(ids)
    states, h, c = L.LSTM(96, return_sequences=True, return_state=True)(embedded)
    decoded = L.LSTM(96, return_sequences=True)(embedded, initial_state=[h, c])
    x = L.Concatenate()([decoded, L.AdditiveAttention()([decoded, states])])
    return keras.Model(ids, L.Dense(1000)(x)), keras.losses.SparseCategoricalCrossentropy(from_logits=True), 1000


def dropped_lstm():
    ids = keras.Input((60,), dtype="int32")
    x = L.Embedding(10000, 64)(ids)
    return classifier_of_ids(ids, L.LSTM(64, dropout=0.2, recurrent_dropout=0.2, seed=1)(x), 10000)


def wide_gru():
    x = series = keras.Input((40, 32))
    return classifier(series, L.GRU(256)(L.GRU(256, return_sequences=True)(x)))


def lstm_autoencoder():
    series = keras.Input((50, 4))
    x = L.RepeatVector(50)(L.LSTM(32)(L.LSTM(64, return_sequences=True)(series)))
    x = L.LSTM(64, return_sequences=True)(L.LSTM(32, return_sequences=True)(x))
    return keras.Model(series, L.TimeDistributed(L.Dense(4))(x)), "mse", 0


def cnn_bilstm():  # convolutions, a pool, recurrence in both directions
    x = series = keras.Input((128, 9))
    for filters in (64, 128):
        x = L.MaxPooling1D()(L.BatchNormalization()(L.Conv1D(filters, 5, padding="same", activation="relu")(x)))
    return classifier(series, L.Dropout(0.5, seed=1)(L.Bidirectional(L.LSTM(64))(x)))


def two_tower():
    ids = keras.Input((8,), dtype="int32")
    towers = []
    for first in (0, 4):
        x = L.Flatten()(L.Embedding(20000, 32)(ids[:, first:first + 4]))
        x = L.Dense(64)(L.Dense(128, activation="relu")(x))
        towers.append(L.UnitNormalization()(x))
    return classifier_of_ids(ids, L.Dot(axes=1)(towers), 20000)


def categorical_mlp():  # an embedding for each of 20 columns, batch normalization, dropout
    ids = keras.Input((20,), dtype="int32")
    x = L.Concatenate()([L.Embedding(200 + 150 * i, 4 + i % 5)(ids[:, i]) for i in range(20)])
    for i, units in enumerate((512, 256)):
        x = L.Dropout(0.3, seed=i)(L.BatchNormalization()(L.Dense(units, activation="relu")(x)))
    return classifier_of_ids(ids, x, 200)


def fasttext():
    ids = keras.Input((250,), dtype="int32")
    x = L.Dropout(0.2, seed=1)(L.GlobalAveragePooling1D()(L.Dropout(0.2, seed=2)(L.Embedding(10000, 16)(ids))))
    return classifier_of_ids(ids, x, 10000)


def selu_mlp():
    x = inputs = keras.Input((100,))
    for i in range(4):
        x = L.AlphaDropout(0.05, seed=i)(L.Dense(128, activation="selu", kernel_initializer="lecun_normal")(x))
    return classifier(inputs, x)


def gated_residual():  # gated linear units of the temporal fusion transformer
    series = keras.Input((48, 16))
    x = L.Dense(64)(series)
    for i in range(3):
        y = L.Dropout(0.1, seed=i)(L.Dense(64)(L.Dense(64, activation="elu")(x)))
        x = L.LayerNormalization()(x + L.Dense(64)(y) * L.Dense(64, activation="sigmoid")(y))
    x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 16)(x, x))
    return classifier(series, L.Flatten()(x))


# Name: title, batch, batches of a run.
BLOCKS = {
    mobilenet_v3: ("MobileNetV3 blocks 64x64, batch 32", 32, 8),
    shufflenet: ("ShuffleNet blocks 64x64, batch 32", 32, 8),
    resnext: ("ResNeXt blocks 32x32, batch 32", 32, 6),
    densenet_blocks: ("DenseNet blocks 32x32, batch 32", 32, 6),
    senet: ("residual blocks with squeeze-excitation 32x32, batch 32", 32, 8),
    alexnet: ("AlexNet 96x96, batch 32", 32, 8),
    lenet: ("LeNet, batch 64", 64, 20),
    deeplab: ("dilated convolutions of DeepLab 64x64, batch 16", 16, 6),
    pix2pix: ("pix2pix generator 64x64, batch 16", 16, 6),
    fsrcnn: ("FSRCNN 24x24 to 72x72, batch 32", 32, 8),
    attention_unet: ("U-Net with attention gates 48x48, batch 16", 16, 8),
    video: ("Conv3D on 8 images of 32x32, batch 8", 8, 6),
    pointnet: ("PointNet, 512 points, batch 32", 32, 8),
    metric_learning: ("CNN with UnitNormalization 32x32, batch 64", 64, 12),
    inception_time: ("InceptionTime, 200 steps, batch 32", 32, 6),
    keyword_spotting: ("keyword spotting, separable convolutions, batch 64", 64, 8),
    separable_text: ("SeparableConv1D on text, 300 tokens, batch 32", 32, 8),
    conformer: ("Conformer blocks, 100 steps, batch 16", 16, 8),
    gated_decoder: ("decoder with GroupQueryAttention and tied weights, batch 16", 16, 8),
    swin: ("window attention of Swin 64x64, batch 32", 32, 8),
    experts: ("mixture of experts, batch 128", 128, 20),
    lstm_attention: ("LSTM encoder and decoder with AdditiveAttention, batch 32", 32, 8),
    dropped_lstm: ("LSTM with recurrent dropout, 60 steps, batch 32", 32, 6),
    wide_gru: ("2 x GRU 256, 40 steps, batch 32", 32, 8),
    lstm_autoencoder: ("LSTM autoencoder, 50 steps, batch 32", 32, 12),
    cnn_bilstm: ("Conv1D and Bidirectional LSTM, 128 steps, batch 32", 32, 10),
    two_tower: ("two towers of embeddings, batch 256", 256, 12),
    categorical_mlp: ("MLP on 20 categorical columns, batch 256", 256, 10),
    fasttext: ("mean of embeddings, 250 tokens, batch 64", 64, 30),
    selu_mlp: ("MLP with selu and AlphaDropout, batch 128", 128, 40),
    gated_residual: ("gated residual network and attention, 48 steps, batch 64", 64, 12),
}
MODELS = {model.__name__: model for model in BLOCKS}

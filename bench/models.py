"""The models of compare.py: each gives a Keras model, its loss and what its data looks like."""

import keras

from block_models import MODELS as BLOCK_MODELS
from further_models import MODELS as FURTHER_MODELS

L = keras.layers
LABELS = keras.losses.SparseCategoricalCrossentropy


def classes(layers, vocabulary=0):
    return keras.Sequential(layers), LABELS(from_logits=True), vocabulary


def tutorial():
    return classes([keras.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                    L.Dense(64, activation="relu"), L.Dense(10)])


def cifar():
    return classes([keras.Input((32, 32, 3)), L.Conv2D(32, 3, padding="same", activation="relu"), L.Conv2D(32, 3, activation="relu"),
                    L.MaxPooling2D(), L.Dropout(0.25, seed=1), L.Conv2D(64, 3, padding="same", activation="relu"),
                    L.Conv2D(64, 3, activation="relu"), L.MaxPooling2D(), L.Dropout(0.25, seed=2), L.Flatten(),
                    L.Dense(512, activation="relu"), L.Dropout(0.5, seed=3), L.Dense(10)])


def mlp():
    return classes([keras.Input((784,)), L.Dense(512, activation="relu"), L.Dense(512, activation="relu"), L.Dense(10)])


def big():  # 46 M parameters: 0.55 GB with Adam's state
    return classes([keras.Input((1024,)), L.Dense(5000, activation="relu"), L.Dense(5000, activation="relu"), L.Dense(3000),
                    L.Dense(10)])


def text(*layers, steps=80):
    return classes([keras.Input((steps,), dtype="int32"), L.Embedding(20000, 64), *layers, L.Dense(10)], 20000)


def lstm():
    return text(L.LSTM(64))


def gru():
    return text(L.GRU(64))


def bilstm():
    return text(L.Bidirectional(L.LSTM(64, return_sequences=True)), L.Bidirectional(L.LSTM(32)))


def masked_gru():
    return classes([keras.Input((80,), dtype="int32"), L.Embedding(20000, 64, mask_zero=True), L.GRU(64, return_sequences=True), L.GRU(64),
                    L.Dense(10)], 20000)


def convlstm():
    return classes([keras.Input((8, 32, 32, 3)), L.ConvLSTM2D(16, 3, padding="same", return_sequences=True), L.ConvLSTM2D(16, 3),
                    L.GlobalAveragePooling2D(), L.Dense(10)])


def conv1d():
    return text(L.Dropout(0.2, seed=1), L.Conv1D(250, 3, activation="relu"), L.GlobalMaxPooling1D(), L.Dense(250, activation="relu"),
                steps=400)


def transformer(width=128, heads=4, steps=128, blocks=2):
    tokens = keras.Input((steps,), dtype="int32")
    x = L.Embedding(10000, width)(tokens)
    for _ in range(blocks):
        attended = L.MultiHeadAttention(heads, width // heads)(x, x)
        x = L.LayerNormalization(epsilon=1e-6)(L.Add()([x, attended]))
        hidden = L.Dense(width)(L.Dense(4 * width, activation="gelu")(x))
        x = L.LayerNormalization(epsilon=1e-6)(L.Add()([x, hidden]))
    return keras.Model(tokens, L.Dense(10)(L.GlobalAveragePooling1D()(x))), LABELS(from_logits=True), 10000


def with_seed(layer):
    seed = {"seed": 1} if isinstance(layer, L.Dropout) else {}  # a file contains no state of a generator without one
    return layer.__class__.from_config({**layer.get_config(), **seed})


def application(name, size=96):
    model = getattr(keras.applications, name)(input_shape=(size, size, 3), weights=None, classes=10, classifier_activation=None)
    return keras.models.clone_model(model, clone_function=with_seed), LABELS(from_logits=True), 0


def mobilenet():
    return application("MobileNetV2")


def resnet50():
    return application("ResNet50")


def efficientnet():
    return application("EfficientNetB0")


def densenet():
    return application("DenseNet121")


def convnext():
    return application("ConvNeXtTiny")


def conv_block(x, filters, strides=1):
    return L.ReLU()(L.BatchNormalization()(L.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)))


def resnet():
    image = keras.Input((32, 32, 3))
    x = conv_block(image, 32)
    for filters, strides in ((32, 1), (64, 2), (128, 2)):
        side = x if strides == 1 else L.Conv2D(filters, 1, strides=strides)(x)
        y = L.BatchNormalization()(L.Conv2D(filters, 3, padding="same", use_bias=False)(conv_block(x, filters, strides)))
        x = L.ReLU()(L.Add()([side, y]))
    return keras.Model(image, L.Dense(10)(L.GlobalAveragePooling2D()(x))), LABELS(from_logits=True), 0


def unet():
    image = keras.Input((64, 64, 3))
    x, skips = image, []
    for filters in (16, 32):
        x = conv_block(conv_block(x, filters), filters)
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = conv_block(conv_block(x, 64), 64)
    for filters, skip in zip((32, 16), reversed(skips)):
        x = L.Concatenate()([L.Conv2DTranspose(filters, 2, strides=2, padding="same")(x), skip])
        x = conv_block(conv_block(x, filters), filters)
    return keras.Model(image, L.Conv2D(3, 1)(x)), "mse", 0


def autoencoder():
    return keras.Sequential([keras.Input((28, 28, 1)), L.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
                             L.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
                             L.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
                             L.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
                             L.Conv2D(1, 3, padding="same")]), "mse", 0


def dcgan():  # the generator
    return keras.Sequential([keras.Input((100,)), L.Dense(7 * 7 * 256, use_bias=False), L.BatchNormalization(), L.LeakyReLU(),
                             L.Reshape((7, 7, 256)), L.Conv2DTranspose(128, 5, padding="same", use_bias=False),
                             L.BatchNormalization(), L.LeakyReLU(),
                             L.Conv2DTranspose(64, 5, strides=2, padding="same", use_bias=False), L.BatchNormalization(),
                             L.LeakyReLU(), L.Conv2DTranspose(1, 5, strides=2, padding="same", activation="tanh")]), "mse", 0


def text_cnn():
    tokens = keras.Input((200,), dtype="int32")
    x = L.Embedding(20000, 128)(tokens)
    pools = [L.GlobalMaxPooling1D()(L.Conv1D(100, width, activation="relu")(x)) for width in (3, 4, 5)]
    return keras.Model(tokens, L.Dense(10)(L.Dropout(0.5, seed=1)(L.Concatenate()(pools)))), LABELS(from_logits=True), 20000


def tabular():
    layers = [keras.Input((64,))]
    for i, units in enumerate((256, 128, 64)):
        layers += [L.Dense(units), L.BatchNormalization(), L.ReLU(), L.Dropout(0.3, seed=i)]
    return classes([*layers, L.Dense(10)])


def recommender():  # wide and deep: 26 features of 10 thousand values each
    ids = keras.Input((26,), dtype="int32")
    wide = L.Flatten()(L.Embedding(10000, 1)(ids))
    deep = L.Flatten()(L.Embedding(10000, 16)(ids))
    for units in (256, 128):
        deep = L.Dense(units, activation="relu")(deep)
    return keras.Model(ids, L.Dense(10)(L.Concatenate()([wide, deep]))), LABELS(from_logits=True), 10000


def deep_and_cross():
    ids = keras.Input((20,), dtype="int32")
    x = first = L.Flatten()(L.Embedding(10000, 8)(ids))
    for _ in range(3):
        x = L.Add()([L.Multiply()([first, L.Dense(160)(x)]), x])
    deep = L.Dense(128, activation="relu")(L.Dense(256, activation="relu")(first))
    return keras.Model(ids, L.Dense(10)(L.Concatenate()([x, deep]))), LABELS(from_logits=True), 10000


def vgg():
    layers = [keras.Input((32, 32, 3))]
    for filters, count in ((64, 2), (128, 2), (256, 3)):
        layers += [L.Conv2D(filters, 3, padding="same", activation="relu") for _ in range(count)] + [L.MaxPooling2D()]
    return classes([*layers, L.Flatten(), L.Dense(512, activation="relu"), L.Dropout(0.5, seed=1), L.Dense(10)])


def squeezenet():
    def fire(x, squeeze, expand):
        x = L.Conv2D(squeeze, 1, activation="relu")(x)
        return L.Concatenate()([L.Conv2D(expand, 1, activation="relu")(x), L.Conv2D(expand, 3, padding="same", activation="relu")(x)])

    image = keras.Input((64, 64, 3))
    x = L.MaxPooling2D(3, 2)(L.Conv2D(64, 3, strides=2, activation="relu")(image))
    x = L.MaxPooling2D(3, 2)(fire(fire(x, 16, 64), 16, 64))
    x = L.MaxPooling2D(3, 2)(fire(fire(x, 32, 128), 32, 128))
    x = fire(fire(x, 48, 192), 64, 256)
    return keras.Model(image, L.GlobalAveragePooling2D()(L.Conv2D(10, 1)(L.Dropout(0.5, seed=1)(x)))), LABELS(from_logits=True), 0


def inception():
    def unit(x, filters, size):
        return L.ReLU()(L.BatchNormalization(scale=False)(L.Conv2D(filters, size, padding="same", use_bias=False)(x)))

    def block(x, one, three, five, pooled):
        return L.Concatenate()([unit(x, one, 1), unit(unit(x, three // 2, 1), three, 3), unit(unit(x, five // 2, 1), five, 5),
                                unit(L.AveragePooling2D(3, 1, padding="same")(x), pooled, 1)])

    image = keras.Input((64, 64, 3))
    x = L.MaxPooling2D(3, 2, padding="same")(unit(unit(image, 32, 3), 64, 3))
    x = L.MaxPooling2D(3, 2, padding="same")(block(block(x, 32, 64, 16, 16), 64, 96, 48, 32))
    x = L.GlobalAveragePooling2D()(block(x, 96, 128, 48, 64))
    return keras.Model(image, L.Dense(10)(x)), LABELS(from_logits=True), 0


def separable():  # blocks of Xception
    image = keras.Input((64, 64, 3))
    x = conv_block(image, 32, 2)
    for filters in (64, 128, 256):
        side = L.BatchNormalization()(L.Conv2D(filters, 1, strides=2, padding="same", use_bias=False)(x))
        for _ in range(2):
            x = L.BatchNormalization()(L.SeparableConv2D(filters, 3, padding="same", use_bias=False)(L.ReLU()(x)))
        x = L.Add()([L.MaxPooling2D(3, 2, padding="same")(x), side])
    return keras.Model(image, L.Dense(10)(L.GlobalAveragePooling2D()(x))), LABELS(from_logits=True), 0


def ecg():  # a residual network of one axis
    signal = keras.Input((1000, 12))
    x = L.ReLU()(L.BatchNormalization()(L.Conv1D(32, 7, strides=2, padding="same", use_bias=False)(signal)))
    for filters in (32, 64, 128):
        side = L.Conv1D(filters, 1, strides=2, padding="same")(x)
        y = L.ReLU()(L.BatchNormalization()(L.Conv1D(filters, 7, strides=2, padding="same", use_bias=False)(x)))
        y = L.BatchNormalization()(L.Conv1D(filters, 7, padding="same", use_bias=False)(L.Dropout(0.2, seed=filters)(y)))
        x = L.ReLU()(L.Add()([side, y]))
    return keras.Model(signal, L.Dense(10)(L.GlobalAveragePooling1D()(x))), LABELS(from_logits=True), 0


def wavenet():
    signal = keras.Input((512, 1))
    x, skips = L.Conv1D(32, 2, padding="causal")(signal), []
    for i in range(8):
        gates = [L.Conv1D(32, 2, padding="causal", dilation_rate=2**i, activation=a)(x) for a in ("tanh", "sigmoid")]
        y = L.Multiply()(gates)
        skips.append(L.Conv1D(32, 1)(y))
        x = L.Add()([x, L.Conv1D(32, 1)(y)])
    return keras.Model(signal, L.Conv1D(1, 1)(L.Conv1D(64, 1, activation="relu")(L.ReLU()(L.Add()(skips))))), "mse", 0


def tcn():
    series = keras.Input((256, 8))
    x = series
    for i in range(5):
        y = x
        for j in range(2):
            y = L.Conv1D(48, 3, padding="causal", dilation_rate=2**i)(y)
            y = L.SpatialDropout1D(0.1, seed=2 * i + j)(L.ReLU()(L.LayerNormalization()(y)))
        x = L.ReLU()(L.Add()([x if i else L.Conv1D(48, 1)(x), y]))
    return keras.Model(series, L.Dense(10)(L.GlobalAveragePooling1D()(x))), LABELS(from_logits=True), 0


def seq2seq():  # the decoder attends to the encoder's states; a class for each step
    tokens = keras.Input((40,), dtype="int32")
    embedded = L.Embedding(5000, 64)(tokens)
    states, last = L.GRU(128, return_sequences=True, return_state=True)(embedded)
    decoded = L.GRU(128, return_sequences=True)(embedded, initial_state=last)
    context = L.Attention()([decoded, states])
    return keras.Model(tokens, L.Dense(5000)(L.Concatenate()([decoded, context]))), LABELS(from_logits=True), 5000


def language_model(width=128, heads=4, steps=64, vocabulary=8000):
    tokens = keras.Input((steps,), dtype="int32")
    x = L.Dropout(0.1, seed=1)(L.Embedding(vocabulary, width)(tokens))
    for i in range(2):
        y = L.LayerNormalization()(x)
        y = L.MultiHeadAttention(heads, width // heads, dropout=0.1, seed=2 + i)(y, y, use_causal_mask=True)
        x = L.Add()([x, y])
        y = L.Dense(width)(L.Dense(4 * width, activation="gelu")(L.LayerNormalization()(x)))
        x = L.Add()([x, L.Dropout(0.1, seed=4 + i)(y)])
    return keras.Model(tokens, L.Dense(vocabulary)(L.LayerNormalization()(x))), LABELS(from_logits=True), vocabulary


def vit(width=96):
    image = keras.Input((32, 32, 3))
    x = L.Reshape((64, width))(L.Conv2D(width, 4, strides=4)(image))
    for _ in range(4):
        y = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(4, width // 4)(y, y)])
        y = L.Dense(2 * width, activation="gelu")(L.LayerNormalization()(x))
        x = L.Add()([x, L.Dense(width)(y)])
    return keras.Model(image, L.Dense(10)(L.GlobalAveragePooling1D()(L.LayerNormalization()(x)))), LABELS(from_logits=True), 0


def mixer(width=128):
    image = keras.Input((32, 32, 3))
    x = L.Reshape((64, width))(L.Conv2D(width, 4, strides=4)(image))
    for _ in range(4):
        y = L.Permute((2, 1))(L.LayerNormalization()(x))
        x = L.Add()([x, L.Permute((2, 1))(L.Dense(64)(L.Dense(64, activation="gelu")(y)))])
        y = L.Dense(256, activation="gelu")(L.LayerNormalization()(x))
        x = L.Add()([x, L.Dense(width)(y)])
    return keras.Model(image, L.Dense(10)(L.GlobalAveragePooling1D()(L.LayerNormalization()(x)))), LABELS(from_logits=True), 0


def siamese():  # the distance of two images, by one tower
    pair = keras.Input((2, 28, 28, 1))
    tower = keras.Sequential([keras.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(),
                              L.Conv2D(64, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(), L.Dense(128)])
    distance = keras.ops.abs(tower(pair[:, 0]) - tower(pair[:, 1]))
    return keras.Model(pair, L.Dense(10)(distance)), LABELS(from_logits=True), 0


def unet_3d():
    volume = keras.Input((16, 32, 32, 1))

    def unit(x, filters):
        return L.ReLU()(L.BatchNormalization()(L.Conv3D(filters, 3, padding="same")(x)))

    skip = unit(unit(volume, 8), 16)
    x = unit(unit(L.MaxPooling3D()(skip), 16), 32)
    x = L.Concatenate()([L.Conv3DTranspose(16, 2, strides=2)(x), skip])
    return keras.Model(volume, L.Conv3D(1, 1)(unit(x, 16))), "mse", 0


def discriminator():
    layers = [keras.Input((64, 64, 3))]
    for i, filters in enumerate((64, 128, 256)):
        layers += [L.Conv2D(filters, 5, strides=2, padding="same"), L.LeakyReLU(negative_slope=0.2), L.Dropout(0.3, seed=i)]
    return classes([*layers, L.Flatten(), L.Dense(10)])


def denoising():
    return keras.Sequential([keras.Input((64, 64, 3)), L.GaussianNoise(0.1, seed=1),
                             L.Conv2D(32, 3, strides=2, padding="same"), L.BatchNormalization(), L.ReLU(),
                             L.Conv2D(64, 3, strides=2, padding="same"), L.BatchNormalization(), L.ReLU(),
                             L.UpSampling2D(), L.Conv2D(32, 3, padding="same", activation="relu"),
                             L.UpSampling2D(interpolation="bilinear"), L.Conv2D(3, 3, padding="same", activation="sigmoid")]), "mse", 0


def bigru():
    return classes([keras.Input((60,), dtype="int32"), L.Embedding(10000, 64, mask_zero=True),
                    L.Bidirectional(L.GRU(64, return_sequences=True)), L.Dropout(0.3, seed=1), L.Bidirectional(L.GRU(32)), L.Dense(10)],
                   10000)


def forecaster():  # stacked LSTM on a series, with dropout
    return keras.Sequential([keras.Input((96, 8)), L.LSTM(128, return_sequences=True), L.Dropout(0.2, seed=1), L.LSTM(64),
                             L.Dense(24)]), "mse", 0


def simple_rnn():
    return text(L.SimpleRNN(64, return_sequences=True), L.SimpleRNN(64))


def speech():  # convolutions over a spectrogram, then recurrent layers, a class for each step
    sound = keras.Input((100, 80, 1))
    x = L.BatchNormalization()(L.Conv2D(32, (11, 21), strides=(2, 2), padding="same", activation="relu")(sound))
    x = L.Reshape((50, 40 * 32))(x)
    for _ in range(2):
        x = L.Bidirectional(L.GRU(64, return_sequences=True))(x)
    return keras.Model(sound, L.Dense(30)(x)), LABELS(from_logits=True), 0


MODELS = {f.__name__: f for f in (tutorial, cifar, mlp, big, lstm, gru, bilstm, masked_gru, convlstm, conv1d, transformer, mobilenet, resnet50,
                                  efficientnet, densenet, convnext, resnet, unet, autoencoder, dcgan, text_cnn, tabular, recommender, deep_and_cross, vgg,
                                  squeezenet, inception, separable, ecg, wavenet, tcn, seq2seq, language_model, vit, mixer, siamese,
                                  unet_3d, discriminator, denoising, bigru, forecaster, simple_rnn, speech)}
MODELS |= FURTHER_MODELS | BLOCK_MODELS
# For inference: larger images than for training.
MODELS |= {f"{name}_160": lambda name=name: application(name, 160)
           for name in ("MobileNetV2", "ResNet50", "EfficientNetB0", "DenseNet121", "ConvNeXtTiny")}
# Models that amplify any difference, with the reason: compare.py compares their first step only, its loss and its gradient. They train
# with SGD, since Adam's first step follows the signs of gradients, of which many are near zero.
FIRST_STEP_ONLY = {
    "mobilenet": "with inputs times 1.000001, Keras's own losses differ by 1.5 % after three steps, the first gradient by 0.3 %",
    "resnet50": "with inputs times 1.000001, Keras's own first gradient differs by 2 %",
    "efficientnet": "as deep as mobilenet, with the same kind of blocks",
    "densenet": "with inputs times 1.000001, Keras's own first gradient differs by 0.5 %",
}
UNSCALED_IMAGES = {"efficientnet"}  # it divides its inputs by 255 itself

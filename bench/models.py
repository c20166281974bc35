"""The models of compare.py: each gives a Keras model, its loss and what its data looks like."""

import keras

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


MODELS = {f.__name__: f for f in (tutorial, cifar, mlp, big, lstm, gru, bilstm, masked_gru, convlstm, conv1d, transformer, mobilenet, resnet50,
                                  efficientnet, densenet, convnext, resnet, unet, autoencoder, dcgan)}
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

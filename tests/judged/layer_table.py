"""Layers and arguments to judge: (class name, keyword arguments, input shapes or arrays, options).

A shape is given without the batch axis. Options: "ints" = exclusive upper bound of integer inputs, "call" = keyword
arguments of the call, "rtol". Rows of one class stand together, the telling ones first.
"""


def grid(**axes):
    """All combinations of the given argument values, in order."""
    rows = [{}]
    for name, values in axes.items():
        rows = [{**row, name: value} for row in rows for value in values]
    return rows


def rows(name, arguments, *shapes, **options):
    return [(name, kwargs, list(shapes), options) for kwargs in arguments]


ACTIVATIONS = ["relu", "sigmoid", "tanh", "softmax", "gelu", "elu", "selu", "softplus", "softsign", "silu", "swish", "linear",
               "leaky_relu", "relu6", "exponential", "hard_sigmoid", "hard_silu", "mish", "log_softmax", "log_sigmoid",
               "celu", "glu", "hard_tanh", "hard_shrink", "soft_shrink", "squareplus", "tanh_shrink", "sparse_plus",
               "sparse_sigmoid", "threshold", "sparsemax", None]

CONV2D = [
    dict(filters=3, kernel_size=3),
    dict(filters=4, kernel_size=(3, 2), strides=(2, 1), padding="same", activation="relu"),
    dict(filters=4, kernel_size=3, dilation_rate=2, padding="same", use_bias=False),
    dict(filters=6, kernel_size=3, groups=2),
    dict(filters=4, kernel_size=1, strides=2),
    dict(filters=3, kernel_size=3, data_format="channels_first"),
    dict(filters=8, kernel_size=5, strides=3, padding="same", groups=4, activation="tanh"),
    dict(filters=2, kernel_size=(1, 4), dilation_rate=(1, 2)),
    dict(filters=3, kernel_size=2, strides=2, padding="same", data_format="channels_first", activation="sigmoid"),
    dict(filters=4, kernel_size=3, padding="same", groups=4, dilation_rate=(2, 1)),
]

POOL2D = [dict(), dict(pool_size=3, strides=2, padding="same"), dict(pool_size=(3, 2), strides=(1, 2)),
          dict(pool_size=2, strides=1, padding="same"), dict(pool_size=2, data_format="channels_first"),
          dict(pool_size=3, strides=1, padding="same", data_format="channels_first"), dict(pool_size=4, strides=3)]

LSTM = [dict(units=4), dict(units=3, return_sequences=True), dict(units=3, return_state=True, return_sequences=True),
        dict(units=3, go_backwards=True, return_sequences=True), dict(units=3, use_bias=False, activation="relu"),
        dict(units=2, recurrent_activation="hard_sigmoid", unit_forget_bias=False), dict(units=3, unroll=True),
        dict(units=3, dropout=0.3, recurrent_dropout=0.2), dict(units=5, return_state=True), dict(units=2, stateful=False)]

TABLE = [
    *rows("Dense", [dict(units=5), dict(units=3, use_bias=False), dict(units=4, activation="softmax"),
                    dict(units=2, activation="gelu", kernel_regularizer="l2")], (7,)),
    *rows("Dense", [dict(units=4, activation="relu"), dict(units=3, bias_initializer="ones")], (3, 5)),
    *rows("Dense", [dict(units=4)], (2, 3, 5)),
    *rows("Conv2D", CONV2D, (12, 11, 8)),
    *rows("MaxPooling2D", POOL2D, (9, 8, 5)),
    *rows("AveragePooling2D", [{"pool_size": 2, **kwargs} for kwargs in POOL2D], (9, 8, 5)),
    *rows("GlobalAveragePooling2D", grid(keepdims=[False, True], data_format=["channels_last", "channels_first"]), (5, 4, 3)),
    *rows("GlobalMaxPooling2D", grid(keepdims=[False, True], data_format=["channels_last", "channels_first"]), (5, 4, 3)),
    *rows("Flatten", [dict(), dict(data_format="channels_first")], (3, 4, 2)),
    *rows("Flatten", [dict()], (6,)),
    *rows("Flatten", [dict()], ()),
    *rows("Reshape", [dict(target_shape=(4, 6)), dict(target_shape=(-1, 3)), dict(target_shape=(2, -1, 2))], (24,)),
    *rows("Reshape", [dict(target_shape=(-1,))], (3, 4)),
    *rows("Dropout", [dict(rate=0.4), dict(rate=0.0), dict(rate=0.5, noise_shape=(None, 1, 3), seed=3)], (4, 3)),
    *rows("Activation", [dict(activation=a) for a in ACTIVATIONS], (6,)),
    *rows("ReLU", [dict(), dict(max_value=1.0), dict(negative_slope=0.2, threshold=0.3),
                   dict(max_value=2.0, negative_slope=0.1, threshold=0.5)], (6, 2)),
    *rows("LeakyReLU", [dict(), dict(negative_slope=0.05)], (6, 2)),
    *rows("ELU", [dict(), dict(alpha=0.4)], (6, 2)),
    *rows("PReLU", [dict(), dict(shared_axes=[1])], (4, 3)),
    *rows("Softmax", [dict(), dict(axis=1), dict(axis=[1, 2])], (4, 3)),
    *rows("BatchNormalization", [dict(), dict(axis=1), dict(center=False), dict(scale=False, epsilon=1e-5),
                                 dict(momentum=0.5)], (4, 5, 3)),
    *rows("BatchNormalization", [dict(), dict(center=False, scale=False)], (6,)),
    *rows("LayerNormalization", [dict(), dict(axis=1), dict(axis=[1, 2]), dict(center=False), dict(scale=False),
                                 dict(epsilon=1e-6)], (4, 5)),
    *rows("LayerNormalization", [dict(axis=-2), dict()], (3, 4, 5)),
    *rows("Add", [dict()], (4, 3), (4, 3)),
    *rows("Add", [dict()], (4, 3), (1, 3), (4, 3)),
    *rows("Concatenate", [dict()], (4, 3), (4, 2)),
    *rows("Concatenate", [dict(axis=1)], (4, 3), (2, 3), (1, 3)),
    *rows("ZeroPadding2D", [dict(), dict(padding=(2, 1)), dict(padding=((0, 1), (2, 0))),
                            dict(padding=2, data_format="channels_first")], (4, 3, 2)),
    *rows("Rescaling", [dict(scale=1 / 255), dict(scale=2.0, offset=-1.0), dict(scale=[1.0, 2.0, 0.5])], (4, 3)),
    *rows("Embedding", [dict(input_dim=11, output_dim=4), dict(input_dim=11, output_dim=3, mask_zero=True)], (5,), ints=11),
    *rows("LSTM", LSTM, (6, 3)),
]

MORE = [
    *rows("ReversibleEmbedding", [dict(input_dim=7, output_dim=3), dict(input_dim=5, output_dim=3, tie_weights=False, logit_soft_cap=2.0)],
          (4, 3), call=dict(reverse=True)),
    *rows("MelSpectrogram", [dict(fft_length=64, sequence_stride=16, num_mel_bins=7, sampling_rate=8000, top_db=20.0)], (200,)),
    *rows("ActivityRegularization", [dict(l1=0.1)], (4,)),
    *rows("Identity", [dict()], (4, 2)),
    *rows("Permute", [dict(dims=(2, 1)), ], (4, 3)),
    *rows("Permute", [dict(dims=(3, 1, 2))], (4, 3, 2)),
    *rows("RepeatVector", [dict(n=3)], (4,)),
    *rows("Masking", [dict(), dict(mask_value=-1.0)], (4, 3)),
    *[row for name in ("Subtract", "Dot") for row in rows(name, [dict(axes=1)] if name == "Dot" else [dict()], (4, 3), (4, 3))],
    *[row for name in ("Multiply", "Average", "Maximum", "Minimum") for row in rows(name, [dict()], (4, 3), (4, 3), (4, 3))],
    *rows("Dot", [dict(axes=(2, 1)), dict(axes=-1, normalize=True)], (3, 3), (3, 3)),
    *rows("Conv1D", [dict(filters=3, kernel_size=3), dict(filters=4, kernel_size=2, strides=2, padding="same"),
                     dict(filters=4, kernel_size=3, dilation_rate=2, padding="causal"),
                     dict(filters=4, kernel_size=3, groups=2, use_bias=False)], (10, 4)),
    *rows("Conv3D", [dict(filters=3, kernel_size=2), dict(filters=4, kernel_size=2, strides=2, padding="same")], (5, 6, 4, 2)),
    *rows("Conv1DTranspose", [dict(filters=3, kernel_size=3, strides=2), dict(filters=2, kernel_size=3, strides=2, padding="same"),
                              dict(filters=2, kernel_size=3, strides=2, output_padding=1)], (5, 4)),
    *rows("Conv2DTranspose", [dict(filters=3, kernel_size=3, strides=2), dict(filters=2, kernel_size=2, strides=2, padding="same"),
                              dict(filters=2, kernel_size=4, strides=2, padding="same", use_bias=False),
                              dict(filters=2, kernel_size=3, dilation_rate=2)], (5, 4, 3)),
    *rows("Conv3DTranspose", [dict(filters=2, kernel_size=3, strides=2)], (3, 4, 3, 2)),
    *rows("DepthwiseConv2D", [dict(kernel_size=3), dict(kernel_size=3, depth_multiplier=2, strides=2, padding="same"),
                              dict(kernel_size=2, dilation_rate=2)], (8, 7, 3)),
    *rows("DepthwiseConv1D", [dict(kernel_size=3), dict(kernel_size=3, depth_multiplier=2, strides=2, padding="same")], (8, 3)),
    *rows("SeparableConv2D", [dict(filters=4, kernel_size=3), dict(filters=4, kernel_size=3, depth_multiplier=2, padding="same",
                              strides=2)], (8, 7, 3)),
    *rows("SeparableConv1D", [dict(filters=4, kernel_size=3)], (8, 3)),
    *[row for kind in ("MaxPooling", "AveragePooling") for row in
      rows(kind + "1D", [dict(pool_size=2), dict(pool_size=3, strides=1, padding="same")], (8, 3)) +
      rows(kind + "3D", [dict(pool_size=2), dict(pool_size=2, strides=1, padding="same")], (4, 5, 4, 2))],
    *[row for kind in ("GlobalMaxPooling", "GlobalAveragePooling") for row in
      rows(kind + "1D", [dict(), dict(keepdims=True), dict(data_format="channels_first")], (5, 3)) + rows(kind + "3D", [dict()], (3, 4, 2, 3))],
    *[row for kind in ("AdaptiveMaxPooling", "AdaptiveAveragePooling") for row in
      rows(kind + "1D", [dict(output_size=3), dict(output_size=4, data_format="channels_first")], (7, 6)) +
      rows(kind + "2D", [dict(output_size=(2, 3)), dict(output_size=4)], (6, 7, 2)) + rows(kind + "3D", [dict(output_size=(2, 2, 3))], (4, 5, 4, 2))],
    *rows("ZeroPadding1D", [dict(padding=(1, 2))], (4, 3)),
    *rows("ZeroPadding3D", [dict(padding=1)], (2, 3, 2, 2)),
    *rows("Cropping1D", [dict(cropping=(1, 2))], (6, 3)),
    *rows("Cropping2D", [dict(cropping=((1, 0), (1, 1)))], (5, 5, 2)),
    *rows("Cropping3D", [dict(cropping=1)], (4, 4, 3, 2)),
    *rows("UpSampling1D", [dict(size=3)], (4, 2)),
    *rows("UpSampling2D", [dict(size=(2, 3)), dict(interpolation="bilinear")], (3, 4, 2)),
    *rows("UpSampling3D", [dict()], (2, 3, 2, 2)),
    *rows("GroupNormalization", [dict(groups=2), dict(groups=-1), dict(groups=1, center=False)], (3, 3, 4)),
    *rows("RMSNormalization", [dict()], (4, 5)),
    *rows("UnitNormalization", [dict(), dict(axis=1)], (4, 5)),
    *rows("SimpleRNN", [dict(units=4), dict(units=3, return_sequences=True, go_backwards=True),
                        dict(units=3, return_state=True)], (6, 3)),
    *rows("GRU", [dict(units=4), dict(units=3, return_sequences=True), dict(units=3, reset_after=False),
                  dict(units=3, return_state=True, go_backwards=True), dict(units=3, use_bias=False)], (6, 3)),
    *rows("ConvLSTM1D", [dict(filters=2, kernel_size=3), dict(filters=2, kernel_size=2, return_sequences=True, go_backwards=True,
                         dilation_rate=2)], (3, 6, 2)),
    *rows("ConvLSTM2D", [dict(filters=2, kernel_size=(3, 2), strides=2, padding="same", return_state=True),
                         dict(filters=2, kernel_size=2, data_format="channels_first", use_bias=False)], (3, 5, 4, 3)),
    *rows("ConvLSTM3D", [dict(filters=2, kernel_size=2, return_sequences=True)], (2, 3, 4, 3, 2)),
    *rows("EinsumDense", [dict(equation="abc,cd->abd", output_shape=(None, 6), bias_axes="d")], (4, 3)),
    *rows("SpatialDropout1D", [dict(rate=0.3)], (4, 3)),
    *rows("SpatialDropout2D", [dict(rate=0.3)], (4, 3, 2)),
    *rows("GaussianNoise", [dict(stddev=0.3)], (4,)),
    *rows("GaussianDropout", [dict(rate=0.3)], (4,)),
    *rows("AlphaDropout", [dict(rate=0.3)], (4,)),
    *rows("MultiHeadAttention", [dict(num_heads=2, key_dim=3), dict(num_heads=2, key_dim=3, value_dim=4, use_bias=False)],
          (5, 4), (6, 4)),
    *rows("Attention", [dict(), dict(use_scale=True), dict(score_mode="concat")], (5, 4), (6, 4)),
    *rows("AdditiveAttention", [dict()], (5, 4), (6, 4)),
    *rows("CenterCrop", [dict(height=3, width=2)], (6, 5, 2)),
    *rows("Resizing", [dict(height=5, width=7), dict(height=3, width=3, interpolation="nearest")], (6, 5, 2)),
    *rows("CategoryEncoding", [dict(num_tokens=7, output_mode="multi_hot")], (4,), ints=7),
]

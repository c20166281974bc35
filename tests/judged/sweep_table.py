"""Layers with edge arguments, for test_sweeps.py: rows of one class and input shape go into one model, an output for each.

A row is (class, keyword arguments, input shapes without the batch axis, options); options as in layer_table.py, and
"mask": the inputs pass a Masking layer, and some of their steps are zeros; "unknown": what an unknown extent is in the data.
"""

import keras
import numpy as np

from layer_table import ACTIVATIONS, grid, rows

ROWS = []


def add(name, arguments, *shapes, **options):
    ROWS.extend(rows(name, arguments, *shapes, **options))


WINDOWS = grid(padding=["valid", "same"])
STEPS = [dict(strides=(1, 1)), dict(strides=(2, 1)), dict(strides=(1, 3)), dict(dilation_rate=(2, 3)), dict(strides=(3, 2))]
add("Conv2D", [dict(filters=4, kernel_size=(3, 2), groups=g, **w, **s) for w in WINDOWS for s in STEPS for g in (1, 4)], (9, 10, 8))
add("Conv2D", [dict(filters=4, kernel_size=3, activation="relu", kernel_regularizer="l1", bias_regularizer="l2",
                    activity_regularizer="l2", kernel_constraint="max_norm", bias_constraint="non_neg"),
               dict(filters=2, kernel_size=5, padding="same", kernel_initializer="he_normal", use_bias=False)], (5, 5, 1))
add("Conv2D", [dict(filters=3, kernel_size=3, padding="same"), dict(filters=2, kernel_size=2, strides=2)], (None, None, 2), unknown=6)
POOLS = grid(pool_size=[1, 2, (3, 2)], strides=[None, 1, (2, 3)], padding=["valid", "same"])
for kind in ("Max", "Average"):
    add(kind + "Pooling2D", POOLS, (7, 8, 3))
    add(kind + "Pooling2D", [dict(pool_size=2, padding="same")], (None, None, 2), unknown=5)
    add(kind + "Pooling1D", grid(pool_size=[1, 2, 3], strides=[None, 1, 2], padding=["valid", "same"]), (8, 3))
    add(kind + "Pooling3D", grid(pool_size=[2], strides=[None, 1], padding=["valid", "same"]), (4, 5, 4, 2))
    for rank, shape in ((1, (5, 3)), (2, (5, 4, 3)), (3, (2, 3, 2, 3))):
        add(f"Global{kind}Pooling{rank}D", grid(keepdims=[False, True], data_format=["channels_last", "channels_first"]), shape)
    add(f"Adaptive{kind}Pooling1D", grid(output_size=[2, 3, 5, 7, 9], data_format=["channels_last", "channels_first"]), (7, 6))
    add(f"Adaptive{kind}Pooling2D", grid(output_size=[2, (3, 2), (5, 9)], data_format=["channels_last", "channels_first"]), (5, 7, 3))
    add(f"Adaptive{kind}Pooling3D", [dict(output_size=2), dict(output_size=(2, 3, 2), data_format="channels_first")], (3, 4, 5, 2))
add("GlobalAveragePooling1D", [dict(), dict(keepdims=True)], (5, 3), mask=True)
add("Flatten", [dict(), dict(data_format="channels_first")], (2, 3, 4))
add("Flatten", [dict()], (None, 3), unknown=4)
add("Reshape", [dict(target_shape=(-1,)), dict(target_shape=(3, -1)), dict(target_shape=(2, -1, 3)), dict(target_shape=[24])], (4, 6))
add("Reshape", [dict(target_shape=(-1, 2))], (None, 4), unknown=3)
add("Dropout", [dict(rate=0.5), dict(rate=0.3, seed=1), dict(rate=0.5, noise_shape=(None, 1, 3)), dict(rate=0.9), dict(rate=0),
                dict(rate=0.5, noise_shape=[None, 4, 1], seed=9)], (4, 3))
add("Activation", [dict(activation=a) for a in ACTIVATIONS], (3, 6))
add("ReLU", [dict(max_value=6), dict(max_value=6.0, negative_slope=0.1), dict(threshold=1.0),
             dict(threshold=1, negative_slope=1, max_value=2)], (6,))
add("LeakyReLU", [dict(), dict(negative_slope=0.0)], (6,))
add("ELU", [dict(alpha=2)], (6,))
add("PReLU", [dict(), dict(shared_axes=[1, 2]), dict(shared_axes=[1], alpha_initializer="ones", alpha_regularizer="l2")], (4, 3, 2))
add("Softmax", [dict(), dict(axis=1), dict(axis=[1, 2]), dict(axis=(-1, -2))], (4, 3))
add("BatchNormalization", grid(axis=[-1, 1, 2], center=[True, False], scale=[True, False]) +
    [dict(momentum=0.0), dict(momentum=1.0), dict(epsilon=0.1), dict(synchronized=True), dict(trainable=False),
     dict(beta_initializer="ones", gamma_initializer="zeros", moving_mean_initializer="ones", moving_variance_initializer="zeros"),
     dict(beta_regularizer="l2", gamma_regularizer="l1", beta_constraint="non_neg", gamma_constraint="non_neg")], (4, 5, 3))
add("BatchNormalization", [dict(), dict(axis=1), dict(momentum=0.9, synchronized=True)], (6,))
add("BatchNormalization", [dict()], (None, 3), unknown=4)
add("BatchNormalization", [dict(), dict(axis=-2)], (2, 3, 2, 2))
add("BatchNormalization", [dict(), dict(momentum=0.5)], (5, 3), mask=True)
add("LayerNormalization", grid(axis=[-1, 1, [1, 2], (2, 1), [-1, -2]], center=[True, False], scale=[True, False]) +
    [dict(rms_scaling=True), dict(rms_scaling=True, axis=[1, 2]), dict(rms_scaling=True, scale=False), dict(epsilon=1e-6)], (4, 5))
add("LayerNormalization", [dict(epsilon=None), dict(axis=[1, 2, 3]), dict(axis=[1, 3]), dict(axis=(-3, -1)), dict()], (3, 4, 5))
add("Add", [dict()], (4, 3), (4, 3), (4, 3))
add("Add", [dict()], (4, 1), (1, 3))
add("Add", [dict()], (4, 3), (3,))
add("Concatenate", [dict(), dict(axis=1), dict(axis=2), dict(axis=-2)], (4, 3), (4, 3))
add("Concatenate", [dict(axis=1)], (None, 2), (None, 2), unknown=3)
add("ZeroPadding2D", [dict(padding=1), dict(padding=(1, 2)), dict(padding=((1, 0), (0, 2))), dict(padding=[[1, 2], [3, 4]]),
                      dict(padding=0), dict(padding=(0, 1), data_format="channels_first")], (4, 3, 2))
add("Rescaling", [dict(scale=2), dict(scale=1 / 127.5, offset=-1), dict(scale=[1.0, 2.0, 3.0], offset=[0.0, 1.0, 2.0]),
                  dict(scale=2.0, offset=[1, 2, 3]), dict(scale=[[1.0, 2.0, 3.0]])], (4, 3))
add("Embedding", [dict(input_dim=7, output_dim=3), dict(input_dim=7, output_dim=3, mask_zero=True),
                  dict(input_dim=7, output_dim=2, embeddings_initializer="ones", embeddings_regularizer="l2"),
                  dict(input_dim=7, output_dim=4, embeddings_constraint="unit_norm")], (5,), ints=7)
LSTM = grid(units=[3], return_sequences=[False, True], go_backwards=[False, True], unroll=[False, True]) + [
    dict(units=3, return_state=True), dict(units=3, use_bias=False), dict(units=3, unit_forget_bias=False), dict(units=1),
    dict(units=3, activation="relu", recurrent_activation="tanh"), dict(units=3, activation=None, recurrent_activation="hard_sigmoid"),
    dict(units=3, dropout=0.4), dict(units=3, recurrent_dropout=0.4), dict(units=3, dropout=0.4, recurrent_dropout=0.3, seed=4),
    dict(units=3, dropout=0.3, unroll=True), dict(units=3, recurrent_dropout=0.3, return_sequences=True, go_backwards=True),
    dict(units=3, kernel_initializer="ones", recurrent_initializer="glorot_normal", bias_initializer="ones"),
    dict(units=3, kernel_regularizer="l2", recurrent_regularizer="l1", bias_regularizer="l2", activity_regularizer="l2"),
    dict(units=3, kernel_constraint="max_norm", recurrent_constraint="unit_norm", bias_constraint="non_neg")]
add("LSTM", LSTM, (5, 4))
add("LSTM", [dict(units=3), dict(units=3, return_sequences=True)], (None, 4), unknown=6)
add("LSTM", LSTM[:8] + [dict(units=3, return_sequences=True, zero_output_for_mask=True)], (5, 4), mask=True)
add("Dense", [dict(units=1), dict(units=3, activation="relu", kernel_regularizer="l1"), dict(units=3, use_bias=False),
              dict(units=3, kernel_constraint="unit_norm", bias_constraint="non_neg"), dict(units=3, activity_regularizer="l1")], (5,))
add("Dense", [dict(units=3), dict(units=2, activation="softmax")], (None, 4), unknown=3)

# Layers beyond the first table.
add("GaussianNoise", [dict(stddev=0.3), dict(stddev=0.2, seed=4), dict(stddev=0)], (4, 3))
add("GaussianDropout", [dict(rate=0.3), dict(rate=0.3, seed=2)], (4, 3))
add("AlphaDropout", [dict(rate=0.3), dict(rate=0.2, noise_shape=(None, 1, 3))], (4, 3))
add("SpatialDropout1D", [dict(rate=0.3), dict(rate=0.5, seed=3)], (4, 3))
add("SpatialDropout2D", [dict(rate=0.3), dict(rate=0.3, data_format="channels_first")], (4, 3, 2))
add("ActivityRegularization", [dict(l1=0.1), dict(l2=0.1), dict(l1=0.01, l2=0.02), dict(l1=0.1, l2=None)], (4, 3))
add("Conv1D", [dict(filters=4, kernel_size=2, padding=p, groups=g, **s) for p in ("valid", "same", "causal") for g in (1, 2)
               for s in (dict(), dict(strides=2), dict(dilation_rate=3))], (9, 4))
add("Conv3D", [dict(filters=2, kernel_size=2), dict(filters=4, kernel_size=2, groups=2),
               dict(filters=2, kernel_size=(1, 2, 3), strides=(1, 2, 1), padding="same")], (4, 5, 4, 2))
for name, shape in (("Conv1DTranspose", (5, 3)), ("Conv2DTranspose", (4, 5, 3)), ("Conv3DTranspose", (3, 3, 2, 2))):
    add(name, grid(filters=[2], kernel_size=[2, 3], strides=[1, 2, 3], padding=["valid", "same"]) +
        [dict(filters=2, kernel_size=3, strides=2, output_padding=1), dict(filters=2, kernel_size=3, use_bias=False, activation="relu")],
        shape)
for name, shape in (("DepthwiseConv1D", (7, 3)), ("DepthwiseConv2D", (7, 6, 3))):
    add(name, grid(kernel_size=[2, 3], strides=[1, 2], padding=["valid", "same"], depth_multiplier=[1, 2]) +
        [dict(kernel_size=2, dilation_rate=2)], shape)
for name, shape in (("SeparableConv1D", (7, 3)), ("SeparableConv2D", (7, 6, 3))):
    add(name, [dict(filters=4, kernel_size=3), dict(filters=4, kernel_size=2, strides=2, padding="same", depth_multiplier=2),
               dict(filters=2, kernel_size=2, dilation_rate=2, activation="relu", use_bias=False)], shape)
add("SimpleRNN", [dict(units=3), dict(units=3, return_sequences=True, go_backwards=True), dict(units=3, return_state=True),
                  dict(units=3, unroll=True), dict(units=3, dropout=0.3, recurrent_dropout=0.2), dict(units=3, use_bias=False)], (5, 3))
add("GRU", grid(units=[3], reset_after=[True, False], return_sequences=[True, False], go_backwards=[True, False]) +
    [dict(units=3, unroll=True), dict(units=3, dropout=0.3), dict(units=3, use_bias=False), dict(units=3, return_state=True)], (5, 3))
add("GRU", [dict(units=3), dict(units=3, return_sequences=True), dict(units=3, unroll=True)], (5, 3), mask=True)
add("ConvLSTM1D", [dict(filters=2, kernel_size=3), dict(filters=2, kernel_size=2, strides=2, return_sequences=True),
                   dict(filters=2, kernel_size=2, dropout=0.3, recurrent_dropout=0.2, seed=5), dict(filters=2, kernel_size=3,
                   padding="same", unit_forget_bias=False, recurrent_activation="hard_sigmoid", go_backwards=True)], (3, 6, 2))
add("ConvLSTM2D", [dict(filters=2, kernel_size=2, kernel_regularizer="l2", activity_regularizer="l1"),
                   dict(filters=2, kernel_size=3, padding="same", return_sequences=True, activation="relu")], (3, 4, 5, 2))
add("GroupNormalization", [dict(groups=2), dict(groups=-1), dict(groups=1), dict(groups=3, axis=1)], (3, 3, 4))
add("RMSNormalization", [dict(), dict(axis=1), dict(axis=[1, 2]), dict(epsilon=0.1)], (4, 5))
add("UnitNormalization", [dict(), dict(axis=1), dict(axis=[1, 2])], (4, 5))
add("EinsumDense", [dict(equation="abc,cd->abd", output_shape=(None, 6), bias_axes="d"),
                    dict(equation="...x,xy->...y", output_shape=5, bias_axes="y"),
                    dict(equation="...x,xyz->...yz", output_shape=(2, 5), bias_axes="z"),
                    dict(equation="abc,bcd->abd", output_shape=(4, 2), activation="relu")], (4, 3))
for name in ("Multiply", "Average", "Maximum", "Minimum"):
    add(name, [dict()], (4, 3), (1, 3))
add("Subtract", [dict()], (4, 3), (4, 3))
add("Dot", [dict(axes=1), dict(axes=2), dict(axes=(1, 1)), dict(axes=-1, normalize=True)], (3, 3), (3, 3))
add("Attention", [dict(), dict(use_scale=True), dict(score_mode="concat"), dict(score_mode="concat", use_scale=True)], (5, 4), (6, 4))
add("AdditiveAttention", [dict(), dict(use_scale=False)], (5, 4), (6, 4))
add("MultiHeadAttention", [dict(num_heads=2, key_dim=3), dict(num_heads=1, key_dim=3, value_dim=2, use_bias=False),
                           dict(num_heads=2, key_dim=3, output_shape=5)], (5, 4), (6, 4))
add("MultiHeadAttention", [dict(num_heads=2, key_dim=3, use_gate=True), dict(num_heads=2, key_dim=3, sliding_window=2, value_dim=5),
                           dict(num_heads=2, key_dim=3, dropout=0.2), dict(num_heads=2, key_dim=3, output_shape=(2, 3)),
                           dict(num_heads=1, key_dim=2, attention_axes=1, activity_regularizer="l2")], (5, 4), (6, 4))
# It takes the masks off its inputs, so a model has one of them.
add("MultiHeadAttention", [dict(num_heads=2, key_dim=3)], (5, 4), (6, 4), mask=True)
add("MultiHeadAttention", [dict(num_heads=2, key_dim=3, dropout=0.2, use_gate=True)], (4, 4), (6, 4), mask=True)
add("MultiHeadAttention", [dict(num_heads=2, key_dim=3), dict(num_heads=2, key_dim=3, attention_axes=(2,)),
                           dict(num_heads=2, key_dim=3, attention_axes=(1, 2))], (3, 5, 4), (3, 5, 4))
GROUPS = [dict(head_dim=3, num_query_heads=4, num_key_value_heads=2),
          dict(head_dim=3, num_query_heads=4, num_key_value_heads=1, use_gate=True, activity_regularizer="l2"),
          dict(head_dim=2, num_query_heads=2, num_key_value_heads=2, dropout=0.2, sliding_window=2, use_bias=False)]
add("GroupQueryAttention", GROUPS, (5, 4), (6, 4))
add("GroupQueryAttention", GROUPS, (5, 4), (6, 4), mask=True)
for name in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
    add(name, [dict()], (4, 3), (4, 3), mask=True)
add("EinsumDense", [dict(equation="abc,cd->abd", output_shape=(None, 6), bias_axes="d")], (4, 3), mask=True)
add("RMSNormalization", [dict()], (4, 3), mask=True)
add("LSTM", [dict(units=3), dict(units=2, return_sequences=True, go_backwards=True)], (40, 4))
add("Conv1DTranspose", [dict(filters=3, kernel_size=2, padding="same")], (6, 1))
add("UpSampling2D", [dict(), dict(size=(2, 3)), dict(interpolation="bilinear")], (3, 4, 2))
add("Cropping2D", [dict(cropping=1), dict(cropping=((1, 0), (0, 2)))], (5, 6, 2))
add("CenterCrop", [dict(height=3, width=2), dict(height=6, width=5), dict(height=8, width=4), dict(height=7, width=9)], (6, 5, 2))
add("Resizing", [dict(height=5, width=7), dict(height=3, width=3, interpolation="nearest"),
                 dict(height=7, width=4, interpolation="bicubic"), dict(height=3, width=4, interpolation="area"),
                 dict(height=4, width=8, interpolation="lanczos3"), dict(height=4, width=8, interpolation="lanczos5", antialias=True),
                 dict(height=3, width=9, interpolation="bilinear", antialias=True), dict(height=8, width=2, interpolation="bicubic",
                                                                                        antialias=True),
                 dict(height=4, width=8, crop_to_aspect_ratio=True),
                 dict(height=4, width=8, pad_to_aspect_ratio=True, fill_value=2.0)], (6, 5, 2))
add("CategoryEncoding", grid(num_tokens=[7], output_mode=["multi_hot", "count", "one_hot"]), (4,), ints=7)
add("Normalization", [dict(mean=1.0, variance=4.0), dict(mean=[1.0, 2.0, 3.0], variance=[1.0, 2.0, 3.0]),
                      dict(axis=None, mean=1.0, variance=2.0, invert=True), dict(axis=[1, 2], mean=[1.0, 2.0, 3.0], variance=[1.0, 2.0, 3.0]),
                      dict(axis=(1, 2), mean=[[1.0], [2.0], [3.0], [4.0]], variance=[[1.0], [2.0], [3.0], [4.0]])], (4, 3))
add("BatchNormalization", [dict(renorm=True), dict(renorm=True, renorm_clipping=dict(rmax=1.5, rmin=0.5, dmax=0.3)),
                           dict(renorm=True, renorm_momentum=0.5, momentum=0.8, scale=False), dict(renorm=True, center=False, axis=1),
                           dict(renorm=True, moving_variance_initializer="zeros", renorm_clipping=dict(dmax=2))], (4, 5, 3))
add("BatchNormalization", [dict(renorm=True, renorm_momentum=0.7)], (5, 3), mask=True)
add("SpectralNormalization", [dict(layer=keras.layers.Dense(4)), dict(layer=keras.layers.Dense(3, activation="relu"), power_iterations=3)], (6, 5))
add("SpectralNormalization", [dict(layer=keras.layers.Conv2D(4, 3, padding="same")), dict(layer=keras.layers.Conv2D(2, 2, strides=2))], (6, 5, 3))
add("ReversibleEmbedding", [dict(input_dim=7, output_dim=3), dict(input_dim=7, output_dim=2, mask_zero=True, embeddings_regularizer="l2"),
                            dict(input_dim=9, output_dim=4, tie_weights=False, logit_soft_cap=3.0)], (5,), ints=7)
WINDOW = [float(v) for v in np.hamming(16)]  # numbers, since Keras needs SciPy for names
add("STFTSpectrogram", grid(mode=["log", "magnitude", "psd", "real", "imag", "angle", "stft"], frame_length=[16], window=[WINDOW]), (70, 2))
add("STFTSpectrogram", grid(mode=["magnitude", "stft"], frame_length=[16], window=[WINDOW, None], padding=["same", "valid"],
                            expand_dims=[True, False], scaling=["spectrum", None], fft_length=[32], frame_step=[5]), (61, 2))
add("STFTSpectrogram", [dict(frame_length=16, window=WINDOW, mode="magnitude")], (None, 2), unknown=50)
MEL = dict(fft_length=64, sequence_stride=16, num_mel_bins=7, sampling_rate=8000, min_freq=50)
add("MelSpectrogram", [MEL, dict(MEL, window="hamming", sequence_length=40), dict(MEL, window=None, power_to_db=False, mag_exp=1.0),
                       dict(MEL, window=WINDOW, sequence_length=16, power_to_db=False, max_freq=3000),
                       dict(MEL, ref_power=3.0, min_power=1e-3)], (200,))
add("MelSpectrogram", [MEL], (None,), unknown=150)
add("ContrastLimitedAdaptiveHistogramEqualization", [
    dict(value_range=[-4, 4], tile_grid_size=[2, 3]), dict(value_range=[-4, 4], tile_grid_size=[2, 2], clip_limit=1.5),
    dict(value_range=[-4, 4], tile_grid_size=[3, 1], clip_limit=0)], (7, 8, 2))

# Keras adds a bias along the last axis, or along axis 1, where that has the bias's extent; softmax is that of the last axis.
FIRST = dict(data_format="channels_first")
add("Conv2D", [dict(filters=4, kernel_size=3, padding="same", activation="softmax", **FIRST), dict(filters=3, kernel_size=2, **FIRST),
               dict(filters=2, kernel_size=3, groups=2, activation="relu", **FIRST)], (2, 5, 4))
add("Conv1D", [dict(filters=5, kernel_size=2, padding="same", activation="log_softmax", **FIRST)], (2, 5))
add("Conv3D", [dict(filters=2, kernel_size=2, groups=2, strides=(1, 2, 2), padding="same", **FIRST)], (4, 4, 4, 4))
add("Conv2DTranspose", [dict(filters=4, kernel_size=2, strides=2, activation="softmax", **FIRST)], (3, 2, 2))
add("SeparableConv2D", [dict(filters=4, kernel_size=3, padding="same", **FIRST)], (2, 5, 4))
add("DepthwiseConv2D", [dict(kernel_size=3, padding="same", depth_multiplier=2, activation="softmax", **FIRST)], (2, 5, 4))
add("EinsumDense", [dict(equation="abc,cd->adb", output_shape=(4, None), bias_axes="d"),
                    dict(equation="abc,cd->adb", output_shape=(2, None), bias_axes="d")], (4, 3))
add("MultiHeadAttention", [dict(num_heads=5, key_dim=1), dict(num_heads=6, key_dim=1, value_dim=2),
                           dict(num_heads=2, key_dim=3, trainable=False)], (5, 4), (6, 4))
add("GroupQueryAttention", [dict(head_dim=1, num_query_heads=5, num_key_value_heads=5)], (5, 4), (6, 4))
# Integers as inputs, cells with another dtype than their layer's, and others.
for name, arguments in (("LSTM", dict(units=3, return_sequences=True)), ("GRU", dict(units=3)), ("GlobalAveragePooling1D", dict()),
                        ("Discretization", dict(bin_boundaries=[1.0, 2.5])), ("ActivityRegularization", dict(l1=0.5, l2=1.1)),
                        ("EinsumDense", dict(equation="abc,cd->abd", output_shape=(None, 6))),
                        ("LeakyReLU", dict(negative_slope=0.1)), ("ReLU", dict(threshold=1.5))):
    add(name, [arguments], (3, 4), ints=5)
add("RNN", [dict(cell=keras.layers.LSTMCell(3, dtype="float32"), dtype="float64", return_sequences=True)], (4, 3))
add("LSTM", [dict(units=3, unroll=True)], (None, 4), unknown=6)
add("ConvLSTM1D", [dict(filters=2, kernel_size=3, trainable=False)], (3, 6, 2))
add("UpSampling2D", [dict(size=(2, 3), interpolation=i) for i in ("bicubic", "lanczos3", "lanczos5")] +
    [dict(interpolation="bicubic", **FIRST)], (3, 4, 2))
add("Pipeline", [dict(layers=[keras.layers.Dense(3), keras.layers.Dense(2)])], (4,))
# Windows of volumes that steps skip start half of the spare cells late.
for kind in ("Max", "Average"):
    add(kind + "Pooling3D", [dict(pool_size=1, strides=3, padding="same"), dict(pool_size=2, strides=4, padding="same"),
                             dict(pool_size=(1, 2, 2), strides=(3, 4, 5), padding="same"), dict(pool_size=(1, 2, 2), strides=(3, 4, 5))], (9, 8, 7, 2))
add("AdditiveAttention", [dict(), dict(use_scale=False)], (5, 4), (6, 4), ints=5)
# A layer as activation, which Keras builds when it is first called: its weights are not in the file.
add("Dense", [dict(units=3, activation=keras.layers.PReLU())], (4,))
add("Conv2D", [dict(filters=3, kernel_size=2, activation=keras.layers.PReLU(shared_axes=[1, 2]))], (4, 5, 2))
# Unrolled backwards, Keras crosses the mask with the outputs.
for name in ("SimpleRNN", "LSTM", "GRU"):
    layer = getattr(keras.layers, name)
    add(name, [dict(units=2, unroll=True, go_backwards=True, zero_output_for_mask=True, return_sequences=s) for s in (False, True)], (5, 3), mask=True)
    add("Bidirectional", [dict(layer=layer(2, unroll=True, return_sequences=s), merge_mode=m) for s, m in ((True, "concat"), (False, "ave"))], (5, 3), mask=True)
# An activity regularizer, which the base class takes for every class; of integers its factor is an integer.
for name, arguments, shape in (("Dropout", dict(rate=0), (4,)), ("UnitNormalization", dict(), (4, 3)), ("MaxPooling1D", dict(), (4, 3)),
                               ("Permute", dict(dims=(2, 1)), (4, 3)), ("TimeDistributed", dict(layer=keras.layers.Dense(2)), (3, 2)),
                               ("Softmax", dict(), (3,)), ("Bidirectional", dict(layer=keras.layers.GRU(2)), (3, 2))):
    add(name, [dict(arguments, activity_regularizer="l1")], shape)
add("Reshape", [dict(target_shape=(-1,), activity_regularizer=keras.regularizers.L1(1.5))], (3, 2), ints=5)
add("RMSNormalization", [dict(axis=-2), dict(axis=[1, -1])], (4, 4))  # the scale is along the last axis
add("Conv3D", [dict(filters=2, kernel_size=1, strides=(3, 1, 4), padding="same"), dict(filters=2, kernel_size=(2, 1, 1), strides=(4, 3, 2), padding="same"),
               dict(filters=2, kernel_size=1, strides=(3, 1, 4), padding="same", groups=2)], (6, 4, 7, 2))
add("CategoryEncoding", grid(num_tokens=[7], output_mode=["multi_hot", "count"]), (2, 3), ints=7)
# TimeDistributed leaves out the activity of its layer, and has that of parts for each step.
add("TimeDistributed", [dict(layer=keras.layers.Dense(2, activity_regularizer="l1")), dict(layer=keras.Sequential([keras.layers.Dense(2, activity_regularizer="l2")]))], (3, 2))

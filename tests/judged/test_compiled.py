"""Models, SavedModels and frozen graphs as programs, and graphs by plain operations: all give what Keras gives, whatever the batch size."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

L = keras.layers


def norm(rng, x):
    layer = L.BatchNormalization(epsilon=float(rng.choice([1e-3, 1e-5])), scale=bool(rng.random() < 0.8))
    y = layer(x)
    layer.moving_mean.assign(rng.normal(0, 0.3, layer.moving_mean.shape))
    layer.moving_variance.assign(rng.uniform(0.3, 2, layer.moving_variance.shape))
    return y


def activation(rng, x):
    name = rng.choice(["relu", "relu6", "silu", "hard_silu", "gelu", "elu", "selu", "tanh", "leaky_relu", "softplus", "linear"])
    return L.Activation(str(name))(x)


def convolution(rng, x, filters, strides=1):
    kind, size = rng.choice(["plain", "padded", "depthwise", "separable", "dilated"]), int(rng.choice([1, 3, 5]))
    if kind == "padded":
        x = L.ZeroPadding2D(((size // 2, size // 2), (size // 2, size // 2)))(x)
        y = L.Conv2D(filters, size, strides=strides, padding="valid", use_bias=bool(rng.random() < 0.5))(x)
    elif kind == "depthwise":
        y = L.Conv2D(filters, 1)(L.DepthwiseConv2D(size, strides=strides, padding="same", depth_multiplier=1 + filters % 3)(x))
    elif kind == "separable":
        y = L.SeparableConv2D(filters, size, strides=strides, padding="same")(x)
    elif kind == "dilated" and strides == 1:
        y = L.Conv2D(filters, size, dilation_rate=2, padding="same")(x)
    else:
        y = L.Conv2D(filters, size, strides=strides, padding="same", groups=1 if filters % 2 or x.shape[-1] % 2 else int(rng.choice([1, 2])))(x)
    return activation(rng, norm(rng, y)) if rng.random() < 0.8 else y


def image_block(rng, x):
    kind, width = rng.choice(["residual", "inverted", "dense", "pool", "excite", "upsample"]), x.shape[-1]
    if kind == "residual":
        return activation(rng, L.Add()([convolution(rng, convolution(rng, x, 2 * width), width), x]))
    if kind == "inverted":
        y = convolution(rng, L.Conv2D(6 * width, 1, use_bias=False)(x), width)
        return L.Add()([x, y])
    if kind == "dense":
        return L.Concatenate()([x, convolution(rng, activation(rng, norm(rng, x)), 7)])
    if kind == "pool":
        pools = [L.MaxPooling2D, L.AveragePooling2D]
        return L.Concatenate()([pool(3, strides=2, padding="same")(x) for pool in pools])
    if kind == "excite":
        s = L.Reshape((1, 1, width))(L.GlobalAveragePooling2D()(x))
        return L.Multiply()([x, L.Conv2D(width, 1, activation="sigmoid")(L.Conv2D(max(1, width // 4), 1, activation="silu")(s))])
    if rng.random() < 0.3:
        return convolution(rng, L.UpSampling2D(2)(x), width, strides=2)
    size, strides = int(rng.integers(1, 6)), int(rng.choice([1, 2, 2, 3]))
    y = L.Conv2DTranspose(width, size, strides=strides, padding=str(rng.choice(["same", "valid"])))(x)
    y = activation(rng, norm(rng, y)) if rng.random() < 0.5 else y
    return convolution(rng, y, width, strides=2)


def images(rng):
    inputs = keras.Input((int(rng.integers(14, 27)), int(rng.integers(14, 27)), 3))
    x = convolution(rng, inputs, int(rng.integers(5, 40)), strides=2)
    for _ in range(4):
        x = image_block(rng, x)
    x = L.GlobalAveragePooling2D()(x) if rng.random() < 0.5 else L.Flatten()(x)
    return keras.Model(inputs, L.Dense(6, activation="softmax")(x))


def tokens(rng):
    steps, width, heads = int(rng.integers(5, 20)), int(rng.choice([12, 24, 40])), int(rng.choice([1, 2, 4]))
    inputs = keras.Input((steps,), dtype="int32")
    x = L.Embedding(50, width)(inputs)
    for _ in range(2):
        y = L.MultiHeadAttention(heads, width // heads)(x, x)
        x = L.LayerNormalization(epsilon=1e-5)(L.Add()([x, y]))
        y = L.Dense(width)(L.Dense(3 * width, activation=str(rng.choice(["gelu", "relu", "silu"])))(x))
        x = L.LayerNormalization(epsilon=1e-5)(L.Add()([x, y]))
    x = L.GlobalMaxPooling1D()(x) if rng.random() < 0.5 else x[:, 0]
    return keras.Model(inputs, L.Dense(4)(x))


def columns(rng):
    """A table of small embeddings, one for each column of integers."""
    inputs = keras.Input((int(rng.integers(2, 7)),), dtype="int32")
    ids = keras.ops.unstack(inputs, axis=1) if rng.random() < 0.5 else [inputs[:, i] for i in range(inputs.shape[1])]
    width = int(rng.integers(1, 9))
    x = keras.ops.stack([L.Embedding(50, width)(i) for i in ids], axis=1)
    pairs = L.Flatten()(L.Dot(axes=(2, 2))([x, x]))
    return keras.Model(inputs, L.Dense(3)(activation(rng, L.Dense(8)(L.Concatenate()([L.Flatten()(x), pairs])))))


def recurrent(rng):
    """Sequences of tokens, or of images, through layers that are loops in a SavedModel."""
    steps, units = int(rng.integers(3, 12)), int(rng.integers(3, 40))
    if rng.random() < 0.2:
        inputs = keras.Input((steps, 9, 8, 2))
        x = L.ConvLSTM2D(5, 3, padding="same", return_sequences=True, go_backwards=bool(rng.random() < 0.5))(inputs)
        return keras.Model(inputs, L.Dense(3)(L.Flatten()(L.ConvLSTM2D(4, 3)(x))))
    inputs = keras.Input((steps,), dtype="int32")
    x = L.Embedding(50, int(rng.integers(3, 20)), mask_zero=bool(rng.random() < 0.5))(inputs)
    kinds = [lambda **k: L.LSTM(units, **k), lambda **k: L.SimpleRNN(units, **k),
             lambda **k: L.GRU(units, reset_after=bool(rng.random() < 0.5), **k),
             lambda **k: L.RNN([L.LSTMCell(units), L.GRUCell(units)], **k),
             lambda **k: L.LSTM(units, activation="relu", recurrent_activation="hard_sigmoid", **k)]
    for last in (False, True):
        settings = {"return_sequences": not last, "go_backwards": bool(rng.random() < 0.3)}
        layer = kinds[int(rng.integers(len(kinds)))](**settings)
        x = L.Bidirectional(layer)(x) if rng.random() < 0.4 and not settings["go_backwards"] else layer(x)
    return keras.Model(inputs, L.Dense(4)(x))


def graphs(rng):
    """Messages along edges to nodes, and what orders or counts within a row."""
    nodes, edges, width = int(rng.integers(4, 12)), int(rng.integers(10, 40)), int(rng.integers(4, 20))
    inputs, ops = keras.Input((nodes, width)), keras.ops
    x = activation(rng, L.Dense(width)(inputs))
    sources, targets = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    if rng.random() < 0.5:  # tensors, which the functions of a SavedModel capture
        sources, targets = ops.convert_to_tensor(sources), ops.convert_to_tensor(targets)
    reduction = ops.segment_max if rng.random() < 0.3 else ops.segment_sum
    for _ in range(2):
        messages = L.Dense(width)(ops.take(x, sources, axis=1))
        y = reduction(ops.transpose(messages, (1, 0, 2)), targets, num_segments=nodes)
        x = activation(rng, L.Dense(width)(ops.concatenate([x, ops.clip(ops.transpose(y, (1, 0, 2)), -5, 5)], axis=-1)))
    largest, _ = ops.top_k(ops.max(x, axis=1), 3)
    classes = ops.one_hot(ops.argmax(x, axis=1), nodes)
    return keras.Model(inputs, L.Dense(3)(ops.concatenate([largest, ops.prod(ops.cumsum(x, axis=1)[:, -3:], axis=1), ops.sum(classes, axis=1)], axis=-1)))


def windows(rng):
    """Attention with rotated positions, within windows of images that are shifted, as in Swin; positions that are repeated for all rows."""
    O, window, count, heads, width = keras.ops, int(rng.integers(2, 4)), int(rng.integers(2, 4)), 2, int(rng.choice([8, 16]))
    size = window * count
    inputs = keras.Input((size, size, 4))
    x = activation(rng, L.Dense(width)(inputs))
    for shift in (0, int(rng.integers(1, window))):
        y = O.roll(L.LayerNormalization()(x), (-shift, -shift), (1, 2)) if shift else L.RMSNormalization()(x)
        y = O.transpose(O.reshape(y, (-1, count, window, count, window, width)), (0, 1, 3, 2, 4, 5))
        y = O.reshape(y, (-1, window * window, heads, width // heads))
        angles = rng.normal(size=(1, window * window, 1, width // heads)).astype("f")
        low, high = O.split(y, 2, axis=-1)
        q = y * np.cos(angles) + O.concatenate([-high, low], axis=-1) * np.sin(angles)
        weights = O.softmax(O.einsum("bqhd,bkhd->bhqk", q, q) / 3, axis=-1)
        y = O.reshape(O.einsum("bhqk,bkhd->bqhd", weights, y), (-1, count, count, window, window, width))
        y = O.reshape(O.transpose(y, (0, 1, 3, 2, 4, 5)), (-1, size, size, width))
        x = x + (O.roll(y, (shift, shift), (1, 2)) if shift else y)
    mean = O.mean(x, axis=(1, 2), keepdims=True)
    x = O.concatenate([x, O.tile(mean, (1, size, size, 1))], axis=-1)
    return keras.Model(inputs, L.Dense(3)(L.Flatten()(x)))


def freeze(model, path):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    spec = tf.TensorSpec((None, *model.input_shape[1:]), model.input.dtype, name="x")
    frozen = convert_variables_to_constants_v2(tf.function(lambda x: model(x, training=False)).get_concrete_function(spec))
    path.write_bytes(frozen.graph.as_graph_def().SerializeToString())
    return frozen.outputs[0].name


@pytest.mark.parametrize("number", range(60 if tool.CONFORMANCE else 6))
def test_network(number, tmp_path):
    rng = tool.generator("compiled", number)
    keras.utils.set_random_seed(int(rng.integers(1 << 30)))
    kind = (tokens, images, windows, recurrent, columns, graphs, images)[number % 7]
    model = kind(rng)
    model.export(str(tmp_path / "m"), verbose=False)
    output = freeze(model, tmp_path / "frozen.pb")
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "ours")
    for rows in (1, 9):
        shape = (rows, *model.input_shape[1:])
        x = rng.integers(0, 50, shape).astype("i4") if "int" in model.input.dtype else rng.normal(size=shape).astype("f")
        want = model(x, training=False).numpy()
        for artifact, options in (("m", ()), ("frozen.pb", ("--outputs", output)), ("ours", ()), ("m.keras", ())):
            # A process of its own has other settings: one such run for each network.
            for settings in (None, {"LOCKSTEP_COMPILED_GRAPHS": "0"})[:2 if rows == 9 and artifact == "m" else 1]:
                ours = tool.predict(tmp_path / artifact, {"x": x} if artifact == "frozen.pb" else x, tmp_path, *options, env=settings)
                np.testing.assert_allclose(ours[0][1], want, rtol=1e-5, atol=1e-5 * np.abs(want).max(),
                                           err_msg=f"{artifact}, {rows} rows, {settings}")
    # No part of these networks is left to the plain operations.
    np.save(tmp_path / "x.npy", x)
    for artifact in ("m", "m.keras"):
        done = tool.run("predict", tmp_path / artifact, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz",
                        env={"LOCKSTEP_LOG_LEVEL": "debug"})
        assert kind not in (graphs, windows) or "for whole batches" not in done.err, done.err
        assert "runs as a program" in done.err and "runs operation by operation" not in done.err and "layer by layer" not in done.err, done.err


def test_large_weights_of_any_number_of_channels(tmp_path):
    """Weights that do not stay in the cache are read panel by panel; the last panel has any number of channels."""
    keras.utils.set_random_seed(4)
    vector, image = keras.Input((2048,), name="vector"), keras.Input((4, 5, 130), name="image")
    outputs = [L.Dense(64 + k, use_bias=k % 2 == 0, activation="relu" if k % 3 else None)(vector) for k in range(1, 17)]
    outputs += [L.Conv2D(128 + k, (2, 5), padding="valid" if k % 2 else "same")(image) for k in range(1, 9)]
    model = keras.Model([vector, image], outputs)
    model.save(tmp_path / "m.keras")
    for rows in (1, 3, 33):
        values = [np.random.default_rng(rows).normal(size=(rows, *t.shape[1:])).astype("f") for t in (vector, image)]
        want = model(values, training=False)
        ours = tool.predict(tmp_path / "m.keras", {"vector": values[0], "image": values[1]}, tmp_path)
        for (name, value), theirs in zip(ours, want, strict=True):
            tool.assert_close(value, theirs.numpy(), what=f"{name} of {rows}")


def test_results_do_not_depend_on_threads(tmp_path):
    """A batch is divided by the number of threads; small images are computed side by side where there are several."""
    keras.utils.set_random_seed(5)
    image = keras.Input((5, 11, 64))
    outputs = [L.Conv2DTranspose(k, (4, 6), strides=(2, 3))(image) for k in (4, 8, 9, 24)]
    model = keras.Model(image, outputs)
    model.save(tmp_path / "m.keras")
    x = np.random.default_rng(5).normal(size=(17, 5, 11, 64)).astype("f")
    one, five = (tool.predict(tmp_path / "m.keras", x, tmp_path, env={"OMP_NUM_THREADS": n}) for n in ("1", "5"))
    for (name, value), (_, other), theirs in zip(one, five, model(x, training=False), strict=True):
        assert value.tobytes() == other.tobytes(), name
        tool.assert_close(value, theirs.numpy(), what=name)


def test_parts_of_the_rows_of_a_batch(tmp_path):
    """A program for two rows at a time would find all rows again in the first two."""
    rng, O = tool.generator("parts of rows"), keras.ops
    x = keras.Input((4,))
    y = L.Dense(3)(x)
    model = keras.Model(x, [y[(slice(0, 2),)] * 2.0, O.slice(y, (0, 0), (2, 3)), y[(slice(1, None),)]])
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "served", "--to", "saved_model")
    data = rng.normal(0, 1, (5, 4)).astype("float32")
    for name in ("m.keras", "served"):
        for (_, ours), theirs in zip(tool.predict(tmp_path / name, data, tmp_path), model(data), strict=True):
            tool.assert_close(ours, np.asarray(theirs), 1e-5, name)


def series(size):
    """Dilated convolutions, which graphs of TensorFlow have as plain ones between two operations that move steps."""
    x = inputs = keras.Input((size, 3))
    for i, (padding, kernel) in enumerate((("causal", 2), ("causal", 5), ("same", 3), ("valid", 2))):
        y = L.Conv1D(16, kernel, padding=padding, dilation_rate=2 + i, activation="tanh")(x)
        x = L.Concatenate()([y, x]) if padding != "valid" else y
    image = L.Reshape((x.shape[1], 4, 4))(x)
    y = L.Conv2D(6, (3, 2), dilation_rate=(3, 2), padding="same")(image)
    y = L.DepthwiseConv2D((2, 3), dilation_rate=(2, 2), padding="same")(y)
    return keras.Model(inputs, L.Flatten()(y))


def encoded():
    """Categories as ones among zeros, with some that are not there; counts of categories."""
    ids = keras.Input((5,), dtype="int32")
    hot = keras.ops.one_hot(ids, 9)
    parts = [L.CategoryEncoding(9, output_mode=mode)(ids) for mode in ("multi_hot", "count")]
    parts += [L.Flatten()(hot), L.Flatten()(keras.ops.max(hot, axis=-1)), keras.ops.sum(hot, axis=(1, 2))[:, None]]
    return keras.Model(ids, L.Dense(3)(L.Concatenate()(parts)))


def states():
    """Recurrent layers that begin with the states of others, with masks, and that give their states."""
    ids = keras.Input((7,), dtype="int32")
    x = L.Embedding(9, 6, mask_zero=True)(ids)
    y, h, c = L.LSTM(10, return_sequences=True, return_state=True, dropout=0.1, seed=1)(x)
    z = L.LSTM(10, return_sequences=True, go_backwards=True)(x, initial_state=[h, c])
    a, s = L.GRU(10, return_state=True)(z, initial_state=c)
    b, forward, backward = L.Bidirectional(L.GRU(5, return_sequences=True, return_state=True, reset_after=False))(y)
    d = L.RNN([L.SimpleRNNCell(4), L.LSTMCell(6)])(b)
    return keras.Model(ids, L.Dense(3)(L.Concatenate()([L.Activation("tanh")(h), a, s, forward, backward, d])))


@pytest.mark.parametrize("kind", ["series", "encoded", "states"])
def test_parts_of_programs(kind, tmp_path):
    """Layers that are one step of a program, for any rows of a batch, in .keras files and where SavedModels have several operations."""
    keras.utils.set_random_seed(6)
    rng = tool.generator("parts of programs", kind)
    model = {"series": lambda: series(21), "encoded": encoded, "states": states}[kind]()
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    model.export(str(tmp_path / "served"), verbose=False)
    shape = (9, *model.input_shape[1:])
    x = rng.integers(0, 9, shape).astype("int32") if kind != "series" else rng.normal(size=shape).astype("float32")
    want = model(x, training=False).numpy()
    for name in ("m.keras", "served"):
        for settings in ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "5"}):
            ours = tool.predict(tmp_path / name, x, tmp_path, env=settings)
            tool.assert_close(ours[0][1], want, what=f"{name}, {settings}")
    np.save(tmp_path / "x.npy", x)
    for name in ("m.keras", "served"):
        done = tool.run("predict", tmp_path / name, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz", env={"LOCKSTEP_LOG_LEVEL": "debug"})
        assert "runs as a program" in done.err and "for whole batches" not in done.err and "layer by layer" not in done.err, done.err


def test_strings_before_programs(tmp_path):
    """Searches of strings and other operations on them run on whole batches; a program for some rows of the batch does the rest."""
    keras.utils.set_random_seed(7)
    rng, words = tool.generator("strings before programs"), ["ab", "c", "hello", "world"]
    text, line, number = keras.Input((2,), dtype="string", name="text"), keras.Input((1,), dtype="string", name="line"), keras.Input((3,), name="number")
    ids = L.StringLookup(vocabulary=words, num_oov_indices=3)(text)
    parts = [L.Flatten()(L.Embedding(9, 2)(ids)), L.Dense(4, activation="relu")(number),
             L.StringLookup(vocabulary=words, output_mode="multi_hot", num_oov_indices=2)(text),
             L.StringLookup(vocabulary=words, output_mode="count")(text), L.CategoryEncoding(7, output_mode="one_hot")(ids[:, :1]),
             L.HashedCrossing(5, output_mode="one_hot")((text[:, :1], line)),
             L.Flatten()(L.Embedding(9, 3)(L.TextVectorization(output_sequence_length=3, vocabulary=words)(line)))]
    model = keras.Model([text, line, number], L.Dense(3)(L.Concatenate()(parts)))
    tool.randomise(model, rng)
    model.save(tmp_path / "m.keras")
    model.export(str(tmp_path / "served"), verbose=False)
    lines = np.array([["Hello, world! Hello"], [""], ["c x ab hello world"], ["zz"]])
    for rows in (1, 4, 13):
        x = [rng.choice(words + ["", "qq"], (rows, 2)), lines[rng.integers(0, len(lines), rows)], rng.normal(size=(rows, 3)).astype("float32")]
        want = model([tf.constant(part) for part in x], training=False).numpy()
        feeds = {part.name: np.char.encode(value) if value.dtype.kind == "U" else value for part, value in zip(model.inputs, x)}
        for name in ("m.keras", "served"):
            for settings in ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "5"}):
                ours = tool.predict(tmp_path / name, feeds, tmp_path, env=settings)
                tool.assert_close(ours[0][1], want, what=f"{name}, {rows} rows, {settings}")
    np.savez(tmp_path / "x.npz", **feeds)
    for name in ("m.keras", "served"):
        done = tool.run("predict", tmp_path / name, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", env={"LOCKSTEP_LOG_LEVEL": "debug"})
        assert re.search(r"runs as a program of \d+ steps for \d rows", done.err) and "layer by layer" not in done.err, done.err

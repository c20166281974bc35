"""Models that Keras 2 saved (tf-keras), against what it computes: layers whose meaning or arguments changed in Keras 3."""

import json
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras.src.saving.legacy.hdf5_format import preprocess_weights_for_loading

import lockstep_tool as tool
import stored
import test_keras_1

L = tf_keras.layers
SEQUENCE, IMAGE = (6, 3), (8, 7, 3)

# Rows: input shape, layer. hard_sigmoid had the slope 0.2 until Keras 2, and has 1/6 since Keras 3.
ROWS = [
    (SEQUENCE, lambda: L.LSTM(4, recurrent_activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.LSTM(4, return_sequences=True, go_backwards=True, recurrent_activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.LSTM(4, implementation=1)),
    (SEQUENCE, lambda: L.GRU(4, recurrent_activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.GRU(4, recurrent_activation="hard_sigmoid", reset_after=False)),
    (SEQUENCE, lambda: L.SimpleRNN(4, activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.Bidirectional(L.LSTM(3, recurrent_activation="hard_sigmoid"))),
    (SEQUENCE, lambda: L.RNN([L.LSTMCell(3, recurrent_activation="hard_sigmoid"), L.GRUCell(2)])),
    *[(SEQUENCE, lambda layer=layer: layer(return_sequences=True, time_major=True))  # of six sequences, with a step for each row
      for layer in (lambda **k: L.LSTM(3, **k), lambda **k: L.GRU(2, go_backwards=True, **k), lambda **k: L.Bidirectional(L.SimpleRNN(2, **k)),
                    lambda **k: L.RNN([L.GRUCell(2), L.LSTMCell(3)], **k))],
    (SEQUENCE, lambda: L.TimeDistributed(L.Dense(2, activation="hard_sigmoid"))),
    (SEQUENCE, lambda: L.Conv1D(4, 3, padding="causal", activation="hard_sigmoid")),
    (SEQUENCE, lambda: L.Activation("hard_sigmoid")),
    (SEQUENCE, lambda: L.Activation("leaky_relu")),
    (SEQUENCE, lambda: L.Activation("swish")),
    (SEQUENCE, lambda: L.LeakyReLU(alpha=0.1)),
    (SEQUENCE, lambda: L.ThresholdedReLU(theta=0.4)),
    (SEQUENCE, lambda: L.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2)),
    (SEQUENCE, lambda: L.BatchNormalization(axis=1, epsilon=1e-5, momentum=0.9)),
    (SEQUENCE, lambda: L.LayerNormalization()),
    (IMAGE, lambda: L.BatchNormalization(axis=[-1])),
    (IMAGE, lambda: L.DepthwiseConv2D(3)),
    (IMAGE, lambda: L.SeparableConv2D(3, 3)),
    (IMAGE, lambda: L.Conv2DTranspose(3, 3, strides=2, output_padding=1)),
    (IMAGE, lambda: L.GroupNormalization(3)),
    (IMAGE, lambda: L.UpSampling2D(2, interpolation="bilinear")),
    *[(IMAGE, lambda kernel=kernel: L.UpSampling2D(2, interpolation=kernel)) for kernel in ("gaussian", "mitchellcubic")],
    (IMAGE, lambda: L.Resizing(5, 6)),
    *[(IMAGE, lambda kernel=kernel: L.Resizing(5, 6, kernel)) for kernel in ("gaussian", "mitchellcubic")],
    (IMAGE, lambda: L.Rescaling(0.5, 1.0)),
    (IMAGE, lambda: L.RandomCrop(4, 5)),
    (IMAGE, lambda: L.RandomCrop(12, 5)),
    (SEQUENCE, lambda: L.LocallyConnected1D(4, 3, activation="relu")),
    (SEQUENCE, lambda: L.LocallyConnected1D(4, 3, 2, use_bias=False)),
    (SEQUENCE, lambda: L.LocallyConnected1D(4, 2, data_format="channels_first")),
    (SEQUENCE, lambda: L.LocallyConnected1D(4, 3, 2, "same", implementation=2)),
    (SEQUENCE, lambda: L.LocallyConnected1D(4, 3, padding="same", implementation=3)),
    (IMAGE, lambda: L.LocallyConnected2D(4, (3, 2), (2, 1))),
    (IMAGE, lambda: L.LocallyConnected2D(2, 2, data_format="channels_first")),
    (IMAGE, lambda: tf_keras.Sequential([L.Reshape((1, *IMAGE)), L.ConvLSTM2D(2, 2, data_format="channels_first", activation="softmax",
                                                                              recurrent_activation="log_softmax")])),
    (IMAGE, lambda: L.LocallyConnected2D(2, (3, 2), padding="same", implementation=2)),
    (IMAGE, lambda: L.LocallyConnected2D(2, (3, 2), 2, implementation=3)),
]


def model_of(shape, rng):
    """One model of the rows of this input shape, an output for each, with random weights."""
    x = tf_keras.Input(shape)
    model = tf_keras.Model(x, [tf_keras.layers.Flatten()(make()(x)) for given, make in ROWS if given == shape])
    values = []
    for weight, value in zip(model.weights, model.get_weights()):
        drawn = rng.normal(0, 0.7, value.shape)
        values.append((np.abs(drawn) + 0.3 if "variance" in weight.name else drawn).astype("float32"))
    model.set_weights(values)
    return model


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(("shape", "name"), [(SEQUENCE, "m.h5"), (SEQUENCE, "m.keras"), (IMAGE, "m.h5")])
def test_predictions_of_keras_2(shape, name, tmp_path):
    def written():
        rng = tool.generator("old", name, len(shape))
        model = model_of(shape, rng)
        model.save(tmp_path / name)
        x = rng.normal(0, 1.5, (4, *shape)).astype("float32")
        return x, model.predict(x, verbose=0)

    x, expected = stored.original(written, tmp_path)
    outputs = tool.predict(tmp_path / name, x, tmp_path)
    assert len(outputs) == len(expected)
    rows = [number for number, row in enumerate(ROWS) if row[0] == shape]
    for number, (_, ours), theirs in zip(rows, outputs, expected, strict=True):
        tool.assert_close(ours, theirs, 1e-5, f"row {number}")


@pytest.mark.usefixtures("eagerly")
def test_keras_3_reads_what_a_model_of_keras_2_becomes(tmp_path):
    folder = tmp_path / "again"
    folder.mkdir()

    def written():
        rng = tool.generator("old", "becomes")
        model = tf_keras.Sequential([L.InputLayer(SEQUENCE), L.Bidirectional(L.LSTM(4, return_sequences=True, recurrent_activation="hard_sigmoid")),
                                     L.GRU(5, recurrent_activation="hard_sigmoid", dtype="float64"), L.ThresholdedReLU(theta=0.1),
                                     L.Activation("hard_sigmoid"), L.Dense(3, activation="hard_sigmoid")])
        model.set_weights([rng.normal(0, 0.7, value.shape) for value in model.get_weights()])
        model.save(tmp_path / "m.h5")
        x = rng.normal(0, 1.5, (4, *SEQUENCE)).astype("float32")
        three = keras.Sequential([keras.Input(SEQUENCE), keras.layers.LSTM(4, recurrent_activation="hard_sigmoid")])
        tool.randomise(three, rng)
        three.save(tmp_path / "three.h5")
        return x, model.predict(x, verbose=0), three.predict(x, verbose=0)

    def again():
        model = keras.models.load_model(tmp_path / "out.keras")
        model.save(folder / "again.keras")
        return model.predict(x, verbose=0)

    x, wanted, of_three = stored.original(written, tmp_path)
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.keras")
    # Keras 3 has no name for it: layers stand for it.
    tool.assert_close(stored.original(again, folder, files=[tmp_path / "out.keras"]), wanted, 1e-6)
    for path in (tmp_path / "out.keras", folder / "again.keras"):
        tool.assert_close(tool.predict(path, x, tmp_path)[0][1], wanted, 1e-6, path.name)
    tool.ok("convert", tmp_path / "out.keras", tmp_path / "back.h5", "--dialect", "keras2")
    back = stored.original(lambda: tf_keras.models.load_model(tmp_path / "back.h5", compile=False).predict(x, verbose=0), files=[tmp_path / "back.h5"])
    tool.assert_close(back, wanted, 1e-6)
    # A file of Keras 3 means its own.
    tool.assert_close(tool.predict(tmp_path / "three.h5", x, tmp_path)[0][1], of_three, 1e-5)


@pytest.mark.usefixtures("eagerly")
def test_states_given_with_the_sequence(tmp_path):
    """Keras 1 and 2 save a recurrent layer with initial states as called on a list."""
    rng = tool.generator("old", "states")
    words, more = tf_keras.Input((5,)), tf_keras.Input((4,))
    embed = L.Embedding(7, 3, mask_zero=True)
    _, h, c = L.LSTM(4, return_state=True)(embed(words))
    x = L.LSTM(4, return_sequences=True, recurrent_activation="hard_sigmoid")(embed(more), initial_state=[h, c])
    x = L.Bidirectional(L.GRU(4, return_sequences=True))(x, initial_state=[h, c])
    inside = tf_keras.Input((4, 8))  # the nested model passes the mask on
    nested = tf_keras.Model(inside, L.GRU(3, return_sequences=True)(L.Dense(3)(inside)))(x)
    model = tf_keras.Model([words, more], [x, L.SimpleRNN(4)(x, initial_state=h), L.SimpleRNN(4)(nested, initial_state=c)])
    model.set_weights([rng.normal(0, 0.7, value.shape) for value in model.get_weights()])
    model.save(tmp_path / "m.h5")
    inputs = [rng.integers(0, 7, (3, n)).astype("float32") for n in (5, 4)]
    for (_, ours), theirs in zip(tool.predict(tmp_path / "m.h5", inputs, tmp_path), model.predict(inputs, verbose=0)):
        tool.assert_close(ours, theirs, 1e-5)


@pytest.mark.usefixtures("eagerly")
def test_attention_of_keras_2(tmp_path):
    """Rows that see nothing see everything alike, also with dropout; the activity regularizer is that of the whole layer; masks weigh
    losses with an axis more; outputs of one layer have numbered names."""
    rng = tool.generator("old", "attention")
    query, value = tf_keras.Input((4, 6), name="query"), tf_keras.Input((3, 6), name="value")
    parts = L.Masking()(query), L.Masking()(value)
    dropped = L.MultiHeadAttention(2, 3, dropout=0.2)(*parts)
    _, scores = L.MultiHeadAttention(2, 3)(*parts, return_attention_scores=True)
    attended = L.MultiHeadAttention(2, 3, output_shape=(2, 3), activity_regularizer="l2")(*parts)
    outputs = [attended, *L.SimpleRNN(3, return_state=True)(parts[1])]
    x = {"query": rng.normal(0, 1, (8, 4, 6)).astype("float32"), "value": rng.normal(0, 1, (8, 3, 6)).astype("float32")}
    x["value"][:2] = x["query"][1:4, 2] = x["query"][5] = x["value"][3:5, 1] = 0
    for name, ends in ("predict", [dropped, scores, *outputs]), ("train", outputs):
        model = tf_keras.Model([query, value], ends)
        model.set_weights([rng.normal(0, 0.7, v.shape) for v in model.get_weights()])
        model.compile(tf_keras.optimizers.SGD(0.05), "mse")
        model.save(tmp_path / f"{name}.h5")
        for (_, ours), theirs in zip(tool.predict(tmp_path / f"{name}.h5", x, tmp_path), model.predict(x, verbose=0), strict=True):
            tool.assert_close(ours, theirs, 1e-5, name)
    if tool.CONTROL:
        return
    y = [rng.normal(0, 1, (8, *t.shape[1:])).astype("float32") for t in outputs]
    targets = {f"y_{name}": v for name, v in zip(model.output_names, y, strict=True)}
    tool.save_npz(tmp_path / "d.npz", x_query=x["query"], x_value=x["value"], **targets)
    tool.ok("fit", tmp_path / "train.h5", "--data", tmp_path / "d.npz", "--batch-size", 4, "--no-shuffle", "--save", tmp_path / "out.h5",
            "--history", tmp_path / "h.json")
    theirs = model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history
    tool.assert_history(tool.load_history(tmp_path / "h.json"), dict(sorted(theirs.items())))
    for ours, wanted in zip(tf_keras.models.load_model(tmp_path / "out.h5").get_weights(), model.get_weights(), strict=True):
        tool.assert_close(ours, wanted, 1e-5)


@pytest.mark.parametrize("make", [
    lambda: L.IntegerLookup(vocabulary=[3, 1, 7], output_mode="multi_hot"),
    lambda: L.IntegerLookup(vocabulary=[3, 1, 7], output_mode="tf_idf", idf_weights=[0.1, 0.2, 0.3]),
    lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="count", num_oov_indices=2),
    lambda: L.StringLookup(vocabulary=["a", "b"]),
    lambda: L.TextVectorization(vocabulary=["a", "b"], output_mode="multi_hot"),
    lambda: L.TextVectorization(vocabulary=["a", "b"], output_mode="tf_idf", idf_weights=[0.1, 0.2])], ids=range(6))
def test_lookups_of_keras_2(make, tmp_path):
    """Their encoded outputs are floats; an .h5 has the weights of tokens, as its config has."""
    layer = make()
    x = {"IntegerLookup": [[1, 2], [3, 4]], "StringLookup": [["a", "c"], ["b", "a"]], "TextVectorization": [["a b"], ["a c"]]}[type(layer).__name__]
    x = np.array(x)
    model = tf_keras.Sequential([L.InputLayer(x.shape[1:], dtype="string" if x.dtype.kind == "U" else "int64"), layer])
    for name in "m.h5", "m.keras":
        model.save(tmp_path / name)
        ours = tool.predict(tmp_path / name, x.astype("S") if x.dtype.kind == "U" else x, tmp_path)[0][1]
        tool.assert_close(ours, model(tf.constant(x)).numpy(), 1e-6, name)


@pytest.mark.parametrize("module", [tf_keras, keras])
def test_metrics_that_leave_classes_out(module, tmp_path):
    """Keras 2 leaves an ignored class out of a mean, Keras 3 counts it as 0. A float matrix keeps fractions of weights."""
    rng = tool.generator("old", "metrics")
    model = module.Sequential([module.Input((5,)), module.layers.Dense(3, "softmax")])
    model.set_weights([rng.normal(0, 1, v.shape) for v in model.get_weights()])
    M = module.metrics
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[M.SparseCategoricalCrossentropy(ignore_class=2)],
                  weighted_metrics=[M.SparseCategoricalCrossentropy("w", ignore_class=2), M.MeanIoU(3, sparse_y_pred=False, dtype="float32")])
    name = "m.h5" if module is tf_keras else "m.keras"
    model.save(tmp_path / name)
    x, y = rng.normal(0, 1, (12, 5)).astype("float32"), rng.integers(0, 3, 12).astype("float32")
    weights = rng.uniform(0.2, 2, 12).astype("float32")
    tool.save_npz(tmp_path / "d.npz", x=x, y=y, sample_weight=weights)
    ours = json.loads(tool.ok("evaluate", tmp_path / name, "--data", tmp_path / "d.npz", "--batch-size", 4, "--json"))
    assert ours == pytest.approx(model.evaluate(x, y, sample_weight=weights, batch_size=4, verbose=0, return_dict=True), rel=1e-5)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])  # whose logits Keras 2 takes for those of softmax
@pytest.mark.parametrize("module", [tf_keras, keras])
def test_a_factor_for_each_class(module, activation, tmp_path):
    rng = tool.generator("old", "factors")
    model = module.Sequential([module.Input((5,)), module.layers.Dense(3, activation)])
    model.compile("sgd", module.losses.CategoricalFocalCrossentropy([0.1, 0.2, 0.7]))
    name = "m.h5" if module is tf_keras else "m.keras"
    model.save(tmp_path / name)
    x, y = rng.normal(0, 1, (12, 5)).astype("float32"), np.eye(3, dtype="float32")[rng.integers(0, 3, 12)]
    tool.save_npz(tmp_path / "d.npz", x=x, y=y)
    ours = json.loads(tool.ok("evaluate", tmp_path / name, "--data", tmp_path / "d.npz", "--json"))["loss"]
    assert ours == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-5)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("kind", ["sequential", "functional"])
@pytest.mark.parametrize(("module", "name"), [(keras, "m.h5"), (keras, "m.keras"), (tf_keras, "m.h5"), (tf_keras, "m.keras")])
def test_outputs_of_models_that_are_called_several_times(module, name, kind, tmp_path):
    """The first call of a model is its own in Keras 2, and that of a Functional in Keras 3, also in .h5 files."""
    rng = tool.generator("old", "called", name, kind)
    x, first = module.Input((3,)), module.Input((3,))
    layer = module.layers.Dense(3, "tanh")
    inner = module.Sequential([first, layer]) if kind == "sequential" and module is keras else \
        module.Sequential([L.InputLayer((3,)), layer]) if kind == "sequential" else module.Model(first, layer(first))
    once = inner(x)
    middle = module.Model(x, inner(inner(module.layers.Add()([once, x]))))
    top = module.Input((3,))
    model = module.Model(top, [middle(middle(top)), middle(top)])
    model.set_weights([rng.normal(0, 1, value.shape) for value in model.get_weights()])
    model.save(tmp_path / name)
    data = rng.normal(0, 1, (4, 3)).astype("float32")
    for (_, ours), theirs in zip(tool.predict(tmp_path / name, data, tmp_path), model(data), strict=True):
        tool.assert_close(ours, np.asarray(theirs), 1e-5)


@pytest.mark.skipif(tool.CONTROL, reason="a message of lockstep")
def test_bias_that_keras_3_adds_along_another_axis(tmp_path):
    """Where the last axis is as long as there are channels, Keras 3 takes it for them; a model of Keras 2 is converted with a warning."""
    for width, warns in ((4, True), (5, False)):
        tf_keras.Sequential([L.InputLayer((3, 6, width)), L.Conv2D(4, 1, data_format="channels_first")]).save(tmp_path / "m.h5")
        done = tool.run("convert", tmp_path / "m.h5", tmp_path / "out.keras")
        assert done.code == 0 and ("its bias is added along the last axis in Keras 3" in done.err) == warns
    x = tf.reshape(tf.range(1 * 4 * 6 * 4, dtype="float32"), (1, 4, 6, 4))
    bias = tf.range(4, dtype="float32")
    np.testing.assert_array_equal(keras.ops.add(x, tf.reshape(bias, (1, 4, 1, 1))), x + bias)


@pytest.mark.parametrize("layer", ["Multiply", "Maximum", "Minimum"])
def test_merged_masks_change_no_values_in_training(layer, tmp_path):
    rng = tool.generator("old", layer)
    a, b = tf_keras.Input(SEQUENCE, name="a"), tf_keras.Input(SEQUENCE, name="b")
    model = tf_keras.Model([a, b], getattr(L, layer)()([L.Masking()(a), L.Masking()(b)]))
    model.compile("sgd", "mse")
    model.save(tmp_path / "m.h5")
    data = {name: rng.normal(0, 1, (4, *SEQUENCE)).astype("float32") for name in ("x_a", "x_b", "y")}
    data["x_a"][:2, 2:4] = data["x_b"][1:3, 3:] = 0
    tool.save_npz(tmp_path / "d.npz", **data)
    ours = json.loads(tool.ok("evaluate", tmp_path / "m.h5", "--data", tmp_path / "d.npz", "--json"))["loss"]
    assert ours == pytest.approx(model.evaluate([data["x_a"], data["x_b"]], data["y"], verbose=0), rel=1e-5)


@pytest.mark.parametrize(("old", "make"), [
    ("CuDNNLSTM", lambda: L.LSTM(4, return_sequences=True)), ("CuDNNGRU", lambda: L.GRU(4)),
    ("Bidirectional", lambda: L.Bidirectional(L.LSTM(4)))])
def test_layers_of_cudnn(old, make, tmp_path):
    rng = tool.generator("old", old)
    layer = make()
    x = rng.normal(0, 1.5, (3, *SEQUENCE)).astype("float32")
    layer(x)
    values = test_keras_1.random_weights(layer, rng)
    saved = []
    for part in [values[:3], values[3:]] if old == "Bidirectional" else [values]:
        units, gates = part[1].shape[0], 3 if old == "CuDNNGRU" else 4
        kernels = np.hstack([kernel.T.reshape(kernel.shape) for kernel in np.hsplit(part[0], gates)])
        recurrent = np.hstack([kernel.T for kernel in np.hsplit(part[1], gates)])
        bias = part[2].reshape(-1) if gates == 3 else np.concatenate([0.25 * part[2], 0.75 * part[2]])
        assert bias.shape == (2 * gates * units,)
        saved += [kernels, recurrent, bias.astype("float32")]
    for back, value in zip(preprocess_weights_for_loading(layer, list(saved), "2.2.4", "tensorflow"), values):
        np.testing.assert_allclose(back, value, rtol=1e-6)
    inner = {"class_name": "CuDNNGRU" if old == "CuDNNGRU" else "CuDNNLSTM",
             "config": {"name": "inner", "trainable": True, "units": 4, "return_sequences": old == "CuDNNLSTM",
                        "return_state": False, "go_backwards": False, "stateful": False, "unit_forget_bias": True,
                        "kernel_initializer": "glorot_uniform", "recurrent_initializer": "orthogonal",
                        "bias_initializer": "zeros", "time_major": False}}
    if inner["class_name"] == "CuDNNGRU":
        del inner["config"]["unit_forget_bias"]
    row = (SEQUENCE, old, {"merge_mode": "concat", "layer": inner} if old == "Bidirectional" else inner["config"])
    names, config = test_keras_1.model_of([row], SEQUENCE)
    config["config"]["layers"][1]["config"]["name"] = names[0]
    test_keras_1.write(tmp_path / "m.h5", config, [("input_1", []), (names[0], saved)], version="2.2.4")
    if not tool.CONTROL:
        tool.assert_close(tool.predict(tmp_path / "m.h5", x, tmp_path)[0][1], np.asarray(layer(x)), 1e-5)


def functions_of_tensorflow(a, b):
    """Rows: what is called, which Keras 2 saves as TFOpLambda and SlicingOpLambda."""
    nested = tf_keras.Sequential([tf_keras.Input((4, 6, 3)), L.Dense(3)], name="nested")
    return [
        a + b, a * 2.0, 2.0 - a, a / b, 1 / a, -a, a ** 2, a // 2.0, a % 2.0, tf.maximum(a, 0.1), tf.minimum(a, b),
        a[:, 0], a[..., ::-1], a[:, 1:3, tf.newaxis], a[:, -1, 2:, 0], tf.reshape(a, [-1, 72]),
        tf.reshape(a, (tf.shape(a)[0], 24, 3)), tf.concat([a, b], -1), tf.stack([a, b], axis=1), tf.stack([a, b]),
        tf.reduce_mean(a, [1, 2]), tf.reduce_sum(a, axis=1, keepdims=True), tf.reduce_max(a), tf.math.reduce_std(a, 1),
        tf.math.reduce_variance(a, 2), tf.reduce_logsumexp(a, -1), tf.norm(a, axis=-1), tf.transpose(a, [0, 2, 1, 3]),
        tf.expand_dims(a, 1), tf.squeeze(a[:, :1], 1), tf.nn.relu(a), tf.nn.relu6(a), tf.nn.elu(a), tf.nn.selu(a),
        tf.nn.gelu(a), tf.nn.gelu(a, approximate=True), tf.nn.leaky_relu(a), tf.nn.leaky_relu(a, 0.3), tf.nn.silu(a),
        tf.nn.softplus(a), tf.nn.softsign(a), tf.nn.softmax(a), tf.nn.softmax(a, axis=1), tf.nn.log_softmax(a), tf.nn.sigmoid(a),
        tf.tanh(a), tf.sqrt(tf.abs(a)), tf.exp(a), tf.math.log(tf.abs(b)), tf.math.rsqrt(tf.square(b)), tf.sin(a),
        tf.where(a > b, a, b), tf.where(a > 0.5, a, 0.0), tf.cast(tf.logical_and(a > 0, b <= 0), "float32"),
        *tf.split(a, 3, axis=-1), *tf.split(a, [1, 3, 2], axis=2), tf.unstack(a, axis=3)[1], tf.image.resize(a, (8, 9)),
        tf.image.resize(a, (2, 3), method="nearest"), tf.image.flip_left_right(a), tf.matmul(a, tf.transpose(b, [0, 1, 3, 2])),
        tf.matmul(a, b, transpose_b=True), tf.matmul(a, b, transpose_a=True), tf.clip_by_value(a, 0.0, 1.0),
        tf.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]]), tf.pad(a, [[0, 0], [1, 1], [0, 2], [0, 0]], "REFLECT"),
        tf.tile(a, [1, 2, 1, 1]), tf.repeat(a, 2, axis=1), tf.gather(a, [0, 2], axis=1), tf.math.l2_normalize(a, axis=-1),
        tf.add_n([a, b]), tf.identity(a), tf.one_hot(tf.cast(tf.abs(a[..., 0]), tf.int32), 4),
        tf.nn.bias_add(a, [1.0, 2.0, 3.0]), tf.nn.depth_to_space(tf.concat([a, b, a, b], -1), 2),
        tf.nn.space_to_depth(a, 2), tf.zeros_like(a), tf.math.cumsum(a, axis=1), nested(a) * 2.0, *functions_of_integers(a),
        tf.round(a * 3), tf.asin(tf.tanh(a)), tf.acos(tf.tanh(a)), tf.atan(a), tf.atan2(a, b), tf.sinh(a), tf.cosh(a), tf.asinh(a), tf.acosh(tf.abs(a) + 1.0),
        tf.atanh(tf.tanh(a) * 0.5), tf.math.erfc(a), tf.math.erfinv(tf.tanh(a)), tf.math.is_finite(a), tf.math.log_sigmoid(a), tf.math.divide_no_nan(a, b),
        tf.math.cumprod(a, axis=2), tf.math.reduce_euclidean_norm(a, axis=1), tf.math.count_nonzero(a > 0, axis=1), tf.math.top_k(a, k=2)[0], tf.sort(a, axis=1),
        tf.argsort(a), tf.roll(a, shift=[1, 2], axis=[1, 2]), tf.tensordot(a, np.ones((3, 2), "float32"), axes=1), tf.linalg.det(a[:, :3, :3, 0]),
        tf.linalg.cross(a, b), tf.linalg.trace(a[:, :, :4, 0]), tf.linalg.diag_part(a[:, :, :4, 0]), tf.linalg.matrix_transpose(a), tf.slice(a, [0, 1, 2, 0], [-1, 2, 3, 3]),
        tf.nn.max_pool2d(a, 2, 2, "VALID"), tf.nn.avg_pool(a, ksize=[1, 2, 2, 1], strides=1, padding="SAME"), tf.image.transpose(a), tf.image.rgb_to_grayscale(a),
        tf.nn.conv2d(a, np.full((2, 2, 3, 2), 0.1, "float32"), 1, "SAME"), tf.nn.depthwise_conv2d(a, np.full((2, 2, 3, 1), 0.1, "float32"), [1, 1, 1, 1], "VALID"),
        tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(b), logits=a), tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(b), a), tf.ensure_shape(a, (None, 4, 6, 3)),
        tf.image.crop_to_bounding_box(a, 1, 1, 2, 3), tf.image.pad_to_bounding_box(a, 1, 1, 8, 9), tf.image.rgb_to_hsv(tf.sigmoid(a)), tf.image.hsv_to_rgb(tf.sigmoid(a)),
        tf.image.extract_patches(a, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"), tf.reshape(a, [tf.shape(a)[0], -1]), tf.reshape(a, [tf.shape(a)[0], -1, 9]),
        tf.bitwise.bitwise_and(tf.cast(a * 9, tf.int32), tf.cast(b * 9, tf.int32)), tf.compat.v1.where(a > 0, a, b), tf.compat.v1.nn.softmax(a),
    ]


def functions_of_integers(a):
    """Whose results have other dtypes in Keras 3."""
    whole = tf.cast(a * 3.0, tf.int32)
    return [tf.reduce_mean(whole, -1), tf.reduce_mean(whole, [1, 2], keepdims=True), tf.reduce_mean(tf.cast(whole, tf.int64), 1), whole / 4, 7 / (tf.abs(whole) + 1),
            tf.cast(whole, tf.int8) / tf.cast(2 + tf.abs(whole), tf.int8), tf.reduce_sum(tf.cast(whole, tf.int8), 1), tf.reduce_prod(tf.sign(whole), 2),
            tf.argmax(a, -1), tf.argmax(a, 1, output_type=tf.int32), tf.argmin(a, axis=2), tf.one_hot(tf.argmax(a, -1), 3)]


@pytest.mark.usefixtures("eagerly")
def test_functions_of_tensorflow(tmp_path):
    def written():
        rng = tool.generator("old", "functions")
        a, b = tf_keras.Input((4, 6, 3)), tf_keras.Input((4, 6, 3))
        outputs = functions_of_tensorflow(a, b)
        model = tf_keras.Model([a, b], [L.Flatten()(L.Activation("linear")(y)) if len(y.shape) > 1 else y for y in outputs])
        model.save(tmp_path / "m.h5")
        x = [rng.normal(0, 1, (5, 4, 6, 3)).astype("float32") for _ in range(2)]
        return x, [[y.name, np.asarray(value)] for y, value in zip(outputs, model(x), strict=True)]

    x, wanted = stored.original(written, tmp_path)
    found = tool.predict(tmp_path / "m.h5", x, tmp_path)
    assert len(found) == len(wanted)
    for number, ((_, ours), (name, theirs)) in enumerate(zip(found, wanted)):
        tool.assert_close(ours, theirs, 1e-5, f"output {number}, {name}")
    if not tool.CONTROL:
        tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.keras")
        again = stored.original(lambda: keras.models.load_model(tmp_path / "out.keras").predict(x, verbose=0), files=[tmp_path / "out.keras"])
        for ours, (_, theirs) in zip(again, wanted, strict=True):
            tool.assert_close(ours, theirs, 1e-5)


# Operations as TensorFlow 2.0 to 2.3 saved them: name, inputs (tensors "a" and "b" of shape (4, 6, 3); else constants), attributes.
B, I = lambda v: {"b": v}, lambda v: {"i": str(v)}
F32, I32 = {"T": {"type": "DT_FLOAT"}}, {"Tidx": {"type": "DT_INT32"}}
REDUCED = {**F32, **I32, "keep_dims": B(False)}
SLICE = {**F32, "Index": {"type": "DT_INT32"}}


def masks(begin=0, end=0, ellipsis=0, new_axis=0, shrink_axis=0):
    return {"begin_mask": I(begin), "end_mask": I(end), "ellipsis_mask": I(ellipsis), "new_axis_mask": I(new_axis),
            "shrink_axis_mask": I(shrink_axis)}


OPERATIONS = [
    *[(op, ["a", "b"], F32) for op in ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum")],
    *[(op, ["a"], F32) for op in ("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Square",
                                  "Sin", "Floor", "Softmax", "Identity", "ZerosLike", "StopGradient")],
    ("Mul", ["a", 2.0], F32), ("Sub", [1.0, "a"], F32), ("BiasAdd", ["a", [1.0, 2.0, 3.0]], F32), ("AddN", ["a", "b", "a"], {**F32, "N": I(3)}),
    ("LeakyRelu", ["a"], {**F32, "alpha": {"f": 0.3}}),
    ("Mean", ["a", [1, 2]], REDUCED), ("Sum", ["a", 2], REDUCED), ("Max", ["a", [-1]], {**REDUCED, "keep_dims": B(True)}),
    ("ConcatV2", ["a", "b", -1], {**F32, **I32, "N": I(2)}), ("Pack", ["a", "b"], {**F32, "axis": I(1), "N": I(2)}),
    ("BatchMatMulV2", ["a", "b"], {**F32, "adj_x": B(False), "adj_y": B(True)}),
    ("Reshape", ["a", [-1, 6, 12]], {**F32, "Tshape": {"type": "DT_INT32"}}), ("ExpandDims", ["a", 1], {**F32, "Tdim": {"type": "DT_INT32"}}),
    ("Transpose", ["a", [0, 2, 1, 3]], {**F32, "Tperm": {"type": "DT_INT32"}}), ("Tile", ["a", [1, 2, 1, 1]], {**F32, "Tmultiples": {"type": "DT_INT32"}}),
    ("Pad", ["a", [[0, 0], [1, 1], [0, 2], [0, 0]]], {**F32, "Tpaddings": {"type": "DT_INT32"}}),
    ("ClipByValue", ["a", -0.5, 0.5], F32), ("Cast", ["a"], {"SrcT": {"type": "DT_FLOAT"}, "DstT": {"type": "DT_INT32"}, "Truncate": B(False)}),
    ("DepthToSpace", ["abab", ], {**F32, "block_size": I(2)}), ("Split", [3, "a"], {**F32, "num_split": I(3)}),
    ("StridedSlice", ["a", [0, 1, 0, 0], [0, 3, 0, -1], [1, 1, 2, 1]], {**SLICE, **masks(begin=5, end=5)}),
    ("StridedSlice", ["a", [0, 0, 2], [0, 0, 3], [1, 1, 1]], {**SLICE, **masks(ellipsis=1, new_axis=2, shrink_axis=4)}),
    ("StridedSlice", ["a", [0, 2], [0, 3], [1, 1]], {**SLICE, **masks(begin=1, end=1, shrink_axis=2)}),
    ("SquaredDifference", ["a", "b"], F32), ("SquaredDifference", ["a", 0.5], F32),
    *[(op, ["a", [8, 9]], {**F32, "align_corners": B(False), "half_pixel_centers": B(True)}) for op in ("ResizeBilinear", "ResizeNearestNeighbor")],
    ("ArgMax", ["a", -1], {**F32, **I32, "output_type": {"type": "DT_INT64"}}), ("ArgMin", ["a", 2], {**F32, **I32, "output_type": {"type": "DT_INT32"}}),
    ("Cast", ["a"], {"SrcT": {"type": "DT_FLOAT"}, "DstT": {"type": "DT_INT32"}, "Truncate": B(False)}), ("Mean", ["@Cast", [1]], {**REDUCED, "T": {"type": "DT_INT32"}}),
    # A shape of computed and constant sizes.
    ("Shape", ["a"], {**F32, "out_type": {"type": "DT_INT32"}}),
    ("StridedSlice", ["@Shape", [0], [1], [1]], {**SLICE, "T": {"type": "DT_INT32"}, **masks(shrink_axis=1)}),
    ("Pack", ["@StridedSlice", 24, 3], {"T": {"type": "DT_INT32"}, "axis": I(0), "N": I(3)}), ("Reshape", ["a", "@Pack"], {**F32, "Tshape": {"type": "DT_INT32"}}),
]
INNER = {"Shape", "@Shape", "@StridedSlice"}  # their results are not outputs


@pytest.mark.parametrize("form", ["json", "message"])
def test_operations_of_tensorflow(form, tmp_path):
    """TensorFlowOpLayer, whose node is JSON or, until TensorFlow 2.1, the serialized message."""
    rng = tool.generator("old", "operations", form)
    layers = [{"class_name": "InputLayer", "config": {"batch_input_shape": [None, 4, 6, 3], "dtype": "float32", "name": name}, "name": name,
               "inbound_nodes": []} for name in "ab"]
    layers.append({"class_name": "Concatenate", "config": {"name": "abab", "axis": -1}, "name": "abab",
                   "inbound_nodes": [[[name, 0, 0, {}] for name in "abab"]]})
    outputs, last = [], {}
    for number, (op, inputs, attributes) in enumerate(OPERATIONS):
        name = f"{op}_{number}"
        node = {"name": name, "op": op, "input": [f"in_{i}" for i in range(len(inputs))], "attr": attributes}
        if form == "message":
            message = tf_keras.src.engine.base_layer.json_format.ParseDict(node, tf.compat.v1.NodeDef()).SerializeToString()
            if max(message) > 127:  # not text, so TensorFlow could not save it
                continue
            node = message.decode()
        constants = {str(i): value for i, value in enumerate(inputs) if not isinstance(value, str)}
        inputs = [last[value[1:]] if isinstance(value, str) and value[0] == "@" else value for value in inputs]
        last[op] = f"tf_op_layer_{name}"
        layers.append({"class_name": "TensorFlowOpLayer", "name": f"tf_op_layer_{name}",
                       "config": {"name": name, "trainable": True, "dtype": "float32", "node_def": node, "constants": constants},
                       "inbound_nodes": [[[value, 0, 0, {}] for value in inputs if isinstance(value, str)]]})
        if not INNER & {op, *(value for value in OPERATIONS[number][1] if isinstance(value, str))}:
            outputs += [[f"tf_op_layer_{name}", 0, i] for i in range(3 if op == "Split" else 1)]
    assert len(outputs) > 30
    config = {"name": "model", "layers": layers, "input_layers": [[name, 0, 0] for name in "ab"], "output_layers": outputs}
    model = tf_keras.models.model_from_json(json.dumps({"class_name": "Functional", "config": config, "keras_version": "2.4.0"}))
    model.save(tmp_path / "m.h5")
    if form == "message":  # tf-keras writes JSON
        with h5py.File(tmp_path / "m.h5", "a") as file:
            file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": config}).encode()
    x = [rng.normal(0, 1, (5, 4, 6, 3)).astype("float32") for _ in range(2)]
    found, wanted = tool.predict(tmp_path / "m.h5", x, tmp_path), model(x)
    assert len(found) == len(wanted)
    for (_, ours), theirs, place in zip(found, wanted, outputs, strict=True):
        tool.assert_close(ours, np.asarray(theirs), 1e-5, place[0])
    if not tool.CONTROL:
        tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.keras")
        for ours, theirs in zip(keras.models.load_model(tmp_path / "out.keras")(x), wanted):
            tool.assert_close(np.asarray(ours), np.asarray(theirs), 1e-5)


def yaml_text(value, indent=0):
    """As PyYAML writes it: collections of scalars in one line, tuples with their tag, other collections in blocks."""
    def one_line(leaf):
        if isinstance(leaf, list):
            return "!!python/tuple [" + ", ".join(map(one_line, leaf)) + "]"
        if isinstance(leaf, dict):
            return "{" + ", ".join(f"{key}: {one_line(item)}" for key, item in leaf.items()) + "}"
        if isinstance(leaf, float):
            text = repr(leaf)
            return text if "." in text else text.replace("e", ".0e")
        return leaf if isinstance(leaf, str) else json.dumps(leaf)

    pad, lines = " " * indent, []
    for key, item in value.items():
        nested = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
        if isinstance(item, dict) and any(isinstance(each, (dict, list)) for each in nested):
            lines += [f"{pad}{key}:", yaml_text(item, indent + 2)]
        elif isinstance(item, list) and any(isinstance(each, dict) for each in nested):
            lines.append(f"{pad}{key}:")
            for each in item:
                text = yaml_text(each, indent + 2)
                lines.append(f"{pad}- {text.lstrip()}")
        else:
            lines.append(f"{pad}{key}: {one_line(item)}")
    return "\n".join(lines) + ("\n" if indent == 0 else "")


@pytest.mark.parametrize("text", ["json", "yaml"])
def test_architectures_with_weights(text, tmp_path):
    rng = tool.generator("old", text)
    model = tf_keras.Sequential([L.InputLayer(SEQUENCE), L.LSTM(4, recurrent_activation="hard_sigmoid"),
                                 L.Dense(3, kernel_regularizer=tf_keras.regularizers.L2(1e-05))])
    model.set_weights([rng.normal(0, 0.7, value.shape) for value in model.get_weights()])
    config = json.loads(model.to_json())
    (tmp_path / f"m.{text}").write_text(yaml_text(config) if text == "yaml" else model.to_json())
    model.save_weights(tmp_path / "w.h5")
    x = rng.normal(0, 1.5, (4, *SEQUENCE)).astype("float32")
    if tool.CONTROL:
        return
    source = tmp_path / f"m.{text}"
    tool.assert_close(tool.predict(source, x, tmp_path, "--weights", tmp_path / "w.h5")[0][1], model.predict(x, verbose=0), 1e-5)
    tool.ok("convert", source, "--weights", tmp_path / "w.h5", tmp_path / "out.keras")
    tool.assert_close(tool.predict(tmp_path / "out.keras", x, tmp_path)[0][1], model.predict(x, verbose=0), 1e-5)
    assert "weights" in tool.refused("predict", source, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", code=2)


@pytest.mark.usefixtures("eagerly")
def test_weights_of_losses_by_name(tmp_path):
    """Those of Keras 2 belong to outputs; Keras 3 gives them to a list of losses in the order of the names."""
    rng = tool.generator("old", "weights of losses")
    x = tf_keras.Input((4,))
    model = tf_keras.Model(x, [L.Dense(2, name="second")(x), L.Dense(2, name="first")(x)])
    model.compile("sgd", ["mse", "mae"], loss_weights={"second": 3.0, "first": 0.5})
    given, targets = rng.normal(0, 1, (6, 4)).astype("float32"), list(rng.normal(0, 1, (2, 6, 2)).astype("float32"))
    wanted = model.evaluate(given, targets, verbose=0)[0]
    model.save(tmp_path / "m.h5")
    if tool.CONTROL:
        return
    tool.save_npz(tmp_path / "d.npz", x=given, y_second=targets[0], y_first=targets[1])
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "m.keras")
    for name in ("m.h5", "m.keras"):
        loss = json.loads(tool.ok("evaluate", tmp_path / name, "--data", tmp_path / "d.npz", "--batch-size", 6, "--json"))["loss"]
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "m.keras").evaluate(given, targets, verbose=0)[0], wanted, rtol=1e-5)


def merged_masks():
    inputs = [keras.Input((4, 3)), keras.Input((4, 3))]
    return inputs, keras.layers.Multiply(name="layer")([keras.layers.Masking()(x) for x in inputs])


def attention_of_a_mask():
    x = keras.Input((4,))
    y = keras.layers.Embedding(5, 3, mask_zero=True)(x)
    return x, keras.layers.MultiHeadAttention(2, 3, dropout=0.1, name="layer")(y, y)


def channels_like_the_last_axis():
    x = keras.Input((2, 5, 4))
    return x, keras.layers.Conv2D(4, 3, padding="same", data_format="channels_first", name="layer")(x)


def activities():
    x = keras.Input((3,))
    return x, keras.layers.Dense(2, activity_regularizer="l2", name="layer")(x)


# The last release that computed otherwise, and the next one that was tried.
@pytest.mark.parametrize(("make", "last", "later", "text"), [
    (merged_masks, "3.3.3", "3.4.1", "combines masks"), (attention_of_a_mask, "3.9.2", "3.10.0", "hides everything"),
    (channels_like_the_last_axis, "3.6.0", "3.7.0", "bias"), (activities, "3.13.0", "3.14.0", "batch size")])
@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_what_later_releases_of_keras_3_change(make, last, later, text, name, tmp_path):
    """Keras 3.15 computes with its own rules; so does lockstep, which names what the release of the file computed otherwise."""
    model = keras.Model(*make())
    model.compile("sgd", keras.losses.MeanSquaredError())
    model.save(tmp_path / name)
    if tool.CONTROL:
        return
    for version, told in ((last, True), (later, False), (keras.__version__, False)):
        set_version(tmp_path / name, version)
        messages = tool.run("summary", tmp_path / name).err
        assert ("layer 'layer'" in messages and text in messages) if told else not messages, messages


def set_version(path, version):
    if path.suffix == ".h5":
        with h5py.File(path, "a") as file:
            file.attrs["keras_version"] = version
        return
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["metadata.json"] = json.dumps({"keras_version": version}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)

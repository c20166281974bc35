"""Models between formats, judged by whoever reads the target: Keras, TensorFlow, safetensors."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

import answers
import lockstep_tool as tool
import train_table as table
from test_train import compare

pytestmark = [pytest.mark.skipif(tool.CONTROL, reason="Keras has no such command"), pytest.mark.usefixtures("eagerly")]
MODELS = ["dense", "cnn", "functional", "lstm", "embedding"]


@pytest.fixture(params=MODELS if tool.CONFORMANCE else MODELS[1:4])
def trained(request, tmp_path):
    """(model, x, y): compiled, with the optimizer's state, in tmp_path/m.keras."""
    rng = tool.generator("convert", request.param)
    model = table.MODELS[request.param](None)
    tool.randomise(model, rng, 0.3)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=keras.losses.MeanSquaredError(),
                  metrics=[keras.metrics.MeanAbsoluteError()])
    x, y = table.inputs(rng, model, 17), table.targets(rng, "real", 17)
    answers.fit(model, x, y, batch_size=8, epochs=2)
    model.save(tmp_path / "m.keras")
    return model, x, y


def continues(ours, model, x, y):
    compare(ours, model, 1e-6)
    answers.fit(ours, x, y, batch_size=8)
    answers.fit(model, x, y, batch_size=8)
    compare(ours, model, 1e-5)


@pytest.mark.parametrize("name", ["out.keras", "out.h5"])
def test_to_keras_files(trained, name, tmp_path):
    model, x, y = trained
    tool.ok("convert", tmp_path / "m.keras", tmp_path / name)
    if name.endswith(".h5"):
        # Keras reads the optimizer's state of an .h5, but cannot continue training with it.
        model.save(tmp_path / "theirs.h5")
        return compare(keras.models.load_model(tmp_path / name), keras.models.load_model(tmp_path / "theirs.h5"), 0)
    continues(keras.models.load_model(tmp_path / name), model, x, y)


def test_from_h5(trained, tmp_path):
    model, x, y = trained
    model.save(tmp_path / "m.h5")
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "out.keras")
    continues(keras.models.load_model(tmp_path / "out.keras"), model, x, y)


def test_to_weights(trained, tmp_path):
    model, x, _ = trained
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.weights.h5")
    other = keras.models.clone_model(model)
    other.load_weights(tmp_path / "out.weights.h5")
    tool.assert_close(other.predict(x, verbose=0), answers.predict(model, x)[0], 1e-6)


def test_to_safetensors(trained, tmp_path):
    from safetensors.numpy import load_file
    model, _, _ = trained
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.safetensors")
    arrays = list(load_file(tmp_path / "out.safetensors").values())
    for weight in model.get_weights():
        assert any(a.shape == weight.shape and (a == weight).all() for a in arrays)
    other = model.__class__.from_config(model.get_config())
    other.save(tmp_path / "other.keras")
    tool.ok("convert", tmp_path / "other.keras", tmp_path / "back.keras", "--weights", tmp_path / "out.safetensors")
    for ours, theirs in zip(keras.models.load_model(tmp_path / "back.keras").get_weights(), model.get_weights(), strict=True):
        assert (ours == theirs).all()


def test_to_checkpoint(trained, tmp_path):
    model, x, _ = trained
    prefix = tmp_path / "ckpt" / "model"
    prefix.parent.mkdir()
    tool.ok("convert", tmp_path / "m.keras", prefix, "--to", "tf_checkpoint")
    other = model.__class__.from_config(model.get_config())  # clone_model would compile it with an optimizer of its own
    optimizer = keras.optimizers.Adam(0.5)
    optimizer.build(other.trainable_variables)
    tool.randomise(other, tool.generator("other"))
    tf.train.Checkpoint(model=other, optimizer=optimizer).restore(str(prefix)).assert_existing_objects_matched()
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        assert (np.asarray(ours) == np.asarray(theirs)).all()
    for ours, theirs in zip(optimizer.variables, model.optimizer.variables, strict=True):
        assert (np.asarray(ours) == np.asarray(theirs)).all(), ours.path


def saved_model(tmp_path):
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    return str(tmp_path / "sm")


def test_saved_model_in_tensorflow_2(trained, tmp_path):
    model, x, _ = trained
    loaded = tf.saved_model.load(saved_model(tmp_path))
    serve = loaded.signatures["serving_default"]
    key = list(serve.structured_input_signature[1])[0]
    for n in (1, 3, 17):
        expected = answers.predict(model, x[:n])[0]
        out = serve(**{key: tf.constant(x[:n])})
        tool.assert_close(list(out.values())[0].numpy(), expected, 1e-5)
    assert len(loaded.variables) == len(model.variables)
    assert len(loaded.trainable_variables) == len(model.trainable_weights)


def test_saved_model_in_tensorflow_1(trained, tmp_path):
    model, x, _ = trained
    path = saved_model(tmp_path)
    expected = {n: answers.predict(model, x[:n])[0] for n in (1, 3, 17)}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.loader.load(session, ["serve"], path)
        signature = meta.signature_def["serving_default"]
        feed = list(signature.inputs.values())[0].name
        fetch = list(signature.outputs.values())[0].name
        for n, outputs in expected.items():
            tool.assert_close(session.run(fetch, {feed: x[:n]}), outputs, 1e-5)


def test_saved_model_as_layer(trained, tmp_path):
    model, x, _ = trained
    layer = keras.layers.TFSMLayer(saved_model(tmp_path), call_endpoint="serving_default")
    for n in (1, 3, 17):
        tool.assert_close(list(layer(x[:n]).values())[0].numpy(), answers.predict(model, x[:n])[0], 1e-5)


def test_saved_model_in_hub_with_gradients(trained, tmp_path):
    import tensorflow_hub as hub
    model, x, _ = trained
    layer = hub.KerasLayer(saved_model(tmp_path), trainable=True)
    for n in (1, 3, 17):
        tool.assert_close(layer(tf.constant(x[:n]), training=False).numpy(), answers.predict(model, x[:n])[0], 1e-5)
    assert len(layer.trainable_variables) == len(model.trainable_weights)
    with tf.GradientTape() as tape:
        ours = tf.reduce_sum(layer(tf.constant(x), training=True) ** 2)
    gradients = tape.gradient(ours, layer.trainable_variables)
    with tf.GradientTape() as tape:
        theirs = tf.reduce_sum(model(x, training=True) ** 2)
    expected = tape.gradient(theirs, model.trainable_weights)
    def ordered(tensors):
        arrays = [tf.convert_to_tensor(t).numpy() for t in tensors]
        return sorted(arrays, key=lambda a: (a.shape, float(np.abs(a).sum())))

    for a, b in zip(ordered(gradients), ordered(expected), strict=True):
        tool.assert_close(a, b, 1e-4, atol=1e-5)


def test_predict_of_keras_export(trained, tmp_path):
    model, x, _ = trained
    model.export(tmp_path / "sm", verbose=False)
    for n in (1, 3, 17):
        outputs = tool.predict(tmp_path / "sm", x[:n], tmp_path, "--batch-size", 5, single=True)
        tool.assert_close(outputs[0][1], answers.predict(model, x[:n])[0], 1e-5)


def test_tables_of_vocabularies(tmp_path):
    """Layers with a vocabulary become tables, which both loaders of TensorFlow fill, and so does a reader of their export."""
    L, words = keras.layers, ["ab", "c", "hello", "world"]
    text, line, number = keras.Input((2,), dtype="string"), keras.Input((), dtype="string"), keras.Input((), dtype="int64")
    back = L.StringLookup(vocabulary=words, invert=True)(L.StringLookup(vocabulary=words, mask_token="")(text))
    parts = [L.Flatten()(L.Embedding(9, 2)(L.StringLookup(vocabulary=words, num_oov_indices=3, mask_token="zz")(text))),
             L.StringLookup(vocabulary=words, output_mode="multi_hot", num_oov_indices=2)(text),
             L.StringLookup(vocabulary=words, output_mode="count")(back),
             L.IntegerLookup(vocabulary=[5, 7], output_mode="one_hot", num_oov_indices=2)(number),
             L.Reshape((1,))(L.IntegerLookup(vocabulary=[5, 7], mask_token=0)(number)),
             L.HashedCrossing(5, output_mode="one_hot")((line, number)),
             L.TextVectorization(output_sequence_length=3, vocabulary=words)(line),
             L.TextVectorization(output_sequence_length=4, split="character", vocabulary=words)(line),
             L.TextVectorization(output_mode="tf_idf", ngrams=2, vocabulary=words + ["hello world"], idf_weights=[.5, .25, 1, 2, 3])(line),
             L.TextVectorization(output_mode="count", split=None, standardize="lower", vocabulary=words)(text)]
    model = keras.Model([text, line, number], L.Dense(3)(L.Concatenate()([L.Rescaling(1.)(part) for part in parts])))
    tool.randomise(model, tool.generator("tables"), .5)
    model.save(tmp_path / "m.keras")
    x = [np.array([["ab", "zz"], ["", "c"], ["world", "q"]]), np.array(["Hello, world! Hello", "", "c x ab hello world"]), np.array([5, 0, -9])]
    expected = model([tf.constant(part) for part in x]).numpy()
    path = saved_model(tmp_path)
    feeds = dict(zip([part.name for part in model.inputs], x))
    loaded = tf.saved_model.load(path)
    for call in (loaded.signatures["serving_default"], loaded.serve):
        out = call(**{key: tf.constant(v) for key, v in feeds.items()}) if call is not loaded.serve else call([tf.constant(v) for v in x])
        tool.assert_close(tf.nest.flatten(out)[0].numpy(), expected, 1e-5)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.loader.load(session, ["serve"], path).signature_def["serving_default"]
        found = session.run(list(signature.outputs.values())[0].name, {signature.inputs[key].name: v for key, v in feeds.items()})
        tool.assert_close(found, expected, 1e-5)
    tool.assert_close(tool.predict(path, feeds, tmp_path, single=True)[0][1], expected, 1e-5)


def test_predict_of_tf_keras(tmp_path):
    import tf_keras
    rng = tool.generator("tf-keras")
    L = tf_keras.layers
    model = tf_keras.Sequential([L.InputLayer((8, 8, 2)), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(),
                                 L.BatchNormalization(), L.Flatten(), L.Dense(3, activation="softmax")])
    model.save(tmp_path / "sm", save_format="tf")
    x = rng.normal(0, 1, (7, 8, 8, 2)).astype("float32")
    outputs = tool.predict(tmp_path / "sm", x, tmp_path, single=True)
    tool.assert_close(outputs[0][1], model.predict(x, verbose=0), 1e-5)


def test_predict_of_frozen_graph(tmp_path):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    rng = tool.generator("frozen")
    model = table.cnn_model("softmax")
    tool.randomise(model, rng)
    function = tf.function(lambda images: model(images, training=False)).get_concrete_function(
        tf.TensorSpec([None, 8, 8, 2], name="images"))
    graph = convert_variables_to_constants_v2(function).graph
    tf.io.write_graph(graph, str(tmp_path), "frozen.pb", as_text=False)
    x = rng.normal(0, 1, (5, 8, 8, 2)).astype("float32")
    output = function.outputs[0].name
    for options in (["--outputs", output], ["--outputs", output.split(":")[0]]):
        outputs = tool.predict(tmp_path / "frozen.pb", {"images": x}, tmp_path, *options, single=True)
        tool.assert_close(outputs[0][1], model.predict(x, verbose=0), 1e-5)
    tool.ok("convert", tmp_path / "frozen.pb", tmp_path / "served")
    loaded = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](images=tf.constant(x))
    tool.assert_close(list(loaded.values())[0].numpy(), model.predict(x, verbose=0), 1e-5)


@pytest.mark.parametrize("sizes", [(None, None), (None, 5), (7, None)])
def test_dilated_convolutions_of_images_of_any_size(sizes, tmp_path):
    """TensorFlow has no dilated DepthwiseConv2dNative on a CPU."""
    layers, x = keras.layers, keras.Input((*sizes, 3))
    y = layers.DepthwiseConv2D((3, 2), padding="same", dilation_rate=(2, 3))(x)
    y = layers.SeparableConv2D(4, 2, dilation_rate=2)(layers.Conv2D(4, (2, 3), padding="same", dilation_rate=(3, 1), groups=1)(y))
    model = keras.Model(x, layers.TimeDistributed(layers.DepthwiseConv1D(2, padding="same", dilation_rate=2))(y))
    tool.randomise(model, tool.generator("dilated"))
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm")
    serve = tf.saved_model.load(str(tmp_path / "sm")).signatures["serving_default"]
    assert tuple(next(iter(serve.structured_outputs.values())).shape) == model.output_shape
    for height, width in ((8, 9), (9, 8), (7, 12)):
        images = tool.generator("dilated", height).normal(size=(2, sizes[0] or height, sizes[1] or width, 3)).astype("f")
        tool.assert_close(next(iter(serve(tf.constant(images)).values())).numpy(), model(images).numpy(), 1e-5)


OF_ANY_SIZE = {"ConvLSTM1D": ((None, 6, 3), dict(filters=2, kernel_size=2, go_backwards=True, return_sequences=True)),
               "ConvLSTM2D": ((None, 5, 6, 2), dict(filters=2, kernel_size=2, padding="same")),
               "CenterCrop": ((None, None, 3), dict(height=4, width=3)),
               "Resizing": ((None, None, 3), dict(height=4, width=5, crop_to_aspect_ratio=True)),
               "Resizing with a border": ((None, None, 3), dict(height=4, width=5, pad_to_aspect_ratio=True, fill_value=0.5))}


@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_layers_whose_sizes_are_known_when_a_graph_runs(name, tmp_path):
    shape, arguments = OF_ANY_SIZE[name]
    x = keras.Input(shape)
    mask = {"mask": keras.ops.any(keras.ops.not_equal(x, 0.0), axis=(2, 3))} if name == "ConvLSTM1D" else {}
    model = keras.Model(x, getattr(keras.layers, name.split()[0])(**arguments)(x, **mask))
    tool.randomise(model, tool.generator("of any size", name))
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm")
    loaded = tf.saved_model.load(str(tmp_path / "sm"))
    for size in 6, 9:
        given = tool.generator("of any size", name, str(size)).normal(size=(2, *[extent or size for extent in shape])).astype("f")
        given[0, 2] = 0
        tool.assert_close(loaded.serve(tf.constant(given)).numpy(), model(given).numpy(), 1e-5)


def test_a_dilated_conv1d_runs_for_inputs_of_a_known_size(tmp_path):
    """TensorFlow optimizes the function `serve` for the shape of what it is called with."""
    x = keras.Input((None, 4))
    model = keras.Model(x, keras.layers.Dense(3)(keras.layers.Conv1D(6, 3, padding="same", dilation_rate=2)(x)))
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm")
    given = tool.generator("conv1d").normal(size=(2, 5, 4)).astype("f")
    loaded = tf.saved_model.load(str(tmp_path / "sm"))
    tool.assert_close(loaded.serve(tf.constant(given)).numpy(), model(given).numpy(), 1e-5)


def test_inspect_names_what_tensorflow_names(trained, tmp_path):
    model, _, _ = trained
    tf.train.Checkpoint(model=model).save(str(tmp_path / "c" / "ckpt"))
    found = tool.json.loads(tool.ok("inspect", tmp_path / "c" / "ckpt-1", "--json"))
    assert found["kind"] == "tf_checkpoint"
    assert {t["name"] for t in found["tensors"]} == {name for name, _ in tf.train.list_variables(str(tmp_path / "c" / "ckpt-1"))}
    found = tool.json.loads(tool.ok("inspect", tmp_path / "m.keras", "--json"))
    assert found["kind"] == "keras"
    assert len(found["tensors"]) == len(model.weights) + len(model.optimizer.variables)


def test_inspect_lists_what_a_graph_requires(tmp_path):
    class Scaled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, "x")])
        def __call__(self, x):
            with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
                return {"y": tf.nn.relu(x) @ tf.ones((3, 2))}

    module = Scaled()
    tf.saved_model.save(module, str(tmp_path / "s"), signatures=module.__call__)
    proto = loader_impl.parse_saved_model(str(tmp_path / "s")).meta_graphs[0].graph_def
    nodes = [*proto.node, *(node for function in proto.library.function for node in function.node_def)]
    functions = {function.signature.name for function in proto.library.function}
    found = tool.json.loads(tool.ok("inspect", tmp_path / "s", "--json"))
    assert found["ops"] == dict(collections.Counter(node.op for node in nodes if node.op not in functions))
    assert found["devices"] == sorted({node.device for node in nodes if node.device})
    assert found["producer"] == proto.versions.producer
    assert found["init_op"] == loader_impl.parse_saved_model(str(tmp_path / "s")).meta_graphs[0].signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
    assert "ops        " in tool.ok("inspect", tmp_path / "s")


def test_summary(trained, tmp_path):
    model, _, _ = trained
    lines = []
    keras.models.load_model(tmp_path / "m.keras").summary(print_fn=lines.append)
    expected = "\n".join(lines).replace("\r", "")
    assert tool.ok("summary", tmp_path / "m.keras").rstrip() == expected.rstrip()

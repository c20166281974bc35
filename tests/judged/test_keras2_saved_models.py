"""SavedModels of Keras 2 (tf-keras) as Keras models that train on, from the Keras metadata in them."""

import os
import shutil

import keras
import numpy as np
import pytest
import tf_keras
from tf_keras.protobuf import saved_metadata_pb2
from tensorflow.core.protobuf import saved_model_pb2

import keras2_models as models
import lockstep_tool as tool
import stored

L = tf_keras.layers
# Keras 2 takes 10 to 30 s to trace the functions of these for a SavedModel, which are not read here: make conformance has them.
TRACED_SLOWLY = (models.bidirectional, models.states, models.embedding)
BARE = (models.image, models.recurrent)  # written without functions too


def traced(make):
    return make not in TRACED_SLOWLY or tool.CONFORMANCE


@pytest.mark.quick(6)
@pytest.mark.parametrize("make", models.MODELS, ids=lambda make: make.__name__)
def test_models(make, tmp_path, request):
    """The weights of a SavedModel, by way of a .keras file and of an .h5 that tf-keras opens."""
    folder = tmp_path / "theirs"
    folder.mkdir()

    def written():
        rng = tool.generator("keras2", "saved", make.__name__)
        model = models.randomised(make(), rng)
        model.save(folder / "served", save_format="tf", save_traces=traced(make))
        if make in BARE:
            model.save(folder / "bare", save_format="tf", save_traces=False)
        request.getfixturevalue("eagerly")
        data = models.data_of(model, rng)
        named = isinstance(model.input, dict)
        return data, named, models.predicted(model, data, named), model.get_weights()

    def again():
        model = tf_keras.models.load_model(tmp_path / "out.h5")
        return model.get_weights(), models.predicted(model, data, named)

    def three():
        return models.predicted(keras.models.load_model(tmp_path / "out.keras"), data, named)

    rtol = 2e-3 if make is models.mixed else 1e-6
    data, named, expected, weights = stored.original(written, folder, rtol=max(rtol, 1e-4))
    request.getfixturevalue("eagerly")
    if tool.CONTROL:
        return
    tool.ok("convert", folder / "served", tmp_path / "out.keras")
    tool.ok("convert", folder / "served", tmp_path / "out.h5")
    if make in BARE:
        tool.ok("convert", folder / "bare", tmp_path / "bare.h5")
        tool.ok("diff", tmp_path / "out.h5", tmp_path / "bare.h5")
    found, outputs = stored.original(again, files=[tmp_path / "out.h5"], rtol=max(rtol, 1e-4))
    for ours, theirs in zip(found, weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(outputs, expected, strict=True):
        tool.assert_close(ours, theirs, rtol)
    x = data if named else list(data.values())
    a, b = (tool.predict(tmp_path / name, x, tmp_path) for name in ("out.keras", "out.h5"))
    for (_, ours), (_, theirs) in zip(a, b, strict=True):
        tool.assert_close(ours, theirs, 1e-6)  # by the rules of Keras 3, and of Keras 2
    if make not in models.NOT_IN_KERAS_3 - {models.nested, models.frozen, models.without_input, models.attention, models.sliced}:
        for ours, theirs in zip(stored.original(three, files=[tmp_path / "out.keras"]), expected, strict=True):
            tool.assert_close(ours, theirs, 1e-5)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("legacy", "name", "kwargs"), [
    (False, "Adam", {}), (False, "SGD", {"momentum": 0.9}), (False, "SGD", {}), (False, "RMSprop", {"momentum": 0.5}),
    (False, "AdamW", {}), (True, "Adam", {}), (True, "SGD", {"momentum": 0.9}), (True, "SGD", {}), (True, "Ftrl", {})])
def test_training_continues(legacy, name, kwargs, tmp_path):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}

    def written():
        rng = tool.generator("keras2", "saved", name, legacy, str(kwargs))
        x, y = rng.normal(0, 1, (24, *models.VECTOR)).astype("float32"), rng.normal(0, 1, (24, 3)).astype("float32")
        a = tf_keras.Input(models.VECTOR)
        inner = tf_keras.Sequential([L.InputLayer((6,)), L.Dense(4, "tanh"), L.BatchNormalization()])
        model = models.randomised(tf_keras.Model(a, L.Dense(3)(inner(L.Dense(6, "tanh")(a)))), rng)
        optimizers = tf_keras.optimizers.legacy if legacy else tf_keras.optimizers
        model.compile(getattr(optimizers, name)(learning_rate=0.02, **kwargs), "mse", metrics=["mae"])
        model.fit(x, y, epochs=2, **options)
        model.save(tmp_path / "served", save_format="tf")
        model.fit(x, y, epochs=2, **options)
        return x, y, model.get_weights()

    def continued():
        again = tf_keras.models.load_model(tmp_path / "out.h5")
        again.fit(x, y, epochs=2, **options)
        return again.get_weights()

    x, y, wanted = stored.original(written, tmp_path)
    if tool.CONTROL:
        return
    tool.save_npz(tmp_path / "train.npz", x=x, y=y)
    tool.ok("convert", tmp_path / "served", tmp_path / "out.h5")
    tool.ok("fit", tmp_path / "served", "--data", tmp_path / "train.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
            "--save", tmp_path / "fit.h5")
    for found in (stored.original(continued, files=[tmp_path / "out.h5"]), stored.weights(tf_keras, tmp_path / "fit.h5")):
        for ours, theirs in zip(found, wanted, strict=True):
            tool.assert_close(ours, theirs, 2e-5, name, atol=1e-6)
    assert "Dense" in tool.ok("summary", tmp_path / "served")
    assert "Functional, compiled" in tool.ok("inspect", tmp_path / "served")


def test_metadata_in_the_object_graph(tmp_path):
    """Until TensorFlow 2.4 the metadata were in saved_model.pb."""
    rng = tool.generator("keras2", "saved", "old")
    model = models.randomised(models.recurrent(), rng)
    model.save(tmp_path / "served", save_format="tf", save_traces=False)
    metadata = saved_metadata_pb2.SavedMetadata()
    metadata.ParseFromString((tmp_path / "served" / "keras_metadata.pb").read_bytes())
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((tmp_path / "served" / "saved_model.pb").read_bytes())
    nodes = proto.meta_graphs[0].object_graph_def.nodes
    for node in metadata.nodes:
        nodes[node.node_id].user_object.metadata = node.metadata
        nodes[node.node_id].user_object.identifier = node.identifier
    (tmp_path / "served" / "saved_model.pb").write_bytes(proto.SerializeToString())
    os.remove(tmp_path / "served" / "keras_metadata.pb")
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "served", tmp_path / "out.h5")
    for ours, theirs in zip(tf_keras.models.load_model(tmp_path / "out.h5").get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def psnr(a, b):
    return tf_keras.backend.mean(a - b)


def test_metrics_of_the_users(tmp_path):
    """They are Python functions: the model is compiled without them."""
    def written():
        model = models.dense()
        model.compile("adam", "mse", metrics=[psnr])
        model.fit(np.zeros((4, *models.VECTOR), "float32"), np.zeros((4, 3), "float32"), verbose=0)
        model.save(tmp_path / "served", save_format="tf")
        model.save(tmp_path / "m.h5")
        return model.get_weights()

    def read():
        again = tf_keras.models.load_model(tmp_path / "out.h5")
        return again.optimizer.get_weights()[0], again.get_weights()

    weights = stored.original(written, tmp_path)
    if tool.CONTROL:
        return
    for name in "served", "m.h5":
        tool.ok("convert", tmp_path / name, tmp_path / "out.h5")
        steps, found = stored.original(read, files=[tmp_path / "out.h5"])
        np.testing.assert_array_equal(steps, 1)
        for ours, theirs in zip(found, weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


class Subclassed(tf_keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = L.Dense(2)

    def call(self, x):
        return self.dense(x)


def test_errors_of_unreadable_models_give_the_remedy(tmp_path):
    model = Subclassed()
    model(np.zeros((1, 3), "float32"))
    model.save(tmp_path / "subclassed", save_format="tf")
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).export(tmp_path / "exported", verbose=False)
    if tool.CONTROL:
        return
    for name, text in ("subclassed", "subclassed model"), ("exported", "no Keras metadata"):
        for command in (["summary", tmp_path / name], ["convert", tmp_path / name, tmp_path / "out.keras"]):
            line = tool.refused(*command, code=1)
            assert text in line and "predict" in line and "KerasLayer" in line


def test_damaged_metadata(tmp_path):
    model = models.dense()
    model.save(tmp_path / "served", save_format="tf")
    if tool.CONTROL:
        return
    data = (tmp_path / "served" / "keras_metadata.pb").read_bytes()
    rng = tool.generator("keras2", "damaged")
    for number in range(12):
        shutil.rmtree(tmp_path / "hurt", ignore_errors=True)
        shutil.copytree(tmp_path / "served", tmp_path / "hurt")
        hurt = bytearray(data[: rng.integers(1, len(data))] if number % 2 else data)
        for at in rng.integers(0, len(hurt), 4):
            hurt[at] ^= int(rng.integers(1, 256))
        (tmp_path / "hurt" / "keras_metadata.pb").write_bytes(hurt)
        result = tool.run("convert", tmp_path / "hurt", tmp_path / "out.keras")
        assert result.code in (0, 1), str(result)

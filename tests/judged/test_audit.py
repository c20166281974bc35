"""lockstep audit on files that real Keras and TensorFlow wrote."""

import json

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras has no such command")


def audit(path):
    """The risks that were found, and the whole report."""
    result = tool.run("audit", path, "--json")
    assert result.code in (0, 4), str(result)
    report = json.loads(result.out)
    assert (result.code == 4) == bool(report["findings"]), str(result)
    return sorted({finding["risk"] for finding in report["findings"]}), report


def small_model(*more):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu", kernel_regularizer="l2"),
                              keras.layers.BatchNormalization(), *more])
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10)),
                  loss=keras.losses.MeanSquaredError(), metrics=["mae", keras.metrics.RootMeanSquaredError()])
    return model


@keras.saving.register_keras_serializable("AuditTest")
class Doubled(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def test_ordinary_models_have_no_findings(tmp_path):
    model = small_model()
    model.fit(np.ones((4, 4), "float32"), np.ones((4, 3), "float32"), verbose=0)
    model.save(tmp_path / "m.keras")
    model.save(tmp_path / "m.h5")
    model.save_weights(tmp_path / "m.weights.h5")
    model.export(tmp_path / "exported", verbose=False)
    tf.saved_model.save(model, tmp_path / "saved")
    tf.train.Checkpoint(model=model).write(str(tmp_path / "ckpt"))
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "ours")
    for name in ("m.keras", "m.h5", "m.weights.h5", "exported", "saved", "ckpt", "a.npz", "ours"):
        risks, report = audit(tmp_path / name)
        assert risks == [], (name, report)
    assert f"Keras {keras.__version__}" in audit(tmp_path / "m.keras")[1]["versions"]
    assert f"TensorFlow {tf.__version__}" in audit(tmp_path / "exported")[1]["versions"]


def test_a_vocabulary_is_an_asset(tmp_path):
    lookup = keras.layers.TextVectorization(vocabulary=["a", "b"])
    model = keras.Sequential([keras.Input((), dtype="string"), lookup])
    model.export(tmp_path / "exported", verbose=False)
    model.save(tmp_path / "m.keras")
    assert audit(tmp_path / "exported")[0] == []
    assert audit(tmp_path / "m.keras")[0] == []


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_code_and_custom_objects(tmp_path, name):
    small_model(keras.layers.Lambda(lambda x: x + 1)).save(tmp_path / name)
    assert audit(tmp_path / name)[0] == ["code"]
    small_model(Doubled()).save(tmp_path / name)
    risks, report = audit(tmp_path / name)
    assert risks == ["custom_object"] and "Doubled" in report["findings"][0]["detail"], report


def test_operations_of_a_saved_model(tmp_path):
    class Reaching(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((), tf.string)])
        def read(self, name):
            return tf.io.read_file(name)

        @tf.function(input_signature=[tf.TensorSpec((), tf.string)])
        def write(self, name):
            tf.io.write_file("/tmp/written", name)
            return name

        @tf.function(input_signature=[tf.TensorSpec((), tf.float32)])
        def call(self, x):
            return tf.py_function(lambda v: v, [x], tf.float32)

    module = Reaching()
    tf.saved_model.save(module, tmp_path / "m", signatures={"read": module.read, "write": module.write,
                                                           "call": module.call})
    risks, report = audit(tmp_path / "m")
    assert risks == ["file_read", "file_write", "path", "python"], report


def test_hdf5_files_that_refer_to_others(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones(3)
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["layers/a"] = h5py.ExternalLink("other.h5", "/x")
        file["layers/b"] = h5py.SoftLink("/layers/c")
        file["layers/c"] = np.ones(2)
        file.create_dataset("layers/d", (3,), "f8", external=[(str(tmp_path / "raw"), 0, 24)])
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
        file.create_virtual_dataset("layers/e", layout)
    risks, report = audit(tmp_path / "linked.h5")
    assert risks == ["external_link"] and len(report["findings"]) == 3, report


def test_pickled_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.ones(2), y=np.array([{"a": 1}], dtype=object))
    assert audit(tmp_path / "a.npy")[0] == ["code"]
    assert audit(tmp_path / "a.npz")[0] == ["code"]


def test_readable_output_and_errors(tmp_path):
    small_model(keras.layers.Lambda(lambda x: x + 1)).save(tmp_path / "m.keras")
    result = tool.run("audit", tmp_path / "m.keras")
    assert result.code == 4 and "code" in result.out and "layers[3]" in result.out, str(result)
    tool.refused("audit", tmp_path / "missing.keras", code=1)
    (tmp_path / "torn.keras").write_bytes((tmp_path / "m.keras").read_bytes()[:500])
    tool.refused("audit", tmp_path / "torn.keras", code=1)

"""Modules of TensorFlow (module_table.py, module_table_data.py) as SavedModels: outputs of two calls, and gradients of the first one."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import answers
import lockstep_tool as tool
import module_table
import module_table_data  # noqa: F401, adds its rows

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")


def results(path, feeds):
    """The outputs of the loaded signature, and the derivatives of the sum of log(1 + y^2) of those of floats."""
    loaded = tf.saved_model.load(str(path))
    feeds = {k: tf.constant(v) for k, v in feeds.items()}
    floats = (tf.float32, tf.float64)
    variables = {k: v for k, v in vars(loaded).items() if isinstance(v, tf.Variable) and v.trainable}
    with tf.GradientTape() as tape:
        sources = {k: v for k, v in feeds.items() if v.dtype in floats} | variables
        tape.watch([v for v in feeds.values() if v.dtype in floats])
        outputs = loaded.signatures["serving_default"](**feeds)
        total = tf.add_n([tf.reduce_sum(tf.math.log1p(tf.square(tf.cast(y, tf.float64)))) for y in outputs.values() if y.dtype in floats] or [tf.constant(0., tf.float64)])
    slopes = {k: tf.convert_to_tensor(v) for k, v in tape.gradient(total, sources).items() if v is not None}
    return {k: np.asarray(v.numpy()) for k, v in outputs.items()} | {f"gradient/{k}": v.numpy() for k, v in slopes.items()}


def write(name, folder):
    """The module in folder/m, its inputs in folder/x.npz; the results."""
    module, feeds = module_table.make(name, tool.generator("module", name))
    tf.saved_model.save(module, str(folder / "m"), module.run)
    feeds = {k: np.asarray(v, "S") if np.asarray(v).dtype.kind in "OS" else np.asarray(v) for k, v in feeds.items()}
    np.savez(folder / "x.npz", **feeds)
    return results(folder / "m", feeds)


SOURCES = [inspect.getsource(part) for part in (module_table, module_table_data, results, write)]


@pytest.mark.parametrize("name", tool.pick(module_table.MODULES, 32))
def test_module(name, gradient_probe, tmp_path):
    theirs = answers.with_files(answers.digest_of("module", name, tool.SEED, SOURCES), tmp_path, lambda: write(name, tmp_path))
    assert gradient_probe(tmp_path / "m", tmp_path / "x.npz", tmp_path / "y.npz") == "ok"
    ours = dict(np.load(tmp_path / "y.npz"))
    for key in sorted(ours.keys() | theirs.keys()):
        slope = key.startswith("gradient/")
        if key in ours and key in theirs:
            value = theirs[key].astype("f") if theirs[key].dtype == tf.bfloat16.as_numpy_dtype else theirs[key]
            tool.assert_close(ours[key], value, 2e-4 if slope else 1e-5, key, atol=1e-6)
        else:
            assert slope and not np.any(ours.get(key, theirs.get(key))), f"{key} is in one of both only"


ENDLESS = {"repeat": lambda: tf.data.Dataset.range(5).repeat(), "filter": lambda: tf.data.Dataset.range(9).repeat().filter(lambda n: n < 0),
           "empty": lambda: tf.data.Dataset.range(5).filter(lambda n: n < 0).repeat(10**15), "batch": lambda: tf.data.Dataset.range(2).repeat().batch(10**9),
           "skip": lambda: tf.data.Dataset.range(3).repeat().skip(10**15), "shuffle": lambda: tf.data.Dataset.range(3).repeat().shuffle(10**9)}


@pytest.mark.parametrize("name", ["file", *tool.pick(ENDLESS, 3)])
def test_refused_dataset(name, tmp_path):
    """Data sets that read files or do not end."""
    module = tf.Module()
    make = ENDLESS.get(name, lambda: tf.data.TextLineDataset("/etc/hostname").map(tf.strings.length))
    module.run = tf.function(lambda x: make().reduce(x, lambda a, n: a + tf.cast(tf.reduce_sum(n), tf.float32)), input_signature=[tf.TensorSpec([], name="x")])
    tf.saved_model.save(module, str(tmp_path / "m"), module.run)
    np.savez(tmp_path / "x.npz", x=np.float32(0))
    line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--max-iterations", 20000)
    assert ("TextLineDataset" if name == "file" else "iterations") in line

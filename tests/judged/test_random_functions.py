"""Random functions of TensorFlow (random_functions.py) as SavedModels and frozen graphs: outputs and gradients."""

import inspect
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import answers
import lockstep_tool as tool
import random_functions

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")


def results(concrete, feeds, variables):
    """The outputs, and the derivatives of the sum of log(1 + y^2) of those of floats."""
    feeds = {k: tf.constant(v) for k, v in feeds.items()}
    sources = {k: v for k, v in feeds.items() if v.dtype == tf.float32} | variables
    with tf.GradientTape() as tape:
        tape.watch([v for v in feeds.values() if v.dtype == tf.float32])
        outputs = concrete(**feeds)
        total = tf.add_n([tf.reduce_sum(tf.math.log1p(tf.square(tf.cast(y, tf.float64)))) for y in outputs.values() if y.dtype == tf.float32])
    slopes = {k: tf.convert_to_tensor(v) for k, v in tape.gradient(total, sources).items() if v is not None}
    return {k: v.numpy() for k, v in outputs.items()} | {f"gradient/{k}": v.numpy() for k, v in slopes.items()}


def write(rng, number, folder):
    """A function as a SavedModel (folder/m) or frozen graph (folder/g.pb), its inputs (folder/x.npz); TensorFlow's results."""
    module, variables, feeds = tf.Module(), random_functions.variables(rng), random_functions.inputs(rng)
    for name, variable in variables.items():
        setattr(module, name, variable)
    concrete = module.run = random_functions.function(rng, variables)
    np.savez(folder / "x.npz", **feeds)
    graph = concrete.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    if number % 4 < 3 or any(node.op.startswith("Assign") for node in nodes):
        tf.saved_model.save(module, str(folder / "m"), signatures=concrete)
        return results(concrete, feeds, variables)
    constants = convert_variables_to_constants_v2(concrete, lower_control_flow=number % 8 == 7)
    graph, fetches = constants.graph.as_graph_def(), [t.name for t in constants.outputs]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # TensorFlow's conversion loses functions of some graphs
        tf.import_graph_def(graph, name="")
        session.run(fetches, {f"{name}:0": value for name, value in feeds.items()})
    (folder / "g.pb").write_bytes(graph.SerializeToString())
    (folder / "fetches").write_text(",".join(fetches))
    return results(concrete, feeds, {})


def computed(number, folder):
    for attempt in range(9):
        for file in folder.iterdir():  # of the attempt before
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        try:
            return write(tool.generator("function", number, attempt), number, folder)
        except (tf.errors.OpError, LookupError, ValueError, AssertionError):
            continue  # what TensorFlow itself cannot compute or differentiate
    raise AssertionError("TensorFlow computes none of nine functions")


SOURCES = [inspect.getsource(part) for part in (random_functions, results, write, computed)]


@pytest.mark.parametrize("number", range(400 if tool.CONFORMANCE else 8))
def test_random_function(number, gradient_probe, tmp_path):
    theirs = answers.with_files(answers.digest_of("function", number, tool.SEED, SOURCES), tmp_path, lambda: computed(number, tmp_path))
    frozen = (tmp_path / "g.pb").exists()
    given = [tmp_path / ("g.pb" if frozen else "m"), tmp_path / "x.npz", tmp_path / "y.npz"]
    assert gradient_probe(*given, *([(tmp_path / "fetches").read_text()] if frozen else [])) == "ok"
    ours = dict(np.load(tmp_path / "y.npz"))
    if frozen:
        names = sorted(name for name in theirs if not name.startswith("gradient/"))
        ours = {names[int(k[1:])] if k[0] == "#" else k: v for k, v in ours.items()}
    for key in sorted(ours.keys() | theirs.keys()):
        if key in ours and key in theirs:
            tool.assert_close(ours[key], theirs[key], 2e-3 if key.startswith("gradient/") else 1e-4, f"function {number} {key}", atol=1e-5)
        else:
            assert not np.any(ours.get(key, theirs.get(key))), f"function {number}: {key} is in one of both only"

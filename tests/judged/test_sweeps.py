"""Many configurations of a layer in one model, an output for each: predictions, training, exports and formats against
Keras's, with few starts of the tool."""

import collections
import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import answers
import lockstep_tool as tool
from sweep_table import ROWS

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself exports in another way")


def groups():
    """Rows of one class on the same inputs, 20 at most."""
    found = collections.OrderedDict()
    for row in ROWS:
        name, _, shapes, options = row
        found.setdefault((name, str(shapes), str(options)), []).append(row)
    for (name, shapes, _), rows in found.items():
        for part in range(0, len(rows), 20):
            yield pytest.param(rows[part:part + 20], id=f"{name}-{shapes}-{part // 20}{'-mask' if rows[0][3].get('mask') else ''}")


class Swept:
    """The model of a group. Rows that TensorFlow does not run on this machine (NCHW) are left out."""

    def __init__(self, rows, rng):
        _, _, self.shapes, self.options = rows[0]
        dtype = "int32" if "ints" in self.options else "float32"
        inputs = [keras.Input(shape, dtype=dtype, name=f"in_{i}") for i, shape in enumerate(self.shapes)]
        given = [keras.layers.Masking()(t) for t in inputs] if self.options.get("mask") else inputs
        self.rows, outputs = {}, []
        for number, (name, kwargs, _, _) in enumerate(rows):
            layer = getattr(keras.layers, name)(**kwargs, name=f"row_{number}")
            call = (lambda ts, layer=layer, name=name: layer(*ts) if name in ("MultiHeadAttention", "GroupQueryAttention") else layer(one(ts)))
            output = keras.tree.flatten(call(given))
            try:
                call([np.ones([2] + [d or 4 for d in t.shape[1:]], dtype) for t in inputs])
            except Exception:
                continue
            # With several outputs (return_state) the first stands for all.
            outputs.append(keras.layers.Activation("linear", name=f"first_{number}")(output[0]) if len(output) > 1 else output[0])
            self.rows[number] = f"{name}({kwargs})"
        self.model = keras.Model(one(inputs), outputs) if outputs else None
        if self.model:
            tool.randomise(self.model, rng)

    def data(self, rng, n):
        arrays = []
        for tensor in self.model.inputs:
            shape = [n] + [self.options.get("unknown") if d is None else d for d in tensor.shape[1:]]
            if "ints" in self.options:
                arrays.append(rng.integers(0, self.options["ints"], shape).astype(tensor.dtype))
            else:
                arrays.append(rng.normal(0, 1, shape).astype(tensor.dtype))
            if self.options.get("mask"):
                arrays[-1][rng.random(arrays[-1].shape[:2]) < 0.4] = 0
        return arrays

    def values(self, arrays):
        return [np.asarray(v) for v in keras.tree.flatten(self.model(one(arrays), training=False))]

    def compare(self, ours, theirs, what, rtol=1e-5):
        assert len(ours) == len(theirs)
        wrong = []
        for value, expected, row in zip(ours, theirs, self.rows.values(), strict=True):
            try:
                tool.assert_close(value, expected, rtol, f"{what}: {row}")
            except AssertionError as error:
                wrong.append(str(error))
        assert not wrong, "\n".join(wrong)

    def random(self):
        """Whether training draws numbers, which differ from call to call."""
        return any("ropout" in row or "Noise" in row for row in self.rows.values())


def one(values):
    return values if len(values) > 1 else values[0]


@pytest.fixture(params=tool.pick(groups(), 24, "sweeps"))
def swept(request, tmp_path):
    keras.utils.set_random_seed(11)
    rng = tool.generator(request.node.name)
    made = Swept(request.param, rng)
    if made.model is None:
        pytest.skip("TensorFlow runs none of these on this machine")
    made.rng = rng
    made.model.save(tmp_path / "m.keras")
    return made


def config(path):
    return json.loads(zipfile.ZipFile(path).read("config.json"), object_hook=lambda d: {k: v for k, v in d.items() if k != "shared_object_id"})


def without_nulls(ours, theirs):
    """A config without the arguments that are null in theirs: ours has the number that Keras computes with (epsilon=None)."""
    if isinstance(theirs, dict):
        return {k: without_nulls(v, theirs.get(k)) for k, v in ours.items() if theirs.get(k) is not None or k not in theirs}
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [without_nulls(a, b) for a, b in zip(ours, theirs)]
    return ours


def predict(swept, tmp_path):
    x = swept.data(swept.rng, 5)
    outputs = tool.predict(tmp_path / "m.keras", one(x), tmp_path, "--batch-size", 2)
    swept.compare([value for _, value in outputs], swept.values(x), "predict")


def export(swept, tmp_path):
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    loaded = tf.saved_model.load(str(tmp_path / "sm"))
    assert len(loaded.variables) == len(swept.model.variables)
    for n in (1, 7):
        x = swept.data(swept.rng, n)
        got = loaded.signatures["serving_default"](**{t.name: tf.constant(v) for t, v in zip(swept.model.inputs, x)})
        swept.compare([got[f"output_{i}"].numpy() for i in range(len(got))], swept.values(x), f"exported, batch {n}")
    gradients(swept, loaded, [tf.constant(v) for v in swept.data(swept.rng, 6)], tmp_path)


def gradients(swept, loaded, x, tmp_path):
    """Outputs and state changes of a SavedModel of ours, called with training true and false."""
    fresh = keras.models.load_model(tmp_path / "m.keras")

    def taken(model, variables, training):
        with tf.GradientTape() as tape:
            total = tf.add_n([tf.reduce_sum(t**2) for t in tf.nest.flatten(model(one(x), training=training))])
        return [g if g is None else tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, variables)]

    for training in (False, True):
        ours = taken(loaded, loaded.trainable_variables, training)
        theirs = taken(fresh, [v.value for v in fresh.trainable_variables], training)
        for a, b, v in zip(ours, theirs, fresh.trainable_variables, strict=True):
            assert (a is None) == (b is None), v.path
            if b is not None and not (training and swept.random()):
                tool.assert_close(a, b, 1e-3, f"gradient of {v.path}, training {training}", atol=1e-4)


def formats(swept, tmp_path):
    model = swept.model
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
    theirs = config(tmp_path / "m.keras")
    assert without_nulls(config(tmp_path / "r.keras"), theirs) == without_nulls(theirs, theirs)
    again = keras.models.load_model(tmp_path / "r.keras")
    same_weights(again, model, "r.keras")
    if not swept.options.get("mask"):  # Keras does not read its own .h5 of a masked model (unknown layer NotEqual)
        model.save(tmp_path / "k.h5")
        tool.ok("convert", tmp_path / "k.h5", tmp_path / "k.keras")
        again = keras.models.load_model(tmp_path / "k.keras")
        same_weights(again, model, "k.keras")
    for name in ("r.h5", "r.weights.h5"):
        tool.ok("convert", tmp_path / "m.keras", tmp_path / name)
        tool.randomise(again, swept.rng)
        again.load_weights(tmp_path / name)
        same_weights(again, model, name)


def same_weights(ours, theirs, what):
    for a, b in zip(ours.weights, theirs.weights, strict=True):
        assert "seed" in b.path or (np.asarray(a) == np.asarray(b)).all(), f"{what}: {b.path}"


def train(swept, tmp_path):
    model, rng, rows = swept.model, swept.rng, 7
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.5), loss="mse")
    model.save(tmp_path / "t.keras")
    keras.utils.set_random_seed(5)
    model = keras.models.load_model(tmp_path / "t.keras")
    x = swept.data(rng, rows)
    y = [rng.normal(0, 1, value.shape).astype("float32") for value in swept.values(x)]
    theirs = answers.fit(model, one(x), one(y), epochs=2, batch_size=3, shuffle=True, seed=5)
    arrays = {"x": x[0]} if len(x) == 1 else {f"x_{t.name}": v for t, v in zip(model.inputs, x)}
    arrays.update({"y": y[0]} if len(y) == 1 else {f"y_{name}": v for name, v in zip(model.output_names, y)})
    np.savez(tmp_path / "d.npz", **arrays)
    tool.ok("fit", tmp_path / "t.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 3, "--seed", 5,
            "--save", tmp_path / "o.keras", "--history", tmp_path / "h.json")
    ours = keras.models.load_model(tmp_path / "o.keras")
    wrong = []
    for a, b in zip(ours.weights, model.weights, strict=True):
        try:
            tool.assert_close(np.asarray(a), np.asarray(b), 1e-4, b.path, atol=1e-6)
        except AssertionError as error:
            row = swept.rows.get(int(b.path.split("/")[0].split("_")[1])) if b.path.startswith("row_") else ""
            wrong.append(f"{error} {row}")
    assert not wrong, "\n".join(wrong)
    tool.assert_history(tool.load_history(tmp_path / "h.json"), theirs)


def test_layers(swept, tmp_path):
    predict(swept, tmp_path)
    export(swept, tmp_path)
    formats(swept, tmp_path)
    train(swept, tmp_path)

"""The gradient of an embedding has a row for each word of a batch, words that come several times included. What optimizers and
clipping make of the rows differs between Keras 3, tf-keras and tf.keras.optimizers.legacy."""

import keras
import numpy as np
import pytest
import tf_keras

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras would be compared with itself")

WORDS = 9
CLIPS = [{}, {"clipnorm": 0.02}, {"clipvalue": 0.005}, {"global_clipnorm": 0.03}]
LEGACY_CLIPS = [*CLIPS, {"clipnorm": 0.02, "clipvalue": 0.005}]
RULES = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.8, "nesterov": True}],
    "RMSprop": [{}, {"momentum": 0.5}, {"centered": True, "epsilon": 1e-3}, {"centered": True, "momentum": 0.5}, {"epsilon": 0.1}],
    "Adam": [{}, {"amsgrad": True}],
    "Nadam": [{}, {"beta_1": 0.8}],
    "Adamax": [{}], "Adagrad": [{}, {"epsilon": 0.1}], "Adadelta": [{"epsilon": 1e-3}], "Ftrl": [{}, {"l1_regularization_strength": 1e-3, "beta": 0.1}],
}
OF_KERAS_3 = {**RULES, "Lion": [{}], "AdamW": [{}], "Adafactor": [{}], "Lamb": [{}]}
LATER = {**RULES, "Lion": [{}], "AdamW": [{}], "Adafactor": [{}]}
OF_LEGACY = {**RULES, "SGD": [*RULES["SGD"], {"momentum": 0.9, "decay": 0.1}], "Ftrl": [*RULES["Ftrl"], {"l2_shrinkage_regularization_strength": 0.1}]}


def rows(rules, clips):
    return [(name, {"learning_rate": 0.05, **kwargs, **clip}) for name, many in rules.items() for kwargs in many
            for clip in (clips if kwargs == many[0] else clips[:1])]


def ids(case):
    name, kwargs = case
    return "-".join([name, *(f"{k}={v}" for k, v in kwargs.items() if k != "learning_rate")])


def model_of(module, rng):
    """Two embeddings, of which one is used twice; most batches lack most words."""
    L = module.layers
    a, b = module.Input((4,), name="a", dtype="int32"), module.Input((2,), name="b", dtype="int32")
    shared = L.Embedding(WORDS, 3, name="shared")
    parts = [L.GlobalAveragePooling1D()(shared(a)), L.Flatten()(shared(b)), L.Flatten()(L.Embedding(WORDS, 2, name="own")(b))]
    model = module.Model([a, b], L.Dense(2)(L.Dense(4, "tanh")(L.Concatenate()(parts))))
    model.set_weights([rng.normal(0, 0.5, w.shape) for w in model.get_weights()])
    return model


def data_of(rng):
    skewed = lambda shape: np.minimum(rng.geometric(0.35, shape) - 1, WORDS - 2).astype("int32")
    return {"a": skewed((18, 4)), "b": skewed((18, 2))}, rng.normal(0, 1, (18, 2)).astype("float32")


def continues(module, optimizers, case, files, tmp_path, loaded=False):
    """Trains, saves, and compares further training, of the file if `loaded`, with that of lockstep from each file. More data."""
    name, kwargs = case

    def written():
        rng = tool.generator("rows", ids(case))
        model = model_of(module, rng)
        model.compile(getattr(optimizers, name)(**kwargs), "mse")
        x, y = data_of(rng)
        options = {"batch_size": 6, "shuffle": False, "verbose": 0}
        model.fit(x, y, epochs=2, **options)
        for file in files:
            model.save(tmp_path / file)
        if loaded:
            model = module.models.load_model(tmp_path / files[-1])
        model.fit(x, y, epochs=2, **options)
        tool.save_npz(tmp_path / "train.npz", x_a=x["a"], x_b=x["b"], y=y)
        return [[variable.name, value] for variable, value in zip(model.weights, model.get_weights(), strict=True)], data_of(rng)

    wanted, more = stored.original(written, tmp_path)
    for file in files:
        target = tmp_path / ("out.keras" if module is keras else "out.h5")
        tool.ok("fit", tmp_path / file, "--data", tmp_path / "train.npz", "--epochs", 2, "--batch-size", 6, "--no-shuffle", "--save", target)
        for ours, (variable, theirs) in zip(stored.weights(module, target), wanted, strict=True):
            tool.assert_close(ours, theirs, 5e-5, f"{ids(case)}, {file}, {variable}", atol=1e-6)
    return more


@pytest.mark.parametrize("case", tool.pick(rows(OF_KERAS_3, CLIPS), 6, "keras 3"), ids=ids)
def test_keras_3(case, tmp_path):
    continues(keras, keras.optimizers, case, ["m.keras"], tmp_path)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("case", tool.pick(rows(LATER, CLIPS), 5, "tf-keras"), ids=ids)
def test_tf_keras(case, tmp_path):
    continues(tf_keras, tf_keras.optimizers, case, ["m.h5", "m.keras"], tmp_path, loaded=case[0] == "Nadam")  # whose product is not saved


def trained(path, x, y):
    model = tf_keras.models.load_model(path)
    model.fit(x, y, batch_size=6, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("case", tool.pick(rows(OF_LEGACY, LEGACY_CLIPS), 6, "legacy"), ids=ids)
def test_legacy(case, tmp_path):
    x, y = continues(tf_keras, tf_keras.optimizers.legacy, case, ["m.h5"], tmp_path)
    # What was written continues in tf-keras as the file does that was read.
    tool.ok("convert", tmp_path / "m.h5", tmp_path / "written.h5")
    results = [stored.original(lambda: trained(path, x, y), files=[path]) for path in (tmp_path / "m.h5", tmp_path / "written.h5")]
    # One of the two may have been computed before, on another CPU.
    for ours, theirs in zip(*results, strict=True):
        tool.assert_close(ours, theirs, 1e-5, f"{ids(case)}, converted", atol=1e-6)

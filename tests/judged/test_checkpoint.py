"""TensorFlow checkpoints of models and optimizers: ours restored by tf.train.Checkpoint, TensorFlow's restored by us."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

import checkpoint_scripts as scripts
import lockstep_tool as tool

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

PROBE = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "checkpoint_probe"
STRATEGIES = ["default", "mirrored:2"]


def probe(*args, check=True):
    done = subprocess.run([str(PROBE), *map(str, args)], capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip() if check else done


def sequential():
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(6, activation="relu"), keras.layers.BatchNormalization(),
                             keras.layers.Dropout(0.5, seed=7), keras.layers.Dense(3)])


def functional():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = keras.layers.Dense(4, name="shared")
    inner = keras.Sequential([keras.Input((8,)), keras.layers.Dense(5), keras.layers.LayerNormalization()], name="inner")
    x = keras.layers.Concatenate()([shared(a), shared(b)])
    return keras.Model([a, b], keras.layers.Dense(2)(inner(x)))


def image():
    return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(3, 3), keras.layers.MaxPooling2D(),
                             keras.layers.Flatten(), keras.layers.Dense(4)])


def recurrent():
    return keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(10, 3), keras.layers.LSTM(4, seed=3),
                             keras.layers.Dense(1)])


MODELS = {f.__name__: f for f in (sequential, functional, image, recurrent)}
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "schedule": lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)),
    "ema": lambda: keras.optimizers.Adam(0.01, use_ema=True),
    "accumulation": lambda: keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(0.1),
    "adamax": lambda: keras.optimizers.Adamax(0.1),
    "nadam": lambda: keras.optimizers.Nadam(0.1),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "lion": lambda: keras.optimizers.Lion(0.1),
    "adafactor": lambda: keras.optimizers.Adafactor(0.1),
    "muon": lambda: keras.optimizers.Muon(0.1, use_ema=True),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)),
}


def randomize(model, seed):
    rng = np.random.default_rng(seed)
    for v in [*model.variables, *model.optimizer.variables]:
        if "float" in v.dtype:
            v.assign(rng.random(v.shape) + 0.1)
    model.optimizer.variables[0].assign(17)


def made(kind, optimizer, seed):
    model = MODELS[kind]()
    model.compile(OPTIMIZERS[optimizer](), "mse")
    model.optimizer.build(model.trainable_variables)
    randomize(model, seed)
    return model


def state(model):
    return [np.asarray(v) for v in [*model.weights, *model.optimizer.variables]]


def assert_same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        np.testing.assert_array_equal(x, y)


CASES = [("sequential", o) for o in OPTIMIZERS] + [(m, "adam") for m in MODELS if m != "sequential"]


@pytest.mark.quick(9)
@pytest.mark.parametrize("kind,optimizer", CASES)
def test_ours_restored_by_tensorflow(tmp_path, kind, optimizer):
    model = made(kind, optimizer, 1)
    model.save(tmp_path / "m.keras")
    files = []
    for strategy in STRATEGIES:
        path = probe("save", tmp_path / "m.keras", tmp_path / strategy / "ckpt", strategy)
        assert path == str(tmp_path / strategy / "ckpt-1") == tf.train.latest_checkpoint(str(tmp_path / strategy))
        other = made(kind, optimizer, 2)
        status = tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
        status.assert_existing_objects_matched()
        status.assert_consumed()
        assert_same(state(model), state(other))
        files.append([pathlib.Path(path + end).read_bytes() for end in (".index", ".data-00000-of-00001")])
    assert files[0] == files[1]


@pytest.mark.quick(18)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind,optimizer", CASES)
def test_tensorflows_restored_by_us(tmp_path, kind, optimizer, strategy):
    model = made(kind, optimizer, 3)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(tmp_path / "ckpt"))
    made(kind, optimizer, 4).save(tmp_path / "m.keras")
    probe("restore", tmp_path / "m.keras", path, tmp_path / "out.keras", strategy, "consumed")
    assert_same(state(model), state(keras.models.load_model(tmp_path / "out.keras")))


@pytest.mark.parametrize("kind", MODELS)
def test_an_optimizer_that_is_not_built_yet(tmp_path, kind):
    model = made(kind, "adam", 5)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(tmp_path / "ckpt"))
    made(kind, "adam", 6).save(tmp_path / "m.keras")
    probe("restore_unbuilt", tmp_path / "m.keras", path, tmp_path / "out.keras", "default", "matched")
    assert_same(state(model), state(keras.models.load_model(tmp_path / "out.keras")))


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_as_root(tmp_path, kind):
    model = made(kind, "adam", 7)
    model.save(tmp_path / "m.keras")
    path = probe("root", tmp_path / "m.keras", tmp_path / "ours", "default")
    other = made(kind, "adam", 8)
    tf.train.Checkpoint(other).restore(path).assert_consumed()
    assert_same(state(model), state(other))
    path = tf.train.Checkpoint(model).save(str(tmp_path / "theirs"))
    other.save(tmp_path / "other.keras")
    made(kind, "adam", 9).save(tmp_path / "m.keras")
    probe("restore_root", tmp_path / "m.keras", path, tmp_path / "out.keras", "default", "consumed")
    assert_same(state(model), state(keras.models.load_model(tmp_path / "out.keras")))


@pytest.mark.parametrize("kind", MODELS)
def test_one_file_for_every_reader(tmp_path, kind):
    model = made(kind, "adam", 10)
    model.save(tmp_path / "m.keras")
    path = probe("write", tmp_path / "m.keras", tmp_path / "all", "default")
    a, b = made(kind, "adam", 11), made(kind, "adam", 12)
    tf.train.Checkpoint(model=a, optimizer=a.optimizer).restore(path).assert_consumed()
    tf.train.Checkpoint(b).restore(path).assert_consumed()
    assert_same(state(model), state(a))
    assert_same(state(model), state(b))
    made(kind, "adam", 13).save(tmp_path / "n.keras")
    said = probe("read", tmp_path / "n.keras", path, tmp_path / "out.keras", "default", "consumed")
    assert said == f"restored {len(model.weights) + len(model.optimizer.variables)}, missing 0, unused 0"
    assert_same(state(model), state(keras.models.load_model(tmp_path / "out.keras")))


@pytest.mark.parametrize("optimizer", ["adafactor", "muon", "ema", "loss_scale"])
def test_converted_optimizers(tmp_path, optimizer):
    model = made("sequential", optimizer, 24)
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "out.ckpt")
    other = made("sequential", optimizer, 25)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(str(tmp_path / "out.ckpt")).assert_consumed()
    assert_same(state(keras.models.load_model(tmp_path / "m.keras")), state(other))


def test_checkpoints_in_checkpoints(tmp_path):
    model = made("functional", "adam", 26)
    inner = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = tf.train.Checkpoint(step=tf.Variable(3), training=tf.train.Checkpoint(state=inner)).save(str(tmp_path / "ckpt"))
    made("functional", "adam", 27).save(tmp_path / "m.keras")
    done = tool.run("convert", tmp_path / "m.keras", tmp_path / "out.keras", "--weights", path, "--strict", "optimizer")
    assert done.code == 0 and "missing 0, unused 1; unused: step" in done.err, str(done)
    assert_same(state(model), state(keras.models.load_model(tmp_path / "out.keras")))


def stateful(kind, seed):
    cells = [keras.layers.GRUCell(2), keras.layers.LSTMCell(3)]
    layers = [keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True, stateful=True)),
              keras.layers.RNN(cells, return_sequences=True, stateful=True), keras.layers.SimpleRNN(2, stateful=True)]
    model = keras.Sequential([keras.Input((5, 3), batch_size=4), *layers])
    if kind != "recurrent":
        layers = [keras.layers.ConvLSTM1D(2, 2, stateful=True, data_format=kind)]
        model = keras.Sequential([keras.Input((3, 2, 5), batch_size=4), *layers])
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)  # without it Keras's checkpoints lack the weights of stacked cells
    rng = np.random.default_rng(seed)
    recurrent = [layers[0].forward_layer, layers[0].backward_layer, *layers[1:]] if kind == "recurrent" else layers
    values = [*model.weights, *keras.tree.flatten([layer.states for layer in recurrent])]
    for value in values:
        value.assign(rng.random(value.shape))
    return model, values


@pytest.mark.parametrize("kind", ["recurrent", "channels_last", "channels_first"])
def test_states_of_recurrent_layers(kind, tmp_path):
    """Keras's checkpoints contain them, its .keras files do not."""
    model, values = stateful(kind, 28)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(tmp_path / "theirs"))
    stateful(kind, 29)[0].save(tmp_path / "m.keras")
    assert "missing 0, unused 0" in probe("states", tmp_path / "m.keras", path, tmp_path / "ours")
    other, restored = stateful(kind, 30)
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(str(tmp_path / "ours")).assert_consumed()
    assert_same(values, restored)


def keras2_model(legacy):
    tfk = pytest.importorskip("tf_keras")
    model = tfk.Sequential([tfk.Input((8,)), tfk.layers.Dense(6, activation="relu"), tfk.layers.BatchNormalization(),
                            tfk.layers.Dropout(0.5), tfk.layers.Dense(3)])
    model.compile((tfk.optimizers.legacy if legacy else tfk.optimizers).Adam(0.01), "mse")
    rng = np.random.default_rng(14)
    model.fit(rng.random((16, 8)), rng.random((16, 3)), epochs=2, verbose=0)
    return model


@pytest.mark.parametrize("legacy", [False, True])
def test_checkpoints_of_keras2(tmp_path, legacy):
    model = keras2_model(legacy)
    model.save_weights(str(tmp_path / "weights"), save_format="tf")
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(tmp_path / "ckpt"))
    made("sequential", "adam", 15).save(tmp_path / "m.keras")
    for command, prefix in [("read", tmp_path / "weights"), ("read", path), ("restore", path)]:
        probe(command, tmp_path / "m.keras", prefix, tmp_path / "out.keras", "default", "partial")
        out = keras.models.load_model(tmp_path / "out.keras")
        assert_same([np.asarray(v) for v in model.weights], [np.asarray(v) for v in out.weights])
        assert int(out.optimizer.iterations) == int(model.optimizer.iterations)
        theirs = {tuple(np.ravel(v)) for v in model.optimizer.variables() if len(v.shape)} if legacy else \
                 {tuple(np.ravel(v)) for v in model.optimizer.variables if len(v.shape)}
        ours = {tuple(np.ravel(v)) for v in out.optimizer.variables if len(v.shape)}
        assert theirs == ours


def test_weights_of_checkpoints_on_the_command_line(tmp_path):
    model = made("sequential", "adam", 17)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer, extra=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))
    made("sequential", "adam", 18).save(tmp_path / "m.keras")
    out = tmp_path / "out.keras"
    done = tool.run("convert", tmp_path / "m.keras", out, "--weights", path, "--strict", "optimizer")
    assert done.code == 0 and "missing 0, unused 1; unused: extra" in done.err, str(done)
    assert_same(state(model), state(keras.models.load_model(out)))
    x = np.random.default_rng(19).random((4, 8), "float32")
    np.save(tmp_path / "x.npy", x)
    tool.ok("predict", tmp_path / "m.keras", "--weights", tmp_path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
    line = tool.refused("convert", tmp_path / "m.keras", tmp_path / "no.keras", "--weights", path, "--strict", "all", code=1)
    assert "values that the model does not use" in line and "unused: extra" in line
    keras.Sequential([keras.Input((8,)), keras.layers.Dense(6), keras.layers.Dense(6), keras.layers.Dense(3)]).save(tmp_path / "m.keras")
    tool.refused("convert", tmp_path / "m.keras", tmp_path / "no.keras", "--weights", path, code=1)
    assert not (tmp_path / "no.keras").exists()


def test_checkpoints_by_name(tmp_path):
    v1 = tf.compat.v1
    made("sequential", "adam", 17).save(tmp_path / "m.keras")
    model = keras.models.load_model(tmp_path / "m.keras")
    values = {w.path: w.numpy() for w in model.weights + model.optimizer.variables}
    path = str(tmp_path / "named" / "model.ckpt")
    tool.ok("convert", tmp_path / "m.keras", path, "--by-name")
    assert {name: tuple(shape) for name, shape in tf.train.list_variables(path)} == {name: x.shape for name, x in values.items()}
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.get_variable(f"v{i}", x.shape, x.dtype) for i, (name, x) in enumerate(values.items())}
        v1.train.Saver(variables).restore(session, path)
        for name, x in values.items():
            np.testing.assert_array_equal(session.run(variables[name]), x, name)
    randomize(model, 18)
    model.save(tmp_path / "other.keras")
    tool.ok("convert", tmp_path / "other.keras", tmp_path / "out.keras", "--weights", path, "--strict", "optimizer")
    out = keras.models.load_model(tmp_path / "out.keras")
    assert_same(list(values.values()), [np.asarray(w) for w in out.weights + out.optimizer.variables])
    assert "--by-name requires" in tool.refused("convert", tmp_path / "m.keras", tmp_path / "x.keras", "--by-name", code=2)


def test_names_of_another_model(tmp_path):
    made("sequential", "adam", 17).save(tmp_path / "m.keras")
    MODELS["sequential"]().save(tmp_path / "other.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "m.ckpt", "--by-name")
    line = tool.refused("convert", tmp_path / "other.keras", tmp_path / "no.keras", "--weights", tmp_path / "m.ckpt", code=1)
    assert "contains none of the weights" in line and "is similar to its" in line


def test_report_of_changed_values(tmp_path):
    v1 = tf.compat.v1
    MODELS["sequential"]().save(tmp_path / "m.keras")
    weights = keras.models.load_model(tmp_path / "m.keras").weights
    wide, single, renamed = [w.path for w in weights[:3]]
    stored = {w.path: w.numpy() + 1 for w in weights}
    stored[wide], stored[single] = stored[wide].astype("float64"), stored[single][None]
    stored[renamed + "s"] = stored.pop(renamed)
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.get_variable(f"v{i}", initializer=x) for i, (name, x) in enumerate(stored.items())}
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver(variables).save(session, str(tmp_path / "model"), global_step=7)
    done = tool.run("convert", tmp_path / "m.keras", tmp_path / "out.keras", "--weights", path, "--strict", "none")
    assert done.code == 0, str(done)
    for text in ("missing 1, unused 1, reshaped 1, converted 1", f"converted: {wide} from float64 to float32", f"reshaped: {single} from (1, ",
                 f"(variable '{renamed}'), similar to the unused {renamed}s"):
        assert text in done.err, str(done)
    for before, after in zip(weights, keras.models.load_model(tmp_path / "out.keras").weights, strict=True):
        np.testing.assert_allclose(after.numpy(), before.numpy() + (before.path != renamed), rtol=1e-6)
    assert renamed in tool.refused("convert", tmp_path / "m.keras", tmp_path / "no.keras", "--weights", path, code=1)


def two_keras(k):
    layers = k.layers
    image, sequence = k.Input((4, 4, 2)), k.Input((5, 3))
    x = layers.DepthwiseConv2D(2)(layers.Conv2D(3, 2)(image))
    y = layers.RNN([layers.SimpleRNNCell(2), layers.GRUCell(3)])(sequence)
    outputs = layers.Concatenate()([layers.GlobalAveragePooling2D()(x), layers.BatchNormalization()(y)])
    return k.Model([image, sequence], layers.Dense(2)(outputs))


@pytest.mark.parametrize("legacy,optimizer", [(True, "Adam"), (True, "Nadam"), (False, "Adam"), (False, "SGD"), (False, "Lion"),
                                              (False, "Adafactor")])
def test_keras2_exchanges_optimizers(tmp_path, legacy, optimizer):
    tfk = pytest.importorskip("tf_keras")
    options = {"momentum": 0.9} if optimizer == "SGD" else {}

    def keras2(seed):
        model = two_keras(tfk)
        model.compile(getattr(tfk.optimizers.legacy if legacy else tfk.optimizers, optimizer)(0.1, **options), "mse")
        (model.optimizer._create_all_weights if legacy else model.optimizer.build)(model.trainable_variables)
        for v in keras2_state(model):
            if v.dtype == tf.float32:
                v.assign(np.random.default_rng(seed).random(v.shape) + 0.1)
        keras2_state(model)[len(model.weights)].assign(seed)
        return model

    def keras2_state(model):
        return [*model.weights, *(model.optimizer.variables() if legacy else model.optimizer.variables)]

    theirs = keras2(20)
    theirs.save_weights(str(tmp_path / "theirs"), save_format="tf")
    ours = two_keras(keras)
    ours.compile(getattr(keras.optimizers, optimizer)(0.1, **options), "mse")
    ours.optimizer.build(ours.trainable_variables)
    ours.save(tmp_path / "m.keras")
    probe("read", tmp_path / "m.keras", tmp_path / "theirs", tmp_path / "out.keras", "default", "partial")
    restored = keras.models.load_model(tmp_path / "out.keras")
    assert int(restored.optimizer.iterations) == 20
    slots = [{tuple(np.ravel(v)) for v in variables if len(v.shape)} for variables in
             (keras2_state(theirs)[len(theirs.weights):], restored.optimizer.variables)]
    assert slots[0] == slots[1]
    # Keras 2 and 3 find the state of Adafactor by different positions.
    source = tmp_path / ("theirs.h5" if optimizer == "Adafactor" else "out.keras")
    if optimizer == "Adafactor":
        theirs.save(source)
    probe("write", source, tmp_path / "ours", "default")
    again = keras2(21)
    again.load_weights(str(tmp_path / "ours"))
    assert_same(*([np.asarray(v) for v in (model.weights if legacy else keras2_state(model))] for model in (theirs, again)))


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop", "Nadam"])
def test_optimizers_of_keras2_get_their_slots_back(tmp_path, optimizer):
    """What was read from a file of tf-keras with a legacy optimizer is restored into one."""
    tfk = pytest.importorskip("tf_keras")
    options = {"Adam": {"amsgrad": True}, "Nadam": {}}.get(optimizer, {"momentum": .9})

    def made_of_keras2():
        model = tfk.Sequential([tfk.Input((4,)), tfk.layers.Dense(3), tfk.layers.Dense(2)])
        model.compile(getattr(tfk.optimizers.legacy, optimizer)(.1, **options), "mse")
        rng = np.random.default_rng(23)
        model.fit(rng.random((8, 4)), rng.random((8, 2)), epochs=2, verbose=0)
        return model

    model, again = made_of_keras2(), made_of_keras2()
    model.save(tmp_path / "m.h5")
    path = probe("write", tmp_path / "m.h5", tmp_path / "ours", "default")
    for variable in again.optimizer.variables()[1:]:
        variable.assign(variable * 0 + 7)
    tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(path).expect_partial()
    assert int(again.optimizer.iterations) == 2
    assert_same(*([np.asarray(v) for v in [*m.weights, *m.optimizer.variables()]] for m in (model, again)))


@pytest.mark.parametrize("legacy,optimizer,scale", [(False, "Adam", "dynamic"), (False, "RMSprop", "fixed"), (True, "Adam", "dynamic"),
                                                    (True, "SGD", "fixed"), (True, "Nadam", "dynamic"), (True, "Nadam", None)])
def test_optimizers_of_keras2_are_complete(tmp_path, legacy, optimizer, scale):
    """What scales losses stands in the place of the optimizer within it, and numbers of optimizers are variables."""
    tfk = pytest.importorskip("tf_keras")
    family = tfk.optimizers.legacy if legacy else tfk.optimizers

    def made_of_keras2():
        options = {"decay": .1} if legacy and optimizer == "Adam" else {}
        rate = tfk.optimizers.schedules.ExponentialDecay(.1, 5, .5) if scale == "fixed" else .1
        chosen = getattr(family, optimizer)(rate, **options)
        if scale:
            scaling = {"dynamic": False} if scale == "fixed" else {"dynamic_growth_steps": 2}
            chosen = tfk.mixed_precision.LossScaleOptimizer(chosen, initial_scale=64., **scaling)
        model = tfk.Sequential([tfk.Input((4,)), tfk.layers.Dense(3), tfk.layers.Dense(2)])
        model.compile(chosen, "mse")
        return model

    def state(model):
        own = model.optimizer.variables
        scaling = [model.optimizer.loss_scale, model.optimizer.dynamic_counter] if scale == "dynamic" else []
        return [np.asarray(v) for v in [*model.weights, *(own() if callable(own) else own), *scaling]]

    def saved(model, prefix):
        return tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(prefix))

    model = made_of_keras2()
    model.save(tmp_path / "fresh.h5")
    rng = np.random.default_rng(31)
    model.fit(rng.random((8, 4)), rng.random((8, 2)), epochs=3, verbose=0)
    path = saved(model, tmp_path / "theirs")
    done = tool.run("convert", tmp_path / "fresh.h5", tmp_path / "ours.ckpt", "--weights", path, "--strict", "all")
    assert done.code == 0 and "is kept" not in done.err, str(done)
    again = made_of_keras2()
    again.fit(rng.random((8, 4)), rng.random((8, 2)), epochs=1, verbose=0)
    tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(str(tmp_path / "ours.ckpt")).assert_existing_objects_matched()
    assert_same(state(model), state(again))


@pytest.mark.quick(4)
@pytest.mark.parametrize(("optimizer", "own", "stored"), [
    ("Adam", {}, {"beta_1": .8, "beta_2": .97}), ("Adam", {"decay": .1}, {"learning_rate": .03, "beta_1": .5}),
    ("SGD", {"momentum": .9}, {"momentum": .5, "learning_rate": .02}), ("RMSprop", {"momentum": .9}, {"momentum": .4}),
    ("RMSprop", {"centered": True}, {"rho": .7}), ("Adadelta", {}, {"rho": .7}), ("Adamax", {}, {"beta_1": .7, "beta_2": .8}),
    ("Nadam", {}, {"beta_1": .7, "beta_2": .8}), ("Adagrad", {"decay": .2}, {"learning_rate": .02}),
    ("Ftrl", {}, {"learning_rate_power": -.7, "beta": .2, "l1_regularization_strength": .01, "l2_regularization_strength": .02})])
def test_numbers_of_an_optimizer_of_keras2_are_restored(optimizer, own, stored, tmp_path):
    tfk = pytest.importorskip("tf_keras")
    rng = np.random.default_rng(7)
    x, y = rng.random((8, 4)), rng.random((8, 3))

    def made(options):
        model = tfk.Sequential([tfk.Input((4,)), tfk.layers.Dense(3, kernel_initializer="ones")])
        model.compile(getattr(tfk.optimizers.legacy, optimizer)(**{"learning_rate": .1} | options), "mse")
        model.fit(x, y, verbose=0)
        return model

    def continued(model):
        model.fit(x, y, epochs=3, shuffle=False, verbose=0)
        numbers = {k: v for k, v in model.optimizer.get_config().items() if isinstance(v, (float, np.floating))}
        return numbers, [np.asarray(v) for v in [*model.weights, *model.optimizer.variables()]]

    made(own).save(tmp_path / "fresh.h5")
    made(own | stored).save_weights(str(tmp_path / "theirs"), save_format="tf")
    tool.ok("convert", tmp_path / "fresh.h5", tmp_path / "out.h5", "--weights", tmp_path / "theirs", "--strict", "model")
    theirs = tfk.models.load_model(tmp_path / "fresh.h5")
    theirs.load_weights(str(tmp_path / "theirs")).expect_partial()
    config, expected = continued(theirs)
    again, found = continued(tfk.models.load_model(tmp_path / "out.h5"))
    assert again == pytest.approx(config, rel=1e-6)
    for a, b in zip(found, expected, strict=True):
        tool.assert_close(a, b, 1e-5)



def test_managers_take_turns(tmp_path):
    step = tf.Variable(0, dtype=tf.int64)
    theirs = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), str(tmp_path), max_to_keep=3)
    for _ in range(2):
        step.assign_add(1)
        theirs.save()
    kept = probe("manage", tmp_path, 2, 3).splitlines()
    assert kept == [str(tmp_path / f"ckpt-{i}") for i in (2, 3, 4)]
    again = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), str(tmp_path), max_to_keep=3)
    assert again.checkpoints == kept
    assert again.restore_or_initialize() == kept[-1]
    assert int(step) == 4
    assert not (tmp_path / "ckpt-1.index").exists()


def test_states_of_iterators_on_the_command_line(tmp_path):
    iterator = iter(tf.data.Dataset.range(20).shuffle(5, seed=1).batch(2))
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator, step=tf.Variable(3)).write(str(tmp_path / "ckpt"))
    assert "whole" in tool.ok("verify", path)
    assert "iterator/.ATTRIBUTES/ITERATOR_STATE" in tool.ok("inspect", path)
    assert "ITERATOR_STATE" in tool.ok("convert", path, tmp_path / "w.safetensors").splitlines()[1]
    assert "no difference" in tool.ok("diff", path, path)
    data = pathlib.Path(path + ".data-00000-of-00001")
    whole = data.read_bytes()
    for at in range(0, len(whole), 7):
        data.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        tool.refused("verify", path, code=3)


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    probe("manage", tmp_path, 3, 3)
    data = tmp_path / "ckpt-3.data-00000-of-00001"
    data.write_bytes(bytes(b ^ 255 for b in data.read_bytes()))
    done = subprocess.run([str(PROBE), "resume", str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == [str(tmp_path / "ckpt-2"), "2"]
    assert "ckpt-3" in done.stdout + done.stderr


def test_mismatches_are_rejected(tmp_path):
    model = made("sequential", "adam", 17)
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "ckpt"))
    made("image", "adam", 18).save(tmp_path / "m.keras")
    done = probe("restore", tmp_path / "m.keras", path, tmp_path / "out.keras", "default", "consumed", check=False)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) >= 1
    done = probe("restore", tmp_path / "m.keras", tmp_path / "none", tmp_path / "out.keras", "default", "consumed", check=False)
    assert done.returncode == 1 and done.stderr.startswith("NotFound: ")


class Encoder(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [tf.Variable(tf.reshape(tf.range(6.), [3, 2]), name="w"), tf.Variable([.5, -1.], name="b")]
        self.more = {"scale": tf.Variable([2.], name="scale", trainable=False)}
        self.kept = tf.Variable([9.])  # no function uses it

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def encode(self, x):
        return (x @ self.layers[0] + self.layers[1]) * self.more["scale"]


def test_objects_below_the_root_of_a_saved_model(tmp_path):
    root = tf.Module()
    root.encoder = Encoder()
    root.other = tf.Variable(3.)
    tf.saved_model.save(root, str(tmp_path / "m"))
    expected = np.ravel(root.encoder.encode(tf.ones([2, 3])))
    lines = probe("loaded", tmp_path / "m", "encoder", "encode", tmp_path / "ckpt").splitlines()
    assert set(lines[0].split()) == {"layers", "more", "kept"}
    np.testing.assert_allclose([float(v) for v in lines[1].split()], expected)
    assert sorted(lines[2:6]) == ["Variable true 9", "b true 0.5 -1", "scale false 2", "w true 0 1 2 3 4 5"]
    assert lines[6] == str(tmp_path / "ckpt-1") and lines[11] == "false"
    assert sorted(lines[7:11]) == sorted(["10", "1.5 0", "3", "1 2 3 4 5 6"])
    again = tf.saved_model.load(str(tmp_path / "m"))
    tf.train.Checkpoint(model=again).restore(lines[6]).assert_existing_objects_matched().assert_consumed()
    np.testing.assert_array_equal(again.encoder.layers[1], [1.5, 0])
    assert float(again.other) == 3 and again.encoder.kept.numpy() == [10]


ERRORS = {"AssertionError": "FailedPrecondition", "ValueError": "InvalidArgument", "InvalidArgumentError": "InvalidArgument",
          "NotFoundError": "NotFound", "KeyError": "KeyError", "UnimplementedError": "InvalidArgument"}


def run_by_us(tmp_path, all_scripts):
    (tmp_path / "scripts.json").write_text(json.dumps(all_scripts))
    done = subprocess.run([str(PROBE.with_name("checkpoint_script_probe")), str(tmp_path / "scripts.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(script, theirs, ours):
    for action, expected, found in zip(script, theirs, ours, strict=True):
        if not isinstance(expected, dict) or not isinstance(found, dict):
            assert expected == found, action
        else:
            kind = "NotFound" if "not a valid checkpoint" in expected["text"] else ERRORS[expected["error"]]
            assert found["error"] == kind, (action, expected, found)
            if action["do"].endswith("restore"):
                return  # TensorFlow has restored a part, we nothing


@pytest.mark.parametrize("kind", ["pair", "deferred", "by_names", "with_tables"])
def test_random_objects(kind, tmp_path):
    pairs = scripts.scripts(6, 50, getattr(scripts, kind))
    for side in ("theirs", "ours"):
        (tmp_path / side).mkdir()
    theirs = [scripts.run(scripts.in_folder(save, tmp_path / "theirs")) for save, _ in pairs]
    ours = run_by_us(tmp_path, [scripts.in_folder(save, tmp_path / "ours") for save, _ in pairs])
    for (save, _), expected, found in zip(pairs, theirs, ours):
        compare(save, expected, json.loads(json.dumps(found).replace(str(tmp_path / "ours"), str(tmp_path / "theirs"))))
    for side in ("theirs", "ours"):
        restores = [scripts.in_folder(restore, tmp_path / side) for _, restore in pairs]
        for restore, found in zip(restores, run_by_us(tmp_path, restores)):
            compare(restore, scripts.run(restore), found)


def test_random_managers(tmp_path):
    lives = scripts.scripts(3, 20, scripts.managed)
    theirs = [scripts.run(scripts.in_folder(life, tmp_path / "theirs")) for life in lives]
    ours = run_by_us(tmp_path, [scripts.in_folder(life, tmp_path / "ours") for life in lives])
    for life, expected, found in zip(lives, theirs, ours):
        compare(life, expected, json.loads(json.dumps(found).replace(str(tmp_path / "ours"), str(tmp_path / "theirs"))))
    for number in range(len(lives)):
        files = [sorted(path.name for path in (tmp_path / side / str(number)).glob("*")) for side in ("theirs", "ours")]
        assert files[0] == files[1]

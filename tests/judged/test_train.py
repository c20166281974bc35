"""Training from the same weights: lockstep's `fit` against Keras's, for each optimizer, loss, model and argument; then Keras
loads the compiled model that lockstep saved, and continues; and the reverse."""

import pathlib

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool
import train_table as table

M = keras.metrics
ROWS = 29  # with batch 8: three whole batches and one of five


def prepare(tmp, model_name, loss_name, optimizer, rng, rows=ROWS, objects=False, **compile_options):
    """A compiled Keras model with random weights, saved; its data. `objects`: Keras reads an .h5 compiled only so."""
    loss, activation, kind, metrics = table.loss_of(loss_name)
    if objects:
        loss, metrics = keras.losses.MeanSquaredError(), [keras.metrics.MeanAbsoluteError()]
    model = table.MODELS[model_name](activation)
    tool.randomise(model, rng, 0.3)
    model.compile(optimizer=optimizer, loss=loss, metrics=metrics, **compile_options)
    x, y = table.inputs(rng, model, rows), table.targets(rng, kind, rows)
    if isinstance(optimizer, keras.optimizers.ScheduleFreeAdamW):
        optimizer.build(model.trainable_variables)  # its iterates start as the weights; in a file without them, as those before loading
    model.save(tmp / "start.keras")
    # What Keras reads back is the judge: its config of Huber, for one, forgets delta.
    return keras.models.load_model(tmp / "start.keras"), x, y


def variables(model):
    found = {v.path if hasattr(v, "path") else v.name: np.asarray(v) for v in model.weights}
    for i, v in enumerate(model.optimizer.variables):
        found[f"optimizer {i} {v.path}"] = np.asarray(v)
    return found


def compare(ours, theirs, rtol=1e-4, what=""):
    """All weights and optimizer variables; those that are noise around zero are compared on the model's scale."""
    a, b = variables(ours), variables(theirs)
    assert len(a) == len(b), f"{what}: {len(a)} variables, Keras has {len(b)}"
    for (name, x), (_, y) in zip(a.items(), b.items()):
        tool.assert_close(x, y, rtol, f"{what} {name}", atol=2e-6)


def fit_ours(tmp, start, x, y, *options, epochs=2, batch_size=8, save="ours.keras", sample_weight=None, shuffle=False):
    data = {"x": x, "y": y}
    if sample_weight is not None:
        data["sample_weight"] = sample_weight
    np.savez(tmp / "d.npz", **data)
    tool.ok("fit", tmp / start, "--data", tmp / "d.npz", "--epochs", epochs, "--batch-size", batch_size,
            *([] if shuffle else ["--no-shuffle"]), "--save", tmp / save, "--history", tmp / "h.json", *options)
    return tool.load_history(tmp / "h.json")


def judge(tmp, model, x, y, *options, rtol=1e-4, epochs=2, batch_size=8, sample_weight=None, **fit):
    history = fit_ours(tmp, "start.keras", x, y, *options, epochs=epochs, batch_size=batch_size, sample_weight=sample_weight)
    theirs = answers.fit(model, x, y, epochs=epochs, batch_size=batch_size, sample_weight=sample_weight, **fit)
    loaded = keras.models.load_model(tmp / "ours.keras")
    compare(loaded, model, rtol, "after fit:")
    tool.assert_history(history, theirs, rtol)
    return loaded


def optimizer_cases():
    cases = list(table.OPTIMIZERS) + list(table.MORE_OPTIMIZERS)
    return [pytest.param(o, l, id=f"{o}-{l}") for o in cases for l in ("mse", "scce-logits")]


@pytest.mark.quick(50)
@pytest.mark.parametrize("optimizer, loss", optimizer_cases())
def test_optimizer(optimizer, loss, tmp_path, request):
    if not tool.CONFORMANCE and (loss == "mse") != (len(optimizer) % 2 == 0):
        loss = "cce"  # the quick run sees each optimizer with two losses of three
    make = {**table.OPTIMIZERS, **table.MORE_OPTIMIZERS}[optimizer]
    model, x, y = prepare(tmp_path, "dense", loss, make(), tool.generator(request.node.name))
    judge(tmp_path, model, x, y, epochs=3)


@pytest.mark.quick(15)
@pytest.mark.parametrize("loss", list(table.LOSSES))
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "adamw"] if tool.CONFORMANCE else ["adam"])
def test_loss(loss, optimizer, tmp_path, request):
    model, x, y = prepare(tmp_path, "dense", loss, table.OPTIMIZERS[optimizer](), tool.generator(request.node.name))
    judge(tmp_path, model, x, y)


@pytest.mark.quick(10)
@pytest.mark.parametrize("name", list(table.MODELS))
@pytest.mark.parametrize("optimizer", list(table.OPTIMIZERS) if tool.CONFORMANCE else ["sgd-momentum", "adam"])
def test_model(name, optimizer, tmp_path, request):
    if (name, optimizer) == ("embedding", "sgd-loss-scale"):
        pytest.skip("Keras itself refuses: it does not scale the gradients of rows")
    loss = "scce" if name in ("cnn", "embedding") else "mse"
    model, x, y = prepare(tmp_path, name, loss, table.OPTIMIZERS[optimizer](), tool.generator(request.node.name))
    judge(tmp_path, model, x, y)


@pytest.mark.parametrize("batch_size, rows", [(8, 29), (1, 5), (7, 7), (32, 20), (4, 17)])
def test_batch_size(batch_size, rows, tmp_path, request):
    model, x, y = prepare(tmp_path, "functional", "mse", table.OPTIMIZERS["adam"](), tool.generator(request.node.name), rows)
    judge(tmp_path, model, x, y, batch_size=batch_size)


@pytest.mark.parametrize("name", ["sample_weight", "sample_weight-weighted_metrics", "class_weight", "class_weight-onehot"])
def test_weights_of_samples(name, tmp_path, request):
    rng = tool.generator(request.node.name)
    loss = "cce" if "onehot" in name else "scce-logits"
    compile_options = {"weighted_metrics": ["accuracy"]} if "weighted_metrics" in name else {}
    model, x, y = prepare(tmp_path, "dense", loss, table.OPTIMIZERS["adam"](), rng, **compile_options)
    if "sample_weight" in name:
        judge(tmp_path, model, x, y, sample_weight=rng.uniform(0, 2, ROWS).astype("float32"))
    else:
        judge(tmp_path, model, x, y, "--class-weight", "0:1.5,2:0.25", class_weight={0: 1.5, 2: 0.25})


@pytest.mark.parametrize("loss, shape, of_targets, metrics", [
    ("hinge", (1,), (), ["kl_divergence", "poisson"]), (keras.losses.SquaredHinge(), (4, 1), (4,), None),
    (keras.losses.Dice(axis=(1, 2)), (2, 2, 1), (2, 2), None), ("hinge", (4,), (4, 1), None),
    (keras.losses.CategoricalCrossentropy(axis=1, label_smoothing=0.3), (4, 3), (4, 3), None)], ids=range(5))
def test_shapes_of_targets(loss, shape, of_targets, metrics, tmp_path, request):
    """Losses give targets the rank of the predictions, metrics do not; labels are smoothed over the last axis."""
    rng = tool.generator(request.node.name)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(int(np.prod(shape)), "sigmoid"), keras.layers.Reshape(shape)])
    tool.randomise(model, rng)
    model.compile("sgd", loss, metrics=metrics)
    model.save(tmp_path / "start.keras")
    x, y = rng.normal(0, 1, (12, 6)).astype("float32"), rng.integers(0, 2, (12, *of_targets)).astype("uint8")
    sample_weight = None if len(shape) == len(of_targets) else rng.uniform(0, 2, 12).astype("float32")
    judge(tmp_path, model, x, y, sample_weight=sample_weight, batch_size=4)


@pytest.mark.parametrize(("steps", "strategy"), [(None, "default"), (3, "default"), (None, "mirrored:2")])
def test_a_loss_without_reduction_beside_others(steps, strategy, tmp_path, request):
    """Keras adds the others' losses to each number of it, and weighs it by the rows of each batch."""
    rng = tool.generator(request.node.name)
    inputs = keras.Input((steps, 6) if steps else (6,))
    model = keras.Model(inputs, {name: keras.layers.Dense(2, name=name)(inputs) for name in "abc"})
    tool.randomise(model, rng)
    model.compile("sgd", {"a": "mae", "b": keras.losses.MeanSquaredError(reduction="none"), "c": keras.losses.Huber(reduction="sum")},
                  loss_weights={"a": 0.5, "b": 2.0, "c": 0.3})
    model.save(tmp_path / "start.keras")
    shape = (13, steps) if steps else (13,)
    x, y = rng.normal(0, 1, (*shape, 6)).astype("float32"), {name: rng.normal(0, 1, (*shape, 2)).astype("float32") for name in "abc"}
    tool.save_npz(tmp_path / "d.npz", x=x, **{f"y_{name}": values for name, values in y.items()})
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
            "--strategy", strategy, "--save", tmp_path / "ours.keras", "--history", tmp_path / "h.json")
    theirs = answers.fit(model, x, y, epochs=2, batch_size=8)
    tool.assert_history(tool.load_history(tmp_path / "h.json"), theirs)
    compare(keras.models.load_model(tmp_path / "ours.keras"), model, what="after fit:")


@pytest.mark.parametrize("shape, axis", [((3,), -1), ((5, 3), -1), ((5, 3), 1), ((2, 3, 4), 2)], ids=range(4))
def test_targets_that_do_not_add_up_to_one(shape, axis, tmp_path, request):
    """Where the logits are known, the gradient is softmax - targets, also for rows of zeros."""
    rng = tool.generator(request.node.name)
    x = keras.Input((*shape[:-1], 6))
    model = keras.Model(x, keras.layers.Softmax(axis=axis)(keras.layers.Dense(shape[-1])(x)))
    tool.randomise(model, rng)
    model.compile("sgd", keras.losses.CategoricalCrossentropy(axis=axis))
    model.save(tmp_path / "start.keras")
    values, targets = rng.normal(0, 1, (9, *shape[:-1], 6)).astype("float32"), rng.integers(0, 2, (9, *shape)).astype("float32")
    judge(tmp_path, model, values, targets, batch_size=4)


def test_logits_of_an_ignored_class(tmp_path, request):
    """Keras takes the logits before a softmax, except where it replaces the predictions of an ignored class."""
    rng = tool.generator(request.node.name)
    x = keras.Input((5, 3))
    model = keras.Model(x, keras.layers.Dense(4, "softmax")(keras.layers.Masking()(x)))
    tool.randomise(model, rng)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1))
    model.save(tmp_path / "start.keras")
    values = rng.normal(0, 1, (9, 5, 3)).astype("float32")
    values[rng.random((9, 5)) < 0.4] = 0
    judge(tmp_path, model, values, rng.integers(0, 4, (9, 5)).astype("int32"), batch_size=4)


def test_validation_data(tmp_path, request):
    rng = tool.generator(request.node.name)
    model, x, y = prepare(tmp_path, "cnn", "scce", table.OPTIMIZERS["sgd-momentum"](), rng)
    vx, vy = table.inputs(rng, model, 13), table.targets(rng, "class", 13)
    np.savez(tmp_path / "v.npz", x=vx, y=vy)
    judge(tmp_path, model, x, y, "--validation-data", tmp_path / "v.npz", validation_data=(vx, vy))


# Four batches of training data and two of validation data, or four of batch size 4.
@pytest.mark.parametrize("options", [
    dict(steps_per_epoch=4), dict(steps_per_epoch=3, validation_steps=1), dict(steps_per_epoch=1, validation_freq=2),
    dict(validation_steps=3, validation_batch_size=4), dict(steps_per_epoch=2, validation_steps=2, validation_freq=3)
], ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()))
def test_steps_of_epochs_and_of_validations(options, tmp_path, request):
    rng = tool.generator(request.node.name)
    model, x, y = prepare(tmp_path, "dense", "scce", table.OPTIMIZERS["sgd-momentum"](), rng)
    vx, vy = table.inputs(rng, model, 13), table.targets(rng, "class", 13)
    np.savez(tmp_path / "v.npz", x=vx, y=vy)
    given = [part for name, value in options.items() for part in ("--" + name.replace("_", "-"), value)]
    judge(tmp_path, model, x, y, "--validation-data", tmp_path / "v.npz", *given, epochs=5, validation_data=(vx, vy), **options)


def two_headed(rng):
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    h = keras.layers.Concatenate()([a, b])
    first = keras.layers.Dense(2, name="first")(keras.layers.Dense(5, activation="relu")(h))
    second = keras.layers.Dense(3, activation="softmax", name="second")(h)
    model = keras.Model([a, b], [first, second])
    tool.randomise(model, rng)
    return model


# "names": Keras gives the weights of losses in a list in the order of their names, which is not that of the outputs.
@pytest.mark.parametrize("form", ["list", "dict", "one", "names"])
def test_several_outputs(form, tmp_path, request):
    rng = tool.generator(request.node.name)
    model = two_headed(rng)
    if form == "names":
        model = keras.Model(model.inputs, model.outputs[::-1])
    loss = {"list": ["mse", "categorical_crossentropy"], "dict": {"second": "categorical_crossentropy", "first": "mae"},
            "one": "mse", "names": ["categorical_crossentropy", "mse"]}[form]
    options = {"list": dict(loss_weights=[0.5, 2.0], metrics=[["mae"], ["accuracy"]]),
               "dict": dict(metrics={"second": ["accuracy"]}), "one": {},
               "names": dict(loss_weights={"second": 0.3, "first": 2.0})}[form]
    model.compile(optimizer=table.OPTIMIZERS["adam"](), loss=loss, **options)
    model.save(tmp_path / "start.keras")
    a, b = rng.normal(0, 1, (ROWS, 4)).astype("float32"), rng.normal(0, 1, (ROWS, 3)).astype("float32")
    y1, y2 = table.targets(rng, "real", ROWS, 2), table.targets(rng, "onehot", ROWS, 3)
    np.savez(tmp_path / "d.npz", x_a=a, x_b=b, y_first=y1, y_second=y2)
    targets = [y2, y1] if form == "names" else [y1, y2]
    tool.ok("fit", tmp_path / "start.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 8, "--no-shuffle",
            "--save", tmp_path / "ours.keras", "--history", tmp_path / "h.json")
    theirs = answers.fit(model, [a, b], targets, epochs=2, batch_size=8)
    compare(keras.models.load_model(tmp_path / "ours.keras"), model)
    tool.assert_history(tool.load_history(tmp_path / "h.json"), theirs)
    out = tool.ok("evaluate", tmp_path / "ours.keras", "--data", tmp_path / "d.npz", "--batch-size", 8, "--json")
    expected = answers.evaluate(model, [a, b], targets, batch_size=8)
    tool.assert_history({k: [v] for k, v in sorted(tool.json.loads(out).items())}, {k: [v] for k, v in sorted(expected.items())})


RESUMED = ["sgd", "sgd-momentum", "adam", "adamw-amsgrad", "rmsprop-centered", "adam-cosine", "sgd-accumulate", "adam-ema"]


@pytest.mark.quick(8)
@pytest.mark.parametrize("extension", [".keras", ".h5"])
@pytest.mark.parametrize("optimizer", RESUMED)
def test_keras_continues(optimizer, extension, tmp_path, request):
    """lockstep trains and saves; Keras loads it compiled, with the optimizer's state, and continues as if it had trained the model."""
    model, x, y = prepare(tmp_path, "functional", "mse", table.OPTIMIZERS[optimizer](), tool.generator(request.node.name),
                          objects=extension == ".h5")
    fit_ours(tmp_path, "start.keras", x, y, save="ours" + extension)
    answers.fit(model, x, y, epochs=2, batch_size=8)
    ours = keras.models.load_model(tmp_path / ("ours" + extension))
    assert ours.compiled and ours.optimizer is not None
    if extension == ".h5":  # Keras reads the state, but its optimizer then knows none of the variables and cannot continue
        model.save(tmp_path / "theirs.h5")
        return compare(ours, keras.models.load_model(tmp_path / "theirs.h5"))
    a = ours.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0)
    b = answers.fit(model, x, y, epochs=2, batch_size=8)
    compare(ours, model, 2e-4, "going on:")
    tool.assert_history(a.history, b, 2e-4)


@pytest.mark.quick(8)
@pytest.mark.parametrize("extension", [".keras", ".h5"])
@pytest.mark.parametrize("optimizer", RESUMED)
def test_lockstep_continues(optimizer, extension, tmp_path, request):
    """Keras trains and saves; lockstep continues with the optimizer's state."""
    model, x, y = prepare(tmp_path, "functional", "mse", table.OPTIMIZERS[optimizer](), tool.generator(request.node.name),
                          objects=extension == ".h5")
    answers.fit(model, x, y, epochs=2, batch_size=8)
    start = "trained" + extension
    model.save(tmp_path / start)
    if extension == ".keras":
        model = keras.models.load_model(tmp_path / start)
    history = fit_ours(tmp_path, start, x, y)
    theirs = answers.fit(model, x, y, epochs=2, batch_size=8)
    compare(keras.models.load_model(tmp_path / "ours.keras"), model, 2e-4, "going on:")
    tool.assert_history(history, theirs, 2e-4)


METRICS = ["accuracy", "mse", "mae", "AUC", "Precision", "Recall", "binary_accuracy", "RootMeanSquaredError", "cosine_similarity",
           "BinaryCrossentropy", "TruePositives", "hinge", "mape", "msle", "F1Score", "r2_score", "top_k_categorical_accuracy",
           M.CategoricalCrossentropy(axis=None, name="all", label_smoothing=None),
           M.PearsonCorrelation(axis=None), M.PearsonCorrelation(axis=[1, 0], name="axes"), M.ConcordanceCorrelation(axis=None)]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: getattr(metric, "name", metric))
def test_metric(metric, tmp_path, request):
    rng = tool.generator(request.node.name)
    model = table.dense_model("softmax" if metric in ("F1Score", "top_k_categorical_accuracy") else "sigmoid")
    kind = "onehot" if metric in ("F1Score", "top_k_categorical_accuracy") else "binary"
    tool.randomise(model, rng)
    try:
        model.compile(optimizer="sgd", loss="mse", metrics=[metric], weighted_metrics=["mae"])
    except ValueError as e:
        pytest.skip(str(e)[:80])
    model.save(tmp_path / "m.keras")
    x, y, w = table.inputs(rng, model, ROWS), table.targets(rng, kind, ROWS), rng.uniform(0, 2, ROWS).astype("float32")
    np.savez(tmp_path / "d.npz", x=x, y=y, sample_weight=w)
    ours = tool.json.loads(tool.ok("evaluate", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--batch-size", 8, "--json"))
    theirs = answers.evaluate(model, x, y, sample_weight=w, batch_size=8)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        assert np.allclose(ours[name], value, rtol=1e-4, atol=1e-6), f"{name}: {ours[name]}, Keras has {value}"


def test_overridden_compile(tmp_path, request):
    rng = tool.generator(request.node.name)
    model, x, y = prepare(tmp_path, "dense", "mse", "sgd", rng)
    history = fit_ours(tmp_path, "start.keras", x, y, "--optimizer", "adam", "--loss", "mae", "--metrics", "mse,mape")
    model.compile(optimizer="adam", loss="mae", metrics=["mse", "mape"])
    theirs = answers.fit(model, x, y, epochs=2, batch_size=8)
    compare(keras.models.load_model(tmp_path / "ours.keras"), model)
    tool.assert_history(history, theirs)
    assert pathlib.Path(tmp_path / "h.json").stat().st_size > 10

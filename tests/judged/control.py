"""Keras in the place of the tool (LOCKSTEP_BIN=control): the commands of the contract that the tables use, so that a table can
be checked against Keras itself. A row that fails here is wrong in the table.
"""

import argparse
import io
import json
import contextlib
import pathlib

import keras
import numpy as np

STEPS = ("steps-per-epoch", "validation-steps", "validation-batch-size", "validation-freq")


def load(path):
    return keras.models.load_model(path)


def arrays(path, model):
    data = np.load(path)
    if isinstance(data, np.ndarray):
        return data
    names = data.files
    if names[0].startswith("arr_"):
        values = [data[f"arr_{i}"] for i in range(len(names))]
    else:
        values = [data[tensor.name] for tensor in model.inputs]
    return values[0] if len(values) == 1 else values


def outputs(path, model, result):
    flat = keras.tree.flatten(result)
    if str(path).endswith(".npy"):
        return np.save(path, flat[0])
    names = getattr(model, "output_names", None) or [f"arr_{i}" for i in range(len(flat))]
    if len(set(names)) != len(flat):
        names = [f"arr_{i}" for i in range(len(flat))]
    np.savez(path, **dict(zip(names, flat)))


def dataset(path, model):
    data = np.load(path)

    def part(letter, names):
        if letter in data.files:
            return data[letter]
        found = {name[2:]: data[name] for name in data.files if name.startswith(letter + "_")}
        return found or None

    x, y = part("x", None), part("y", None)
    if isinstance(x, dict):
        x = [x[tensor.name] for tensor in model.inputs]
    if isinstance(y, dict):
        y = [y[name] for name in model.output_names]
    return x, y, data["sample_weight"] if "sample_weight" in data.files else None


def command_predict(a):
    model = load(a.model)
    outputs(a.output, model, model.predict(arrays(a.input, model), batch_size=a.batch_size or 32, verbose=0))


def command_evaluate(a):
    model = load(a.model)
    x, y, w = dataset(a.data, model)
    print(json.dumps(model.evaluate(x, y, sample_weight=w, batch_size=a.batch_size or 32, return_dict=True, verbose=0)))


def command_fit(a):
    if a.seed is not None:
        keras.utils.set_random_seed(a.seed)
    model = load(a.model)
    if a.loss or a.optimizer:
        model.compile(optimizer=a.optimizer or model.optimizer, loss=a.loss, metrics=a.metrics.split(",") if a.metrics else None)
    x, y, w = dataset(a.data, model)
    options = {}
    if a.validation_data:
        options["validation_data"] = tuple(v for v in dataset(a.validation_data, model) if v is not None)
    if a.class_weight:
        options["class_weight"] = {int(k): float(v) for k, v in (p.split(":") for p in a.class_weight.split(","))}
    for name in STEPS:
        if getattr(a, name.replace("-", "_")) is not None:
            options[name.replace("-", "_")] = getattr(a, name.replace("-", "_"))
    history = model.fit(x, y, sample_weight=w, epochs=a.epochs, batch_size=a.batch_size or 32, shuffle=not a.no_shuffle,
                        verbose=0, **options)
    if a.history:
        pathlib.Path(a.history).write_text(json.dumps(history.history))
    if a.save:
        model.save(a.save)


def main(args):
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for name in ("predict", "evaluate", "fit"):
        command = commands.add_parser(name)
        command.set_defaults(call=globals()["command_" + name])
        command.add_argument("model")
        for option in ("input", "output", "data", "validation-data", "strategy", "save", "history", "class-weight", "optimizer",
                       "loss", "metrics"):
            command.add_argument("--" + option)
        for option in ("epochs", "seed", "batch-size", *STEPS):
            command.add_argument("--" + option, type=int)
        command.add_argument("--no-shuffle", action="store_true")
        command.add_argument("--json", action="store_true")
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            a = parser.parse_args(args)
            a.call(a)
        return 0, out.getvalue(), err.getvalue()
    except (Exception, SystemExit) as e:
        return 1, out.getvalue(), f"lockstep: {type(e).__name__}: {e}".replace("\n", " ") + "\n"

"""The public classes of Keras by family, as keras_names.json stores them:
{family: {class: {"also": other public names, "arguments": names of the constructor's arguments}}}.

`python keras_names.py` regenerates the file from the installed Keras.
"""

import inspect
import json
import pathlib

FILE = pathlib.Path(__file__).with_name("keras_names.json")
BASES = {"Layer", "Wrapper", "InputSpec", "Optimizer", "OptimizerMap", "LearningRateSchedule", "Loss", "Metric", "Initializer", "Regularizer",
         "Constraint", "Callback", "CallbackList"}  # classes to derive from, or that are not objects of the family


def modules():
    import keras
    return {"layers": keras.layers, "optimizers": keras.optimizers, "schedules": keras.optimizers.schedules, "losses": keras.losses,
            "metrics": keras.metrics, "initializers": keras.initializers, "regularizers": keras.regularizers,
            "constraints": keras.constraints, "callbacks": keras.callbacks}


def classes(module):
    """{class: the class object} and {class: other names} of a module of Keras."""
    found, others = {}, {}
    for name, value in sorted(vars(module).items()):
        if not inspect.isclass(value) or name in BASES or value.__name__ in BASES:
            continue
        own = name if value.__name__ not in vars(module) else value.__name__  # GroupQueryAttention is exported under another name
        found[own] = value
        if name != own:
            others.setdefault(own, []).append(name)
    return found, others


def arguments(cls):
    """{name: parameter} of the constructor; without *args and **kwargs."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def of_keras():
    out = {}
    for family, module in modules().items():
        found, others = classes(module)
        out[family] = {name: {"also": others.get(name, []), "arguments": list(arguments(cls))} for name, cls in found.items()}
    return out


def stored():
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    rows = [f' "{family}": {{\n' + ",\n".join(f'  "{name}": {json.dumps(row)}' for name, row in classes.items()) + "\n }"
            for family, classes in of_keras().items()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")

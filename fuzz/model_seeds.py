"""Writes the small models of Keras that fuzz/execution changes at random, loads and runs: fuzz/corpus/models/models.gz, a
compressed text with the JSON of a compiled model in each line. Each layer class of tests/judged/layer_table.py and
sweep_table.py has one."""

import gzip
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras

root = pathlib.Path(__file__).parent
sys.path.insert(0, str(root.parent / "tests" / "judged"))
import layer_table
import sweep_table

OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion", "Adafactor"]
LOSSES = ["mse", "mae", "huber", "log_cosh", "binary_crossentropy", "poisson", "kl_divergence", "hinge", "cosine_similarity"]
L = keras.layers


def of_row(name, arguments, shapes, options):
    """The model of a row of the table, or None for one that is not made from shapes alone."""
    if not all(isinstance(shape, (tuple, list)) for shape in shapes):
        return None
    keras.utils.clear_session()
    inputs = [keras.Input(tuple(shape), dtype="int32" if "ints" in options else "float32") for shape in shapes]
    layer = getattr(L, name)(**arguments)
    if name in ("MultiHeadAttention", "GroupQueryAttention"):
        return keras.Model(inputs, layer(inputs[0], inputs[-1], **options.get("call", {})))
    return keras.Model(inputs, layer(inputs[0] if len(inputs) == 1 else inputs, **options.get("call", {})))


def combined():
    """Models of several layers: nested, shared, with several outputs, sequential, with operations."""
    keras.utils.clear_session()
    x = keras.Input((6, 6, 2), name="image")
    y = L.Conv2D(3, 3, padding="same", activation="relu", kernel_regularizer="l2", kernel_constraint="max_norm")(x)
    y = L.Add()([L.BatchNormalization()(y), L.SeparableConv2D(3, 3, padding="same")(y)])
    y = L.GlobalAveragePooling2D()(L.MaxPooling2D()(y))
    yield keras.Model(x, [L.Dense(2, activation="softmax", name="a")(y), L.Reshape((1, 3), name="b")(y)])
    inner = keras.Sequential([keras.Input((3,)), L.Dense(3, activation="gelu"), L.Dropout(0.3)])
    x, z = keras.Input((3,), name="x"), keras.Input((3,), name="z")
    yield keras.Model({"x": x, "z": z}, L.Concatenate()([inner(x), inner(z), x * 2.0 - keras.ops.maximum(z, 0.5)]))
    x = keras.Input((5,), dtype="int32")
    y = L.Bidirectional(L.LSTM(2, return_sequences=True))(L.Embedding(7, 3, mask_zero=True)(x))
    y = L.LayerNormalization()(L.MultiHeadAttention(2, 2)(y, y))
    yield keras.Model(x, L.TimeDistributed(L.Dense(2))(L.RNN([L.GRUCell(2), L.LSTMCell(3)], return_sequences=True)(y)))
    yield keras.Sequential([keras.Input((4,)), L.Dense(3, dtype="mixed_float16"), L.LeakyReLU(), L.UnitNormalization(), L.Dense(1)])


def main():
    models, seen = list(combined()), {}
    for name, arguments, shapes, options in [*layer_table.TABLE, *sweep_table.ROWS]:
        if seen.get(name, 0) >= (2 if len(arguments) > 1 else 1):
            continue
        try:
            model = of_row(name, arguments, shapes, options)
        except Exception as error:  # a row that needs more than shapes
            print(f"{name} {arguments}: {error}"[:120])
            continue
        if model is not None:
            seen[name] = seen.get(name, 0) + 1
            models.append(model)
    lines = []
    for number, model in enumerate(models):
        model.compile(OPTIMIZERS[number % len(OPTIMIZERS)], LOSSES[number % len(LOSSES)], metrics=["mse"] if number % 3 else None)
        lines.append(json.dumps(json.loads(model.to_json()), separators=(",", ":")))
    folder = root / "corpus" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
    print(f"{len(lines)} models of {len(seen)} classes")


if __name__ == "__main__":
    main()

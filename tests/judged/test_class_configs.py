"""Every class of lockstep's tables reads the config that Keras writes, and writes the same; it reads tf-keras's config and rejects
keywords that it does not know."""

import inspect
import json
import os
import pathlib
import subprocess

import pytest

import keras_names
import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the library's own tables")
PROBE = pathlib.Path(os.environ.get("LOCKSTEP_BUILD") or tool.ROOT / "build") / "bin" / "class_probe"
# Values of arguments without defaults.
VALUES = dict(units=3, filters=4, kernel_size=3, rate=0.5, stddev=0.1, dims=(1, 2), n=2, target_shape=(2,), axes=1, input_dim=5,
              output_dim=3, num_heads=2, key_dim=2, height=2, width=2, scale=2.0, activation="relu", equation="ab,bc->ac", output_shape=3,
              num_classes=2, target_class_ids=[0], recall=0.5, precision=0.5, sensitivity=0.5, specificity=0.5, head_dim=4,
              num_query_heads=4, num_key_value_heads=2, output_size=2, pool_size=2, initial_learning_rate=0.1, decay_steps=5,
              first_decay_steps=5, decay_rate=0.9, boundaries=[1], values=[1.0, 2.0], num_bins=4, factor=1, height_factor=0.2,
              width_factor=0.2, max_number=3)
# Windows by name need SciPy.
GIVEN = {"STFT": dict(window=None), "STFTSpectrogram": dict(window=None)}
FAMILIES = ["layers", "optimizers", "schedules", "losses", "metrics", "initializers", "regularizers", "constraints"]


def answers(objects, tmp_path):
    """lockstep's objects for [(family, class, config)]."""
    path = tmp_path / "objects.json"
    path.write_text(json.dumps([dict(family=f, class_name=c, config=config) for f, c, config in objects]))
    done = subprocess.run([PROBE, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def made(cls, values):
    """An object with `values` for what it needs; None when it needs more."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if not set(needed) <= set(values):
        return None
    return cls(**{name: values[name] for name in needed}, **GIVEN.get(cls.__name__, {}))


def objects_of_keras(family):
    import keras
    optimizer_map = keras.optimizers.OptimizerMap(keras.optimizers.SGD())
    optimizer_map["dense.*"] = keras.optimizers.Adam()
    values = {**VALUES, "layer": keras.layers.SimpleRNN(2), "cell": keras.layers.SimpleRNNCell(2),
              "cells": [keras.layers.SimpleRNNCell(2)],
              "layers": [keras.layers.Rescaling(2.0), keras.layers.RandomFlip(seed=1)], "inner_optimizer": keras.optimizers.SGD(),
              "optimizer_map": optimizer_map}
    if family == "layers":
        values["num_tokens"] = 4
    ours = {row["name"] for row in json.loads(tool.ok(family, "--json"))}
    for name, cls in keras_names.classes(keras_names.modules()[family])[0].items():
        if name not in ours or name in ("InputLayer", "CategoryEncoding", "Discretization", "MeanMetricWrapper"):
            continue  # they need shapes, numbers of tokens or bins, and functions
        made_object = made(cls, values)
        assert made_object is not None, name
        yield name, json.loads(json.dumps(keras.saving.serialize_keras_object(made_object)["config"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_configs_of_keras_are_kept(family, tmp_path):
    objects = [(family, name, config) for name, config in objects_of_keras(family)]
    found = answers(objects, tmp_path)
    wrong = [f"{name}: {config} became {answer}" for (_, name, config), answer in zip(objects, found) if answer.get("config") != config]
    assert not wrong, "\n".join(wrong)
    assert len(objects) > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_keywords_are_rejected(family, tmp_path):
    objects = [(family, name, {**config, "frobnicate": 1}) for name, config in objects_of_keras(family)]
    for (_, name, _), answer in zip(objects, answers(objects, tmp_path)):
        assert "unknown keyword 'frobnicate'" in answer.get("error", ""), (name, answer)


# Arguments whose null Keras refuses only when the object is called; lockstep does when it is made. One of a class: (class, argument).
REFUSED_IN_USE = {
    "optimizers": {"rho", "epsilon", "epsilon_1", "epsilon_2", "beta", "beta_1", "beta_2", "beta_2_decay", "clip_threshold", "ns_steps",
                   "initial_accumulator_value", "adam_beta_1", "adam_beta_2", "muon_a", "muon_b", "muon_c", "adam_lr_ratio", "momentum",
                   "warmup_steps", "initial_scale", "dynamic_growth_steps", ("MultiOptimizer", "optimizer_map")},
    "schedules": {"initial_learning_rate", "alpha", "t_mul", "m_mul", "decay_rate", "end_learning_rate", "power"},
    "losses": {"gamma", "margin", "beta", ("CategoricalFocalCrossentropy", "alpha"), ("Tversky", "alpha")},
    "metrics": {"threshold", "k", ("OneHotIoU", "axis"), ("OneHotMeanIoU", "axis"), ("SparseCategoricalCrossentropy", "axis")},
    "initializers": {"value", "gain", "mean", "stddev", "minval", "maxval"},
    "constraints": {"max_value", "min_value", "rate"},
    "layers": {"filters", "padding", "height", "width", "equation", "depth_multiplier", "alpha", "value_range", "clip_limit", "tile_grid_size",
               "sequence_stride", "sampling_rate", "num_mel_bins", "min_freq", "top_db", "mag_exp", "min_power", "ref_power", "mask_value",
               "num_ops", "num_chains", "chain_depth", "bins", ("Rescaling", "scale"), "offset", "interpolation", "fill_mode", "dropout",
               *[(name, "axis") for name in ("Concatenate", "GroupNormalization", "RMSNormalization")], ("GroupNormalization", "epsilon"),
               *[(name, key) for name in ("MultiHeadAttention", "GroupQueryAttention") for key in ("kernel_initializer", "bias_initializer")],
               *[(name, "fill_value") for name in ("RandomElasticTransform", "RandomPerspective", "RandomRotation", "RandomShear",
                                                   "RandomTranslation", "RandomZoom")], ("HashedCrossing", "num_bins")},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_null_is_taken_where_keras_takes_it(family, tmp_path):
    import keras
    classes = keras_names.classes(keras_names.modules()[family])[0]
    objects, taken = [], []
    for name, config in objects_of_keras(family):
        for key in config:
            if config[key] is None or key == "name" or (key == "trainable" and name.endswith("Lookup")):  # Keras drops a lookup's
                continue
            objects.append((family, name, {**config, key: None}))
            try:
                classes[name].from_config(json.loads(json.dumps(objects[-1][2])))
            except Exception:
                taken.append((key, False))
                continue
            in_use = REFUSED_IN_USE.get(family, set())
            taken.append((key, key not in in_use and (name, key) not in in_use))
    wrong = [f"{name}: {key} was {'refused: ' + answer['error'] if 'error' in answer else 'taken'}"
             for (_, name, _), (key, expected), answer in zip(objects, taken, answers(objects, tmp_path), strict=True)
             if ("error" not in answer) != expected]
    assert not wrong, "\n".join(wrong)
    assert len(objects) > 3


def test_configs_of_tf_keras_are_read(tmp_path):
    tf_keras = pytest.importorskip("tf_keras")
    modules = {"layers": tf_keras.layers, "optimizers": tf_keras.optimizers, "schedules": tf_keras.optimizers.schedules,
               "losses": tf_keras.losses, "metrics": tf_keras.metrics, "initializers": tf_keras.initializers,
               "regularizers": tf_keras.regularizers, "constraints": tf_keras.constraints}
    objects = []
    for family, module in [*modules.items(), ("optimizers", tf_keras.optimizers.legacy)]:
        for name, cls in sorted(vars(module).items()):
            if not inspect.isclass(cls) or cls.__name__ != name or name in ("InputLayer", "CategoryEncoding", "Discretization"):
                continue
            try:
                config = made(cls, VALUES).get_config()
                objects.append((family, name, json.loads(json.dumps(config, default=lambda value: value.item()))))
            except (AttributeError, NotImplementedError, TypeError, ValueError):
                continue  # base classes, and classes around objects
    found = answers(objects, tmp_path)
    wrong = [f"{name}: {answer['error']}" for (_, name, _), answer in zip(objects, found) if "error" in answer]
    assert not wrong, "\n".join(wrong)
    assert sum("config" in answer for answer in found) > 150

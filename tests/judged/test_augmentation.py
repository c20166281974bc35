"""Random changes of images: training on them with Keras's seeds gives what Keras computes, and inference leaves them."""

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import answers
import lockstep_tool as tool

L = keras.layers
FIRST = dict(data_format="channels_first")

# Rows: class, arguments. Each becomes a branch of one model.
ROWS = [
    ("RandomFlip", dict()),
    ("RandomFlip", dict(mode="horizontal")),
    ("RandomFlip", dict(mode="vertical")),
    ("RandomFlip", dict(mode=None)),
    ("RandomRotation", dict(factor=0.2)),
    ("RandomRotation", dict(factor=[-0.1, 0.3], fill_mode="constant", fill_value=9.0, interpolation="nearest")),
    ("RandomZoom", dict(height_factor=0.3)),
    ("RandomZoom", dict(height_factor=[0.1, 0.4], width_factor=[-0.4, -0.1], fill_mode="wrap")),
    ("RandomTranslation", dict(height_factor=0.3, width_factor=0.2)),
    ("RandomTranslation", dict(height_factor=[-0.5, 0.1], width_factor=0.4, fill_mode="nearest")),
    ("RandomShear", dict(x_factor=[0.0, 0.3], y_factor=[0.1, 0.4])),
    ("RandomCrop", dict(height=5, width=4)),
    ("RandomContrast", dict(factor=0.4)),
    ("RandomBrightness", dict(factor=0.3)),
    ("RandomHue", dict(factor=0.4)),
    ("RandomSaturation", dict(factor=[0.2, 0.7])),
    ("RandomSharpness", dict(factor=[0.1, 0.8])),
    ("RandomColorDegeneration", dict(factor=[0.2, 0.9])),
    ("RandomPosterization", dict(factor=[2, 6])),
    ("RandomPosterization", dict(factor=[3, 3])),
    ("RandomInvert", dict(factor=0.7)),
    ("RandomGrayscale", dict(factor=0.5)),
    ("RandomColorJitter", dict(brightness_factor=0.2, contrast_factor=0.3, saturation_factor=[0.3, 0.6], hue_factor=0.2)),
    ("RandomErasing", dict(factor=0.8)),
    ("RandomErasing", dict(scale=[0.1, 0.5], fill_value=[3, 100, 250])),
    ("RandomGaussianBlur", dict(kernel_size=3, sigma=[0.4, 1.0])),
    ("Solarization", dict(addition_factor=0.2, threshold_factor=[0.1, 0.8])),
    ("AutoContrast", dict()),
    ("Equalization", dict()),
    ("Equalization", dict(bins=40)),
    ("RandomPerspective", dict(factor=0.8, scale=0.6)),
    ("RandomPerspective", dict(scale=0.3, fill_value=7.0)),
    ("RandAugment", dict(num_ops=1)),
    ("RandAugment", dict(num_ops=3, factor=[0.2, 0.4])),
    ("ContrastLimitedAdaptiveHistogramEqualization", dict(tile_grid_size=[2, 3])),
    ("MixUp", dict()),
    ("MixUp", dict(alpha=1.0)),
    ("MixUp", dict(alpha=3.5)),
    ("CutMix", dict()),
    ("CutMix", dict(factor=[0.2, 0.6])),
    # What is drawn in the compute dtype.
    *[(name, dict(arguments, dtype="float64")) for name, arguments in [
        ("RandomContrast", dict(factor=0.4)), ("RandomShear", dict(x_factor=[0.0, 0.3], y_factor=[0.1, 0.2])), ("RandomErasing", dict(scale=[0.1, 0.5])),
        ("Solarization", dict(addition_factor=0.2)), ("RandomGaussianBlur", dict(kernel_size=3)), ("RandomPerspective", dict(scale=0.3)),
        ("RandAugment", dict()), ("CutMix", dict())]],
    # Its parts have the global policy.
    ("RandomColorJitter", dict(contrast_factor=0.3, saturation_factor=[0.3, 0.6], hue_factor=0.2, dtype="float64")),
    ("Pipeline", dict(layers=[L.RandomFlip("horizontal", seed=3), L.AutoContrast(), L.RandomBrightness(0.2, seed=4)])),
]
UNSEEDED = ("AutoContrast", "Pipeline", "Equalization", "ContrastLimitedAdaptiveHistogramEqualization")
# The same on images with channels first, and with values from 0 to 1.
OTHERS = [
    ("RandomFlip", dict(mode="horizontal", **FIRST)), ("RandomRotation", dict(factor=0.2, **FIRST)),
    ("RandomZoom", dict(height_factor=0.3, **FIRST)), ("RandomContrast", dict(factor=0.4, value_range=[0, 1], **FIRST)),
    ("RandomHue", dict(factor=0.4, value_range=[0, 1], **FIRST)), ("RandomErasing", dict(value_range=[0, 1], **FIRST)),
    ("RandomPosterization", dict(factor=[2, 6], value_range=[0, 1], **FIRST)),
    ("RandomGrayscale", dict(**FIRST)), ("Solarization", dict(threshold_factor=0.8, value_range=[0, 1], **FIRST)),
    ("Equalization", dict(value_range=[0, 1], **FIRST)), ("RandomPerspective", dict(scale=0.4, **FIRST)),
    ("RandAugment", dict(num_ops=2, value_range=[0, 1], **FIRST)),
    ("ContrastLimitedAdaptiveHistogramEqualization", dict(tile_grid_size=[2, 2], value_range=[0, 1], **FIRST)),
    ("MixUp", dict(**FIRST)), ("CutMix", dict(**FIRST)),
]


def build(rows, shape, scale):
    inputs = keras.Input(shape)
    outputs = []
    for number, (name, arguments) in enumerate(rows):
        seeded = {} if name in UNSEEDED else {"seed": 30 + number}
        x = getattr(L, name)(**arguments, **seeded, name=f"row_{number}")(inputs)
        # A crop leaves images as they are in inference.
        x = L.GlobalAveragePooling2D()(x) if name == "RandomCrop" else L.Flatten()(L.Rescaling(1 / scale)(x))
        outputs.append(L.Dense(2, name=f"dense_{number}")(x))
    return keras.Model(inputs, L.Concatenate()(outputs))


def images(rng, shape, n, scale):
    """Smooth images: where a pixel comes from is not decided by rounding."""
    smooth = rng.uniform(0, 1, (n, *shape))
    for axis in (1, 2, 3):
        smooth = (np.roll(smooth, 1, axis) + 2 * smooth + np.roll(smooth, -1, axis)) / 4
    return (scale * (smooth - smooth.min()) / (smooth.max() - smooth.min())).astype("float32")


# Where Keras compiles, AugMix chooses its changes once, and RandomElasticTransform takes a batch of unknown size for one image.
EAGER = [
    # Chains of one change: what posterizing makes of a rotated image depends on rounding.
    ("AugMix", dict(num_chains=4, chain_depth=1)),
    ("RandomElasticTransform", dict()),
    ("RandomElasticTransform", dict(factor=0.7, scale=[0.4, 0.8], fill_mode="constant", fill_value=20.0)),
    ("RandomElasticTransform", dict(fill_mode="wrap", interpolation="nearest")),
    ("RandomElasticTransform", dict(fill_mode="nearest")),
    ("CutMix", dict(factor=[0.3, 0.9], dtype="float16")),  # there is no float16 range in a graph
]

WEAK = [("AugMix", dict(num_chains=2, chain_depth=1, factor=[0.1, 0.5], alpha=0.4, all_ops=False))]
# Python chooses changes while TensorFlow traces the step: all steps make the same ones.
TRACED = [("AugMix", dict(num_chains=3, chain_depth=2)), ("AugMix", dict(num_chains=2, chain_depth=3, alpha=0.4, all_ops=False))]


def called(saved_model, x):
    """The only output of a SavedModel's serving_default in TensorFlow."""
    serve = tf.saved_model.load(str(saved_model)).signatures["serving_default"]
    return list(serve(tf.constant(x)).values())[0].numpy()


@pytest.mark.parametrize(("rows", "shape", "scale"), [(ROWS, (9, 8, 3), 255.0), (OTHERS, (3, 8, 9), 1.0), (EAGER, (9, 8, 3), 255.0),
                                                      (WEAK, (8, 9, 3), 255.0), (TRACED, (9, 8, 3), 255.0)],
                         ids=["bytes", "unit", "eager", "weak", "traced"])
def test_training_and_inference(rows, shape, scale, tmp_path):
    rng = tool.generator("augmentation", shape)
    keras.utils.set_random_seed(5)
    model = build(rows, shape, scale)
    model.compile(keras.optimizers.SGD(0.01 if rows is OTHERS else 0.001 / scale), "mse", run_eagerly=rows in (EAGER, WEAK))
    model.save(tmp_path / "m.keras")
    x, y = images(rng, shape, 7, scale), rng.normal(0, 1, (7, 2 * len(rows))).astype("float32")
    np.savez(tmp_path / "d.npz", x=x, y=y)
    expected = answers.predict(model, x)[0]
    tool.assert_close(tool.predict(tmp_path / "m.keras", x, tmp_path)[0][1], expected, 1e-5)
    keras.utils.set_random_seed(5)
    theirs = keras.models.load_model(tmp_path / "m.keras")
    answers.fit(theirs, x, y, epochs=2, batch_size=3)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 2, "--batch-size", 3, "--no-shuffle",
            "--seed", 5, "--save", tmp_path / "o.keras")
    ours = keras.models.load_model(tmp_path / "o.keras")
    wrong = []
    for number, row in enumerate(rows):
        for a, b in zip(ours.get_layer(f"dense_{number}").get_weights(), theirs.get_layer(f"dense_{number}").get_weights()):
            try:
                tool.assert_close(a, b, 1e-4, f"{row}")
            except AssertionError as error:
                wrong.append(str(error))
    assert not wrong, "\n".join(wrong)
    if tool.CONTROL:
        return
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "sm", "--to", "saved_model")
    served = called(tmp_path / "sm", x)
    if rows in (ROWS, OTHERS):  # which Keras exports too; they change images at random there, as the layers do by default
        def exported():
            keras.utils.set_random_seed(0)  # as convert
            keras.models.load_model(tmp_path / "m.keras").export(tmp_path / "theirs", verbose=False)
            return {"output": called(tmp_path / "theirs", x)}

        found, _ = answers.answer(answers.key("exported", model, [x]), exported)
        tool.assert_close(served, found["output"], 1e-4)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
    assert configs(tmp_path / "r.keras") == configs(tmp_path / "m.keras")


# On a dict of images, labels and segmentation masks; the last two mix labels and have no rule for masks here.
DICTS = [
    ("RandomFlip", dict(mode="horizontal")), ("RandomRotation", dict(factor=0.2)), ("RandomZoom", dict(height_factor=0.3, fill_mode="constant")),
    ("RandomTranslation", dict(height_factor=0.3, width_factor=0.2)), ("RandomShear", dict(x_factor=[0.1, 0.3], y_factor=[0.0, 0.2])),
    ("RandomPerspective", dict(scale=0.4)), ("RandomErasing", dict()), ("RandomContrast", dict(factor=0.4, bounding_box_format="xyxy")),
    ("MixUp", dict(alpha=1.0)), ("CutMix", dict()),
]


@pytest.mark.parametrize("training", [True, False])
def test_dicts(training, tmp_path):
    rng = tool.generator("augmentation", "dicts")
    inputs = {"images": keras.Input((9, 8, 3), name="pictures"), "labels": keras.Input((3,), name="labels"),
              "segmentation_masks": keras.Input((9, 8, 1), name="segmentation_masks")}
    outputs = []
    for number, (name, arguments) in enumerate(DICTS):
        given = {key: value for key, value in inputs.items() if key != "segmentation_masks" or name not in ("MixUp", "CutMix")}
        layer = getattr(L, name)(**arguments, seed=50 + number, name=f"row_{number}")
        outputs += keras.tree.flatten(layer(given, training=training))
    model = keras.Model(inputs, [L.Identity()(output) for output in outputs])
    model.save(tmp_path / "m.keras")
    x = {"images": images(rng, (9, 8, 3), 4, 255.0), "labels": np.eye(3, dtype="float32")[[0, 2, 1, 0]],
         "segmentation_masks": rng.integers(0, 3, (4, 9, 8, 1)).astype("float32")}
    expected = keras.models.load_model(tmp_path / "m.keras").predict(x, verbose=0)
    found = tool.predict(tmp_path / "m.keras", x, tmp_path)
    for (name, ours), theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape, name
        # The nearest pixel of a mask may be decided by rounding.
        assert np.mean(np.abs(ours - theirs) > 1e-4 * np.abs(theirs).max()) < 0.01, name
    if not tool.CONTROL:
        tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
        assert configs(tmp_path / "r.keras") == configs(tmp_path / "m.keras")


def configs(path):
    """Of the layers, without what differs from process to process."""
    model = json.loads(zipfile.ZipFile(path).read("config.json"),
                       object_hook=lambda d: {k: v for k, v in d.items() if k != "shared_object_id"})
    return [layer["config"] for layer in model["config"]["layers"]]


@pytest.mark.skipif(tool.CONTROL, reason="about the layers of lockstep")
@pytest.mark.parametrize("number", [2, 7])
def test_boxes(number, tmp_path):
    rng = tool.generator("boxes", number)
    inputs = [keras.Input((6, 5, 3), name="images"), keras.Input((4, 4), name="boxes"), keras.Input((4,), name="labels")]
    layer = L.MaxNumBoundingBoxes(number, bounding_box_format="xyxy")
    out = layer({"images": inputs[0], "bounding_boxes": {"boxes": inputs[1], "labels": inputs[2]}})["bounding_boxes"]
    model = keras.Model(inputs, [out["boxes"], out["labels"]])
    model.save(tmp_path / "m.keras")
    arrays = [rng.uniform(0, 5, (3, *t.shape[1:])).astype("float32") for t in inputs]
    got = tool.predict(tmp_path / "m.keras", arrays, tmp_path)
    for (_, ours), theirs in zip(got, model.predict(arrays, verbose=0)):
        tool.assert_close(ours, theirs, 1e-6)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
    assert configs(tmp_path / "r.keras") == configs(tmp_path / "m.keras")

"""Layers that turn strings, integers and numbers into categories: outputs, configs and vocabularies against Keras's."""

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras writes strings in another way")
L = keras.layers

WORDS = np.array([["b", "a", "c"], ["b", "c", "é"], ["b", "d", "a"]])
ASKED = np.array([["b", "zz", ""], ["a", "é", "c"], ["x", "y", "b"], ["d", "d", "[UNK]"]])
NUMBERS = np.array([[3, 5, 7], [3, 5, 3], [-4, 0, 5]])
ASKED_NUMBERS = np.array([[3, 9, 0], [7, -4, 5], [-8, 3, 3]])
TEXTS = np.array(["The cat sat.", "the dog, the CAT!", "  a\tdog's   life "])
ASKED_TEXTS = np.array([["the cat"], ["A bird"], [""], ["Dogs life: the dog-sat the \xe9"]])
VALUES = np.random.default_rng(7).normal(0, 1, (400, 3)).astype("float32")
ASKED_VALUES = np.array([[-3.0, 0.0, 0.1], [1.0, 0.5, 9.0]], "float32")
ASKED_PLACES = np.array([[0, 1], [2, 7]])
MODES = ["int", "one_hot", "multi_hot", "count", "tf_idf"]


def adapted(layer, data):
    layer.adapt(tf.constant(data) if data.dtype.kind in "SU" else data)
    return layer


# Rows: how to make the layer, its input.
ROWS = [
    *[(lambda mode=mode: adapted(L.StringLookup(output_mode=mode), WORDS), ASKED) for mode in MODES],
    (lambda: adapted(L.StringLookup(max_tokens=4, mask_token="", num_oov_indices=2), WORDS), ASKED),
    (lambda: adapted(L.StringLookup(max_tokens=9, output_mode="multi_hot", pad_to_max_tokens=True), WORDS), ASKED),
    (lambda: L.StringLookup(vocabulary=["a", "b"], num_oov_indices=3), ASKED),
    (lambda: L.StringLookup(vocabulary=["a", "b"], num_oov_indices=3, salt=[3, 4], output_mode="count"), ASKED),
    (lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="one_hot", mask_token=""), ASKED[:, :1]),
    (lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="tf_idf", idf_weights=[0.5, 0.25]), ASKED),
    (lambda: L.StringLookup(vocabulary=["", "[UNK]", "a", "b"], mask_token="", invert=True), ASKED_PLACES),
    *[(lambda mode=mode: adapted(L.IntegerLookup(output_mode=mode), NUMBERS), ASKED_NUMBERS) for mode in MODES],
    (lambda: L.IntegerLookup(vocabulary=[3, 5], num_oov_indices=3, mask_token=0), ASKED_NUMBERS),
    (lambda: L.IntegerLookup(vocabulary=[3, 5], num_oov_indices=3, oov_method="farmhash", salt=5), ASKED_NUMBERS),
    (lambda: L.IntegerLookup(vocabulary=[3, 5], invert=True), ASKED_PLACES),
    (lambda: adapted(L.TextVectorization(), TEXTS), ASKED_TEXTS),
    (lambda: adapted(L.TextVectorization(max_tokens=6, output_sequence_length=3), TEXTS), ASKED_TEXTS),
    (lambda: adapted(L.TextVectorization(ngrams=2, output_mode="tf_idf"), TEXTS), ASKED_TEXTS),
    (lambda: adapted(L.TextVectorization(ngrams=(1, 3), output_mode="count"), TEXTS), ASKED_TEXTS),
    (lambda: adapted(L.TextVectorization(split="character", output_sequence_length=5, standardize="lower"), TEXTS[:2]), ASKED_TEXTS),
    (lambda: L.TextVectorization(standardize=None, vocabulary=["cat", "The"], output_mode="multi_hot"), ASKED_TEXTS),
    (lambda: L.TextVectorization(split=None, vocabulary=["the cat", "a bird"], output_mode="int"), ASKED_TEXTS),
    (lambda: L.TextVectorization(standardize="strip_punctuation", max_tokens=9, pad_to_max_tokens=True, vocabulary=["dogsat", "the"],
                                 output_mode="multi_hot"), ASKED_TEXTS),
    *[(lambda mode=mode: L.Discretization(bin_boundaries=[0.0, 0.5, 1.0], output_mode=mode), ASKED_VALUES) for mode in MODES[:4]],
    (lambda: adapted(L.Discretization(num_bins=5), VALUES), ASKED_VALUES),
    (lambda: L.Hashing(num_bins=5), ASKED),
    (lambda: L.Hashing(num_bins=5, mask_value="", salt=133), ASKED),
    (lambda: L.Hashing(num_bins=5, output_mode="multi_hot"), ASKED),
    (lambda: L.Hashing(num_bins=7, output_mode="one_hot", salt=[2, 3]), ASKED_NUMBERS),
    (lambda: L.Hashing(num_bins=7, output_mode="count", mask_value=3), ASKED_NUMBERS),
    # Sparse tensors in Keras, dense ones of the same values here.
    (lambda: L.StringLookup(vocabulary=["a", "b"], output_mode="count", sparse=True), ASKED),
    (lambda: L.IntegerLookup(vocabulary=[3, 5], output_mode="one_hot", sparse=True), ASKED_NUMBERS),
    (lambda: L.TextVectorization(vocabulary=["the", "bird"], output_mode="multi_hot", sparse=True), ASKED_TEXTS),
    (lambda: L.Discretization(bin_boundaries=[0.0, 0.5, 1.0], output_mode="multi_hot", sparse=True), ASKED_VALUES),
    (lambda: L.Hashing(num_bins=5, output_mode="count", sparse=True), ASKED),
]


INPUTS = {"words": ASKED, "column": ASKED[:, :1], "numbers": ASKED_NUMBERS, "places": ASKED_PLACES,
          "texts": ASKED_TEXTS, "values": ASKED_VALUES}


def model_of(name):
    """A model of the rows with this input, an output for each."""
    x = INPUTS[name]
    inputs = keras.Input(x.shape[1:], dtype="string" if x.dtype.kind == "U" else x.dtype)
    return keras.Model(inputs, [make()(inputs) for make, given in ROWS if np.array_equal(given, x)]), x


def answer(model, x):
    return dense(model(tf.constant(x) if x.dtype.kind == "U" else x))


def dense(outputs):
    return [np.asarray(tf.sparse.to_dense(v) if isinstance(v, tf.SparseTensor) else v) for v in keras.tree.flatten(outputs)]


def configs(path):
    """Of the layers, without what differs from process to process."""
    model = json.loads(zipfile.ZipFile(path).read("config.json"),
                       object_hook=lambda d: {k: v for k, v in d.items() if k != "shared_object_id"})
    return [layer["config"] for layer in model["config"]["layers"]] if "layers" in model["config"] else model


@pytest.mark.parametrize("name", INPUTS)
def test_outputs_and_files(name, tmp_path):
    model, x = model_of(name)
    model.save(tmp_path / "m.keras")
    expected = answer(model, x)
    outputs = tool.predict(tmp_path / "m.keras", x, tmp_path)
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
    assert configs(tmp_path / "r.keras") == configs(tmp_path / "m.keras")
    again = answer(keras.models.load_model(tmp_path / "r.keras"), x)
    for number, ((_, ours), theirs, read) in enumerate(zip(outputs, expected, again, strict=True)):
        tool.assert_close(ours, theirs, 1e-6, f"row {number} of {name}")
        tool.assert_close(read, theirs, 1e-6, f"row {number} of {name}, read by Keras")


def test_hashed_crossing(tmp_path):
    words, numbers = np.array([["a"], ["b"], ["é"]]), np.array([[1], [-5], [7]])
    inputs = [keras.Input((1,), dtype="string", name="w"), keras.Input((1,), dtype="int64", name="n")]
    model = keras.Model(inputs, [L.HashedCrossing(num_bins=7)(inputs), L.HashedCrossing(num_bins=5, output_mode="one_hot")(inputs),
                                 L.HashedCrossing(num_bins=6, output_mode="one_hot", sparse=True)(inputs)])
    model.save(tmp_path / "m.keras")
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "r.keras")
    assert configs(tmp_path / "r.keras") == configs(tmp_path / "m.keras")
    expected = dense(model([tf.constant(words), tf.constant(numbers)]))
    outputs = tool.predict(tmp_path / "m.keras", {"w": words, "n": numbers}, tmp_path)
    for (_, ours), theirs in zip(outputs, expected, strict=True):
        tool.assert_close(ours, theirs)


def test_an_empty_string_at_the_end_of_a_vocabulary(tmp_path):
    """A token of Keras 2; Keras 3 cuts it off its files, and then rejects them."""
    layer = adapted(tf_keras.layers.StringLookup(output_mode="one_hot"), np.array(["b", "a", "b", ""]))
    model, x = tf_keras.Sequential([tf_keras.Input((1,), dtype="string"), layer]), ASKED[:, 2:]
    assert layer.get_vocabulary()[-1] == ""
    model.save(tmp_path / "m.keras")
    tool.save_npz(tmp_path / "x.npz", x=x)
    tool.ok("predict", tmp_path / "m.keras", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(tf.constant(x)).numpy())


def test_training_behind_a_vocabulary(tmp_path):
    keras.utils.set_random_seed(3)
    vectorize = adapted(L.TextVectorization(output_sequence_length=4), TEXTS)
    inputs = keras.Input((1,), dtype="string")
    x = L.Embedding(vectorize.vocabulary_size(), 3)(vectorize(inputs))
    model = keras.Model(inputs, L.Dense(1)(L.GlobalAveragePooling1D()(x)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.save(tmp_path / "m.keras")
    y = np.array([[1.0], [0.0], [2.0], [1.5]], "float32")
    history = model.fit(tf.constant(ASKED_TEXTS), y, epochs=3, batch_size=2, shuffle=False, verbose=0).history
    np.savez(tmp_path / "d.npz", x=ASKED_TEXTS, y=y)
    tool.ok("fit", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--epochs", 3, "--batch-size", 2, "--no-shuffle",
            "--save", tmp_path / "o.keras", "--history", tmp_path / "h.json")
    tool.assert_history(tool.load_history(tmp_path / "h.json"), history)
    again = keras.models.load_model(tmp_path / "o.keras")
    tool.assert_close(answer(again, ASKED_TEXTS)[0], answer(model, ASKED_TEXTS)[0], 1e-5)


def test_arguments_that_files_cannot_contain_are_rejected(tmp_path):
    inputs = keras.Input((3,), dtype="string")
    model = keras.Model(inputs, adapted(L.StringLookup(), WORDS)(inputs))
    model.save(tmp_path / "m.keras")
    assert "vocabulary" in tool.refused("convert", tmp_path / "m.keras", tmp_path / "m.h5")
    with zipfile.ZipFile(tmp_path / "m.keras") as source, zipfile.ZipFile(tmp_path / "without.keras", "w") as target:
        for name in source.namelist():
            if not name.startswith("assets/"):
                target.writestr(name, source.read(name))
    assert "requires the asset" in tool.refused("predict", tmp_path / "without.keras", "--input", tmp_path / "m.keras",
                                                "--output", tmp_path / "y.npy")


@pytest.mark.parametrize("mode", ["concat", "dict"])
def test_models_of_a_feature_space(mode, tmp_path):
    """They contain layers that Keras does not export: TFDIdentity and TFDConcat."""
    rng = tool.generator("feature space")
    words = np.array(["a", "bb", "c"])
    table = {"word": words[rng.integers(0, 3, 40)], "hashed_word": words[rng.integers(0, 3, 40)],
             "number": rng.integers(0, 6, 40).astype("int32"), "hashed_number": rng.integers(0, 99, 40).astype("int32"),
             **{name: rng.normal(1, 2, 40).astype("float32") for name in ("plain", "normalized", "rescaled", "binned")}}
    make = keras.utils.FeatureSpace
    output = "one_hot" if mode == "concat" else "int"
    space = make({"word": make.string_categorical(output_mode=output), "plain": "float", "normalized": "float_normalized",
                  "rescaled": make.float_rescaled(2.0, 0.5), "binned": make.float_discretized(4, output_mode=output),
                  "number": make.integer_categorical(num_oov_indices=2), "hashed_number": make.integer_hashed(7),
                  "hashed_word": "string_hashed"},
                 crosses=[("word", "number"), make.cross(("hashed_number", "hashed_word"), 6, output)], output_mode=mode)
    space.adapt(tf.data.Dataset.from_tensor_slices(table))
    keras.Model(space.get_inputs(), space.get_encoded_features()).save(tmp_path / "m.keras")
    space.save(tmp_path / "space.keras")
    wanted = space({name: tf.constant(column) for name, column in table.items()})
    tool.ok("convert", tmp_path / "m.keras", tmp_path / "again.keras")
    assert configs(tmp_path / "again.keras") == configs(tmp_path / "m.keras")
    columns = {name: np.char.encode(column[:, None]) if column.dtype.kind == "U" else column[:, None] for name, column in table.items()}
    found = dict(tool.predict(tmp_path / "again.keras", columns, tmp_path))
    for name, value in (wanted.items() if mode == "dict" else [(list(found)[0], wanted)]):
        tool.assert_close(found[name], np.asarray(value), 1e-6, name)
    keras.models.load_model(tmp_path / "again.keras")
    # The FeatureSpace by itself.
    tool.ok("convert", tmp_path / "space.keras", tmp_path / "space_again.keras")
    assert configs(tmp_path / "space_again.keras") == configs(tmp_path / "space.keras")
    loaded = keras.models.load_model(tmp_path / "space_again.keras")({name: tf.constant(column) for name, column in table.items()})
    for file in ("space.keras", "space_again.keras"):
        found = dict(tool.predict(tmp_path / file, {name: column[:, 0] for name, column in columns.items()}, tmp_path))
        for name, value in (wanted.items() if mode == "dict" else [(list(found)[0], wanted)]):
            tool.assert_close(found[name], np.asarray(value), 1e-6, name)
            tool.assert_close(np.asarray(loaded[name] if mode == "dict" else loaded), np.asarray(value), 1e-6, name)
    assert ".keras" in tool.refused("convert", tmp_path / "space.keras", tmp_path / "space.h5")

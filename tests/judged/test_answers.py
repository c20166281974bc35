"""The store of Keras's answers (answers.py): what it gives is what Keras gives, and it notices every change."""

import inspect

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool
import stored

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty store that is written, and in which no answer is computed again."""
    monkeypatch.setattr(answers, "FOLDER", tmp_path)
    monkeypatch.setattr(answers, "MODE", "write")
    monkeypatch.setattr(answers, "drawn", lambda digest: False)
    monkeypatch.setattr(answers, "counts", answers.collections.Counter())
    return tmp_path


def model():
    keras.utils.clear_session(free_memory=False)  # the same names each time
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dropout(0.3, seed=1),
                             keras.layers.BatchNormalization(), keras.layers.Dense(2)])
    made.compile(keras.optimizers.Adam(0.01, use_ema=True), "mse", metrics=["mae"])
    return made


def data():
    rng = tool.generator("answers")
    return rng.normal(0, 1, (11, 4)).astype("float32"), rng.normal(0, 1, (11, 2)).astype("float32")


def test_a_stored_fit_leaves_the_model_as_keras_does(store):
    x, y = data()
    first, second, judge = model(), model(), model()
    histories = [answers.fit(each, x, y, epochs=2, batch_size=4) for each in (first, second)]
    assert answers.counts == {"not stored": 1, "stored": 1}
    assert histories[0] == histories[1]
    # A further fit starts from all that the first one changed: weights, seeds, slots, iterations.
    expected = [judge.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0) for _ in range(2)][1].history
    tool.assert_history(second.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0).history, expected, 1e-6)
    assert len(answers.variables(second)) == len(answers.variables(judge))
    for ours, theirs in zip(answers.variables(second), answers.variables(judge)):
        tool.assert_close(np.asarray(ours), np.asarray(theirs), 1e-6, theirs.path)


def test_stored_predictions_and_losses(store):
    x, y = data()
    for _ in range(2):
        made = model()
        tool.assert_close(answers.predict(made, x)[0], made.predict(x, verbose=0), 1e-6)
        expected = made.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)
        assert answers.evaluate(made, x, y, batch_size=3) == pytest.approx(expected, rel=1e-6)
    assert answers.counts == {"not stored": 2, "stored": 2}


def changed(name):
    """A model, data and options of which one thing differs from those of the stored answer."""
    made, (x, y), options = model(), data(), dict(epochs=1, batch_size=4)
    if name == "data":
        x[10, 3] += 1e-6
    elif name == "option":
        options["batch_size"] = 5
    elif name == "weights":
        made.layers[0].bias.assign_add(np.full(5, 1e-6, "float32"))
    elif name == "argument":
        made.layers[1].rate = 0.30001
    elif name == "compile":
        made.compile(keras.optimizers.Adam(0.01, use_ema=True, beta_1=0.8), "mse", metrics=["mae"])
    elif name == "seed":
        options.update(shuffle=True, seed=1)
    return made, x, y, options


@pytest.mark.parametrize("name", ["data", "option", "weights", "argument", "compile", "seed"])
def test_a_change_finds_no_answer(name, store):
    for what in ("nothing", name):
        made, x, y, options = changed(what)
        answers.fit(made, x, y, **options)
    assert answers.counts == {"not stored": 2}


def test_other_judges_find_no_answer(store, monkeypatch):
    for version in ("1.0", "1.1"):
        monkeypatch.setattr(answers, "versions", lambda version=version: [version])
        answers.predict(model(), data()[0])
    assert answers.counts == {"not stored": 2}


def test_a_wrong_answer_is_found_when_it_is_computed_again(store, monkeypatch):
    x, _ = data()
    answers.predict(model(), x)
    path, = store.rglob("*.z")
    stored = answers.unpack(path.read_bytes())
    path.write_bytes(answers.pack({"0": stored["0"] + np.float32(0.01)}, "row"))
    with pytest.raises(AssertionError):
        tool.assert_close(answers.predict(model(), x)[0], stored["0"])
    monkeypatch.setattr(answers, "drawn", lambda digest: True)
    with pytest.raises(AssertionError, match="is not what Keras computes"):
        answers.predict(model(), x)


def test_some_are_drawn(monkeypatch):
    monkeypatch.setattr(answers.tool, "CONFORMANCE", False)
    counts = []
    for seed in range(20):
        monkeypatch.setattr(answers, "SEED", seed)
        counts.append(sum(answers.drawn(f"digest {i}") for i in range(1000)))
    assert all(60 < count < 150 for count in counts) and len(set(counts)) > 1, counts


@keras.saving.register_keras_serializable("Answers")
class Doubled(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def test_classes_that_keras_does_not_have_are_computed(store):
    """Their code is not in the config."""
    made = keras.Sequential([keras.Input((4,)), Doubled()])
    for _ in range(2):
        answers.predict(made, data()[0])
    assert answers.counts == {"without a digest": 2}


def test_answers_that_no_case_asks_for_are_removed(store, monkeypatch):
    monkeypatch.setattr(answers, "asked", answers.collections.defaultdict(set))
    answers.predict(model(), data()[0])
    folder = store / "test_answers"
    kept, = folder.iterdir()
    (folder / "old.z").write_bytes(b"")
    answers.remove_unasked(["test_answers"])
    assert list(folder.iterdir()) == [kept]


def test_an_original_is_stored_with_its_files(store, tmp_path_factory):
    def compute():
        (folder / "a").mkdir()
        (folder / "a" / "x.txt").write_text(text)
        return {"list": [np.arange(3), 2.5, None], "text": "\xe9"}, (np.float16(1), np.array(["b"], object))

    text, found = "one", []
    for text in ("one", "one", "two"):
        folder = tmp_path_factory.mktemp("files")
        found.append(stored.original(compute, folder))
        assert (folder / "a" / "x.txt").read_text() == text
    assert repr(found[0]) == repr(found[1]) == repr(found[2])
    assert answers.counts == {"not stored": 2, "stored": 1}


def test_an_original_follows_from_all_that_it_names(store):
    made, path = model(), store / "file"
    sources = stored.Sources()
    sources.function(lambda: model().predict(data()[0]))
    assert {inspect.getsource(model), inspect.getsource(data), tool.SEED} <= {part for part in sources.found if isinstance(part, (str, int))}
    with pytest.raises(TypeError, match="what 'made' is"):
        stored.original(lambda: made.get_weights())
    for content in ("a", "b", "a"):
        path.write_text(content)
        assert stored.original(lambda: path.read_text(), files=[path]) == content
    assert answers.counts == {"not stored": 2, "stored": 1}


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_weights_of_a_file_of_the_same_structure(name, store):
    made = model()
    for _ in range(2):
        tool.randomise(made, tool.generator("weights"))
        made.save(store / name)
        for ours, theirs in zip(stored.weights(keras, store / name), made.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert answers.counts == {"not stored": 1, "stored": 1}

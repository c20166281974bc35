"""Callbacks in a whole seeded fit: the same history, weights, files and messages as with Keras's own."""

import csv
import http.server
import json
import subprocess
import threading
import urllib.parse

import keras
import numpy as np
import pytest

import lockstep_tool as tool
import stored

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="callbacks belong to the library, not to the tool")
PROBE = tool.ROOT / "build" / "bin" / "callback_probe"
C = keras.callbacks

CASES = {
    "early": [("EarlyStopping", dict(monitor="val_loss", patience=1, verbose=1))],
    "early-best": [("EarlyStopping", dict(monitor="val_loss", patience=2, restore_best_weights=True, verbose=1))],
    "early-best-not-stopped": [("EarlyStopping", dict(monitor="val_loss", patience=50, restore_best_weights=True, verbose=1))],
    "early-late": [("EarlyStopping", dict(monitor="val_loss", patience=0, start_from_epoch=4, restore_best_weights=True, verbose=1))],
    "early-min-delta": [("EarlyStopping", dict(monitor="loss", min_delta=0.05, patience=0, verbose=1))],
    "early-max": [("EarlyStopping", dict(monitor="val_mae", mode="max", patience=2, verbose=1))],
    "early-baseline": [("EarlyStopping", dict(monitor="val_loss", baseline=0.01, patience=2, restore_best_weights=True, verbose=1))],
    "early-missing": [("EarlyStopping", dict(monitor="val_nothing", mode="min"))],
    "plateau": [("ReduceLROnPlateau", dict(monitor="val_loss", factor=0.5, patience=1, verbose=1))],
    "plateau-cooldown": [("ReduceLROnPlateau", dict(monitor="val_loss", factor=0.2, patience=1, cooldown=2, min_lr=0.004, verbose=1))],
    "plateau-delta": [("ReduceLROnPlateau", dict(monitor="loss", factor=0.3, patience=2, min_delta=0.1, verbose=1))],
    "rate": [("LearningRateScheduler", dict(every=2, verbose=1))],
    "best": [("ModelCheckpoint", dict(filepath="best.keras", save_best_only=True, monitor="val_loss", verbose=1))],
    "best-threshold": [("ModelCheckpoint", dict(filepath="best.keras", save_best_only=True, initial_value_threshold=0.5, verbose=1))],
    "each-epoch": [("ModelCheckpoint", dict(filepath="at-{epoch:02d}-{val_loss:.3f}.keras"))],
    "weights": [("ModelCheckpoint", dict(filepath="w{epoch}.weights.h5", save_weights_only=True, monitor="val_mae", save_best_only=True,
                                         mode="min", verbose=1))],
    "batches": [("ModelCheckpoint", dict(filepath="b{epoch}-{batch}.keras", save_freq=5))],
    "log": [("CSVLogger", dict(filename="log.csv"))],
    "log-tabs": [("CSVLogger", dict(filename="log.csv", separator="\t"))],
    "nan": [("TerminateOnNaN", dict()), ("CSVLogger", dict(filename="log.csv"))],
    "backup": [("BackupAndRestore", dict(backup_dir="backup", delete_checkpoint=False))],
    "early-backup-again": [("EarlyStopping", dict(monitor="val_loss", patience=0)), ("CSVLogger", dict(filename="log.csv", append=True)),
                           ("BackupAndRestore", dict(backup_dir="backup", delete_checkpoint=False))],
    "backup-deleted": [("BackupAndRestore", dict(backup_dir="backup", save_freq=3))],
    "ema": [("SwapEMAWeights", dict()), ("CSVLogger", dict(filename="log.csv"))],
    "ema-epochs": [("SwapEMAWeights", dict(swap_on_epoch=True)), ("ModelCheckpoint", dict(filepath="at-{epoch:02d}.weights.h5",
                                                                                          save_weights_only=True))],
    "all": [("LearningRateScheduler", dict(every=3)), ("ReduceLROnPlateau", dict(monitor="val_loss", factor=0.5, patience=1)),
            ("ModelCheckpoint", dict(filepath="best.keras", save_best_only=True, monitor="val_loss")),
            ("CSVLogger", dict(filename="log.csv")), ("EarlyStopping", dict(monitor="val_loss", patience=3, restore_best_weights=True))],
}


def keras_callback(name, config):
    if name == "LearningRateScheduler":
        every = config["every"]
        return C.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch > 0 and epoch % every == 0 else rate, config.get("verbose", 0))
    return getattr(C, name)(**config)


def messages(text):
    return [line.strip() for line in text.splitlines() if line.strip() and "[warning]" not in line]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def named(model):
    return [[v.path, np.asarray(v)] for v in model.variables]


def same_weights(ours, theirs, what):
    for a, (path, b) in zip(ours.variables, theirs if isinstance(theirs, list) else named(theirs), strict=True):
        if "seed" not in path:
            tool.assert_close(np.asarray(a), b, 1e-4, f"{what}: {path}", atol=1e-6)


def same_files(ours, theirs, model):
    """Ours has all that Keras's folder has, and in it the same."""
    assert set(files(theirs)) <= set(files(ours)), f"{files(ours)}, Keras has {files(theirs)}"
    for name in files(theirs):
        if name.endswith(".keras"):
            same_weights(keras.models.load_model(ours / name), keras.models.load_model(theirs / name), name)
        elif name.endswith(".weights.h5"):
            loaded = []
            for folder in (ours, theirs):
                loaded.append(keras.models.load_model(model))
                loaded[-1].load_weights(folder / name)
            same_weights(*loaded, name)
        elif name.endswith(".csv"):
            rows = [list(csv.reader((folder / name).open(), delimiter="\t" if "\t" in (folder / name).read_text() else ","))
                    for folder in (ours, theirs)]
            assert rows[0][0] == rows[1][0] and len(rows[0]) == len(rows[1])
            tool.assert_close(np.array(rows[0][1:], "float64"), np.array(rows[1][1:], "float64"), 1e-4, name)


@pytest.mark.quick(14)
@pytest.mark.parametrize("name", CASES)
def test_callbacks(name, tmp_path, capfd):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"

    def written():
        rng = tool.generator(f"test_callbacks[{name}]")
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.2), keras.layers.Dense(4)])
        tool.randomise(model, rng)
        model.compile(optimizer=keras.optimizers.SGD(1e30 if name == "nan" else 0.2, momentum=0.9, use_ema=name.startswith("ema"),
                                                     ema_momentum=0.8), loss="mse", metrics=["mae"])
        model.save(tmp_path / "m.keras")
        data = {"x": rng.normal(0, 1, (40, 6)), "y": rng.normal(0, 1, (40, 4)), "vx": rng.normal(0, 1, (12, 6)), "vy": rng.normal(0, 1, (12, 4))}
        data = {key: value.astype("float32") for key, value in data.items()}
        np.savez(tmp_path / "d.npz", **data)
        theirs.mkdir()
        fits = []
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(theirs)
            for _ in range(2 if name.endswith("again") else 1):
                keras.utils.set_random_seed(3)
                judge = keras.models.load_model(tmp_path / "m.keras")
                capfd.readouterr()
                history = judge.fit(data["x"], data["y"], epochs=9, batch_size=8, verbose=0, validation_data=(data["vx"], data["vy"]),
                                    callbacks=[keras_callback(*case) for case in CASES[name]])
                fits.append([messages(capfd.readouterr().out), {key: np.asarray(v, "float64") for key, v in history.history.items()}])
        return fits, named(judge)

    fits, at_the_end = stored.original(written, tmp_path)
    rows = [{"class_name": kind, "config": config} for kind, config in CASES[name]]
    (tmp_path / "c.json").write_text(json.dumps({"epochs": 9, "batch_size": 8, "seed": 3, "callbacks": rows}))
    ours.mkdir()
    for printed, history in fits:
        done = subprocess.run([str(PROBE), tmp_path / "m.keras", tmp_path / "d.npz", tmp_path / "c.json", tmp_path / "o.keras", tmp_path / "h.json"],
                              cwd=ours, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert messages(done.stdout) == printed
        tool.assert_history(tool.load_history(tmp_path / "h.json"), history)
    same_weights(keras.models.load_model(tmp_path / "o.keras"), at_the_end, "at the end")
    same_files(ours, theirs, tmp_path / "m.keras")


class Monitor(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.posts.append((self.path, dict(self.headers), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("options", [dict(), dict(path="/a b", field="logs & more"), dict(send_as_json=True, headers={"X-Key": "7"})])
def test_remote_monitor(options, tmp_path, request):
    server = http.server.HTTPServer(("127.0.0.1", 0), Monitor)  # answers in the order of the posts
    server.posts = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    rng = tool.generator(request.node.name)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", metrics=["mae"])
    model.save(tmp_path / "m.keras")
    arrays = {key: rng.normal(0, 1, (8, 3 if "x" in key else 2)).astype("float32") for key in ("x", "y", "vx", "vy")}
    np.savez(tmp_path / "d.npz", **arrays)
    path = options.get("path", "/publish/epoch/end/").replace(" ", "%20")
    rows = [{"class_name": "RemoteMonitor", "config": {**options, "root": root, "path": path}},
            {"class_name": "RemoteMonitor", "config": {"root": "http://127.0.0.1:1"}}]
    (tmp_path / "c.json").write_text(json.dumps({"epochs": 2, "batch_size": 4, "seed": 3, "callbacks": rows}))
    done = subprocess.run([str(PROBE), tmp_path / "m.keras", tmp_path / "d.npz", tmp_path / "c.json", tmp_path / "o.keras", tmp_path / "h.json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RemoteMonitor: http://127.0.0.1:1 was not reached") == 2
    ours = server.posts[:]
    server.posts.clear()
    history = tool.load_history(tmp_path / "h.json")
    judge = C.RemoteMonitor(root, **options)  # what Keras sends for the same logs
    for epoch in range(2):
        judge.on_epoch_end(epoch, {key: values[epoch] for key, values in history.items()})
    server.shutdown()
    assert len(ours) == len(server.posts) == 2
    for (path, headers, body), (their_path, their_headers, their_body) in zip(ours, server.posts, strict=True):
        assert path == their_path
        assert headers["Content-Type"] == their_headers["Content-Type"] and headers.get("X-Key") == their_headers.get("X-Key")
        if options.get("send_as_json"):
            assert json.loads(body) == pytest.approx(json.loads(their_body))
        else:
            field, their_field = urllib.parse.parse_qs(body), urllib.parse.parse_qs(their_body)
            assert list(field) == list(their_field)
            for name in field:
                assert json.loads(field[name][0]) == pytest.approx(json.loads(their_field[name][0]))


def events(folder):
    """{(tag, step): (plugin, value)} of the only event file in a folder, as TensorFlow reads it."""
    import tensorflow as tf
    from tensorflow.core.util import event_pb2
    path, = folder.glob("events.out.tfevents.*")
    found, first = {}, True
    for record in tf.data.TFRecordDataset(str(path)):
        event = event_pb2.Event.FromString(record.numpy())
        assert event.wall_time > 1e9
        assert (event.file_version == "brain.Event:2") == first
        first = False
        for value in event.summary.value:
            found[value.tag, event.step] = (value.metadata.plugin_data.plugin_name, tf.make_ndarray(value.tensor))
    return found


@pytest.mark.parametrize("options", [dict(histogram_freq=2), dict(update_freq="batch", write_graph=False), dict(update_freq=3, histogram_freq=1)])
def test_tensor_board(options, tmp_path, request):
    rng = tool.generator(request.node.name)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name="hidden", bias_initializer="ones"), keras.layers.Dense(2, name="out")])
    model.compile(keras.optimizers.Adam(0.02), "mse", metrics=["mae"])
    model.save(tmp_path / "m.keras")
    np.savez(tmp_path / "d.npz", **{key: rng.normal(0, 1, (10, 3 if "x" in key else 2)).astype("float32") for key in ("x", "y", "vx", "vy")})
    rows = [{"class_name": "TensorBoard", "config": {**options, "log_dir": str(tmp_path / "logs" / "run")}}]
    (tmp_path / "c.json").write_text(json.dumps({"epochs": 3, "batch_size": 4, "seed": 3, "callbacks": rows}))
    done = subprocess.run([str(PROBE), tmp_path / "m.keras", tmp_path / "d.npz", tmp_path / "c.json", tmp_path / "o.keras", tmp_path / "h.json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    history = tool.load_history(tmp_path / "h.json")
    train, validation = events(tmp_path / "logs" / "run" / "train"), events(tmp_path / "logs" / "run" / "validation")
    expected = {}
    for epoch in range(3):
        for name in ("loss", "mae"):
            expected["train", f"epoch_{name}", epoch] = history[name][epoch]
            expected["validation", f"epoch_{name}", epoch] = history["val_" + name][epoch]
            expected["validation", f"evaluation_{name}_vs_iterations", 3 * (epoch + 1)] = history["val_" + name][epoch]
        expected["train", "epoch_learning_rate", epoch] = 0.02
    for (folder, tag, step), number in expected.items():
        plugin, value = {"train": train, "validation": validation}[folder].pop((tag, step))
        assert plugin == "scalars" and value.dtype == "float32" and value.shape == ()
        assert value == pytest.approx(number, rel=1e-6), (tag, step)
    assert not validation
    if options.get("write_graph", True):
        plugin, value = train.pop(("keras", 0))
        assert plugin == "graph_keras_model"
        assert json.loads(value[()])["config"]["layers"][1]["config"]["name"] == "hidden"
    ours = keras.models.load_model(tmp_path / "o.keras")
    every = options.get("histogram_freq", 0)
    for epoch in range(0, 3, every) if every else ():
        for weight in ours.weights:
            plugin, rows = train.pop((f"{weight.path}/histogram", epoch))
            assert plugin == "histograms" and rows.shape == (30, 3) and rows.dtype == "float64"
            assert rows[:, 2].sum() == np.asarray(weight).size and (rows[1:, 0] == rows[:-1, 1]).all()
            if epoch == 2:
                counts, edges = np.histogram(np.asarray(weight, "float64"), bins=30)
                tool.assert_close(rows[:, 0], edges[:-1], 1e-6)
                tool.assert_close(rows[:, 1], edges[1:], 1e-6)
                assert np.abs(np.cumsum(rows[:, 2]) - np.cumsum(counts)).max() <= 1  # a value on an edge may count on either side
    frequency = {"batch": 1}.get(options.get("update_freq", "epoch"), options.get("update_freq", "epoch"))
    steps = [step for step in range(1, 10) if frequency != "epoch" and step % frequency == 0]
    assert sorted(train) == sorted((f"batch_{name}", step) for name in ("loss", "mae") for step in steps)
    for epoch in range(3):  # the last batch of an epoch has the epoch's mean so far
        if 3 * (epoch + 1) in steps:
            assert train["batch_loss", 3 * (epoch + 1)][1] == pytest.approx(history["loss"][epoch], rel=1e-6)

"""Our HDF5 reader and writer against h5py and Keras, through build/bin/h5_probe."""
import os
import random
import subprocess
import sys

import h5py
import numpy as np
import pytest

import lockstep_tool as tool

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROBE = os.environ.get("H5_PROBE", os.path.join(ROOT, "build", "bin", "h5_probe"))
pytestmark = pytest.mark.skipif(not os.path.exists(PROBE), reason="h5_probe is not built")


def copied(source, target):
    subprocess.run([PROBE, "copy", str(source), str(target)], check=True)
    return h5py.File(target, "r")


def datasets(file):
    names = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names


def assert_same(source, target):
    with h5py.File(source, "r") as old, copied(source, target) as new:
        names = [name for name in datasets(old) if old[name].dtype.kind != "O"]
        assert names
        for name in names:
            assert new[name].dtype == old[name].dtype.newbyteorder("="), name
            assert np.array_equal(old[name][()], new[name][()]), name
        groups = [""]
        old.visititems(lambda name, item: groups.append(name) if isinstance(item, h5py.Group) else None)
        for name in groups:
            for key, value in old[name or "/"].attrs.items():
                again = new[name or "/"].attrs[key]
                assert np.array_equal(np.asarray(value).astype(str), np.asarray(again).astype(str)), (name, key)


def fill(file):
    rng = np.random.default_rng(7)
    layer = file.create_group("layers/dense/vars")
    layer.attrs["name"] = "dense"
    layer["0"] = rng.random((3, 4), dtype="f4")
    layer["1"] = np.float64(3)
    layer["2"] = np.array([True, False])
    layer["3"] = np.arange(5, dtype=">i4")
    layer["4"] = np.arange(5, dtype="f2")
    for i in range(300):
        file[f"optimizer/vars/{i}"] = np.full((3,), i, "f4")
    values = rng.random((100, 37), dtype="f4")
    file.create_dataset("gzip", data=values, chunks=(13, 7), compression="gzip", shuffle=True, fletcher32=True)
    file.create_dataset("single", data=values, chunks=(100, 37))
    file.create_dataset("lzf", data=values, chunks=(7, 5), compression="lzf")
    file.create_dataset("paged", data=rng.random(5000, dtype="f4"), chunks=(3,))
    file["type"] = np.dtype("f4")
    file.create_dataset("typed", data=values[0], dtype=file["type"])
    file["typed"].attrs.create("n", 1.5, dtype=file["type"])
    file["typed_too"] = file["typed"]
    file.attrs["layer_names"] = [b"dense", b"conv"]
    file.attrs["empty"] = []
    file.attrs["fixed"] = np.array([b"ab", b"c"])
    file.attrs["long"] = "x" * 70000
    for i in range(20):
        layer.attrs[f"a{i}"] = f"v{i}"


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}, {"libver": "v108"}, {"userblock_size": 512},
                                     {"track_order": True}], ids=str)
def test_h5py_files(tmp_path, options):
    source = tmp_path / "in.h5"
    with h5py.File(source, "w", **options) as file:
        fill(file)
    assert_same(source, tmp_path / "out.h5")


def model_of(keras):
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization(),
                              keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("adam", "mean_squared_error")
    model.fit(np.ones((4, 8, 8, 1)), np.ones((4, 3)), verbose=0)
    return model


@pytest.mark.parametrize("name", ["m.weights.h5", "m.h5"])
def test_keras_reads_our_copy(tmp_path, name):
    keras = pytest.importorskip("keras")
    model = model_of(keras)
    source, target = tmp_path / name, tmp_path / ("copy_" + name)
    model.save_weights(source) if "weights" in name else model.save(source)
    assert_same(source, target)
    if "weights" in name:
        again = keras.models.clone_model(model)
        again.load_weights(target)
    else:
        again = keras.models.load_model(target)
    for old, new in zip(model.get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(old, new)


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_keras_loads_our_models(tmp_path, name):
    """Config, weights and optimizer state through our archives; training continues exactly."""
    keras = pytest.importorskip("keras")
    model = model_of(keras)
    source, target = tmp_path / name, tmp_path / ("ours_" + name)
    model.save(source)
    subprocess.run([PROBE, "archive" if name.endswith(".keras") else "legacy", source, target], check=True)
    again = keras.models.load_model(target)
    for old, new in zip(model.get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(old, new)
    if name.endswith(".keras"):
        for each in (model := keras.models.load_model(source)), again:
            each.fit(np.ones((4, 8, 8, 1)), np.ones((4, 3)), verbose=0)
        for old, new in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
            assert np.array_equal(old.numpy(), new.numpy())


def test_tf_keras_files(tmp_path):
    keras = pytest.importorskip("tf_keras")
    model_of(keras).save(tmp_path / "m.h5")
    assert_same(tmp_path / "m.h5", tmp_path / "out.h5")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damaged_files_are_refused_or_read(tmp_path, libver):
    """Truncation at many lengths and flipped bytes: an error or data, never a signal."""
    source = tmp_path / "in.h5"
    with h5py.File(source, "w", libver=libver) as file:
        fill(file)
    whole = source.read_bytes()
    bad = tmp_path / "bad.h5"
    rng = np.random.default_rng(11)
    for at in rng.integers(0, len(whole), 60):
        bad.write_bytes(whole[:at])
        assert subprocess.run([PROBE, "list", bad], capture_output=True).returncode == 1
    for at in rng.integers(0, len(whole), 200):
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1:])
        assert subprocess.run([PROBE, "list", bad], capture_output=True).returncode in (0, 1)


# Reads all of the files that are named on its standard input, one by one: the library can crash on such.
READ_ALL = """
import sys, h5py
def read(item):
    dict(item.attrs)
    if isinstance(item, h5py.Dataset): item[()]
    else: [read(item[name]) for name in item]
for path in sys.stdin.read().split():
    print(path, end=" ", flush=True)
    try:
        with h5py.File(path) as file: read(file)
        print("whole")
    except UnicodeError: print("whole")
    except Exception as error: print("rejected", str(error).replace(chr(10), " "))
"""


def rejected_by_the_library(paths):
    """Those of the files that h5py does not read, with the reason."""
    reasons, left = {}, [str(path) for path in paths]
    while left:
        try:
            done = subprocess.run([sys.executable, "-c", READ_ALL], input="\n".join(left), capture_output=True, text=True, timeout=60).stdout
        except subprocess.TimeoutExpired as expired:
            done = (expired.stdout or b"").decode()
        lines = [line.split(" ", 2) for line in done.splitlines()]
        reasons.update({line[0]: line[2] for line in lines if line[1:2] == ["rejected"]})
        left = left[max(len(lines), 1):]
    return reasons


def places_of_metadata(path):
    """The bytes of the file that are not values."""
    values = set()

    def add(_, item):
        if isinstance(item, h5py.Dataset) and item.chunks:
            for i in range(item.id.get_num_chunks()):
                chunk = item.id.get_chunk_info(i)
                values.update(range(chunk.byte_offset, chunk.byte_offset + chunk.size))
        elif isinstance(item, h5py.Dataset) and item.id.get_offset():
            values.update(range(item.id.get_offset(), item.id.get_offset() + item.id.get_storage_size()))

    with h5py.File(path) as file:
        file.visititems(add)
    return sorted(set(range(os.path.getsize(path))) - values)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_what_the_library_rejects_is_rejected(tmp_path, libver):
    """Changed fields of the structure: what h5py does not read is an error here too."""
    source = tmp_path / "in.h5"
    with h5py.File(source, "w", libver=libver) as file:
        file["layers/dense/0"] = np.arange(6, dtype="f4").reshape(2, 3)
        file["layers/dense"].attrs["name"] = "dense"
        file.create_dataset("chunked", data=np.zeros((8, 8)), chunks=(4, 4), compression="gzip", shuffle=True)
        file["text"], file["flags"] = "hello", np.array([True, False])
        file.attrs["names"] = np.array([b"one", b"two"])
        for i in range(9):  # so many are stored in a heap
            file[f"many/{i}"], file["layers"].attrs[f"a{i}"] = np.float32(i), "text"
    whole, rng, accepted = source.read_bytes(), random.Random(f"{tool.SEED}/{libver}"), []
    places = places_of_metadata(source)
    for number in range(12000 if tool.CONFORMANCE else 400):
        at, data = rng.choice(places), bytearray(whole)
        if rng.random() < 0.6:
            data[at] ^= 1 << rng.randrange(8)
        else:
            width = rng.choice([1, 2, 4, 8])
            value = rng.choice([0, 1, 2, 0x7f, 0xff, 0xffff, 0xffffffff, 2**63 - 1, 2**64 - 1])
            data[at:at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
            del data[len(whole):]
        path = tmp_path / f"{number}.h5"
        path.write_bytes(data)
        done = subprocess.run([PROBE, "list", path], capture_output=True, text=True, errors="replace")
        assert done.returncode in (0, 1), f"byte {at}: {done}"
        if done.returncode == 0 and "\nrefused" not in done.stdout:
            accepted.append(path)
        else:
            path.unlink()
    assert len(accepted) > 50
    assert not rejected_by_the_library(accepted)


@pytest.mark.parametrize("libver", ["earliest", "latest", ("v108", "v110")])
def test_files_that_were_changed_often(tmp_path, libver):
    """Deleted members leave their names in the heap, and objects with several links are not damage."""
    def readable():
        return subprocess.run([PROBE, "list", path], check=True, capture_output=True, text=True).stdout

    path, rng = str(tmp_path / "changed.h5"), np.random.default_rng(20260)
    with h5py.File(path, "w", libver=libver) as file:
        for i in range(300):
            file[f"groups/long_name_{i % 37}/vars/{i}"] = np.ones((3, 2), "f4")
        for i in range(40):
            file[f"s/{i}"] = np.float32(i)
    assert readable().count("dataset ") == 340
    with h5py.File(path, "a", libver=libver) as file:
        for i in rng.permutation(40)[:25]:
            del file[f"s/{i}"]
        for i in range(0, 300, 3):
            del file[f"groups/long_name_{i % 37}/vars/{i}"]
        file["alias"], file["groups/soft"], file["type"] = file["s"], h5py.SoftLink("/s"), np.dtype("f4")
        for i in range(100):
            file["s"].attrs[f"a{i}"] = "x" * i
        for i in range(0, 100, 2):
            del file["s"].attrs[f"a{i}"]
    assert readable().count("dataset ") == 200 + 2 * 15
    with h5py.File(path, "a", libver=libver) as file:
        for name in list(file["s"]):
            del file["s"][name]
        file.move("groups", "moved")
        file.create_dataset("unwritten", (4,), "f8")
        file["nothing"], file["flags"] = h5py.Empty("f4"), np.array([True, False])
    assert readable().count("dataset ") == 202


def test_values_that_overlap(tmp_path):
    """A changed address of values, which nothing protects in such files, is an error where they would be those of another dataset, or metadata."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "ab":
            file[name] = np.arange(64, dtype="f4")
        a, b = (file[name].id.get_offset() for name in "ab")
    whole, layout = (tmp_path / "a.h5").read_bytes(), b"\x03\x01" + a.to_bytes(8, "little")  # version, contiguous, address
    assert whole.count(layout) == 1
    for address in (b, b - 16, b + 16, 0, 96):
        (tmp_path / "b.h5").write_bytes(whole.replace(layout, layout[:2] + address.to_bytes(8, "little")))
        done = subprocess.run([PROBE, "list", tmp_path / "b.h5"], capture_output=True, text=True)
        assert done.returncode == 1 and "overlap" in done.stderr, (address, done)


def test_chunk_that_begins_within_an_element(tmp_path):
    """The HDF5 library gives zeros for it. A key of the tree: size u32, filters u32, offset u64, offset within the element u64."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(20, dtype="f4"), chunks=(6,))
    data = bytearray((tmp_path / "a.h5").read_bytes())
    data[data.index(b"TREE\x01") + 24 + 3 * 32 + 16] ^= 4  # of the last chunk
    (tmp_path / "b.h5").write_bytes(data)
    tool.ok("verify", tmp_path / "a.h5")
    assert "within an element" in tool.refused("verify", tmp_path / "b.h5", code=3)
    with h5py.File(tmp_path / "b.h5") as file:
        assert not np.array_equal(file["a"], np.arange(20))

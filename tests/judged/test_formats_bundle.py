"""Tensor bundles, npy, npz and safetensors against the software that defines them."""

import pathlib
import subprocess

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

PROBE = pathlib.Path(__file__).resolve().parents[2] / "build" / "bin" / "format_probe"
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]
SHAPES = [(), (0,), (3,), (2, 3), (4, 1, 5)]


def probe(*args, check=True):
    return subprocess.run([str(PROBE), *map(str, args)], check=check, capture_output=True, text=True)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    table = {f"{dtype}/{len(shape)}_{shape}": np.asarray(rng.random(shape) * 100).astype(dtype)
             for dtype in DTYPES for shape in SHAPES}
    table["strings"] = np.array([b"a", b"", b"hello"])
    table["string"] = np.array(b"x")
    return table


def save_v2(prefix, table):
    values = [tf.constant(v.tolist() if v.dtype.kind == "S" else v) for v in table.values()]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=list(table), shape_and_slices=[""] * len(table), tensors=values)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, arrays, save):
    save(tmp_path / "in.npz", **arrays)
    probe("copy", tmp_path / "in.npz", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    assert set(out) == set(arrays)
    for name, value in arrays.items():
        assert out[name].dtype == value.dtype and out[name].shape == value.shape
        np.testing.assert_array_equal(out[name], value)


@pytest.mark.parametrize("array", [np.asfortranarray(np.arange(60.0).reshape(3, 4, 5)),
                                   np.arange(6, dtype=">i4").reshape(2, 3), np.array([[1 + 2j]], ">c16")])
def test_npy_layouts(tmp_path, array):
    np.save(tmp_path / "in.npy", array)
    probe("npy", tmp_path / "in.npy", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), array)


def test_npy_refuses_pickles(tmp_path):
    np.save(tmp_path / "in.npy", np.array([object()], dtype=object))
    assert probe("npy", tmp_path / "in.npy", tmp_path / "out.npy", check=False).returncode == 1


def test_bundle_has_tensorflows_bytes(tmp_path, arrays):
    np.savez(tmp_path / "in.npz", **arrays)
    save_v2(tmp_path / "theirs", arrays)
    for _ in range(2):  # a second save replaces the first and ends in the same bytes
        probe("copy", tmp_path / "in.npz", tmp_path / "ours")
        for suffix in (".index", ".data-00000-of-00001"):
            assert (tmp_path / f"ours{suffix}").read_bytes() == (tmp_path / f"theirs{suffix}").read_bytes()
    reader = tf.train.load_checkpoint(str(tmp_path / "ours"))
    assert set(reader.get_variable_to_shape_map()) == set(arrays)


def test_bundle_of_several_index_blocks(tmp_path):
    table = {f"layer_{i:05d}/kernel": np.float32(i) for i in range(9000)}
    np.savez(tmp_path / "in.npz", **table)
    save_v2(tmp_path / "theirs", {k: np.asarray(v) for k, v in table.items()})
    probe("copy", tmp_path / "in.npz", tmp_path / "ours")
    assert (tmp_path / "ours.index").read_bytes() == (tmp_path / "theirs.index").read_bytes()


def test_bundle_read_back(tmp_path, arrays):
    save_v2(tmp_path / "theirs", arrays)
    probe("copy", tmp_path / "theirs", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    for name, value in arrays.items():
        np.testing.assert_array_equal(out[name], value)


def test_partitioned_tensor_of_two_shards(tmp_path):
    whole = np.arange(12, dtype="float32").reshape(4, 3)
    parts = [("4 3 0,2:0,3", whole[:2]), ("4 3 2,2:0,3", whole[2:])]
    for i, (spec, part) in enumerate(parts):
        tf.raw_ops.SaveV2(prefix=str(tmp_path / f"part{i}"), tensor_names=["w"], shape_and_slices=[spec], tensors=[part])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(tmp_path / f"part{i}") for i in range(2)],
                                  destination_prefix=str(tmp_path / "merged"), delete_old_dirs=False)
    probe("copy", tmp_path / "merged", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["w"], whole)


@pytest.mark.parametrize("size", [40, 90, 300])
def test_strings_in_several_shards(tmp_path, size):
    """MaxShardSizePolicy cuts a vector of strings into slices, which TensorFlow itself puts together for numbers only."""
    rng = np.random.default_rng(size)
    words = np.array([b"w" * n for n in rng.integers(0, 40, 30)])
    module = tf.Module()
    module.words, module.numbers = tf.Variable(words), tf.Variable(rng.random((7, 5)).astype("f"))
    options = tf.train.CheckpointOptions(experimental_sharding_callback=tf.train.experimental.MaxShardSizePolicy(size))
    path = tf.train.Checkpoint(m=module).write(str(tmp_path / "c"), options)
    copied = {f"m/{name}/.ATTRIBUTES/VARIABLE_VALUE": getattr(module, name).numpy() for name in ("words", "numbers")}
    probe("copy", path, tmp_path / "out.npz")
    for name, value in copied.items():
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")[name].astype(value.dtype), value)
    probe("copy", path, tmp_path / "out")
    reader = tf.train.load_checkpoint(str(tmp_path / "out"))
    for name, value in copied.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value)


def test_strings_in_slices_of_both_axes(tmp_path):
    whole = np.array([[f"{i}-{j}" * (i + j) for j in range(5)] for i in range(4)], "S")
    slices = {"4 5 0,3:0,2": whole[:3, :2], "4 5 0,3:2,3": whole[:3, 2:], "4 5 3,1:-": whole[3:]}
    tf.raw_ops.SaveV2(prefix=str(tmp_path / "c"), tensor_names=["s"] * 3, shape_and_slices=list(slices),
                      tensors=[tf.constant(part) for part in slices.values()])
    probe("copy", tmp_path / "c", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["s"], whole)


@pytest.mark.parametrize("files", [1, 2])
def test_checkpoints_of_version_1(tmp_path, arrays, files):
    """The format of SaverDef.V1, in one file or in two, each with its parts of a tensor."""
    kept = {name: value for name, value in arrays.items() if value.dtype not in ("uint32", "uint64")}
    whole = np.arange(12, dtype="float32").reshape(4, 3)
    values = [tf.constant(v.tolist() if v.dtype.kind == "S" else v) for v in kept.values()]
    rows = [(list(kept), [""] * len(kept), values), (["w"], ["4 3 0,1:-"], [whole[:1]]), (["w"], ["4 3 1,3:-"], [whole[1:]])]
    for i in range(files):
        names, slices, data = (sum(parts, []) for parts in zip(*(rows if files == 1 else rows[:2] if i == 0 else rows[2:])))
        path = tmp_path / ("old" if files == 1 else f"old-{i:05}-of-{files:05}")
        tf.raw_ops.SaveSlices(filename=str(path), tensor_names=names, shapes_and_slices=slices, data=data)
    for prefix in ("old", "old-?????-of-00002")[:files]:
        probe("copy", tmp_path / prefix, tmp_path / "out.npz")
        out = np.load(tmp_path / "out.npz")
        assert set(out) == {*kept, "w"}
        for name, value in {**kept, "w": whole}.items():
            assert out[name].shape == value.shape
            np.testing.assert_array_equal(out[name], value)


def test_safetensors_has_the_librarys_bytes(tmp_path, arrays):
    library = pytest.importorskip("safetensors.numpy")
    table = {k: v for k, v in arrays.items() if v.dtype.kind not in "Sc"}
    library.save_file(table, tmp_path / "in.safetensors")
    probe("copy", tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    assert (tmp_path / "in.safetensors").read_bytes() == (tmp_path / "out.safetensors").read_bytes()

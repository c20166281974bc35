"""Models and graphs that were changed at random, and crafted ones that ask for too much: each gives the numbers of Keras or
TensorFlow, or one clear error, within ten seconds and 3 GB."""

import inspect
import json
import os
import random
import struct
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import answers
import lockstep_tool as tool
import original

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="about the tool's own manners")

L = keras.layers
SOURCE = inspect.getsource(original)
CASES = 1500 if tool.CONFORMANCE else 5  # of each test
GRAPHS = sorted((tool.ROOT / "fuzz" / "corpus" / "graphs").glob("*.pb"))


def dense():
    return keras.Sequential([keras.Input((4,)), L.Dense(5, activation="relu"), L.BatchNormalization(), L.Dropout(0.2), L.Dense(2, activation="softmax")])


def conv():
    x = keras.Input((8, 8, 3))
    sum_ = L.Add()([L.Conv2D(4, 3, padding="same", activation="relu")(x), L.SeparableConv2D(4, 3, padding="same")(x)])
    y = L.GlobalAveragePooling2D()(L.Conv2DTranspose(2, 3, strides=2, padding="same")(L.MaxPooling2D()(sum_)))
    return keras.Model(x, [L.Dense(3)(y), L.Reshape((1, 2))(y)])


def recurrent():
    x = keras.Input((5, 3))
    a = L.LSTM(4, return_sequences=True)(x)
    b = L.LayerNormalization()(L.MultiHeadAttention(2, 2)(a, a))
    return keras.Model(x, L.Concatenate()([L.Bidirectional(L.GRU(3))(a), L.Flatten()(b)]))


def embedding():
    x = keras.Input((6,), dtype="int32")
    return keras.Model(x, keras.ops.mean(L.TimeDistributed(L.Dense(3))(L.Embedding(10, 4, mask_zero=True)(x)), axis=1) * 2.0 + 1.0)


MODELS = {"dense": dense, "conv": conv, "recurrent": recurrent, "embedding": embedding}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For each model NAME.keras, NAME.npz with inputs, and the SavedModel NAME."""
    path, rng = tmp_path_factory.mktemp("hostile"), tool.generator("hostile")
    keras.backend.clear_session()  # names and seeds are those of every run
    keras.utils.set_random_seed(1)
    for name, make in MODELS.items():
        model = make()
        tool.randomise(model, rng)
        model.save(path / f"{name}.keras")
        model.export(path / name, verbose=False)
        shape = (2, *model.inputs[0].shape[1:])
        np.savez(path / f"{name}.npz", x=rng.integers(0, 10, shape).astype("int32") if name == "embedding" else rng.normal(size=shape).astype("float32"))
    for graph in GRAPHS:
        np.savez(path / f"{graph.stem}.npz", x=rng.normal(size=(1, 6, 6, 3) if graph.stem == "image" else (2, 4)).astype("float32"))
    return path


@pytest.fixture(scope="module")
def judge():
    """What Keras or TensorFlow gives for a changed file, which is a stored answer: none of them, or all, are computed again."""
    process = original.Original()

    def ask(kind, model, inputs, tmp_path):
        def compute():
            found = process.run(kind, model, inputs, tmp_path)
            return {"refused": found is None, **{f"{i}": value for i, value in enumerate(found or [])}}

        with np.load(inputs) as arrays:
            given = [[name, arrays[name]] for name in arrays.files]
        if kind == "keras":
            with zipfile.ZipFile(model) as archive:
                content = [[name, archive.read(name).hex()] for name in archive.namelist() if name != "metadata.json"]
        else:
            content = model.read_bytes().hex()
        digest = None if answers.MODE == "off" else answers.digest_of("changed", kind, content, given, SOURCE)
        found = answers.answer(digest, compute, 1e-3, drawn_with="changed files")[0]
        return None if found["refused"] else [value for name, value in found.items() if name != "refused"]

    yield ask
    process.close()


def predict(model, inputs, tmp_path, *options):
    """The tool's arrays, or None after an error, which must be one clear line."""
    target = tmp_path / "y.npz"
    target.unlink(missing_ok=True)
    result = tool.run("predict", model, *(["--input", inputs] if inputs else []), "--output", target, *options, timeout=60)
    if result.code == 0:
        return [value for _, value in tool.load_outputs(target)]
    lines = [line for line in result.err.splitlines() if not line.startswith("lockstep: warning: ")]
    assert result.code == 1 and len(lines) == 1 and len(lines[0]) > 15 and lines[0].isprintable(), str(result)
    for word in ("std::", "bad_alloc", "vector::", "c10::", "INTERNAL ASSERT", "internal error"):
        assert word not in lines[0], str(result)
    return None


def assert_same(ours, theirs, what):
    """Where both gave numbers, they are the same."""
    for a, b in zip(ours, theirs, strict=True):
        if b.dtype.kind in "SUO":
            continue
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.dtype} {a.shape}, expected {b.dtype} {b.shape}"
        assert np.allclose(a.astype(complex), b.astype(complex), rtol=1e-3, atol=1e-4, equal_nan=True), f"{what}: {a}, expected {b}"


# A change of a config is one of a value of JSON.
EXTREME = [0, 1, -1, 2**31, 2**63 - 1, 2**63, 10**30, 0.5, -1.5, 1e308, float("nan"), "", "x", None, True, [], {}, [[]], "\x00", [0, 0], [-1, -1], 10**8]
WORDS = ["relu", "softmax", "same", "valid", "linear", "tanh", "channels_first", "float64", "float16", "int32", "sum", "mul", "concat", None, ""]


def paths(value, at=()):
    yield at
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(part, (*at, key))


def changed_config(rng, config):
    config = json.loads(json.dumps(config))
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.choice(list(paths(config))[1:])
        parent = config
        for key in at[:-1]:
            parent = parent[key]
        value = parent[at[-1]]
        if rng.random() < 0.1:
            del parent[at[-1]]
        elif rng.random() < 0.3:
            parent[at[-1]] = rng.choice(EXTREME)
        elif isinstance(value, bool):
            parent[at[-1]] = not value
        elif isinstance(value, int):
            parent[at[-1]] = rng.choice([0, 1, 2, -1, value + 1, value - 1, 2 * value, float(value), None, str(value), [value]])
        elif isinstance(value, float):
            parent[at[-1]] = rng.choice([0.0, 1.0, -1.0, 2 * value, 0.5, None])
        elif isinstance(value, str):
            parent[at[-1]] = rng.choice([*WORDS, value.upper(), value + "x"])
        elif isinstance(value, list):
            parent[at[-1]] = rng.choice([value + value[-1:], value[:-1], value[::-1], [], None, value[0] if value else 1])
        else:
            parent[at[-1]] = rng.choice([1, 2, "relu", True, [1], 0.5, "float64", {}, None])
    return config


def with_config(source, target, config):
    """A .keras file like `source` with the text `config`."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, config if name == "config.json" else old.read(name))
    return target


@pytest.mark.parametrize("name", MODELS)
def test_changed_configs(name, folder, judge, tmp_path):
    source, inputs = folder / f"{name}.keras", folder / f"{name}.npz"
    config = json.loads(zipfile.ZipFile(source).read("config.json"))
    for number in range(CASES):
        text = json.dumps(changed_config(random.Random(f"{tool.SEED}/{name}/{number}"), config))
        path = with_config(source, tmp_path / "m.keras", text)
        ours = predict(path, inputs, tmp_path)
        theirs = ours and judge("keras", path, inputs, tmp_path)
        if theirs:
            assert_same(ours, theirs, f"{name} {number}: {text}")


# A change of a graph is one of its nodes: an attribute, an input, the operation, a constant.
INTEGERS = [0, 1, -1, 2, 3, 2**31, 2**31 - 1, -2**31, 2**62, 2**63 - 1, -2**63, 100000, 10**9, 10**12]
TYPES = [0, 1, 2, 3, 4, 7, 8, 9, 10, 14, 17, 19, 20, 21, 22, 23, 101, 103, 999]


def change_tensor(rng, tensor):
    dims = tensor.tensor_shape.dim
    kind = rng.randrange(4)
    if kind == 0 and dims:
        rng.choice(dims).size = rng.choice(INTEGERS)
    elif kind == 1:
        dims.add(size=rng.choice(INTEGERS))
    elif kind == 2:
        tensor.dtype = rng.choice(TYPES)
    elif tensor.tensor_content:
        data = bytearray(tensor.tensor_content)
        data[:8] = struct.pack("<q", rng.choice(INTEGERS))[: len(data)]
        tensor.tensor_content = bytes(data)
    elif tensor.int_val:
        tensor.int_val[0] = rng.choice([-1, 0, 1, 2**31 - 1, -2**31, 5, 100000])
    elif tensor.float_val:
        tensor.float_val[0] = rng.choice([0, float("nan"), 1e30, -1])


def change_attribute(rng, node, functions):
    name = rng.choice(sorted(node.attr))
    value = node.attr[name]
    kind = value.WhichOneof("value")
    if rng.random() < 0.08:
        del node.attr[name]
    elif kind == "i":
        value.i = rng.choice(INTEGERS)
    elif kind == "f":
        value.f = rng.choice([0, -1, 1e30, float("nan"), float("inf")])
    elif kind == "b":
        value.b = not value.b
    elif kind == "type":
        value.type = rng.choice(TYPES)
    elif kind == "s":
        value.s = rng.choice([b"", b"x", b"SAME", b"VALID", b"EXPLICIT", b"NCHW", b"\xff\xfe", 100 * value.s])
    elif kind == "shape" and value.shape.dim:
        rng.choice(value.shape.dim).size = rng.choice(INTEGERS)
    elif kind == "list" and value.list.type:
        value.list.type.append(rng.choice(TYPES)) if rng.random() < 0.5 else value.list.type.pop()
    elif kind == "list":
        value.list.i.append(rng.choice(INTEGERS))
    elif kind == "tensor":
        change_tensor(rng, value.tensor)
    elif kind == "func":
        value.func.name = rng.choice(functions or ["none"])


def change_graph(rng, graph):
    functions = [function.signature.name for function in graph.library.function]
    for _ in range(rng.choice([1, 1, 2, 4])):
        nodes = rng.choice(graph.library.function).node_def if functions and rng.random() < 0.6 else graph.node
        if not nodes:
            continue
        node, kind = rng.choice(nodes), rng.random()
        if kind < 0.5 and node.attr:
            change_attribute(rng, node, functions)
        elif kind < 0.65 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(nodes).name + rng.choice(["", ":0", ":1", ":output:0"])
        elif kind < 0.7 and node.input:
            del node.input[rng.randrange(len(node.input))]
        elif kind < 0.75:
            node.input.append(rng.choice(["", "^"]) + rng.choice(nodes).name)
        elif kind < 0.87:
            node.op = rng.choice(nodes).op
        elif kind < 0.92:
            nodes.add().CopyFrom(rng.choice(nodes))
        elif kind < 0.96:
            del nodes[rng.randrange(len(nodes))]
        else:
            constants = [other for other in nodes if other.op == "Const" and other.attr]
            if constants:
                change_attribute(rng, rng.choice(constants), functions)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda path: path.stem)
def test_changed_graphs(graph, folder, judge, tmp_path):
    inputs, path = folder / f"{graph.stem}.npz", tmp_path / "g.pb"
    for number in range(CASES):
        changed = tf.compat.v1.GraphDef.FromString(graph.read_bytes())
        change_graph(random.Random(f"{tool.SEED}/{graph.stem}/{number}"), changed)
        path.write_bytes(changed.SerializeToString(deterministic=True))
        ours = predict(path, inputs, tmp_path, "--outputs", "Identity")
        theirs = ours and judge("graph", path, inputs, tmp_path)
        if theirs:
            assert_same(ours, theirs, f"{graph.stem} {number}: {changed}")


@pytest.mark.parametrize("name", MODELS)
def test_changed_saved_models(name, folder, tmp_path):
    model, whole = tmp_path / "model", (folder / name / "saved_model.pb").read_bytes()
    (model / "variables").mkdir(parents=True)
    for part in (folder / name / "variables").iterdir():
        os.link(part, model / "variables" / part.name)
    for number in range(CASES):
        saved = saved_model_pb2.SavedModel.FromString(whole)
        rng = random.Random(f"{tool.SEED}/saved/{name}/{number}")
        objects = saved.meta_graphs[0].object_graph_def.nodes
        if rng.random() < 0.85:
            change_graph(rng, saved.meta_graphs[0].graph_def)
        elif (node := rng.choice(objects)).children:
            rng.choice(node.children).node_id = rng.choice([0, -1, 2**31 - 1, len(objects), rng.randrange(len(objects))])
        else:
            node.CopyFrom(rng.choice(objects))
        (model / "saved_model.pb").write_bytes(saved.SerializeToString())
        predict(model, folder / f"{name}.npz", tmp_path)


# Runs a command, and prints the seconds of processor time and the bytes of memory that it took. A small process between the
# tests and the command: Linux counts the memory of the process that called fork as the command's own.
MEASURED = """import json, resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss << 10]))
"""


def assert_bounded(args, cpu_seconds=10, memory=3 << 30):
    """The command ends with one clear line, and uses no more than this."""
    process = subprocess.run([sys.executable, "-ISc", MEASURED, tool.BIN, *map(str, args)], capture_output=True, text=True)
    code, seconds, peak = json.loads(process.stdout)
    errors = process.stderr
    assert code == 1 and len(errors.splitlines()) == 1 and "internal error" not in errors, f"exit {code}: {errors[-500:]}"
    assert seconds < cpu_seconds * os.cpu_count() and peak < memory, f"{seconds} s, {peak} bytes: {errors}"
    return errors


def doubled(x, times):
    for _ in range(times):
        x = tf.concat([x, x], 0)
    return tf.identity(x, name="y")


def endless(body, start, shape):
    return tf.identity(tf.while_loop(lambda x: tf.size(x) >= 0, body, [start], shape_invariants=[shape])[0], name="y")


BOMBS = {
    "fill": lambda: tf.identity(tf.fill([100000, 100000], 1.0), name="y"),
    "reshape": lambda: tf.reshape(tf.ones([3, 4]), tf.compat.v1.placeholder_with_default(tf.constant([-1, 2**62, 4], tf.int64), [3]), name="y"),
    "doubled": lambda: doubled(tf.ones([1]), 40),
    "endless loop": lambda: endless(lambda x: x * 1, tf.constant(0), tf.TensorShape([])),
    "growing loop": lambda: endless(lambda x: tf.concat([x, x], 0), tf.ones([1]), tf.TensorShape([None])),
    "tile": lambda: tf.identity(tf.tile(tf.ones([1000, 1000]), [1000, 1000]), name="y"),
    "range": lambda: tf.identity(tf.range(0, 10**12, 1, dtype=tf.int64), name="y"),
    "one_hot": lambda: tf.one_hot(tf.zeros([1000], tf.int32), 10**9, name="y"),
    "broadcast": lambda: tf.add(tf.ones([100000, 1]), tf.ones([1, 100000]), name="y"),
    "resize": lambda: tf.raw_ops.ResizeBilinear(images=tf.ones([1, 2, 2, 3]), size=[100000, 100000], name="y"),
    "conv": lambda: tf.nn.conv2d(tf.ones([1, 2000, 2000, 32]), tf.ones([63, 63, 32, 32]), 1, "SAME", name="y"),
    "svd": lambda: tf.raw_ops.Svd(input=tf.ones([3000, 3000]), name="y")[0],
    "lrn": lambda: tf.raw_ops.LRN(input=tf.ones([1, 100, 100, 5000]), depth_radius=10**9, name="y"),
    "list": lambda: tf.raw_ops.TensorListReserve(element_shape=[1], num_elements=2**31 - 1, element_dtype=tf.float32, name="y"),
    "inflate": lambda: tf.io.decode_compressed([b"\x78\x9c" + b"\0" * 10], compression_type="ZLIB", name="y"),
    "bmp": lambda: tf.raw_ops.DecodeBmp(contents=b"BM" + struct.pack("<IIIIiiHHIIiiII", 100, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, *[0] * 6) + bytes(60), name="y"),
}


@pytest.mark.parametrize("name", tool.pick(BOMBS, 4, key="graphs"))
def test_graphs_that_ask_for_too_much(name, tmp_path):
    with tf.Graph().as_default() as graph:
        BOMBS[name]()
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    assert_bounded(["predict", tmp_path / "g.pb", "--outputs", "y", "--output", tmp_path / "y.npz"])


def test_gradient_functions_of_a_library(tmp_path):
    """TensorFlow calls them in place of derivatives: the gradient of the function is 0 here, not 1."""
    graph = tf.compat.v1.GraphDef()
    for name, arguments, body in (("f", "x", "x"), ("zero", "xy", "z:y:0")):
        function = graph.library.function.add(ret={"r": body})
        function.signature.name = name
        function.signature.output_arg.add(name="r", type=1)
        for argument in arguments:
            function.signature.input_arg.add(name=argument, type=1)
    function.node_def.add(name="z", op="ZerosLike", input=["x"]).attr["T"].type = 1
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = graph.node.add(name="Identity", op="SymbolicGradient", input=["x", "x"])
    node.attr["f"].func.name = "f"
    node.attr["Tin"].list.type.extend([1, 1])
    node.attr["Tout"].list.type.append(1)
    np.savez(tmp_path / "x.npz", x=np.float32([5]))
    command = ["predict", tmp_path / "g.pb", "--input", tmp_path / "x.npz", "--outputs", "Identity", "--output", tmp_path / "y.npz"]
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    tool.ok(*command)
    graph.library.gradient.add(function_name="f", gradient_func="zero")
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    tool.ok(*command)
    assert dict(tool.load_outputs(tmp_path / "y.npz"))["Identity"] == 0
    for name in ("zero", "nothing"):  # a function that may call f; one that is missing
        node.attr["f"].func.name = "zero" if name == "zero" else "f"
        graph.library.gradient[0].gradient_func = name
        (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
        assert "gradient functions (of 'f')" in tool.refused(*command, code=1)


def test_functions_named_like_operations(tmp_path):
    """A node could mean either. TensorFlow adds no such function to a library."""
    graph = tf.compat.v1.GraphDef()
    function = graph.library.function.add(ret={"r": "x"})
    function.signature.input_arg.add(name="x", type=1)
    function.signature.output_arg.add(name="r", type=1)
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    graph.node.add(name="y", op="Relu", input=["x"]).attr["T"].type = 1
    np.savez(tmp_path / "x.npz", x=np.float32([-5]))
    command = ["predict", tmp_path / "g.pb", "--input", tmp_path / "x.npz", "--outputs", "y", "--output", tmp_path / "y.npz"]
    for name in ("Relu7", "Relu"):
        function.signature.name = name
        (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
        if name == "Relu7":
            tool.ok(*command)
    with pytest.raises(Exception, match="an op with the same name"), tf.Graph().as_default():
        tf.import_graph_def(graph)
    assert "function 'Relu' of the library has the name of an operation" in tool.refused(*command, code=1)


def test_constants_that_repeat_too_much(tmp_path):
    graph = tf.compat.v1.GraphDef()
    for i in range(1000):
        value = graph.node.add(name=f"c{i}", op="Const").attr["value"].tensor
        graph.node[-1].attr["dtype"].type = value.dtype = 1
        value.tensor_shape.dim.add(size=10**6)
        value.float_val.append(1)
    node = graph.node.add(name="y", op="AddN", input=[f"c{i}" for i in range(1000)])
    node.attr["N"].i, node.attr["T"].type = 1000, 1
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    assert "512 MiB" in assert_bounded(["predict", tmp_path / "g.pb", "--outputs", "y", "--output", tmp_path / "y.npz"])


def test_constants_of_too_many_axes(tmp_path):
    """TensorFlow's tensors have at most 254, NumPy's arrays 64."""
    def write(axes):
        graph = tf.compat.v1.GraphDef()
        value = graph.node.add(name="y", op="Const").attr["value"].tensor
        graph.node[0].attr["dtype"].type = value.dtype = 1
        value.float_val.append(3)
        for _ in range(axes):
            value.tensor_shape.dim.add(size=1)
        (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
        return graph

    command = ["predict", tmp_path / "g.pb", "--outputs", "y", "--output", tmp_path / "y.npz"]
    write(64)
    tool.ok(*command)
    assert dict(tool.load_outputs(tmp_path / "y.npz"))["y"].shape == (1,) * 64
    write(254)
    assert "at most 64" in tool.refused(*command, code=1)
    with pytest.raises(ValueError), tf.Graph().as_default():
        tf.import_graph_def(write(255))
    assert "at most 254" in tool.refused(*command, code=1)


def test_models_that_call_each_other_too_often(tmp_path):
    """Each model calls the one inside twice: 30 levels in 20 KB make 2^30 calls."""
    model = keras.Sequential([keras.Input((4,)), L.Activation("relu")], name="model0")
    for level in (1, 2):
        x = keras.Input((4,))
        model = keras.Model(x, model(model(x)), name=f"model{level}")
    model.save(tmp_path / "whole.keras")
    config = keras.saving.serialize_keras_object(model)
    (inner,) = [layer for layer in config["config"]["layers"] if layer["name"] == "model1"]
    for level in range(30):
        inner["config"] = json.loads(json.dumps(config["config"] if level else inner["config"])) | {"name": "model1"}
    path = with_config(tmp_path / "whole.keras", tmp_path / "m.keras", json.dumps(config))
    np.save(tmp_path / "x.npy", np.ones((3, 4), "float32"))
    for command in (["summary", path], ["predict", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz"]):
        assert "100000 times" in assert_bounded(command)


@pytest.mark.parametrize("name", ["numbers", "layers"])
def test_compressed_configs_that_expand_too_much(name, tmp_path):
    """40 to 150 KB: numbers take eight times the size of their text, and a layer some kilobytes."""
    model = keras.Sequential([keras.Input((4,)), L.Dense(1)])
    model.save(tmp_path / "whole.keras")
    row = json.dumps({"module": "keras.layers", "class_name": "Dense", "registered_name": None, "config": {"units": 1}})
    many = ",".join([row] * 110_000) if name == "layers" else row.replace("1}", "1, \"x\": [" + "0," * 20_000_000 + "0]}")
    text = '{"module": "keras", "class_name": "Sequential", "registered_name": "Sequential", "config": {"name": "s", "layers": [' + many + "]}}"
    with zipfile.ZipFile(tmp_path / "whole.keras") as old, zipfile.ZipFile(tmp_path / "m.keras", "w", compression=zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            new.writestr(member, text if member == "config.json" else old.read(member))
    expected = "100000 layers" if name == "layers" else "bomb"
    for command in (["summary"], ["inspect"]) if name == "numbers" else (["summary"],):
        assert expected in assert_bounded([*command, tmp_path / "m.keras"], memory=1 << 30)


# The layers after an input of 4 numbers.
GREEDY = {
    "repeat": [("RepeatVector", {"n": 10**8})],
    "tokens": [("CategoryEncoding", {"num_tokens": 3 * 10**8})],
    "units": [("Dense", {"units": 10**9})],
    "vocabulary": [("Embedding", {"input_dim": 10**9, "output_dim": 10**4})],
    "adaptive": [("Reshape", {"target_shape": [4, 1]}), ("AdaptiveAveragePooling1D", {"output_size": 10**9})],
    "kernel": [("RepeatVector", {"n": 100}), ("Conv1D", {"filters": 10**9, "kernel_size": 50})],
    # 0 in 64 bits, 4 and 0 in 32 bits.
    "wrapped shape": [("Reshape", {"target_shape": [-1, 2**62, 2**62]})],
    "wrapped size": [("Reshape", {"target_shape": [2, 2, 1]}), ("Resizing", {"height": 2**32 + 4, "width": 4})],
    "wrapped axis": [("Softmax", {"axis": 2**32 + 1})],
    "wrapped axes": [("UnitNormalization", {"axis": [2**32 + 1]})],
    "wrapped tokens": [("CategoryEncoding", {"num_tokens": 2**40})],
    "grow": [("RepeatVector", {"n": 1000}), ("UpSampling1D", {"size": 1000}), ("UpSampling1D", {"size": 100})],
}


def with_layers(config, rows):
    """The config of a Sequential with these layers after its input."""
    config["config"]["layers"][1:] = [{"module": "keras.layers", "class_name": kind, "config": {"name": f"l{i}", **values}, "registered_name": None}
                                      for i, (kind, values) in enumerate(rows)]
    config.pop("build_config", None)
    return config


@pytest.mark.quick(5)
@pytest.mark.parametrize("name", GREEDY)
def test_models_that_ask_for_too_much(name, folder, tmp_path):
    model = keras.Sequential([keras.Input((4,))])
    model.add(L.Flatten())
    model.save(tmp_path / "whole.keras")
    config = with_layers(json.loads(zipfile.ZipFile(tmp_path / "whole.keras").read("config.json")), GREEDY[name])
    path = with_config(tmp_path / "whole.keras", tmp_path / "m.keras", json.dumps(config))
    np.save(tmp_path / "x.npy", np.ones((3, 4), "float32"))
    assert_bounded(["predict", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz"])
    np.savez(tmp_path / "d.npz", x=np.ones((3, 4), "float32"), y=np.ones((3, 1), "float32"))
    assert_bounded(["evaluate", path, "--data", tmp_path / "d.npz", "--loss", "mse"])
    assert_bounded(["fit", path, "--data", tmp_path / "d.npz", "--optimizer", "sgd", "--loss", "mse", "--max-memory", "256M"])


# New weights of these take 1.6 GB, or less with the rest of the training above.
ARCHITECTURES = {"kernel": [("Dense", {"units": 10**8})], "training": [("Dense", {"units": 3 * 10**7}), ("Dense", {"units": 3})]}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_that_ask_for_too_much(name, tmp_path):
    """A kilobyte of JSON, whose weights no file holds."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps(with_layers(json.loads(keras.Sequential([keras.Input((4,)), L.Flatten()]).to_json()), ARCHITECTURES[name])))
    np.savez(tmp_path / "d.npz", x=np.ones((3, 4), "float32"), y=np.ones((3, 1), "float32"))
    command = ["fit", path, "--data", tmp_path / "d.npz", "--optimizer", "adam", "--loss", "mse"]
    assert "--max-memory" in assert_bounded(command)
    assert "--max-memory" in assert_bounded([*command, "--strategy", "mirrored:2", "--max-memory", "64M"])


def test_models_that_take_too_long(tmp_path):
    """3000 layers that keep nothing in memory, of 12 million numbers each."""
    keras.Sequential([keras.Input((4,)), L.Flatten()]).save(tmp_path / "whole.keras")
    rows = [("RepeatVector", {"n": 10**6}), *[("Rescaling", {"scale": 1.001})] * 3000, ("GlobalMaxPooling1D", {})]
    config = with_layers(json.loads(zipfile.ZipFile(tmp_path / "whole.keras").read("config.json")), rows)
    path = with_config(tmp_path / "whole.keras", tmp_path / "m.keras", json.dumps(config))
    np.savez(tmp_path / "d.npz", x=np.ones((3, 4), "float32"), y=np.ones((3, 4), "float32"))
    np.save(tmp_path / "x.npy", np.ones((3, 4), "float32"))
    trained = ["--data", tmp_path / "d.npz", "--loss", "mse"]
    for command in (["predict", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"], ["evaluate", path, *trained],
                    ["fit", path, *trained, "--optimizer", "sgd"]):
        assert "--max-seconds" in assert_bounded([*command, "--max-seconds", 1], cpu_seconds=8)


def test_models_that_take_too_long_without_an_option(tmp_path):
    """Half a kilobyte: each pooling of a picture of 160,000 pixels looks at 160,000 of them for each."""
    keras.Sequential([keras.Input((4,)), L.Flatten()]).save(tmp_path / "whole.keras")
    pool = ("MaxPooling2D", {"pool_size": 399, "strides": 1, "padding": "same"})
    rows = [("RepeatVector", {"n": 40000}), ("Reshape", {"target_shape": [400, 400, 1]}), pool, pool]
    config = with_layers(json.loads(zipfile.ZipFile(tmp_path / "whole.keras").read("config.json")), rows)
    path = with_config(tmp_path / "whole.keras", tmp_path / "m.keras", json.dumps(config))
    np.save(tmp_path / "x.npy", np.ones((1, 4), "float32"))
    np.savez(tmp_path / "d.npz", x=np.ones((1, 4), "float32"), y=np.ones((1, 1), "float32"))
    commands = [["predict", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"],
                ["fit", path, "--data", tmp_path / "d.npz", "--loss", "mse", "--optimizer", "sgd"],
                ["evaluate", path, "--data", tmp_path / "d.npz", "--loss", "mse"]]
    for command in commands if tool.CONFORMANCE else commands[:1]:
        assert "--max-seconds" in assert_bounded(command)


def test_models_that_take_too_long_to_load(tmp_path):
    """Loading counts: the limit ends the command before the input, which is missing, is opened."""
    keras.Sequential([keras.Input((4,)), L.Flatten()]).save(tmp_path / "whole.keras")
    config = json.loads(zipfile.ZipFile(tmp_path / "whole.keras").read("config.json"))
    path = with_config(tmp_path / "whole.keras", tmp_path / "m.keras", json.dumps(with_layers(config, [("Rescaling", {"scale": 1.001})] * 20000)))
    command = ["predict", path, "--input", tmp_path / "missing.npy", "--output", tmp_path / "y.npy"]
    assert "missing.npy" in assert_bounded(command)
    assert "--max-seconds" in assert_bounded([*command, "--max-seconds", 0.1])


def test_the_limit_of_a_model_can_be_raised(tmp_path):
    """The message of a model that needs more names the option, and the option lets it run."""
    keras.Sequential([keras.Input((4,)), L.RepeatVector(1000)]).save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", np.ones((3, 4), "float32"))
    command = ["predict", tmp_path / "m.keras", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"]
    assert "--max-memory" in tool.refused(*command, "--max-memory", "10K")
    assert not (tmp_path / "y.npy").exists()
    tool.ok(*command, "--max-memory", "1M")
    assert np.load(tmp_path / "y.npy").shape == (3, 1000, 4)

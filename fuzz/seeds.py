"""Writes small real files, by the software that defines their formats, for the fuzz targets to begin from.

    seeds.py FOLDER    FOLDER/<reader>/...
"""

import gzip
import io
import json
import os
import pathlib
import struct
import sys
import tempfile
import zipfile
import zlib

import h5py
import keras
import numpy as np
import safetensors.numpy
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import saved_model_pb2

root = pathlib.Path(sys.argv[1])


def place(reader, name):
    (root / reader).mkdir(parents=True, exist_ok=True)
    return root / reader / name


if (root / "complete").exists():
    sys.exit(0)
with h5py.File(place("hdf5", "old.h5"), "w") as file:
    file["a/b"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    file.create_dataset("chunked", data=np.zeros((8, 8)), chunks=(4, 4), compression="gzip", shuffle=True)
    file.attrs["names"] = np.array([b"one", b"two"])
with h5py.File(place("hdf5", "new.h5"), "w", libver="latest") as file:
    file["a"] = np.arange(4)
    file["text"] = "hello"

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.save(place("keras_archive", "model.keras"))
model.save(place("keras_h5", "model.h5"))

np.save(place("npy", "a.npy"), np.arange(6, dtype=np.int16).reshape(2, 3))
np.save(place("npy", "s.npy"), np.array([b"one", b"three"]))
np.savez(place("npz", "a.npz"), x=np.ones(3, np.float32), y=np.zeros((2, 2)))
safetensors.numpy.save_file({"x": np.ones(3, np.float32)}, place("safetensors", "a.safetensors"))
place("idx", "a").write_bytes(struct.pack(">HBBII", 0, 8, 2, 2, 3) + bytes(6))

with tempfile.TemporaryDirectory() as folder:
    path = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0]), s=tf.Variable("text")).save(os.path.join(folder, "ckpt"))
    index = pathlib.Path(path + ".index").read_bytes()
    shard = pathlib.Path(path + ".data-00000-of-00001").read_bytes()
    place("bundle", "a").write_bytes(struct.pack(">H", len(index)) + index + shard)
    place("checkpoint_state", "checkpoint").write_bytes((pathlib.Path(folder) / "checkpoint").read_bytes())
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, folder, signatures={"serving_default": module.f.get_concrete_function()})
    place("saved_model", "a.pb").write_bytes((pathlib.Path(folder) / "saved_model.pb").read_bytes())
    place("frozen_graph", "a.pb").write_bytes(module.f.get_concrete_function().graph.as_graph_def().SerializeToString())

with tf.io.TFRecordWriter(str(place("records", "plain"))) as writer:
    writer.write(b"abc")
    writer.write(b"")
record = place("records", "plain").read_bytes()
for number, compress in enumerate((bytes, gzip.compress, zlib.compress)):
    place("records", f"records-{number}").write_bytes(bytes([2 * number]) + compress(record))
    place("records", f"lines-{number}").write_bytes(bytes([2 * number + 1]) + compress(b"one\r\ntwo"))
place("records", "plain").unlink()

# The same formats in a few kilobytes: ten times as many inputs a second.
weights = io.BytesIO()
with h5py.File(weights, "w", libver="latest") as file:
    file["layers/dense/vars/0"], file["layers/dense/vars/1"] = np.ones((2, 1), np.float32), np.zeros(1, np.float32)
small = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
with zipfile.ZipFile(place("keras_archive", "small.keras"), "w") as archive:
    archive.writestr("metadata.json", '{"keras_version": "3.15.1"}')
    archive.writestr("config.json", small.to_json())
    archive.writestr("model.weights.h5", weights.getvalue())
with h5py.File(place("keras_h5", "small.h5"), "w", libver="latest") as file:
    file.attrs["model_config"], file.attrs["keras_version"], file.attrs["backend"] = small.to_json(), "3.15.1", "tensorflow"
    group = file.create_group("model_weights")
    group.attrs["layer_names"] = [b"dense"]
    layer = group.create_group("dense")
    layer.attrs["weight_names"] = [b"kernel", b"bias"]
    layer["kernel"], layer["bias"] = np.ones((2, 1), np.float32), np.zeros(1, np.float32)
with h5py.File(place("hdf5", "small.h5"), "w", libver="latest") as file:
    file.create_dataset("chunked", data=np.arange(6.0), chunks=(2,), compression="gzip", shuffle=True, fletcher32=True)
    file["a/b"] = np.arange(2, dtype=np.int16)
    file.attrs["names"] = np.array([b"one", b"two"])
saved = saved_model_pb2.SavedModel.FromString(place("saved_model", "a.pb").read_bytes())
for meta in saved.meta_graphs:
    meta.meta_info_def.ClearField("stripped_op_list")
    meta.graph_def.ClearField("library")
    del meta.graph_def.node[3:]
place("saved_model", "small.pb").write_bytes(saved.SerializeToString())
# The same in text, without what makes it long.
graph = graph_pb2.GraphDef.FromString(place("frozen_graph", "a.pb").read_bytes())
place("graph_text", "graph").write_text(f"# a comment\n{text_format.MessageToString(graph)}")
meta = saved.meta_graphs[0]
meta.object_graph_def.Clear()
meta.collection_def["names"].bytes_list.value.append(b"\0\xff\n")
place("graph_text", "meta_graph").write_text(text_format.MessageToString(meta))
place("graph_text", "saved_model").write_text(text_format.MessageToString(saved, as_one_line=True))

for reader in ("hdf5", "keras_archive", "keras_h5", "npy", "npz", "saved_model", "frozen_graph", "graph_text"):
    for path in (root / reader).iterdir():
        place("audit", f"{reader}-{path.name}").write_bytes(path.read_bytes())
place("json", "config").write_text(model.to_json())
place("json", "numbers").write_text('[NaN, -Infinity, 1e-07, 12345678901234567890, true, null, "\\ud83d\\ude00"]')
# As Keras 2 writes configs, and the rest of what the reader knows.
place("yaml", "model").write_text(r'''backend: tensorflow
class_name: Sequential
config:
- class_name: Dense
  config: &id001
    activation: relu
    bias_initializer:
      class_name: Zeros
      config: {}
    batch_input_shape: !!python/tuple [null, 4]
    kernel_constraint: null
    name: "dense_1\t\x41\u00e9"
    rate: 1.0e-07
    trainable: true
    units: 5
- {class_name: Dropout, config: {name: 'it''s', rate: .5, seed: -3}}
- class_name: Other
  config: *id001
text: |
  two
  lines
folded: >-
  one
  line
keras_version: 2.1.6
''')
place("yaml", "numbers").write_text(r'''--- [1, -2, +3, 1_000, 0.5, .5, 1.e+3, .inf, -.INF, .NaN, ~, yes, off, 1e5, "", '']
...
''')

cluster = {"cluster": {"chief": ["h0:1"], "worker": {"0": "h1:2", "3": "[::1]:2222"}, "ps": ["h2:3"]},
           "task": {"type": "worker", "index": 0}, "rpc_layer": "grpc"}
place("tf_config", "cluster").write_text(json.dumps(cluster))
for name, variables in {
        "torchrun": "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=h\nMASTER_PORT=29500\nLOCAL_RANK=0",
        "openmpi": "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nMASTER_ADDR=h\nOMPI_COMM_WORLD_LOCAL_SIZE=2",
        "slurm": "SLURM_PROCID=1\nSLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NODELIST=n[1-2,07],m3\n"
                 "SLURM_STEP_TASKS_PER_NODE=1(x4)\nSLURM_STEP_NUM_NODES=4\nSLURM_STEPID=0\nSLURM_JOB_ID=7"}.items():
    place("environment", name).write_text(variables)
place("messages", "registration").write_bytes(b"\0" + b'{"version": "1.0", "members": ["worker 0", "worker 1"]}')
place("messages", "facts").write_bytes(b"\1" + b"4:seed1:77:dropout4:0.25")
place("messages", "tensor").write_bytes(b"\2" + b'{"dtype": "float32", "shape": [1, 2]}\n' + bytes(8))
place("messages", "strings").write_bytes(b"\2" + b'{"dtype": "string", "shape": [2], "sizes": [1, 2]}\nabc')
place("messages", "fault").write_bytes(b"\3" + b"14 worker 1 is lost")
place("messages", "address").write_bytes(b"\4" + b"[::1]:2222")
(root / "complete").touch()

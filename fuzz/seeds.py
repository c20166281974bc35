"""Writes small real files, by the software that defines their formats, for the fuzz targets to begin from.

    seeds.py FOLDER    FOLDER/<reader>/...
"""

import os
import pathlib
import struct
import sys
import tempfile

import h5py
import keras
import numpy as np
import safetensors.numpy
import tensorflow as tf

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
(root / "complete").touch()

"""Writes the small graphs of TensorFlow that fuzz/execution changes at random and runs: fuzz/corpus/graphs/*.pb.

Their placeholders are called x and hold float32 of shape (2, 4), but for images (1, 6, 6, 3).
"""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

folder = pathlib.Path(__file__).parent / "corpus/graphs"
folder.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(7)


def write(name, function, shape=(2, 4), lower=False):
    """The GraphDef of a function with its variables as constants; `lower` turns its loops into Switch and Merge."""
    concrete = tf.function(function, input_signature=[tf.TensorSpec(shape, name="x")]).get_concrete_function()
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=lower)
    graph = frozen.graph.as_graph_def()
    graph.ClearField("versions")
    (folder / f"{name}.pb").write_bytes(graph.SerializeToString(deterministic=True))


def loop(x):
    return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.5 + tf.cast(i, tf.float32)), [0, x])[1]


def branches(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: tf.nn.softmax(x))


def lists(x):
    array = tf.TensorArray(tf.float32, size=2, element_shape=[4])
    for i in range(2):
        array = array.write(i, x[i] * 2.0)
    return array.stack()


def texts(x):
    words = tf.strings.as_string(tf.cast(x, tf.int32))
    joined = tf.strings.join([words, words], separator="-")
    parts = tf.strings.split(tf.reshape(joined, [-1]), "-").to_tensor()
    return tf.strings.to_number(tf.strings.regex_replace(parts, "[^0-9]+", "0"))


def indexing(x):
    values, places = tf.math.top_k(x, 2)
    picked = tf.gather(x, places, batch_dims=1)
    padded = tf.pad(tf.concat([values, picked, x[:, 1:3]], 1), [[0, 1], [1, 0]], mode="REFLECT")
    return tf.transpose(tf.tile(tf.one_hot(tf.argmax(padded, 1), 3), [1, 2]))


def statistics(x):
    mean, variance = tf.nn.moments(x, [0], keepdims=True)
    normal = (x - mean) * tf.math.rsqrt(variance + 1e-3)
    return tf.einsum("ij,kj->ik", normal, tf.cumsum(x, 1)) + tf.math.unsorted_segment_sum(x, [0, 1], 2)[:, :2]


image = keras.Sequential(
    [
        keras.Input((6, 6, 3)),
        keras.layers.Conv2D(2, 3, padding="same", activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.MaxPooling2D(),
        keras.layers.DepthwiseConv2D(2),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2, activation="softmax"),
    ]
)
recurrent = keras.Sequential([keras.Input((4, 1)), keras.layers.LSTM(2), keras.layers.Dense(1)])

write("loop", loop)
write("loop_v1", loop, lower=True)
write("branches", branches)
write("branches_v1", branches, lower=True)
write("lists", lists)
write("texts", texts)
write("indexing", indexing)
write("statistics", statistics)
write("image", lambda x: image(x, training=False), (1, 6, 6, 3))
write("recurrent", lambda x: recurrent(tf.expand_dims(x, -1), training=False))
np.testing.assert_equal(len(list(folder.glob("*.pb"))), 10)

"""Tensors and variables: constants, indexing, shapes, broadcasting, reductions, dtypes, strings, and assignment."""

from guide import folder, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(42)

rank_0_tensor = tf.constant(4)
rank_1_tensor = tf.constant([2.0, 3.0, 4.0])
rank_2_tensor = tf.constant([[1, 2], [3, 4], [5, 6]], dtype=tf.float16)
rank_3_tensor = tf.constant([[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], [[10, 11, 12, 13, 14], [15, 16, 17, 18, 19]], [[20, 21, 22, 23, 24], [25, 26, 27, 28, 29]]])
report("scalar", rank_0_tensor)
report("size", tf.size(rank_3_tensor))
report("ndim", rank_3_tensor.ndim)
report("last_axis", rank_3_tensor.shape[-1])
report("half", tf.reduce_sum(rank_2_tensor))
report("vector", rank_1_tensor[1])

# Arithmetic.
a = tf.constant([[1, 2], [3, 4]])
b = tf.constant([[1, 1], [1, 1]])
for result in [a + b, a * b, a @ b, a - 3 * b, -a, a // 2, a % 3]:
    for value in tf.reshape(result, [-1]):
        report("arithmetic", value)
for value in tf.reshape(a / b, [-1]):
    report("true_division", value)
c = tf.constant([[4.0, 5.0], [10.0, 1.0]])
report("max", tf.reduce_max(c))
for value in tf.math.argmax(c, axis=1):
    report("argmax", value)
for value in tf.reshape(tf.nn.softmax(c), [-1]):
    report("softmax", value)

# Indexing and slices.
fibonacci = tf.constant([0, 1, 1, 2, 3, 5, 8, 13, 21, 34])
report("first", fibonacci[0])
report("last", fibonacci[-1])
for part in [fibonacci[:4], fibonacci[4:], fibonacci[2:7], fibonacci[::2], fibonacci[::-1]]:
    report("slice", tf.reduce_sum(part * tf.range(len(part))))
report("element", rank_2_tensor[1, 1])
report("column", tf.reduce_sum(rank_2_tensor[:, 1]))
report("features", tf.reduce_sum(rank_3_tensor[:, :, 4]))
report("gather", tf.reduce_sum(tf.gather(fibonacci, [0, 3, 6]) * tf.constant([1, 10, 100])))
report("gather_nd", tf.gather_nd(rank_3_tensor, [1, 1, 3]))
report("where", tf.reduce_sum(tf.where(fibonacci > 5, fibonacci, -fibonacci)))

# Shapes.
x = tf.constant([[1], [2], [3]])
report("reshaped", tf.reshape(x, [1, 3])[0, 2])
for shape, axis in [([-1], 0), ([3 * 2, 5], 0), ([3, -1], 1)]:
    report("reshape", tf.reduce_sum(tf.cumsum(tf.reshape(rank_3_tensor, shape), axis=axis)))
report("transposed", tf.reduce_sum(tf.transpose(rank_3_tensor, perm=[2, 0, 1])[3]))
report("expanded", tf.expand_dims(x, 0).shape[0])
report("concatenated", tf.reduce_sum(tf.concat([x, x * 2], axis=0)))
report("stacked", tf.stack([x, x], axis=1).shape[1])
report("tiled", tf.reduce_sum(tf.tile(x, [2, 3])))
report("squeezed", tf.squeeze(x)[1])

# Types.
the_f64_tensor = tf.constant([2.2, 3.3, 4.4], dtype=tf.float64)
the_f16_tensor = tf.cast(the_f64_tensor, dtype=tf.float16)
the_u8_tensor = tf.cast(the_f16_tensor, dtype=tf.uint8)
report("float16", tf.reduce_sum(tf.cast(the_f16_tensor, tf.float64)))
report("uint8", tf.reduce_sum(tf.cast(the_u8_tensor, tf.int32)))

# Broadcasting.
x_1 = tf.reshape(tf.constant([1, 2, 3]), [3, 1])
y = tf.range(1, 5)
for value in tf.reshape(tf.multiply(x_1, y), [-1]):
    report("outer", value)
report("broadcast", tf.reduce_sum(tf.broadcast_to(tf.constant([1, 2, 3]), [3, 3])))
report("einsum", tf.reduce_sum(tf.einsum("ij,kj->ik", c, c)))

# Strings.
words = tf.constant(["Gray wolf", "Quick brown fox", "Lazy dog"])
report("strings", words.shape[0])
report("letters", len(words[2].numpy()))

# Variables.
my_variable = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
report("index", tf.argmax(my_variable)[0])
report("read", tf.reduce_sum(my_variable * 2.0))
v = tf.Variable([2.0, 3.0])
v.assign([1, 2])
v.assign_add([2, 3])
v.assign_sub([7.0, 9.0])
for value in v:
    report("assigned", value)
w = tf.Variable(v)
w.assign(v * 2.0)
report("copy", tf.reduce_sum(v) + 10.0 * tf.reduce_sum(w))
step_counter = tf.Variable(1, trainable=False)
step_counter.assign_add(1)
report("step", step_counter)

# Random numbers.
report("normal", tf.reduce_sum(keras.random.normal((3, 4), seed=7)))
report("uniform", tf.reduce_sum(keras.random.uniform((5,), minval=-1.0, maxval=1.0, seed=9)))
for value in keras.random.randint((4,), 0, 100, seed=5):
    report("randint", value)

model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
report("model", tf.reduce_sum(model(waves((3, 4), 0.3))))
model.save(folder + "/model.keras")

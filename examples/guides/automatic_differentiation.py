"""Gradient tapes: what is watched, several gradients, second derivatives, Jacobians, and missing gradients."""

from guide import folder, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(24)

x = tf.Variable(3.0)
with tf.GradientTape() as tape:
    y = x**2
report("dy_dx", tape.gradient(y, x))

w = tf.Variable(waves((3, 2), 0.4), name="w")
b = tf.Variable(tf.zeros(2), name="b")
x = tf.constant([[1.0, 2.0, 3.0]])
with tf.GradientTape(persistent=True) as tape:
    y = tf.matmul(x, w) + b
    loss = tf.reduce_mean(y**2)
dl_dw, dl_db = tape.gradient(loss, [w, b])
report("dl_dw", tf.reduce_sum(dl_dw))
report("dl_db", tf.reduce_sum(dl_db))
report("dy_db", tf.reduce_sum(tape.gradient(y, b)))

# With respect to a model.
layer = keras.layers.Dense(2, activation="relu")
with tf.GradientTape() as tape:
    y = layer(x)
    loss = tf.reduce_mean(y**2)
for gradient in tape.gradient(loss, layer.trainable_variables):
    report("layer", tf.reduce_sum(gradient))

# Constants are watched on request; variables only on request with watch_accessed_variables=False.
x = tf.constant(3.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = x**2
report("watched", tape.gradient(y, x))
x0, x1 = tf.Variable(0.0), tf.Variable(10.0)
with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(x1)
    y = tf.nn.softplus(x0 + x1)
grad0, grad1 = tape.gradient(y, [x0, x1])
report("not_watched", grad0 is None)
report("softplus", grad1)

# With respect to a result in between, and of several targets.
x = tf.constant([1.0, 3.0])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = x * x
    z = y * y
report("dz_dy", tf.reduce_sum(tape.gradient(z, y)))
x = tf.Variable(2.0)
with tf.GradientTape() as tape:
    y = x * [3.0, 4.0]
report("sum_of_targets", tape.gradient(y, x))

# Control flow: the branch that was taken.
v0, v1 = tf.Variable(2.0), tf.Variable(2.0)
x = tf.constant(1.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    result = v0 * x if x > 0.0 else v1 * x**2
dv0, dv1 = tape.gradient(result, [v0, v1])
report("branch", dv0)
report("other_branch", dv1 is None)

# A gradient goes through stop_gradient as through a constant.
x, y = tf.Variable(2.0), tf.Variable(3.0)
with tf.GradientTape() as t:
    y_sq = y**2
    z = x**2 + tf.stop_gradient(y_sq)
grad = t.gradient(z, {"x": x, "y": y})
report("stopped_x", grad["x"])
report("stopped_y", grad["y"] is None)

# Second derivatives.
x = tf.Variable(1.0)
with tf.GradientTape() as t2:
    with tf.GradientTape() as t1:
        y = x * x * x
    dy_dx = t1.gradient(y, x)
d2y_dx2 = t2.gradient(dy_dx, x)
report("dy_dx", dy_dx)
report("d2y_dx2", d2y_dx2)

# The gradient of a gradient's size, as a penalty.
x = tf.constant(waves((7, 5), 0.8))
layer = keras.layers.Dense(10, activation="relu")
with tf.GradientTape() as t2:
    with tf.GradientTape() as t1:
        t1.watch(x)
        y = layer(x)
        out = tf.reduce_sum(layer(x)**2)
    g1 = t1.gradient(out, x)
    g1_mag = tf.norm(g1)
dg1_mag = t2.gradient(g1_mag, layer.trainable_variables)
for gradient in dg1_mag:
    report("penalty", tf.reduce_sum(gradient))

# Jacobians: of a scalar source, of a layer, and a Hessian from the Jacobian of a gradient.
x = tf.linspace(-2.0, 2.0, 5)
delta = tf.Variable(0.0)
with tf.GradientTape() as tape:
    y = tf.nn.sigmoid(x + delta)
for value in tape.jacobian(y, delta):
    report("dy_ddelta", value)
x = waves((3, 5), 0.3)
layer = keras.layers.Dense(4, activation="tanh")
layer(x)
with tf.GradientTape(persistent=True) as tape:
    y = layer(x)
j = tape.jacobian(y, layer.kernel)
report("rank", len(j.shape))
report("jacobian", tf.reduce_sum(tf.abs(j)))
report("gradient", tf.reduce_max(tf.abs(tape.gradient(y, layer.kernel) - tf.reduce_sum(j, axis=[0, 1]))))

layer1 = keras.layers.Dense(3, activation="tanh")
layer2 = keras.layers.Dense(2, activation="tanh")
with tf.GradientTape() as t2:
    with tf.GradientTape() as t1:
        y = layer2(layer1(x))
        loss = tf.reduce_mean(y**2)
    g = t1.gradient(loss, layer1.kernel)
h = t2.jacobian(g, layer1.kernel)
report("hessian", tf.reduce_sum(h))
report("hessian_abs", tf.reduce_sum(tf.abs(h)))

inputs = keras.Input((5,))
model = keras.Model(inputs, layer2(layer1(inputs)))
model.save(folder + "/model.keras")

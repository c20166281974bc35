"""Models for serving: export, signatures, and a loaded SavedModel as a layer that is trained further."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf


class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(2.0)

    @tf.function
    def __call__(self, x):
        return x * self.factor

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def set_factor(self, value):
        self.factor.assign(value)


keras.utils.set_random_seed(6)
x, y = waves((32, 6, 2), 0.21), labels(32, 3)
inputs = keras.layers.Input((6, 2), name="signal")
hidden = keras.layers.Conv1D(8, 3, activation="relu")(inputs)
hidden = keras.layers.GlobalMaxPooling1D()(hidden)
model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax", name="classes")(hidden))
model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy")
model.fit(x, y, epochs=2, verbose=0)
model.export(folder + "/exported", verbose=False)

loaded = tf.saved_model.load(folder + "/exported")
report("signatures", len(loaded.signatures))
infer = loaded.signatures["serving_default"]
labeling = infer(signal=x[:4])["output_0"]
report("difference", tf.reduce_max(tf.abs(labeling - model(x[:4]))))
for row in labeling:
    report("scores", row[0])
report("served", tf.reduce_sum(loaded.serve(x)[:, 1]))
report("variables", len(loaded.variables))
report("trainable_variables", len(loaded.trainable_variables))

layer = keras.layers.TFSMLayer(folder + "/exported", call_endpoint="serve")
report("as_layer", tf.reduce_sum(layer(x)[:, 2]))
model.save(folder + "/model.keras")

# A module: the functions with an input signature, and those that were called.
scale = Scale()
scale(tf.constant(1.0))
served = scale.__call__.get_concrete_function(tf.TensorSpec([None], tf.float32, "x"))
tf.saved_model.save(scale, folder + "/scale", signatures=served)
imported = tf.saved_model.load(folder + "/scale")
report("called", imported(tf.constant(3.0)))
imported.set_factor(tf.constant(5.0))
report("changed", imported(tf.constant(3.0)))
report("signature", imported.signatures["serving_default"](x=tf.constant([1.0, 2.0]))["output_0"][1])

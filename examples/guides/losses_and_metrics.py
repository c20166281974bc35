"""Custom losses and metrics: functions, classes, losses of layers, class weights and sample weights."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("Guides")
def custom_mean_squared_error(y_true, y_pred):
    return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)


@keras.saving.register_keras_serializable("Guides")
class CustomMSE(keras.losses.Loss):
    def __init__(self, regularization_factor=0.1, name="custom_mse", **kwargs):
        super().__init__(name=name, **kwargs)
        self.regularization_factor = regularization_factor

    def call(self, y_true, y_pred):
        mse = tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)
        reg = tf.reduce_mean(tf.square(0.5 - y_pred), axis=-1)
        return mse + reg * self.regularization_factor

    def get_config(self):
        return {**super().get_config(), "regularization_factor": self.regularization_factor}


@keras.saving.register_keras_serializable("Guides")
class CategoricalTruePositives(keras.metrics.Metric):
    def __init__(self, name="categorical_true_positives", **kwargs):
        super().__init__(name=name, **kwargs)
        self.true_positives = self.add_variable(shape=(), initializer="zeros", name="ctp")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = tf.argmax(y_pred, axis=1, output_type=tf.int32)
        values = tf.cast(tf.equal(tf.cast(tf.reshape(y_true, [-1]), tf.int32), y_pred), tf.float32)
        if sample_weight is not None:
            values = values * tf.cast(tf.reshape(sample_weight, [-1]), tf.float32)
        self.true_positives.assign_add(tf.reduce_sum(values))

    def result(self):
        return self.true_positives.value + 0.0


# A layer at the end of a model, which gets the targets, too.
class LogisticEndpoint(keras.layers.Layer):
    def __init__(self, name=None):
        super().__init__(name=name)
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    def call(self, targets, logits):
        self.add_loss(self.loss_fn(targets, logits))
        return tf.nn.softmax(logits)


keras.utils.set_random_seed(12)
x_train, y_train = waves((64, 6), 0.43), labels(64, 5, 3)


def get_uncompiled_model():
    inputs = keras.Input(shape=(6,), name="digits")
    x = keras.layers.Dense(8, activation="relu", name="dense_1")(inputs)
    x = keras.layers.Dense(8, activation="relu", name="dense_2")(x)
    outputs = keras.layers.Dense(5, activation="softmax", name="predictions")(x)
    return keras.Model(inputs=inputs, outputs=outputs)


def report_history(prefix, history):
    for name, values in history.history.items():
        for value in values:
            report(prefix + "_" + name, value)


y_train_one_hot = tf.one_hot(y_train, depth=5)
model = get_uncompiled_model()
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=custom_mean_squared_error)
report_history("function", model.fit(x_train, y_train_one_hot, batch_size=16, epochs=2, verbose=0))

model = get_uncompiled_model()
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=CustomMSE())
report_history("class", model.fit(x_train, y_train_one_hot, batch_size=16, epochs=2, verbose=0))

inputs = keras.Input(shape=(6,), name="inputs")
targets = keras.Input(shape=(1,), name="targets")
logits = keras.layers.Dense(1)(inputs)
predictions = LogisticEndpoint(name="predictions")(targets, logits)
endpoint = keras.Model(inputs=[inputs, targets], outputs=predictions)
endpoint.compile(optimizer="adam")
report_history("endpoint", endpoint.fit([x_train, labels(64, 2).reshape(64, 1).astype("float32")],
                                        batch_size=16, epochs=2, verbose=0))

# The third class counts twice; then each sample has a weight; then both, with a custom metric.
class_weight = {0: 1.0, 1: 1.0, 2: 2.0, 3: 1.0, 4: 1.0}
model = get_uncompiled_model()
model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
report_history("class_weight", model.fit(x_train, y_train, class_weight=class_weight,
                                         batch_size=16, epochs=1, verbose=0))

sample_weight = tf.where(y_train == 2, 2.0, 1.0)
model = get_uncompiled_model()
model.compile(optimizer=keras.optimizers.RMSprop(0.01),
              loss=CustomMSE(0.2, reduction="sum"),
              metrics=["mae"],
              weighted_metrics=[keras.metrics.CategoricalAccuracy()])
report_history("sample_weight", model.fit(x_train, y_train_one_hot, sample_weight=sample_weight,
                                          batch_size=16, epochs=2, verbose=0))

model = get_uncompiled_model()
model.compile(optimizer=keras.optimizers.RMSprop(0.01),
              loss=keras.losses.SparseCategoricalCrossentropy(),
              metrics=[CategoricalTruePositives()])
train_dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train, sample_weight)).batch(16)
report_history("true_positives", model.fit(train_dataset, epochs=3, verbose=0))
model.save(folder + "/model.keras")

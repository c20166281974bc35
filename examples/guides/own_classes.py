"""Classes that derive from Keras's own, registered functions, and what a class saves of itself."""

import os

from guide import folder, report, waves

import keras
import numpy as np
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("Guides", name="squared")
def squared(x):
    return x**2


@keras.saving.register_keras_serializable("Guides")
def absolute_error(y_true, y_pred):
    return ops.mean(ops.abs(y_true - y_pred), axis=-1)


@keras.saving.register_keras_serializable("Guides")
class Wrapper(keras.layers.Layer):
    def __init__(self, sublayer, **kwargs):
        super().__init__(**kwargs)
        self.sublayer = sublayer

    def call(self, x):
        return self.sublayer(x)

    def get_config(self):
        config = super().get_config()
        config.update({"sublayer": keras.saving.serialize_keras_object(self.sublayer)})
        return config

    @classmethod
    def from_config(cls, config):
        sublayer = keras.saving.deserialize_keras_object(config.pop("sublayer"))
        return cls(sublayer, **config)


@keras.saving.register_keras_serializable("Guides")
class DenseWithOffset(keras.layers.Dense):
    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.offset = keras.Variable(waves((units,), 0.7), name="offset")

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["offset"] = self.offset.numpy()

    def load_own_variables(self, store):
        self.offset.assign(store["offset"])
        self.kernel.assign(store["0"])
        self.bias.assign(store["1"])

    def call(self, inputs):
        return super().call(inputs) + self.offset


@keras.saving.register_keras_serializable("Guides")
class ScaledNormalization(keras.layers.LayerNormalization):
    def build(self, input_shape):
        super().build(input_shape)
        self.scale_of_all = self.add_weight(name="scale_of_all", shape=(input_shape[-1],), initializer="ones")

    def call(self, inputs):
        return super().call(inputs) * self.scale_of_all


@keras.saving.register_keras_serializable("Guides")
class MCDropout(keras.layers.Dropout):
    def call(self, inputs):
        return super().call(inputs, training=True)


@keras.saving.register_keras_serializable("Guides")
class FrozenBatchNormalization(keras.layers.BatchNormalization):
    def call(self, inputs, training=None, mask=None):
        return super().call(inputs, training=False, mask=mask)


@keras.saving.register_keras_serializable("Guides")
class BinaryTruePositives(keras.metrics.Mean):
    def update_state(self, y_true, y_pred, sample_weight=None):
        values = ops.cast(ops.greater(y_true, 0), "float32") * ops.cast(ops.greater(y_pred, 0.0), "float32")
        super().update_state(values, sample_weight)


@keras.saving.register_keras_serializable("Guides")
class WeightedMSE(keras.losses.MeanSquaredError):
    def call(self, y_true, y_pred):
        return 3.0 * super().call(y_true, y_pred)


@keras.saving.register_keras_serializable("Guides")
class CosineWarmUp(keras.optimizers.schedules.CosineDecay):
    def __call__(self, step):
        return super().__call__(step) * ops.minimum(1.0, (ops.cast(step, "float32") + 1) / 5)


@keras.saving.register_keras_serializable("Guides")
class CentralizedAdam(keras.optimizers.Adam):
    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient - ops.mean(gradient), variable, learning_rate)


@keras.saving.register_keras_serializable("Guides")
class HalvedL2(keras.regularizers.L2):
    def __call__(self, x):
        return super().__call__(x) / 2


@keras.saving.register_keras_serializable("Guides")
class SmallGlorot(keras.initializers.GlorotUniform):
    def __call__(self, shape, dtype=None):
        return super().__call__(shape, dtype) * 0.5


class Recorder(keras.callbacks.EarlyStopping):
    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        report("recorded", logs["loss"])


class Batches(keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        report("batch", batch)


class Factor(keras.layers.Layer):
    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        return x * self.factor

    def get_config(self):
        config = super().get_config()
        config.update({"factor": self.factor})
        return config


def bounded(x):
    return ops.tanh(x)


def report_history(name, history):
    for key, values in history.history.items():
        for value in values:
            report(f"{name} {key}", value)


keras.utils.set_random_seed(21)
x, y = waves((32, 4), 0.37), waves((32, 1), 0.11)

inputs = keras.Input((4,))
h = Wrapper(keras.layers.Dense(6, activation=squared), name="wrapper")(inputs)
h = DenseWithOffset(5)(h)
h = MCDropout(0.3, seed=3)(h)
h = FrozenBatchNormalization()(h)
h = ScaledNormalization()(h)
h = keras.layers.Dense(5, activation="tanh", kernel_initializer=SmallGlorot(seed=5), kernel_regularizer=HalvedL2(0.01))(h)
model = keras.Model(inputs, keras.layers.Dense(1)(h))
report("weights", len(model.weights))

model.compile(optimizer=CentralizedAdam(CosineWarmUp(0.01, 100)), loss=WeightedMSE(), metrics=[BinaryTruePositives(), absolute_error])
recorder = Recorder(monitor="loss", patience=2)
report_history("fit", model.fit(x=x, y=y, batch_size=16, epochs=3, verbose=0, callbacks=[recorder, Batches()], shuffle=False))
model.save(folder + "/model.keras")
restored = keras.models.load_model(folder + "/model.keras")
report_history("restored", restored.fit(x, y, batch_size=16, verbose=0, shuffle=False))
report("deviation", restored.predict(x, verbose=0).std())

# Functions in files.
model.compile(optimizer="sgd", loss=absolute_error, metrics=["mae"])
report_history("function", model.fit(x, y, batch_size=16, verbose=0, shuffle=False))
model.save(folder + "/function.keras")
for name, value in keras.models.load_model(folder + "/function.keras").evaluate(x, y, verbose=0, return_dict=True).items():
    report(f"evaluated {name}", value)

# Classes and functions that are not registered.
small = keras.Sequential([keras.Input((4,)), Factor(2.0), keras.layers.Dense(2, activation=bounded)])
report("small", small.predict(x, verbose=0).sum())
custom_objects = {"Factor": Factor, "bounded": bounded}
with keras.saving.custom_object_scope(custom_objects):
    small.save(folder + "/small.keras")
again = keras.models.load_model(folder + "/small.keras", custom_objects=custom_objects)
report("again", again.predict(x, verbose=0).sum())
with keras.saving.custom_object_scope(custom_objects):
    report("scope", keras.models.load_model(folder + "/small.keras").predict(x, verbose=0).sum())

# Losses and metrics of functions leave out masked steps.
embedding = keras.layers.Embedding(5, 1, mask_zero=True, embeddings_initializer="ones")
masked = embedding(np.array([[1, 2, 0], [3, 0, 0]]))
steps, weight = waves((2, 3, 1), 0.7), np.array([[1, 2, 3], [0.5, 1, 2]], "float32")
report("masked loss", keras.losses.MeanSquaredError()(steps, masked))
report("masked loss, weighted", keras.losses.MeanAbsoluteError(reduction="sum")(steps, masked, sample_weight=weight))
for metric in [keras.metrics.MeanSquaredError(), keras.metrics.CosineSimilarity(), keras.metrics.RootMeanSquaredError()]:
    metric.update_state(steps, masked)
    report(f"masked {metric.name}", metric.result())
    metric.reset_state()
    metric.update_state(steps, masked, weight)
    report(f"masked {metric.name}, weighted", metric.result())
total = keras.metrics.Sum()
total.update_state(steps[:, :, 0])
report("sum", total.result())
total.update_state(steps, weight)
report("sum, weighted", total.result())


# In a custom train_step the metrics of compile(metrics=...) are not weighted; those of weighted_metrics are.
class WeightedStep(keras.Model):
    def train_step(self, data):
        x, y, sample_weight = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred, sample_weight=sample_weight)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred, sample_weight=sample_weight)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input((4,))
weighted = WeightedStep(inputs, keras.layers.Dense(1)(inputs))
weighted.compile(optimizer="adam", loss="mse", metrics=["mae"], weighted_metrics=["mse"])
report_history("weighted", weighted.fit(x, y, sample_weight=np.abs(waves((32,), 0.3)), epochs=2, verbose=0, shuffle=False))


# Cells, recurrent layers, lookup layers and files of a layer.
@keras.saving.register_keras_serializable("Guides")
class LouderCell(keras.layers.LSTMCell):
    def call(self, inputs, states, training=False):
        output, next = super().call(inputs, states, training=training)
        return output * 1.5, next


@keras.saving.register_keras_serializable("Guides")
class NamedGRU(keras.layers.GRU):
    pass


@keras.saving.register_keras_serializable("Guides")
class ShiftedLookup(keras.layers.StringLookup):
    def call(self, inputs):
        return super().call(inputs) + 1


@keras.saving.register_keras_serializable("Guides")
class Noted(keras.layers.Layer):
    factor = 1

    def call(self, x):
        return x * self.factor

    def save_assets(self, directory):
        with open(os.path.join(directory, "factor.txt"), "w") as file:
            file.write(str(self.factor))

    def load_assets(self, directory):
        with open(os.path.join(directory, "factor.txt")) as file:
            self.factor = float(file.read())


class SignSGD(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        super().apply([ops.sign(gradient) for gradient in grads], trainable_variables)


keras.utils.set_random_seed(22)
x = waves((4, 6, 3), 0.31)
inputs = keras.Input((6, 3))
h = keras.layers.Bidirectional(NamedGRU(4, dropout=0.2, return_sequences=True))(inputs)
h = keras.layers.RNN([LouderCell(3, dropout=0.3, recurrent_dropout=0.1), keras.layers.GRUCell(2)])(h)
noted = Noted()
noted.factor = 2.5
model = keras.Model(inputs, keras.layers.Dense(1)(noted(h)))
model.compile(optimizer=SignSGD(0.01), loss="mse")
report_history("recurrent", model.fit(x, waves((4, 1), 0.5), batch_size=2, epochs=2, verbose=0, shuffle=False))
report("recurrent", model.predict(x, verbose=0).sum())
model.save(folder + "/recurrent.keras")
again = keras.models.load_model(folder + "/recurrent.keras", custom_objects={"SignSGD": SignSGD})
report("recurrent again", again.predict(x, verbose=0).sum())

lookup = ShiftedLookup()
lookup.adapt(["a", "b", "a", "c", "b", "a"])
words = keras.Sequential([keras.Input((1,), dtype="string"), lookup, keras.layers.Embedding(8, 2)])
texts = tf.constant([["c"], ["a"], ["other"]])
report("words", ops.sum(words(texts)))
words.save(folder + "/words.keras")
report("words again", ops.sum(keras.models.load_model(folder + "/words.keras")(texts)))

"""Customizing fit and evaluate: custom train_step and test_step, with compile's metrics or without."""

from guide import folder, report, waves

import keras
import tensorflow as tf


class CustomModel(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        trainable_vars = self.trainable_variables
        gradients = tape.gradient(loss, trainable_vars)
        self.optimizer.apply(gradients, trainable_vars)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        loss = self.compute_loss(y=y, y_pred=y_pred)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


# A level lower: nothing of compile but the optimizer.
class OwnMetrics(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")
        self.loss_fn = keras.losses.MeanSquaredError()

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.loss_fn(y, y_pred)
        trainable_vars = self.trainable_variables
        gradients = tape.gradient(loss, trainable_vars)
        self.optimizer.apply(gradients, trainable_vars)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, y_pred)
        return {"loss": self.loss_tracker.result(), "mae": self.mae_metric.result()}

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae_metric]


# Two models in one, each with its optimizer.
class GAN(keras.Model):
    def __init__(self, discriminator, generator, latent):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent = latent
        self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
        self.g_loss_tracker = keras.metrics.Mean(name="g_loss")
        self.built = True

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn

    @property
    def metrics(self):
        return [self.d_loss_tracker, self.g_loss_tracker]

    def train_step(self, real):
        fake = self.generator(self.latent)
        combined = tf.concat([fake, real], axis=0)
        targets = tf.concat([tf.ones((8, 1)), tf.zeros((8, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(targets, self.discriminator(combined))
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply(grads, self.discriminator.trainable_weights)

        misleading = tf.zeros((8, 1))
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(misleading, self.discriminator(self.generator(self.latent)))
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply(grads, self.generator.trainable_weights)

        self.d_loss_tracker.update_state(d_loss)
        self.g_loss_tracker.update_state(g_loss)
        return {"d_loss": self.d_loss_tracker.result(), "g_loss": self.g_loss_tracker.result()}


def report_history(prefix, history):
    for name, values in history.history.items():
        for value in values:
            report(prefix + "_" + name, value)


keras.utils.set_random_seed(14)
x, y = waves((48, 4), 0.61), waves((48, 1), 0.27)

inputs = keras.Input(shape=(4,))
outputs = keras.layers.Dense(1)(keras.layers.Dense(8, activation="relu")(inputs))
model = CustomModel(inputs, outputs)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
report_history("custom", model.fit(x, y, batch_size=16, epochs=3, verbose=0))
results = model.evaluate(x, y, verbose=0, return_dict=True)
report("evaluate_loss", results["loss"])
report("evaluate_mae", results["mae"])

inputs = keras.Input(shape=(4,))
own = OwnMetrics(inputs, keras.layers.Dense(1)(inputs))
own.compile(optimizer="adam")
report_history("own", own.fit(x, y, batch_size=16, epochs=3, verbose=0))

discriminator = keras.Sequential([keras.Input(shape=(4,)), keras.layers.Dense(8), keras.layers.LeakyReLU(),
                                  keras.layers.Dense(1)])
generator = keras.Sequential([keras.Input(shape=(2,)), keras.layers.Dense(8, activation="relu"),
                              keras.layers.Dense(4, activation="tanh")])
gan = GAN(discriminator, generator, latent=waves((8, 2), 1.1))
gan.compile(d_optimizer=keras.optimizers.Adam(0.003),
            g_optimizer=keras.optimizers.Adam(0.003),
            loss_fn=keras.losses.BinaryCrossentropy(from_logits=True))
report_history("gan", gan.fit(tf.data.Dataset.from_tensor_slices(x).batch(8), epochs=2, verbose=0))
generator.save(folder + "/model.keras")

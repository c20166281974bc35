"""Layers and models as classes: weights, layers of layers, losses inside of call, and a variational autoencoder."""

from guide import folder, report, waves

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("Guides")
class Linear(keras.layers.Layer):
    def __init__(self, units=32, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        self.w = self.add_weight(name="w", shape=(input_shape[-1], self.units), initializer="random_normal")
        self.b = self.add_weight(name="b", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        return tf.matmul(inputs, self.w) + self.b

    def get_config(self):
        return {**super().get_config(), "units": self.units}


# A sum over all calls, in a variable that is not trained.
class ComputeSum(keras.layers.Layer):
    def __init__(self, input_dim):
        super().__init__()
        self.total = self.add_weight(name="total", shape=(input_dim,), initializer="zeros", trainable=False)

    def call(self, inputs):
        self.total.assign_add(tf.reduce_sum(inputs, axis=0))
        return self.total + 0.0


# Layers inside of a layer.
class MLPBlock(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.linear_1 = Linear(8)
        self.linear_2 = Linear(8)
        self.linear_3 = Linear(1)

    def call(self, inputs):
        x = tf.nn.relu(self.linear_1(inputs))
        x = tf.nn.relu(self.linear_2(x))
        return self.linear_3(x)


# A loss that is made while the layer computes.
class ActivityRegularizationLayer(keras.layers.Layer):
    def __init__(self, rate=1e-2):
        super().__init__()
        self.rate = rate

    def call(self, inputs):
        self.add_loss(self.rate * tf.reduce_mean(inputs))
        return inputs


# Draws a point of the latent space.
class Sampling(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        z_mean, z_log_var = inputs
        epsilon = keras.random.normal(tf.shape(z_mean), seed=self.seed_generator)
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon


@keras.saving.register_keras_serializable("Guides")
class VariationalAutoEncoder(keras.Model):
    def __init__(self, original_dim, intermediate_dim=8, latent_dim=2, **kwargs):
        super().__init__(**kwargs)
        self.dims = {"original_dim": original_dim, "intermediate_dim": intermediate_dim, "latent_dim": latent_dim}
        self.encoder = keras.layers.Dense(intermediate_dim, activation="relu")
        self.dense_mean = keras.layers.Dense(latent_dim)
        self.dense_log_var = keras.layers.Dense(latent_dim)
        self.sampling = Sampling()
        self.decoder = keras.layers.Dense(intermediate_dim, activation="relu")
        self.dense_output = keras.layers.Dense(original_dim, activation="sigmoid")

    def call(self, inputs):
        x = self.encoder(inputs)
        z_mean, z_log_var = self.dense_mean(x), self.dense_log_var(x)
        z = self.sampling([z_mean, z_log_var])
        kl_loss = -0.5 * tf.reduce_mean(z_log_var - tf.square(z_mean) - tf.exp(z_log_var) + 1)
        self.add_loss(kl_loss)
        return self.dense_output(self.decoder(z))

    def get_config(self):
        return {**super().get_config(), **self.dims}


keras.utils.set_random_seed(10)
x = waves((2, 3), 0.9)
linear_layer = Linear(4)
y = linear_layer(x)
report("linear", tf.reduce_sum(y))
report("weights", len(linear_layer.weights))

my_sum = ComputeSum(3)
report("sum", tf.reduce_sum(my_sum(x)))
report("sum_of_two", tf.reduce_sum(my_sum(x)))
report("trainable", len(my_sum.trainable_weights))

mlp = MLPBlock()
report("mlp", tf.reduce_sum(mlp(x)))
report("mlp_weights", len(mlp.weights))

regularizing = ActivityRegularizationLayer()
regularizing(x)
report("activity_loss", regularizing.losses[0])

# The autoencoder in a custom training loop.
x_train = (waves((64, 10), 0.37) + 1) / 2
train_dataset = tf.data.Dataset.from_tensor_slices(x_train).shuffle(64).batch(16)
vae = VariationalAutoEncoder(10)
optimizer = keras.optimizers.Adam(learning_rate=1e-2)
mse_loss_fn = keras.losses.MeanSquaredError()
loss_metric = keras.metrics.Mean()
for epoch in range(2):
    for x_batch_train in train_dataset:
        with tf.GradientTape() as tape:
            reconstructed = vae(x_batch_train)
            loss = mse_loss_fn(x_batch_train, reconstructed)
            loss += sum(vae.losses)
        grads = tape.gradient(loss, vae.trainable_variables)
        optimizer.apply_gradients(zip(grads, vae.trainable_variables))
        loss_metric(loss)
        report("step", loss)
    report("mean_loss", loss_metric.result())

# And in fit.
vae = VariationalAutoEncoder(10)
vae.compile(keras.optimizers.Adam(learning_rate=1e-2), loss=keras.losses.MeanSquaredError())
history = vae.fit(x_train, x_train, epochs=3, batch_size=16, verbose=0)
for value in history.history["loss"]:
    report("fit_loss", value)
vae.save(folder + "/model.keras")

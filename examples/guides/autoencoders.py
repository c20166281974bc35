"""Autoencoders: a dense one, one that takes noise out of images, and one that finds anomalies by a threshold."""

from guide import folder, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(22)
x_train = (waves((32, 8, 8), 0.21) + 1) / 2
x_test = (waves((16, 8, 8), 0.23) + 1) / 2


@keras.saving.register_keras_serializable("Guides")
class Autoencoder(keras.Model):
    def __init__(self, latent_dim, **kwargs):
        super().__init__(**kwargs)
        self.latent_dim = latent_dim
        self.encoder = keras.Sequential([
            keras.layers.Flatten(),
            keras.layers.Dense(latent_dim, activation="relu"),
        ])
        self.decoder = keras.Sequential([
            keras.layers.Dense(64, activation="sigmoid"),
            keras.layers.Reshape((8, 8)),
        ])

    def call(self, x):
        encoded = self.encoder(x)
        decoded = self.decoder(encoded)
        return decoded

    def get_config(self):
        return {**super().get_config(), "latent_dim": self.latent_dim}


autoencoder = Autoencoder(6)
autoencoder.compile(optimizer="adam", loss=keras.losses.MeanSquaredError())
history = autoencoder.fit(x_train, x_train, epochs=3, batch_size=8, shuffle=True,
                          validation_data=(x_test, x_test), verbose=0)
for name, values in history.history.items():
    for value in values:
        report(name, value)
encoded_imgs = autoencoder.encoder(x_test)
decoded_imgs = autoencoder.decoder(encoded_imgs)
report("decoded", tf.reduce_sum(decoded_imgs))

# Noise out of images, by convolutions.
noise_factor = 0.2
x_noisy = x_train[..., tf.newaxis] + noise_factor * keras.random.normal(shape=(32, 8, 8, 1), seed=3)
x_noisy = tf.clip_by_value(x_noisy, 0.0, 1.0)
denoise = keras.Sequential([
    keras.layers.Input(shape=(8, 8, 1)),
    keras.layers.Conv2D(8, (3, 3), activation="relu", padding="same", strides=2),
    keras.layers.Conv2D(4, (3, 3), activation="relu", padding="same", strides=2),
    keras.layers.Conv2DTranspose(4, kernel_size=3, strides=2, activation="relu", padding="same"),
    keras.layers.Conv2DTranspose(8, kernel_size=3, strides=2, activation="relu", padding="same"),
    keras.layers.Conv2D(1, kernel_size=(3, 3), activation="sigmoid", padding="same"),
])
denoise.compile(optimizer="adam", loss=keras.losses.MeanSquaredError())
history = denoise.fit(x_noisy, x_train[..., tf.newaxis], epochs=2, batch_size=8, verbose=0)
for value in history.history["loss"]:
    report("denoise_loss", value)

# Rows with a large reconstruction error are anomalies.
normal_data = (waves((40, 20), 0.31) + 1) / 2
anomalous_data = (waves((20, 20), 1.9) + 1) / 2
detector = keras.Sequential([
    keras.layers.Input((20,)),
    keras.layers.Dense(8, activation="relu"),
    keras.layers.Dense(3, activation="relu"),
    keras.layers.Dense(8, activation="relu"),
    keras.layers.Dense(20, activation="sigmoid"),
])
detector.compile(optimizer=keras.optimizers.Adam(0.01), loss="mae")
detector.fit(normal_data, normal_data, epochs=10, batch_size=8, verbose=0)
reconstructions = detector.predict(normal_data, verbose=0)
train_loss = keras.losses.mean_absolute_error(reconstructions, normal_data)
mean, variance = tf.nn.moments(train_loss, axes=[0])
threshold = mean + tf.sqrt(variance)
report("threshold", threshold)
loss = keras.losses.mean_absolute_error(detector(anomalous_data), anomalous_data)
predictions = tf.less(loss, threshold)
report("normal", tf.reduce_sum(tf.cast(predictions, tf.int32)))
report("mean_error", tf.reduce_mean(loss))
autoencoder.save(folder + "/model.keras")

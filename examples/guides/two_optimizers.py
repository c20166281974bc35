"""A GAN: two models, two optimizers, and two tapes around the same computation."""

from guide import folder, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(7)
real, noise = waves((32, 6), 0.41), waves((32, 4), 1.3)

generator = keras.Sequential([
    keras.layers.Input((4,)),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(6, activation="tanh"),
])
discriminator = keras.Sequential([
    keras.layers.Input((6,)),
    keras.layers.Dense(16),
    keras.layers.LeakyReLU(),
    keras.layers.Dense(1),
])
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer = keras.optimizers.Adam(learning_rate=0.005)
discriminator_optimizer = keras.optimizers.Adam(learning_rate=0.01)

for step in range(6):
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        generated = generator(noise, training=True)
        real_output = discriminator(real, training=True)
        fake_output = discriminator(generated, training=True)
        gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)
        disc_loss = (cross_entropy(tf.ones_like(real_output), real_output)
                     + cross_entropy(tf.zeros_like(fake_output), fake_output))

    generator_optimizer.apply(gen_tape.gradient(gen_loss, generator.trainable_variables),
                              generator.trainable_variables)
    discriminator_optimizer.apply(disc_tape.gradient(disc_loss, discriminator.trainable_variables),
                                  discriminator.trainable_variables)
    report("gen_loss", gen_loss)
    report("disc_loss", disc_loss)

# The gradient penalty of WGAN-GP: a gradient inside of the loss.
for step in range(3):
    with tf.GradientTape() as disc_tape:
        fake = generator(noise)
        between = real + 0.3 * (fake - real)
        with tf.GradientTape() as gp_tape:
            gp_tape.watch(between)
            judged = discriminator(between, training=True)
        gradients = gp_tape.gradient(judged, between)
        norms = tf.sqrt(tf.reduce_sum(tf.square(gradients), 1))
        penalty = tf.reduce_mean(tf.square(norms - 1.0))
        fake_score, real_score = discriminator(fake), discriminator(real)
        loss = tf.reduce_mean(fake_score) - tf.reduce_mean(real_score) + 10.0 * penalty
    discriminator_optimizer.apply(disc_tape.gradient(loss, discriminator.trainable_variables),
                                  discriminator.trainable_variables)
    report("penalty", penalty)
    report("critic_loss", loss)
generator.save(folder + "/model.keras")

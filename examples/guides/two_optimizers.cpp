// A GAN: two models, two optimizers, and two tapes around the same computation.
#include "guide.h"

void two_optimizers(const std::string& folder) {
  ls::random::set_random_seed(7);
  const auto real = waves({32, 6}, 0.41), noise = waves({32, 4}, 1.3);

  ls::keras::Sequential generator({
      ls::layers::Input({4}),
      ls::layers::Dense(16, {.activation = "relu"}),
      ls::layers::Dense(6, {.activation = "tanh"}),
  });
  ls::keras::Sequential discriminator({
      ls::layers::Input({6}),
      ls::layers::Dense(16),
      ls::layers::LeakyReLU(),
      ls::layers::Dense(1),
  });
  auto cross_entropy = ls::losses::BinaryCrossentropy({.from_logits = true});
  auto generator_optimizer = ls::optimizers::Adam({.learning_rate = 0.005});
  auto discriminator_optimizer = ls::optimizers::Adam({.learning_rate = 0.01});

  for (int step = 0; step < 6; ++step) {
    ls::GradientTape gen_tape, disc_tape;
    const ls::Tensor generated = generator(noise, {.training = true});
    const ls::Tensor real_output = discriminator(real, {.training = true});
    const ls::Tensor fake_output = discriminator(generated, {.training = true});
    const auto gen_loss = cross_entropy(ls::ops::ones_like(fake_output), fake_output);
    const auto disc_loss = cross_entropy(ls::ops::ones_like(real_output), real_output) +
                           cross_entropy(ls::ops::zeros_like(fake_output), fake_output);

    generator_optimizer.apply(gen_tape.gradient(gen_loss, generator.trainable_variables()),
                              generator.trainable_variables());
    discriminator_optimizer.apply(disc_tape.gradient(disc_loss, discriminator.trainable_variables()),
                                  discriminator.trainable_variables());
    report("gen_loss", gen_loss);
    report("disc_loss", disc_loss);
  }

  // The gradient penalty of WGAN-GP: a gradient inside of the loss.
  for (int step = 0; step < 3; ++step) {
    ls::GradientTape disc_tape;
    const ls::Tensor fake = generator(noise);
    ls::Tensor between = real + 0.3 * (fake - real);
    ls::Tensor gradients;
    {
      ls::GradientTape gp_tape;
      gp_tape.watch(between);
      const ls::Tensor judged = discriminator(between, {.training = true});
      gradients = gp_tape.gradient(judged, between);
    }
    const auto norms = ls::ops::sqrt(ls::ops::reduce_sum(ls::ops::square(gradients), 1));
    const auto penalty = ls::ops::reduce_mean(ls::ops::square(norms - 1.0));
    const ls::Tensor fake_score = discriminator(fake), real_score = discriminator(real);
    const auto loss = ls::ops::reduce_mean(fake_score) - ls::ops::reduce_mean(real_score) + 10.0 * penalty;
    discriminator_optimizer.apply(disc_tape.gradient(loss, discriminator.trainable_variables()),
                                  discriminator.trainable_variables());
    report("penalty", penalty);
    report("critic_loss", loss);
  }
  generator.save(folder + "/model.keras");
}

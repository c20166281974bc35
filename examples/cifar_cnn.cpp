// A larger convolutional network, of the shape used for CIFAR-10: two blocks of two convolutions, dropout, and a
// hidden layer of 512 units. No data set is needed: images are drawn at random around one pattern for each class, so
// that there is something to learn.
//
//   build/bin/cifar_cnn [number of images; default 1280]
#include <cstdio>
#include <cstdlib>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int argc, char** argv) try {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 1280;
  ls::random::set_random_seed(1);

  const auto labels = ls::random::randint({count}, 0, 10, {.dtype = ls::DType::kInt64, .seed = 3});
  const auto patterns = ls::random::normal({10, 32, 32, 3}, {.seed = 4});
  const auto noise = ls::random::normal({count, 32, 32, 3}, {.seed = 5});
  const auto images = ls::ops::gather(patterns, labels) * 0.5 + noise;

  ls::keras::Sequential model({
      ls::layers::Input({32, 32, 3}),
      ls::layers::Conv2D(32, 3, {.activation = "relu", .padding = "same"}),
      ls::layers::Conv2D(32, 3, {.activation = "relu"}),
      ls::layers::MaxPooling2D(),
      ls::layers::Dropout(0.25),
      ls::layers::Conv2D(64, 3, {.activation = "relu", .padding = "same"}),
      ls::layers::Conv2D(64, 3, {.activation = "relu"}),
      ls::layers::MaxPooling2D(),
      ls::layers::Dropout(0.25),
      ls::layers::Flatten(),
      ls::layers::Dense(512, {.activation = "relu"}),
      ls::layers::Dropout(0.5),
      ls::layers::Dense(10),
  });
  model.summary();
  model.compile({.optimizer = ls::optimizers::RMSprop({.learning_rate = 1e-3}),
                 .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const auto history = model.fit(images, labels, {.batch_size = 128, .epochs = 3, .validation_split = 0.1});
  const bool learned = history["loss"].back() < history["loss"].front();
  std::printf("the loss fell: %s\n", learned ? "yes" : "NO");
  return learned ? 0 : 1;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}

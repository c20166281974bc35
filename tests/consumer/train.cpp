// Trains, saves and loads a small model with an installed lockstep.
#include <iostream>
#include <vector>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int, char** argv) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto x = ls::Tensor::from_vector(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {4, 2});
  const auto y = ls::Tensor::from_vector(std::vector<float>{1, 2, 3, 4}, {4, 1});
  auto scope = strategy.scope();
  ls::keras::Sequential model(
      {ls::layers::Input({2}), ls::layers::Dense(3, {.activation = "relu"}), ls::layers::Dense(1)});
  model.compile({.optimizer = "adam", .loss = "mse"});
  model.fit(x, y, {.epochs = 2, .verbose = 0});
  model.save(argv[1]);

  const auto again = ls::keras::load_model(argv[1]);
  const auto difference = again.predict(x, {.verbose = 0}).leaf() - model.predict(x, {.verbose = 0}).leaf();
  for (const float d : difference.to_vector<float>()) {
    if (d != 0) {
      std::cerr << "the loaded model predicts otherwise\n";
      return 1;
    }
  }
  return 0;
}

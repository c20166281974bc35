// guides NAME FOLDER: runs one guide, which prints its numbers and saves its model into the folder.
#include <map>

#include "guide.h"

int main(int argc, char** argv) try {
  const std::map<std::string, void (*)(const std::string&)> guides = {
      {"attention", attention},
      {"save_under_strategies", save_under_strategies},
      {"transfer_learning", transfer_learning},
      {"training_loop_from_scratch", training_loop_from_scratch},
      {"two_optimizers", two_optimizers},
      {"several_inputs", several_inputs},
      {"custom_training_with_strategy", custom_training_with_strategy},
  };
  const auto guide = guides.find(argc > 1 ? argv[1] : "");
  if (argc != 3 || guide == guides.end()) {
    std::fprintf(stderr, "usage: guides NAME FOLDER, where NAME is one of\n");
    for (const auto& [name, run] : guides) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  guide->second(argv[2]);
  return 0;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}

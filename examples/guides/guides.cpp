// guides NAME FOLDER: runs one guide, which prints its numbers and saves its model into the folder as model.keras.
// guides --read-dataset FOLDER: prints the elements of the dataset and the cache that dataset_transformations saves.
// guides --difference A.keras B.keras: loads two models and prints the largest difference between their weights.
#include <algorithm>
#include <map>

#include "guide.h"

#define GUIDE(name) void name(const std::string& folder);
#include "guide_list.inc"
#undef GUIDE

namespace {

using Guide = void (*)(const std::string&);

const std::map<std::string, Guide> kGuides = {
#define GUIDE(name) {#name, name},
#include "guide_list.inc"
#undef GUIDE
};

// The largest difference between the weights of two models; infinite where their shapes differ.
double difference(const ls::keras::Model& a, const ls::keras::Model& b) {
  const auto ours = a.get_weights(), theirs = b.get_weights();
  double largest = ours.size() == theirs.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i].shape() != theirs[i].shape()) return INFINITY;
    largest = std::max(largest, ls::ops::reduce_max(ls::ops::abs(ours[i] - theirs[i])).item<double>());
  }
  return largest;
}

void read_dataset(const std::string& folder) {
  for (const auto& [features, label] : ls::data::Dataset::load(folder + "/saved")) {
    for (const auto& [name, value] : features.entries())
      std::printf("%s %s\n", name.c_str(), value.leaf().to_string().c_str());
    report("label", label);
  }
  for (const ls::Tensor& n : ls::data::Dataset::range(0).cache(folder + "/cache")) report("cache", n);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string name = argc > 1 ? argv[1] : "";
  if (argc == 4 && name == "--difference") {
    report("difference", difference(ls::keras::load_model(argv[2]), ls::keras::load_model(argv[3])));
    return 0;
  }
  if (argc == 3 && name == "--read-dataset") {
    read_dataset(argv[2]);
    return 0;
  }
  const auto guide = kGuides.find(name);
  if (argc != 3 || guide == kGuides.end()) {
    std::fprintf(stderr, "usage: guides NAME FOLDER, where NAME is one of\n");
    for (const auto& [known, run] : kGuides) std::fprintf(stderr, "  %s\n", known.c_str());
    return 2;
  }
  guide->second(argv[2]);
  return 0;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}

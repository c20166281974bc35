// For tests/judged/test_faults.py only: files that programs write and read by the library alone.
//   fault_probe save-gradient FOLDER NUMBER   saves a SavedModel with a custom gradient and a variable of this value
//   fault_probe load-gradient FOLDER NUMBER   loads it and computes a gradient
//   fault_probe write-records FILE NUMBER     writes NUMBER SequenceExamples
//   fault_probe read-records FILE NUMBER      reads them as a dataset
// "wrong numbers" is printed where a file was read without an error and has others.
#include <exception>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/lockstep.h"

namespace {

namespace ls = lockstep;
namespace ops = ls::ops;
using ls::Tensor;

class Scaled : public ls::Module {
 public:
  explicit Scaled(float number) : scale(number) { track("scale", scale); }
  ls::Variable scale;
  ls::Function f = track("f", ls::function(
                                  [this](const Tensor& x) {
                                    const auto scaled = ls::custom_gradient([this](const Tensor& x) {
                                      return std::pair(x * scale, [](const Tensor& dy) { return dy * 7.0; });
                                    });
                                    return scaled(x);
                                  },
                                  {.input_signature = {ls::TensorSpec({}, ls::float32, "x")}}));
};

bool loads_gradient(const std::string& folder, float number) {
  const auto loaded = ls::saved_model::load(folder);
  const ls::Variable x(2.0);
  ls::GradientTape tape;
  const Tensor y = loaded.call("f", {x.value()});
  return y.item<float>() == 2 * number && tape.gradient(y, x).item<float>() == 7;
}

void write_records(const std::string& path, int number) {
  ls::io::TFRecordWriter writer(path);
  for (std::int64_t i = 0; i < number; ++i) {
    ls::train::SequenceExample example;
    example.context.feature["length"].int64_list.value = {i + 1};
    auto& steps = example.feature_lists.feature_list["x"].feature;
    for (std::int64_t k = 0; k <= i; ++k) steps.emplace_back().float_list.value = {static_cast<float>(k), 0.5F};
    writer.write(example.SerializeToString());
  }
  writer.close();
}

bool reads_records(const std::string& path, int number) {
  const auto dataset = ls::data::TFRecordDataset(path).map([](const Tensor& record) {
    const auto [context, sequences] = ls::io::parse_single_sequence_example(
        record, {.context_features = {{"length", ls::io::FixedLenFeature({}, ls::int64)}},
                 .sequence_features = {{"x", ls::io::FixedLenSequenceFeature({2}, ls::float32)}}});
    return ls::data::Element::list({context["length"], sequences["x"]});
  });
  std::int64_t read = 0;
  for (const auto& [length, x] : dataset.parts<2>()) {
    if (length.template item<std::int64_t>() != ++read || x.shape() != ls::Shape{read, 2}) return false;
    if (ops::reduce_sum(x).template item<float>() != 0.5F * static_cast<float>(read * read)) return false;
  }
  return read == number;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string_view what = argv[1];
  const std::string path = argv[2];
  try {
    const int number = std::stoi(argv[3]);
    bool right = true;
    if (what == "save-gradient") {
      ls::saved_model::save(Scaled(static_cast<float>(number)), path);
    } else if (what == "load-gradient") {
      right = loads_gradient(path, static_cast<float>(number));
    } else if (what == "write-records") {
      write_records(path, number);
    } else if (what == "read-records") {
      right = reads_records(path, number);
    } else {
      return 2;
    }
    if (!right) fmt::print("wrong numbers\n");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}

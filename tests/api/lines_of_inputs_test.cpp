// Lines of programs that make their own inputs and read checkpoints, as literally as C++ permits.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
using ls::Tensor;
using ls::data::Dataset;

namespace lines_of_inputs {

std::string text_of(const ls::data::ElementSpec& spec) {
  std::ostringstream text;
  text << spec;
  return text.str();
}

// The literal 0 must not be taken for a nullptr, which asks whether the element is None.
TEST(InputLines, ElementsAreComparedWithZero) {
  std::string zeros;
  for (const auto& [x, label] : Dataset::from_tensor_slices({Tensor{1, 0, 2}, Tensor{0, 1, 0}})) {
    if (label == 0) zeros += "label ";
    if (x != 0 && label == 0) zeros += "x ";
  }
  for (const auto& element : Dataset::range(3)) {
    if (element == 0) zeros += "element ";
    if (element == nullptr || element == ls::None) zeros += "none ";
  }
  const std::vector<ls::data::Element> pairs = {{Tensor{0, 7}, Tensor{1, 1}}};
  for (const auto& pair : pairs) EXPECT_EQ(numbers(pair[0] == 0), (Numbers{1, 0}));
  EXPECT_EQ(zeros, "label x label x element ");
}

TEST(InputLines, GeneratorsAreDescribedByTypesAndShapes) {
  const auto count = [] { return std::vector<int>{1, 2, 3}; };
  EXPECT_EQ(text_of(Dataset::from_generator(count, {.output_types = tf::int32, .output_shapes = {}}).element_spec()),
            text_of(ls::TensorSpec(ls::Shape{}, tf::int32)));
  EXPECT_EQ(text_of(Dataset::from_generator(count, tf::int32, {}).element_spec()),
            text_of(ls::TensorSpec(ls::Shape{}, tf::int32)));
  EXPECT_EQ(text_of(Dataset::from_generator(count, tf::int32).element_spec()),
            text_of(ls::TensorSpec(ls::None, tf::int32)));
  // yield i, i / 2
  const auto pairs = [] { return std::vector<std::pair<int, float>>{{1, 0.5f}, {2, 1.0f}}; };
  const auto two = Dataset::from_generator(pairs, {tf::int32, tf::float32}, {{}, {}});
  Numbers halves;
  for (const auto& [i, half] : two) halves.push_back(float(half));
  EXPECT_EQ(halves, (Numbers{0.5, 1}));
  // Numbers get the dtypes that are declared.
  for (const auto& [i, half] : Dataset::from_generator(pairs, {tf::int64, tf::float64}, {{}, {}})) {
    EXPECT_EQ(i.dtype(), "int64");
    EXPECT_EQ(half.dtype(), "float64");
  }
  const auto series = [] { return std::vector<std::map<std::string, Tensor>>{{{"id", 1}, {"x", Tensor{1.f, 2.f}}}}; };
  const auto dicts = Dataset::from_generator(series, {.output_types = {{"id", tf::int32}, {"x", tf::float32}},
                                                      .output_shapes = {{"id", {}}, {"x", {ls::None}}}});
  EXPECT_EQ(text_of(dicts.element_spec()),
            text_of({{"id", ls::TensorSpec(ls::Shape{}, tf::int32)}, {"x", ls::TensorSpec({ls::None}, tf::float32)}}));
  EXPECT_THROW(Dataset::from_generator(pairs, {tf::int32, tf::float32}, {{}, {}, {}}),
               ls::errors::InvalidArgumentError);
}

TEST(InputLines, APartThatIsATupleNeedsItsType) {
  const auto nested = Dataset::range(2).map([](const Tensor& x) { return std::pair{x, std::pair{x, x}}; });
  try {
    for (const auto& each : nested.map([](const Tensor&, const auto& parts) { return parts; })) static_cast<void>(each);
    FAIL();
  } catch (const ls::errors::InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("part 1 of the element is a tuple"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("const ls::data::Element&"), std::string::npos) << error.what();
  }
}

TEST(InputLines, LoopsBeginWithTensorsAndNumbers) {
  const Tensor n = 27;
  const auto [last, steps] =
      tf::while_loop([](const Tensor& n, const Tensor&) { return n > 1; },
                     [](const Tensor& n, const Tensor& k) {
                       return std::pair{tf::where(n % 2 == 0, tf::floor_div(n, 2), 3 * n + 1), k + 1};
                     },
                     {n, 0});
  EXPECT_EQ(int(last), 1);
  EXPECT_EQ(int(steps), 111);
}

TEST(InputLines, DictsOfSourcesTakeOptions) {
  const auto x = tf::Variable(2.0), y = tf::Variable(3.0);
  const auto c = tf::constant({1., 2.});
  tf::GradientTape tape({.persistent = true});
  tape.watch(c);
  const auto z = tf::pow(x, 2);
  const auto gradients =
      tape.gradient(z, {{"x", x}, {"y", y}}, {.unconnected_gradients = tf::UnconnectedGradients::ZERO});
  EXPECT_EQ(numbers(gradients["x"]), (Numbers{4}));
  EXPECT_EQ(numbers(gradients["y"]), (Numbers{0}));
  const auto [of_x, of_c] = tape.gradient(z, {x, c}, {.unconnected_gradients = tf::UnconnectedGradients::ZERO});
  EXPECT_EQ(numbers(of_x), (Numbers{4}));
  EXPECT_EQ(numbers(of_c), (Numbers{0, 0}));
  const auto weighted = tape.gradient(z, {{"x", x}, {"y", y}}, {.output_gradients = tf::constant(3.0)});
  EXPECT_EQ(numbers(weighted["x"]), (Numbers{12}));
  EXPECT_FALSE(weighted["y"].defined());
}

TEST(InputLines, SamplersHaveNames) {
  const auto [sampled, expected, counts] =
      tf::random::log_uniform_candidate_sampler({.true_classes = tf::constant({{1}}, tf::int64),
                                                 .num_true = 1,
                                                 .num_sampled = 2,
                                                 .unique = true,
                                                 .range_max = 8,
                                                 .seed = 1,
                                                 .name = "negative_sampling"});
  EXPECT_EQ(sampled.shape(), (ls::Shape{2}));
}

TEST(InputLines, PrintWritesToFiles) {
  const std::string path = testing::TempDir() + "/printed.txt";
  std::ofstream(path).close();
  for (const int i : {1, 2}) tf::print("step", i, {.output_stream = "file://" + path});
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "step 1\nstep 2\n");
  EXPECT_THROW(tf::print("x", {.output_stream = "file:///nowhere/at/all"}), ls::errors::NotFoundError);
}

TEST(InputLines, ModulesGetVariablesFromOutside) {
  const std::string folder = testing::TempDir() + "/module";
  tf::Module module;
  const auto v = module.track("v", tf::Variable({1., 2.}));
  EXPECT_EQ(module.variables().size(), 1u);
  const auto checkpoint = tf::train::Checkpoint({{"module", module}});
  auto manager = tf::train::CheckpointManager(checkpoint, folder, {.max_to_keep = 2});
  manager.save();
  const auto reader = tf::train::load_checkpoint(folder);
  const auto shapes = reader.get_variable_to_shape_map();
  EXPECT_EQ(shapes.keys()[1], "module/v/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(ls::sorted(reader.get_variable_to_dtype_map()).size(), shapes.size());
  std::ostringstream text;
  text << tf::train::get_checkpoint_state(folder)->all_model_checkpoint_paths;
  EXPECT_EQ(text.str(), "['" + folder + "/ckpt-1']");
}

}  // namespace lines_of_inputs

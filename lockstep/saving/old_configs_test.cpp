// Models of configs of Keras 2.
#include <gtest/gtest.h>

#include "lockstep/keras/models/model.h"
#include "lockstep/ops/functions.h"
#include "lockstep/saving/keras_saving.h"

namespace lockstep::saving {
namespace {

// tf_keras: Multiply()([Masking()(a), Masking()(b)]).
constexpr const char* kProduct = R"({"class_name": "Functional", "config": {"name": "n", "layers": [
  {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 2, 1], "name": "a"}, "name": "a",
   "inbound_nodes": []},
  {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 2, 1], "name": "b"}, "name": "b",
   "inbound_nodes": []},
  {"class_name": "Masking", "config": {"name": "c"}, "name": "c", "inbound_nodes": [[["a", 0, 0, {}]]]},
  {"class_name": "Masking", "config": {"name": "d"}, "name": "d", "inbound_nodes": [[["b", 0, 0, {}]]]},
  {"class_name": "Multiply", "config": {"name": "m"}, "name": "m",
   "inbound_nodes": [[["c", 0, 0, {}], ["d", 0, 0, {}]]]}],
  "input_layers": [["a", 0, 0], ["b", 0, 0]], "output_layers": [["m", 0, 0]]}, "keras_version": "2.21.0"})";

std::vector<float> product(const keras::Model& model) {
  const Tensor a = Tensor::from_vector(std::vector<float>{0, 2}, {1, 2, 1});
  const Tensor b = Tensor::from_vector(std::vector<float>{3, 4}, {1, 2, 1});
  return model(keras::Structure::list({keras::Structure(a), keras::Structure(b)})).leaf().to_vector<float>();
}

// In Keras 3 a masked element is a factor of 1.
TEST(OldConfigs, ClonesComputeAsTheVersionOfTheirModel) {
  const keras::Model model = model_from_json(kProduct);
  EXPECT_EQ(product(model), (std::vector<float>{0, 8}));
  const keras::Model clone = keras::clone_model(model);
  EXPECT_EQ(product(clone), (std::vector<float>{0, 8}));
  EXPECT_EQ(clone.impl()->keras_version(), 2);
  EXPECT_EQ(product(keras::clone_model(clone)), (std::vector<float>{0, 8}));
}

}  // namespace
}  // namespace lockstep::saving

#include "lockstep/saving/saved_model.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/call.h"

namespace lockstep::saved_model {
namespace {

using distribute::Variable;

Tensor axis(std::int32_t value) { return Tensor::from_vector(std::vector<std::int32_t>{value}); }

// y = x w + b; while training, moving = sum of y over the batch, and it is added to y.
struct Affine {
  VariablePtr w = Variable::create(Tensor::from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}), {.name = "w"});
  VariablePtr b =
      Variable::create(Tensor::from_vector(std::vector<float>{0.5f, -0.5f}), {.name = "w"});  // the same name
  VariablePtr moving = Variable::create(Tensor::zeros({2}), {.trainable = false, .name = "moving"});

  Exportable exportable() const {
    ExportFunction function;
    function.names = {"serve", "__call__"};
    function.arguments = {{"inputs", Specs(TensorSpec({kUnknownDim, 3}, DType::kFloat32, "x"))}};
    function.takes_training = true;
    function.call = [this](const std::vector<Structure>& arguments, bool training) -> Structure {
      const Tensor y = ops::call1("AddV2", {ops::call1("MatMul", {arguments[0].leaf(), w->read()}), b->read()});
      if (training) moving->assign(ops::call1("Sum", {y, axis(0)}));
      return Structure(ops::call1("AddV2", {y, moving->read()}));
    };
    Exportable out;
    out.functions = {function};
    out.signatures = {{"serving_default", 0}, {"serve", 0}};
    out.variables = {w, b, moving};
    out.regularization_losses = {[this] { return ops::call1("Sum", {b->read(), axis(0)}); }};
    return out;
  }
};

class SavedModelTest : public testing::Test {
 protected:
  SavedModelTest() {
    path_ = fmt::format("{}/saved_model_test_{}_{}", testing::TempDir(), getpid(),
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(path_);
  }
  ~SavedModelTest() override { std::filesystem::remove_all(path_); }

  std::string bytes(const std::string& file) const {
    return std::string(io::as_text(io::posix_file_system().map(path_ + "/" + file)->bytes()));
  }

  std::string path_;
  Tensor x_ = Tensor::from_vector(std::vector<float>{1, 2, 3, 0, 0, 1}, {2, 3});
  std::vector<float> y_{22.5f, 27.5f, 5.5f, 5.5f};
};

TEST_F(SavedModelTest, RoundTrip) {
  save(Affine().exportable(), path_);
  const LoadedModel model = load(path_);
  EXPECT_EQ(model.signature_names(), (std::vector<std::string>{"serving_default", "serve"}));
  const Signature& signature = model.signatures("serving_default");
  ASSERT_EQ(signature.inputs().size(), 1u);
  EXPECT_EQ(signature.inputs()[0].name, "x");
  EXPECT_EQ(signature.inputs()[0].shape, (Shape{kUnknownDim, 3}));
  EXPECT_EQ(signature({{"x", x_}}).at("output_0").to_vector<float>(), y_);
  EXPECT_EQ(model(Structure(x_)).leaf().to_vector<float>(), y_);
  EXPECT_EQ(model.variables().size(), 3u);
  EXPECT_EQ(model.trainable_variables().size(), 2u);
  EXPECT_EQ(model.regularization_losses()[0].item<float>(), 0.0f);
}

TEST_F(SavedModelTest, TrainingIsAnotherTrace) {
  save(Affine().exportable(), path_);
  const LoadedModel model = load(path_);
  EXPECT_EQ(model(Structure(x_), true).leaf().to_vector<float>(), (std::vector<float>{50.5f, 60.5f, 33.5f, 38.5f}));
  EXPECT_EQ(model.variables()[2]->numpy().to_vector<float>(), (std::vector<float>{28.0f, 33.0f}));
}

TEST_F(SavedModelTest, GradientsReachTheVariables) {
  save(Affine().exportable(), path_);
  const LoadedModel model = load(path_);
  GradientTape tape;
  const Tensor y = model(Structure(x_)).leaf();
  const Tensors gradients = tape.gradient(y, model.trainable_variables());
  EXPECT_EQ(gradients[0].to_vector<float>(), (std::vector<float>{1, 1, 2, 2, 4, 4}));
  EXPECT_EQ(gradients[1].to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST_F(SavedModelTest, SameStateSameBytesUnderAnyStrategy) {
  save(Affine().exportable(), path_);
  const std::string once = bytes("saved_model.pb"), print = bytes("fingerprint.pb"),
                    index = bytes("variables/variables.index");
  distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto scope = strategy.scope();
  save(Affine().exportable(), path_);
  EXPECT_EQ(bytes("saved_model.pb"), once);
  EXPECT_EQ(bytes("fingerprint.pb"), print);
  EXPECT_EQ(bytes("variables/variables.index"), index);
}

TEST_F(SavedModelTest, LoadsUnderAStrategy) {
  save(Affine().exportable(), path_);
  distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto scope = strategy.scope();
  const LoadedModel model = load(path_, {.experimental_io_device = "/job:localhost"});
  EXPECT_EQ(model.variables()[0]->num_copies(), 2);
  const auto results = strategy.run([&] { return model.signatures("serving_default")({{"x", x_}}).at("output_0"); });
  for (const Tensor& result : results.values()) EXPECT_EQ(result.to_vector<float>(), y_);
}

TEST_F(SavedModelTest, ALoadedModelCanBeSavedAgain) {
  save(Affine().exportable(), path_);
  const LoadedModel model = load(path_);
  ExportFunction function;
  function.names = {"__call__"};
  function.arguments = {{"inputs", Specs(TensorSpec({kUnknownDim, 3}, DType::kFloat32, "in"))}};
  function.call = [&](const std::vector<Structure>& arguments, bool) { return model(arguments[0]); };
  Exportable again;
  again.functions = {function};
  again.signatures = {{"serving_default", 0}};
  again.variables = model.variables();
  save(again, path_ + "/again");
  EXPECT_EQ(load(path_ + "/again").signatures("serving_default")({{"in", x_}}).at("output_0").to_vector<float>(), y_);
}

TEST_F(SavedModelTest, AnUntrackedVariableIsNamed) {
  const Affine affine;
  Exportable model = affine.exportable();
  model.variables.pop_back();
  try {
    save(model, path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kFailedPrecondition);
    EXPECT_NE(error.message().find("moving"), std::string::npos) << error.message();
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SavedModelTest, WrongInputsAreExplained) {
  save(Affine().exportable(), path_);
  const LoadedModel model = load(path_);
  const Signature& signature = model.signatures("serving_default");
  EXPECT_THROW(signature({}), Error);
  EXPECT_THROW(signature({{"y", x_}}), Error);
  EXPECT_THROW(signature({{"x", Tensor::zeros({2, 4})}}), Error);
  EXPECT_THROW(signature({{"x", Tensor::zeros({2, 3}, DType::kInt32)}}), Error);
  EXPECT_THROW(model(Structure(Tensor::zeros({2, 4}))), Error);
  EXPECT_THROW(model.signatures("serving"), Error);
  EXPECT_THROW(model.call("serv", {Structure(x_)}), Error);
  EXPECT_THROW(load(path_, {.tags = {"train"}}), Error);
  EXPECT_THROW(load(path_ + "/none"), Error);
  EXPECT_THROW(load(path_, {.experimental_io_device = "/job:worker/task:9"}), Error);
}

// Every truncation and many flipped bits: an error or a model, never worse.
TEST_F(SavedModelTest, SurvivesLiars) {
  save(Affine().exportable(), path_);
  const std::string whole = bytes("saved_model.pb");
  const auto attempt = [&](const std::string& content) {
    std::filesystem::remove(path_ + "/saved_model.pb");
    auto file = io::posix_file_system().create(path_ + "/saved_model.pb", 0644);
    file->write_at(0, io::as_bytes(content));
    file->close();
    try {
      const LoadedModel model = load(path_);
      for (const std::string& name : model.signature_names()) model.signatures(name)({{"x", x_}});
    } catch (const Error&) {
    }
  };
  for (std::size_t length = 0; length < whole.size(); length += 37) attempt(whole.substr(0, length));
  for (std::size_t at = 0; at < whole.size(); at += 23) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    attempt(flipped);
  }
}

}  // namespace
}  // namespace lockstep::saved_model

#include "lockstep/train/checkpoint.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/train/checkpoint_manager.h"
#include "lockstep/train/model_io_internal.h"
#include "lockstep/train/module.h"

namespace lockstep::train {
namespace {

using distribute::Variable;
using distribute::VariablePtr;
using Floats = std::vector<float>;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/checkpoint_" + std::to_string(getpid()) +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string bytes(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string folder_;
};

VariablePtr floats(Floats values, const std::string& name = "v") {
  return Variable::create(Tensor::from_vector(values), {.name = name});
}
Floats value(const VariablePtr& variable) { return variable->numpy().to_vector<float>(); }

Code code_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kUnknown;
}

TEST_F(CheckpointTest, RestoresAnotherSizeWhereTheShapeIsUnknown) {
  const Variable v(Tensor::from_vector<float>({1, 2}), {.shape = Shape{kUnknownDim}});
  const std::string saved = Checkpoint({{"v", v}}).save(path("ckpt"));
  v->assign(Tensor::from_vector<float>({3, 4, 5}));
  EXPECT_EQ(code_of([&] { v->assign_add(Tensor::from_vector<float>({1})); }), Code::kInvalidArgument);
  v->assign_add(Tensor::from_vector<float>({1, 1, 1}));
  EXPECT_EQ(value(v), (Floats{4, 5, 6}));
  Checkpoint({{"v", v}}).restore(saved);
  EXPECT_EQ(value(v), (Floats{1, 2}));
  EXPECT_EQ(v->shape(), Shape{kUnknownDim});
  EXPECT_EQ(code_of([&] { v->assign(Tensor::from_vector<float>({3, 4}, Shape{1, 2})); }), Code::kInvalidArgument);
}

TEST_F(CheckpointTest, SavesCountsAndRestores) {
  const auto a = floats({1, 2});
  const auto b = floats({3});
  const Checkpoint checkpoint({{"b", b}, {"a", a}});
  EXPECT_EQ(checkpoint.save(path("ckpt")), path("ckpt-1"));
  EXPECT_EQ(checkpoint.save(path("ckpt")), path("ckpt-2"));
  EXPECT_EQ(latest_checkpoint(folder_), path("ckpt-2"));
  a->assign(Tensor::from_vector(Floats{0, 0}));
  checkpoint.restore(path("ckpt-2")).assert_consumed();
  EXPECT_EQ(value(a), (Floats{1, 2}));
  const formats::BundleReader reader(path("ckpt-2"));
  EXPECT_TRUE(reader.contains("a/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_TRUE(reader.contains("save_counter/.ATTRIBUTES/VARIABLE_VALUE"));
}

TEST_F(CheckpointTest, ListsMapsAndObjectsOfTheUsers) {
  struct Pair : Trackable {
    VariablePtr left = floats({1}), right = floats({2});
    std::string note = "first";
    Children checkpoint_children() const override { return {{"left", left}, {"right", right}}; }
    std::optional<std::string> python_state() const override { return note; }
    void set_python_state(const std::string& state) override { note = state; }
  } pair;
  const auto item = floats({5});
  const Checkpoint checkpoint({{"pair", pair},
                               {"items", std::vector<Tracked>{item, floats({6})}},
                               {"map", std::map<std::string, Tracked>{{"a/b.c", floats({7})}}}});
  checkpoint.write(path("all"));
  pair.note = "second";
  pair.left->assign(Tensor::from_vector(Floats{0}));
  item->assign(Tensor::from_vector(Floats{0}));
  checkpoint.read(path("all")).assert_consumed();
  EXPECT_EQ(pair.note, "first");
  EXPECT_EQ(value(pair.left), (Floats{1}));
  EXPECT_EQ(value(item), (Floats{5}));
  const formats::BundleReader reader(path("all"));
  EXPECT_TRUE(reader.contains("map/a.Sb..c/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_TRUE(reader.contains("items/1/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_TRUE(reader.contains("pair/.ATTRIBUTES/py_state"));
}

TEST_F(CheckpointTest, StatusesReportMissingValues) {
  const auto a = floats({1}), b = floats({2});
  Checkpoint({{"a", a}}).save(path("ckpt"));
  const auto status = Checkpoint({{"a", a}, {"b", b}}).restore(path("ckpt-1"));
  status.assert_nontrivial_match();
  EXPECT_EQ(code_of([&] { status.assert_existing_objects_matched(); }), Code::kFailedPrecondition);
  Checkpoint({{"a", a}, {"b", b}}).save(path("both"));
  const auto part = Checkpoint({{"a", a}}).restore(path("both-1"));
  part.assert_existing_objects_matched();
  EXPECT_EQ(code_of([&] { part.assert_consumed(); }), Code::kFailedPrecondition);
  part.expect_partial();
  const auto nothing = Checkpoint({{"a", a}}).restore(std::nullopt);
  EXPECT_EQ(code_of([&] { nothing.assert_consumed(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] {
              Checkpoint({{"c", b}}).read(path("both-1")).expect_partial().assert_nontrivial_match();
            }),
            Code::kFailedPrecondition);
}

TEST_F(CheckpointTest, RejectsMismatchesWithoutChanges) {
  const auto a = floats({1, 2});
  const auto z = floats({9});
  Checkpoint({{"a", floats({5, 6})}, {"z", floats({1, 2, 3})}}).write(path("other"));
  EXPECT_EQ(code_of([&] { Checkpoint({{"a", a}, {"z", z}}).read(path("other")); }), Code::kInvalidArgument);
  EXPECT_EQ(value(a), (Floats{1, 2}));
  const auto whole = Variable::create(Tensor::from_vector(std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(code_of([&] { Checkpoint({{"a", whole}}).read(path("other")); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { Checkpoint({{"a", a}}).restore(path("missing")); }), Code::kNotFound);
}

// An object may refuse its state after others have taken theirs.
TEST_F(CheckpointTest, AStateThatIsRefusedChangesNothing) {
  struct Picky : Trackable {
    std::string note = "old";
    bool refuses = false;
    Children checkpoint_children() const override { return {}; }
    std::optional<std::string> python_state() const override { return note; }
    void set_python_state(const std::string& state) override {
      if (std::exchange(refuses, false)) {
        note = "half";
        throw_invalid_argument("refused");
      }
      note = state;
    }
  } first, second;
  const auto weights = floats({1, 2});
  auto numbers = std::make_shared<data::DatasetIterator>(data::Dataset::range(9).shuffle(9, 1).make_iterator());
  const Checkpoint checkpoint({{"a", first}, {"b", numbers}, {"c", second}, {"w", weights}});
  checkpoint.write(path("before"));
  first.note = second.note = "new";
  weights->assign(Tensor::from_vector(Floats{3, 4}));
  numbers->next();
  const Json state = numbers->save_state();
  for (Picky* const each : {&first, &second}) {
    each->refuses = true;
    EXPECT_EQ(code_of([&] { checkpoint.read(path("before")); }), Code::kInvalidArgument);
    EXPECT_EQ(first.note, "new");
    EXPECT_EQ(second.note, "new");
    EXPECT_EQ(numbers->save_state(), state);
    EXPECT_EQ(value(weights), (Floats{3, 4}));
  }
  checkpoint.read(path("before")).assert_consumed();
  EXPECT_EQ(second.note, "old");
}

TEST_F(CheckpointTest, FilesDoNotDependOnTheStrategy) {
  const auto write = [&](distribute::Strategy& strategy, const std::string& name) {
    const auto scope = strategy.scope();
    const auto v = floats({10, 11});
    const auto sum =
        Variable::create(Tensor::scalar(8.0f), {.name = "sum",
                                                .synchronization = distribute::VariableSynchronization::kOnRead,
                                                .aggregation = distribute::VariableAggregation::kSum});
    sum->assign(Tensor::scalar(8.0f));
    const Checkpoint checkpoint({{"v", v}, {"sum", sum}});
    checkpoint.save(path(name + "/ckpt"));
    sum->assign(Tensor::scalar(0.0f));
    v->assign(Tensor::from_vector(Floats{0, 0}));
    checkpoint.restore(path(name + "/ckpt-1")).assert_consumed();
    EXPECT_EQ(sum->numpy().item<float>(), 8.0f);
    for (int i = 0; i < v->num_copies(); ++i) EXPECT_EQ(v->copy(i).to_vector<float>(), (Floats{10, 11}));
    if (sum->num_copies() == 2) {
      EXPECT_EQ(sum->copy(1).item<float>(), 4.0f);
    }
  };
  distribute::Strategy one;
  distribute::MirroredStrategy two({"/cpu:0", "/cpu:1"});
  write(one, "one");
  write(two, "two");
  for (const char* file : {"/ckpt-1.index", "/ckpt-1.data-00000-of-00001", "/checkpoint"}) {
    EXPECT_EQ(bytes(std::string("one") + file), bytes(std::string("two") + file)) << file;
  }
}

TEST_F(CheckpointTest, NamesWhereThereIsNoGraph) {
  formats::BundleWriter writer(path("named"));
  writer.add("v", Tensor::from_vector(Floats{4}).to_data());
  writer.finish();
  const auto v = floats({1});
  Checkpoint({{"whatever", v}}).restore(path("named")).assert_consumed().assert_nontrivial_match();
  EXPECT_EQ(value(v), (Floats{4}));
  const auto part = Checkpoint({{"whatever", v}, {"other", floats({1}, "absent")}}).restore(path("named"));
  EXPECT_EQ(code_of([&] { part.assert_existing_objects_matched(); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { part.assert_nontrivial_match(); }), Code::kFailedPrecondition);
}

TEST_F(CheckpointTest, ManagerKeepsTheNewest) {
  const auto v = floats({0});
  CheckpointManager manager(Checkpoint({{"v", v}}), folder_, {.max_to_keep = 2});
  EXPECT_EQ(manager.restore_or_initialize(), std::nullopt);
  for (int i = 1; i <= 4; ++i) {
    v->assign(Tensor::from_vector(Floats{static_cast<float>(i)}));
    EXPECT_EQ(manager.save(), path("ckpt-" + std::to_string(i)));
  }
  EXPECT_EQ(manager.checkpoints(), (std::vector<std::string>{path("ckpt-3"), path("ckpt-4")}));
  EXPECT_FALSE(std::filesystem::exists(path("ckpt-2.index")));
  EXPECT_FALSE(std::filesystem::exists(path("ckpt-2.data-00000-of-00001")));
  EXPECT_EQ(manager.save(100), path("ckpt-100"));

  const auto w = floats({0});
  CheckpointManager next(Checkpoint({{"v", w}}), folder_, {.max_to_keep = 2});
  EXPECT_EQ(next.restore_or_initialize(), path("ckpt-100"));
  next.restore_status()->assert_consumed();
  EXPECT_EQ(value(w), (Floats{4}));
  EXPECT_EQ(next.save(), path("ckpt-6"));
  EXPECT_EQ(next.checkpoints(), (std::vector<std::string>{path("ckpt-100"), path("ckpt-6")}));
}

TEST_F(CheckpointTest, ManagerPassesOverADamagedCheckpoint) {
  const auto v = floats({1});
  CheckpointManager manager(Checkpoint({{"v", v}}), folder_, {.max_to_keep = 3});
  manager.save();
  v->assign(Tensor::from_vector(Floats{2}));
  manager.save();
  std::string data = bytes("ckpt-2.data-00000-of-00001");
  data[8] = static_cast<char>(data[8] ^ 0x40), data[1] = static_cast<char>(data[1] ^ 0x40);
  std::ofstream(path("ckpt-2.data-00000-of-00001"), std::ios::binary) << data;
  const auto w = floats({0});
  CheckpointManager next(Checkpoint({{"v", w}}), folder_, {});
  EXPECT_EQ(next.restore_or_initialize(), path("ckpt-1"));
  EXPECT_EQ(value(w), (Floats{1}));
  std::ofstream(path("checkpoint")) << "\x01 rubbish {";
  CheckpointManager again(Checkpoint({{"v", w}}), folder_, {});
  EXPECT_EQ(again.restore_or_initialize(), path("ckpt-1"));
  std::filesystem::resize_file(path("ckpt-1.index"), 3);
  EXPECT_EQ(code_of([&] { next.restore_or_initialize(); }), Code::kDataLoss);
}

TEST_F(CheckpointTest, ManagerWaitsForTheInterval) {
  const auto step = Variable::create(Tensor::scalar<std::int64_t>(0), {.name = "step"});
  CheckpointManager manager(Checkpoint({{"step", step}}), folder_,
                            {.checkpoint_name = "run", .step_counter = step, .checkpoint_interval = 5});
  EXPECT_TRUE(manager.save());
  EXPECT_FALSE(manager.save(std::nullopt, false));
  step->assign(Tensor::scalar<std::int64_t>(3));
  EXPECT_FALSE(manager.save());
  EXPECT_TRUE(manager.save(std::nullopt, false));
  step->assign(Tensor::scalar<std::int64_t>(8));
  EXPECT_EQ(manager.save(), path("run-3"));
  EXPECT_EQ(code_of([&] {
              CheckpointManager(Checkpoint({{"s", step}}), folder_, {.max_to_keep = 0});
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] {
              CheckpointManager(Checkpoint({{"s", step}}), folder_, {.checkpoint_interval = 2});
            }),
            Code::kInvalidArgument);
}

keras::Sequential small_model() {
  return keras::Sequential(
      {layers::Input({3}), layers::Dense(4, {.activation = "relu"}), layers::Dropout(0.5), layers::Dense(2)});
}

TEST_F(CheckpointTest, ModelsAndOptimizersAsKeras3NamesThem) {
  const auto model = small_model();
  const auto optimizer = optimizers::Adam();
  optimizer->build(model.trainable_weights());
  const Checkpoint checkpoint(model, optimizer);
  checkpoint.save(path("ckpt"));
  const formats::BundleReader reader(path("ckpt-1"));
  for (const char* key : {"optimizer/_iterations", "optimizer/_learning_rate", "optimizer/_trainable_variables/0",
                          "optimizer/_variables/2", "save_counter"}) {
    EXPECT_TRUE(reader.contains(std::string(key) + "/.ATTRIBUTES/VARIABLE_VALUE")) << key;
  }
  EXPECT_FALSE(reader.contains("optimizer/_variables/0/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_TRUE(reader.contains("model/_functional/_operations/2/.LOCKSTEP/seed_generator/0"));

  const auto other = small_model();
  const auto fresh = optimizers::Adam();
  Checkpoint(other, fresh).restore(path("ckpt-1")).assert_consumed();
  EXPECT_TRUE(fresh->built());
  for (std::size_t i = 0; i < model.weights().size(); ++i)
    EXPECT_EQ(value(other.weights()[i]), value(model.weights()[i]));
}

TEST_F(CheckpointTest, ValuesWaitForModelsThatAreBuiltLater) {
  const auto model = small_model();
  Checkpoint({{"model", model}}).save(path("ckpt"));
  keras::Sequential later({layers::Dense(4, {.activation = "relu"}), layers::Dropout(0.5), layers::Dense(2)});
  const Checkpoint checkpoint({{"model", later}});
  const auto status = checkpoint.restore(path("ckpt-1"));
  later.build_for(Shape{kUnknownDim, 3});
  status.assert_consumed();
  for (std::size_t i = 0; i < model.weights().size(); ++i)
    EXPECT_EQ(value(later.weights()[i]), value(model.weights()[i]));
}

TEST_F(CheckpointTest, ValuesWaitForPartsThatAreAddedLater) {
  struct Net : Module {
    void add(const Variable& variable) { track("w", variable); }
  };
  struct Holder : Trackable {
    keras::LayerPtr layer;
    Children checkpoint_children() const override { return layer ? Children{{"layer", layer}} : Children{}; }
    void set(keras::LayerPtr made) {
      layer = std::move(made);
      restore_new_children();
    }
  };
  const auto dense = [] { return keras::LayerPtr(layers::Dense(2)); };
  Net net;
  const Variable w(Tensor::scalar<float>(3));
  net.add(w);
  Holder holder;
  holder.set(dense());
  holder.layer->ensure_built(Shape{kUnknownDim, 3});
  const auto model = small_model();
  model.compile({.optimizer = optimizers::Adam(0.25), .loss = "mse"});
  model.optimizer()->build(model.trainable_weights());
  Checkpoint({{"net", net}, {"holder", Tracked(holder)}, {"model", model}}).save(path("ckpt"));

  Net new_net;
  Holder new_holder;
  const auto other = small_model();
  const Checkpoint checkpoint({{"net", new_net}, {"holder", Tracked(new_holder)}, {"model", other}});
  const auto status = checkpoint.restore(path("ckpt-1"));
  EXPECT_THROW(status.assert_consumed(), Error);
  const Variable new_w(Tensor::scalar<float>(0));
  new_net.add(new_w);
  EXPECT_EQ(new_w.numpy().item<float>(), 3);
  new_holder.set(dense());
  new_holder.layer->ensure_built(Shape{kUnknownDim, 3});
  EXPECT_EQ(value(new_holder.layer->weights()[0]), value(holder.layer->weights()[0]));
  other.compile({.optimizer = optimizers::Adam(0.5), .loss = "mse"});
  EXPECT_EQ(other.optimizer()->learning_rate(), 0.25f);
  status.assert_consumed();
}

TEST_F(CheckpointTest, ListsThatBecomeLongerAfterARestore) {
  struct Net : Module {
    void set(const std::vector<Variable>& variables) { track("list", variables); }
  };
  struct Holder : Trackable {
    std::vector<Tracked> items;
    Children checkpoint_children() const override { return {{"list", Tracked(items)}}; }
    void add(const Variable& variable) {
      items.push_back(variable);
      restore_new_children();
    }
  };
  const Variable one(1.f), two(2.f);
  Net net;
  net.set({one, two});
  Holder holder;
  holder.add(one);
  holder.add(two);
  Checkpoint({{"net", net}, {"holder", Tracked(holder)}}).save(path("ckpt"));
  for (const bool module : {true, false}) {
    Net new_net;
    Holder new_holder;
    const Variable first(0.f), second(0.f);
    new_net.set({first});
    new_holder.add(first);
    const Checkpoint checkpoint(module ? Children{{"net", new_net}} : Children{{"holder", Tracked(new_holder)}});
    const auto status = checkpoint.restore(path("ckpt-1"));
    if (module) new_net.set({first, second});
    if (!module) new_holder.add(second);
    EXPECT_EQ(second.numpy().item<float>(), 2) << module;
    status.assert_consumed();
  }
}

TEST_F(CheckpointTest, WholeModels) {
  const auto model = small_model();
  write_model_checkpoint(model, path("model"));
  const auto other = small_model();
  const auto report = read_model_checkpoint(other, path("model"), Strictness::kAll);
  EXPECT_EQ(report.to_string(), "restored 4, missing 0, unused 0");
  EXPECT_EQ(value(other.weights()[2]), value(model.weights()[2]));
  keras::Sequential larger({layers::Input({3}), layers::Dense(4), layers::Dense(2), layers::Dense(9)});
  EXPECT_EQ(code_of([&] { read_model_checkpoint(larger, path("model")); }), Code::kInvalidArgument);
}

TEST_F(CheckpointTest, ReportsWhatWasRestored) {
  Checkpoint({{"first", floats({1})}, {"second", floats({2}, "w")}}).write(path("ckpt"));
  const auto first = floats({0}, "a"), other = floats({5}, "b");
  const auto status = Checkpoint({{"first", first}, {"secnd", other}}).read(path("ckpt"));
  const RestoreReport report = status.expect_partial().report();
  ASSERT_EQ(report.restored.size(), 1u);
  EXPECT_EQ(report.restored[0].path, "first");
  EXPECT_EQ(report.restored[0].variable, "a");
  EXPECT_EQ(report.to_string(),
            "restored 1, missing 1, unused 1\n"
            "  missing: secnd (variable 'b'), similar to the unused second\n"
            "  unused: second");
  EXPECT_EQ(value(first), Floats{1});
  EXPECT_EQ(value(other), Floats{5});
}

TEST_F(CheckpointTest, SingleTensorsAreRead) {
  Checkpoint({{"v", floats({1, 2})}}).save(path("ckpt"));
  const CheckpointReader reader = load_checkpoint(folder_);
  const std::string key = "v/.ATTRIBUTES/VARIABLE_VALUE";
  EXPECT_TRUE(reader.has_tensor(key));
  EXPECT_EQ(reader.get_tensor(key).to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(reader.get_variable_to_shape_map().at(key), Shape{2});
  EXPECT_EQ(reader.get_variable_to_dtype_map().at(key), DType::kFloat32);
  EXPECT_EQ(list_variables(path("ckpt-1")).size(), 3u);
  EXPECT_EQ(code_of([&] { reader.get_tensor("w"); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { load_checkpoint(path("nothing")); }), Code::kNotFound);
}

struct Counts final : Module {
  Counts() : table(track("table", lookup::MutableHashTable(DType::kString, DType::kInt64, -1))) {}
  lookup::MutableHashTable table;
};

// The keys are those of TensorFlow 2.21.
TEST_F(CheckpointTest, EntriesOfTables) {
  const auto text = [](const std::vector<std::string>& keys) {
    return Tensor::strings(keys, Shape{static_cast<std::int64_t>(keys.size())});
  };
  Counts counts;
  counts.table.insert(text({"a", "b"}), Tensor::from_vector<std::int64_t>({1, 2}));
  const Checkpoint checkpoint({{"counts", counts}, {"alone", counts.table}});
  const std::string path = checkpoint.write(folder_ + "/tables");
  EXPECT_EQ(CheckpointReader(path).get_tensor("alone/.ATTRIBUTES/table-values").shape(), (Shape{2}));
  EXPECT_TRUE(CheckpointReader(path).has_tensor("alone/.ATTRIBUTES/table-keys"));
  counts.table.insert(text({"b", "c"}), Tensor::from_vector<std::int64_t>({5, 6}));
  checkpoint.read(path).assert_consumed();
  EXPECT_EQ(counts.table.size(), 2);
  EXPECT_EQ(counts.table.lookup(text({"b", "c"})).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, -1}));
  const lookup::MutableHashTable other(DType::kString, DType::kFloat32, 0.0);
  EXPECT_THROW((Checkpoint({{"alone", other}}).read(path)), Error);
}

}  // namespace
}  // namespace lockstep::train

// Texts of tensors, variables and ragged tensors in lists and in formatted strings, as TensorFlow 2.21 writes them.
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace keras = lockstep::keras;
namespace np = lockstep::np;
using ls::Tensor;

namespace printed_values {

template <typename T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(PrintedValues, FormatsWriteTheArraysOfTensors) {
  EXPECT_EQ(ls::format("{} {}", tf::constant({1, 2}), tf::constant(1.5)), "[1 2] 1.5");
  EXPECT_EQ(ls::format("{}", tf::constant("a")), "b'a'");
  EXPECT_EQ(ls::format("{}", tf::constant({{1., 2.}, {3., 4.}})), "[[1. 2.]\n [3. 4.]]");
  EXPECT_EQ(ls::format("{}", tf::Variable(1.0, {.name = "v"})),
            "<tf.Variable 'v:0' shape=() dtype=float32, numpy=1.0>");
  EXPECT_EQ(ls::format("{}", tf::ragged::constant({{1}, {2, 3}})), "<tf.RaggedTensor [[1], [2, 3]]>");
  const keras::Structure leaf = tf::constant(2), pair = {tf::constant(1), tf::constant(2)};
  EXPECT_EQ(ls::format("{} {:.2f}", leaf, leaf), "2 2.00");
  EXPECT_EQ(ls::format("{}", pair), text(pair));
}

TEST(PrintedValues, FormatsWriteLists) {
  const Tensor rows = {{1, 2}, {3, 4}};
  EXPECT_EQ(ls::format("{} {}", rows.numpy().tolist(), rows.numpy().tolist()[0][1]), "[[1, 2], [3, 4]] 2");
  const ls::Json config = {{"name", "dense"}, {"units", 3}, {"rate", 0.5}, {"use_bias", true}};
  EXPECT_EQ(ls::format("{} {} {:.2f} {}", config["name"], config["units"], config["rate"], config["use_bias"]),
            "dense 3 0.50 True");
}

TEST(PrintedValues, ListsShowTheirItems) {
  const keras::Structure list = {tf::constant(1), tf::constant({1.5, 2.})};
  EXPECT_EQ(text(list),
            "[<tf.Tensor: shape=(), dtype=int32, numpy=1>, "
            "<tf.Tensor: shape=(2,), dtype=float32, numpy=array([1.5, 2. ], dtype=float32)>]");
  const keras::Structure dict = {{"a", tf::constant({{1, 2}, {3, 4}})}, {"b", tf::constant("x")}};
  EXPECT_EQ(text(dict),
            "{'a': <tf.Tensor: shape=(2, 2), dtype=int32, numpy=\narray([[1, 2],\n       [3, 4]], dtype=int32)>, "
            "'b': <tf.Tensor: shape=(), dtype=string, numpy=b'x'>}");
  const keras::Structure numbers = {tf::constant(0.9854497313499451), tf::constant(true), tf::constant({3}, tf::int64)};
  EXPECT_EQ(text(numbers),
            "[<tf.Tensor: shape=(), dtype=float32, numpy=0.9854497313499451>, "
            "<tf.Tensor: shape=(), dtype=bool, numpy=True>, <tf.Tensor: shape=(1,), dtype=int64, numpy=array([3])>]");
  const keras::Structure arrays = {np::array({1.0, 2.0}), np::array(3.0).astype("float32"), np::zeros({0, 3})};
  EXPECT_EQ(text(arrays), "[array([1., 2.]), np.float32(3.0), array([], shape=(0, 3), dtype=float64)]");
  const keras::Structure large = {np::arange(2000)};
  EXPECT_EQ(text(large), "[array([   0,    1,    2, ..., 1997, 1998, 1999], shape=(2000,))]");
}

TEST(PrintedValues, OfNoElements) {
  EXPECT_EQ(text(tf::zeros({8, 0}, tf::int32)), "tf.Tensor([], shape=(8, 0), dtype=int32)");
}

TEST(PrintedValues, Variables) {
  EXPECT_EQ(text(tf::Variable(tf::constant({3585, 0, 0}, tf::int64), {.name = "StateVar"})),
            "<tf.Variable 'StateVar:0' shape=(3,) dtype=int64, numpy=array([3585,    0,    0])>");
  const auto dense = keras::layers::Dense(2, {.kernel_initializer = "ones", .name = "d"});
  dense.build(ls::Shape{1, 1});
  EXPECT_EQ(text(dense.kernel()), "<Variable path=d/kernel, shape=(1, 2), dtype=float32, value=[[1. 1.]]>");
}

TEST(PrintedValues, RaggedTensorsAreWrapped) {
  const auto words = tf::ragged::constant({{"#+Who", "Who+is", "is+Dan", "Dan+Smith", "Smith+#"},
                                           {"#+Pause", "Pause+#"},
                                           {"#+Will", "Will+it", "it+rain", "rain+later", "later+today", "today+#"}});
  EXPECT_EQ(text(words),
            "<tf.RaggedTensor [[b'#+Who', b'Who+is', b'is+Dan', b'Dan+Smith', b'Smith+#'],\n"
            " [b'#+Pause', b'Pause+#'],\n"
            " [b'#+Will', b'Will+it', b'it+rain', b'rain+later', b'later+today',\n"
            "  b'today+#']                                                      ]>");
  const auto pairs = tf::ragged::constant({{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}}}, {.ragged_rank = 1});
  EXPECT_EQ(text(pairs + 10), "<tf.RaggedTensor [[[11, 12],\n  [13, 14],\n  [15, 16]], [[17, 18]]]>");
  EXPECT_EQ(text(tf::ragged::constant({{0.5, 1e-5}, {}})), "<tf.RaggedTensor [[0.5, 1e-05], []]>");
}

TEST(PrintedValues, RaggedResultsAndElements) {
  const auto increment = tf::function([](const tf::RaggedTensor& x) { return x + 1; });
  const auto rows = tf::ragged::constant({{1, 2}, {3}});
  EXPECT_EQ(text(increment.get_concrete_function(rows)(rows)), "<tf.RaggedTensor [[2, 3], [4]]>");
  for (const auto& [x, y] : tf::data::Dataset::from_tensor_slices({rows, tf::constant({true, false})}).batch(2))
    EXPECT_EQ(text(x), "<tf.RaggedTensor [[1, 2], [3]]>");
}

class InterruptAtEpoch : public keras::callbacks::Callback {
 public:
  void on_epoch_end(int epoch, const keras::Logs&) override {
    if (epoch == 1) throw std::runtime_error("Interruption");
  }
};

// In Keras 3 the epochs after the interruption are [2, 3]; with the callbacks in the other order [1, 2, 3].
TEST(PrintedValues, ABackupHasTheEpochAtWhoseEndALaterCallbackFails) {
  const Tensor x = np::ones({4, 2}).astype("float32"), y = np::ones({4, 1}).astype("float32");
  for (const bool backup_first : {true, false}) {
    const std::string folder = testing::TempDir() + "/backup" + std::to_string(backup_first);
    if (ls::io::gfile::exists(folder)) ls::io::gfile::rmtree(folder);
    keras::Sequential model({keras::Input({2}), keras::layers::Dense(1)});
    model.compile({.optimizer = "sgd", .loss = "mse"});
    const keras::CallbackPtr backup = keras::callbacks::BackupAndRestore(folder);
    const keras::CallbackPtr interrupt = std::make_shared<InterruptAtEpoch>();
    std::vector<keras::CallbackPtr> callbacks = {backup, interrupt};
    if (!backup_first) callbacks = {interrupt, backup};
    EXPECT_THROW(model.fit(x, y, {.epochs = 4, .verbose = 0, .callbacks = callbacks}), std::runtime_error);
    const auto history =
        model.fit(x, y, {.epochs = 4, .verbose = 0, .callbacks = {keras::callbacks::BackupAndRestore(folder)}});
    EXPECT_EQ(text(history.epoch), backup_first ? "[2, 3]" : "[1, 2, 3]");
  }
}

}  // namespace printed_values

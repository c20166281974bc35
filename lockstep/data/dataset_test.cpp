// Orders and numbers below are TensorFlow 2.21's for the same programs.
#include "lockstep/data/dataset.h"

#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/fashion_mnist.h"
#include "lockstep/data/fit_order_internal.h"
#include "lockstep/graph/run_limits.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using Ints = std::vector<std::int64_t>;
using Lists = std::vector<Ints>;

Ints values(const Tensor& tensor) { return ops::cast(tensor, DType::kInt64).to_vector<std::int64_t>(); }

Ints flat(const Dataset& dataset) {
  Ints out;
  for (const Element& element : dataset) {
    for (const std::int64_t value : values(element)) out.push_back(value);
  }
  return out;
}

Lists lists(const Dataset& dataset) {
  Lists out;
  for (const Element& element : dataset) out.push_back(values(element));
  return out;
}

Ints rest(DatasetIterator& iterator, std::int64_t limit = 1000) {
  Ints out;
  while (static_cast<std::int64_t>(out.size()) < limit) {
    const std::optional<Element> element = iterator.next();
    if (!element) break;
    for (const std::int64_t value : values(*element)) out.push_back(value);
  }
  return out;
}

Tensor vector_of(const Ints& items) { return Tensor::from_vector<std::int64_t>(items); }

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override { random::set_global_seed(42); }
};

TEST_F(DatasetTest, ShuffleGivesTensorFlowsOrderForEachIterator) {
  const Dataset small = Dataset::range(10).shuffle(3, 7);
  EXPECT_EQ(flat(small), (Ints{1, 3, 2, 5, 0, 7, 4, 6, 8, 9}));
  EXPECT_EQ(flat(small), (Ints{0, 3, 2, 1, 5, 7, 6, 8, 4, 9}));
  const Dataset whole = Dataset::range(10).shuffle(10, 7);
  EXPECT_EQ(flat(whole), (Ints{1, 6, 2, 4, 8, 7, 0, 5, 3, 9}));
  EXPECT_EQ(flat(whole), (Ints{4, 9, 5, 0, 2, 1, 8, 6, 7, 3}));
}

TEST_F(DatasetTest, SeedlessShuffleTakesTheNextInternalSeedOfTheGlobalSeed) {
  random::set_global_seed(42);
  const Dataset first = Dataset::range(4).shuffle(4);
  const Dataset second = Dataset::range(4).shuffle(4);
  EXPECT_EQ(flat(first), (Ints{3, 2, 1, 0}));
  EXPECT_EQ(flat(first), (Ints{0, 2, 1, 3}));
  EXPECT_EQ(flat(second), (Ints{0, 1, 3, 2}));
  EXPECT_EQ(flat(second), (Ints{3, 2, 1, 0}));
}

TEST_F(DatasetTest, RepeatAndShuffle) {
  const Dataset epochs = Dataset::range(4).shuffle(4, 1).repeat(2);
  EXPECT_EQ(flat(epochs), (Ints{1, 3, 0, 2, 2, 1, 0, 3}));
  EXPECT_EQ(flat(epochs), (Ints{0, 3, 2, 1, 3, 0, 2, 1}));
  const Dataset mixed = Dataset::range(4).repeat(3).shuffle(5, 3);
  EXPECT_EQ(flat(mixed), (Ints{1, 0, 3, 2, 1, 2, 0, 3, 3, 1, 0, 2}));
  EXPECT_EQ(flat(mixed), (Ints{0, 2, 0, 1, 3, 0, 1, 3, 3, 2, 1, 2}));
  EXPECT_EQ(lists(Dataset::range(5).shuffle(5, 3).batch(2).repeat(2)),
            (Lists{{1, 3}, {4, 2}, {0}, {0, 3}, {4, 2}, {1}}));
  const Dataset fixed = Dataset::range(4).shuffle(4, 1, false);
  EXPECT_EQ(flat(fixed), (Ints{1, 3, 2, 0}));
  EXPECT_EQ(flat(fixed.repeat(2)), (Ints{1, 3, 2, 0, 1, 3, 2, 0}));
}

TEST_F(DatasetTest, WhichIteratorsTakeSeeds) {
  const Ints second{2, 1, 0, 3}, first{1, 3, 0, 2};
  const auto base = [] { return Dataset::range(4).shuffle(4, 1); };
  const auto after_unused = [](const Dataset& dataset) {
    dataset.make_iterator();
    return flat(dataset);
  };
  EXPECT_EQ(after_unused(base().batch(2).unbatch()), second);
  EXPECT_EQ(after_unused(base().map([](const Tensor& x) { return x; }).cache()), second);
  EXPECT_EQ(after_unused(base().repeat().take(8)), (Ints{2, 1, 0, 3, 0, 3, 2, 1}));
  EXPECT_EQ(after_unused(base().skip(1)), (Ints{1, 0, 3}));
  EXPECT_EQ(after_unused(base().prefetch(2)), second);
  EXPECT_EQ(after_unused(Dataset::range(2).concatenate(base())), (Ints{0, 1, 1, 3, 0, 2}));
  EXPECT_EQ(after_unused(base().concatenate(Dataset::range(2))), (Ints{2, 1, 0, 3, 0, 1}));
  const Dataset shared = base();
  flat(shared.take(0));
  EXPECT_EQ(flat(shared), first);
  const Dataset two = Dataset::range(6).shuffle(6, 1).shuffle(6, 2);
  EXPECT_EQ(flat(two), (Ints{0, 3, 1, 2, 5, 4}));
  EXPECT_EQ(flat(two), (Ints{5, 1, 4, 3, 0, 2}));
  const Dataset again = Dataset::range(6).shuffle(6, 1).shuffle(6, 2);
  again.make_iterator();
  EXPECT_EQ(flat(again), (Ints{5, 1, 2, 4, 0, 3}));
  EXPECT_EQ(flat(again), (Ints{5, 3, 0, 4, 2, 1}));
}

TEST_F(DatasetTest, FitOrders) {
  EXPECT_EQ(fit_order(10), (Ints{3, 8, 7, 5, 2, 0, 1, 6, 9, 4}));
  EXPECT_EQ(batch_order(10, 4), (Ints{3, 2, 0, 1, 7, 5, 6, 4, 9, 8}));
  EXPECT_EQ(batch_order(5, 32), (Ints{3, 4, 2, 1, 0}));
  random::set_global_seed(0);
  EXPECT_EQ(fit_order(10), (Ints{2, 0, 5, 8, 7, 1, 9, 6, 3, 4}));
  random::set_global_seed(1337);
  EXPECT_EQ(fit_order(10), (Ints{5, 4, 8, 3, 2, 7, 1, 6, 0, 9}));
}

TEST_F(DatasetTest, SlicesOfTuplesAndDicts) {
  const Tensor x = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Dataset pairs = Dataset::from_tensor_slices({x, vector_of({7, 8, 9})});
  EXPECT_EQ(pairs.cardinality(), 3);
  const Element first = *pairs.begin();
  EXPECT_EQ(first.size(), 2u);
  EXPECT_EQ(values(first[0]), (Ints{1, 2}));
  EXPECT_EQ(values(first[1]), (Ints{7}));
  const Element batch = *pairs.batch(2).begin();
  EXPECT_EQ(batch[0].leaf().shape(), (Shape{2, 2}));
  EXPECT_EQ(values(batch[1]), (Ints{7, 8}));

  const Dataset dict = Dataset::from_tensor_slices(Element::dict({{"b", x}, {"a", vector_of({1, 2, 3})}}));
  const Element entry = *dict.batch(3).begin();
  EXPECT_EQ(values(entry.at("a")), (Ints{1, 2, 3}));
  EXPECT_EQ(entry.at("b").leaf().dtype(), DType::kFloat32);
  const Dataset text = Dataset::from_tensor_slices(Tensor::strings({"a", "b", "c"}, {3}));
  EXPECT_THAT((*text.skip(1).batch(2).begin()).leaf().string_values(), ElementsAre("b", "c"));
  EXPECT_THROW(Dataset::from_tensor_slices({x, vector_of({1})}), Error);
  EXPECT_THROW(Dataset::from_tensor_slices(Tensor::scalar(1.0f)), Error);
}

TEST_F(DatasetTest, BatchPaddedBatchUnbatch) {
  EXPECT_EQ(lists(Dataset::range(7).batch(3)), (Lists{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(lists(Dataset::range(7).batch(3, true)), (Lists{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(lists(Dataset::range(3).repeat(2).batch(2)), (Lists{{0, 1}, {2, 0}, {1, 2}}));
  EXPECT_EQ(lists(Dataset::range(3).batch(2).repeat(2)), (Lists{{0, 1}, {2}, {0, 1}, {2}}));
  EXPECT_EQ(flat(Dataset::range(7).batch(3).unbatch()), (Ints{0, 1, 2, 3, 4, 5, 6}));
  const Dataset ragged =
      Dataset::range(1, 4).map([](const Tensor& n) { return ops::fill(ops::reshape(n, ops::Ints{1}), n); });
  EXPECT_EQ(lists(ragged.padded_batch(2)), (Lists{{1, 0, 2, 2}, {3, 3, 3}}));
  EXPECT_EQ(lists(ragged.padded_batch(2, {Shape{4}}, -1)), (Lists{{1, -1, -1, -1, 2, 2, -1, -1}, {3, 3, 3, -1}}));
  EXPECT_THROW(lists(ragged.padded_batch(3, {Shape{2}})), Error);
  EXPECT_THROW(lists(ragged.batch(2)), Error);
  EXPECT_THROW(Dataset::range(3).batch(0), Error);
}

TEST_F(DatasetTest, MapFilterTakeSkipShard) {
  const Dataset seven = Dataset::range(7);
  EXPECT_EQ(flat(seven.map([](const Tensor& x) { return x * 2.0; })), (Ints{0, 2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(flat(Dataset::zip(seven, seven.skip(1)).map([](const Tensor& a, const Tensor& b) { return a + b; })),
            (Ints{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(flat(seven.filter([](const Tensor& x) { return x.item<std::int64_t>() % 2 == 1; })), (Ints{1, 3, 5}));
  EXPECT_EQ(flat(seven.take_while([](const Tensor& x) { return ops::less(x, 3.0); })), (Ints{0, 1, 2}));
  EXPECT_EQ(flat(seven.take(-1).skip(5)), (Ints{5, 6}));
  EXPECT_EQ(flat(seven.skip(-1)), Ints());
  EXPECT_EQ(flat(seven.shard(3, 0)), (Ints{0, 3, 6}));
  EXPECT_EQ(flat(seven.shard(3, 2)), (Ints{2, 5}));
  EXPECT_EQ(flat(seven.take(2).concatenate(seven.skip(6))), (Ints{0, 1, 6}));
  EXPECT_EQ(values((*seven.skip(3).enumerate(4).skip(1).begin())[0]), (Ints{5}));
  EXPECT_EQ(flat(Dataset::range(10, 0, -4)), (Ints{10, 6, 2}));
  EXPECT_EQ(flat(Dataset::choose_from_datasets({Dataset::range(3), Dataset::range(10, 13)},
                                               Dataset::from_tensor_slices(vector_of({0, 1, 1, 0, 0, 0, 1})))),
            (Ints{0, 10, 11, 1, 2}));
  EXPECT_THROW(*Dataset::range(0).begin(), Error);
  EXPECT_THROW(flat(seven.assert_cardinality(6)), Error);
}

TEST_F(DatasetTest, Interleave) {
  const auto three = [](const Tensor& x) { return Dataset::from_tensors(x).repeat(3); };
  EXPECT_EQ(flat(Dataset::range(4).interleave(three, 2, 1)), (Ints{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(flat(Dataset::range(4).interleave(three, 2, 2)), (Ints{0, 0, 1, 1, 0, 1, 2, 2, 3, 3, 2, 3}));
  EXPECT_EQ(flat(Dataset::range(5).interleave(three, 3, 2)), (Ints{0, 0, 1, 1, 2, 2, 0, 1, 2, 3, 3, 4, 4, 3, 4}));
  EXPECT_EQ(
      flat(Dataset::range(5).interleave([](const Tensor& x) { return Dataset::range(x.item<std::int64_t>()); }, 2)),
      (Ints{0, 0, 1, 0, 1, 0, 2, 1, 2, 3}));
  EXPECT_EQ(flat(Dataset::range(3).flat_map(three)), (Ints{0, 0, 0, 1, 1, 1, 2, 2, 2}));
}

TEST_F(DatasetTest, Cardinality) {
  const Dataset seven = Dataset::range(7);
  const Dataset unknown = seven.filter([](const Tensor&) { return true; });
  EXPECT_EQ(seven.batch(3).cardinality(), 3);
  EXPECT_EQ(seven.batch(3, true).cardinality(), 2);
  EXPECT_EQ(seven.repeat().batch(3).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Dataset::range(0).repeat().cardinality(), 0);
  EXPECT_EQ(unknown.repeat(0).cardinality(), 0);
  EXPECT_EQ(unknown.repeat().cardinality(), kInfiniteCardinality);
  EXPECT_EQ(seven.repeat().take(4).cardinality(), 4);
  EXPECT_EQ(seven.repeat().skip(4).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(unknown.take(3).cardinality(), kUnknownCardinality);
  EXPECT_EQ(Dataset::zip(seven, seven.repeat()).cardinality(), 7);
  EXPECT_EQ(Dataset::zip(seven, unknown).cardinality(), kUnknownCardinality);
  EXPECT_EQ(seven.repeat().concatenate(unknown).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(seven.concatenate(seven).cardinality(), 14);
  EXPECT_EQ(seven.shard(3, 0).cardinality(), 3);
  EXPECT_EQ(seven.shard(3, 1).cardinality(), 2);
  EXPECT_EQ(unknown.assert_cardinality(7).cardinality(), 7);
}

TEST_F(DatasetTest, ElementSpec) {
  const Dataset pairs = Dataset::from_tensor_slices({Tensor::zeros({6, 4}), vector_of({1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(pairs.batch(3).element_spec().flatten(),
            (std::vector<TensorSpec>{{Shape{-1, 4}, DType::kFloat32}, {Shape{-1}, DType::kInt64}}));
  const auto sum = [](const Tensor& x, const Tensor&) { return ops::reduce_sum(x, ops::Ints{1}); };
  EXPECT_EQ(pairs.batch(3).map(sum).element_spec().leaf(), (TensorSpec(Shape{-1}, DType::kFloat32)));
  EXPECT_EQ(pairs.batch(3, true).map(sum).element_spec().leaf(), (TensorSpec(Shape{3}, DType::kFloat32)));
}

TEST_F(DatasetTest, CacheKeepsTheFirstCompletePass) {
  int calls = 0;
  const Dataset cached = Dataset::range(5)
                             .map([&](const Tensor& x) {
                               ++calls;
                               return x * 2.0;
                             })
                             .cache();
  EXPECT_EQ(flat(cached.take(2)), (Ints{0, 2}));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(flat(cached), (Ints{0, 2, 4, 6, 8}));
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(flat(cached.batch(2)), (Ints{0, 2, 4, 6, 8}));
  EXPECT_EQ(calls, 7);
  const Dataset frozen = Dataset::range(6).shuffle(6, 1).cache();
  EXPECT_EQ(flat(frozen), flat(frozen));
  // Read to the last element and not beyond it, as fit reads: TensorFlow's caches are complete then.
  for (const Dataset& cache :
       {Dataset::range(6).shuffle(6, 4).cache(), Dataset::range(6).shuffle(6, 4).cache().batch(1).unbatch(),
        Dataset::range(6).shuffle(6, 4).cache(testing::TempDir() + "/exactly_" + std::to_string(::getpid()))}) {
    Ints exactly;
    DatasetIterator iterator = cache.make_iterator();
    for (int i = 0; i < 6; ++i) exactly.push_back(iterator.next()->leaf().item<std::int64_t>());
    EXPECT_EQ(flat(cache), exactly);
  }
  const Dataset ragged =
      Dataset::range(3).map([](const Tensor& n) { return ops::fill(ops::reshape(n, ops::Ints{1}), n); }).cache();
  EXPECT_EQ(lists(ragged), (Lists{{}, {1}, {2, 2}}));
  EXPECT_EQ(lists(ragged), (Lists{{}, {1}, {2, 2}}));
}

TEST_F(DatasetTest, PrefetchKeepsOrderAndPassesErrorsOn) {
  EXPECT_EQ(flat(Dataset::range(100).prefetch(3)).size(), 100u);
  const Dataset failing = Dataset::range(5)
                              .map([](const Tensor& x) {
                                if (x.item<std::int64_t>() == 3) throw_invalid_argument("three");
                                return x;
                              })
                              .prefetch(2);
  DatasetIterator iterator = failing.make_iterator();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(iterator.next());
  EXPECT_THROW(iterator.next(), Error);
  Dataset::range(1000).repeat().prefetch(5).make_iterator().next();  // ends while the thread works
}

// What a function makes of the first element does not say how long the others are.
TEST_F(DatasetTest, LengthsThatFollowFromTheElement) {
  const auto ones = [](const Tensor& x) { return ops::fill(ops::reshape(x, {1}), 1.0); };
  const auto shapes_of = [](const Dataset& dataset) {
    Lists shapes;
    for (const Tensor& batch : dataset) shapes.push_back(values(ops::shape(batch)));
    return shapes;
  };
  const auto length = [](const Tensor& x) { return ops::shape(x)[0]; };
  const Lists expected = {{2, 3}, {2, 5}, {2, 1}};
  EXPECT_EQ(shapes_of(Dataset::range(6).map(ones).bucket_by_sequence_length(length, {2, 4}, {3, 2, 2})), expected);
  const Tensor lengths = Tensor::from_vector<std::int64_t>({0, 1, 2, 3, 4, 5}, {6});
  const Dataset slices = Dataset::from_tensor_slices(lengths).map(ones);
  EXPECT_EQ(shapes_of(slices.bucket_by_sequence_length(length, {2, 4}, {3, 2, 2})), expected);
  EXPECT_EQ(slices.element_spec().leaf().shape, Shape({kUnknownDim}));
}

// A pipeline stopped after any number of elements and restored into a fresh copy continues identically, into the
// next iterators too. Seeds come with the state, so the copy may have been made under another global seed,
// unless its functions make datasets.
void expect_resumes(const char* name, const std::function<Dataset()>& make, std::int64_t other_seed = 7) {
  constexpr std::int64_t limit = 60;
  SCOPED_TRACE(name);
  for (int stop = 0; stop < 14; ++stop) {
    SCOPED_TRACE(stop);
    random::set_global_seed(42);
    const Dataset dataset = make();
    flat(dataset.take(limit));  // an epoch before
    DatasetIterator iterator = dataset.make_iterator();
    for (int i = 0; i < stop; ++i) iterator.next();
    const Json state = Json::parse(iterator.save_state().dump());
    const Ints expected = rest(iterator, limit);
    const Ints expected_later = flat(dataset.take(limit));

    random::set_global_seed(other_seed);
    const Dataset fresh = make();
    DatasetIterator resumed = fresh.make_iterator();
    resumed.next();
    resumed.restore_state(state);
    EXPECT_EQ(rest(resumed, limit), expected);
    EXPECT_EQ(flat(fresh.take(limit)), expected_later);
  }
}

TEST_F(DatasetTest, ResumesExactly) {
  const auto twice = [](const Tensor& x) { return x * 2.0; };
  const auto ranges = [](const Tensor& x) { return Dataset::range(x.item<std::int64_t>()).shuffle(3, 5); };
  expect_resumes("range", [] { return Dataset::range(10); });
  expect_resumes("shuffle", [] { return Dataset::range(20).shuffle(6); });
  expect_resumes("shuffle whole", [] { return Dataset::range(9).shuffle(100).batch(2); });
  expect_resumes("shuffle repeat", [] { return Dataset::range(5).shuffle(3).repeat(4).batch(3); });
  expect_resumes("repeat shuffle", [] { return Dataset::range(5).repeat().shuffle(7).batch(2); });
  expect_resumes("shuffle repeat shuffle", [] { return Dataset::range(5).shuffle(4).repeat().shuffle(7); });
  expect_resumes("shuffle shuffle", [] { return Dataset::range(12).shuffle(4).shuffle(5); });
  expect_resumes("map cache shuffle", [&] { return Dataset::range(12).map(twice).cache().shuffle(5).batch(2); });
  expect_resumes("shuffle cache", [&] { return Dataset::range(12).shuffle(5).map(twice).cache().repeat(2); });
  expect_resumes("prefetch", [&] { return Dataset::range(12).shuffle(5).batch(2).prefetch(2); });
  // The prefetch has opened the next repetition, with its own seeds, before the last batches are taken.
  expect_resumes("shuffle batch repeat prefetch",
                 [&] { return Dataset::range(6).shuffle(6).batch(2).repeat(4).prefetch(3); });
  expect_resumes(
      "interleave", [&] { return Dataset::range(7).shuffle(3).interleave(ranges, 3, 2).shuffle(3); }, 42);
  expect_resumes("filter", [&] {
    return Dataset::range(30)
        .shuffle(5)
        .filter([](const Tensor& x) { return x.item<std::int64_t>() % 3 != 0; })
        .take(15);
  });
  expect_resumes("unbatch", [&] { return Dataset::range(12).shuffle(5).batch(5).unbatch().skip(2).shard(2, 1); });
  expect_resumes("zip", [&] {
    return Dataset::zip(Dataset::range(12).shuffle(5), Dataset::range(9).shuffle(4))
        .map([](const Tensor& a, const Tensor& b) { return a * 100.0 + b; });
  });
  expect_resumes("concatenate", [&] { return Dataset::range(4).shuffle(4).concatenate(Dataset::range(9).shuffle(4)); });
  expect_resumes("take_while", [&] {
    return Dataset::range(12).shuffle(3).take_while([](const Tensor& x) { return ops::less(x, 9.0); });
  });
}

// Numbers of a state are those of a file: none is a loop of 2^63 rounds, an index or an amount of memory before it is
// checked.
TEST_F(DatasetTest, StatesWithWrongNumbersAreRefused) {
  const auto restored = [](const Dataset& dataset, const char* part, const char* number) {
    DatasetIterator iterator = dataset.make_iterator();
    for (int i = 0; i < 5; ++i) iterator.next();
    std::string state = iterator.save_state().dump();
    const std::size_t at = state.find(part);
    ASSERT_NE(at, std::string::npos) << state;
    const std::size_t begin = at + std::string_view(part).size();
    state.replace(begin, state.find_first_of(",}", begin) - begin, number);
    DatasetIterator(dataset.node()).restore_state(Json::parse(state));
  };
  const Dataset rows = Dataset::range(20).interleave([](const Tensor& x) { return Dataset::from_tensors(x).repeat(3); },
                                                     {.cycle_length = 3});
  const Dataset windows = Dataset::range(20).window(4, {.shift = 2}).flat_map([](const Dataset& w) { return w; });
  for (const char* number : {"-1", "-9223372036854775808", "9223372036854775807"}) {
    EXPECT_THROW(restored(Dataset::range(20).shuffle(6), "\"emitted\":", number), Error) << number;
    EXPECT_THROW(restored(Dataset::range(20).shuffle(6), "\"buffered\":", number), Error) << number;
    EXPECT_THROW(restored(rows, "\"element\":", number), Error) << number;
    EXPECT_THROW(restored(rows, "\"current\":", number), Error) << number;
    EXPECT_THROW(restored(windows, "\"given\":", number), Error) << number;
    EXPECT_THROW(restored(Dataset::range(20).batch(4).unbatch(), "\"consumed\":", number), Error) << number;
  }
}

// A dataset that never ends has any number of elements: computing them again ends with the time of a run.
TEST_F(DatasetTest, StatesThatCountTooManyElementsEndInTime) {
  graph::set_run_limits({.max_seconds = 0.2});
  const auto drawn = [](const Tensor& x) { return ops::cast(x, DType::kFloat32) + ops::random::uniform({}); };
  const auto late = [](const Dataset& dataset, const char* key) {
    DatasetIterator iterator = dataset.make_iterator();
    iterator.next();
    Json state = iterator.save_state();
    Json& place = state["iterator"].contains("slots") ? state["iterator"]["slots"][0] : state["iterator"];
    place[key] = std::int64_t{1} << 61;
    try {
      DatasetIterator(dataset.node()).restore_state(state);
      ADD_FAILURE() << key << ": no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDeadlineExceeded) << error.what();
    }
  };
  const Dataset endless = Dataset::range(5).repeat();
  late(endless.map(drawn).shuffle(4), "emitted");
  late(endless.shuffle(4), "emitted");
  late(endless.batch(2).unbatch(), "consumed");
  late(endless.scan(Tensor::scalar(0.0F), [](const Tensor& s, const Tensor&) { return std::pair(s + 1.0, s); }),
       "given");
  late(endless.filter([](const Tensor& x) { return ops::less(x, 3.0); }).shuffle(3), "emitted");
  late(endless.window(2).flat_map([](const Dataset& w) { return w; }), "element");
  late(Dataset::from_generator([] { return [n = 0]() mutable { return std::optional<Element>(Tensor::scalar(++n)); }; },
                               TensorSpec(Shape(), DType::kInt32)),
       "given");
  graph::set_run_limits({});
  Json state = endless.skip(3).make_iterator().save_state();
  state["iterator"]["to_skip"] = std::int64_t{1} << 61;
  EXPECT_THROW(DatasetIterator(endless.skip(3).node()).restore_state(state), Error);
  state = endless.shard(3, 1).make_iterator().save_state();
  state["iterator"]["gap"] = std::int64_t{1} << 61;
  EXPECT_THROW(DatasetIterator(endless.shard(3, 1).node()).restore_state(state), Error);
}

// Where no slot is left open there is nothing to wait for.
TEST_F(DatasetTest, StatesWithOneSlotTwiceAreRefused) {
  const Dataset dataset = Dataset::range(9).interleave(
      [](const Tensor& x) { return Dataset::from_tensors(x).repeat(3); }, {.cycle_length = 3});
  DatasetIterator iterator = dataset.make_iterator();
  for (int i = 0; i < 3; ++i) iterator.next();
  Json state = iterator.save_state();
  state["iterator"]["ended"] = true;
  state["iterator"]["slots"][1]["slot"] = 0;
  EXPECT_THROW(iterator.restore_state(state), Error);
}

// The buffer of a shuffle follows from the last takes alone.
TEST_F(DatasetTest, PositionsFarBehindTheBeginningAreRestoredAtOnce) {
  const auto make = [] { return Dataset::range(std::int64_t{1} << 60).shuffle(50, 3); };
  DatasetIterator iterator = make().make_iterator();
  iterator.next();
  const std::string far = std::to_string(std::int64_t{1} << 50);
  const std::string behind = std::to_string((std::int64_t{1} << 50) + 50);
  iterator.restore_state(Json::parse("{\"iterator\": {\"seeds\": [3, 5], \"emitted\": " + far +
                                     ", \"buffered\": 50, \"ended\": false, \"input_start\": {\"next\": 0}, \"input\": "
                                     "{\"next\": " +
                                     behind +
                                     "}}, \"nodes\": [{\"seeds\": [3, 5], \"iterators\": 1, \"node\": \"shuffle\"}]}"));
  const Ints next = rest(iterator, 200);
  const std::set<std::int64_t> different(next.begin(), next.end());
  EXPECT_EQ(different.size(), 200u);
  EXPECT_GT(*different.begin(), (std::int64_t{1} << 50) - 2000);
  EXPECT_LT(*different.rbegin(), (std::int64_t{1} << 50) + 250);
}

TEST_F(DatasetTest, StateBetweenEpochs) {
  const auto make = [] { return Dataset::range(12).shuffle(5).cache().shuffle(12).batch(4); };
  const Dataset dataset = make();
  flat(dataset);
  flat(dataset);
  const Json state = dataset.save_state();
  const Dataset fresh = make();
  flat(fresh);
  fresh.restore_state(state);
  EXPECT_EQ(flat(fresh), flat(dataset));
  EXPECT_THROW(Dataset::range(5).shuffle(2).restore_state(state), Error);
  EXPECT_THROW(Dataset::range(5).batch(2).make_iterator().restore_state(Json{{"iterator", 3}}), Error);
}

TEST(FashionMnistTest, LoadsDebiansFilesOrNamesThePackage) {
  try {
    const datasets::TrainTest data = datasets::fashion_mnist();
    EXPECT_EQ(data.train.images.shape(), (Shape{60000, 28, 28, 1}));
    EXPECT_EQ(data.test.labels.shape(), (Shape{10000}));
    EXPECT_EQ(data.train.labels.to_vector<std::uint8_t>()[0], 9);
    EXPECT_EQ(datasets::as_float(data.test).labels.dtype(), DType::kInt64);
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("dataset-fashion-mnist"));
  }
  try {
    datasets::fashion_mnist("/nonexistent");
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_THAT(error.message(), testing::HasSubstr("dataset-fashion-mnist"));
  }
}

}  // namespace
}  // namespace lockstep::data

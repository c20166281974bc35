#include "lockstep/random/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/mersenne_internal.h"

namespace lockstep::random {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<float> slice(const std::vector<float>& all, std::size_t from, std::size_t to) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(to)};
}

TEST(Mersenne, DefaultSeedsAreThoseOfPythonsGenerator) {
  for (const auto& [seed, draws] :
       std::vector<std::pair<int, std::vector<std::int64_t>>>{{0, {906691060, 413654000, 813847340, 955892129}},
                                                              {1, {144272510, 611178003, 909925048, 861425549}},
                                                              {42, {686579304, 119540832, 26855093, 796233791}},
                                                              {1337, {663307073, 993786079, 572589546, 762227828}}}) {
    set_random_seed(seed);
    for (std::int64_t draw : draws) EXPECT_EQ(make_default_seed(), draw) << "seed " << seed;
  }
}

TEST(Seeds, InternalOpSeedsFollowTheGlobalSeed) {
  set_global_seed(42);
  EXPECT_EQ(op_seeds(std::nullopt).second, 478163327);
  EXPECT_EQ(op_seeds(std::nullopt).second, 107420369);
  EXPECT_EQ(op_seeds(7), std::make_pair(std::int64_t{42}, std::int64_t{7}));
  EXPECT_EQ(op_seeds_in_graph(std::nullopt, 0), std::make_pair(std::int64_t{42}, std::int64_t{0}));
  set_global_seed(0);
  EXPECT_EQ(op_seeds(0), std::make_pair(std::int64_t{0}, std::int64_t{2147483647}));
}

TEST(Philox, GivesTensorFlowsStatelessNumbers) {
  const auto state = ops::philox_from_stateless_seed(42, 0);
  EXPECT_EQ(state.key, 0x53939B0589E74CEFu);
  EXPECT_EQ(state.counter_high, 0xB2CA7BFA8E9181C6u);
  EXPECT_THAT(uniform({5}, 0, 1, DType::kFloat32, Seed(42)).to_vector<float>(),
              ElementsAre(0.282433152f, 0.498416901f, 0.715458512f, 0.0202020407f, 0.0785981417f));
  EXPECT_THAT(normal({5}, 0, 1, DType::kFloat32, Seed(42)).to_vector<float>(),
              ElementsAre(0.015817076f, -1.59008694f, 0.10359446f, 0.811745942f, -1.61035502f));
  EXPECT_THAT(truncated_normal({5}, 0, 1, DType::kFloat32, Seed(42)).to_vector<float>(),
              ElementsAre(0.015817076f, -1.59008694f, 0.10359446f, 0.811745942f, -0.0214078501f));
  EXPECT_THAT(randint({5}, 0, 100, DType::kInt32, Seed(42)).to_vector<std::int32_t>(), ElementsAre(81, 92, 9, 95, 25));
  EXPECT_THAT(randint({5}, 0, 100, DType::kInt64, Seed(42)).to_vector<std::int64_t>(), ElementsAre(13, 29, 25, 65, 48));
  EXPECT_THAT(uniform({3}, 0, 1, DType::kFloat64, Seed(42)).to_vector<double>(),
              ElementsAre(0.2594654438987689, 0.7236686870832034, 0.6287856150913227));
}

TEST(Philox, ShufflesAsFitDoes) {
  std::vector<std::int64_t> order(10);
  ops::philox_shuffle(ops::philox_from_seeds(42, 0), order);
  EXPECT_THAT(order, ElementsAre(3, 8, 7, 5, 2, 0, 1, 6, 9, 4));
  ops::philox_shuffle(ops::philox_from_seeds(1, 0), order);
  EXPECT_THAT(order, ElementsAre(2, 4, 0, 8, 9, 1, 5, 6, 3, 7));
}

TEST(Philox, AnySliceOfADrawIsThatSlice) {
  using Draw = Tensor (*)(const ShapeArg&, double, double, DTypeLike, const Seed&);
  for (const Draw draw : {Draw(&uniform), Draw(&normal), Draw(&truncated_normal)}) {
    const auto whole = (*draw)(Shape{13, 3}, 0, 1, DType::kFloat32, Seed(7)).to_vector<float>();
    for (std::int64_t begin = 0; begin < 13; ++begin) {
      for (std::int64_t end = begin + 1; end <= 13; ++end) {
        const BatchSlice part(begin, end - begin, 13);
        EXPECT_THAT(
            (*draw)(Shape{end - begin, 3}, 0, 1, DType::kFloat32, Seed(7)).to_vector<float>(),
            ElementsAreArray(slice(whole, static_cast<std::size_t>(begin * 3), static_cast<std::size_t>(end * 3))));
      }
    }
  }
}

TEST(SeedGenerator, CountsAndSharesItsSeed) {
  set_random_seed(42);
  SeedGenerator drawn;
  EXPECT_EQ(drawn.next(), SeedPair(686579304, 0));
  EXPECT_EQ(drawn.next(), SeedPair(686579304, 1));
  EXPECT_TRUE(drawn.config()["seed"].is_null());
  const auto given = std::make_shared<SeedGenerator>(5);
  EXPECT_EQ(draw_seed(given), SeedPair(5, 0));
  EXPECT_EQ(draw_seed(given), SeedPair(5, 1));
  EXPECT_EQ(draw_seed(Seed(-1)), SeedPair(2147483645, 0));
  EXPECT_EQ(draw_seed(Seed(std::int64_t{2147483646})), SeedPair(0, 0));
}

TEST(Dropout, MaskIsKerass) {
  EXPECT_THAT(dropout_mask({8}, 0.5, DType::kFloat32, std::make_shared<SeedGenerator>(42)).to_vector<float>(),
              ElementsAre(0, 0, 2, 0, 0, 2, 2, 0));
}

}  // namespace
}  // namespace lockstep::random

// Random calls of every operation, and randomly changed graphs, end with a result or an Error. LOCKSTEP_FUZZ_SEED,
// _COUNT and _SECONDS choose which and how many; LOCKSTEP_FUZZ_OP names one operation, LOCKSTEP_FUZZ_GRAPH one graph.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "fuzz/execution/expect_no_findings.h"
#include "fuzz/execution/graphs.h"
#include "fuzz/execution/op_calls.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::fuzz {
namespace {

TEST(Fuzz, OperationsEndWithAResultOrAnError) {
  std::vector<std::string> names = ops::Table::instance().names_with_kernel();
  if (const char* one = std::getenv("LOCKSTEP_FUZZ_OP")) names = {one};
  expect_no_findings("calls of operations", op_calls_target(names), {.count = 40000, .seconds = 8});
}

TEST(Fuzz, GraphsEndWithAResultOrAnError) {
  const char* one = std::getenv("LOCKSTEP_FUZZ_GRAPH");
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/fuzz/corpus/graphs")) {
    if (!one || entry.path().stem() == one) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  expect_no_findings("changed graphs", graphs_target(seeds), {.count = 10000, .seconds = 5});
}

}  // namespace
}  // namespace lockstep::fuzz

// Randomly changed models end with values or an Error. LOCKSTEP_FUZZ_SEED, _COUNT and _SECONDS choose which and how
// many.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fuzz/execution/expect_no_findings.h"
#include "fuzz/execution/models.h"
#include "lockstep/formats/record_file_internal.h"

namespace lockstep::fuzz {
namespace {

// Those that once ended the program.
TEST(Fuzz, FormerFindingsAreErrors) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/fuzz/corpus/models")) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  ASSERT_FALSE(paths.empty());
  const Target target{[&](std::uint64_t seed) { return run_model_file(paths[seed]); },
                      [&](std::uint64_t seed) { return paths[seed]; }};
  const Report report = run_isolated(target, {.first_seed = 0, .count = paths.size(), .seconds = 600});
  EXPECT_EQ(report.cases, paths.size());
  EXPECT_EQ(report.results, 0u);
  for (const Finding& finding : report.findings) ADD_FAILURE() << finding.of << "\n  " << finding.what;
}

TEST(Fuzz, ModelsEndWithAResultOrAnError) {
  std::vector<std::string> configs;
  formats::RecordReader lines(LOCKSTEP_SOURCE_DIR "/fuzz/corpus/models/models.gz", formats::RecordFormat::kTextLine,
                              formats::RecordCompression::kGzip);
  while (const auto line = lines.next()) configs.push_back(*line);
  ASSERT_GT(configs.size(), 50u);
  std::string folder = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/" : testing::TempDir();
  folder += "lockstep-fuzz-models-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Report written = run_isolated(model_files_target(configs, folder),
                                      {.count = configs.size(), .seconds = 600, .cpu_seconds_per_case = 10});
  EXPECT_EQ(written.results, configs.size());
  for (const Finding& finding : written.findings) ADD_FAILURE() << finding.of << "\n  " << finding.what;
  expect_no_findings("changed models", models_target(configs, folder),
                     {.count = 2000, .seconds = 5, .cpu_seconds_per_case = 5});
  if (HasFailure()) {
    fmt::print(stderr, "the last case is in {}/case\n", folder);
  } else {
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace lockstep::fuzz

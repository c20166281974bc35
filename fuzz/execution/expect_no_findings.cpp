#include "fuzz/execution/expect_no_findings.h"

#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::fuzz {

void expect_no_findings(const char* what, const Target& target, Limits limits, std::uint64_t results_in) {
  limits = limits.from_environment();
  const Report report = run_isolated(target, limits);
  fmt::print(stderr, "{} {} from seed {}: {} gave results, {} findings\n", report.cases, what, limits.first_seed,
             report.results, report.findings.size());
  EXPECT_GE(report.results, report.cases / results_in);
  for (const Finding& finding : report.findings) {
    ADD_FAILURE() << finding.of << "\n  " << finding.what << "\n  LOCKSTEP_FUZZ_SEED=" << finding.seed;
  }
}

}  // namespace lockstep::fuzz

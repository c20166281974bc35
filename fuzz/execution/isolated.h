// Runs random cases in a separate process, so that one that crashes or does not end is a finding like any other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::fuzz {

struct Finding {
  std::uint64_t seed = 0;
  std::string what;  // "signal 11 (Segmentation fault)", "2.1 s of CPU time", or what the case reports
  std::string of;    // the case, described
};

struct Limits {
  std::uint64_t first_seed = 1;  // LOCKSTEP_FUZZ_SEED
  std::uint64_t count = 1000;    // LOCKSTEP_FUZZ_COUNT
  double seconds = 5;            // LOCKSTEP_FUZZ_SECONDS: ends sooner than `count` cases
  double cpu_seconds_per_case = 1;
  std::size_t max_findings = 40;  // LOCKSTEP_FUZZ_FINDINGS

  // These, changed by the environment variables.
  Limits from_environment() const;
};

struct Report {
  std::uint64_t cases = 0;
  std::uint64_t results = 0;      // of them ended with a result; the others with an Error
  std::vector<Finding> findings;  // one of each kind
};

// What one case did: gave a result or an accepted error (empty `what`), or something that is a finding.
struct Outcome {
  bool result = false;
  std::string what;
};

// Runs `body`. Errors that a file can cause are accepted; one of another code, and any other exception, is a finding.
Outcome outcome_of(const std::function<void()>& body);

struct Target {
  std::function<Outcome(std::uint64_t seed)> run;
  std::function<std::string(std::uint64_t seed)> describe;
};

// Runs cases `first_seed`, `first_seed` + 1, ... in a child process, and in a new one after a case that ended it. The
// calling process must not have computed anything with LibTorch: its threads do not survive a fork.
Report run_isolated(const Target& target, const Limits& limits);

}  // namespace lockstep::fuzz

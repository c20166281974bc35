// How the examples of several workers check their own results.
#pragma once

#include <cstdio>

inline int failures = 0;

inline void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "NOT AS EXPECTED: %s\n", what);
  ++failures;
}

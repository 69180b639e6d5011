// What a fuzzer says of a promise that did not hold, before it ends.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace troupe {

inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace troupe

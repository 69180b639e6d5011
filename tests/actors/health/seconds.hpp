// A second of the clock that policies are handed, for their tests.
#pragma once

#include <cstdint>

namespace troupe::health::test {
inline constexpr int64_t s = 1'000'000'000;
}

// The quick clock is the steady clock: near it, never backwards.
#include "actors/capture/fast_clock.hpp"

#include <chrono>

#include <doctest/doctest.h>

using namespace troupe;

namespace {

int64_t steady_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("FCK-1: never backwards, and between two readings of the steady clock or near them") {
  constexpr int64_t near_ns = 20'000;  // 20 times what is promised: machines stutter
  const auto begin = steady_ns();
  int64_t last = 0;
  bool forward = true, near = true;
  // 200 ms: the time before the rate is known, and many anchors after it.
  for (auto before = begin; before - begin < 200'000'000; before = steady_ns()) {
    const auto now = fast_now_ns();
    const auto after = steady_ns();
    forward = forward && now >= last;
    near = near && now >= before - near_ns && now <= after + near_ns;
    last = now;
  }
  CHECK(forward);
  CHECK(near);
}

// Waiting for what must come: no test is timed by it, and one that waits for ever fails instead.
#pragma once

#include <chrono>
#include <thread>

#include <doctest/doctest.h>

namespace troupe::test {

/// Until `there()`; fails the test after five minutes.
template <class F>
void wait_until(F there) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!there()) {
    REQUIRE(std::chrono::steady_clock::now() < last);
    std::this_thread::yield();
  }
}

}  // namespace troupe::test

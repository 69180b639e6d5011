// The seconds that something took, by the clock on the wall.
#pragma once

#include <chrono>

namespace troupe::apps {

/// Seconds from `then` until now.
inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace troupe::apps

// A measurement on a thread of its own, which always says how it ended: whoever waits for it is not
// left to a timeout where the machine had no memory or no thread for it.
#pragma once

#include <functional>
#include <future>

#include "io/base/result.hpp"

namespace troupe::cluster {

/// Tells once, from any thread, what `measure` gives: an error where it throws (no_memory or
/// unavailable), or where no thread can be had (unavailable). The future waits for its end.
std::future<void> measure_apart(std::function<result<double>()> measure,
                                std::function<void(const result<double>&)> told);

}  // namespace troupe::cluster

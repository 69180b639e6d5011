// Exceptions of the standard library become errors here: nobody asks the future for them.
#include "actors/cluster/measuring.hpp"

#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace troupe::cluster {

namespace {

/// Threads, as many as its workers have, may be refused by a limit of the process or its group.
error not_measured(const std::exception& why) {
  return {errc::unavailable, fmt::format("nothing could be measured: {}", why.what()),
          "see the limits of this process and its control group (ulimit -u, pids.max)"};
}

result<double> measured_or_why_not(const std::function<result<double>()>& measure) {
  try {
    return measure();
  } catch (const std::bad_alloc&) {
    return error{errc::no_memory, "there is no memory to measure with"};
  } catch (const std::exception& e) {
    return not_measured(e);
  }
}

}  // namespace

std::future<void> measure_apart(std::function<result<double>()> measure,
                                std::function<void(const result<double>&)> told) {
  try {
    return std::async(std::launch::async,
                      [measure = std::move(measure), told] { told(measured_or_why_not(measure)); });
  } catch (const std::exception& e) {
    told(not_measured(e));
    return {};
  }
}

}  // namespace troupe::cluster

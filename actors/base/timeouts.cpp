// Keys and their units.
#include "actors/base/timeouts.hpp"

#include <cassert>

#include "io/config/properties.hpp"

namespace troupe {

call_timeouts::call_timeouts(const config::job& job) {
  for (const auto& key : timeout_keys()) {
    const auto* property = config::find_property(key);
    assert(property != nullptr);  // contract_test.cpp
    const auto number = std::get<int64_t>(config::get(*property, job));
    by_key_.emplace_back(key.ends_with("_s") ? number * 1000 : number);
    // What waits for room on a drive is not stuck.
    if (!job.swap.dir.empty() &&
        (key == "timeouts.step_s" || key == "timeouts.operation_s" || key == "timeouts.save_s"))
      by_key_.back() += std::chrono::seconds(job.swap.patience_s);
  }
}

std::chrono::milliseconds call_timeouts::of(const call_info& call) const {
  assert(call.timeout_ms > 0);  // CON-5
  if (call.timeout_key >= 0 && !by_key_.empty())
    return by_key_[static_cast<size_t>(call.timeout_key)];
  return std::chrono::milliseconds(call.timeout_ms);
}

}  // namespace troupe

// A budget, and what it is not for.
#include "apps/up/head_restarts_policy.hpp"

#include <fmt/format.h>

namespace troupe::apps {

status head_restarts_policy::after_kill(const std::string& how, const head_says& said,
                                        bool asked_to_stop, clock::time_point now) {
  while (!within_hour_.empty() && now - within_hour_.front() >= std::chrono::hours(1))
    within_hour_.pop_front();
  if (asked_to_stop) return head_lost(how, "it was asked to stop");
  if (!said.restarts_per_hour) return head_lost(how, "no step was made since it was started");
  if (std::cmp_greater_equal(within_hour_.size(), *said.restarts_per_hour))
    return head_lost(how, said.restarts_per_hour == 0
                              ? std::string("recovery.enabled is false")
                              : fmt::format("it was started again {} times within an hour",
                                            within_hour_.size()));
  within_hour_.push_back(now);
  return {};
}

}  // namespace troupe::apps

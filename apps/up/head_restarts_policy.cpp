// A budget, and what it is not for.
#include "apps/up/head_restarts_policy.hpp"

#include <fmt/format.h>

#include "io/base/counted.hpp"

namespace troupe::apps {

status head_restarts_policy::after_kill(const std::string& how, const head_says& said,
                                        bool asked_to_stop, clock::time_point now) {
  while (!within_hour_.empty() && now - within_hour_.front() >= std::chrono::hours(1))
    within_hour_.pop_front();
  if (asked_to_stop) return head_lost(how, "it was asked to stop");
  if (said.restarts_per_hour) per_hour_ = said.restarts_per_hour;
  stepless_ = said.restarts_per_hour ? 0 : stepless_ + 1;
  if (!per_hour_) return head_lost(how, "no step was made since it was started");
  if (stepless_ > most_stepless)
    return head_lost(how, fmt::format("no step was made since it was started, nor by the {} before "
                                      "it",
                                      most_stepless));
  if (std::cmp_greater_equal(within_hour_.size(), *per_hour_))
    return head_lost(how, per_hour_ == 0 ? std::string("recovery.enabled is false")
                                         : fmt::format("it was started again {} within an hour",
                                                       counted(within_hour_.size(), "time")));
  within_hour_.push_back(now);
  return {};
}

}  // namespace troupe::apps

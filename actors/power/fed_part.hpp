// What one power budget feeds of a job: all its machines, or those of a rack.
//
// A job is as fast as its slowest part (PWR-4). So what a part wishes to be granted is what it can
// use at the pace that the others leave it, and a quarter more: parts that wait for each other come
// up together, and what none of them can use stays with its budget. No part wishes for less than a
// quarter of full speed: each would take the other's stand for the reason of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/power/job_pace_policy.hpp"
#include "actors/power/job_parent.hpp"

namespace troupe::power {

struct fed_part {
  std::vector<std::string> nodes = {};  ///< empty: all of the job
  job_pace_policy policy = {};
  job_pace_policy::verdict allows = {};   ///< as of last, by itself
  std::optional<job_parent> parent = {};  ///< none: nothing above bounds it

  bool feeds(const std::string& node) const;
};

/// The part of the speed that a part whose others have that pace wishes for; 0: they make no step.
double wished_speed(train::work_pace others);

/// What machines draw at a part of their speed, in watts; -1: it is not known.
double drawn_at_w(const job_pace_policy::totals& all, double speed);

}  // namespace troupe::power

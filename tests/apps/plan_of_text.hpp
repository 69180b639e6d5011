// The plan of a job that is a text.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/job/plan.hpp"
#include "tests/io/job_text.hpp"

namespace troupe {

/// As job_of_text() has the job; the test fails where it cannot be planned.
inline train::job_plan plan_of_text(const std::string& toml,
                                    const std::vector<std::string>& sets = {}) {
  auto plan = train::make_plan(job_of_text(toml, sets));
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return *plan;
}

}  // namespace troupe

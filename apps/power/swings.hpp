// `troupe power swings`: how a training job's watts fall and rise, and what would smooth them
// (actors/power/swings.hpp).
#pragma once

#include <string>

#include "actors/power/swings.hpp"
#include "apps/shell.hpp"

namespace troupe::apps::power_verb {

/// A plan, and what it was made from.
struct swings_told {
  std::string trace;          ///< the file
  std::vector<double> watts;  ///< before
  double step_s = 0;
  power::swing_rules rules;
  bool tdp_given = false;
  power::swing_plan plan;
};

/// What is to be done, one sentence.
std::string swings_answer(const swings_told& t);
std::string swings_text(const swings_told& t);
std::string swings_json(const swings_told& t);
/// Watts by time, before and after what the answer wants.
std::string swings_svg(const swings_told& t);

void add_swings(shell& sh, command* parent);

}  // namespace troupe::apps::power_verb

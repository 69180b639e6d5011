// `troupe power why`: why a job has so few watts, or is slow, in sentences.
//
// Made from what a budget says of its children, and from what the job's pacer says of itself; so
// that tests hold it, nothing here reads a clock or a network.
//
// Invariants
//   PWY-1  Nothing is named as a cause of what is not so: where a child has all that it asks for,
//     nobody is said to come before it.
//   PWY-2  What holds whatever others do (a budget that begins anew, a record that is not written)
//     stands before who has what, and what is wrong (a draw above a cap, a silence) before who has
//     a right to it.
#pragma once

#include <string>
#include <vector>

#include "apps/power/power_status.hpp"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/status_generated.h"

namespace troupe::apps::power_verb {

/// An answer, and what explains it: sentences without a full stop.
struct power_why {
  std::string job;
  std::string answer;
  std::vector<std::string> reasons = {};
  bool is_refused = false;  ///< by the job's words: its budget hears another process of its name
};

/// Of a child of a budget, by what the budget knows of all of them.
power_why why_by_budget(const fbs::PowerTreeT& tree, const fbs::PowerChildT& child);

/// Of a job, by what its pacer says.
power_why why_by_job(const std::string& job, const fbs::PacerStatusT& pacer);
/// The same, and what its machines say.
power_why why_by_job(const job_power& job);

/// To what a budget knows, what the job of that name here says: of itself, or of another process.
void add_own_words(power_why& by_budget, const power_why& by_job);

/// A line each, reasons indented.
std::string why_text(const std::vector<power_why>& all);
/// The same as a JSON object, a line.
std::string why_json(const std::vector<power_why>& all);

}  // namespace troupe::apps::power_verb

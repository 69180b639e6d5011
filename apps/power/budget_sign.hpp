// Where a power budget of this user is to be found on this machine: `power serve` leaves a small
// file beside those of jobs (apps/control/meeting_point.hpp), jobs and tools read it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::apps {

/// A budget that is served here.
struct served_budget {
  std::string name;  ///< "row0"
  int pid = 0;
  std::string address;           ///< "127.0.0.1:4242"
  std::filesystem::path secret;  ///< the file with its secret
};

/// The budgets of this user on this machine.
std::vector<served_budget> served_budgets();

/// The only one of them, or the one of that name. Errors: not_found; usage where several fit.
result<served_budget> the_served_budget(const std::string& name);

}  // namespace troupe::apps

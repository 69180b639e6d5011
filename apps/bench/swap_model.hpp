// The limit of swapped steps against what others have measured, row by row of a table.
#pragma once

#include <string>

#include "io/base/result.hpp"

namespace troupe::apps::swap_bench {

/// A line for each run of the table (gpu/swap/limit_model.hpp): forward, backward, both, the limit
/// of the step as a whole, and both over what was measured. Errors: not_found, io; bad_data.
result<std::string> model_check(const std::string& file, bool as_json);

}  // namespace troupe::apps::swap_bench

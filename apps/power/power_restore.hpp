// `troupe power restore`: what is said of changes that dead processes have left on this machine.
#pragma once

#include <string>
#include <vector>

#include "gpu/controls/restore.hpp"

namespace troupe::apps::power_verb {

/// A line each; `trial`: nothing was done.
std::string restore_text(const std::vector<gpu::controls::restored>& all, bool trial);
std::string restore_json(const std::vector<gpu::controls::restored>& all, bool trial);
/// Whether something is left that should have been undone.
bool is_left(const std::vector<gpu::controls::restored>& all);

}  // namespace troupe::apps::power_verb

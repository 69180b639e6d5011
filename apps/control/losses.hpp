// What a running cluster says that loss_policy.hpp judges by.
#pragma once

#include <optional>
#include <string>

#include "apps/control/commands.hpp"
#include "apps/control/session.hpp"

namespace troupe::apps {

/// What a command would lose, a sentence; none: nothing, or the cluster does not say.
std::optional<std::string> loss_now(session& s, const console_command& c);

}  // namespace troupe::apps

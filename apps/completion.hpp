// Shell completion, generated from the command line itself, so that a new verb completes at once.
#pragma once

#include <string>

#include "apps/command_line.hpp"

namespace troupe::apps {

/// A bash script that completes verbs, flags and, after --set and `config explain`, keys.
std::string bash_completion(const command& app);

/// The same for zsh, with descriptions.
std::string zsh_completion(const command& app);

}  // namespace troupe::apps

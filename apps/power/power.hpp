// The verbs of `troupe power`, a file each. To add one: declare it here and name it in power.cpp.
#pragma once

#include "apps/shell.hpp"

namespace troupe::apps::power {

/// `troupe power frontier`: which clocks cost a pipeline least at every length of its step.
void add_frontier(shell& sh, command* parent);

}  // namespace troupe::apps::power

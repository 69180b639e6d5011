// `troupe power`: what watts a job needs, and what fewer would do.
#include "apps/power/power.hpp"

#include "apps/commands.hpp"

namespace troupe::apps {

void add_power(shell& sh) {
  auto* verb = sh.app.add_subcommand("power", "Plan the power that training needs");
  verb->require_subcommand(1);
  power::add_frontier(sh, verb);
}

}  // namespace troupe::apps

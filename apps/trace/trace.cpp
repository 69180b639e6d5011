// `troupe trace`: its verbs, a file each.
#include "apps/commands.hpp"
#include "apps/trace/verbs.hpp"

namespace troupe::apps {

void add_trace(shell& sh) {
  auto* verb = sh.app.add_subcommand("trace", "See what actors say to each other, live or later");
  verb->require_subcommand(1);
  add_trace_live(sh, verb);
  add_trace_record(sh, verb);
  add_trace_stats(sh, verb);
  add_trace_why(sh, verb);
  add_trace_stragglers(sh, verb);
  add_trace_export(sh, verb);
}

}  // namespace troupe::apps

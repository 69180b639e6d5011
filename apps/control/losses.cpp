// Asks the run, the coordinator and all processes, and says nothing where they do not answer: the
// order itself will.
#include "apps/control/losses.hpp"

#include "apps/control/account.hpp"
#include "apps/control/loss_policy.hpp"
#include "apps/control/spares.hpp"

namespace troupe::apps {

std::optional<std::string> loss_now(session& s, const console_command& c) {
  if (!may_lose(c) || !s.may_change()) return std::nullopt;
  const auto run = account_of(s);
  const auto view = s.view("", "", false);
  if (!run || !view) return std::nullopt;
  const auto named = facts_in(*view, c);
  loss_facts facts{run->step, run->saved_step, run->copied_step, named.node_has_ranks, false,
                   named.ends_run};
  if (const auto spares = spares_of(s)) facts.spare_is_ready = ready_in(*spares) > 0;
  return loss_by(c, facts);
}

}  // namespace troupe::apps

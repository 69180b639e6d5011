// `troupe health`: what is wrong with a running cluster, and who it is.
#include <thread>

#include "actors/base/defaults.hpp"
#include "apps/commands.hpp"
#include "apps/control/account.hpp"
#include "apps/control/findings.hpp"
#include "apps/control/incident.hpp"
#include "apps/control/spares.hpp"

namespace troupe::apps {

namespace {

struct health_arguments {
  connect_options connect;
  bool json = false, follow = false;
};

/// Prints whenever something else is found, until the cluster has gone.
result<int> follow(session& s, const health_arguments& a) {
  std::string told;
  for (;;) {
    auto all = findings_of(s);
    if (!all) return all.error();
    for (auto& f : all->findings) f->since_ns = all->now_ns;  // ages are no news
    auto text = a.json ? findings_json(*all) : findings_text(*all);
    if (text != told) TROUPE_CHECK(print(text));
    told = std::move(text);
    std::this_thread::sleep_for(defaults::monitor_period);  // as often as it looks
  }
}

result<int> show(const health_arguments& a) {
  auto opened = session::open(a.connect);
  if (!opened) {  // a cluster that is not there is not well, and no name that somebody mistyped
    auto e = opened.error();
    if (e.code == errc::not_found) e.code = errc::unavailable;
    return e;
  }
  auto& s = **opened;
  if (a.follow) return follow(s, a);
  TROUPE_TRY(all, findings_of(s));
  const auto run = account_of(s);
  const auto spares = spares_of(s);
  const auto text = a.json ? findings_json(all, run ? &*run : nullptr, spares ? &*spares : nullptr)
                           : (run ? account_text(*run, spares ? &*spares : nullptr) : "") +
                                 findings_text(all);
  TROUPE_CHECK(print(text));
  return is_well(all) ? 0 : 1;
}

}  // namespace

void add_health(shell& sh) {
  auto* verb = sh.app.add_subcommand("health", "Say what is wrong with a running cluster, and who");
  auto a = std::make_shared<health_arguments>();
  verb->add_flag("--json", a->json, "As one JSON object");
  verb->add_flag("--follow", a->follow, "Again whenever something else is found");
  add_connect_options(verb, a->connect);
  verb->footer(
      "Findings, their thresholds and evidence: docs/health.md.\n"
      "Exit codes: 0 nothing is wrong, 1 something is, 69 no cluster answers.\n\n"
      "Examples:\n"
      "  troupe health\n"
      "  troupe health --json | jq '.findings[].name'\n"
      "  troupe health --follow\n"
      "  troupe health show 1");
  on_run(sh, verb, [a] { return show(*a); });
  add_health_show(sh, verb);
}

}  // namespace troupe::apps

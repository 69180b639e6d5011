// `troupe ps`, `troupe status`, `troupe send`: the console's questions and words for scripts.
#include <fmt/format.h>

#include "apps/commands.hpp"
#include "apps/control/commands.hpp"
#include "apps/control/show.hpp"

namespace troupe::apps {

namespace {

struct control_arguments {
  connect_options connect;
  std::string actor, node, message;
  std::string json_text;
  bool json = false, dead = false;
};

result<int> ps(const control_arguments& a) {
  TROUPE_TRY(s, session::open(a.connect));
  TROUPE_TRY(view, s->view(a.node, a.actor, a.dead));
  TROUPE_CHECK(print(a.json ? view_json(view) : actors_text(view, terminal_width())));
  return 0;
}

/// 0: all is well; 1: something is wrong; 69: no cluster answers.
result<int> status(const control_arguments& a) {
  auto opened = session::open(a.connect);
  if (!opened) {
    auto e = opened.error();
    if (e.code == errc::not_found) e.code = errc::unavailable;
    return e;
  }
  auto& s = *opened;
  TROUPE_TRY(view, s->view("", a.actor, false));
  const auto h = health_of(view);
  if (a.json) {
    TROUPE_CHECK(print(view_json(view)));
  } else if (a.actor.empty()) {
    TROUPE_CHECK(print(status_text(view, terminal_width())));
  } else {
    TROUPE_TRY(said, execute(*s, "status " + a.actor, terminal_width()));
    TROUPE_CHECK(print(said.text));
  }
  return h.good ? 0 : 1;
}

/// 0: every actor took it; 1: one refused or did not answer.
result<int> send(const control_arguments& a) {
  TROUPE_TRY(s, session::open(a.connect));
  const auto timed =
      a.connect.timeout_ms > 0 ? fmt::format("call {}", a.connect.timeout_ms) : std::string("send");
  TROUPE_TRY(said, execute(*s, fmt::format("{} {} {} {}", timed, a.actor, a.message, a.json_text),
                           terminal_width()));
  TROUPE_CHECK(print(said.text));
  return said.good ? 0 : 1;
}

}  // namespace

void add_control(shell& sh) {
  auto a = std::make_shared<control_arguments>();

  auto* ps_verb = sh.app.add_subcommand("ps", "List the actors of a running cluster");
  ps_verb->add_option("ACTOR", a->actor, "Only paths that fit, e.g. 'worker/*'");
  ps_verb->add_option("--node", a->node, "Only nodes whose name fits");
  ps_verb->add_flag("--dead", a->dead, "With those that have ended");
  ps_verb->add_flag("--json", a->json, "As one JSON object");
  add_connect_options(ps_verb, a->connect);
  on_run(sh, ps_verb, [a] { return ps(*a); });

  auto* status_verb = sh.app.add_subcommand("status", "Say whether a running cluster is well");
  status_verb->add_option("ACTOR", a->actor, "All about the actors that fit");
  status_verb->add_flag("--json", a->json, "As one JSON object");
  add_connect_options(status_verb, a->connect);
  status_verb->footer("Exit codes: 0 all is well, 1 something is wrong, 69 no cluster answers.");
  on_run(sh, status_verb, [a] { return status(*a); });

  auto* send_verb = sh.app.add_subcommand("send", "Give a message to actors of a running cluster");
  send_verb->add_option("ACTOR", a->actor, "A path, or a pattern: 'worker/*'")->required();
  send_verb->add_option("MESSAGE", a->message, "Its name, e.g. StatusRequest")->required();
  send_verb->add_option("JSON", a->json_text, "Its fields, e.g. '{\"reason\":\"look\"}'");
  add_connect_options(send_verb, a->connect);
  send_verb->footer(
      "Prints a line of JSON for every actor's answer. Exit codes: 0 all took it, 1 one did "
      "not.\n\n"
      "Examples:\n"
      "  troupe send run Pause '{\"reason\":\"look\"}'\n"
      "  troupe send 'worker/*' StatusRequest");
  on_run(sh, send_verb, [a] { return send(*a); });
}

}  // namespace troupe::apps

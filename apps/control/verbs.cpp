// `troupe ps`, `troupe status`, `troupe send`: single commands of the console, for scripts.
#include "apps/commands.hpp"
#include "apps/control/commands.hpp"
#include "apps/control/session.hpp"
#include "apps/control/show.hpp"

namespace troupe::apps {

namespace {

struct control_arguments {
  connect_options connect;
  std::string actor, node, message;
  std::string json_text;
  bool json = false, dead = false;
};

/// 0: done, and all is well; 1: it is not, or an actor refused or did not answer.
result<int> say_once(result<std::unique_ptr<session>> opened, const console_command& c, bool json) {
  TROUPE_TRY(s, std::move(opened));
  TROUPE_TRY(said, execute(*s, c, {terminal_width(), json}));
  return tell(said);
}

/// A cluster that is not there is not well (69), and no name that somebody mistyped.
result<std::unique_ptr<session>> open_to_judge(const connect_options& o) {
  auto opened = session::open(o);
  if (opened || opened.error().code != errc::not_found) return opened;
  auto e = opened.error();
  e.code = errc::unavailable;
  return e;
}

}  // namespace

void add_control(shell& sh) {
  auto a = std::make_shared<control_arguments>();

  auto* ps_verb = sh.app.add_subcommand("ps", "List the actors of a running cluster");
  ps_verb->add_option("ACTOR", a->actor, "Only paths that fit, e.g. 'worker/*'")
      ->takes(offered::actor);
  ps_verb->add_option("--node", a->node, "Only nodes whose name fits")->takes(offered::node);
  ps_verb->add_flag("--dead", a->dead, "With those that have ended");
  ps_verb->add_flag("--json", a->json, "As one JSON object");
  add_connect_options(ps_verb, a->connect);
  on_run(sh, ps_verb, [a] {
    return say_once(session::open(a->connect), commands::actors{a->actor, a->node, a->dead},
                    a->json);
  });

  auto* status_verb = sh.app.add_subcommand("status", "Say whether a running cluster is well");
  status_verb->add_option("ACTOR", a->actor, "All about the actors that fit")
      ->takes(offered::actor);
  status_verb->add_flag("--json", a->json, "As one JSON object");
  add_connect_options(status_verb, a->connect);
  status_verb->footer("Exit codes: 0 all is well, 1 something is wrong, 69 no cluster answers.");
  on_run(sh, status_verb,
         [a] { return say_once(open_to_judge(a->connect), commands::status{a->actor}, a->json); });

  auto* send_verb = sh.app.add_subcommand("send", "Give a message to actors of a running cluster");
  send_verb->add_option("ACTOR", a->actor, "A path, or a pattern: 'worker/*'")
      ->required()
      ->takes(offered::actor);
  send_verb->add_option("MESSAGE", a->message, "Its name, e.g. StatusRequest")
      ->required()
      ->takes(offered::message);
  send_verb->add_option("JSON", a->json_text, "Its fields, e.g. '{\"reason\":\"look\"}'")
      ->takes(offered::nothing_known);
  send_verb->add_flag("--json", a->json, "A line of JSON for every actor's answer");
  add_connect_options(send_verb, a->connect);
  send_verb->footer(
      "Says what every actor answers. Exit codes: 0 all took it, 1 one did not.\n\n"
      "Examples:\n"
      "  troupe send run Pause '{\"reason\":\"look\"}'\n"
      "  troupe send 'worker/*' StatusRequest");
  on_run(sh, send_verb, [a] {
    return say_once(session::open(a->connect),
                    commands::send{a->actor, a->message, a->json_text, a->connect.timeout_ms},
                    a->json);
  });
}

}  // namespace troupe::apps

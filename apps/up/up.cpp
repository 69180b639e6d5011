// `troupe up FILE`: the verb. The launcher (supervise.hpp) starts the same command line once more
// as the head (head.hpp).
#include <memory>

#include "apps/commands.hpp"
#include "apps/up/head.hpp"
#include "apps/up/supervise.hpp"

namespace troupe::apps {

void add_up(shell& sh) {
  auto* verb = sh.app.add_subcommand("up", "Start a cluster from a configuration and train");
  auto a = std::make_shared<up_arguments>();
  add_job_arguments(verb, a->job);
  verb->add_option("--log-format", a->log_format,
                   "auto, plain or json (short for --set log.format=)")
      ->one_of({"auto", "plain", "json"});
  verb->add_option("--record-actor", a->record,
                   "Record the actors whose path fits from their spawn, e.g. 'stage/*', for "
                   "`troupe replay`");
  verb->add_flag("--break-lock", a->break_lock,
                 "Take over folders that a process on another host holds: only when it has ended");
  verb->add_flag("--allow-injection", a->allow_injection,
                 "Make the drills of the job ([[inject]]), faults on purpose; without this a job "
                 "that has any is refused");
  verb->add_option("--launcher", a->launcher, "Be the head that this process started")->hidden();
  verb->add_option("--lost-head", a->lost.how, "Go on where a head of this launch was lost")
      ->hidden();
  verb->add_option("--lost-after-step", a->lost.after_step, "The last step that it told of")
      ->hidden();
  verb->add_option("--lost-furthest-step", a->lost.furthest_step, "The greatest of the launch")
      ->hidden();
  verb->add_option("--lost-port", a->port, "Where its nodes look for it")->hidden();
  verb->add_option("--lost-at-ns", a->lost.at_ns, "When, by the steady clock")->hidden();
  verb->footer(
      "The first Ctrl-C finishes the step, saves and stops; the second, a second later, aborts at "
      "once.\nA closed terminal saves and stops, too. Exit codes: docs/exit-codes.md.\n"
      "Run it again to go on from the last checkpoint.\n\n"
      "Examples:\n"
      "  troupe up configs/quickstart.toml\n"
      "  troupe up configs/quickstart.toml --set train.steps=50 --log-format json");
  on_run(sh, verb, [a, &sh] {
    return a->launcher != 0 ? run_head(*a) : supervise_head(sh.words);
  });
}

}  // namespace troupe::apps

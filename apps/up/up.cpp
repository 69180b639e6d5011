// `troupe up FILE` and `troupe head FILE --standby ADDRESS`: the verbs. The launcher
// (supervise.hpp) starts the same command line once more as the head (head.hpp).
#include <memory>

#include "apps/commands.hpp"
#include "apps/up/head.hpp"
#include "apps/up/supervise.hpp"

namespace troupe::apps {

namespace {

/// What a head is told, whether it acts at once or stands by.
void add_head_arguments(command* verb, const std::shared_ptr<up_arguments>& a) {
  add_job_arguments(verb, a->job);
  verb->add_option("--log-format", a->log_format,
                   "auto, plain or json (short for --set log.format=)")
      ->one_of({"auto", "plain", "json"});
  verb->add_flag("--dry-run", a->dry_run,
                 "What the job's power budget would do is written into power.jsonl, and nothing is "
                 "held back (short for --set power.dry_run=true); the job trains all the same");
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
  verb->add_option("--lost-warning", a->lost_warnings, "What its launcher warned of since a step")
      ->hidden();
  verb->add_option("--lost-at-ns", a->lost.at_ns, "When, by the steady clock")->hidden();
}

}  // namespace

void add_up(shell& sh) {
  auto* verb = sh.app.add_subcommand("up", "Start a cluster from a configuration and train");
  auto a = std::make_shared<up_arguments>();
  add_head_arguments(verb, a);
  verb->add_option("--head", a->address,
                   "Which of cluster.heads this is; without it the first of them")
      ->type_name("HOST:PORT");
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

void add_head(shell& sh) {
  auto* verb = sh.app.add_subcommand(
      "head", "Stand by for the head of a cluster (cluster.heads), and go on where it is lost");
  auto a = std::make_shared<up_arguments>();
  a->stands_by = true;
  add_head_arguments(verb, a);
  verb->add_option("--standby", a->address, "Which of cluster.heads this is")
      ->required()
      ->type_name("HOST:PORT");
  verb->footer(
      "Start it with the same file and --set as `troupe up`, on another machine. It ends with the "
      "job;\nCtrl-C ends it alone.\n\n"
      "Example:\n"
      "  troupe up job.toml                            # the first of cluster.heads\n"
      "  troupe head job.toml --standby 10.0.0.2:29400");
  on_run(sh, verb, [a, &sh] {
    return a->launcher != 0 ? run_head(*a) : supervise_head(sh.words);
  });
}

}  // namespace troupe::apps

// `troupe trace why`: why a step took so long, from a trace; why a cluster stands still, from the
// cluster itself.
#include <unistd.h>
#include <memory>

#include <fmt/format.h>

#include "apps/control/session.hpp"
#include "apps/trace/verbs.hpp"
#include "trace/critical_path.hpp"
#include "trace/wait_graph.hpp"

namespace troupe::apps {

namespace {

struct why_arguments {
  std::vector<std::string> files;
  connect_options connect;
  uint64_t step = 0;
  size_t most = 12;
  bool json = false;
};

result<int> why_slow(const why_arguments& a, bool step_given) {
  TROUPE_TRY(timeline, timeline_of(a.files));
  auto step = a.step;
  if (!step_given) {
    TROUPE_TRY(slowest, trace::slowest_step(timeline));
    say(fmt::format("step {} is the slowest of {} in the trace; --step picks another", slowest,
                    timeline.steps().size()));
    step = slowest;
  }
  TROUPE_TRY(path, trace::critical_path_of(timeline, step));
  if (a.json)
    TROUPE_CHECK(print(trace::path_json(timeline, path) + "\n"));
  else
    TROUPE_CHECK(
        print(trace::path_text(timeline, path, terminal_columns(STDOUT_FILENO, 0), a.most)));
  return 0;
}

result<int> why_stuck(const why_arguments& a) {
  TROUPE_TRY(s, session::open(a.connect));
  TROUPE_TRY(view, s->view("", "", false));
  const auto m = try_make_msg<fbs::ClusterView>(message_context{}, view);
  if (!m) return m.error();
  const auto cluster = trace::waits_of(**m);
  const auto report = trace::find_culprits(cluster, {});
  TROUPE_CHECK(
      print(a.json ? trace::wait_json(cluster, report) + "\n" : trace::wait_text(cluster, report)));
  return 0;
}

}  // namespace

void add_trace_why(shell& sh, command* trace) {
  auto* verb =
      trace->add_subcommand("why", "Say why a step takes so long, or why a cluster is stuck");
  verb->footer(
      "With a trace: the critical path of a step, the chain of work, transfers and waits that the\n"
      "step could not end before. Without: who waits for whom in the running cluster, and who\n"
      "waits for nobody.\n"
      "Examples:\n"
      "  troupe trace why run.trace --step 120\n"
      "  troupe trace why run.trace\n"
      "  troupe trace why");
  auto a = std::make_shared<why_arguments>();
  verb->add_option("FILE", a->files, "Trace files; none: ask the running cluster");
  auto* step = verb->add_option("--step", a->step, "Which step; the slowest where not given");
  verb->add_option("--top", a->most, "How many parts and waits to show")
      ->within(size_t{1}, size_t{100'000});
  verb->add_flag("--json", a->json, "As one JSON object, with all links");
  add_connect_options(verb, a->connect);
  on_run(sh, verb, [a, step]() -> result<int> {
    const bool given = step->count() > 0;
    if (!a->files.empty()) return why_slow(*a, given);
    if (given)
      return error{errc::usage, "--step needs a trace",
                   "`troupe trace record OUT` makes one from the running cluster"};
    return why_stuck(*a);
  });
}

}  // namespace troupe::apps

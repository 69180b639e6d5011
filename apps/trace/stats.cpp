// `troupe trace stats`: how often, how much, how long.
#include "trace/stats.hpp"

#include <unistd.h>
#include <memory>

#include <fmt/format.h>

#include "apps/trace/verbs.hpp"

namespace troupe::apps {

result<trace::timeline> timeline_of(const std::vector<std::string>& files) {
  TROUPE_TRY(contents, trace::read_traces({files.begin(), files.end()}));
  for (const auto& damage : contents.damage) {
    say(fmt::format("warning: {}", damage.message));
    if (!damage.hint.empty()) say(fmt::format("  {}", damage.hint));
  }
  return trace::timeline::build(std::move(contents));
}

namespace {

struct stats_arguments {
  std::vector<std::string> files;
  size_t most = 20;
  bool json = false;
};

result<int> run_stats(const stats_arguments& a) {
  TROUPE_TRY(timeline, timeline_of(a.files));
  const auto stats = trace::stats_of(timeline);
  if (a.json)
    TROUPE_CHECK(print(trace::stats_json(stats) + "\n"));
  else
    TROUPE_CHECK(print(trace::stats_text(stats, terminal_columns(STDOUT_FILENO, 0), a.most)));
  return 0;
}

}  // namespace

void add_trace_stats(shell& sh, command* trace) {
  auto* verb = trace->add_subcommand("stats", "Count and time messages, actors and work");
  verb->footer(
      "Waiting is from sending to handling, over both clocks where they differ. The mailbox "
      "column\n"
      "is the most messages that were left in a mailbox after one had been handled.\n"
      "Examples:\n"
      "  troupe trace stats run.trace\n"
      "  troupe trace stats run.trace --json | jq '.messages[0]'");
  auto a = std::make_shared<stats_arguments>();
  verb->add_option("FILE", a->files, "Trace files and black boxes; several count as one")
      ->required();
  verb->add_option("--top", a->most, "Rows of each table; 0 = all")
      ->within(size_t{0}, size_t{1'000'000});
  verb->add_flag("--json", a->json, "As one JSON object, all rows");
  on_run(sh, verb, [a] { return run_stats(*a); });
}

}  // namespace troupe::apps

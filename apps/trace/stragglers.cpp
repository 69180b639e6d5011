// `troupe trace stragglers`: which ranks, stages, links or batches make steps slow, and what a step
// would take without.
#include <memory>

#include <fmt/format.h>

#include "apps/trace/verbs.hpp"
#include "io/file.hpp"
#include "trace/chrome_timeline.hpp"
#include "trace/whatif_policy.hpp"
#include "trace/whatif_spans.hpp"

namespace troupe::apps {

namespace {

struct straggler_arguments {
  std::vector<std::string> files;
  std::string chrome, layout, svg;
  connect_options connect;
  double seconds = 10;
  bool json = false;
};

result<trace::whatif_window> chrome_window(const straggler_arguments& a) {
  TROUPE_TRY(layout, trace::read_chrome_layout(a.layout));
  TROUPE_TRY(spans, trace::read_chrome_timeline(a.chrome, layout));
  trace::whatif_window out;
  out.layout.data = layout.data;
  out.layout.pipeline = layout.pipeline;
  out.spans = std::move(spans);
  return out;
}

result<trace::whatif_window> window_of(const straggler_arguments& a) {
  if (!a.chrome.empty()) return chrome_window(a);
  if (!a.files.empty()) {
    TROUPE_TRY(timeline, timeline_of(a.files));
    return trace::whatif_window_of(timeline);
  }
  TROUPE_TRY(timeline, timeline_of_cluster(a.connect, a.seconds));
  return trace::whatif_window_of(timeline);
}

result<int> run_stragglers(const straggler_arguments& a) {
  if (a.chrome.empty() != a.layout.empty())
    return error{errc::usage, "--chrome and --layout go together",
                 "the timeline of another trainer, and how many ranks it has on each axis"};
  if (!a.chrome.empty() && !a.files.empty())
    return error{errc::usage, "a trace and --chrome exclude each other"};
  TROUPE_TRY(window, window_of(a));
  TROUPE_TRY(graph, trace::whatif_graph::build(window.layout, std::move(window.spans)));
  const trace::whatif_policy policy(std::move(graph));
  const auto report = policy.report();
  const auto& layout = policy.graph().layout();
  if (!a.svg.empty()) {
    TROUPE_CHECK(io::write_atomic(a.svg, trace::stragglers_svg(report, layout)));
    say(fmt::format("{}: the heat map; a browser shows it", a.svg));
  }
  TROUPE_CHECK(print(a.json ? trace::stragglers_json(report, layout) + "\n"
                            : trace::stragglers_text(report, layout)));
  return 0;
}

}  // namespace

void add_trace_stragglers(shell& sh, command* trace) {
  auto* verb = trace->add_subcommand(
      "stragglers", "Say which ranks, stages, links or batches make steps slow, and by how much");
  verb->footer(
      "Replays the steps of a trace with parts of them put right: what is lost is what a step "
      "takes\n"
      "longer than with all ranks alike. Without a trace: of the running cluster, for --seconds.\n"
      "Examples:\n"
      "  troupe trace stragglers run.trace --svg heat.svg\n"
      "  troupe trace stragglers --json | jq .classes\n"
      "  troupe trace stragglers --chrome timeline.json.gz --layout meta.yaml");
  auto a = std::make_shared<straggler_arguments>();
  verb->add_option("FILE", a->files, "Trace files; none: record the running cluster");
  verb->add_option(
      "--chrome", a->chrome,
      "A timeline of ndtimeline's operations as Chrome's trace events, .json or .json.gz");
  verb->add_option("--layout", a->layout, "Its layout: dp_size, pp_size and vpp_size, a line each");
  verb->add_option("--svg", a->svg, "Draw the heat map into this file");
  verb->add_option("--seconds", a->seconds, "How long to record the running cluster")
      ->within(0.1, 3600.0);
  verb->add_flag("--json", a->json, "As one JSON object, all ranks");
  add_connect_options(verb, a->connect);
  on_run(sh, verb, [a] { return run_stragglers(*a); });
}

}  // namespace troupe::apps

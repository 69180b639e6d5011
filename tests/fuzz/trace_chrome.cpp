// Fuzzes timelines of other trainers and their layouts: what is accepted must make a graph or be
// refused as one, and a graph must replay to times that are numbers, and a report of each rank.
//
// The first byte chooses the entry point and the layout.
#include <cmath>

#include "tests/fuzz/must.hpp"
#include "trace/chrome_timeline.hpp"
#include "trace/whatif_policy.hpp"

using namespace troupe;
using namespace troupe::trace;

namespace {

void analyse(const chrome_layout& layout, std::vector<whatif_span> spans) {
  for (const auto& s : spans)
    must(s.data < layout.data && s.pipeline < layout.pipeline, "spans lie within the layout");
  const auto bytes = spans.size();
  auto graph = whatif_graph::build({layout.data, layout.pipeline, {}, {}}, std::move(spans));
  if (!graph) return;
  must(graph->spans().size() <= bytes && graph->steps() > 0, "no more than there was");
  const whatif_policy policy(std::move(*graph));
  const auto report = policy.report();
  must(std::isfinite(report.t_s) && std::isfinite(report.ideal_s) && std::isfinite(report.s) &&
           std::isfinite(report.m_w) && std::isfinite(report.m_s),
       "times are numbers");
  must(report.cells.size() == policy.graph().layout().cells(), "a row a rank");
  must(!stragglers_text(report, policy.graph().layout()).empty(), "words");
  must(!stragglers_json(report, policy.graph().layout()).empty(), "json");
  must(stragglers_svg(report, policy.graph().layout()).ends_with("</svg>\n"), "a picture");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 8 == 0) {
    if (const auto layout = parse_chrome_layout(text); !layout)
      must(layout.error().message.starts_with("line"), "CHT-2");
    return 0;
  }
  const chrome_layout layout{1 + data[0] % 2, 1 + data[0] / 2 % 2, 1 + data[0] / 4 % 2};
  if (auto spans = parse_chrome_timeline(text, layout)) analyse(layout, std::move(*spans));
  return 0;
}

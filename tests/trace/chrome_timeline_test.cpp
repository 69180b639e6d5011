// Timelines of other trainers: what is read, what is refused and with which place; and ByteDance's
// three traces, whose published analysis is to be met.
#include "trace/chrome_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/io/scratch.hpp"
#include "trace/whatif_policy.hpp"

using namespace troupe;
using namespace troupe::trace;

namespace {

const chrome_layout two_stages{1, 2, 1};

std::string thread_name(int pid, int tid, int stage) {
  return fmt::format(R"({{"name":"thread_name","pid":{},"tid":{},"ph":"M","args":{{"name":)"
                     R"("PP rank {}, TP rank 0, compute"}}}})",
                     pid, tid, stage);
}

std::string chrome_event(const char* name, int tid, double ts, double dur, int mb, int seq) {
  return fmt::format(R"({{"name":"{}","cat":"x","pid":0,"tid":{},"ts":{},"dur":{},"ph":"X","args":)"
                     R"({{"step":7,"model_chunk":0,"mb_id":{},"seq_id":{}}}}})",
                     name, tid, ts, dur, mb, seq);
}

/// Two stages, two micro-batches; the names of streams come last, as in the traces.
std::vector<std::string> sound_events() {
  std::vector<std::string> out;
  for (int m = 0; m < 2; ++m) {
    out.push_back(chrome_event("forward-compute", 0, 10.0 * m, 10, m, m));
    out.push_back(chrome_event("forward-send", 0, 10.0 * m + 10, 1, -1, m));
    out.push_back(chrome_event("forward-recv", 5, 10.0 * m + 10, 1, -1, m));
    out.push_back(chrome_event("forward-compute", 5, 40.0 * m + 11, 10, m, m));
    out.push_back(chrome_event("backward-compute", 5, 40.0 * m + 21, 20, m, m));
    out.push_back(chrome_event("backward-send", 5, 40.0 * m + 41, 1, -1, m));
    out.push_back(chrome_event("backward-recv", 0, 40.0 * m + 41, 1, -1, m));
    out.push_back(chrome_event("backward-compute", 0, 40.0 * m + 42, 20, m, m));
  }
  out.push_back(R"({"name":"process_name","pid":0,"ph":"M","args":{"name":"DP rank [0]"}})");
  out.push_back(R"({"name":"a counter","ph":"C","pid":"any","args":{"x":[1,{"y":null}]}})");
  out.push_back(thread_name(0, 0, 0));
  out.push_back(thread_name(0, 5, 1));
  return out;
}

std::string list_of(const std::vector<std::string>& events) {
  return fmt::format("[{}]", fmt::join(events, ","));
}

std::string chrome_fault(const std::string& json, const chrome_layout& layout = two_stages) {
  const auto made = parse_chrome_timeline(json, layout);
  if (made) return "";
  CHECK(made.error().code == errc::bad_data);
  CHECK(!made.error().hint.empty());
  return made.error().message;
}

/// The sound timeline with a part of an event replaced.
std::string with_part(size_t which, const std::string& part, const std::string& by) {
  auto events = sound_events();
  const auto at = events[which].find(part);
  REQUIRE(at != std::string::npos);
  events[which].replace(at, part.size(), by);
  return list_of(events);
}

std::string layout_fault(const std::string& yaml) {
  const auto made = parse_chrome_layout(yaml);
  return made ? "" : made.error().message;
}

}  // namespace

TEST_CASE("chrome timeline: events become operations of ranks") {
  for (const auto& json :
       {list_of(sound_events()),
        fmt::format(R"({{"a":[1],"traceEvents":{},"b":{{"c":[]}}}})", list_of(sound_events()))}) {
    const auto made = parse_chrome_timeline(json, two_stages);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    REQUIRE(made->size() == 16);
    const auto& first = made->front();
    CHECK(first.step == 7);
    CHECK(first.op == whatif_op::forward);
    CHECK(first.begin_ns == 0);
    CHECK(first.end_ns == 10'000);
    CHECK((*made)[3].pipeline == 1);
    const auto g = whatif_graph::build({1, 2, {}, {}}, *made);
    REQUIRE(g);
    CHECK(g->replay(g->times()) == doctest::Approx(92e-6).epsilon(1e-9));  // 10 us of nothing
    CHECK(g->recorded_s() == doctest::Approx(102e-6).epsilon(1e-9));
  }
}

TEST_CASE("chrome timeline: sends and receives are matched with what they are of, in order") {
  auto events = sound_events();
  std::swap(events[1], events[9]);   // the sends, not what they are of
  std::swap(events[6], events[14]);  // and the receives of gradients
  const auto made = parse_chrome_timeline(list_of(events), two_stages);
  REQUIRE(made);
  for (const auto& s : *made) {
    if (s.op == whatif_op::receive_gradient) CHECK(s.number == (s.begin_ns > 50'000));
    if (s.op == whatif_op::send_activation) CHECK(s.number == (s.begin_ns > 15'000));
  }
}

TEST_CASE("chrome timeline CHT-2: what is wrong is told with the event") {
  CHECK(chrome_fault("").starts_with("not JSON: "));
  CHECK(chrome_fault("[{}").starts_with("not JSON: "));
  CHECK(chrome_fault("{}") == "the JSON holds no list of trace events");
  CHECK(chrome_fault("[]") == "the timeline holds none of the operations of a training step");
  CHECK(chrome_fault(with_part(0, "\"tid\":0", "\"tid\":3")) ==
        "event 1: stream 3 of data rank 0 has no name that begins with \"PP rank N\"");
  CHECK(chrome_fault(with_part(2, "\"pid\":0", "\"pid\":1")) ==
        "event 3: \"pid\" is 1, expected a whole number from 0 to 0");
  CHECK(chrome_fault(with_part(2, "\"pid\":0,", "")) ==
        "event 3 (\"forward-recv\") has no \"pid\"");
  CHECK(chrome_fault(with_part(2, "\"step\":7", "\"step\":7.5"))
            .starts_with("event 3: \"step\" is 7.5"));
  CHECK(chrome_fault(with_part(0, "\"mb_id\":0", "\"mb_id\":-1"))
            .starts_with("event 1: \"mb_id\" is -1"));
  CHECK(chrome_fault(with_part(0, "\"ts\":0", "\"ts\":1e300"))
            .starts_with("event 1: \"ts\" is 1e+300"));
  CHECK(chrome_fault(with_part(0, "\"ts\":0,", "")).starts_with("event 1: \"ts\" is missing"));
  CHECK(chrome_fault(with_part(4, "\"ph\":\"X\"", "\"ph\":\"X\",\"ph\":\"X\"")) ==
        "event 5 has \"ph\" twice");
  CHECK(chrome_fault(with_part(0, "model_chunk\":0", "model_chunk\":1"))
            .starts_with("event 1: \"model_chunk\""));
  CHECK(chrome_fault(with_part(19, "PP rank 1", "PP rank 2")) ==
        "event 20: PP rank 2 is not of the layout's 2 stages");
  auto events = sound_events();
  events.erase(events.begin() + 2);
  CHECK(chrome_fault(list_of(events))
            .find("step 7, data rank 0, stage 1 has 1 receive_activation and 2") !=
        std::string::npos);
}

TEST_CASE("limits: a timeline that nests deeper than events do is refused") {
  std::string deep = "[{\"args\":";
  for (int i = 0; i < 7; ++i) deep += "[";
  CHECK(chrome_fault(deep) == "JSON: nested deeper than 8 levels in event 1");
  CHECK(chrome_fault(std::string(1 << 20, '[')).starts_with("JSON: nested deeper than 8 levels"));
}

TEST_CASE("limits: a timeline and a layout beyond their lengths are not read") {
  scratch dir;
  std::ofstream(dir / "big.json") << "[";
  std::filesystem::resize_file(dir / "big.json", max_chrome_bytes + 1);  // takes no room on disk
  const auto timeline = read_chrome_timeline(dir / "big.json", two_stages);
  REQUIRE(!timeline);
  CHECK(timeline.error().code == errc::bad_data);
  std::filesystem::resize_file(dir / "big.json", max_layout_bytes + 1);
  const auto layout = read_chrome_layout(dir / "big.json");
  REQUIRE(!layout);
  CHECK(layout.error().code == errc::bad_data);
}

TEST_CASE("chrome timeline: a layout is a few lines") {
  const auto made = parse_chrome_layout(
      "---\ntrial_name: AR\nrun_id: 0\ndp_size: 4  # replicas\r\n\n pp_size : 3\nvpp_size: 2\n");
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  CHECK(made->data == 4);
  CHECK(made->pipeline == 3);
  CHECK(made->chunks == 2);
  CHECK(layout_fault("dp_size: 4\npp_size: 2\n") == "line 2: vpp_size is missing");
  CHECK(layout_fault("dp_size 4\n") == "line 1: \"dp_size 4\" is no \"key: value\"");
  CHECK(layout_fault("\ndp_size: 0\n") ==
        "line 2: dp_size is \"0\", expected a whole number from 1 to 65536");
  CHECK(layout_fault("dp_size: 4x\n").starts_with("line 1: dp_size is \"4x\""));
  CHECK(layout_fault("dp_size: 4\ndp_size: 4\n") == "line 2: dp_size is given twice");
  CHECK(layout_fault("dp_sizes: 4\n") == "line 1: unknown key \"dp_sizes\"");
  CHECK(layout_fault("dp_size: 1\npp_size: 2\nvpp_size: 65536") ==
        "line 3: 2 x 65536 parts of a model are more than 65536");
  CHECK(layout_fault("dp_size: 65536\npp_size: 2\nvpp_size: 1").find("are more than 65536") !=
        std::string::npos);
}

TEST_CASE("stragglers: ByteDance's three traces come to the published numbers and causes") {
  const auto folder = shared_folder() / "data" / "megascale";
  std::ifstream table(folder / "bytedance_whatif_traces.csv");
  if (!table) {
    MESSAGE("SKIPPED: no shared/data/megascale beside the source tree, and no TROUPE_SHARED");
    return;
  }
  using c = straggler_class;
  const std::map<std::string, std::vector<c>> causes{{"AR", {c::slow_device}},
                                                     {"SE", {c::sequence_lengths, c::last_stage}},
                                                     {"ST", {c::last_stage}}};
  std::string line;
  std::getline(table, line);
  size_t traces = 0;
  while (std::getline(table, line)) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    REQUIRE(cells.size() == 16);
    const auto& name = cells[0];
    CAPTURE(name);
    const auto number = [&](size_t at) { return std::stod(cells[at]); };
    const auto files = folder / "timelines";
    const auto layout = read_chrome_layout(files / ("meta-" + name + ".yaml"));
    REQUIRE(layout);
    auto spans = read_chrome_timeline(files / ("timeline-" + name + ".json.gz"), *layout);
    REQUIRE_MESSAGE(spans, (spans ? "" : spans.error().message));
    auto g = whatif_graph::build({layout->data, layout->pipeline, {}, {}}, std::move(*spans));
    REQUIRE(g);
    const auto r = whatif_policy(std::move(*g)).report();
    CHECK(static_cast<double>(r.steps) == number(8));
    CHECK(std::abs(r.s - number(13)) <= 0.02);
    CHECK(std::abs(r.m_w - number(14)) <= 0.02);
    CHECK(std::abs(r.m_s - number(15)) <= 0.02);
    CHECK(std::abs(r.t_s / number(10) - 1) <= 0.02);
    CHECK(std::abs(r.ideal_s / number(12) - 1) <= 0.02);
    std::vector<c> found;
    for (const auto& x : r.causes) found.push_back(x.what);
    CHECK(found == causes.at(name));
    if (name == "AR") CHECK(r.causes[0].cells == std::vector<size_t>{0});
    ++traces;
  }
  CHECK(traces == 3);
}

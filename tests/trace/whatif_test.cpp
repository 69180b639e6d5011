// What-if analysis: replays that can be done by hand, and each cause alone, in jobs on paper.
#include "trace/whatif_policy.hpp"

#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/trace/paper_job.hpp"
#include "tests/trace/sample.hpp"
#include "trace/whatif_spans.hpp"

using namespace troupe;
using namespace troupe::trace;
using doctest::Approx;

namespace {

whatif_graph whatif_of(whatif_layout layout, std::vector<whatif_span> spans) {
  auto g = whatif_graph::build(std::move(layout), std::move(spans));
  REQUIRE_MESSAGE(g, (g ? "" : g.error().message));
  return std::move(*g);
}

straggler_report report_of(paper_job& job, std::vector<std::string> hosts = {}) {
  auto layout = job.layout();
  layout.hosts = std::move(hosts);
  return whatif_policy(whatif_of(layout, job.spans())).report();
}

std::vector<straggler_class> causes_of(const straggler_report& r) {
  std::vector<straggler_class> out;
  for (const auto& c : r.causes) out.push_back(c.what);
  return out;
}

using classes = std::vector<straggler_class>;

/// A seeded number in [0, 1) for a place.
double chance(int a, int b, int c) {
  std::mt19937_64 random(static_cast<uint64_t>(a) * 1'000'003 + static_cast<uint64_t>(b) * 1009 +
                         static_cast<uint64_t>(c));
  random.discard(4);
  return std::uniform_real_distribution<>(0, 1)(random);
}

whatif_span one_span(whatif_op op, int p, int m, double begin, double end, int chunk = 0) {
  whatif_span s;
  s.step = 1;
  s.op = op;
  s.pipeline = p;
  s.number = m;
  s.chunk = chunk;
  s.begin_ns = std::llround(begin * 1e9);
  s.end_ns = std::llround(end * 1e9);
  return s;
}

}  // namespace

TEST_CASE("what-if: two stages and two micro-batches, replayed by hand") {
  // stage 0  F0 0-1  F1 1-2                      B0 7.2-9.2     B1 13.2-15.2
  // stage 1          F0 1.1-3.1  B0 3.1-7.1  F1 7.1-9.1  B1 9.1-13.1
  paper_job job;
  job.stages = 2;
  job.batches = 2;
  job.takes = [](whatif_op op, int, int, int p, int) {
    if (op == whatif_op::forward) return p == 0 ? 1.0 : 2.0;
    if (op == whatif_op::backward) return p == 0 ? 2.0 : 4.0;
    return op == whatif_op::reduce_scatter || op == whatif_op::update ? 0.0 : 0.1;
  };
  const auto r = report_of(job);
  CHECK(r.recorded_s == Approx(15.2).epsilon(1e-9));
  CHECK(r.t_s == Approx(15.2).epsilon(1e-9));
  // F 1.5, B 3: F0 1.6-3.1, B0 3.1-6.1, F1 6.1-7.6, B1 7.6-10.6, over by 10.7, B1 to 13.7.
  CHECK(r.ideal_s == Approx(13.7).epsilon(1e-9));
  CHECK(r.s == Approx(15.2 / 13.7).epsilon(1e-9));
  // The last stage ideal: F0 1.1-2.6, B0 2.6-5.6, F1 5.6-7.1, B1 7.1-10.1, B1 10.2-12.2.
  CHECK(r.m_s == Approx((15.2 - 12.2) / (15.2 - 13.7)).epsilon(1e-6));
  // Only stage 1 as recorded: F0 1.6-3.6, B0 -7.6, F1 -9.6, B1 -13.6, over by 13.7, B1 to 16.7;
  // its data rank is all there is, so the stage alone counts.
  CHECK(r.cells[1].slowdown == Approx(15.2 / 13.7).epsilon(1e-9));
  // WIP-2
  REQUIRE(causes_of(r) == classes{straggler_class::last_stage});
  CHECK(r.causes[0].stage == 1);
}

TEST_CASE("what-if: computations take the mean of their kind, transfers the median") {
  paper_job job;
  job.data = 4;
  job.batches = 1;
  job.steps = 1;
  job.takes = [](whatif_op op, int, int d, int, int) {
    if (op == whatif_op::forward) return d == 3 ? 5.0 : 1.0;         // mean 2
    if (op == whatif_op::reduce_scatter) return d == 0 ? 9.0 : 0.5;  // median 0.5
    return op == whatif_op::backward ? 2.0 : 0.25;
  };
  const auto r = report_of(job);
  CHECK(r.t_s == Approx(5 + 2 + 9 + 0.25).epsilon(1e-9));
  CHECK(r.ideal_s == Approx(2 + 2 + 0.5 + 0.25).epsilon(1e-9));
}

TEST_CASE("what-if: a job without gaps replays as it was recorded, whatever its shape") {
  for (const auto& [d, p, m] : {std::tuple(1, 1, 1), {3, 1, 4}, {1, 4, 6}, {4, 3, 5}, {2, 4, 2}}) {
    paper_job job;
    job.data = d;
    job.stages = p;
    job.batches = m;
    job.takes = [](whatif_op op, int step, int a, int b, int c) {
      return paper_job::usual(op) *
             (0.5 + chance(step * 100 + static_cast<int>(op), a * 10 + b, c));
    };
    CAPTURE(fmt::format("{} x {}, {}", d, p, m));
    const auto g = whatif_of(job.layout(), job.spans());
    CHECK(g.replay(g.times()) == Approx(g.recorded_s()).epsilon(1e-6));
    CHECK(g.left_out() == 0);
    const auto delays = g.launch_delays();
    for (size_t i = 0; i < delays.size(); ++i)
      if (g.spans()[i].op == whatif_op::update) CHECK(delays[i] < 1e-6);
  }
}

TEST_CASE("what-if: a transfer waits for the last of its members, and takes its own time") {
  paper_job job;
  job.data = 2;
  job.batches = 1;
  job.steps = 1;
  job.takes = [](whatif_op op, int, int d, int, int) {
    return op == whatif_op::forward && d == 1 ? 4.0 : paper_job::usual(op);
  };
  const auto g = whatif_of(job.layout(), job.spans());
  for (size_t i = 0; i < g.spans().size(); ++i)
    if (g.spans()[i].op == whatif_op::reduce_scatter)
      CHECK(g.times()[i] == Approx(0.5).epsilon(1e-9));  // not the 3 s that data rank 0 waited
  auto faster = g.times();
  for (size_t i = 0; i < faster.size(); ++i)
    if (g.spans()[i].data == 1 && g.spans()[i].op == whatif_op::forward) faster[i] = 1;
  CHECK(g.replay(faster) == Approx(3.75).epsilon(1e-9));
}

TEST_CASE("what-if: gradients that are reduced during the last backward begin at the same share") {
  whatif_layout layout;
  std::vector<whatif_span> spans{one_span(whatif_op::all_gather, 0, 0, 0, 0.5),
                                 one_span(whatif_op::forward, 0, 0, 0.5, 1.5),
                                 one_span(whatif_op::backward, 0, 0, 1.5, 3.5),
                                 one_span(whatif_op::reduce_scatter, 0, 0, 2.5, 3.25),
                                 one_span(whatif_op::reduce_scatter, 0, 1, 3.5, 4),
                                 one_span(whatif_op::update, 0, 0, 4, 5),
                                 one_span(whatif_op::all_gather, 0, 1, 4.5, 5.25)};
  const auto g = whatif_of(layout, spans);
  CHECK(g.replay(g.times()) == Approx(5.25).epsilon(1e-9));
  const auto with = [&](whatif_op op, int number, double s) {
    auto x = g.times();
    for (size_t i = 0; i < x.size(); ++i)
      if (g.spans()[i].op == op && g.spans()[i].number == number) x[i] = s;
    return g.replay(x);
  };
  CHECK(with(whatif_op::all_gather, 0, 1.5) == Approx(6.25).epsilon(1e-9));  // the forward waits
  CHECK(with(whatif_op::backward, 0, 4) == Approx(7.25).epsilon(1e-9));
  CHECK(with(whatif_op::reduce_scatter, 0, 2) == Approx(6.25).epsilon(1e-9));  // 2.5-4.5, then 0.5
  CHECK(with(whatif_op::update, 0, 3) == Approx(7.0).epsilon(1e-9));
  CHECK(with(whatif_op::all_gather, 1, 2.75) == Approx(7.25).epsilon(1e-9));
}

TEST_CASE("what-if: parts of the model beyond one a stage follow each other round the pipeline") {
  whatif_layout layout;
  layout.pipeline = 2;
  std::vector<whatif_span> spans;
  double at = 0;
  for (int v = 0; v < 4; ++v) {
    const int p = v % 2, c = v / 2;
    spans.push_back(one_span(whatif_op::forward, p, 0, at, at + 1, c));
    at += 1;
    if (v == 3) break;
    spans.push_back(one_span(whatif_op::send_activation, p, 0, at, at + 0.1, c));
    spans.push_back(one_span(whatif_op::receive_activation, 1 - p, 0, at, at + 0.1, (v + 1) / 2));
    at += 0.1;
  }
  for (int v = 3; v >= 0; --v) {
    const int p = v % 2, c = v / 2;
    spans.push_back(one_span(whatif_op::backward, p, 0, at, at + 2, c));
    at += 2;
    if (v == 0) break;
    spans.push_back(one_span(whatif_op::send_gradient, p, 0, at, at + 0.1, c));
    spans.push_back(one_span(whatif_op::receive_gradient, 1 - p, 0, at, at + 0.1, (v - 1) / 2));
    at += 0.1;
  }
  const auto g = whatif_of(layout, spans);
  CHECK(g.replay(g.times()) == Approx(12.6).epsilon(1e-9));
  auto x = g.times();
  for (size_t i = 0; i < x.size(); ++i)
    if (g.spans()[i].op == whatif_op::receive_activation && g.spans()[i].chunk == 1) x[i] = 0.6;
  CHECK(g.replay(x) == Approx(13.6).epsilon(1e-9));  // two of the three hops
}

TEST_CASE("what-if WIG-1: steps that are not whole are left out, and counted") {
  paper_job job;
  job.data = job.stages = 2;
  job.steps = 6;
  auto spans = job.spans();
  const auto first = [&](uint64_t step, whatif_op op) {
    return std::find_if(spans.begin(), spans.end(),
                        [&](const auto& s) { return s.step == step && s.op == op; });
  };
  spans.erase(first(2, whatif_op::update));                // cut
  first(4, whatif_op::forward)->end_ns -= 60'000'000'000;  // a clock was set back
  auto& late = *first(5, whatif_op::receive_activation);   // it came before it was sent, by a
  late.begin_ns += 90'000'000'000;                         // stream's order that has a circle
  late.end_ns += 90'000'000'000;
  const auto g = whatif_of(job.layout(), spans);
  CHECK(g.steps() + g.left_out() == 6);
  CHECK(g.left_out() == 3);
  std::set<uint64_t> kept;
  for (const auto& s : g.spans()) kept.insert(s.step);
  CHECK(kept == std::set<uint64_t>{1, 3, 6});
  CHECK(g.replay(g.times()) == Approx(g.recorded_s()).epsilon(1e-6));
}

TEST_CASE("what-if: spans that fit no layout are refused") {
  paper_job job;
  job.data = 2;
  auto layout = job.layout();
  layout.data = 1;
  auto made = whatif_graph::build(layout, job.spans());
  REQUIRE(!made);
  CHECK(made.error() == outside_layout(1, 1, 0, 1, 1));
  layout.data = 3;  // nobody has seen the third
  made = whatif_graph::build(layout, job.spans());
  REQUIRE(!made);
  CHECK(made.error() == no_whole_step());
  CHECK(!whatif_graph::build(layout, {}));
}

TEST_CASE("limits: a layout of more ranks than any job has is refused") {
  whatif_layout layout;
  layout.data = static_cast<int32_t>(max_whatif_cells);
  layout.pipeline = 2;
  const auto made = whatif_graph::build(layout, {});
  REQUIRE(!made);
  CHECK(made.error().message.find("65536") != std::string::npos);
}

TEST_CASE("stragglers: ranks that are alike are no stragglers") {
  for (const auto& [d, p] : {std::pair(1, 1), {4, 1}, {1, 4}, {4, 4}}) {
    paper_job job;
    job.data = d;
    job.stages = p;
    const auto r = report_of(job);
    CHECK(r.s == Approx(1).epsilon(1e-9));
    CHECK(r.m_w == 0);
    CHECK(r.m_s == 0);
    CHECK(r.causes.empty());
  }
}

TEST_CASE("stragglers: where nothing is lost no share of it is shown") {
  whatif_layout layout;
  layout.data = layout.pipeline = 2;
  straggler_report r;
  r.cells.resize(4);
  r.s = 1.004;
  r.m_w = -1.651;
  const auto even = stragglers_text(r, layout);
  CHECK(even.find("-1.651") == even.npos);
  CHECK(even.find("nothing is lost") != even.npos);
  r.s = 1.05;
  CHECK(stragglers_text(r, layout).find("M_W    0.000  of what is lost") != even.npos);
  r.s = 1.5;
  r.m_w = 0.25;
  const auto lost = stragglers_text(r, layout);
  CHECK(lost.find("M_W    0.250  of what is lost") != lost.npos);
  CHECK(lost.find("M_S") != lost.npos);
  CHECK(lost.find("nothing is lost") == lost.npos);
}

TEST_CASE("stragglers: a slow rank is found, and what it is on") {
  paper_job job;
  job.data = 4;
  job.stages = 4;
  std::set<std::pair<int, int>> slow{{1, 2}};
  job.takes = [&](whatif_op op, int, int d, int p, int) {
    const bool works = op == whatif_op::forward || op == whatif_op::backward;
    return paper_job::usual(op) * (works && slow.contains({d, p}) ? 2 : 1);
  };
  auto r = report_of(job);
  REQUIRE(causes_of(r) == classes{straggler_class::slow_device});
  CHECK(r.causes[0].where == "data rank 1, stage 2");
  CHECK(r.causes[0].cells == std::vector<size_t>{6});
  CHECK(r.m_w > 0.9);
  CHECK(std::abs(r.m_s) < 0.1);
  paper_job even;
  even.data = even.stages = 4;
  CHECK(r.causes[0].without_s == Approx(report_of(even).t_s).epsilon(1e-9));
  const auto worst = std::max_element(r.cells.begin(), r.cells.end(),
                                      [](auto& a, auto& b) { return a.slowdown < b.slowdown; });
  CHECK(worst - r.cells.begin() == 6);
  // Two ranks a node: one slow is a device, both are the node.
  std::vector<std::string> hosts;
  for (int c = 0; c < 16; ++c) hosts.push_back(fmt::format("node{}", c / 2));
  r = report_of(job, hosts);
  CHECK(causes_of(r) == classes{straggler_class::slow_device});
  slow.insert({1, 3});
  r = report_of(job, hosts);
  REQUIRE(causes_of(r) == classes{straggler_class::slow_host});
  CHECK(r.causes[0].where == "node3");
  CHECK(r.causes[0].cells == std::vector<size_t>{6, 7});
}

TEST_CASE("stragglers: two slow ranks apart are both told") {
  paper_job job;
  job.data = 4;
  job.stages = 2;
  job.takes = [](whatif_op op, int, int d, int p, int) {
    const bool slow = (d == 0 && p == 0) || (d == 3 && p == 1);
    return paper_job::usual(op) * (slow && op != whatif_op::reduce_scatter ? 1.8 : 1);
  };
  std::vector<std::string> hosts;
  for (int c = 0; c < 8; ++c) hosts.push_back(fmt::format("node{}", c));
  const auto r = report_of(job, hosts);
  REQUIRE(causes_of(r) == classes{straggler_class::slow_host, straggler_class::slow_host});
  CHECK(std::set{r.causes[0].where, r.causes[1].where} == std::set<std::string>{"node0", "node7"});
}

TEST_CASE("stragglers: replicas without a pipeline have no last stage") {
  paper_job job;
  job.data = 4;
  job.takes = [](whatif_op op, int, int d, int, int) {
    return paper_job::usual(op) * (d == 2 && op != whatif_op::reduce_scatter ? 1.5 : 1);
  };
  const auto r = report_of(job);
  REQUIRE(causes_of(r) == classes{straggler_class::slow_device});
  CHECK(r.causes[0].where == "data rank 2, stage 0");
}

TEST_CASE("stragglers: a slow last stage, and a slow rank of it, are told apart") {
  paper_job job;
  job.data = 3;
  job.stages = 4;
  int slow_ranks = 3;
  job.takes = [&](whatif_op op, int, int d, int p, int) {
    const bool works = op == whatif_op::forward || op == whatif_op::backward;
    return paper_job::usual(op) * (works && p == 3 && d < slow_ranks ? 1.6 : 1);
  };
  auto r = report_of(job);
  REQUIRE(causes_of(r) == classes{straggler_class::last_stage});
  CHECK(r.causes[0].stage == 3);
  CHECK(r.m_s > 0.9);
  CHECK(r.m_w < 0.5);
  slow_ranks = 1;  // its share of the last stage is all of it, but it is no stage's fault
  r = report_of(job);
  CHECK(r.m_s > 0.9);
  CHECK(causes_of(r) == classes{straggler_class::slow_device});
}

TEST_CASE("stragglers: a stage with more layers is told by its number") {
  for (const int data : {1, 3}) {
    paper_job job;
    job.data = data;
    job.stages = 4;
    job.batches = 16;
    job.takes = [](whatif_op op, int, int, int p, int) {
      const bool works = op == whatif_op::forward || op == whatif_op::backward;
      return paper_job::usual(op) * (works && p == 1 ? 1.8 : 1);
    };
    const auto r = report_of(job);
    REQUIRE(causes_of(r) == classes{straggler_class::uneven_layers});  // WIP-2
    CHECK(r.causes[0].stage == 1);
    CHECK(r.causes[0].where == "stage 1");
  }
}

TEST_CASE("stragglers: uneven sequences are told by forward and backward going together") {
  paper_job job;
  job.data = 4;
  job.stages = 2;
  job.batches = 8;
  job.steps = 12;
  bool together = true;
  job.takes = [&](whatif_op op, int step, int d, int, int m) {
    if (op != whatif_op::forward && op != whatif_op::backward) return paper_job::usual(op);
    const int salt = together ? 0 : 7 * static_cast<int>(op);
    return paper_job::usual(op) * (0.4 + 1.2 * chance(step + 1000 * salt, d, m));
  };
  auto r = report_of(job);
  CHECK(r.s > 1.1);
  CHECK(r.forward_backward > 0.95);
  CHECK(causes_of(r) == classes{straggler_class::sequence_lengths});
  together = false;
  r = report_of(job);
  CHECK(r.s > 1.1);
  CHECK(std::abs(r.forward_backward) < 0.3);
  CHECK(causes_of(r).empty());
}

TEST_CASE("stragglers: a slow link is told by its ends") {
  paper_job job;
  job.data = 3;
  job.stages = 3;
  job.takes = [](whatif_op op, int, int d, int p, int) {
    const bool over = (op == whatif_op::receive_activation && p == 2) ||
                      (op == whatif_op::receive_gradient && p == 1);
    return over && d == 1 ? 1.5 : paper_job::usual(op);
  };
  const auto r = report_of(job);
  REQUIRE(causes_of(r) == classes{straggler_class::slow_link});
  CHECK(r.causes[0].where == "data rank 1, stage 1 to data rank 1, stage 2");
  CHECK(r.causes[0].cells == std::vector<size_t>{4, 5});
  CHECK(r.causes[0].share > 0.9);
}

TEST_CASE("stragglers: time between operations is the host's noise") {
  paper_job job;
  job.data = 3;
  job.stages = 2;
  double gap = 0.4;
  job.dawdles = [&](int d, int p) { return d == 2 && p == 0 ? gap : 0; };
  auto r = report_of(job);
  REQUIRE(causes_of(r) == classes{straggler_class::host_noise});
  CHECK(r.causes[0].cells == std::vector<size_t>{4});
  CHECK(r.s == Approx(1).epsilon(1e-6));
  CHECK(r.causes[0].share == Approx(r.recorded_s / r.t_s - 1));
  gap = 0.02;
  CHECK(report_of(job).causes.empty());
}

TEST_CASE("stragglers WIP-1 WIP-3: order is of no account, and little is no straggling") {
  paper_job job;
  job.data = job.stages = 3;
  double more = 1.4;
  job.takes = [&](whatif_op op, int, int d, int, int) {
    return paper_job::usual(op) * (d == 0 && op != whatif_op::reduce_scatter ? more : 1);
  };
  auto spans = job.spans();
  const auto layout = job.layout();
  const auto text = stragglers_json(whatif_policy(whatif_of(layout, spans)).report(), layout);
  std::mt19937_64 random(3);
  std::shuffle(spans.begin(), spans.end(), random);
  CHECK(stragglers_json(whatif_policy(whatif_of(layout, spans)).report(), layout) == text);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["cells"].size() == 9);
  CHECK(json["cells"][4]["data"] == 1);
  CHECK(json["classes"][0]["class"] == "slow_device");
  more = 1.08;
  const auto r = report_of(job);
  CHECK(r.s < 1.1);
  CHECK(r.causes.empty());
}

TEST_CASE("stragglers: a trace of ours becomes ranks and operations") {
  const auto made = whatif_window_of(two_stage_step().build());
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  CHECK(made->layout.data == 1);
  CHECK(made->layout.pipeline == 2);
  CHECK(made->layout.hosts == std::vector<std::string>{"a", "b"});
  CHECK(made->layout.names == std::vector<std::string>{"rank 0", "rank 1"});
  CHECK(made->spans.size() == 9);
  const auto g = whatif_of(made->layout, made->spans);
  // forward 40, receive 1.45 (posted after it was sent), forward 9.9, backward 12.9, receive 0.08,
  // backward 30, update 2.5 ms
  CHECK(g.replay(g.times()) == Approx(0.09683).epsilon(1e-4));
  auto empty = whatif_window_of(trace_maker().build());
  REQUIRE(!empty);
  CHECK(empty.error().code == errc::not_found);
}

TEST_CASE("stragglers: replicas on two nodes, from a trace to the words") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run");
  trace_maker::actor workers[2];
  for (int r = 0; r < 2; ++r)
    workers[r] =
        m.add(m.process(fmt::format("node{}", r), 10 * r, 0.01), fmt::format("worker/{}", r));
  for (uint64_t step = 1; step <= 4; ++step) {
    const double at = 200.0 * static_cast<double>(step);
    const auto root = m.new_span();
    for (int r = 0; r < 2; ++r) {
      const double slow = r == 1 ? 1.5 : 1;
      m.work("forward", workers[r], at, at + 30 * slow, root, root, 0);
      m.work("backward", workers[r], at + 30 * slow, at + 90 * slow, root, root, 0);
      m.work("reduce_scatter", workers[r], at + 90 * slow, at + 140, root, root, 2, 0, 4096);
      m.work("update", workers[r], at + 140, at + 145, root, root, step);
    }
    m.work("step", run, at, at + 145, root, 0, step, root);
  }
  const auto window = whatif_window_of(m.build());
  REQUIRE(window);
  CHECK(window->layout.data == 2);
  const auto r = whatif_policy(whatif_of(window->layout, window->spans)).report();
  const auto text = stragglers_text(r, window->layout);
  CHECK(text.find("145 ms a step, 100 ms without rank 1: slow_host node1\n") != text.npos);
  CHECK(text.find("M_S") == text.npos);  // the last stage is all there is
  CHECK(causes_of(r) == classes{straggler_class::slow_host});
}

TEST_CASE("stragglers: weights that replicas gather twice in a step are two transfers") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run");
  const auto root = m.new_span();
  for (int r = 0; r < 2; ++r) {
    const auto worker =
        m.add(m.process(fmt::format("node{}", r), 10 * r, 0.01), fmt::format("worker/{}", r));
    m.work("all_gather", worker, 0, 10, root, root, 3, 0, 4096);
    m.work("forward", worker, 10, 30, root, root, 0);
    m.work("all_gather", worker, 30, 45, root, root, 3, 0, 4096);
    m.work("backward", worker, 45, 90, root, root, 0);
    m.work("reduce_scatter", worker, 90, 95, root, root, 3, 0, 4096);
    m.work("update", worker, 95, 100, root, root, 1);
  }
  m.work("step", run, 0, 100, root, 0, 1, root);
  const auto window = whatif_window_of(m.build());
  REQUIRE(window);
  std::map<int32_t, int> gathers;
  for (const auto& s : window->spans)
    if (s.op == whatif_op::all_gather) ++gathers[s.number];
  REQUIRE(gathers.size() == 2);
  for (const auto& [number, ranks] : gathers) CHECK(ranks == 2);
  const auto g = whatif_of(window->layout, window->spans);
  CHECK(g.replay(g.times()) > 0.07);
}

TEST_CASE("stragglers: the heat map is a well-formed picture of every rank") {
  paper_job job;
  job.data = 3;
  job.stages = 2;
  auto layout = job.layout();
  layout.hosts.assign(6, "<node & \"co\">");
  const auto svg = stragglers_svg(whatif_policy(whatif_of(layout, job.spans())).report(), layout);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("<node") == svg.npos);
  size_t titles = 0;
  for (auto at = svg.find("<title>"); at != svg.npos; at = svg.find("<title>", at + 1)) ++titles;
  CHECK(titles % 6 == 0);
  CHECK(titles >= 5 * 6);
  CHECK(svg.find("nan") == svg.npos);
}

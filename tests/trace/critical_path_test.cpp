// Critical paths: a step whose path is known, link by link; sums; traces that lie or have holes.
#include "trace/critical_path.hpp"

#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/trace/sample.hpp"
#include "trace/power_words.hpp"

using namespace troupe;
using namespace troupe::trace;

namespace {

void check_cover(const critical_path& p) {  // CP-1
  auto at = p.begin_ns;
  for (const auto& s : p.segments) {
    CHECK(s.begin_ns == at);
    CHECK(s.end_ns > s.begin_ns);
    at = s.end_ns;
  }
  CHECK(at == p.end_ns);
}

struct path_link {
  segment_kind kind;
  const char* actor;
  const char* what;
  double begin, end;  // ms of the step
};

void check_links(const timeline& t, const critical_path& p, const std::vector<path_link>& wanted) {
  std::string all;
  for (const auto& s : p.segments)
    all += fmt::format("{} {} {} {} us\n", to_string(s.kind), t.path(s.actor), s.what,
                       (s.begin_ns - p.begin_ns) / 1000);
  INFO(all);
  REQUIRE(p.segments.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto& s = p.segments[i];
    const auto& w = wanted[i];
    CAPTURE(i);
    CHECK(to_string(s.kind) == to_string(w.kind));
    CHECK(t.path(s.actor) == w.actor);
    CHECK(s.what == w.what);
    CHECK(static_cast<double>(s.begin_ns - p.begin_ns) / 1e6 ==
          doctest::Approx(w.begin).epsilon(1e-3));
    CHECK(static_cast<double>(s.end_ns - p.begin_ns) / 1e6 == doctest::Approx(w.end).epsilon(1e-3));
  }
}

}  // namespace

TEST_CASE("critical path: two stages, link by link") {
  using k = segment_kind;
  const auto t = two_stage_step().build();
  auto p = critical_path_of(t, 7);
  REQUIRE(p);
  check_cover(*p);
  check_links(t, *p,
              {
                  {k::handling, "run", "system", 0, 0.05},
                  {k::mailbox, "stage/0", "RunStep", 0.05, 0.2},
                  {k::handling, "stage/0", "RunStep", 0.2, 0.28},
                  {k::mailbox, "worker/0", "RunOp", 0.28, 0.4},
                  {k::handling, "worker/0", "RunOp", 0.4, 0.45},
                  {k::device, "worker/0", "forward", 0.45, 40.45},
                  {k::mailbox, "worker/0", "the end of forward", 40.45, 40.5},
                  {k::handling, "worker/0", "system", 40.5, 40.55},
                  {k::mailbox, "stage/0", "OpDone", 40.55, 40.7},
                  {k::handling, "stage/0", "OpDone", 40.7, 40.8},
                  {k::mailbox, "stage/1", "ActivationReady", 40.8, 41.2},
                  {k::handling, "stage/1", "ActivationReady", 41.2, 41.3},
                  {k::mailbox, "worker/1", "RunOp", 41.3, 41.5},
                  {k::handling, "worker/1", "RunOp", 41.5, 41.55},
                  {k::transfer, "worker/1", "receive_activation", 41.55, 43.0},
                  {k::idle, "worker/1", "the begin of forward", 43.0, 43.1},
                  {k::device, "worker/1", "forward", 43.1, 53.0},
                  {k::idle, "worker/1", "the begin of backward", 53.0, 53.1},
                  {k::device, "worker/1", "backward", 53.1, 66.0},
                  {k::handling, "worker/1", "system", 66.0, 66.05},
                  {k::mailbox, "stage/1", "OpDone", 66.05, 66.1},
                  {k::handling, "stage/1", "OpDone", 66.1, 66.15},
                  {k::mailbox, "stage/0", "ActivationReady", 66.15, 66.2},
                  {k::handling, "stage/0", "ActivationReady", 66.2, 66.22},
                  {k::mailbox, "worker/0", "RunOp", 66.22, 66.3},
                  {k::handling, "worker/0", "RunOp", 66.3, 66.32},
                  {k::transfer, "worker/0", "receive_gradient", 66.32, 66.4},
                  {k::idle, "worker/0", "the begin of backward", 66.4, 66.5},
                  {k::device, "worker/0", "backward", 66.5, 96.5},
                  {k::device, "worker/0", "update", 96.5, 99.0},
                  {k::mailbox, "worker/0", "the end of update", 99.0, 99.1},
                  {k::handling, "worker/0", "system", 99.1, 99.15},
                  {k::mailbox, "stage/0", "StepDone", 99.15, 99.3},
                  {k::handling, "stage/0", "StepDone", 99.3, 99.35},
                  {k::mailbox, "run", "StepDone", 99.35, 99.8},
                  {k::handling, "run", "StepDone", 99.8, 100},
              });
}

TEST_CASE("critical path: what a power budget held back is its time, and it is named") {
  using k = segment_kind;
  trace_maker m;
  const auto head = m.process("head", 0, 0), a = m.process("a", 250, 0.02);
  const auto run = m.add(head, "run"), pacer = m.add(head, "pacer");
  const auto stage = m.add(a, "stage/0"), worker = m.add(a, "worker/0");
  const auto root = m.new_span();
  m.counter("budget W", pacer, -0.3, 21);
  m.counter("cap W of row0", pacer, -0.3, 21);
  m.wake(run, -0.5, 0.1);
  const auto step = m.handle("RunStep", run, stage, 0.05, 0.2, 0.3, root, root, 1);
  const auto f = m.handle("RunOp", stage, worker, 0.25, 0.3, 0.36, root, step.span, 1);
  m.work("forward", worker, 0.35, 10.35, root, f.span, 0);
  m.wake(worker, 10.4, 10.5);
  m.handle("OpDone", worker, stage, 10.45, 10.5, 10.6, root, f.span, 2);
  m.work("held_by_pace", stage, 10.55, 20.55, root, step.span, 50);
  m.wake(stage, 20.5, 20.7);
  const auto u = m.handle("FinishStep", stage, worker, 20.6, 20.7, 20.8, root, step.span, 1);
  m.work("update", worker, 20.75, 40.75, root, u.span, 7);
  m.wake(worker, 40.8, 40.9);
  m.handle("StepDone", worker, stage, 40.85, 41.0, 41.1, root, u.span, 2);
  m.handle("StepDone", stage, run, 41.05, 41.2, 42.0, root, step.span, 2);
  m.work("step", run, 0, 41.6, root, 0, 7, root);
  const auto t = m.build();
  const auto p = critical_path_of(t, 7);
  REQUIRE(p);
  check_cover(*p);
  check_links(t, *p,
              {
                  {k::handling, "run", "system", 0, 0.05},
                  {k::mailbox, "stage/0", "RunStep", 0.05, 0.2},
                  {k::handling, "stage/0", "RunStep", 0.2, 0.25},
                  {k::mailbox, "worker/0", "RunOp", 0.25, 0.3},
                  {k::handling, "worker/0", "RunOp", 0.3, 0.35},
                  {k::device, "worker/0", "forward", 0.35, 10.35},
                  {k::mailbox, "worker/0", "the end of forward", 10.35, 10.4},
                  {k::handling, "worker/0", "system", 10.4, 10.45},
                  {k::mailbox, "stage/0", "OpDone", 10.45, 10.5},
                  {k::handling, "stage/0", "OpDone", 10.5, 10.55},
                  {k::power, "stage/0", "the pace of 50 % for the 21 W of row0", 10.55, 20.5},
                  {k::handling, "stage/0", "system", 20.5, 20.6},
                  {k::mailbox, "worker/0", "FinishStep", 20.6, 20.7},
                  {k::handling, "worker/0", "FinishStep", 20.7, 20.75},
                  {k::device, "worker/0", "update", 20.75, 40.75},
                  {k::mailbox, "worker/0", "the end of update", 40.75, 40.8},
                  {k::handling, "worker/0", "system", 40.8, 40.85},
                  {k::mailbox, "stage/0", "StepDone", 40.85, 41.0},
                  {k::handling, "stage/0", "StepDone", 41.0, 41.05},
                  {k::mailbox, "run", "StepDone", 41.05, 41.2},
                  {k::handling, "run", "StepDone", 41.2, 41.6},
              });
  const auto text = path_text(t, *p, 100, 5);
  CHECK(text.find("stage/0 was held back by the pace of 50 % for the 21 W of row0") != text.npos);
  CHECK(text.find("held back by a power budget") != text.npos);
  const auto json = nlohmann::json::parse(path_json(t, *p));
  for (const auto& kind : json["kinds"])
    if (kind["kind"] == "power") CHECK(kind["ns"] == doctest::Approx(9'950'000).epsilon(1e-3));
}

TEST_CASE("critical path: a hold names its budget by what the pacer kept to then") {
  trace_maker m;
  const auto p = m.process("head", 0, 0);
  const auto pacer = m.add(p, "pacer"), stage = m.add(p, "stage/0");
  m.work("held_by_pace", stage, 1, 2, 0, 0, 80);
  m.work("held_by_brake", stage, 2, 3, 0, 0, 80);
  m.counter("budget W", pacer, 5, 44);
  m.work("held_by_pace", stage, 6, 7, 0, 0, 52);
  m.counter("cap W of row0", pacer, 10, 60);
  m.work("held_by_pace", stage, 11, 12, 0, 0, 51);
  m.work("held_by_brake", stage, 13, 14, 0, 0, 51);
  m.counter("budget W", pacer, 15, 60);
  m.work("held_by_pace", stage, 16, 17, 0, 0, 70);
  m.work("held_by_offset", stage, 18, 19, 0, 0, 100);
  const auto t = m.build();
  const power_words words(t);
  std::vector<std::string> said;
  for (const auto& e : t.events()) said.push_back(words.of(t, e));
  CHECK(said == std::vector<std::string>{
                    "the pace of 80 % for its power budget", "the brake of its power budget",
                    "the pace of 52 % for its own budget of 44 W",
                    "the pace of 51 % for its own budget of 44 W", "the brake of row0",
                    "the pace of 70 % for the 60 W of row0",
                    "a start between the steps of other jobs under row0"});
}

TEST_CASE("critical path: who waited for whom, in words and as JSON") {
  const auto t = two_stage_step().build();
  auto p = critical_path_of(t, 7);
  REQUIRE(p);
  REQUIRE(p->waits.size() == 2);
  const auto& w = p->waits.front();
  CHECK(t.path(w.stage) == "stage/1");
  CHECK(t.path(w.whom) == "stage/0");
  CHECK_FALSE(w.gradient);
  CHECK(w.micro_batch == 3);
  CHECK(p->waits.back().gradient);
  const auto text = path_text(t, *p, 100, 5);
  CHECK(text.find("step 7 took 100 ms") == 0);
  CHECK(text.find("stage/1 waited 41.2 ms for the activation of micro-batch 3 from stage/0: "
                  "worker/0 was busy with forward for 40.0 ms") != std::string::npos);
  CHECK(text.find("40.0 %   40.0 ms  worker/0 did forward") != std::string::npos);
  const auto json = nlohmann::json::parse(path_json(t, *p));
  double percent = 0, kinds = 0;
  int64_t ns = 0;
  for (const auto& g : json["top"]) percent += g["percent"].get<double>();
  for (const auto& g : json["kinds"]) kinds += g["percent"].get<double>();
  for (const auto& s : json["segments"]) ns += s["took_ns"].get<int64_t>();
  CHECK(percent == doctest::Approx(100).epsilon(1e-9));
  CHECK(kinds == doctest::Approx(100).epsilon(1e-9));
  CHECK(ns == json["took_ns"]);
}

TEST_CASE("critical path: a message between processes is on the way, then in the mailbox") {
  auto m = two_stage_step(0.75);
  const auto t = m.build();
  auto p = critical_path_of(t, 7);
  REQUIRE(p);
  check_cover(*p);
  size_t found = 0;
  for (size_t i = 0; i + 1 < p->segments.size(); ++i) {
    const auto &way = p->segments[i], &mailbox = p->segments[i + 1];
    if (way.kind != segment_kind::way) continue;
    CHECK(mailbox.kind == segment_kind::mailbox);
    CHECK(mailbox.actor == way.actor);
    CHECK(mailbox.what == way.what);
    const auto all = static_cast<double>(way.took_ns() + mailbox.took_ns());
    CHECK(static_cast<double>(way.took_ns()) == doctest::Approx(0.75 * all).epsilon(1e-4));
    ++found;
  }
  CHECK(found == 4);  // RunStep, ActivationReady to and fro, StepDone
  const auto text = path_text(t, *p, 0, 50);
  CHECK(text.find("messages on the way") != text.npos);
  CHECK(text.find("ActivationReady was on its way to stage/1") != text.npos);
  CHECK(text.find("ActivationReady lay in the mailbox of stage/1") != text.npos);
}

TEST_CASE("critical path: a mailbox is blamed on what its actor was busy with") {
  auto m = two_stage_step();
  // stage/1 handles a status question for most of the time the announcement waits for it.
  const trace_maker::actor stage1{102, 1};
  m.handle("StatusRequest", {}, stage1, 40.7, 40.75, 41.15, 99, 0);
  const auto t = m.build();
  auto p = critical_path_of(t, 7);
  REQUIRE(p);
  bool found = false;
  for (const auto& s : p->segments)
    found = found || s.blame == "stage/1 was busy with StatusRequest";
  CHECK(found);
}

TEST_CASE("critical path: a receive that was posted early ends at the sender's work") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run"), s0 = m.add(head, "stage/0"), w0 = m.add(head, "worker/0"),
             s1 = m.add(head, "stage/1"), w1 = m.add(head, "worker/1");
  const auto root = m.new_span();
  m.wake(run, -1, 0.1);
  const auto a = m.handle("RunStep", run, s0, 0, 0, 0.2, root, root, 1);
  const auto b = m.handle("RunStep", run, s1, 0, 0, 0.2, root, root, 1);
  const auto f = m.handle("RunOp", s0, w0, 0.1, 0.2, 0.3, root, a.span, 1);
  const auto r = m.handle("RunOp", s1, w1, 0.1, 0.2, 0.3, root, b.span, 1);
  m.handle("ActivationReady", s0, s1, 0.15, 0.2, 0.25, root, a.span);
  m.work("forward", w0, 0.3, 20, root, f.span, 0);
  m.work("send_activation", w0, 20, 22, root, f.span, 0);
  m.work("receive_activation", w1, 0.3, 22, root, r.span, 0);
  m.work("forward", w1, 22, 30, root, r.span, 0);
  m.wake(w1, 30, 30.1);
  m.handle("StepDone", w1, s1, 30.1, 30.1, 30.2, root, r.span, 2);
  m.handle("StepDone", s1, run, 30.2, 30.2, 31, root, b.span, 2);
  m.work("step", run, 0, 31, root, 0, 1, root);
  const auto t = m.build();
  auto p = critical_path_of(t, 1);
  REQUIRE(p);
  check_cover(*p);
  using k = segment_kind;
  const std::vector<path_link> wanted{{k::device, "worker/0", "forward", 0.3, 20},
                                      {k::transfer, "worker/1", "receive_activation", 20, 22},
                                      {k::device, "worker/1", "forward", 22, 30}};
  for (const auto& w : wanted) {
    CAPTURE(w.what);
    const bool found = std::any_of(p->segments.begin(), p->segments.end(), [&](const auto& s) {
      return s.kind == w.kind && t.path(s.actor) == w.actor && s.what == w.what &&
             std::abs(s.begin_ns - p->begin_ns - ms(w.begin)) < 1000 &&
             std::abs(s.end_ns - p->begin_ns - ms(w.end)) < 1000;
    });
    CHECK(found);
  }
}

TEST_CASE("critical path: a collective waits for its last member") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run"), s0 = m.add(head, "stage/0"), w0 = m.add(head, "worker/0"),
             s1 = m.add(head, "stage/1"), w1 = m.add(head, "worker/1");
  const auto root = m.new_span();
  m.wake(run, -1, 0.1);
  double slow = 0;
  for (const auto& [stage, worker, backward] :
       {std::tuple(s0, w0, 10.0), std::tuple(s1, w1, 35.0)}) {
    const auto a = m.handle("RunStep", run, stage, 0, 0, 0.2, root, root, 1);
    const auto b = m.handle("RunOp", stage, worker, 0.1, 0.2, 0.3, root, a.span, 1);
    const auto u = m.handle("FinishStep", stage, worker, 0.15, 0.3, 0.4, root, a.span, 1);
    m.work("backward", worker, 0.3, backward, root, b.span, 0);
    m.work("reduce_scatter", worker, backward - 1, 36, root, b.span, 2, 0, 64);
    m.work("norm", worker, 36, 36.1, root, u.span, 1);
    m.work("all_reduce", worker, 36.1, 36.2, root, u.span, 1, 0, 8);
    m.work("update", worker, 36.2, 38, root, u.span, 1);
    m.wake(worker, 38 + slow, 38.1 + slow);
    m.handle("StepDone", worker, stage, 38.1 + slow, 38.1 + slow, 38.2 + slow, root, u.span, 2);
    m.handle("StepDone", stage, run, 38.2 + slow, 38.3 + slow, 39 + slow, root, a.span, 2);
    slow = -0.9;  // the end of the path is worker/0's
  }
  m.work("step", run, 0, 39, root, 0, 1, root);
  const auto t = m.build();
  auto p = critical_path_of(t, 1);
  REQUIRE(p);
  check_cover(*p);
  int64_t backward_1 = 0, reduce = 0, backward_0 = 0;
  for (const auto& s : p->segments) {
    if (s.what == "backward")
      (t.path(s.actor) == "worker/1" ? backward_1 : backward_0) += s.took_ns();
    if (s.what == "reduce_scatter") reduce += s.took_ns();
  }
  CHECK(backward_0 == 0);
  CHECK(backward_1 == doctest::Approx(ms(33.7)).epsilon(1e-3));
  CHECK(reduce == doctest::Approx(ms(2)).epsilon(1e-3));
}

TEST_CASE("critical path: forward waits for the weights that are gathered") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run"), stage = m.add(head, "stage/0"),
             worker = m.add(head, "worker/0");
  const auto root = m.new_span(), before = m.new_span();
  m.wake(run, -1, 0.1);
  const auto a = m.handle("RunStep", run, stage, 0, 0, 0.2, root, root, 1);
  const auto b = m.handle("RunOp", stage, worker, 0.1, 0.2, 0.3, root, a.span, 1);
  m.work("update", worker, -5, 0.05, before, before, 1);
  m.work("all_gather", worker, -2, 0.2, before, before, 4, 0, 64);
  m.work("all_gather", worker, 0.2, 20, before, before, 5, 0, 64);
  m.work("forward", worker, 0.3, 25, root, b.span, 0);
  m.wake(worker, 25, 25.1);
  m.handle("OpDone", worker, stage, 25.1, 25.1, 25.2, root, b.span, 2);
  m.handle("StepDone", stage, run, 25.2, 25.3, 26, root, a.span, 2);
  m.work("step", run, 0, 26, root, 0, 1, root);
  const auto t = m.build();
  auto p = critical_path_of(t, 1);
  REQUIRE(p);
  check_cover(*p);
  int64_t forward = 0, gather = 0;
  for (const auto& s : p->segments) {
    if (s.what == "forward") forward += s.took_ns();
    if (s.what == "all_gather" && s.kind == segment_kind::transfer) gather += s.took_ns();
  }
  CHECK(forward == doctest::Approx(ms(5)).epsilon(1e-3));
  CHECK(gather == doctest::Approx(ms(20)).epsilon(2e-2));
}

TEST_CASE("critical path: backward waits for weights that replicas read and gather") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run"), stage = m.add(head, "stage/0"),
             worker = m.add(head, "worker/0");
  const auto root = m.new_span();
  m.wake(run, -1, 0.1);
  const auto a = m.handle("RunStep", run, stage, 0, 0, 0.2, root, root, 1);
  const auto b = m.handle("RunOp", stage, worker, 0.1, 0.2, 0.3, root, a.span, 1);
  m.work("forward", worker, 0.3, 5, root, b.span, 0);
  m.work("backward", worker, 5, 25, root, b.span, 0);
  m.work("read_weights", worker, 0.4, 9, root, b.span, 3, 0, 32);
  m.work("read_weights", worker, 9, 16, root, b.span, 2, 0, 32);
  m.work("all_gather", worker, 16, 20, root, b.span, 2, 0, 64);
  m.wake(worker, 25, 25.1);
  m.handle("OpDone", worker, stage, 25.1, 25.1, 25.2, root, b.span, 2);
  m.handle("StepDone", stage, run, 25.2, 25.3, 26, root, a.span, 2);
  m.work("step", run, 0, 26, root, 0, 1, root);
  const auto t = m.build();
  auto p = critical_path_of(t, 1);
  REQUIRE(p);
  check_cover(*p);
  int64_t backward = 0, gather = 0, read = 0;
  for (const auto& s : p->segments) {
    if (s.what == "backward") backward += s.took_ns();
    if (s.what == "all_gather" && s.kind == segment_kind::transfer) gather += s.took_ns();
    if (s.what == "read_weights" && s.kind == segment_kind::file) read += s.took_ns();
  }
  CHECK(backward == doctest::Approx(ms(5)).epsilon(1e-3));
  CHECK(gather == doctest::Approx(ms(4)).epsilon(1e-3));
  CHECK(read >= ms(7));
}

TEST_CASE("critical path: norms of what lies on a drive wait for its groups") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run"), stage = m.add(head, "stage/0"),
             worker = m.add(head, "worker/0");
  const auto root = m.new_span();
  m.wake(run, -1, 0.1);
  const auto a = m.handle("RunStep", run, stage, 0, 0, 0.2, root, root, 1);
  const auto b = m.handle("RunOp", stage, worker, 0.1, 0.2, 0.3, root, a.span, 1);
  m.work("read_state", worker, 0.3, 10, root, b.span, 4, 0, 64);
  m.work("update_chunk", worker, 10, 12, root, b.span, 4);
  m.work("read_state", worker, 10, 20, root, b.span, 5, 0, 64);
  m.work("update_chunk", worker, 20, 23, root, b.span, 5);
  m.work("measure", worker, 0.3, 24, root, b.span, 1);
  m.wake(worker, 24, 24.1);
  m.handle("OpDone", worker, stage, 24.1, 24.1, 24.2, root, b.span, 2);
  m.handle("StepDone", stage, run, 24.2, 24.3, 25, root, a.span, 2);
  m.work("step", run, 0, 25, root, 0, 1, root);
  const auto t = m.build();
  auto p = critical_path_of(t, 1);
  REQUIRE(p);
  check_cover(*p);
  int64_t measured = 0, updated = 0, read = 0;
  for (const auto& s : p->segments) {
    if (s.what == "measure") measured += s.took_ns();
    if (s.what == "update_chunk") updated += s.took_ns();
    if (s.what == "read_state" && s.kind == segment_kind::file) read += s.took_ns();
  }
  CHECK(measured == doctest::Approx(ms(1)).epsilon(1e-3));  // but for what it waits for
  CHECK(updated == doctest::Approx(ms(3)).epsilon(2e-2));
  CHECK(read > ms(9));
}

TEST_CASE("critical path CP-2: holes are idle, and say so") {
  trace_maker m;
  const auto head = m.process("head", 0, 0);
  const auto run = m.add(head, "run");
  const auto root = m.new_span();
  m.work("step", run, 0, 50, root, 0, 3, root);
  const auto t = m.build();
  auto p = critical_path_of(t, 3);
  REQUIRE(p);
  check_cover(*p);
  REQUIRE(p->segments.size() == 1);
  CHECK(p->segments.front().kind == segment_kind::idle);
  CHECK(p->segments.front().what == "what nothing recorded explains");
  CHECK(path_text(t, *p, 10, 5).find("run waited for what nothing recorded explains") !=
        std::string::npos);
  CHECK_FALSE(critical_path_of(t, 4));
  CHECK(critical_path_of(t, 4).error().hint.find("3 to 3") != std::string::npos);
  CHECK(*slowest_step(t) == 3);
}

TEST_CASE("critical path CP-1: covers the step whatever is missing or wrong in the trace") {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    auto m = two_stage_step();
    for (const uint32_t process : {100u, 101u, 102u}) {
      auto& records = m.content(process).records;
      for (auto& r : records) {
        const auto rng = random() % 12;
        const bool root = r.kind == record_kind::work && r.span == r.trace;
        if (root) continue;
        if (rng == 0) r.begin_ns += static_cast<int64_t>(random() % 100'000'000) - 50'000'000;
        if (rng == 1) r.parent = records[random() % records.size()].span;
        if (rng == 2) r.span = records[random() % records.size()].parent;
        if (rng == 3)
          r.sent_ns = r.begin_ns + 50'000'000 - static_cast<int64_t>(random() % 100'000'000);
        if (rng == 6) r.mailbox_s = static_cast<float>(random() % 100) * 1e-3F;
        if (rng == 4) r.handling_s *= 50;
        if (rng == 5) r.sender = 7;
      }
      if (round % 3 == 0 && records.size() > 2)
        records.erase(records.begin() + static_cast<int64_t>(random() % (records.size() - 1)));
    }
    const auto t = m.build();
    if (t.steps().empty()) continue;
    auto p = critical_path_of(t, 7);
    REQUIRE(p);
    check_cover(*p);
    CHECK_FALSE(path_text(t, *p, 80, 5).empty());
  }
}

// The monitor between scripted partners: what it hears, whom it asks, whom it names.
#include "actors/health/monitor.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/actors/health/training_replicas.hpp"
#include "tests/actors/health/watched_cluster.hpp"

using namespace troupe;
using namespace troupe::health;
using namespace std::chrono_literals;
using troupe::test::partner;

namespace {

using troupe::health::test::monitor_epoch;
using troupe::health::test::training_replicas;
using troupe::health::test::watched_cluster;
using strings = std::vector<std::string>;

}  // namespace

TEST_CASE("MON: while counters move there is nothing to find, whatever else happens") {
  watched_cluster f;
  f.train();
  f.pass_with(100, {0, 1}, true);
  CHECK(f.names().empty());
  CHECK(f.gateway.idle());
  CHECK(f.notices().empty());
  CHECK(f.findings().step == 11);
}

TEST_CASE("MON: a job that stands still has its silent one named, and healed when it moves") {
  watched_cluster f;
  f.train();
  f.pass_with(4, {0, 1}, false);
  const auto question = f.gateway.take<fbs::ListActors>();
  f.pass_with(2, {0, 1}, false);
  CHECK(f.gateway.idle());  // MON-2
  f.answer_silent(question, 4'000'000'000);
  f.pass(500ms);
  CHECK(f.names() == strings{"frozen_process b"});
  const auto told = f.notices();
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("frozen_process b") == 0);
  f.pass_with(2, {0, 1}, true);
  CHECK(f.names().empty());
  CHECK(f.findings().raised == 1);
}

TEST_CASE("MON: a process that answers, and whose device does not, is named by its rank") {
  watched_cluster f;
  f.train();
  f.pass_with(4, {0, 1}, false);
  f.answer_silent(f.gateway.take<fbs::ListActors>(), 0);
  f.pass(500ms);
  CHECK(f.names() == strings{"stuck_device b 1"});
  f.pass_with(2, {0, 1}, true);
  CHECK(f.names().empty());
}

TEST_CASE("MON-1: who holds up all others for recovery.stuck_after_s is told to be lost, once") {
  watched_cluster f;
  f.train();
  f.pass_with(4, {0, 1}, false);
  f.answer_silent(f.gateway.take<fbs::ListActors>(), 0);
  f.pass_with(27, {0, 1}, false);
  CHECK(f.names() == strings{"stuck_device b 1"});
  CHECK(f.coordinator.take_all<fbs::Leave>().empty());
  f.pass_with(6, {0, 1}, false);
  const auto told = f.coordinator.take_all<fbs::Leave>();
  REQUIRE(told.size() == 1);
  CHECK(told[0]->node()->str() == "b");
  CHECK(told[0]->finding()->str() == "stuck_device");
  CHECK(told[0]->silent_ns() >= 33'000'000'000u);  // three until it is a finding
  CHECK(told[0]->silent_ns() <= 40'000'000'000u);
  f.pass_with(20, {0, 1}, false);
  CHECK(f.coordinator.take_all<fbs::Leave>().empty());
}

TEST_CASE("MON: what stands when a fault is decided about goes to the reporter") {
  watched_cluster f;
  f.train();
  f.pass_with(4, {0, 1}, false);
  f.answer_silent(f.gateway.take<fbs::ListActors>(), 0);
  f.pass(500ms);
  REQUIRE(f.names() == strings{"stuck_device b 1"});
  f.run_is("ending");  // its step has failed: the finding goes before anybody decides
  f.pass(1s);
  REQUIRE(f.names().empty());
  f.decide("b");
  const auto all = f.reporter.take_all<fbs::Evidence>();
  REQUIRE(all.size() == 1);
  const auto said = all[0].m.unpack();
  REQUIRE(said.incident);
  CHECK(said.incident->number == 7);
  REQUIRE(said.findings.size() == 1);
  CHECK(said.findings[0]->name == "stuck_device");
  CHECK(said.findings[0]->gone_ns > said.findings[0]->since_ns);
  CHECK(said.waits_text.find("worker/0 waits 4.00 s for worker/1") != std::string::npos);
  CHECK(said.waits_text.find("who waits for whom") == std::string::npos);  // the question itself
  CHECK(said.waits_json.find("\"wait_graph\"") != std::string::npos);
  CHECK(said.waits_dot.starts_with("digraph"));
  CHECK(said.waits_ns < said.now_ns);
  REQUIRE(said.vitals.size() == 2);
  CHECK(said.vitals[0]->node == "b");  // whose fault it is
  CHECK(said.vitals[0]->heard_ns < said.now_ns);
  REQUIRE(said.vitals[0]->vitals);
  CHECK(said.vitals[0]->vitals->ranks.size() == 1);
}

TEST_CASE("MON: of a fault that nothing showed before, what nodes said last is evidence") {
  watched_cluster f;
  f.train();
  f.decide("a");
  const auto all = f.reporter.take_all<fbs::Evidence>();
  REQUIRE(all.size() == 1);
  const auto said = all[0].m.unpack();
  CHECK(said.findings.empty());
  CHECK(said.waits_text.empty());
  CHECK(said.vitals.size() == 2);
  f.person.tell(f.target, make_msg<fbs::IncidentReport>());  // says nothing
  CHECK(f.reporter.take_all<fbs::Evidence>().empty());
}

TEST_CASE("MON-4: evidence of a large cluster is of a bounded size") {
  constexpr size_t many = 500;
  watched_cluster f(0, many);
  f.train();
  f.pass_with(4, f.everybody, false);
  f.gateway.take<fbs::ListActors>().answer<fbs::ClusterView>([](fbs::ClusterViewT& v) {
    for (size_t i = 0; i < many; ++i) {
      auto& n = *v.nodes.emplace_back(std::make_unique<fbs::ActorListT>());
      n.node = "n" + std::to_string(i);
      auto& worker = *n.actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
      worker.path = "worker/" + std::to_string(i);
      if (i == 0) continue;
      auto& wait = *worker.waits.emplace_back(std::make_unique<fbs::ActorWaitT>());
      wait.whom = "worker/" + std::to_string(i - 1);
      wait.what = "receive_activation 0";
      wait.for_ns = 4'000'000'000;
    }
  });
  f.pass(500ms);
  f.decide("n499");
  const auto all = f.reporter.take_all<fbs::Evidence>();
  REQUIRE(all.size() == 1);
  const auto said = all[0].m.unpack();
  CHECK(said.vitals.size() == most_vitals_kept);
  CHECK(said.vitals[0]->node == "n499");
  CHECK(said.vitals_left_out == many - most_vitals_kept);
  const auto graph = nlohmann::json::parse(said.waits_json);
  CHECK(graph["waits"].size() == most_waits_kept);
  REQUIRE(graph["culprits"].size() == 1);
  CHECK(graph["culprits"][0]["waiters"] == many - 1);
  CHECK(graph["culprits"][0]["chain"].size() == most_culprits_kept);
}

TEST_CASE("MON-2: an answer to a question that has no object any more names nobody") {
  watched_cluster f;
  f.train();
  f.pass_with(4, {0, 1}, false);
  const auto question = f.gateway.take<fbs::ListActors>();
  f.pass_with(1, {0, 1}, true);
  f.answer_silent(question, 4'000'000'000);
  f.pass(500ms);
  CHECK(f.names().empty());
}

TEST_CASE("MON: a gateway that does not answer is asked again, and nobody is named meanwhile") {
  watched_cluster f;
  f.train();
  f.pass_with(4, {0, 1}, false);
  f.gateway.take<fbs::ListActors>().refuse({errc::timeout, "too slow"});
  f.pass_with(6, {0, 1}, false);
  CHECK(f.names().empty());
  f.answer_silent(f.gateway.take<fbs::ListActors>(), 0);
  f.pass(500ms);
  CHECK(f.names().size() == 1);
}

TEST_CASE(
    "MON: a node without heartbeats is frozen, until it is heard, and one pause is no fault") {
  watched_cluster f;
  f.train();
  f.pass_with(1, {0}, true);
  CHECK(f.names().empty());
  f.pass_with(3, {0}, true);
  CHECK(f.names() == strings{"frozen_process b"});
  CHECK(f.gateway.idle());  // the other one moves: nobody is stuck, and b would not answer
  f.pass_with(2, {0, 1}, true);
  CHECK(f.names().empty());
  CHECK(f.gateway.take<fbs::CallActor>()->node()->str() == "b");  // MON-6
  CHECK(f.gateway.idle());
}

TEST_CASE("MON-3: a paused run stands still for good") {
  watched_cluster f;
  f.train();
  f.run_is("paused");
  f.pass_with(3600, {0, 1}, false);
  CHECK(f.names().empty());
  CHECK(f.gateway.idle());
}

TEST_CASE("MON: what a machine says is judged under the name of its place") {
  watched_cluster f;
  f.train();
  f.beat(1, monitor_epoch, [](auto& m) {
    m.disk_bytes = 1000;
    m.disk_free_bytes = 1;
  });
  f.pass(500ms);
  CHECK(f.names() == strings{"disk_full b"});
  f.beat(7);  // a place that there is not
  CHECK(f.names().size() == 1);
}

TEST_CASE(
    "MON: a checkpoint that stays away for three intervals is behind, one that comes is not") {
  watched_cluster f(10);
  f.train();
  f.run->publish([&](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).saved_step = 0; });
  for (int i = 0; i < 45; ++i) {  // 9 s of it are no finding yet
    ++f.step;
    f.run_is("training");
    f.pass_with(1, {0, 1}, true);
    if (i < 37) CHECK(f.names().empty());
  }
  CHECK(f.names() == strings{"checkpoint_behind "});
  f.run->publish([&](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).saved_step = 50; });
  f.pass_with(31, {0, 1}, true);
  CHECK(f.names().empty());
}

TEST_CASE("MON: a line of a node's log is a finding by its rule's name, told once") {
  watched_cluster f;
  f.train();
  for (int i = 0; i < 100; ++i) {
    f.beat(1, monitor_epoch, [](auto& m) {
      auto& r = *m.log_rules.emplace_back(std::make_unique<fbs::LogRuleCountT>());
      r.rule = "out_of_memory";
      r.count = r.last_ns = 3;
      r.line = "Out of memory: Killed process 7";
    });
    f.pass_with(1, {0}, true);
  }
  CHECK(f.names() == strings{"memory_pressure b"});
  CHECK(f.findings().findings[0]->rule == "out_of_memory");
  const auto told = f.notices();
  REQUIRE(told.size() == 1);
  CHECK(told[0] ==
        "memory_pressure b: a line of its logs fits the rule out_of_memory: Out of memory: Killed "
        "process 7 (3 lines, at most 0)");
}

TEST_CASE("MON-1: no node is taken for lost on the word of a log") {
  watched_cluster f(0, 2, {{"hang", "hang", finding_name::stuck_device}});
  f.train();
  f.beat(1, monitor_epoch, [](auto& m) {
    auto& r = *m.log_rules.emplace_back(std::make_unique<fbs::LogRuleCountT>());
    r.rule = "hang";
    r.count = r.last_ns = 1;
  });
  f.pass_with(100, {0, 1}, true);
  CHECK(f.names() == strings{"stuck_device b"});
  CHECK(f.coordinator.take_all<fbs::Leave>().empty());
}

TEST_CASE("MON: who computes longer than its peer is a straggler, with what makes it slow") {
  training_replicas f;
  f.starved = true;
  f.make_steps(21, 400, 400);
  CHECK(f.names() == strings{"cpu_starved b"});
  f.make_steps(31, 300, 490);
  CHECK(f.names() == strings{"cpu_starved b", "straggler b 1"});
  const auto all = f.findings().findings;
  CHECK(all[1]->text ==
        "+38 % of the step, slow_host (cpu_starved): 500 ms a step, 310 without rank 1");
  CHECK(all[1]->seen == doctest::Approx(38));
  CHECK(all[1]->wanted == 10);
  f.make_steps(45, 400, 400);
  CHECK(f.names() == strings{"cpu_starved b"});
  CHECK(f.taken_out().empty());
}

TEST_CASE("MON: steps that take longer than they did are told, and no other node is named") {
  training_replicas f;
  f.make_steps(60, 300, 300);
  f.make_steps(39, 400, 400);
  CHECK(f.names().empty());
  f.make_steps(21, 400, 400);
  CHECK(f.names() == strings{"step_regression "});
  CHECK(f.findings().findings[0]->text ==
        "steps take longer than the 310 ms that they took in this epoch at best");
  f.epoch = monitor_epoch + 1;  // another crew
  f.make_steps(35, 400, 400);
  CHECK(f.names().empty());
}

TEST_CASE("MON-3: steps of an epoch with fewer replicas are judged as those of all are") {
  training_replicas f;
  f.make_steps(40, 300, 300);
  f.replicas_are(1);
  ++f.epoch;
  f.second = false;
  f.make_steps(60, 300, 300);
  f.make_steps(60, 400, 400);
  CHECK(f.names() == strings{"step_regression "});
  f.replicas_are(2);
  ++f.epoch;
  f.second = true;
  f.make_steps(31, 300, 490);
  CHECK(f.names() == strings{"straggler b 1"});
}

TEST_CASE("MON-1: who is slow for five windows is told to be lost, where a spare is there") {
  training_replicas f(true);
  f.make_steps(45, 300, 490);
  CHECK(f.names() == strings{"straggler b 1"});
  CHECK(f.taken_out().empty());
  f.make_steps(10, 300, 490);
  CHECK(f.taken_out() == strings{"b: takes 38 % of each step (slow_host), straggler"});
  f.epoch = monitor_epoch + 1;  // another one is there: it begins anew
  f.make_steps(45, 300, 490);
  CHECK(f.taken_out().empty());
  f.spares_are(0);
  f.make_steps(120, 300, 490);
  CHECK(f.names() == strings{"straggler b 1"});
  CHECK(f.taken_out().empty());
}

TEST_CASE("MON-1: nobody is taken out for slowness unless the configuration says so") {
  training_replicas f;
  f.make_steps(300, 300, 490);
  CHECK(f.names() == strings{"straggler b 1"});
  CHECK(f.taken_out().empty());
}

// -- suspects -------------------------------------------------------------------------------------

namespace {

struct accused_cluster : watched_cluster {
  explicit accused_cluster(bool examines = true)
      : watched_cluster(0, 2, config::default_log_rules(), [&](config::job& job) {
          job.health.checkup_on_suspicion = examines;
        }) {
    train();
    reporter.take_all<fbs::Notice>();
  }
  /// The run has found that a node's rank holds wrong bits.
  void accuse(const char* node) {
    person.tell(target, make_msg<fbs::FindingTold>(context_of(monitor_epoch), [&](auto& t) {
                  t.finding = std::make_unique<fbs::FindingT>();
                  t.finding->name = "wrong_bits";
                  t.finding->node = node;
                  t.finding->rank = 1;
                  t.finding->text = "it holds other weights";
                }));
  }
  void train_on() { pass_with(1, everybody, true); }
  /// The medic says that memory is slow.
  static void answer_slow(const troupe::test::told<fbs::CallActor>& call) {
    fbs::CheckupReportT r;
    auto& c = *r.checks.emplace_back(std::make_unique<fbs::CheckResultT>());
    c.check = "memory_bandwidth";
    c.unit = "bytes/s";
    c.seen = 3.1e8;
    c.wanted = 5e8;
    c.at_least = true;
    c.wanted_from = fbs::WantedFrom::floor;
    c.verdict = fbs::CheckVerdict::bad;
    call.answer<fbs::CallAnswers>([&](auto& all) {
      auto& a = *all.answers.emplace_back(std::make_unique<fbs::CallAnswerT>());
      a.node = call->node()->str();
      a.message = encode(make_msg<fbs::CheckupReport>({}, r));
    });
  }
};

constexpr auto slow_memory = "memory_bandwidth 310.0 MB/s, wanted >= 500.0 MB/s (floor): bad";

}  // namespace

TEST_CASE("MON-6: the machine of a node that is accused is examined, once, and what that shows "
          "stands in the finding and in the evidence") {
  accused_cluster f;
  f.accuse("b");
  f.train_on();
  const auto call = f.gateway.take<fbs::CallActor>();
  CHECK(call->node()->str() == "b");
  CHECK(call->actor()->str() == "medic/*");
  const auto asked = decode({call->message()->data(), call->message()->size()});
  REQUIRE(asked);
  REQUIRE(asked->type() == message_traits<fbs::RunCheckup>::id);
  CHECK_FALSE(cast<fbs::RunCheckup>(*asked)->deep());
  CHECK(f.findings().findings.at(0)->doctor.empty());
  f.notices();
  f.answer_slow(call);
  CHECK(f.notices() == std::vector<std::string>{std::string("node b was examined (wrong_bits): ") +
                                                slow_memory});
  CHECK(f.findings().findings.at(0)->doctor == slow_memory);
  f.decide("b");
  const auto said = f.reporter.take<fbs::Evidence>().m.unpack();
  REQUIRE(said.findings.size() == 1);
  CHECK(said.findings[0]->doctor == slow_memory);
  f.accuse("b");
  f.train_on();
  CHECK(f.gateway.idle());
}

TEST_CASE("MON-6: an examination that fails is told, and what was told of it is no verdict") {
  accused_cluster f;
  f.accuse("b");
  f.train_on();
  f.notices();
  f.gateway.take<fbs::CallActor>().answer<fbs::CallAnswers>([](auto&) {});
  CHECK(f.notices() == std::vector<std::string>{
                           "node b could not be examined (wrong_bits): unknown, since it has no "
                           "medic"});
  CHECK(f.findings().findings.at(0)->doctor == "unknown, since it has no medic");
}

TEST_CASE("MON-6: nobody is examined while no steps are made, or while it is not wanted") {
  accused_cluster f;
  f.run_is("recovering");
  f.accuse("b");
  f.train_on();
  CHECK(f.gateway.idle());
  f.run_is("training");
  f.train_on();
  CHECK(f.gateway.take<fbs::CallActor>()->node()->str() == "b");
  accused_cluster g(false);
  g.accuse("b");
  g.train_on();
  CHECK(g.gateway.idle());
}

TEST_CASE("MON-6: while a checkpoint is written nobody is examined") {
  accused_cluster f;
  f.run->publish([&](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).saving = {8}; });
  f.accuse("b");
  f.train_on();
  CHECK(f.gateway.idle());
  f.run->publish([&](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).saving = {}; });
  f.train_on();
  CHECK(f.gateway.take<fbs::CallActor>()->node()->str() == "b");
}

// The monitor between scripted partners: what it hears, whom it asks, whom it names.
#include "actors/health/monitor.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/status_rows.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/job_harness.hpp"

using namespace troupe;
using namespace troupe::health;
using namespace std::chrono_literals;
using troupe::test::partner;

namespace {

constexpr uint32_t monitor_epoch = 3;

struct watched_cluster : troupe::test::actor_fixture {
  partner gateway = make_partner("gateway"), reporter = make_partner("reporter"),
          coordinator = make_partner("coordinator"), person = make_partner("person");
  std::shared_ptr<actor_stats> run = runtime().registry.add(0);
  monitor_actor target;
  uint64_t sequence = 0, step = 10;
  std::vector<uint32_t> finished;
  std::vector<size_t> everybody;

  explicit watched_cluster(
      int64_t checkpoint_every = 0, size_t nodes = 2,
      const std::vector<config::log_rule_spec>& rules = config::default_log_rules())
      : actor_fixture(monitor_epoch) {
    run->set_path("run");
    finished.resize(nodes);
    for (size_t i = 0; i < nodes; ++i) everybody.push_back(i);
    auto job = train::test::planned_job().job;
    job.cluster.nodes = static_cast<int64_t>(nodes);
    job.checkpoint.every = checkpoint_every;
    job.recovery.enabled = true;
    job.health.log_rule = rules;
    job.cluster.node = {{"a", "hosta", 1}, {"b", "hostb", 1}};
    if (nodes > 2) {
      job.cluster.node.clear();
      for (size_t i = 0; i < nodes; ++i)
        job.cluster.node.push_back({fmt::format("n{}", i), "h", 1});
    }
    target = spawn(monitor, monitor_options{job, monitor_epoch, gateway.as<gateway_actor>(),
                                            reporter.as<reporter_actor>()});
  }
  ~watched_cluster() { runtime().registry.remove(run); }

  void run_is(const char* phase) {
    run->publish(phase, 1);
    run->publish([&](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).step = step; });
  }
  void beat(size_t node, uint32_t epoch = monitor_epoch,
            std::function<void(fbs::MachineVitalsT&)> machine = {}) {
    coordinator.tell(target, make_msg<fbs::Heartbeat>(context_of(epoch), [&](auto& h) {
                       h.node_index = static_cast<uint32_t>(node);
                       h.sequence = ++sequence;
                       h.vitals = std::make_unique<fbs::VitalsT>();
                       h.vitals->node = "somebody else";  // whoever beats: its place says who it is
                       auto& r =
                           *h.vitals->ranks.emplace_back(std::make_unique<fbs::RankVitalsT>());
                       r.rank = static_cast<uint32_t>(node);
                       r.finished = node < finished.size() ? finished[node] : 0;
                       if (!machine) return;
                       h.vitals->machine = std::make_unique<fbs::MachineVitalsT>();
                       machine(*h.vitals->machine);
                     }));
  }
  /// Seconds in which these nodes beat; whether their ranks finish operations.
  void pass_with(int seconds, std::vector<size_t> beating, bool moving) {
    for (int i = 0; i < seconds; ++i) {
      for (const auto node : beating) {
        finished[node] += moving;
        beat(node);
      }
      pass(1s);
    }
  }
  /// Its first steps are behind it.
  void train() {
    run_is("training");
    pass_with(2, everybody, true);
    ++step;
    run_is("training");
    pass_with(2, everybody, true);
    REQUIRE(names().empty());
    REQUIRE(gateway.idle());
  }
  /// The run says that it is decided what is done about a fault of this node.
  void decide(const char* node) {
    person.tell(target, make_msg<fbs::IncidentReport>(context_of(monitor_epoch), [&](auto& r) {
                  r.incident = std::make_unique<fbs::IncidentT>();
                  r.incident->number = 7;
                  r.incident->node = node;
                }));
  }
  fbs::FindingsT findings() {
    const auto number = person.ask(target, make_msg<fbs::FindingsRequest>());
    const auto answer = person.answer_of<fbs::Findings>(number);
    REQUIRE(answer);
    return answer->unpack();
  }
  std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const auto& f : findings().findings)
      out.push_back(f->name + " " + f->node + (f->rank < 0 ? "" : " " + std::to_string(f->rank)));
    return out;
  }
  /// The gateway says that node b's process is silent for so long, and who waits for whom.
  static void answer_silent(const troupe::test::told<fbs::ListActors>& question,
                            int64_t silent_ns) {
    question.answer<fbs::ClusterView>([&](fbs::ClusterViewT& v) {
      for (const char* node : {"a", "b"}) {
        auto& n = *v.nodes.emplace_back(std::make_unique<fbs::ActorListT>());
        n.node = node;
        const auto rank = *node - 'a';
        auto& worker = *n.actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
        worker.path = "worker/" + std::to_string(rank);
        worker.state = rank == 0 ? "ready" : "forward";
        if (rank != 0) continue;
        auto& wait = *worker.waits.emplace_back(std::make_unique<fbs::ActorWaitT>());
        wait.whom = "worker/1";
        wait.what = "receive_activation 0";
        wait.for_ns = 4'000'000'000;
      }
      v.nodes[1]->silent_ns = silent_ns;
    });
  }
  std::vector<std::string> notices() {
    std::vector<std::string> out;
    for (const auto& n : reporter.take_all<fbs::Notice>()) out.push_back(n->text()->str());
    return out;
  }
};

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
  f.pass_with(2, {0, 1}, true);
  CHECK(f.names().empty());
  CHECK(f.gateway.idle());  // the other one moved: nobody was stuck
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

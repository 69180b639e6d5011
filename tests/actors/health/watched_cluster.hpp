// A monitor between scripted partners: nodes that beat, a run, a gateway.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/health/monitor.hpp"
#include "messages/status_rows.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/job_harness.hpp"

namespace troupe::health::test {

using namespace std::chrono_literals;
using troupe::test::partner;

inline constexpr uint32_t monitor_epoch = 3;

struct watched_cluster : troupe::test::actor_fixture {
  partner gateway = make_partner("gateway"), reporter = make_partner("reporter"),
          coordinator = make_partner("coordinator"), person = make_partner("person");
  std::shared_ptr<actor_stats> run = runtime().registry.add(0);
  monitor_actor target;
  uint64_t sequence = 0, step = 10;
  std::vector<uint32_t> finished;
  std::vector<uint16_t> rank_threads = {};  ///< by node; of those beyond nothing is told
  std::vector<size_t> everybody;

  explicit watched_cluster(
      int64_t checkpoint_every = 0, size_t nodes = 2,
      const std::vector<config::log_rule_spec>& rules = config::default_log_rules(),
      const std::function<void(config::job&)>& change = {}, host_asker ask_host = {})
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
    if (change) change(job);
    target = spawn(monitor, monitor_options{job, monitor_epoch, gateway.as<gateway_actor>(),
                                            reporter.as<reporter_actor>(), std::move(ask_host)});
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
                       h.vitals->rank_threads =
                           node < rank_threads.size() ? rank_threads[node] : uint16_t{0};
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
  /// Rank 0 has finished the step.
  void tell_step() {
    coordinator.tell(target, make_msg<fbs::StepDone>(context_of(monitor_epoch),
                                                     [&](auto& d) { d.step = step; }));
  }
  /// Its first steps are behind it.
  void train() {
    run_is("training");
    pass_with(2, everybody, true);
    ++step;
    run_is("training");
    tell_step();
    pass_with(2, everybody, true);
    REQUIRE(names().empty());
    REQUIRE(gateway.idle());
  }
  /// The run says that it is decided what is done about a fault of this node.
  void decide(const char* node, const char* finding = "") {
    person.tell(target, make_msg<fbs::IncidentReport>(context_of(monitor_epoch), [&](auto& r) {
                  r.incident = std::make_unique<fbs::IncidentT>();
                  r.incident->number = 7;
                  r.incident->node = node;
                  r.incident->finding = finding;
                }));
  }
  fbs::FindingsT findings(bool parts = false) {
    const auto number = person.ask(
        target, make_msg<fbs::FindingsRequest>({}, [&](auto& request) { request.parts = parts; }));
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
      auto& head = *v.nodes.emplace_back(std::make_unique<fbs::ActorListT>());
      head.node = "head";
      for (const char* path : {"gateway", "monitor"})
        head.actors.emplace_back(std::make_unique<fbs::ActorInfoT>())->path = path;
      auto& asks = *head.actors.back()->waits.emplace_back(std::make_unique<fbs::ActorWaitT>());
      asks.whom = "gateway";
      asks.what = "who waits for whom";
      asks.for_ns = 200'000;
    });
  }
  std::vector<std::string> notices() {
    std::vector<std::string> out;
    for (const auto& n : reporter.take_all<fbs::Notice>()) out.push_back(n->text()->str());
    return out;
  }
};

}  // namespace troupe::health::test

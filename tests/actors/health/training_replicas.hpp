// Two replicas that train under a monitor's eyes, and say how long they computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "messages/text.hpp"
#include "tests/actors/health/watched_cluster.hpp"

namespace troupe::health::test {

/// Two replicas, a rank on each node; what takes the slow one's place, and what has been.
struct training_replicas : watched_cluster {
  std::shared_ptr<actor_stats> known_coordinator = runtime().registry.add(0);
  uint32_t epoch = monitor_epoch;
  bool starved = false;
  bool second = true;    ///< rank 1 makes steps
  /// What their machines tell besides.
  std::function<void(fbs::MachineVitalsT&)> first_machine = {}, second_machine = {};
  uint32_t pace = 1024;  ///< of 1024

  explicit training_replicas(bool evicts = false, int64_t suspect_percent = 0)
      : watched_cluster(0, 2, config::default_log_rules(),
                        [evicts, suspect_percent](config::job& job) {
                          job.parallel.data = 2;
                          job.recovery.evict_slow = evicts;
                          job.predict.suspect_percent = suspect_percent;
                        }) {
    known_coordinator->set_path("coordinator");
    spares_are(1);
    train();
  }
  ~training_replicas() { runtime().registry.remove(known_coordinator); }

  void replicas_are(uint32_t count) {
    run->publish([&](fbs::StatusValuesT& v) { values_of<fbs::RunStatusT>(v).replicas = count; });
  }
  void is_saving(bool saves) {
    run->publish([&](fbs::StatusValuesT& v) {
      auto& saving = values_of<fbs::RunStatusT>(v).saving;
      saving.clear();
      if (saves) saving.push_back(step);
    });
  }
  void spares_are(uint32_t count) {
    known_coordinator->publish("training", 1);
    known_coordinator->publish(
        [&](fbs::StatusValuesT& v) { values_of<fbs::CoordinatorStatusT>(v).spares = count; });
  }
  void rank_done(uint32_t rank, double own_ms, double whole_ms) {
    person.tell(target, make_msg<fbs::StepDone>(context_of(epoch), [&](auto& d) {
                  d.step = step;
                  d.rank = rank;
                  d.pace_of_1024 = pace;
                  const auto add = [&](const char* kind, double busy, double waited) {
                    auto& part = *d.parts.emplace_back(std::make_unique<fbs::StepPartT>());
                    part.kind = kind;
                    part.busy_ms = busy;
                    part.waited_ms = waited;
                    part.work = 64;
                  };
                  add("backward", own_ms, 0);
                  add("update", 0, whole_ms - own_ms);
                  add("reduce_scatter", whole_ms - own_ms, 0);
                }));
  }
  /// Seconds of steps of half a second, in which ranks compute for so long.
  void make_steps(int seconds, double first_ms, double second_ms) {
    const auto whole = std::max(first_ms, second_ms) + 10;
    for (int i = 0; i < 2 * seconds; ++i) {
      ++step;
      run_is("training");
      for (auto& f : finished) ++f;
      beat(0, epoch, first_machine);
      beat(1, epoch, [&](auto& m) {
        m.steal_percent = starved ? 50 : 0;
        if (second_machine) second_machine(m);
      });
      rank_done(0, first_ms, whole);
      if (second) rank_done(1, second_ms, whole);
      pass(500ms);
    }
  }
  std::vector<std::string> taken_out() {
    std::vector<std::string> out;
    for (const auto& l : coordinator.take_all<fbs::Leave>())
      out.push_back(text_of(l->node()) + ": " + text_of(l->reason()) + ", " +
                    text_of(l->finding()));
    return out;
  }
};

}  // namespace troupe::health::test

// The pacer between a scripted coordinator and a scripted run, for tests.
#pragma once

#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include "actors/power/pacer.hpp"
#include "tests/actors/actor_fixture.hpp"

namespace troupe::power::test {

using troupe::test::partner;

inline constexpr uint32_t pacer_epoch = 3;

struct scripted_pacer : troupe::test::actor_fixture {
  partner coordinator = make_partner("coordinator"), run = make_partner("run");
  pacer_actor target;

  scripted_pacer() : actor_fixture(pacer_epoch) {}
  explicit scripted_pacer(double budget_w) : scripted_pacer() { start({budget_w, pacer_epoch}); }
  void start(pacer_options options) { target = spawn(pacer, std::move(options)); }

  /// Of one machine.
  void beat(double power_w, double energy_j, uint64_t age_ms = 0, double limit_w = -1,
            double process_busy = -1, double machine_busy = -1) {
    coordinator.tell(target, make_msg<fbs::Heartbeat>(context(), [&](fbs::HeartbeatT& h) {
                       h.vitals = std::make_unique<fbs::VitalsT>();
                       h.vitals->node = "node0";
                       h.vitals->power = std::make_unique<fbs::PowerVitalsT>();
                       auto& p = *h.vitals->power;
                       p.machine = "boot";
                       p.power_w = power_w;
                       p.energy_j = energy_j;
                       p.limit_w = limit_w;
                       p.process_busy = process_busy;
                       p.machine_busy = machine_busy;
                       p.source = fbs::PowerSource::modelled;
                       p.age_ms = age_ms;
                       p.interval_ms = 1000;
                     }));
  }
  void take_pace(uint64_t step, uint32_t pace_of_1024, double budget_w, uint64_t follows = 0,
                 bool paused = false, uint64_t start_offset_us = 0) {
    run.tell(target, make_msg<fbs::PaceTaken>(context(), [&](auto& t) {
               t.step = step;
               t.pace_of_1024 = pace_of_1024;
               t.budget_w = budget_w;
               t.follows = follows;
               t.paused = paused;
               t.start_offset_us = start_offset_us;
             }));
  }
  fbs::PacerStatusT status() {
    const auto number = run.ask(target, make_msg<fbs::StatusRequest>(context(), [](auto&) {}));
    const auto answer = run.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return *answer->unpack().values->pacer;
  }
};

}  // namespace troupe::power::test

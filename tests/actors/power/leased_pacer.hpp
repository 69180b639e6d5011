// The pacer under a scripted power budget, for tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/budget.hpp"
#include "tests/actors/power/scripted_pacer.hpp"
#include "tests/actors/scripted_node.hpp"

namespace troupe::power::test {

using namespace std::chrono_literals;
using cluster::test::scripted_connector;
using cluster::test::wiring;

inline constexpr uint16_t budget_port = 4242;

/// One machine that draws 20 W without steps and 100 at most, so that a cap of w watts is a pace of
/// (0.985 w - 20) / 80; a budget that grants for 10 s, 30 W of it without a lease.
struct leased_pacer : scripted_pacer {
  partner budget = make_partner("budget"), reporter = make_partner("reporter");
  std::shared_ptr<wiring> wires = std::make_shared<wiring>();
  std::vector<size_t> proved;  ///< connections that had been tried when it proved itself
  std::weak_ptr<const void> proof;
  std::optional<error> not_found;
  bool certified = false;       ///< what is found next is known by certificates
  uint64_t word = 0;            ///< to the run, the last that was looked at
  gpu::processor_seconds head;  ///< of the pacer's own process
  std::vector<std::string> journal;  ///< its lines

  explicit leased_pacer(double budget_w = 0, std::optional<error> lost = {}, bool dry_run = false)
      : not_found(std::move(lost)) {
    serve(budget);
    parent_options p;
    p.named = "auto";
    p.child = "gpt-a";
    p.incarnation = 9;
    finder_options finder{p.child, {}, {}, {}};
    finder.find = [this]() -> result<budget_parent> {
      if (not_found) return *not_found;
      if (certified) return budget_parent{"row0", "127.0.0.1", budget_port, {}};
      return budget_parent{"row0", "127.0.0.1", budget_port, tls::proof{}};
    };
    finder.prove = [this](uint16_t port, const tls::proof&) {
      CHECK(port == budget_port);
      proved.push_back(wires->tried.size());
      const auto kept = std::make_shared<const int>(0);
      proof = kept;
      return kept;
    };
    finder.connector = [made = spawn(scripted_connector, wires)](caf::actor_system&) {
      return made;
    };
    p.finder = [made = spawn(budget_finder, std::move(finder))](caf::actor_system&) {
      return made;
    };
    p.reporter = reporter.as<reporter_actor>();
    pacer_options options{budget_w, pacer_epoch, std::move(p), {}, "boot", [this] { return head; }};
    options.dry_run = dry_run;
    options.journal = [this](const std::string& line) { journal.push_back(line); };
    start(std::move(options));
    beat(20, 0, 0, 100, 0, 0);
  }
  void serve(const partner& who) { wires->there[{"127.0.0.1", budget_port}] = who.self(); }

  static void grant(const troupe::test::told<fbs::PowerReport>& asked, uint64_t epoch,
                    uint64_t sequence, int64_t cap_mw, bool shed = false, bool brake = false) {
    asked.answer<fbs::PowerGrant>([&](auto& g) {
      g.budget = "row0";
      g.lease_epoch = epoch;
      g.lease_sequence = sequence;
      g.answers_incarnation = asked->incarnation();
      g.answers_sent_ns = asked->sent_ns();
      g.cap_mw = cap_mw;
      g.ttl_ms = 10'000;
      g.shed = shed;
      g.brake = brake;
      g.static_share_mw = 30'000;
    });
  }
  /// Another job works on its machine; nothing is granted, for want of watts if that is said.
  static void tell_shared(const troupe::test::told<fbs::PowerReport>& asked, int64_t floor_mw = 0,
                          int64_t free_mw = -1) {
    asked.answer<fbs::PowerGrant>([&](auto& g) {
      g.budget = "row0";
      g.answers_incarnation = asked->incarnation();
      g.answers_sent_ns = asked->sent_ns();
      g.static_share_mw = 30'000;
      g.floor_mw = floor_mw;
      g.free_mw = free_mw;
      g.shared_machines.push_back(std::make_unique<fbs::SharedMachineT>());
      g.shared_machines.back()->machine = "boot";
      g.shared_machines.back()->children = 2;
    });
  }
  /// The report that is there, answered.
  fbs::PowerReportT answered(uint64_t epoch, uint64_t sequence, int64_t cap_mw, bool shed = false,
                             bool brake = false) {
    const auto asked = budget.take<fbs::PowerReport>();
    CHECK(budget.idle());
    grant(asked, epoch, sequence, cap_mw, shed, brake);
    return asked.m.unpack();
  }
  /// A second later it has a cap, by the second lease of epoch 1, and its run has heard of it.
  void join(int64_t cap_mw) {
    answered(1, 1, cap_mw);
    pass(1s);
    answered(1, 2, cap_mw);
    last_told();
  }
  /// Its run has made a second of step 1, at the pace of 60 W.
  void work() {
    take_pace(0, 1024, 0);
    join(60'000);
    take_pace(1, 500, 0, word);
    pass(1s);
  }
  fbs::JobPowerT last_told() {
    const auto all = run.take_all<fbs::JobPower>();
    REQUIRE(!all.empty());
    for (const auto& told : all) {
      CHECK(told->number() > word);
      word = told->number();
    }
    return all.back().m.unpack();
  }
  std::vector<std::string> warnings() {
    std::vector<std::string> out;
    for (const auto& n : reporter.take_all<fbs::Notice>()) {
      CHECK(n->level() == fbs::NoticeLevel::warning);
      out.push_back(n->text()->str());
    }
    return out;
  }
};

}  // namespace troupe::power::test

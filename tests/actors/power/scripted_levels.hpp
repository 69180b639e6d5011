// Two levels of budgets on virtual time: row0 with rack0 and gpt-c, rack0 with gpt-a and gpt-b.
//
//   scripted_levels f;
//   f.level_seconds(20);
//   CHECK(f.caps() == std::vector<int64_t>{50'000, 70'000, 30'000});
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/send.hpp>

#include "tests/actors/power/scripted_budget.hpp"
#include "tests/actors/scripted_node.hpp"

namespace troupe::test {

struct scripted_levels : scripted_budget {
  static constexpr int64_t rack_mw = 120'000, rack_static_mw = 60'000;
  static constexpr uint16_t row_port = 4242;

  std::shared_ptr<cluster::test::wiring> wires = std::make_shared<cluster::test::wiring>();
  caf::actor connector = spawn(cluster::test::scripted_connector, wires);
  std::vector<power::named_child> rack_terms = {
      {"gpt-a", {power::power_class::low, 10'000, 30'000, 70'000, 1000, 5000}},
      {"gpt-b", {power::power_class::high, 10'000, 30'000, 70'000, 1000, 5000}}};
  budget_actor rack;
  std::vector<std::string> rack_lines;  ///< of its journal
  bool is_cut = false;                  ///< the rack does not find its row
  bool row_is_up = true, rack_is_up = true;

  /// Static shares of 60 W and of 30 W, ceilings of 120 W and of 70 W; the rack of high priority.
  explicit scripted_levels(int64_t row_mw = 150'000) : scripted_budget(0, row_mw) {
    terms = {{"rack0", {power::power_class::high, 20'000, 60'000, rack_mw, 2000, 10'000}},
             {"gpt-c", {power::power_class::low, 10'000, 30'000, 70'000, 1000, 5000}}};
    begin_row(1, row_mw);
    begin_rack(1);
    for (const auto& c : rack_terms) add_child(c.name, rack);
    add_child("gpt-c");
  }

  void begin_row(uint64_t life, int64_t row_mw = 150'000) {
    begin(life, row_mw);
    serve(caf::actor_cast<caf::strong_actor_ptr>(target));
    row_is_up = true;
  }
  /// Who is found where the row is.
  void serve(const caf::strong_actor_ptr& row) { wires->there[{"127.0.0.1", row_port}] = row; }

  void begin_rack(uint64_t life) {
    auto o = options(life, rack_mw);
    o.name = "rack0";
    o.children = rack_terms;
    o.keeper = {};
    o.journal = [this](const std::string& line) { rack_lines.push_back(line); };
    power::parent_options above;
    above.named = "auto";
    above.child = o.name;
    above.incarnation = life;
    power::finder_options finder{o.name, {}, {}, {}};
    finder.find = [this]() -> result<power::budget_parent> {
      if (is_cut) return error{errc::not_found, "no power budget is served on this machine"};
      return power::budget_parent{"row0", "127.0.0.1", row_port, {}};
    };
    finder.connector = [made = connector](caf::actor_system&) { return made; };
    above.finder = [made = spawn(power::budget_finder, std::move(finder))](caf::actor_system&) {
      return made;
    };
    o.parent = std::move(above);
    rack = spawn(power::budget, o);
    proved[caf::actor_cast<caf::strong_actor_ptr>(rack)->id()] = "rack0";
    for (auto& c : children)
      if (c.to) c.to = rack;
    rack_is_up = true;
  }

  void kill_row() {
    caf::anon_send_exit(target, caf::exit_reason::kill);
    settle();
    row_is_up = false;
  }
  void kill_rack() {
    caf::anon_send_exit(rack, caf::exit_reason::kill);
    settle();
    rack_is_up = false;
  }

  /// As scripted_budget's; nobody reports to who is dead.
  void level_second() {
    std::vector<bool> spoke;
    for (auto& c : children) {
      spoke.push_back(c.speaks);
      c.speaks = c.speaks && (c.to ? rack_is_up : row_is_up);
    }
    second();
    for (size_t i = 0; i < children.size(); ++i) children[i].speaks = spoke[i];
  }
  void level_seconds(int n) {
    for (int i = 0; i < n; ++i) level_second();
  }

  fbs::PowerTreeT rack_tree() const {
    const auto answer =
        person.answer_of<fbs::PowerTree>(person.ask(rack, make<fbs::ReadPowerTree>([](auto&) {})));
    REQUIRE(answer);
    return answer->unpack();
  }
  result<msg<fbs::Ack>> set_rack(int64_t cap_mw) {
    return person.answer_of<fbs::Ack>(
        person.ask(rack, make<fbs::SetPowerBudget>([&](auto& s) { s.cap_mw = cap_mw; })));
  }
  /// Lines of the rack's journal about this.
  std::vector<nlohmann::json> rack_events(const std::string& event) const {
    std::vector<nlohmann::json> out;
    for (const auto& line : rack_lines) {
      auto said = nlohmann::json::parse(line);
      if (said.at("event") == event) out.push_back(std::move(said));
    }
    return out;
  }
};

}  // namespace troupe::test

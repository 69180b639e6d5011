// The budget actor and children that keep leases as a job's pacer does, on virtual time.
//
//   scripted_budget f;
//   f.seconds(3);  // each: children report, the tick, they hear its answers
//   CHECK(f.caps() == std::vector<int64_t>{10'000, 60'000});
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/power/budget.hpp"
#include "actors/power/budget_inputs.hpp"
#include "tests/actors/actor_fixture.hpp"

namespace troupe::test {

struct leased_child {
  partner box;
  power::lease_policy lease;
  budget_actor to = {};  ///< its parent; none: the target
  uint64_t incarnation = 1;
  int64_t wish_mw = 70'000;
  std::optional<int64_t> drawn_mw = {};
  fbs::PowerSource source = fbs::PowerSource::measured;
  std::set<std::string> machines = {};
  bool speaks = true;  ///< its reports arrive
  bool hears = true;   ///< answers to them do
  bool obeys = true;   ///< its actuator follows
  bool armed = false;  ///< it says that its work can be held within a step
  uint64_t asked = 0;  ///< by it, since the last answer; 0: nothing
  size_t asks = 0;
  uint64_t leases_told = 0;
  int64_t told_mw = -1;  ///< by the last answer with a lease, whether it arrived or not

  /// Of a grant that has come.
  void take(const fbs::PowerGrantT& g, int64_t now_ns) {
    if (g.lease_epoch == 0) return;
    ++leases_told;
    lease.hear({{g.lease_epoch, g.lease_sequence},
                {g.answers_incarnation, g.answers_sent_ns},
                g.cap_mw,
                int64_t{g.ttl_ms} * 1'000'000,
                g.shed},
               now_ns);
  }
};

/// A disk with the record of a budget.
struct scripted_keeper : power::record_keeper {
  bool answers = true;  ///< else it hangs
  std::optional<error> fails = {};
  bool lands = true;      ///< what has failed, or is under way at the end, is on the disk
  std::string text = {};  ///< on the disk
  std::vector<std::string> writes = {};
  std::optional<outcome> under_way = {};

  void keep(uint64_t number, std::string record) override {
    REQUIRE(!under_way);
    writes.push_back(std::move(record));
    under_way = outcome{number};
  }
  std::optional<outcome> ended() override {
    if (!answers || !under_way) return std::nullopt;
    if (!fails || lands) text = writes.back();
    return outcome{std::exchange(under_way, std::nullopt)->number, fails};
  }
  /// What the next life finds.
  std::string left() const { return under_way && lands ? writes.back() : text; }
  /// Of the last write.
  power::budget_record last() const {
    REQUIRE(!writes.empty());
    const auto record = power::parse_budget_record(writes.back());
    REQUIRE(record);
    return *record;
  }
};

struct scripted_budget : actor_fixture {
  static constexpr int64_t second_ns = 1'000'000'000;

  std::vector<std::string> lines;               ///< of its journal
  std::deque<std::string> inputs;               ///< of each life's policy
  std::map<caf::actor_id, std::string> proved;  ///< who is who
  partner person = make_partner("person");
  std::vector<power::named_child> terms;
  std::vector<leased_child> children;
  std::shared_ptr<scripted_keeper> keeper;  ///< of lives that begin; none: nothing is kept
  bool found_brake = false, found_pulled = false;  ///< the same
  bool pulls = false;  ///< they pull the brake by themselves, and let go one after the other
  budget_actor target;

  /// The first of low priority and the others of high; floors of 10 W, static shares of 30 W,
  /// ceilings of 70 W; leases of 9 s.
  explicit scripted_budget(size_t count = 2, int64_t budget_mw = 70'000) : actor_fixture(3) {
    for (size_t i = 0; i < count; ++i) {
      terms.push_back({"gpt-" + std::string(1, static_cast<char>('a' + i)),
                       {i == 0 ? power::power_class::low : power::power_class::high, 10'000, 30'000,
                        70'000, 1000, 5000}});
      add_child(terms[i].name);
    }
    begin(1, budget_mw);
  }

  /// Whatever a test has done: what each life's policy was given is decided again alike.
  ~scripted_budget() {
    for (const auto& text : inputs) {
      power::budget_replayer again;
      const auto same = again.take(text);
      CHECK_MESSAGE(same, (same ? std::string() : render(same.error())));
      if (const auto& first = again.found().first_difference)
        FAIL_CHECK("line " << first->line << ": " << first->expected << " where " << first->found
                           << " was decided");
    }
  }
  scripted_budget(const scripted_budget&) = delete;
  scripted_budget& operator=(const scripted_budget&) = delete;

  void add_child(const std::string& name, const budget_actor& to = {}) {
    children.push_back({make_partner(name), power::lease_policy(30'000, 1, 30'000), to});
    proved[children.back().box.self()->id()] = name;
  }

  power::budget_options options(uint64_t life, int64_t budget_mw) {
    power::budget_options out{"row0", {}, terms, budget_mw, life};
    out.rules.tick_ns = second_ns;
    out.rules.ttl_ns = 9 * second_ns;
    out.rules.row = power::rules_of(power::row_rule::none, {}, 0, second_ns);
    out.who = [this](const caf::strong_actor_ptr& sender) -> std::optional<std::string> {
      const auto it = proved.find(sender->id());
      if (it == proved.end()) return std::nullopt;
      return it->second;
    };
    out.journal = [this](const std::string& line) { lines.push_back(line); };
    out.inputs = [&kept = inputs.emplace_back()](const std::string& line) { kept += line + "\n"; };
    out.keeper = keeper;
    out.brake = found_brake;
    out.pulled = found_pulled;
    out.rules.pulls_brake = pulls;
    if (pulls) out.rules.row.release_groups = static_cast<int>(terms.size());
    out.wall_time = [] { return "noon"; };
    return out;
  }
  /// A life of the budget; one before it goes on, and nobody asks it any more.
  void begin(uint64_t life, int64_t budget_mw = 70'000) {
    target = spawn(power::budget, options(life, budget_mw));
  }

  /// A life with a disk on which an earlier one has left this.
  void begin_with(uint64_t life, const std::string& left, int64_t budget_mw = 70'000) {
    power::budget_record record;
    if (!left.empty()) {
      const auto found = power::parse_budget_record(left);
      REQUIRE(found);
      record = *found;
    }
    for (auto& c : terms) {
      const auto it = record.children_mw.find(c.name);
      c.terms.remembered_mw = it == record.children_mw.end() ? 0 : it->second;
    }
    found_brake = record.brake;
    found_pulled = record.pulled;
    keeper = std::make_shared<scripted_keeper>();
    keeper->text = left;
    begin(life, budget_mw);
  }

  uint64_t report(const partner& from, const power::power_report& r,
                  fbs::PowerSource source = fbs::PowerSource::unknown,
                  const std::set<std::string>& machines = {}, bool armed = false) {
    return report_to(target, from, r, source, machines, armed);
  }
  uint64_t report_to(const budget_actor& whom, const partner& from, const power::power_report& r,
                     fbs::PowerSource source, const std::set<std::string>& machines, bool armed) {
    return from.ask(whom, make<fbs::PowerReport>([&](fbs::PowerReportT& m) {
                      m.incarnation = r.id.incarnation;
                      m.sent_ns = r.id.sent_ns;
                      m.lease_epoch = r.order.epoch;
                      m.lease_sequence = r.order.sequence;
                      m.in_force_mw = r.in_force_mw;
                      m.drawn_mw = r.drawn_mw.value_or(-1);
                      m.source = source;
                      m.wish_mw = r.wish_mw;
                      m.pace_of_1024 = 512;
                      m.brake_armed = armed;
                      m.machines.assign(machines.begin(), machines.end());
                    }));
  }
  /// What came to a report; fails where nothing has.
  fbs::PowerGrantT grant_of(const partner& from, uint64_t request) const {
    const auto answer = from.answer_of<fbs::PowerGrant>(request);
    REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
    return answer->unpack();
  }
  errc refusal_of(const partner& from, uint64_t request) const {
    const auto answer = from.answer_of<fbs::PowerGrant>(request);
    return answer ? errc::none : answer.error().code;
  }

  void reports(leased_child& c) {
    const auto cap_mw = c.lease.tick(now_ns());
    if (c.obeys) c.lease.read_back(cap_mw);
    c.asked = 0;
    if (!c.speaks) return;
    ++c.asks;
    c.asked =
        report_to(c.to ? c.to : target, c.box, c.lease.report(now_ns(), c.drawn_mw, c.wish_mw),
                  c.source, c.machines, c.armed);
  }
  /// What its report came to.
  fbs::PowerGrantT answer_to(leased_child& c) const {
    auto grant = grant_of(c.box, c.asked);
    if (grant.lease_epoch > 0) c.told_mw = grant.cap_mw;
    return grant;
  }
  void second() {
    for (auto& c : children) reports(c);
    pass(std::chrono::seconds(1));
    for (auto& c : children) {
      if (c.asked == 0) continue;
      const auto grant = answer_to(c);
      if (c.hears) c.take(grant, now_ns());
    }
  }
  void seconds(int n) {
    for (int i = 0; i < n; ++i) second();
  }

  std::vector<int64_t> caps() const {
    std::vector<int64_t> out;
    for (const auto& c : children) out.push_back(c.lease.cap_mw());
    return out;
  }
  /// What may be drawn, whatever anybody believes.
  int64_t in_force_mw() const {
    int64_t out = 0;
    for (const auto& c : children) out += c.lease.in_force_mw();
    return out;
  }

  result<msg<fbs::PowerTree>> ask_tree(const std::string& child = "") const {
    return person.answer_of<fbs::PowerTree>(
        person.ask(target, make<fbs::ReadPowerTree>([&](auto& r) { r.child = child; })));
  }
  fbs::PowerTreeT tree() const {
    const auto answer = ask_tree();
    REQUIRE(answer);
    return answer->unpack();
  }
  result<msg<fbs::Ack>> set(int64_t cap_mw, uint64_t for_ms = 0, const std::string& name = "row0") {
    return person.answer_of<fbs::Ack>(person.ask(target, make<fbs::SetPowerBudget>([&](auto& s) {
                                                   s.budget = name;
                                                   s.cap_mw = cap_mw;
                                                   s.for_ms = for_ms;
                                                 })));
  }

  uint64_t ask_brake(bool on, const std::string& name = "row0") const {
    return person.ask(target, make<fbs::SetPowerBrake>([&](auto& s) {
                        s.budget = name;
                        s.on = on;
                      }));
  }
  result<msg<fbs::Ack>> brake(bool on, const std::string& name = "row0") const {
    return person.answer_of<fbs::Ack>(ask_brake(on, name));
  }
  /// Whether what children are answered with the next tick says that they are held.
  std::vector<bool> braked() {
    for (auto& c : children) reports(c);
    pass(std::chrono::seconds(1));
    std::vector<bool> out;
    for (auto& c : children) {
      const auto grant = answer_to(c);
      c.take(grant, now_ns());
      out.push_back(grant.brake);
    }
    return out;
  }

  /// Lines of the journal about this.
  std::vector<nlohmann::json> events(const std::string& event) const {
    std::vector<nlohmann::json> out;
    for (const auto& line : lines) {
      auto said = nlohmann::json::parse(line);
      if (said.at("event") == event) out.push_back(std::move(said));
    }
    return out;
  }
};

}  // namespace troupe::test

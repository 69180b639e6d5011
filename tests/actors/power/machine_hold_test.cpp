// A pacer that holds a machine of others' work under a scripted power budget: what is set and when,
// and what is acknowledged.
#include "actors/power/machine_hold.hpp"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget.hpp"
#include "actors/power/pacer.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/actors/scripted_node.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::cluster::test::scripted_connector;
using troupe::cluster::test::wiring;
using troupe::test::partner;

namespace {

constexpr uint16_t agents_port = 4242;
constexpr int least_pace = train::work_pace_policy::least_pace.of_1024;

/// A machine that draws 20 W idle and 60 more for its work at full speed, and a budget that grants
/// for 10 s, 30 W of it without a lease. The machine has been idle before its work begins.
struct held_rack : troupe::test::actor_fixture {
  partner budget = make_partner("budget"), meter = make_partner("meter");
  std::shared_ptr<wiring> wires = std::make_shared<wiring>();
  pacer_actor target;

  // The machine.
  double load = 0, joules = 0;
  int pace = 1024;
  std::vector<int> paces;        ///< that were set, each that differs
  std::vector<int> words;        ///< that were to be set, all
  double deaf = 1;               ///< of the work: what is at full speed where some is refused
  std::optional<error> refused;  ///< that cannot be set
  bool is_bare = false;          ///< nothing is there to be set
  std::vector<std::string> said;
  std::vector<nlohmann::json> lines;
  bool has_meter = true;

  // The budget.
  int64_t cap_mw = 0;  ///< 0: nothing is granted
  int64_t share_mw = 30'000;
  bool brake = false, is_silent = false, has_granted = false;
  uint64_t sequence = 1;
  std::vector<fbs::PowerReportT> reports;

  // Who ends it.
  bool is_to_go = false;
  int counted = 0;  ///< how often the budget said so

  explicit held_rack(bool dry_run = false, int found = 1024, std::optional<int64_t> known_mw = {})
      : actor_fixture(3), pace(found) {
    wires->there[{"127.0.0.1", agents_port}] = budget.self();
    pacer_options o;
    o.machine = "boot";
    o.control = {"cpufreq"};
    o.journal = [this](const std::string& line) { lines.push_back(nlohmann::json::parse(line)); };
    auto& p = o.parent.emplace();
    p.named = "auto";
    p.child = "rack7";
    p.incarnation = 9;
    finder_options finder{p.child, {}, {}, {}};
    finder.find = []() -> result<budget_parent> {
      return budget_parent{"row0", "127.0.0.1", agents_port, tls::proof{}};
    };
    finder.prove = [](uint16_t, const tls::proof&) { return std::make_shared<const int>(0); };
    finder.connector = [made = spawn(scripted_connector, wires)](caf::actor_system&) {
      return made;
    };
    p.finder = [made = spawn(budget_finder, std::move(finder))](caf::actor_system&) {
      return made;
    };
    auto& held = o.held.emplace();
    held.node = "rack7";
    held.meter = meter.as<meter_actor>();
    held.found = train::work_pace{found};
    held.share_mw = known_mw;
    held.is_to_go = [this] { return is_to_go; };
    held.counted = [this] { ++counted; };
    held.say = [this](const std::string& text) { said.push_back(text); };
    if (!dry_run)
      held.set = [this](train::work_pace wanted, bool& is_any_set) {
        return take(wanted, is_any_set);
      };
    target = spawn(pacer, std::move(o));
  }

  status take(train::work_pace wanted, bool& is_any_set) {
    is_any_set = !is_bare && (!refused || deaf < 1);
    const auto before = std::exchange(pace, is_any_set ? wanted.of_1024 : 1024);
    words.push_back(wanted.of_1024);
    if (refused) return *refused;
    if (before != pace) paces.push_back(pace);
    return {};
  }
  double watts() const {
    const double full = refused ? deaf : 0;
    return 20 + 60 * load * (full + (1 - full) * pace / 1024);
  }
  /// From now on, by a lease of its own.
  void grant(int64_t mw) {
    cap_mw = mw;
    ++sequence;
  }
  void answer(const troupe::test::told<fbs::PowerReport>& asked) {
    reports.push_back(asked.m.unpack());
    asked.answer<fbs::PowerGrant>([&](auto& g) {
      g.budget = "row0";
      g.lease_epoch = cap_mw > 0 ? 1 : 0;
      g.lease_sequence = has_granted ? sequence : 1;
      g.answers_incarnation = asked->incarnation();
      g.answers_sent_ns = asked->sent_ns();
      g.cap_mw = cap_mw;
      g.ttl_ms = 10'000;
      g.brake = brake;
      g.static_share_mw = share_mw;
    });
    has_granted = has_granted || cap_mw > 0;
  }
  void look() {
    const double drawn_w = watts();
    pass(500ms);
    joules += drawn_w / 2;
    for (const auto& asked : meter.take_all<fbs::ReadMeters>())
      asked.answer<fbs::MeterReadings>([&](auto& r) {
        if (!has_meter) return;
        r.at_ns = now_ns();
        r.interval_ms = 500;
        r.power_w = drawn_w;
        r.energy_j = joules;
        r.source = fbs::PowerSource::measured;
      });
    if (is_silent) return;
    for (const auto& asked : budget.take_all<fbs::PowerReport>()) answer(asked);
  }
  void seconds(int count) {
    for (int i = 0; i < 2 * count; ++i) look();
  }
  /// It has been seen idle and at work by then.
  void begin_work() {
    seconds(2);
    load = 1;
    seconds(9);
  }
  std::vector<nlohmann::json> events(const std::string& event) const {
    std::vector<nlohmann::json> out;
    for (const auto& line : lines)
      if (line["event"] == event) out.push_back(line);
    return out;
  }
};

}  // namespace

TEST_CASE("MHD-1: machine: nothing is set before watts are granted, and what it draws is known") {
  held_rack f;
  f.share_mw = 100'000;
  f.begin_work();
  CHECK(f.paces.empty());
  REQUIRE_FALSE(f.reports.empty());
  CHECK(f.reports.back().child == "rack7");
  CHECK(f.reports.back().drawn_mw == 80'000);
  CHECK(f.reports.back().wish_mw == 80'000);
  CHECK(f.reports.back().in_force_mw == 100'000);  // JLP-6
  CHECK(f.reports.back().machines == std::vector<std::string>{"boot"});
  f.grant(40'000);
  f.seconds(10);
  REQUIRE_FALSE(f.paces.empty());
  CHECK(f.paces.front() < 400);
  CHECK(f.paces.front() > least_pace);
  CHECK(f.watts() < 40);
  CHECK(f.watts() > 38);
  CHECK(f.reports.back().in_force_mw == 40'000);
  CHECK(f.reports.back().pace_of_1024 == static_cast<uint32_t>(f.pace));
  CHECK(f.reports.back().brake_armed);
  const auto set = f.events("in_force");
  REQUIRE_FALSE(set.empty());
  CHECK(set.front()["was_of_1024"] == 1024);
  CHECK(set.front()["pace_of_1024"] == f.paces.front());
  CHECK(f.said.empty());
}

TEST_CASE("PPL-6: machine: how long its setting takes until it was read back is told") {
  held_rack f;
  f.share_mw = 100'000;
  f.begin_work();
  REQUIRE_FALSE(f.reports.empty());
  CHECK(f.reports.back().actuation_ms == -1);  // nothing was set yet
  f.grant(40'000);
  f.seconds(10);
  CHECK(f.reports.back().actuation_ms == 0);  // time moves between looks alone
}

TEST_CASE("MHD-1: machine: it goes on as it was found at first, then it has its static share") {
  held_rack f;
  f.load = 1;
  f.seconds(4);
  CHECK(f.paces.empty());
  for (const int wanted : f.words) CHECK(wanted == 1024);
  f.seconds(3);
  CHECK(f.watts() < 30);
  f.seconds(30);
  CHECK(f.watts() < 30);
  CHECK(f.watts() > 27);
  CHECK(f.reports.back().in_force_mw == 30'000);
  CHECK(f.reports.back().lease_epoch == 0);
  f.grant(60'000);
  f.seconds(20);
  CHECK(f.watts() < 60);
  CHECK(f.watts() > 55);
}

TEST_CASE("MHD-1: machine: a static share that is known is held before any budget is heard") {
  held_rack f(false, 1024, 30'000);
  f.is_silent = true;
  f.load = 1;
  f.seconds(2);
  CHECK(f.watts() < 30);
  f.seconds(30);
  CHECK(f.watts() < 30);
  CHECK(f.watts() > 27);
}

TEST_CASE("MHD-1: machine: what was left in force falls to the static share without a budget") {
  held_rack f(false, 300, 30'000);
  f.is_silent = true;
  f.load = 1;
  f.seconds(4);
  CHECK(f.pace == 300);
  f.seconds(4);
  CHECK(f.watts() < 30);
  f.seconds(20);
  CHECK(f.watts() < 30);
}

TEST_CASE("MHD-6: machine: that nothing holds it any more is told, and once counted that is said") {
  for (const bool dry_run : {false, true}) {
    CAPTURE(dry_run);
    held_rack f(dry_run);
    f.begin_work();
    f.grant(60'000);
    f.seconds(8);
    CHECK(f.reports.back().in_force_mw == 60'000);
    CHECK(f.counted == 0);
    f.is_to_go = true;
    f.look();
    f.look();
    CHECK(f.counted > 0);
    CHECK(f.reports.back().in_force_mw == beyond_mw);
    f.seconds(2);
    CHECK(f.reports.back().in_force_mw == beyond_mw);  // no later one takes it back
  }
}

TEST_CASE("MHD-6: machine: who is not heard has not counted it") {
  held_rack f;
  f.begin_work();
  f.grant(60'000);
  f.seconds(8);
  f.is_silent = true;
  f.is_to_go = true;
  f.seconds(3);
  CHECK(f.counted == 0);
}

TEST_CASE("MHD-1: machine: where nothing says what it draws it stays as it was, and that is said") {
  held_rack f;
  f.has_meter = false;
  f.load = 1;
  f.grant(40'000);
  f.seconds(15);
  CHECK(f.paces.empty());
  CHECK(f.pace == 1024);
  REQUIRE(f.said.size() == 1);
  CHECK(f.said[0].starts_with("nothing says what this machine draws"));
  CHECK(f.reports.back().in_force_mw == beyond_mw);  // MHD-2
  f.has_meter = true;
  f.seconds(5);
  CHECK(f.pace < 1024);
  CHECK(f.said.size() == 1);
  CHECK(f.reports.back().in_force_mw == 40'000);
}

TEST_CASE("MHD-5: machine: a brake needs no reading of what is drawn") {
  held_rack f;
  f.has_meter = false;
  f.load = 1;
  f.grant(40'000);
  f.seconds(15);
  REQUIRE(f.pace == 1024);
  CHECK(f.reports.back().brake_armed);
  f.brake = true;
  f.seconds(3);
  CHECK(f.pace == least_pace);
  f.brake = false;
  f.seconds(3);
  CHECK(f.pace == 1024);
}

TEST_CASE("JPP-9: machine: load that comes is slowed, and one that goes gets its speed again") {
  held_rack f;
  f.seconds(2);
  f.grant(40'000);
  f.seconds(16);
  CHECK(f.pace == 1024);  // an idle machine is not slowed
  CHECK(f.paces.empty());
  f.load = 1;
  f.seconds(10);
  CHECK(f.watts() < 40);
  CHECK(f.watts() > 37);
  f.load = 0.1;
  f.seconds(20);
  CHECK(f.pace == 1024);
}

TEST_CASE("MHD-2: machine: a lesser cap is acknowledged with the pace that keeps it") {
  held_rack f;
  f.begin_work();
  f.grant(60'000);
  f.seconds(8);
  CHECK(f.reports.back().in_force_mw == 60'000);
  f.grant(30'000);
  f.seconds(3);
  CHECK(f.watts() < 30);
  CHECK(f.reports.back().lease_sequence == f.sequence);
  CHECK(f.reports.back().in_force_mw == 30'000);
}

TEST_CASE("MHD-2: machine: a dry run sets nothing, and acknowledges no lesser cap") {
  held_rack f(true);
  f.begin_work();
  f.grant(60'000);
  f.seconds(5);
  f.grant(30'000);
  f.seconds(5);
  CHECK(f.paces.empty());
  CHECK(f.reports.back().lease_sequence == f.sequence);
  CHECK(f.reports.back().in_force_mw == 60'000);
  CHECK(f.reports.back().drawn_mw == 80'000);
  CHECK(f.reports.back().pace_of_1024 == 1024);
  CHECK(f.events("in_force").empty());
  const auto decided = f.events("pace");
  REQUIRE_FALSE(decided.empty());
  CHECK(decided.back()["rule"] == "lease");
  CHECK(decided.back()["pace_of_1024"] < 300);
}

TEST_CASE("MHD-3: machine: what cannot be set is said once, and no lesser cap is acknowledged") {
  held_rack f;
  f.begin_work();
  f.grant(60'000);
  f.seconds(8);
  f.refused = error{errc::unavailable, "another job has it"};
  f.grant(30'000);
  f.seconds(5);
  CHECK(f.said == std::vector<std::string>{"another job has it"});
  CHECK(f.reports.back().in_force_mw == 60'000);
  CHECK(f.reports.back().pace_of_1024 == 1024);
  CHECK(f.events("in_force").back()["not_set"] == "another job has it");
  f.refused.reset();
  f.seconds(3);
  CHECK(f.watts() < 30);
  CHECK(f.reports.back().in_force_mw == 30'000);
  CHECK(f.said.size() == 1);
}

TEST_CASE("MHD-4: machine: where a part cannot be set the others keep the cap for it") {
  held_rack f;
  f.begin_work();
  f.grant(60'000);
  f.seconds(8);
  f.deaf = 0.125;
  f.refused = error{errc::unavailable, "another job has it"};
  f.grant(50'000);
  f.seconds(40);
  CHECK(f.watts() < 50);
  CHECK(f.watts() > 46);
  CHECK(f.said == std::vector<std::string>{"another job has it"});
  CHECK(f.reports.back().in_force_mw == 60'000);  // MHD-2
  CHECK(f.reports.back().pace_of_1024 == 1024);
}

TEST_CASE("PWR-2: machine: a lease that lapses leaves the static share, at once") {
  held_rack f;
  f.begin_work();
  f.grant(100'000);
  f.seconds(12);  // from its static share on it rises four times a look that is judged
  CHECK(f.pace == 1024);
  f.is_silent = true;
  f.seconds(12);
  CHECK(f.watts() < 30);
  CHECK(f.watts() > 26);
  REQUIRE(f.said.size() >= 2);
  CHECK(f.said[0].starts_with("the power budget row0 at 127.0.0.1:4242 is not heard: "));
  CHECK(f.said[1] ==
        "the lease of the power budget row0 has lapsed: the machine keeps to 30 W, until it is "
        "granted another");
}

TEST_CASE("MHD-2: machine: under a brake it has the least pace, and is let go to the one before") {
  held_rack f;
  f.begin_work();
  f.grant(60'000);
  f.seconds(8);
  const auto before = f.pace;
  f.brake = true;
  f.seconds(3);
  CHECK(f.pace == least_pace);
  CHECK(f.reports.back().pace_of_1024 == static_cast<uint32_t>(least_pace));
  f.brake = false;
  f.seconds(3);
  CHECK(f.pace == before);
}

TEST_CASE("PWR-5: machine: what an agent before has left in force stays until watts are granted") {
  held_rack f(false, 300);
  f.share_mw = 38'300;
  f.begin_work();
  CHECK(f.paces.empty());
  CHECK(f.pace == 300);
  CHECK(f.reports.back().drawn_mw == std::llround(1000 * f.watts()));
  CHECK(static_cast<double>(f.reports.back().wish_mw) == doctest::Approx(80'000).epsilon(0.001));
  CHECK(f.reports.back().in_force_mw == 38'300);
  CHECK(f.reports.back().pace_of_1024 == 300);
  REQUIRE_FALSE(f.events("in_force").empty());
  CHECK(f.events("in_force").front()["pace_of_1024"] == 300);
  f.grant(60'000);
  f.seconds(20);
  REQUIRE_FALSE(f.words.empty());
  for (const int wanted : f.words) CHECK(wanted <= 1024 * 40 / 60);  // by what it drew at 300
  CHECK(f.watts() < 60);
  CHECK(f.watts() > 55);
}

TEST_CASE("MHD-1: machine: what was left in force stays where nothing says what is drawn") {
  held_rack f(false, 300);
  f.has_meter = false;
  f.load = 1;
  f.grant(40'000);
  f.seconds(15);
  CHECK(f.paces.empty());
  CHECK(f.pace == 300);
}

TEST_CASE("MHD-5: machine: its brake is armed while all of it takes what is set") {
  held_rack f;
  f.seconds(3);
  CHECK(f.reports.back().brake_armed);  // also before watts are granted: thresholds wait for it
  f.load = 1;
  f.grant(60'000);
  f.seconds(8);
  CHECK(f.reports.back().brake_armed);
  f.refused = error{errc::unavailable, "another job has it"};
  f.seconds(3);
  CHECK_FALSE(f.reports.back().brake_armed);
  f.deaf = 0.5;  // a part takes it
  f.seconds(3);
  CHECK_FALSE(f.reports.back().brake_armed);
  f.refused.reset();
  f.seconds(3);
  CHECK(f.reports.back().brake_armed);
  f.brake = true;
  f.seconds(3);
  CHECK(f.pace == least_pace);
  CHECK(f.reports.back().brake_armed);
}

TEST_CASE("MHD-5: machine: a dry run arms no brake, nor does a machine that nothing holds") {
  for (const bool dry_run : {true, false}) {
    CAPTURE(dry_run);
    held_rack f(dry_run);
    f.is_bare = true;
    f.begin_work();
    f.grant(60'000);
    f.seconds(5);
    f.grant(30'000);
    f.seconds(5);
    CHECK_FALSE(f.reports.back().brake_armed);
    CHECK(f.reports.back().in_force_mw == 60'000);  // MHD-2
  }
}

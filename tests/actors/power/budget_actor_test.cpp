// The budget among scripted children: who is heard, what they are told and when, what persons set
// and read, and what its journal says.
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "actors/sim/rng.hpp"
#include "io/config/power_tree.hpp"
#include "tests/actors/power/scripted_budget.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::power;
using namespace std::chrono_literals;
using troupe::test::leased_child;
using troupe::test::scripted_budget;

namespace {

using milliwatts_of_all = std::vector<int64_t>;

/// A report of a child's first life, that follows no lease.
power_report first_report(int64_t sent_ns) {
  return {{1, sent_ns}, {}, 30'000, {}, 70'000};
}

}  // namespace

TEST_CASE("BGT-1: budget: the first lease raises nobody, the next ones use what there is") {
  scripted_budget f;
  f.second();
  CHECK(f.caps() == milliwatts_of_all{30'000, 30'000});
  CHECK(f.children[1].lease.order() == lease_order{1, 1});
  f.second();
  CHECK(f.caps() == milliwatts_of_all{10'000, 40'000});
  f.second();
  CHECK(f.caps() == milliwatts_of_all{10'000, 60'000});  // high priority first
  const auto before = f.children[1].lease.order();
  f.seconds(20);
  CHECK(f.caps() == milliwatts_of_all{10'000, 60'000});
  CHECK(f.children[1].lease.order() == before);  // renewed, and none anew
}

TEST_CASE("BIN-1: budget: what its policy is given is kept from the start, a line a tick") {
  scripted_budget f;
  f.seconds(20);
  REQUIRE(f.inputs.size() == 1);
  budget_replayer again;
  REQUIRE(again.take(f.inputs[0]));
  CHECK(again.found().budget == "row0");
  CHECK(again.found().lives == 1);
  CHECK(again.found().ticks == 20);
  CHECK(again.found().grants >= 4);
  CHECK_FALSE(again.found().first_difference);
}

TEST_CASE("BGA-1: budget: an answer bears the lease, the report that it answers and the share") {
  scripted_budget f;
  const auto& box = f.children[1].box;
  f.pass(400ms);
  const auto sent_ns = f.now_ns();
  const auto asked = f.report(box, first_report(sent_ns));
  f.pass(599ms);
  CHECK(f.refusal_of(box, asked) == errc::timeout);  // it waits for the tick
  f.pass(1ms);
  const auto grant = f.grant_of(box, asked);
  CHECK(grant.budget == "row0");
  CHECK(grant.lease_epoch == 1);
  CHECK(grant.lease_sequence == 1);
  CHECK(grant.answers_incarnation == 1);
  CHECK(grant.answers_sent_ns == sent_ns);
  CHECK(grant.cap_mw == 30'000);
  CHECK(grant.ttl_ms == 9000);
  CHECK(!grant.shed);
  CHECK(grant.static_share_mw == 30'000);
}

TEST_CASE("BGA-1: budget: of two reports of a child the older is answered without a lease") {
  scripted_budget f;
  const auto& box = f.children[0].box;
  const auto first = f.report(box, first_report(f.now_ns()));
  f.pass(300ms);
  const auto newer = first_report(f.now_ns());
  const auto waiting = f.report(box, newer);
  auto none = f.grant_of(box, first);
  CHECK(none.lease_epoch == 0);
  CHECK(none.static_share_mw == 30'000);
  CHECK(none.answers_sent_ns == newer.id.sent_ns - 300'000'000);
  const auto again = f.report(box, newer);  // it was heard: the one that waits goes on waiting
  CHECK(f.grant_of(box, again).lease_epoch == 0);
  CHECK(f.refusal_of(box, waiting) == errc::timeout);
  f.pass(700ms);
  CHECK(f.grant_of(box, waiting).lease_epoch == 1);
  CHECK(box.answered() == std::vector<uint64_t>{first, again, waiting});
}

TEST_CASE("BGA-1: budget: a report without a lease that is due is answered, too") {
  scripted_budget f;
  f.seconds(10);
  for (auto& c : f.children) c.leases_told = 0;
  f.seconds(9);
  for (const auto& c : f.children) {
    CHECK(c.leases_told == 3);  // each third of nine seconds
    CHECK(c.box.answered().size() == c.asks);
  }
}

TEST_CASE("SHM-1: budget: children are told how many of them share a machine") {
  scripted_budget f(3);
  f.children[0].machines = {"boot0", "boot1"};
  f.children[1].machines = {"boot0"};
  f.children[2].machines = {"boot2"};
  const auto answers = [&] {
    std::vector<std::map<std::string, uint32_t>> out;
    for (auto& c : f.children) f.reports(c);
    f.pass(1s);
    for (auto& c : f.children) {
      out.emplace_back();
      if (c.asked == 0) continue;
      for (const auto& m : f.answer_to(c).shared_machines) out.back()[m->machine] = m->children;
    }
    return out;
  };
  auto told = answers();
  CHECK(told[0] == std::map<std::string, uint32_t>{{"boot0", 2}});
  CHECK(told[1] == std::map<std::string, uint32_t>{{"boot0", 2}});
  CHECK(told[2].empty());
  f.children[1].speaks = false;
  f.seconds(20);
  CHECK(answers()[0] == std::map<std::string, uint32_t>{{"boot0", 2}});  // it may go on there
  f.children[1].speaks = true;
  f.children[1].machines = {"boot2"};
  answers();
  told = answers();
  CHECK(told[0].empty());
  CHECK(told[2] == std::map<std::string, uint32_t>{{"boot2", 2}});
}

TEST_CASE("PWR-1: budget: with answers lost, what may be drawn is never above the budget") {
  scripted_budget f;
  f.seconds(3);
  REQUIRE(f.caps() == milliwatts_of_all{10'000, 60'000});
  f.children[1].hears = false;
  for (int i = 0; i < 15; ++i) {
    f.second();
    CHECK(f.in_force_mw() <= 70'000);
  }
  CHECK(f.caps() ==
        milliwatts_of_all{10'000, 30'000});  // it has fallen; a renewal may be under way
  f.children[1].hears = true;
  for (int i = 0; i < 4; ++i) {
    f.second();
    CHECK(f.in_force_mw() <= 70'000);
  }
  CHECK(f.caps() == milliwatts_of_all{10'000, 60'000});
}

TEST_CASE("PWR-1: budget: a silent child keeps what is counted, and nobody is raised out of it") {
  scripted_budget f;
  f.seconds(4);
  REQUIRE(f.caps() == milliwatts_of_all{10'000, 60'000});
  f.children[1].speaks = false;
  f.seconds(300);
  CHECK(f.caps() == milliwatts_of_all{10'000, 30'000});
  const auto t = f.tree();
  CHECK(t.counted_mw == 70'000);
  CHECK(t.drawn_mw == -1);
  CHECK(t.children[1]->counted_mw == 60'000);
  CHECK(t.children[1]->heard);
  CHECK(t.children[1]->silent);
  CHECK(t.children[1]->lease_left_ms == 0);
  CHECK(!t.children[0]->silent);
  CHECK(f.events("silent").size() == 1);
  f.children[1].speaks = true;
  f.children[1].wish_mw = 10'000;
  f.seconds(4);
  CHECK(f.caps() == milliwatts_of_all{60'000, 10'000});
  CHECK(f.events("back").size() == 1);
  CHECK(f.events("silent").size() == 1);
}

TEST_CASE("PWR-1: budget: a cut counts when the child says that it is in force") {
  scripted_budget f;
  f.seconds(4);
  f.children[1].wish_mw = 10'000;
  f.children[1].obeys = false;
  f.seconds(4);
  CHECK(f.caps() == milliwatts_of_all{10'000, 10'000});
  CHECK(f.in_force_mw() == 70'000);
  CHECK(f.tree().children[1]->counted_mw == 60'000);
  f.children[1].obeys = true;
  f.second();
  CHECK(f.caps() == milliwatts_of_all{60'000, 10'000});
}

TEST_CASE("BGA-2: budget: who proves no name of a child is refused, and nothing of it counts") {
  scripted_budget f;
  const auto stranger = f.make_partner("stranger");
  CHECK(f.refusal_of(stranger, f.report(stranger, first_report(1))) == errc::permission);
  f.proved[stranger.self()->id()] = "gpt-bb";
  const auto asked = f.report(stranger, first_report(2));
  CHECK(f.refusal_of(stranger, asked) == errc::not_found);
  const auto why = stranger.answer_of<fbs::PowerGrant>(asked).error();
  for (const auto* name : {"gpt-bb", "gpt-a", "gpt-b"}) CHECK(mentions(why, name));
  CHECK(why.hint.starts_with("did you mean gpt-b?"));
  f.pass(1s);
  for (const auto& c : f.tree().children) {
    CHECK(!c->heard);
    CHECK(c->counted_mw == 30'000);
  }
  CHECK(f.events("heard").empty());
  CHECK(f.events("refused").size() == 2);
}

TEST_CASE("BJN-2: budget: strangers do not fill its journal") {
  scripted_budget f;
  const auto stranger = f.make_partner("stranger");
  for (int i = 0; i < 200; ++i) {
    f.proved[stranger.self()->id()] = "x" + std::to_string(i / 2);
    CHECK(f.refusal_of(stranger, f.report(stranger, first_report(i))) == errc::not_found);
  }
  CHECK(f.events("refused").size() == budget_journal::names_told);
  CHECK(f.events("refused")[1].at("who") == "x1");
}

TEST_CASE("BGA-2: budget: where nobody says otherwise, a key of role power is the proof") {
  scripted_budget f;
  auto options = f.options(1, 70'000);
  options.who = {};
  f.target = f.spawn(budget, options);
  const auto here = f.make_partner("gpt-a");
  CHECK(f.refusal_of(here, f.report(here, first_report(1))) == errc::permission);
  const auto process = *caf::make_node_id(1, std::string(40, 'd'));
  REQUIRE(f.runtime().peers.bind(process, {"gpt-a", tls::role::node}, 0));
  const auto far_child = f.make_partner("gpt-a", process);
  CHECK(f.refusal_of(far_child, f.report(far_child, first_report(2))) == errc::permission);
}

TEST_CASE("BGA-2: budget: a certificate is of one child, and who means another by it is refused") {
  scripted_budget f;
  auto options = f.options(1, 70'000);
  options.children[0].certificate = "a-head";
  options.children[1].certificate = "gpt-a";  // a name of another child proves nothing of it
  f.target = f.spawn(budget, options);
  const auto head = f.make_partner("head");
  const auto answer_to = [&](const std::string& proved, const std::string& meant, int64_t sent_ns) {
    f.proved[head.self()->id()] = proved;
    const auto asked = head.ask(f.target, f.make<fbs::PowerReport>([&](auto& m) {
      m.incarnation = 1;
      m.sent_ns = sent_ns;
      m.child = meant;
    }));
    f.pass(1s);
    return f.refusal_of(head, asked);
  };
  CHECK(answer_to("a-head", "gpt-b", 1) == errc::permission);
  CHECK(answer_to("a-head", "", 2) == errc::permission);
  CHECK(answer_to("gpt-b", "gpt-b", 3) == errc::not_found);
  CHECK(f.events("refused").size() == 2);  // each name once
  CHECK(f.events("refused")[0].at("who") == "a-head");
  CHECK(f.events("refused")[0].at("why").get<std::string>().find("gpt-b") != std::string::npos);
  for (const auto& c : f.tree().children) CHECK(!c->heard);
  CHECK(answer_to("gpt-a", "gpt-b", 4) == errc::none);
  CHECK(!f.tree().children[0]->heard);
  CHECK(f.tree().children[1]->heard);
  CHECK(answer_to("a-head", "gpt-a", 5) == errc::none);
  CHECK(f.tree().children[0]->heard);
}

TEST_CASE("budget: what no child of it can say is refused, and all that it can wish is no number") {
  scripted_budget f;
  const auto& box = f.children[1].box;
  const auto heard = [&](const power_report& r) {
    const auto asked = f.report(box, r);
    f.pass(1s);
    return f.refusal_of(box, asked);
  };
  auto r = first_report(1);
  r.in_force_mw = -1;
  CHECK(heard(r) == errc::bad_data);
  r = first_report(2);
  r.drawn_mw = -5;
  CHECK(heard(r) == errc::bad_data);
  r = first_report(3);
  r.wish_mw = -2;
  CHECK(heard(r) == errc::bad_data);
  r = first_report(4);
  r.order = {1, 99};  // never granted
  CHECK(heard(r) == errc::bad_data);
  std::set<std::string> machines;  // more than a budget has children
  for (size_t i = 0; i <= config::most_power_children; ++i)
    machines.insert("boot" + std::to_string(i));
  const auto of_many = f.report(box, first_report(5), fbs::PowerSource::unknown, machines);
  CHECK(f.refusal_of(box, of_many) == errc::bad_data);
  CHECK(!f.tree().children[1]->heard);
  f.children[0].wish_mw = 10'000;
  f.children[1].wish_mw = -1;
  f.seconds(4);
  CHECK(f.tree().children[1]->wish_mw == -1);
  CHECK(f.caps() == milliwatts_of_all{10'000, 60'000});
}

TEST_CASE(
    "BGT-1: budget: a later life holds what is in force, and the one before refuses who follows "
    "it") {
  scripted_budget f;
  f.seconds(4);
  REQUIRE(f.caps() == milliwatts_of_all{10'000, 60'000});
  const auto before = f.target;
  f.begin(2);
  f.children[0].wish_mw = 70'000;
  f.children[1].wish_mw = 10'000;
  f.second();
  CHECK(f.caps() == milliwatts_of_all{10'000, 60'000});
  CHECK(f.children[0].lease.order() == lease_order{2, 1});
  CHECK(!f.tree().knows);
  f.seconds(4);
  CHECK(f.tree().knows);
  CHECK(f.caps() == milliwatts_of_all{60'000, 10'000});

  f.target = before;
  const auto& box = f.children[0].box;
  const auto waits = f.report(f.children[1].box, {{9, 1}, {}, 30'000, {}, 0});
  const auto of_later = f.children[0].lease.report(f.now_ns() + 1, {}, 0);
  CHECK(f.refusal_of(box, f.report(box, of_later)) == errc::unavailable);
  CHECK(f.refusal_of(box, f.report(box, {{9, 2}, {2, 1}, 30'000, {}, 0})) == errc::unavailable);
  CHECK(f.tree().children[0]->silent);
  f.pass(1s);
  CHECK(f.grant_of(f.children[1].box, waits).lease_epoch == 1);  // the others go on
  REQUIRE(f.events("superseded").size() == 1);
  CHECK(f.events("superseded")[0].at("epoch") == 2);
  CHECK(f.set(65'000));
}

TEST_CASE(
    "BGT-7: budget: the older of two processes of a child is refused, and told of the other") {
  scripted_budget f;
  f.seconds(3);
  const auto& box = f.children[1].box;
  const auto before = f.make_partner("process before");
  f.proved[before.self()->id()] = "gpt-b";
  auto& lease = f.children[1].lease;
  lease = lease_policy(30'000, 5, 0);
  f.second();
  for (int i = 0; i < 2; ++i) {
    const auto refused = before.answer_of<fbs::PowerGrant>(
        f.report(before, {{1, f.now_ns() + 1}, {1, 3}, 60'000, {}, 70'000}));
    REQUIRE(!refused);
    CHECK(refused.error() == process_superseded("gpt-b", 5, 1, "row0"));
  }
  CHECK(f.events("refused").size() == 1);
  CHECK(f.tree().children[1]->counted_mw == 60'000);
  f.seconds(11);
  CHECK(lease.cap_mw() == 60'000);
  CHECK(box.answered().size() == f.children[1].asks);  // the other goes on
}

TEST_CASE("BGA-3: budget: what a person sets is divided, and for a time only where one is named") {
  scripted_budget f;
  f.seconds(4);
  auto answer = f.set(65'500, 2 * 3'600'000);
  REQUIRE(answer);
  CHECK((*answer)->text()->str() == "row0 has 65.5 W from now on, for 2h; it was 70 W");
  f.seconds(4);
  CHECK(f.caps() == milliwatts_of_all{10'000, 55'500});
  CHECK(f.tree().cap_mw == 65'500);
  f.pass(2h);
  CHECK(f.tree().cap_mw == 70'000);

  REQUIRE(f.set(65'000, 90'000, ""));  // a later one takes its place
  answer = f.set(62'000);
  REQUIRE(answer);
  CHECK((*answer)->text()->str() == "row0 has 62 W from now on; it was 65 W");
  f.pass(2h);
  CHECK(f.tree().cap_mw == 62'000);
  REQUIRE(f.set(66'000, 1500));
  f.pass(1s);
  CHECK(f.tree().cap_mw == 66'000);
  f.pass(500ms);
  CHECK(f.tree().cap_mw == 62'000);  // what was set for good

  const auto all = f.events("budget");
  REQUIRE(all.size() == 6);
  CHECK(all[0].at("for_s") == 7200);
  CHECK(all[1].at("budget_w") == 70);
  CHECK(all[1].contains("why"));
  CHECK(!all[3].contains("for_s"));
  CHECK(all[5].at("budget_w") == 62);
}

TEST_CASE("BGA-3: budget: less than static shares, no watts, a wrong name or time are refused") {
  scripted_budget f;
  const auto less = f.set(59'999);
  REQUIRE(!less);
  CHECK(less.error() == below_static_shares("row0", 59.999, 60, "gpt-a 30 W + gpt-b 30 W"));
  CHECK(f.set(60'000));
  CHECK(f.set(70'000, 0, "row1").error().code == errc::not_found);
  CHECK(f.set(0).error().code == errc::bad_data);
  CHECK(f.set(-5).error().code == errc::bad_data);
  CHECK(f.set(70'000, uint64_t{367} * 86'400'000).error().code == errc::bad_data);
  CHECK(f.set(2 * beyond_mw).error().code == errc::bad_config);
  CHECK(f.tree().cap_mw == 60'000);
  CHECK(f.events("budget").size() == 1);
}

TEST_CASE("budget: its tree says what each child has, says and may draw") {
  scripted_budget f;
  auto before = f.tree();
  CHECK(before.children[0]->granted_mw == -1);
  CHECK(before.children[0]->in_force_mw == -1);
  CHECK(before.children[0]->lease_age_ms == -1);
  CHECK(before.children[0]->silent);
  CHECK(!before.knows);
  f.children[0].drawn_mw = 9500;
  f.children[1].drawn_mw = 29'000;
  f.children[1].source = fbs::PowerSource::modelled;
  f.seconds(4);
  const auto t = f.tree();
  CHECK(t.name == "row0");
  CHECK(t.mode == "shares");
  CHECK(t.cap_mw == 70'000);
  CHECK(t.drawn_mw == 38'500);
  CHECK(t.source == fbs::PowerSource::modelled);
  CHECK(t.counted_mw == 70'000);
  CHECK(t.knows);
  CHECK(!t.short_of_floors);
  CHECK(t.epoch == 1);
  REQUIRE(t.children.size() == 2);
  const auto& b = *t.children[1];
  CHECK(b.name == "gpt-b");
  CHECK(b.priority == "high");
  CHECK(t.children[0]->priority == "low");
  CHECK(b.heard);
  CHECK(!b.silent);
  CHECK(!b.unruly);
  CHECK(!b.shed);
  CHECK(b.granted_mw == 60'000);
  CHECK(b.in_force_mw == 60'000);
  CHECK(b.drawn_mw == 29'000);
  CHECK(b.source == fbs::PowerSource::modelled);
  CHECK(t.children[0]->source == fbs::PowerSource::measured);
  CHECK(b.wish_mw == 70'000);
  CHECK(b.pace_of_1024 == 512);
  CHECK(b.floor_mw == 10'000);
  CHECK(b.static_share_mw == 30'000);
  CHECK(b.ceiling_mw == 70'000);
  CHECK(b.lease_left_ms == 7000);  // nine since the report of two seconds
  CHECK(b.lease_age_ms == 2000);
  CHECK(b.heard_ago_ms == 1000);

  const auto one = f.ask_tree("gpt-b");
  REQUIRE(one);
  REQUIRE(one->unpack().children.size() == 1);
  CHECK(one->unpack().children[0]->name == "gpt-b");
  const auto wrong = f.ask_tree("gpt-bb");
  REQUIRE(!wrong);
  CHECK(wrong.error().code == errc::not_found);
  CHECK(wrong.error().hint.starts_with("did you mean gpt-b?"));
}

TEST_CASE("budget: who wants to see its tree again and again is shown it each five seconds") {
  std::vector<fbs::PowerTreeT> shown;
  scripted_budget f;
  auto options = f.options(1, 70'000);
  options.shown = [&](fbs::PowerTreeT t) { shown.push_back(std::move(t)); };
  f.target = f.spawn(budget, options);
  f.seconds(5);
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].name == "row0");
  CHECK(shown[0].cap_mw == 70'000);
  REQUIRE(shown[0].children.size() == 2);
  CHECK(shown[0].children[1]->granted_mw == 30'000);
  f.seconds(6);
  REQUIRE(shown.size() == 3);  // of the first tick, the sixth and the eleventh
  CHECK(shown[2].children[1]->granted_mw == 60'000);
}

TEST_CASE("budget: its status says what it has, what is counted and who is heard") {
  scripted_budget f;
  f.children[0].speaks = false;
  f.seconds(2);
  const auto asked = f.person.ask(f.target, f.make<fbs::StatusRequest>([](auto&) {}));
  const auto answer = f.person.answer_of<fbs::Status>(asked);
  REQUIRE(answer);
  const auto all = answer->unpack();
  CHECK(all.actor == "budget");
  REQUIRE(all.values->budget);
  CHECK(all.values->budget->budget_w == 70);
  CHECK(all.values->budget->power_w == -1);
  CHECK(all.values->budget->counted_w == 60);
  CHECK(all.values->budget->children == 2);
  CHECK(all.values->budget->heard == 1);
  CHECK(all.values->budget->epoch == 1);
}

TEST_CASE("BJN-1: budget: its journal says what changes, and nothing twice") {
  scripted_budget f;
  REQUIRE(f.lines.size() == 1);
  CHECK(f.events("begins")[0].at("budget_w") == 70);
  CHECK(f.events("begins")[0].at("children") == nlohmann::json{"gpt-a", "gpt-b"});
  f.seconds(5);
  CHECK(f.events("heard").size() == 2);
  const auto grants = f.events("grant");
  REQUIRE(grants.size() == 5);  // the first two, then 10 and 40, then 60
  CHECK(grants[0].at("was_w") == nullptr);
  const auto& last = grants[4];
  CHECK(last.at("child") == "gpt-b");
  CHECK(last.at("cap_w") == 60);
  CHECK(last.at("was_w") == 40);
  CHECK(last.at("in_force_w") == 40);
  CHECK(last.at("drawn_w") == nullptr);
  CHECK(last.at("wish_w") == 70);
  CHECK(last.at("epoch") == 1);
  CHECK(last.at("sequence") == 3);
  const auto before = f.lines.size();
  f.seconds(60);
  CHECK(f.lines.size() == before);
}

TEST_CASE("PWR-1: budget: who draws above its cap is named, and what it takes is cut from others") {
  scripted_budget f;
  f.seconds(4);
  f.children[1].drawn_mw = 69'000;
  f.seconds(2);
  CHECK(!f.tree().children[1]->unruly);
  CHECK(f.tree().children[1]->counted_mw == 60'000);
  f.seconds(4);
  CHECK(f.tree().children[1]->unruly);
  CHECK(f.tree().children[1]->counted_mw == 69'000);
  CHECK(f.tree().short_of_floors);
  CHECK(f.tree().children[0]->shed);
  CHECK(f.children[0].lease.is_shed());
  CHECK(f.caps() == milliwatts_of_all{1000, 30'000});
  CHECK(f.events("unruly").size() == 1);
  CHECK(f.events("short_of_floors").size() == 1);
  f.children[1].drawn_mw = 20'000;
  f.seconds(10);
  CHECK(f.events("unruly_ends").size() == 1);
  CHECK(f.events("unruly").size() == 1);
  CHECK(f.events("short_of_floors_ends").size() == 1);
  CHECK(f.caps() == milliwatts_of_all{10'000, 60'000});
}

TEST_CASE("budget: where more is drawn than it has, its journal says that a brake is wanted") {
  scripted_budget f;
  f.seconds(4);
  f.children[0].drawn_mw = 10'000;
  f.children[1].drawn_mw = 75'000;
  f.seconds(5);  // the others are cut for it, and what they had is waited for
  CHECK(f.events("brake_wanted").empty());
  f.seconds(20);  // which goes on
  REQUIRE(f.events("brake_wanted").size() == 1);
  CHECK(f.events("brake_wanted")[0].at("drawn_w") == 85);
  CHECK(f.events("brake_wanted")[0].at("budget_w") == 70);
}

namespace {

/// Three children through the actor: demand, silence, answers that are lost or come late, reports
/// that come twice, restarts, budgets that change.
struct budget_walk : scripted_budget {
  troupe::sim::rng chance;
  int64_t bound_mw = 120'000;  ///< what was in force of a budget that was cut
  std::vector<std::pair<size_t, fbs::PowerGrantT>> late = {};

  explicit budget_walk(uint64_t seed)
      : scripted_budget(3, 120'000), chance(troupe::sim::mix(seed)) {}

  void disturb(leased_child& c) {
    c.wish_mw = chance.chance(0.3) ? chance.between(0, 70'000) : c.wish_mw;
    if (chance.chance(0.1)) c.speaks = !c.speaks;
    if (chance.chance(0.2)) c.hears = !c.hears;
    if (chance.chance(0.3)) c.obeys = !c.obeys;
    if (!chance.chance(0.03)) return;
    c.lease = lease_policy(30'000, ++c.incarnation, c.lease.in_force_mw());
  }
  void step() {
    for (auto& c : children) {
      disturb(c);
      reports(c);
      if (c.asked == 0 || !chance.chance(0.1)) continue;
      ++c.asks;  // the same once more: the first goes on waiting
      report(c.box, c.lease.report(now_ns(), c.drawn_mw, c.wish_mw), c.source);
    }
    if (chance.chance(0.1)) {
      const auto to_mw = chance.between(80'000, 160'000);
      const auto may = set(to_mw, static_cast<uint64_t>(chance.between(0, 20'000)));
      CHECK(static_cast<bool>(may) == (to_mw >= 90'000));  // static shares of three
    }
    pass(1s);
    for (auto& [child, grant] : std::exchange(late, {})) {
      if (chance.chance(0.5))
        children[child].take(grant, now_ns());
      else
        late.emplace_back(child, grant);
    }
    for (size_t i = 0; i < children.size(); ++i) {
      auto& c = children[i];
      if (c.asked == 0) continue;
      auto grant = answer_to(c);
      if (c.hears)
        c.take(grant, now_ns());
      else if (chance.chance(0.5))
        late.emplace_back(i, std::move(grant));
    }
  }
  void judge() {
    const auto t = tree();
    if (t.knows) bound_mw = std::min(bound_mw, t.counted_mw);
    bound_mw = std::max(bound_mw, t.cap_mw);
    CHECK(in_force_mw() <= bound_mw);
    for (size_t i = 0; i < children.size(); ++i) {
      CHECK(children[i].box.answered().size() == children[i].asks);
      CHECK(t.children[i]->granted_mw == children[i].told_mw);
      if (t.knows) CHECK(t.children[i]->counted_mw >= children[i].lease.in_force_mw());
    }
  }
  /// From now on nothing fails and everybody wishes for all there is.
  void calm() {
    if (keeper) keeper->answers = true;
    if (keeper) keeper->fails.reset();
    for (auto& c : children) {
      c.wish_mw = 70'000;
      c.speaks = c.hears = c.obeys = true;
    }
    late.clear();
    REQUIRE(set(160'000));
  }
};

}  // namespace

TEST_CASE("PWR-1 and BGA-1: budget: random walks keep the budget and answer each report once") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    budget_walk walk(seed);
    for (int i = 0; i < 60; ++i) {
      walk.step();
      walk.judge();
    }
    walk.calm();
    for (int i = 0; i < 40; ++i) {
      walk.second();
      walk.judge();
    }
    CHECK(walk.in_force_mw() > 159'900);  // what is there is used
  }
}

namespace {

/// The same, of a budget that ends and starts again, with a disk that takes long, or fails.
struct budget_lives : budget_walk {
  uint64_t life = 1;

  explicit budget_lives(uint64_t seed) : budget_walk(seed) { begin_with(life, "", 120'000); }

  void live() {
    keeper->answers = chance.chance(0.6);
    keeper->lands = chance.chance(0.5);
    keeper->fails = chance.chance(0.2) ? std::optional(error(errc::io, "no space")) : std::nullopt;
    step();
    judge();
    if (!chance.chance(0.05)) return;
    for (auto& c : children) c.told_mw = -1;  // by this life
    begin_with(++life, keeper->left(), 120'000);
  }
};

}  // namespace

TEST_CASE("PWR-1: budget: random walks over several lives keep the budget") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    budget_lives walk(seed);
    for (int i = 0; i < 80; ++i) walk.live();
    walk.calm();
    for (int i = 0; i < 40; ++i) {
      walk.second();
      walk.judge();
    }
    CHECK(walk.in_force_mw() > 159'900);
  }
}

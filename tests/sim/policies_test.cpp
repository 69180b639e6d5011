// The pure parts of a simulation: what is due, what arrives, what a crash takes.
#include <array>
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "actors/sim/blame_watch.hpp"
#include "actors/sim/event_queue.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/invariants.hpp"
#include "actors/sim/kept_checkpoints.hpp"
#include "actors/sim/link_model.hpp"
#include "actors/sim/power_model.hpp"

using namespace troupe::sim;

TEST_CASE("event_queue: by time, then by insertion (EVQ-1)") {
  event_queue<int> q;
  q.add(5, 1);
  q.add(3, 2);
  q.add(5, 3);
  q.add(3, 4);
  std::vector<int> order;
  while (!q.empty()) order.push_back(q.pop().second);
  CHECK(order == std::vector<int>{2, 4, 1, 3});
}

TEST_CASE("event_queue: cancelled entries never come, however many there are (EVQ-2)") {
  event_queue<int> q;
  std::vector<event_queue<int>::ticket> tickets;
  for (int i = 0; i < 20'000; ++i) tickets.push_back(q.add(i, i));
  for (int i = 0; i < 20'000; ++i)
    if (i % 100 != 0) CHECK(q.cancel(tickets[static_cast<size_t>(i)]));
  CHECK(!q.cancel(tickets[1]));
  CHECK(q.size() == 200);
  int expected = 0;
  while (!q.empty()) {
    CHECK(q.pop().second == expected);
    expected += 100;
  }
  CHECK(!q.cancel(tickets[0]));
}

TEST_CASE("links: a link keeps its order, others overtake it (SLK-1, SLK-2)") {
  link_model links({1000, 100'000, 2.0}, 8, rng(1));
  int64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto a = links.send(0, 1, i * 10);
    REQUIRE(a.what == link_model::fate::arrives);
    CHECK(a.at_ns > last);
    last = a.at_ns;
  }
  std::set<int64_t> first;
  for (int n = 1; n < 8; ++n) first.insert(links.send(n, 0, 0).at_ns / 1000);
  CHECK(first.size() > 3);
}

TEST_CASE("links: a cut makes wait, a broken link carries nothing, a new process has new links") {
  link_model links({}, 3, rng(1));
  links.partition({0, 1, 0});
  CHECK(links.send(0, 1, 0).what == link_model::fate::waits);
  CHECK(links.send(0, 2, 0).what == link_model::fate::arrives);
  links.break_link(1, 0);
  links.heal();
  CHECK(links.send(0, 1, 0).what == link_model::fate::lost);
  CHECK(links.broken(0, 1));
  links.renew(1);
  CHECK(links.send(0, 1, 0).what == link_model::fate::arrives);
}

TEST_CASE("links: losses come in about the share that was asked for") {
  link_model links({}, 2, rng(5));
  links.lose(0.25);
  int lost = 0;
  for (int i = 0; i < 4000; ++i) lost += links.send(0, 1, i).what == link_model::fate::lost;
  CHECK(lost > 800);
  CHECK(lost < 1200);
}

TEST_CASE("faults: the same seed draws the same, in order of time") {
  rng a(9), b(9);
  const auto one = draw_faults(a, all_faults(), 50, 1'000'000),
             two = draw_faults(b, all_faults(), 50, 1'000'000);
  REQUIRE(one.size() == 50);
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].random == two[i].random);
    CHECK(one[i].at_ns < 1'000'000);
    if (i > 0) CHECK(one[i].at_ns >= one[i - 1].at_ns);
  }
}

TEST_CASE("invariants: each is noticed") {
  launch_report good;
  good.target_steps = 2;
  good.steps = {1, 2};
  good.epochs = {2, 2};
  good.saved_before = {0, 0};
  good.ends = {{0, "", "step-00000002"}};
  good.checkpoints = {2};
  CHECK(!judge(good));
  auto no_end = good;
  no_end.ends.clear();
  CHECK(judge(no_end));
  no_end.head_lost = true;
  CHECK(!judge(no_end));
  auto twice = good;
  twice.ends.push_back(good.ends.front());
  CHECK(judge(twice));
  auto gap = good;
  gap.steps = {1, 3};
  CHECK(judge(gap));
  auto again = good;
  again.steps = {1, 1, 2};
  again.epochs = {2, 2, 2};
  again.saved_before = {0, 0, 0};
  CHECK(judge(again));
  again.epochs = {2, 3, 3};
  CHECK(!judge(again));
  again.saved_before = {0, 1, 1};  // and gone on from an older one
  CHECK(judge(again));
  auto leap = again;
  leap.steps = {1, 3, 4};
  CHECK(judge(leap));
  auto early = good;
  early.steps = {1};
  CHECK(judge(early));
  auto lost = good;
  lost.checkpoints.clear();
  CHECK(judge(lost));
  auto promised = good;
  promised.saved_step = 1;
  CHECK(judge(promised));
  promised.keeps_some = true;  // and gave it up for the newer one
  CHECK(!judge(promised));
  promised.keeps_some = false;
  promised.checkpoints = {1, 2};
  CHECK(!judge(promised));
  auto late = good;
  late.spoke_after_end = true;
  CHECK(judge(late));
  auto failed = good;
  failed.ends = {{4, "a node is gone", ""}};
  CHECK(judge(failed));
  failed.worst = harm::stops;
  CHECK(judge(failed));
  failed.worst = harm::fatal;
  CHECK(!judge(failed));
}

TEST_CASE("draws: a reading is the mean of what was done since the last (DRW-1)") {
  constexpr int64_t second = 1'000'000'000;
  power_model_options o;
  o.noise = 0;
  power_model d(o, rng(1));
  CHECK(d.read(second).power_w == o.idle_w);
  d.works(second, second + second / 4, 500);
  d.works(second + second / 2, 3 * second, 300);  // goes on behind the next reading
  const auto first = d.read(2 * second);
  CHECK(first.power_w == doctest::Approx(0.25 * 500 + 0.25 * o.idle_w + 0.5 * 300));
  CHECK(first.busy_percent == doctest::Approx(75));
  const auto next = d.read(4 * second);
  CHECK(next.power_w == doctest::Approx(0.5 * 300 + 0.5 * o.idle_w));
  CHECK(next.busy_percent == doctest::Approx(50));
  d.works(4 * second, 100 * second, 600);
  d.stops(5 * second);
  CHECK(d.read(6 * second).power_w == doctest::Approx(0.5 * 600 + 0.5 * o.idle_w));
  CHECK(d.read(7 * second).power_w == o.idle_w);
  CHECK(d.read(7 * second).power_w == o.idle_w);  // of no time at all
}

TEST_CASE("draws: heat follows power, late") {
  constexpr int64_t second = 1'000'000'000;
  power_model_options o;
  power_model d(o, rng(1));
  const auto cold = d.read(second).temperature_c;
  d.works(second, 10'000 * second, 600);
  const auto warming = d.read(2 * second).temperature_c;
  CHECK(warming > cold);
  CHECK(warming < cold + 5);
  double last = 0;
  for (int s = 3; s < 300; ++s) last = d.read(s * second).temperature_c;
  CHECK(last == doctest::Approx(o.room_c + o.c_per_w * 600).epsilon(0.01));
}

TEST_CASE("draws: the same seed reads the same, within the noise (DRW-2)") {
  power_model_options o;
  power_model a(o, rng(5)), b(o, rng(5)), c(o, rng(6));
  bool differ = false;
  for (int64_t at = 1; at < 100; ++at) {
    for (auto* d : {&a, &b, &c}) d->works(at * 1000, at * 1000 + 500, 400);
    const double mean = at == 1 ? o.idle_w : 0.5 * 400 + 0.5 * o.idle_w;
    const auto x = a.read(at * 1000).power_w, y = b.read(at * 1000).power_w;
    CHECK(x == y);
    CHECK(std::abs(x - mean) <= o.noise * mean * 1.0001);
    differ = differ || x != c.read(at * 1000).power_w;
  }
  CHECK(differ);
}

namespace {

namespace cp = troupe::io::checkpoint;

cp::catalog_entry entry_of(const std::string& name, const cp::origin& launch, uint64_t step) {
  cp::catalog_entry e;
  e.path = name;
  e.name = *cp::parse_folder_name(e.path.filename().string());
  e.head.emplace();
  e.head->step = step;
  e.head->epoch = launch.launch;
  e.head->line = launch.at(step);
  return e;
}

cp::catalog_entry entry_of(const cp::origin& launch, uint64_t step) {
  return entry_of(cp::complete_name(step), launch, step);
}

struct two_tiers {
  std::array<tier_listing, 2> both{tier_listing{{}, {1, 0, 0}}, tier_listing{}};
  kept_checkpoints facts;

  void put(size_t tier, const cp::origin& launch, uint64_t step) {
    both[tier].all.push_back(entry_of(launch, step));
  }
  bool lacks() { return facts.missing(both).has_value(); }
};

}  // namespace

TEST_CASE("KPT-1: what was told goes only for newer ones of its own line") {
  two_tiers t;
  auto& there = t.both[0].all;
  const cp::origin first{1, {}, {}}, anew{2, {}, {}};
  for (const uint64_t step : {10, 20}) {
    t.put(0, first, step);
    t.facts.told(first, step);
  }
  CHECK_FALSE(t.lacks());
  there.erase(there.begin());  // by a rule that keeps one
  CHECK_FALSE(t.lacks());
  there = {entry_of(cp::aside_name(20, 1), first, 20)};
  t.put(0, anew, 5);
  t.facts.told(anew, 5);
  CHECK_FALSE(t.lacks());
  there.erase(there.begin());
  CHECK(t.lacks());  // what another line has does not stand for it
}

TEST_CASE("KPT-1, KPT-2: each tier keeps what has come to it, and one must have it") {
  const cp::origin launch{1, {}, {}};
  two_tiers t;
  t.facts.told(launch, 10);
  CHECK(t.lacks());
  t.put(1, launch, 10);
  CHECK_FALSE(t.lacks());
  t.put(0, launch, 10);
  CHECK_FALSE(t.lacks());
  auto without = t;
  without.both[1].all.clear();
  CHECK(without.lacks());  // though the first tier has it
  t.facts.taken_away(1);
  t.both[1].all.clear();
  CHECK_FALSE(t.lacks());
  t.both[0].all = {entry_of(launch, 20)};
  CHECK_FALSE(t.lacks());
}

TEST_CASE("KPT-1: what cannot be read is not there") {
  const cp::origin launch{1, {}, {}};
  two_tiers t;
  t.put(0, launch, 10);
  t.facts.told(launch, 10);
  CHECK_FALSE(t.lacks());
  t.both[0].all[0].head.reset();
  CHECK(t.lacks());
}

TEST_CASE(
    "tier_listing: a start can take what is left on the way, and nothing that was set aside") {
  const cp::origin launch{1, {}, {}};
  two_tiers t;
  for (const uint64_t step : {10, 20}) {
    t.put(0, launch, step);
    t.facts.told(launch, step);
  }
  const auto startable = [&](uint64_t head) {
    return t.facts.startable(launch.at(head), t.both[0].all);
  };
  CHECK(startable(30) == launch.at(20));
  CHECK(startable(15) == launch.at(10));
  auto& first = t.both[0].all;
  first = {entry_of(launch, 10), entry_of(cp::aside_name(20, 1), launch, 20)};
  CHECK(startable(30) == launch.at(10));
  t.put(0, launch, 20);  // anew, in the folder in which it was set aside
  CHECK(startable(30) == launch.at(20));
  first.pop_back();
  auto both = first;
  both.push_back(entry_of("/second/" + cp::complete_name(20), launch, 20));
  CHECK(t.facts.startable(launch.at(30), both) == launch.at(10));
}

// -- blame ----------------------------------------------------------------------------------------

namespace {

troupe::fbs::IncidentT incident_of(const char* node, uint64_t number, uint32_t from, uint32_t to) {
  troupe::fbs::IncidentT out;
  out.finding = "dead_process";
  out.node = node;
  out.number = number;
  out.epoch_from = from;
  out.epoch_to = to;
  return out;
}

}  // namespace

TEST_CASE("BLM-1 BLM-2: whom no fault touched is neither named nor evicted") {
  blame_watch w;
  w.touched("node1");
  const std::string evicted =
      "node node2 was lost twice within an hour: it is evicted until a person says `admit node2`";
  CHECK_FALSE(w.judge({{incident_of("node1", 1, 1, 2), incident_of("", 2, 2, 3)}}, {}));
  CHECK(w.judge({{incident_of("node2", 1, 1, 2)}}, {}));
  CHECK(w.judge({}, {{"spare node4 joined", evicted}}));
  w.touched("node2");
  CHECK_FALSE(w.judge({{incident_of("node2", 1, 1, 2)}}, {{evicted}}));
  blame_watch any;
  any.touched_all();
  CHECK_FALSE(any.judge({{incident_of("node3", 1, 1, 2)}}, {{evicted}}));
}

TEST_CASE("BLM-3: incidents follow one another") {
  const blame_watch w;
  CHECK_FALSE(w.judge({{incident_of("", 4, 2, 3), incident_of("", 5, 3, 5)}}, {}));
  CHECK(w.judge({{incident_of("", 4, 2, 3), incident_of("", 6, 3, 5)}}, {}));
  CHECK(w.judge({{incident_of("", 4, 2, 4), incident_of("", 5, 3, 5)}}, {}));
}

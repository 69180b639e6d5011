// Jobs under one budget shifted against each other: whom, by how much, when, and what their sum
// comes to; against jobs that beat, drift, restart and lose answers.
#include "actors/power/phase_policy.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/step_phase_policy.hpp"
#include "actors/power/swings.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t phase_ms = 1'000'000, phase_s = 1'000 * phase_ms;

/// A job that draws 1 W more while it works, the first `works` of each step.
struct beating_job {
  int64_t period_ns = phase_s;
  double works = 0.6;
  int64_t began_ns = 0, late_ns = 0;  ///< of its step, and by how much that is held back
  uint64_t step = 0;
  int64_t pending_ns = 0;
  uint64_t incarnation = 1;
  step_phase_policy own = {};
  std::vector<int64_t> holds = {};  ///< by which steps were held back

  void go_to(int64_t now_ns) {
    while (step == 0 || now_ns >= began_ns + late_ns + period_ns) {
      if (step > 0) began_ns += late_ns + period_ns;
      late_ns = std::exchange(pending_ns, 0);
      if (late_ns > 0) holds.push_back(late_ns);
      own.steps(++step, 1, late_ns, began_ns);
    }
  }
  double watts(int64_t now_ns) const {
    const auto in_step = static_cast<double>(now_ns - began_ns - late_ns);
    return in_step >= 0 && in_step < works * static_cast<double>(period_ns) ? 1 : 0;
  }
};

/// Jobs that report each second, and hear what comes of it at once.
struct beating_row {
  std::vector<beating_job> jobs;
  phase_policy parent;
  uint64_t life = 1;
  bool quiet = true;
  int64_t now_ns = 0;
  std::vector<double> watts = {};  ///< of all, each 20 ms

  explicit beating_row(std::vector<beating_job> all) : jobs(std::move(all)), parent(jobs.size()) {}

  void second() {
    for (size_t i = 0; i < jobs.size(); ++i) {
      auto& j = jobs[i];
      parent.hear(i, j.incarnation, j.own.beat(now_ns), now_ns);
    }
    parent.tick(quiet, now_ns);
    for (size_t i = 0; i < jobs.size(); ++i)
      if (const auto order = parent.order_of(i, now_ns))
        if (jobs[i].own.hear(life, *order, now_ns, now_ns)) jobs[i].pending_ns = jobs[i].own.take();
    for (int k = 0; k < 50; ++k) {
      now_ns += 20 * phase_ms;
      double sum = 0;
      for (auto& j : jobs) {
        j.go_to(now_ns);
        sum += j.watts(now_ns);
      }
      watts.push_back(sum);
    }
  }
  void seconds(int n) {
    for (int i = 0; i < n; ++i) second();
  }
  /// Where the second stands in the steps of the first, as a share.
  double apart() const {
    const auto& a = jobs[0];
    const auto& b = jobs[1];
    const double steps = static_cast<double>(b.began_ns + b.late_ns - a.began_ns - a.late_ns) /
                         static_cast<double>(a.period_ns);
    return steps - std::floor(steps);
  }
  size_t holds() const {
    size_t out = 0;
    for (const auto& j : jobs) out += j.holds.size();
    return out;
  }
};

struct spread_of {
  double range = 0, variance = 0;
};
spread_of spread(const std::vector<double>& all, size_t from, size_t to) {
  double sum = 0, squares = 0, least = 1e9, most = -1e9;
  for (size_t i = from; i < to; ++i) {
    sum += all[i];
    squares += all[i] * all[i];
    least = std::min(least, all[i]);
    most = std::max(most, all[i]);
  }
  const auto n = static_cast<double>(to - from);
  return {most - least, squares / n - sum * sum / n / n};
}

/// Jobs whose steps take that long and begin then, heard once, and again when they have settled.
std::vector<int64_t> offsets_of(const std::vector<std::pair<int64_t, int64_t>>& jobs) {
  phase_policy p(jobs.size());
  const int64_t later = 400 * phase_s;
  for (const int64_t at : {int64_t{0}, later}) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      const auto [period, began] = jobs[i];
      p.hear(i, 1, step_beat{period, at + began}, at);
    }
    p.tick(true, at);
  }
  std::vector<int64_t> out;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto order = p.order_of(i, later);
    out.push_back(order ? (order->offset_ns + phase_ms / 2) / phase_ms : 0);
  }
  return out;
}

using offsets_ms = std::vector<int64_t>;

}  // namespace

TEST_CASE("PHS-1: of jobs that begin together all but one are held back, evenly") {
  CHECK(offsets_of({{phase_s, 0}}) == offsets_ms{0});
  CHECK(offsets_of({{phase_s, 0}, {phase_s, 0}}) == offsets_ms{0, 500});
  CHECK(offsets_of({{phase_s, 0}, {phase_s, 0}, {phase_s, 0}, {phase_s, 0}}) ==
        offsets_ms{0, 250, 500, 750});
}

TEST_CASE("PHS-1: jobs are held back as little as stands them apart") {
  CHECK(offsets_of({{phase_s, 0}, {phase_s, 300 * phase_ms}}) == offsets_ms{0, 200});
  CHECK(offsets_of({{phase_s, 0}, {phase_s, -300 * phase_ms}}) == offsets_ms{200, 0});
  CHECK(offsets_of({{phase_s, -600 * phase_ms}, {phase_s, -500 * phase_ms}}) == offsets_ms{0, 400});
}

TEST_CASE("PHS-5: jobs that stand apart by what noise allows are let be") {
  CHECK(offsets_of({{phase_s, 0}, {phase_s, 500 * phase_ms}}) == offsets_ms{0, 0});
  CHECK(offsets_of({{phase_s, 0}, {phase_s, 400 * phase_ms}}) == offsets_ms{0, 0});
}

TEST_CASE("PHS-2: jobs of other step times are let be, as is what is no step of 0.1 to 20 Hz") {
  CHECK(offsets_of({{phase_s, 0}, {1050 * phase_ms, 0}}) == offsets_ms{0, 0});
  CHECK(offsets_of({{phase_s, 0}, {1009 * phase_ms, 0}})[1] > 400);
  // Of short steps many are made until they are looked at again, and they drift by each.
  CHECK(offsets_of({{100 * phase_ms, 0}, {101 * phase_ms, 0}}) == offsets_ms{0, 0});
  CHECK(offsets_of({{40 * phase_ms, 0}, {40 * phase_ms, 0}}) == offsets_ms{0, 0});
  CHECK(offsets_of({{11 * phase_s, 0}, {11 * phase_s, 0}}) == offsets_ms{0, 0});
  // Two pairs, each of its own step time.
  const auto pairs = offsets_of({{phase_s, 0}, {2 * phase_s, 0}, {phase_s, 0}, {2 * phase_s, 0}});
  CHECK(pairs == offsets_ms{0, 0, 500, 1000});
}

TEST_CASE("PHS-1: two jobs that work together swing by half once they are apart, by one hold") {
  beating_row row({beating_job{}, beating_job{}});
  row.seconds(300);
  CHECK(row.holds() == 1);
  CHECK(row.apart() == doctest::Approx(0.5).epsilon(0.05));
  const auto together = spread(row.watts, 0, 20 * 50);
  const auto apart = spread(row.watts, 200 * 50, 300 * 50);
  CHECK(together.range == 2);
  CHECK(apart.range == 1);
  CHECK(apart.variance < 0.2 * together.variance);
}

TEST_CASE("phase: what `troupe power swings` says of it is what the policy comes to") {
  beating_row row({beating_job{}, beating_job{}});
  beating_row one({beating_job{}});
  row.seconds(300);
  one.seconds(60);
  swing_rules rules;
  rules.tdp_w = 1;
  const auto said = apply(remedy::phase, one.watts, 0.02, rules);
  std::vector<double> mean;
  for (size_t i = 200 * 50; i < 260 * 50; ++i) mean.push_back(row.watts[i] / 2);
  const auto came = swings_of(mean, 0.02, rules.wanted_w());
  REQUIRE(said.now.swing_w());
  REQUIRE(came.swing_w());
  CHECK(*came.swing_w() == doctest::Approx(*said.now.swing_w()));
  CHECK(*came.swing_w() == doctest::Approx(0.5));
}

TEST_CASE("PHS-3: jobs that drift are followed, and no more than one step in 32 is held back") {
  beating_row row({beating_job{}, beating_job{.period_ns = 1002 * phase_ms}});
  row.seconds(60);
  for (int i = 0; i < 1200; ++i) {
    row.second();
    CHECK(std::abs(row.apart() - 0.5) < 0.25);
  }
  CHECK(row.holds() > 5);
  for (const auto& j : row.jobs)
    CHECK(j.holds.size() * phase_policy::settle_steps <= static_cast<size_t>(j.step));
}

TEST_CASE("PHS-4: while work is held nothing is decided, and settling begins anew behind that") {
  beating_row row({beating_job{}, beating_job{}});
  row.quiet = false;
  row.seconds(120);
  CHECK(row.holds() == 0);
  row.quiet = true;
  row.seconds(30);
  CHECK(row.holds() == 0);
  row.seconds(10);
  CHECK(row.holds() == 1);
}

TEST_CASE("PHS-3: a life of the budget that has just begun sends nobody back") {
  beating_row row({beating_job{}, beating_job{}, beating_job{}});
  row.seconds(120);
  const auto held = row.holds();
  CHECK(held == 2);
  row.parent = phase_policy(3);
  ++row.life;
  row.seconds(300);
  CHECK(row.holds() == held);
}

TEST_CASE("PHS-4: an order is void once its child is held, beats no more or is another process") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    phase_policy p(2);
    int64_t now = 0;
    const auto report = [&](uint64_t incarnation, bool beats) {
      for (size_t i = 0; i < 2; ++i)
        p.hear(i, incarnation,
               beats ? std::optional(step_beat{phase_s, now - now % phase_s}) : std::nullopt, now);
    };
    report(1, true);
    now = 40 * phase_s;
    report(1, true);
    REQUIRE(p.tick(true, now) == std::vector<size_t>{1});
    CHECK(p.order_of(1, now));
    CHECK(!p.order_of(0, now));
    if (how == 0) p.tick(false, now);
    if (how == 1) report(1, false);
    if (how == 2) report(2, true);
    CHECK(!p.order_of(1, now));
    CHECK(p.last(1)->order.offset_ns == phase_s / 2);  // that it was given is said all the same
  }
}

TEST_CASE("SPH-2, SPH-3: whatever is lost, late, repeated or restarted no job is held back twice") {
  sim::rng random(18);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const auto count = 1 + random.below(5);
    const auto base = static_cast<int64_t>(100 + random.below(4000)) * phase_ms;
    std::vector<beating_job> jobs;
    for (size_t i = 0; i < count; ++i) {
      beating_job j;
      j.period_ns = base + static_cast<int64_t>(random.below(4)) * base / 1000;
      j.began_ns = -static_cast<int64_t>(random.below(1000)) * j.period_ns / 1000;
      jobs.push_back(std::move(j));
    }
    struct answer {
      size_t child;
      uint64_t life, incarnation;
      phase_order order;
      int64_t sent_ns, comes_ns;
    };
    std::vector<answer> under_way;
    std::set<std::pair<uint64_t, uint64_t>> followed;
    phase_policy parent(count);
    uint64_t life = 1;
    for (int64_t now = 0; now < 400 * phase_s; now += phase_s) {
      if (random.chance(0.01)) {
        parent = phase_policy(count);
        ++life;
      }
      for (size_t i = 0; i < count; ++i) {
        auto& j = jobs[i];
        j.go_to(now);
        if (random.chance(0.003)) {  // its process restarts
          j.own = {};
          ++j.incarnation;
          j.holds.clear();
          j.step = 0;
          j.pending_ns = j.late_ns = 0;
          j.began_ns = now;
          j.go_to(now);
        }
        if (random.chance(0.2)) continue;  // its report is lost
        parent.hear(i, j.incarnation, j.own.beat(now), now);
      }
      parent.tick(!random.chance(0.02), now);
      for (size_t i = 0; i < count; ++i) {
        const auto order = parent.order_of(i, now);
        if (!order || random.chance(0.3)) continue;
        CHECK(order->offset_ns > 0);
        const auto comes = now + static_cast<int64_t>(random.below(8)) * phase_s;
        under_way.push_back({i, life, jobs[i].incarnation, *order, now, comes});
      }
      for (const auto& a : under_way) {
        auto& j = jobs[a.child];
        if (a.comes_ns > now || a.incarnation != j.incarnation) continue;
        if (!j.own.hear(a.life, a.order, a.sent_ns, now)) continue;
        CHECK(now - a.sent_ns <= step_phase_policy::late_answer_ns);
        CHECK(followed.insert({a.life, a.order.number}).second);
        j.pending_ns = j.own.take();
      }
      std::erase_if(under_way, [&](const answer& a) { return a.comes_ns <= now; });
    }
    for (const auto& j : jobs) {
      for (const auto held : j.holds) CHECK((held > 0 && held < j.period_ns));
      CHECK(j.holds.size() <= 1 + j.step / step_phase_policy::steps_between);
      if (count == 1) CHECK(j.holds.empty());
    }
  }
}

// When what is drawn pulls a brake, and when it is released: by tables, and by random schedules of
// draws, silence and words of persons.
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/power/overload_policy.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t look_ns = 1'000'000'000, fresh_for_ns = 2'500'000'000;

row_rules released_in(int groups) {
  row_rules out;
  out.release_groups = groups;
  return out;
}

/// A policy and what it has come to, a look a second.
struct brake_watch {
  overload_policy policy;
  row_state state = {};
  row_commands commands = {};
  int64_t now_ns = 0;

  explicit brake_watch(int groups = 1) : policy(released_in(groups), look_ns, fresh_for_ns) {}

  void look(const overload_look& seen) {
    now_ns += look_ns;
    const auto decided = policy.decide(state, seen, now_ns);
    state = decided.state;
    commands = decided.commands;
  }
  /// A share that is read of all.
  void see(double share, int times = 1) {
    for (int i = 0; i < times; ++i) look({true, share, share, share});
  }
  /// Nobody is read, and this may be drawn.
  void see_nobody(double most, int times = 1) {
    for (int i = 0; i < times; ++i) look({false, 0, most, 0});
  }
  /// This is read of some, and the others may draw the rest.
  void see_half_of(double read, double most, int times = 1) {
    for (int i = 0; i < times; ++i) look({true, read, most, read});
  }
  /// Seconds of this until the brake is pulled; none: it is not within a minute.
  std::optional<int> pulled_after(double share) {
    for (int i = 1; i <= 60; ++i) {
      see(share);
      if (commands.brake == true) return i;
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("OVL-2: overload: a window's mean pulls the brake, a swing does not") {
  brake_watch w;
  w.see(0.97, 20);
  CHECK(w.pulled_after(1.2) == 4);  // the fourth makes the mean of ten more than 1.05
  brake_watch even;
  CHECK(!even.pulled_after(1.05));
  CHECK(even.pulled_after(1.06));
  brake_watch swings;
  for (int i = 0; i < 60; ++i) swings.see(i % 2 == 0 ? 1.4 : 0.65);
  CHECK(swings.state.brakes == 0);
}

TEST_CASE("OVL-2: overload: what is over when it has been seen to be no more pulls nothing") {
  brake_watch w;
  w.see(0.9, 10);
  w.see(1.3, 3);
  w.see(1.0, 20);  // a child was cut for
  CHECK(w.state.brakes == 0);
}

TEST_CASE("OVL-2: overload: far above it is pulled at once, and not by one reading") {
  brake_watch w;
  CHECK(w.pulled_after(1.45) == 4);
  brake_watch moment;
  moment.see(0.5, 10);
  moment.see(1.5, 3);  // as long as one reading is fresh
  moment.see(0.5, 20);
  CHECK(moment.state.brakes == 0);
}

TEST_CASE("OVL-2: overload: a cut that is waited for is not far above") {
  brake_watch w;
  for (int i = 0; i < 30; ++i) w.look({true, 1.0, 1.0, 0.9});
  CHECK(w.state.brakes == 0);
  for (int i = 0; i < 4; ++i)
    w.look({true, 1.0, 1.0, 1.6});  // of the budget, by one that is counted so
  CHECK(w.state.brakes == 1);
}

TEST_CASE("OVL-1: overload: what is not read pulls no brake, and releases none") {
  brake_watch w;
  w.see_nobody(9, 60);
  CHECK(w.state.brakes == 0);
  w.see(1.3, 3);
  w.see_nobody(1.3, 60);
  CHECK(w.state.brakes == 0);
  w.see(0.5, 10);
  for (int i = 0; i < 60; ++i) w.look({true, 0.5, 1.5, 0.5});  // the rest may draw more
  CHECK(w.state.brakes == 0);

  REQUIRE(w.pulled_after(1.3));
  w.see_nobody(0.1, 60);
  CHECK(w.state.brake == row_brake::on);
  for (int i = 0; i < 60; ++i) w.look({true, 0.1, 0.95, 0.1});
  CHECK(w.state.brake == row_brake::on);
}

TEST_CASE("OVL-3: overload: it is held for half a minute, and while there is no room") {
  brake_watch w;
  REQUIRE(w.pulled_after(1.5));
  w.see(0.3, 29);
  CHECK(w.state.brake == row_brake::on);
  w.see(0.3);
  CHECK(w.state.brake == row_brake::off);
  CHECK(w.commands.brake == false);

  REQUIRE(w.pulled_after(1.5));
  w.see(0.92, 60);
  CHECK(w.state.brake == row_brake::on);
  w.see(0.85, 9);
  CHECK(w.state.brake == row_brake::on);
  w.see(0.85);
  CHECK(w.state.brake == row_brake::off);
}

TEST_CASE("OVL-3: overload: children are let go in groups, a gap between, and held again") {
  brake_watch w(3);
  REQUIRE(w.pulled_after(1.5));
  w.see(0.3, 30);
  CHECK(w.commands.release_group == 0);
  w.see(0.5, 9);
  CHECK(w.state.released_groups == 1);
  w.see(0.5);
  CHECK(w.commands.release_group == 1);
  CHECK(w.state.brake == row_brake::releasing);
  REQUIRE(w.pulled_after(1.5) == 4);
  CHECK(w.state.released_groups == 0);
  CHECK(w.state.brake == row_brake::on);
  w.see(0.3, 50);
  CHECK(w.state.brake == row_brake::off);
  CHECK(w.state.brakes == 2);
}

TEST_CASE(
    "OVL-5: overload: who is not heard holds nobody for ever, unless what is read is no room") {
  brake_watch w;
  REQUIRE(w.pulled_after(1.5));
  w.see_half_of(0.1, 0.95, 179);
  CHECK(w.state.brake == row_brake::on);
  w.see_half_of(0.1, 0.95);
  CHECK(w.state.brake == row_brake::off);
  CHECK(w.commands.brake == false);

  brake_watch full;
  REQUIRE(full.pulled_after(1.5));
  full.see_half_of(0.92, 1.2, 400);
  CHECK(full.state.brake == row_brake::on);
  full.see_nobody(0.5, 400);
  CHECK(full.state.brake == row_brake::on);
}

TEST_CASE("OVL-5: overload: who goes while children come back holds those who wait no longer") {
  brake_watch w(2);
  REQUIRE(w.pulled_after(1.5));
  w.see(0.3, 30);
  REQUIRE(w.state.brake == row_brake::releasing);
  w.see_half_of(0.3, 1.5, 179);
  CHECK(w.state.released_groups == 1);
  w.see_half_of(0.3, 1.5);
  CHECK(w.state.brake == row_brake::off);
  CHECK(w.policy.is_trying());
}

TEST_CASE("OVL-5: overload: a try is taken back by one look, until a window after its last group") {
  brake_watch w(2);
  REQUIRE(w.pulled_after(1.5));
  w.see_half_of(0.1, 1.5, 180);
  CHECK(w.commands.release_group == 0);
  w.see_half_of(1.06, 1.5);
  CHECK(w.commands.brake == true);
  CHECK(w.state.brake == row_brake::on);
  w.see_half_of(0.1, 1.5, 179);
  CHECK(w.state.brake == row_brake::on);
  w.see_half_of(0.1, 1.5);
  CHECK(w.commands.release_group == 0);
  w.see_half_of(0.5, 1.5, 10);
  CHECK(w.commands.release_group == 1);
  w.see_half_of(0.9, 1.5, 10);
  CHECK(w.policy.is_trying());
  w.see_half_of(1.3, 1.5);  // a swing again
  CHECK(!w.policy.is_trying());
  CHECK(w.state.brakes == 2);
}

TEST_CASE("OVL-4: overload: who lets work go on has it go on until it has been calm for a while") {
  brake_watch w;
  REQUIRE(w.pulled_after(1.5));
  w.policy.let_go();
  w.state.brake = row_brake::off;
  w.see(1.5, 120);
  CHECK(w.state.brakes == 1);
  w.see(1.0, 35);
  CHECK(w.policy.is_let_go());
  w.see(1.0, 10);
  CHECK(!w.policy.is_let_go());
  CHECK(w.pulled_after(1.5));
}

namespace {

/// A row under its brake by chance, and what must hold at each look, reckoned anew.
class brake_walk {
 public:
  explicit brake_walk(uint64_t seed)
      : chance_(sim::mix(seed)), groups_(1 + static_cast<int>(chance_.below(4))), watch_(groups_) {}

  /// What was broken, in words; empty: nothing.
  std::string run(int looks) {
    for (int i = 0; i < looks && wrong_.empty(); ++i) {
      if (chance_.chance(0.08)) share_ = 0.2 + 1.6 * chance_.unit();
      if (chance_.chance(0.02)) silent_ = 1 + static_cast<int>(chance_.below(20));
      if (chance_.chance(0.01)) let_go();
      if (chance_.chance(0.006)) unread_ = unread_ > 0 ? 0 : 0.9;
      step();
    }
    return wrong_;
  }
  uint32_t brakes() const { return watch_.state.brakes; }
  int ends = 0, tries = 0;

 private:
  void let_go() {
    tries_ = false;
    watch_.policy.let_go();
    watch_.state.brake = row_brake::off;
    let_go_ns_ = watch_.now_ns;
  }

  void step() {
    const auto before = watch_.state;
    const double held = before.brake == row_brake::off ? 1 : 0.3;
    const double drawn = share_ * held * (0.9 + 0.2 * chance_.unit());
    silent_ -= silent_ > 0 ? 1 : 0;
    const overload_look seen = silent_ > 0 ? overload_look{false, 0, 1, 0}
                                           : overload_look{true, drawn, drawn + unread_, drawn};
    looks_.push_back(seen);
    if (looks_.size() > 10) looks_.pop_front();
    watch_.look(seen);
    judge(before);
  }

  void judge(const row_state& before) {
    const auto& s = watch_.state;
    const auto& c = watch_.commands;
    if (c.brake == true) judge_pull(before);
    if (c.release_group) {
      const bool first = before.brake == row_brake::on;
      const auto held_ns = watch_.now_ns - before.brake_ns;
      if (held_ns < (first ? 30 : 10) * look_ns) wrong_ = "released too soon";
      if (!looks_.back().read) wrong_ = "released unseen";
      if (*c.release_group != (first ? 0 : before.released_groups)) wrong_ = "a group of no turn";
      judge_room(first, held_ns);
    }
    if (s.brake == row_brake::off && before.brake != row_brake::off) {
      ++ends;
      if (s.released_groups != groups_) wrong_ = "over before all were let go";
    }
  }

  void judge_room(bool first, int64_t held_ns) {
    bool room = true, as_read = true;
    double most = 0;
    for (const auto& l : looks_) {
      room &= l.at_most < overload_policy::room;
      as_read &= l.at_least < overload_policy::room;
      most += l.at_most / static_cast<double>(looks_.size());
    }
    if (first ? room : most <= overload_policy::over) {
      if (first) tries_ = false;
      return;
    }
    const bool long_held = held_ns >= overload_policy::tries_after * 30 * look_ns;
    if (!as_read || !(long_held || (!first && tries_))) wrong_ = "released without room";
    tries_ = true;
    ++tries;
  }

  void judge_pull(const row_state& before) {
    const bool tried = std::exchange(tries_, false) &&
                       (before.brake == row_brake::releasing ||
                        watch_.now_ns - before.brake_ns <= overload_policy::window_ns);
    double sum = 0, reads = 0, far = 0;
    for (const auto& l : looks_) {
      if (l.read) {
        sum += l.at_least;
        ++reads;
      }
      far = l.read && l.of_budget >= overload_policy::far_over ? far + 1 : 0;
    }
    if (!looks_.back().read) wrong_ = "pulled unseen";
    const bool taken_back = tried && looks_.back().at_least > overload_policy::over;
    if (far < 4 && !taken_back && !(reads >= 7.5 && sum / reads > overload_policy::over))
      wrong_ = fmt::format("pulled by a mean of {} over {} readings", sum / reads, reads);
    if (let_go_ns_ && watch_.now_ns - *let_go_ns_ < overload_policy::calm_ns)
      wrong_ = "pulled against a person's word";
  }

  sim::rng chance_;
  int groups_;
  brake_watch watch_;
  std::deque<overload_look> looks_;
  double share_ = 0.9, unread_ = 0;
  bool tries_ = false;
  int silent_ = 0;
  std::optional<int64_t> let_go_ns_;
  std::string wrong_;
};

}  // namespace

TEST_CASE("OVL-1 to OVL-5: overload: random schedules pull and release as they are to") {
  uint64_t brakes = 0;
  int ends = 0, tries = 0;
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    brake_walk walk(seed);
    const auto wrong = walk.run(600);
    brakes += walk.brakes();
    ends += walk.ends;
    tries += walk.tries;
    if (!wrong.empty()) FAIL("seed " << seed << ": " << wrong);
  }
  CHECK(brakes > 10'000);
  CHECK(ends > 5'000);
  CHECK(tries > 100);
}

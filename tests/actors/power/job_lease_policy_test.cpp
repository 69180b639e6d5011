// A job's side of a lease: nothing before the first cap, what it acknowledges and when, and a walk
// of random answers and steps in which what it tells is held against what its run really does.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/power/job_lease_policy.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

constexpr int64_t job_second = 1'000'000'000;
constexpr uint64_t job_life = 9;
constexpr int64_t job_share_mw = 15'000;

/// Answers a report of `sent_s`; epoch 0: no lease.
power_answer job_answer(lease_order order, int64_t cap_mw, int64_t sent_s) {
  return {{order, {job_life, sent_s * job_second}, cap_mw, 5 * job_second, false}, job_share_mw};
}

/// A job whose run is told a pace that follows the cap.
struct leased_job {
  job_lease_policy policy{job_life};
  std::optional<work_pace> said;
  uint64_t number = 0;  ///< of the last word to the run

  static work_pace pace_under(int64_t cap_mw) {
    return {static_cast<int>(std::min<int64_t>(cap_mw / 50, work_pace::whole))};
  }
  int64_t tick(int64_t at_ns) {
    const auto cap_mw = policy.tick(at_ns);
    const auto pace = policy.hold() == lease_hold::none ? pace_under(cap_mw) : work_pace{0};
    policy.decided(pace);
    if (said != pace) policy.told(++number);
    said = pace;
    return cap_mw;
  }
  /// A step of the pace for so much, by that word, or by the last one.
  void begin(uint64_t step, int64_t cap_mw, std::optional<uint64_t> follows = {}) {
    policy.steps(step, pace_under(cap_mw), follows.value_or(number));
  }
  grant_verdict hear(const power_answer& a, int64_t at_s) {
    const auto out = policy.hear(a, at_s * job_second);
    tick(at_s * job_second);
    return out;
  }
  int64_t told_mw(int64_t at_s) const {
    return policy.report(at_s * job_second, {}, -1).in_force_mw;
  }
  /// Whose first lease raised nothing, and whose second gave it so much at 10 s.
  static leased_job with(int64_t cap_mw) {
    leased_job out;
    REQUIRE(out.hear(job_answer({1, 1}, cap_mw, 9), 9) == grant_verdict::taken);
    REQUIRE(out.hear(job_answer({1, 2}, cap_mw, 10), 10) == grant_verdict::taken);
    REQUIRE(out.policy.cap_mw() == cap_mw);
    return out;
  }
};

}  // namespace

TEST_CASE("JLP-6: a machine of others' work begins with its static share, and no more by a lapse") {
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    leased_job j;
    j.policy.begin_with_share(is_known ? std::optional<int64_t>(12'000) : std::nullopt);
    CHECK(j.tick(0) == (is_known ? 12'000 : 0));
    CHECK(j.policy.hold() == (is_known ? lease_hold::none : lease_hold::no_lease));
    CHECK(j.told_mw(0) == (is_known ? 12'000 : 0));
    CHECK(j.hear(job_answer({}, 0, 1), 1) == grant_verdict::taken);  // its share alone
    const int64_t begun_mw = is_known ? 12'000 : job_share_mw;       // JLP-3
    CHECK(j.policy.begun_with_mw() == begun_mw);
    CHECK(j.policy.cap_mw() == begun_mw);
    CHECK(j.told_mw(1) == begun_mw);
    CHECK(j.policy.hold() == lease_hold::none);
    CHECK_FALSE(j.policy.was_leased());
    CHECK(j.hear(job_answer({3, 1}, 40'000, 2), 2) == grant_verdict::taken);
    CHECK(j.policy.cap_mw() == begun_mw);  // LSE-2
    CHECK(j.hear(job_answer({3, 2}, 40'000, 3), 3) == grant_verdict::taken);
    CHECK(j.policy.cap_mw() == 40'000);
    j.policy.refused(lease_hold::no_child);
    CHECK(j.policy.hold() == lease_hold::no_child);
  }
}

TEST_CASE("JLP-1: a job has no watts before its first lease, whatever its static share is") {
  leased_job j;
  CHECK(j.tick(0) == 0);
  CHECK(j.policy.hold() == lease_hold::no_lease);
  auto r = j.policy.report(job_second, 12'000, -1);
  CHECK(r.id == report_id{job_life, job_second});
  CHECK(r.order == lease_order{});
  CHECK(r.in_force_mw == 0);
  CHECK(r.drawn_mw == 12'000);
  CHECK(r.wish_mw == -1);
  CHECK(j.hear(job_answer({}, 0, 1), 1) == grant_verdict::taken);  // its share alone
  CHECK(j.policy.cap_mw() == 0);
  CHECK(j.policy.left_ns(job_second) == 0);
  CHECK(j.policy.hold() == lease_hold::no_lease);
  CHECK(j.hear(job_answer({3, 1}, 40'000, 2), 2) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 0);  // LSE-2
  CHECK(j.policy.hold() == lease_hold::no_watts);
  CHECK(j.policy.report(3 * job_second, {}, -1).order == lease_order{3, 1});
  CHECK(j.hear(job_answer({3, 2}, 40'000, 3), 3) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 40'000);
  CHECK(j.policy.hold() == lease_hold::none);
}

TEST_CASE("PWR-2: a job's cap falls to its static share when its lease unleased, and never rises") {
  for (const auto& [granted_mw, fallen_mw] :
       {std::pair<int64_t, int64_t>{40'000, job_share_mw}, {9000, 9000}}) {
    auto j = leased_job::with(granted_mw);
    CHECK(j.policy.left_ns(14 * job_second) == job_second);
    CHECK(j.tick(14 * job_second) == granted_mw);
    CHECK(j.tick(15 * job_second) == fallen_mw);
    CHECK(!j.policy.is_leased(15 * job_second));
    CHECK(j.policy.hold() == lease_hold::none);  // it works on with that
    CHECK(j.tick(100 * job_second) == fallen_mw);
  }
}

TEST_CASE("JLP-2: a lesser cap is told once a step has begun under it, or none is made") {
  auto j = leased_job::with(40'000);
  j.begin(1, 40'000);
  const auto before = j.number;
  CHECK(j.hear(job_answer({1, 3}, 20'000, 11), 11) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 20'000);
  for (const int64_t at_s : {11, 12, 13}) {
    j.tick(at_s * job_second);
    CHECK(j.told_mw(at_s) == 40'000);  // the step goes on
  }
  auto paused = j;
  j.begin(2, 20'000);
  CHECK(j.told_mw(13) == 20'000);
  paused.policy.steps(0, {}, before);
  CHECK(paused.told_mw(13) == 40'000);  // it may go on by what it had heard
  paused.policy.steps(0, {}, paused.number);
  CHECK(paused.told_mw(13) == 20'000);
}

TEST_CASE(
    "JLP-2: a step that is slow enough already keeps a lesser cap, but the next one may follow a "
    "word of before, however long that was on its way") {
  auto j = leased_job::with(20'000);
  j.begin(1, 20'000);
  CHECK(j.hear(job_answer({1, 3}, 50'000, 11), 11) == grant_verdict::taken);
  CHECK(j.told_mw(11) == 50'000);
  const auto greatest = j.number;
  CHECK(j.hear(job_answer({1, 4}, 30'000, 12), 12) == grant_verdict::taken);
  j.tick(14 * job_second);
  CHECK(j.told_mw(14) == 50'000);
  auto late = j;
  late.begin(2, 50'000, greatest);
  CHECK(late.told_mw(14) == 50'000);
  j.begin(2, 30'000);
  CHECK(j.told_mw(14) == 30'000);
  CHECK(j.hear(job_answer({1, 5}, 25'000, 14), 14) == grant_verdict::taken);
  CHECK(j.told_mw(14) == 30'000);
  CHECK(j.hear(job_answer({1, 6}, 40'000, 14), 14) == grant_verdict::taken);
  CHECK(j.hear(job_answer({1, 7}, 35'000, 14), 14) == grant_verdict::taken);
  j.begin(3, 35'000);
  CHECK(j.told_mw(14) == 35'000);
}

TEST_CASE("JLP-2: a step at a pace that is too great by now was decided under an earlier cap") {
  auto j = leased_job::with(20'000);
  j.begin(1, 20'000);
  CHECK(j.hear(job_answer({1, 3}, 50'000, 11), 11) == grant_verdict::taken);
  const auto greatest = j.number;
  CHECK(j.hear(job_answer({1, 4}, 10'000, 11), 11) == grant_verdict::taken);
  j.begin(2, 50'000, greatest);  // on its way before the run heard of 10 W
  for (const int64_t at_s : {12, 13, 14}) j.tick(at_s * job_second);
  CHECK(j.told_mw(14) == 50'000);
  j.begin(2, 50'000, greatest);  // told again: nothing has changed
  CHECK(j.told_mw(14) == 50'000);
  j.begin(3, 10'000);
  CHECK(j.told_mw(14) == 10'000);
}

TEST_CASE(
    "JLP-2: a pace that is right under another cap, too, is not told anew, and is that cap's") {
  auto j = leased_job::with(20'000);
  j.begin(1, 20'000);
  const auto before = j.number;
  CHECK(j.policy.hear(job_answer({1, 3}, 40'000, 11), 11 * job_second) == grant_verdict::taken);
  j.policy.tick(11 * job_second);
  j.policy.decided(leased_job::pace_under(20'000));
  CHECK(j.policy.hear(job_answer({1, 4}, 10'000, 11), 11 * job_second) == grant_verdict::taken);
  j.tick(11 * job_second);
  CHECK(j.number == before + 1);
  CHECK(j.told_mw(11) == 40'000);
  j.begin(2, 10'000);
  CHECK(j.told_mw(11) == 10'000);
}

TEST_CASE("JLP-2: of many words that a long step hears none of the greatest is forgotten") {
  auto j = leased_job::with(20'000);
  j.begin(1, 20'000);
  for (uint64_t i = 0; i < 100; ++i) {
    const auto cap_mw = i == 0 ? int64_t{50'000} : static_cast<int64_t>(20'000 + 100 * (i % 7));
    CHECK(j.hear(job_answer({1, 3 + i}, cap_mw, 11), 11) == grant_verdict::taken);
    CHECK(j.told_mw(11) == 50'000);
  }
  CHECK(j.policy.cap_mw() == 20'100);
  j.begin(2, 20'100);
  CHECK(j.told_mw(11) == 20'100);
}

TEST_CASE("JLP-3: a static share that changes raises nothing, and a lesser one counts at a lapse") {
  auto j = leased_job::with(40'000);
  auto a = job_answer({}, 0, 11);
  a.static_share_mw = 30'000;
  CHECK(j.hear(a, 11) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 40'000);
  a.static_share_mw = 5000;
  CHECK(j.hear(a, 12) == grant_verdict::taken);
  CHECK(j.tick(15 * job_second) == 5000);
  a.static_share_mw = 30'000;
  CHECK(j.hear(a, 16) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 5000);
}

TEST_CASE("a job ignores older grants, those to the head before it, and what no parent says") {
  auto j = leased_job::with(20'000);
  CHECK(j.hear(job_answer({1, 1}, 50'000, 11), 11) == grant_verdict::older);
  auto to_other = job_answer({1, 3}, 50'000, 11);
  to_other.grant.answers.incarnation = job_life - 1;
  CHECK(j.hear(to_other, 11) == grant_verdict::not_to_us);
  for (const int64_t share_mw : {int64_t{-1}, beyond_mw + 1}) {
    auto odd = job_answer({1, 3}, 50'000, 11);
    odd.static_share_mw = share_mw;
    CHECK(j.hear(odd, 11) == grant_verdict::impossible);
  }
  CHECK(j.hear(job_answer({1, 3}, -1, 11), 11) == grant_verdict::impossible);
  CHECK(j.hear(job_answer({1, 3}, 50'000, 6), 11) == grant_verdict::late);
  CHECK(j.policy.cap_mw() == 20'000);
}

TEST_CASE("a parent that starts again raises a job by its second lease only") {
  auto j = leased_job::with(20'000);
  CHECK(j.hear(job_answer({2, 1}, 50'000, 11), 11) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 20'000);
  CHECK(j.policy.report(12 * job_second, {}, -1).order == lease_order{2, 1});
  CHECK(j.hear(job_answer({2, 2}, 50'000, 12), 12) == grant_verdict::taken);
  CHECK(j.policy.cap_mw() == 50'000);
}

TEST_CASE("JLP-4: a job makes no step while its parent knows none of its name") {
  auto j = leased_job::with(20'000);
  j.policy.refused(lease_hold::no_child);
  CHECK(j.policy.hold() == lease_hold::no_child);
  CHECK(j.tick(11 * job_second) == 20'000);
  CHECK(j.policy.hold() == lease_hold::no_child);
  CHECK(j.hear(job_answer({}, 0, 12), 12) == grant_verdict::taken);
  CHECK(j.policy.hold() == lease_hold::none);
}

TEST_CASE("JLP-4: a job makes no step while its parent hears another process of it") {
  auto j = leased_job::with(20'000);
  j.policy.refused(lease_hold::replaced);
  CHECK(j.policy.hold() == lease_hold::replaced);
  CHECK(j.tick(11 * job_second) == 20'000);
  CHECK(j.policy.hold() == lease_hold::replaced);
  auto to_other = job_answer({1, 3}, 50'000, 11);
  to_other.grant.answers.incarnation = job_life + 1;
  CHECK(j.hear(to_other, 11) == grant_verdict::not_to_us);
  CHECK(j.policy.hold() == lease_hold::replaced);
  CHECK(j.hear(job_answer({}, 0, 12), 12) == grant_verdict::taken);
  CHECK(j.policy.hold() == lease_hold::none);
}

TEST_CASE("a job that is to pause begins no step until another lease says otherwise") {
  auto j = leased_job::with(20'000);
  auto shed = job_answer({1, 3}, 20'000, 11);
  shed.grant.shed = true;
  CHECK(j.hear(shed, 11) == grant_verdict::taken);
  CHECK(j.policy.hold() == lease_hold::shed);
  j.tick(30 * job_second);
  CHECK(j.policy.hold() == lease_hold::shed);  // it has lapsed, and nobody has taken it back
  CHECK(j.hear(job_answer({1, 4}, 20'000, 30), 30) == grant_verdict::taken);
  CHECK(j.policy.hold() == lease_hold::none);
}

namespace {

/// Tenths of seconds: answers that are lost, late and out of order, a parent that starts again, a
/// run that hears of its pace late and is heard late itself, up to seconds.
class job_walk {
 public:
  explicit job_walk(uint64_t seed) : chance_(sim::mix(seed)) {}

  /// What was broken; empty: nothing.
  std::string run(int tenths) {
    for (now_ = 1; now_ <= tenths && wrong_.empty(); ++now_) {
      silent_ = silent_ ? chance_.chance(0.99) : chance_.chance(0.005);
      deliver();
      if (now_ % 5 == 0) look();
      if (now_ % 10 == 0) report();
      step();
      judge();
    }
    return wrong_;
  }
  /// A person pauses it and its parent is not heard any more: by how much it tells more than its
  /// cap at last; -1: something was broken.
  int64_t paused(int tenths) {
    paused_ = true;
    for (const int end = now_ + tenths; now_ < end && wrong_.empty(); ++now_) {
      deliver();
      if (now_ % 5 == 0) look();
      step();
      judge();
    }
    if (!wrong_.empty()) return -1;
    return job_.policy.report(now_ns(), {}, -1).in_force_mw - job_.policy.cap_mw();
  }
  int64_t steps_made = 0, unleased = 0, acked = 0;

 private:
  struct letter {
    int at = 0;
    uint64_t step = 0;
    int pace = 0;
    uint64_t word = 0;
  };
  struct late_answer {
    int at = 0;
    power_answer what;
  };

  int64_t now_ns() const { return now_ * job_second / 10; }
  /// In order, within 0.4 s, or 4.
  void post(std::deque<letter>& to, uint64_t step, int pace, uint64_t word) {
    const int at = now_ + static_cast<int>(chance_.below(chance_.chance(0.1) ? 40 : 5));
    to.push_back({to.empty() ? at : std::max(at, to.back().at), step, pace, word});
  }
  void look() {
    const auto before = job_.number;
    job_.tick(now_ns());
    if (job_.number != before) post(to_run_, 0, job_.said->of_1024, job_.number);
  }
  /// What the run heard; as it does, it says where no step is made that could.
  void take_word(const letter& l) {
    const bool is_less = l.pace < held_pace_;
    held_pace_ = l.pace;
    held_word_ = l.word;
    if (is_less && step_pace_ == 0) post(to_pacer_, 0, 0, held_word_);
  }
  void report() {
    const auto r = job_.policy.report(now_ns(), {}, -1);
    if (silent_ || chance_.chance(0.2)) return;
    if (chance_.chance(0.02)) order_ = {order_.epoch + 1, 0};
    const bool fresh = order_.sequence == 0 || chance_.chance(0.5);
    if (fresh) {
      ++order_.sequence;
      cap_mw_ = chance_.between(0, 50'000);
    }
    power_answer a{{order_, r.id, cap_mw_, 5 * job_second, false}, share_mw_};
    if (chance_.chance(0.1)) a.grant.order = {};
    answers_.push_back({now_ + 1 + static_cast<int>(chance_.below(20)), a});
  }
  void deliver() {
    for (; !to_run_.empty() && to_run_.front().at <= now_; to_run_.pop_front())
      take_word(to_run_.front());
    for (; !to_pacer_.empty() && to_pacer_.front().at <= now_; to_pacer_.pop_front())
      job_.policy.steps(to_pacer_.front().step, {to_pacer_.front().pace}, to_pacer_.front().word);
    for (auto& a : answers_) {
      if (a.at != now_) continue;
      const bool leased = a.what.grant.order.epoch > 0;
      if (job_.policy.hear(a.what, now_ns()) == grant_verdict::taken && leased) {
        answered_until_ = std::max<int64_t>(answered_until_, a.what.grant.answers.sent_ns);
        was_granted_ = true;
      }
      look();
    }
    std::erase_if(answers_, [&](const auto& a) { return a.at <= now_; });
  }
  void step() {
    if (left_ > 0 && --left_ > 0) return;
    const bool begins = !paused_ && held_pace_ > 0 && chance_.chance(0.9);
    if (begins) {
      ++steps_made;
      left_ = 1 + static_cast<int>(chance_.below(40));
      step_pace_ = held_pace_;
      post(to_pacer_, ++step_, step_pace_, held_word_);
    } else if (std::exchange(step_pace_, 0) > 0) {
      post(to_pacer_, 0, 0, held_word_);
    }
  }
  void judge() {
    const auto in_force_mw = job_.policy.report(now_ns(), {}, -1).in_force_mw;
    const auto cap_mw = job_.policy.cap_mw();
    if (in_force_mw < int64_t{50} * step_pace_)
      wrong_ = fmt::format("at {}: tells {} mW while a step goes on at {}/1024", now_, in_force_mw,
                           step_pace_);
    if (in_force_mw < int64_t{50} * held_pace_)
      wrong_ = fmt::format("at {}: tells {} mW while a step may begin at {}/1024", now_,
                           in_force_mw, held_pace_);
    if (!was_granted_ && (cap_mw > 0 || step_pace_ > 0)) wrong_ = "watts before the first lease";
    const auto fallen_ns = answered_until_ + 5 * job_second + job_second / 2;
    const bool has_fallen = now_ns() > fallen_ns;
    if (has_fallen && cap_mw > std::min(before_mw_, share_mw_))
      wrong_ = fmt::format("at {}: {} mW without a lease", now_, cap_mw);
    unleased += has_fallen && before_mw_ > 0 ? 1 : 0;
    acked += in_force_mw < before_told_mw_ ? 1 : 0;
    before_mw_ = cap_mw;
    before_told_mw_ = in_force_mw;
  }

  sim::rng chance_;
  leased_job job_;
  int now_ = 0;
  bool silent_ = false, was_granted_ = false, paused_ = false;
  lease_order order_{1, 0};
  int64_t cap_mw_ = 0, share_mw_ = job_share_mw;
  std::vector<late_answer> answers_;
  std::deque<letter> to_run_, to_pacer_;
  int held_pace_ = 0, step_pace_ = 0, left_ = 0;
  uint64_t step_ = 0, held_word_ = 0;
  int64_t answered_until_ = -10 * job_second, before_mw_ = 0, before_told_mw_ = 0;
  std::string wrong_;
};

}  // namespace

TEST_CASE("JLP-2 and PWR-2: random answers and steps: what a job tells is what it may draw") {
  int64_t steps_made = 0, unleased = 0, acked = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    job_walk walk(seed);
    const auto wrong = walk.run(1500);
    REQUIRE_MESSAGE(wrong.empty(), wrong);
    CHECK(walk.paused(400) == 0);
    steps_made += walk.steps_made;
    unleased += walk.unleased;
    acked += walk.acked;
  }
  CHECK(steps_made > 2000);
  CHECK(unleased > 300);
  CHECK(acked > 1000);
}

TEST_CASE("JLP-5: the brake is on as the last sound answer says, and no longer than the lease") {
  auto j = leased_job::with(20'000);
  const auto braked = [](power_answer a) {
    a.brake = true;
    return a;
  };
  CHECK(!j.policy.is_braked());
  CHECK(j.hear(braked(job_answer({1, 2}, 20'000, 11)), 11) == grant_verdict::taken);
  CHECK(j.policy.is_braked());
  CHECK(j.policy.hold() == lease_hold::brake);
  CHECK(j.policy.cap_mw() == 20'000);
  CHECK(j.hear(job_answer({}, 0, 12), 12) == grant_verdict::taken);
  CHECK(!j.policy.is_braked());
  CHECK(j.policy.hold() == lease_hold::none);
  CHECK(j.hear(braked(job_answer({1, 2}, -1, 12)), 12) == grant_verdict::impossible);
  CHECK(!j.policy.is_braked());
  CHECK(j.hear(braked(job_answer({}, 0, 13)), 13) == grant_verdict::taken);
  CHECK(j.policy.is_braked());
  j.tick(16 * job_second - 1);
  CHECK(j.policy.is_braked());
  j.tick(16 * job_second);
  CHECK(!j.policy.is_braked());
  CHECK(j.policy.hold() == lease_hold::none);
  CHECK(j.policy.cap_mw() == job_share_mw);
  CHECK(j.hear(braked(job_answer({}, 0, 17)), 17) == grant_verdict::taken);
  CHECK(!j.policy.is_braked());  // nothing is held without a lease
}

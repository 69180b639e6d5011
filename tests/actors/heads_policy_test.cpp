// Which of several heads acts: promises, majorities and take-overs one by one, and then all of them
// by seeds, with messages in any order, lost and doubled, and heads that die and forget. Beside
// them: the times of a job's memory where the next head is on another machine.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "actors/heads/majority_policy.hpp"
#include "actors/heads/promises_policy.hpp"
#include "actors/heads/same_job.hpp"
#include "actors/heads/takeover_policy.hpp"
#include "actors/heads/waiting_policy.hpp"
#include "actors/job/job_memory.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using heads::held_record;
using heads::held_records;
using heads::majority_policy;
using heads::promises_policy;
using heads::takeover_policy;
using vote_verdict = heads::majority_policy::verdict;

TEST_CASE("PRM-1: an epoch is promised to one head, which may be told so again") {
  promises_policy p;
  CHECK(p.epoch() == 0);
  CHECK_FALSE(p.may_promise(0, "a"));
  CHECK_FALSE(p.may_promise(0, ""));  // what nobody was promised is no promise
  REQUIRE(p.may_promise(5, "a"));
  p.promise(5, "a");
  CHECK(p.may_promise(5, "a"));
  CHECK_FALSE(p.may_promise(5, "b"));
  CHECK_FALSE(p.may_promise(5, ""));
  CHECK(p.may_promise(6, "b"));
  CHECK(p.epoch() == 5);
  CHECK(p.head() == "a");
  const promises_policy again(p.epoch(), p.head(), p.held());  // as of the disk
  CHECK(again.may_promise(5, "a"));
  CHECK_FALSE(again.may_promise(5, "b"));
}

TEST_CASE("PRM-2: nothing is granted in an epoch older than the one promised") {
  promises_policy p;
  p.promise(5, "a");
  p.promise(7, "b");
  CHECK_FALSE(p.may_promise(6, "b"));
  CHECK_FALSE(p.may_promise(5, "a"));
  CHECK_FALSE(p.may_hold({5, 9, "x"}, "a"));
  CHECK_FALSE(p.may_hold({6, 1, "x"}, "b"));
  CHECK_FALSE(p.may_hold({7, 1, "x"}, "a"));
  CHECK(p.may_hold({7, 1, "x"}, "b"));
  REQUIRE(p.may_hold({9, 1, "x"}, "c"));  // of one that was elected without this voter
  p.hold(1, {9, 1, "x"}, "c");
  CHECK(p.epoch() == 9);
  CHECK(p.head() == "c");
  CHECK_FALSE(p.may_promise(8, "b"));
}

TEST_CASE("PRM-3: of each kind the newest record is held, by epoch and then by number") {
  struct row {
    held_record there, comes;
    bool newer;
  };
  for (const auto& [there, comes, newer] : {
           row{{3, 4, "old"}, {3, 5, "new"}, true}, row{{3, 4, "old"}, {3, 4, "new"}, false},
           row{{3, 4, "old"}, {3, 3, "new"}, false}, row{{3, 4, "old"}, {4, 1, "new"}, true},
           row{{4, 1, "old"}, {3, 9, "new"}, false}, row{{0, 0, ""}, {3, 1, "new"}, true}}) {
    CAPTURE(comes.epoch);
    CAPTURE(comes.number);
    CHECK(comes.is_newer_than(there) == newer);
    promises_policy p(3, "a", {{1, there}, {2, {3, 1, "of another kind"}}});
    p.hold(1, comes, "a");
    CHECK(p.held().at(1) == (newer ? comes : there));
    CHECK(p.held().at(2) == held_record{3, 1, "of another kind"});
    p.promise(9, "b");  // a promise takes nothing away
    CHECK(p.held().size() == 2);
    CHECK(p.held().at(1) == (newer ? comes : there));
  }
}

TEST_CASE("MAJ-1: a round is won by more than half of all voters, each counted once") {
  const std::vector<size_t> needed_of{1, 1, 2, 2, 3, 3, 4, 4, 5, 5};
  for (size_t voters = 1; voters < needed_of.size(); ++voters) {
    CAPTURE(voters);
    std::vector<std::string> names;
    for (size_t n = 0; n < voters; ++n) names.push_back(fmt::format("v{}", n));
    majority_policy votes(names);
    CHECK(votes.needed() == needed_of[voters]);
    CHECK(majority_policy::majority_of(voters) == needed_of[voters]);
    CHECK(2 * votes.needed() > voters);
    for (size_t n = 0; n < voters; ++n) {
      CHECK((votes.judge() == vote_verdict::won) == (n >= votes.needed()));
      votes.granted("a stranger", {{1, {9, 9, "of a stranger"}}});
      for (int times = 0; times < 3; ++times) votes.granted(names[n], {});
      CHECK(votes.grants() == n + 1);
      CHECK(votes.has_answered(names[n]));
    }
    CHECK(votes.judge() == vote_verdict::won);
    CHECK(votes.newest().empty());
    CHECK_FALSE(votes.has_answered("a stranger"));
  }
  CHECK(majority_policy({"a", "b", "a"}).voters() == 2);
}

TEST_CASE("MAJ-2: a round is lost once it cannot be won, whatever the silent ones will say") {
  for (size_t voters = 1; voters < 10; ++voters) {
    CAPTURE(voters);
    std::vector<std::string> names;
    for (size_t n = 0; n < voters; ++n) names.push_back(fmt::format("v{}", n));
    majority_policy votes(names);
    for (size_t n = 0; n < voters; ++n) {
      CHECK((votes.judge() == vote_verdict::lost) == (voters - n < votes.needed()));
      votes.refused("a stranger", 99, "x");
      for (int times = 0; times < 3; ++times) votes.refused(names[n], 7, "b");
    }
    CHECK(votes.judge() == vote_verdict::lost);
    CHECK(votes.grants() == 0);
    CHECK(votes.other_epoch() == 7);
  }
  majority_policy votes({"v0", "v1", "v2"});
  votes.refused("v0", 7, "b");
  votes.refused("v1", 5, "a");
  CHECK(votes.other_epoch() == 7);  // the greatest, not the last
  CHECK(votes.other_head() == "b");
  CHECK(votes.judge() == vote_verdict::lost);
  votes.granted("v0", {});  // it had not heard yet what it has heard now
  CHECK(votes.judge() == vote_verdict::open);
  votes.granted("v2", {});
  CHECK(votes.judge() == vote_verdict::won);
  votes.refused("v2", 9, "c");  // it promised first: an older answer that came late
  votes.refused("v0", 9, "c");
  CHECK(votes.judge() == vote_verdict::won);
  CHECK(votes.other_epoch() == 7);
}

TEST_CASE("MAJ-3: the next head begins with the newest of each kind among those that granted") {
  majority_policy votes({"v0", "v1", "v2", "v3", "v4"});
  votes.granted("v0", {{1, {3, 9, "third epoch"}}});
  votes.granted("v1", {{1, {4, 1, "fourth epoch"}}, {2, {2, 1, "first"}}});
  votes.granted("v2", {{1, {3, 10, "third epoch, later"}}, {2, {2, 2, "second"}}});
  votes.granted("v3", {});
  CHECK(votes.newest() == held_records{{1, {4, 1, "fourth epoch"}}, {2, {2, 2, "second"}}});
}

namespace {

/// Times are small numbers: 100 of patience, 50 of rest, 10 between two heads.
takeover_policy::rules small_times(uint32_t place) {
  return {.patience_ns = 100, .rest_ns = 50, .stagger_ns = 10, .place = place, .job_runs = true};
}

/// Asks for nothing before `at`, and then for `epoch`.
void check_due(const takeover_policy& p, int64_t at, uint32_t epoch) {
  CHECK(p.due(at - 1, 3, 2) == std::nullopt);
  CHECK(p.due(at, 3, 2) == std::optional(epoch));
}

}  // namespace

TEST_CASE("TKO-1: a standby waits while a head acts, or may be about to, and until a job runs") {
  check_due(takeover_policy(small_times(0), 1000), 1100, 1);
  check_due(takeover_policy(small_times(2), 1000), 1120, 1);
  auto rules = small_times(2);
  rules.job_runs = false;
  takeover_policy p(rules, 1000);
  CHECK(p.due(1'000'000, 3, 3) == std::nullopt);  // nobody has begun it
  p.heard_acting(3, 2000);                        // somebody has
  check_due(p, 2120, 4);
  p.heard_acting(3, 2100);
  check_due(p, 2220, 4);
  p.heard_acting(2, 2200);  // of an epoch before: it is waited for, until it knows
  CHECK_FALSE(p.hears_acting(2200));
  check_due(p, 2320, 4);
  p.lost_acting();  // as long as it may still be connected to others
  check_due(p, 2320, 4);
  p.promised_to_other(7, 3000);
  check_due(p, 3170, 8);
  p.lost_round(0, 3001);  // no wait makes another one shorter
  check_due(p, 3170, 8);

  rules.at_once = true;
  takeover_policy again(rules, 1000);  // in the place of a lost one: no wait, and the job runs
  CHECK(again.due(1000, 3, 2) == 1u);
  again.heard_acting(3, 1000);  // but another was there first
  check_due(again, 1120, 4);
}

TEST_CASE("TKO-2: nothing is asked for while too few voters are within reach to win") {
  const takeover_policy p(small_times(0), 0);
  CHECK(p.due(500, 1, 2) == std::nullopt);
  CHECK(p.due(500, 0, 1) == std::nullopt);
  CHECK(p.due(500, 2, 2) == 1u);
  auto rules = small_times(0);
  rules.at_once = true;
  CHECK(takeover_policy(rules, 0).due(0, 1, 2) == std::nullopt);
}

TEST_CASE("TKO-3: the epoch asked for is later than any heard of, and of two one is first") {
  for (uint32_t place = 0; place < 3; ++place) {
    CAPTURE(place);
    takeover_policy p(small_times(place), 0);
    p.heard_of(6);
    p.heard_of(4);
    CHECK(p.latest() == 6);
    check_due(p, 100 + 10 * place, 7);
    p.lost_round(9, 1000);
    check_due(p, 1020 + 10 * place, 10);  // each place is another time
    p.lost_round(2, 2000);
    check_due(p, 2040 + 10 * place, 10);  // and it is longer each time
    for (int n = 0; n < 100; ++n) p.lost_round(2, 2000);
    check_due(p, 2000 + 20 * 32 + 10 * place, 10);
    p.promised_to_other(12, 3000);
    check_due(p, 3150 + 10 * place, 13);
    p.heard_acting(13, 4000);
    check_due(p, 4100 + 10 * place, 14);
  }
}

TEST_CASE("TKO-4: a head that acts is heard until it was silent for long, or its link is gone") {
  takeover_policy p(small_times(1), 0);
  CHECK_FALSE(p.hears_acting(0));
  p.heard_acting(3, 1000);
  CHECK(p.hears_acting(1000));
  CHECK(p.hears_acting(1099));
  CHECK_FALSE(p.hears_acting(1100));
  p.heard_of(5);  // another is elected: the one before is no reason any more
  p.heard_acting(4, 2000);
  CHECK_FALSE(p.hears_acting(2000));
  p.heard_acting(5, 2000);
  CHECK(p.hears_acting(2000));
  p.lost_acting();
  CHECK_FALSE(p.hears_acting(2000));
}

namespace {

/// What happened in searches, so that they cannot pass by doing nothing.
struct search_counts {
  int elections = 0;  ///< rounds for an epoch that were won
  int decisions = 0;  ///< records that a majority holds
  int overtaken = 0;  ///< heads that acted and were outvoted
  int deaths = 0;     ///< of heads that acted
  int handed_on = 0;  ///< heads that began with records of others
  int compared = 0;   ///< decisions with elections for later epochs
};

/// A request to a voter, or its answer.
struct search_message {
  bool is_answer = false;
  size_t head = 0;     ///< which one asks
  uint64_t round = 0;  ///< of which of its rounds
  std::string voter;
  uint32_t epoch = 0;                ///< asked for, or promised
  std::string of;                    ///< of an answer: to whom
  std::optional<held_record> record; ///< none: a promise
  uint16_t kind = 0;
  bool granted = false;
  held_records held;
};

struct search_round {
  uint64_t id = 0;  ///< no other's, of no head: what comes later is not counted
  uint32_t epoch = 0;
  std::optional<held_record> record;
  uint16_t kind = 0;
  majority_policy votes;
};

/// A process: all of it is forgotten when it dies.
struct search_head {
  uint32_t heard = 0;   ///< the latest epoch
  uint32_t acting = 0;  ///< 0: it stands by
  uint64_t numbers = 0;
  held_records to_hold;                ///< before it decides anything
  std::map<uint16_t, std::string> now; ///< what it goes by, of each kind
  std::vector<search_round> rounds;
};

/// Heads and voters whose messages lie in a bag. What heads decide are numbers, each of them made
/// of one before, so that what was decided can be found in what comes of it.
class heads_search {
 public:
  heads_search(uint64_t seed, search_counts& counts) : lot_(seed), counts_(counts) {
    heads_.resize(3 + lot_() % 3);
    for (size_t n = 0; n < heads_.size(); ++n) voters_.push_back(fmt::format("h{}", n));
    for (auto nodes = lot_() % 5; nodes > 0; --nodes) voters_.push_back(fmt::format("n{}", nodes));
  }

  /// What was wrong; empty: nothing.
  std::string run(int steps) {
    for (; steps > 0 && wrong_.empty(); --steps) {
      const auto dice = lot_() % 100;
      if (dice < 75 && !bag_.empty())
        take();
      else
        act(lot_() % heads_.size());
    }
    compare();
    return wrong_;
  }

 private:
  struct election {
    size_t head = 0;
    held_records begins;
  };

  bool chance(unsigned percent) { return lot_() % 100 < percent; }

  // -- the bag ------------------------------------------------------------------------------------

  void take() {
    std::swap(bag_[lot_() % bag_.size()], bag_.back());
    const auto m = bag_.back();
    if (!chance(10)) bag_.pop_back();  // else it comes once more
    if (chance(8)) return;             // lost
    if (m.is_answer)
      count(m);
    else if (const auto answer = vote(m); !chance(8))
      bag_.push_back(answer);
  }

  search_message vote(const search_message& asked) {
    auto& disk = disks_[asked.voter];
    auto answer = asked;
    const auto& head = voters_[asked.head];
    answer.is_answer = true;
    answer.granted = asked.record ? disk.may_hold(*asked.record, head)
                                  : disk.may_promise(asked.epoch, head);
    if (answer.granted && asked.record) disk.hold(asked.kind, *asked.record, head);
    if (answer.granted && !asked.record) {
      disk.promise(asked.epoch, head);
      answer.held = disk.held();
    }
    answer.epoch = disk.epoch();
    answer.of = disk.head();
    return answer;
  }

  void ask(size_t head, const search_round& round) {
    for (const auto& voter : voters_) {
      if (round.votes.has_answered(voter) || bag_.size() > 80) continue;
      bag_.push_back({false, head, round.id, voter, round.epoch, {}, round.record, round.kind,
                      false, {}});
    }
  }

  /// Its own voter is asked first: what it asked for is not forgotten when it dies.
  void begin(size_t head, uint32_t epoch, std::optional<held_record> record, uint16_t kind) {
    auto& h = heads_[head];
    h.rounds.push_back({++rounds_, epoch, std::move(record), kind, majority_policy(voters_)});
    const auto round = h.rounds.back();
    ask(head, round);
    count(vote({false, head, round.id, voters_[head], epoch, {}, round.record, kind, false, {}}));
  }

  // -- heads --------------------------------------------------------------------------------------

  void act(size_t head) {
    auto& h = heads_[head];
    if (chance(h.acting > 0 ? 8 : 2)) {
      counts_.deaths += h.acting > 0;
      h = search_head{};
      return;
    }
    if (!h.rounds.empty() && chance(60)) return ask(head, h.rounds[lot_() % h.rounds.size()]);
    if (h.acting == 0) {
      if (!chance(30)) return;
      h.rounds.clear();  // it gives up the epoch that it asked for
      const auto known = std::max(h.heard, disks_[voters_[head]].epoch());
      return begin(head, known + 1 + lot_() % 3, std::nullopt, 0);
    }
    if (!h.to_hold.empty() || h.rounds.size() > 2) return;
    const auto kind = static_cast<uint16_t>(1 + lot_() % 2);
    const auto made_of = h.now[kind];
    h.now[kind] = fmt::format("{}", made_of_.size());
    made_of_.push_back(made_of);
    begin(head, h.acting, held_record{h.acting, ++h.numbers, h.now[kind]}, kind);
  }

  void hold_next(size_t head) {
    auto& h = heads_[head];
    if (h.to_hold.empty()) return;
    const auto [kind, record] = *h.to_hold.begin();
    begin(head, h.acting, held_record{h.acting, ++h.numbers, record.content}, kind);
  }

  void count(const search_message& m) {
    auto& h = heads_[m.head];
    const auto round = std::find_if(h.rounds.begin(), h.rounds.end(),
                                    [&](const search_round& r) { return r.id == m.round; });
    if (round == h.rounds.end()) return;  // over, or of a life before
    h.heard = std::max(h.heard, m.epoch);
    if (m.granted)
      round->votes.granted(m.voter, m.held);
    else
      round->votes.refused(m.voter, m.epoch, m.of);
    const auto verdict = round->votes.judge();
    if (verdict == vote_verdict::open) return;
    const auto over = *round;
    h.rounds.erase(round);
    if (verdict == vote_verdict::won) return won(m.head, over);
    if (h.acting == 0) return;
    ++counts_.overtaken;
    h = search_head{};  // it ends; another process may come in its place
  }

  void won(size_t head, const search_round& round) {
    auto& h = heads_[head];
    if (round.record) {
      ++counts_.decisions;
      decided_.emplace_back(round.kind, *round.record);
      const auto waiting = h.to_hold.find(round.kind);
      if (waiting == h.to_hold.end()) return;
      h.to_hold.erase(waiting);
      return hold_next(head);
    }
    ++counts_.elections;
    counts_.handed_on += !round.votes.newest().empty();
    const auto [other, first] = elected_.try_emplace(round.epoch, head, round.votes.newest());
    if (!first)
      wrong_ = fmt::format("epoch {} is {}'s and {}'s", round.epoch, voters_[other->second.head],
                           voters_[head]);
    h.acting = round.epoch;
    h.to_hold = round.votes.newest();
    for (const auto& [kind, record] : h.to_hold) h.now[kind] = record.content;
    hold_next(head);
  }

  // -- what must hold -----------------------------------------------------------------------------

  bool comes_of(std::string what, const std::string& before) const {
    while (!what.empty() && what != before) what = made_of_[std::stoull(what)];
    return what == before;
  }

  /// Whichever was first: a record that a majority holds is known to all heads of later epochs.
  void compare() {
    for (const auto& [epoch, e] : elected_)
      for (const auto& [kind, d] : decided_) {
        if (epoch <= d.epoch) continue;
        ++counts_.compared;
        const auto there = e.begins.find(kind);
        const bool known = there != e.begins.end() && !d.is_newer_than(there->second) &&
                           comes_of(there->second.content, d.content);
        if (!known && wrong_.empty())
          wrong_ = fmt::format("the head of epoch {} does not know record {} of epoch {}, kind {}",
                               epoch, d.number, d.epoch, kind);
      }
  }

  std::mt19937_64 lot_;
  search_counts& counts_;
  std::vector<std::string> voters_;  ///< heads first
  std::map<std::string, promises_policy> disks_;
  std::vector<search_head> heads_;
  std::vector<search_message> bag_;
  std::vector<std::string> made_of_;  ///< by what was decided, a number
  std::map<uint32_t, election> elected_;
  std::vector<std::pair<uint16_t, held_record>> decided_;
  uint64_t rounds_ = 0;
  std::string wrong_;
};

}  // namespace

TEST_CASE("PRM-1, PRM-3, MAJ-3: by seeds: one head an epoch, and none forgets a decision") {
  search_counts counts;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    const auto wrong = heads_search(seed, counts).run(400);
    REQUIRE(wrong == "");
  }
  CAPTURE(counts.elections);
  CAPTURE(counts.decisions);
  CAPTURE(counts.overtaken);
  CAPTURE(counts.deaths);
  CAPTURE(counts.handed_on);
  CAPTURE(counts.compared);
  REQUIRE(counts.elections > 0);
  REQUIRE(counts.decisions > 0);
  REQUIRE(counts.overtaken > 0);
  REQUIRE(counts.deaths > 0);
  REQUIRE(counts.handed_on > 0);
  REQUIRE(counts.compared > 0);
}

TEST_CASE("job memory: its times become those of another machine's clock, and nothing else does") {
  train::job_memory m;
  m.paused = true;
  m.account = {7, 3, {5, {100, 200}, {{0, {150}}, {4, {110, 190}}}}, {}, 300, 12};
  m.account.time[health::time_use::useful] = 90;
  auto expected = m;
  expected.account.at_ns = 1300;
  expected.account.recoveries.within_hour_ns = {1100, 1200};
  expected.account.recoveries.applied_ns = {{0, {1150}}, {4, {1110, 1190}}};
  CHECK(train::moved_by(m, 1000) == expected);
  CHECK(train::moved_by(expected, -1000) == m);
  CHECK(train::moved_by(m, 0) == m);
  CHECK(train::moved_by({}, 1000) == train::job_memory{});  // no time is none there, too
}

TEST_CASE("WAI-1, WAI-2: that it waits is said after the patience, then after twice as long each") {
  constexpr int64_t s = 1'000'000'000;
  heads::waiting_policy w(20 * s, 100 * s);
  std::vector<int64_t> said;
  for (int64_t now = 100; now < 100 + 24 * 3600; ++now)
    if (const auto silent = w.due(now * s)) {
      said.push_back(now - 100);
      CHECK(*silent == (now - 100) * s);
    }
  REQUIRE(said.size() > 8);
  CHECK(std::vector(said.begin(), said.begin() + 4) == std::vector<int64_t>{20, 60, 140, 300});
  CHECK(said.size() < 40);
  CHECK(said.back() - said[said.size() - 2] == heads::waiting_policy::steady_pause_ns / s);
  w.heard(200'000 * s);
  CHECK_FALSE(w.due(200'019 * s));
  CHECK(w.due(200'020 * s) == 20 * s);
  CHECK_FALSE(w.due(200'059 * s));
}

namespace {

/// Changes one setting.
config::job changed(void (*change)(config::job&)) {
  config::job job;
  job.cluster.node = {{"node0", "localhost", 1}, {"node1", "localhost", 1}};
  change(job);
  return job;
}

}  // namespace

TEST_CASE("SMJ-1: what heads may have each for itself changes no digest, anything else does") {
  const auto digest = [](void (*change)(config::job&)) {
    return heads::shared_settings(changed(change)).digest();
  };
  const auto same = digest([](config::job&) {});
  CHECK(same != 0);
  CHECK(heads::shared_settings().digest() == 0);
  for (const auto own : std::initializer_list<void (*)(config::job&)>{
           [](config::job& j) { j.log.format = config::log_format::json; },
           [](config::job& j) { j.cluster.listen = "10.0.0.2"; },
           [](config::job& j) { j.cluster.port = 4711; },
           [](config::job& j) { j.cluster.advertise = "b"; },
           [](config::job& j) { j.cluster.tls.key = "/b/key.pem"; },
           [](config::job& j) { j.checkpoint.resume = "/b/step-00000010"; },
           [](config::job& j) { j.data.cache = "/b/cache"; }})
    CHECK(digest(own) == same);
  std::set<uint32_t> others{same};
  for (const auto shared : std::initializer_list<void (*)(config::job&)>{
           [](config::job& j) { j.train.steps = 7; },
           [](config::job& j) { j.job.output = "elsewhere"; },
           [](config::job& j) { j.cluster.heads = {"a:1", "b:1"}; },
           [](config::job& j) { j.cluster.node[1].host = "b"; },
           [](config::job& j) { j.cluster.node.pop_back(); },
           [](config::job& j) { j.recovery.rule.emplace_back(); },
           [](config::job& j) { j.inject.emplace_back(); }})
    CHECK(others.insert(digest(shared)).second);
}

TEST_CASE("same job: what differs is named, of much the first, or nothing where it is not known") {
  const heads::shared_settings here(changed([](config::job& j) { j.train.steps = 7; }));
  const heads::shared_settings there(changed([](config::job& j) {
    j.train.steps = 9;
    j.cluster.node.pop_back();
  }));
  const auto why = here.differ_from(there.lines(), "a:1");
  CHECK(is_error(why, heads::another_configuration, "a:1", "train.steps", 9, 7,
                 "cluster.node.host"));
  CHECK(why.message.find("train.batch") == std::string::npos);
  CHECK(is_error(here.differ_from({}, "a:1"), heads::another_configuration, "a:1"));
  const heads::shared_settings much(changed([](config::job& j) {
    j.train.steps = j.train.batch = j.train.seq_len = j.train.warmup_steps = 3;
    j.model.layers = j.model.heads = j.model.hidden = j.model.vocab = j.model.ffn = 3;
  }));
  CHECK(is_error(here.differ_from(much.lines(), "a:1"), heads::another_configuration, "1 more"));
}

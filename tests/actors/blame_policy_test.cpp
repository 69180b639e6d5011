// Which node, which part, since when: found soon, and nobody else is named.
#include "actors/health/blame_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace troupe::health {

namespace {

using op = train::pipeline_op;

/// Steps of some nodes of two stages, each rank on a node of its own.
struct blamed_cluster {
  int stages, replicas;
  std::mt19937_64 random;
  double noise = 0.02, tail = 0;  ///< a deviation; the share of parts that take half as long again
  blame_policy policy;
  std::vector<blamed_place> places;
  uint64_t step = 0;
  uint32_t epoch = 1;
  /// What a part takes on a rank beside what is usual, as a factor.
  std::function<double(int rank, op part)> factor = [](int, op) { return 1.0; };

  blamed_cluster(int of_stages, int of_replicas, uint64_t seed, blame_options options = {})
      : stages(of_stages), replicas(of_replicas), random(seed) {
    for (int r = 0; r < of_stages * of_replicas; ++r)
      places.push_back({"node" + std::to_string(r), "xeon"});
    policy = blame_policy(options, {of_replicas, 1, of_stages});
  }
  int ranks() const { return stages * replicas; }

  blame_policy::parts parts_of(int rank) {
    // The stages have unlike work: 80 and 100 ms forward.
    const double share = 1 + 0.25 * (rank / replicas);
    blame_policy::parts out;
    for (const auto& [part, ms] : {std::pair{op::forward, 80.0},
                                   {op::backward, 160.0},
                                   {op::update, 20.0},
                                   {op::reduce_scatter, 30.0},
                                   {op::norm, 0.5}}) {
      double took = ms * share * factor(rank, part);
      took *= 1 + noise * std::normal_distribution<>()(random);
      if (std::uniform_real_distribution<>()(random) < tail) took *= 1.5;
      out.push_back({part, std::max(0.001, took), 0, 1000});
    }
    return out;
  }
  /// The first rank says of what kind it is.
  void go_on(fbs::StepOddity kind = fbs::StepOddity::none) {
    ++step;
    for (int r = 0; r < ranks(); ++r)
      policy.hear(epoch, step, static_cast<uint64_t>(r), parts_of(r),
                  r == 0 ? kind : fbs::StepOddity::none);
  }
  std::vector<blame> found() const {
    auto out = policy.found(places);
    if (!out.empty()) CHECK(policy.may_find());
    return out;
  }
  void go_on_for(int steps) {
    for (int i = 0; i < steps; ++i) go_on();
  }
};

/// What machines do over the day: all drift together by 3 %, one rank is twice as noisy as others
/// and more, and one step in a hundred is of a burst, in which all parts of a rank take half as
/// long again for four steps.
struct changing_noise {
  blamed_cluster c;
  std::mt19937_64 random;
  int noisy = 0;
  std::vector<uint64_t> burst_until;
  std::function<double(int rank, op part)> fault = [](int, op) { return 1.0; };

  changing_noise(int of_stages, int of_replicas, uint64_t seed)
      : c(of_stages, of_replicas, seed),
        random(seed + 1000),
        noisy(static_cast<int>(seed) % c.ranks()),
        burst_until(static_cast<size_t>(c.ranks())) {
    c.factor = [this](int rank, op part) { return factor(rank, part); };
  }
  changing_noise(const changing_noise&) = delete;
  changing_noise& operator=(const changing_noise&) = delete;

  double factor(int rank, op part) {
    constexpr double day_steps = 300;
    const double drift = std::sin(2 * std::numbers::pi * static_cast<double>(c.step) / day_steps);
    double out = fault(rank, part) * (1 + 0.03 * drift);
    if (burst_until[static_cast<size_t>(rank)] >= c.step) out *= 1.5;
    if (rank == noisy) out *= 1 + 0.04 * std::normal_distribution<>()(random);
    return out;
  }
  void go_on() {
    for (auto& until : burst_until)
      if (until <= c.step && std::uniform_real_distribution<>()(random) < 0.01 / 4)
        until = c.step + 4;
    c.go_on();
  }
};

/// `part` of `rank` takes 1 + `more` as long.
std::function<double(int, op)> slower(int rank, op part, double more) {
  return [=](int r, op p) { return r == rank && p == part ? 1 + more : 1.0; };
}

}  // namespace

TEST_CASE("blame: a part that takes a tenth longer is found within 20 steps, and it alone") {
  int right = 0, wrong = 0, all = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    blamed_cluster c(2, 4, seed);
    c.tail = seed % 2 == 0 ? 0.01 : 0;
    c.go_on_for(100);
    CHECK(c.found().empty());
    const int rank = static_cast<int>(seed % 8);
    const op part = seed % 3 == 0 ? op::forward : seed % 3 == 1 ? op::backward : op::update;
    c.factor = slower(rank, part, 0.10);
    c.go_on_for(20);
    ++all;
    bool here = false;
    for (const auto& b : c.found()) {
      const bool hit = b.rank == rank && b.part == part && b.cause == blame_cause::slow;
      here = here || hit;
      if (!hit) ++wrong;
      if (!hit) continue;
      CHECK(b.node == "node" + std::to_string(rank));
      CHECK(b.off > 0.07);
      CHECK(b.off < 0.14);
      CHECK(b.since_step >= 97);
      CHECK(b.since_step <= 110);
    }
    if (here) ++right;
  }
  CHECK(right >= all * 99 / 100);
  CHECK(wrong == 0);
}

/// Whose few first steps happen to differ by much is not taken for noisier than others are.
TEST_CASE("blame: of 600 that get a tenth slower none is found later than after 20 steps") {
  int late = 0, before = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    blamed_cluster c(2, 4, 7000 + seed);
    c.tail = seed % 2 == 0 ? 0.01 : 0;
    c.go_on_for(100);
    before += c.policy.may_find() ? 1 : 0;
    const int rank = static_cast<int>(seed % 8);
    c.factor = slower(rank, seed % 3 == 0 ? op::forward : op::backward, 0.10);
    bool is_found = false;
    for (int i = 0; i < 20 && !is_found; ++i) {
      c.go_on();
      is_found = c.policy.may_find();
    }
    const auto found = c.found();
    late += found.size() == 1 && found[0].rank == rank ? 0 : 1;
  }
  CHECK(late == 0);
  CHECK(before == 0);
}

TEST_CASE("blame: who is far noisier than all others is not taken for slow") {
  int told = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed)
    for (const int replicas : {2, 6}) {
      blamed_cluster c(1, replicas, seed);
      std::mt19937_64 random(seed);
      c.factor = [&](int rank, op) {
        return rank == 1 ? 1 + 0.1 * std::normal_distribution<>()(random) : 1.0;
      };
      for (int i = 0; i < 500; ++i) {
        c.go_on();
        told += static_cast<int>(c.found().size());
      }
    }
  CHECK(told == 0);
}

/// Half of them are a fifth longer than the others: a median of some is either.
TEST_CASE("blame: steps of two kinds at random seldom name anybody") {
  int begun = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    blamed_cluster c(1, 8, seed);
    std::mt19937_64 random(seed + 500);
    c.factor = [&](int, op) { return random() % 2 == 0 ? 1.2 : 1.0; };
    size_t before = 0;
    for (int i = 0; i < 1000; ++i) {
      c.go_on();
      const auto now = c.found().size();
      begun += now > before ? 1 : 0;
      before = now;
    }
  }
  CHECK(begun <= 40);  // in 64,000 steps of nodes; by their medians alone twice as many
}

TEST_CASE("blame: nobody is named in 100,000 steps of nodes with noise whose tail is heavy") {
  int told = 0;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    blamed_cluster c(2, 2, seed);
    c.tail = 0.01;
    for (int i = 0; i < 1000; ++i) {
      c.go_on();
      told += static_cast<int>(c.found().size());
    }
  }
  CHECK(told == 0);
}

TEST_CASE("blame: nobody is named in 100,000 steps of nodes whose noise changes with time") {
  int told = 0;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    changing_noise n(2, 2, seed);
    for (int i = 0; i < 1000; ++i) {
      n.go_on();
      told += static_cast<int>(n.c.found().size());
    }
  }
  CHECK(told == 0);
}

TEST_CASE("blame: a tenth longer is found within 20 steps beside noise that changes with time") {
  int right = 0, all = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    changing_noise n(2, 4, seed);
    const int steps = 60 + static_cast<int>(7 * seed % 300);  // at any time of the day
    for (int i = 0; i < steps; ++i) n.go_on();
    const int rank = (n.noisy + 1 + static_cast<int>(seed) % 7) % 8;
    n.fault = slower(rank, op::backward, 0.10);
    for (int i = 0; i < 20; ++i) n.go_on();
    const auto found = n.c.found();
    CHECK(found.size() <= 1);
    ++all;
    right += static_cast<int>(std::ranges::count_if(found, [&](const blame& b) {
      return b.rank == rank && b.part == op::backward && b.cause == blame_cause::slow;
    }));
  }
  CHECK(right >= all * 97 / 100);  // what drifted while normal was learned counts as noise
}

TEST_CASE("blame: where ranks are is not asked for before somebody may be named") {
  blamed_cluster c(2, 4, 3);
  for (int i = 0; i < 100; ++i) {
    c.go_on();
    CHECK_FALSE(c.policy.may_find());
  }
  c.factor = slower(5, op::backward, 0.2);
  c.go_on_for(20);
  CHECK(c.policy.may_find());
}

TEST_CASE("blame: noise that is larger than what is asked for names nobody, either") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    blamed_cluster c(1, 4, seed);
    c.noise = 0.15;
    for (int i = 0; i < 500; ++i) {
      c.go_on();
      CHECK(c.found().empty());
    }
  }
}

TEST_CASE("BPT-3: where all get slower together the job is, and one who is slower still is named") {
  blamed_cluster c(2, 3, 7);
  c.go_on_for(60);
  c.factor = [](int, op part) { return part == op::backward ? 1.3 : 1.0; };
  c.go_on_for(20);
  auto found = c.found();
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == blame_cause::job);
  CHECK(found[0].part == op::backward);
  CHECK(found[0].rank == -1);
  CHECK(found[0].node.empty());
  CHECK(found[0].off == doctest::Approx(0.3).epsilon(0.1));
  c.factor = [](int rank, op part) {
    return part != op::backward ? 1.0 : rank == 4 ? 1.3 * 1.25 : 1.3;
  };
  c.go_on_for(20);
  found = c.found();
  REQUIRE(found.size() == 2);
  CHECK(found[0].cause == blame_cause::job);
  CHECK(found[1].cause == blame_cause::slow);
  CHECK(found[1].rank == 4);
  CHECK(found[1].off == doctest::Approx(0.25).epsilon(0.2));
}

TEST_CASE("blame: who takes what he always took is not slow since another became quicker") {
  for (const int ranks : {2, 4, 6}) {
    CAPTURE(ranks);
    blamed_cluster c(1, ranks, 31);
    // All but the first are held up while normal is learned.
    c.factor = [](int rank, op) { return rank > 0 ? 1.4 : 1.0; };
    c.go_on_for(50);
    c.factor = [](int, op) { return 1.0; };
    c.go_on_for(40);
    CHECK(c.found().empty());
  }
}

TEST_CASE("blame: of two nodes the one that has changed is named, of one node none") {
  blamed_cluster two(1, 2, 3);
  two.go_on_for(60);
  two.factor = slower(1, op::backward, 0.2);
  two.go_on_for(20);
  const auto found = two.found();
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 1);
  blamed_cluster one(1, 1, 3);
  one.go_on_for(60);
  one.factor = slower(0, op::backward, 0.2);
  one.go_on_for(20);
  REQUIRE(one.found().size() == 1);
  CHECK(one.found()[0].cause == blame_cause::job);
}

TEST_CASE("BPT-2: stages of unlike work, and unlike machines, are not held against each other") {
  blamed_cluster c(4, 2, 5);  // the last stage takes 1.75 times as long as the first
  c.go_on_for(100);
  CHECK(c.found().empty());
  blamed_cluster kinds(1, 8, 5);
  for (size_t r = 5; r < 8; ++r) kinds.places[r].kind = "atom";  // fewer: above the median
  kinds.factor = [](int rank, op) { return rank < 5 ? 1.0 : 2.0; };
  kinds.go_on_for(100);
  CHECK(kinds.found().empty());
}

TEST_CASE("blame: who never was as its peers are is misconfigured, who was better is not") {
  blamed_cluster c(1, 4, 9);
  c.factor = slower(2, op::forward, 0.4);
  c.go_on_for(60);
  const auto found = c.found();
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == blame_cause::misconfigured);
  CHECK(found[0].node == "node2");
  CHECK(found[0].part == op::forward);
  CHECK(found[0].off == doctest::Approx(0.4).epsilon(0.1));
  CHECK(found[0].normal_ms == doctest::Approx(80).epsilon(0.05));
  c.factor = [](int, op) { return 1.0; };
  c.go_on_for(20);
  CHECK(c.found().empty());  // it was held up at first alone
}

TEST_CASE("blame: a transfer that takes longer is the link's, and names no node") {
  blamed_cluster c(1, 4, 11);
  c.go_on_for(60);
  c.factor = [](int, op part) { return part == op::reduce_scatter ? 1.5 : 1.0; };
  c.go_on_for(20);
  CHECK(c.found().empty());  // a twentieth of a step
  c.factor = [](int, op part) { return part == op::reduce_scatter ? 2.5 : 1.0; };
  c.go_on_for(20);
  const auto found = c.found();
  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == blame_cause::link);
  CHECK(found[0].part == op::reduce_scatter);
  CHECK(found[0].spread_ms > 0);
  CHECK(found[0].node.empty());
  CHECK(found[0].rank == -1);
}

TEST_CASE("blame: a link that got slower is told beside a job that did") {
  blamed_cluster c(1, 4, 14);
  c.go_on_for(60);
  c.factor = [](int, op part) {
    return part == op::reduce_scatter ? 2.5 : part == op::backward ? 1.4 : 1.0;
  };
  c.go_on_for(20);
  const auto found = c.found();
  REQUIRE(found.size() == 2);
  CHECK(found[0].cause == blame_cause::job);
  CHECK(found[0].part == op::backward);
  CHECK(found[1].cause == blame_cause::link);
  CHECK(found[1].part == op::reduce_scatter);
}

TEST_CASE("blame: who waits in a transfer for the slow one is not named, nor is the link") {
  blamed_cluster c(1, 4, 12);
  c.go_on_for(60);
  c.factor = [](int rank, op part) {
    if (part == op::backward && rank == 1) return 1.2;
    return part == op::reduce_scatter && rank != 1 ? 2.0 : 1.0;  // they came 32 ms before it
  };
  c.go_on_for(30);
  const auto found = c.found();
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 1);
  CHECK(found[0].part == op::backward);
}

TEST_CASE("BPT-1: what is normal is frozen, so that a slow decay is found") {
  blamed_cluster c(1, 4, 13);
  c.go_on_for(50);
  double more = 0;
  c.factor = [&](int rank, op part) { return rank == 0 && part == op::backward ? 1 + more : 1; };
  for (int i = 0; i < 400 && c.found().empty(); ++i) {
    more += 0.0005;
    c.go_on();
  }
  REQUIRE(c.found().size() == 1);
  CHECK(c.found()[0].rank == 0);
  CHECK(more < 0.11);
}

TEST_CASE("BPT-1: steps that are not as others are not learned from, and other work begins anew") {
  blamed_cluster c(1, 3, 17);
  c.factor = slower(1, op::forward, 5);
  for (int i = 0; i < 100; ++i) c.go_on(fbs::StepOddity::paced);
  c.factor = [](int, op) { return 1.0; };
  c.go_on_for(60);
  CHECK(c.found().empty());
  const auto before = c.policy.look(0, op::forward);
  REQUIRE(before);
  CHECK(before->normal_ms == doctest::Approx(80).epsilon(0.05));
  const auto other = [&] {
    ++c.step;
    for (uint64_t r = 0; r < 3; ++r)
      c.policy.hear(c.epoch, c.step, r, {{op::forward, 160, 0, 2000}});
  };
  other();
  CHECK_FALSE(c.policy.look(0, op::forward));
  CHECK(c.policy.look(0, op::backward));
  c.go_on_for(60);
  CHECK(c.policy.look(0, op::forward));
  ++c.epoch;
  other();
  CHECK_FALSE(c.policy.look(0, op::backward));
}

TEST_CASE("BPT-5: where every step is beside a save, or held up by one, who is slow is found") {
  for (const auto kind : {fbs::StepOddity::beside_save, fbs::StepOddity::saves}) {
    blamed_cluster c(1, 3, 21);
    for (int i = 0; i < 60; ++i) c.go_on(kind);
    CHECK(c.policy.quiet_steps() == 57);
    CHECK(c.found().empty());
    CHECK(c.policy.look(0, op::forward));
    c.factor = slower(1, op::backward, 0.3);
    for (int i = 0; i < 20; ++i) c.go_on(kind);
    REQUIRE(c.found().size() == 1);
    CHECK(c.found()[0].rank == 1);
    CHECK(c.found()[0].part == op::backward);
  }
}

TEST_CASE("BPT-5: what a save takes of a rank's speed is not held against steps without one") {
  blamed_cluster c(1, 3, 22);
  const auto go_on = [&](int steps, int saves_of_100, double more) {
    for (int i = 0; i < steps; ++i) {
      const bool saves = i % 100 >= 100 - saves_of_100;
      c.factor = slower(1, op::backward, (saves ? 0.4 : 0.0) + more);
      c.go_on(saves ? fbs::StepOddity::beside_save : fbs::StepOddity::none);
      if (more == 0) CHECK(c.found().empty());
    }
  };
  go_on(400, 30, 0);
  CHECK(c.policy.look(1, op::backward)->normal_ms == doctest::Approx(160).epsilon(0.05));
  go_on(50, 0, 0.2);
  REQUIRE(c.found().size() == 1);  // by steps without a save, which are the most
  CHECK(c.found()[0].off == doctest::Approx(0.2).epsilon(0.2));
  blamed_cluster busy(1, 3, 23);
  for (int i = 0; i < 80; ++i) busy.go_on();
  busy.factor = [](int, op part) { return part == op::backward ? 1.4 : 1.0; };
  for (int i = 0; i < 60; ++i) busy.go_on(fbs::StepOddity::beside_save);
  CHECK(busy.found().empty());
  CHECK(busy.policy.look(1, op::backward)->normal_ms == doctest::Approx(160).epsilon(0.05));
  for (int i = 0; i < 40; ++i) busy.go_on(fbs::StepOddity::beside_save);  // now the most
  CHECK(busy.found().empty());
  CHECK(busy.policy.look(1, op::backward)->normal_ms == doctest::Approx(224).epsilon(0.05));
}

TEST_CASE("blame: a step of which a rank has not told counts for nothing, nor does an old epoch") {
  blamed_cluster c(1, 3, 18);
  for (uint64_t step = 1; step <= 100; ++step)
    for (uint64_t r = 0; r < 2; ++r)
      CHECK_FALSE(c.policy.hear(1, step, r, {{op::forward, 80, 0, 1000}}));
  CHECK_FALSE(c.policy.look(0, op::forward));
  c.step = 100;
  c.go_on_for(60);
  CHECK(c.policy.look(0, op::forward));
  CHECK_FALSE(c.policy.hear(0, 200, 0, {{op::forward, 1, 0, 1000}}));
  CHECK_FALSE(c.policy.hear(1, 200, 3, {{op::forward, 1, 0, 1000}}));
  CHECK(c.policy.epoch() == 1);
}

TEST_CASE("blame: ends when the part is as it was, without flapping in between") {
  blamed_cluster c(1, 3, 19);
  c.go_on_for(60);
  c.factor = slower(1, op::backward, 0.15);
  c.go_on_for(20);
  REQUIRE(c.found().size() == 1);
  const auto since = c.found()[0].since_step;
  c.factor = slower(1, op::backward, 0.06);  // below where it begins, above where it ends
  c.go_on_for(40);
  REQUIRE(c.found().size() == 1);
  CHECK(c.found()[0].since_step == since);
  c.factor = [](int, op) { return 1.0; };
  c.go_on_for(20);
  CHECK(c.found().empty());
}

TEST_CASE("blame: each part is told beside what is expected of it, once enough steps are seen") {
  blamed_cluster c(1, 3, 29);
  CHECK(c.policy.look_at_all(c.places).rows.empty());
  const auto needed = c.policy.quiet_steps_needed();
  CHECK(needed == 45);  // 32 and 12, in threes
  const auto first_steps = static_cast<int>(blame_options{}.first_steps);
  c.go_on_for(first_steps + static_cast<int>(needed) - 1);
  CHECK(c.policy.quiet_steps() == needed - 1);
  CHECK(c.policy.look_at_all(c.places).rows.empty());
  c.go_on(fbs::StepOddity::validates);
  CHECK(c.policy.quiet_steps() == needed - 1);
  c.go_on();
  auto all = c.policy.look_at_all(c.places);
  REQUIRE(all.rows.size() == 3 * 4);  // norm hardly takes time
  CHECK(all.left_out == 0);
  for (size_t i = 0; i < all.rows.size(); ++i) {
    CHECK_FALSE(all.rows[i].suspected);
    const auto& is = all.rows[i].is;
    CHECK(is.rank == static_cast<int>(i / 4));
    CHECK(is.node == "node" + std::to_string(i / 4));
    auto alone = c.policy.look(is.rank, is.part);
    REQUIRE(alone);
    alone->node = is.node;
    CHECK(*alone == is);
  }
  c.factor = slower(2, op::backward, 0.25);
  c.go_on_for(20);
  all = c.policy.look_at_all(c.places);
  REQUIRE(all.rows.size() == 3 * 4);
  CHECK(all.rows[0].suspected);
  CHECK(all.rows[0].is == c.found()[0]);
  CHECK(all.rows[0].is.rank == 2);
  CHECK(all.rows[0].is.part == op::backward);
  CHECK(all.rows[0].is.normal_ms == doctest::Approx(160).epsilon(0.05));
  CHECK(all.rows[0].is.now_ms == doctest::Approx(200).epsilon(0.05));
  CHECK(std::ranges::count_if(all.rows, [](const auto& row) { return row.suspected; }) == 1);
  blamed_cluster off(1, 3, 29, {.suspect = 0});
  off.go_on_for(60);
  CHECK(off.policy.look_at_all(off.places).rows.empty());
  CHECK(off.policy.quiet_steps_needed() == 0);
}

TEST_CASE("BPT-4: of many parts 512 are told, suspected ones first, and the rest is counted") {
  blamed_cluster c(1, 150, 37);
  c.go_on_for(60);
  c.factor = slower(149, op::backward, 0.5);
  c.go_on_for(20);
  const auto all = c.policy.look_at_all(c.places);
  CHECK(all.rows.size() == blame_policy::most_parts_seen);
  CHECK(all.left_out == 4 * 150 - blame_policy::most_parts_seen);
  CHECK(all.rows[0].suspected);
  CHECK(all.rows[0].is.rank == 149);
  CHECK(all.rows[1].is.rank == 0);
}

TEST_CASE("blame: parts of a step that hardly take time, and nothing asked for, name nobody") {
  blamed_cluster c(1, 3, 23);
  c.go_on_for(60);
  c.factor = slower(1, op::norm, 3);
  c.go_on_for(40);
  CHECK(c.found().empty());
  blamed_cluster off(1, 3, 23, {.suspect = 0});
  off.go_on_for(60);
  off.factor = slower(1, op::backward, 3);
  off.go_on_for(40);
  CHECK(off.found().empty());
}

}  // namespace troupe::health

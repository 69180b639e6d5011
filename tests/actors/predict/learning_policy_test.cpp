// What is learned of a job's steps, and what is not (LRN-1 to LRN-3).
#include "actors/predict/learning_policy.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::predict;
using train::pipeline_op;

namespace {

/// Two replicas of a stage; the second one is half as quick.
struct learned_job {
  config::job job;
  learned_step step;
  learning_policy policy;

  explicit learned_job(learning_options options = {}) {
    job.model.layers = 4;
    job.model.hidden = 64;
    job.train.batch = 8;
    job.train.micro_batch = 2;
    job.train.seq_len = 32;
    job.parallel.data = 2;
    policy = learning_policy(job, options);
    step.epoch = 3;
    step.replicas = 2;
    for (uint32_t rank = 0; rank < 2; ++rank)
      step.ranks.push_back({rank, rank == 0 ? "a" : "b", 4, 2, {}});
    take(10);
  }
  /// From now on, the first one's forward.
  void take(double forward_ms) {
    step.took_ms = 5 * forward_ms;
    for (auto& r : step.ranks) {
      const double ms = (r.rank + 1) * forward_ms;
      r.parts = {{pipeline_op::forward, ms, 0, 128},
                 {pipeline_op::backward, 2 * ms, 1, 128},
                 {pipeline_op::await_copies, 0, 7, 0}};
    }
  }
  void make_steps(size_t n) {
    for (size_t i = 0; i < n; ++i) policy.hear(step);
    while (policy.fit_due()) policy.fit();
  }
  expected_rank expected(const asked_rank& what) const {
    auto said = policy.ask(what);
    REQUIRE_MESSAGE(said, (said ? "" : render(said.error())));
    return std::move(*said);
  }
};

}  // namespace

TEST_CASE("learning: parts of each rank and the step are expected as they were") {
  learned_job f;
  CHECK(is_error(f.policy.ask({0}).error(), "rank_not_seen"));
  f.make_steps(3 + 7);
  CHECK(f.policy.samples() == 0);
  CHECK(f.expected({0}).parts.empty());
  f.make_steps(1);
  CHECK(f.policy.samples() == 2 * 2 + 1);
  CHECK(f.policy.parts() == 3);
  f.make_steps(7 * 8);
  const auto slow = f.expected({1});
  CHECK(slow.node == "b");
  REQUIRE(slow.parts.size() == 2);
  CHECK(slow.parts[0].part == pipeline_op::forward);
  CHECK(slow.parts[1].part == pipeline_op::backward);
  CHECK(slow.parts[0].time.least_s < slow.parts[0].time.seconds);
  CHECK(slow.parts[0].time.seconds < slow.parts[0].time.most_s);
  CHECK(slow.parts[0].time.configurations == 1);
  const auto quick = f.expected({0});
  CHECK(quick.node == "a");
  CHECK(quick.parts[0].time.seconds < slow.parts[0].time.seconds);
  REQUIRE(quick.step);
  CHECK(quick.step->seconds == doctest::Approx(0.05).epsilon(0.02));
  // A node that was never seen is like the others of that work; the quick one's rank there.
  const auto elsewhere = f.expected({0, "c"});
  CHECK(elsewhere.node == "c");
  CHECK(elsewhere.parts[0].time.seconds > quick.parts[0].time.seconds);
  CHECK(elsewhere.parts[0].time.seconds < slow.parts[0].time.seconds);
  CHECK(elsewhere.parts[0].time.most_s - elsewhere.parts[0].time.least_s >
        quick.parts[0].time.most_s - quick.parts[0].time.least_s);
}

TEST_CASE("LRN-7: what came is held against what was expected before, by node and as a whole") {
  learning_options small;
  small.judged_kept = 2;
  learned_job f(small);
  f.make_steps(3 + 8);
  CHECK(f.policy.compared().empty());  // nothing was expected yet
  CHECK(f.policy.errors().judged == 0);
  CHECK(f.policy.nodes() == 2);
  f.take(12);
  f.make_steps(8);
  const auto all = f.policy.compared();
  REQUIRE(all.size() == 2);
  CHECK(all[0].node == "a");
  CHECK(all[0].expected_ms == doctest::Approx(10 + 20).epsilon(0.02));
  CHECK(all[0].seen_ms == doctest::Approx(12 + 24));
  CHECK(all[1].node == "b");
  CHECK(all[1].seen_ms == doctest::Approx(2 * (12 + 24)));
  CHECK(f.policy.errors().judged == 1);
  CHECK(f.policy.errors().worst == doctest::Approx(0.2).epsilon(0.02));
  f.make_steps(1);
  CHECK(f.policy.compared().empty());  // its window is not full
  f.take(10);
  f.make_steps(7 + 2 * 8);
  CHECK(f.policy.errors().judged == 2);
  CHECK(f.policy.errors().worst < 0.02);  // the first one is kept no more
}

TEST_CASE("learning: of a node's ranks the mean is compared") {
  learned_job f;
  f.step.ranks[1].node = "a";
  f.make_steps(3 + 8);
  f.make_steps(8);
  const auto all = f.policy.compared();
  REQUIRE(all.size() == 1);
  CHECK(all[0].seen_ms == doctest::Approx(1.5 * (10 + 20)));
}

TEST_CASE("learning: what lies outside of what was learned from is named") {
  learned_job f;
  f.make_steps(3 + 8);
  const auto inside = f.expected({0});
  CHECK_FALSE(inside.parts[0].time.outside);
  const auto more = f.expected({0, "", 0, 16});
  REQUIRE(more.parts[0].time.outside);
  CHECK(feature_name(*more.parts[0].time.outside) == "threads");
  const auto fewer = f.expected({0, "", 1});
  REQUIRE(fewer.parts[0].time.outside);
  CHECK(feature_name(*fewer.parts[0].time.outside) == "layers");
  CHECK(feature_name(1'000).empty());
}

TEST_CASE("LRN-1: odd steps and an epoch's first ones teach nothing") {
  learned_job f;
  f.step.usual = false;
  f.make_steps(40);
  CHECK(f.policy.samples() == 0);
  CHECK(f.policy.odd_steps() == 40);
  f.step.usual = true;
  f.make_steps(8);
  CHECK(f.policy.samples() == 5);
  ++f.step.epoch;
  f.take(90);
  f.make_steps(3);
  CHECK(f.policy.odd_steps() == 43);
  f.take(10);
  f.make_steps(8);
  CHECK(f.policy.samples() == 10);
  CHECK(f.expected({0}).step->seconds == doctest::Approx(0.05).epsilon(0.02));
  --f.step.epoch;  // late
  f.make_steps(40);
  CHECK(f.policy.samples() == 10);
  CHECK(f.policy.steps() == 40 + 8 + 3 + 8 + 40);
}

TEST_CASE("LRN-1: where every step is beside a save or held up by one, these are learned from") {
  for (const auto kind : {fbs::StepOddity::beside_save, fbs::StepOddity::saves}) {
    learned_job f;
    f.step.kind = kind;
    f.make_steps(3 + 8 * 4);
    CHECK(f.policy.samples() == 4 * 5);
    CHECK(f.expected({0}).step->seconds == doctest::Approx(0.05).epsilon(0.02));
    const auto news = f.policy.news();
    learned_job without;
    without.make_steps(3 + 8);
    REQUIRE_FALSE(news.empty());
    CHECK(news[0].features != without.policy.news()[0].features);  // which kind is a number
  }
}

TEST_CASE(
    "LRN-1, LRN-2: steps with a save and without are no window together, most of them count") {
  learned_job f;
  const auto make_steps = [&](int times, size_t without, size_t beside) {
    for (int i = 0; i < times; ++i) {
      f.step.kind = fbs::StepOddity::none;
      f.take(10);
      f.make_steps(without);
      f.step.kind = fbs::StepOddity::beside_save;
      f.take(15);
      f.make_steps(beside);
    }
  };
  f.make_steps(3);
  make_steps(20, 4, 1);
  CHECK(f.policy.samples() == 10 * 5);
  CHECK(f.policy.odd_steps() == 3 + 20);
  CHECK(f.expected({0}).step->seconds == doctest::Approx(0.05).epsilon(0.02));
  make_steps(1, 0, 60);  // as many, and no more
  CHECK(f.policy.samples() == 10 * 5);
  make_steps(1, 0, 1 + 7);
  CHECK(f.policy.samples() == 11 * 5);
  make_steps(1, 0, 8 * 7);
  CHECK(f.expected({0}).step->seconds == doctest::Approx(0.075).epsilon(0.02));
}

TEST_CASE("LRN-2: where most steps are now of one kind, now of another, each is learned") {
  learned_job f;
  f.make_steps(3);
  const auto make_steps = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const bool beside = i % 4 == 1 || i % 4 == 2;  // a save of two steps, after each fourth one
      f.step.kind = beside ? fbs::StepOddity::beside_save : fbs::StepOddity::none;
      f.take(beside ? 15 : 10);
      f.make_steps(1);
    }
  };
  make_steps(4 * 8 * 6);
  CHECK(f.policy.samples() == 2 * 6 * 5);
  CHECK(f.expected({0}).step->seconds == doctest::Approx(0.075).epsilon(0.02));
  make_steps(1);
  CHECK(f.expected({0}).step->seconds == doctest::Approx(0.05).epsilon(0.02));
  CHECK(f.expected({0}).parts.size() == 2);
}

TEST_CASE("learning: a node that was forgotten is one that was never told of, and learned anew") {
  learned_job f;
  f.make_steps(3 + 8 * 4);
  CHECK(f.expected({0, "b"}).parts[0].time.seconds == doctest::Approx(0.02).epsilon(0.05));
  CHECK_FALSE(f.policy.forget("c"));
  CHECK(f.policy.forget("b"));
  CHECK_FALSE(f.policy.forget("b"));
  for (const auto& t : f.policy.news()) CHECK(t.node != "b");
  f.make_steps(0);
  CHECK(f.expected({0, "b"}).parts[0].time.seconds == doctest::Approx(0.01).epsilon(0.05));
  CHECK(f.expected({1}).parts.empty());
  f.take(30);  // another machine under the name
  f.make_steps(8 * 8);
  CHECK(f.expected({1}).parts[0].time.seconds == doctest::Approx(0.06).epsilon(0.05));
  CHECK(f.expected({1, "a"}).parts[0].time.seconds < 0.05);
}

TEST_CASE("learning: a few steps that take far longer change no median") {
  learned_job f;
  f.make_steps(3);
  for (int window = 0; window < 4; ++window) {
    f.take(500);
    f.make_steps(3);
    f.take(10);
    f.make_steps(5);
  }
  CHECK(f.policy.samples() == 4 * 5);
  CHECK(f.expected({0}).step->seconds == doctest::Approx(0.05).epsilon(0.02));
}

TEST_CASE("LRN-2: a window begins anew with other work, on another node, in another epoch") {
  learned_job f;
  f.make_steps(3 + 7);
  for (auto& r : f.step.ranks)
    for (auto& p : r.parts) p.work *= 2;
  f.make_steps(7);
  CHECK(f.policy.samples() == 1);  // the step as a whole, whose work is the job's
  f.step.ranks[0].node = "c";
  f.make_steps(1);
  CHECK(f.policy.samples() == 1 + 2);  // of the rank that has stayed
  f.make_steps(6);
  ++f.step.epoch;
  f.make_steps(3 + 7);
  CHECK(f.policy.samples() == 1 + 2 + 1);  // the second one of the step as a whole
  f.make_steps(1);
  CHECK(f.policy.samples() == 1 + 2 + 1 + 5);
}

TEST_CASE(
    "LRN-3: ranks that the job has not are left out, and no more nodes are kept than a model") {
  learned_job f({.window = 1, .first_steps = 0});
  f.step.ranks[1].rank = 2;
  f.make_steps(1);
  CHECK(f.policy.samples() == 2 + 1);
  CHECK(is_error(f.policy.ask({2}).error(), "rank_not_seen"));
  for (size_t i = 0; i < 2 * gpu::predict::known_nodes; ++i) {
    f.step.ranks[0].node = fmt::format("n{}", i);
    f.policy.hear(f.step);
  }
  CHECK(f.policy.refused() > 0);
  CHECK(f.policy.most_configurations() == 1);
}

TEST_CASE("LRN-3: of each part no more configurations are kept than predict.memory says") {
  learned_job f;
  f.job.predict.memory = 16;
  f.policy = learning_policy(f.job, {.window = 1, .first_steps = 0});
  for (uint64_t work = 1; work <= 40; ++work) {
    for (auto& r : f.step.ranks)
      for (auto& p : r.parts) p.work = work;
    f.policy.hear(f.step);
  }
  CHECK(f.policy.most_configurations() == 16);
}

TEST_CASE("LRN-3: kept times of many nodes leave room for those of this job") {
  learned_job kept;
  kept.make_steps(3 + 8);
  std::vector<io::perf::part_time> times(2 * gpu::predict::known_nodes, kept.policy.news().front());
  for (size_t i = 0; i < times.size(); ++i) times[i].node = fmt::format("n{}", i);
  learned_job f;
  f.policy.recall(times);
  CHECK(f.policy.recalled() == gpu::predict::known_nodes / 2);
  f.make_steps(3 + 8);
  CHECK(f.policy.refused() == 0);
  CHECK(f.policy.samples() == 2 * 2 + 1);
}

TEST_CASE("LRN-4: what was learned is told once, and known to whom it is recalled to") {
  learned_job f;
  f.make_steps(3 + 2 * 8);
  const auto news = f.policy.news();
  REQUIRE(news.size() == 5);  // two parts on two nodes, and the step
  for (const auto& t : news) CHECK(t.samples == 2);
  CHECK(news.back().part == "step");
  CHECK(news.back().node.empty());
  CHECK(news.back().seconds == doctest::Approx(0.05));
  CHECK(f.policy.has_news());
  f.policy.drop_news();
  CHECK_FALSE(f.policy.has_news());
  CHECK(f.policy.news().empty());

  learned_job next;
  auto times = news;
  times.push_back(news.back());
  times.back().features.pop_back();  // of a program that has other features
  times.push_back(news.back());
  times.back().part = "levitate";
  CHECK(next.policy.recall(times) == 2);
  CHECK(next.policy.recalled() == 5);
  CHECK(next.policy.samples() == 0);
  CHECK_FALSE(next.policy.has_news());
  next.make_steps(3 + 1);  // the rank is known, and no sample is whole yet
  CHECK(next.policy.samples() == 0);
  const auto said = next.expected({1});
  REQUIRE(said.parts.size() == 2);
  REQUIRE(said.step);
  CHECK(said.step->seconds == doctest::Approx(0.05).epsilon(0.02));
}

TEST_CASE("LRN-5: what takes longer than expected is not learned, until it has lasted") {
  learned_job f({.doubted_windows = 4});
  f.make_steps(3 + 5 * 8);
  const auto before = f.policy.samples();
  f.take(15);
  f.make_steps(4 * 8);
  CHECK(f.policy.samples() == before);
  CHECK(f.expected({0}).parts[0].time.seconds == doctest::Approx(0.01).epsilon(0.02));
  f.make_steps(8);
  CHECK(f.policy.samples() == before + 5);
  for (int window = 0; window < 20; ++window) f.make_steps(8);
  CHECK(f.expected({0}).parts[0].time.seconds > 0.0125);
  CHECK(f.policy.suspects() == 0);
}

TEST_CASE(
    "LRN-5: before some windows were learned, or where nobody is to be named, none is doubted") {
  learned_job early;
  early.make_steps(3 + 3 * 8);
  early.take(15);
  early.make_steps(8);
  CHECK(early.policy.samples() == 4 * 5);
  learned_job nobody;
  nobody.job.predict.suspect_percent = 0;
  nobody.policy = learning_policy(nobody.job);
  nobody.make_steps(3 + 5 * 8);
  nobody.take(15);
  nobody.make_steps(3 * 8);
  CHECK(nobody.policy.samples() == 8 * 5);
  CHECK(nobody.policy.take_suspects().empty());
  learned_job next;  // a file told of its nodes
  next.policy.recall(nobody.policy.news());
  next.make_steps(0);
  next.take(60);
  next.make_steps(3 + 8);
  CHECK(next.policy.samples() == 0);
}

TEST_CASE("LRN-6: a part that takes longer twice is a suspect, told once, until it does no more") {
  learned_job f;
  f.make_steps(3 + 5 * 8);
  const auto slow_forward = [&](double by) {
    f.take(10);
    f.step.ranks[1].parts[0].busy_ms *= by;
  };
  slow_forward(1.5);
  f.make_steps(8);
  CHECK(f.policy.take_suspects().empty());
  f.make_steps(8);
  const auto told = f.policy.take_suspects();
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 1);
  CHECK(told[0].node == "b");
  CHECK(told[0].part == pipeline_op::forward);
  CHECK(told[0].seen_ms == doctest::Approx(30));
  CHECK(told[0].expected.seconds == doctest::Approx(0.02).epsilon(0.02));
  CHECK(told[0].expected.most_s < 0.03);
  CHECK_FALSE(told[0].gone);
  f.make_steps(3 * 8);
  CHECK(f.policy.take_suspects().empty());
  CHECK(f.policy.suspects() == 1);
  slow_forward(1);
  f.make_steps(8);
  const auto over = f.policy.take_suspects();
  REQUIRE(over.size() == 1);
  CHECK(over[0].gone);
  CHECK(over[0].rank == 1);
  CHECK(over[0].part == pipeline_op::forward);
  CHECK(f.policy.suspects() == 0);
}

TEST_CASE("LRN-5, LRN-6: a part that was known in a kind of step stays so, and suspected in all") {
  learned_job f;
  const auto make_steps = [&](fbs::StepOddity kind, size_t n) {
    f.step.kind = kind;
    f.make_steps(n);
  };
  const auto beside = fbs::StepOddity::beside_save, held_up = fbs::StepOddity::saves;
  make_steps(beside, 3 + 6 * 8);
  make_steps(held_up, 6 * 8 + 6 * 8);  // the first of these are not the most
  make_steps(beside, 6 * 8);
  const auto before = f.policy.samples();
  CHECK(before == 12 * 5);
  f.take(15);
  make_steps(beside, 3 * 8);
  CHECK(f.policy.samples() == before);
  CHECK(f.policy.take_suspects().size() == 4);
  make_steps(held_up, 3 * 8 + 3 * 8);
  CHECK(f.policy.samples() == before);
  CHECK(f.policy.take_suspects().empty());
  CHECK(f.policy.suspects() == 4);
  f.take(10);
  make_steps(held_up, 8);
  const auto over = f.policy.take_suspects();
  REQUIRE(over.size() == 4);
  for (const auto& s : over) CHECK(s.gone);
  CHECK(f.policy.suspects() == 0);
}

TEST_CASE("LRN-6: suspects end with their epoch, and no more are kept than some") {
  learned_job f({.suspects_kept = 3});
  f.make_steps(3 + 5 * 8);
  f.take(15);
  f.make_steps(2 * 8);
  CHECK(f.policy.take_suspects().size() == 3);
  CHECK(f.policy.suspects() == 3);
  ++f.step.epoch;
  f.make_steps(1);
  CHECK(f.policy.suspects() == 0);
  const auto over = f.policy.take_suspects();
  REQUIRE(over.size() == 3);
  for (const auto& s : over) CHECK(s.gone);
}

TEST_CASE("learning: kept times of other work are not taken for times of this job's") {
  learned_job kept;
  kept.make_steps(3 + 8);
  const auto asked_by = [&](config::job job) {
    learned_job other;
    other.policy = learning_policy(job);
    other.policy.recall(kept.policy.news());
    other.make_steps(3 + 1);
    const auto outside = other.expected({0}).parts.at(0).time.outside;
    return outside ? std::string(feature_name(*outside)) : std::string();
  };
  CHECK(asked_by(kept.job).empty());
  auto job = kept.job;
  job.model.recompute = true;
  CHECK(asked_by(job) == "recompute");
  job = kept.job;
  job.train.optimizer = config::optimizer_kind::lamb;
  CHECK(asked_by(job) == "optimizer");
  job = kept.job;
  job.swap.dir = {"drive"};
  CHECK(asked_by(job) == "swap");
}

// -- by probes (LRN-8) ----------------------------------------------------------------------------

namespace {

io::perf::hw_profile machine_of(double gflop_s) {
  io::perf::hw_profile out;
  out.probe_threads = 4;
  out.gemm_gflop_s = out.gemm_bf16_gflop_s = gflop_s;
  out.adamw_mparam_s = 1;
  return out;
}

/// A node of the job above, whose forward is a roofline of so long.
probed_node node_of(const std::string& node, double gflop_s, std::vector<uint32_t> ranks,
                    double roofline_ms = 8) {
  probed_node out{node, machine_of(gflop_s), {}};
  for (const auto rank : ranks)
    out.ranks.push_back({rank, node, 4, 2, {{pipeline_op::forward, roofline_ms, 0, 128}}});
  return out;
}

}  // namespace

TEST_CASE("LRN-8: before the first steps a roofline is expected, widely, and says what it is") {
  learned_job f;
  f.policy.hear_probes(node_of("a", 40, {0}));
  f.policy.hear_probes(node_of("b", 10, {1, 7}));  // the job has no rank 7
  CHECK(is_error(f.policy.ask({7}).error(), "rank_not_seen"));
  const auto said = f.expected({0});
  CHECK(said.node == "a");
  REQUIRE(said.parts.size() == 1);
  CHECK(said.parts[0].part == pipeline_op::forward);
  CHECK(said.parts[0].by_probes);
  CHECK(said.parts[0].time.seconds == doctest::Approx(0.012));
  CHECK(said.parts[0].time.least_s == doctest::Approx(0.0072));
  CHECK(said.parts[0].time.most_s == doctest::Approx(0.032));
  CHECK(said.parts[0].time.configurations == 0);
  CHECK_FALSE(said.step);
  const auto time_of = [&](const asked_rank& what) {
    return f.expected(what).parts.at(0).time.seconds;
  };
  CHECK(time_of({0, "b"}) == doctest::Approx(0.048));
  CHECK(time_of({0, "", 2}) == doctest::Approx(0.006));
  CHECK(time_of({0, "", 0, 1}) == doctest::Approx(0.024));
  CHECK(f.expected({0, "unknown"}).parts.empty());  // of which no probe says anything
  CHECK(f.policy.samples() == 0);
  CHECK_FALSE(f.policy.has_news());
}

TEST_CASE("LRN-8: what was measured outranks what was probed") {
  learned_job f;
  f.policy.hear_probes(node_of("a", 40, {0}, 900));
  f.make_steps(3 + 8 * 8);
  const auto said = f.expected({0});
  REQUIRE(said.parts.size() == 2);
  CHECK_FALSE(said.parts[0].by_probes);
  CHECK(said.parts[0].time.seconds == doctest::Approx(0.010).epsilon(0.02));
  CHECK(said.parts[0].time.configurations == 1);
}

TEST_CASE("LRN-8: a machine that is new to the job is expected by its own probes") {
  learned_job f;
  f.make_steps(3 + 8 * 8);
  const auto forward_on = [&](const std::string& node) {
    return f.expected({0, node}).parts.at(0);
  };
  const auto unknown = forward_on("c");
  CHECK_FALSE(unknown.by_probes);  // the mean of the others is all that is known
  f.policy.hear_probes(node_of("a", 40, {0}));
  f.policy.hear_probes(node_of("b", 40, {1}));
  f.policy.hear_probes(node_of("c", 10, {}));
  f.policy.hear_probes(node_of("d", 40, {}));
  const auto slow = forward_on("c");
  CHECK(slow.by_probes);
  CHECK(slow.time.seconds == doctest::Approx(4 * unknown.time.seconds));
  CHECK(slow.time.most_s / slow.time.seconds > unknown.time.most_s / unknown.time.seconds);
  CHECK(slow.time.least_s / slow.time.seconds < unknown.time.least_s / unknown.time.seconds);
  CHECK(forward_on("d").time.seconds == doctest::Approx(unknown.time.seconds));
  CHECK_FALSE(forward_on("a").by_probes);
  // So is one that is no node of the job, and nothing is kept of it.
  const auto elsewhere = f.policy.ask_on(machine_of(10), {0});
  REQUIRE(elsewhere);
  CHECK(elsewhere->node.empty());
  CHECK(elsewhere->parts.at(0).by_probes);
  CHECK(elsewhere->parts.at(0).time.seconds == doctest::Approx(slow.time.seconds));
  CHECK_FALSE(f.policy.ask_on({}, {0})->parts.at(0).by_probes);  // of which nothing is known
  // It comes into the place of a: what is learned of it counts, and nobody is suspected by probes.
  f.step.epoch = 4;
  f.step.ranks[0].node = "c";
  f.take(30);
  f.make_steps(3 + 8 * 8);
  for (const auto& s : f.policy.take_suspects()) CHECK(s.node != "c");
  const auto learned = forward_on("c");
  CHECK_FALSE(learned.by_probes);
  CHECK(learned.time.seconds == doctest::Approx(0.030).epsilon(0.1));
}

TEST_CASE("LRN-8: of machines that were not probed a prior says how quick they are, more widely") {
  learned_job f;
  const auto hear = [&](const std::string& node, double speed, std::vector<uint32_t> ranks) {
    probed_node is{node, {}, {}};
    is.prior = gpu::predict::machine_speed{speed, 0.2};
    for (const auto rank : ranks) is.ranks.push_back({rank, node, 4, 2, {}});
    f.policy.hear_probes(is);
  };
  auto a = node_of("a", 40, {0});
  a.prior = gpu::predict::machine_speed{6, 0.2};
  f.policy.hear_probes(a);
  hear("b", 3, {1});
  hear("c", 12, {});
  const auto own = f.expected({0});
  CHECK(own.parts.at(0).by_probes);
  CHECK_FALSE(own.parts.at(0).by_prior);
  const auto slow = f.expected({1});  // half as quick by the prior as the one that was probed
  CHECK(slow.node == "b");
  REQUIRE(slow.parts.size() == 1);
  CHECK(slow.parts[0].by_prior);
  CHECK_FALSE(slow.parts[0].by_probes);
  CHECK(slow.parts[0].time.seconds == doctest::Approx(2 * own.parts[0].time.seconds));
  CHECK(slow.parts[0].time.most_s / slow.parts[0].time.seconds >
        own.parts[0].time.most_s / own.parts[0].time.seconds * std::exp(0.2));
  CHECK(slow.parts[0].time.least_s / slow.parts[0].time.seconds <
        own.parts[0].time.least_s / own.parts[0].time.seconds * std::exp(-0.2));
  // Its own probes outrank the prior,
  f.policy.hear_probes(node_of("b", 40, {1}));
  CHECK(f.expected({1}).parts.at(0).by_probes);
  CHECK_FALSE(f.expected({1}).parts.at(0).by_prior);
  // and measured steps both: of a node that has none the prior says what those of others are there.
  f.make_steps(3 + 8 * 8);
  CHECK_FALSE(f.expected({1}).parts.at(0).by_probes);
  hear("a", 6, {0});
  hear("b", 6, {1});
  const auto usual = f.expected({0, "unknown"}).parts.at(0).time.seconds;
  const auto quick = f.expected({0, "c"}).parts.at(0);
  CHECK(quick.by_prior);
  CHECK(quick.time.seconds == doctest::Approx(usual / 2));
  const auto there = f.policy.ask_on({}, {0}, gpu::predict::machine_speed{12, 0.2});
  REQUIRE(there);
  CHECK(there->parts.at(0).by_prior);
  CHECK(there->parts.at(0).time.seconds == doctest::Approx(usual / 2));
  CHECK_FALSE(f.policy.ask_on({}, {0})->parts.at(0).by_prior);  // nothing was kept of that machine
}

TEST_CASE("LRN-8: a prior knows no links, and nothing is suspected by it") {
  learned_job f;
  for (auto& r : f.step.ranks) r.parts.push_back({pipeline_op::all_reduce, 5, 0, 128});
  for (int i = 0; i < 3 + 8 * 8; ++i) f.policy.hear(f.step);
  while (f.policy.fit_due()) f.policy.fit();
  for (const auto* node : {"a", "b", "c"}) {
    probed_node is{node, {}, {}};
    is.prior = gpu::predict::machine_speed{*node == 'c' ? 1.0 : 4.0, 0.2};
    f.policy.hear_probes(is);
  }
  const auto there = f.expected({0, "c"});
  REQUIRE(there.parts.size() == 3);
  for (const auto& p : there.parts) CHECK(p.by_prior == (p.part != pipeline_op::all_reduce));
  CHECK(f.policy.take_suspects().empty());
}

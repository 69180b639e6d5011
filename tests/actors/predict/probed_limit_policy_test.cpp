// Parts that take far longer than their node was probed to do: who is named, and who is not.
#include "actors/predict/probed_limit_policy.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::predict;
using train::pipeline_op;

namespace {

constexpr uint64_t limit_work = 1024;

/// Two replicas of four layers and two micro-batches, on nodes a and b of hosts of their own, by
/// whose probes forward takes 100 ms and an update 30 ms.
struct limited_job {
  config::job job;
  learned_step step;
  probed_limit_policy policy;
  uint32_t layers = 4, threads = 2;
  pipeline_op product = pipeline_op::forward;

  explicit limited_job(probed_limit_options options = {}, int64_t hidden = 512,
                       int64_t suspect_percent = 10) {
    job.model.layers = 4;
    job.model.hidden = hidden;
    job.train.batch = 8;
    job.train.micro_batch = 2;
    job.parallel.data = 2;
    job.model.heads = 8;
    job.predict.suspect_percent = suspect_percent;
    policy = probed_limit_policy(job, options);
    step.epoch = 3;
    step.replicas = 2;
    tell_probes(100, 30, "host a", "host b");
    take(150, 45);
  }
  void tell_probes(double forward_ms, double update_ms, const std::string& host_of_a,
                   const std::string& host_of_b) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      probed_node node{rank == 0 ? "a" : "b", {}, {}, rank == 0 ? host_of_a : host_of_b};
      node.profile.probe_threads = threads;
      node.ranks.push_back({rank,
                            node.node,
                            layers,
                            threads,
                            {{product, forward_ms, 0, limit_work},
                             {pipeline_op::update, update_ms, 0, limit_work}}});
      policy.hear_probes(node);
    }
  }
  /// From now on, both.
  void take(double forward_ms, double update_ms) {
    step.ranks.clear();
    for (uint32_t rank = 0; rank < 2; ++rank)
      step.ranks.push_back({rank,
                            rank == 0 ? "a" : "b",
                            layers,
                            threads,
                            {{product, forward_ms, 0, limit_work},
                             {pipeline_op::update, update_ms, 0, limit_work}}});
  }
  void make_steps(size_t n) {
    for (size_t i = 0; i < n; ++i) policy.hear(step);
  }
  std::vector<suspected_part> named_after(size_t windows) {
    make_steps(3 + 8 * windows);
    return policy.take();
  }
};

}  // namespace

TEST_CASE("PBL-2: a pair of nodes that both take longer than their probes allow is named") {
  limited_job f;
  f.take(450, 45);
  CHECK(f.named_after(11).empty());
  f.make_steps(8);
  const auto told = f.policy.take();
  REQUIRE(told.size() == 2);
  for (const auto& s : told) {
    CHECK(s.part == pipeline_op::forward);
    CHECK(s.node == (s.rank == 0 ? "a" : "b"));
    CHECK(s.seen_ms == doctest::Approx(450));
    CHECK(s.expected.seconds == doctest::Approx(0.15));
    CHECK(s.expected.most_s == doctest::Approx(0.4));
    CHECK(s.by_probes);
    CHECK_FALSE(s.gone);
  }
  f.make_steps(20 * 8);
  CHECK(f.policy.take().empty());
  CHECK(f.policy.suspects() == 2);
  f.take(350, 45);
  f.make_steps(3 * 8);
  CHECK(f.policy.take().empty());
  f.make_steps(8);
  const auto over = f.policy.take();
  REQUIRE(over.size() == 2);
  for (const auto& s : over) CHECK((s.gone && s.by_probes && s.part == pipeline_op::forward));
  CHECK(f.policy.suspects() == 0);
}

TEST_CASE("PBL-2: what does not last is nobody's, and no more are named at once than some") {
  limited_job f;
  f.take(450, 45);
  CHECK(f.named_after(11).empty());
  f.take(390, 45);
  f.make_steps(8);
  f.take(450, 45);
  f.make_steps(11 * 8);
  CHECK(f.policy.take().empty());
  probed_limit_options one;
  one.told_kept = 1;
  limited_job few(one);
  few.take(450, 450);
  CHECK(few.named_after(20).size() == 1);
  limited_job nobody({}, 512, 0);
  nobody.take(450, 450);
  CHECK(nobody.named_after(20).empty());
}

TEST_CASE("PBL-1: of parts too small for a roofline nobody is named, however long they take") {
  limited_job small;
  small.tell_probes(19, 19, "", "");
  small.take(1900, 1900);
  CHECK(small.named_after(20).empty());
  limited_job many;  // a step's roofline is large, and that of a layer's micro-batch is not
  many.layers = 64;
  many.tell_probes(100, 30, "", "");
  many.take(5000, 45);
  CHECK(many.named_after(20).empty());
  limited_job narrow({}, 128);  // an update is no product
  narrow.take(5000, 450);
  const auto told = narrow.named_after(20);
  REQUIRE(told.size() == 2);
  for (const auto& s : told) CHECK(s.part == pipeline_op::update);
  for (const int64_t hidden : {1023, 1024}) {
    limited_job quick({}, hidden);
    quick.job.model.dtype = config::compute_dtype::bf16;
    quick.policy = probed_limit_policy(quick.job);
    quick.tell_probes(100, 30, "", "");
    quick.take(5000, 45);
    CHECK(quick.named_after(20).size() == (hidden == 1024 ? 2 : 0));
  }
}

TEST_CASE("PBL-1, PBL-3: what counts is the work that was done, of the rank that was planned") {
  limited_job twice;
  twice.take(450, 45);
  for (auto& r : twice.step.ranks) r.parts[0].work = 2 * limit_work;
  CHECK(twice.named_after(20).empty());
  limited_job elsewhere;
  elsewhere.take(450, 45);
  elsewhere.step.ranks[0].node = "c";
  ++elsewhere.step.ranks[1].layers;
  CHECK(elsewhere.named_after(20).empty());
  limited_job odd;
  odd.take(450, 45);
  odd.step.usual = false;
  CHECK(odd.named_after(20).empty());
  limited_job unknown;
  unknown.policy = probed_limit_policy(unknown.job);  // no node was probed
  unknown.take(450, 45);
  CHECK(unknown.named_after(20).empty());
  limited_job out_of_job;
  probed_node stranger{"z", {}, {}, ""};
  stranger.ranks.push_back({7, "z", 4, 2, {{pipeline_op::forward, 100, 0, limit_work}}});
  out_of_job.policy.hear_probes(stranger);
  out_of_job.step.ranks = {{7, "z", 4, 2, {{pipeline_op::forward, 900, 0, limit_work}}}};
  CHECK(out_of_job.named_after(20).empty());
}

TEST_CASE("PBL-3: a new epoch and a new profile begin anew") {
  for (const bool by_epoch : {true, false}) {
    limited_job f;
    f.take(450, 45);
    REQUIRE(f.named_after(12).size() == 2);
    if (by_epoch)
      ++f.step.epoch;
    else
      f.tell_probes(200, 30, "host a", "host b");
    f.make_steps(1);
    const auto over = f.policy.take();
    REQUIRE(over.size() == 2);
    for (const auto& s : over) CHECK(s.gone);
    CHECK(f.named_after(20).size() == (by_epoch ? 2 : 0));
    --f.step.epoch;  // of an epoch before nothing is heard
    f.make_steps(20 * 8);
    CHECK(f.policy.take().empty());
  }
}

TEST_CASE("PBL-4: nodes of a machine with more threads in all than it has are allowed longer") {
  limited_job apart, together;
  together.tell_probes(100, 30, "one host", "one host");
  for (auto* f : {&apart, &together}) f->take(700, 45);
  CHECK(apart.named_after(12).size() == 2);
  CHECK(together.named_after(12).empty());
  together.take(900, 45);
  CHECK(together.named_after(12).size() == 2);
}

TEST_CASE("PBL-4: ranks of one node share it, whatever is known of its host") {
  for (const double ms : {700.0, 900.0}) {
    limited_job f;
    probed_node node{"a", {}, {}, ""};
    node.profile.probe_threads = 2;
    for (uint32_t rank = 0; rank < 2; ++rank)
      node.ranks.push_back({rank, "a", 4, 2, {{pipeline_op::forward, 100, 0, limit_work}}});
    f.policy.hear_probes(node);
    f.take(ms, 45);
    f.step.ranks[1].node = "a";
    CHECK(f.named_after(12).size() == (ms > 800 ? 2 : 0));
  }
}

TEST_CASE("PBL-4: where a rank has more threads than heads, attention is allowed to take longer") {
  // Of a layer's products attention has 2048 / (2048 + 512 + 4 x 512) at most. A micro-batch has
  // 4 heads forward, 2 backward, for 16 threads.
  constexpr double share = 2048.0 / 4608;
  struct row {
    pipeline_op part;
    int64_t heads, kv_heads;
    double times;
  };
  for (const auto& r : {row{pipeline_op::forward, 2, 1, 1 + 3 * share},
                        row{pipeline_op::backward, 2, 1, 1 + 7 * share},
                        row{pipeline_op::backward, 8, 0, 1}, row{pipeline_op::forward, 64, 0, 1}}) {
    for (const double of_limit : {0.99, 1.01}) {
      limited_job f;
      f.threads = 16;
      f.product = r.part;
      f.job.train.seq_len = 2048;
      f.job.model.heads = r.heads;
      f.job.model.kv_heads = r.kv_heads;
      f.policy = probed_limit_policy(f.job);
      f.tell_probes(100, 30, "host a", "host b");
      f.take(of_limit * 400 * r.times, 45);
      CHECK(f.named_after(12).size() == (of_limit > 1 ? 2 : 0));
    }
  }
}

TEST_CASE("PBL-1: of a model that a folder is, its numbers count, and not those that no key says") {
  limited_job f;
  f.job.model.hidden = f.job.model.heads = 0;
  model_config model;
  model.hidden = 512;
  model.heads = model.kv_heads = 8;
  for (const bool is_known : {false, true}) {
    f.policy = probed_limit_policy(f.job, {}, is_known ? model : model_config{});
    f.tell_probes(100, 30, "host a", "host b");
    f.take(450, 45);
    CHECK(f.named_after(12).size() == (is_known ? 2 : 0));
  }
}

TEST_CASE("PBL-1, PBL-2: in 100,000 steps of nodes of sound jobs nobody is named") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> any(0, 1);
  std::normal_distribution<double> noise(0, 0.2);
  constexpr int jobs = 100, steps = 500;  // of two nodes each
  size_t named = 0;
  for (int job = 0; job < jobs; ++job) {
    // Small work takes up to 50 times its roofline, for what is in none; large work up to 2.5.
    const bool is_small = job % 2 == 0;
    const double roofline_ms =
        is_small ? std::exp(any(random) * std::log(19.0)) : 20 + 500 * any(random);
    const double usual_ms =
        roofline_ms * (is_small ? 1 + 49 * any(random) : 0.6 + 1.9 * any(random));
    limited_job f;
    f.tell_probes(roofline_ms, roofline_ms, "", "");
    for (int i = 0; i < steps; ++i) {
      const double longer = any(random) < 0.05 ? 10 : 1;
      f.take(longer * usual_ms * std::exp(noise(random)), usual_ms * std::exp(noise(random)));
      f.policy.hear(f.step);
    }
    named += f.policy.take().size();
  }
  CHECK(named == 0);
}

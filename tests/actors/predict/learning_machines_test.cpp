// LRN-9: a node is a name on a machine. What was learned on other hardware is not held against it.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/predict/learning_policy.hpp"

using namespace troupe;
using namespace troupe::predict;
using io::perf::machine_print;
using train::pipeline_op;

namespace {

const machine_print old_kind{"old, 8 cores, 32 GiB", {}}, new_kind{"new, 8 cores, 32 GiB", {}};

/// Two replicas on nodes a and b, which take as long.
struct job_on_machines {
  learning_policy policy;
  learned_step step;

  job_on_machines() {
    config::job job;
    job.model.layers = 4;
    job.model.hidden = 64;
    job.train.batch = 8;
    job.train.micro_batch = 2;
    job.train.seq_len = 32;
    job.parallel.data = 2;
    policy = learning_policy(job);
    step.epoch = 3;
    step.replicas = 2;
    for (uint32_t rank = 0; rank < 2; ++rank)
      step.ranks.push_back({rank, rank == 0 ? "a" : "b", 4, 2, {}});
  }
  void make_steps(size_t n, double a_ms, double b_ms) {
    step.took_ms = 3 * std::max(a_ms, b_ms);
    step.ranks[0].parts = {{pipeline_op::forward, a_ms, 0, 128}};
    step.ranks[1].parts = {{pipeline_op::forward, b_ms, 0, 128}};
    for (size_t i = 0; i < n; ++i) {
      policy.hear(step);
      fit();
    }
  }
  void fit() {
    while (policy.fit_due()) policy.fit();
  }
  expected_part forward_on(const std::string& node) const {
    const auto said = policy.ask({0, node});
    REQUIRE(said);
    REQUIRE(said->parts.size() == 1);
    return said->parts[0];
  }
  std::vector<io::perf::part_time> news_of(const std::string& node) const {
    auto all = policy.news();
    std::erase_if(all, [&](const auto& t) { return t.node != node; });
    return all;
  }
};

constexpr size_t some_windows = 3 + 8 * 8;

/// What a cluster whose nodes are of the old kind has kept: 10 ms on each.
std::vector<io::perf::part_time> kept_of(const machine_print& a, const machine_print& b) {
  job_on_machines f;
  f.policy.hear_machine("a", a);
  f.policy.hear_machine("b", b);
  f.make_steps(some_windows, 10, 10);
  return f.policy.news();
}

}  // namespace

TEST_CASE("LRN-9: what is learned is told with the machine that it was learned on") {
  for (const auto& t : kept_of(old_kind, new_kind)) {
    if (t.node == "a") CHECK(t.machine == old_kind);
    if (t.node == "b") CHECK(t.machine == new_kind);
    if (t.node.empty()) CHECK(t.machine == io::perf::print_of_all(std::vector{old_kind, new_kind}));
  }
  for (const auto& t : kept_of({}, new_kind))
    if (t.node != "b") CHECK_FALSE(t.machine.is_known());  // nor of all, where one is not known
}

TEST_CASE("LRN-9: another machine under a known name begins anew, and that is said once") {
  job_on_machines f;
  f.policy.recall(kept_of(old_kind, old_kind));
  f.fit();
  CHECK(f.policy.hear_machine("a", new_kind) == old_kind);
  CHECK_FALSE(f.policy.hear_machine("a", new_kind));  // it was said
  CHECK_FALSE(f.policy.hear_machine("b", old_kind));
  CHECK(f.policy.nodes() == 2);
  f.make_steps(some_windows, 30, 10);
  CHECK(f.policy.nodes() == 3);
  CHECK(f.policy.take_suspects().empty());  // it takes three times as long as the old one did
  CHECK(f.forward_on("a").time.seconds == doctest::Approx(0.030).epsilon(0.05));
  CHECK(f.forward_on("b").time.seconds == doctest::Approx(0.010).epsilon(0.05));
  for (const auto& t : f.news_of("a")) CHECK(t.machine == new_kind);
  // A start later both are known, and the old one as it was, should it come back.
  auto both = kept_of(old_kind, old_kind);
  for (auto& t : f.policy.news()) both.push_back(t);
  job_on_machines next;
  next.policy.recall(both);
  next.fit();
  CHECK_FALSE(next.policy.hear_machine("a", new_kind));
  next.policy.hear_machine("b", old_kind);
  next.make_steps(3 + 8, 30, 10);
  CHECK(next.forward_on("a").time.seconds == doctest::Approx(0.030).epsilon(0.05));
  CHECK_FALSE(next.policy.hear_machine("a", old_kind));
  next.make_steps(1, 10, 10);
  CHECK(next.forward_on("a").time.seconds == doctest::Approx(0.010).epsilon(0.05));
}

TEST_CASE("LRN-9: equal machines whose GPUs are others are not the same") {
  const machine_print first{"kind", "00000001"}, second{"kind", "00000002"};
  job_on_machines f;
  f.policy.recall(kept_of(first, first));
  f.fit();
  CHECK(f.policy.hear_machine("a", second) == first);
  CHECK_FALSE(f.policy.hear_machine("b", first));
}

TEST_CASE("LRN-9: a machine whose GPUs tell their UUIDs only at times is one machine") {
  const machine_print asleep{"kind, 8 cores, 2 x H200", {}},
      awake{"kind, 8 cores, 2 x H200", "00000001"};
  job_on_machines f;
  f.policy.recall(kept_of(asleep, asleep));  // at the first start after a boot
  f.fit();
  CHECK_FALSE(f.policy.hear_machine("a", awake));
  CHECK_FALSE(f.policy.hear_machine("b", asleep));
  f.make_steps(3 + 8, 10, 10);
  CHECK(f.policy.nodes() == 2);
  CHECK(f.forward_on("a").time.seconds == doctest::Approx(0.010).epsilon(0.02));
  for (const auto& t : f.news_of("a")) CHECK(t.machine == awake);
  job_on_machines next;
  next.policy.recall(kept_of(awake, awake));
  next.fit();
  CHECK_FALSE(next.policy.hear_machine("a", asleep));
  next.make_steps(3 + 8, 10, 10);
  CHECK(next.policy.nodes() == 2);
  for (const auto& t : next.news_of("a")) CHECK(t.machine == awake);
  CHECK(next.policy.hear_machine("a", {awake.kind, "00000002"}) == awake);
}

TEST_CASE("LRN-9, LRN-2: that UUIDs are told by now ends no window") {
  job_on_machines f;
  f.policy.hear_machine("a", {"kind, 1 x H200", {}});
  f.make_steps(3 + 7, 10, 10);
  f.policy.hear_machine("a", {"kind, 1 x H200", "00000001"});
  f.make_steps(1, 10, 10);
  CHECK(f.news_of("a").size() == 1);
}

TEST_CASE("LRN-9: memory about a step of its rounding is no other machine") {
  const machine_print more{"Xeon, 8 cores, 64 GiB", {}}, less{"Xeon, 8 cores, 60 GiB", {}};
  job_on_machines f;
  f.policy.recall(kept_of(more, more));
  f.fit();
  CHECK_FALSE(f.policy.hear_machine("a", less));
  f.make_steps(3 + 8, 10, 10);
  CHECK(f.policy.nodes() == 2);
  for (const auto& t : f.news_of("a")) CHECK(t.machine == more);
  CHECK(f.policy.hear_machine("a", {"Xeon, 8 cores, 32 GiB", {}}) == more);
  CHECK_FALSE(f.policy.hear_machine("a", less));  // it is back
  f.make_steps(1, 10, 10);
  CHECK(f.forward_on("a").time.seconds == doctest::Approx(0.010).epsilon(0.02));
}

TEST_CASE("LRN-9: times of an earlier release are of the machine that bears the name") {
  auto kept = kept_of({}, {});
  for (const auto& t : kept) REQUIRE_FALSE(t.machine.is_known());
  job_on_machines f;
  CHECK(f.policy.recall(kept) == 0);
  f.fit();
  CHECK_FALSE(f.policy.hear_machine("a", new_kind));
  CHECK_FALSE(f.policy.hear_machine("b", old_kind));
  CHECK(f.policy.nodes() == 2);
  f.make_steps(3 + 8, 10, 10);
  CHECK(f.policy.nodes() == 2);
  CHECK(f.forward_on("a").time.seconds == doctest::Approx(0.010).epsilon(0.02));
  for (const auto& t : f.news_of("a")) CHECK(t.machine == new_kind);
  CHECK(f.policy.hear_machine("a", old_kind) == new_kind);  // it has been this one's since
}

TEST_CASE("LRN-9: a machine that was not measured is expected to be as its kind is") {
  job_on_machines f;
  f.policy.hear_machine("a", old_kind);
  f.policy.hear_machine("b", new_kind);
  f.make_steps(some_windows, 10, 40);
  CHECK_FALSE(f.forward_on("a").by_kind);
  const auto unknown = f.forward_on("c");
  CHECK_FALSE(unknown.by_kind);
  f.policy.hear_machine("c", new_kind);
  f.policy.hear_machine("d", old_kind);
  const auto like_b = f.forward_on("c"), like_a = f.forward_on("d");
  CHECK(like_b.by_kind);
  CHECK_FALSE(like_b.by_probes);
  CHECK(like_b.time.seconds == doctest::Approx(f.forward_on("b").time.seconds));
  CHECK(like_a.time.seconds == doctest::Approx(f.forward_on("a").time.seconds));
  // The kind is shared, what a node differs from it by is not known.
  CHECK(like_b.time.most_s > f.forward_on("b").time.most_s);
  CHECK(like_b.time.least_s < f.forward_on("b").time.least_s);
  // Steps of equal machines outrank probes.
  const auto probed = [](double gflop_s) {
    io::perf::hw_profile is;
    is.gemm_gflop_s = is.gemm_bf16_gflop_s = gflop_s;
    is.probe_threads = 1;
    return is;
  };
  for (const auto* node : {"a", "b"}) f.policy.hear_probes({node, probed(40), {}});
  f.policy.hear_probes({"c", probed(10), {}});
  CHECK(f.forward_on("c").by_kind);
  CHECK(f.forward_on("c").time.seconds == doctest::Approx(like_b.time.seconds));
  f.policy.hear_machine("c", {"third", {}});
  f.policy.hear_probes({"c", probed(10), {}});
  CHECK_FALSE(f.forward_on("c").by_kind);
  CHECK(f.forward_on("c").by_probes);
}

TEST_CASE("LRN-9: a node is forgotten on whatever machine it was") {
  auto kept = kept_of(old_kind, old_kind);
  for (const auto& t : kept_of(new_kind, new_kind)) kept.push_back(t);
  job_on_machines f;
  f.policy.recall(kept);
  f.fit();
  CHECK(f.policy.nodes() == 4);
  CHECK(f.policy.forget("a"));
  CHECK(f.policy.nodes() == 2);
  CHECK_FALSE(f.policy.forget("a"));
  CHECK_FALSE(f.policy.hear_machine("a", old_kind));  // nothing is known of the name
}

TEST_CASE("LRN-9, LRN-2: a window is of steps on one machine") {
  job_on_machines f;
  f.policy.hear_machine("a", old_kind);
  f.make_steps(3 + 7, 10, 10);
  f.policy.hear_machine("a", new_kind);
  f.make_steps(1, 10, 10);
  CHECK(f.policy.samples() == 2);  // of b, and of all, of whose machines not all are known
  f.make_steps(7, 10, 10);
  CHECK(f.policy.samples() == 3);
  for (const auto& t : f.news_of("a")) CHECK(t.machine == new_kind);
}

TEST_CASE("LRN-3: of machines no more are known than nodes") {
  job_on_machines f;
  for (size_t i = 0; i < 2 * gpu::predict::known_nodes; ++i)
    f.policy.hear_machine("n" + std::to_string(i), old_kind);
  f.policy.hear_machine("a", old_kind);
  f.make_steps(3 + 8, 10, 10);
  for (const auto& t : f.news_of("a")) CHECK_FALSE(t.machine.is_known());
}

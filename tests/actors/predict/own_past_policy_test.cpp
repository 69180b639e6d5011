// What takes longer than in all earlier runs is told, and nothing that chance makes (OPP-1, OPP-2,
// OPP-3).
#include "actors/predict/own_past_policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::predict;
using train::pipeline_op;

namespace {

const std::vector<double> past_work{4, 512, 64};
constexpr uint64_t past_node = 7;
constexpr own_past_policy::key past_rank{1, pipeline_op::backward};

/// Of so many runs, each of so many windows of 400 ms.
own_past_policy with_runs(size_t runs, uint64_t windows = 8,
                          pipeline_op part = pipeline_op::backward) {
  own_past_policy p;
  for (size_t run = 1; run <= runs; ++run)
    for (int line = 0; line < 2; ++line)
      p.recall(part, past_node, past_work, run, 0.4, windows / 2);
  return p;
}

void judge_for(own_past_policy& p, size_t windows, double ms) {
  for (size_t i = 0; i < windows; ++i) p.judge(past_rank, past_node, past_work, ms);
}

/// Times of steps: of each run as many percent more or less, and of some half as long again.
struct made_steps {
  std::mt19937_64 chance{1};

  double uniform() { return (static_cast<double>(chance() >> 11) + 0.5) / 9007199254740992.0; }
  double normal() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  }
  double run_ms(double deviation) { return 400 * std::exp(deviation * normal()); }
  double window_ms(double usual_ms) {
    std::array<double, 8> steps{};
    for (auto& ms : steps)
      ms = usual_ms * std::exp(0.02 * normal()) * (uniform() < 0.01 ? 1.5 : 1.0);
    std::ranges::nth_element(steps, steps.begin() + 4);
    return steps[4];
  }
};

}  // namespace

TEST_CASE("OPP-1: a past is of three runs and more of the same work on the same node") {
  CHECK_FALSE(with_runs(2).past_of(pipeline_op::backward, past_node, past_work));
  CHECK_FALSE(with_runs(3, 2).past_of(pipeline_op::backward, past_node, past_work));
  const auto p = with_runs(3);
  const auto past = p.past_of(pipeline_op::backward, past_node, past_work);
  REQUIRE(past);
  CHECK(past->runs == 3);
  CHECK(past->usual_s == doctest::Approx(0.4));
  CHECK(past->most_s > 1.25 * 0.4);
  CHECK(past->most_s < 1.6 * 0.4);
  CHECK_FALSE(p.past_of(pipeline_op::forward, past_node, past_work));
  CHECK_FALSE(p.past_of(pipeline_op::backward, past_node + 1, past_work));
  CHECK_FALSE(p.past_of(pipeline_op::backward, past_node, {4, 512, 65}));
  for (const auto other : {pipeline_op::reduce_scatter, pipeline_op::capture, pipeline_op::count})
    CHECK_FALSE(with_runs(3, 8, other).past_of(other, past_node, past_work));
}

TEST_CASE("OPP-1: of times whose run is not known nobody says how many runs they are") {
  own_past_policy p;
  for (int line = 0; line < 9; ++line)
    p.recall(pipeline_op::backward, past_node, past_work, 0, 0.4, 8);
  CHECK_FALSE(p.past_of(pipeline_op::backward, past_node, past_work));
  for (uint64_t run = 1; run <= 2; ++run)
    p.recall(pipeline_op::backward, past_node, past_work, run, 0.4, 8);
  CHECK_FALSE(p.past_of(pipeline_op::backward, past_node, past_work));
}

TEST_CASE(
    "OPP-1: another model, another way to compute it, and more ranks on a node are other work") {
  config::job job;
  job.cluster.node = {{"a", "h", 1}, {"b", "h", 1}};
  auto model = model_config::of(model_family::llama);
  model.hidden = 64, model.heads = model.kv_heads = 4, model.ffn = 256, model.vocab = 256;
  std::set<uint64_t> sums{work_sum(job, model)};
  CHECK(*sums.begin() > 0);
  CHECK(work_sum(job, model) == *sums.begin());
  const auto other = [&](auto edit) {
    auto other_job = job;
    auto other_model = model;
    edit(other_job, other_model);
    return sums.insert(work_sum(other_job, other_model)).second;
  };
  CHECK(other([](auto&, auto& m) { m.vocab = 50'257; }));
  CHECK(other([](auto&, auto& m) { m.ffn = 512; }));
  CHECK(other([](auto&, auto& m) { m.heads = m.kv_heads = 8; }));
  CHECK(other([](auto&, auto& m) { m.sliding_window = 8; }));
  CHECK(other([](auto&, auto& m) { m.family = model_family::gpt2; }));
  CHECK(other([](auto& j, auto&) { j.data.reset_attention = true; }));
  CHECK(other([](auto& j, auto&) { j.parallel.schedule = config::pipeline_schedule::by_layer; }));
  CHECK(other([](auto& j, auto&) { j.cluster.node = {{"a", "h", 2}}; }));
  CHECK_FALSE(other([](auto& j, auto&) { j.train.steps = 7, j.cluster.node[0].name = "c"; }));
}

TEST_CASE("OPP-1: a stage with the head, or with the embedding, does other work than one without") {
  const rank_grid grid(2, 1, 3);
  std::set<uint64_t> sums;
  for (const int rank : {0, 2, 4}) sums.insert(work_sum_at(400, {grid, rank}));
  CHECK(sums.size() == 3);
  for (const int rank : {0, 2, 4})  // a replica's is the same
    CHECK(work_sum_at(400, {grid, rank}) == work_sum_at(400, {grid, rank + 1}));
  CHECK(sums.insert(work_sum_at(400, {rank_grid(1, 1, 1), 0})).second);
  CHECK(*sums.begin() >= 400);
  CHECK(*sums.rbegin() < 404);
}

TEST_CASE("OPP-1: the more runs differ, the more may a part take") {
  auto wide = with_runs(2);
  wide.recall(pipeline_op::backward, past_node, past_work, 9, 0.8, 8);
  const auto alike = with_runs(3).past_of(pipeline_op::backward, past_node, past_work);
  const auto unlike = wide.past_of(pipeline_op::backward, past_node, past_work);
  REQUIRE(alike);
  REQUIRE(unlike);
  CHECK(unlike->most_s > 3 * alike->most_s);
}

TEST_CASE("OPP-2: told is what lasts, once, and its end") {
  auto p = with_runs(3);
  judge_for(p, 11, 900);
  judge_for(p, 1, 400);
  judge_for(p, 11, 900);
  CHECK(p.take().empty());
  judge_for(p, 9, 900);
  const auto told = p.take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].of == past_rank);
  CHECK(told[0].node == past_node);
  CHECK(told[0].seen_ms == 900);
  CHECK(told[0].past.runs == 3);
  CHECK_FALSE(told[0].gone);
  CHECK(p.suspects() == 1);
  judge_for(p, 3, 400);
  CHECK(p.take().empty());
  judge_for(p, 1, 400);
  const auto ended = p.take();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].gone);
  CHECK(p.suspects() == 0);
}

TEST_CASE("OPP-2: other work, another node, and a rank that is no more end what was told") {
  for (int how = 0; how < 4; ++how) {
    CAPTURE(how);
    auto p = with_runs(3);
    judge_for(p, 12, 900);
    REQUIRE(p.take().size() == 1);
    if (how == 0) p.judge(past_rank, past_node + 1, past_work, 900);
    if (how == 1) p.drop(past_rank);
    if (how == 2) p.drop_rank(past_rank.first);
    if (how == 3) p.drop_all();
    const auto ended = p.take();
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].gone);
    judge_for(p, 11, 900);
    CHECK(p.take().empty());
  }
  auto p = with_runs(3);
  p.forget(past_node);
  judge_for(p, 12, 900);
  CHECK(p.take().empty());
}

TEST_CASE("OPP-2: what takes a part of a thread's start is not judged") {
  own_past_policy p;
  for (uint64_t run = 1; run <= 5; ++run)
    p.recall(pipeline_op::backward, past_node, past_work, run, 0.001, 8);
  judge_for(p, 30, 900);
  CHECK(p.take().empty());
}

TEST_CASE("OPP-3: of a part the newest runs count, of as many parts as have room") {
  own_past_options few;
  few.runs_kept = 3;
  few.pasts_kept = 1;
  own_past_policy p(few);
  for (uint64_t run = 1; run <= 6; ++run)
    p.recall(pipeline_op::backward, past_node, past_work, run, run <= 3 ? 0.9 : 0.4, 8);
  const auto past = p.past_of(pipeline_op::backward, past_node, past_work);
  REQUIRE(past);
  CHECK(past->runs == 3);
  CHECK(past->usual_s == doctest::Approx(0.4));
  for (uint64_t run = 1; run <= 3; ++run)
    p.recall(pipeline_op::forward, past_node, past_work, run, 0.4, 8);
  CHECK_FALSE(p.past_of(pipeline_op::forward, past_node, past_work));
}

TEST_CASE("OPP-2: where all of very many ranks take too long, most are seen to in each part") {
  constexpr std::array parts{pipeline_op::forward, pipeline_op::backward, pipeline_op::norm,
                             pipeline_op::measure, pipeline_op::update};
  own_past_policy p;
  for (const auto part : parts)
    for (uint64_t run = 1; run <= 3; ++run) p.recall(part, past_node, past_work, run, 0.4, 8);
  for (int window = 0; window < 12; ++window)
    for (uint32_t rank = 0; rank < 200; ++rank)
      for (const auto part : parts) p.judge({rank, part}, past_node, past_work, 900);
  const auto told = p.take();
  CHECK(told.size() == parts.size() * own_past_options{}.told_kept);
  for (const auto part : parts)
    CHECK(std::ranges::count_if(told, [&](const auto& t) { return t.of.second == part; }) >
          32 / 2);  // of which the monitor says that it is the job
  p.drop_all();
  CHECK(p.take().size() == told.size());
  CHECK(p.suspects() == 0);
  for (int window = 0; window < 12; ++window) p.judge(past_rank, past_node, past_work, 900);
  CHECK(p.take().size() == 1);  // there is room again
}

TEST_CASE("own past: of 100,000 steps of nodes none makes a finding, and who is slow is found") {
  made_steps made;
  size_t found_without = 0, found_slow = 0;
  for (int job = 0; job < 400; ++job) {
    own_past_policy p;
    for (uint64_t run = 1; run <= 5; ++run)
      p.recall(pipeline_op::backward, past_node, past_work, run, made.run_ms(0.05) / 1e3, 20);
    const double usual_ms = made.run_ms(0.05);
    for (int window = 0; window < 32; ++window)
      p.judge(past_rank, past_node, past_work, made.window_ms(usual_ms));
    found_without += p.take().size();
    for (int window = 0; window < 12; ++window)
      p.judge(past_rank, past_node, past_work, made.window_ms(2.2 * usual_ms));
    found_slow += p.take().size();
  }
  CHECK(found_without == 0);  // of 102,400 steps
  CHECK(found_slow == 400);
}

// What a rank is at, from what its stage and worker published; and how large a heartbeat gets.
#include "actors/health/rank_vitals.hpp"

#include <doctest/doctest.h>

#include "actors/health/log_rules_policy.hpp"
#include "messages/msg.hpp"
#include "messages/operations.hpp"
#include "messages/schemas/cluster_generated.h"
#include "tests/actors/health/seconds.hpp"

using namespace troupe;
using namespace troupe::health;
using fbs::RankState;

namespace {

using troupe::health::test::s;

actor_view stage(std::string state, uint64_t step = 7) {
  actor_view v;
  v.state = std::move(state);
  v.since_ns = 10 * s;
  v.values.stage = std::make_unique<fbs::StageStatusT>();
  v.values.stage->step = step;
  return v;
}

actor_view worker(std::string state, std::vector<actor_wait> waits = {}) {
  actor_view v;
  v.state = std::move(state);
  v.since_ns = 11 * s;
  v.waits = std::move(waits);
  v.values.worker = std::make_unique<fbs::WorkerStatusT>();
  v.values.worker->operations = 42;
  v.values.worker->number = 3;
  v.values.worker->median_ms = 1.5;
  return v;
}

int op(train::pipeline_op kind) {
  return static_cast<int>(kind);
}

}  // namespace

TEST_CASE("rank vitals: what the pace holds back counts as long as that, and so is not stuck") {
  auto held = stage("training");
  held.values.stage->held_us = 900'000;
  CHECK(rank_vitals(5, held, worker("ready"), 12 * s).median_us == 900'000);
  held.values.stage->held_us = 100;
  CHECK(rank_vitals(5, held, worker("backward"), 12 * s).median_us == 1500);
}

TEST_CASE("rank vitals: a rank computes, waits for another, or has nothing to do") {
  const auto computing = rank_vitals(5, stage("training"), worker("backward"), 12 * s);
  CHECK(computing.rank == 5);
  CHECK(computing.step == 7);
  CHECK(computing.finished == 42);
  CHECK(computing.state == RankState::computing);
  CHECK(computing.op == op(train::pipeline_op::backward));
  CHECK(computing.micro_batch == 3);
  CHECK(computing.for_ms == 1000);
  CHECK(computing.median_us == 1500);
  CHECK(computing.waits_for == -1);
  CHECK_FALSE(computing.saving);

  const auto waiting = rank_vitals(5, stage("training"),
                                   worker("ready", {{1, "loader/a", "batch 3", 2 * s},
                                                    {2, "worker/9", "all_reduce 4", 9 * s},
                                                    {3, "worker/6", "receive_gradient 2", 8 * s}}),
                                   12 * s);
  CHECK(waiting.state == RankState::waiting);
  CHECK(waiting.op == op(train::pipeline_op::receive_gradient));  // the oldest
  CHECK(waiting.micro_batch == 2);
  CHECK(waiting.waits_for == 6);
  CHECK(waiting.for_ms == 4000);

  CHECK(rank_vitals(5, stage("idle"), worker("ready"), 12 * s).state == RankState::idle);
  CHECK(rank_vitals(5, stage("training"), worker("ready"), 12 * s).state == RankState::computing);
  CHECK(rank_vitals(5, stage(""), worker("building"), 12 * s).state == RankState::starting);
  CHECK(rank_vitals(5, stage(""), worker("load"), 12 * s).state == RankState::loading);
  CHECK(rank_vitals(5, stage("failed"), worker("forward"), 12 * s).state == RankState::failed);
  CHECK(rank_vitals(5, {}, {}, 12 * s).state == RankState::starting);
}

TEST_CASE("rank vitals: the threads that a worker says it computes with") {
  auto w = worker("forward");
  CHECK(rank_threads(w) == 0);
  w.values.worker->threads = 24;
  CHECK(rank_threads(w) == 24);
  w.values.worker->threads = UINT32_MAX;
  CHECK(rank_threads(w) == UINT16_MAX);
  CHECK(rank_threads({}) == 0);
}

TEST_CASE("rank vitals: it saves beside what it does") {
  auto w = worker("forward");
  w.values.worker->checkpoint = std::make_unique<fbs::SaverStatusT>();
  CHECK_FALSE(rank_vitals(5, stage("training"), w, 12 * s).saving);
  w.values.worker->checkpoint->saves.push_back(std::make_unique<fbs::SaveProgressT>());
  const auto v = rank_vitals(5, stage("training"), w, 12 * s);
  CHECK(v.saving);
  CHECK(v.state == RankState::computing);
}

TEST_CASE("vitals of 64 ranks and 8 GPUs take at most 4 KiB of a heartbeat") {
  const auto bytes = [](bool with_vitals) {
    const auto beat = make_msg<fbs::Heartbeat>({}, [&](auto& h) {
      h.node_index = 16'383;
      h.sequence = h.sent_ns = int64_t{1} << 60;
      if (!with_vitals) return;
      h.vitals = std::make_unique<fbs::VitalsT>();
      h.vitals->node = std::string(32, 'n');
      for (size_t i = 0; i < most_ranks_told; ++i) {
        auto& r = *h.vitals->ranks.emplace_back(std::make_unique<fbs::RankVitalsT>());
        r = rank_vitals(static_cast<uint32_t>(1000 + i), stage("training", 1u << 31),
                        worker("ready", {{2, "worker/9000", "all_reduce 4", s}}), 12 * s);
        r.saving = true;
      }
      h.vitals->machine = std::make_unique<fbs::MachineVitalsT>();
      auto& m = *h.vitals->machine;
      m.sampled_ns = m.available_bytes = m.memory_bytes = m.disk_free_bytes = m.disk_bytes =
          m.nic_errors = int64_t{1} << 50;
      m.sampling_ms = m.memory_some_percent = m.memory_full_percent = m.cpu_some_percent =
          m.io_some_percent = m.io_full_percent = m.steal_percent = m.throttled_percent =
              m.disk_sync_ms = m.clock_set_ms = 12.5;
      for (int i = 0; i < 8; ++i) {
        auto& g = *m.gpus.emplace_back(std::make_unique<fbs::GpuVitalsT>());
        g.device = "gpu" + std::to_string(i);
        g.xid_number = 79;
        g.ecc_errors = 3;
      }
      m.gpus[0]->slowed_by = {"power cap"};
      m.logs_passed_over_bytes = 1 << 30;
      m.cpu_mhz = 2249;
      m.cpus = 192;
      m.gpu_mhz = 1980;
      m.gpu_c = 61;
      m.gpu_limit_w = 700;
      m.quota_cpus = 12.5;
      h.vitals->rank_threads = 24;
      for (size_t i = 0; i < 2 * most_rules_a_beat; ++i) {
        auto& r = *m.log_rules.emplace_back(std::make_unique<fbs::LogRuleCountT>());
        r.rule = std::string(24, 'r');
        r.count = r.last_ns = int64_t{1} << 50;
        r.line = std::string(log_rules_policy::most_told_bytes, 'l');
      }
      m.logs = {std::string(1000, 'p')};
      shorten_for_beat(m, 1);
    });
    return beat.payload().size();
  };
  const auto vitals = bytes(true) - bytes(false);
  CAPTURE(vitals);
  CHECK(vitals <= 4096);
  CHECK(vitals > 2048);  // all of it is there
}

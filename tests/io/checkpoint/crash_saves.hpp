// Saves of several ranks on a file system that tells what a power cut leaves.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "io/checkpoint/save.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/disk/backends.hpp"

namespace troupe::io::checkpoint {

inline constexpr uint32_t ranks = 4;  // 2 x 2
inline const std::filesystem::path dir = "/checkpoints";

/// A stage of one tensor, small enough that a shard is two slots.
inline plan_stage stage_of(int number) {
  return {sample::chunk(fmt::format("layer.{}", number),
                        {{fmt::format("h.{}.weight", number), {40, 30}, false, 0}})};
}

/// The bytes of a part of a stage's chunk at a step.
inline std::byte content_of(uint64_t step, uint32_t stage, part which, uint64_t byte) {
  return static_cast<std::byte>(step * 101 + stage * 31 + static_cast<uint64_t>(which) * 7 +
                                byte / 4);
}

inline manifest_head head_of(uint64_t step, uint64_t epoch) {
  manifest_head h;
  h.job = "crash";
  h.step = step;
  h.epoch = epoch;
  h.layout = {2, 1, 2};
  h.slot_bytes = disk_block;
  return h;
}

/// One rank's part, by a process and a disk of its own.
inline shard_facts save_rank(const std::shared_ptr<crash_store>& store,
                             const std::filesystem::path& to, const manifest_head& head,
                             const rank_plan& plan) {
  faulty_disk d(store, {});
  auto ring = test_ring(2, disk_block);
  std::optional<result<shard_facts>> vote;
  auto s = rank_save::create(d, to, head, plan, [&](const auto& v) { vote = v; });
  REQUIRE(s);
  const auto& todo = (*s)->captures();
  for (uint64_t n = 0; n < todo.fills.size(); ++n) {
    auto lease = ring->try_take();
    REQUIRE(lease);
    for (auto i = todo.fills[n].copies_begin; i < todo.fills[n].copies_end; ++i) {
      const auto& c = todo.copies[i];
      for (uint64_t b = 0; b < c.bytes; ++b)
        lease->bytes()[c.slot_offset + b] =
            content_of(head.step, plan.place.pipeline, c.which, c.chunk_byte + b);
    }
    REQUIRE((*s)->filled(std::move(*lease), n));
    if (vote) break;
    for (auto& c : d.wait(1, long_enough)) (*s)->take(c);
  }
  while (!vote)  // and no longer: what is still under way then is what the vote did not wait for
    for (auto& c : d.wait(1, long_enough)) (*s)->take(c);
  REQUIRE(vote);
  REQUIRE(*vote);
  return **vote;
}

/// A save from the first step to the acknowledgement.
inline void save(const std::shared_ptr<crash_store>& store, uint64_t step, uint64_t epoch,
                 const lineage& line = {}) {
  faulty_disk root(store, {});
  auto head = head_of(step, epoch);
  head.line = line;
  const std::vector<plan_stage> stages{stage_of(0), stage_of(1)};
  auto plans = plan_save(stages, {2, 64});
  REQUIRE(plans);
  REQUIRE(plans->size() == ranks);
  const auto partial = dir / partial_name(step, epoch);
  std::vector<shard_facts> votes;
  for (const auto& plan : *plans) votes.push_back(save_rank(store, partial, head, plan));
  auto done = commit_save(root, partial, head, votes, {{"config.json", "{}"}});
  REQUIRE(done);
  store->mark(fmt::format("{} {}", step, epoch));
}

}  // namespace troupe::io::checkpoint

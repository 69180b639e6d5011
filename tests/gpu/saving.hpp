// Whole checkpoints of stores, made by the savers of their ranks.
#pragma once

#include <future>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/model/saved_state.hpp"
#include "gpu/model/state_saver.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/save.hpp"

namespace troupe::gpu::testing {

namespace cp = io::checkpoint;

inline constexpr uint32_t small_slot = 4096;

/// What a rank voted.
struct vote {
  result<cp::shard_facts> facts = error{errc::bug, "no vote"};
  save_times times;
};

/// Enqueues a save; its vote, to wait for.
inline std::future<vote> save(state_saver& saver, uint64_t step,
                              const std::filesystem::path& partial, event_ptr after) {
  auto promise = std::make_shared<std::promise<vote>>();
  auto out = promise->get_future();
  saver.save(step, partial, std::move(after),
             [promise](const result<cp::shard_facts>& facts, const save_times& times) {
               promise->set_value({facts, times});
             });
  return out;
}

/// Options of the only rank, with slots so small that any state has many.
inline saver_options only_rank() {
  saver_options o;
  o.job = "test";
  o.epoch = 1;
  o.slot_bytes = small_slot;
  return o;
}

inline cp::manifest_head head_of(uint64_t step, cp::layout layout = {}) {
  cp::manifest_head h;
  h.job = "test";
  h.epoch = 1;
  h.step = step;
  h.layout = layout;
  h.slot_bytes = small_slot;
  return h;
}

/// Commits what the ranks have voted for; the folder.
inline std::filesystem::path commit(const std::filesystem::path& dir, uint64_t step,
                                    std::vector<cp::shard_facts> shards, cp::layout layout = {}) {
  auto d = io::open_disk({io::disk_backend::threads, 1, 1, {}});
  REQUIRE(d);
  auto made = cp::commit_save(**d, dir / cp::partial_name(step, 1), head_of(step, layout),
                              std::move(shards), {});
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return *made;
}

/// A checkpoint of the stores of a pipeline's stages, which are at rest; its folder.
inline std::filesystem::path save_stages(const std::vector<parameter_store*>& stages,
                                         const std::filesystem::path& dir, uint64_t step) {
  const cp::layout layout{1, static_cast<uint32_t>(stages.size())};
  std::vector<cp::shard_facts> shards;
  for (size_t p = 0; p < stages.size(); ++p) {
    auto options = only_rank();
    options.layout = layout;
    options.rank = static_cast<uint32_t>(p);
    auto saver = state_saver::make(*stages[p], options);
    REQUIRE_MESSAGE(saver, (saver ? "" : saver.error().message));
    auto v = save(**saver, step, dir / cp::partial_name(step, 1), nullptr).get();
    REQUIRE_MESSAGE(v.facts, (v.facts ? "" : v.facts.error().message));
    shards.push_back(*v.facts);
  }
  return commit(dir, step, std::move(shards), layout);
}

}  // namespace troupe::gpu::testing

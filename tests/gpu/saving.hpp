// Whole checkpoints of stores, made by the savers of their ranks.
#pragma once

#include <future>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/model/hf_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/state_saver.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/export.hpp"
#include "io/checkpoint/save.hpp"
#include "io/formats/hf_config.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::gpu::testing {

namespace cp = io::checkpoint;

inline constexpr uint32_t small_slot = 4096;

/// What a rank votes.
using vote = result<cp::shard_facts>;

/// Enqueues a save; its vote, to wait for.
inline std::future<vote> save(state_saver& saver, uint64_t step,
                              const std::filesystem::path& partial, event_ptr after) {
  auto promise = std::make_shared<std::promise<vote>>();
  auto out = promise->get_future();
  saver.save(step, partial, std::move(after), [promise](const vote& v) { promise->set_value(v); });
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

inline cp::manifest_head head_of(uint64_t step, const rank_grid& layout = {}) {
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
                                    std::vector<cp::shard_facts> shards,
                                    const rank_grid& layout = {},
                                    const std::vector<cp::small_file>& others = {}) {
  auto d = io::open_disk({io::disk_backend::threads, 1, 1, {}});
  REQUIRE(d);
  auto made = cp::commit_save(**d, dir / cp::partial_name(step, 1), head_of(step, layout),
                              std::move(shards), others);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return *made;
}

/// A checkpoint of the stores of a pipeline's stages, which are at rest; its folder. Of a stage
/// that replicas share, all of them, one after another.
inline std::filesystem::path save_stages(const std::vector<parameter_store*>& stages,
                                         const std::filesystem::path& dir, uint64_t step,
                                         const std::vector<cp::small_file>& others = {}) {
  const int replicas = stages.front()->options().replica.ranks;
  const rank_grid layout(replicas, 1, static_cast<int>(stages.size()) / replicas);
  std::vector<cp::shard_facts> shards;
  for (size_t p = 0; p < stages.size(); ++p) {
    auto options = only_rank();
    options.at = {layout, static_cast<int>(p)};
    auto saver = state_saver::make(*stages[p], options);
    REQUIRE_MESSAGE(saver, (saver ? "" : saver.error().message));
    auto v = save(**saver, step, dir / cp::partial_name(step, 1), nullptr).get();
    REQUIRE_MESSAGE(v, (v ? "" : v.error().message));
    shards.push_back(*v);
  }
  return commit(dir, step, std::move(shards), layout, others);
}

/// The model in these stages as a Hugging Face folder, as a run exports it at its end.
inline void export_stages(const std::vector<parameter_store*>& stages, const model_config& model,
                          const std::filesystem::path& folder,
                          io::tensor_dtype type = io::tensor_dtype::f32,
                          uint64_t max_shard_bytes = 1 << 30) {
  const scratch dir;
  const auto saved =
      save_stages(stages, dir.path, 1, {{"config.json", io::format_hf_config({model})}});
  auto r = cp::reader::open(saved);
  REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
  cp::export_options how;
  how.type = type;
  how.max_shard_bytes = max_shard_bytes;
  const auto done = cp::export_model(*r, folder, how);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
}

}  // namespace troupe::gpu::testing

// What a simulated rank that swaps loads and saves.
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/swapping.hpp"
#include "gpu/swap/chunk_places.hpp"
#include "io/checkpoint/catalog.hpp"

namespace troupe::sim {

void swapping_engine::load(std::string folder, bool optimizer, completion done) {
  const auto name =
      io::checkpoint::parse_folder_name(std::filesystem::path(folder).filename().string());
  finish_update();
  when_quiet([this, folder = std::move(folder), optimizer, name, done = std::move(done)] {
    updated_step_ = name ? static_cast<int64_t>(name->step) : 0;
    watch_.set_state(static_cast<int>(updated_step_));
    int64_t takes_ns = 0;
    for (int c = 0; c < chunks(); ++c)
      if (watch_.on_disk(c)) takes_ns = room_->disks.writes_for(node_, bytes_of(c).state);
    later(takes_ns,
          [this, folder, optimizer, done] { timed_engine::load(folder, optimizer, done); });
  });
}

/// Behind the updates so far; the shards of this simulation are written as any rank's.
void swapping_engine::save(uint64_t step, const std::filesystem::path& partial, bool last,
                           gpu::state_saver::completion done) {
  finish_update();
  saves_made_ = true;
  const auto gets = std::make_shared<bool>(true);
  const auto parts = keep_parts(static_cast<int>(step), links_into(partial), last, gets);
  const auto over = [this, step, partial, last, gets, left = std::make_shared<size_t>(parts.size()),
                     done = std::move(done)] {
    if (--*left > 0) return;
    if (!health_) return done(health_.error());
    if (*gets) return timed_engine::save(step, partial, last, done);
    done(error::system("room for the steps behind a checkpoint", ENOSPC));
  };
  for (const auto part : parts) then(part, over);
}

/// ENG-12
bool swapping_engine::links_into(const std::filesystem::path& partial) const {
  const auto& places = options_.swap.places;
  return !places.empty() && places.front().links &&
         partial.parent_path() == options_.checkpoint_folder;
}

/// The operations by which a checkpoint gets all chunks: files of the drive with links are taken,
/// the others copied.
std::vector<size_t> swapping_engine::keep_parts(int step, bool links, bool last,
                                                std::shared_ptr<bool> gets) {
  const auto takes = [this, links](int chunk) {
    return links && gpu::place_of_chunk(chunk, options_.swap.places.size()) == 0;
  };
  std::vector<size_t> out{watch_.compute(0)};
  const auto may_keep = [this, last, gets] {
    *gets = last || drive().full == 0;
    ++(*gets ? room_->disks.counted().kept : room_->disks.counted().unkept);
    return *gets;
  };
  if (links) out.push_back(watch_.keep(step, may_keep, takes));
  for (int c = 0; c < chunks(); ++c)
    if (watch_.on_disk(c) && !takes(c)) out.push_back(watch_.capture(c, step));
  return out;
}

}  // namespace troupe::sim

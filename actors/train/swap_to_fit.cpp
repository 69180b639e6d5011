// The job as if a person had set two keys.
#include "actors/train/swap_to_fit.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/gpu_budget.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "io/base/text.hpp"

namespace troupe::train {

namespace {

/// What the configuration refuses beside a swap folder.
bool may_swap(const config::job& job) {
  return job.checkpoint.memory.every == 0 &&
         job.parallel.placement != config::stage_placement::measured;
}

}  // namespace

bool swap_to_fit::has_room() const {
  return std::all_of(rooms.begin(), rooms.end(), [](const swap_room& r) { return r.fits(); });
}

std::optional<swap_to_fit> swapping_to_fit(const job_plan& plan, uint64_t limit_bytes) {
  if (!may_swap(plan.job)) return std::nullopt;
  swap_to_fit out{plan, {}, 0, 0, {}};
  auto& swap = out.plan.job.swap;
  if (swap.dir.empty()) {
    swap.dir = {plan.job.job.output + "/swap"};
    out.settings.push_back("swap.dir=" + swap.dir.front());
  }
  const int threads = threads_here(plan.job.cluster);
  // A GPU that is not known here has no floor.
  const bool gpus = plan.job.cluster.device == config::device_kind::cuda || plan.gpu_at.bytes > 0;
  if (gpus && (plan.gpu_at.bytes == 0 ||
               device_floor_bytes(out.plan, threads) > device_bytes_of(plan.job, plan.gpu_at)))
    return std::nullopt;
  swap.host_bytes = 1;  // what nothing fits into has the residency of the floor
  out.floor_bytes = swap_floor_bytes(out.plan, threads);
  if (out.floor_bytes > limit_bytes) return std::nullopt;
  swap.host_bytes =
      static_cast<int64_t>(std::max(out.floor_bytes, limit_bytes / 100 * share_of_memory_percent));
  out.settings.push_back(fmt::format("swap.host_bytes={}", swap.host_bytes));
  if (!fits_swap_budget(out.plan, threads)) return std::nullopt;
  const auto needs = swap_needs_of(out.plan);
  out.disk_bytes = needs.bytes();
  if (out.disk_bytes > 0 && plan.job.cluster.launch == config::launch_mode::local) {
    auto rooms = swap_rooms_of(needs.folders, needs.beside, plan.job.job.name);
    if (!rooms) return std::nullopt;  // memory is no drive
    out.rooms = std::move(*rooms);
  }
  return out;
}

std::string settings_text(const swap_to_fit& way) {
  return fmt::format("--set {}", fmt::join(way.settings, " --set "));
}

std::string swap_to_fit_text(const swap_to_fit& way) {
  auto out = settings_text(way);
  if (way.disk_bytes == 0) return out + " makes all of it fit into memory";
  out += fmt::format(" has {} of it on a drive", bytes_text(way.disk_bytes));
  for (const auto& room : way.rooms) {
    const auto needed = room.needed_bytes();
    out += fmt::format(", where {} are free{}", bytes_text(room.free_bytes),
                       room.fits() ? ""
                                   : fmt::format(", which is too little: with checkpoints and "
                                                 "exports {} are needed",
                                                 bytes_text(needed)));
  }
  return out;
}

}  // namespace troupe::train

// Rooms, told.
#include "apps/swap/drives.hpp"

#include <fmt/format.h>

#include "actors/train/swap_forecast.hpp"
#include "io/base/text.hpp"

namespace troupe::apps::swap {

namespace {

std::string room_text(const config::job& job, const train::swap_room& room) {
  auto out = fmt::format("the drive of {} has {} free, for {} of these files{}; {}",
                         room.dir.string(), bytes_text(room.free_bytes),
                         bytes_text(room.swap_bytes), room.fits() ? "" : ", which is too little",
                         train::on_one_drive(room.dir, job.checkpoint.dir)
                             ? fmt::format("checkpoints take {} of it beside them, and the last "
                                           "one has links",
                                           bytes_text(room.checkpoint_bytes))
                             : "checkpoints have no links to files there, and are copied");
  if (room.export_bytes > 0)
    out += fmt::format("; the model at the end takes {}", bytes_text(room.export_bytes));
  out += "\n";
  for (const auto& remark : train::drive_remarks(room.dir)) out += "warning: " + remark + "\n";
  return out;
}

}  // namespace

std::optional<earlier_checkpoint> earlier_checkpoint_of(const train::job_plan& plan) {
  const auto& job = plan.job;
  const bool is_made = job.checkpoint.every > 0 && job.checkpoint.every < job.train.steps;
  if (is_made || job.train.steps <= 1) return std::nullopt;
  auto earlier = plan;
  auto& c = earlier.job.checkpoint;
  c.every = c.keep = 1;
  c.keep_every = c.keep_best = 0;
  const auto needs = train::swap_needs_of(earlier);
  const auto rooms = train::swap_rooms_of(needs.folders, needs.beside, job.job.name);
  if (!rooms) return std::nullopt;
  earlier_checkpoint out{0, true};
  for (const auto& room : *rooms) {
    out.needed_bytes += room.needed_bytes();
    out.fits = out.fits && room.fits();
  }
  return out;
}

std::string drives_text(const config::job& job, const std::vector<train::swap_room>& rooms,
                        const std::optional<earlier_checkpoint>& earlier) {
  std::string out;
  for (const auto& room : rooms) out += room_text(job, room);
  if (earlier)
    out += fmt::format(
        "there is no checkpoint before the last step's: a kill costs the run; with one "
        "(checkpoint.every, checkpoint.keep = 1) it takes {} in all, which the drive has{}\n",
        bytes_text(earlier->needed_bytes), earlier->fits ? "" : " not");
  return out;
}

void add_drives(nlohmann::ordered_json& to, const std::vector<train::swap_room>& rooms,
                const std::optional<earlier_checkpoint>& earlier) {
  if (earlier)
    to["earlier_checkpoint"] = {{"needed_bytes", earlier->needed_bytes}, {"fits", earlier->fits}};
  if (rooms.empty()) return;
  train::swap_room all;
  auto remarks = nlohmann::ordered_json::array();
  for (const auto& room : rooms) {
    for (auto& remark : train::drive_remarks(room.dir)) remarks.push_back(std::move(remark));
    all.swap_bytes += room.swap_bytes;
    all.checkpoint_bytes += room.checkpoint_bytes;
    all.export_bytes += room.export_bytes;
    all.free_bytes += room.free_bytes;
    to["drives"].push_back({{"dir", room.dir.string()},
                            {"disk_bytes", room.swap_bytes},
                            {"checkpoint_bytes_beside", room.checkpoint_bytes},
                            {"export_bytes_beside", room.export_bytes},
                            {"free_bytes", room.free_bytes}});
  }
  to["drive_remarks"] = std::move(remarks);
  to["disk_bytes"] = all.swap_bytes;
  to["checkpoint_bytes_beside"] = all.checkpoint_bytes;
  to["export_bytes_beside"] = all.export_bytes;
  to["free_bytes"] = all.free_bytes;
}

}  // namespace troupe::apps::swap

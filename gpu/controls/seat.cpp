// Looks at a lock, and looks again; see seat.hpp.
#include "gpu/controls/seat.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "io/folder/own_folder.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

/// The folder whose lock tells who governs a device.
fs::path seat_of(const control_place& at, const setting_target& target) {
  return at.settings / device_of(target);
}

/// Behind the name of whoever has taken a seat, and does not govern yet. SEA-5
constexpr std::string_view beginning = ", which begins";

}  // namespace

std::string seat_name(const control_owner& owner) {
  return fmt::format("{} of launch {:016x}", owner.job, owner.launch);
}

seat_sight judge_seat(const std::optional<io::lock_holder>& holder, std::string_view own_name) {
  if (!holder || holder->job.empty() || holder->job == restorer_name) return seat_sight::unsettled;
  if (holder->job == std::string(own_name).append(beginning)) return seat_sight::unsettled;
  return holder->job == own_name ? seat_sight::of_this_job : seat_sight::of_another;
}

result<io::folder_lock> take_seat(const control_place& at, const setting_target& target,
                                  std::string name) {
  TROUPE_CHECK(io::make_own_folder(at.settings));  // SEA-3
  const auto seat = seat_of(at, target);
  std::error_code code;
  fs::create_directories(seat, code);
  if (code) return error::system("make " + seat.string(), code.value());
  // SEA-4
  return io::folder_lock::take(seat, io::this_process(std::move(name)), true);
}

/// SEA-2. The kernel's lock has no timeout and tells nobody when it is free, so it is asked again.
result<std::optional<io::folder_lock>> wait_for_seat(const control_place& at,
                                                     const setting_target& target,
                                                     const control_owner& owner) {
  const auto name = seat_name(owner);
  const auto until = std::chrono::steady_clock::now() + at.seat_patience;
  for (;;) {
    auto seat = take_seat(at, target, name + std::string(beginning));
    if (seat) return std::optional(std::move(*seat));
    if (!seat.error().is(io::folder_in_use)) return seat.error();
    TROUPE_TRY(holder, io::holder_of(seat_of(at, target)));
    const bool is_last = std::chrono::steady_clock::now() >= until;
    const auto seen = judge_seat(holder, name);
    if (seen == seat_sight::of_another && is_last) return seat.error();
    // Whoever does not govern looks again when it is to set something.
    if (seen == seat_sight::of_this_job || is_last) return std::optional<io::folder_lock>();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void settle_seat(io::folder_lock& seat, const control_owner& owner) {
  static_cast<void>(seat.say_job(seat_name(owner)));
}

result<bool> is_governed(const control_place& at, const setting_target& target) {
  const auto free = io::check_free(seat_of(at, target), true);  // SEA-4
  if (!free && !free.error().is(io::folder_in_use)) return free.error();
  return !free;
}

}  // namespace troupe::gpu::controls

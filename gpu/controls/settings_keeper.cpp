// Waits, looks, and looks again; see settings_keeper.hpp.
#include "gpu/controls/settings_keeper.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "gpu/controls/restore.hpp"
#include "gpu/controls/setting_governor.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

/// A dying process may have its lock for a moment more than its sockets.
bool is_governed_yet(const restored& r) {
  if (r.record && r.verdict == record_verdict::in_use) return true;
  return !r.outcome && r.outcome.error().is(setting_governed);
}

/// Whether this user could make the folder, or write in it.
bool may_write_in(fs::path folder) {
  std::error_code code;
  while (!folder.empty() && !fs::exists(folder, code) && folder != folder.root_path())
    folder = folder.parent_path();
  return !folder.empty() && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

void restore_left_settings(control_place at, std::chrono::milliseconds wait) {
  at.records.clear();  // groups hold nobody once their threads are gone
  at.is_set_in_heat = false;  // KPS-3
  const auto left = restore(at, true, left_by::jobs);
  if (!left || left->empty()) return;
  std::this_thread::sleep_for(wait);
  const auto until = std::chrono::steady_clock::now() + at.patience;
  for (;;) {
    const auto all = restore(at, false, left_by::jobs);
    const bool is_over = std::chrono::steady_clock::now() >= until;
    if (!all || is_over || std::ranges::none_of(*all, is_governed_yet)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

result<std::optional<io::survivor>> keep_settings(const control_place& at,
                                                  std::chrono::milliseconds wait) {
  if (!may_write_in(at.settings)) return std::optional<io::survivor>();
  TROUPE_TRY(child, io::survivor::start("settings-keeper",
                                        [&](pid_t) { restore_left_settings(at, wait); }));
  return std::optional(std::move(child));
}

}  // namespace troupe::gpu::controls

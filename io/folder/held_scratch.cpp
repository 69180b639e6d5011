// Temporary folders with a lock.
#include "io/folder/held_scratch.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

/// Between the making of a folder and its lock.
constexpr auto young = std::chrono::minutes(1);

bool is_abandoned(const fs::directory_entry& entry) {
  std::error_code failed;
  if (!entry.is_directory(failed) || entry.is_symlink(failed)) return false;
  if (!is_owned(entry.path(), folder_kind::scratch)) return false;
  const auto changed = fs::last_write_time(entry.path(), failed);
  if (failed || fs::file_time_type::clock::now() - changed < young) return false;
  const auto holder = holder_of(entry.path());
  return holder && !*holder;
}

}  // namespace

std::vector<fs::path> remove_abandoned(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> out;
  std::error_code failed;
  std::vector<fs::path> abandoned;
  for (fs::directory_iterator at(parent, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().filename().string().starts_with(prefix) && is_abandoned(*at))
      abandoned.push_back(at->path());
  for (const auto& left : abandoned)
    if (remove_owned(left, folder_kind::scratch)) out.push_back(left);
  return out;
}

result<held_scratch> held_scratch::make(const fs::path& parent, std::string_view prefix) {
  auto removed = remove_abandoned(parent, prefix);
  TROUPE_TRY(folder, scratch_folder::make(parent, prefix));
  TROUPE_TRY(lock, folder_lock::take(folder.path(), this_process(std::string(prefix))));
  held_scratch out(std::move(folder), std::move(lock));
  out.removed_ = std::move(removed);
  return out;
}

}  // namespace troupe::io

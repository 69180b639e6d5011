// Files for persons, locks for readers.
#include "io/checkpoint/hold.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/checkpoint/manifest.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

result<fs::path> hold_file(const fs::path& checkpoint, std::string_view by) {
  if (!is_hold_name(by))
    return error{errc::usage, "the name of a hold is invalid",
                 "1 to 64 letters, digits, '-' and '_'"};
  return checkpoint / fmt::format("{}{}", hold_prefix, by);
}

}  // namespace

bool is_hold_name(std::string_view by) {
  return !by.empty() && by.size() <= 64 && std::all_of(by.begin(), by.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

status add_hold(const fs::path& checkpoint, const hold& what) {
  TROUPE_TRY(file, hold_file(checkpoint, what.by));
  if (what.reason.size() > max_reason_bytes)
    return error{errc::usage, fmt::format("a reason has at most {} bytes", max_reason_bytes)};
  return write_atomic(file, what.reason);
}

status release_hold(const fs::path& checkpoint, std::string_view by) {
  TROUPE_TRY(file, hold_file(checkpoint, by));
  const auto fd = open_read(file);
  if (!fd && fd.error().code == errc::not_found)
    return error{errc::not_found, fmt::format("{} is not held by {}", checkpoint.string(), by)};
  if (!fd) return fd.error();
  TROUPE_CHECK(remove_own_file(file, fd->get()));
  return fsync_directory(checkpoint);
}

std::vector<hold> holds_of(file_system& files, const fs::path& checkpoint) {
  std::vector<hold> out;
  const auto all = files.list(checkpoint);
  if (!all) return out;
  for (const auto& [name, folder, bytes, changed_s] : *all) {
    if (name == pin_file) out.push_back({name, {}});
    if (!name.starts_with(hold_prefix)) continue;
    const auto by = name.substr(hold_prefix.size());
    if (!is_hold_name(by)) continue;  // HD-2
    const auto reason = files.read_small(checkpoint / name, max_reason_bytes);
    out.push_back({by, reason ? *reason : std::string{}});
  }
  std::sort(out.begin(), out.end(), [](const hold& a, const hold& b) { return a.by < b.by; });
  return out;
}

result<reading> reading::begin(file_system& files, const fs::path& checkpoint) {
  TROUPE_TRY(lock, files.read_lock(checkpoint / manifest_file));
  return reading(std::move(lock));
}

result<file_lock> exclude_readers(file_system& files, const fs::path& checkpoint) {
  return files.exclude_readers(checkpoint / manifest_file);
}

}  // namespace troupe::io::checkpoint

// Files for persons, locks for readers.
#include "io/checkpoint/hold.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

std::vector<hold> holds_of(const fs::path& checkpoint) {
  std::vector<hold> out;
  std::error_code code;
  for (fs::directory_iterator at(checkpoint, code), end; !code && at != end; at.increment(code)) {
    const auto name = at->path().filename().string();
    if (name == pin_file) out.push_back({name, {}});
    if (!name.starts_with(hold_prefix)) continue;
    const auto by = name.substr(hold_prefix.size());
    if (!is_hold_name(by)) continue;  // HD-2
    const auto reason = read_file(at->path(), max_reason_bytes);
    out.push_back({by, reason ? *reason : std::string{}});
  }
  std::sort(out.begin(), out.end(), [](const hold& a, const hold& b) { return a.by < b.by; });
  return out;
}

result<reading> reading::begin(const fs::path& checkpoint) {
  TROUPE_TRY(file, open_read(checkpoint / manifest_file));
  // Nobody waits for it: behind a removal's lock there is nothing to read in a moment, which the
  // reader hears then, and another user's may stay for ever. Who keeps one, and a file system
  // without locks, leave the reader unprotected.
  static_cast<void>(::flock(file.get(), LOCK_SH | LOCK_NB));
  return reading(std::move(file));
}

result<unique_fd> exclude_readers(const fs::path& checkpoint) {
  const auto name = checkpoint / manifest_file;
  constexpr int how = O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  // NFS locks exclusively only what is open for writing.
  unique_fd file(::open(name.c_str(), O_RDWR | how));
  if (!file) file.reset(::open(name.c_str(), O_RDONLY | how));
  if (!file) return unique_fd{};  // nobody can begin without it
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return error{errc::unavailable, fmt::format("{} is being read", checkpoint.string())};
  return file;
}

}  // namespace troupe::io::checkpoint

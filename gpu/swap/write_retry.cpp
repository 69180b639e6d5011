// Other files, one after the other, and the waiting for their room: see write_retry.hpp.
#include "gpu/swap/write_retry.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/text.hpp"

namespace troupe::gpu {

bool lacks_room(const status& s) {
  return !s && (s.error().kind == "ENOSPC" || s.error().kind == "EDQUOT");
}

status drop_file(io::disk& d, const std::filesystem::path& root,
                 const std::filesystem::path& name) {
  const auto folder = root / "dropped";
  TROUPE_TRY(made, d.make_dir(folder));
  static_cast<void>(made);
  TROUPE_CHECK(d.rename(name, folder / name.filename()));
  return d.remove_folder(folder, {io::folder_kind::scratch, {}, {}});
}

bool write_retry::may_be_tried(const status& failed) {
  return !failed && failed.error().code != errc::timeout && failed.error().code != errc::cancelled;
}

status write_retry::health_of(io::file_id file) {
  return io_->change([file](io::disk& d) { return d.health(file); });
}

void write_retry::tell(const std::string& text) const {
  if (wait_.notice) wait_.notice("swap: " + text);
}

status write_retry::write(const failed_write& w, const std::shared_ptr<void>& owner,
                          clock::time_point until) {
  bool told = false;
  status failed = health_of(w.file().id), why = failed;
  for (int tries = 0; tries < file_tries;) {
    if (failed) {
      const auto file = w.file().id;
      const io::swap_io::range one{file, w.offset, w.memory};
      failed = io_->write({&one, 1}, owner);
      if (failed || health_of(file)) return failed;  // it may be that nobody answers
      why = failed;
      ++tries;
      continue;
    }
    auto moved = move(w, why);
    if (!moved.again) {
      if (!moved.outcome) return moved.outcome;
      if (told) tell("there is room again");
      failed = {};
      continue;
    }
    failed = moved.outcome;
    if (!lacks_room(failed))
      ++tries;
    else if (clock::now() >= until || !look_again_for_room(w, why, std::exchange(told, true)))
      return failed.error().within(why.error().message);
  }
  return failed;
}

/// In the same folder, or in another one.
write_retry::attempt write_retry::move(const failed_write& w, const status& why) {
  attempt out;
  if (wait_.make_room) wait_.make_room();
  const auto first = w.file().place;
  for (size_t i = 0; i < folders_.size(); ++i) {
    auto tried = w.move((first + i) % folders_.size(), why);
    if (!tried.again) return tried;
    if (i == 0 || lacks_room(tried.outcome)) out = std::move(tried);  // room may come
  }
  return out;
}

/// What keeps a file from being made is the drive's, not what it is for: another may take it.
write_retry::attempt write_retry::not_moved(const status& why, io::file_id made) {
  const bool there = made != io::file_id::none;
  return {why, lacks_room(why) || (there && !health_of(made)) || (!there && folders_.size() > 1)};
}

/// False: the rank ends.
bool write_retry::look_again_for_room(const failed_write& w, const status& why, bool told) {
  const auto patience = std::chrono::duration_cast<std::chrono::seconds>(wait_.patience);
  std::vector<std::string> folders;
  for (const auto& f : folders_) folders.push_back(f.string());
  if (!told)
    tell(fmt::format("{}; {} has no room for another file of {}: the step waits for it, up to {} s",
                     why.error().message, fmt::join(folders, ", "), bytes_text(w.file_bytes),
                     patience.count()));
  std::mutex mutex;  // nobody else's: only the end is waited for
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  ended.wait_for(lock, wait_.ending, wait_.look_again, [] { return false; });
  lock.unlock();
  if (wait_.waits) wait_.waits();
  return !wait_.ending.stop_requested();
}

}  // namespace troupe::gpu

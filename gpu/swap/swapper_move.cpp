// Where writing to a file of the swap folder fails: see swapper.hpp (SWP-11).
//
//   a write fails    what else of the file counts is read again, and compared with its sums; all of
//                    it goes into a new file, which takes the name, or, in another folder, has one
//                    of its own; then the write is made there
//   no room for it   the thread that writes waits until there is; whoever reads the chunk meanwhile
//                    waits for it
//
// A gradient's file has nothing else that counts: what is to be written there is all of it.
//
// A failed write tells nothing of what the file has where it was to go, so nobody reads that: it
// comes from the memory that was to be written.
#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpu/swap/swapper.hpp"
#include "io/base/memory_account.hpp"
#include "io/base/text.hpp"

namespace troupe::gpu {

namespace {

using clock = std::chrono::steady_clock;
using range = io::swap_io::range;

/// Files of one write that fail, one after the other, before it is given up: the drive has ended.
constexpr int file_tries = 3;

bool lacks_room(const status& s) {
  return !s && (s.error().kind == "ENOSPC" || s.error().kind == "EDQUOT");
}

}  // namespace

/// What of the file counts beside what is written.
std::vector<swapper::counted> swapper::counted_beside(const chunk_state& c, const target& t) {
  std::vector<counted> out;
  const auto add = [&](uint64_t offset, uint64_t bytes, uint32_t sum, int group) {
    const bool written = offset >= t.what.offset && offset < t.what.offset + t.what.memory.size();
    if (!written) out.push_back({offset, bytes, sum, group});
  };
  for (int g = 0; g < t.groups; ++g) {
    const auto at = static_cast<size_t>(g);
    if (t.of == contents::weights)
      add(c.layout.weights_offset(g), c.layout.weights_array_bytes(), t.sums->weights[at], g);
    else
      for (size_t p = 0; p < io::state_parts; ++p)
        add(c.layout.offset(g, static_cast<io::state_part>(p)), c.layout.array_bytes(),
            t.sums->state[at][p], g);
  }
  return out;
}

status swapper::health_of(io::file_id file) {
  return io_->change([file](io::disk& d) { return d.health(file); });
}

status swapper::put(std::span<const target> what, const std::shared_ptr<void>& owner) {
  std::vector<range> ranges;
  for (const auto& t : what) ranges.push_back({t.file->id, t.what.offset, t.what.memory});
  const auto written = io_->write(ranges, owner);
  if (written) return {};
  if (written.error().code == errc::timeout || written.error().code == errc::cancelled)
    return written;  // the disk may still have the memory
  const auto until = clock::now() + options_.patience;
  for (const auto& t : what) {
    const auto again = put_again(t, owner, until);
    if (again) continue;
    work_.note(again);  // who reads that file waits for another one, which there will not be
    return again;
  }
  return {};
}

/// And all else of the file: it is on the disk then. Where that fails the file is another one.
status swapper::put_synced(const target& t, const std::shared_ptr<void>& owner) {
  TROUPE_CHECK(put({&t, 1}, owner));
  auto synced = io_->sync(t.file->id);
  for (int tries = 0; !synced && !health_of(t.file->id); ++tries) {
    TROUPE_CHECK(put({&t, 1}, owner));
    if (tries > 0) break;
    synced = io_->sync(t.file->id);
  }
  return synced;
}

/// One of some of which a write has failed, perhaps another's.
status swapper::put_again(const target& t, const std::shared_ptr<void>& owner,
                          clock::time_point until) {
  bool told = false;
  status failed = health_of(t.file->id), why = failed;
  for (int tries = 0; tries < file_tries;) {
    if (failed) {
      const range one{t.file->id, t.what.offset, t.what.memory};
      failed = io_->write({&one, 1}, owner);
      if (failed || health_of(t.file->id)) return failed;  // it may be that nobody answers
      why = failed;
      ++tries;
      continue;
    }
    auto moved = move_file(t, why);
    if (!moved.again) {
      if (!moved.outcome) return moved.outcome;
      if (told) tell("there is room again");
      failed = {};
      continue;
    }
    failed = moved.outcome;
    if (!lacks_room(failed))
      ++tries;
    else if (clock::now() >= until || !look_again_for_room(t, why, std::exchange(told, true)))
      return failed.error().within(why.error().message);
  }
  return failed;
}

uint64_t swapper::bytes_of(const target& t) {
  const auto& c = at(t.chunk);
  if (t.of == contents::gradient) return gradients_->layout(t.chunk).file_bytes();
  return t.of == contents::weights ? c.layout.all_weights_bytes()
                                   : c.layout.state_bytes() + c.tail_bytes;
}

/// False: the rank ends.
bool swapper::look_again_for_room(const target& t, const status& why, bool told) {
  const auto patience = std::chrono::duration_cast<std::chrono::seconds>(options_.patience);
  std::vector<std::string> folders;
  for (const auto& p : options_.places) folders.push_back(p.folder.string());
  if (!told)
    tell(fmt::format("{}; {} has no room for another file of {}: the step waits for it, up to {} s",
                     why.error().message, fmt::join(folders, ", "), bytes_text(bytes_of(t)),
                     patience.count()));
  std::unique_lock lock(files_mutex_);
  moved_.wait_for(lock, options_.ending, options_.look_again, [] { return false; });
  lock.unlock();
  if (options_.waits) options_.waits();
  return !options_.ending.stop_requested();
}

/// SWP-11. In the same folder, or in another one.
swapper::moved_file swapper::move_file(const target& t, const status& why) {
  moved_file out;
  drop_old(old_kind::expired);  // for its room
  for (size_t i = 0; i < options_.places.size(); ++i) {
    auto tried = move_to((t.file->place + i) % options_.places.size(), t, why);
    if (!tried.again) return tried;
    if (i == 0 || lacks_room(tried.outcome)) out = std::move(tried);  // room may come
  }
  return out;
}

/// `again`: the new file was not made, or could not be written; it is gone.
swapper::moved_file swapper::move_to(size_t place, const target& t, const status& why) {
  auto& c = at(t.chunk);
  const auto before = *t.file;
  const bool of_gradient = t.of == contents::gradient;  // on a thread of its own
  const auto folder = root(place) / (of_gradient ? moved_gradients_folder : moved_folder);
  const auto base = before.name.filename();
  named_file into{folder / base, io::file_id::none, place};
  const auto name = place == before.place
                        ? before.name
                        : root(place) / fmt::format("{}.{}", base.string(), ++moves_);
  const auto moved = [&]() -> status {
    TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
      TROUPE_TRY(made, d.make_dir(folder));
      static_cast<void>(made);
      return {};
    }));
    TROUPE_TRY(file, io_->create(into.name, bytes_of(t)));
    into.id = file;
    TROUPE_CHECK(copy_counted(c, t, into));
    return io_->change([&](io::disk& d) { return d.rename(into.name, name); });
  }();
  if (!moved) {
    // What keeps a file from being made is the drive's, not the state's: another may take it.
    const bool again = lacks_room(moved) || (into.there() && !health_of(into.id)) ||
                       (!into.there() && options_.places.size() > 1);
    static_cast<void>(io_->change([&](io::disk& d) -> status {
      if (into.there()) d.close(into.id);
      return d.remove_folder(folder, {io::folder_kind::scratch, {}, {}});
    }));
    return {moved, again};
  }
  if (t.of == contents::state && !options_.places[place].links) c.links = false;
  tell(fmt::format("{}: it goes on in {}", why.error().message, name.string()));
  {
    std::lock_guard lock(files_mutex_);
    *t.file = {name, into.id, place};
  }
  moved_.notify_all();
  return {io_->change([&](io::disk& d) -> status {
            d.close(before.id);
            // A drive that is full or broken may refuse that: the file goes with the folder then.
            if (place != before.place) static_cast<void>(discard(d, before));
            return {};
          }),
          false};
}

/// By a handle of its own: the file's takes nothing any more.
status swapper::copy_counted(const chunk_state& c, const target& t, const named_file& into) {
  const auto all = counted_beside(c, t);
  if (all.empty()) return {};
  auto from = io::file_id::none;
  TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(opened, d.open(t.file->name, {io::open_mode::read, true, 0, true}));
    from = opened;
    return {};
  }));
  const auto copied = [&]() -> status {
    std::lock_guard lock(kept_mutex_);  // the memory that is planned for a checkpoint's reads
    kept_ = {};
    const io::memory_holder holder("state for a checkpoint");
    TROUPE_TRY(made, io::io_buffer::make(all.front().bytes));
    const auto memory = std::make_shared<io::io_buffer>(std::move(made));
    auto shown = clock::now();
    for (const auto& a : all) {
      if (options_.waits && clock::now() - shown >= options_.look_again) {
        options_.waits();
        shown = clock::now();
      }
      const range one{from, a.offset, memory->bytes().first(a.bytes)};
      TROUPE_CHECK(read_checked({&one, 1}, memory, [&]() -> status {
        if (io::crc32c(one.memory) == a.sum) return {};
        return damaged(t.file->name, t.chunk, a.group,
                       t.of == contents::weights ? "weight" : "state");
      }));
      const range copy{into.id, a.offset, one.memory};
      TROUPE_CHECK(io_->write({&copy, 1}, memory));
    }
    return {};
  }();
  static_cast<void>(io_->change([from](io::disk& d) -> status {
    d.close(from);
    return {};
  }));
  return copied;
}

void swapper::tell(const std::string& text) const {
  if (options_.notice) options_.notice("swap: " + text);
}

swapper::named_file swapper::state_file_of(const chunk_state& c) {
  std::lock_guard lock(files_mutex_);
  return c.state;
}

/// Whether there is another file in place of one that cannot be read since a write to it has
/// failed; waits until there is.
bool swapper::await_moved(const chunk_state& c, io::file_id before) {
  const bool dead = !health_of(before);
  std::unique_lock lock(files_mutex_);
  const auto moved = [&] { return c.state.id != before; };
  if (dead)
    moved_.wait_for(lock, options_.ending, options_.patience + options_.io.patience,
                    [&] { return moved() || work_.failed(); });
  return moved();
}

}  // namespace troupe::gpu

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

#include "gpu/swap/swapper.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::gpu {

namespace {

using clock = std::chrono::steady_clock;
using range = io::swap_io::range;

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

status swapper::put(std::span<const target> what, const std::shared_ptr<void>& owner) {
  std::vector<range> ranges;
  for (const auto& t : what) ranges.push_back({t.file->id, t.what.offset, t.what.memory});
  const auto written = io_->write(ranges, owner);
  if (written) return {};
  if (!write_retry::may_be_tried(written)) return written;
  const auto until = retry_->patience_ends();
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
  for (int tries = 0; !synced && !retry_->health_of(t.file->id); ++tries) {
    TROUPE_CHECK(put({&t, 1}, owner));
    if (tries > 0) break;
    synced = io_->sync(t.file->id);
  }
  return synced;
}

/// One of some of which a write has failed, perhaps another's.
status swapper::put_again(const target& t, const std::shared_ptr<void>& owner,
                          clock::time_point until) {
  write_retry::failed_write w;
  w.file = [&t] { return *t.file; };
  w.offset = t.what.offset;
  w.memory = t.what.memory;
  w.file_bytes = bytes_of(t);
  w.move = [this, &t](size_t place, const status& why) { return move_to(place, t, why); };
  return retry_->write(w, owner, until);
}

room_wait swapper::wait_for_room() {
  return {options_.patience, options_.look_again, options_.ending,
          options_.notice,   options_.waits,      [this] { drop_old(old_kind::expired); }};
}

uint64_t swapper::bytes_of(const target& t) {
  const auto& c = at(t.chunk);
  if (t.of == contents::gradient) return gradients_->layout(t.chunk).file_bytes();
  return t.of == contents::weights ? c.layout.all_weights_bytes()
                                   : c.layout.state_bytes() + c.tail_bytes;
}

/// SWP-11. Where the new file was not made, or could not be written, it is gone.
write_retry::attempt swapper::move_to(size_t place, const target& t, const status& why) {
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
    auto out = retry_->not_moved(moved, into.id);
    static_cast<void>(io_->change([&](io::disk& d) -> status {
      if (into.there()) d.close(into.id);
      return d.remove_folder(folder, {io::folder_kind::scratch, {}, {}});
    }));
    return out;
  }
  if (t.of == contents::state && !options_.places[place].links) c.links = false;
  retry_->tell(fmt::format("{}: it goes on in {}", why.error().message, name.string()));
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

swapper::named_file swapper::state_file_of(const chunk_state& c) {
  std::lock_guard lock(files_mutex_);
  return c.state;
}

/// Whether there is another file in place of one that cannot be read since a write to it has
/// failed; waits until there is.
bool swapper::await_moved(const chunk_state& c, io::file_id before) {
  const bool dead = !retry_->health_of(before);
  std::unique_lock lock(files_mutex_);
  const auto moved = [&] { return c.state.id != before; };
  if (dead)
    moved_.wait_for(lock, options_.ending, options_.patience + options_.io.patience,
                    [&] { return moved() || work_.failed(); });
  return moved();
}

}  // namespace troupe::gpu

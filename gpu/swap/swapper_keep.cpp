// What checkpoints take of the swap files, and what is written behind them: see swapper.hpp.
//
//   keep   room for the next files; each chunk's end behind its groups, fdatasync, a link into the
//          checkpoint's folder; then the vote
//   update goes into the next file where a checkpoint has this one; the last group of a chunk gives
//          that file the chunk's name, and the other, which the checkpoint has, keeps one in `old`
//   reuse  where nothing else leads to an old file any more it is the next one; else one is made
//   adopt  the other way round: a run that goes on from a checkpoint has its files, by links, and
//          its own are the next ones; where it has none of its own (files_later), that checkpoint
//          has to be given up before the first update
#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "gpu/model/saved_state.hpp"
#include "gpu/swap/swapper.hpp"
#include "io/base/memory_account.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save.hpp"

namespace troupe::gpu {

namespace {

namespace cp = io::checkpoint;
using range = io::swap_io::range;

}  // namespace

std::vector<bool> swapper::linked() const {
  std::vector<bool> out;
  for (int c = 0; c < store_.chunk_count(); ++c) out.push_back(is_kept(c));
  return out;
}

void swapper::keep(keep_order order, kept done) {
  using shards = result<std::vector<cp::chunk_shard>>;
  finish_update();
  if (order.chunks.empty()) order.chunks = linked();
  auto out = std::make_shared<shards>(error{errc::cancelled, "the swap folder has failed before"});
  for (const auto& op : order_->keep())
    carry_out(op, nullptr, [&](stream& s) {
      if (op.what != chunk_act::keep) return;
      s.host_task([this, out, order]() -> status {
        if (!work_.failed()) *out = keep_now(order);
        return {};  // SWP-8
      });
      s.notify([out, done](const status&) { done(*out); });
    });
  keeping_ = event({chunk_point::kind::written, 0});
}

result<std::vector<cp::chunk_shard>> swapper::keep_now(const keep_order& order) {
  assert(!options_.job.empty() && order.head.job == options_.job);
  taking_ = {};
  forget_kept_arrays();
  for (int c = 0; c < store_.chunk_count(); ++c) {
    const auto& as = at(c).as;
    const bool tried_again = as && as->step == order.head.step && as->epoch == order.head.epoch;
    // Not updated since: a step was passed over.
    if (at(c).versions.kept() && !tried_again) TROUPE_CHECK(own_again(c));
  }
  const auto takes = [&order](int chunk) { return order.chunks[static_cast<size_t>(chunk)]; };
  drop_room([&](int chunk) { return !takes(chunk) && !at(chunk).versions.kept(); });
  if (order.last) drop_old(old_kind::all);
  TROUPE_CHECK(make_room(order));
  TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(first, cp::make_partial(d, order.partial, order.head.job));
    static_cast<void>(first);
    return {};
  }));
  std::vector<cp::chunk_shard> out;
  for (int c = 0; c < store_.chunk_count(); ++c) {
    if (!takes(c)) continue;
    TROUPE_TRY(shard, keep_chunk(c, order));
    out.push_back(std::move(shard));
  }
  for (const auto& shard : out) {
    auto& c = at(static_cast<int>(shard.chunk));
    c.versions.keep();
    c.as = kept_shard{order.head.step, order.head.epoch, shard};
  }
  linked_ = taking_.linked;
  cloned_ = taking_.cloned;
  return out;
}

/// SWP-8.
status swapper::make_room(const keep_order& order) {
  if (order.last) return {};
  const auto of_each = [&](const std::function<status(chunk_state&)>& make) -> status {
    for (int c = 0; c < store_.chunk_count(); ++c)
      if (order.chunks[static_cast<size_t>(c)]) TROUPE_CHECK(make(at(c)));
    return {};
  };
  const auto outcome = [&]() -> status {
    TROUPE_CHECK(of_each([&](chunk_state& c) { return use_old(c, behind_checkpoint(c)); }));
    drop_old(old_kind::expired);  // before others are made
    return of_each([&](chunk_state& c) { return make_version(c, behind_checkpoint(c)); });
  }();
  if (outcome) return {};
  const bool needed =
      std::any_of(chunks_.begin(), chunks_.end(), [](const auto& c) { return c.versions.kept(); });
  if (!needed) drop_room([](int) { return true; });
  return outcome.error().within("room for the steps behind a checkpoint");
}

status swapper::make_version(const chunk_state& c, named_file& f) {
  if (f.there()) return {};
  TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(made, d.make_dir(f.name.parent_path()));
    static_cast<void>(made);
    return {};
  }));
  const auto file = io_->create(f.name, c.layout.state_bytes() + c.tail_bytes);
  if (!file) {  // a part of it may be there
    static_cast<void>(io_->change([&](io::disk& d) { return discard(d, f); }));
    return file.error();
  }
  f.id = *file;
  return {};
}

/// Gives the room back to whoever the disk is too small for.
void swapper::drop_room(const std::function<bool(int chunk)>& of) {
  static_cast<void>(io_->change([&](io::disk& d) -> status {
    for (int c = 0; c < store_.chunk_count(); ++c)
      if (auto& f = behind_checkpoint(at(c)); f.there() && of(c)) {
        d.close(std::exchange(f.id, io::file_id::none));
        static_cast<void>(discard(d, f));
      }
    return {};
  }));
}

/// A name for the file that a checkpoint has, and that is to be the chunk's no longer. Where there
/// is none, as on a full drive, it is the checkpoint's alone.
void swapper::name_old(io::disk& d, chunk_state& c) {
  if (options_.old_files == 0 || !c.links) return;
  const auto folder = root(c.state.place) / old_folder;
  const auto name = fmt::format("{}.{}", c.state.name.filename().string(), ++old_names_);
  const auto made = d.make_dir(folder);
  if (made && d.link(c.state.name, folder / name))
    c.old.push_back({folder / name, io::file_id::none, c.state.place});
}

/// An old file, opened, where nobody else has a name of it; else none. One that a checkpoint of an
/// earlier run had may be of another length, or have holes.
io::file_id swapper::open_alone(io::disk& d, const chunk_state& c, const named_file& old) const {
  const auto file = d.open(old.name, {io::open_mode::update, true, 0, true});
  if (!file) return io::file_id::none;
  const auto bytes = c.layout.state_bytes() + c.tail_bytes;
  const auto facts = d.look(*file);
  const bool alone = facts && facts->names == 1;  // SWP-12
  if (alone && facts->bytes == bytes && facts->taken_bytes >= bytes) return *file;
  d.close(*file);
  return io::file_id::none;
}

/// The oldest of them that is alone becomes `f`.
void swapper::take_old(io::disk& d, chunk_state& c, named_file& f) const {
  for (auto old = c.old.begin(); old != c.old.end(); ++old) {
    if (old->place != f.place) continue;
    const auto file = open_alone(d, c, *old);
    if (file == io::file_id::none) continue;
    if (d.rename(old->name, f.name)) {
      f.id = file;
      c.old.erase(old);
    } else {
      d.close(file);
    }
    return;
  }
}

/// What all of a chunk is to be written to is an old file, if there is one (SWP-12).
status swapper::use_old(chunk_state& c, named_file& f) {
  return io_->change([&](io::disk& d) -> status {
    const bool some = !f.there() && !c.old.empty();
    if (some && d.make_dir(f.name.parent_path())) take_old(d, c, f);
    return {};
  });
}

/// SWP-12. Those of which nobody else has a name go, and their room; beyond so many, names alone.
void swapper::drop_old(old_kind which) {
  static_cast<void>(io_->change([&](io::disk& d) -> status {
    for (auto& c : chunks_) {
      const auto over = c.old.size() - std::min(c.old.size(), options_.old_files);
      size_t seen = 0;
      std::erase_if(c.old, [&](const named_file& old) {
        const bool beyond = which == old_kind::all || seen++ < over;
        const auto names = d.names_of(old.name);
        if (!beyond && names && *names > 1) return false;
        static_cast<void>(discard(d, old));
        return true;
      });
    }
    return {};
  }));
}

result<cp::chunk_shard> swapper::keep_chunk(int chunk, const keep_order& order) {
  auto& c = at(chunk);
  if (c.versions.kept()) {  // with this end
    TROUPE_CHECK(link_chunk(chunk, order));
    return c.as->facts;
  }
  const auto& info = store_.info(chunk);
  const auto planned = saved_chunks({&info, 1}).at(0);
  auto footer = io::chunk_footer(c.layout, planned, store_.slice(chunk).first, order.head,
                                 order.rank, c.sums.state);
  TROUPE_TRY(tail, cp::encode_tail(footer));
  assert(tail.bytes.size() == c.tail_bytes && tail.offset == c.layout.state_bytes());
  const io::memory_holder holder("state for a checkpoint");
  TROUPE_TRY(made, io::io_buffer::make(tail.bytes.size()));
  auto memory = std::make_shared<io::io_buffer>(std::move(made));
  std::memcpy(memory->bytes().data(), tail.bytes.data(), tail.bytes.size());
  const target end{chunk,   &c.state,          contents::state,
                   &c.sums, c.layout.groups(), {c.state.id, tail.offset, memory->bytes()}};
  TROUPE_CHECK(put_synced(end, memory));  // SWP-7
  TROUPE_CHECK(link_chunk(chunk, order));
  return cp::chunk_shard{static_cast<uint32_t>(chunk),
                         tail.file_bytes,
                         footer.stream_bytes,
                         footer.slot_bytes,
                         tail.footer_crc,
                         tail.slot_digest,
                         std::move(footer.pieces)};
}

status swapper::link_chunk(int chunk, const keep_order& order) {
  const auto& c = at(chunk);
  if (!c.links) return links_refused(c.state.name.string() + " is on another drive by now");
  const auto name = order.partial / cp::shard_name(order.rank, static_cast<uint32_t>(chunk));
  const auto made = io_->change([&](io::disk& d) { return d.link(c.state.name, name); });
  if (made) return ++taking_.linked, status();
  const auto& why = made.error();
  const bool ever = why.kind != "EXDEV" && why.kind != "EPERM" && why.kind != "EOPNOTSUPP" &&
                    why.kind != "EMLINK";
  if (ever) return why;
  // Has no part in what is written to the file behind it (SWP-7).
  if (io_->change([&](io::disk& d) { return d.clone(c.state.name, name); }))
    return ++taking_.cloned, status();
  note_refused(c, why);
  return links_refused(why.message);
}

/// By a file that has as many names as there may be, of it alone; else of all in that folder.
void swapper::note_refused(const chunk_state& c, const error& why) {
  for (auto& other : chunks_)
    if (&other == &c || (why.kind != "EMLINK" && other.state.place == c.state.place))
      other.links = false;
}

/// Room that is planned for both (residency.hpp).
void swapper::forget_kept_arrays() {
  std::lock_guard lock(kept_mutex_);
  kept_ = {};
}

namespace {

/// The end of a shard, as its manifest means it.
result<cp::footer> footer_of(io::disk& d, const std::filesystem::path& shard,
                             const cp::file_entry& entry) {
  const auto at = cp::aligned(entry.stream_bytes);
  if (entry.bytes <= at || entry.bytes - at > cp::aligned(cp::max_footer_bytes + cp::trailer_bytes))
    return cp::footer_too_long();
  TROUPE_TRY(file, d.open_source(shard, io::pages::drop));
  std::vector<std::byte> tail(entry.bytes - at);
  TROUPE_CHECK(file->read_at(at, tail));
  TROUPE_TRY(end, cp::parse_trailer(tail, entry.bytes));
  if (end.footer_crc != entry.crc32c) return cp::checksum_wrong();
  return cp::parse_tail(tail, entry.bytes);
}

}  // namespace

/// Whether every byte lies where this rank has it.
bool swapper::fits(int chunk, const cp::footer& f) const {
  const auto& c = chunks_[static_cast<size_t>(chunk)];
  const auto& info = store_.info(chunk);
  const auto planned = saved_chunks({&info, 1}).at(0);
  const auto own =
      io::chunk_footer(c.layout, planned, store_.slice(chunk).first, {}, 0, c.sums.state);
  return f.padded && f.slot_bytes == own.slot_bytes && f.stream_bytes == own.stream_bytes &&
         f.crc32c.size() == own.crc32c.size() && f.pieces == own.pieces;
}

bool swapper::adopt(int chunk, const std::filesystem::path& shard, const cp::file_entry& entry,
                    const std::stop_token& ending) {
  auto& c = at(chunk);
  if (!links(chunk) || !options_.verify) return false;
  await_quiet(chunk);
  if (c.versions.kept() || behind_checkpoint(c).there()) return false;
  if (behind_checkpoint(c).place != c.state.place) return false;  // SWP-11
  const bool only = !c.state.there();  // it will be written in place: SWP-10
  if (only && entry.bytes != c.layout.state_bytes() + c.tail_bytes) return false;
  std::vector<io::group_sums> sums(c.sums.state.size());
  auto file = io::file_id::none;
  const auto fitting = io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(f, footer_of(d, shard, entry));
    if (!fits(chunk, f)) return error{errc::unavailable, "it is of another layout"};
    for (size_t i = 0; i < f.crc32c.size(); ++i)
      sums[i / io::state_parts][i % io::state_parts] = f.crc32c[i];
    const auto mode = only ? io::open_mode::update : io::open_mode::read;
    TROUPE_TRY(opened, d.open(shard, {mode, true, 0, true}));
    file = opened;
    return {};
  });
  // What is damaged is for whoever reads it next to tell.
  const auto taken = !fitting ? fitting : take_file(chunk, shard, file, sums, ending);
  if (taken) return true;
  if (file != io::file_id::none)
    static_cast<void>(io_->change([file](io::disk& d) -> status {
      d.close(file);
      return {};
    }));
  return false;
}

/// Where all of it is as it was written.
status swapper::take_file(int chunk, const std::filesystem::path& shard, io::file_id file,
                          const std::vector<io::group_sums>& sums, const std::stop_token& ending) {
  auto& c = at(chunk);
  const auto read = each_group(chunk, file, sums, [&](range, const auto&) -> status {
    return ending.stop_requested() ? error{errc::cancelled, "the rank ends"} : status();
  });
  if (!read) return read;
  auto& behind = behind_checkpoint(c);
  const auto named = io_->change([&](io::disk& d) { return name_taken(d, c, shard); });
  if (!named) return named;
  behind.id = std::exchange(c.state.id, file);
  c.sums.state = sums;
  c.versions.keep();
  order_->moments_set(chunk);
  order_->masters_set(chunk);
  ++c.writes;
  return {};
}

/// The file of a checkpoint gets the chunk's name, and what was made for the chunk that of the file
/// behind it (SWP-16).
status swapper::name_taken(io::disk& d, chunk_state& c, const std::filesystem::path& shard) {
  const auto& behind = behind_checkpoint(c);
  const named_file link{c.state.name.string() + ".link", io::file_id::none, c.state.place};
  const named_file second{behind.name, io::file_id::none, behind.place};
  const auto forget_both = [&] {
    for (const auto* f : {&link, &second}) static_cast<void>(discard(d, *f));
  };
  const auto exchanged = [&]() -> status {
    TROUPE_TRY(made, d.make_dir(behind.name.parent_path()));
    static_cast<void>(made);
    forget_both();  // of an attempt before, whose own forgetting failed
    TROUPE_CHECK(d.link(shard, link.name));
    if (c.state.there()) TROUPE_CHECK(d.link(c.state.name, second.name));
    return d.rename(link.name, c.state.name);
  }();
  if (!exchanged) {
    forget_both();
    return exchanged;
  }
  // They are of steps that are left behind; one may be of the very file that is taken (SWP-12).
  for (const auto& old : std::exchange(c.old, {})) static_cast<void>(discard(d, old));
  return {};
}

/// Whether a chunk's file has no more names than those that are known.
status swapper::check_names(const chunk_state& c, uint64_t known) {
  return io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(names, d.names_of(c.state.name));
    if (names > known) return still_has_names(c.state.name.string(), names - known);
    return {};
  });
}

result<bool> swapper::awaits_checkpoint() {
  constexpr uint64_t names = 2;  // here, and in the checkpoint
  bool out = false;
  for (const auto& c : chunks_) {
    if (!c.versions.kept() || c.as || !options_.files_later) continue;
    TROUPE_CHECK(check_names(c, names));
    out = true;
  }
  return out;
}

/// SWP-10. What a checkpoint of this run has is its own for good.
status swapper::take_for_good() {
  for (const auto& c : chunks_) {
    if (!c.versions.kept()) continue;
    if (c.as || !options_.files_later) return state_given_away();
    TROUPE_CHECK(check_names(c, 1));
  }
  options_.files_later = false;
  for (auto& c : chunks_) c.versions.own();
  return {};
}

/// Calls `use` with each group of a chunk's file, which is as it was written.
status swapper::each_group(int chunk, io::file_id file, const std::vector<io::group_sums>& sums,
                           const group_use& use) {
  auto& c = at(chunk);
  forget_kept_arrays();
  const io::memory_holder holder("state for a checkpoint");
  TROUPE_TRY(made, io::io_buffer::make(c.layout.group_bytes()));
  const auto memory = std::make_shared<io::io_buffer>(std::move(made));
  for (int g = 0; g < c.layout.groups(); ++g) {
    const range one{file, c.layout.group_offset(g), memory->bytes()};
    const auto sound = [&]() -> status {
      for (size_t p = 0; p < io::state_parts; ++p)
        if (const auto good =
                check(c.state.name, chunk, g, "state",
                      one.memory.subspan(p * c.layout.array_bytes(), c.layout.array_bytes()),
                      c.layout.array_bytes(), sums[static_cast<size_t>(g)][p]);
            !good)
          return good;
      return {};
    };
    TROUPE_CHECK(read_checked({&one, 1}, memory, sound));
    TROUPE_CHECK(use(one, memory));
  }
  return {};
}

/// Copies a chunk's state out of the file that a checkpoint has.
status swapper::own_again(int chunk) {
  auto& c = at(chunk);
  TROUPE_CHECK(use_old(c, c.next));
  TROUPE_CHECK(make_version(c, c.next));
  const auto copied =
      each_group(chunk, c.state.id, c.sums.state, [&](range group, const auto& owner) {
        group.file = c.next.id;
        return io_->write({&group, 1}, owner);
      });
  if (!copied) return copied;
  return take_over(c);
}

/// A name in the folder goes; what a checkpoint has of the file stays. Not out of a folder in which
/// another thread is making a file.
status swapper::discard(io::disk& d, const named_file& f) const {
  return drop_file(d, root(f.place), f.name);
}

/// `to` is the file that `from` was, under its own name where both are in one place.
status swapper::become(io::disk& d, named_file& to, named_file& from) const {
  if (to.place == from.place) {
    TROUPE_CHECK(d.rename(from.name, to.name));
    if (to.there()) d.close(to.id);
  } else {
    if (to.there()) {
      d.close(to.id);
      TROUPE_CHECK(discard(d, to));
    }
    std::swap(to.name, from.name);
    std::swap(to.place, from.place);
  }
  to.id = std::exchange(from.id, io::file_id::none);
  return {};
}

/// The next file becomes the chunk's; what was behind a checkpoint is the next one.
status swapper::take_over(chunk_state& c) {
  const auto renamed = io_->change([&](io::disk& d) -> status {
    name_old(d, c);
    TROUPE_CHECK(become(d, c.state, c.next));
    return c.spare.there() ? become(d, c.next, c.spare) : status{};
  });
  if (!renamed) return renamed;
  c.versions.own();
  c.as.reset();
  return {};
}

}  // namespace troupe::gpu

// What checkpoints take of the swap files, and what is written behind them: see swapper.hpp.
//
//   keep   room for the next files; each chunk's end behind its groups, fdatasync, a link into the
//          checkpoint's folder; then the vote
//   update goes into the next file where a checkpoint has this one; the last group of a chunk gives
//          that file the chunk's name, and the other is the checkpoint's alone
#include <cassert>
#include <cstring>
#include <utility>

#include "gpu/model/saved_state.hpp"
#include "gpu/swap/swapper.hpp"
#include "io/base/memory_account.hpp"
#include "io/checkpoint/save.hpp"

namespace troupe::gpu {

namespace {

namespace cp = io::checkpoint;
using range = io::swap_io::range;

}  // namespace

void swapper::keep(keep_order order, kept done) {
  using shards = result<std::vector<cp::chunk_shard>>;
  auto out = std::make_shared<shards>(error{errc::cancelled, "the swap folder has failed before"});
  state_out_->host_task([this, out, order = std::move(order)]() -> status {
    if (!failed_) *out = keep_now(order);
    return {};  // SWP-8
  });
  state_out_->notify([out, done = std::move(done)](const status&) { done(*out); });
  keeping_ = state_out_->record();
}

result<std::vector<cp::chunk_shard>> swapper::keep_now(const keep_order& order) {
  assert(!options_.job.empty() && order.head.job == options_.job);
  for (int c = 0; c < store_.chunk_count(); ++c)
    if (at(c).kept) TROUPE_CHECK(own_again(c));  // not updated since: a step was passed over
  TROUPE_CHECK(make_room(order.last));
  TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(first, cp::make_partial(d, order.partial, order.head.job));
    static_cast<void>(first);
    return {};
  }));
  std::vector<cp::chunk_shard> out;
  for (int c = 0; c < store_.chunk_count(); ++c) {
    if (!on_disk(c)) continue;
    TROUPE_TRY(shard, keep_chunk(c, order));
    out.push_back(std::move(shard));
  }
  for (auto& c : chunks_) c.kept = c.file != io::file_id::none;
  return out;
}

/// SWP-8.
status swapper::make_room(bool last) {
  if (last) return {};
  const auto outcome = [&]() -> status {
    for (int c = 0; c < store_.chunk_count(); ++c)
      if (on_disk(c)) TROUPE_CHECK(make_next(at(c)));
    return {};
  }();
  if (outcome) return {};
  drop_next();
  return outcome.error().within("room for the steps behind a checkpoint");
}

status swapper::make_next(chunk_state& c) {
  if (c.next != io::file_id::none) return {};
  TROUPE_CHECK(io_->change([&](io::disk& d) -> status {
    TROUPE_TRY(made, d.make_dir(c.next_name.parent_path()));
    static_cast<void>(made);
    return {};
  }));
  TROUPE_TRY(file, io_->create(c.next_name, c.layout.state_bytes() + c.tail_bytes));
  c.next = file;
  return {};
}

/// Gives the room back to whoever the disk is too small for.
void swapper::drop_next() {
  static_cast<void>(io_->change([this](io::disk& d) -> status {
    for (auto& c : chunks_)
      if (const auto next = std::exchange(c.next, io::file_id::none); next != io::file_id::none)
        d.close(next);
    return d.remove_folder(options_.folder / next_folder, {io::folder_kind::scratch, {}, {}});
  }));
}

result<cp::chunk_shard> swapper::keep_chunk(int chunk, const keep_order& order) {
  auto& c = at(chunk);
  const auto& info = store_.info(chunk);
  const auto planned = saved_chunks({&info, 1}).at(0);
  auto footer = io::chunk_footer(c.layout, planned, store_.slice(chunk).first, order.head,
                                 order.rank, c.sums);
  TROUPE_TRY(tail, cp::encode_tail(footer));
  assert(tail.bytes.size() == c.tail_bytes && tail.offset == c.layout.state_bytes());
  TROUPE_TRY(made, io::io_buffer::make(tail.bytes.size()));
  auto memory = std::make_shared<io::io_buffer>(std::move(made));
  std::memcpy(memory->bytes().data(), tail.bytes.data(), tail.bytes.size());
  const range end{c.file, tail.offset, memory->bytes()};
  TROUPE_CHECK(io_->write({&end, 1}, memory));
  TROUPE_CHECK(io_->sync(c.file));  // SWP-7
  const auto name = order.partial / cp::shard_name(order.rank, static_cast<uint32_t>(chunk));
  TROUPE_CHECK(io_->change([&](io::disk& d) { return d.link(c.name, name); }));
  return cp::chunk_shard{static_cast<uint32_t>(chunk),
                         tail.file_bytes,
                         footer.stream_bytes,
                         footer.slot_bytes,
                         tail.footer_crc,
                         tail.slot_digest,
                         std::move(footer.pieces)};
}

/// Copies a chunk's state out of the file that a checkpoint has.
status swapper::own_again(int chunk) {
  auto& c = at(chunk);
  TROUPE_CHECK(make_next(c));
  const io::memory_holder holder("state for a checkpoint");
  TROUPE_TRY(made, io::io_buffer::make(c.layout.group_bytes()));
  auto memory = std::make_shared<io::io_buffer>(std::move(made));
  for (int g = 0; g < c.layout.groups(); ++g) {
    range one{c.file, c.layout.group_offset(g), memory->bytes()};
    const auto sound = [&]() -> status {
      for (size_t p = 0; p < io::state_parts; ++p)
        TROUPE_CHECK(check(c, chunk, g, "state",
                           one.memory.subspan(p * c.layout.array_bytes(), c.layout.array_bytes()),
                           c.layout.array_bytes(), c.sums[static_cast<size_t>(g)][p]));
      return {};
    };
    TROUPE_CHECK(read_checked({&one, 1}, memory, sound));
    one.file = c.next;
    TROUPE_CHECK(io_->write({&one, 1}, memory));
  }
  return take_over(c);
}

/// The next file becomes the chunk's.
status swapper::take_over(chunk_state& c) {
  const auto old = std::exchange(c.file, std::exchange(c.next, io::file_id::none));
  c.kept = false;
  return io_->change([&c, old](io::disk& d) {
    d.close(old);
    return d.rename(c.next_name, c.name);
  });
}

}  // namespace troupe::gpu

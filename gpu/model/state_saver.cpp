// From the store's chunks to slots, on a stream of its own.
#include "gpu/model/state_saver.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "gpu/model/saved_state.hpp"
#include "io/disk/calibrate.hpp"

namespace troupe::gpu {

namespace cp = io::checkpoint;

namespace {

using clock = std::chrono::steady_clock;

/// Slots with the disk at once: 64 MiB on their way keep it busy while the flusher sums the next.
/// With 32 a checkpoint was durable 5 to 20 % later.
constexpr size_t disk_depth = 16;

/// So often a copy that waits for a slot looks whether the saver ends.
constexpr std::chrono::milliseconds look_again{100};

/// Slots for two shares, so that one can be captured while the other is flushed, as far as the
/// limit allows.
int slots_for(uint64_t share_bytes, const saver_options& o) {
  const uint64_t wanted = 2 * std::max<uint64_t>(1, cp::slot_count(share_bytes, o.slot_bytes));
  const uint64_t most = std::max<uint64_t>(2, o.ring_bytes / o.slot_bytes);
  return static_cast<int>(std::min({wanted, most, uint64_t{65536}}));
}

}  // namespace

/// One save's way through the plan; used by the snapshot stream, in order.
struct state_saver::capture {
  const share* of = nullptr;
  std::shared_ptr<const share> rest;  ///< keeps that of a checkpoint that takes files
  uint64_t save = 0;  ///< the flusher's number
  size_t fill = 0, copy = 0;
  io::slot lease;
  bool given_up = false;
  bool to_disk = true;
  bool by_slots = true;  ///< bytes go through the ring
  std::shared_ptr<cp::memory_copy> into;

  std::byte* place(uint64_t offset) {
    return (by_slots ? lease.bytes() : into->slot(fill)).data() + offset;
  }
};

result<std::unique_ptr<state_saver>> state_saver::make(parameter_store& store,
                                                       saver_options options) {
  std::unique_ptr<state_saver> out(new state_saver(store, std::move(options)));
  TROUPE_CHECK(out->prepare());
  return out;
}

/// Of all chunks but those.
result<state_saver::share> state_saver::plan_share(const std::vector<bool>& taken) const {
  std::vector<chunk_info> chunks;
  for (int c = 0; c < store_.chunk_count(); ++c) chunks.push_back(store_.info(c));
  const auto& replica = store_.options().replica;
  assert(options_.at.grid.data == replica.ranks);
  auto stage = saved_chunks(chunks, replica.ranks);
  for (size_t c = 0; c < taken.size(); ++c)
    if (taken[c]) stage[c].parts.clear();
  TROUPE_TRY(plans, cp::plan_save(std::span(&stage, 1), {replica.ranks}));
  share out;
  out.plan = std::move(plans.at(static_cast<size_t>(replica.rank)));
  out.plan.rank = static_cast<uint32_t>(options_.at.rank);
  out.copies = cp::plan_capture(out.plan, options_.slot_bytes);
  return out;
}

status state_saver::prepare() {
  TROUPE_TRY(all, plan_share({}));
  all_ = std::move(all);
  copy_bytes_ = all_.plan.stream_bytes;
  for (int c = 0; c < store_.chunk_count(); ++c) {
    if (!store_.info(c).tied_copy) continue;
    const auto bytes = static_cast<uint64_t>(store_.slice(c).part) * sizeof(float);
    for (const auto which : {part::master, part::m, part::v}) {
      tied_.push_back({c, which, copy_bytes_, bytes});
      copy_bytes_ += bytes;
    }
  }
  TROUPE_TRY(ring, make_ring());
  ring_ = std::move(ring);
  io::disk_options by_default;
  by_default.ring = ring_;
  by_default.depth = disk_depth;
  if (const auto kept = io::kept_calibration(options_.folder, {}))
    by_default.depth = 2 * kept->best.depth;  // as many again: the flusher sums while they run
  TROUPE_TRY(disk, options_.open_disk ? options_.open_disk(ring_) : io::open_disk(by_default));
  TROUPE_TRY(made, store_.owner().make_stream({"snapshot", 1}));
  if (!store_.owner().host_accessible()) {
    TROUPE_TRY(out, store_.owner().make_stream({"copy-out", 1}));
    copy_out_ = std::move(out);
  }
  flusher_ = std::make_unique<cp::flusher>(std::move(disk), options_.progressed);
  stream_ = std::move(made);
  return {};
}

result<std::shared_ptr<io::slots>> state_saver::make_ring() {
  io::slots_options o{options_.slot_bytes, slots_for(all_.plan.stream_bytes, options_)};
  auto guard = std::make_shared<std::shared_ptr<void>>();
  o.pin = [&owner = store_.owner(), guard](std::span<std::byte> arena) -> status {
    TROUPE_TRY(pinned, owner.pin(arena.data(), arena.size()));
    *guard = std::move(pinned);
    return {};
  };
  o.unpin = [guard](std::span<std::byte>) { guard->reset(); };
  return io::slots::make(o);
}

state_saver::~state_saver() {
  ending_ = true;
}

cp::manifest_head state_saver::head_of(uint64_t step) const {
  cp::manifest_head h;
  h.job = options_.job;
  h.epoch = options_.epoch;
  h.step = step;
  h.layout = options_.at.grid;
  h.slot_bytes = options_.slot_bytes;
  return h;
}

void state_saver::save(uint64_t step, const std::filesystem::path& partial, event_ptr after,
                       completion done) {
  copy(step, {}, partial, std::move(after), std::move(done));
}

/// Once for checkpoints that take the same files: which, changes seldom.
status state_saver::plan_rest(std::vector<bool> taken) {
  if (rest_ && rest_taken_ == taken) return {};
  TROUPE_TRY(planned, plan_share(taken));
  rest_ = std::make_shared<const share>(std::move(planned));
  rest_taken_ = std::move(taken);
  return {};
}

void state_saver::save_rest(uint64_t step, const std::filesystem::path& partial,
                            std::vector<bool> taken, event_ptr after, completion done) {
  if (const auto planned = plan_rest(std::move(taken)); !planned)
    return stream_->notify([done = std::move(done), why = planned.error()](const status&) {
      done(why);  // SS-3
    });
  auto c = std::make_shared<capture>();
  c->rest = rest_;
  c->of = rest_.get();
  c->save = flusher_->begin(partial, head_of(step), rest_->plan, std::move(done));
  begin(std::move(c), std::move(after));
}

event_ptr state_saver::copy(uint64_t step, std::shared_ptr<cp::memory_copy> into,
                            const std::filesystem::path& partial, event_ptr after,
                            completion done) {
  auto c = std::make_shared<capture>();
  c->of = &all_;
  c->into = std::move(into);
  c->to_disk = !partial.empty();
  c->by_slots = c->to_disk || copy_out_ != nullptr;
  if (c->to_disk) c->save = flusher_->begin(partial, head_of(step), all_.plan, std::move(done));
  return begin(std::move(c), std::move(after));
}

event_ptr state_saver::begin(std::shared_ptr<capture> c, event_ptr after) {
  const auto& copies = c->of->copies.copies;
  stream_->wait(std::move(after));
  for (size_t i = 0; i < copies.size(); ++i)  // also of a save beside links: its chunks are on disk
    if (i == 0 || copies[i].chunk != copies[i - 1].chunk)
      store_.await_state(*stream_, static_cast<int>(copies[i].chunk));
  for (size_t i = 0; i < copies.size();) {
    const auto chunk = copies[i].chunk;
    uint64_t bytes = 0;
    for (; i < copies.size() && copies[i].chunk == chunk; ++i) bytes += copies[i].bytes;
    auto enqueue = [&] {
      stream_->host_task([this, c, chunk]() -> status {
        copy_chunk(*c, chunk);
        return {};  // SS-4
      });
    };
    if (options_.around)
      options_.around(*stream_, static_cast<int>(chunk), bytes, enqueue);
    else
      enqueue();
    store_.add_reader(static_cast<int>(chunk), stream_->record());  // SS-1
  }
  if (!c->into) return stream_->record();
  stream_->host_task([this, c]() -> status {
    copy_tied(*c);
    c->into->filled = !c->given_up && c->fill == c->of->copies.fills.size();
    return {};
  });
  auto copied = stream_->record();
  for (const auto& t : tied_) store_.add_reader(t.chunk, copied);  // SS-1
  return copied;
}

void state_saver::copy_tied(capture& c) {
  if (c.given_up) return;
  for (const auto& t : tied_) {
    auto* to = c.into->bytes().data() + t.first;
    if (copy_out_)
      copy_out_->copy(to, store_.data(t.chunk, t.which), t.bytes);
    else
      std::memcpy(to, store_.data(t.chunk, t.which), t.bytes);
  }
  land(c);
}

void state_saver::copy_chunk(capture& c, uint32_t chunk) {
  const auto& all = c.of->copies.copies;
  for (; c.copy < all.size() && all[c.copy].chunk == chunk; ++c.copy) {
    if (c.given_up || (c.by_slots && !c.lease && !take_slot(c))) continue;
    copy_piece(c, all[c.copy]);
    if (c.copy + 1 < c.of->copies.fills[c.fill].copies_end || !land(c)) continue;
    hand_over(c);
  }
  land(c);  // SS-1: what is left of the chunk is out before its event completes
}

/// A slot is filled.
void state_saver::hand_over(capture& c) {
  if (c.into && c.lease)
    std::memcpy(c.into->slot(c.fill).data(), c.lease.bytes().data(),
                c.of->copies.fills[c.fill].bytes);
  if (c.to_disk)
    flusher_->filled(c.save, std::move(c.lease), c.fill);
  else
    c.lease = {};
  ++c.fill;
}

/// Where a piece lies in the store.
std::byte* state_saver::place_of(const cp::capture_copy& piece) const {
  const int chunk = static_cast<int>(piece.chunk);
  auto* slice = static_cast<std::byte*>(store_.data(chunk, store_part(piece.which)));
  const auto slice_byte = static_cast<uint64_t>(store_.slice(chunk).first) * sizeof(float);
  return slice + (piece.chunk_byte - slice_byte);
}

void state_saver::copy_piece(capture& c, const cp::capture_copy& piece) {
  auto* to = c.place(piece.slot_offset);
  if (store_.state_on_disk(static_cast<int>(piece.chunk)))
    copy_from_disk(c, piece, to);
  else if (copy_out_)
    copy_out_->copy(to, place_of(piece), piece.bytes);
  else
    std::memcpy(to, place_of(piece), piece.bytes);
  captured_bytes_ += piece.bytes;
}

/// What is on disk is read back; the chunk's next update waits with its writes meanwhile (PS-5).
void state_saver::copy_from_disk(capture& c, const cp::capture_copy& piece, std::byte* to) {
  const auto chunk = static_cast<int>(piece.chunk);
  const auto first = static_cast<int64_t>(piece.chunk_byte / sizeof(float));
  const auto count = static_cast<int64_t>(piece.bytes / sizeof(float));
  auto read =
      store_.read_from_disk(chunk, store_part(piece.which), first - store_.slice(chunk).first,
                            count, reinterpret_cast<float*>(to));
  if (!read) give_up(c, read.error().within("reading the state from the swap folder"));
}

/// SS-4.
void state_saver::give_up(capture& c, const error& why) {
  c.given_up = true;
  c.lease = {};
  if (c.to_disk) flusher_->give_up(c.save, why);
}

/// Waits until the pieces copied so far are in their slots. False: the save is given up.
bool state_saver::land(capture& c) {
  if (!copy_out_ || c.given_up) return !c.given_up;
  auto arrived = copy_out_->synchronize();
  if (arrived) return true;
  give_up(c, arrived.error().within("copying the state off the device"));
  return false;
}

/// False: the save is given up (SS-2).
bool state_saver::take_slot(capture& c) {
  const auto began = clock::now();
  while (!ending_ && clock::now() - began < options_.patience) {
    auto free = ring_->take(look_again);
    if (!free) continue;
    c.lease = std::move(*free);
    ring_wait_ns_ += std::chrono::nanoseconds(clock::now() - began).count();
    return true;
  }
  give_up(c, ending_ ? error{errc::cancelled, "the rank ends"}
                     : error{errc::timeout,
                             fmt::format("no slot of the checkpoint ring came free in {} s",
                                         options_.patience.count() / 1000),
                             "the disk is stuck or far too slow: look at it, or save less often"});
  return false;
}

cp::copy_shape state_saver::shape() const {
  return {options_.at.grid, options_.slot_bytes, copy_bytes_};
}

status state_saver::put_back(const cp::memory_copy& from, const std::stop_token& ending) {
  constexpr uint32_t slots_at_once = 16;
  if (from.shape() != shape()) return error{errc::unavailable, "a copy of another layout"};
  TROUPE_TRY(loading, store_.owner().make_stream({.name = "load"}));
  for (int c = 0; c < store_.chunk_count(); ++c) store_.await_readers(*loading, c);  // PS-5
  for (uint32_t i = 0; i < all_.copies.fills.size(); ++i) {
    if (ending.stop_requested()) return error{errc::cancelled, "the rank ends"};
    TROUPE_CHECK(from.check(i));
    const auto& fill = all_.copies.fills[i];
    for (auto c = fill.copies_begin; c < fill.copies_end; ++c) {
      const auto& piece = all_.copies.copies[c];
      loading->copy(place_of(piece), from.slot(i).data() + piece.slot_offset, piece.bytes);
    }
    if (i % slots_at_once == slots_at_once - 1) TROUPE_CHECK(loading->synchronize());
  }
  for (uint64_t i = all_.copies.fills.size(); i < from.shape().slots(); ++i)
    TROUPE_CHECK(from.check(i));  // those of tied tables alone
  for (const auto& t : tied_)
    loading->copy(store_.data(t.chunk, t.which), from.bytes().data() + t.first, t.bytes);
  for (int c = 0; c < store_.chunk_count(); ++c)
    store_.publish_weights(*loading, c, static_cast<int64_t>(from.tag().step));
  return loading->synchronize();
}

saver_facts state_saver::facts() const {
  saver_facts f;
  f.flusher = flusher_->facts();
  f.ring = ring_->counts();
  f.slot_bytes = ring_->slot_bytes();
  f.share_bytes = all_.plan.stream_bytes;
  f.captured_bytes = captured_bytes_;
  f.ring_wait_ms = static_cast<double>(ring_wait_ns_) / 1e6;
  return f;
}

}  // namespace troupe::gpu

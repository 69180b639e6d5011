// Which stream waits for what: see swapper.hpp for the invariants kept here.
#include "gpu/swap/swapper.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "gpu/model/saved_state.hpp"
#include "io/base/memory_account.hpp"
#include "io/file.hpp"

namespace troupe::gpu {

namespace {

namespace fs = std::filesystem;
using io::state_part;
using range = io::swap_io::range;

state_part state_part_of(part which) {
  assert(which == part::master || which == part::m || which == part::v);
  return which == part::master ? state_part::master
         : which == part::m    ? state_part::exp_avg
                               : state_part::exp_avg_sq;
}

}  // namespace

// -- making one -----------------------------------------------------------------------------------

swapper::swapper(parameter_store& store, const residency& where, swap_options options)
    : store_(store),
      where_(where),
      options_(std::move(options)),
      work_("the swap folder", [this](const status& s) {
        {
          std::lock_guard lock(files_mutex_);
          moved_.notify_all();
        }
        if (options_.failed) options_.failed(s);
      }) {}

result<std::unique_ptr<swapper>> swapper::make(parameter_store& store, const residency& where,
                                               swap_options options) {
  assert(where.any_on_disk() && where.groups_in_memory > 0);
  std::unique_ptr<swapper> out(new swapper(store, where, std::move(options)));
  TROUPE_TRY(made, io::swap_io::make(out->options_.io));
  out->io_ = std::move(made);
  std::vector<std::filesystem::path> folders;
  for (const auto& place : out->options_.places) folders.push_back(place.folder);
  out->retry_.emplace(out->io_, std::move(folders), out->wait_for_room());
  TROUPE_CHECK(out->make_files());
  out->make_order();
  TROUPE_CHECK(out->make_slots());
  TROUPE_CHECK(out->make_gradients());
  TROUPE_CHECK(out->make_streams());
  return out;
}

swapper::~swapper() = default;

status swapper::make_files() {
  for (int c = 0; c < store_.chunk_count(); ++c) {
    auto& state = chunks_.emplace_back();
    if (!on_disk(c)) continue;
    state.layout = swap_layout(store_.slice(c), where_, store_.options().compute);
    TROUPE_CHECK(make_file(c));
    // Room that is reserved reads as zeros: what moments are before the first update.
    const auto sum = array_sum({}, state.layout.array_bytes());
    for (int g = 0; g < state.layout.groups(); ++g) {
      state.sums.state.push_back({sum, sum, sum});
      int64_t skipped = 0;
      state.spans.push_back(
          spans_within(store_.spans(c), state.layout.first(g), state.layout.count(g), skipped));
    }
    state.sums.weights.resize(static_cast<size_t>(state.layout.groups()));
    state.next_sums = state.sums;
  }
  return {};
}

void swapper::make_order() {
  std::vector<chunk_place> places;
  for (int c = 0; c < store_.chunk_count(); ++c) {
    const auto home = where_.of(c);
    places.push_back({on_disk(c), home.weight_frame, home.grad_frame, at(c).layout.groups(),
                      where_.gradient_on_disk(c)});
  }
  assert(store_.options().replica.ranks == 1 || (options_.gathering && options_.gather));
  order_.emplace(std::move(places), where_.groups_in_memory, store_.options().replica.ranks > 1);
  using kind = chunk_point::kind;
  const auto make = [&](kind what, int count) {
    events_[static_cast<size_t>(what)].resize(static_cast<size_t>(count));
  };
  for (const auto one : {kind::computed, kind::weights_read}) make(one, 1);
  for (const auto of_frame : {kind::slice_read, kind::weights_ready, kind::weights_free,
                              kind::summed, kind::gradient_free, kind::gradient_read})
    make(of_frame, order_->frames(of_frame));
  for (const auto of_slot : {kind::group_read, kind::group_updated, kind::slot_free})
    make(of_slot, order_->slots());
  for (const auto of_chunk : {kind::arrived, kind::written, kind::measured, kind::rows_ready,
                              kind::norms_known, kind::gradient_written})
    make(of_chunk, order_->chunks());
}

status swapper::make_file(int chunk) {
  auto& c = at(chunk);
  const auto place = place_of_chunk(chunk, options_.places.size());
  c.links = options_.places[place].links;
  if (is_kept(chunk)) {
    const auto& info = store_.info(chunk);
    const auto planned = saved_chunks({&info, 1}).at(0);
    TROUPE_TRY(tail,
               io::chunk_tail_bytes(c.layout, planned, store_.slice(chunk).first, options_.job));
    c.tail_bytes = tail;
  }
  const auto name = fmt::format("chunk-{:04}", chunk);
  c.state = {root(place) / name, io::file_id::none, place};
  c.next = {root(place) / next_folder / name, io::file_id::none, place};
  c.spare = {root(place) / spare_folder / name, io::file_id::none, place};
  if (!options_.files_later) TROUPE_CHECK(make_version(c, c.state));
  if (where_.speculates) TROUPE_CHECK(make_version(c, c.next));
  if (!c.layout.has_weights()) return {};
  const auto make = [&](named_file& f, const char* kind) -> status {
    f.name = root(place) / fmt::format("{}-{:04}", kind, chunk);
    f.place = place;
    TROUPE_TRY(made, io_->create(f.name, c.layout.all_weights_bytes()));
    f.id = made;
    return {};
  };
  TROUPE_CHECK(make(c.weights, "weights"));
  return where_.speculates ? make(c.next_weights, "next-weights") : status{};
}

status swapper::make_slots() {
  uint64_t bytes = 0, weights = 0, masters = 0;
  for (int c = 0; c < store_.chunk_count(); ++c) {
    if (!on_disk(c)) continue;
    bytes = std::max(bytes, swap_slot_bytes(at(c).layout, where_, c));
    masters = std::max(masters, masters_slot_bytes(at(c).layout, where_, c));
    if (where_.brings_weights(c) && !at(c).layout.derives_weights())
      weights = std::max<uint64_t>(weights, frame_size(slice_bytes(c)));
  }
  for (int i = 0; i < where_.groups_in_memory; ++i) {
    TROUPE_TRY(made, make_slot(bytes, false));
    slots_.push_back(std::move(made));
  }
  for (int i = 0; masters > 0 && i < masters_slots; ++i) {
    TROUPE_TRY(made, make_slot(masters, false));
    masters_.push_back(std::move(made));
  }
  if (store_.owner().host_accessible() || weights == 0) return {};
  TROUPE_TRY(made, make_slot(weights, true));
  weight_twin_ = std::move(made);
  return {};
}

/// `twin`: of memory that the device has already.
result<swapper::slot> swapper::make_slot(uint64_t bytes, bool twin) const {
  const io::memory_holder holder("state on its way");
  slot s;
  TROUPE_TRY(memory, make_disk_memory(store_.owner(), bytes));
  s.host = memory.bytes.data();
  s.owner = std::move(memory.owner);
  s.pinned = std::move(memory.pinned);
  if (twin || store_.owner().host_accessible()) return s;
  TROUPE_TRY(on_device, store_.owner().allocate(bytes));
  s.on_device = std::move(on_device);
  return s;
}

status swapper::make_streams() {
  const auto open = [&](std::unique_ptr<stream>& into, const char* name) -> status {
    TROUPE_TRY(made, store_.owner().make_stream({name, 1}));
    into = std::move(made);
    return {};
  };
  TROUPE_CHECK(open(weights_ahead_, "weights-ahead"));
  TROUPE_CHECK(open(weights_in_, "weights-in"));
  TROUPE_CHECK(open(state_ahead_, "state-ahead"));
  TROUPE_CHECK(open(state_in_, "state-in"));
  TROUPE_CHECK(open(rows_in_, "rows-in"));
  TROUPE_CHECK(open(update_, "update"));
  TROUPE_CHECK(open(sums_, "state-sums"));
  TROUPE_CHECK(open(state_out_, "state-out"));
  TROUPE_CHECK(open(gradients_in_, "gradients-in"));
  TROUPE_CHECK(open(gradients_out_, "gradients-out"));
  return open(load_, "swap-load");
}

// -- what streams do ------------------------------------------------------------------------------

event_ptr& swapper::event(const chunk_point& p) {
  auto& all = events_[static_cast<size_t>(p.what)];
  assert(static_cast<size_t>(p.index) < all.size());
  return all[static_cast<size_t>(p.index)];
}

stream& swapper::lane(chunk_lane on, stream* compute) {
  switch (on) {
    case chunk_lane::weights_in:
      return *weights_in_;
    case chunk_lane::state_in:
      return *state_in_;
    case chunk_lane::rows_in:
      return *rows_in_;
    case chunk_lane::update:
      return *update_;
    case chunk_lane::state_out:
      return *state_out_;
    case chunk_lane::gather:
      return *options_.gathering;
    case chunk_lane::gradients_in:
      return *gradients_in_;
    case chunk_lane::gradients_out:
      return *gradients_out_;
    default:
      return *compute;
  }
}

/// Enqueues an operation, of which `work` is what the policy knows nothing of.
void swapper::carry_out(const chunk_op& op, stream* compute,
                        const std::function<void(stream&)>& work) {
  auto& s = lane(op.on, compute);
  auto& first = ahead_of(op, s);
  for (const auto& point : op.behind)
    if (point) first.wait(event(*point));
  if (op.behind_readers >= 0) store_.await_readers(first, op.behind_readers);
  if (op.behind_readers == chunk_op::every_chunk)
    for (int c = 0; c < store_.chunk_count(); ++c)
      if (on_disk(c)) store_.await_readers(first, c);
  if (&first != &s) {
    begin(first, op);
    s.wait(first.record());
  }
  if (work) work(s);
  if (!op.marks) return;
  const auto marked = s.record();
  if (op.marks->index == chunk_point::all)
    for (auto& e : events_[static_cast<size_t>(op.marks->what)]) e = marked;
  else
    event(*op.marks) = marked;
  if (op.marks->what == chunk_point::kind::arrived) store_.weights_arrive(op.marks->index, marked);
}

swapper::arrays swapper::in_slot(const slot& s, const chunk_state& c, bool on_host) const {
  auto* base = on_host || s.on_device.data() == nullptr ? s.host : s.on_device.as<std::byte>();
  return {base, c.layout.array_bytes()};
}

void swapper::enqueue(stream& s, swap_op kind, int chunk, uint64_t bytes,
                      const std::function<void()>& work) {
  if (options_.around)
    options_.around(s, kind, chunk, bytes, work);
  else
    work();
  work_.watch(s);  // before any event behind it
}

void swapper::fetch_weights(stream& s, int chunk) {
  finish_update(chunk);
  come(order_->fetch_weights(chunk), &s);
}

void swapper::bring_weights(int chunk) {
  come(order_->bring_weights(chunk));
}

/// What brings weights, and what makes `compute` wait for them: for the drive's slice, then, as for
/// weights in memory, for what others send.
void swapper::come(const chunk_policy::ops& ops, stream* compute) {
  for (const auto& op : ops) {
    if (op.what == chunk_act::read_weights)
      bring(op);
    else if (op.what == chunk_act::gather_weights)
      carry_out(op, nullptr, [&](stream&) { options_.gather(op.chunk); });
    else
      await(*compute, op.chunk, op);
  }
}

/// What an operation of the compute lane is behind, told where it is not there yet: as a wait for
/// others, or for the drive.
void swapper::await(stream& s, int chunk, const chunk_op& op) {
  const auto& point = *op.behind[0];
  const auto& there = event(point);
  if (!there || there->done()) return;
  if (options_.gathering != nullptr && is_of_others(point.what))
    return store_.await_others(s, there);
  const auto wait = [&] { carry_out(op, &s); };
  options_.around_wait ? options_.around_wait(s, chunk, wait) : wait();
}

void swapper::bring(const chunk_op& op) {
  carry_out(op, nullptr, [&](stream& s) {
    enqueue(s, swap_op::read_weights, op.chunk, weights_read_bytes(at(op.chunk).layout),
            [&] { read_into_memory(op.chunk); });
  });
}

size_t swapper::slice_bytes(int chunk) const {
  return static_cast<size_t>(store_.slice(chunk).part) * size_of(store_.options().compute);
}

void swapper::release_weights(stream& s, int chunk) {
  for (const auto& op : order_->release_weights(chunk)) carry_out(op, &s);
}

/// Of replicas every wait is told, since that of one for another is no computing of it; and so is
/// that for a drive which has the gradient, or was to take another out of the frame.
void swapper::fetch_gradient(stream& s, int chunk) {
  finish_update(chunk);
  const bool tells = options_.gathering != nullptr || where_.gradient_on_disk(chunk);
  for (const auto& op : order_->fetch_gradient(chunk)) {
    if (op.what == chunk_act::read_gradient)
      carry_out(op, &s, [&](stream& in) { use_gradient(in, op); });
    else
      tells ? await(s, op.chunk, op) : carry_out(op, &s);
  }
}

void swapper::await_state(stream& s, int chunk) {
  finish_update(chunk);
  for (const auto& op : order_->await_state(chunk)) carry_out(op, &s);
}

void swapper::drop_gradient(stream& compute, int chunk) {
  finish_update(chunk);
  for (const auto& op : order_->drop_gradient(chunk))
    carry_out(op, &compute,
              [&](stream& s) { s.zero(store_.grad(chunk), store_.bytes(chunk, part::grad)); });
}

void swapper::sum_gradient(stream& compute, int chunk, const std::function<void()>& sum) {
  for (const auto& op : order_->sum_gradient(chunk))
    carry_out(op, &compute, [&](stream&) {
      if (op.what == chunk_act::sum_gradient) sum();
    });
}

void swapper::measure(stream& compute, optimizer& rule, int chunk, float lr, int64_t step) {
  assert(rule.settings().norm_elements == where_.group_elements);
  finish_update();
  const update_call how{&rule, lr, step};
  for (const auto& op : order_->measure(chunk)) {
    const bool waits = op.behind[0] && op.behind[0]->what == chunk_point::kind::measured;
    if (waits)  // for the reading of all of the state, which is no computing
      await(compute, chunk, op);
    else
      carry_out(op, &compute, [&](stream& s) { use_group(s, op, how); });
  }
}

void swapper::share_norms(stream& compute, optimizer& rule, int chunk, float lr, int64_t step,
                          const std::function<void()>& gather, counts when) {
  assert(rule.settings().norm_elements == where_.group_elements);
  finish_update();
  const update_call how{&rule, lr, step};
  for (const auto& op : order_->share_norms(chunk, when))
    carry_out(op, &compute, [&](stream& s) {
      if (op.what == chunk_act::gather_norms)
        gather();
      else
        use_group(s, op, how);
    });
}

void swapper::settle(stream& compute, std::function<bool()> hold) {
  finish_update();
  for (auto& c : chunks_) c.rounded.settle();
  for (const auto& op : order_->settle())
    carry_out(op, &compute, [&](stream& s) {
      if (op.what != chunk_act::settle) return;
      work_.enqueue(s, [this, hold] { return hold() ? take_updates() : status{}; });
      work_.watch(s);
    });
}

void swapper::were_dropped() {
  for (auto& c : chunks_) c.rounded.dropped();
  for (const auto& op : order_->dropped()) {
    bring(op);
    store_.weights_changed(op.chunk);
  }
}

optimizer::piece swapper::piece_of(const chunk_op& op) {
  const int group = op.group;
  const auto& c = at(op.chunk);
  const auto memory = in_slot(slot_of(op), c, false);
  const bool separate = !c.layout.weights_are_masters();
  float* master = memory.state(state_part::master);
  optimizer::piece p;
  p.chunk = op.chunk;
  p.first = c.layout.first(group);
  p.count = c.layout.count(group);
  p.spans = &c.spans[static_cast<size_t>(group)];
  p.master = master;
  p.m = memory.state(state_part::exp_avg);
  p.v = memory.state(state_part::exp_avg_sq);
  p.weight = separate ? static_cast<void*>(memory.weights()) : master;
  if (op.passes > 0) p.grad = reinterpret_cast<float*>(memory.gradient(c.layout));
  p.clipped = op.when == counts::at_once;
  return p;
}

void swapper::write_group(const chunk_op& op) {
  work_.enqueue(*state_out_, [this, &s = slot_of(op), op] {
    return write_state(s, op.chunk, op.group, op.when);
  });
}

// -- on their threads -----------------------------------------------------------------------------

status swapper::write_state(const slot& s, int chunk, int group, counts when) {
  auto& c = at(chunk);
  const bool settled = when == counts::at_once;
  if (c.versions.kept() && !c.next.there()) TROUPE_CHECK(take_for_good());
  const auto memory = in_slot(s, c, true);
  auto& sums = settled ? c.sums : c.next_sums;
  sums.state[static_cast<size_t>(group)] = s.sums;
  const bool next = c.versions.target(when) == chunk_versions::file::next;  // SWP-7, SWP-9
  auto* into = next ? &c.next : &c.state;
  const auto groups = [&](bool in_place) { return in_place ? c.layout.groups() : group; };
  std::array<target, 2> both{
      target{chunk,
             into,
             contents::state,
             &sums,
             groups(into == &c.state),
             {into->id, c.layout.group_offset(group), {s.host, c.layout.group_bytes()}}},
      {}};
  const auto weights = c.layout.weights_array_bytes();
  if (weights > 0) {
    auto* begin = memory.weights();
    sums.weights[static_cast<size_t>(group)] = s.weights_sum;
    auto* file = settled ? &c.weights : &c.next_weights;
    both[1] = {chunk,
               file,
               contents::weights,
               &sums,
               groups(settled),
               {file->id, c.layout.weights_offset(group), {begin, weights}}};
  }
  if (settled) ++c.writes;
  TROUPE_CHECK(put(std::span(both).first(weights > 0 ? 2 : 1), s.owner));
  return c.versions.taken_over(when, group + 1 == c.layout.groups()) ? take_over(c) : status{};
}

/// SWP-9.
status swapper::take_updates() {
  for (auto& c : chunks_) {
    if (!c.state.there()) continue;
    if (c.versions.kept())
      TROUPE_CHECK(take_over(c));
    else
      std::swap(c.state, c.next);
    std::swap(c.weights, c.next_weights);
    std::swap(c.sums, c.next_sums);
    ++c.writes;
  }
  return {};
}

// -- blocking -------------------------------------------------------------------------------------

/// A slot that no stream uses.
swapper::slot& swapper::quiet_slot() {
  if (const auto& free = event({chunk_point::kind::slot_free, 0})) free->wait_on_host();
  return slots_.front();
}

/// The array that the quiet slot begins with.
status swapper::write_array(int chunk, int group, state_part which) {
  auto& c = at(chunk);
  auto& s = quiet_slot();
  const auto bytes = c.layout.array_bytes();
  c.sums.state[static_cast<size_t>(group)][static_cast<size_t>(which)] =
      io::crc32c({s.host, bytes});
  ++c.writes;
  const target one{
      chunk,   &c.state,          contents::state,
      &c.sums, c.layout.groups(), {c.state.id, c.layout.offset(group, which), {s.host, bytes}}};
  return put({&one, 1}, s.owner);
}

status swapper::zero_moments(int chunk) {
  const auto& c = at(chunk);
  if (!order_->moments_set(chunk)) return {};
  for (int g = 0; g < c.layout.groups(); ++g) {
    std::memset(quiet_slot().host, 0, c.layout.array_bytes());
    for (const auto which : {state_part::exp_avg, state_part::exp_avg_sq})
      TROUPE_CHECK(write_array(chunk, g, which));
  }
  return {};
}

void swapper::await_quiet(int chunk) {
  finish_update();
  if (const auto& written = event({chunk_point::kind::written, chunk})) written->wait_on_host();
  if (keeping_) keeping_->wait_on_host();
}

status swapper::write(int chunk, part which, const value_source& values) {
  auto& c = at(chunk);
  await_quiet(chunk);
  TROUPE_CHECK(make_version(c, c.state));
  if (c.versions.kept()) TROUPE_CHECK(own_again(chunk));  // SWP-7
  if (which != part::master) TROUPE_CHECK(zero_moments(chunk));
  if (which == part::master) {
    order_->masters_set(chunk);
    c.rounded = {};
  }
  const auto& slice = store_.slice(chunk);
  for (int g = 0; g < c.layout.groups(); ++g) {
    auto* into = reinterpret_cast<float*>(quiet_slot().host);
    const auto there = std::clamp<int64_t>(slice.count - c.layout.first(g), 0, c.layout.count(g));
    std::memset(into, 0, c.layout.array_bytes());  // the slice's own padding
    if (there > 0) TROUPE_CHECK(values(slice.first + c.layout.first(g), there, into));
    TROUPE_CHECK(write_array(chunk, g, state_part_of(which)));
    if (which == part::master) TROUPE_CHECK(publish_slot(chunk, g, 0));
  }
  return {};
}

status swapper::read(int chunk, part which, int64_t first, int64_t count, float* host) {
  auto& c = at(chunk);
  const auto wanted = state_part_of(which);
  std::lock_guard lock(kept_mutex_);
  auto& last = kept_[static_cast<size_t>(wanted)];
  while (count > 0) {
    const auto group = static_cast<int>(first / c.layout.group_elements());
    if (last.chunk != chunk || last.group != group || last.writes != c.writes) {
      last.chunk = -1;
      last.memory = nullptr;  // before the next one is there: both are not planned
      const auto bytes = c.layout.array_bytes();
      const io::memory_holder holder("state for a checkpoint");
      TROUPE_TRY(allocated, io::io_buffer::make(bytes));
      auto memory = std::make_shared<io::io_buffer>(std::move(allocated));
      const range one{c.state.id, c.layout.offset(group, wanted), {memory->bytes().data(), bytes}};
      const auto sum = c.sums.state[static_cast<size_t>(group)][static_cast<size_t>(wanted)];
      TROUPE_CHECK(read_checked({&one, 1}, memory, [&] {
        return check(c.state.name, chunk, group, name_of(wanted), one.memory, bytes, sum);
      }));
      last = {chunk, group, c.writes, std::move(memory)};
    }
    const int64_t within = first - c.layout.first(group);
    const int64_t some = std::min(count, c.layout.count(group) - within);
    std::memcpy(host, last.memory->bytes().data() + static_cast<size_t>(within) * sizeof(float),
                static_cast<size_t>(some) * sizeof(float));
    first += some, count -= some, host += some;
  }
  return {};
}

status swapper::publish(int chunk, int64_t after) {
  auto& c = at(chunk);
  await_quiet(chunk);
  c.rounded = {after};
  order_->masters_set(chunk);
  for (int g = 0; g < c.layout.groups(); ++g) TROUPE_CHECK(publish_group(chunk, g, after));
  return {};
}

status swapper::publish_group(int chunk, int group, int64_t after) {
  if (!at(chunk).layout.has_weights() && where_.of(chunk).weight_frame >= 0) return {};
  chunk_op master;
  master.chunk = chunk;
  master.group = group;
  master.moments_are_zero = true;
  TROUPE_CHECK(read_state(quiet_slot(), master, {}));
  return publish_slot(chunk, group, after);
}

/// Makes the weights of the masters in the quiet slot.
status swapper::publish_slot(int chunk, int group, int64_t after) {
  auto& c = at(chunk);
  const bool stored = c.layout.has_weights(), separate = !c.layout.weights_are_masters();
  const bool own = where_.of(chunk).weight_frame < 0;
  if (!stored && !own) return {};
  auto& s = quiet_slot();
  const auto bytes = c.layout.array_bytes();
  const auto memory = in_slot(s, c, false);
  const bool twin = s.on_device.data() != nullptr;
  if (twin) load_->copy(memory.base, s.host, bytes);
  const int64_t first = c.layout.first(group), count = c.layout.count(group);
  if (separate)
    store_.round_weights(*load_, chunk, memory.weights(), memory.state(state_part::master), first,
                         count, after);
  const auto size = size_of(store_.options().compute);
  if (own)
    load_->copy(
        static_cast<std::byte*>(store_.weight_slice(chunk)) + static_cast<size_t>(first) * size,
        separate ? memory.weights() : memory.base, static_cast<size_t>(count) * size);
  const auto weights = c.layout.weights_array_bytes();
  auto* on_host = in_slot(s, c, true).weights();
  if (twin && stored) load_->copy(on_host, memory.weights(), weights);
  TROUPE_CHECK(load_->synchronize());
  if (!stored) return {};
  const auto used = static_cast<size_t>(count) * 2;
  std::memset(on_host + used, 0, weights - used);
  c.sums.weights[static_cast<size_t>(group)] = io::crc32c({on_host, weights});
  const target one{chunk,
                   &c.weights,
                   contents::weights,
                   &c.sums,
                   group,  // all behind it are made, too
                   {c.weights.id, c.layout.weights_offset(group), {on_host, weights}}};
  return put({&one, 1}, s.owner);
}

}  // namespace troupe::gpu

// How bytes come from a drive, and are summed before they go to one: see swapper.hpp (SWP-15).
//
//   ahead   as soon as a slot or a frame is free and the bytes are those of the step, their read is
//           begun: while the one before it is still moved, or summed
//   in      in its turn it is waited for, summed, and read once more where the sum is wrong
//   masters of weights that are rounded from them: the first group's read is begun in its turn,
//           each other one's while the one before is summed and rounded (SWP-18)
//   sums    what an update has made of a group is summed while the group before it is written
//
// A drive that is asked for nothing while somebody sums has less to do than it could: reads and
// writes of 16 MiB that begin when the one before them is over move a fifth to a quarter less a
// second, both at once, than two of each in a row.
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "gpu/swap/swapper.hpp"

namespace troupe::gpu {

namespace {

namespace fs = std::filesystem;
using io::state_part;
using range = io::swap_io::range;

/// Lines of reads that are begun (SWI-6).
constexpr uint64_t state_line = 1, weights_line = 2;

size_t parts_there(bool moments_are_zero) {
  return moments_are_zero ? 1 : io::state_parts;
}

}  // namespace

/// The sum of an array of which `bytes` is the beginning and the rest zeros.
uint32_t swapper::array_sum(std::span<const std::byte> bytes, uint64_t array_bytes) {
  static constexpr std::array<std::byte, io::disk_block> zeros{};
  uint32_t sum = io::crc32c(bytes);
  for (uint64_t at = bytes.size(); at < array_bytes; at += zeros.size())
    sum =
        io::crc32c(std::span(zeros).first(std::min<uint64_t>(zeros.size(), array_bytes - at)), sum);
  return sum;
}

std::string_view swapper::name_of(state_part which) {
  return which == state_part::master    ? "master"
         : which == state_part::exp_avg ? "exp_avg"
                                        : "exp_avg_sq";
}

/// Whose stream an operation's waiting is on, and what of it needs no turn; else its own.
stream& swapper::ahead_of(const chunk_op& op, stream& own) {
  if (op.what == chunk_act::read_state) return *state_ahead_;
  if (op.what == chunk_act::write_state) return *sums_;
  // The one twin of all frames is free only behind its copy; masters' slots behind their rounding.
  if (op.what == chunk_act::read_weights && store_.owner().host_accessible() &&
      !at(op.chunk).layout.derives_weights())
    return *weights_ahead_;
  return own;
}

void swapper::begin(stream& s, const chunk_op& op) {
  if (op.what == chunk_act::write_state) return sum_group(s, op);
  begun_ = std::make_shared<begun_range>();
  work_.enqueue(s, [this, op, begun = begun_]() -> status {
    TROUPE_TRY(read, op.what == chunk_act::read_state ? begin_state(op) : begin_weights(op.chunk));
    *begun = std::move(read);
    return {};
  });
}

result<swapper::begun_range> swapper::begin_state(const chunk_op& op) {
  const auto& s = slot_of(op);
  begun_range out{{}, state_file_of(at(op.chunk))};
  TROUPE_TRY(all, group_ranges(s, op, out.file.id));
  TROUPE_TRY(read, io_->begin_read(all, s.owner, state_line));
  out.read = std::move(read);
  return out;
}

result<swapper::begun_range> swapper::begin_weights(int chunk) {
  begun_range out;
  const auto all = weight_ranges(chunk, static_cast<std::byte*>(store_.weight(chunk)));
  TROUPE_TRY(read, io_->begin_read(all, store_.memory_of(chunk, part::weight), weights_line));
  out.read = std::move(read);
  return out;
}

/// Padding is written as zeros.
void swapper::sum_group(stream& s, const chunk_op& op) {
  auto& slot = slots_[static_cast<size_t>(op.slot)];
  const auto& c = at(op.chunk);
  if (slot.on_device.data() != nullptr)
    s.copy(slot.host, slot.on_device.data(), swap_write_bytes(c.layout));
  work_.enqueue(s, [this, &slot, &c, op]() -> status {
    const auto used = static_cast<size_t>(c.layout.count(op.group));
    const auto memory = in_slot(slot, c, true);
    const auto sum = [](std::byte* begin, size_t there, size_t all) {
      std::memset(begin + there, 0, all - there);
      return io::crc32c({begin, all});
    };
    for (const auto which : all_parts)
      slot.sums[static_cast<size_t>(which)] = sum(reinterpret_cast<std::byte*>(memory.state(which)),
                                                  used * sizeof(float), memory.array_bytes);
    const auto weights = c.layout.weights_array_bytes();
    if (weights > 0) slot.weights_sum = sum(memory.weights(), used * 2, weights);
    return {};
  });
  work_.watch(s);
}

/// A slice into their frame, or their own memory: to the beginning, as a disk needs it, and from
/// there to its place.
void swapper::read_into_memory(int chunk) {
  if (at(chunk).layout.derives_weights()) return round_into_memory(chunk);
  auto* memory = static_cast<std::byte*>(store_.weight(chunk));
  const bool direct = store_.owner().host_accessible();
  auto* into = direct ? memory : weight_twin_.host;
  const auto owner = direct ? store_.memory_of(chunk, part::weight) : weight_twin_.owner;
  work_.enqueue(*weights_in_, [this, chunk, into, owner, begun = std::exchange(begun_, {})] {
    return read_weights(chunk, into, owner,
                        begun ? std::move(begun->read) : io::swap_io::begun_read{});
  });
  if (auto* slice = store_.weight_slice(chunk); slice != into)
    weights_in_->copy(slice, into, slice_bytes(chunk));
}

/// SWP-18. A slot's next read is behind the rounding of what it had.
void swapper::round_into_memory(int chunk) {
  const auto& c = at(chunk);
  auto begun = std::make_shared<std::array<io::swap_io::begun_read, masters_slots>>();
  const auto slot_at = [](int group) { return static_cast<size_t>(group % masters_slots); };
  const auto begin = [&](int group) {
    work_.enqueue(*weights_in_, [this, chunk, group, begun, at = slot_at(group)]() -> status {
      const auto one = masters_range(chunk, group);
      TROUPE_TRY(read, io_->begin_read({&one, 1}, masters_[at].owner, weights_line));
      (*begun)[at] = std::move(read);
      return {};
    });
  };
  begin(0);
  for (int g = 0; g < c.layout.groups(); ++g) {
    if (g + 1 < c.layout.groups()) begin(g + 1);
    work_.enqueue(*weights_in_, [this, chunk, g, begun, at = slot_at(g)] {
      return read_masters(chunk, g, std::exchange((*begun)[at], {}));
    });
    const auto& s = masters_[slot_at(g)];
    if (s.on_device.data() != nullptr)
      weights_in_->copy(s.on_device.data(), s.host, c.layout.used_bytes(g, sizeof(float)));
    const int64_t first = c.layout.first(g);
    store_.round_weights(*weights_in_, chunk, frame_at(chunk, first),
                         in_slot(s, c, false).state(state_part::master), first, c.layout.count(g),
                         c.rounded.after);
  }
}

void swapper::read_group(const chunk_op& op) {
  const auto& s = slot_of(op);
  work_.enqueue(*state_in_, [this, &s, op, begun = std::exchange(begun_, {})] {
    return read_state(s, op, begun ? std::move(*begun) : begun_range{});
  });
  if (s.on_device.data() == nullptr) return;
  const auto& layout = at(op.chunk).layout;
  state_in_->copy(s.on_device.data(), s.host, layout.group_bytes());
  if (op.passes == 0) return;
  const auto at_byte = swap_slot_bytes(layout);
  state_in_->copy(s.on_device.as<std::byte>() + at_byte, s.host + at_byte, layout.array_bytes());
}

// -- on their threads -----------------------------------------------------------------------------

/// SWP-5.
status swapper::check(const fs::path& file, int chunk, int group, std::string_view what,
                      std::span<const std::byte> bytes, uint64_t array_bytes, uint32_t sum) const {
  if (!options_.verify || array_sum(bytes, array_bytes) == sum) return {};
  return damaged(file, chunk, group, what);
}

error swapper::damaged(const fs::path& file, int chunk, int group, std::string_view what) const {
  const auto& layout = chunks_[static_cast<size_t>(chunk)].layout;
  const int64_t first = store_.slice(chunk).first + layout.first(group);
  std::string_view tensor;
  for (const auto& t : store_.info(chunk).tensors)
    if (tensor.empty() || t.offset <= first) tensor = t.name;
  return swap_damaged(file.string(), fmt::format("{} of {} and what follows it", what, tensor));
}

/// `begun`: the first try, if it was.
status swapper::read_checked(std::span<const range> what, const std::shared_ptr<void>& owner,
                             const std::function<status()>& check_all,
                             io::swap_io::begun_read begun) {
  TROUPE_CHECK(begun ? io_->finish(std::move(begun)) : io_->read(what, owner));
  if (check_all()) return {};
  TROUPE_CHECK(io_->read(what, owner));
  return check_all();
}

status swapper::read_state(const slot& s, const chunk_op& op, begun_range begun) {
  const auto& c = at(op.chunk);
  for (;;) {
    const auto file = begun.read ? begun.file : state_file_of(c);
    TROUPE_TRY(all, group_ranges(s, op, file.id));
    const auto read = read_checked(
        all, s.owner, [&] { return check_group(s, op, file.name); }, std::exchange(begun.read, {}));
    if (read) break;
    if (!await_moved(c, file.id)) return read;  // SWP-11
  }
  const auto parts = parts_there(op.moments_are_zero);
  const auto array_bytes = c.layout.array_bytes();
  std::memset(s.host + parts * array_bytes, 0, (io::state_parts - parts) * array_bytes);
  return {};
}

/// Of a group's state, and of its gradient where that comes from a file (SWP-17).
result<std::vector<range>> swapper::group_ranges(const slot& s, const chunk_op& op,
                                                 io::file_id file) {
  const auto& layout = at(op.chunk).layout;
  const auto bytes = parts_there(op.moments_are_zero) * layout.array_bytes();
  std::vector<range> out{{file, layout.group_offset(op.group), {s.host, bytes}}};
  if (op.passes == 0) return out;
  auto* into = in_slot(s, at(op.chunk), true).gradient(layout);
  TROUPE_TRY(gradient, gradients_->group(op.chunk, {op.passes, true}, op.group, into));
  out.push_back(gradient);
  return out;
}

status swapper::check_group(const slot& s, const chunk_op& op, const fs::path& file) {
  const auto& c = at(op.chunk);
  const auto memory = in_slot(s, c, true);
  for (size_t p = 0; p < parts_there(op.moments_are_zero); ++p) {
    const auto which = all_parts[p];
    TROUPE_CHECK(check(file, op.chunk, op.group, name_of(which),
                       {reinterpret_cast<std::byte*>(memory.state(which)), memory.array_bytes},
                       memory.array_bytes, c.sums.state[static_cast<size_t>(op.group)][p]));
  }
  if (op.passes == 0) return {};
  const auto bytes = gradients_->layout(op.chunk).group_bytes(op.group);
  return gradients_->check(op.chunk, op.group, {memory.gradient(c.layout), bytes});
}

/// All of a chunk's weights: in float32 training its masters.
std::vector<range> swapper::weight_ranges(int chunk, std::byte* into) {
  const auto& c = at(chunk);
  std::vector<range> all;
  const bool separate = c.layout.has_weights();
  const size_t size = separate ? 2 : sizeof(float);
  for (int g = 0; g < c.layout.groups(); ++g) {
    auto* begin = into + static_cast<size_t>(c.layout.first(g)) * size;
    const std::span memory(begin, c.layout.used_bytes(g, size));
    if (separate)
      all.push_back({c.weights.id, c.layout.weights_offset(g), memory});
    else
      all.push_back({c.state.id, c.layout.offset(g, state_part::master), memory});
  }
  return all;
}

io::swap_io::range swapper::masters_range(int chunk, int group) const {
  const auto& c = chunks_[static_cast<size_t>(chunk)];
  const auto& s = masters_[static_cast<size_t>(group % masters_slots)];
  return {c.state.id,
          c.layout.offset(group, state_part::master),
          {s.host, c.layout.used_bytes(group, sizeof(float))}};
}

status swapper::read_masters(int chunk, int group, io::swap_io::begun_read begun) {
  const auto& c = at(chunk);
  const auto one = masters_range(chunk, group);
  const auto sound = [&] {
    return check(c.state.name, chunk, group, name_of(state_part::master), one.memory,
                 c.layout.array_bytes(), c.sums.state[static_cast<size_t>(group)][0]);
  };
  const auto& s = masters_[static_cast<size_t>(group % masters_slots)];
  return read_checked({&one, 1}, s.owner, sound, std::move(begun));
}

status swapper::read_weights(int chunk, std::byte* into, const std::shared_ptr<void>& owner,
                             io::swap_io::begun_read begun) {
  const auto& c = at(chunk);
  const bool separate = c.layout.has_weights();
  const auto all = weight_ranges(chunk, into);
  const auto array_bytes = separate ? c.layout.weights_array_bytes() : c.layout.array_bytes();
  const auto check_all = [&]() -> status {
    for (size_t g = 0; g < all.size(); ++g)
      TROUPE_CHECK(check(separate ? c.weights.name : c.state.name, chunk, static_cast<int>(g),
                         separate ? "weight" : "master", all[g].memory, array_bytes,
                         separate ? c.sums.weights[g] : c.sums.state[g][0]));
    return {};
  };
  return read_checked(all, owner, check_all, std::move(begun));
}

}  // namespace troupe::gpu

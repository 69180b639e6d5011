// The arena and its free list: see slots.hpp.
#include "io/disk/slots.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "io/base/poison.hpp"

namespace troupe::io {

namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr int most_slots = 65536;

/// Writes a byte of every page: one call where the kernel has it (5.14), a loop elsewhere.
status touch(std::span<std::byte> arena) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(arena.data(), arena.size(), MADV_POPULATE_WRITE) == 0) return {};
  if (errno == ENOMEM)
    return error{errc::no_memory, fmt::format("no memory for {} bytes of slots", arena.size()),
                 "make checkpoint.ring_bytes smaller"};
#endif
  for (size_t at = 0; at < arena.size(); at += disk_block)
    *const_cast<volatile std::byte*>(&arena[at]) = std::byte{0};
  return {};
}

}  // namespace

void keep_forever(std::shared_ptr<void> what) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<void>>;  // not even freed at exit
  std::lock_guard lock(mutex);
  kept.push_back(std::move(what));
}

// -- slot ---------------------------------------------------------------------------------------

slot& slot::operator=(slot&& other) noexcept {
  if (this != &other) {
    give_back();
    ring_ = std::move(other.ring_);
    index_ = std::exchange(other.index_, -1);
  }
  return *this;
}

std::span<std::byte> slot::bytes() const {
  assert(index_ >= 0);
  return ring_->bytes_of(index_);
}

void slot::filled() {
  assert(index_ >= 0);
  ring_->step(index_, slot_state::filled);
}

void slot::writing() {
  assert(index_ >= 0);
  ring_->step(index_, slot_state::writing);
}

void slot::give_back() noexcept {
  if (index_ < 0) return;
  ring_->step(std::exchange(index_, -1), slot_state::free);
  ring_.reset();
}

void slot::abandon() noexcept {
  if (index_ < 0) return;
  ring_->abandon(std::exchange(index_, -1));
  ring_.reset();
}

// -- slots --------------------------------------------------------------------------------------

result<std::shared_ptr<slots>> slots::make(const slots_options& options) {
  const size_t most_bytes = size_t{1} << 30;  // of one registered buffer
  if (options.slot_bytes == 0 || options.slot_bytes % disk_block != 0 ||
      options.slot_bytes > most_bytes || options.count < 1 || options.count > most_slots)
    return error{
        errc::bad_config,
        fmt::format("{} slots of {} bytes are impossible", options.count, options.slot_bytes),
        "slots are multiples of 4096 bytes, at most 1 GiB; 1 to 65536 of them"};
  size_t bytes = options.slot_bytes * static_cast<size_t>(options.count);
  TROUPE_TRY(booked, process_memory().book("slots of checkpoints", bytes));
  size_t mapped = bytes + huge_page;  // so that the arena can begin at a huge page
  void* mapping =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    auto e = error::system(fmt::format("map {} bytes of slots", bytes), errno);
    e.hint = "make checkpoint.ring_bytes smaller";
    return e;
  }
  std::shared_ptr<slots> ring(new slots(options, mapping, mapped));
  ring->booking_ = std::move(booked);
  ::madvise(ring->arena_.data(), bytes, MADV_HUGEPAGE);  // advice: without it all works, slower
  TROUPE_CHECK(touch(ring->arena_));
  if (options.pin) TROUPE_CHECK(options.pin(ring->arena_));
  ring->unpin_ = options.unpin;  // only what was pinned is unpinned
  poison(ring->arena_.data(), bytes);
  return ring;
}

slots::slots(const slots_options& options, void* mapping, size_t mapped)
    : slot_bytes_(options.slot_bytes), mapping_(mapping), mapped_(mapped) {
  auto start = (reinterpret_cast<uintptr_t>(mapping) + huge_page - 1) / huge_page * huge_page;
  auto count = static_cast<size_t>(options.count);
  arena_ = {reinterpret_cast<std::byte*>(start), slot_bytes_ * count};
  states_.assign(count, slot_state::free);
  for (int i = options.count; i-- > 0;) free_.push_back(i);
  counts_.free = options.count;
}

slots::~slots() {
  assert(counts_.free == count());  // leases hold us: all are back
  unpoison(arena_.data(), arena_.size());
  if (unpin_) unpin_(arena_);
  ::munmap(mapping_, mapped_);
}

std::span<std::byte> slots::bytes_of(int index) const {
  return arena_.subspan(static_cast<size_t>(index) * slot_bytes_, slot_bytes_);  // SL-3
}

int& slots::counted(slot_state state) {
  switch (state) {
    case slot_state::free:
      return counts_.free;
    case slot_state::filling:
      return counts_.filling;
    case slot_state::filled:
      return counts_.filled;
    case slot_state::writing:
      return counts_.writing;
  }
  return counts_.free;
}

void slots::move_locked(int index, slot_state to) {
  auto& state = states_[static_cast<size_t>(index)];
  --counted(state);
  ++counted(to);
  state = to;
  assert(counts_.free >= 0 && counts_.filling >= 0 && counts_.filled >= 0 && counts_.writing >= 0);
  assert(counts_.free + counts_.filling + counts_.filled + counts_.writing == count());  // SL-2
  assert(counts_.free == static_cast<int>(free_.size()));
}

std::optional<slot> slots::take_locked() {
  if (free_.empty()) return std::nullopt;
  int index = free_.back();
  free_.pop_back();
  assert(states_[static_cast<size_t>(index)] == slot_state::free);  // SL-1
  move_locked(index, slot_state::filling);
  auto bytes = bytes_of(index);
  unpoison(bytes.data(), bytes.size());
  return slot(shared_from_this(), index);
}

std::optional<slot> slots::try_take() {
  std::lock_guard lock(mutex_);
  return take_locked();
}

std::optional<slot> slots::take(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  freed_.wait_for(lock, timeout, [&] { return !free_.empty(); });  // SL-5
  return take_locked();
}

void slots::step(int index, slot_state to) {
  {
    std::lock_guard lock(mutex_);
    [[maybe_unused]] auto from = states_[static_cast<size_t>(index)];
    assert(from != slot_state::free);  // SL-1: a free slot has no lease
    assert(to != slot_state::filled || from == slot_state::filling || from == slot_state::writing);
    assert(to != slot_state::writing || from == slot_state::filling || from == slot_state::filled);
    if (to == slot_state::free) {
      auto bytes = bytes_of(index);
      poison(bytes.data(), bytes.size());
      free_.push_back(index);
    }
    move_locked(index, to);
  }
  if (to == slot_state::free) freed_.notify_one();
}

void slots::abandon(int index) {
  std::lock_guard lock(mutex_);
  move_locked(index, slot_state::writing);
  ++counts_.abandoned;
  if (counts_.abandoned == 1) keep_forever(shared_from_this());  // SL-4: never unmapped
}

slot_counts slots::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace troupe::io

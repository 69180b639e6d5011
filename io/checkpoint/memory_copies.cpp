// Two generations a rank.
#include "io/checkpoint/memory_copies.hpp"

#include <algorithm>
#include <new>

#include "io/file.hpp"

namespace troupe::io::checkpoint {

uint64_t copy_shape::slots() const noexcept {
  return slot_bytes == 0 ? 0 : (stream_bytes + slot_bytes - 1) / slot_bytes;
}

// -- a copy ---------------------------------------------------------------------------------------

result<std::shared_ptr<memory_copy>> memory_copy::make(int rank, copy_tag tag,
                                                       const copy_shape& shape) {
  std::shared_ptr<memory_copy> out(new memory_copy);
  out->rank_ = rank;
  out->tag_ = tag;
  out->shape_ = shape;
  // Not zeroed: nothing is read before it is filled (MC-1).
  out->data_.reset(new (std::nothrow) std::byte[shape.stream_bytes]);
  if (!out->data_) return error{errc::no_memory, "no memory for a copy of a rank's share"};
  out->sums_.resize(shape.slots());
  return out;
}

std::span<std::byte> memory_copy::slot(uint64_t index) noexcept {
  const auto first = index * shape_.slot_bytes;
  return bytes().subspan(first, std::min<uint64_t>(shape_.slot_bytes, shape_.stream_bytes - first));
}

std::span<const std::byte> memory_copy::slot(uint64_t index) const noexcept {
  const auto first = index * shape_.slot_bytes;
  return bytes().subspan(first, std::min<uint64_t>(shape_.slot_bytes, shape_.stream_bytes - first));
}

void memory_copy::sum() noexcept {
  for (uint64_t i = 0; i < sums_.size(); ++i) sums_[i] = crc32c(slot(i));
}

status memory_copy::check(uint64_t index) const {
  return crc32c(slot(index)) == sums_[index] ? status() : copy_damaged(rank_, tag_.step, index);
}

status memory_copy::check() const {
  for (uint64_t i = 0; i < sums_.size(); ++i) TROUPE_CHECK(check(i));
  return {};
}

// -- generations ----------------------------------------------------------------------------------

size_t generation_for(const std::array<generation_facts, 2>& both, copy_tag tag) noexcept {
  for (size_t i = 0; i < 2; ++i)
    if (both[i].tag == tag) return i;
  for (size_t i = 0; i < 2; ++i)
    if (!both[i].tag) return i;
  for (size_t i = 0; i < 2; ++i)
    if (!both[i].whole) return i;
  return *both[1].tag < *both[0].tag ? 1 : 0;  // MC-2
}

void memory_copies::allow(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  allowed_ = bytes;
}

uint64_t memory_copies::bytes_locked() const {
  uint64_t sum = 0;
  for (const auto& [rank, generations] : ranks_)
    for (const auto& g : generations) sum += g.copy ? g.copy->shape().stream_bytes : 0;
  return sum;
}

uint64_t memory_copies::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_locked();
}

result<std::shared_ptr<memory_copy>> memory_copies::begin(int rank, copy_tag tag,
                                                          const copy_shape& shape) {
  std::lock_guard lock(mutex_);
  auto& generations = ranks_[rank];
  std::array<generation_facts, 2> facts;
  for (size_t i = 0; i < 2; ++i)
    if (const auto& g = generations[i]; g.copy) facts[i] = {g.copy->tag(), g.whole};
  auto& into = generations[generation_for(facts, tag)];
  const uint64_t goes = into.copy ? into.copy->shape().stream_bytes : 0;
  if (const auto wanted = bytes_locked() - goes + shape.stream_bytes; wanted > allowed_)
    return copies_too_large(wanted, allowed_);  // MC-3
  into.whole = false;                           // MC-1
  if (into.copy.use_count() == 1 && into.copy->shape() == shape) {
    into.copy->tag_ = tag;
    into.copy->filled = false;
    return into.copy;
  }
  into.copy.reset();  // MC-4
  TROUPE_TRY(made, memory_copy::make(rank, tag, shape));
  into.copy = made;
  return made;
}

void memory_copies::seal(const std::shared_ptr<memory_copy>& copy) {
  std::lock_guard lock(mutex_);
  for (auto& g : ranks_[copy->rank()])
    if (g.copy == copy) g.whole = true;
}

std::shared_ptr<const memory_copy> memory_copies::find(int rank, copy_tag tag) const {
  std::lock_guard lock(mutex_);
  const auto it = ranks_.find(rank);
  if (it == ranks_.end()) return {};
  for (const auto& g : it->second)
    if (g.whole && g.copy->tag() == tag) return g.copy;  // MC-1
  return {};
}

void memory_copies::note(copy_tag tag, const state_facts& state) {
  std::lock_guard lock(mutex_);
  states_[tag] = state;
  if (states_.size() > states_kept) states_.erase(states_.begin());
}

std::vector<held_copy> memory_copies::held() const {
  std::lock_guard lock(mutex_);
  std::vector<held_copy> out;
  const auto state_of = [&](const copy_tag& tag) {
    const auto it = states_.find(tag);
    return it == states_.end() ? state_facts{} : it->second;
  };
  for (const auto& [rank, generations] : ranks_)
    for (const auto& g : generations)
      if (g.whole)
        out.push_back(
            {rank, g.copy->tag(), g.copy->shape().stream_bytes, state_of(g.copy->tag())});
  std::sort(out.begin(), out.end(), [](const held_copy& a, const held_copy& b) {
    return std::tie(a.rank, a.tag) < std::tie(b.rank, b.tag);
  });
  return out;
}

void memory_copies::keep_only(copy_tag tag) {
  std::lock_guard lock(mutex_);
  for (auto& [rank, generations] : ranks_)
    for (auto& g : generations)
      if (g.copy && g.copy->tag() != tag) g = {};
  std::erase_if(states_, [&](const auto& s) { return s.first != tag; });
}

}  // namespace troupe::io::checkpoint

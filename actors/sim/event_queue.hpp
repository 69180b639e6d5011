// What is due in a simulation, in the order of virtual time; equal times in the order they were
// added.
//
// A binary heap of small keys over a slab of entries. Cancelled entries stay in the heap until they
// come up, or until they are the greater part of it: most timers of requests are cancelled long
// before they are due (ten minutes, for an answer that takes a millisecond).
//
// Invariants
//   EVQ-1  Entries come out in the order of (time, number of insertion).
//   EVQ-2  Cancelled entries are never handed out, and never hold more than half of the heap
//     (beyond the first few thousand).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::sim {

template <class T>
class event_queue {
 public:
  /// Names an entry until it comes out or is cancelled.
  struct ticket {
    uint32_t slot = 0;
    uint64_t number = 0;
  };

  ticket add(int64_t time_ns, T what) {
    uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(slab_.size());
      slab_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slab_[slot] = {++last_, std::move(what)};
    heap_.push_back({time_ns, last_, slot});
    std::push_heap(heap_.begin(), heap_.end(), later);
    return {slot, last_};
  }

  /// False where the entry has come out already.
  bool cancel(ticket t) {
    if (t.slot >= slab_.size() || slab_[t.slot].number != t.number) return false;
    release(t.slot);
    ++cancelled_;
    if (cancelled_ > spare && cancelled_ > heap_.size() / 2) sweep();
    return true;
  }

  /// When the next entry is due.
  std::optional<int64_t> next_time() {
    drop_cancelled();
    if (heap_.empty()) return std::nullopt;
    return heap_.front().time_ns;
  }

  /// The next entry and its time; the queue must not be empty.
  std::pair<int64_t, T> pop() {
    drop_cancelled();
    const auto first = heap_.front();
    pop_key();
    std::pair<int64_t, T> out(first.time_ns, std::move(slab_[first.slot].what));
    release(first.slot);
    return out;
  }

  bool empty() { return !next_time().has_value(); }
  size_t size() const noexcept { return heap_.size() - cancelled_; }

  void clear() {
    heap_.clear();
    slab_.clear();
    free_.clear();
    cancelled_ = 0;
  }

 private:
  static constexpr size_t spare = 4096;

  struct key {
    int64_t time_ns;
    uint64_t number;
    uint32_t slot;
  };
  struct entry {
    uint64_t number = 0;  ///< 0: free
    T what{};
  };

  static bool later(const key& a, const key& b) {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.number > b.number;
  }

  bool lives(const key& k) const { return slab_[k.slot].number == k.number; }

  void release(uint32_t slot) {
    slab_[slot].number = 0;
    slab_[slot].what = T{};
    free_.push_back(slot);
  }

  void pop_key() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }

  void drop_cancelled() {
    while (!heap_.empty() && !lives(heap_.front())) {
      pop_key();
      --cancelled_;
    }
  }

  void sweep() {  // EVQ-2
    std::erase_if(heap_, [this](const key& k) { return !lives(k); });
    std::make_heap(heap_.begin(), heap_.end(), later);
    cancelled_ = 0;
  }

  std::vector<key> heap_;
  std::vector<entry> slab_;
  std::vector<uint32_t> free_;
  uint64_t last_ = 0;
  size_t cancelled_ = 0;
};

}  // namespace troupe::sim

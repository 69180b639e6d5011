// What one voter has promised, and what it holds for the next head: the acceptor of Paxos (Lamport,
// "Paxos Made Simple", 2001), with epochs as its ballots and the newest records of the journal as
// its values.
//
// Invariants
//   PRM-1  An epoch is promised to one head, once: no two heads have a majority in the same epoch.
//   PRM-2  Nothing is granted in an epoch older than the one promised: what an old head decides
//     then is held by no majority.
//   PRM-3  Of each kind of record the newest is held, by epoch and number: a majority that promises
//     a later epoch has, among its members, whatever a majority held before.
//   PRM-4  What is granted is on the disk before it is said (vote_store.hpp); this class only says
//     what may be.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace troupe::heads {

/// A record as a voter holds it.
struct held_record {
  uint32_t epoch = 0;   ///< of the head that decided it
  uint64_t number = 0;  ///< which of that head's, from 1
  std::string content;  ///< a message, as it travels
  bool is_newer_than(const held_record& other) const {
    return epoch != other.epoch ? epoch > other.epoch : number > other.number;
  }
  bool operator==(const held_record&) const = default;
};

/// By the number of its message (message_traits<T>::id).
using held_records = std::map<uint16_t, held_record>;

class promises_policy {
 public:
  promises_policy() = default;
  promises_policy(uint32_t epoch, std::string head, held_records held)
      : epoch_(epoch), head_(std::move(head)), held_(std::move(held)) {}

  /// PRM-1, PRM-2. The same promise may be given again.
  bool may_promise(uint32_t epoch, const std::string& head) const {
    return epoch > epoch_ || (epoch == epoch_ && head == head_ && epoch > 0);
  }
  void promise(uint32_t epoch, const std::string& head) {
    epoch_ = epoch;
    head_ = head;
  }
  /// To hold a record is to promise its epoch. PRM-3: an older one than is held is held already.
  bool may_hold(const held_record& record, const std::string& head) const {
    return may_promise(record.epoch, head);
  }
  void hold(uint16_t kind, const held_record& record, const std::string& head) {
    promise(record.epoch, head);
    auto& there = held_[kind];
    if (there.content.empty() || record.is_newer_than(there)) there = record;
  }

  uint32_t epoch() const noexcept { return epoch_; }
  const std::string& head() const noexcept { return head_; }
  const held_records& held() const noexcept { return held_; }

 private:
  uint32_t epoch_ = 0;
  std::string head_;
  held_records held_;
};

}  // namespace troupe::heads

// One round of votes: who has granted what a head wants, who has not, and what those who did hold.
//
// Invariants
//   MAJ-1  It is won by more than half of all voters, those included that nobody can reach; a voter
//     counts once.
//   MAJ-2  It is lost once so many refuse that it cannot be won, by voters that follow another head
//     or a later epoch; those that are silent may still answer.
//   MAJ-3  What the next head begins with is the newest record of each kind among those that
//     granted (PRM-3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "actors/heads/promises_policy.hpp"

namespace troupe::heads {

class majority_policy {
 public:
  enum class verdict : uint8_t { open, won, lost };

  explicit majority_policy(const std::vector<std::string>& voters)
      : voters_(voters.begin(), voters.end()) {}

  static size_t majority_of(size_t voters) { return voters / 2 + 1; }

  void granted(const std::string& voter, const held_records& held) {
    if (!voters_.contains(voter)) return;
    refused_.erase(voter);
    granted_.insert(voter);
    for (const auto& [kind, record] : held) {
      auto& there = newest_[kind];
      if (there.content.empty() || record.is_newer_than(there)) there = record;
    }
  }
  /// It has promised `epoch` to `head`.
  void refused(const std::string& voter, uint32_t epoch, const std::string& head) {
    if (!voters_.contains(voter) || granted_.contains(voter)) return;
    refused_.insert(voter);
    if (epoch < epoch_) return;
    epoch_ = epoch;
    head_ = head;
  }

  verdict judge() const {
    if (granted_.size() >= needed()) return verdict::won;
    return voters_.size() - refused_.size() < needed() ? verdict::lost : verdict::open;
  }
  bool has_answered(const std::string& voter) const {
    return granted_.contains(voter) || refused_.contains(voter);
  }
  size_t needed() const { return majority_of(voters_.size()); }
  size_t voters() const { return voters_.size(); }
  size_t grants() const { return granted_.size(); }
  const held_records& newest() const { return newest_; }
  /// The greatest epoch that a voter has promised to another head, and to whom.
  uint32_t other_epoch() const { return epoch_; }
  const std::string& other_head() const { return head_; }

 private:
  std::set<std::string> voters_, granted_, refused_;
  held_records newest_;
  uint32_t epoch_ = 0;
  std::string head_;
};

}  // namespace troupe::heads

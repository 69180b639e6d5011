// Which pairs of nodes exchange bytes, and who is named by it. Pure.
//
// Why two rounds (MegaScale; DLRover's node check): a pair that fails has two suspects. Each of
// them then meets a node that has proven itself: who fails again is the culprit; where neither
// does, it is the way between the two.
//
// Invariants
//   PAI-1  Nobody is named who did not fail with a proven node: where all fail, nobody is.
//   PAI-2  In a round a suspect is never paired with the node that it failed with.
//   PAI-3  Of three nodes every pair is tested: else the middle one, if it is the sick one, leaves
//     nobody who has proven himself. Who failed with two others there has had both rounds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// What the exchanges of a pair took: small ones, then large ones.
class exchange_times {
 public:
  void small_came_back(int64_t ns) { small_ns_.push_back(ns); }
  void large_came_back(int64_t ns, size_t bytes) {
    large_ns_ += ns;
    large_bytes_ += bytes;
  }
  /// The last one did not within the time that was left: it makes those before it no quicker.
  void large_did_not(int64_t ns) { large_ns_ += ns; }

  bool any() const { return !small_ns_.empty() || large_bytes_ > 0; }
  /// The median of the small ones; 0: there was none.
  double latency_us() const;
  /// To and fro; 0: no large one came back.
  double bytes_per_s() const;

 private:
  std::vector<int64_t> small_ns_;
  int64_t large_ns_ = 0;
  size_t large_bytes_ = 0;
};

/// What an exchange between two nodes showed.
struct pair_seen {
  bool answered = false;   ///< something came back
  uint64_t wrong = 0;      ///< exchanges whose bytes came back other than they were
  double bytes_per_s = 0;  ///< 0: nothing large came back in time
  bool busy = false;       ///< either machine had other work
  bool one_host = false;   ///< both are processes of one host
  bool tried = true;       ///< false: who was to send had no time for it
};

/// A part of what pairs reach that answer and are not busy, of those within a host or of those
/// between two; none where they are fewer than three.
std::optional<double> wanted_rate(std::span<const pair_seen> all, bool one_host);

/// Bad where nothing comes back or the bytes are wrong; or where it is slow and nobody is busy.
fbs::CheckVerdict verdict_of(const pair_seen& p, std::optional<double> wanted);

class pair_policy {
 public:
  using pair = std::pair<std::string, std::string>;

  /// What both rounds showed.
  struct outcome {
    std::vector<std::string> culprits;  ///< failed with a proven node, too
    std::vector<pair> cut;              ///< each is well with others
    std::vector<pair> unclear;          ///< failed, and there was no proven node to ask
  };

  /// Nodes, each once.
  explicit pair_policy(std::vector<std::string> nodes);

  /// Round 1: neighbours, an odd one with the node before it; of three all (PAI-3).
  std::vector<pair> first_round() const;
  /// Round 2: each suspect, first, with a proven node, second; after round 1 was told.
  std::vector<pair> second_round() const;

  /// How a pair of a round did.
  void tell_first(const pair& p, bool passed);
  void tell_second(const pair& p, bool passed);

  outcome conclude() const;
  /// Whether it is known how the node does: it passed a test, or failed with a proven node, too.
  bool is_clear_about(const std::string& node) const;

 private:
  bool is_proven(const std::string& node) const;
  /// In the first round, with a proven node and another.
  bool failed_with_two(const std::string& node) const;
  /// How the node did with a proven one beside whom it failed with; none: nobody asked.
  std::optional<bool> second_of(const std::string& node) const;
  /// With whom, other than `not_with`; empty: there is nobody.
  std::string proven_beside(const std::string& not_with, size_t turn) const;

  std::vector<std::string> nodes_;
  std::vector<std::pair<pair, bool>> first_;
  std::map<std::string, bool> second_;  ///< by suspect
};

}  // namespace troupe::health

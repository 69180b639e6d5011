// What outlives a budget's process: the watts that its children may draw, what a person has set for
// good, and the brake. A next life counts those watts for each child until it has heard from it.
//
//   {"epoch":3,"children":{"gpt-a":44.0},
//    "set":{"budget_w":55.0,"instead_of_w":70.0,"by":"alice","time":"2026-11-29T20:00:00Z"}}
//
// When something is written is decided here; somebody else writes it, and may take long or fail.
//
// Pure: no clock, no disk, no actor.
//
// Invariants
//   BUR-1  Covered is the least that may stand on the disk for a child: of what was written last,
//     what is being written, and what has failed to be written since, of which nobody knows. Its
//     static share is covered without a record: a life counts no less for whom it has not heard.
//   BUR-2  One write is under way at a time. One for which a raise waits begins at once, unless the
//     disk has failed for long; any other no sooner than `rest_ns` after the one before, and none
//     where nothing has changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::power {

/// A budget that a person has set without a time. It holds as long as the configuration says what
/// it said then.
struct budget_set {
  int64_t budget_mw = 0;
  int64_t instead_of_mw = 0;  ///< by the configuration
  std::string by = {};        ///< may be empty
  std::string time = {};      ///< of day; may be empty
  bool operator==(const budget_set&) const = default;
};

struct budget_record {
  uint64_t epoch = 0;  ///< of the life that wrote it
  std::map<std::string, int64_t> children_mw =
      {};  ///< by name; those of whom there is nothing to say are absent
  std::optional<budget_set> set = {};
  bool brake = false;   ///< a person holds all work
  bool pulled = false;  ///< the budget does by itself
  bool operator==(const budget_record&) const = default;
};

/// A JSON object, a line.
std::string record_text(const budget_record& record);
/// What record_text() made. Errors: bad_data.
result<budget_record> parse_budget_record(std::string_view text);

/// When the record is written, and what is covered by it.
class record_policy {
 public:
  /// So many writes that fail in a row are a disk that goes on failing.
  static constexpr int tries_at_once = 60;

  record_policy() = default;
  /// `found_mw`: what the life before has left for each child; 0: nothing.
  record_policy(std::vector<int64_t> static_mw, std::vector<int64_t> found_mw, int64_t rest_ns);

  /// BUR-1
  std::span<const int64_t> covered_mw() const { return covered_mw_; }

  /// The number of the write to begin with these watts, if one is due. `waits`: for it.
  std::optional<uint64_t> begin(const std::vector<int64_t>& watts_mw, bool waits, int64_t now_ns);
  /// A write has ended; `why`: it has failed.
  void ended(uint64_t number, const std::optional<error>& why);

  /// Why what is granted is not on the disk: the last write has failed, or is under way for longer
  /// than `rest_ns`. None: all is well.
  std::optional<error> trouble(int64_t now_ns) const;
  /// What waits for a write may wait until one is due anyway. BUR-2
  bool fails_for_long() const { return failures_ >= tries_at_once; }

 private:
  void cover();

  std::vector<int64_t> static_mw_;
  std::vector<int64_t> written_mw_;  ///< by the last write that is known to have succeeded
  std::vector<int64_t> least_mw_;    ///< of it, and of all that was tried since
  std::vector<int64_t> writing_mw_;
  std::vector<int64_t> covered_mw_;
  int64_t rest_ns_ = 0;
  uint64_t number_ = 0;
  bool under_way_ = false;
  std::optional<error> failed_;      ///< the last write
  int failures_ = 0;                 ///< in a row, as far as they count
  std::optional<int64_t> begun_ns_;  ///< the last write
};

/// Writes the record where it outlives the process, in its own time and thread.
class record_keeper {
 public:
  struct outcome {
    uint64_t number = 0;
    std::optional<error> why = {};  ///< it has failed
  };
  virtual ~record_keeper() = default;
  /// Begins a write; none is under way. Waits for nothing.
  virtual void keep(uint64_t number, std::string text) = 0;
  /// What became of the last one: once, and none while it is under way. Waits for nothing.
  virtual std::optional<outcome> ended() = 0;
};

}  // namespace troupe::power

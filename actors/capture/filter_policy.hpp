// Which records a viewer gets: by actor, message and slowness, within a rate and a limit. A pure
// class: it is told names and the time.
//
// Invariants
//   FIL-1  No more than max_records pass altogether, and no more than rate_per_s in any second
//     (token bucket of one second's depth).
//   FIL-2  What a view itself causes (the actors observer and gateway) passes only where it is
//     asked for by name: a view must not show itself showing itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "trace/record.hpp"

namespace troupe::trace {

struct filter_rule {
  std::string actor = {}, message = {};  ///< patterns
  int64_t slower_than_ns = 0;
  uint64_t max_records = 0;  ///< 0: none pass
  uint32_t rate_per_s = 0;   ///< 0: as many as there are
};

class filter_policy {
 public:
  /// `path_of` gives the path of an actor by its number; `name_of` that of a message type, of
  /// work or of a counter.
  using path_of = std::function<std::string(uint32_t actor)>;
  using name_of = std::function<std::string(record_kind kind, uint16_t type)>;

  filter_policy(filter_rule rule, path_of actor, name_of message)
      : rule_(std::move(rule)), path_of_(std::move(actor)), name_of_(std::move(message)) {}

  /// Whether actor and message fit, without regard to slowness, rate and limit.
  bool fits(uint32_t actor, record_kind kind, uint16_t type);

  /// Whether the record passes, `now_ns` being the time of showing; counts it.
  bool passes(const trace_record& r, int64_t now_ns);

  /// The limit has been reached.
  bool exhausted() const noexcept { return passed_ >= rule_.max_records; }
  uint64_t passed() const noexcept { return passed_; }
  /// Records that fitted and were left out for the rate's sake.
  uint64_t over_rate() const noexcept { return over_rate_; }

 private:
  bool fits_actor(uint32_t actor);
  bool fits_message(record_kind kind, uint16_t type);
  bool take_token(int64_t now_ns);

  filter_rule rule_;
  path_of path_of_;
  name_of name_of_;
  std::unordered_map<uint32_t, bool> actors_, messages_;
  uint64_t passed_ = 0, over_rate_ = 0;
  double tokens_ = -1;  ///< negative: not begun
  int64_t filled_ns_ = 0;
};

}  // namespace troupe::trace

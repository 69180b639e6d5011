// When to tell of a long tokenising, and what: a line at once when there is more than one batch of
// work, then one every so often. Knows no clock and no actor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/data/corpus.hpp"

namespace troupe::train {

class tokenising_policy {
 public:
  /// Lines are at least `interval_ns` apart; the work starts at `now_ns`.
  tokenising_policy(int64_t now_ns, int64_t interval_ns)
      : started_ns_(now_ns), interval_ns_(interval_ns), tokenises_since_ns_(now_ns) {}

  /// "tokenising: 41 % of 1.20 GB, 25.3 MB/s, ETA 0:38", or nothing: too soon, or done. Before that
  /// "reading: 12 % of 1.20 GB", once it has taken a while.
  std::optional<std::string> heard(int64_t now_ns, const io::corpus_progress& progress);

 private:
  int64_t started_ns_;
  int64_t interval_ns_;
  int64_t tokenises_since_ns_;  ///< behind what was only read
  std::optional<int64_t> told_ns_;
};

}  // namespace troupe::train

// By which power budget an operation was held back, in words: a stage records that it was, and for
// how long (messages/power_holds.hpp); the counters of the job's pacer say what it kept to then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/timeline.hpp"

namespace troupe::trace {

class power_words {
 public:
  explicit power_words(const timeline& t);

  /// "the pace of 52 % for the 21 W of row0", "the brake of row0"; of a hold.
  std::string of(const timeline& t, const timeline_event& hold) const;

 private:
  struct value {
    int64_t at_ns = 0;
    double w = 0;
    std::string budget = {};  ///< whose cap it is
  };
  /// The one in force then; null: none is known by then.
  static const value* at(const std::vector<value>& all, int64_t at_ns);

  std::vector<value> kept_, granted_;  ///< in the order of time
};

}  // namespace troupe::trace

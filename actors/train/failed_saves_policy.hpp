// What is said of saves that fail one after the other, as each step's does on a full disk: the
// first by name, what follows by number.
//
// Invariants
//   FSV-1  Of a place and a cause one failure a minute is told. No other is lost: how many there
//     were is told with the next one, with the next save that succeeds, or at the end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "actors/train/last_save_policy.hpp"
#include "io/base/error.hpp"

namespace troupe::train {

class failed_saves_policy {
 public:
  static constexpr int64_t quiet_ns = 60'000'000'000;

  /// A save into `place` failed: it is to be told, with so many before it that were only counted;
  /// nothing where it is counted as well.
  std::optional<uint64_t> failed(const std::string& place, const error& why, int64_t now_ns) {
    std::erase_if(told_, [&](const auto& told) { return now_ns - told.second >= quiet_ns; });
    if (told_.try_emplace({place, std::string(cause_of(why))}, now_ns).second)
      return take_counted();
    ++counted_;
    return std::nullopt;
  }
  /// How many were only counted; from now on they are told of.
  uint64_t take_counted() { return std::exchange(counted_, 0); }

 private:
  std::map<std::pair<std::string, std::string>, int64_t> told_;  ///< place and cause, and when
  uint64_t counted_ = 0;
};

}  // namespace troupe::train

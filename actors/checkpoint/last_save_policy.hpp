// What becomes of the last checkpoint of a run where it cannot be saved: a finished training is not
// lost to a full disk, or to a folder that somebody took away, as long as patience lasts.
//
// Invariants
//   LST-1  The second tier is tried at once where the first one fails, and once more with each try.
//   LST-2  Tries have a pause between them and end when the patience is over.
#pragma once

#include <cstdint>
#include <optional>

#include "io/base/error.hpp"

namespace troupe::checkpoint {

class last_save_policy {
 public:
  static constexpr int64_t pause_ns = 5'000'000'000;

  enum class tier : uint8_t { first, second };
  struct attempt {
    tier where = tier::first;
    int64_t pause_ns = 0;  ///< before it
    bool operator==(const attempt&) const = default;
  };

  /// `patience_ns` is checkpoint.room_wait_s.
  explicit last_save_policy(int64_t patience_ns = 0, bool second = false)
      : patience_ns_(patience_ns), second_(second) {}

  /// The latest try failed; the next one, or nothing.
  std::optional<attempt> failed(const error& why, int64_t now_ns);

 private:
  int64_t patience_ns_;
  bool second_;
  tier latest_ = tier::first;
  std::optional<int64_t> since_ns_;  ///< the first failure
};

}  // namespace troupe::checkpoint

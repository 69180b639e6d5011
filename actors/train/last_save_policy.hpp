// What becomes of the last checkpoint of a run where it cannot be saved: a finished training is not
// lost to a full disk, or to a folder that somebody took away, as long as patience lasts.
//
// Invariants
//   LST-1  The second tier is tried at once where the first one fails, and once more with each try.
//   LST-2  Tries have a pause between them and end when the patience is over.
//   LST-3  What is said of the tries is said once of each place and cause, however many they are.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/error.hpp"

namespace troupe::train {

/// What an error comes down to: the end of its message. What stands before it (who, a file, an
/// offset) may be another at each try.
std::string_view cause_of(const error& why);

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

  /// Whether `what`, which names a place, has not been said for this cause yet (LST-3): from now on
  /// it has.
  bool is_news(std::string_view what, const error& why);

  /// Whether any try waited.
  bool has_waited() const noexcept { return waited_; }

 private:
  int64_t patience_ns_;
  bool second_;
  tier latest_ = tier::first;
  std::optional<int64_t> since_ns_;  ///< the first failure
  bool waited_ = false;
  std::set<std::pair<std::string, std::string>> said_;
};

}  // namespace troupe::train

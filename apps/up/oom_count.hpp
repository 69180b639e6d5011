// Whether the kernel ended processes for want of memory: what "killed by signal 9" means then.
//
// The kernel counts them: in the cgroup (cgroup v2's memory.events), else in the machine, where
// most are nobody of ours: those of long ago explain no death of now.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace troupe::apps {

/// The number after the word oom_kill at the begin of a line; nothing if there is none.
std::optional<uint64_t> oom_kills_in(std::string_view text);

class oom_count {
 public:
  using clock = std::chrono::steady_clock;

  /// Of this process's cgroup, or of the machine.
  oom_count();
  /// Of the first of these files that counts.
  explicit oom_count(const std::vector<std::filesystem::path>& files);

  /// Processes ended up to `now`, without those that a look more than defaults::oom_memory ago has
  /// seen: to be asked all the time.
  uint64_t look(clock::time_point now);

 private:
  std::filesystem::path file_;
  uint64_t before_ = 0;             ///< what is too old to count
  uint64_t seen_ = 0;               ///< at the last look
  clock::time_point changed_at_{};  ///< the look that saw it first
};

}  // namespace troupe::apps

// Whether the kernel ended processes for want of memory: what "killed by signal 9" means then.
//
// The kernel counts them: in the cgroup (cgroup v2's memory.events), else in the machine.
#pragma once

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
  /// Of this process's cgroup, or of the machine.
  oom_count();
  /// Of the first of these files that counts.
  explicit oom_count(const std::vector<std::filesystem::path>& files);

  /// Processes ended since the object was made.
  uint64_t since() const;

 private:
  std::filesystem::path file_;
  uint64_t before_ = 0;
};

}  // namespace troupe::apps

// What settings were before this program changed them, for as long as a process lives: while a
// machine is hot they do not show it (SGV-7), and a job that begins anew a moment after it has
// ended, or in the place of another rank, is as right as it was then.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/controls/control_record.hpp"

namespace troupe::gpu::controls {

/// From any thread.
class known_settings {
 public:
  /// Of a device (device_of); what was known of it before is forgotten.
  void note(const std::string& device, std::vector<found_setting> found) {
    std::lock_guard lock(mutex_);
    found_[device] = std::move(found);
  }
  /// Empty: nothing is known.
  std::vector<found_setting> of(const std::string& device) const {
    std::lock_guard lock(mutex_);
    const auto it = found_.find(device);
    return it != found_.end() ? it->second : std::vector<found_setting>{};
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<found_setting>> found_;
};

}  // namespace troupe::gpu::controls

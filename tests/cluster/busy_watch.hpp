// What processor time processes take, watched from outside of them: by the kernel's counts alone,
// whatever they say of themselves.
//
// Each look has a time before it and one behind it, so that one that comes late on a busy machine
// makes what was taken less than it was, never more.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/machine/available_memory.hpp"
#include "io/machine/kernel_counters.hpp"
#include "tests/cluster/program.hpp"

namespace troupe::cluster_test {

using busy_clock = std::chrono::steady_clock;

/// What may be taken of any stretch of time: so many processors of it, and so many seconds once.
struct busy_bound {
  double processors = 0, once_s = 0;
};

/// Looks at processes and all that they have started, ten times a second.
class busy_watch {
 public:
  explicit busy_watch(std::vector<pid_t> roots) : roots_(std::move(roots)) {
    look();
    thread_ = std::jthread([this](const std::stop_token& over) {
      while (!over.stop_requested()) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, over, std::chrono::milliseconds(100), [] { return false; });
        lock.unlock();
        look();
      }
    });
  }

  /// The most that was taken beyond the processors of a bound in any stretch of what was looked at
  /// from then on: seconds, to be held against its once_s.
  double most_beyond_s(busy_clock::time_point from, double processors) {
    std::lock_guard lock(mutex_);
    double out = 0;
    // Of stretches that end at a look the greatest begins where least was taken beyond by then.
    double least = 0;
    bool has_begun = false;
    for (const auto& l : looks_) {
      if (l.before < from) continue;
      const auto beyond = [&](busy_clock::time_point at) {
        return l.busy_s - processors * std::chrono::duration<double>(at - from).count();
      };
      if (has_begun) out = std::max(out, beyond(l.behind) - least);
      least = has_begun ? std::min(least, beyond(l.before)) : beyond(l.before);
      has_begun = true;
    }
    return out;
  }
  bool keeps(busy_clock::time_point from, const busy_bound& bound) {
    return most_beyond_s(from, bound.processors) <= bound.once_s;
  }
  /// Whether they come to take more than that from now on: they work, and would be seen to. False
  /// where they do not within `patience`: they may be held, or the machine may have no more for
  /// them.
  bool until_beyond(const busy_bound& bound, std::chrono::seconds patience) {
    const auto from = busy_clock::now(), over = from + patience;
    bool is_beyond = false;
    const bool has_ended = eventually([&] {
      is_beyond = !keeps(from, bound);
      return is_beyond || busy_clock::now() >= over;
    });
    return has_ended && is_beyond;
  }
  /// Waits until looks reach so far.
  void watch_until(busy_clock::time_point to) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, patience, [&] { return looks_.back().before >= to; }));
  }

 private:
  struct look_at {
    busy_clock::time_point before, behind;
    double busy_s;
  };

  /// The time of all that is below the roots now, and of what ended and was waited for there.
  double busy_s() const {
    std::map<uint64_t, io::process_ticks> all;
    std::error_code gone;
    for (std::filesystem::directory_iterator at("/proc", gone), end; !gone && at != end;
         at.increment(gone)) {
      const auto number = at->path().filename().string();
      if (number.find_first_not_of("0123456789") != number.npos) continue;
      const auto ticks = io::parse_process_ticks(io::kernel_text((at->path() / "stat").string()));
      if (ticks) all.emplace(std::stoull(number), *ticks);
    }
    const auto is_root = [&](uint64_t number) {
      return std::any_of(roots_.begin(), roots_.end(),
                         [&](pid_t r) { return static_cast<uint64_t>(r) == number; });
    };
    uint64_t out = 0;
    for (const auto& [number, ticks] : all) {
      auto at = number;
      for (size_t i = 0; i < all.size() && at != 0 && !is_root(at); ++i) {
        const auto parent = all.find(at);
        at = parent == all.end() ? 0 : parent->second.parent;
      }
      if (is_root(at)) out += ticks.busy;
    }
    return static_cast<double>(out) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  void look() {
    const auto before = busy_clock::now();
    const double busy = busy_s();
    std::lock_guard lock(mutex_);
    // One that ended between the look at its parent and that at itself is in neither.
    const double least = looks_.empty() ? 0 : looks_.back().busy_s;
    looks_.push_back({before, busy_clock::now(), std::max(busy, least)});
    changed_.notify_all();
  }

  const std::vector<pid_t> roots_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<look_at> looks_;
  std::jthread thread_;
};

}  // namespace troupe::cluster_test

// Counting and logging what ingress.hpp promises.
#include "actors/cluster/ingress.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>

#include <spdlog/spdlog.h>

#include "io/base/counted.hpp"

namespace troupe::cluster {

namespace {

constexpr std::array<std::string_view, turned_away_count> words = {
    "it showed no certificate",
    "its certificate is of another authority",
    "its certificate is not valid now",
    "its certificate does not verify",
    "no TLS",
    "unsupported protocol",
    "closed before a handshake",
    "it claimed to be another, or did what its role may not",
    "the handshake timed out",
    "too many connections without a handshake",
    "it proved no key of the job"};

struct ingress_state {
  std::mutex mutex;
  ingress_counts seen;
  refusal_log_policy log;
};

ingress_state& state() {
  static ingress_state all;
  return all;
}

int64_t monotonic_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

std::string_view in_words(turned_away reason) noexcept {
  return words[static_cast<size_t>(reason)];
}

uint64_t ingress_counts::all() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

std::optional<uint64_t> refusal_log_policy::line(turned_away reason, const std::string& address,
                                                 int64_t now_ns) {
  if (const auto minute = now_ns / quiet_ns; minute != minute_) {
    minute_ = minute;
    lines_ = 0;
    std::erase_if(logged_, [&](const auto& l) { return now_ns - l.second >= quiet_ns; });
  }
  const auto key = std::pair(reason, address);
  const auto it = logged_.find(key);
  const bool lately = it != logged_.end() && now_ns - it->second < quiet_ns;
  if (lately || lines_ >= lines_per_minute) {
    ++left_out_;
    return std::nullopt;
  }
  ++lines_;  // bounds logged_ as well: a line is an entry
  logged_[key] = now_ns;
  return std::exchange(left_out_, 0);
}

void note_turned_away(turned_away reason, const std::string& address,
                      std::string_view detail) noexcept {
  try {
    std::optional<uint64_t> left_out;
    {
      auto& s = state();
      std::lock_guard lock(s.mutex);
      const auto at = static_cast<size_t>(reason);
      ++s.seen.counts[at];  // ING-1
      s.seen.last_address[at] = address;
      left_out = s.log.line(reason, address, monotonic_ns());
    }
    if (left_out)
      spdlog::warn("turned away a connection from {}: {}{}{}; {} since the last line", address,
                   in_words(reason), detail.empty() ? "" : ": ", detail,
                   counted(*left_out, "other"));
  } catch (const std::exception&) {
    // A log that cannot be written, or an address there is no memory for: the peer stays away.
  }
}

ingress_counts ingress_seen() {
  auto& s = state();
  std::lock_guard lock(s.mutex);
  return s.seen;
}

}  // namespace troupe::cluster

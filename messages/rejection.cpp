// The process-wide counters behind rejection.hpp.
#include "messages/rejection.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <numeric>
#include <string>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "messages/registry.hpp"

namespace troupe {

namespace {

constexpr std::array<std::string_view, reject_count> names = {
    "truncated", "form", "type",        "oversize",    "checksum",
    "verify",    "json", "stale_epoch", "undecodable", "unexpected",
    "forbidden"};

/// The same to a person, behind "was refused: ".
constexpr std::array<std::string_view, reject_count> meanings = {
    "it has fewer bytes than it says",
    "it does not begin as messages of this version do",
    "its type is not known here, or is not the one expected",
    "it is longer than a message may be",
    "its bytes changed on the way (checksum)",
    "its content is no message of its type",
    "its JSON is not that of its type",
    "it is of an epoch that is over, or not yet begun here",
    "its content could not be read",
    "who got it takes no such message now",
    "its sender's role does not let it say that"};

// Good messages are counted by the thread that handles them, each in one of these cache lines: a
// line that every thread writes costs more than the rest of the counting.
struct alignas(64) shard {
  std::atomic<uint64_t> decoded{0};
  std::atomic<uint64_t> verified{0};
  std::atomic<uint64_t> encoded{0};
};

constexpr size_t shard_count = 16;
std::array<shard, shard_count> shards;
std::atomic<size_t> next_shard{0};

shard& my_shard() noexcept {
  thread_local const size_t index = next_shard.fetch_add(1) % shard_count;
  return shards[index];
}

std::array<detail::flood_log, reject_count> reasons;

int64_t monotonic_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

std::string_view to_string(reject reason) noexcept {
  return names[static_cast<size_t>(reason)];
}

uint64_t message_counts::all_rejected() const {
  return std::accumulate(rejected.begin(), rejected.end(), uint64_t{0});
}

message_counts counts() noexcept {
  message_counts out;
  for (const auto& s : shards) {
    out.decoded += s.decoded.load(std::memory_order_relaxed);
    out.verified += s.verified.load(std::memory_order_relaxed);
    out.encoded += s.encoded.load(std::memory_order_relaxed);
  }
  for (size_t i = 0; i < reject_count; ++i) out.rejected[i] = reasons[i].count();
  return out;
}

std::string rejection_text(reject reason, uint16_t type, std::string_view detail,
                           uint64_t left_out) {
  std::string what = "a message";
  if (const auto* known = find_message(type))
    what = known->name;
  else if (type != 0)  // 0: it has none
    what += fmt::format(" of type {:#06x}", type);
  auto out = fmt::format("{} was refused: {} ({}): {}", what, meanings[static_cast<size_t>(reason)],
                         to_string(reason), detail);
  if (left_out > 0) out += fmt::format("; {} more like it since the last line", left_out);
  return out;
}

void note_rejection(reject reason, uint16_t type, std::string_view detail) noexcept {
  const auto left_out = reasons[static_cast<size_t>(reason)].note(monotonic_ns());
  if (!left_out) return;
  try {
    spdlog::warn("{}", rejection_text(reason, type, detail, *left_out));
  } catch (const std::exception&) {
    // A logger that cannot write must not turn a refused message into a failure; the count stands.
  }
}

namespace detail {

std::optional<uint64_t> flood_log::note(int64_t now_ns) noexcept {
  const auto total = count_.fetch_add(1, std::memory_order_relaxed) + 1;  // RJ-1
  auto due = next_log_ns_.load(std::memory_order_relaxed);
  if (now_ns < due || !next_log_ns_.compare_exchange_strong(due, now_ns + interval_ns)) return {};
  const auto before = logged_at_count_.exchange(total);
  return total > before ? total - before - 1 : 0;
}

void count_decoded() noexcept {
  my_shard().decoded.fetch_add(1, std::memory_order_relaxed);
}
void count_verified() noexcept {
  my_shard().verified.fetch_add(1, std::memory_order_relaxed);
}
void count_encoded() noexcept {
  my_shard().encoded.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace detail

}  // namespace troupe

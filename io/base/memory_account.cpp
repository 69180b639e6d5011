// Sums under a mutex.
#include "io/base/memory_account.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/text.hpp"

namespace troupe::io {

namespace {

thread_local const char* holder_of_thread = "others";

}  // namespace

result<memory_account::booking> memory_account::book(std::string_view holder, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!limits_.empty() && (bytes > *limits_.begin() || held_ > *limits_.begin() - bytes)) {
    std::vector<std::string> words;
    for (const auto& h : held_locked().holders)
      if (h.bytes > 0) words.push_back(fmt::format("{}: {}", h.holder, bytes_text(h.bytes)));
    const auto& kind = place_ == memory_place::device ? device_memory_used_up : memory_used_up;
    return kind(bytes_text(bytes), holder, bytes_text(held_), bytes_text(*limits_.begin()),
                fmt::format("{}", fmt::join(words, ", ")));
  }
  auto it = holders_.find(holder);
  if (it == holders_.end()) it = holders_.emplace(std::string(holder), std::pair(0, 0)).first;
  auto& [now, most] = it->second;
  now += bytes;
  most = std::max(most, now);
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  booking out;
  out.account_ = this;
  out.holder_ = &it->first;  // holders are never forgotten
  out.bytes_ = bytes;
  return out;
}

void memory_account::give_back(const std::string& holder, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  holders_.find(holder)->second.first -= bytes;
  held_ -= bytes;
}

std::shared_ptr<void> memory_account::limit_to(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto it = limits_.insert(bytes);
  return {nullptr, [this, it](void*) {
            std::lock_guard within(mutex_);
            limits_.erase(it);
          }};
}

memory_account::table memory_account::held() const {
  std::lock_guard lock(mutex_);
  return held_locked();
}

memory_account::table memory_account::held_locked() const {
  table out{limits_.empty() ? 0 : *limits_.begin(), held_, peak_, {}};
  for (const auto& [holder, bytes] : holders_)
    out.holders.push_back({holder, bytes.first, bytes.second});
  std::stable_sort(out.holders.begin(), out.holders.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

memory_account& process_memory() {
  static auto* account = new memory_account;  // bookings of static objects may end after it would
  return *account;
}

memory_account& device_memory(int number) {
  static std::mutex mutex;
  static auto* accounts = new std::map<int, memory_account*>;  // as above
  std::lock_guard lock(mutex);
  auto& account = (*accounts)[number];
  if (account == nullptr) account = new memory_account(memory_place::device);
  return *account;
}

memory_holder::memory_holder(const char* name) noexcept : before_(holder_of_thread) {
  holder_of_thread = name;
}

memory_holder::~memory_holder() {
  holder_of_thread = before_;
}

const char* memory_holder::current() noexcept {
  return holder_of_thread;
}

}  // namespace troupe::io

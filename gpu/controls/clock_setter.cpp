// One wish, one thread; see clock_setter.hpp.
#include "gpu/controls/clock_setter.hpp"

#include <algorithm>
#include <utility>

namespace troupe::gpu::controls {

clock_setter::clock_setter(std::shared_ptr<actuator> control,
                           std::function<void(const error&)> failed,
                           const clock_setter_terms& terms,
                           std::function<void(const std::string&)> noted)
    : control_(std::move(control)),
      on_failed_(std::move(failed)),
      on_noted_(std::move(noted)),
      terms_(terms) {
  thread_ = std::thread([this] { work(); });
}

clock_setter::~clock_setter() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  told_.notify_one();
  thread_.join();
}

void clock_setter::wish(int mhz, std::chrono::nanoseconds after) {
  {
    std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    note_due(now);
    later_ = {mhz, now + after};
    note_due(now);
  }
  told_.notify_one();
}

/// CKS-2
void clock_setter::note_due(moment now) {
  if (!later_ || later_->due > now) return;
  due_mhz_ = later_->mhz;
  later_.reset();
}

/// When there is something to do without another wish.
std::optional<clock_setter::moment> clock_setter::next_look() const {
  if (failed_) return std::nullopt;
  if (due_mhz_) return moment::min();
  std::optional<moment> out;
  if (later_) out = later_->due;
  const auto check = unchecked_since_ ? *unchecked_since_ + terms_.check_after : next_visit();
  if (check) out = out ? std::min(*out, *check) : *check;
  return out;
}

/// CKS-5
std::optional<clock_setter::moment> clock_setter::next_visit() const {
  if (in_force_mhz_ == highest_clock_mhz && given_back_to_ == 0) return std::nullopt;
  return looked_ + terms_.check_every;
}

bool clock_setter::is_check_due(moment now) const {
  if (!unchecked_since_) {
    const auto visit = next_visit();
    return !due_mhz_ && visit && *visit <= now;
  }
  return due_mhz_ ? now - looked_ >= terms_.check_every
                  : now - *unchecked_since_ >= terms_.check_after;
}

void clock_setter::work() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const auto now = std::chrono::steady_clock::now();
    note_due(now);
    const auto next = next_look();
    if (!next)
      told_.wait(lock);
    else if (*next > now)
      told_.wait_until(lock, *next);
    else if (is_check_due(now))
      check(lock);
    else
      set(lock);
    if (failed_) {
      due_mhz_.reset();
      later_.reset();
    }
  }
  lock.unlock();
  if (in_force_mhz_ != highest_clock_mhz)
    static_cast<void>(control_->set_clock(highest_clock_mhz));  // CKS-4
}

/// CKS-2. While it is set nobody knows which of both clocks the device has.
void clock_setter::set(std::unique_lock<std::mutex>& lock) {
  if (!due_mhz_) return;
  const int mhz = *std::exchange(due_mhz_, std::nullopt);
  if (mhz == in_force_mhz_) return;
  in_force_mhz_ = std::min<int>(in_force_mhz_, mhz);
  lock.unlock();
  const auto done = control_->set_clock(mhz);
  if (done)
    in_force_mhz_ = mhz;
  else
    fail(done.error());
  lock.lock();
  unchecked_since_ = std::chrono::steady_clock::now();
}

/// CKS-3, CKS-5
void clock_setter::check(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto done = control_->check_clock();
  if (!done) fail(done.error());
  given_back_to_ = control_->given_back_to();
  if (const auto note = control_->take_note(); !note.empty() && on_noted_) on_noted_(note);
  lock.lock();
  unchecked_since_.reset();
  looked_ = std::chrono::steady_clock::now();
}

void clock_setter::fail(const error& why) {
  if (control_->set_clock(highest_clock_mhz)) in_force_mhz_ = highest_clock_mhz;
  if (failed_.exchange(true)) return;
  if (on_failed_) on_failed_(why);
}

}  // namespace troupe::gpu::controls

// Answers that are held back.
#include "io/disk/slow_disk.hpp"

#include <algorithm>

namespace troupe::io {

slow_disk::slow_disk(const disk_options& options, std::shared_ptr<const std::atomic<double>> factor)
    : thread_disk(options, ""), factor_(std::move(factor)) {}

/// SLD-2: the disk beneath knows nothing of what is held.
slow_disk::~slow_disk() {
  closing_ = true;
  drain(kernel_patience);
}

void slow_disk::raw_submit(const raw_request& request) {
  if (request.op != disk_op::read) submitted_[request.id] = now();
  thread_disk::raw_submit(request);
}

/// Gives what is due, and holds the rest (SLD-1).
void slow_disk::take(std::vector<raw_answer>& answers) {
  const auto at = now();
  for (const auto& answer : std::exchange(fresh_, {})) {
    const auto since = submitted_.extract(answer.id);
    const double more = since.empty() ? 0 : std::max(0.0, factor_->load() - 1);
    const auto took = since.empty() ? nanoseconds(0) : at - since.mapped();
    held_.push_back({at + std::chrono::duration_cast<nanoseconds>(took * more), answer});
  }
  std::erase_if(held_, [&](const held& h) {
    if (h.until > at && !closing_) return false;
    answers.push_back(h.answer);
    return true;
  });
}

bool slow_disk::raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) {
  const auto before = answers.size();
  for (;;) {
    take(answers);
    const bool waits = block && answers.size() == before && now() < until;
    auto next = until;
    for (const auto& h : held_) next = std::min(next, h.until);
    const bool woken = thread_disk::raw_reap(waits, next, fresh_);
    take(answers);
    if (woken || !waits || answers.size() > before) return woken;
  }
}

}  // namespace troupe::io

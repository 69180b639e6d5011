// The watching thread.
#include "gpu/cuda/nccl_watch.hpp"

#include <pthread.h>

#include <fmt/format.h>

namespace troupe::gpu::cuda {

nccl_channel& nccl_watch::add_channel() {
  return *channels_.emplace_back(
      std::make_unique<nccl_channel>(library_, "group " + options_.name, options_.ending));
}

void nccl_watch::start() {
  thread_ = std::thread([self = shared_from_this()] {
    pthread_setname_np(pthread_self(), "nccl-watch");
    self->run();
  });
}

void nccl_watch::under_way(const char* what, event_ptr started, event_ptr finished,
                           std::chrono::milliseconds limit) {
  std::lock_guard lock(mutex_);
  under_way_.push_back({what, std::move(started), std::move(finished), limit, {}});
}

void nccl_watch::fail(const error& e) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) return;
    failure_ = e;
  }
  changed_.notify_all();
}

status nccl_watch::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void nccl_watch::run() {
  std::unique_lock lock(mutex_);
  for (bool last = false; !last && failure_;) {
    changed_.wait_for(lock, options_.period, [this] { return stopping_ || !failure_; });
    if (!failure_) break;  // the driver may be busy with what another group waits for
    last = stopping_;
    if (auto wrong = look()) failure_ = *wrong;  // NCW-4
  }
  const bool in_order = failure_ && under_way_.empty();
  if (!in_order && failure_)
    failure_ = error{errc::cancelled, fmt::format("group {} was ended", options_.name)};
  lock.unlock();
  end_all(in_order);
  lock.lock();
  under_way_.clear();
  ended_ = true;
  changed_.notify_all();
}

/// Forgets what has finished; says what is wrong.
std::optional<error> nccl_watch::look() {
  const auto now = clock::now();
  for (auto o = under_way_.begin(); o != under_way_.end();) {
    if (o->finished->done()) {
      o = under_way_.erase(o);
      continue;
    }
    if (!o->seen && o->started->done()) o->seen = now;
    if (o->seen && now - *o->seen > o->limit)
      return error{errc::timeout,
                   fmt::format("group {}: {} has not finished within {} ms", options_.name, o->what,
                               o->limit.count()),
                   "a peer has died or is far behind"};
    ++o;
  }
  for (auto& c : channels_)
    if (auto state = c->health(); !state) return state.error();
  return {};
}

void nccl_watch::end_all(bool in_order) {
  const auto deadline = clock::now() + options_.close_limit / 2;
  for (auto& c : channels_)
    if (!in_order || !c->close(deadline)) return abort_all();
}

void nccl_watch::abort_all() {
  (void)library_.group_start();  // NCW-2
  for (auto& c : channels_)
    if (auto comm = c->take()) (void)library_.abort(comm);
  (void)library_.group_end();
  for (auto& c : channels_) c->let_go();
}

void nccl_watch::stop() {
  if (!thread_.joinable()) return end_all(false);
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  if (changed_.wait_for(lock, options_.close_limit, [this] { return ended_; })) {
    lock.unlock();
    thread_.join();
  } else {
    thread_.detach();  // NCW-3: it holds a share of this
  }
}

}  // namespace troupe::gpu::cuda

// A queue and its thread, which may outlast the object.
#include "apps/power/background.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe::apps::power_verb {

struct background::shared {
  size_t room = 0;
  mutable std::mutex mutex;
  std::condition_variable news;           // for the thread
  mutable std::condition_variable quiet;  // for settle()
  std::deque<std::function<void()>> waiting;
  bool working = false;
  bool closed = false;

  bool is_quiet() const { return waiting.empty() && !working; }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      news.wait(lock, [this] { return closed || !waiting.empty(); });
      if (waiting.empty()) return;
      auto task = std::exchange(waiting.front(), {});
      waiting.pop_front();
      working = true;
      lock.unlock();
      task();
      task = {};
      lock.lock();
      working = false;
      if (is_quiet()) quiet.notify_all();
    }
  }
};

background::background(size_t room) : shared_(std::make_shared<shared>()) {
  shared_->room = room;
  std::thread([mine = shared_] { mine->work(); }).detach();
}

background::~background() {
  std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->news.notify_all();
}

bool background::put(std::function<void()> task) {
  std::lock_guard lock(shared_->mutex);
  if (shared_->waiting.size() >= shared_->room) return false;
  shared_->waiting.push_back(std::move(task));
  shared_->news.notify_one();
  return true;
}

bool background::settle(std::chrono::milliseconds patience) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->quiet.wait_for(lock, patience, [this] { return shared_->is_quiet(); });
}

}  // namespace troupe::apps::power_verb

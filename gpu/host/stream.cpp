// The host stream's queue, events and poisoning; see stream.hpp.
#include "gpu/host/stream.hpp"

#include <unistd.h>

#include <cassert>
#include <cstring>
#include <exception>
#include <memory>

#include "io/base/memory_account.hpp"

namespace troupe::gpu::host {
namespace {

class host_event final : public event {
 public:
  bool done() const noexcept override { return done_.load(std::memory_order_acquire) != 0; }
  void wait_on_host() const override { done_.wait(0, std::memory_order_acquire); }
  void complete() noexcept {
    done_.store(1, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::atomic<int> done_{0};
};

/// Bytes one thread copies or clears at a time: large enough to amortise the hand-out.
constexpr int64_t memory_grain = 256 * 1024;

}  // namespace

host_stream::host_stream(device& owner, const stream_options& options)
    : owner_(owner),
      name_(options.name),
      team_(options.threads < 1 ? 1 : options.threads, options.name),
      thread_([this] { work(); }) {}

host_stream::~host_stream() {
  assert(std::this_thread::get_id() != thread_.get_id());
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_one();
  }
  thread_.join();  // HST-2
}

void host_stream::push(task<host_stream> t) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(t));
    has_work_.store(true, std::memory_order_relaxed);
    wake = std::exchange(sleeping_, false);
  }
  if (wake) wake_.notify_one();
}

bool host_stream::take_queue() {
  for (int spin = 0; spin < spin_limit && !has_work_.load(std::memory_order_relaxed); ++spin) {
    cpu_relax();
  }
  std::unique_lock lock(mutex_);
  while (queue_.empty() && !stop_) {
    sleeping_ = true;
    wake_.wait(lock);
  }
  sleeping_ = false;
  has_work_.store(false, std::memory_order_relaxed);
  batch_.swap(queue_);
  return !batch_.empty();
}

void host_stream::work() {
  name_this_thread(name_);
  while (take_queue()) {
    for (auto& t : batch_) t(*this);
    batch_.clear();
  }
}

void host_stream::fail_with_current_exception() noexcept {
  try {
    throw;
  } catch (const io::memory_refused& e) {
    state_ = e.why;
  } catch (const std::bad_alloc&) {
    state_ = error(errc::no_memory, "stream " + name_ + ": out of memory",
                   "use a smaller batch, or a machine with more memory");
  } catch (const std::exception& e) {
    state_ = error(errc::bug, "stream " + name_ + ": " + e.what());
  } catch (...) {
    state_ = error(errc::bug, "stream " + name_ + ": an operation threw something unknown");
  }
}

event_ptr host_stream::record() {
  auto point = std::make_shared<host_event>();
  push([point](host_stream&) { point->complete(); });
  return point;
}

void host_stream::wait(event_ptr point) {
  if (point == nullptr) return;
  push([point = std::move(point)](host_stream&) {
    for (int spin = 0; spin < spin_limit && !point->done(); ++spin) cpu_relax();
    point->wait_on_host();
  });
}

void host_stream::notify(std::function<void(const status&)> fn) {
  push([fn = std::move(fn)](host_stream& self) {
    try {
      fn(self.state_);
    } catch (...) {
      if (self.state_) self.fail_with_current_exception();
    }
  });
}

void host_stream::host_task(std::function<status()> fn) {
  enqueue([fn = std::move(fn)](compute_context&) { return fn(); });
}

void host_stream::copy(void* destination, const void* source, size_t bytes) {
  enqueue([=](compute_context& context) {
    context.team.split(static_cast<int64_t>(bytes), memory_grain, [&](int64_t b, int64_t e, int) {
      std::memcpy(static_cast<char*>(destination) + b, static_cast<const char*>(source) + b,
                  static_cast<size_t>(e - b));
    });
  });
}

void host_stream::zero(void* destination, size_t bytes) {
  enqueue([=](compute_context& context) {
    context.team.split(static_cast<int64_t>(bytes), memory_grain, [&](int64_t b, int64_t e, int) {
      std::memset(static_cast<char*>(destination) + b, 0, static_cast<size_t>(e - b));
    });
  });
}

std::vector<int> host_stream::host_threads() {
  assert(std::this_thread::get_id() != thread_.get_id());
  std::vector<int> out(static_cast<size_t>(team_.threads()));
  auto reached = std::make_shared<host_event>();
  push([&out, reached](host_stream& self) {
    self.team_.run([&](int member, int) { out[static_cast<size_t>(member)] = ::gettid(); });
    reached->complete();
  });
  reached->wait_on_host();
  return out;
}

status host_stream::synchronize() {
  assert(std::this_thread::get_id() != thread_.get_id());
  status outcome;
  auto reached = std::make_shared<host_event>();
  push([&outcome, reached](host_stream& self) {
    outcome = std::exchange(self.state_, status{});
    reached->complete();
  });
  reached->wait_on_host();
  return outcome;
}

}  // namespace troupe::gpu::host

// Submission, notifications and poisoning of CUDA streams; see stream.hpp.
#include "gpu/cuda/stream.hpp"

#include <cassert>
#include <cstring>
#include <exception>
#include <system_error>
#include <vector>

namespace troupe::gpu::cuda {

result<std::unique_ptr<cuda_stream>> cuda_stream::make(device& owner, int ordinal,
                                                       std::shared_ptr<event_pool> pool,
                                                       const stream_options& options) {
  TROUPE_CUDA_TRY(cudaSetDevice(ordinal));
  int least = 0, greatest = 0;  // numerically least >= greatest
  TROUPE_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const int priority = options.name.starts_with("compute") ? least : greatest;
  cudaStream_t raw = nullptr;
  TROUPE_CUDA_TRY(cudaStreamCreateWithPriority(&raw, cudaStreamNonBlocking, priority));
  try {
    return std::unique_ptr<cuda_stream>(
        new cuda_stream(owner, ordinal, std::move(pool), options, raw));
  } catch (const std::system_error& e) {
    forget(cudaStreamDestroy(raw));
    return error(errc::unavailable, std::string("cannot start a stream's threads: ") + e.what(),
                 "raise the limit on threads (ulimit -u)");
  }
}

cuda_stream::cuda_stream(device& owner, int ordinal, std::shared_ptr<event_pool> pool,
                         const stream_options& options, cudaStream_t raw)
    : owner_(owner),
      ordinal_(ordinal),
      pool_(std::move(pool)),
      timed_(std::make_shared<event_pool>(ordinal, cudaEventDefault)),
      name_(options.name),
      replays_(options.replay),
      raw_(raw),
      teller_([this] { tell_all(); }) {
  try {
    submitter_ = std::thread([this] { submit_all(); });
  } catch (...) {
    notices_.close();
    teller_.join();
    throw;
  }
}

cuda_stream::~cuda_stream() {  // CST-4
  assert(std::this_thread::get_id() != submitter_.get_id());
  assert(std::this_thread::get_id() != teller_.get_id());
  forget(cudaSetDevice(ordinal_));
  queue_.close();
  submitter_.join();
  notices_.close();
  teller_.join();
  forget(cudaStreamSynchronize(raw_));
  forget(cudaStreamDestroy(raw_));
}

// -- errors --------------------------------------------------------------------------------------

void cuda_stream::fail(const error& e) {
  keep(e.within("stream " + name_));
}

/// The error of one who knows what it was doing stays as it is.
void cuda_stream::keep(const error& e) {
  std::lock_guard lock(state_mutex_);
  if (state_) state_ = e;  // CST-3
  poisoned_.store(true, std::memory_order_release);
}

void cuda_stream::fail_with_current_exception(const char* what) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    fail(error(errc::no_memory, std::string(what) + ": out of host memory",
               "use a smaller batch, or a machine with more memory"));
  } catch (const std::exception& e) {
    fail(error(errc::bug, std::string(what) + ": " + e.what()));
  } catch (...) {
    fail(error(errc::bug, std::string(what) + " threw something unknown"));
  }
}

status cuda_stream::state() const {
  if (!poisoned_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(state_mutex_);
  return state_;
}

// -- calls ---------------------------------------------------------------------------------------

event_ptr cuda_stream::record() {
  auto point = std::make_shared<cuda_event>(pool_);
  queue_.put([point](cuda_stream& self) {
    if (status s = point->record(self.raw_, self.before_); !s) self.fail(s.error());
  });
  return point;
}

void cuda_stream::wait(event_ptr point) {
  if (point == nullptr) return;
  queue_.put([point = std::move(point)](cuda_stream& self) { self.submit_wait(point); });
}

void cuda_stream::notify(std::function<void(const status&)> fn) {
  queue_.put(
      [fn = std::move(fn)](cuda_stream& self) mutable { self.submit_notice(std::move(fn)); });
}

void cuda_stream::verify(std::function<status()> fn) {
  notify([this, fn = std::move(fn)](const status& so_far) {
    if (!so_far) return;
    verified_ = fn();
    if (!verified_) keep(verified_.error());
  });
}

void cuda_stream::host_task(std::function<status()> fn) {
  queue_.put([fn = std::move(fn)](cuda_stream& self) {
    self.guarded("host task", [&] { return self.drain(); });
    if (self.poisoned_.load(std::memory_order_acquire)) return;
    try {
      if (status s = fn(); !s) self.keep(s.error());
    } catch (...) {
      self.fail_with_current_exception("host task");
    }
  });
}

void cuda_stream::copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  queue_.put([=](cuda_stream& self) {
    self.guarded("copy", [&] { return self.submit_copy(destination, source, bytes); });
  });
}

void cuda_stream::zero(void* destination, size_t bytes) {
  if (bytes == 0) return;
  queue_.put([=](cuda_stream& self) {
    self.guarded("zero", [&] { return self.submit_zero(destination, bytes); });
  });
}

void cuda_stream::measure(const std::function<void()>& enqueue, std::function<void(double)> done,
                          time_kind) {
  auto span = std::make_shared<timed_span>();
  queue_.put([span](cuda_stream& self) {
    self.guarded("measure", [&] { return span->begin(self.raw_); });
  });
  enqueue();
  queue_.put(
      [span](cuda_stream& self) { self.guarded("measure", [&] { return span->end(self.raw_); }); });
  notify([span, done = std::move(done)](const status& s) { done(s ? span->seconds() : 0); });
}

void cuda_stream::stamp(std::function<void(double)> fn) {
  auto point = std::make_shared<timed_point>(timed_);
  queue_.put([point](cuda_stream& self) {
    self.guarded("stamp", [&] { return point->record(self.raw_); });
  });
  notify([this, point, fn = std::move(fn)](const status&) { fn(stamped(point)); });
}

void cuda_stream::replay(uint64_t key, const std::function<void()>& enqueue) {
  if (!replays_) return enqueue();
  int before = 0;
  {
    std::lock_guard lock(replays_mutex_);
    before = replayed_[key]++;
  }
  if (before == 0) return enqueue();
  if (before > 1) {
    queue_.put([key](cuda_stream& self) {
      self.guarded("replay", [&] { return self.graphs_.launch(self.raw_, key); });
    });
    return;
  }
  queue_.put([](cuda_stream& self) {
    self.guarded("replay", [&] { return self.graphs_.begin(self.raw_); });
  });
  enqueue();
  queue_.put([key](cuda_stream& self) {
    // Also when an operation failed: a capture must not stay open (GRA-1).
    const bool failed = self.poisoned_.load(std::memory_order_acquire);
    if (status s = self.graphs_.end(self.raw_, key, failed); !s) self.fail(s.error());
    if (!self.poisoned_.load(std::memory_order_acquire)) return;
    std::lock_guard lock(self.replays_mutex_);
    self.replayed_.erase(key);  // once the error is cleared it may be tried again
  });
}

status cuda_stream::synchronize() {
  assert(std::this_thread::get_id() != submitter_.get_id());
  assert(std::this_thread::get_id() != teller_.get_id());
  status outcome;
  host_mark reached;
  queue_.put([&](cuda_stream& self) {
    if (status s = self.drain(); !s) self.fail(s.error());
    {
      std::lock_guard lock(self.state_mutex_);
      outcome = std::exchange(self.state_, status{});
      self.verified_ = {};  // the telling thread has nothing left to tell
      self.poisoned_.store(false, std::memory_order_release);
    }
    reached.set();
  });
  reached.wait();
  return outcome;
}

// -- the stream's thread -------------------------------------------------------------------------

void cuda_stream::submit_all() {
  host::name_this_thread(name_);
  if (status s = checked(cudaSetDevice(ordinal_), "cudaSetDevice"); !s) fail(s.error());
  std::vector<host::task<cuda_stream>> batch;
  for (;;) {
    while (queue_.take(batch)) {
      for (auto& t : batch) t(*this);  // CST-1
      batch.clear();
    }
    if (before_.empty()) return;
    await_host();  // a callback under way may enqueue once more (CST-4)
  }
}

void cuda_stream::submit_wait(const event_ptr& point) {
  const auto* ours = dynamic_cast<const cuda_event*>(point.get());
  if (ours == nullptr) return point->wait_on_host();  // of another back end: the host has to wait
  if (status s = ours->submit_wait(raw_); !s) {
    fail(s.error());
    point->wait_on_host();  // what follows keeps its order all the same
  }
  for (const auto& mark : ours->before()) {  // CST-2
    if (!mark->done()) before_.push_back(mark);
  }
}

void cuda_stream::submit_notice(std::function<void(const status&)> fn) {
  auto point = std::make_shared<cuda_event>(pool_);
  notice n{std::move(fn), state(), point, std::exchange(before_, {}),
           std::make_shared<host_mark>()};
  before_.push_back(n.mark);
  if (status s = point->record(raw_, {}); !s) {
    fail(s.error());
    if (n.state) n.state = state();
  }
  notices_.put(std::move(n));
}

status cuda_stream::submit_copy(void* destination, const void* source, size_t bytes) {
  TROUPE_TRY(to, kind_of(destination));
  TROUPE_TRY(from, kind_of(source));
  if (to != memory_kind::device && from != memory_kind::device) {
    TROUPE_CHECK(drain());  // the runtime copies between host memories at once, whatever is queued
    std::memcpy(destination, source, bytes);
    return {};
  }
  if (to == memory_kind::pageable || from == memory_kind::pageable) await_host();  // CST-2
  return checked(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, raw_),
                 "cudaMemcpyAsync");
}

status cuda_stream::submit_zero(void* destination, size_t bytes) {
  TROUPE_TRY(where, kind_of(destination));
  if (where == memory_kind::device) {
    return checked(cudaMemsetAsync(destination, 0, bytes, raw_), "cudaMemsetAsync");
  }
  TROUPE_CHECK(drain());
  std::memset(destination, 0, bytes);
  return {};
}

/// Waits for the notifications before this point, own and of streams waited for.
void cuda_stream::await_host() noexcept {
  for (const auto& mark : before_) mark->wait();
  before_.clear();
}

/// Waits for everything before this point.
status cuda_stream::drain() {
  status s = checked(cudaStreamSynchronize(raw_), "cudaStreamSynchronize");
  await_host();
  return s;
}

// -- the telling thread --------------------------------------------------------------------------

void cuda_stream::tell_all() {
  host::name_this_thread(name_ + " told");
  forget(cudaSetDevice(ordinal_));  // callbacks may use the device; the submitter tells if it fails
  std::vector<notice> batch;
  while (notices_.take(batch)) {
    for (auto& n : batch) tell(n);
    batch.clear();
  }
}

/// Added up from one to the next: between two events the device tells a float, which is exact for
/// a step and not for a run.
double cuda_stream::stamped(const std::shared_ptr<timed_point>& point) {
  if (!point->recorded()) return stamped_ms_;
  if (stamped_) stamped_ms_ += point->ms_since(*stamped_);
  stamped_ = point;
  return stamped_ms_;
}

void cuda_stream::tell(notice& n) {
  if (status s = n.point->await_device(); !s) {
    fail(s.error());
    if (n.state) n.state = state();  // CST-3
  }
  for (const auto& mark : n.before) mark->wait();  // CST-2
  if (n.state && !verified_) n.state = verified_;  // CST-3
  try {
    n.fn(n.state);
  } catch (...) {
    fail_with_current_exception("notification");
  }
  n.fn = nullptr;  // what it holds is gone before anyone hears that it has returned
  n.mark->set();
}

}  // namespace troupe::gpu::cuda

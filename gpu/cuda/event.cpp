// Recording, waiting and reuse of the device's events; see event.hpp.
#include "gpu/cuda/event.hpp"

#include <utility>

#include "gpu/cuda/check.hpp"

namespace troupe::gpu::cuda {

void event_pool::enter() const noexcept {
  forget(cudaSetDevice(ordinal_));
}

event_pool::~event_pool() {
  if (!free_.empty()) enter();
  for (cudaEvent_t raw : free_) forget(cudaEventDestroy(raw));
}

result<cudaEvent_t> event_pool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      cudaEvent_t raw = free_.back();
      free_.pop_back();
      return raw;
    }
  }
  cudaEvent_t raw = nullptr;
  TROUPE_CUDA_TRY(cudaEventCreateWithFlags(&raw, flags_));
  return raw;
}

void event_pool::give(cudaEvent_t raw) noexcept {
  try {
    std::lock_guard lock(mutex_);
    free_.push_back(raw);
  } catch (...) {  // no memory to remember it by
    enter();
    forget(cudaEventDestroy(raw));
  }
}

cuda_event::~cuda_event() {
  if (raw_ != nullptr) pool_->give(raw_);  // EVT-3
}

void cuda_event::publish(phase p) noexcept {
  phase_.store(p, std::memory_order_release);
  phase_.notify_all();
}

status cuda_event::record(cudaStream_t s, host_marks before) {
  before_ = std::move(before);
  auto taken = pool_->take();
  status outcome;
  if (taken) {
    raw_ = *taken;
    outcome = checked(cudaEventRecord(raw_, s), "cudaEventRecord");
  } else {
    outcome = taken.error();
  }
  if (!outcome) forget(cudaStreamSynchronize(s));  // EVT-2
  publish(outcome ? recorded : passed);
  return outcome;
}

status cuda_event::submit_wait(cudaStream_t s) const {
  phase_.wait(pending, std::memory_order_acquire);
  if (phase_.load(std::memory_order_acquire) == passed) return {};
  return checked(cudaStreamWaitEvent(s, raw_, 0), "cudaStreamWaitEvent");
}

status cuda_event::await_device() const {
  phase_.wait(pending, std::memory_order_acquire);
  if (phase_.load(std::memory_order_acquire) == passed) return {};
  pool_->enter();
  auto outcome = checked(cudaEventSynchronize(raw_), "cudaEventSynchronize");
  phase_.store(passed, std::memory_order_release);
  return outcome;
}

bool cuda_event::device_passed() const noexcept {
  const int now = phase_.load(std::memory_order_acquire);
  if (now != recorded) return now == passed;
  pool_->enter();
  const cudaError_t state = cudaEventQuery(raw_);
  forget(state);
  if (state == cudaErrorNotReady) return false;
  phase_.store(passed, std::memory_order_release);  // a lost device has passed every point (DEV-3)
  return true;
}

bool cuda_event::done() const noexcept {
  if (!device_passed()) return false;
  for (const auto& mark : before_) {  // EVT-1
    if (!mark->done()) return false;
  }
  return true;
}

void cuda_event::wait_on_host() const {
  static_cast<void>(await_device());              // its stream is told by its own calls
  for (const auto& mark : before_) mark->wait();  // EVT-1
}

timed_point::~timed_point() {
  if (raw_ != nullptr) pool_->give(raw_);
}

status timed_point::record(cudaStream_t s) {
  TROUPE_TRY(taken, pool_->take());
  if (auto noted = checked(cudaEventRecord(taken, s), "cudaEventRecord"); !noted) {
    pool_->give(taken);
    return noted;
  }
  raw_ = taken;
  return {};
}

double timed_point::ms_since(const timed_point& earlier) const noexcept {
  float ms = 0;
  if (cudaEventElapsedTime(&ms, earlier.raw_, raw_) != cudaSuccess) return 0;
  return double{ms};
}

timed_span::~timed_span() {
  if (begin_) forget(cudaEventDestroy(begin_));
  if (end_) forget(cudaEventDestroy(end_));
}

status timed_span::begin(cudaStream_t s) {
  TROUPE_CUDA_TRY(cudaEventCreate(&begin_));
  TROUPE_CUDA_TRY(cudaEventCreate(&end_));
  TROUPE_CUDA_TRY(cudaEventRecord(begin_, s));
  return {};
}

status timed_span::end(cudaStream_t s) {
  TROUPE_CUDA_TRY(cudaEventRecord(end_, s));
  return {};
}

double timed_span::seconds() const noexcept {
  float ms = 0;
  if (!end_ || cudaEventElapsedTime(&ms, begin_, end_) != cudaSuccess) return 0;
  return double{ms} / 1e3;
}

}  // namespace troupe::gpu::cuda

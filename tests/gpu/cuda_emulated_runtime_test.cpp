// The emulated CUDA runtime itself: what it refuses, and that it is as asynchronous as the real
// one.
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/cuda/check.hpp"
#include "tests/gpu/emulator/runtime.hpp"

using namespace troupe::gpu::cuda;

namespace {

/// Collects what the runtime complains of; afterwards it is as before.
struct complaints {
  std::vector<std::string> all;
  std::mutex mutex;
  emulator::live_objects before = emulator::live();

  complaints() {
    emulator::on_misuse([this](const std::string& what) {
      std::lock_guard lock(mutex);
      all.push_back(what);
    });
  }
  ~complaints() {
    emulator::reset();
    CHECK(emulator::live() == before);
  }
  bool heard(const char* part) {
    std::lock_guard lock(mutex);
    const bool found = all.size() == 1 && all[0].find(part) != std::string::npos;
    std::string said;
    for (const auto& one : all) said += one + "; ";
    INFO(said);
    CHECK(found);
    all.clear();
    return found;
  }
};

cudaStream_t new_stream() {
  cudaStream_t s = nullptr;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0) == cudaSuccess);
  return s;
}

cudaEvent_t new_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t e = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&e, flags) == cudaSuccess);
  return e;
}

template <class T = char>
T* new_memory(size_t count) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, count * sizeof(T)) == cudaSuccess);
  return static_cast<T*>(p);
}

}  // namespace

TEST_CASE("EMR-5: streams and events that are gone, or never were, are refused") {
  complaints c;
  auto s = new_stream(), gone = new_stream();
  auto e = new_event(), dead = new_event();
  CHECK(cudaStreamDestroy(gone) == cudaSuccess);
  CHECK(cudaEventDestroy(dead) == cudaSuccess);
  CHECK(cudaEventRecord(e, gone) != cudaSuccess);
  CHECK(c.heard("does not exist"));
  CHECK(cudaEventRecord(dead, s) != cudaSuccess);
  CHECK(c.heard("does not exist"));
  CHECK(cudaStreamSynchronize(nullptr) != cudaSuccess);
  CHECK(c.heard("default stream"));
  troupe_emulator_enqueue(gone, [] {});
  CHECK(c.heard("a kernel launch on a stream that does not exist"));
  CHECK(cudaStreamDestroy(gone) != cudaSuccess);
  CHECK(c.heard("does not exist"));
  CHECK(cudaStreamWaitEvent(s, e, 0) != cudaSuccess);
  CHECK(c.heard("nobody has recorded"));
  CHECK(cudaGetLastError() != cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  cudaEventDestroy(e);
  cudaStreamDestroy(s);
}

TEST_CASE("EMR-5: copies of freed, too short or wrongly named memory are refused") {
  complaints c;
  auto s = new_stream();
  auto* p = new_memory(100);
  auto* q = new_memory(100);
  std::vector<char> host(200);
  CHECK(cudaMemcpyAsync(p + 1, host.data(), 100, cudaMemcpyDefault, s) != cudaSuccess);
  CHECK(c.heard("100 bytes at offset 1 of a block of 100"));
  CHECK(cudaMemsetAsync(p, 0, 101, s) != cudaSuccess);
  CHECK(c.heard("a block of 100"));
  CHECK(cudaMemsetAsync(host.data(), 0, 1, s) != cudaSuccess);
  CHECK(c.heard("pageable"));
  CHECK(cudaMemcpyAsync(p, host.data(), 10, cudaMemcpyDeviceToDevice, s) != cudaSuccess);
  CHECK(c.heard("the kind of copy"));
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaMemcpyAsync(q, p, 10, cudaMemcpyDefault, s) != cudaSuccess);
  CHECK(c.heard("memory that was freed"));
  CHECK(cudaFree(p) != cudaSuccess);
  CHECK(c.heard("not any more"));
  CHECK(cudaFree(host.data()) != cudaSuccess);
  CHECK(c.heard("not the device's, or not any more"));
  CHECK(cudaFree(q) == cudaSuccess);
  cudaStreamDestroy(s);
}

#if !defined(__SANITIZE_ADDRESS__)  // which stops the program at the write
TEST_CASE("EMR-5: a write beyond the end of device memory shows when it is freed") {
  complaints c;
  auto s = new_stream();
  auto* p = new_memory(100);
  troupe_emulator_enqueue(s, [p] { p[100] = 1; });
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(cudaFree(p) != cudaSuccess);
  CHECK(c.heard("beyond the end"));
  cudaStreamDestroy(s);
}
#endif

TEST_CASE("EMR-3: host functions of all streams share a thread, which may not call the runtime") {
  complaints c;
  auto a = new_stream(), b = new_stream();
  struct note {
    std::thread::id thread;
    cudaError_t told = cudaSuccess;
  } first, second;
  const auto fn = [](void* data) {
    auto* n = static_cast<note*>(data);
    n->thread = std::this_thread::get_id();
    n->told = cudaGetDevice(nullptr);
  };
  CHECK(cudaLaunchHostFunc(a, fn, &first) == cudaSuccess);
  CHECK(cudaStreamSynchronize(a) == cudaSuccess);
  CHECK(c.heard("cudaGetDevice in a host function"));
  CHECK(cudaLaunchHostFunc(b, fn, &second) == cudaSuccess);
  CHECK(cudaStreamSynchronize(b) == cudaSuccess);
  CHECK(c.heard("cudaGetDevice in a host function"));
  CHECK(first.thread == second.thread);
  CHECK(first.told == cudaErrorNotPermitted);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

TEST_CASE(
    "EMR-1: streams run by themselves, events say how far; small pageable copies read at once") {
  complaints c;
  auto a = new_stream(), b = new_stream();
  auto e = new_event();
  auto* p = new_memory<int>(1);
  int from = 1, to = 0;
  std::atomic<int> step{0};
  {
    emulator::pause still;
    CHECK(cudaMemcpyAsync(p, &from, sizeof from, cudaMemcpyDefault, a) == cudaSuccess);
    from = 2;  // too late for the copy
    troupe_emulator_enqueue(a, [&] { step = 1; });
    CHECK(cudaEventRecord(e, a) == cudaSuccess);
    CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
    CHECK(cudaStreamWaitEvent(b, e, 0) == cudaSuccess);
    troupe_emulator_enqueue(b, [&] { step = step == 1 ? 2 : -1; });
    CHECK(cudaEventRecord(e, b) == cudaSuccess);  // another recording: b's wait knows the first
  }
  CHECK(cudaEventSynchronize(e) == cudaSuccess);
  CHECK(step == 2);
  CHECK(cudaMemcpyAsync(&to, p, sizeof to, cudaMemcpyDefault, b) == cudaSuccess);
  CHECK(to == 1);  // a copy to pageable memory returns when it is done
  cudaEventDestroy(e);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(p);
}

TEST_CASE(
    "emulated memory holds NaNs, timed events tell time, failures strike the call they name") {
  complaints c;
  auto s = new_stream();
  auto* p = new_memory<float>(2);
  float seen[2];
  CHECK(cudaMemcpyAsync(seen, p, sizeof seen, cudaMemcpyDeviceToHost, s) == cudaSuccess);
  CHECK(seen[1] != seen[1]);
  auto from = new_event(cudaEventDefault), to = new_event(cudaEventDefault);
  CHECK(cudaEventRecord(from, s) == cudaSuccess);
  CHECK(cudaEventRecord(to, s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, from, to) == cudaSuccess);
  CHECK(ms >= 0);
  emulator::fail_next("cudaMemsetAsync", cudaErrorNotSupported, 1);
  CHECK(cudaMemsetAsync(p, 0, 8, s) == cudaSuccess);
  CHECK(cudaMemsetAsync(p, 0, 8, s) == cudaErrorNotSupported);
  CHECK(cudaPeekAtLastError() == cudaErrorNotSupported);
  CHECK(cudaMemsetAsync(p, 0, 8, s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaFree(p);
  cudaStreamDestroy(s);
}

TEST_CASE("EMR-4: after a failed kernel nothing runs and every call fails, until the reset") {
  complaints c;
  auto s = new_stream();
  auto e = new_event();
  bool ran = false;
  emulator::fail_next_kernel(cudaErrorLaunchFailure);
  troupe_emulator_enqueue(s, [] {});
  troupe_emulator_enqueue(s, [&] { ran = true; });
  CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
  CHECK(cudaEventRecord(e, s) == cudaErrorLaunchFailure);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 1) == cudaErrorLaunchFailure);
  CHECK_FALSE(ran);
  std::thread([&] {  // hears of it only now
    CHECK(cudaSetDevice(0) == cudaErrorLaunchFailure);
    CHECK(cudaEventSynchronize(e) == cudaErrorLaunchFailure);
  }).join();
  CHECK(c.all.empty());
  emulator::reset();
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  cudaEventDestroy(e);
  cudaStreamDestroy(s);
}

TEST_CASE("emulated capture: forks that join, and those that do not") {
  complaints c;
  auto s = new_stream(), side = new_stream();
  auto forked = new_event(), joined = new_event();
  std::vector<int> order;
  cudaGraph_t graph = nullptr;
  for (const bool join : {true, false}) {
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    troupe_emulator_enqueue(s, [&] { order.push_back(1); });
    CHECK(cudaEventRecord(forked, s) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(side, forked, 0) == cudaSuccess);
    troupe_emulator_enqueue(side, [&] { order.push_back(2); });
    CHECK(cudaEventRecord(joined, side) == cudaSuccess);
    if (join) CHECK(cudaStreamWaitEvent(s, joined, 0) == cudaSuccess);
    troupe_emulator_enqueue(s, [&] { order.push_back(3); });
    cudaStreamCaptureStatus status{};
    CHECK(cudaStreamIsCapturing(side, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive);
    const auto ended = cudaStreamEndCapture(s, &graph);
    CHECK(ended == (join ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    CHECK((graph != nullptr) == join);
    if (!join) continue;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, side) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, side) == cudaSuccess);
    CHECK(cudaStreamSynchronize(side) == cudaSuccess);
    CHECK(order == std::vector<int>{1, 2, 3, 1, 2, 3});
    CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  }
  cudaEventDestroy(forked);
  cudaEventDestroy(joined);
  cudaStreamDestroy(side);
  cudaStreamDestroy(s);
}

TEST_CASE("emulated runtime EMR-5: a thread that chose no device may not make a context") {
  complaints c;
  const auto s = new_stream();
  std::thread([&] {
    int device = -1;
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaErrorInvalidDevice);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  }).join();
  CHECK(c.all.size() == 1);
  CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE(
    "emulated capture: calls that would synchronise spoil it, those of other threads do not") {
  complaints c;
  auto s = new_stream();
  auto e = new_event();
  CHECK(cudaEventRecord(e, s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  void* p = nullptr;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  const auto ask = [&] {
    return cudaSetDevice(0) == cudaSuccess ? cudaEventQuery(e) : cudaSuccess;
  };
  std::thread([&] { CHECK(ask() == cudaSuccess); }).join();
  CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  for (int way = 0; way < 3; ++way) {
    REQUIRE(cudaStreamBeginCapture(s, way == 2 ? cudaStreamCaptureModeGlobal
                                               : cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    cudaError_t refused = cudaSuccess;
    if (way == 0) refused = cudaMalloc(&p, 8);
    if (way == 1) refused = cudaStreamSynchronize(s);
    if (way == 2) std::thread([&] { refused = ask(); }).join();
    CHECK(refused == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  cudaEventDestroy(e);
  cudaStreamDestroy(s);
}

TEST_CASE("CHK-3: the first failure that loses a GPU for good is kept, and no other one") {
  static_cast<void>(api_error(cudaErrorMemoryAllocation, "cudaMalloc"));
  static_cast<void>(api_error(cudaErrorNoDevice, "cudaSetDevice"));
  CHECK_FALSE(troupe::gpu::lost_cuda_device());
  const auto first = api_error(cudaErrorECCUncorrectable, "cudaStreamSynchronize");
  static_cast<void>(api_error(cudaErrorLaunchFailure, "cudaLaunchKernel"));
  REQUIRE(troupe::gpu::lost_cuda_device());
  CHECK(troupe::gpu::lost_cuda_device() == first);
}

// CUDA streams when things go wrong: calls that fail, kernels that fail, memory that runs out, a
// device that stands still. All of it needs the emulated runtime, which does so on demand.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/stream.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/device_list.hpp"
#include "tests/gpu/emulator/runtime.hpp"
#include "tests/gpu/pinned.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::cuda;
using troupe::gpu::testing::open_stream;

namespace {

/// A device; afterwards the runtime is as before, and nothing was left behind.
struct bench {
  emulator::live_objects before = emulator::live();
  std::unique_ptr<cuda_device> d = std::move(*cuda_device::open(0));

  ~bench() {
    emulator::reset();
    d.reset();
    CHECK(emulator::live() == before);
  }
  buffer memory(size_t bytes) {
    auto made = d->allocate(bytes);
    REQUIRE(made);
    return std::move(*made);
  }
};

cuda_stream& launches(stream& s) {
  return dynamic_cast<cuda_stream&>(s);
}

/// Gives those who should wait, and may not, a chance to be early.
void dawdle() {
  for (int i = 0; i < 10; ++i) std::this_thread::yield();
}

/// Enqueues a "kernel" that runs `fn`.
template <class F>
void kernel(stream& s, F fn) {
  launches(s).enqueue("kernel", [fn](cudaStream_t raw) { troupe_emulator_enqueue(raw, fn); });
}

}  // namespace

TEST_CASE("cuda: without a driver or a device the refusal says what to do") {
  emulator::set_device_count(0);
  auto count = cuda_device_count();
  REQUIRE_FALSE(count);
  CHECK(count.error().code == errc::unavailable);
  CHECK(is_error(count, "cudaErrorNoDevice"));
  CHECK(count.error().hint.find("nvidia-smi") != std::string::npos);
  emulator::reset();
  emulator::fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  auto made = make_cuda_device(0);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::unavailable);
  CHECK(made.error().hint.find("driver") != std::string::npos);
  emulator::reset();
}

TEST_CASE("opened_cuda_devices: those on which this process has a context, and no others") {
  emulator::set_device_count(4);
  const auto has = [](int ordinal) {
    const auto all = opened_cuda_devices();
    return std::find(all.begin(), all.end(), ordinal) != all.end();
  };
  CHECK_FALSE(has(3));
  emulator::fail_next("cudaSetDevice", cudaErrorInitializationError);
  CHECK_FALSE(make_cuda_device(3));
  CHECK_FALSE(has(3));
  REQUIRE(make_cuda_device(3));
  CHECK(has(3));  // though the device has gone again
  CHECK_FALSE(has(2));
  emulator::reset();
}

TEST_CASE("cuda: a device or stream that fails to open leaves nothing behind") {
  const auto before = emulator::live();
  for (const char* call :
       {"cudaSetDevice", "cudaGetDeviceProperties", "cudaStreamCreateWithPriority"}) {
    INFO("call " << std::string(call));
    emulator::fail_next(call, cudaErrorInitializationError);
    auto opened = cuda_device::open(0);
    REQUIRE_FALSE(opened);
    CHECK(is_error(opened, "cudaErrorInitializationError", call));
    CHECK(emulator::live() == before);
  }
  auto refused = cuda_device::open(0, [](cuda_device&) -> result<std::unique_ptr<gpu::ops>> {
    return error(errc::unavailable, "no ops");
  });
  REQUIRE_FALSE(refused);
  CHECK(emulator::live() == before);
  bench b;
  const auto opened = emulator::live();
  for (const char* call :
       {"cudaSetDevice", "cudaDeviceGetStreamPriorityRange", "cudaStreamCreateWithPriority"}) {
    INFO("call " << std::string(call));
    emulator::fail_next(call, cudaErrorInitializationError);
    auto s = b.d->make_stream({});
    REQUIRE_FALSE(s);
    CHECK(is_error(s, "cudaErrorInitializationError", call));
    CHECK(emulator::live() == opened);
  }
  for (const char* call : {"cudaMalloc", "cudaMemsetAsync"}) {
    INFO("call " << std::string(call));
    emulator::fail_next(call, cudaErrorInvalidValue);
    auto memory = b.d->allocate(100);
    REQUIRE_FALSE(memory);
    CHECK(memory.error().code == errc::bug);
    CHECK(emulator::live() == opened);
  }
}

TEST_CASE("DEV-3: any call of a stream may fail: later work is skipped, events complete") {
  bench b;
  auto s = open_stream(*b.d);
  auto memory = b.memory(sizeof(int));
  const int one = 1;
  for (const char* call : {"cudaMemcpyAsync", "cudaMemsetAsync", "cudaPointerGetAttributes",
                           "cudaEventRecord", "cudaStreamWaitEvent", "cudaStreamSynchronize"}) {
    INFO("call " << std::string(call));
    auto other = open_stream(*b.d, 1, "other");
    s->zero(memory.data(), sizeof(int));
    REQUIRE(s->synchronize());
    auto elsewhere = other->record();
    REQUIRE(other->synchronize());
    emulator::fail_next(call, cudaErrorUnknown);
    s->copy(memory.data(), &one, sizeof one);
    s->zero(memory.data(), sizeof one);
    s->wait(elsewhere);
    s->record();
    s->host_task([] { return status{}; });
    bool ran = false;
    kernel(*s, [&ran] { ran = true; });
    status heard;
    s->notify([&](const status& state) { heard = state; });
    auto point = s->record();
    point->wait_on_host();
    CHECK(point->done());
    CHECK(is_error(heard, "cudaErrorUnknown", "compute", call));
    CHECK_FALSE(ran);
    auto outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error() == heard.error());
    s->copy(memory.data(), &one, sizeof one);
    int back = 0;
    s->copy(&back, memory.data(), sizeof back);
    REQUIRE(s->synchronize());
    CHECK(back == 1);
  }
}

TEST_CASE("DEV-2: order is kept where an event cannot be made, recorded or waited for") {
  for (const char* call : {"cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent"}) {
    INFO("call " << std::string(call));
    bench b;
    auto first = open_stream(*b.d, 1, "first");
    auto second = open_stream(*b.d, 1, "second");
    int value = 0;
    emulator::fail_next(call, cudaErrorMemoryAllocation);
    int seen = 0;
    {
      emulator::pause still;
      kernel(*first, [&value] {
        dawdle();
        value = 1;
      });
      second->wait(first->record());
      second->notify([&](const status&) { seen = value; });
    }
    const auto a = first->synchronize(), c = second->synchronize();
    CHECK(seen == 1);
    CHECK(a.has_value() + c.has_value() == 1);
  }
}

TEST_CASE("DEV-3: a kernel that fails loses the device, and everyone hears of it") {
  bench b;
  auto s = open_stream(*b.d), other = open_stream(*b.d, 1, "other");
  auto memory = b.memory(64);
  std::atomic<int> ran{0};
  status heard, elsewhere;
  emulator::fail_next_kernel(cudaErrorIllegalAddress);
  kernel(*s, [&ran] { ++ran; });
  kernel(*s, [&ran] { ++ran; });
  s->notify([&](const status& state) { heard = state; });
  auto point = s->record();
  other->wait(point);
  other->zero(memory.data(), 64);
  other->notify([&](const status& state) { elsewhere = state; });
  other->record()->wait_on_host();
  point->wait_on_host();
  CHECK(point->done());
  CHECK(ran == 0);
  REQUIRE_FALSE(heard);
  REQUIRE_FALSE(elsewhere);
  CHECK(is_error(heard, "cudaErrorIllegalAddress"));
  CHECK(heard.error().code == errc::unavailable);  // CHK-4: a recovery mends it
  CHECK(heard.error().hint.find("start it again") != std::string::npos);
  CHECK_FALSE(s->synchronize());
  CHECK_FALSE(s->synchronize());  // it does not come back
  CHECK_FALSE(b.d->allocate(10));
  CHECK_FALSE(b.d->make_stream({}));
}

TEST_CASE("DEV-1: a device that stands still holds up nobody, whatever is enqueued") {
  bench b;
  auto s = open_stream(*b.d), copies = open_stream(*b.d, 1, "copies");
  auto memory = b.memory(size_t{1} << 20);
  std::vector<char> large(size_t{1} << 20, 1), small(100, 1);
  std::atomic<int> told{0};
  event_ptr last;
  {
    emulator::pause still;
    for (int i = 0; i < 300; ++i) {
      s->copy(memory.data(), large.data(), large.size());  // pageable: blocks whoever submits it
      s->copy(small.data(), memory.data(), small.size());
      kernel(*s, [] {});
      s->notify([&told](const status&) { ++told; });
      s->host_task([] { return status{}; });
      copies->wait(s->record());
      copies->zero(memory.data(), 10);
      s->wait(copies->record());
    }
    last = s->record();
    CHECK_FALSE(last->done());
    CHECK(told == 0);
  }
  last->wait_on_host();
  CHECK(told == 300);
  REQUIRE(s->synchronize());
  REQUIRE(copies->synchronize());
}

TEST_CASE("CST-2: kernels do not wait for notifications, what the host sees does") {
  bench b;
  auto s = open_stream(*b.d);
  auto memory = b.memory(sizeof(int));
  auto pinned = std::move(*allocate_pinned(sizeof(int)));
  std::atomic<bool> release{false}, kernel_ran{false};
  std::atomic<int> later{0};
  int plain = 7;
  s->notify([&](const status&) { release.wait(false); });
  auto after = s->record();
  kernel(*s, [&] {
    kernel_ran = true;
    kernel_ran.notify_all();
  });
  s->copy(memory.data(), pinned.data(), sizeof(int));
  s->copy(&plain, memory.data(), sizeof(int));
  s->notify([&](const status&) { later = plain + 1; });
  kernel_ran.wait(false);  // while the notification has not returned
  CHECK_FALSE(after->done());
  CHECK(later == 0);
  release = true;
  release.notify_all();
  REQUIRE(s->synchronize());
  CHECK(after->done());
  CHECK(later == 1);
  CHECK(plain == 0);
}

TEST_CASE("CST-2: a pageable source is not read before the notifications in front of it") {
  bench b;
  auto s = open_stream(*b.d);
  constexpr int rounds = 200;
  auto memory = b.memory(rounds * sizeof(int));
  int source = -1;
  for (int i = 0; i < rounds; ++i) {
    s->notify([&source, i](const status&) { source = i; });
    s->copy(memory.as<int>() + i, &source, sizeof source);
  }
  std::vector<int> seen(rounds), expected(rounds);
  s->copy(seen.data(), memory.data(), memory.bytes());
  REQUIRE(s->synchronize());
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(seen == expected);
}

TEST_CASE("CST-2: notifications wait for those of a stream that was waited for") {
  bench b;
  auto first = open_stream(*b.d, 1, "first"), second = open_stream(*b.d, 1, "second");
  int wrong = 0;
  for (int i = 0; i < 10; ++i) {
    std::atomic<bool> device_went_on{false}, told{false};
    first->notify([&](const status&) {
      device_went_on.wait(false);
      dawdle();
      told = true;
    });
    second->wait(first->record());
    kernel(*second, [&] {
      device_went_on = true;
      device_went_on.notify_all();
    });
    second->notify([&](const status&) { wrong += !told; });
    REQUIRE(second->synchronize());
  }
  CHECK(wrong == 0);
}

TEST_CASE("CST-3: a notification hears of what failed before it, not of what failed after") {
  bench b;
  auto s = open_stream(*b.d);
  std::atomic<bool> failed{false}, ran{false};
  std::vector<bool> heard;
  {
    emulator::pause still;
    s->notify([&](const status& state) { heard.push_back(state.has_value()); });
    launches(*s).enqueue("fails", [&](cudaStream_t) {
      failed = true;
      failed.notify_all();
      return cudaErrorInvalidValue;
    });
    launches(*s).enqueue("is skipped", [&](cudaStream_t) { ran = true; });
    s->notify([&](const status& state) { heard.push_back(state.has_value()); });
    failed.wait(false);  // submitted, while the device has not come to the first notification
  }
  CHECK_FALSE(s->synchronize());
  CHECK(heard == std::vector<bool>{true, false});
  CHECK_FALSE(ran);
}

TEST_CASE("CST-4: a stream that is destroyed runs what its callbacks still enqueue") {
  bench b;
  int rounds = 0;
  {
    auto s = open_stream(*b.d);
    auto* raw = s.get();
    raw->notify([&, raw](const status&) {
      kernel(*raw, [&rounds] { ++rounds; });
      raw->notify([&, raw](const status&) { kernel(*raw, [&rounds] { ++rounds; }); });
    });
    s->host_task([] { return status{}; });
  }
  CHECK(rounds == 2);
}

TEST_CASE("cuda memory: a full device refuses with the numbers, freed memory comes back") {
  bench b;
  emulator::set_memory_limit(size_t{1} << 20);
  auto half = b.memory(size_t{1} << 19);
  auto refused = b.d->allocate((size_t{1} << 19) + 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::no_memory);
  CHECK(is_error(refused, "cudaErrorMemoryAllocation", "device", 524289, 524288, 1048576));
  half = buffer{};
  CHECK(b.d->allocate((size_t{1} << 19) + 1));
}

TEST_CASE("CDV-1: two devices in one process, from one thread") {
  emulator::set_device_count(2);
  const auto before = emulator::live();
  {
    auto first = std::move(*cuda_device::open(0)), second = std::move(*cuda_device::open(1));
    auto a = open_stream(*first, 1, "a"), c = open_stream(*second, 1, "c");
    auto x = std::move(*first->allocate(400)), y = std::move(*second->allocate(400));
    std::vector<int> from(100), to(100);
    std::iota(from.begin(), from.end(), 0);
    a->copy(x.data(), from.data(), 400);
    c->wait(a->record());
    c->copy(y.data(), x.data(), 400);  // peer to peer
    a->wait(c->record());
    a->copy(to.data(), y.data(), 400);
    REQUIRE(a->synchronize());
    REQUIRE(c->synchronize());
    CHECK(to == from);
  }
  CHECK(emulator::live() == before);
  emulator::reset();
}

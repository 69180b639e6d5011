// The CUDA device beyond the promises of device.hpp: kinds of memory, launches, working memory,
// graphs. On the emulated device, and on a real one where there is one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/cuda/kernels/launch.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/stream.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/device_list.hpp"
#include "tests/gpu/pinned.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::cuda;
using troupe::gpu::testing::on_every_device;
using troupe::gpu::testing::open_stream;

namespace {

cuda_stream& launches(stream& s) {
  return dynamic_cast<cuda_stream&>(s);
}

buffer take(result<buffer> made) {
  REQUIRE(made);
  return std::move(*made);
}

/// `count` floats on the device, equal to `value`.
buffer floats(device& d, stream& s, size_t count, float value) {
  auto memory = take(d.allocate(count * sizeof(float)));
  const std::vector<float> from(count, value);
  s.copy(memory.data(), from.data(), memory.bytes());
  REQUIRE(s.synchronize());
  return memory;
}

std::vector<float> read(stream& s, const buffer& memory) {
  std::vector<float> to(memory.bytes() / sizeof(float));
  s.copy(to.data(), memory.data(), memory.bytes());
  REQUIRE(s.synchronize());
  return to;
}

}  // namespace

TEST_CASE("cuda facts: name, compute capability, memory that host code may not touch") {
  on_every_device([](device& d) {
    CHECK(d.facts().name.find(", sm_") != std::string::npos);
    CHECK(d.facts().instruction_set.starts_with("sm_"));
    CHECK_FALSE(d.host_accessible());
  });
}

TEST_CASE("cuda: a device that is not there is refused with the count and a hint") {
  for (int ordinal : {-1, 1000}) {
    auto opened = cuda_device::open(ordinal);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == errc::unavailable);
    CHECK_FALSE(opened.error().hint.empty());
  }
}

TEST_CASE("cuda memory: kinds are told apart, inside of a block too") {
  on_every_device([](device& d) {
    auto on_device = take(d.allocate(1000));
    auto pinned = take(allocate_pinned(1000));
    std::vector<char> plain(1000);
    CHECK(*kind_of(on_device.as<char>() + 999) == memory_kind::device);
    CHECK(*kind_of(pinned.as<char>() + 999) == memory_kind::pinned);
    CHECK(*kind_of(plain.data() + 999) == memory_kind::pageable);
    CHECK(*kind_of(nullptr) == memory_kind::pageable);
    CHECK(std::count(pinned.as<char>(), pinned.as<char>() + 1000, 0) == 1000);
    CHECK(allocate_pinned(0));
  });
}

TEST_CASE("cuda copy: between every two kinds of memory, short and long") {
  on_every_device([](device& d) {
    auto s = open_stream(d, 1, "copy");
    for (size_t bytes : {size_t{5}, size_t{64} << 10, (size_t{1} << 20) + 1}) {
      std::vector<unsigned char> expected(bytes);
      for (size_t i = 0; i < bytes; ++i) expected[i] = static_cast<unsigned char>(i * 13 + i / 509);
      std::vector<unsigned char> pageable[2] = {expected, expected};
      buffer pinned[2] = {take(allocate_pinned(bytes)), take(allocate_pinned(bytes))};
      buffer on_device[2] = {take(d.allocate(bytes)), take(d.allocate(bytes))};
      for (int from = 0; from < 3; ++from) {
        for (int to = 0; to < 3; ++to) {
          CAPTURE(bytes);
          CAPTURE(from);
          CAPTURE(to);
          void* places[2][3] = {{pageable[0].data(), pinned[0].data(), on_device[0].data()},
                                {pageable[1].data(), pinned[1].data(), on_device[1].data()}};
          s->copy(places[0][from], expected.data(), bytes);
          s->zero(places[1][to], bytes);
          s->copy(places[1][to], places[0][from], bytes);
          std::vector<unsigned char> seen(bytes);
          s->copy(seen.data(), places[1][to], bytes);
          REQUIRE(s->synchronize());
          CHECK(seen == expected);
        }
      }
    }
  });
}

TEST_CASE("cuda launch: kernels run in order with copies, what they return is the stream's error") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    auto x = floats(d, *s, 1001, 1.5f), y = floats(d, *s, 1001, 0);
    for (int i = 0; i < 4; ++i) {
      launches(*s).enqueue("add", [y = y.data(), x = x.data()](cudaStream_t raw) {
        return launch_add(raw, {y, x, dtype::f32, 1001});
      });
    }
    CHECK(read(*s, y) == std::vector<float>(1001, 6.0f));
    launches(*s).enqueue("norm_forward",
                         [](cudaStream_t) { return cudaErrorInvalidConfiguration; });
    launches(*s).enqueue("skipped", [y = y.data(), x = x.data()](cudaStream_t raw) {
      return launch_add(raw, {y, x, dtype::f32, 1001});
    });
    auto outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(is_error(outcome, "cudaErrorInvalidConfiguration", "compute", "norm_forward"));
    CHECK(read(*s, y) == std::vector<float>(1001, 6.0f));
    launches(*s).enqueue("linear", [](launch_context&) -> status {
      return error(errc::unavailable, "no algorithm", "another shape", "no_algorithm");
    });
    outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::unavailable);
    CHECK(is_error(outcome, "no_algorithm", "compute", "linear"));
    launches(*s).enqueue("throws", [](cudaStream_t) { throw std::bad_alloc(); });
    outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::no_memory);
  });
}

TEST_CASE("cuda scratch: grows in order with what uses it, stays otherwise") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    constexpr int64_t count = 5000;
    auto x = floats(d, *s, count, 3), y = floats(d, *s, count, 0);
    std::vector<void*> seen;
    for (size_t bytes :
         {size_t{20000}, size_t{100}, size_t{20000}, size_t{1} << 20, size_t{20000}}) {
      // Through the working memory: y += x, in two launches that need it between them.
      launches(*s).enqueue(
          "through scratch",
          [&seen, bytes, x = x.data(), y = y.data()](launch_context& c) -> status {
            TROUPE_TRY(memory, c.scratch(bytes < 20000 ? bytes : count * sizeof(float)));
            seen.push_back(memory);
            if (bytes < 20000) return {};
            TROUPE_TRY(larger, c.scratch(bytes));
            seen.back() = larger;
            TROUPE_CUDA_TRY(cudaMemcpyAsync(larger, x, count * sizeof(float),
                                            cudaMemcpyDeviceToDevice, c.stream));
            return checked(launch_add(c.stream, {y, larger, dtype::f32, count}), "add");
          });
    }
    REQUIRE(s->synchronize());
    CHECK(read(*s, y) == std::vector<float>(count, 12));
    REQUIRE(seen.size() == 5);
    CHECK(seen[1] == seen[0]);
    CHECK(seen[2] == seen[0]);
    CHECK(seen[4] == seen[3]);
    CHECK(reinterpret_cast<uintptr_t>(seen[3]) % 256 == 0);
  });
}

TEST_CASE("cuda streams: transfers have priority over compute") {
  on_every_device([](device& d) {
    int compute = 0, copy = 0, least = 0, greatest = 0;
    auto a = open_stream(d), b = open_stream(d, 1, "copy-out");
    launches(*a).enqueue("priority",
                         [&](cudaStream_t raw) { return cudaStreamGetPriority(raw, &compute); });
    launches(*b).enqueue("priority",
                         [&](cudaStream_t raw) { return cudaStreamGetPriority(raw, &copy); });
    REQUIRE(a->synchronize());
    REQUIRE(b->synchronize());
    REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
    CHECK(compute == least);
    CHECK(copy == greatest);
  });
}

TEST_CASE("DEV-2: a random net of copies over many streams gives what one stream gives") {
  on_every_device([](device& d) {
    constexpr int slots = 12, streams = 5, steps = 1500;
    std::vector<std::unique_ptr<stream>> all;
    for (int i = 0; i < streams; ++i) all.push_back(open_stream(d, 1, i ? "transfer" : "compute"));
    std::vector<buffer> memory;
    std::vector<float> expected(slots);
    std::iota(expected.begin(), expected.end(), 1.0f);
    for (int i = 0; i < slots; ++i) {
      memory.push_back(floats(d, *all[0], 33, expected[static_cast<size_t>(i)]));
    }
    struct use {
      event_ptr written;
      std::vector<event_ptr> read;
    };
    std::vector<use> uses(slots);
    uint32_t seed = 12345;
    const auto below = [&](int n) {
      seed = seed * 1664525u + 1013904223u;
      return static_cast<size_t>((seed >> 16) % static_cast<uint32_t>(n));
    };
    for (int i = 0; i < steps; ++i) {
      const size_t from = below(slots), to = below(slots);
      if (from == to) continue;
      stream& s = *all[below(streams)];
      s.wait(uses[from].written);
      s.wait(uses[to].written);
      for (auto& point : uses[to].read) s.wait(point);
      if (below(2) == 0) {
        launches(s).enqueue("add",
                            [y = memory[to].data(), x = memory[from].data()](cudaStream_t r) {
                              return launch_add(r, {y, x, dtype::f32, 33});
                            });
        expected[to] += expected[from];
      } else {
        s.copy(memory[to].data(), memory[from].data(), memory[to].bytes());
        expected[to] = expected[from];
      }
      auto point = s.record();
      uses[from].read.push_back(point);
      uses[to] = {point, {}};
    }
    for (auto& s : all) REQUIRE(s->synchronize());
    for (size_t i = 0; i < slots; ++i) {
      CHECK(read(*all[0], memory[i]) == std::vector<float>(33, expected[i]));
    }
  });
}

TEST_CASE("cuda events: outlive their stream and their device") {
  std::vector<event_ptr> points;
  on_every_device([&](device& d) {
    auto s = open_stream(d);
    auto memory = take(d.allocate(1 << 20));
    s->zero(memory.data(), memory.bytes());
    s->notify([](const status&) {});
    points.push_back(s->record());
    s.reset();
    auto other = open_stream(d);
    other->wait(points.back());
    REQUIRE(other->synchronize());
  });
  for (const auto& point : points) {
    point->wait_on_host();
    CHECK(point->done());
  }
}

TEST_CASE("cuda: memory that does not fit is refused, and the device goes on") {
  on_every_device([](device& d) {
    auto refused = d.allocate(size_t{1} << 50);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::no_memory);
    CHECK(is_error(refused, "cudaErrorMemoryAllocation", size_t{1} << 50));
    CHECK_FALSE(refused.error().hint.empty());
    CHECK(cudaGetLastError() == cudaSuccess);  // CHK-2
    auto s = open_stream(d);
    launches(*s).enqueue("greedy", [](launch_context& c) -> status {
      TROUPE_TRY(memory, c.scratch(size_t{1} << 50));
      return memory ? status{} : error(errc::bug, "null");
    });
    auto outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::no_memory);
    CHECK(read(*s, floats(d, *s, 3, 2)) == std::vector<float>(3, 2.0f));
  });
}

TEST_CASE("cuda graphs: what a stream captures runs again, with the events outside of it") {
  on_every_device([](device& d) {
    auto s = open_stream(d), side = open_stream(d, 1, "side");
    auto x = floats(d, *s, 777, 1), y = floats(d, *s, 777, 0), z = floats(d, *s, 777, 0);
    cudaGraphExec_t executable = nullptr;
    cudaEvent_t joined = nullptr;
    REQUIRE(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming) == cudaSuccess);
    launches(*s).enqueue("capture", [&](cudaStream_t raw) -> status {
      TROUPE_CUDA_TRY(cudaStreamBeginCapture(raw, cudaStreamCaptureModeThreadLocal));
      TROUPE_CUDA_TRY(launch_add(raw, {y.data(), x.data(), dtype::f32, 777}));
      TROUPE_CUDA_TRY(
          cudaMemcpyAsync(z.data(), y.data(), y.bytes(), cudaMemcpyDeviceToDevice, raw));
      TROUPE_CUDA_TRY(cudaEventRecordWithFlags(joined, raw, cudaEventRecordExternal));
      cudaGraph_t graph = nullptr;
      TROUPE_CUDA_TRY(cudaStreamEndCapture(raw, &graph));
      TROUPE_CUDA_TRY(cudaGraphInstantiate(&executable, graph, 0));
      return checked(cudaGraphDestroy(graph), "cudaGraphDestroy");
    });
    REQUIRE(s->synchronize());
    CHECK(read(*s, y) == std::vector<float>(777, 0));  // captured, not run
    for (int i = 0; i < 3; ++i) {
      launches(*s).enqueue("graph",
                           [&](cudaStream_t raw) { return cudaGraphLaunch(executable, raw); });
    }
    side->wait(s->record());
    CHECK(read(*side, z) == std::vector<float>(777, 3));
    CHECK(cudaEventQuery(joined) == cudaSuccess);
    REQUIRE(s->synchronize());
    CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
    CHECK(cudaEventDestroy(joined) == cudaSuccess);
  });
}

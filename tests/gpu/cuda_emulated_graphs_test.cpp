// Layers as graphs (gpu/cuda/graphs.hpp), seen from the emulated runtime.
#include <doctest/doctest.h>

#include <vector>

#include "gpu/cuda/device.hpp"
#include "gpu/cuda/kernels/launch.hpp"
#include "gpu/cuda/stream.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/emulator/runtime.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::cuda;

namespace {

constexpr int64_t count = 300;

/// A device, a stream, and a vector that a replayed addition doubles.
struct doubling {
  std::unique_ptr<cuda_device> gpu;
  std::unique_ptr<stream> s;
  buffer x;
  int calls = 0;

  doubling() {
    emulator::reset();
    auto opened = cuda_device::open(0);
    REQUIRE(opened);
    gpu = std::move(*opened);
    s = std::move(*gpu->make_stream({"compute", 1}));
    x = std::move(*gpu->allocate(count * sizeof(float)));
    const std::vector<float> ones(count, 1.0f);
    s->copy(x.data(), ones.data(), count * sizeof(float));
    REQUIRE(s->synchronize());
  }

  void twice() {
    s->replay(5, [this] {
      ++calls;
      static_cast<cuda_stream&>(*s).enqueue("add", [p = x.data()](cudaStream_t raw) {
        return launch_add(raw, {p, p, dtype::f32, count});
      });
    });
  }

  float first() {
    std::vector<float> out(count);
    s->copy(out.data(), x.data(), count * sizeof(float));
    REQUIRE(s->synchronize());
    for (const float v : out) REQUIRE(v == out.front());
    return out.front();
  }
};

}  // namespace

TEST_CASE("emulated cuda: the second enqueueing is noted, later ones are one launch") {
  doubling d;
  const int before = emulator::live().graphs;
  for (int i = 0; i < 6; ++i) d.twice();
  CHECK(d.first() == 64);
  CHECK(d.calls == 2);
  CHECK(emulator::live().graphs == before + 1);
  d.s.reset();
  CHECK(emulator::live().graphs == before);
}

TEST_CASE("emulated cuda, GRA-1: what fails while noting poisons, and works once that is cleared") {
  for (const char* call : {"cudaStreamBeginCapture", "cudaGraphInstantiate"}) {
    CAPTURE(call);
    doubling d;
    const int before = emulator::live().graphs;
    d.twice();
    REQUIRE(d.s->synchronize());
    emulator::fail_next(call, cudaErrorUnknown);
    d.twice();
    const auto failed = d.s->synchronize();
    REQUIRE_FALSE(failed);
    CHECK(is_error(failed, "cudaErrorUnknown", call));
    emulator::reset();
    CHECK(emulator::live().graphs == before);
    const float now = d.first();
    for (int i = 0; i < 4; ++i) d.twice();
    CHECK(d.first() == now * 16);
  }
}

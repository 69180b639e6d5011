// Restoring to a device that the host cannot read: the right bytes, by way of page-locked blocks,
// and nobody waits for the device piece by piece.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/model/pinned_upload.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/emulator/runtime.hpp"
#include "tests/gpu/saving.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

std::vector<chunk_info> some_chunks() {
  std::vector<chunk_info> out;
  for (int64_t rows : {37, 5, 211}) {
    chunk_info c;
    c.name = "layer." + std::to_string(out.size());
    add_tensor(c, {.name = c.name + ".matrix", .shape = {rows, 33}});
    add_tensor(c, {.name = c.name + ".vector", .shape = {rows}});
    finish_chunk(c);
    out.push_back(std::move(c));
  }
  return out;
}

std::unique_ptr<parameter_store> store_on(device& owner) {
  auto made = parameter_store::make(owner, some_chunks(), {.compute = dtype::bf16});
  REQUIRE(made);
  return std::move(*made);
}

/// Numbers of one part of a chunk, zero between tensors (PS-3).
std::vector<float> numbers(const chunk_info& chunk, part which) {
  std::vector<float> out(static_cast<size_t>(chunk.count));
  for (const auto& t : chunk.tensors)
    for (int64_t i = 0; i < t.count; ++i)
      out[static_cast<size_t>(t.offset + i)] =
          static_cast<float>(i % 1013) * 0.25f + static_cast<float>(which) * 1000;
  return out;
}

constexpr part saved_parts[] = {part::master, part::m, part::v};

}  // namespace

TEST_CASE("a restore on a GPU has the saved bytes, and does not wait for each piece") {
  auto owner = make_cuda_device(0);
  REQUIRE(owner);
  const scratch dir;
  const auto from = store_on(**owner);
  for (int c = 0; c < from->chunk_count(); ++c)
    for (const part which : saved_parts)
      REQUIRE(from->write(c, which, numbers(from->info(c), which).data()));
  const auto folder = save_stages({from.get()}, dir.path, 3);  // slots of 4 KiB: some 25 pieces
  auto reader = cp::reader::open(folder);
  REQUIRE(reader);
  const auto to = store_on(**owner);
  {
    const cuda::emulator::count_calls counted;
    REQUIRE(restore_state(*to, *reader, restored::everything, 2));
    CHECK(counted.of("cudaMemcpyAsync") > 20);
    // The readers before, the end of what is copied and of what is published, two streams.
    CHECK(counted.of("cudaStreamSynchronize") <= 5);
    CHECK(counted.of("cudaHostRegister") == 1);
  }
  for (int c = 0; c < to->chunk_count(); ++c) {
    for (const part which : saved_parts) {
      std::vector<float> got(static_cast<size_t>(to->info(c).count));
      REQUIRE(to->read(c, which, got.data()));
      CHECK(got == numbers(to->info(c), which));
    }
  }
}

TEST_CASE("pinned uploads: many threads, few small blocks, sources gone at once") {
  auto owner = make_cuda_device(0);
  REQUIRE(owner);
  auto s = std::move(*(*owner)->make_stream({"load"}));
  constexpr size_t each = 10'000, threads = 4;
  auto memory = (*owner)->allocate(each * threads);
  REQUIRE(memory);
  const auto before = cuda::emulator::live();
  {
    auto upload = pinned_upload::make(*s, 512, 3);
    REQUIRE(upload);
    std::vector<std::thread> all;
    for (size_t t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (size_t at = 0; at < each; at += 1000) {
          std::vector<std::byte> source(1000);
          for (size_t i = 0; i < source.size(); ++i) source[i] = std::byte((t + at + i) % 251);
          (*upload)->put(static_cast<std::byte*>(memory->data()) + t * each + at, source);
          std::fill(source.begin(), source.end(), std::byte{0xee});
        }
      });
    }
    for (auto& one : all) one.join();
  }
  CHECK(cuda::emulator::live().pinned_blocks == before.pinned_blocks);
  std::vector<std::byte> got(each * threads);
  s->copy(got.data(), memory->data(), got.size());
  REQUIRE(s->synchronize());
  size_t wrong = 0;
  for (size_t t = 0; t < threads; ++t)
    for (size_t at = 0; at < each; at += 1000)
      for (size_t i = 0; i < 1000; ++i)
        wrong += got[t * each + at + i] != std::byte((t + at + i) % 251);
  CHECK(wrong == 0);
}

TEST_CASE("pinned uploads: a stream that fails holds nobody up, and tells") {
  auto owner = make_cuda_device(0);
  REQUIRE(owner);
  auto s = std::move(*(*owner)->make_stream({"load"}));
  auto memory = (*owner)->allocate(4096);
  REQUIRE(memory);
  {
    auto upload = pinned_upload::make(*s, 512, 2);
    REQUIRE(upload);
    s->host_task([]() -> status { return error(errc::io, "it is gone", {}, "disk_gone"); });
    const std::vector<std::byte> source(4096);
    (*upload)->put(memory->data(), source);
  }
  const auto outcome = s->synchronize();
  REQUIRE_FALSE(outcome);
  CHECK(is_error(outcome, "disk_gone"));
}

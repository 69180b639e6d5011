// Groups of ranks that share a GPU: what is in its memory goes through buffers of the host.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/collective/staged.hpp"
#include "io/base/memory_account.hpp"
#include "tests/gpu/collective_cases.hpp"
#include "tests/gpu/cuda_any.hpp"

namespace troupe::gpu {
namespace {

using collective_cases::member;

const collective_cases::transport shared_gpu{
    [] {
      auto made = make_cuda_device(0);
      REQUIRE(made);
      return std::move(*made);
    },
    [](const group_options& o, device& owner) {
      auto inner = open_gloo_group(o);
      REQUIRE(inner);
      return result<std::unique_ptr<pending_group>>(make_staged_group(owner, std::move(*inner)));
    }};

/// Of a member's device, with these bytes.
buffer filled(member& m, const std::vector<float>& with) {
  auto made = m.device->allocate(with.size() * sizeof(float));
  REQUIRE(made);
  m.stream->copy(made->data(), with.data(), with.size() * sizeof(float));
  REQUIRE(m.stream->synchronize());
  return std::move(*made);
}

std::vector<float> content_of(member& m, const buffer& b) {
  std::vector<float> out(b.bytes() / sizeof(float));
  m.stream->copy(out.data(), b.data(), b.bytes());
  REQUIRE(m.stream->synchronize());
  return out;
}

uint64_t exchanges_held() {
  for (const auto& h : io::process_memory().held().holders)
    if (h.holder == "exchanges through the host") return h.bytes;
  return 0;
}

}  // namespace

TEST_CASE("cuda: SGB-1 SGB-2: ranks that share a GPU exchange in pieces, through a buffer each") {
  if (!testing::any_gpu()) return;
  constexpr size_t part = 1'300'001;  // more than a buffer has, of each
  auto all = collective_cases::connected(shared_gpu, 2);
  std::vector<buffer> sums, parts;
  for (size_t r = 0; r < 2; ++r) {
    sums.push_back(filled(all[r], std::vector<float>(2 * part, static_cast<float>(r + 1))));
    std::vector<float> own(2 * part, -1.0f);
    for (size_t i = 0; i < part; ++i) own[r * part + i] = static_cast<float>(i % 4096 + r);
    parts.push_back(filled(all[r], own));
  }
  for (size_t r = 0; r < 2; ++r) {
    all[r].group->reduce_scatter_sum(*all[r].stream, sums[r].as<float>(),
                                     static_cast<int64_t>(part));
    all[r].group->all_gather(*all[r].stream, parts[r].data(), part * sizeof(float));
  }
  for (size_t r = 0; r < 2; ++r) {
    const auto sum = content_of(all[r], sums[r]), whole = content_of(all[r], parts[r]);
    size_t wrong = 0;
    for (size_t i = 0; i < part; ++i) {
      wrong += sum[r * part + i] == 3.0f ? 0 : 1;
      for (size_t of = 0; of < 2; ++of)
        wrong += whole[of * part + i] == static_cast<float>(i % 4096 + of) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  CHECK(exchanges_held() == 2 * staging_bytes);
  sums.clear();
  parts.clear();
  all.clear();
  CHECK(exchanges_held() == 0);
}

}  // namespace troupe::gpu

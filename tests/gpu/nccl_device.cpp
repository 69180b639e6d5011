// Groups over the real NCCL on a real GPU. NCCL wants a GPU for every rank of a group, so on one
// GPU the group has one member: that shows the functions, their order and their ends, no transfer.
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/cuda/nccl_group.hpp"
#include "tests/gpu/collective_cases.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::collective_cases;

namespace {

/// As many members as there are GPUs, at most four.
std::vector<member> members() {
  auto count = cuda_device_count();
  auto library = count ? cuda::load_nccl() : count.error();
  if (!library) {
    MESSAGE("SKIPPED: " << library.error().message);
    return {};
  }
  int next = 0;
  const transport real{[&next] {
                         auto opened = make_cuda_device(next++);
                         REQUIRE(opened);
                         return std::move(*opened);
                       },
                       [](const group_options& o, device& gpu) { return open_nccl_group(o, gpu); }};
  return connected(real, std::min(*count, 4));
}

std::vector<float> read_back(member& m, const buffer& from, size_t count) {
  std::vector<float> out(count);
  m.stream->copy(out.data(), from.data(), count * sizeof(float));
  REQUIRE(m.stream->synchronize());
  return out;
}

}  // namespace

TEST_CASE("nccl on a GPU: sums, parts, and a good end") {
  auto all = members();
  const size_t size = all.size(), part = 1021;
  std::vector<buffer> data;
  std::vector<std::vector<float>> sources(size, std::vector<float>(part * size));  // read later
  for (size_t r = 0; r < size; ++r) {
    auto& values = sources[r];
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((r + 1) * (i + 1));
    auto memory = all[r].device->allocate(values.size() * sizeof(float));
    REQUIRE(memory);
    data.push_back(std::move(*memory));
    all[r].stream->copy(data[r].data(), values.data(), values.size() * sizeof(float));
  }
  for (size_t r = 0; r < size; ++r) {
    auto& g = *all[r].group;
    g.reduce_scatter_sum(*all[r].stream, data[r].as<float>(), part);
    g.all_gather(*all[r].stream, data[r].data(), part * sizeof(float));
    g.all_reduce_sum(*all[r].stream, data[r].as<float>(), static_cast<int64_t>(part * size));
  }
  const auto once = static_cast<float>(size * (size + 1) / 2);
  for (size_t r = 0; r < size; ++r) {
    const auto values = read_back(all[r], data[r], part * size);
    for (size_t i = 0; i < values.size(); ++i)
      REQUIRE(values[i] == once * static_cast<float>(size * (i + 1)));
  }
}

TEST_CASE("nccl on a GPU: what comes after an abort is told so, soon") {
  auto all = members();
  for (auto& m : all) {
    auto memory = m.device->allocate(64);
    REQUIRE(memory);
    m.group->abort();
    m.group->all_reduce_sum(*m.stream, memory->as<float>(), 1);
    auto s = m.stream->synchronize();
    REQUIRE_FALSE(s);
    CHECK(s.error().code == errc::cancelled);
  }
}

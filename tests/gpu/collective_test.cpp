// Groups by Gloo: members in threads of one process, over real sockets.
#include <csignal>

#include "io/base/memory_account.hpp"
#include "tests/gpu/collective_cases.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::collective_cases;

namespace {

const transport gloo{[] { return make_host_device(1); },
                     [](const group_options& o, device&) { return open_gloo_group(o); }};

}  // namespace

TEST_CASE("gloo: sums of floats and doubles, of any length") {
  sums(gloo);
}

TEST_CASE("gloo: scattered sums") {
  scattered_sums(gloo);
}

TEST_CASE("gloo: scattered sums take no more memory beside their data than is planned") {
  constexpr int64_t part = 3'000'000;  // 12 MB
  auto all = connected(gloo, 2);
  std::vector<float> data[2];
  for (size_t r = 0; r < 2; ++r) {
    data[r].assign(2 * part, 1.5f);
    all[r].group->reduce_scatter_sum(*all[r].stream, data[r].data(), part);
  }
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  CHECK(data[0][part - 1] == 3.0f);
  CHECK(data[1][part] == 3.0f);
  uint64_t peak = 0;
  for (const auto& h : io::process_memory().held().holders)
    if (h.holder == "sums of replicas") peak = h.peak_bytes;
  CHECK(peak > 0);
  CHECK(peak <= 4 * group_memory_bytes);  // of groups of up to four members in this process
}

TEST_CASE("gloo: gathered parts") {
  gathered_parts(gloo);
}

TEST_CASE("COM-2: the same sum has the same bits, on every member and every time (gloo)") {
  same_bits(gloo);
}

TEST_CASE("COM-4: the lanes of a pipeline go their own ways (gloo)") {
  pipeline_lanes(gloo);
}

TEST_CASE("COM-3: abort makes what is pending fail, long before the time-out (gloo)") {
  abort_fails_what_is_pending(gloo);
}

TEST_CASE("COM-3: abort ends what waits for peers that never connect (gloo)") {
  abort_ends_connecting(gloo);
}

TEST_CASE("COM-3: a dead peer makes operations fail (gloo)") {
  dead_peer(gloo);
}

TEST_CASE("COM-3: a write to a dead peer is an error, no signal (gloo)") {
  const auto before = signal(SIGPIPE, SIG_DFL);
  auto all = connected(gloo, 2);
  all[1].group.reset();
  std::vector<char> much(64 << 20);
  all[0].group->send(*all[0].stream, much.data(), much.size(), 1, 0);
  CHECK_FALSE(all[0].stream->synchronize());
  signal(SIGPIPE, before);
}

TEST_CASE("gloo: a silent peer is a failure after the time-out") {
  silent_peer(gloo);
}

TEST_CASE("gloo: tables that do not fit are refused") {
  tables_that_do_not_fit(gloo);
}

TEST_CASE("gloo: tags pair sends with receives, whatever their order") {
  auto all = connected(gloo, 2);
  std::vector<int> sent{1, 2, 3}, got(3);
  for (size_t i = 0; i < 3; ++i) all[0].group->send(*all[0].stream, &sent[i], sizeof(int), 1, i);
  auto lane = all[1].device->make_stream({"second", 1});
  REQUIRE(lane);
  for (size_t i : {0, 2}) all[1].group->receive(*all[1].stream, &got[i], sizeof(int), 0, i);
  all[1].group->receive(**lane, &got[1], sizeof(int), 0, 1);
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  REQUIRE((*lane)->synchronize());
  CHECK(got == sent);
}

TEST_CASE("gloo: impossible members are refused") {
  CHECK_FALSE(open_gloo_group({"test", 2, 2}));
  CHECK_FALSE(open_gloo_group({"test", -1, 2}));
  CHECK_FALSE(open_gloo_group({"test", 0, 0}));
}

// Groups by Gloo: members in threads of one process, over real sockets.
#include <csignal>
#include <cstdint>
#include <future>
#include <vector>

#include "gpu/collective/staged.hpp"
#include "io/base/memory_account.hpp"
#include "tests/gpu/collective_cases.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::collective_cases;

namespace {

const transport gloo{[] { return make_host_device(1); },
                     [](const group_options& o, device&) { return open_gloo_group(o); }};

/// As of ranks that share a GPU.
const transport staged{
    [] { return make_host_device(1); },
    [](const group_options& o, device& owner) {
      auto inner = open_gloo_group(o);
      REQUIRE(inner);
      return result<std::unique_ptr<pending_group>>(make_staged_group(owner, std::move(*inner)));
    }};

uint64_t staging_held() {
  for (const auto& h : io::process_memory().held().holders)
    if (h.holder == "exchanges through the host") return h.bytes;
  return 0;
}

/// Sums of three ranks, of whose every term the order can be told.
std::vector<std::vector<float>> scattered(const transport& t, int64_t part) {
  auto all = connected(t, 3);
  std::vector<std::vector<float>> data(3);
  for (size_t r = 0; r < 3; ++r)
    for (int64_t i = 0; i < 3 * part; ++i)
      data[r].push_back(1.0f / static_cast<float>(1 + i % 9973 * (static_cast<int64_t>(r) + 1)));
  for (size_t r = 0; r < 3; ++r)
    all[r].group->reduce_scatter_sum(*all[r].stream, data[r].data(), part);
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  for (size_t r = 0; r < 3; ++r) {  // what the others hold is unspecified
    const auto first = data[r].begin() + static_cast<std::ptrdiff_t>(r) * part;
    data[r] = {first, first + part};
  }
  return data;
}

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

TEST_CASE("staged: all that a group does, through buffers of the host") {
  sums(staged);
  scattered_sums(staged);
  gathered_parts(staged);
  same_bits(staged);
  pipeline_lanes(staged);
}

TEST_CASE("SGB-3: scattered sums in pieces have the bits of whole ones") {
  constexpr int64_t part = 700'001;  // in three pieces
  CHECK(scattered(staged, part) == scattered(gloo, part));
}

TEST_CASE("staged: what is larger than a buffer comes in pieces") {
  constexpr size_t part = 3 * staging_bytes + 12'345;
  auto all = connected(staged, 2);
  std::vector<std::vector<uint8_t>> data(2);
  for (size_t r = 0; r < 2; ++r) {
    data[r].assign(2 * part, 0xee);
    for (size_t i = 0; i < part; ++i) data[r][r * part + i] = static_cast<uint8_t>(i * 31 + r);
  }
  for (size_t r = 0; r < 2; ++r) all[r].group->all_gather(*all[r].stream, data[r].data(), part);
  std::vector<double> sum(staging_bytes / sizeof(double) + 7, 1.5), other = sum;
  all[0].group->all_reduce_sum(*all[0].stream, sum.data(), static_cast<int64_t>(sum.size()));
  all[1].group->all_reduce_sum(*all[1].stream, other.data(), static_cast<int64_t>(other.size()));
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  CHECK(data[0] == data[1]);
  size_t wrong = 0;
  for (size_t i = 0; i < part; ++i)
    for (size_t r = 0; r < 2; ++r)
      wrong += data[0][r * part + i] == static_cast<uint8_t>(i * 31 + r) ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(sum == std::vector<double>(sum.size(), 3.0));
  CHECK(other == sum);
}

TEST_CASE("COM-4: staged transfers in pieces cross, in whatever order streams were given them") {
  constexpr size_t bytes = 2 * staging_bytes + 99, transfers = 3;
  auto all = connected(staged, 2);
  std::vector<std::vector<uint8_t>> sent(2), got(2);
  std::vector<std::unique_ptr<gpu::stream>> in, out;
  for (size_t r = 0; r < 2; ++r) {
    for (auto* to : {&in, &out}) {
      auto made = all[r].device->make_stream({"lane", 1});
      REQUIRE(made);
      to->push_back(std::move(*made));
    }
    got[r].assign(transfers * bytes, 0);
    for (size_t i = 0; i < transfers * bytes; ++i)
      sent[r].push_back(static_cast<uint8_t>(i * 7 + r));
  }
  const auto send = [&](size_t r, uint64_t tag) {
    all[r].group->send(*out[r], sent[r].data() + tag * bytes, bytes, 1 - static_cast<int>(r), tag);
  };
  const auto receive = [&](size_t r, uint64_t tag) {
    all[r].group->receive(*in[r], got[r].data() + tag * bytes, bytes, 1 - static_cast<int>(r), tag);
  };
  for (uint64_t tag = 0; tag < transfers; ++tag) receive(0, tag);
  for (uint64_t tag = 0; tag < transfers; ++tag) {
    send(1, tag);
    receive(1, tag);
    send(0, tag);
  }
  for (auto* lanes : {&in, &out})
    for (auto& lane : *lanes) REQUIRE(lane->synchronize());
  CHECK(got[0] == sent[1]);
  CHECK(got[1] == sent[0]);
  in.clear();
  out.clear();
}

TEST_CASE("SGB-2: however many exchanges are enqueued a stream has one buffer, which is booked") {
  constexpr int64_t count = 3'000'000;  // 12 MB
  constexpr int times = 5;
  CHECK(staging_held() == 0);
  auto all = connected(staged, 2);
  CHECK(staging_held() == 0);  // none has moved anything
  std::promise<void> go;
  const auto may_go = go.get_future().share();
  std::vector<std::vector<float>> data(2, std::vector<float>(count, 1.0f));
  for (size_t r = 0; r < 2; ++r) {
    all[r].stream->host_task([may_go] { return may_go.wait(), status{}; });
    for (int i = 0; i < times; ++i)
      all[r].group->all_reduce_sum(*all[r].stream, data[r].data(), count);
  }
  const auto held = staging_held();
  go.set_value();
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  CHECK(held == 2 * staging_bytes);
  CHECK(staging_held() == held);
  for (const auto& d : data) CHECK(d == std::vector<float>(count, 32.0f));
  all.clear();
  CHECK(staging_held() == 0);
}

TEST_CASE("SGB-2: where the host's memory has no room for a buffer its stream fails") {
  auto all = connected(staged, 2, std::chrono::milliseconds(300));
  const auto limit =
      io::process_memory().limit_to(io::process_memory().held().held_bytes + staging_bytes / 2);
  float value = 1;
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  const auto failed = all[0].stream->synchronize();
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::no_memory);
  CHECK(value == 1.0f);
}

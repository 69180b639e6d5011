// Groups over NCCL: real code, an NCCL of this process, emulated devices.
#include <chrono>
#include <thread>

#include "gpu/cuda/device.hpp"
#include "gpu/cuda/nccl_group.hpp"
#include "gpu/cuda/nccl_watch.hpp"
#include "gpu/cuda/stream.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/collective_cases.hpp"
#include "tests/gpu/nccl/fake_nccl.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::collective_cases;
using troupe::gpu::cuda::fake_nccl::seen;

namespace {

using std::chrono::milliseconds;

std::unique_ptr<device> emulated_gpu() {
  auto opened = cuda::cuda_device::open(0);
  REQUIRE(opened);
  return std::move(*opened);
}

const transport nccl{
    emulated_gpu, [](const group_options& o, device& gpu) {
      return cuda::open_nccl_group(o, gpu, cuda::fake_nccl::library(), {milliseconds(1), ample});
    }};

/// Waits until everything enqueued so far is with the device.
void await_submitted(gpu::stream& s) {
  std::promise<void> submitted;
  static_cast<cuda::cuda_stream&>(s).enqueue("nothing",
                                             [&](cudaStream_t) { submitted.set_value(); });
  submitted.get_future().wait();
}

/// Nothing is left of a test: communicators, calls at wrong times, aborts one by one.
struct clean_world {
  cuda::fake_nccl::facts before = seen();
  ~clean_world() {
    cuda::fake_nccl::silent_deaths(false);
    cuda::fake_nccl::break_everything(ncclSuccess);
    const auto now = seen();
    CHECK(now.alive == 0);
    CHECK(now.bad_calls == before.bad_calls);
    CHECK(now.aborted_alone == before.aborted_alone);
  }
};

}  // namespace

TEST_CASE("nccl: sums of floats and doubles, of any length") {
  clean_world clean;
  sums(nccl);
  CHECK(seen().aborted == clean.before.aborted);  // all ended in good order
}

TEST_CASE("NCW-4: what has finished is not aborted, though the watch never had its turn before") {
  clean_world clean;
  auto gpu = emulated_gpu();
  auto s = gpu->make_stream({"test", 1});
  REQUIRE(s);
  const auto& library = cuda::fake_nccl::library();
  for (int round = 0; round < 50; ++round) {  // most of them end before the thread has begun
    auto watch =
        std::make_shared<cuda::nccl_watch>(library, cuda::nccl_watch_options{"test", ample, ample});
    auto& channel = watch->add_channel();
    ncclUniqueId id;
    REQUIRE(library.get_unique_id(&id) == ncclSuccess);
    REQUIRE(channel.connect(id, 0, 1, 0, std::chrono::steady_clock::now() + ample));
    watch->under_way("nothing", (*s)->record(), (*s)->record(), ample);
    REQUIRE((*s)->synchronize());
    watch->start();
    watch->stop();
  }
  CHECK(seen().aborted == clean.before.aborted);
}

TEST_CASE("NCC-1: a communicator that has ended in time is not aborted, however late one looks") {
  clean_world clean;
  const auto& library = cuda::fake_nccl::library();
  cuda::nccl_channel channel(library, "test");
  ncclUniqueId id;
  REQUIRE(library.get_unique_id(&id) == ncclSuccess);
  REQUIRE(channel.connect(id, 0, 1, 0, std::chrono::steady_clock::now() + ample));
  CHECK(channel.close(std::chrono::steady_clock::now() - std::chrono::seconds(1)));
}

TEST_CASE("nccl: scattered sums") {
  clean_world clean;
  scattered_sums(nccl);
}

TEST_CASE("nccl: gathered parts") {
  clean_world clean;
  gathered_parts(nccl);
}

TEST_CASE("COM-2: the same sum has the same bits, on every member and every time (nccl)") {
  clean_world clean;
  same_bits(nccl);
}

TEST_CASE("COM-4: the lanes of a pipeline go their own ways (nccl)") {
  clean_world clean;
  pipeline_lanes(nccl);
}

TEST_CASE("COM-3: abort makes what is pending fail, long before the time-out (nccl)") {
  clean_world clean;
  abort_fails_what_is_pending(nccl);
}

TEST_CASE("COM-3: abort ends what waits for peers that never connect (nccl)") {
  clean_world clean;
  abort_ends_connecting(nccl);
}

TEST_CASE("COM-3: a dead peer makes operations fail (nccl)") {
  clean_world clean;
  dead_peer(nccl);
}

TEST_CASE("nccl: a silent peer is a failure after the time-out") {
  clean_world clean;
  silent_peer(nccl);
}

TEST_CASE("COM-3: a peer that dies silently is a failure after the time-out (nccl)") {
  clean_world clean;
  cuda::fake_nccl::silent_deaths(true);
  auto all = connected(nccl, 2, milliseconds(300));
  all[1].group.reset();
  float value = 1;
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  auto s = all[0].stream->synchronize();
  REQUIRE_FALSE(s);
  CHECK(s.error().code == errc::timeout);
  CHECK(mentions(s.error(), "ncclAllReduce"));
}

TEST_CASE("nccl: tables that do not fit are refused") {
  clean_world clean;
  tables_that_do_not_fit(nccl);
}

TEST_CASE("nccl: impossible members and foreign devices are refused") {
  auto gpu = emulated_gpu();
  CHECK_FALSE(nccl.open({"test", 2, 2}, *gpu));
  CHECK_FALSE(nccl.open({"test", -1, 2}, *gpu));
  CHECK_FALSE(nccl.open({"test", 0, 0}, *gpu));
  auto host = make_host_device(1);
  auto refused = nccl.open({"test", 0, 1}, *host);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bug);
}

TEST_CASE("nccl: a peer that never connects is a time-out, and leaves nothing behind") {
  clean_world clean;
  auto all = listening(nccl, 2, ample, milliseconds(200));
  auto made = all[0].pending->connect(offered_to(table_of(all), 0));
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::timeout);
}

TEST_CASE("DEV-3: the failure of an operation reaches what was enqueued behind it (nccl)") {
  clean_world clean;
  auto all = connected(nccl, 2);
  float value = 1;
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);  // rank 1 never comes
  std::promise<status> told;
  all[0].stream->notify([&](const status& s) { told.set_value(s); });
  auto passed = all[0].stream->record();
  await_submitted(*all[0].stream);
  bool ran = false;
  all[0].stream->host_task([&] { return ran = true, status{}; });
  cuda::fake_nccl::await_stuck(1);
  std::thread other([&] { all[0].group->abort(); });
  const auto state = told.get_future().get();
  other.join();
  REQUIRE_FALSE(state);
  CHECK(state.error().code == errc::cancelled);
  passed->wait_on_host();
  REQUIRE_FALSE(all[0].stream->synchronize());
  CHECK_FALSE(ran);
}

TEST_CASE("nccl: an error that NCCL notices by itself ends the group, though nobody calls it") {
  clean_world clean;
  auto all = connected(nccl, 2);
  float value = 1;
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  await_submitted(*all[0].stream);  // NCCL's call has returned, its operation is stuck
  cuda::fake_nccl::await_stuck(1);
  cuda::fake_nccl::break_everything(ncclSystemError);
  auto s = all[0].stream->synchronize();
  REQUIRE_FALSE(s);
  CHECK(s.error().code == errc::unavailable);
}

TEST_CASE("NCC-3: a stream does not end while NCCL may still put an operation into it") {
  clean_world clean;
  auto all = connected(nccl, 2);
  float value = 1;
  cuda::fake_nccl::hold_launches(true);
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  cuda::fake_nccl::await_held(1);
  all[0].group->abort();
  auto ended = std::async(std::launch::async, [&] { all[0].stream.reset(); });
  CHECK(ended.wait_for(milliseconds(100)) == std::future_status::timeout);
  cuda::fake_nccl::hold_launches(false);  // into a stream that is gone, the emulator would say
  ended.wait();
}

TEST_CASE("nccl: there are links between neighbours alone, and only where they are wanted") {
  clean_world clean;
  SUBCASE("two ranks apart") {
    auto all = connected(nccl, 3);
    int value = 0;
    all[0].group->send(*all[0].stream, &value, sizeof(value), 2, 0);
    auto s = all[0].stream->synchronize();
    REQUIRE_FALSE(s);
    CHECK(s.error().code == errc::bug);
  }
  SUBCASE("a group without transfers") {
    auto gpu = emulated_gpu();
    auto lone = cuda::open_nccl_group({"sums", 0, 2}, *gpu, cuda::fake_nccl::library());
    REQUIRE(lone);
    CHECK((*lone)->addresses()[1].empty());
  }
}

TEST_CASE("nccl: addresses are as small as the contract says, and none is one's own") {
  for (int size : {1, 2, 3, 5}) {
    auto all = listening(nccl, size, ample);
    const auto addresses = table_of(all);
    for (size_t r = 0; r < addresses.size(); ++r)
      for (size_t p = 0; p < addresses.size(); ++p) {
        CHECK(addresses[r][p].size() <= 256);
        if (r == p) CHECK(addresses[r][p].empty());
      }
  }
}

TEST_CASE("nccl: a middle stage has a world and four links, made in an order without deadlock") {
  clean_world clean;
  {
    auto all = connected(nccl, 5);
    CHECK(seen().alive == 5 + 2 * 2 * 4);  // worlds; both ends of both links of four pairs
  }
  CHECK(seen().aborted == clean.before.aborted);
}

TEST_CASE("nccl: the machine's library has every function that is used") {
  auto found = cuda::load_nccl();
  if (!found) {
    CHECK(found.error().code == errc::unavailable);
    CHECK_FALSE(found.error().hint.empty());
    MESSAGE("SKIPPED: " << found.error().message);
    return;
  }
  int version = 0;
  CHECK((*found)->get_version(&version) == ncclSuccess);
  CHECK(version >= cuda::oldest_nccl);
}

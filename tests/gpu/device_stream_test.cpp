// The promises of device.hpp (DEV-1..5), on the host device and on the reference's.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/host/memory.hpp"
#include "gpu/host/thread_team.hpp"

using namespace troupe;
using namespace troupe::gpu;

namespace {

std::unique_ptr<stream> open_stream(device& d, int threads = 1, const char* name = "compute") {
  auto made = d.make_stream({name, threads});
  REQUIRE(made);
  return std::move(*made);
}

status failure() {
  return error(errc::training, "it broke", "mend it");
}

}  // namespace

TEST_CASE("DEV-2: operations of a stream run in enqueue order") {
  auto host = make_host_device(2);
  auto s = open_stream(*host, 2);
  std::vector<int> seen;
  for (int i = 0; i < 10000; ++i) {
    s->host_task([&seen, i] {
      seen.push_back(i);
      return status{};
    });
  }
  REQUIRE(s->synchronize());
  std::vector<int> expected(10000);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(seen == expected);
}

TEST_CASE("DEV-1: enqueueing does not wait for earlier work") {
  auto host = make_host_device(1);
  auto s = open_stream(*host);
  std::atomic<bool> release{false};
  s->host_task([&] {
    release.wait(false);
    return status{};
  });
  auto point = s->record();
  CHECK_FALSE(point->done());
  release = true;
  release.notify_all();
  point->wait_on_host();
  CHECK(point->done());
}

TEST_CASE("DEV-2: an event orders two streams, in both directions, many times") {
  auto host = make_host_device(1);
  auto a = open_stream(*host, 1, "a");
  auto b = open_stream(*host, 1, "b");
  int value = 0;  // touched by both streams; only events keep them apart
  bool ordered = true;
  for (int i = 0; i < 3000; ++i) {
    a->host_task([&, i] {
      ordered = ordered && value == 2 * i;
      ++value;
      return status{};
    });
    b->wait(a->record());
    b->host_task([&, i] {
      ordered = ordered && value == 2 * i + 1;
      ++value;
      return status{};
    });
    a->wait(b->record());
  }
  REQUIRE(a->synchronize());
  REQUIRE(b->synchronize());
  CHECK(ordered);
  CHECK(value == 6000);
}

TEST_CASE("DEV-2: waiting for nothing is no operation") {
  auto host = make_host_device(1);
  auto s = open_stream(*host);
  s->wait(nullptr);
  CHECK(s->synchronize());
}

TEST_CASE("DEV-3: a failure skips later work, reaches callbacks, completes events") {
  auto device = make_reference_device();
  auto s = open_stream(*device);
  bool ran = false;
  std::string heard;
  char byte = 7;
  s->host_task(failure);
  s->host_task([] { return status(error(errc::io, "second")); });
  s->host_task([&] {
    ran = true;
    return status{};
  });
  s->zero(&byte, 1);
  s->notify([&](const status& state) { heard = state ? "ok" : state.error().message; });
  auto point = s->record();
  point->wait_on_host();
  CHECK(heard == "it broke");  // the first error, not the second
  CHECK_FALSE(ran);
  CHECK(byte == 7);
  auto outcome = s->synchronize();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::training);
  s->zero(&byte, 1);
  CHECK(s->synchronize());  // cleared: work goes on
  CHECK(byte == 0);
}

TEST_CASE("DEV-3: what a task throws poisons its stream") {
  auto host = make_host_device(1);
  auto s = open_stream(*host);
  s->host_task([]() -> status { throw std::runtime_error("thrown"); });
  auto outcome = s->synchronize();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::bug);
  s->host_task([]() -> status { throw std::bad_alloc(); });
  outcome = s->synchronize();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::no_memory);
}

TEST_CASE("DEV-3: a poisoned stream does not hold up who waits for it") {
  auto host = make_host_device(1);
  auto a = open_stream(*host, 1, "a");
  auto b = open_stream(*host, 1, "b");
  a->host_task(failure);
  b->wait(a->record());
  CHECK(b->synchronize());
  CHECK_FALSE(a->synchronize());
}

TEST_CASE("notify may enqueue, and no wake-up is lost") {
  auto host = make_host_device(1);
  auto s = open_stream(*host);
  std::atomic<int> rounds{0};
  std::function<void(const status&)> again = [&](const status&) {
    if (rounds.fetch_add(1) + 1 < 20000) {
      s->notify(again);
    } else {
      rounds.notify_all();
    }
  };
  s->notify(again);
  for (int seen; (seen = rounds.load()) < 20000;) rounds.wait(seen);
  CHECK(s->synchronize());
  for (int i = 0; i < 5000; ++i) REQUIRE(s->synchronize());  // sleep and wake, over and over
}

TEST_CASE("several threads may enqueue on one stream") {
  auto host = make_host_device(1);
  auto s = open_stream(*host);
  int count = 0;
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p) {
    producers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        s->host_task([&] {
          ++count;
          return status{};
        });
      }
    });
  }
  for (auto& p : producers) p.join();
  REQUIRE(s->synchronize());
  CHECK(count == 8000);
}

TEST_CASE("destroying a stream finishes what is queued") {
  auto host = make_host_device(1);
  int count = 0;
  event_ptr last;
  {
    auto s = open_stream(*host);
    for (int i = 0; i < 1000; ++i) {
      s->host_task([&] {
        ++count;
        return status{};
      });
    }
    last = s->record();
  }
  CHECK(count == 1000);
  CHECK(last->done());
}

TEST_CASE("copy and zero, with one thread and with three") {
  auto host = make_host_device(3);
  for (int threads : {1, 3}) {
    auto s = open_stream(*host, threads);
    std::vector<unsigned char> from(3'000'001), to(from.size(), 1);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 251);
    s->copy(to.data(), from.data(), from.size());
    REQUIRE(s->synchronize());
    CHECK(to == from);
    s->zero(to.data() + 1, to.size() - 2);
    REQUIRE(s->synchronize());
    CHECK(to.front() == from.front());
    CHECK(to.back() == from.back());
    CHECK(std::count(to.begin() + 1, to.end() - 1, 0) == static_cast<long>(to.size()) - 2);
    s->copy(nullptr, nullptr, 0);
    CHECK(s->synchronize());
  }
}

TEST_CASE("allocate: aligned, zeroed, refused with the size when impossible") {
  auto host = make_host_device(1);
  for (size_t bytes : {size_t{1}, size_t{4097}, size_t{5} << 20}) {
    auto made = host->allocate(bytes);
    REQUIRE(made);
    CHECK(made->bytes() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(made->data()) % 64 == 0);
    CHECK(std::count(made->as<char>(), made->as<char>() + bytes, 0) == static_cast<long>(bytes));
    std::memset(made->data(), 1, bytes);
  }
  CHECK(host->allocate(0));
  for (size_t bytes : {size_t{1} << 60, SIZE_MAX, size_t{1} << 45}) {
    auto made = host->allocate(bytes);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::no_memory);
    CHECK(made.error().message.find(std::to_string(bytes)) != std::string::npos);
  }
}

TEST_CASE("facts: the host names its threads and memory, host memory is accessible") {
  auto host = make_host_device(3);
  CHECK(host->facts().threads == 3);
  CHECK(host->facts().memory_bytes > 0);
  CHECK_FALSE(host->facts().name.empty());
  CHECK(host->host_accessible());
  CHECK(make_host_device()->facts().threads >= 1);
}

TEST_CASE("TEAM-2: every member runs once, shares cover the range, results are visible") {
  for (int threads : {1, 2, 4}) {
    host::thread_team team(threads, "team");
    for (int round = 0; round < 2000; ++round) {
      std::vector<int> ran(static_cast<size_t>(threads));
      team.run([&](int member, int members) {
        ran[static_cast<size_t>(member)] += members == threads ? 1 : 100;
      });
      REQUIRE(ran == std::vector<int>(static_cast<size_t>(threads), 1));
    }
    for (int64_t items : {0, 1, 63, 64, 65, 1000}) {
      std::vector<int> split(static_cast<size_t>(items)), each(split);
      team.split(items, 16, [&](int64_t begin, int64_t end, int) {
        CHECK(begin % 16 == 0);
        for (int64_t i = begin; i < end; ++i) ++split[static_cast<size_t>(i)];
      });
      team.for_each(items, [&](int64_t i, int) { ++each[static_cast<size_t>(i)]; });
      CHECK(split == std::vector<int>(static_cast<size_t>(items), 1));
      CHECK(each == split);
    }
  }
}

// What only the host back end promises: threads of a stream, memory that host code may touch, the
// team of threads behind it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/host/memory.hpp"
#include "gpu/host/thread_team.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/device_list.hpp"

using namespace troupe;
using namespace troupe::gpu;
using troupe::gpu::testing::open_stream;

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
    CHECK(mentions(made.error(), bytes));
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

TEST_CASE("a stream says which threads of the host do its operations, and no other's") {
  const auto host = make_host_device(3);
  const auto one = open_stream(*host, 1), three = open_stream(*host, 3);
  const auto alone = one->host_threads(), team = three->host_threads();
  CHECK(alone.size() == 1);
  REQUIRE(team.size() == 3);
  int ran_on = 0;
  one->host_task([&] {
    ran_on = ::gettid();
    return status{};
  });
  REQUIRE(one->synchronize());
  CHECK(alone.front() == ran_on);
  auto all = team;
  all.push_back(alone.front());
  all.push_back(::gettid());
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  CHECK(three->host_threads() == team);
}

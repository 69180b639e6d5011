// The promises of device.hpp (DEV-1..5), on every device of this executable (device_list.hpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/gpu/device_list.hpp"

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::gpu;
using troupe::gpu::testing::on_every_device;
using troupe::gpu::testing::open_stream;

namespace {

status failure() {
  return error(errc::training, "it broke", "mend it");
}

}  // namespace

TEST_CASE("DEV-2: operations of a stream run in enqueue order") {
  on_every_device([](device& d) {
    auto s = open_stream(d, 2);
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
  });
}

TEST_CASE("DEV-1: enqueueing does not wait for earlier work") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
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
  });
}

TEST_CASE("DEV-2: an event orders two streams, in both directions, many times") {
  on_every_device([](device& d) {
    auto a = open_stream(d, 1, "a");
    auto b = open_stream(d, 1, "b");
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
  });
}

TEST_CASE("DEV-2: waiting for nothing is no operation") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    s->wait(nullptr);
    CHECK(s->synchronize());
  });
}

TEST_CASE("DEV-3: a failure skips later work, reaches callbacks, completes events") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
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
  });
}

TEST_CASE("DEV-3: what a task throws poisons its stream") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    s->host_task([]() -> status { throw std::runtime_error("thrown"); });
    auto outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::bug);
    s->host_task([]() -> status { throw std::bad_alloc(); });
    outcome = s->synchronize();
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::no_memory);
  });
}

TEST_CASE("DEV-3: a poisoned stream does not hold up who waits for it") {
  on_every_device([](device& d) {
    auto a = open_stream(d, 1, "a");
    auto b = open_stream(d, 1, "b");
    a->host_task(failure);
    b->wait(a->record());
    CHECK(b->synchronize());
    CHECK_FALSE(a->synchronize());
  });
}

TEST_CASE("notify may enqueue, and no wake-up is lost") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
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
  });
}

TEST_CASE("several threads may enqueue on one stream") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
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
  });
}

TEST_CASE("destroying a stream finishes what is queued") {
  on_every_device([](device& d) {
    int count = 0;
    event_ptr last;
    {
      auto s = open_stream(d);
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
  });
}

TEST_CASE("copy and zero: through the device and back, aligned or not") {
  on_every_device([](device& d) {
    auto s = open_stream(d, 3);
    for (size_t bytes : {size_t{1}, size_t{4097}, size_t{3'000'001}}) {
      std::vector<unsigned char> from(bytes), to(bytes, 1);
      for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 251);
      auto first = d.allocate(bytes), second = d.allocate(bytes + 3);
      REQUIRE(first);
      REQUIRE(second);
      auto* shifted = second->as<unsigned char>() + 3;
      s->copy(first->data(), from.data(), bytes);
      s->copy(shifted, first->data(), bytes);
      s->zero(first->data(), bytes);
      s->copy(to.data(), shifted, bytes);
      REQUIRE(s->synchronize());
      CHECK(to == from);
      s->copy(to.data(), first->data(), bytes);
      REQUIRE(s->synchronize());
      CHECK(to == std::vector<unsigned char>(bytes));
    }
    s->copy(nullptr, nullptr, 0);
    s->zero(nullptr, 0);
    CHECK(s->synchronize());
  });
}

TEST_CASE("copy and zero: of host memory, in order with what the host runs") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    int a = 1, b = 0, c = 0, seen = 0;
    for (int i = 1; i <= 200; ++i) {
      s->notify([&, i](const status&) { a = i; });
      s->copy(&b, &a, sizeof a);
      s->host_task([&] {
        seen += b;
        return status{};
      });
      s->notify([&](const status&) { c += b; });
      s->zero(&b, sizeof b);
      s->notify([&](const status&) { c += b; });
    }
    REQUIRE(s->synchronize());
    CHECK(seen == 200 * 201 / 2);
    CHECK(c == seen);
  });
}

TEST_CASE("DEV-2: an event covers the notifications before it") {
  on_every_device([](device& d) {
    auto a = open_stream(d, 1, "a");
    auto b = open_stream(d, 1, "b");
    auto c = open_stream(d, 1, "c");
    int value = 0, wrong = 0;
    for (int i = 0; i < 300; ++i) {
      a->notify([&](const status&) { ++value; });
      b->wait(a->record());
      b->notify([&, i](const status&) { wrong += value != i + 1; });
      c->wait(b->record());
      c->host_task([&, i] {
        wrong += value != i + 1;
        return status{};
      });
      auto point = c->record();
      if (i % 50 == 0) {
        point->wait_on_host();
        wrong += value != i + 1 || !point->done();
      }
      a->wait(point);
    }
    for (auto* s : {&a, &b, &c}) REQUIRE((*s)->synchronize());
    CHECK(wrong == 0);
  });
}

TEST_CASE("DEV-2: a device's stream and a host's wait for each other") {
  on_every_device([](device& d) {
    auto host = make_host_device(1);
    auto a = open_stream(d, 1, "a");
    auto b = open_stream(*host, 1, "b");
    auto memory = d.allocate(sizeof(int));
    REQUIRE(memory);
    int value = 0, wrong = 0;
    for (int i = 0; i < 500; ++i) {
      b->host_task([&] {
        ++value;
        return status{};
      });
      a->wait(b->record());
      a->copy(memory->data(), &value, sizeof value);
      a->zero(&value, sizeof value);
      a->copy(&value, memory->data(), sizeof value);
      b->wait(a->record());
      b->host_task([&, i] {
        wrong += value != i + 1;
        return status{};
      });
    }
    REQUIRE(b->synchronize());
    REQUIRE(a->synchronize());
    CHECK(wrong == 0);
  });
}

TEST_CASE("allocate: aligned, zeroed, refused with the size when impossible, on every device") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    for (size_t bytes : {size_t{1}, size_t{4097}, size_t{5} << 20}) {
      auto made = d.allocate(bytes);
      REQUIRE(made);
      CHECK(made->bytes() == bytes);
      CHECK(reinterpret_cast<uintptr_t>(made->data()) % 64 == 0);
      std::vector<char> seen(bytes, 1);
      s->copy(seen.data(), made->data(), bytes);
      REQUIRE(s->synchronize());
      CHECK(std::count(seen.begin(), seen.end(), 0) == static_cast<long>(bytes));
    }
    CHECK(d.allocate(0));
    for (size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
      auto made = d.allocate(bytes);
      REQUIRE_FALSE(made);
      CHECK(made.error().code == errc::no_memory);
      CHECK(mentions(made.error(), bytes));
    }
  });
}

TEST_CASE("facts: a name, an instruction set, memory") {
  on_every_device([](device& d) {
    CHECK_FALSE(d.facts().name.empty());
    CHECK(d.facts().memory_bytes > 0);
  });
}

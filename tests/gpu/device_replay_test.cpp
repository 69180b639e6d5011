// replay(), measure(), stamp() and pin() (device.hpp) on every device: the same results as without
// them.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "gpu/device.hpp"
#include "tests/gpu/device_list.hpp"

using namespace troupe;
using namespace troupe::gpu;
using testing::on_every_device;
using testing::open_stream;

namespace {

constexpr size_t count = 1000;

std::vector<float> numbers(float first) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = first + static_cast<float>(i);
  return out;
}

}  // namespace

TEST_CASE("replay does the operations each time it is called, whatever it kept of them") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    auto source = d.allocate(count * sizeof(float)), middle = d.allocate(count * sizeof(float)),
         end = d.allocate(count * sizeof(float));
    REQUIRE((source && middle && end));
    for (int round = 0; round < 6; ++round) {
      const auto sent = numbers(static_cast<float>(round));
      std::vector<float> got(count);
      s->copy(source->data(), sent.data(), count * sizeof(float));
      for (const uint64_t key : {1, 2})
        s->replay(key, [&, key] {
          if (key == 1) {
            s->zero(middle->data(), count * sizeof(float));
            s->copy(middle->data(), source->data(), count * sizeof(float) / 2);
          } else {
            s->copy(end->data(), middle->data(), count * sizeof(float));
          }
        });
      s->copy(got.data(), end->data(), count * sizeof(float));
      REQUIRE(s->synchronize());
      CAPTURE(round);
      CHECK(std::memcmp(got.data(), sent.data(), count * sizeof(float) / 2) == 0);
      for (size_t i = count / 2; i < count; ++i) REQUIRE(got[i] == 0);
    }
  });
}

TEST_CASE("a stream that was told not to replay calls what it is given each time") {
  on_every_device([](device& d) {
    auto s = d.make_stream({.name = "compute", .threads = 1, .replay = false});
    REQUIRE(s);
    auto memory = d.allocate(64);
    REQUIRE(memory);
    int calls = 0;
    for (int i = 0; i < 5; ++i)
      (*s)->replay(7, [&] {
        ++calls;
        (*s)->zero(memory->data(), 64);
      });
    REQUIRE((*s)->synchronize());
    CHECK(calls == 5);
  });
}

TEST_CASE("measure tells, in order, how long the stream took") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    auto a = d.allocate(4 << 20), b = d.allocate(4 << 20);
    REQUIRE((a && b));
    std::vector<double> told;
    for (int i = 1; i <= 3; ++i)
      s->measure([&] { s->copy(a->data(), b->data(), 4 << 20); },
                 [&told](double seconds) { told.push_back(seconds); });
    REQUIRE(s->synchronize());
    REQUIRE(told.size() == 3);
    for (const double seconds : told) {
      CHECK(seconds > 0);
      CHECK(seconds < 60);
    }
  });
}

TEST_CASE("stamps tell, in order, when the stream came there, by one clock") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    auto a = d.allocate(4 << 20), b = d.allocate(4 << 20);
    REQUIRE((a && b));
    std::vector<double> at_ms;
    double copied_ms = 0;
    const auto note = [&at_ms](double ms) { at_ms.push_back(ms); };
    s->stamp(note);
    s->measure([&] { s->copy(a->data(), b->data(), 4 << 20); },
               [&copied_ms](double seconds) { copied_ms = 1e3 * seconds; });
    s->stamp(note);
    s->stamp(note);
    REQUIRE(s->synchronize());
    REQUIRE(at_ms.size() == 3);
    constexpr double rounding_ms = 0.01;
    CHECK(copied_ms > 0);
    CHECK(at_ms[1] - at_ms[0] >= copied_ms - rounding_ms);
    CHECK(at_ms[2] >= at_ms[1]);

    s->host_task([]() -> status { return error{errc::io, "gone"}; });
    s->stamp(note);
    CHECK_FALSE(s->synchronize());
    REQUIRE(at_ms.size() == 4);  // of a stream that has failed, too
    CHECK(at_ms[3] >= at_ms[2]);
    s->stamp(note);
    REQUIRE(s->synchronize());
    REQUIRE(at_ms.size() == 5);
    CHECK(at_ms[4] >= at_ms[3]);
  });
}

TEST_CASE("memory that is pinned is copied from and to as before, and after it is let go") {
  on_every_device([](device& d) {
    auto s = open_stream(d);
    auto memory = d.allocate(count * sizeof(float));
    REQUIRE(memory);
    auto host = numbers(3);
    std::vector<float> back(count);
    {
      auto guard = d.pin(host.data(), host.size() * sizeof(float));
      REQUIRE(guard);
      s->copy(memory->data(), host.data(), count * sizeof(float));
      s->copy(back.data(), memory->data(), count * sizeof(float));
      REQUIRE(s->synchronize());
      CHECK(back == host);
    }
    host = numbers(5);
    s->copy(memory->data(), host.data(), count * sizeof(float));
    s->copy(back.data(), memory->data(), count * sizeof(float));
    REQUIRE(s->synchronize());
    CHECK(back == host);
  });
}

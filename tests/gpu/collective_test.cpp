// Groups of members in threads of one process, over real sockets.
#include "gpu/collective/communicator.hpp"

#include <functional>
#include <future>
#include <numeric>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::gpu;

namespace {

using table = std::vector<std::vector<std::string>>;

/// One member: its device, stream and end of the group. The stream ends before the communicator.
struct member {
  std::unique_ptr<device> host = make_host_device(1);
  std::unique_ptr<pending_group> pending;
  std::unique_ptr<communicator> group;
  std::unique_ptr<gpu::stream> stream;
};

std::vector<member> listening(int size, std::chrono::milliseconds timeout) {
  std::vector<member> all(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    auto& m = all[static_cast<size_t>(rank)];
    auto opened = open_gloo_group({"test", rank, size, "127.0.0.1", timeout});
    REQUIRE(opened);
    m.pending = std::move(*opened);
    auto made = m.host->make_stream({"test", 1});
    REQUIRE(made);
    m.stream = std::move(*made);
  }
  return all;
}

table table_of(const std::vector<member>& all) {
  table out;
  for (const auto& m : all) out.push_back(m.pending->addresses());
  return out;
}

/// A connected group: connecting blocks, so each end does it on a thread of its own.
std::vector<member> connected(int size,
                              std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  auto all = listening(size, timeout);
  const auto addresses = table_of(all);
  std::vector<std::future<bool>> done;
  for (auto& m : all)
    done.push_back(std::async(std::launch::async, [&m, &addresses] {
      auto made = m.pending->connect(addresses);
      if (made) m.group = std::move(*made);
      return made.has_value();
    }));
  for (auto& d : done) REQUIRE(d.get());
  return all;
}

}  // namespace

TEST_CASE("collective: sums of floats and doubles, of any length") {
  for (int size : {1, 2, 3}) {
    auto all = connected(size);
    for (int64_t count : {1, 7, 10'001}) {
      std::vector<std::vector<float>> f;
      std::vector<std::vector<double>> d;
      for (int r = 0; r < size; ++r) {
        f.emplace_back(count);
        std::iota(f.back().begin(), f.back().end(), static_cast<float>(r));
        d.emplace_back(f.back().begin(), f.back().end());
      }
      for (size_t r = 0; r < all.size(); ++r) {
        all[r].group->all_reduce_sum(*all[r].stream, f[r].data(), count);
        all[r].group->all_reduce_sum(*all[r].stream, d[r].data(), count);
      }
      for (auto& m : all) REQUIRE(m.stream->synchronize());
      const double base = size * (size - 1) / 2.0;
      for (int r = 0; r < size; ++r) {
        const auto at = static_cast<size_t>(r), last = static_cast<size_t>(count - 1);
        CHECK(f[at][0] == base);
        CHECK(f[at][last] == base + size * static_cast<double>(last));
        CHECK(d[at][last] == base + size * static_cast<double>(last));
      }
    }
  }
}

TEST_CASE("collective: everybody has the root's bytes, whoever is the root") {
  for (int size : {1, 2, 3})
    for (int root = 0; root < size; ++root)
      for (size_t bytes : {size_t{1}, size_t{4096}, size_t{100'003}}) {
        auto all = connected(size);
        std::vector<std::vector<uint8_t>> data;
        for (int r = 0; r < size; ++r) data.emplace_back(bytes, static_cast<uint8_t>(0x80 + r));
        data[static_cast<size_t>(root)].back() = 7;
        for (size_t r = 0; r < all.size(); ++r)
          all[r].group->broadcast(*all[r].stream, data[r].data(), bytes, root);
        for (auto& m : all) REQUIRE(m.stream->synchronize());
        for (const auto& d : data) CHECK(d == data[static_cast<size_t>(root)]);
      }
}

TEST_CASE("COM-2: the same sum has the same bits, on every member and every time") {
  const int64_t count = 4099;
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    auto all = connected(3);
    std::vector<std::vector<float>> data(3);
    for (size_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < count; ++i)
        data[r].push_back(1.0f / static_cast<float>(1 + i * (static_cast<int64_t>(r) + 1)));
    for (size_t r = 0; r < 3; ++r)
      all[r].group->all_reduce_sum(*all[r].stream, data[r].data(), count);
    for (auto& m : all) REQUIRE(m.stream->synchronize());
    CHECK(data[0] == data[1]);
    CHECK(data[0] == data[2]);
    if (round == 0) first = data[0];
    CHECK(data[0] == first);
  }
}

TEST_CASE("collective: tags pair sends with receives, whatever their order") {
  auto all = connected(2);
  std::vector<int> sent{1, 2, 3}, got(3);
  for (size_t i = 0; i < 3; ++i) all[0].group->send(*all[0].stream, &sent[i], sizeof(int), 1, i);
  auto lane = all[1].host->make_stream({"second", 1});
  REQUIRE(lane);
  for (size_t i : {0, 2}) all[1].group->receive(*all[1].stream, &got[i], sizeof(int), 0, i);
  all[1].group->receive(**lane, &got[1], sizeof(int), 0, 1);
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  REQUIRE((*lane)->synchronize());
  CHECK(got == sent);
}

TEST_CASE("COM-3: abort makes what is pending fail, on both sides, long before the time-out") {
  auto all = connected(2, std::chrono::minutes(10));
  const auto before = std::chrono::steady_clock::now();
  float value = 1, other = 1;
  std::promise<void> running;
  all[0].stream->host_task([&] {
    running.set_value();
    return status{};
  });
  SUBCASE("a transfer") {
    all[0].group->receive(*all[0].stream, &value, sizeof(value), 1, 5);
  }
  SUBCASE("a sum") {
    all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  }
  all[1].group->receive(*all[1].stream, &other, sizeof(other), 0, 77);
  running.get_future().wait();
  all[0].group->abort();
  auto s = all[0].stream->synchronize();
  REQUIRE_FALSE(s);
  CHECK((s.error().code == errc::cancelled || s.error().code == errc::unavailable));
  CHECK_FALSE(all[1].stream->synchronize());
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  auto later = all[0].stream->synchronize();
  REQUIRE_FALSE(later);
  CHECK(later.error().code == errc::cancelled);
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::minutes(1));
}

TEST_CASE("COM-3: a dead peer makes operations fail") {
  auto all = connected(3);
  all[2].group.reset();
  std::vector<float> data(1000, 1);
  std::vector<float> other = data;
  all[0].group->all_reduce_sum(*all[0].stream, data.data(), 1000);
  all[1].group->all_reduce_sum(*all[1].stream, other.data(), 1000);
  for (size_t r = 0; r < 2; ++r) {
    auto s = all[r].stream->synchronize();
    REQUIRE_FALSE(s);
    CHECK(s.error().code == errc::unavailable);
    all[r].group->abort();
  }
}

TEST_CASE("collective: a silent peer is a failure after the time-out") {
  auto all = connected(2, std::chrono::milliseconds(300));
  float value = 1;
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  CHECK_FALSE(all[0].stream->synchronize());
}

TEST_CASE("collective: tables that do not fit are refused") {
  auto all = listening(2, std::chrono::seconds(5));
  const auto good = table_of(all);
  std::vector<table> bad{{}, {good[0]}, {good[0], good[1], good[1]}};
  for (const std::string& address :
       {std::string(), std::string("x"), std::string(300, 'x'), good[1][0] + "x"}) {
    bad.push_back(good);
    bad.back()[1][0] = address;
  }
  bad.push_back(good);
  bad.back()[1].pop_back();
  for (const auto& t : bad) {
    auto made = all[0].pending->connect(t);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::bad_data);
  }
}

TEST_CASE("collective: impossible members are refused") {
  CHECK_FALSE(open_gloo_group({"test", 2, 2}));
  CHECK_FALSE(open_gloo_group({"test", -1, 2}));
  CHECK_FALSE(open_gloo_group({"test", 0, 0}));
}

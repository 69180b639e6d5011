// What every kind of group must do, on any device: members in threads of one process.
//
// Why here: communicator.hpp is one contract; Gloo on the host device and NCCL on the emulated one
// run the same cases (collective_test.cpp, cuda/nccl_test.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <numeric>

#include <doctest/doctest.h>

#include "gpu/collective/communicator.hpp"

namespace troupe::gpu::collective_cases {

using table = std::vector<std::vector<std::string>>;

/// A back end of groups, and the device whose memory it moves; std::vectors are such memory, too.
struct transport {
  std::function<std::unique_ptr<device>()> make_device;
  std::function<result<std::unique_ptr<pending_group>>(const group_options&, device&)> open;
};

/// One member: its device, stream and end of the group. The stream ends before the communicator.
struct member {
  std::unique_ptr<gpu::device> device;
  std::unique_ptr<pending_group> pending;
  std::unique_ptr<communicator> group;
  std::unique_ptr<gpu::stream> stream;
};

/// What a test counts on going well has a time-out that only a hang reaches.
constexpr std::chrono::minutes ample{10};

inline std::vector<member> listening(const transport& t, int size,
                                     std::chrono::milliseconds timeout,
                                     std::chrono::milliseconds connect_timeout = ample,
                                     const std::stop_token& ending = {}) {
  std::vector<member> all(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    auto& m = all[static_cast<size_t>(rank)];
    m.device = t.make_device();
    auto opened = t.open({"test", rank, size, "127.0.0.1", timeout, true, connect_timeout, ending},
                         *m.device);
    REQUIRE(opened);
    m.pending = std::move(*opened);
    auto made = m.device->make_stream({"test", 1});
    REQUIRE(made);
    m.stream = std::move(*made);
  }
  return all;
}

inline table table_of(const std::vector<member>& all) {
  table out;
  for (const auto& m : all) out.push_back(m.pending->addresses());
  return out;
}

/// What all ranks have for rank `r`.
inline std::vector<std::string> offered_to(const table& addresses, size_t r) {
  std::vector<std::string> out;
  for (const auto& row : addresses) out.push_back(row[r]);
  return out;
}

/// Connecting blocks, so each end does it on a thread of its own.
inline void connect_all(std::vector<member>& all, const table& addresses) {
  std::vector<std::future<status>> done;
  for (size_t r = 0; r < all.size(); ++r)
    done.push_back(std::async(std::launch::async, [&m = all[r], &addresses, r]() -> status {
      TROUPE_TRY(made, m.pending->connect(offered_to(addresses, r)));
      m.group = std::move(made);
      return {};
    }));
  for (auto& d : done) {
    const auto s = d.get();
    REQUIRE_MESSAGE(s, (s ? std::string() : render(s.error())));
  }
}

/// A connected group.
inline std::vector<member> connected(const transport& t, int size,
                                     std::chrono::milliseconds timeout = ample) {
  auto all = listening(t, size, timeout);
  connect_all(all, table_of(all));
  return all;
}

/// Sums of floats and doubles, of any length.
inline void sums(const transport& t) {
  for (int size : {1, 2, 3}) {
    auto all = connected(t, size);
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

/// COM-2: the same sum has the same bits, on every member and every time.
inline void same_bits(const transport& t) {
  const int64_t count = 4099;
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    auto all = connected(t, 3);
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

/// Two of three connect; the third never does.
inline void abort_ends_connecting(const transport& t) {
  std::stop_source ending;
  auto all = listening(t, 3, ample, ample, ending.get_token());
  const auto addresses = table_of(all);
  std::vector<std::future<error>> ended;
  for (size_t r : {0, 1})
    ended.push_back(std::async(std::launch::async, [&, r] {
      const auto made = all[r].pending->connect(offered_to(addresses, r));
      return made ? error{} : made.error();
    }));
  CHECK(ended[0].wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  ending.request_stop();
  // Whose turn is second may have seen that the first is gone.
  const std::array codes{ended[0].get().code, ended[1].get().code};
  CHECK(std::count(codes.begin(), codes.end(), errc::cancelled) >= 1);
  for (const auto code : codes) CHECK((code == errc::cancelled || code == errc::unavailable));
}

/// COM-3: abort makes what is pending fail, on both sides, long before the time-out.
inline void abort_fails_what_is_pending(const transport& t) {
  auto all = connected(t, 2);
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

/// COM-3: a dead peer makes operations fail.
inline void dead_peer(const transport& t) {
  auto all = connected(t, 3);
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

/// A silent peer is a failure after the time-out.
inline void silent_peer(const transport& t) {
  auto all = connected(t, 2, std::chrono::milliseconds(300));
  float value = 1;
  all[0].group->all_reduce_sum(*all[0].stream, &value, 1);
  CHECK_FALSE(all[0].stream->synchronize());
}

/// Tables that do not fit are refused.
inline void tables_that_do_not_fit(const transport& t) {
  auto all = listening(t, 2, ample);
  const auto good = offered_to(table_of(all), 0);
  std::vector<std::vector<std::string>> bad{{}, {good[0]}, {good[0], good[1], good[1]}};
  for (const std::string& address :
       {std::string(), std::string("x"), std::string(300, 'x'), good[1] + "x",
        good[1].substr(0, good[1].size() - 1), std::string(2, '\xff') + std::string(200, 'x')}) {
    bad.push_back(good);
    bad.back()[1] = address;
  }
  for (const auto& wrong : bad) {
    auto made = all[0].pending->connect(wrong);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::bad_data);
  }
}

/// Every part of a scattered sum is whole at its rank.
inline void scattered_sums(const transport& t) {
  for (int size : {1, 2, 3, 4})
    for (int64_t part : {1, 5, 4099, 700'001}) {  // the last one in several pieces
      auto all = connected(t, size);
      std::vector<std::vector<float>> data(static_cast<size_t>(size));
      for (size_t r = 0; r < data.size(); ++r)
        for (int64_t i = 0; i < size * part; ++i)
          data[r].push_back(static_cast<float>((static_cast<int64_t>(r) + 1) * (i % 9973 + 1)));
      for (size_t r = 0; r < all.size(); ++r)
        all[r].group->reduce_scatter_sum(*all[r].stream, data[r].data(), part);
      for (auto& m : all) REQUIRE(m.stream->synchronize());
      for (int64_t r = 0; r < size; ++r) {
        int64_t wrong = 0;
        for (int64_t i = r * part; i < (r + 1) * part; ++i)
          wrong += data[static_cast<size_t>(r)][static_cast<size_t>(i)] !=
                   static_cast<float>((i % 9973 + 1) * size * (size + 1) / 2);
        CHECK(wrong == 0);
      }
    }
}

/// Everybody has everybody's part.
inline void gathered_parts(const transport& t) {
  for (int size : {1, 2, 3})
    for (size_t bytes : {size_t{1}, size_t{4096}, size_t{10'001}}) {
      auto all = connected(t, size);
      std::vector<uint8_t> whole;
      for (int r = 0; r < size; ++r) whole.insert(whole.end(), bytes, static_cast<uint8_t>(r + 1));
      std::vector<std::vector<uint8_t>> data(all.size(), std::vector<uint8_t>(whole.size(), 0xee));
      for (size_t r = 0; r < all.size(); ++r) {
        const auto from = static_cast<std::ptrdiff_t>(r * bytes);
        const auto to = from + static_cast<std::ptrdiff_t>(bytes);
        std::copy(whole.begin() + from, whole.begin() + to, data[r].begin() + from);
        all[r].group->all_gather(*all[r].stream, data[r].data(), bytes);
      }
      for (auto& m : all) REQUIRE(m.stream->synchronize());
      for (const auto& d : data) CHECK(d == whole);
    }
}

/// One stage of a pipeline: a lane for each of its transfers.
struct stage {
  std::unique_ptr<gpu::stream> compute, activation_in, activation_out, gradient_in, gradient_out;
  std::vector<int> activation, gradient;  ///< by micro-batch
};

/// Transfers of a whole pipeline, with every receive enqueued before anything is sent: each lane
/// goes its own way, or nobody gets anything (COM-4).
inline void pipeline_lanes(const transport& t) {
  constexpr int ranks = 4, batches = 6;
  auto all = connected(t, ranks);
  std::vector<stage> stages(ranks);
  const auto lane = [](member& m, const char* name) {
    auto made = m.device->make_stream({name, 1});
    REQUIRE(made);
    return std::move(*made);
  };
  for (size_t r = 0; r < ranks; ++r) {
    auto& s = stages[r];
    s = {lane(all[r], "compute"),
         lane(all[r], "fwd-recv"),
         lane(all[r], "fwd-send"),
         lane(all[r], "bwd-recv"),
         lane(all[r], "bwd-send"),
         {},
         {}};
    s.activation.assign(batches, 0);
    s.gradient.assign(batches, 0);
  }
  for (int r = 0; r < ranks; ++r) {
    auto& s = stages[static_cast<size_t>(r)];
    auto& g = *all[static_cast<size_t>(r)].group;
    for (size_t b = 0; b < batches; ++b) {
      int *a = &s.activation[b], *d = &s.gradient[b];
      if (r + 1 < ranks) g.receive(*s.gradient_in, d, sizeof(int), r + 1, 2 * b + 1);
      if (r > 0) g.receive(*s.activation_in, a, sizeof(int), r - 1, 2 * b);
      s.compute->wait(s.activation_in->record());
      s.compute->host_task([a, b] { return *a += static_cast<int>(b) + 1, status{}; });
      s.activation_out->wait(s.compute->record());
      if (r + 1 < ranks) g.send(*s.activation_out, a, sizeof(int), r + 1, 2 * b);
    }
    for (size_t b = 0; b < batches; ++b) {
      int *a = &s.activation[b], *d = &s.gradient[b];
      s.compute->wait(s.gradient_in->record());
      s.compute->host_task([a, d] { return *d += *a, status{}; });
      s.gradient_out->wait(s.compute->record());
      if (r > 0) g.send(*s.gradient_out, d, sizeof(int), r - 1, 2 * b + 1);
    }
  }
  for (auto& s : stages)
    for (auto* lane_of :
         {&s.compute, &s.activation_in, &s.activation_out, &s.gradient_in, &s.gradient_out})
      REQUIRE((*lane_of)->synchronize());
  for (int b = 0; b < batches; ++b) {
    CHECK(stages.back().activation[static_cast<size_t>(b)] == ranks * (b + 1));
    CHECK(stages.front().gradient[static_cast<size_t>(b)] == 10 * (b + 1));
  }
}

}  // namespace troupe::gpu::collective_cases

// The ring's slots: one owner each, never more than there are, never two on the same bytes;
// whatever the order in which they come back.
#include "io/disk/slots.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

std::shared_ptr<slots> ring_of(int count, size_t slot_bytes = disk_block) {
  slots_options options;
  options.slot_bytes = slot_bytes;
  options.count = count;
  auto ring = slots::make(options);
  REQUIRE(ring);
  return *ring;
}

int sum(const slot_counts& c) {
  return c.free + c.filling + c.filled + c.writing;
}

/// Every 8 bytes of a slot bear its owner's number.
void brand(const slot& s, uint64_t owner) {
  auto bytes = s.bytes();
  for (size_t i = 0; i < bytes.size(); i += 8) std::memcpy(&bytes[i], &owner, 8);
}

bool branded(const slot& s, uint64_t owner) {
  auto bytes = s.bytes();
  for (size_t i = 0; i < bytes.size(); i += 8)
    if (std::memcmp(&bytes[i], &owner, 8) != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("a slot goes through its life and is counted in each state") {
  auto ring = ring_of(3, 2 * disk_block);
  CHECK(ring->counts() == slot_counts{3, 0, 0, 0, 0});
  {
    auto a = ring->try_take();
    REQUIRE(a);
    CHECK(a->bytes().size() == 2 * disk_block);
    CHECK(reinterpret_cast<uintptr_t>(a->bytes().data()) % disk_block == 0);
    CHECK(ring->counts() == slot_counts{2, 1, 0, 0, 0});
    a->filled();
    CHECK(ring->counts() == slot_counts{2, 0, 1, 0, 0});
    a->writing();
    CHECK(ring->counts() == slot_counts{2, 0, 0, 1, 0});
    slot moved = std::move(*a);
    CHECK_FALSE(static_cast<bool>(*a));
    CHECK(ring->counts() == slot_counts{2, 0, 0, 1, 0});
  }
  CHECK(ring->counts() == slot_counts{3, 0, 0, 0, 0});
}

TEST_CASE("the wrap-around trace that hands out live memory of a ring buffer cannot happen") {
  // Capacity 10: A5 B4, free A, C5, D1. With head and tail C lies on [0,5) and D on [0,1).
  auto ring = ring_of(10);
  std::vector<std::pair<uint64_t, slot>> held;
  auto take = [&](uint64_t owner, int n) {
    for (int i = 0; i < n; ++i) {
      auto s = ring->try_take();
      REQUIRE(s);
      brand(*s, owner);
      held.emplace_back(owner, std::move(*s));
    }
  };
  take('A', 5);
  take('B', 4);
  std::erase_if(held, [](const auto& h) { return h.first == 'A'; });
  take('C', 5);
  take('D', 1);
  CHECK_FALSE(ring->try_take());
  std::vector<int> places;
  for (const auto& [owner, s] : held) {
    CHECK(branded(s, owner));
    places.push_back(s.index());
  }
  std::sort(places.begin(), places.end());
  CHECK(std::adjacent_find(places.begin(), places.end()) == places.end());
}

TEST_CASE("SL-1 SL-2 SL-3 slots given back in any order never alias, by seeds") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    int count = 1 + static_cast<int>(random() % 12);
    auto ring = ring_of(count);
    std::vector<std::pair<uint64_t, slot>> held;
    for (uint64_t owner = 1; owner <= 150; ++owner) {
      if (random() % 2 == 0) {
        auto s = ring->try_take();
        REQUIRE(static_cast<bool>(s) == (held.size() < static_cast<size_t>(count)));
        if (!s) continue;
        brand(*s, owner);
        held.emplace_back(owner, std::move(*s));
      } else if (!held.empty()) {
        size_t i = random() % held.size();
        REQUIRE(branded(held[i].second, held[i].first));
        if (random() % 2 == 0) held[i].second.filled();
        if (random() % 2 == 0) held[i].second.writing();
        std::swap(held[i], held.back());
        held.pop_back();
      }
      auto counts = ring->counts();
      REQUIRE(sum(counts) == count);
      REQUIRE(counts.free == count - static_cast<int>(held.size()));
    }
    for (const auto& [owner, s] : held) REQUIRE(branded(s, owner));
  }
}

TEST_CASE("SL-5 taking waits no longer than told, and is woken by a slot") {
  auto ring = ring_of(1);
  auto only = ring->try_take();
  REQUIRE(only);
  CHECK_FALSE(ring->take(std::chrono::milliseconds(1)));
  std::thread giver([s = std::move(*only)]() mutable { s.give_back(); });
  CHECK(ring->take(std::chrono::minutes(5)));
  giver.join();
}

TEST_CASE("SL-4 an abandoned slot is never handed out again") {
  auto ring = ring_of(2);
  auto lost = ring->try_take();
  lost->writing();
  lost->abandon();
  CHECK(ring->counts() == slot_counts{1, 0, 0, 1, 1});
  auto other = ring->try_take();
  CHECK(other);
  CHECK_FALSE(ring->try_take());
}

TEST_CASE("threads take and give slots without sharing one") {
  auto ring = ring_of(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto s = ring->take(std::chrono::minutes(5));
        if (!s) {
          ++wrong;
          continue;
        }
        brand(*s, t);
        s->filled();
        if (!branded(*s, t)) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(ring->counts() == slot_counts{3, 0, 0, 0, 0});
}

TEST_CASE("the arena is pinned once as a whole, and unpinned, and impossible rings are refused") {
  slots_options options;
  options.slot_bytes = disk_block;
  options.count = 4;
  size_t pinned = 0, unpinned = 0;
  options.pin = [&](std::span<std::byte> arena) {
    pinned += arena.size();
    return status{};
  };
  options.unpin = [&](std::span<std::byte> arena) { unpinned += arena.size(); };
  {
    auto ring = slots::make(options);
    REQUIRE(ring);
    CHECK(pinned == 4 * disk_block);
    CHECK(unpinned == 0);
  }
  CHECK(unpinned == 4 * disk_block);
  const error refused(errc::no_memory, "no pins left");
  options.pin = [&](std::span<std::byte>) { return status{refused}; };
  CHECK(slots::make(options).error() == refused);
  CHECK(unpinned == 4 * disk_block);
  options.slot_bytes = 1000;
  CHECK(slots::make(options).error().code == errc::bad_config);
  options.slot_bytes = disk_block;
  options.count = 0;
  CHECK(slots::make(options).error().code == errc::bad_config);
}

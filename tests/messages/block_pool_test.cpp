// The memory of messages: aligned, reused by the thread, passed between threads, bounded.
#include "messages/block_pool.hpp"

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "messages/msg.hpp"
#include "messages/schemas/troupe_generated.h"

using namespace troupe;
using detail::give_memory;
using detail::take_memory;

TEST_CASE("BP-1: memory of every size is 16-byte aligned and all of it is usable") {
  for (size_t bytes = 1; bytes < 200'000; bytes += bytes / 7 + 1) {
    CAPTURE(bytes);
    auto* memory = take_memory(bytes);
    REQUIRE(memory != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(memory) % 16 == 0);
    std::memset(memory, 0xab, bytes);
    give_memory(memory, bytes);
  }
}

TEST_CASE("what a thread gives back is what it takes next") {
  auto* first = take_memory(3000);
  give_memory(first, 3000);
  auto* second = take_memory(2900);  // the same class of sizes
  CHECK(second == first);
  give_memory(second, 2900);
  auto* other = take_memory(100);
  CHECK(other != first);
  give_memory(other, 100);
}

TEST_CASE("BP-2: a thread keeps no more than its bound of a class") {
  std::thread([] {  // a thread that keeps nothing yet
    constexpr size_t bytes = 8192;
    std::vector<void*> all;
    for (size_t i = 0; i < 100; ++i) all.push_back(take_memory(bytes));
    CHECK(detail::kept_memory() == 0);
    for (auto* memory : all) give_memory(memory, bytes);
    CHECK(detail::kept_memory() == detail::keep_bytes);
    std::set<void*> given(all.begin(), all.end());
    auto* again = take_memory(bytes);
    CHECK(given.count(again) == 1);
    CHECK(detail::kept_memory() == detail::keep_bytes - bytes);
    give_memory(again, bytes);
    auto* large = take_memory(detail::largest_kept_bytes + 1);
    give_memory(large, detail::largest_kept_bytes + 1);
    CHECK(detail::kept_memory() == detail::keep_bytes);
  })
      .join();
}

TEST_CASE("memory taken by one thread may be given back by another, also at its end") {
  for (int round = 0; round < 20; ++round) {
    std::vector<msg<fbs::Ack>> made;
    std::thread([&] {
      for (int i = 0; i < 200; ++i)
        made.push_back(make_msg<fbs::Ack>({}, [](auto& x) { x.text = "from another thread"; }));
    }).join();
    std::thread([&] { made.clear(); }).join();
    made.push_back(make_msg<fbs::Ack>({}, [](auto& x) { x.text = "mine"; }));
    CHECK(made[0]->text()->str() == "mine");
  }
}

TEST_CASE("a run of large messages settles on memory that fits them") {
  std::vector<uint8_t> data(300'000, 9);
  for (int i = 0; i < 3; ++i) {
    auto m = try_build_msg<fbs::Bytes>(
        {}, [&](message_builder& b) { return fbs::CreateBytesDirect(b, &data); });
    REQUIRE(m);
    CHECK((*m)->data()->size() == data.size());
  }
  builder_loan loan;
  auto& builder = *loan;
  // The first piece of the next one is allocated large enough for all of it.
  auto text = builder.CreateString("x");
  auto* before = builder.GetCurrentBufferPointer();
  auto bytes = builder.CreateVector(data.data(), data.size());
  CHECK(before - builder.GetCurrentBufferPointer() >= 300'000);
  CHECK(before - builder.GetCurrentBufferPointer() < 300'100);
  builder.restart();
  (void)text;
  (void)bytes;
}

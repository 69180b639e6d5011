// Who holds how much of a process's memory.
#include "io/base/memory_account.hpp"

#include <unistd.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "io/disk/disk.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("MAC-1: no booking exceeds the least limit, and the refusal names all holders") {
  memory_account account;
  auto weights = account.book("weights", 6 << 20);
  REQUIRE(weights);
  const auto wide = account.limit_to(100 << 20);
  const auto limit = account.limit_to(10 << 20);
  REQUIRE(account.book("state", 4 << 20));  // given back at once
  auto state = account.book("state", 3 << 20);
  REQUIRE(state);
  const auto refused = account.book("activations", (1 << 20) + 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(memory_used_up));
  CHECK(refused.error().code == errc::no_memory);
  for (const auto* word : {"activations", "weights: 6.0 MiB", "state: 3.0 MiB", "10.0 MiB"})
    CHECK(refused.error().message.find(word) != std::string::npos);
  CHECK(account.book("activations", 1 << 20));
  CHECK_FALSE(account.book("all", UINT64_MAX));
  const auto table = account.held();
  CHECK(table.limit_bytes == 10 << 20);
  CHECK(table.held_bytes == 9 << 20);
  CHECK(table.peak_bytes == 10 << 20);
  CHECK(table.holders.front().holder == "weights");
}

TEST_CASE("MAC-1: a limit below what is held refuses all until it ends") {
  memory_account account;
  auto held = account.book("weights", 100);
  {
    const auto limit = account.limit_to(50);
    CHECK_FALSE(account.book("state", 1));
    *held = {};
    CHECK(account.book("state", 50));
  }
  CHECK(account.book("state", 1000));
  CHECK(account.held().limit_bytes == 0);
}

TEST_CASE("MAC-4: each GPU has an account of its own, whose refusal names its own key") {
  constexpr int first = 61, second = 62;  // GPUs that nothing else here has
  CHECK(&device_memory(first) == &device_memory(first));
  CHECK(&device_memory(first) != &device_memory(second));
  const auto of_process = process_memory().held().held_bytes;
  const auto limit = device_memory(first).limit_to(100);
  const auto weights = device_memory(first).book("weights", 80);
  REQUIRE(weights);
  const auto refused = device_memory(first).book("gradients", 21);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(device_memory_used_up));
  CHECK(refused.error().code == errc::no_memory);
  for (const auto* word : {"gradients", "weights: 80 B"})
    CHECK(refused.error().message.find(word) != std::string::npos);
  CHECK(refused.error().hint.find("swap.device_bytes") != std::string::npos);
  CHECK(device_memory(first).book("gradients", 20));
  CHECK(device_memory(second).book("gradients", 1000));
  CHECK(process_memory().held().held_bytes == of_process);
}

TEST_CASE("MAC-2: a booking gives back once, wherever it was moved") {
  memory_account account;
  {
    auto first = account.book("weights", 100);
    memory_account::booking second = std::move(*first);
    memory_account::booking third;
    third = std::move(second);
    CHECK(account.held().held_bytes == 100);
  }
  CHECK(account.held().held_bytes == 0);
  CHECK(account.held().holders.front().peak_bytes == 100);
}

TEST_CASE("MAC-2: from many threads nothing is lost") {
  memory_account account;
  const auto limit = account.limit_to(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&account] {
      for (int i = 0; i < 1000; ++i) static_cast<void>(account.book("state", 400));
    });
  for (auto& t : threads) t.join();
  CHECK(account.held().held_bytes == 0);
  CHECK(account.held().peak_bytes <= 1000);
}

// What malloc frees stays with the process, so that it grew beyond what was booked.
TEST_CASE("MAC-3: large buffers that are freed go back to the machine, whichever thread had them") {
  constexpr size_t size = size_t{12} << 20;
  std::vector<std::unique_ptr<std::byte[]>> between;  // what keeps a heap from shrinking
  const auto use = [&] {
    for (int i = 0; i < 4; ++i) {
      std::vector<io_buffer> all;
      for (int n = 0; n < 3; ++n) {
        all.push_back(io_buffer::allocate(size));
        between.push_back(std::make_unique<std::byte[]>(2000));
      }
    }
  };
  const auto before = resident_bytes();
  use();
  std::thread(use).join();
  CHECK(resident_bytes() < before + size / 2);
}

TEST_CASE("memory_holder: the innermost of the thread") {
  CHECK(std::string_view(memory_holder::current()) == "others");
  const memory_holder outer("weights");
  {
    const memory_holder inner("state");
    CHECK(std::string_view(memory_holder::current()) == "state");
    std::thread([] { CHECK(std::string_view(memory_holder::current()) == "others"); }).join();
  }
  CHECK(std::string_view(memory_holder::current()) == "weights");
}

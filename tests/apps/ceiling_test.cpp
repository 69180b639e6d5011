// "% of peak": against the best that was ever seen of this machine, and never above 100.
#include "apps/ceiling.hpp"

#include <atomic>
#include <latch>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/ceiling_watch.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::apps {

namespace {

io::fact_store ceiling_store(const scratch& dir) {
  return {dir.path, "0123456789abcdef", "1.2.3", 1'800'000'000};
}

/// The name of the one fact in a store.
std::string only_fact(const io::fact_store& store) {
  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator(store.folder / store.machine)) {
    REQUIRE(name.empty());
    name = entry.path().stem();
  }
  return name;
}

}  // namespace

TEST_CASE("CEIL-1 the best sample counts, of this run or of an earlier one") {
  scratch dir;
  const auto store = ceiling_store(dir);
  auto first = ceiling::make(gpu::dtype::f32, 1, store);
  REQUIRE(first);
  const double measured = first->flops();
  CHECK(measured > 0);
  first->sample();
  CHECK(first->flops() >= measured);
  const auto fact = only_fact(store);
  CHECK(store.find(fact, std::chrono::hours(1))->at("flops") == first->flops());

  store.keep(fact, {{"flops", 1e15}});  // the machine was quieter then
  auto second = ceiling::make(gpu::dtype::f32, 1, store);
  REQUIRE(second);
  second->sample();
  CHECK(second->flops() == 1e15);
  store.keep(fact, {{"flops", 1.0}});  // and busier
  auto third = ceiling::make(gpu::dtype::f32, 1, store);
  REQUIRE(third);
  CHECK(third->flops() > 1);
  CHECK(store.find(fact, std::chrono::hours(1))->at("flops") == third->flops());
}

TEST_CASE("CEIL-1 a kept ceiling that cannot be right is as absent") {
  scratch dir;
  const auto store = ceiling_store(dir);
  REQUIRE(ceiling::make(gpu::dtype::f32, 1, store));
  const auto fact = only_fact(store);
  for (const nlohmann::json& wrong :
       {nlohmann::json(nullptr), nlohmann::json(5), nlohmann::json{{"flops", "fast"}},
        nlohmann::json{{"flops", -1e15}}, nlohmann::json{{"flops", 1e30}},
        nlohmann::json{{"speed", 1e15}}}) {
    CAPTURE(wrong.dump());
    store.keep(fact, wrong);
    auto made = ceiling::make(gpu::dtype::f32, 1, store);
    REQUIRE(made);
    CHECK(made->flops() > 0);
    CHECK(made->flops() < 1e15);
  }
}

TEST_CASE("CEIL-3 CEIL-4 who asks for a sample waits for none, and one is taken at a time") {
  std::latch asked(1), begun(1);
  std::atomic<int> taken = 0;
  {
    ceiling_watch watch(1e9, [&] {
      ++taken;
      begun.count_down();
      asked.wait();
      return 2e9;
    });
    watch.ask();  // would never come back if it waited
    begun.wait();
    watch.ask();
    CHECK(watch.flops() == 1e9);
    asked.count_down();
    while (watch.flops() != 2e9) std::this_thread::yield();
    CHECK(taken == 1);
  }
  ceiling_watch again(1e9, [&] { return ++taken * 1e9; });
  while (taken < 3) again.ask();
  CHECK(taken >= 3);
}

TEST_CASE("CEIL-2 a share of the peak is never above 1") {
  CHECK(share_of_peak(50, 200) == 0.25);
  CHECK(share_of_peak(200, 200) == 1);
  CHECK(share_of_peak(471.7, 100) == 1);
}

}  // namespace troupe::apps

// The product whose bits are known: every kernel and device gives them, and one wrong element is
// seen.
#include "gpu/known_product.hpp"

#include <doctest/doctest.h>

#include "tests/gpu/backends.hpp"

using namespace troupe;
using namespace troupe::gpu;

TEST_CASE("KNP-1: a thread gives the known bits, and the same ones each time") {
  known_product p;
  const auto a = p.on_this_thread();
  CHECK(a.wrong == 0);
  CHECK(a.hash != 0);
  CHECK(p.on_this_thread().hash == a.hash);
  CHECK(known_product().on_this_thread().hash == a.hash);
}

TEST_CASE("known product: one wrong bit of one element is seen") {
  known_product p;
  const auto well = p.on_this_thread();
  const auto a = p.on_this_thread([](std::span<float> y) { y[77] = -y[77]; });
  CHECK(a.wrong == 2);  // of float32 and of bfloat16
  CHECK(a.hash != well.hash);
}

TEST_CASE("known product: every device gives the known bits") {
  for (const auto& b : testing::backends()) {
    CAPTURE(b.name);
    const known_product p;
    const auto a = p.on_device(*b.owner);
    REQUIRE(a);
    CHECK(a->wrong == 0);
    const auto spoiled = p.on_device(*b.owner, [](std::span<float> y) { y[3] += 1; });
    REQUIRE(spoiled);
    CHECK(spoiled->wrong == 1);
  }
}

TEST_CASE("minority: who differs from more than half, and all where there is no such half") {
  using places = std::vector<size_t>;
  CHECK(minority(std::vector<uint64_t>{}).empty());
  CHECK(minority(std::vector<uint64_t>{7}).empty());
  CHECK(minority(std::vector<uint64_t>{7, 7, 8}) == places{2});
  CHECK(minority(std::vector<uint64_t>{7, 8}) == places{0, 1});
  CHECK(minority(std::vector<uint64_t>{7, 7, 8, 9}) == places{0, 1, 2, 3});
}

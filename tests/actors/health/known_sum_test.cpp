// Numbers whose sums are known: exact, different for each member, and compared bit by bit.
#include "actors/health/known_sum.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

using namespace troupe::health;

namespace {

/// As members of a group sum, in the order of ranks.
std::vector<float> sum_of(const known_sum& numbers, size_t members) {
  std::vector<float> out(known_sum::elements), part(known_sum::elements);
  for (size_t rank = 0; rank < members; ++rank) {
    numbers.part_of(rank, part);
    for (size_t i = 0; i < out.size(); ++i) out[i] += part[i];
  }
  return out;
}

}  // namespace

TEST_CASE("KSM-2: no sum of all members reaches 2^24, whatever the order of adding") {
  int32_t most = 0;
  for (size_t i = 0; i < known_sum::elements; ++i)
    most = std::max(most, std::abs(known_sum::number(static_cast<uint32_t>(i))));
  CHECK(most > 100'000);
  CHECK(static_cast<int64_t>(most) * static_cast<int64_t>(known_sum::most_members) <= (1 << 24));
}

TEST_CASE("KSM-1: sums of any number of members are the known ones, and one bit is seen") {
  const known_sum numbers;
  for (const size_t members : {size_t{1}, size_t{2}, size_t{3}, known_sum::most_members}) {
    CAPTURE(members);
    auto sum = sum_of(numbers, members);
    CHECK(known_sum::errors_of_sum(sum, members).wrong == 0);
    CHECK_FALSE(known_sum::errors_of_sum(sum, members).first);
    const auto before = sum[777];
    sum[777] = std::nextafter(before, 1e9f);
    sum[40'000] += 1;
    const auto found = known_sum::errors_of_sum(sum, members);
    CHECK(found.wrong == 2);
    REQUIRE(found.first);
    CHECK(found.first->place == 777);
    CHECK(found.first->wanted == before);
    CHECK(found.first->seen == sum[777]);
  }
}

TEST_CASE("known sum: members give different numbers, so one that is summed twice is seen") {
  const known_sum numbers;
  auto sum = sum_of(numbers, 1);
  for (auto& s : sum) s *= 2;
  CHECK(known_sum::errors_of_sum(sum, 2).wrong > known_sum::elements / 2);
}

TEST_CASE("KSM-1: parts that come from members are the known ones, and the first sender of another "
          "is named") {
  const known_sum numbers;
  std::vector<float> parts(3 * known_sum::gathered);
  for (size_t rank = 0; rank < 3; ++rank)
    numbers.part_of(rank, {parts.data() + rank * known_sum::gathered, known_sum::gathered});
  CHECK(known_sum::errors_of_parts(parts).wrong == 0);
  CHECK(known_sum::errors_of_parts(parts).from == -1);
  parts[known_sum::gathered + 5] += 1;
  parts[2 * known_sum::gathered] += 1;
  auto found = known_sum::errors_of_parts(parts);
  CHECK(found.wrong == 2);
  CHECK(found.from == 1);
  found.add({3, 0});
  CHECK(found.wrong == 5);
  CHECK(found.from == 1);
}

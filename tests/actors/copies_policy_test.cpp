// Which state a recovery goes back to.
#include "actors/train/copies_policy.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::train;

namespace {

using held = std::vector<std::vector<held_copy>>;

/// Rank 0 kept by 1, 1 by 2, 2 by 0; steps 7 and 8 of epoch 1 were ordered.
copies_policy three() {
  copies_policy p(1, {1, 2, 0});
  for (uint64_t step : {7, 8}) p.ordered({1, step}, {step, step * 100, 1.5, "x", {}});
  return p;
}

held_copy of(int rank, copy_tag tag) {
  return {rank, tag, 1000};
}

/// What rank r's process holds when all went well: its own, and that of who it keeps.
std::vector<held_copy> whole(int r, copy_tag tag) {
  return {of(r, tag), of((r + 2) % 3, tag)};
}

std::vector<held_copy> both(int r) {
  auto out = whole(r, {1, 7});
  for (const auto& c : whole(r, {1, 8})) out.push_back(c);
  return out;
}

}  // namespace

TEST_CASE("CPY-1: the newest state whose every share is held by its rank or its keeper") {
  struct row {
    const char* what;
    held by_rank;
    uint64_t above;
    std::optional<uint64_t> step;
    std::vector<bool> from_keeper;
  };
  const copy_tag seven{1, 7}, eight{1, 8};
  const row rows[] = {
      {"all live", {both(0), both(1), both(2)}, 0, 8, {false, false, false}},
      {"rank 1 is new", {both(0), {}, both(2)}, 0, 8, {false, true, false}},
      {"its copy of 8 was torn",
       {both(0), {}, {of(2, seven), of(2, eight), of(1, seven)}},
       0,
       7,
       {false, true, false}},
      {"8 is torn on a survivor, not at its keeper's",
       {both(0), {}, {of(2, seven), of(1, seven), of(1, eight)}},
       0,
       8,
       {false, true, true}},
      {"8 is torn on both",
       {{of(0, seven), of(0, eight), of(2, seven)}, {}, {of(2, seven), of(1, seven), of(1, eight)}},
       0,
       7,
       {false, true, false}},
      {"rank and keeper are lost", {both(0), {}, {}}, 0, std::nullopt, {}},
      {"ranks 0 and 2 are lost", {{}, both(1), {}}, 0, std::nullopt, {}},
      {"the disk has 8", {both(0), both(1), both(2)}, 8, std::nullopt, {}},
      {"the disk has 7", {both(0), {}, {of(2, seven), of(1, seven)}}, 7, std::nullopt, {}},
      {"of another epoch", {both(0), {}, {of(2, eight), of(1, {2, 8})}}, 7, std::nullopt, {}},
      {"who keeps nobody's counts not",
       {both(0), {of(0, eight)}, {of(2, eight)}},
       7,
       std::nullopt,
       {}},
      {"an answer is missing", {both(0), both(1)}, 0, std::nullopt, {}}};
  for (const auto& r : rows) {
    CAPTURE(r.what);
    const auto choice = three().choose(r.by_rank, r.above);
    REQUIRE(choice.has_value() == r.step.has_value());
    if (!choice) continue;
    CHECK(choice->tag == copy_tag{1, *r.step});
    CHECK(choice->state.tokens == *r.step * 100);
    CHECK(choice->from_keeper == r.from_keeper);
    CHECK(choice->fetched_bytes == 1000u * static_cast<size_t>(std::count(
                                               r.from_keeper.begin(), r.from_keeper.end(), true)));
  }
}

TEST_CASE("CPY-2: nothing of a way that was left is gone back to") {
  auto p = three();
  const held all{both(0), both(1), both(2)};
  p.gone_back(copy_tag{1, 7});
  REQUIRE(p.choose(all, 0));
  CHECK(p.choose(all, 0)->tag == copy_tag{1, 7});
  p.gone_back(std::nullopt);
  CHECK_FALSE(p.any());
  CHECK_FALSE(p.choose(all, 0));
}

TEST_CASE("copies are due by their interval, and never where nobody keeps them") {
  CHECK(three().due(5));
  const copies_policy third(3, {1, 0});
  CHECK_FALSE(third.due(5));
  CHECK(third.due(6));
  CHECK_FALSE(copies_policy(1, {}).due(5));
  CHECK_FALSE(copies_policy(0, {1, 0}).due(5));
}

TEST_CASE("CPY-3: of what a lost head ordered, what it believed in, with tokens and loss") {
  const auto told = [](copy_tag tag, uint64_t tokens = 900) {
    held out;
    for (int r = 0; r < 3; ++r) {
      auto own = of(r, tag);
      own.state = {tokens, 2.25};
      out.push_back({own});
    }
    return out;
  };
  const auto choice = [&](const believed_copies& believed, const held& there) {
    copies_policy p(1, {1, 2, 0});
    CHECK_FALSE(p.any());
    p.believe(believed);
    return p.choose(there, 3);
  };
  const auto chosen = choice({2, {}}, told({2, 9}));
  REQUIRE(chosen);
  CHECK(chosen->tag == copy_tag{2, 9});
  CHECK(chosen->state.step == 9);
  CHECK(chosen->state.tokens == 900);
  CHECK(chosen->state.loss == 2.25);
  CHECK(choice({3, copy_tag{2, 9}}, told({2, 9})));     // it went back to that one
  CHECK_FALSE(choice({3, {}}, told({2, 9})));           // of a way that was left
  CHECK_FALSE(choice({3, copy_tag{2, 8}}, told({2, 9})));
  CHECK_FALSE(choice({0, {}}, told({2, 9})));           // nothing is to be believed
  CHECK_FALSE(choice({2, {}}, told({2, 3})));           // the disk has it
  CHECK_FALSE(choice({2, {}}, told({2, 9}, 0)));        // nobody knows what it is
  copies_policy once(1, {1, 2, 0});
  once.believe({2, {}});
  CHECK(once.any());
  once.gone_back(std::nullopt);
  CHECK_FALSE(once.any());
  copies_policy never(0, {1, 2, 0});
  never.believe({2, {}});
  CHECK_FALSE(never.any());  // none are taken
}

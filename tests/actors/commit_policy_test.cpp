// The commit of a checkpoint: votes in every order, late, twice, foreign and missing.
#include "actors/checkpoint/commit_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace troupe::checkpoint;
using kind = commit_step::kind;

namespace {

constexpr checkpoint_id a{10, 1}, b{20, 1};

}  // namespace

TEST_CASE("commit: the last yes writes, the manifest commits") {
  commit_policy p(3);
  CHECK(p.begin(a, 100).empty());
  CHECK(p.yes(a, 2).what == kind::nothing);
  CHECK(p.yes(a, 0).what == kind::nothing);
  CHECK(p.missing() == std::vector<uint32_t>{1});
  const auto write = p.yes(a, 1);
  CHECK(write.what == kind::write);
  CHECK(write.which == a);
  CHECK_FALSE(p.can_begin());
  CHECK(p.written(a, "").what == kind::committed);
  CHECK_FALSE(p.open());
}

TEST_CASE("commit: a vote counts once, of a member, for this step and epoch") {
  commit_policy p(2);
  p.begin(a, 100);
  CHECK(p.yes(a, 0).what == kind::nothing);
  CHECK(p.yes(a, 0).what == kind::nothing);        // twice
  CHECK(p.yes(a, 7).what == kind::nothing);        // nobody
  CHECK(p.yes(b, 1).what == kind::nothing);        // another step
  CHECK(p.yes({10, 2}, 1).what == kind::nothing);  // another epoch
  CHECK(p.no({10, 2}, 1, "no").what == kind::nothing);
  CHECK(p.dropped() == 5);
  CHECK(p.yes(a, 1).what == kind::write);
}

TEST_CASE("commit: one no aborts, and what comes late changes nothing") {
  commit_policy p(2);
  p.begin(a, 100);
  const auto no = p.no(a, 1, "disk full");
  CHECK(no.what == kind::aborted);
  CHECK(no.why == "disk full");
  CHECK(no.remove);
  CHECK(p.yes(a, 0).what == kind::nothing);
  CHECK(p.written(a, "").what == kind::nothing);
  p.begin(b, 200);
  CHECK(p.yes(a, 0).what == kind::nothing);
  CHECK(p.yes(a, 1).what == kind::nothing);
  CHECK(p.missing().size() == 2);
}

TEST_CASE("commit: the deadline aborts and names who is missing") {
  commit_policy p(3);
  p.begin(a, 100);
  p.yes(a, 0);
  CHECK(p.tick(99).what == kind::nothing);
  const auto over = p.tick(100);
  CHECK(over.what == kind::aborted);
  CHECK(over.why.find("2 of 3") != std::string::npos);
  CHECK(p.tick(1000).what == kind::nothing);  // once
}

TEST_CASE("commit: a manifest that is being written is in doubt, and its files are kept") {
  commit_policy p(1);
  p.begin(a, 100);
  CHECK(p.yes(a, 0).what == kind::write);
  CHECK(p.tick(1'000'000).what == kind::nothing);
  CHECK(p.begin(b, 300).empty());
  CHECK(p.open() == a);  // b was refused
  CHECK(p.lost(0, "gone").what == kind::nothing);
  CHECK(p.no(a, 0, "changed my mind").what == kind::nothing);
  const auto failed = p.written(a, "fsync failed");
  CHECK(failed.what == kind::aborted);
  CHECK_FALSE(failed.remove);
  CHECK(p.can_begin());
}

TEST_CASE("commit: a lost member aborts unless it has voted") {
  commit_policy p(2);
  p.begin(a, 100);
  p.yes(a, 0);
  CHECK(p.lost(0, "gone").what == kind::nothing);
  CHECK(p.lost(1, "gone").what == kind::aborted);
}

TEST_CASE("commit: a new checkpoint ends the one that still collects") {
  commit_policy p(2);
  p.begin(a, 100);
  const auto ended = p.begin(b, 200);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].what == kind::aborted);
  CHECK(ended[0].which == a);
  CHECK(p.open() == b);
}

TEST_CASE("commit: over random histories a write follows exactly the votes of all") {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    std::mt19937 dice(seed);
    auto roll = [&](uint32_t n) { return static_cast<uint32_t>(dice() % n); };
    const uint32_t members = 1 + roll(4);
    commit_policy p(members);
    std::vector<bool> said(members);  // our own book of the open checkpoint's votes
    std::optional<checkpoint_id> open;
    bool writing = false;
    for (uint64_t step = 1, now = 0; now < 200; ++now) {
      const checkpoint_id which{step - roll(2), 1 + roll(2)};
      const auto member = roll(members + 1);
      commit_step out;
      switch (roll(6)) {
        case 0:
          if (p.can_begin()) {
            p.begin({++step, 1}, static_cast<int64_t>(now + 20));
            open = checkpoint_id{step, 1};
            said.assign(members, false);
          }
          break;
        case 1:
        case 2:
        case 3:
          out = p.yes(which, member);
          if (open && !writing && which == *open && member < members) said[member] = true;
          break;
        case 4:
          out = p.tick(static_cast<int64_t>(now));
          break;
        default:
          out = p.written(which, roll(2) == 0 ? "" : "failed");
          break;
      }
      const bool all = open && std::all_of(said.begin(), said.end(), [](bool s) { return s; });
      CHECK((out.what == kind::write) == (all && !writing));
      if (out.what == kind::write) writing = true;
      if (out.what == kind::committed) CHECK(writing);
      if (out.what == kind::committed || out.what == kind::aborted) {
        writing = false;
        open.reset();
      }
      CHECK(p.open() == open);
    }
  }
}

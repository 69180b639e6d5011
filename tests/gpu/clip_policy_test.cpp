// When a step speculates: as long as that is expected to be cheaper.
#include "gpu/swap/clip_policy.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::gpu {

TEST_CASE("CLP-1: what passes for the norm take is seen before anything is speculated") {
  clip_policy p;
  CHECK_FALSE(p.speculates());
  p.made_twice(0, 10, false);
  CHECK_FALSE(p.speculates());  // they take nothing
  p.made_twice(5, 0, false);
  CHECK_FALSE(p.speculates());  // that cannot be
  p.made_twice(9, 10, false);
  CHECK(p.share() == doctest::Approx(0.45));
  CHECK(p.speculates());
}

TEST_CASE("CLP-2: the chance of a clipped step is held against what its norm takes") {
  clip_policy p;
  CHECK(p.clip_chance() == 0.5);
  p.made_twice(4, 10, false);  // a chance of 1 in 3, and 0.4 of a step
  CHECK(p.clip_chance() == doctest::Approx(1.0 / 3));
  CHECK(p.speculates());
  p.speculated(true);
  CHECK(p.clip_chance() == 0.5);
  CHECK_FALSE(p.speculates());
  for (int i = 0; i < 2; ++i) p.made_twice(4, 10, false);
  CHECK(p.clip_chance() == doctest::Approx(1.0 / 3));
  CHECK(p.speculates());
  for (size_t i = 0; i < clip_policy::window; ++i) p.speculated(false);
  CHECK(p.clip_chance() == doctest::Approx(1.0 / 18));  // what was before is forgotten
  for (size_t i = 0; i < clip_policy::window; ++i) p.speculated(true);
  CHECK(p.clip_chance() == doctest::Approx(17.0 / 18));
  CHECK_FALSE(p.speculates());
}

// The first steps of a run wait for much else; then steps that are always clipped speculated for
// ever.
TEST_CASE("CLP-3: who speculated wrongly measures anew") {
  clip_policy p;
  p.made_twice(30, 10, true);  // as if the norm took three steps
  CHECK(p.speculates());
  int wrong = 0;
  for (int step = 0; step < 100; ++step) {
    if (p.speculates()) {
      ++wrong;
      p.speculated(true);
      CHECK_FALSE(p.speculates());
    } else {
      p.made_twice(6, 10, true);
    }
  }
  CHECK(wrong <= 4);
}

TEST_CASE("CLP-4: replicas that are told the same sums of times choose alike, else they may not") {
  const auto choices_of = [](double own_share, bool together) {
    clip_policy p;
    std::vector<bool> out;
    for (int step = 0; step < 40; ++step) {
      out.push_back(p.speculates());
      const bool clipped = step % 7 == 0;
      const double norm_s = together ? 4 + 3 : 10 * own_share;
      if (p.speculates())
        p.speculated(clipped);
      else
        p.made_twice(norm_s, together ? 20 : 10, clipped);
    }
    return out;
  };
  CHECK(choices_of(0.4, true) == choices_of(0.01, true));
  CHECK(choices_of(0.4, false) != choices_of(0.01, false));
}

}  // namespace troupe::gpu

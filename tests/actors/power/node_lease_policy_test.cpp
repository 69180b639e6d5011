// The own cap of a budget below another one, by tables.
#include "actors/power/node_lease_policy.hpp"

#include <limits>

#include <doctest/doctest.h>

using namespace troupe::power;

namespace {

constexpr int64_t node_second = 1'000'000'000;
constexpr int64_t for_good = std::numeric_limits<int64_t>::max();

/// Of children with static shares of 60 W together, in the process 5.
struct leased_node {
  node_lease_policy policy{5, 60'000};

  grant_verdict hear(uint64_t sequence, int64_t cap_mw, int64_t sent_ns, int64_t now_ns,
                     int64_t static_share_mw = 60'000) {
    return policy.hear(
        {{{1, sequence}, {5, sent_ns}, cap_mw, 9 * node_second, false}, static_share_mw}, now_ns);
  }
  /// It had 50 W, and has 100 W by the second lease of a life, until 10 s.
  void join() {
    policy.begin(50'000);
    REQUIRE(hear(1, 50'000, 0, 0) == grant_verdict::taken);
    REQUIRE(hear(2, 100'000, node_second, node_second) == grant_verdict::taken);
  }
};

void check_own(const own_cap& own, int64_t cap_mw, bool leased, int64_t left_ns) {
  CHECK(own.cap_mw == cap_mw);
  CHECK(own.leased == leased);
  CHECK(own.left_ns == left_ns);
}

}  // namespace

TEST_CASE("NLP-1: node lease: until it is known what children have, their static shares are all") {
  leased_node f;
  CHECK(!f.policy.has_begun());
  check_own(f.policy.tick(120'000, node_second), 60'000, false, for_good);
  check_own(f.policy.tick(40'000, 2 * node_second), 40'000, false, for_good);
}

TEST_CASE("NLP-2: node lease: it begins with what children tell, and no more than static shares") {
  leased_node f;
  f.policy.begin(0);
  check_own(f.policy.tick(120'000, node_second), 0, false, for_good);
  CHECK(f.policy.report(node_second, {0, {}, 70'000}).in_force_mw == 0);
  leased_node more;
  more.policy.begin(90'000);
  check_own(more.policy.tick(120'000, node_second), 60'000, false, for_good);
  CHECK(more.policy.report(node_second, {90'000, {}, 70'000}).in_force_mw == 90'000);
}

TEST_CASE(
    "LSE-2: node lease: the first lease of the budget above raises nothing, the next one may") {
  leased_node f;
  f.policy.begin(50'000);
  CHECK(f.hear(1, 80'000, 0, node_second) == grant_verdict::taken);
  check_own(f.policy.tick(120'000, node_second), 50'000, true, 8 * node_second);
  CHECK(f.hear(2, 80'000, node_second, node_second) == grant_verdict::taken);
  check_own(f.policy.tick(120'000, node_second), 80'000, true, 9 * node_second);
  check_own(f.policy.tick(70'000, 2 * node_second), 70'000, true, 8 * node_second);  // a person's
  const auto told = f.policy.report(2 * node_second, {65'000, 40'000, 90'000});
  CHECK(told.order == lease_order{1, 2});
  CHECK(told.in_force_mw == 80'000);
  CHECK(told.drawn_mw == 40'000);
  CHECK(told.wish_mw == 90'000);
  CHECK(told.id == report_id{5, 2 * node_second});
}

TEST_CASE("PWR-2: node lease: once it has lapsed, the less of what it had and its static share") {
  leased_node f;
  f.join();
  check_own(f.policy.tick(120'000, 9 * node_second), 100'000, true, node_second);
  check_own(f.policy.tick(120'000, 10 * node_second), 60'000, false, for_good);
  // A static share that the budget above changes raises nothing.
  CHECK(f.policy.hear({{{}, {5, 10 * node_second}, 0, 0, false}, 90'000}, 10 * node_second) ==
        grant_verdict::taken);
  check_own(f.policy.tick(120'000, 11 * node_second), 60'000, false, for_good);
  // Until its children have followed it is what they have.
  CHECK(f.policy.report(11 * node_second, {75'000, {}, 90'000}).in_force_mw == 75'000);
  CHECK(f.policy.report(11 * node_second, {55'000, {}, 90'000}).in_force_mw == 60'000);
}

TEST_CASE("NLP-4: node lease: less than a millisecond of it is nothing to grant out of") {
  leased_node f;
  f.join();
  check_own(f.policy.tick(120'000, 10 * node_second - 1'500'000), 100'000, true, 1'000'000);
  check_own(f.policy.tick(120'000, 10 * node_second - 999'999), 100'000, true, 0);
}

TEST_CASE("NLP-3: node lease: beside a later process at its place it has nothing") {
  leased_node f;
  f.join();
  f.policy.refused();
  check_own(f.policy.tick(120'000, 2 * node_second), 0, false, for_good);
  CHECK(f.hear(2, 100'000, 2 * node_second, 3 * node_second) == grant_verdict::taken);
  check_own(f.policy.tick(120'000, 3 * node_second), 100'000, true, 8 * node_second);
}

TEST_CASE("NLP-5: node lease: a brake above is on as the last answer says, while the lease is") {
  leased_node f;
  f.join();
  const auto told = [&](int64_t now_ns, bool brake) {
    CHECK(f.policy.hear({{{}, {5, now_ns}, 0, 0, false}, 60'000, brake}, now_ns) ==
          grant_verdict::taken);  // without a lease
    f.policy.tick(120'000, now_ns);
    return f.policy.is_braked();
  };
  CHECK(told(2 * node_second, true));
  CHECK(!told(3 * node_second, false));
  CHECK(told(9 * node_second, true));
  f.policy.tick(120'000, 10 * node_second);
  CHECK(!f.policy.is_braked());
}

TEST_CASE("node lease: what is no answer to it is none") {
  leased_node f;
  f.join();
  CHECK(f.policy.hear({{{1, 3}, {4, node_second}, 90'000, node_second, false}, 60'000},
                      2 * node_second) == grant_verdict::not_to_us);
  CHECK(f.hear(3, 90'000, node_second, 2 * node_second, -1) == grant_verdict::impossible);
  CHECK(f.hear(3, -1, node_second, 2 * node_second) == grant_verdict::impossible);
  CHECK(f.hear(1, 120'000, 2 * node_second, 2 * node_second) == grant_verdict::older);
  check_own(f.policy.tick(120'000, 2 * node_second), 100'000, true, 8 * node_second);
}

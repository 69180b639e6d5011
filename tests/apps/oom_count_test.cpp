// The kernel's counts of processes that it ended for want of memory.
#include "apps/up/oom_count.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using troupe::apps::oom_count;
using troupe::apps::oom_kills_in;

TEST_CASE("oom: the count is the line's whose first word is oom_kill") {
  CHECK(oom_kills_in("low 0\noom 7\noom_kill 3\noom_group_kill 9\n") == 3u);
  CHECK(oom_kills_in("nr_free_pages 1\noom_kill 12") == 12u);
  CHECK_FALSE(oom_kills_in("oom 7\noom_group_kill 9\nx oom_kill 3\noom_kill many\n"));
  CHECK_FALSE(oom_kills_in(""));
}

TEST_CASE("oom: what counts is what came lately, in the first file that counts") {
  troupe::scratch folder;
  const auto count = [&](int n) { std::ofstream(folder / "events") << "oom_kill " << n << "\n"; };
  std::ofstream(folder / "other") << "nothing 1\n";
  count(5);
  oom_count n({folder / "absent", folder / "other", folder / "events"});
  const auto at = [start = oom_count::clock::now()](int s) {
    return start + std::chrono::seconds(s);
  };
  CHECK(n.look(at(0)) == 0);
  count(7);
  CHECK(n.look(at(10)) == 2);
  CHECK(n.look(at(60)) == 2);  // a large process takes its time to end
  CHECK(n.look(at(71)) == 0);  // somebody else's
  count(8);
  CHECK(n.look(at(90'000)) == 1);
  oom_count none(std::vector<std::filesystem::path>{});
  CHECK(none.look(at(0)) == 0);
}

TEST_CASE("oom: this machine's kernel counts") {
  oom_count here;
  CHECK(here.look(oom_count::clock::now()) == 0);
}

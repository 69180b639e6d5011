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

TEST_CASE("oom: what counts is what came since, in the first file that counts") {
  troupe::scratch folder;
  std::ofstream(folder / "other") << "nothing 1\n";
  std::ofstream(folder / "events") << "oom_kill 5\n";
  const oom_count n({folder / "absent", folder / "other", folder / "events"});
  CHECK(n.since() == 0);
  std::ofstream(folder / "events") << "oom_kill 7\n";
  CHECK(n.since() == 2);
  CHECK(oom_count(std::vector<std::filesystem::path>{}).since() == 0);
}

TEST_CASE("oom: this machine's kernel counts") {
  CHECK(oom_count().since() == 0);
}

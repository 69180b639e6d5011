// Whose pace is whose: by name, machine, threads and device, the newest of these.
#include "io/perf/past_pace.hpp"

#include <vector>

#include <doctest/doctest.h>

using namespace troupe::io::perf;

TEST_CASE("past pace: a node's is that of its name, machine, threads and device, the newest") {
  const machine_print xeon = print_of({"Xeon", 8, uint64_t{1} << 30});
  const machine_print epyc = print_of({"EPYC", 8, uint64_t{1} << 30});
  const std::vector<past_pace> known{
      {"a", xeon, 1, false, 1e9, 0.1, 32, 1}, {"a", xeon, 1, false, 2e9, 0.1, 32, 1},
      {"a", epyc, 1, false, 3e9, 0.1, 32, 1}, {"a", xeon, 2, false, 4e9, 0.1, 32, 1},
      {"a", xeon, 1, true, 5e9, 0.1, 32, 1},  {"b", xeon, 1, false, 6e9, 0.1, 32, 1}};
  const auto pace = [&](const paced_node& who) {
    const auto p = pace_of(known, who);
    return p ? p->flops_s : 0;
  };
  CHECK(pace({"a", xeon, 1, false}) == 2e9);
  CHECK(pace({"a", epyc, 1, false}) == 3e9);
  CHECK(pace({"a", xeon, 2, false}) == 4e9);
  CHECK(pace({"a", xeon, 1, true}) == 5e9);
  CHECK(pace({"b", xeon, 1, false}) == 6e9);
  CHECK(pace({"b", epyc, 1, false}) == 0);
  CHECK(pace({"c", xeon, 1, false}) == 0);
  CHECK(pace({"a", xeon, 3, false}) == 0);
  CHECK(pace({"a", machine_print{}, 1, false}) == 0);  // a machine that says nothing of itself
}

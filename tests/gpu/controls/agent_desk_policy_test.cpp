// Which job a machine's agent sets a device for.
#include "gpu/controls/agent_desk_policy.hpp"

#include <doctest/doctest.h>

using namespace troupe::gpu::controls;

namespace {

const agent_desk_policy::tenant tiny{"tiny", 7, 1000}, tidy{"tidy", 8, 1000};

}  // namespace

TEST_CASE("AGD-1: agent desk: a device is one job's, of one launch and one user") {
  agent_desk_policy desk;
  CHECK_FALSE(desk.take(1, "cpufreq", tiny));
  CHECK_FALSE(desk.take(2, "cpufreq", tiny));  // another rank of it
  CHECK(desk.take(3, "cpufreq", tidy) == tiny);
  auto of_another = tiny;
  of_another.launch = 9;
  CHECK(desk.take(3, "cpufreq", of_another) == tiny);
  of_another = tiny;
  of_another.uid = 1001;
  CHECK(desk.take(3, "cpufreq", of_another) == tiny);
  CHECK_FALSE(desk.take(3, "GPU-0", tidy));
  CHECK(desk.let_go(1) == "cpufreq");
  CHECK(desk.take(4, "cpufreq", tidy) == tiny);  // its other rank is there
  CHECK(desk.let_go(2) == "cpufreq");
  CHECK_FALSE(desk.take(4, "cpufreq", tidy));
  CHECK(desk.size() == 2);
}

TEST_CASE("AGD-4: agent desk: who shares a device has it not alone, and has it again after that") {
  agent_desk_policy desk;
  CHECK_FALSE(desk.has_alone(1));
  CHECK_FALSE(desk.take(1, "GPU-0", tiny));
  CHECK_FALSE(desk.take(2, "GPU-1", tiny));
  CHECK(desk.has_alone(1));
  CHECK(desk.has_alone(2));
  CHECK_FALSE(desk.take(3, "GPU-0", tiny));
  CHECK_FALSE(desk.has_alone(1));
  CHECK_FALSE(desk.has_alone(3));
  CHECK(desk.let_go(3) == "GPU-0");
  CHECK(desk.has_alone(1));
  CHECK_FALSE(desk.has_alone(3));
}

TEST_CASE("AGD-2: agent desk: the least of a job's wishes counts, for each device alone") {
  agent_desk_policy desk;
  CHECK(desk.wish_of("cpufreq") == whole_pace);
  CHECK_FALSE(desk.take(1, "cpufreq", tiny));
  CHECK_FALSE(desk.take(2, "cpufreq", tiny));
  CHECK_FALSE(desk.take(3, "GPU-0", tiny));
  CHECK(desk.wish_of("cpufreq") == whole_pace);
  CHECK(desk.set(1, 512));
  CHECK(desk.wish_of("cpufreq") == 512);
  CHECK(desk.set(2, 256));
  CHECK(desk.wish_of("cpufreq") == 256);
  CHECK(desk.set(2, whole_pace));
  CHECK(desk.wish_of("cpufreq") == 512);
  CHECK(desk.wish_of("GPU-0") == whole_pace);
  CHECK(desk.set(3, -5));
  CHECK(desk.wish_of("GPU-0") == 0);
}

TEST_CASE("AGD-3: agent desk: who has gone, or has nothing, has no wish") {
  agent_desk_policy desk;
  CHECK_FALSE(desk.set(1, 512));
  CHECK_FALSE(desk.let_go(1));
  CHECK_FALSE(desk.take(1, "cpufreq", tiny));
  CHECK(desk.set(1, 512));
  CHECK(desk.let_go(1) == "cpufreq");
  CHECK(desk.wish_of("cpufreq") == whole_pace);
  CHECK_FALSE(desk.let_go(1));
  CHECK_FALSE(desk.set(1, 512));
}

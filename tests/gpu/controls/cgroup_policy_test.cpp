// Which group, which files, which texts.
#include "gpu/controls/cgroup_policy.hpp"

#include <utility>

#include <doctest/doctest.h>

using namespace troupe::gpu::controls;

TEST_CASE("CGP-2: control groups: where the cpu controller of a process is") {
  struct row {
    const char* text;
    std::optional<cgroup_place> want;
  };
  const auto two = [](const char* group) { return cgroup_place{cgroup_version::two, "/m", group}; };
  for (const auto& r :
       {row{"0::/user.slice/a\n", two("/m/user.slice/a")}, row{"0::/\n", two("/m")},
        row{"9:name=systemd:/\n1:cpu:/\n0::/x\n",
            cgroup_place{cgroup_version::one, "/m/cpu", "/m/cpu"}},
        row{"4:cpu,cpuacct:/job\n0::/job\n",
            cgroup_place{cgroup_version::one, "/m/cpu,cpuacct", "/m/cpu,cpuacct/job"}},
        row{"2:cpuset:/a\n0::/b:c\n", two("/m/b:c")}, row{"0::/../../etc\n", two("/m")},
        row{"1:cpu,../..:/x\n", {}}, row{"0::relative\n", {}}, row{"", {}}, row{"cpu", {}}}) {
    CAPTURE(r.text);
    CHECK(cpu_place(r.text, "/m") == r.want);
  }
}

TEST_CASE("control groups: a list of the kernel's has whole names") {
  CHECK(lists("cpuset cpu io\n", "cpu"));
  CHECK(lists("cpu", "cpu"));
  CHECK_FALSE(lists("cpuset io\n", "cpu"));
  CHECK_FALSE(lists("", "cpu"));
}

TEST_CASE("CGP-1: control groups: a quota is the pace's share of all threads, and 1 ms at least") {
  CHECK(quota_us(512, 1) == 50'000);
  CHECK(quota_us(512, 4) == 200'000);
  CHECK(quota_us(51, 1) == 4'980);
  CHECK(quota_us(0, 1) == least_quota_us);
  CHECK(quota_us(-7, 0) == least_quota_us);
  CHECK_FALSE(quota_us(1024, 4));
  CHECK_FALSE(quota_us(5000, 4));
  CHECK(quota_text(cgroup_version::two, 50'000) == "50000 100000");
  CHECK(quota_text(cgroup_version::two, {}) == "max 100000");
  CHECK(quota_text(cgroup_version::one, 50'000) == "50000");
  CHECK(quota_text(cgroup_version::one, {}) == "-1");
}

TEST_CASE("CGP-3: control groups: no quota is above what groups above allow") {
  CHECK(allowed_us("200000\n", "100000\n") == 200'000);
  CHECK(allowed_us("50000\n", "250000\n") == 20'000);
  CHECK(allowed_us("2000\n", "3000\n") == 66'666);  // never above
  for (const auto& [quota, period] :
       {std::pair{"-1\n", "100000\n"}, std::pair{"", ""}, std::pair{"200000\n", "0\n"},
        std::pair{"200000\n", "max"}, std::pair{"9223372036854775807", "100000"}})
    CHECK_FALSE(allowed_us(quota, period));
  CHECK(quota_within(800'000, 200'000) == 200'000);
  CHECK(quota_within(100'000, 200'000) == 100'000);
  CHECK(quota_within(100'000, {}) == 100'000);
  CHECK_FALSE(quota_within({}, 200'000));
  CHECK_FALSE(quota_within(100'000, least_quota_us - 1));  // the group above holds to less
}

TEST_CASE("control groups: a quota says its range, and that it saves no energy") {
  const auto facts = quota_facts(2);
  CHECK(facts.name == "cgroup");
  CHECK(facts.least == doctest::Approx(0.005));
  CHECK(facts.most == 1);
  CHECK(facts.resolution == doctest::Approx(1.0 / 1024));
  CHECK_FALSE(facts.saves_energy);
}

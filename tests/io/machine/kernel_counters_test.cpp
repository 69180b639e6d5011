// Files of the kernel: real ones, ones of other kernels, and hostile ones.
#include "io/machine/kernel_counters.hpp"

#include <filesystem>
#include <map>
#include <string>

#include <doctest/doctest.h>

using namespace troupe::io;

TEST_CASE("pressure: the share of the last 10 s, where the kernel says it") {
  const auto p = parse_pressure(
      "some avg10=2.72 avg60=9.04 avg300=9.74 total=10911489937\n"
      "full avg10=0.25 avg60=0.00 avg300=0.00 total=0\n");
  CHECK(p.some_percent == 2.72);
  CHECK(p.full_percent == 0.25);
  CHECK(p.some_us == 10911489937);
  const auto old =
      parse_pressure("some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n");  // cpu < 5.13
  CHECK(old.some_percent == 1);
  CHECK_FALSE(old.full_percent);
  for (const char* text :
       {"", "\n", "some", "some \n", "some avg10=\n", "some avg10=x\n", "some avg10=nan\n",
        "some avg10=inf\n", "some avg10=-1\n", "some avg10=101\n", "some avg10=1.0x\n",
        "some avg60=1\n", "full avg10=1e999\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_pressure(text).some_percent);
    CHECK_FALSE(parse_pressure(text).full_percent);
    CHECK_FALSE(parse_pressure(text).some_us);
  }
  for (const char* text : {"some avg10=1.00 total=\n", "some avg10=1.00 total=-1\n",
                           "some avg10=1.00 total=1x\n", "full total=7\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_pressure(text).some_us);
  }
}

TEST_CASE("processor ticks: all of them, and what was stolen, and guests are in user's already") {
  const auto t = parse_cpu_ticks(
      "cpu  1605857 1842073 688566 2614302 32642 0 19819 2313 7 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  REQUIRE(t);
  CHECK(t->all == 1605857 + 1842073 + 688566 + 2614302 + 32642 + 19819 + 2313);
  CHECK(t->stolen == 2313);
  const auto old = parse_cpu_ticks("cpu 1 2 3 4\n");
  REQUIRE(old);
  CHECK(old->all == 10);
  CHECK(old->stolen == 0);
  const auto huge = parse_cpu_ticks("cpu  18446744073709551615 5 5 5 5 5 5 5\n");
  REQUIRE(huge);
  CHECK(huge->all == UINT64_MAX);
  for (const char* text : {"", "cpu", "cpu ", "cpu a b c d", "cpu0 1 2 3 4\n", "cpu -1 2 3 4",
                           "cpu 1 2 3", "cpu 99999999999999999999999 1 1 1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_cpu_ticks(text));
  }
}

TEST_CASE("processor ticks of a process: its own, and those of children that it waited for") {
  const std::string behind = " S 4242 7 7 0 -1 4194560 1 2 3 4 500 60 7 8 20 0 3 0 99 1 1\n";
  for (const char* name : {"1 (node)", "1 (a b)", "1 () 9 (x)", "1 (\n)"}) {
    CAPTURE(name);
    const auto p = parse_process_ticks(name + behind);
    REQUIRE(p);
    CHECK(p->parent == 4242);
    CHECK(p->busy == 575);
  }
  const auto huge = parse_process_ticks("1 (x) R 1 0 0 0 0 0 0 0 0 0 18446744073709551615 1 1 1\n");
  REQUIRE(huge);
  CHECK(huge->busy == UINT64_MAX);
  for (const char* text :
       {"", "1 (x", "1 (x)", "1 (x) R", "1 (x) R 1 0 0 0 0 0 0 0 0 0 5 6 7",
        "1 (x) R 1 0 0 0 0 0 0 0 0 0 5 6 -7 8", "1 (x) R a 0 0 0 0 0 0 0 0 0 5 6 7 8"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_process_ticks(text));
  }
}

TEST_CASE("memory: total and available, in bytes") {
  const auto m = parse_memory(
      "MemTotal:       24684092 kB\nMemFree:        23619264 kB\nMemAvailable:   24068720 kB\n");
  CHECK(m.total == 24684092ull * 1024);
  CHECK(m.available == 24068720ull * 1024);
  CHECK_FALSE(parse_memory("MemTotal: 5 kB\n").available);  // kernels before 3.14
  CHECK_FALSE(parse_memory("MemTotal:\nMemAvailable: -3 kB").total);
  CHECK_FALSE(parse_memory("MemAvailable: 18446744073709551615 kB").available);
}

TEST_CASE("packets with errors: those of all interfaces but loopback") {
  const std::string head =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs "
      "drop "
      "fifo colls carrier compressed\n";
  CHECK(parse_packet_errors(head + "    lo: 1 1 7 0 0 0 0 0 1 1 9 0 0 0 0 0\n"
                                   "  eth0: 1 1 3 0 0 0 0 0 1 1 4 0 0 0 0 0\n"
                                   "ib0:261765421669 1 10 0 0 0 0 0 1 1 20 0 0 0 0 0\n") == 37);
  CHECK_FALSE(parse_packet_errors(head));
  CHECK_FALSE(parse_packet_errors(""));
  CHECK_FALSE(parse_packet_errors("eth0: a b c\n"));
  CHECK(parse_packet_errors("eth0: 1 1 3\n") == 3);
  CHECK(parse_packet_errors("a: 0 0 18446744073709551615\nb: 0 0 5\n") == UINT64_MAX);
}

TEST_CASE(
    "control groups: the processors' time that a process may use is the least of its groups'") {
  CHECK(parse_cpu_quota("250000 100000\n") == 2.5);
  CHECK(parse_cpu_quota("50000 100000") == 0.5);
  for (const auto* none : {"max 100000\n", "", "100000\n", "0 100000\n", "100000 0\n",
                           "-1 100000\n", "1e5 100000\n", "99999999999999999999 100000\n"}) {
    CAPTURE(none);
    CHECK_FALSE(parse_cpu_quota(none));
  }
  const std::map<std::string, std::string> of_groups{{"cpu.max", "max 100000"},
                                                     {"job/cpu.max", "200000 100000"},
                                                     {"job/rank/cpu.max", "300000 100000"}};
  const auto read = [&](const std::filesystem::path& file) {
    const auto found = of_groups.find(file.string());
    return found != of_groups.end() ? found->second : std::string();
  };
  CHECK(least_cpu_quota("0::/job/rank\n", read) == 2);
  CHECK(least_cpu_quota("0::/job\n", read) == 2);
  CHECK_FALSE(least_cpu_quota("0::/\n", read));
  CHECK_FALSE(least_cpu_quota("0::/other\n", read));
  CHECK_FALSE(least_cpu_quota("3:cpu:/job\n", read));
}

TEST_CASE("control groups of version 1: the least quota of its cpu controller's groups, too") {
  CHECK(parse_cpu_quota("250000\n", "100000\n") == 2.5);
  for (const auto& [quota, period] : std::map<std::string, std::string>{{"-1\n", "100000\n"},
                                                                        {"", "100000"},
                                                                        {"100000", ""},
                                                                        {"0", "100000"},
                                                                        {"50000", "0"},
                                                                        {"x", "100000"},
                                                                        {"60000", "-1"},
                                                                        {"1e5", "100000"}}) {
    CAPTURE(quota);
    CHECK_FALSE(parse_cpu_quota(quota, period));
  }
  std::map<std::string, std::string> files{{"cpu/cpu.cfs_quota_us", "-1\n"},
                                           {"cpu/cpu.cfs_period_us", "100000\n"},
                                           {"cpu/job/cpu.cfs_quota_us", "150000\n"},
                                           {"cpu/job/cpu.cfs_period_us", "100000\n"},
                                           {"cpu/job/rank/cpu.cfs_quota_us", "100000\n"},
                                           {"cpu/job/rank/cpu.cfs_period_us", "50000\n"}};
  const auto read = [&](const std::filesystem::path& file) {
    const auto found = files.find(file.string());
    return found != files.end() ? found->second : std::string();
  };
  CHECK(least_cpu_quota("9:pids:/\n4:cpu,cpuacct:/job/rank\n1:name=systemd:/x\n", read) == 1.5);
  CHECK(least_cpu_quota("4:cpuacct,cpu:/job\n", read) == 1.5);
  CHECK(least_cpu_quota("4:cpu:/job\n0::/system.slice\n", read) == 1.5);  // both versions
  // In a container the path is often the host's: what is mounted is the group itself.
  files["cpu/cpu.cfs_quota_us"] = "50000\n";
  CHECK(least_cpu_quota("4:cpu,cpuacct:/docker/4242\n", read) == 0.5);
  files = {{"cpuacct,cpu/job/cpu.cfs_quota_us", "300000"},  // no link of the short name
           {"cpuacct,cpu/job/cpu.cfs_period_us", "100000"}};
  CHECK(least_cpu_quota("4:cpuacct,cpu:/job\n", read) == 3);
  for (const auto* none : {"", "\n", ":", "::", "4:cpu", "4:cpu:", "4:cpu:job\n", "4:cpuset:/job\n",
                           "4:cpuacct,cpuset:/job\n", "4::/job\n"}) {
    CAPTURE(none);
    CHECK_FALSE(least_cpu_quota(none, read));
  }
}

TEST_CASE("control groups: throttled time, and the path of the unified hierarchy") {
  CHECK(parse_throttled_us("usage_usec 5\nnr_throttled 2\nthrottled_usec 77\n") == 77);
  CHECK_FALSE(parse_throttled_us("throttled_usec \n"));
  CHECK_FALSE(parse_throttled_us("usage_usec 5\n"));
  CHECK(parse_unified_cgroup("9:name=systemd:/\n0::/user.slice/a\n") == "/user.slice/a");
  CHECK(parse_unified_cgroup("0::/") == "/");
  CHECK_FALSE(parse_unified_cgroup("1:cpu:/\n"));
  CHECK_FALSE(parse_unified_cgroup("0::evil\n"));
}

TEST_CASE("clocks: the middle one of the processors', where the kernel says them") {
  CHECK(parse_cpu_mhz("processor\t: 0\ncpu MHz\t\t: 2249.998\nflags\t: fpu\n\nprocessor\t: 1\n"
                      "cpu MHz\t\t: 1400.000\n\ncpu MHz\t\t: 1500\n") == 1500);
  CHECK(parse_cpu_mhz("cpu MHz\t\t: 2000.5") == 2000.5);
  CHECK(parse_scaling_mhz("1410000\n") == 1410);
  for (const char* text : {"", "\n", "cpu MHz", "cpu MHz\t\t", "cpu MHz\t\t: ", "cpu MHz : x",
                           "cpu MHz : nan", "cpu MHz : inf", "cpu MHz : -1", "cpu MHz : 0.000",
                           "cpu MHz : 1e9", "BogoMIPS : 50.0", "model name : cpu MHz : 3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_cpu_mhz(text));
  }
  for (const char* text : {"", "\n", "x", "-1", "0", "1e6", "18446744073709551616",
                           "18446744073709551615", "<unknown>"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_scaling_mhz(text));
  }
}

// Verdicts of checks: by what is wanted, and by how busy the machine was.
#include "actors/health/checkup_policy.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::health;
using fbs::CheckVerdict;
using fbs::WantedFrom;

namespace {

struct judged {
  const char* check;
  double seen;
  std::optional<double> kept;
  bool busy;
  CheckVerdict verdict;
  WantedFrom from;
};

fbs::CheckupReportT machine(const char* node, double bandwidth, bool busy = false,
                            const char* hardware = "h",
                            const char* check = "memory_bandwidth") {
  fbs::CheckupReportT r;
  r.node = node;
  r.hardware = hardware;
  r.busy = busy;
  auto c = std::make_unique<fbs::CheckResultT>(check_of(check));
  c->seen = bandwidth;
  judge(*c, std::nullopt, busy);
  r.checks.push_back(std::move(c));
  return r;
}

std::set<std::string> bad_among(std::vector<fbs::CheckupReportT> all) {
  judge_among_equals(all);
  std::set<std::string> out;
  for (const auto& r : all)
    if (verdict_of(r) == CheckVerdict::bad) out.insert(r.node);
  return out;
}

}  // namespace

TEST_CASE("CKP-1, CKP-2: a verdict is by what is wanted, and slowness of a busy machine is none") {
  for (const auto& j : {
           judged{"cpu_product", 0, {}, false, CheckVerdict::ok, WantedFrom::exact},
           judged{"cpu_product", 1, {}, false, CheckVerdict::bad, WantedFrom::exact},
           judged{"cpu_product", 1, {}, true, CheckVerdict::bad, WantedFrom::exact},
           judged{"memory_pattern", 3, {}, true, CheckVerdict::bad, WantedFrom::exact},
           judged{"memory_bandwidth", 5e8, {}, false, CheckVerdict::ok, WantedFrom::floor},
           judged{"memory_bandwidth", 4e8, {}, false, CheckVerdict::bad, WantedFrom::floor},
           judged{"memory_bandwidth", 4e8, {}, true, CheckVerdict::unknown, WantedFrom::floor},
           judged{"memory_bandwidth", 4e9, 1e10, false, CheckVerdict::ok, WantedFrom::store},
           judged{"memory_bandwidth", 3.9e9, 1e10, false, CheckVerdict::bad, WantedFrom::store},
           judged{"memory_bandwidth", 3.9e9, 1e10, true, CheckVerdict::unknown,
                  WantedFrom::store},
           judged{"memory_bandwidth", 4.1e9, 1e10, true, CheckVerdict::ok, WantedFrom::store},
           judged{"loopback_latency", 5000, {}, false, CheckVerdict::ok, WantedFrom::floor},
           judged{"loopback_latency", 5001, {}, false, CheckVerdict::bad, WantedFrom::floor},
           judged{"locked_memory", 0, {}, false, CheckVerdict::ok, WantedFrom::nothing},
           judged{"open_files", 1023, {}, false, CheckVerdict::bad, WantedFrom::floor},
           judged{"disk_write", -1, {}, false, CheckVerdict::unknown, WantedFrom::nothing},
       }) {
    CAPTURE(j.check);
    CAPTURE(j.seen);
    CAPTURE(j.busy);
    auto c = check_of(j.check);
    c.seen = j.seen;
    judge(c, j.kept, j.busy);
    CHECK(c.verdict == j.verdict);
    CHECK(c.wanted_from == j.from);
  }
}

TEST_CASE("a machine is busy from these shares on") {
  CHECK_FALSE(was_busy({10, 90}));
  CHECK(was_busy({10.1, 100}));
  CHECK(was_busy({0, 89.9}));
}

TEST_CASE("CKP-3: equal machines judge each other where three are not busy") {
  using names = std::set<std::string>;
  CHECK(bad_among({machine("a", 8e9), machine("b", 8e9), machine("c", 3.9e9)}) == names{"c"});
  CHECK(bad_among({machine("a", 8e9), machine("b", 8e9), machine("c", 4e9)}).empty());
  CHECK(bad_among({machine("a", 8e9), machine("b", 1e9)}).empty());
  CHECK(bad_among({machine("a", 8e9), machine("b", 8e9), machine("c", 1e9, true)}).empty());
  CHECK(bad_among({machine("a", 8e9), machine("b", 8e9), machine("c", 1e9, false, "other")})
            .empty());
}

TEST_CASE("CKP-3: disks are not judged among equal machines, nothing tells equal ones") {
  for (const char* check : {"disk_write", "disk_read"}) {
    CAPTURE(check);
    const auto of = [&](const char* node, double rate) {
      return machine(node, rate, false, "h", check);
    };
    CHECK(bad_among({of("a", 3e9), of("b", 3e9), of("c", 2e8)}).empty());
    CHECK(bad_among({of("a", 3e9), of("b", 3e9), of("c", 2e5)}) ==
          std::set<std::string>{"c"});  // its floor stands
  }
}

TEST_CASE("checks: each has a budget, a deep one no less, and what is exact is about bits") {
  std::set<std::string_view> names;
  for (const auto& e : checks_in_order()) {
    CAPTURE(e.name);
    CHECK(names.insert(e.name).second);
    CHECK(e.budget_ms > 0);
    CHECK(e.deep_budget_ms >= e.budget_ms);
    CHECK(e.bits == (e.unit == "errors"));
  }
}

// An examination in one sentence.
#include "actors/health/check_text.hpp"

#include <doctest/doctest.h>

#include "actors/health/checkup_policy.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

std::unique_ptr<fbs::CheckResultT> judged_check(const char* check, double seen, bool busy = false) {
  auto c = std::make_unique<fbs::CheckResultT>(check_of(check));
  c->seen = seen;
  judge(*c, std::nullopt, busy);
  return c;
}

}  // namespace

TEST_CASE("check text: what is bad is told with what is wanted, else that nothing is") {
  fbs::CheckupReportT r;
  r.checks.push_back(judged_check("cpu_product", 0));
  r.checks.push_back(judged_check("disk_read", -1));
  CHECK(report_text(r) == "nothing is bad, 1 check ok, 1 unknown");
  r.checks.push_back(judged_check("memory_bandwidth", 3.1e8));
  CHECK(report_text(r) == "memory_bandwidth 310.0 MB/s, wanted >= 500.0 MB/s (floor): bad");
  r.checks.push_back(judged_check("memory_pattern", 2));
  CHECK(report_text(r) == "memory_bandwidth 310.0 MB/s, wanted >= 500.0 MB/s (floor): bad; "
                          "memory_pattern 2 errors, wanted 0 errors: bad");
}

TEST_CASE("check text: of a busy machine that is said") {
  fbs::CheckupReportT r;
  r.busy = true;
  r.others_percent = 93;
  r.checks.push_back(judged_check("memory_bandwidth", 3.1e8, true));
  CHECK(report_text(r) ==
        "nothing is bad, 0 checks ok, 1 unknown (other work took 93 % of its processors)");
}

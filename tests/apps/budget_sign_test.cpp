// Signs of power budgets: found by name, apart from those of clusters, and gone with their process.
#include "apps/power/budget_sign.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "apps/control/meeting_point.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps;

namespace {

served_budget budget_here(const std::string& name, int pid) {
  return {name, pid, "127.0.0.1:4242", "row0.secret"};
}

}  // namespace

TEST_CASE("budget sign: it is found while it stands, by its name or alone, and is no cluster") {
  const scratch runtime;
  const runtime_folder set(runtime.path);
  CHECK(the_served_budget("").error().code == errc::not_found);
  {
    const budget_sign sign(budget_here("row0", getpid()));
    const auto alone = the_served_budget("");
    REQUIRE(alone);
    CHECK(alone->name == "row0");
    CHECK(alone->pid == getpid());
    CHECK(alone->address == "127.0.0.1:4242");
    CHECK(alone->secret == std::filesystem::absolute("row0.secret"));
    CHECK(the_served_budget("row0"));
    const auto other = the_served_budget("row1");
    REQUIRE_FALSE(other);
    CHECK(other.error().code == errc::not_found);
    CHECK(mentions(other.error(), "row1"));
    CHECK(meeting_points().empty());
    const meeting_sign cluster({"row0", getpid(), "127.0.0.1:1", "out", "", {}});
    CHECK(served_budgets().size() == 1);
    CHECK(meeting_points().size() == 1);
  }
  CHECK(served_budgets().empty());
}

TEST_CASE("budget sign: of several one must be named") {
  const scratch runtime;
  const runtime_folder set(runtime.path);
  const budget_sign one(budget_here("row0", getpid())), two(budget_here("row1", getppid()));
  const auto which = the_served_budget("");
  REQUIRE_FALSE(which);
  CHECK(which.error().code == errc::usage);
  CHECK(mentions(which.error(), "row0"));
  CHECK(mentions(which.error(), "row1"));
  CHECK(the_served_budget("row1")->pid == getppid());
}

TEST_CASE("budget sign: of several a job has the one that has a child of its name") {
  const scratch runtime;
  const runtime_folder set(runtime.path);
  CHECK(served_budget_of("gpt-a").error().code == errc::not_found);
  auto here = budget_here("row0", getpid());
  here.children = {"gpt-a", "gpt-c"};
  const budget_sign one(here);
  CHECK(served_budgets().front().children == here.children);
  CHECK(served_budget_of("gpt-b"));  // the only one; it says itself whom it has
  auto other = budget_here("row1", getppid());
  other.children = {"gpt-b", "gpt-c"};
  {
    const budget_sign two(other);
    CHECK(served_budget_of("gpt-a")->name == "row0");
    CHECK(served_budget_of("gpt-b")->name == "row1");
    const auto none = served_budget_of("gpt-d");
    REQUIRE_FALSE(none);
    CHECK(none.error().code == errc::not_found);
    for (const auto* named : {"gpt-d", "row0", "row1"}) CHECK(mentions(none.error(), named));
    const auto both = served_budget_of("gpt-c");
    REQUIRE_FALSE(both);
    CHECK(both.error().code == errc::usage);
    for (const auto* named : {"gpt-c", "row0", "row1"}) CHECK(mentions(both.error(), named));
  }
  other.children.assign(4096, std::string(60, 'x'));  // too many for a sign
  const budget_sign many(other);
  CHECK(served_budgets().size() == 2);
  CHECK(served_budget_of("gpt-a")->name == "row0");
  CHECK(served_budget_of("gpt-d")->name == "row1");  // it may have it
}

TEST_CASE("budget sign: MP-2: what a killed process left is removed when it is met") {
  const scratch runtime;
  const runtime_folder set(runtime.path);
  const auto folder = runtime / "troupe";
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  const auto sign = folder / "2147483647.power";  // no process has this number
  const auto left = folder / "2147483647.power.tmp-2147483647-0";
  std::ofstream(sign) << R"({"budget": "row0", "pid": 2147483647, "address": "127.0.0.1:1"})";
  std::ofstream(left) << "{";
  CHECK(served_budgets().empty());
  CHECK_FALSE(std::filesystem::exists(sign));
  const budget_sign own(budget_here("row0", getpid()));
  CHECK_FALSE(std::filesystem::exists(left));
}

TEST_CASE("sign folder: MP-4: a file that is no sign ends nobody and hides nobody") {
  const scratch runtime;
  const runtime_folder set(runtime.path);
  const budget_sign own(budget_here("row0", getpid()));
  const auto folder = runtime / "troupe";
  const auto here = fmt::format("{}", getpid());
  const std::vector<std::string> files = {
      R"({"budget": 7, "pid": HERE, "address": "127.0.0.1:1", "secret": "s"})",
      R"({"budget": "row1", "pid": "HERE", "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": HERE, "address": 1})",
      R"({"budget": "row1", "pid": HERE, "address": ["127.0.0.1:1"], "secret": {}})",
      R"({"budget": "row1", "pid": HERE, "address": "127.0.0.1:1", "children": {"gpt-a": 1}})",
      R"({"budget": "row1", "pid": HERE, "address": "127.0.0.1:1", "children": ["gpt-a", 1]})",
      R"({"budget": "row1", "pid": HERE, "address": "127.0.0.1:1", "secret": null})",
      R"({"budget": "row1", "pid": HERE.5, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": true, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": 0, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": -1, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": 4294967297, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": 18446744073709551615, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": 1e300, "address": "127.0.0.1:1"})",
      R"({"budget": "row1", "pid": {}})",
      R"({"budget": "row1"})",
      R"({"budget": "row1", "pid": HERE, "addr)",
      R"([{"budget": "row1", "pid": HERE}])",
      R"("row1")",
      "null",
      "",
      std::string(200, '\0'),
      "\xff\xfe\x7f\x80{\"budget\"",
      std::string(50'000, '['),
      fmt::format(R"({{"budget": "row1", "pid": {}, "address": "{}"}})", here,
                  std::string(100'000, 'x')),
  };
  for (size_t i = 0; i < files.size(); ++i)
    for (const auto* kind : {"power", "json"}) {
      auto text = files[i];
      if (const auto at = text.find("HERE"); at != text.npos) text.replace(at, 4, here);
      if (const auto at = text.find("budget"); at != text.npos && kind == std::string("json"))
        text.replace(at, 6, "job");
      std::ofstream(folder / fmt::format("{}.{}", 900'000 + i, kind), std::ios::binary) << text;
    }
  const auto found = served_budgets();
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "row0");
  CHECK(the_served_budget("")->name == "row0");
  CHECK(meeting_points().empty());
  CHECK(std::filesystem::exists(folder / "900009.power"));  // of pid 0: nobody's to remove
}

// Records of changes: written and read back, foreign bytes, and what follows from one.
#include "gpu/controls/control_record.hpp"

#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace troupe;
using namespace troupe::gpu::controls;

namespace {

control_record some_record() {
  return {cgroup_version::two,
          "/sys/fs/cgroup/a.slice/troupe-4711-0",
          true,
          "tiny \"1\"",
          3,
          4711,
          81230,
          "5c8b"};
}

control_record some_settings() {
  control_record r;
  r.kind = setting_kind::rapl;
  r.settings = {{"/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", 165'000'000},
                {"/sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw", 0}};
  r.job = "tiny";
  r.pid = 4711;
  r.started = 81230;
  r.boot = "5c8b";
  return r;
}

}  // namespace

TEST_CASE("control record: settings that are written are read") {
  const auto r = some_settings();
  const auto read = parse_record(record_text(r));
  REQUIRE(read);
  CHECK(*read == r);
  CHECK(subject_of(r) ==
        "rapl /sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw and 1 more");
  CHECK(subject_of(some_record()) == "/sys/fs/cgroup/a.slice/troupe-4711-0");
}

TEST_CASE("CRE-3: control record: the pace at which settings stay is read, and no other number") {
  auto r = some_settings();
  for (const int pace : {0, 51, 1024}) {
    r.stays_at = pace;
    const auto read = parse_record(record_text(r));
    REQUIRE(read);
    CHECK(read->stays_at == pace);
    CHECK(*read == r);
  }
  for (const nlohmann::json& wrong :
       {nlohmann::json(1025), nlohmann::json(-1), nlohmann::json("51"), nlohmann::json(51.5),
        nlohmann::json(nullptr), nlohmann::json(18446744073709551615ULL)}) {
    CAPTURE(wrong.dump());
    auto j = nlohmann::json::parse(record_text(r));
    j["stays_at"] = wrong;
    const auto read = parse_record(j.dump());
    REQUIRE_FALSE(read);
    CHECK(read.error().is(no_control_record));
  }
}

TEST_CASE("CRE-1: control record: settings that are none of this program's are no record") {
  const auto with = [](const char* key, nlohmann::json value) {
    auto j = nlohmann::json::parse(record_text(some_settings()));
    j[key] = std::move(value);
    return j.dump();
  };
  const auto of = [&](nlohmann::json setting) {
    return with("settings", nlohmann::json::array({std::move(setting)}));
  };
  const std::string zone = "/sys/class/powercap/intel-rapl:0/";
  for (const auto& text :
       {with("kind", "cpufreq"), with("kind", "else"), with("kind", 1),
        with("settings", nlohmann::json::array()), with("settings", zone), of(nullptr), of(1),
        of({{"where", "/etc/passwd"}, {"found", 1}}),
        of({{"where", zone + "constraint_0_power_limit_uw"}}),
        of({{"where", zone + "constraint_0_power_limit_uw"}, {"found", -1}}),
        of({{"where", zone + "constraint_0_power_limit_uw"}, {"found", "1"}}),
        of({{"where", zone + "../intel-rapl:0/constraint_0_power_limit_uw"}, {"found", 1}})}) {
    CAPTURE(text);
    const auto read = parse_record(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().is(no_control_record));
  }
}

TEST_CASE("control record: what is written is read") {
  auto r = some_record();
  for (const auto version : {cgroup_version::one, cgroup_version::two}) {
    r.version = version;
    const auto read = parse_record(record_text(r));
    REQUIRE(read);
    CHECK(*read == r);
  }
}

TEST_CASE("CRE-1: control record: what is not one of ours is none") {
  const auto with = [](const char* key, nlohmann::json value) {
    auto j = nlohmann::json::parse(record_text(some_record()));
    j[key] = std::move(value);
    return j.dump();
  };
  const auto without = [](const char* key) {
    auto j = nlohmann::json::parse(record_text(some_record()));
    j.erase(key);
    return j.dump();
  };
  for (const auto& text : {std::string(),
                           std::string("{"),
                           std::string("[1]"),
                           std::string("null"),
                           std::string(record_bytes + 1, ' '),
                           with("troupe-control", 2),
                           with("cgroup", 3),
                           with("cgroup", -1),
                           with("pid", 0),
                           with("pid", -4),
                           with("pid", 1e300),
                           with("pid", 18446744073709551615ULL),
                           with("rank", "0"),
                           with("turned_on", 1),
                           with("group", "/sys/fs/cgroup/a.slice"),
                           with("group", "troupe-1-0"),
                           with("group", "/sys/../etc/troupe-1-0"),
                           with("group", "/sys/./troupe-1-0"),
                           with("group", "/sys/troupe-1-0/"),
                           with("group", std::string("/a\0/troupe-1-0", 14)),
                           with("group", "/a\n/troupe-1-0"),
                           without("group"),
                           without("boot"),
                           without("started"),
                           without("turned_on")}) {
    CAPTURE(text);
    const auto read = parse_record(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().is(no_control_record));
  }
}

TEST_CASE("control record: when a process was started") {
  const std::string zeros = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18";
  CHECK(start_ticks("4711 (troupe)" + zeros + " 81230 7 8\n") == 81230);
  CHECK(start_ticks("4711 (a) b) (c)" + zeros + " 81230 7 8\n") == 81230);
  CHECK_FALSE(start_ticks("4711 (troupe)" + zeros));
  CHECK_FALSE(start_ticks("4711 (troupe)" + zeros + " x"));
  CHECK_FALSE(start_ticks("4711 (troupe)" + zeros + " 99999999999999999999999"));
  CHECK_FALSE(start_ticks("4711"));
  CHECK_FALSE(start_ticks(""));
}

TEST_CASE("CRE-2: control record: what a dead process left is undone, after a reboot it is void") {
  const auto r = some_record();
  CHECK(judge(r, "5c8b", 81230) == record_verdict::in_use);
  CHECK(judge(r, "5c8b", 81231) == record_verdict::undo);  // another process with its number
  CHECK(judge(r, "5c8b", {}) == record_verdict::undo);
  CHECK(judge(r, "ffff", 81230) == record_verdict::forget);
  CHECK(judge(r, "ffff", {}) == record_verdict::forget);
}

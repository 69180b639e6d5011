// What a monitor's answer looks like: for people a line a finding, for scripts an object.
#include "apps/control/findings.hpp"
#include "apps/control/account.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace troupe;
using namespace troupe::apps;
using nlohmann::json;

namespace {

fbs::FindingsT two() {
  fbs::FindingsT all;
  all.now_ns = 10'000'000'000;
  all.step = 41;
  all.raised = 5;
  auto& a = *all.findings.emplace_back(std::make_unique<fbs::FindingT>());
  a.name = "stuck_device";
  a.severity = fbs::FindingSeverity::error;
  a.node = "node1";
  a.rank = 5;
  a.seen = 4;
  a.wanted = 3;
  a.unit = "s";
  a.text = "its forward does not end, 3 others wait for it";
  a.since_ns = 8'000'000'000;
  auto& b = *all.findings.emplace_back(std::make_unique<fbs::FindingT>());
  b.name = "disk_full";
  b.severity = fbs::FindingSeverity::warning;
  b.node = "node2";
  b.rule = "fan";
  b.text = "little room";
  b.since_ns = 11'000'000'000;  // clocks are as they are: nothing is older than now
  return all;
}

}  // namespace

TEST_CASE("findings: a line each, and one that says that there are none") {
  CHECK(findings_text({}) == "no findings\n");
  CHECK(findings_text(two()) ==
        "findings: stuck_device rank 5 (node1): its forward does not end, 3 others wait for it "
        "(4 s, at most 3), for 2.00 s\n"
        "  disk_full node2: little room, for 0 ns\n");
}

TEST_CASE("findings: an object for scripts, what is not known is null") {
  const auto none = json::parse(findings_json({}));
  CHECK(none == json{{"type", "health"}, {"step", 0}, {"raised", 0}, {"findings", json::array()}});
  const auto j = json::parse(findings_json(two()));
  CHECK(j["step"] == 41);
  CHECK(j["raised"] == 5);
  REQUIRE(j["findings"].size() == 2);
  CHECK(j["findings"][0] == json{{"name", "stuck_device"},
                                 {"severity", "error"},
                                 {"node", "node1"},
                                 {"rank", 5},
                                 {"peer", nullptr},
                                 {"seen", 4.0},
                                 {"wanted", 3.0},
                                 {"unit", "s"},
                                 {"text", "its forward does not end, 3 others wait for it"},
                                 {"rule", nullptr},
                                 {"doctor", nullptr},
                                 {"for_s", 2.0}});
  CHECK(j["findings"][1]["rank"].is_null());
  CHECK(j["findings"][1]["rule"] == "fan");
}

TEST_CASE("expect why: a row for each part, whose factors make what is expected, or that none is") {
  fbs::ExplanationT why;
  why.rank = 3;
  why.node = "node1";
  why.samples = 12;
  CHECK(why_text(why, 0).find("nothing is expected of rank 3") == 0);
  auto& p = *why.parts.emplace_back(std::make_unique<fbs::ExplainedPartT>());
  p.expected = std::make_unique<fbs::ExpectedTimeT>();
  p.expected->part = "backward";
  p.expected->mean_ms = 165;
  p.expected->least_ms = 150;
  p.expected->most_ms = 180;
  p.expected->configurations = 2;
  p.rule_ms = 100;
  p.line = 1.5;
  p.bend = 1;
  p.node = 1.1;
  p.node_samples = 7;
  p.doubt_percent = 3;
  p.noise_percent = 8;
  const auto text = why_text(why, 0);
  for (const auto* word : {"rank 3 on node1", "12 samples", "backward", "165 ms",
                           "150 ms to 180 ms", "100 ms", "x 1.5", "x 1.1", "+- 3.0 %", "+- 8.0 %"})
    CHECK_MESSAGE(text.find(word) != std::string::npos, text);
  const auto j = json::parse(why_json(why).dump());
  CHECK(j["type"] == "expect_why");
  CHECK(j["rank"] == 3);
  CHECK(j["parts"].size() == 1);
  const auto& one = j["parts"][0];
  CHECK(one["rule_ms"].get<double>() * one["line"].get<double>() * one["bend"].get<double>() *
            one["node"].get<double>() ==
        doctest::Approx(one["expected_ms"].get<double>()));
  CHECK(one["outside"].is_null());
  CHECK(one["probed_ms"].is_null());
  CHECK(one["is_far_from_probes"] == false);
  CHECK(text.find("misconfigured") == std::string::npos);
  p.probed_ms = 60;
  p.probed_most_ms = 170;
  CHECK(why_text(why, 0).find(" 60.0 ms") != std::string::npos);
  CHECK(why_text(why, 0).find("misconfigured") == std::string::npos);
  p.probed_most_ms = 160;
  CHECK(
      why_text(why, 0).ends_with("backward takes 165 ms, at most 160 ms by what node1 was probed "
                                 "to do: is it misconfigured?\n"));
  CHECK(why_json(why)["parts"][0]["is_far_from_probes"] == true);
  CHECK(why_json(why)["parts"][0]["probed_ms"] == 60);
}

TEST_CASE("expect: a row for each part, or why there is none") {
  fbs::FindingsT all;
  CHECK(expect_text(all, 0) ==
        "nothing is expected: predict.suspect_percent is 0, so no rank is looked at\n");
  all.quiet_steps_needed = 45;
  all.quiet_steps = 12;
  CHECK(expect_text(all, 0) == "nothing is expected yet: 12 of 45 quiet steps seen\n");
  all.quiet_steps = 60;
  CHECK(expect_text(all, 0).find("the work of steps has changed") != std::string::npos);
  all.step = 70;
  auto& slow = *all.parts.emplace_back(std::make_unique<fbs::ExpectedPartT>());
  slow.node = "node3";
  slow.rank = 6;
  slow.part = "backward";
  slow.expected_ms = 161;
  slow.spread_ms = 9;
  slow.seen_ms = 198;
  slow.off_percent = 22.98;
  slow.suspected = "slow";
  slow.since_step = 4210;
  slow.beside = {"cpu_starved"};
  auto& job = *all.parts.emplace_back(std::make_unique<fbs::ExpectedPartT>());
  job.part = "forward";
  job.expected_ms = job.seen_ms = 80;
  job.off_percent = -0.2;
  all.parts_left_out = 3;
  CHECK(expect_text(all, 0) ==
        "node   rank      part          expected     seen    off  "
        "                         suspected\n"
        "node3     6  backward  161 ms +- 9.0 ms   198 ms  +23 %  "
        "slow since step 4210 (cpu_starved)\n"
        "-       all   forward   80.0 ms +- 0 ns  80.0 ms   +0 %\n"
        "and 3 parts more\n");
  slow.differs = "its GPU runs at 1,410 MHz, the others at 1,980";
  for (const int columns : {0, 60})  // which has no room for it
    CHECK(expect_text(all, columns)
              .ends_with("\nnode3: its GPU runs at 1,410 MHz, the others at 1,980\nand 3 parts "
                         "more\n"));
  CHECK(suspected_text(all, 6) ==
        "backward is suspected: slow since step 4210 (cpu_starved), 198 ms in place of 161 ms; its "
        "GPU runs at 1,410 MHz, the others at 1,980\n");
  CHECK(suspected_text(all, 5).empty());
  CHECK(suspected_json(all, 5).empty());
  CHECK(suspected_json(all, 6).size() == 1);
  const auto j = json::parse(expect_json(all).dump());
  CHECK(j["parts"][0]["differs"] == slow.differs);
  CHECK(suspected_json(all, 6)[0] == expect_json(all)["parts"][0]);
  CHECK(j["type"] == "expect");
  CHECK(j["quiet_steps"] == 60);
  CHECK(j["quiet_steps_needed"] == 45);
  CHECK(j["left_out"] == 3);
  CHECK(j["parts"][0]["suspected"] == "slow");
  CHECK(j["parts"][0]["since_step"] == 4210);
  CHECK(j["parts"][0]["beside"] == json::array({"cpu_starved"}));
  for (const char* key : {"node", "rank", "suspected", "since_step", "differs"})
    CHECK(j["parts"][1][key].is_null());
}

TEST_CASE("findings: a cluster is well with what is only good to know") {
  auto all = two();
  CHECK_FALSE(is_well(all));
  CHECK(is_well({}));
  for (auto& f : all.findings) f->severity = fbs::FindingSeverity::info;
  CHECK(is_well(all));
}

TEST_CASE("health: an account of the time, and a line for each incident") {
  fbs::RunStatusT run;
  run.wall_s = 3727.4;
  run.effective_percent = 97.94;
  run.effective_last_hour_percent = 99.1;
  CHECK(account_text(run) == "training for 1:02:07, effective 97.9 % (last hour 99.1 %)\n");
  run.recoveries = 1;
  run.steps_repeated = 6;
  auto& i = *run.incidents.emplace_back(std::make_unique<fbs::IncidentT>());
  i.number = 1;
  i.finding = "dead_process";
  i.node = "node2";
  i.ago_s = 62;
  i.noticed_s = i.named_s = 0.2;
  const auto text = account_text(run);
  CHECK(text.find("; 1 recovery, 6 steps repeated\n") != text.npos);
  CHECK(text.find("  1       1:02  dead_process      node2          0.2 s     0.2 s         -  "
                  "recovering\n") != text.npos);
  const auto j = json::parse(findings_json({}, &run))["run"];
  CHECK(j["steps_repeated"] == 6);
  CHECK(j["incidents"][0]["back_s"].is_null());
  CHECK(j["incidents"][0]["named_s"] == 0.2);
}

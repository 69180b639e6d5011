// `troupe power` through the built program: what it prints, refuses and draws.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget_inputs.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using troupe::content;
using troupe::scratch;

namespace {

troupe::ended run_power(const scratch& in, const std::string& words) {
  return troupe::run_in(in.path, "'" TROUPE_PROGRAM "' power " + words);
}

void put(const scratch& in, const std::string& name, const std::string& text) {
  std::ofstream(in / name) << text;
}

}  // namespace

TEST_CASE("power: sim --json has the columns of a table of runs, and says the same twice") {
  scratch here;
  const std::string words = "sim --servers 52 --policy low --weeks 1 --seed 3 --json";
  const auto done = run_power(here, words);
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  for (const auto* key :
       {"added_pct",      "intensity",  "seed",       "servers",  "max_power",    "max_5min",
        "mean_power",     "spike_2s",   "spike_40s",  "brakes",   "ticks_over_1", "frac_LP_capped",
        "frac_HP_capped", "LP_p50_s",   "LP_p99_s",   "HP_p50_s", "HP_p99_s",     "LP_done",
        "HP_done",        "LP_dropped", "HP_dropped", "MWh"}) {
    CAPTURE(key);
    CHECK(j.at(key).is_number());
  }
  CHECK(j.at("policy") == "low");
  CHECK(j.at("T1_T2") == "80-89");
  CHECK(j.at("added_pct") == 30);
  CHECK(run_power(here, words).out == done.out);
}

TEST_CASE("power: sim writes a trace and a picture, and tells a person of an unsafe T2") {
  scratch here;
  const auto done = run_power(here, "sim --servers 52 --weeks 1 --out t.csv --svg row.svg");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  CHECK(done.out.find("brakes") != done.out.npos);
  CHECK(done.out.find("T2 is 89 %") != done.out.npos);
  const auto trace = content(here / "t.csv");
  CHECK(trace.starts_with("t_s,watts\n2,"));
  CHECK(std::count(trace.begin(), trace.end(), '\n') == 1 + 7 * 86'400 / 2);
  CHECK(trace.find("\n604800,") != trace.npos);
  const auto picture = content(here / "row.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(picture.find("prefers-color-scheme: dark") != picture.npos);
  CHECK(picture.find("nan") == picture.npos);
}

TEST_CASE("power: sim refuses what has no meaning, with a hint, and writes nothing") {
  scratch here;
  struct wrong {
    const char* words;
    int code;
    const char* said;
  };
  put(here, "r.csv", "bin,rate\n0,1\n1,x\n");
  put(here, "good.csv", "bin,rate\n0,1\n1,2\n");
  put(here, "zero.csv", "bin,rate\n0,0\n");
  put(here, "below.csv", "bin,rate\n0,1\n1,-2\n");
  const wrong all[] = {
      {"sim --policy plca", 64, "polca?"},
      {"sim --t2 89", 64, "shares of the budget"},
      {"sim --servers 0", 64, "--servers"},
      {"sim --weeks 1 --rates-column x", 64, "--rates"},
      {"sim --rates none.csv", 66, "none.csv"},
      {"sim --rates r.csv --rates-column rate", 65, "r.csv: line 3: rate is \"x\""},
      {"sim --rates zero.csv --rates-column rate", 65, "no row above 0"},
      {"sim --rates zero.csv --rates-column rat", 64, "rate?"},
      {"sim --rates below.csv --rates-column rate", 65, "line 3: rate is -2"},
      {"sim --servers 4096 --weeks 52", 64, "--servers times --weeks"},
      {"sim --telemetry-s 0.1 --weeks 52", 64, "--telemetry-s"},
      {"", 64, ""}};
  for (const auto& w : all) {
    CAPTURE(w.words);
    const auto done = run_power(here, std::string(w.words) + (*w.words ? " --out t.csv" : ""));
    CAPTURE(done.talk);
    CHECK(done.code == w.code);
    CHECK(done.out.empty());
    CHECK(done.talk.find(w.said) != done.talk.npos);
  }
  CHECK(!std::filesystem::exists(here / "t.csv"));
  for (const auto& w : {wrong{"sim --table", 64, "--rates"},
                        {"sim --table --rates r.csv --rates-column rate", 65, "line 3"},
                        {"sim --table --rates good.csv --rates-column rate --servers 3", 64,
                         "--servers has no meaning"}}) {
    CAPTURE(w.words);
    const auto done = run_power(here, w.words);
    CAPTURE(done.talk);
    CHECK(done.code == w.code);
    CHECK(done.out.empty());
    CHECK(done.talk.find(w.said) != done.talk.npos);
  }
  CHECK(run_power(here, "sim --weeks 1 --servers 8 --out no/where.csv --json").out.empty());
}

TEST_CASE("power: rises and means within less than a reading are not told of") {
  scratch here;
  const std::string words = "sim --servers 40 --weeks 1 --telemetry-s ";
  const auto slow = nlohmann::json::parse(run_power(here, words + "7 --json").out);
  CHECK(slow.at("spike_2s").is_null());
  CHECK(slow.at("spike_40s").is_number());
  CHECK(slow.at("max_5min").is_number());
  const auto slowest = nlohmann::json::parse(run_power(here, words + "600 --json").out);
  CHECK(slowest.at("spike_40s").is_null());
  CHECK(slowest.at("max_5min").is_null());
  const auto told = run_power(here, words + "600");
  CHECK(told.out.find("rises   - in 2 s, - in 40 s") != told.out.npos);
}

TEST_CASE("power: files beyond their bounds are refused") {
  scratch here;
  put(here, "r.csv", "");
  std::filesystem::resize_file(here / "r.csv", (16 << 20) + 1);
  CHECK(run_power(here, "sim --rates r.csv").code == 65);
}

TEST_CASE("power: plan answers first, for a trace that sim wrote") {
  scratch here;
  REQUIRE(run_power(here, "sim --policy none --weeks 1 --out t.csv").code == 0);
  const auto told =
      run_power(here, "plan t.csv --servers 40 --budget-w 216000 --resamples 3 --weeks 1");
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  CHECK(told.out.starts_with("you can add "));
  CHECK(told.out.find("no brake in 1 week in 3 of 3 resamples\n") != told.out.npos);
  CHECK(told.out.find("one week: others may be busier") != told.out.npos);
  const auto j = nlohmann::json::parse(
      run_power(here, "plan t.csv --servers 40 --budget-w 216000 --resamples 3 --weeks 1 --json")
          .out);
  CHECK(j.at("servers_added") > 3);
  CHECK(j.at("t1") < j.at("t2"));
  CHECK(j.at("t2") < 1 - j.at("rise").get<double>() + 1e-9);
  CHECK(j.at("rows").size() > j.at("servers_added").get<size_t>());
  CHECK(j.at("rows")[0].at("servers") == 40);
}

TEST_CASE("power: plan draws what it found, with the same bytes each time") {
  scratch here;
  REQUIRE(run_power(here, "sim --policy none --weeks 1 --out t.csv").code == 0);
  const std::string words =
      "plan t.csv --servers 40 --budget-w 216000 --resamples 2 --weeks 1 --svg ";
  REQUIRE(run_power(here, words + "a.svg").code == 0);
  REQUIRE(run_power(here, words + "b.svg").code == 0);
  const auto picture = content(here / "a.svg");
  CHECK(picture == content(here / "b.svg"));
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(picture.find("prefers-color-scheme: dark") != picture.npos);
  CHECK(picture.find("you can add ") != picture.npos);
  CHECK(picture.find("class=\"answer\"") != picture.npos);
  CHECK(picture.find("nan") == picture.npos);
}

TEST_CASE("power: plan refuses other traces and options with a hint") {
  scratch here;
  put(here, "kw.csv", "t_s,kw\n0,170\n2,171\n4,172\n");
  put(here, "nan.csv", "t_s,watts\n0,170\n2,nan\n4,172\n");
  put(here, "gap.csv", "t_s,watts\n0,170\n2,171\n40,172\n42,172\n");
  put(here, "short.csv", "t_s,watts\n0,170000\n2,171000\n4,172000\n");
  put(here, "two.csv", "t_s,a,b\n0,1,1\n2,1,1\n4,1,1\n");
  struct wrong {
    const char* words;
    int code;
    const char* said;
  };
  const wrong all[] = {
      {"plan none.csv --budget-w 216000 --servers 40", 66, "none.csv"},
      {"plan kw.csv --budget-w 216000 --servers 40", 65, "the column kw is not in watts"},
      {"plan nan.csv --budget-w 216000 --servers 40", 65, "nan.csv: line 3: watts is \"nan\""},
      {"plan gap.csv --budget-w 216000 --servers 40", 65, "gap.csv: line 4:"},
      {"plan short.csv --budget-w 216000 --servers 40", 65, "spans 6 s"},
      {"plan two.csv --servers 3 --budget-w 216000", 64, "a column for each of 2"},
      {"plan short.csv --resamples 1001 --budget-w 216000 --servers 40", 64, "--resamples"},
      {"plan short.csv --t2 89 --budget-w 216000 --servers 40", 64, "shares of the budget"},
      {"plan short.csv --servers 40", 64, "--budget-w is missing"},
      {"plan short.csv --budget-w 216000", 64, "of how many servers?"},
      {"plan", 64, "trace"}};
  for (const auto& w : all) {
    CAPTURE(w.words);
    const auto done = run_power(here, w.words);
    CAPTURE(done.talk);
    CHECK(done.code == w.code);
    CHECK(done.out.empty());
    CHECK(done.talk.find(w.said) != done.talk.npos);
    if (w.code != 66) CHECK(done.talk.find("hint: ") != done.talk.npos);
  }
}

TEST_CASE("power: a journal of sim is decided again the same, and the first that differs is told") {
  scratch here;
  REQUIRE(run_power(here, "sim --servers 56 --weeks 1 --journal power.jsonl --json").code == 0);
  const auto same = run_power(here, "replay power.jsonl");
  CAPTURE(same.talk);
  CHECK(same.code == 0);
  CHECK(same.out.find("kept decisions of polca are the same") != same.out.npos);
  CHECK(same.out.find("ticks that changed nothing are not kept") != same.out.npos);
  auto text = content(here / "power.jsonl");
  const auto at = text.find("\"lp_mhz\":1110");
  REQUIRE(at != text.npos);
  put(here, "other.jsonl", text.replace(at, 13, "\"lp_mhz\":1111"));
  const auto other = run_power(here, "replay other.jsonl --json");
  CHECK(other.code == 1);
  const auto j = nlohmann::json::parse(other.out);
  CHECK(j.at("same") == false);
  CHECK(j.at("first_difference").at("expected").at("lp_mhz") == 1110);
  CHECK(j.at("first_difference").at("found").at("lp_mhz") == 1111);
}

TEST_CASE(
    "power: what a budget was given is decided again over its files, and a difference is told") {
  scratch here;
  const std::string stamp = R"({"unix_s":1.5,)";
  troupe::power::budget_terms terms{"row0", 2, 0, troupe::power::row_brake::off, {}, {}};
  terms.rules.row =
      troupe::power::rules_of(troupe::power::row_rule::none, {}, 0, terms.rules.tick_ns);
  terms.children.push_back({troupe::power::power_class::low, 10'000, 30'000, 70'000});
  std::vector<std::string> lines;
  troupe::power::budget_inputs inputs(
      [&](const std::string& line) { lines.push_back(stamp + line.substr(1) + "\n"); }, terms);
  troupe::power::budget_policy policy(terms.rules, terms.children, terms.epoch, terms.now_ns);
  for (int64_t now = terms.rules.tick_ns; lines.size() < 31; now += terms.rules.tick_ns) {
    const troupe::power::power_report told{{1, now}, {}, 30'000, 20'000, 60'000};
    policy.hear(0, told, now);
    inputs.heard(0, told, now);
    inputs.ticked({70'000}, {20'000, true}, now, policy.tick({70'000}, {20'000, true}, now));
  }
  const auto joined = [&](size_t from, size_t to) {
    std::string out;
    for (size_t i = from; i < to; ++i) out += lines[i];
    return out;
  };
  put(here, "power.inputs.1", joined(0, 12));
  put(here, "power.inputs", joined(12, lines.size()));
  const auto same = run_power(here, "replay power.inputs");
  CAPTURE(same.talk);
  CHECK(same.code == 0);
  CHECK(same.out.find("all 30 ticks of row0 in 1 life are the same") != same.out.npos);
  auto other = joined(0, lines.size());
  const auto at = other.rfind("\"g\":[[0,");
  REQUIRE(at != other.npos);
  put(here, "other", other.insert(at + 8, "1"));
  const auto differs = run_power(here, "replay other --json");
  CHECK(differs.code == 1);
  const auto j = nlohmann::json::parse(differs.out);
  CHECK(j.at("same") == false);
  CHECK(j.at("first_difference").at("line") > 2);
  CHECK(run_power(here, "replay other").code == 1);
  put(here, "rest", joined(12, lines.size()));  // nothing says with which terms
  CHECK(run_power(here, "replay rest").code == 65);
  put(here, "torn.1", joined(0, 12) + lines[12].substr(0, 20) + "\n" + joined(13, 20));
  put(here, "torn", joined(20, lines.size()));  // no later life
  CHECK(run_power(here, "replay torn").code == 65);
  put(here, "torn", joined(20, 25) + joined(0, lines.size()));
  const auto later = run_power(here, "replay torn");
  CHECK(later.code == 0);
  CHECK(later.out.find("13 lines are passed over: ") != later.out.npos);
  CHECK(later.out.find("all 41 ticks of row0 in 2 lives are the same") != later.out.npos);
  CHECK(run_power(here, "replay power.inputs --t1 .7").code == 64);
}

TEST_CASE("power: a trace is decided as the simulator's row was, and its journal again the same") {
  scratch here;
  const std::string budget = " --budget-w 216000 --policy ladder";
  REQUIRE(
      run_power(here, "sim --servers 56 --weeks 1 --out t.csv --journal a.jsonl --json" + budget)
          .code == 0);
  const auto told = run_power(here, "replay t.csv --journal b.jsonl" + budget);
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  CHECK(told.out.find("above") != told.out.npos);
  const auto count = [&](const std::string& name) {
    return nlohmann::json::parse(run_power(here, "replay " + name + " --json").out).at("decisions");
  };
  CHECK(count("a.jsonl") == count("b.jsonl"));
  CHECK(count("a.jsonl") > 100);
}

TEST_CASE("power: a trace is decided by readings as far apart as they are to be") {
  scratch here;
  put(here, "t.csv", "t_s,watts\n0,100\n1,100\n2,100\n3,205\n4,100\n5,100\n6,100\n");
  const std::string trace = "replay t.csv --budget-w 216 --json";
  const auto told = [&](const std::string& more) {
    const auto done = run_power(here, trace + more);
    REQUIRE_MESSAGE(done.code == 0, done.talk);
    return nlohmann::json::parse(done.out);
  };
  CHECK(told("")["readings"] == 7);
  CHECK(told(" --telemetry-s 1 --lp-share .3")["readings"] == 7);
  const auto slow = told(" --telemetry-s 2 --journal slow.jsonl");
  CHECK(slow["samples"] == 7);
  CHECK(slow["readings"] == 4);
  CHECK(slow["decisions"] >= 1);  // the greatest sample of a reading stands for it: 205 W
  CHECK(run_power(here, "replay slow.jsonl").code == 0);
  CHECK(run_power(here, trace + " --lp-share 2").code == 64);
  CHECK(run_power(here, "replay slow.jsonl --telemetry-s 2").code == 64);
}

TEST_CASE("power: replay refuses what it cannot decide, with a hint") {
  scratch here;
  put(here, "t.csv", "t_s,watts\n0,170000\n2,171000\n4,172000\n");
  put(here, "slow.csv", "t_s,watts\n0,170000\n1e12,171000\n2e12,172000\n");
  put(here, "fast.csv", "t_s,watts\n0,170000\n1e-12,171000\n2e-12,172000\n");
  put(here, "cut.jsonl", "{\"power\":\"row\"");
  put(here, "other.jsonl", "{\"power\":\"job\"}\n");
  put(here, "row.jsonl",
      "{\"power\":\"row\",\"version\":1,\"policy\":\"none\",\"t1\":0.8,\"t2\":0.9,\"t3\":0.95,"
      "\"actuation_ns\":0,\"tick_ns\":1,\"release_groups\":1}\n");
  struct wrong {
    const char* words;
    int code;
    const char* said;
  };
  for (const auto& w : {wrong{"replay none.csv", 66, "none.csv"},
                        {"replay t.csv", 64, "--budget-w"},
                        {"replay t.csv --budget-w 216000 --t2 89 --journal x", 64, "shares"},
                        {"replay slow.csv --budget-w 216000", 65, "1 ns to a day"},
                        {"replay fast.csv --budget-w 216000", 65, "1 ns to a day"},
                        {"replay cut.jsonl", 65, "cut.jsonl: line 1: cut short"},
                        {"replay other.jsonl", 65, "other.jsonl: line 1: no terms"},
                        {"replay row.jsonl --t1 .7", 64, "--t1 has no meaning"},
                        {"replay row.jsonl --journal x", 64, "--journal has no meaning"}}) {
    CAPTURE(w.words);
    const auto done = run_power(here, w.words);
    CAPTURE(done.talk);
    CHECK(done.code == w.code);
    CHECK(done.out.empty());
    CHECK(done.talk.find(w.said) != done.talk.npos);
  }
  CHECK(!std::filesystem::exists(here / "x"));
  CHECK(run_power(here, "replay row.jsonl").code == 0);
}

// What `troupe power tree` says, held to golden texts, and the times that a person may say.
#include "apps/power/tree_report.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;

namespace {

std::unique_ptr<fbs::PowerChildT> child_row(const char* name, const char* priority) {
  auto c = std::make_unique<fbs::PowerChildT>();
  c->name = name;
  c->priority = priority;
  c->heard = true;
  c->source = fbs::PowerSource::modelled;
  c->pace_of_1024 = 1024;
  return c;
}

/// Two children.
fbs::PowerTreeT tree_of_two() {
  fbs::PowerTreeT t;
  t.name = "row0";
  t.mode = "shares";
  t.cap_mw = 70'000;
  t.drawn_mw = 61'300;
  t.source = fbs::PowerSource::modelled;
  t.counted_mw = 70'000;
  t.knows = true;
  t.epoch = 3;
  auto a = child_row("gpt-a", "high");
  a->granted_mw = a->in_force_mw = a->counted_mw = 49'000;
  a->drawn_mw = 41'000;
  a->lease_left_ms = 3'149;
  a->heard_ago_ms = 400;
  a->floor_mw = 20'000;
  a->static_share_mw = 40'000;
  a->ceiling_mw = 60'000;
  t.children.push_back(std::move(a));
  auto b = child_row("gpt-b", "low");
  b->granted_mw = b->in_force_mw = b->counted_mw = 21'000;
  b->drawn_mw = 20'300;
  b->pace_of_1024 = 532;
  b->lease_left_ms = 9'340;
  b->actuation_ms = 1250;
  b->heard_ago_ms = 700;
  b->static_share_mw = 20'000;
  t.children.push_back(std::move(b));
  return t;
}

/// The second is silent: what it draws is not known, so neither is what both draw.
fbs::PowerTreeT tree_with_a_silent_child() {
  auto t = tree_of_two();
  t.drawn_mw = -1;
  t.source = fbs::PowerSource::unknown;
  auto& b = *t.children[1];
  b.silent = true;
  b.lease_left_ms = 0;
  b.heard_ago_ms = 12'900;
  return t;
}

std::string docs_of_power() {
  std::ifstream file(TROUPE_SOURCE_DIR "/docs/power.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// 0: it is no time.
uint64_t time_in(const std::string& text) {
  const auto ms = milliseconds_in(text);
  return ms ? *ms : 0;
}

}  // namespace

TEST_CASE("power tree: the budget, and a line for each child, in columns") {
  CHECK(tree_text(tree_of_two()) ==
        "row0  shares  ~61.3 of 70 W  88 %\n"
        "├ gpt-a  high  ~41.0 of 49 W  pace 100 %  lease 3.1 s\n"
        "└ gpt-b  low   ~20.3 of 21 W  pace 52 %   lease 9.3 s\n");
}

TEST_CASE("power tree: with a silent child it is not known what all draw, but what counts is") {
  CHECK(tree_text(tree_with_a_silent_child()) ==
        "row0  shares  not known, of 70 W  counts 70 W\n"
        "├ gpt-a  high  ~41.0 of 49 W  pace 100 %  lease 3.1 s\n"
        "└ gpt-b  low   ~20.3 of 21 W  pace 52 %   silent for 12 s\n");
}

TEST_CASE("power tree: whose steps were shifted against those of others, by how much and when") {
  auto t = tree_of_two();
  auto& b = *t.children[1];
  b.step_us = 1'020'000;
  b.start_offset_us = 510'000;
  b.offset_age_ms = 41'000;
  CHECK(tree_text(t).ends_with(
      "pace 52 %   lease 9.3 s, its steps of 1.02 s shifted by 510 ms 41 s ago\n"));
  const auto said = nlohmann::json::parse(tree_json(t))["children"][1];
  CHECK(said["step_ms"] == 1020);
  CHECK(said["start_offset_ms"] == 510);
  CHECK(said["offset_age_ms"] == 41'000);
  b.step_us = 0;  // they are not even now
  CHECK(offset_text(b) == "its steps shifted by 510 ms 41 s ago");
}

TEST_CASE("power tree: a dry run says that it is one, wherever a person looks") {
  auto t = tree_of_two();
  const std::string words = "a dry run: caps are decided, and not kept";
  CHECK(tree_text(t).find("dry run") == std::string::npos);
  CHECK(nlohmann::json::parse(tree_json(t))["dry_run"] == false);
  CHECK(tree_prometheus(t).find("\ntroupe_power_dry_run{budget=\"row0\"} 0\n") !=
        std::string::npos);
  t.dry_run = t.brake_pulled = true;
  const auto text = tree_text(t);
  CHECK(text.substr(0, text.find('\n')).find(words) != std::string::npos);
  CHECK(text.find("it would have pulled the brake") != std::string::npos);
  CHECK(text.find("it has pulled") == std::string::npos);
  CHECK(nlohmann::json::parse(tree_json(t))["dry_run"] == true);
  CHECK(tree_prometheus(t).find("\ntroupe_power_dry_run{budget=\"row0\"} 1\n") !=
        std::string::npos);
}

TEST_CASE("power tree: Prometheus hears how long steps take and by how much they were shifted") {
  auto t = tree_of_two();
  const auto count = [&t](const char* family) {
    const auto text = tree_prometheus(t);
    size_t out = 0;
    const auto sample = std::string("\ntroupe_power_child_") + family + "{";
    for (auto at = text.find(sample); at != text.npos; at = text.find(sample, at + 1)) ++out;
    return out;
  };
  CHECK(count("step_seconds") == 0);  // nobody's are even
  CHECK(count("start_offset_seconds") == 0);
  t.children[1]->step_us = 1'020'000;
  t.children[1]->start_offset_us = 510'000;
  CHECK(count("step_seconds") == 1);
  CHECK(count("start_offset_seconds") == 1);
  const auto text = tree_prometheus(t);
  const std::string b = "{budget=\"row0\",child=\"gpt-b\",priority=\"low\"} ";
  CHECK(text.find("step_seconds" + b + "1.02\n") != std::string::npos);
  CHECK(text.find("start_offset_seconds" + b + "0.51\n") != std::string::npos);
}

TEST_CASE("power tree: what docs show is what is printed") {
  const auto docs = docs_of_power();
  for (const auto& t : {tree_of_two(), tree_with_a_silent_child()}) {
    CAPTURE(tree_text(t));
    CHECK(docs.find("$ troupe power tree\n" + tree_text(t)) != std::string::npos);
  }
}

TEST_CASE("power tree: what is not known, and what is wrong, is said") {
  auto t = tree_of_two();
  t.drawn_mw = -1;
  t.short_of_floors = true;
  t.knows = false;
  auto& a = *t.children[0];
  a.drawn_mw = -1;
  a.pace_of_1024 = 0;
  a.lease_left_ms = 0;
  a.unruly = a.shed = true;
  t.children[1] = std::make_unique<fbs::PowerChildT>();
  auto& b = *t.children[1];
  b.name = "b";
  b.priority = "low";
  b.counted_mw = b.static_share_mw = 20'000;
  CHECK(tree_text(t) ==
        "row0  shares  not known, of 70 W  counts 70 W  less than the floors of its children"
        "  raises nobody before it knows what its children have\n"
        "├ gpt-a  high  not known, of 49 W  no steps  no lease, draws more than its cap, told to "
        "save and pause\n"
        "└ b      low   not heard yet (counts 20 W, its static share)\n");
  b.counted_mw = 60'000;
  CHECK(tree_text(t).find("not heard yet (counts 60 W)\n") != std::string::npos);
  b.ceiling_mw = 60'000;
  CHECK(tree_text(t).find("not heard yet (counts 60 W, its ceiling)\n") != std::string::npos);
}

TEST_CASE("power tree: a silence of hours is told as one, and names are made harmless") {
  auto t = tree_with_a_silent_child();
  t.children[1]->heard_ago_ms = 7'200'000;
  t.children[1]->name = "b\x1b[2J";
  const auto text = tree_text(t);
  CHECK(text.find("silent for 2:00:00\n") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("power tree: what a person or a file makes of a budget is said") {
  auto t = tree_of_two();
  const auto first_line = [&] { return tree_text(t).substr(0, tree_text(t).find('\n')); };
  t.follows = "demand.csv";
  CHECK(first_line() == "row0  shares  ~61.3 of 70 W  88 %  by demand.csv");
  t.follows.clear();
  t.set = true;
  CHECK(first_line() == "row0  shares  ~61.3 of 70 W  88 %  set");
  t.set_by = "alice";
  t.set_left_ms = 7'140'000;
  CHECK(first_line() == "row0  shares  ~61.3 of 70 W  88 %  set by alice, for 1:59:00 more");
}

TEST_CASE("power tree: a budget without children is a line") {
  fbs::PowerTreeT t;
  t.name = "r";
  t.mode = "shares";
  t.cap_mw = 55'500;
  t.drawn_mw = 0;
  t.source = fbs::PowerSource::measured;
  t.knows = true;
  CHECK(tree_text(t) == "r  shares  0.0 of 55.5 W  0 %\n");
}

TEST_CASE("power tree: the brake is said, and which children are held by it") {
  auto t = tree_of_two();
  t.brake = true;
  t.children[1]->brake = true;
  t.children[1]->pace_of_1024 = 0;
  CHECK(tree_text(t) ==
        "row0  shares  ~61.3 of 70 W  88 %  the brake is on\n"
        "├ gpt-a  high  ~41.0 of 49 W  pace 100 %  lease 3.1 s\n"
        "└ gpt-b  low   ~20.3 of 21 W  no steps    lease 9.3 s, held by the brake\n");
  t.brake_above = "site0";
  CHECK(tree_text(t).starts_with("row0  shares  ~61.3 of 70 W  88 %  the brake of site0 is on\n"));
  t.brake_here = true;
  CHECK(
      tree_text(t).starts_with("row0  shares  ~61.3 of 70 W  88 %  its brake is on, and the brake "
                               "of site0 is on\n"));
  t.brake_above.clear();
  t.brake = false;
  t.brake_pulled = true;
  CHECK(tree_text(t).starts_with("row0  shares  ~61.3 of 70 W  88 %  it has pulled the brake\n"));
}

TEST_CASE("power tree: a row in thresholds says them, and what each class may have") {
  auto t = tree_of_two();
  t.mode = "thresholds";
  t.t1 = 0.8;
  t.t2 = 0.89;
  t.safe_t2 = 0.92;
  t.low_share = t.high_share = 1;
  CHECK(tree_text(t).starts_with(
      "row0  thresholds  ~61.3 of 70 W  88 %  T1 80 T2 89  static shares\n"));
  t.thresholds_stand = true;
  CHECK(tree_text(t).starts_with("row0  thresholds  ~61.3 of 70 W  88 %  T1 80 T2 89\n"));
  t.low_share = 0.787;
  t.safe_t2 = 0.84;
  CHECK(
      tree_text(t).starts_with("row0  thresholds  ~61.3 of 70 W  88 %  T1 80 T2 89  low at 79 %  "
                               "T2 is unsafe: 84 is safe\n"));
  CHECK(nlohmann::json::parse(tree_json(t))["thresholds"]["stand"] == true);
}

TEST_CASE("power tree: how long classes were capped, brakes, and since when it is over T2") {
  auto t = tree_of_two();
  t.mode = "thresholds";
  t.drawn_mw = 63'700;
  t.t1 = 0.8;
  t.t2 = t.safe_t2 = 0.89;
  t.low_share = 0.52;
  t.high_share = 1;
  t.thresholds_stand = true;
  t.low_capped_ms = 41'200;
  t.over_t2_ms = 12'900;
  t.over_t2_since = "2026-11-30T14:03:12Z";
  CHECK(tree_text(t) ==
        "row0  thresholds  ~63.7 of 70 W  91 %  T1 80 T2 89  low at 52 %  low capped 41 s, 0 "
        "brakes\n"
        "├ gpt-a  high  ~41.0 of 49 W  pace 100 %  lease 3.1 s\n"
        "└ gpt-b  low   ~20.3 of 21 W  pace 52 %   lease 9.3 s, row0 over T2 (91 %) since "
        "2026-11-30T14:03:12Z\n");
  t.over_t2_since.clear();
  CHECK(tree_text(t).find(", row0 over T2 (91 %) for 12 s\n") != std::string::npos);
  const auto j = nlohmann::json::parse(tree_json(t))["thresholds"];
  CHECK(j["low_capped_ms"] == 41'200);
  CHECK(j["over_t2_ms"] == 12'900);
  const auto has = [&t](const char* sample) {
    return tree_prometheus(t).find(std::string("\ntroupe_power_") + sample) != std::string::npos;
  };
  CHECK(has("capped_seconds_total{budget=\"row0\",priority=\"low\"} 41.2\n"));
  CHECK(has("over_t2_seconds{budget=\"row0\"} 12.9\n"));
  t.over_t2_ms = -1;
  CHECK(tree_text(t).find("over T2") == std::string::npos);
  CHECK(nlohmann::json::parse(tree_json(t))["thresholds"]["over_t2_ms"].is_null());
  t.brakes = 3;
  t.braked_ms = 95'500;
  t.energy_j = 1234.5;
  t.high_capped_ms = 2000;
  CHECK(tree_text(t).find("  low capped 41 s, high capped 2 s, 3 brakes\n") != std::string::npos);
  CHECK(has("brakes_total{budget=\"row0\"} 3\n"));
  CHECK(has("braked_seconds_total{budget=\"row0\"} 95.5\n"));
  CHECK(has("drawn_joules_total{budget=\"row0\"} 1234.5\n"));
  t.t2 = 0;  // in shares
  CHECK(!has("capped_seconds_total"));
  t.low_capped_ms = t.high_capped_ms = 0;
  t.brakes = 1;
  CHECK(tree_text(t).starts_with("row0  thresholds  ~63.7 of 70 W  91 %  1 brake\n"));
}

TEST_CASE("power tree: the same as JSON") {
  auto t = tree_of_two();
  CHECK(tree_json(t) ==
        R"({"type":"power_tree","budget":"row0","mode":"shares","budget_w":70.0,"power_w":61.3,)"
        R"("power_source":"modelled","counted_w":70.0,"brake":false,"brake_above":"",)"
        R"("brake_pulled":false,)"
        R"("short_of_floors":false,)"
        R"("knows":true,"epoch":3,"dry_run":false,"set":false,"set_by":"","set_left_ms":0,)"
        R"("follows":"",)"
        R"("energy_j":0.0,"brakes":0,"braked_ms":0,)"
        R"("children":[{"name":"gpt-a","priority":"high","heard":true,"silent":false,)"
        R"("unruly":false,"shed":false,"brake":false,"brake_armed":false,"granted_w":49.0,)"
        R"("in_force_w":49.0,"counted_w":49.0,)"
        R"("power_w":41.0,"power_source":"modelled","wish_w":null,"pace_percent":100.0,)"
        R"("floor_w":20.0,"static_w":40.0,"ceiling_w":60.0,"lease_left_ms":3149,)"
        R"("heard_ago_ms":400,"awaits_w":0.0,"actuation_ms":null,"step_ms":null,)"
        R"("start_offset_ms":0.0,"offset_age_ms":null},)"
        R"({"name":"gpt-b","priority":"low","heard":true,"silent":false,)"
        R"("unruly":false,"shed":false,"brake":false,"brake_armed":false,"granted_w":21.0,)"
        R"("in_force_w":21.0,"counted_w":21.0,)"
        R"("power_w":20.3,"power_source":"modelled","wish_w":null,"pace_percent":51.953125,)"
        R"("floor_w":0.0,"static_w":20.0,"ceiling_w":0.0,"lease_left_ms":9340,)"
        R"("heard_ago_ms":700,"awaits_w":0.0,"actuation_ms":1250,"step_ms":null,)"
        R"("start_offset_ms":0.0,"offset_age_ms":null}]})"
        "\n");
  t.children[0]->heard = false;
  t.children[0]->drawn_mw = t.children[0]->granted_mw = -1;
  const auto j = nlohmann::json::parse(tree_json(t));
  CHECK(j["children"][0]["power_w"].is_null());
  CHECK(j["children"][0]["power_source"] == "unknown");
  CHECK(j["children"][0]["granted_w"].is_null());
  CHECK(j["children"][0]["heard_ago_ms"].is_null());
}

TEST_CASE("power tree: the same for Prometheus, each name in one place") {
  auto t = tree_of_two();
  t.children[1]->name = "b\"c";
  t.children[1]->silent = true;
  t.children[0]->wish_mw = 50'000;
  t.children[1]->wish_mw = -1;
  t.children[1]->ceiling_mw = 60'500;
  t.children[0]->lease_age_ms = 6851;
  t.children[1]->brake = true;
  const auto text = tree_prometheus(t);
  CHECK(text.starts_with(
      "# HELP troupe_power_budget_watts What may be drawn together.\n"
      "# TYPE troupe_power_budget_watts gauge\n"
      "troupe_power_budget_watts{budget=\"row0\"} 70\n"
      "# HELP troupe_power_counted_watts The most that all children may draw, by what is known.\n"
      "# TYPE troupe_power_counted_watts gauge\n"
      "troupe_power_counted_watts{budget=\"row0\"} 70\n"));
  const std::string a = "{budget=\"row0\",child=\"gpt-a\",priority=\"high\"} ",
                    b = "{budget=\"row0\",child=\"b\\\"c\",priority=\"low\"} ";
  for (const auto& samples : {
           "granted_watts" + a + "49\ntroupe_power_child_granted_watts" + b + "21\n",
           "drawn_watts" + a + "41\ntroupe_power_child_drawn_watts" + b + "20.3\n",
           "wish_watts" + a + "50\ntroupe_power_child_wish_watts" + b + "60.5\n",
           "pace_ratio" + a + "1\ntroupe_power_child_pace_ratio" + b + "0.51953125\n",
           "lease_seconds" + a + "3.149\ntroupe_power_child_lease_seconds" + b + "9.34\n",
           "lease_age_seconds" + a + "6.851\n",
           "brake" + a + "0\ntroupe_power_child_brake" + b + "1\n",
           "silent" + a + "0\ntroupe_power_child_silent" + b + "1\n",
       }) {
    CAPTURE(samples);
    CHECK(text.find(" gauge\ntroupe_power_child_" + samples) != std::string::npos);
  }
  t.children[0]->heard = false;
  t.children[0]->granted_mw = t.children[0]->drawn_mw = -1;
  t.drawn_mw = -1;
  const auto unheard = tree_prometheus(t);
  for (const auto* none : {"granted_watts", "drawn_watts", "wish_watts", "pace_ratio"})
    CHECK(unheard.find(none + a) == std::string::npos);
  CHECK(unheard.find("troupe_power_drawn_watts{") == std::string::npos);
  CHECK(unheard.find("counted_watts" + a + "49\n") != std::string::npos);
}

TEST_CASE("power tree: Prometheus hears whose brake is on, thresholds and the budget's own lease") {
  auto t = tree_of_two();
  const auto has = [&t](const char* sample) {
    return tree_prometheus(t).find(std::string("\ntroupe_power_") + sample) != std::string::npos;
  };
  CHECK(has("brake{budget=\"row0\"} 0\n"));
  CHECK(has("brake_pulled{budget=\"row0\"} 0\n"));
  for (const auto* of_others : {"brake_above", "own_lease", "threshold", "class_ratio"}) {
    CAPTURE(of_others);
    CHECK(!has(of_others));  // it is a root, and in shares
  }
  t.parent = "site0";
  t.lease_left_ms = 6500;
  t.brake = t.brake_here = t.brake_pulled = true;
  CHECK(has("brake{budget=\"row0\"} 1\n"));
  CHECK(has("brake_pulled{budget=\"row0\"} 1\n"));
  CHECK(has("brake_above{budget=\"row0\"} 0\n"));
  CHECK(has("own_lease_seconds{budget=\"row0\",parent=\"site0\"} 6.5\n"));
  t.brake_above = "site0";
  t.brake_here = false;
  CHECK(has("brake{budget=\"row0\"} 0\n"));
  CHECK(has("brake_above{budget=\"row0\"} 1\n"));
  t.t1 = 0.5;
  t.t2 = 0.75;
  t.safe_t2 = 0.625;
  t.thresholds_stand = true;
  t.low_share = 0.25;
  t.high_share = 1;
  CHECK(has("threshold_ratio{budget=\"row0\",threshold=\"t1\"} 0.5\n"));
  CHECK(has("threshold_ratio{budget=\"row0\",threshold=\"t2\"} 0.75\n"));
  CHECK(has("threshold_ratio{budget=\"row0\",threshold=\"safe_t2\"} 0.625\n"));
  CHECK(has("thresholds_stand{budget=\"row0\"} 1\n"));
  CHECK(has("class_ratio{budget=\"row0\",priority=\"low\"} 0.25\n"));
  CHECK(has("class_ratio{budget=\"row0\",priority=\"high\"} 1\n"));
}

TEST_CASE("power budget: times that a person may say") {
  CHECK(time_in("90s") == 90'000);
  CHECK(time_in("1.5m") == 90'000);
  CHECK(time_in("2h") == 7'200'000);
  CHECK(time_in("366d") == uint64_t{366} * 24 * 3600 * 1000);
  for (const auto* text : {"", "2", "h", "2 h", "2hh", "-1h", "0s", "367d", "nans", "infh", "1w"}) {
    CAPTURE(text);
    const auto got = milliseconds_in(text);
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::usage);
  }
}

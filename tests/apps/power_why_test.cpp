// What `troupe power why` says, by tables: of children of a budget, and of a job by itself.
#include "apps/power/power_why.hpp"

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;

namespace {

using sentences = std::vector<std::string>;

/// Heard, with a lease: floors of 10 W, static shares of 20 W, ceilings of 60 W.
void add_working(fbs::PowerTreeT& t, const char* name, const char* priority, int64_t has_mw) {
  auto& c = *t.children.emplace_back(std::make_unique<fbs::PowerChildT>());
  c.name = name;
  c.priority = priority;
  c.heard = true;
  c.granted_mw = c.in_force_mw = c.counted_mw = has_mw;
  c.floor_mw = 10'000;
  c.static_share_mw = 20'000;
  c.ceiling_mw = 60'000;
  c.pace_of_1024 = 1024;
}

/// 70 W for a child of high priority, which has what it asks for, and one of low.
fbs::PowerTreeT row_of_two() {
  fbs::PowerTreeT t;
  t.name = "row0";
  t.cap_mw = t.counted_mw = 70'000;
  t.knows = true;
  add_working(t, "gpt-a", "high", 49'000);
  t.children[0]->wish_mw = 49'000;
  add_working(t, "gpt-b", "low", 21'000);
  t.children[1]->wish_mw = 45'000;
  t.children[1]->pace_of_1024 = 532;
  return t;
}

power_why why_of_second(const fbs::PowerTreeT& t) {
  return why_by_budget(t, *t.children[1]);
}

/// What is changed in row_of_two(), and the reasons that the second child has then.
struct hindrance {
  std::function<void(fbs::PowerTreeT&)> change;
  sentences reasons;
};
const std::string goes_first = "gpt-a is of high priority, which goes first, and has 49 W";

void check_reasons(const std::vector<hindrance>& all) {
  for (const auto& h : all) {
    auto t = row_of_two();
    h.change(t);
    CAPTURE(why_text({why_of_second(t)}));
    CHECK(why_of_second(t).reasons == h.reasons);
  }
}

}  // namespace

TEST_CASE("power why: what it has, and who has what before it") {
  const auto t = row_of_two();
  CHECK(why_text({why_of_second(t)}) ==
        "gpt-b has 21 W of the 70 W of row0, asks for 45 W and works at 52 % of full speed\n"
        "  gpt-a is of high priority, which goes first, and has 49 W\n");
  std::ifstream file(TROUPE_SOURCE_DIR "/docs/power.md");
  const std::string docs(std::istreambuf_iterator<char>(file), {});
  CHECK(docs.find("$ troupe power why gpt-b\n" + why_text({why_of_second(t)})) !=
        std::string::npos);
  CHECK(why_json({why_of_second(t)}) ==
        R"({"type":"power_why","jobs":[{"job":"gpt-b","answer":"gpt-b has 21 W of the 70 W of )"
        R"(row0, asks for 45 W and works at 52 % of full speed","reasons":["gpt-a is of high )"
        R"(priority, which goes first, and has 49 W"]}]})"
        "\n");
}

TEST_CASE("PWY-1: power why: who has all that it asks for is held up by nobody") {
  auto t = row_of_two();
  t.set = true;
  CHECK(why_text({why_by_budget(t, *t.children[0])}) ==
        "gpt-a has 49 W of the 70 W of row0, asks for 49 W and works at full speed\n"
        "  it is granted all that it asks for: row0 does not hold it up\n");
  auto& a = *t.children[0];
  a.wish_mw = -1;
  a.granted_mw = a.in_force_mw = 60'000;
  CHECK(why_by_budget(t, a).reasons == sentences{"its ceiling_w in row0 is 60 W"});
  a.in_force_mw = 50'000;
  a.wish_mw = 60'000;
  CHECK(why_by_budget(t, a).reasons ==
        sentences{"of that 50 W are in force so far",
                  "it is granted all that it asks for: row0 does not hold it up"});
}

TEST_CASE("power why: that a step was held back to shift a job against others is said") {
  auto t = row_of_two();
  auto& a = *t.children[0];
  a.step_us = a.start_offset_us = 250'000;
  a.start_offset_us /= 2;
  a.offset_age_ms = 3000;
  CHECK(why_by_budget(t, a).reasons ==
        sentences{"it is granted all that it asks for: row0 does not hold it up",
                  "row0 had its steps of 250 ms shifted by 125 ms 3 s ago, so that they fall "
                  "between those of others"});
}

TEST_CASE("power why: each way in which another child may have the watts is named") {
  check_reasons({
      hindrance{[](auto& t) { t.children[0]->priority = "low"; },
                {"gpt-a is of low priority as well, and has 49 W"}},
      hindrance{[](auto& t) { t.children[1]->priority = "high"; },
                {"gpt-a is of high priority as well, and has 49 W"}},
      hindrance{[](auto& t) {
                  t.children[0]->priority = "low";
                  t.children[1]->priority = "high";
                },
                {"gpt-a is of low priority and has 49 W, with a floor of 10 W"}},
      hindrance{[](auto& t) {
                  t.children[0]->silent = true;
                  t.children[0]->heard_ago_ms = 7'200'000;
                },
                {"gpt-a has been silent for 2:00:00: 49 W are kept for it"}},
      hindrance{[](auto& t) {
                  t.children[0]->heard = false;
                  t.children[0]->silent = true;
                  t.children[0]->counted_mw = 20'000;
                },
                {"gpt-a has not been heard: 20 W are kept for it"}},
      hindrance{[](auto& t) {
                  t.children[0]->unruly = true;
                  t.children[0]->counted_mw = 55'000;
                  t.counted_mw = 76'000;
                },
                {"76 W may be drawn, more than row0 has: nobody is raised until that is given "
                 "back",
                 "gpt-a draws more than its cap of 49 W, and counts at 55 W"}},
  });
}

TEST_CASE("power why: what holds whatever others have is named, and who or what set the budget") {
  check_reasons({
      hindrance{
          [](auto& t) { t.knows = false; },
          {"row0 has begun anew, and raises nobody before it knows what all have", goes_first}},
      hindrance{[](auto& t) {
                  t.knows = false;
                  t.children[0]->heard = false;
                  t.children[0]->silent = true;
                },
                {"row0 has begun anew, and raises nobody before it knows what all have: not "
                 "heard yet: gpt-a",
                 "gpt-a has not been heard: 49 W are kept for it"}},
      hindrance{[](auto& t) { t.children[1]->awaits_mw = 30'000; },
                {"it has 30 W as soon as row0 has written that to its record: the disk of its "
                 "folder is slow, or full",
                 goes_first}},
      hindrance{[](auto& t) {
                  t.set = true;
                  t.set_by = "alice";
                  t.set_left_ms = 59'000;
                },
                {goes_first, "row0 has 70 W, set by alice, for 59 s more"}},
      hindrance{[](auto& t) { t.follows = "demand.csv"; },
                {goes_first, "row0 has 70 W, by demand.csv"}},
      hindrance{[](auto& t) {
                  t.children[1]->shed = true;
                  t.children[1]->wish_mw = 0;
                },
                {"70 W is less than the floors of all children together: it is told to save "
                 "and pause",
                 goes_first}},
      hindrance{[](auto& t) { t.children[1]->unruly = true; },
                {"it draws more than its cap, and counts at 21 W", goes_first}},
      hindrance{[](auto& t) { t.children[0]->counted_mw = 0; }, {"row0 has no more"}},
  });
}

TEST_CASE(
    "PWY-2: power why: of many the wrong ones first, then who has most, and the rest in sum") {
  auto t = row_of_two();
  for (const auto* name : {"c", "d", "e", "f"}) add_working(t, name, "low", 1000);
  t.children[3]->counted_mw = 3000;
  t.children[4]->silent = true;
  t.children[4]->heard_ago_ms = 12'900;
  CHECK(why_of_second(t).reasons == sentences{"e has been silent for 12 s: 1 W are kept for it",
                                              "gpt-a is of high priority, which goes first, and "
                                              "has 49 W",
                                              "d is of low priority as well, and has 3 W",
                                              "c is of low priority as well, and has 1 W",
                                              "and 1 child with 1 W together"});
}

TEST_CASE("power why: who is not heard, or has nothing yet") {
  auto t = row_of_two();
  auto& b = *t.children[1];
  b.granted_mw = -1;
  CHECK(why_of_second(t).answer == "gpt-b waits for its first lease of row0");
  b.silent = true;
  b.heard_ago_ms = 12'900;
  CHECK(why_text({why_of_second(t)}) ==
        "gpt-b has been silent for 12 s; row0 keeps 21 W for it\n"
        "  its process, or the link to it, does not answer; once its lease is over it has 20 W by "
        "itself, its static_w\n");
  b.heard = false;
  CHECK(why_text({why_of_second(t)}) ==
        "gpt-b has not been heard by row0, which keeps 21 W for it\n"
        "  a job joins row0 under this name, by power.parent\n");
  b.name = "b\x1b[2J";
  CHECK(why_text({why_of_second(t)}).find('\x1b') == std::string::npos);
}

TEST_CASE(
    "PWY-1: power why: who has all that it asks for and is held by the brake is told of that") {
  auto t = row_of_two();
  t.brake = t.children[0]->brake = true;
  t.children[0]->pace_of_1024 = 0;
  const auto why = why_by_budget(t, *t.children[0]);
  REQUIRE(!why.reasons.empty());
  CHECK(why.reasons[0].find("troupe power brake row0 off") != std::string::npos);
  t.brake_above = "site0";
  const auto above = why_by_budget(t, *t.children[0]);
  REQUIRE(!above.reasons.empty());
  CHECK(above.reasons[0].starts_with("the brake of site0 is on"));
  CHECK(above.reasons[0].find("troupe power brake site0 off") != std::string::npos);
  CHECK(why_text({above}).find("row0 off") == std::string::npos);
  t.brake_here = true;  // both are to be let go
  const auto both = why_by_budget(t, *t.children[0]);
  REQUIRE(both.reasons.size() >= 2);
  CHECK(both.reasons[0].starts_with("the brake of site0 is on"));
  CHECK(both.reasons[1].starts_with("the brake of row0 is on"));
  t.brake_above.clear();
  t.brake_here = false;
  t.brake = false;
  t.brake_pulled = true;
  const auto pulled = why_by_budget(t, *t.children[0]);
  REQUIRE(!pulled.reasons.empty());
  CHECK(pulled.reasons[0].starts_with("row0 has pulled the brake, since more was drawn"));
}

TEST_CASE("power why: in thresholds, what a class may have and whether they stand") {
  auto t = row_of_two();
  t.mode = "thresholds";
  t.t1 = 0.8;
  t.t2 = 0.89;
  t.low_share = 0.787;
  t.high_share = 1;
  t.thresholds_stand = true;
  t.counted_mw = 2 * t.cap_mw;
  auto& b = *t.children[1];
  b.wish_mw = b.granted_mw + 10'000;
  REQUIRE(!why_of_second(t).reasons.empty());
  CHECK(why_of_second(t).reasons[0] ==
        "low priority has 79 % of its ceiling_w, since row0 was above a threshold (T1 80 %, T2 89 "
        "%)");
  for (const auto& reason : why_of_second(t).reasons)
    CHECK(reason.find("nobody is raised") == std::string::npos);
  t.thresholds_stand = false;
  for (const auto& child : t.children) child->brake_armed = true;
  CHECK(why_of_second(t).reasons[0] ==
        "row0 has no thresholds now, and each child its static_w: they stand while all its "
        "children are read and can be held at once, and its own lease is valid");
  t.children[0]->brake_armed = false;
  CHECK(why_of_second(t).reasons[0].ends_with("is valid: gpt-a cannot be held"));
  t.children[0]->pace_of_1024 = 0;  // there is nothing to hold
  CHECK(why_of_second(t).reasons[0].ends_with("is valid"));
  t.children[0]->silent = true;
  CHECK(why_of_second(t).reasons[0].ends_with("is valid: gpt-a is silent"));
  t.children[0]->heard = false;
  CHECK(why_of_second(t).reasons[0].ends_with("is valid: gpt-a was never heard"));
}

TEST_CASE("power why: a job by itself") {
  fbs::PacerStatusT p;
  CHECK(why_text({why_by_job("gpt-a", p)}) == "gpt-a has no power budget\n");
  p.budget_w = 18.5;
  p.pace_percent = 54;
  p.full_w = 23.4;
  p.source = fbs::PowerSource::modelled;
  CHECK(why_text({why_by_job("gpt-a", p)}) ==
        "gpt-a may draw 18.5 W and works at 54 % of full speed\n"
        "  at full speed it would draw ~23.4 W\n");
  p.parent = "row0";
  p.cap_w = 40;
  p.lease_left_ms = 3000;
  CHECK(why_by_job("gpt-a", p).reasons ==
        sentences{"its own power.budget_w, 18.5 W, is less than the 40 W that row0 grants",
                  "at full speed it would draw ~23.4 W"});
  p.cap_w = p.budget_w = 30;
  p.lease_left_ms = 0;
  p.pace_percent = 100;
  p.parent_problem = "it does not answer";
  CHECK(why_text({why_by_job("gpt-a", p)}) ==
        "gpt-a may draw 30 W and works at full speed\n"
        "  its lease of row0 has lapsed: it has 30 W until that is heard again\n"
        "  row0 is not heard: it does not answer\n");
  p = {};
  p.parent = "row0";
  p.reason = "no lease yet";
  CHECK(why_text({why_by_job("gpt-a", p)}) ==
        "gpt-a has no watts yet and makes no steps\n"
        "  no step begins: no lease yet\n");
}

TEST_CASE("power why: a job that a ramp alone slows, and one whose run is dry, say so") {
  fbs::PacerStatusT p;
  p.pace_percent = 12;
  p.decided = "from 12 % of full speed by 30 W a second, to 100 % in 26 s at the earliest";
  CHECK(why_text({why_by_job("gpt-a", p)}) ==
        "gpt-a has no power budget and works at 12 % of full speed\n"
        "  its pace was changed from 12 % of full speed by 30 W a second, to 100 % in 26 s at the "
        "earliest\n");
  p.decided.clear();
  p.pace_percent = 0;
  p.reason = "nothing says what the machine of node0 draws";
  CHECK(why_by_job("gpt-a", p).answer == "gpt-a has no power budget and makes no steps");
  p = {};
  p.budget_w = 44;
  p.pace_percent = 100;
  p.decided = "in a dry run alone: to 48.8 % of full speed";
  CHECK(why_text({why_by_job("gpt-a", p)}) ==
        "gpt-a may draw 44 W and works at full speed\n"
        "  its pace was changed in a dry run alone: to 48.8 % of full speed\n");
}

TEST_CASE("power why: of two jobs of a name it is said which one is refused") {
  const auto tree = row_of_two();
  auto of_budget = why_by_budget(tree, *tree.children[0]);
  const auto alone = of_budget.reasons.size();
  fbs::PacerStatusT p;
  p.parent = "row0";
  p.cap_w = p.budget_w = 40;
  p.reason = "another process works as this job under the power budget row0";
  p.parent_problem = "another process reports to row0 as gpt-a, of incarnation 9; this one is 4";
  const auto own = why_by_job("gpt-a", p);
  CHECK(own.answer == "gpt-a is refused by row0 and makes no steps");
  CHECK(own.reasons == sentences{"no step begins: " + p.reason, p.parent_problem});
  add_own_words(of_budget, own);
  REQUIRE(of_budget.reasons.size() == alone + 2);
  CHECK(of_budget.reasons.back() ==
        "another job of this name, of which nothing above is, says: " + p.parent_problem);
  p.reason.clear();
  p.parent_problem.clear();
  p.lease_left_ms = 3000;
  p.full_w = 50;
  add_own_words(of_budget, why_by_job("gpt-a", p));
  CHECK(of_budget.reasons.back() == "the job itself says: at full speed it would draw 50.0 W");
}

TEST_CASE("power why: where neither a budget nor a job is here, that is said") {
  const scratch folder;
  const auto troupe = [&](const std::string& words) {
    return run_in(folder.path, "XDG_RUNTIME_DIR=\"$PWD\" '" TROUPE_PROGRAM "' power why " + words)
        .code;
  };
  CHECK(troupe("") == 66);
  CHECK(troupe("gpt-a") == 66);
  CHECK(troupe("--budget row0") == 66);
  CHECK(troupe("--connect 127.0.0.1:9") == 69);
}

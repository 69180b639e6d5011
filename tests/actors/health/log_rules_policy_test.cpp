// Lines of logs against rules: cut, counted, told; whatever they are.
#include "actors/health/log_rules_policy.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "actors/health/log_findings_policy.hpp"
#include "actors/health/log_watch.hpp"
#include "io/base/printable.hpp"
#include "messages/msg.hpp"
#include "tests/actors/health/seconds.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

using troupe::health::test::s;

const std::vector<config::log_rule_spec> fans{
    {"fan", "fan [0-9]+ failed", finding_name::device_hot},
    {"any_fan", "fan"},
    {"off", ""},
    {"boom", "boom"}};

struct told {
  std::string rule;
  uint64_t count = 0;
  std::string line;
  bool operator==(const told&) const = default;
};
using all_told = std::vector<told>;

all_told counts_of(log_rules_policy& p) {
  all_told out;
  for (const auto& c : p.counts()) out.push_back({c->rule, c->count, c->line});
  return out;
}

/// What is told of a log that writes these pieces, one a look.
all_told told_of(const std::vector<std::string>& pieces) {
  log_rules_policy p(fans);
  for (const auto& bytes : pieces) p.take(0, {bytes}, s);
  return counts_of(p);
}

}  // namespace

TEST_CASE("LGR-1: a line counts for the first rule that it fits, once") {
  CHECK(told_of({"fan 3 failed\nfan 4 failed\nfan stopped\nall is well\n"}) ==
        all_told{{"fan", 2, "fan 4 failed"}, {"any_fan", 1, "fan stopped"}});
  CHECK(told_of({"all is well\n"}).empty());
  CHECK(told_of({"boom boom boom\n"}) == all_told{{"boom", 1, "boom boom boom"}});
  log_rules_policy none;
  CHECK(none.is_idle());
  none.take(0, {"fan 3 failed\n"}, s);
  CHECK(none.counts().empty());
  CHECK_FALSE(log_rules_policy(fans).is_idle());
}

TEST_CASE("log rules: when the last line was read is told, and each log has lines of its own") {
  log_rules_policy p(fans);
  p.take(0, {"bo"}, 1 * s);
  p.take(1, {"om\nboom\n"}, 2 * s);
  CHECK(counts_of(p) == all_told{{"boom", 1, "boom"}});
  CHECK(p.counts()[0]->last_ns == 2 * s);
  p.take(0, {"om\n"}, 3 * s);
  CHECK(counts_of(p) == all_told{{"boom", 2, "boom"}});
  CHECK(p.counts()[0]->last_ns == 3 * s);
}

TEST_CASE("log rules: lines in pieces, without an end, behind a gap, in other ends, by table") {
  CHECK(told_of({"fan 3 fa", "iled\n"}) == all_told{{"fan", 1, "fan 3 failed"}});
  CHECK(told_of({"boom"}).empty());                                          // it may go on
  CHECK(told_of({"boom", ""}) == all_told{{"boom", 1, "boom"}});             // it stands still
  CHECK(told_of({"boom", "", "", ""}) == all_told{{"boom", 1, "boom"}});     // once
  CHECK(told_of({"boom", "", "!\n"}) == all_told{{"boom", 1, "boom"}});      // once
  CHECK(told_of({"bo", "", "om\n"}) == all_told{{"boom", 1, "boom"}});       // it did go on
  CHECK(told_of({"x\rboom\rboom 2\r"}) == all_told{{"boom", 2, "boom 2"}});  // a progress bar
  CHECK(told_of({std::string("\0\0\0boom\0x\n", 10)}) == all_told{{"boom", 1, "boom"}});
  log_rules_policy p(fans);
  p.take(0, {"bo"}, s);
  p.take(0, {"om\n", true}, s);
  CHECK(p.counts().empty());
}

TEST_CASE(
    "LGR-2: a line that is hostile is bounded, and what is told of it is one printable line") {
  const auto most = line_cutter::most_line_bytes;
  struct row {
    std::string line;
    uint64_t count;
  };
  for (const auto& [line, count] : {
           row{std::string(most, 'x') + "boom", 0},                   // beyond what is looked at
           row{std::string(most - 4, 'x') + "boom", 1},               //
           row{"boom" + std::string(10 * most, 'x'), 1},              //
           row{"boom" + std::string(10 * most, '\xff'), 1},           //
           row{"\x1b[2J\x1b]0;owned\x07 boom \xc3 \xf0\x9f\x98", 1},  //
           row{"\xe2\x80\xae boom \xef\xbb\xbf", 1},                  // turned, marked
           row{"boom" + std::string(200, '\x01'), 1},                 //
           row{std::string("boom\xc3") + std::string(3000, '\xa9'), 1},
       }) {
    log_rules_policy p(fans);
    for (const auto& ended : {line + "\n", line}) {  // and one that never ends
      p = log_rules_policy(fans);
      for (size_t at = 0; at < ended.size(); at += 1000) p.take(0, {ended.substr(at, 1000)}, s);
      p.take(0, {}, s);
      const auto got = counts_of(p);
      REQUIRE(got.size() == (count > 0 ? 1 : 0));
      if (count == 0) continue;
      CHECK(got[0].count == count);
      CHECK(got[0].line.size() <= log_rules_policy::most_told_bytes);
      CHECK(printable(got[0].line) == got[0].line);
      CHECK(got[0].line.find('\n') == std::string::npos);
    }
  }
  // Letters of two bytes: as many bytes, not as many columns.
  std::string letters = "boom ";
  for (int i = 0; i < 200; ++i) letters += "\xc3\xa9";
  const auto got = told_of({letters + "\n"});
  REQUIRE(got.size() == 1);
  CHECK(got[0].line.size() <= log_rules_policy::most_told_bytes);
}

TEST_CASE("LGR-2: what fits is in what is told, however far behind, and a secret is not") {
  const auto got = told_of({std::string(3000, '.') + " fan 7 failed password=hunter2 now\n"});
  REQUIRE(got.size() == 1);
  CHECK(got[0].line.find("fan 7 failed password=*** now") != std::string::npos);
  CHECK(got[0].line.starts_with("..."));
  CHECK(told_of({"password=" + std::string(90, 'q') + "boom boom\n"}) ==
        all_told{{"boom", 1, "password=*** boom"}});
}

TEST_CASE("LGR-3: what the program says of a line that fits fits no rule") {
  log_rules_policy p(fans);
  p.take(0, {"boom\n"}, s);
  findings_policy findings;
  log_findings_policy heard(fans);
  fbs::MachineVitalsT m;
  m.log_rules = p.counts();
  heard.hear("a", *make_msg<fbs::MachineVitals>({}, m), s, findings);
  const auto news = findings.judge(s);
  REQUIRE(news.raised.size() == 1);
  CHECK(news.raised[0].shown.text == "a line of its logs fits the rule boom: boom");
  p.take(0, {"warning: log_rule a: " + news.raised[0].shown.text + "\n"}, 2 * s);
  CHECK(counts_of(p) == all_told{{"boom", 1, "boom"}});
}

TEST_CASE("log rules: who is slow to judge lines reads less of them, and more again") {
  constexpr int64_t ms = 1'000'000;
  CHECK(next_room(64 << 10, 101 * ms) == 16 << 10);
  CHECK(next_room(4096, 5000 * ms) == 4096);
  CHECK(next_room(64 << 10, 50 * ms) == 64 << 10);
  CHECK(next_room(64 << 10, 19 * ms) == 128 << 10);
  CHECK(next_room(1 << 20, 0) == 1 << 20);
}

TEST_CASE("log rules: a heartbeat tells of three rules, and of all of them in turn") {
  fbs::MachineVitalsT m;
  const auto fill = [&](int rules) {
    m.logs = {"/dev/kmsg"};
    m.log_rules.clear();
    for (int i = 0; i < rules; ++i)
      m.log_rules.emplace_back(std::make_unique<fbs::LogRuleCountT>())->rule = std::to_string(i);
  };
  for (int rules = 0; rules < 10; ++rules) {
    std::map<std::string, int> seen;
    const int beats = (rules + 2) / 3;
    for (int beat = 7; beat < 7 + beats; ++beat) {
      fill(rules);
      shorten_for_beat(m, static_cast<uint64_t>(beat));
      CHECK(m.logs.empty());
      CHECK(m.log_rules.size() == std::min<size_t>(most_rules_a_beat, static_cast<size_t>(rules)));
      for (const auto& r : m.log_rules) ++seen[r->rule];
    }
    CHECK(seen.size() == static_cast<size_t>(rules));
  }
}

TEST_CASE(
    "LGF-1, LGF-2: a line makes a finding once, of the configuration's name, for ten minutes") {
  findings_policy findings;
  log_findings_policy heard(fans);
  const auto hear = [&](const char* rule, uint64_t count, int64_t last_ns, const char* line,
                        int64_t now) {
    fbs::MachineVitalsT m;
    auto& one = *m.log_rules.emplace_back(std::make_unique<fbs::LogRuleCountT>());
    one.rule = rule;
    one.count = count;
    one.last_ns = last_ns;
    one.line = line;
    heard.hear("a", *make_msg<fbs::MachineVitals>({}, m), now, findings);
    return findings.judge(now);
  };
  auto news = hear("fan", 2, 5, "fan 3 failed", 100 * s);
  REQUIRE(news.raised.size() == 1);
  const auto& f = news.raised[0];
  CHECK(f.who == subject{finding_name::device_hot, "a", -1, -1, "fan"});
  CHECK(f.shown == evidence{2, 0, "lines", "a line of its logs fits the rule fan: fan 3 failed"});
  CHECK(hear("nobody's", 2, 5, "x", 100 * s).raised.empty());
  CHECK(hear("fan", 0, 6, "x", 100 * s).raised.empty());
  for (int64_t t = 101; t < 700; ++t) {  // told again and again, with no news
    const auto still = hear("fan", 2, 5, "fan 3 failed", t * s);
    CHECK(still.raised.empty());
    CHECK(still.cleared.empty());
  }
  CHECK(findings.standing().size() == 1);
  CHECK(hear("fan", 2, 5, "fan 3 failed", 700 * s).cleared.size() == 1);
  CHECK(hear("fan", 2, 5, "fan 3 failed", 701 * s).raised.empty());
  // A new process of the node counts anew.
  CHECK(hear("fan", 2, 9, "\x1b[2J fan 4 failed", 702 * s).raised.size() == 1);
  CHECK(findings.standing()[0].shown.text.ends_with(": \\u001b[2J fan 4 failed"));
  // A further line while it stands: the ten minutes begin again, since stays.
  CHECK(hear("fan", 3, 10, "fan 5 failed", 1000 * s).raised.empty());
  CHECK(findings.standing()[0].shown.seen == 3);
  CHECK(findings.standing()[0].since_ns == 702 * s);
  CHECK(findings.judge(1599 * s).cleared.empty());
  CHECK(findings.judge(1600 * s).cleared.size() == 1);
}

TEST_CASE("LGF-1: what a node tells a new head of lines long ago is no news, what is recent is") {
  fbs::MachineVitalsT m;
  m.sampled_ns = 1000 * s;
  auto& one = *m.log_rules.emplace_back(std::make_unique<fbs::LogRuleCountT>());
  one.rule = "boom";
  one.count = 1;
  const auto raised = [&](log_findings_policy heard, int64_t ago) {
    findings_policy findings;
    one.last_ns = m.sampled_ns - ago;
    heard.hear("a", *make_msg<fbs::MachineVitals>({}, m), s, findings);
    one.last_ns = m.sampled_ns;  // another line
    const auto before = findings.judge(s).raised.size();
    heard.hear("a", *make_msg<fbs::MachineVitals>({}, m), s, findings);
    return std::pair(before, findings.judge(s).raised.size());
  };
  CHECK(raised(log_findings_policy(fans), 600 * s) == std::pair<size_t, size_t>(0, 1));
  CHECK(raised(log_findings_policy(fans), 599 * s) == std::pair<size_t, size_t>(1, 0));
}

TEST_CASE("LGW-1: a node's own log counts from where its process began, and names its logs") {
  scratch folder;
  const auto path = (folder / "node.log").string();
  std::ofstream(path) << "boom\n";
  log_watch watch(fans, {{path, 5}});
  fbs::MachineVitalsT m;
  watch.look(m, s);
  CHECK(m.log_rules.empty());
  REQUIRE(!m.logs.empty());
  CHECK(m.logs[0] == path);
  std::ofstream(path, std::ios::app) << "boom again\n";
  watch.look(m = {}, 2 * s);
  REQUIRE(m.log_rules.size() == 1);
  CHECK(m.log_rules[0]->count == 1);
  CHECK(m.log_rules[0]->line == "boom again");
  CHECK(m.log_rules[0]->last_ns == 2 * s);
  CHECK(m.logs_passed_over_bytes == 0);
  log_watch off({{"off", ""}}, {{path, 0}});
  off.look(m = {}, s);
  CHECK(m.logs.empty());
}

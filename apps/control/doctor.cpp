// Asks the medics, then pairs of them; makes tables of it.
#include "apps/control/doctor.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/health/checkup_policy.hpp"
#include "io/base/text.hpp"
#include "messages/any_msg.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;
using troupe::health::pair_policy;
using troupe::health::pair_seen;

constexpr uint32_t exchanges = 8, deep_exchanges = 64;

std::string name_of(fbs::CheckVerdict v) {
  return fbs::EnumNameCheckVerdict(v);
}

/// A node of which nothing can be examined.
fbs::CheckupReportT report_of(const std::string& node, fbs::CheckVerdict verdict,
                              const std::string& why) {
  fbs::CheckupReportT r;
  r.node = node;
  auto c = std::make_unique<fbs::CheckResultT>();
  c->check = "answer";
  c->verdict = verdict;
  c->text = why;
  r.checks.push_back(std::move(c));
  return r;
}

/// The nodes that are asked, in order.
result<std::vector<std::string>> nodes_of(session& s, const std::string& node) {
  TROUPE_TRY(view, s.view("", "", false));
  std::vector<std::string> names;
  for (const auto& n : view.nodes)
    if (n->node != "head") names.push_back(n->node);
  if (node.empty()) {
    std::sort(names.begin(), names.end());
    return names;
  }
  if (std::find(names.begin(), names.end(), node) != names.end()) return std::vector{node};
  const std::vector<std::string_view> all(names.begin(), names.end());
  const auto near = nearest(node, all);
  return node_not_found(node, near.empty() ? "`troupe status` lists the nodes"
                                           : fmt::format("did you mean {}?", near));
}

/// What a node's process or medic answered.
fbs::CheckupReportT report_of(const fbs::CallAnswerT& a) {
  if (a.failure) return report_of(a.node, fbs::CheckVerdict::bad, a.failure->message);
  const auto m = decode(a.message, message_traits<fbs::CheckupReport>::id);
  if (!m) return report_of(a.node, fbs::CheckVerdict::bad, m.error().message);
  return cast<fbs::CheckupReport>(*m).unpack();
}

bool was_busy(const diagnosis& d, const std::string& node) {
  return std::any_of(d.reports.begin(), d.reports.end(),
                     [&](const auto& r) { return r.node == node && r.busy; });
}

/// The first of them asks the second.
tested_pair test_pair(session& s, const diagnosis& d, const pair_policy::pair& who, int round) {
  tested_pair out{who, round, {}, 0, {}, {}};
  out.seen.busy = was_busy(d, who.first) || was_busy(d, who.second);
  const auto m = make_msg<fbs::TestPair>({}, [&](auto& t) {
    t.peer = who.second;
    t.exchanges = d.deep ? deep_exchanges : exchanges;
  });
  const auto answers = s.call(who.first, "medic/*", m, defaults::pair_patience.count());
  if (!answers || answers->answers.empty()) {
    out.why = answers ? who.first + " does not answer" : answers.error().message;
    return out;
  }
  const auto& a = *answers->answers.front();
  const auto report = a.failure ? result<any_msg>(error{errc::unavailable, a.failure->message})
                                : decode(a.message, message_traits<fbs::PairReport>::id);
  if (!report) {
    out.why = report.error().message;
    return out;
  }
  const auto r = cast<fbs::PairReport>(*report).unpack();
  out.seen.answered = true;
  out.seen.wrong = r.wrong;
  out.seen.bytes_per_s = r.bytes_per_s;
  out.latency_us = r.latency_us;
  return out;
}

void test_pairs(session& s, diagnosis& d, const std::vector<std::string>& nodes) {
  pair_policy policy(nodes);
  std::vector<pair_seen> seen;
  for (const auto& p : policy.first_round()) {
    d.pairs.push_back(test_pair(s, d, p, 1));
    seen.push_back(d.pairs.back().seen);
  }
  d.wanted_pair_rate = troupe::health::wanted_rate(seen);
  const auto judge = [&](tested_pair& p) {
    p.verdict = troupe::health::verdict_of(p.seen, d.wanted_pair_rate);
    return p.verdict != fbs::CheckVerdict::bad;
  };
  for (auto& p : d.pairs) policy.tell_first(p.who, judge(p));
  for (const auto& p : policy.second_round()) {
    d.pairs.push_back(test_pair(s, d, p, 2));
    policy.tell_second(p, judge(d.pairs.back()));
  }
  d.named = policy.conclude();
}

// -- words ----------------------------------------------------------------------------------------

std::string value_text(double value, const std::string& unit) {
  if (value < 0) return "-";
  if (value >= 9e18) return "unlimited";
  if (unit == "bytes/s") return fmt::format("{:.1f} MB/s", value * 1e-6);
  if (unit == "bytes") return fmt::format("{:.0f} MiB", value / (1 << 20));
  if (unit == "us") return fmt::format("{:.1f} us", value);
  return fmt::format("{:.0f} {}", value, unit);
}

std::string wanted_text(const fbs::CheckResultT& c) {
  if (c.wanted < 0) return "-";
  const auto value = value_text(c.wanted, c.unit);
  if (c.wanted_from == fbs::WantedFrom::exact) return value;
  return fmt::format("{} {} ({})", c.at_least ? ">=" : "<=", value,
                     fbs::EnumNameWantedFrom(c.wanted_from));
}

/// Node, check, seen, wanted, verdict, why.
using row = std::array<std::string, 6>;

row row_of(const fbs::CheckupReportT& r, const fbs::CheckResultT& c) {
  return {r.node.empty() ? "this machine" : r.node,
          c.part.empty() ? c.check : fmt::format("{} {}", c.check, c.part),
          value_text(c.seen, c.unit),
          wanted_text(c),
          name_of(c.verdict),
          c.text};
}

row row_of(const diagnosis& d, const tested_pair& p) {
  const auto who = fmt::format("{}, {}", p.who.first, p.who.second);
  const auto check = p.round == 1 ? "pair" : "pair, again";
  if (!p.seen.answered) return {who, check, "-", "-", name_of(p.verdict), p.why};
  const auto seen = fmt::format("{} {:.0f} us", value_text(p.seen.bytes_per_s, "bytes/s"),
                                p.latency_us);
  return {who,
          check,
          seen,
          d.wanted_pair_rate
              ? fmt::format(">= {} (equals)", value_text(*d.wanted_pair_rate, "bytes/s"))
              : "-",
          name_of(p.verdict),
          p.seen.wrong > 0 ? fmt::format("{} exchanges came back with other bytes", p.seen.wrong)
                           : ""};
}

std::string table_of(const std::vector<row>& rows) {
  std::array<size_t, 6> widths{};
  for (const auto& r : rows)
    for (size_t i = 0; i < r.size(); ++i) widths[i] = std::max(widths[i], r[i].size());
  std::string out;
  for (const auto& r : rows) {
    auto line = fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}  {:<{}}  {}", r[0], widths[0], r[1],
                            widths[1], r[2], widths[2], r[3], widths[3], r[4], widths[4], r[5]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string load_text(const fbs::CheckupReportT& r) {
  return fmt::format("{} was busy (other work took {:.0f} % of its processors): what is slower "
                     "than wanted is unknown, not bad\n",
                     r.node.empty() ? "this machine" : r.node, r.others_percent);
}

ordered_json number_or_null(double value) {
  return value < 0 ? ordered_json(nullptr) : ordered_json(value);
}

ordered_json json_of(const fbs::CheckupReportT& r) {
  ordered_json checks = ordered_json::array();
  for (const auto& c : r.checks)
    checks.push_back({{"check", c->check},
                      {"part", c->part},
                      {"seen", number_or_null(c->seen)},
                      {"wanted", number_or_null(c->wanted)},
                      {"unit", c->unit},
                      {"wanted_from", fbs::EnumNameWantedFrom(c->wanted_from)},
                      {"verdict", name_of(c->verdict)},
                      {"text", c->text},
                      {"took_ms", c->took_ms}});
  return {{"node", r.node},       {"verdict", name_of(troupe::health::verdict_of(r))},
          {"busy", r.busy},       {"others_percent", r.others_percent},
          {"took_ms", r.took_ms}, {"hardware", r.hardware},
          {"checks", checks}};
}

ordered_json json_of(const tested_pair& p) {
  return {{"nodes", {p.who.first, p.who.second}},
          {"round", p.round},
          {"answered", p.seen.answered},
          {"wrong", p.seen.wrong},
          {"bytes_per_s", p.seen.bytes_per_s},
          {"latency_us", p.latency_us},
          {"verdict", name_of(p.verdict)},
          {"text", p.why}};
}

ordered_json json_of(const std::vector<pair_policy::pair>& pairs) {
  ordered_json out = ordered_json::array();
  for (const auto& p : pairs) out.push_back({p.first, p.second});
  return out;
}

}  // namespace

result<diagnosis> examine_cluster(session& s, const doctor_options& o) {
  TROUPE_TRY(nodes, nodes_of(s, o.node));
  const auto question = make_msg<fbs::RunCheckup>({}, [&](auto& m) { m.deep = o.deep; });
  const auto patience = o.deep ? defaults::deep_checkup_patience : defaults::checkup_patience;
  TROUPE_TRY(answers, s.call(o.node, "medic/*", question, patience.count()));
  diagnosis d;
  d.deep = o.deep;
  std::vector<std::string> reached;
  for (const auto& node : nodes) {
    const auto a = std::find_if(answers.answers.begin(), answers.answers.end(),
                                [&](const auto& one) { return one->node == node; });
    if (a == answers.answers.end()) {
      d.reports.push_back(report_of(node, fbs::CheckVerdict::unknown, "it has no medic"));
      continue;
    }
    if ((*a)->failure && static_cast<errc>((*a)->failure->code) == errc::permission)
      return error{errc::permission, (*a)->failure->message, (*a)->failure->hint};
    d.reports.push_back(report_of(**a));
    if (!(*a)->failure) reached.push_back(node);
  }
  troupe::health::judge_among_equals(d.reports);
  test_pairs(s, d, reached);
  return d;
}

fbs::CheckVerdict verdict_of(const diagnosis& d) {
  auto out = fbs::CheckVerdict::unknown;
  for (const auto& r : d.reports) out = std::max(out, troupe::health::verdict_of(r));
  for (const auto& p : d.pairs) out = std::max(out, p.verdict);
  return out;
}

std::string diagnosis_text(const diagnosis& d) {
  std::vector<row> rows{{"node", "check", "seen", "wanted", "verdict", ""}};
  for (const auto& r : d.reports)
    for (const auto& c : r.checks) rows.push_back(row_of(r, *c));
  for (const auto& p : d.pairs) rows.push_back(row_of(d, p));
  auto out = table_of(rows);
  for (const auto& r : d.reports)
    if (r.busy) out += load_text(r);
  for (const auto& c : d.named.culprits)
    out += fmt::format("{} does not reach nodes that reach others\n", c);
  for (const auto& p : d.named.cut)
    out += fmt::format("cut_pair: {} and {} do not reach each other, and both reach others\n",
                       p.first, p.second);
  for (const auto& p : d.named.unclear)
    out += fmt::format("{} or {}: no other node could tell which\n", p.first, p.second);
  return out + fmt::format("verdict: {}\n", name_of(verdict_of(d)));
}

std::string diagnosis_json(const diagnosis& d) {
  ordered_json j{{"type", "doctor"}, {"verdict", name_of(verdict_of(d))}, {"deep", d.deep}};
  j["nodes"] = ordered_json::array();
  for (const auto& r : d.reports) j["nodes"].push_back(json_of(r));
  j["pairs"] = ordered_json::array();
  for (const auto& p : d.pairs) j["pairs"].push_back(json_of(p));
  j["culprits"] = d.named.culprits;
  j["cut_pairs"] = json_of(d.named.cut);
  j["unclear_pairs"] = json_of(d.named.unclear);
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps

// Asks the medics, then pairs of them; makes tables of it.
#include "apps/control/doctor.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/health/check_text.hpp"
#include "actors/health/checkup_policy.hpp"
#include "actors/health/medic.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "messages/any_msg.hpp"
#include "messages/errors.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;
using troupe::health::group_seen;
using troupe::health::known_sum;
using troupe::health::pair_policy;
using troupe::health::pair_seen;
using troupe::health::value_text;
using troupe::health::wanted_text;

constexpr uint32_t exchanges = 8, deep_exchanges = 64;
constexpr uint32_t rounds = 4, deep_rounds = troupe::health::most_rounds;

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

/// A node that is asked, as it was before.
struct asked_node {
  std::string node, host;
  std::optional<int64_t> examined_for_ns = {};  ///< somebody has it examined already
};

asked_node asked_node_of(const fbs::ActorListT& process) {
  asked_node out{process.node, process.host};
  if (process.silent_ns > 0) return out;  // what it said last need not be so any more
  for (const auto& a : process.actors)
    if (a->kind == "medic" && a->state == troupe::health::examining)
      out.examined_for_ns = a->state_for_ns;
  return out;
}

/// The nodes that are asked, in order.
result<std::vector<asked_node>> asked_nodes(session& s, const std::string& node) {
  TROUPE_TRY(view, s.view("", "", false));
  std::vector<asked_node> all;
  std::vector<std::string_view> names;
  for (const auto& n : view.nodes) {
    if (n->node == "head") continue;
    all.push_back(asked_node_of(*n));
    names.push_back(n->node);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  if (node.empty()) return all;
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.node == node; });
  if (it != all.end()) return std::vector{*it};
  const auto near = nearest(node, names);
  return node_not_found(node, near.empty() ? "`troupe status` lists the nodes"
                                           : fmt::format("did you mean {}?", near));
}

fbs::CheckupReportT report_of_busy(const std::string& node, int64_t examined_for_ns) {
  return report_of(node, fbs::CheckVerdict::unknown,
                   fmt::format("it is being examined already, for {:.0f} s",
                               static_cast<double>(examined_for_ns) * 1e-9));
}

error error_of(const fbs::FailureT& f) {
  return {static_cast<errc>(f.code), f.message, "", f.kind};
}

/// Of the nodes whose whole process did not answer in time, those that do now: they are starved.
result<std::set<std::string>> awake_of(session& s, const fbs::CallAnswersT& answers) {
  std::set<std::string> out;
  const auto is_silent = [](const auto& a) { return a->failure && a->actor.empty(); };
  if (std::none_of(answers.answers.begin(), answers.answers.end(), is_silent)) return out;
  const auto view = s.view("", "", false);
  if (!view && view.error().is(interrupted)) return view.error();
  for (size_t i = 0; view && i < view->nodes.size(); ++i)
    if (view->nodes[i]->silent_ns == 0) out.insert(view->nodes[i]->node);
  return out;
}

bool was_busy(const diagnosis& d, const std::string& node) {
  return std::any_of(d.reports.begin(), d.reports.end(),
                     [&](const auto& r) { return r.node == node && r.busy; });
}

/// Whether a failure says nothing of the two: who was to send did something else, or was not heard.
bool says_nothing(const fbs::CallAnswerT& a) {
  const auto e = error_of(*a.failure);
  return !a.actor.empty() && (e.is(troupe::health::exchange_under_way) ||
                              e.is(troupe::health::exchange_interrupted) ||
                              e.is(troupe::health::nobody_waits) ||
                              e.is(troupe::health::member_absent) || e.is(no_answer));
}

/// The first of them leads the others; what that shows, but for the verdict.
result<tested_group> form_group(session& s, const diagnosis& d, std::string check,
                                std::vector<std::string> nodes) {
  tested_group out{std::move(check), std::move(nodes)};
  for (const auto& n : out.nodes) out.seen.busy = out.seen.busy || was_busy(d, n);
  const auto m = make_msg<fbs::TestGroup>({}, [&](auto& t) {
    t.nodes = troupe::health::names_of(out.nodes);
    t.rounds = d.deep && out.nodes.size() == 2 ? deep_rounds : rounds;
  });
  const auto answers =
      s.call(out.nodes.front(), "medic/*", m, defaults::group_patience.count());
  if (!answers && answers.error().is(interrupted)) return answers.error();
  out.seen.tried = false;
  if (!answers || answers->answers.empty()) {
    out.why = answers ? out.nodes.front() + " has no medic" : answers.error().message;
    return out;
  }
  const auto& a = *answers->answers.front();
  const auto report = a.failure ? result<any_msg>(error{errc::unavailable, a.failure->message})
                                : decode(a.message, message_traits<fbs::GroupReport>::id);
  if (!report) {
    out.seen.tried = !a.failure || !says_nothing(a);
    out.why = report.error().message;
    return out;
  }
  const bool busy = out.seen.busy;
  out.seen = troupe::health::seen_in(cast<fbs::GroupReport>(*report).unpack());
  out.seen.busy = busy;
  out.why = out.seen.wrong() > 0 ? out.seen.wrong_text : out.seen.failure;
  return out;
}

/// As a member of data-parallel replicas does it with the next one.
result<tested_group> test_sum(session& s, const diagnosis& d, const pair_policy::pair& who) {
  TROUPE_TRY(out, form_group(s, d, "sum", {who.first, who.second}));
  out.verdict = troupe::health::verdict_of(out.seen);
  return out;
}

/// The first of them asks the second.
result<tested_pair> test_pair(session& s, const diagnosis& d, const pair_policy::pair& who,
                              int round, bool one_host) {
  tested_pair out{who, round};
  out.seen.busy = was_busy(d, who.first) || was_busy(d, who.second);
  out.seen.one_host = one_host;
  const auto m = make_msg<fbs::TestPair>({}, [&](auto& t) {
    t.peer = who.second;
    t.exchanges = d.deep ? deep_exchanges : exchanges;
  });
  const auto answers = s.call(who.first, "medic/*", m, defaults::pair_patience.count());
  if (!answers && answers.error().is(interrupted)) return answers.error();
  if (!answers || answers->answers.empty()) {
    out.seen.tried = false;
    out.why = answers ? who.first + " has no medic" : answers.error().message;
    return out;
  }
  const auto& a = *answers->answers.front();
  if (a.failure) out.seen.tried = !says_nothing(a);
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
  TROUPE_TRY(sum, test_sum(s, d, who));
  out.sum = std::move(sum);
  return out;
}

/// Both rounds. A pair that could not be tried neither proves nor accuses a node. Errors:
/// interrupted.
status test_pairs(session& s, diagnosis& d, const std::vector<asked_node>& reached) {
  std::vector<std::string> nodes;
  std::map<std::string, std::string> hosts;
  for (const auto& p : reached) {
    nodes.push_back(p.node);
    hosts[p.node] = p.host;
  }
  const auto one_host = [&](const pair_policy::pair& p) {
    return !hosts[p.first].empty() && hosts[p.first] == hosts[p.second];
  };
  pair_policy policy(nodes);
  std::vector<pair_seen> seen;
  for (const auto& p : policy.first_round()) {
    TROUPE_TRY(tested, test_pair(s, d, p, 1, one_host(p)));
    d.pairs.push_back(std::move(tested));
    seen.push_back(d.pairs.back().seen);
  }
  const auto passed = [&](tested_pair& p) {
    p.wanted = troupe::health::wanted_rate(seen, p.seen.one_host);
    p.verdict = troupe::health::verdict_of(p.seen, p.wanted);
    return p.verdict != fbs::CheckVerdict::bad &&
           (!p.sum || p.sum->verdict != fbs::CheckVerdict::bad);
  };
  for (auto& p : d.pairs)
    if (const bool well = passed(p); p.seen.tried) policy.tell_first(p.who, well);
  for (const auto& p : policy.second_round()) {
    TROUPE_TRY(tested, test_pair(s, d, p, 2, one_host(p)));
    d.pairs.push_back(std::move(tested));
    if (const bool well = passed(d.pairs.back()); d.pairs.back().seen.tried)
      policy.tell_second(p, well);
  }
  d.named = policy.conclude();
  return {};
}

/// What of a group of all is said of one host's: what came from each to each.
tested_group exchange_of(tested_group formed, const std::string& host) {
  formed.check = "all_to_all";
  formed.host = host;
  formed.verdict = troupe::health::verdict_of(formed.seen);
  return formed;
}

/// Of each host the exchange of its nodes, then the start of a group of all of them; of more nodes
/// than a group may have, the first. Errors: interrupted.
status test_groups(session& s, diagnosis& d, const std::vector<asked_node>& reached) {
  std::vector<std::string> all;
  std::map<std::string, std::vector<std::string>> hosts;
  for (const auto& p : reached) {
    if (all.size() < known_sum::most_members) all.push_back(p.node);
    auto& of_host = hosts[p.host];
    if (of_host.size() < known_sum::most_members) of_host.push_back(p.node);
  }
  if (all.empty()) return {};
  const auto lonely = [](std::vector<std::string> nodes, std::string why) -> result<tested_group> {
    tested_group out{"group_start", std::move(nodes)};
    out.seen.tried = false;
    out.why = std::move(why);
    return out;
  };
  TROUPE_TRY(together, all.size() < 2 ? lonely(all, "one node: there is no group to start")
                                      : form_group(s, d, "group_start", all));
  for (const auto& [host, nodes] : hosts) {
    if (host.empty()) continue;
    TROUPE_TRY(formed, nodes.size() < 2
                           ? lonely(nodes, "one node on this host: there is nothing to exchange")
                       : nodes == all ? result<tested_group>(together)
                                      : form_group(s, d, "all_to_all", nodes));
    d.groups.push_back(exchange_of(std::move(formed), host));
  }
  together.verdict = troupe::health::verdict_of_start(together.seen, all.size());
  d.groups.push_back(std::move(together));
  return {};
}

// -- words ----------------------------------------------------------------------------------------

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

row row_of(const tested_pair& p) {
  const auto who = fmt::format("{}, {}", p.who.first, p.who.second);
  const auto check = fmt::format("pair{}{}", p.seen.one_host ? " of one host" : "",
                                 p.round == 1 ? "" : ", again");
  if (!p.seen.answered) return {who, check, "-", "-", name_of(p.verdict), p.why};
  const auto seen = fmt::format("{} {:.0f} us", value_text(p.seen.bytes_per_s, "bytes/s"),
                                p.latency_us);
  return {
      who,
      check,
      seen,
      p.wanted ? fmt::format(">= {} (equals)", value_text(*p.wanted, "bytes/s")) : "-",
      name_of(p.verdict),
      p.seen.wrong > 0 ? counted(p.seen.wrong, "exchange") + " came back with other bytes" : ""};
}

/// "node0, node1"; of many the first and the last.
std::string members_text(const std::vector<std::string>& nodes) {
  if (nodes.size() < 3) return fmt::format("{}", fmt::join(nodes, ", "));
  return fmt::format("{} ... {}", nodes.front(), nodes.back());
}

row row_of(const tested_group& g, int round) {
  const bool is_start = g.check == "group_start";
  const auto check = fmt::format("{} {}{}{}", g.check, g.nodes.size(),
                                 g.host.empty() ? " nodes" : " nodes of one host",
                                 round == 1 ? "" : ", again");
  std::string seen = "-", wanted = "0 errors";
  if (g.seen.finished && is_start)
    seen = fmt::format("{:.1f} ms, over in {:.1f} ms", g.seen.start_ms, g.seen.stop_ms);
  else if (g.seen.finished)
    seen = fmt::format("{}{}", counted(g.seen.wrong(), "error"),
                       g.check == "sum" ? ", " + value_text(g.seen.bytes_per_s, "bytes/s") : "");
  if (is_start)
    wanted = fmt::format("<= {:.0f} ms (floor)", troupe::health::wanted_start_ms(g.nodes.size()));
  return {members_text(g.nodes), check, seen, g.seen.finished ? wanted : "-", name_of(g.verdict),
          g.why};
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

ordered_json json_of(const tested_group& g) {
  return {{"check", g.check},
          {"nodes", g.nodes},
          {"host", g.host},
          {"tried", g.seen.tried},
          {"finished", g.seen.finished},
          {"wrong_sums", g.seen.wrong_sums},
          {"wrong_gathered", g.seen.wrong_gathered},
          {"start_ms", g.seen.start_ms},
          {"wanted_start_ms", troupe::health::wanted_start_ms(g.nodes.size())},
          {"stop_ms", g.seen.stop_ms},
          {"bytes_per_s", g.seen.bytes_per_s},
          {"path", "tensors"},
          {"verdict", name_of(g.verdict)},
          {"text", g.why}};
}

ordered_json json_of(const tested_pair& p) {
  return {{"nodes", {p.who.first, p.who.second}},
          {"round", p.round},
          {"answered", p.seen.answered},
          {"wrong", p.seen.wrong},
          {"bytes_per_s", p.seen.bytes_per_s},
          {"wanted_bytes_per_s", number_or_null(p.wanted.value_or(-1))},
          {"latency_us", p.latency_us},
          {"tried", p.seen.tried},
          {"one_host", p.seen.one_host},
          {"path", "messages"},
          {"verdict", name_of(p.verdict)},
          {"text", p.why},
          {"sum", p.sum ? json_of(*p.sum) : ordered_json(nullptr)}};
}

ordered_json json_of(const std::vector<pair_policy::pair>& pairs) {
  ordered_json out = ordered_json::array();
  for (const auto& p : pairs) out.push_back({p.first, p.second});
  return out;
}

}  // namespace

fbs::CheckupReportT report_of_answer(const fbs::CallAnswerT& a,
                                     const std::optional<int64_t>& examined_for_ns,
                                     bool answers_now) {
  if (a.failure) {
    const bool process_answers = !a.actor.empty() || answers_now;
    if (process_answers && examined_for_ns) return report_of_busy(a.node, *examined_for_ns);
    if (process_answers && error_of(*a.failure).is(no_answer))
      return report_of(a.node, fbs::CheckVerdict::unknown,
                       "its process answers; its examination does not end within the stated time");
    return report_of(a.node, fbs::CheckVerdict::bad, a.failure->message);
  }
  const auto m = decode(a.message, message_traits<fbs::CheckupReport>::id);
  if (!m) return report_of(a.node, fbs::CheckVerdict::bad, m.error().message);
  return cast<fbs::CheckupReport>(*m).unpack();
}

result<diagnosis> examine_cluster(session& s, const doctor_options& o) {
  TROUPE_TRY(asked, asked_nodes(s, o.node));
  diagnosis d;
  d.deep = o.deep;
  if (!asked.empty() && std::all_of(asked.begin(), asked.end(), [](const auto& p) {
        return p.examined_for_ns.has_value();
      })) {
    for (const auto& p : asked) d.reports.push_back(report_of_busy(p.node, *p.examined_for_ns));
    return d;
  }
  const auto question = make_msg<fbs::RunCheckup>({}, [&](auto& m) { m.deep = o.deep; });
  const auto patience = o.deep ? defaults::deep_checkup_patience : defaults::checkup_patience;
  TROUPE_TRY(answers, s.call(o.node, "medic/*", question, patience.count()));
  std::vector<asked_node> reached;
  TROUPE_TRY(awake, awake_of(s, answers));
  for (const auto& p : asked) {
    const auto a = std::find_if(answers.answers.begin(), answers.answers.end(),
                                [&](const auto& one) { return one->node == p.node; });
    if (a == answers.answers.end()) {
      d.reports.push_back(report_of(p.node, fbs::CheckVerdict::unknown, "it has no medic"));
      continue;
    }
    if ((*a)->failure && static_cast<errc>((*a)->failure->code) == errc::permission)
      return error{errc::permission, (*a)->failure->message, (*a)->failure->hint};
    d.reports.push_back(report_of_answer(**a, p.examined_for_ns, awake.contains(p.node)));
    if (!(*a)->failure) reached.push_back(p);
  }
  troupe::health::judge_among_equals(d.reports);
  TROUPE_CHECK(test_pairs(s, d, reached));
  if (o.node.empty()) TROUPE_CHECK(test_groups(s, d, reached));
  return d;
}

fbs::CheckVerdict verdict_of(const diagnosis& d) {
  auto out = fbs::CheckVerdict::unknown;
  for (const auto& r : d.reports) out = std::max(out, troupe::health::verdict_of(r));
  for (const auto& p : d.pairs) {
    out = std::max(out, p.verdict);
    if (p.sum) out = std::max(out, p.sum->verdict);
  }
  for (const auto& g : d.groups) out = std::max(out, g.verdict);
  return out;
}

std::string diagnosis_text(const diagnosis& d) {
  std::vector<row> rows{{"node", "check", "seen", "wanted", "verdict", ""}};
  for (const auto& r : d.reports)
    for (const auto& c : r.checks) rows.push_back(row_of(r, *c));
  for (const auto& p : d.pairs) {
    rows.push_back(row_of(p));
    if (p.sum) rows.push_back(row_of(*p.sum, p.round));
  }
  for (const auto& g : d.groups) rows.push_back(row_of(g, 1));
  auto out = table_of(rows);
  for (const auto& r : d.reports)
    if (r.busy) out += load_text(r);
  if (!d.pairs.empty())
    out += "pairs exchange messages: directly or by way of the coordinator, as actors of these "
           "nodes do; groups connect directly, as ranks do\n";
  for (const auto& c : d.named.culprits)
    out += fmt::format("{} does not reach, or sums wrongly with, nodes that do well with others\n",
                       c);
  for (const auto& p : d.named.cut)
    out += fmt::format("cut_pair: {} and {} fail with each other, and both do well with others\n",
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
  j["groups"] = ordered_json::array();
  for (const auto& g : d.groups) j["groups"].push_back(json_of(g));
  j["culprits"] = d.named.culprits;
  j["cut_pairs"] = json_of(d.named.cut);
  j["unclear_pairs"] = json_of(d.named.unclear);
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps

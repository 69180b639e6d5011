// The monitor's answer in words and as JSON.
#include "apps/control/findings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/health/finding_text.hpp"
#include "apps/control/account.hpp"
#include "apps/control/spares.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "messages/any_msg.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;

int64_t age_ns(const fbs::FindingsT& all, const fbs::FindingT& f) {
  return std::max<int64_t>(0, all.now_ns - f.since_ns);
}

ordered_json number_or_null(int rank) {
  return rank < 0 ? ordered_json(nullptr) : ordered_json(rank);
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json known_ms(double ms) {
  return ms > 0 ? ordered_json(ms) : ordered_json(nullptr);
}

std::string ms_text(double ms) {
  return trace::duration_text(std::llround(ms * 1e6));
}

/// "slow since step 4210 (cpu_starved)"
std::string suspicion_text(const fbs::ExpectedPartT& p) {
  auto out = p.suspected;
  if (p.since_step > 0) out += fmt::format(" since step {}", p.since_step);
  if (!p.beside.empty()) out += fmt::format(" ({})", fmt::join(p.beside, ", "));
  return out;
}

/// A line for each node of which is known what sets its machine apart: no table has the room.
std::string differences_text(const fbs::FindingsT& all) {
  std::set<std::string> lines;
  for (const auto& p : all.parts)
    if (!p->differs.empty())
      lines.insert(fmt::format("{}: {}\n", printable(p->node), printable(p->differs)));
  return fmt::format("{}", fmt::join(lines, ""));
}

ordered_json part_json(const fbs::ExpectedPartT& p) {
  return {{"node", text_or_null(p.node)},
          {"rank", number_or_null(p.rank)},
          {"part", p.part},
          {"expected_ms", p.expected_ms},
          {"spread_ms", p.spread_ms},
          {"seen_ms", p.seen_ms},
          {"off_percent", p.off_percent},
          {"suspected", text_or_null(p.suspected)},
          {"since_step", p.since_step > 0 ? ordered_json(p.since_step) : ordered_json(nullptr)},
          {"beside", p.beside},
          {"differs", text_or_null(p.differs)}};
}

bool is_far_from_probes(const fbs::ExplainedPartT& p) {
  return p.probed_most_ms > 0 && p.expected->mean_ms > p.probed_most_ms;
}

/// A line for each part that takes more than the machine's probes explain: its threads, governor or
/// binding are other than they were when it was probed.
std::string far_from_probes_text(const fbs::ExplanationT& why) {
  std::string out;
  for (const auto& p : why.parts)
    if (is_far_from_probes(*p))
      out +=
          fmt::format("{} takes {}, at most {} by what {} was probed to do: is it misconfigured?\n",
                      p->expected->part, ms_text(p->expected->mean_ms), ms_text(p->probed_most_ms),
                      printable(why.node));
  return out;
}

bool is_suspected(const fbs::ExpectedPartT& p, uint32_t rank) {
  return !p.suspected.empty() && p.rank >= 0 && static_cast<uint32_t>(p.rank) == rank;
}

/// Why there is no row.
std::string nothing_expected_text(const fbs::FindingsT& all) {
  if (all.quiet_steps_needed == 0)
    return "nothing is expected: predict.suspect_percent is 0, so no rank is looked at\n";
  if (all.quiet_steps < all.quiet_steps_needed)
    return fmt::format("nothing is expected yet: {} of {} quiet steps seen\n", all.quiet_steps,
                       all.quiet_steps_needed);
  return "nothing is expected yet: the work of steps has changed, or ranks tell of no parts\n";
}

}  // namespace

result<fbs::FindingsT> findings_of(session& s, bool parts) {
  const auto question =
      make_msg<fbs::FindingsRequest>({}, [&](auto& request) { request.parts = parts; });
  TROUPE_TRY(answers, s.call("head", "monitor", question, 0));
  if (answers.answers.empty())
    return error{errc::unavailable, "the cluster has no monitor", "was it started by `troupe up`?"};
  const auto& first = *answers.answers.front();
  if (first.failure) return error{errc::unavailable, first.failure->message, first.failure->hint};
  TROUPE_TRY(m, decode(first.message, message_traits<fbs::Findings>::id));
  return cast<fbs::Findings>(m).unpack();
}

bool is_well(const fbs::FindingsT& all) {
  return std::all_of(all.findings.begin(), all.findings.end(),
                     [](const auto& f) { return f->severity == fbs::FindingSeverity::info; });
}

std::string findings_text(const fbs::FindingsT& all) {
  if (all.findings.empty()) return "no findings\n";
  std::string out = "findings:";
  for (const auto& f : all.findings)
    out += fmt::format("{}{}, for {}\n", out.ends_with(':') ? " " : "  ",
                       troupe::health::line_of(*f), trace::duration_text(age_ns(all, *f)));
  return out;
}

std::string findings_json(const fbs::FindingsT& all, const fbs::RunStatusT* run,
                          const fbs::SparesT* spares) {
  ordered_json j{{"type", "health"}, {"step", all.step}, {"raised", all.raised}};
  if (run != nullptr) j["run"] = account_json(*run);
  if (spares != nullptr) j["spares"] = spares_json(*spares);
  j["findings"] = ordered_json::array();
  for (const auto& f : all.findings)
    j["findings"].push_back({{"name", f->name},
                             {"severity", fbs::EnumNameFindingSeverity(f->severity)},
                             {"node", f->node},
                             {"rank", number_or_null(f->rank)},
                             {"peer", number_or_null(f->peer)},
                             {"seen", f->seen},
                             {"wanted", f->wanted},
                             {"unit", f->unit},
                             {"text", f->text},
                             {"rule", text_or_null(f->rule)},
                             {"doctor", text_or_null(f->doctor)},
                             {"for_s", static_cast<double>(age_ns(all, *f)) / 1e9}});
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string expect_text(const fbs::FindingsT& all, int columns) {
  if (all.parts.empty()) return nothing_expected_text(all);
  std::vector<std::vector<std::string>> rows{
      {"node", "rank", "part", "expected", "seen", "off", "suspected"}};
  for (const auto& p : all.parts)
    rows.push_back({p->node.empty() ? "-" : p->node, p->rank < 0 ? "all" : std::to_string(p->rank),
                    p->part,
                    fmt::format("{} +- {}", ms_text(p->expected_ms), ms_text(p->spread_ms)),
                    ms_text(p->seen_ms),
                    fmt::format("{:+.0f} %", std::round(p->off_percent) + 0.0),  // no "-0"
                    suspicion_text(*p)});
  constexpr std::array gives_way{trace::column_limit{0, 8}, trace::column_limit{6, 13}};
  auto out = trace::table_text(std::move(rows), columns, gives_way);
  out += differences_text(all);
  if (all.parts_left_out > 0) out += fmt::format("and {} parts more\n", all.parts_left_out);
  return out;
}

ordered_json expect_json(const fbs::FindingsT& all) {
  ordered_json j{{"type", "expect"},
                 {"step", all.step},
                 {"quiet_steps", all.quiet_steps},
                 {"quiet_steps_needed", all.quiet_steps_needed},
                 {"left_out", all.parts_left_out}};
  j["parts"] = ordered_json::array();
  for (const auto& p : all.parts) j["parts"].push_back(part_json(*p));
  return j;
}

result<fbs::ExplanationT> explanation_of(session& s, uint32_t rank) {
  const auto question = make_msg<fbs::Explain>({}, [&](auto& request) { request.rank = rank; });
  TROUPE_TRY(answers, s.call("head", "predictor", question, 0));
  if (answers.answers.empty())
    return error{errc::unavailable, "the cluster has no predictor", "is predict.enabled false?"};
  const auto& first = *answers.answers.front();
  if (first.failure) return error{errc::unavailable, first.failure->message, first.failure->hint};
  TROUPE_TRY(m, decode(first.message, message_traits<fbs::Explanation>::id));
  return cast<fbs::Explanation>(m).unpack();
}

std::string why_text(const fbs::ExplanationT& why, int columns) {
  if (why.parts.empty())
    return fmt::format("nothing is expected of rank {} yet: nothing was fitted\n", why.rank);
  std::vector<std::vector<std::string>> rows{{"part", "expected", "95 %", "rule", "work",
                                              "likeness", "node", "node's samples", "unknown",
                                              "noise", "by probes", "outside"}};
  for (const auto& p : why.parts) {
    const auto& e = *p->expected;
    const auto factor = [](double x) { return fmt::format("x {:.3g}", x); };
    rows.push_back({e.part, ms_text(e.mean_ms),
                    fmt::format("{} to {}", ms_text(e.least_ms), ms_text(e.most_ms)),
                    ms_text(p->rule_ms), factor(p->line), factor(p->bend), factor(p->node),
                    std::to_string(p->node_samples), fmt::format("+- {:.1f} %", p->doubt_percent),
                    fmt::format("+- {:.1f} %", p->noise_percent),
                    p->probed_ms > 0 ? ms_text(p->probed_ms) : "-", e.outside});
  }
  return fmt::format("rank {} on {}, by {} in all\n", why.rank, printable(why.node),
                     counted(why.samples, "sample")) +
         trace::table_text(std::move(rows), columns, {}) + far_from_probes_text(why);
}

ordered_json why_json(const fbs::ExplanationT& why) {
  ordered_json j{{"type", "expect_why"},
                 {"rank", why.rank},
                 {"node", text_or_null(why.node)},
                 {"samples", why.samples}};
  j["parts"] = ordered_json::array();
  for (const auto& p : why.parts)
    j["parts"].push_back({{"part", p->expected->part},
                          {"expected_ms", p->expected->mean_ms},
                          {"least_ms", p->expected->least_ms},
                          {"most_ms", p->expected->most_ms},
                          {"configurations", p->expected->configurations},
                          {"outside", text_or_null(p->expected->outside)},
                          {"rule_ms", p->rule_ms},
                          {"line", p->line},
                          {"bend", p->bend},
                          {"node", p->node},
                          {"node_samples", p->node_samples},
                          {"doubt_percent", p->doubt_percent},
                          {"noise_percent", p->noise_percent},
                          {"probed_ms", known_ms(p->probed_ms)},
                          {"probed_most_ms", known_ms(p->probed_most_ms)},
                          {"is_far_from_probes", is_far_from_probes(*p)}});
  return j;
}

std::string suspected_text(const fbs::FindingsT& all, uint32_t rank) {
  std::string out;
  for (const auto& p : all.parts) {
    if (!is_suspected(*p, rank)) continue;
    out += fmt::format("{} is suspected: {}, {} in place of {}", p->part, suspicion_text(*p),
                       ms_text(p->seen_ms), ms_text(p->expected_ms));
    if (!p->differs.empty()) out += "; " + printable(p->differs);
    out += "\n";
  }
  return out;
}

ordered_json suspected_json(const fbs::FindingsT& all, uint32_t rank) {
  auto out = ordered_json::array();
  for (const auto& p : all.parts)
    if (is_suspected(*p, rank)) out.push_back(part_json(*p));
  return out;
}

}  // namespace troupe::apps

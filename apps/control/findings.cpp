// The monitor's answer in words and as JSON.
#include "apps/control/findings.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/health/finding_text.hpp"
#include "apps/control/account.hpp"
#include "apps/control/spares.hpp"
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

}  // namespace

result<fbs::FindingsT> findings_of(session& s) {
  TROUPE_TRY(answers, s.call("head", "monitor", make_msg<fbs::FindingsRequest>(), 0));
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

}  // namespace troupe::apps

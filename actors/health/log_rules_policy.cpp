// Which rule, and what of the line may be told.
#include "actors/health/log_rules_policy.hpp"

#include <algorithm>

#include "io/base/printable.hpp"
#include "io/logs/log_tail.hpp"
#include "io/logs/secrets.hpp"

namespace troupe::health {

log_rules_policy::log_rules_policy(const std::vector<config::log_rule_spec>& rules) {
  std::vector<std::string> patterns;
  for (const auto& r : rules) {
    if (r.match.empty() || !io::line_patterns::check(r.match)) continue;
    patterns.push_back(r.match);
    names_.push_back(r.name);
  }
  if (auto made = io::line_patterns::make(patterns))
    patterns_ = std::make_shared<io::line_patterns>(std::move(*made));
  else
    names_.clear();
}

void log_rules_policy::take(size_t log, const io::log_piece& piece, int64_t now_ns) {
  cutters_[log].take(piece, [&](std::string_view line) { return judge(line, now_ns); });
}

bool log_rules_policy::judge(std::string_view line, int64_t now_ns) {
  if (line.find(own_words) != line.npos) return false;  // LGR-3
  const auto rule = patterns_->first_fit(line);
  if (!rule) return false;
  auto& c = counted_[*rule];
  ++c.lines;
  c.last_ns = now_ns;
  c.line = line;
  c.told.clear();
  return true;
}

/// Secrets go before anything is cut: half of one would not look like one. Where what fits is far
/// behind the beginning, the beginning goes.
std::string log_rules_policy::told(size_t rule, std::string_view line) const {
  constexpr size_t before = 40;
  auto text = io::without_secrets(line);
  const auto at = patterns_->begin_of_fit(rule, text).value_or(0);
  if (at > 2 * before) {
    auto from = at - before;
    while (from < at && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
    text = "..." + text.substr(from);
  }
  auto out = printable(text, most_told_bytes);
  return out.size() <= most_told_bytes ? out : printable(text, most_told_bytes / 4);
}

std::vector<std::unique_ptr<fbs::LogRuleCountT>> log_rules_policy::counts() {
  std::vector<std::unique_ptr<fbs::LogRuleCountT>> out;
  for (auto& [rule, c] : counted_) {
    if (c.told.empty()) c.told = told(rule, c.line);
    auto& one = *out.emplace_back(std::make_unique<fbs::LogRuleCountT>());
    one.rule = names_[rule];
    one.count = c.lines;
    one.last_ns = c.last_ns;
    one.line = c.told;
  }
  return out;
}

size_t next_room(size_t room, int64_t took_ns) {
  constexpr size_t least = line_cutter::most_line_bytes;
  constexpr int64_t ms = 1'000'000;
  if (took_ns > 100 * ms) return std::max(least, room / 4);
  return took_ns < 20 * ms ? std::min<size_t>(io::log_tail::most_bytes_a_look, room * 2) : room;
}

void shorten_for_beat(fbs::MachineVitalsT& sample, uint64_t beat) {
  sample.logs.clear();
  auto& all = sample.log_rules;
  if (all.size() <= most_rules_a_beat) return;
  const auto first = beat * most_rules_a_beat % all.size();
  std::rotate(all.begin(), all.begin() + static_cast<ptrdiff_t>(first), all.end());
  all.resize(most_rules_a_beat);
}

}  // namespace troupe::health

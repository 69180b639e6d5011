// Any bytes as what a log writes, as a record of the kernel's and as a rule's expression. The first
// byte chooses which.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "actors/health/log_rules_policy.hpp"
#include "io/base/printable.hpp"
#include "io/config/load.hpp"
#include "io/logs/kernel_log.hpp"
#include "io/logs/secrets.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

namespace {

using counts = std::vector<std::unique_ptr<fbs::LogRuleCountT>>;

counts counted(health::log_rules_policy p, std::string_view text, size_t piece) {
  for (size_t at = 0; at < text.size(); at += piece)
    p.take(0, {std::string(text.substr(at, piece))}, 1);
  p.take(0, {}, 1);
  return p.counts();
}

health::log_rules_policy rule_of(const std::string& match) {
  return health::log_rules_policy({{"fuzz", match}});
}

uint64_t lines_in(const counts& all) {
  uint64_t out = 0;
  for (const auto& c : all) out += c->count;
  return out;
}

void write_log(std::string_view text) {
  static const health::log_rules_policy rules(config::default_log_rules());
  const auto whole = counted(rules, text, std::max<size_t>(1, text.size()));
  for (const auto& c : whole) {
    must(c->count > 0, "only rules that counted are told of");
    must(c->line.size() <= health::log_rules_policy::most_told_bytes, "LGR-2: it is short");
    must(printable(c->line) == c->line, "LGR-2: it is printable");
  }
  const auto ends = std::count_if(text.begin(), text.end(),
                                  [](char x) { return x == '\n' || x == '\r' || x == '\0'; });
  must(lines_in(whole) <= static_cast<uint64_t>(ends) + 1, "LGR-1: a line counts once");
  must(lines_in(counted(rules, text, 7)) == lines_in(whole), "pieces make no difference");
  must(io::without_secrets(text).find('\n') == text.npos || text.find('\n') != text.npos,
       "no lines are made");
}

void read_rule(std::string_view text) {
  const std::string match(text);
  const auto fault = io::line_patterns::check(match);
  if (!fault) {
    must(fault.error().is(io::bad_pattern) || fault.error().is(io::pattern_too_long) ||
             fault.error().is(io::patterns_too_large),
         "LPT-1");
    must(rule_of(match).is_idle(), "it fits nothing");
    return;
  }
  must(match.size() <= io::line_patterns::max_pattern_bytes, "LPT-1");
  const auto all = counted(rule_of(match), "NVRM: Xid (PCI:0000:3b:00): 79\nxx xx\xff\n", 99);
  must(lines_in(all) <= 2, "LGR-1: a line counts once");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      write_log(text);
      break;
    case 1:
      read_rule(text);
      break;
    default:
      if (const auto said = io::kernel_record_text(text))
        must(said->find('\n') == said->npos, "a record's text is one line");
  }
  return 0;
}

// Values with their units, verdicts in a sentence.
#include "actors/health/check_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/base/counted.hpp"

namespace troupe::health {

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

std::string report_text(const fbs::CheckupReportT& r) {
  std::string bad;
  size_t well = 0, unknown = 0;
  for (const auto& c : r.checks) {
    well += c->verdict == fbs::CheckVerdict::ok;
    unknown += c->verdict == fbs::CheckVerdict::unknown;
    if (c->verdict != fbs::CheckVerdict::bad) continue;
    bad += fmt::format("{}{}{}{} {}, wanted {}: bad", bad.empty() ? "" : "; ", c->check,
                       c->part.empty() ? "" : " ", c->part, value_text(c->seen, c->unit),
                       wanted_text(*c));
  }
  if (!bad.empty()) return bad;
  return fmt::format(
      "nothing is bad, {} ok, {} unknown{}", counted(well, "check"), unknown,
      r.busy ? fmt::format(" (other work took {:.0f} % of its processors)", r.others_percent) : "");
}

}  // namespace troupe::health

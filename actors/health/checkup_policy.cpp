// The list of checks, and verdicts.
#include "actors/health/checkup_policy.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace troupe::health {

namespace {

constexpr double busy_others_percent = 10, least_own_percent = 90;
constexpr double of_equals = 0.5;
constexpr size_t least_equals = 3;

// name, unit, bits, at least, floor, of kept, budgets
constexpr std::array entries{
    check_entry{"open_files", "files", false, true, 1024, 0, 10, 10},
    check_entry{"locked_memory", "bytes", false, true, -1, 0, 10, 10},
    check_entry{"core_files", "bytes", false, true, -1, 0, 10, 10},
    check_entry{"memory_left", "bytes", false, true, 256 << 20, 0, 10, 10},
    check_entry{"clock", "us", false, false, 1000, 0, 100, 1000},
    check_entry{"cpu_product", "errors", true, false, 0, 0, 100, 10'000},
    check_entry{"gpu_product", "errors", true, false, 0, 0, 3000, 10'000},
    check_entry{"memory_pattern", "errors", true, false, 0, 0, 100, 15'000},
    check_entry{"memory_bandwidth", "bytes/s", false, true, 5e8, 0.4, 200, 2000},
    check_entry{"disk_pattern", "errors", true, false, 0, 0, 1000, 10'000},
    check_entry{"disk_write", "bytes/s", false, true, 1e6, 0.1, 1000, 10'000},
    check_entry{"disk_read", "bytes/s", false, true, 1e6, 0.1, 1000, 10'000},
    check_entry{"loopback_bandwidth", "bytes/s", false, true, 5e7, 0.25, 300, 3000},
    check_entry{"loopback_latency", "us", false, false, 5000, 0, 300, 3000},
    check_entry{"gpu_all_to_all", "errors", true, false, 0, 0, 3000, 10'000},
};

bool meets(const fbs::CheckResultT& c) {
  return c.at_least ? c.seen >= c.wanted : c.seen <= c.wanted;
}

void conclude(fbs::CheckResultT& c, bool busy) {
  c.verdict = meets(c) ? fbs::CheckVerdict::ok
              : busy && !entry_of(c.check).bits  // CKP-1
                  ? fbs::CheckVerdict::unknown
                  : fbs::CheckVerdict::bad;
  if (c.verdict == fbs::CheckVerdict::unknown && c.text.empty())
    c.text = "the machine had other work";
}

}  // namespace

std::span<const check_entry> checks_in_order() {
  return entries;
}

const check_entry& entry_of(std::string_view name) {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const check_entry& e) { return e.name == name; });
  return it == entries.end() ? entries.front() : *it;
}

fbs::CheckResultT check_of(std::string_view name, std::string_view part) {
  const auto& e = entry_of(name);
  fbs::CheckResultT c;
  c.check = name;
  c.part = part;
  c.unit = e.unit;
  c.at_least = e.at_least;
  return c;
}

bool is_of_disk(std::string_view check) {
  return check.starts_with("disk_");
}

bool was_busy(const load& l) {
  return l.others_percent > busy_others_percent || l.own_percent < least_own_percent;
}

void judge(fbs::CheckResultT& c, std::optional<double> kept, bool busy) {
  if (c.seen < 0) return;  // unknown, and its text says why
  const auto& e = entry_of(c.check);
  if (e.bits) {
    c.wanted_from = fbs::WantedFrom::exact;
    c.wanted = 0;
  } else if (kept && e.of_kept > 0) {  // CKP-2
    c.wanted_from = fbs::WantedFrom::store;
    c.wanted = e.at_least ? *kept * e.of_kept : *kept / e.of_kept;
  } else if (e.floor >= 0) {
    c.wanted_from = fbs::WantedFrom::floor;
    c.wanted = e.floor;
  } else {
    c.verdict = fbs::CheckVerdict::ok;
    return;
  }
  conclude(c, busy);
}

void judge_among_equals(std::vector<fbs::CheckupReportT>& all) {
  std::map<std::string, std::vector<double>> seen;
  const auto key_of = [](const fbs::CheckupReportT& r, const fbs::CheckResultT& c) {
    return r.hardware + '\n' + c.check + '\n' + c.part;
  };
  const auto fits = [](const fbs::CheckupReportT& r, const fbs::CheckResultT& c) {
    return !r.busy && c.seen >= 0 && entry_of(c.check).of_kept > 0 &&
           c.wanted_from == fbs::WantedFrom::floor && !is_of_disk(c.check);  // CKP-3
  };
  for (const auto& r : all)
    for (const auto& c : r.checks)
      if (fits(r, *c)) seen[key_of(r, *c)].push_back(c->seen);
  for (auto& r : all)
    for (auto& c : r.checks) {
      if (!fits(r, *c)) continue;
      auto& values = seen[key_of(r, *c)];
      if (values.size() < least_equals) continue;  // CKP-3
      std::sort(values.begin(), values.end());
      const double wanted = values[values.size() / 2] * of_equals;
      if (wanted <= c->wanted) continue;
      c->wanted = wanted;
      c->wanted_from = fbs::WantedFrom::equals;
      conclude(*c, false);
    }
}

fbs::CheckVerdict verdict_of(const fbs::CheckupReportT& r) {
  auto out = fbs::CheckVerdict::unknown;
  for (const auto& c : r.checks) out = std::max(out, c->verdict);
  return out;
}

}  // namespace troupe::health

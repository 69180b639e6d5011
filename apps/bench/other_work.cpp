// Two looks at /proc, and what lies between (other_work.hpp).
#include "apps/bench/other_work.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "apps/bench/power_pair.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr size_t named_others = 3;
constexpr double named_from = 0.02;  ///< processors

/// Whether it is one of `roots`, or was started by one. A number that is given anew while we look
/// may make a ring of them.
bool is_of_these(const std::map<pid_t, seen_process>& all, const std::vector<pid_t>& roots,
                 pid_t at) {
  for (size_t i = 0; i <= all.size() && at != 0; ++i) {
    if (std::find(roots.begin(), roots.end(), at) != roots.end()) return true;
    const auto process = all.find(at);
    at = process == all.end() ? 0 : process->second.parent;
  }
  return false;
}

double between_looks_s(std::optional<double> before, std::optional<double> now) {
  return before && now ? *now - *before : 0;
}

}  // namespace

std::string text_of(const std::vector<busy_process>& busiest) {
  std::string out;
  for (const auto& p : busiest)
    out += fmt::format("{}{} ({}) {:.2f}", out.empty() ? "" : ", ", p.name, p.pid, p.processors);
  return out;
}

status check_free(double processors, double budget_of, const other_work& others) {
  const double wanted = least_of_job * static_cast<double>(job_count) / budget_of;
  if (processors >= wanted) return {};
  const auto who = text_of(others.busiest);
  return too_little_free(processors, wanted, others.processors, who.empty() ? who : ": " + who);
}

std::vector<busy_process> busiest_of(const std::map<pid_t, seen_process>& before,
                                     const std::map<pid_t, seen_process>& now,
                                     const std::vector<pid_t>& ours, double seconds) {
  std::vector<busy_process> out;
  for (const auto& [pid, process] : now) {
    const auto was = before.find(pid);
    const double busy_s = process.busy_s - (was == before.end() ? 0 : was->second.busy_s);
    if (busy_s < named_from * seconds || is_of_these(now, ours, pid)) continue;
    out.push_back({pid, process.name, busy_s / seconds});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.processors > b.processors; });
  if (out.size() > named_others) out.resize(named_others);
  return out;
}

others_watch::others_watch()
    : begun_s_(clock_s()),
      machine_s_(machine_busy_s()),
      ours_s_(processes_busy_s({::getpid()})),
      before_(seen_processes()) {}

other_work others_watch::seen() const {
  const double seconds = std::max(clock_s() - begun_s_, 1e-3);
  const double all_s = between_looks_s(machine_s_, machine_busy_s());
  const double own_s = between_looks_s(ours_s_, processes_busy_s({::getpid()}));
  return {std::max(0.0, all_s - own_s) / seconds,
          busiest_of(before_, seen_processes(), {::getpid()}, seconds)};
}

}  // namespace troupe::apps::power_bench

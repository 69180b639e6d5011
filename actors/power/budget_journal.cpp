// Lines, and what was said already.
#include "actors/power/budget_journal.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/power/shared_machines.hpp"
#include "io/base/printable.hpp"

namespace troupe::power {

namespace {

using nlohmann::ordered_json;

constexpr size_t shown_of_stranger = 256;

ordered_json watts_or_none(const std::optional<int64_t>& mw) {
  return mw ? ordered_json(watts_of(*mw)) : ordered_json(nullptr);
}

}  // namespace

budget_journal::budget_journal(sink to, std::vector<std::string> children)
    : to_(std::move(to)), names_(std::move(children)), told_(names_.size()) {}

void budget_journal::write(const ordered_json& line) const {
  if (to_) to_(line.dump());
}

ordered_json budget_journal::of_child(std::string_view event, size_t child) const {
  return {{"event", event}, {"child", names_[child]}};
}

void budget_journal::begins(std::string_view budget, budget_mode mode, int64_t budget_mw,
                            uint64_t epoch, std::optional<int64_t> instead_of_mw,
                            std::string_view follows, bool dry_run) {
  ordered_json line = {{"event", "begins"},
                       {"budget", budget},
                       {"mode", budget_mode_names[static_cast<size_t>(mode)]},
                       {"budget_w", watts_of(budget_mw)},
                       {"epoch", epoch},
                       {"children", names_}};
  if (instead_of_mw) line["instead_of_w"] = watts_of(*instead_of_mw);
  if (!follows.empty()) line["file"] = printable(follows);
  if (dry_run) line["dry_run"] = true;
  write(line);
}

void budget_journal::heard_first(size_t child, const power_report& r) {
  auto line = of_child("heard", child);
  line["incarnation"] = r.id.incarnation;
  line["in_force_w"] = watts_of(r.in_force_mw);
  write(line);
}

/// BJN-2
void budget_journal::refused(std::string_view who, std::string_view why) {
  auto name = printable(who, shown_of_stranger);
  if (refused_.size() >= names_told || !refused_.insert(name).second) return;
  write({{"event", "refused"}, {"who", name}, {"why", printable(why, shown_of_stranger)}});
}

/// BJN-1
void budget_journal::granted(size_t child, const power_grant& now,
                             const std::optional<power_grant>& was, const power_report& answered) {
  if (was && was->cap_mw == now.cap_mw && was->shed == now.shed) return;
  auto line = of_child("grant", child);
  line["cap_w"] = watts_of(now.cap_mw);
  line["was_w"] = watts_or_none(was ? std::optional(was->cap_mw) : std::nullopt);
  line["shed"] = now.shed;
  line["in_force_w"] = watts_of(answered.in_force_mw);
  line["drawn_w"] = watts_or_none(answered.drawn_mw);
  line["wish_w"] = watts_of(answered.wish_mw);
  line["epoch"] = now.order.epoch;
  line["sequence"] = now.order.sequence;
  write(line);
}

void budget_journal::set(int64_t budget_mw, int64_t was_mw, uint64_t for_ms, std::string_view by) {
  ordered_json line = {
      {"event", "budget"}, {"budget_w", watts_of(budget_mw)}, {"was_w", watts_of(was_mw)}};
  if (for_ms > 0) line["for_s"] = static_cast<double>(for_ms) / 1000;
  if (!by.empty()) line["by"] = printable(by, shown_of_stranger);
  write(line);
}

void budget_journal::set_ends(int64_t budget_mw, int64_t was_mw) {
  write({{"event", "budget"},
         {"budget_w", watts_of(budget_mw)},
         {"was_w", watts_of(was_mw)},
         {"why", "the time that it was set for is over"}});
}

void budget_journal::follows(int64_t budget_mw, int64_t was_mw, std::string_view file) {
  write({{"event", "budget"},
         {"budget_w", watts_of(budget_mw)},
         {"was_w", watts_of(was_mw)},
         {"file", printable(file)}});
}

void budget_journal::superseded(size_t child, uint64_t epoch) {
  if (std::exchange(told_[child].elsewhere, true)) return;
  auto line = of_child("superseded", child);
  line["epoch"] = epoch;
  write(line);
}

void budget_journal::machines(size_t child, bool counted) {
  if (counted) {
    uncounted_.erase(child);
    return;
  }
  if (!uncounted_.insert(child).second) return;
  auto line = of_child("machines_not_counted", child);
  line["why"] = fmt::format("all children name more than {} machines", shared_machines::most_names);
  write(line);
}

void budget_journal::own_lease(std::string_view above, const own_cap& own, int64_t was_mw) {
  write({{"event", own.leased ? "lease" : "lease_lapsed"},
         {"who", printable(above, shown_of_stranger)},
         {"cap_w", watts_of(own.cap_mw)},
         {"was_w", watts_of(was_mw)}});
}

void budget_journal::parent_not_heard(std::string_view above, std::string_view why) {
  write({{"event", "parent_not_heard"},
         {"who", printable(above, shown_of_stranger)},
         {"why", printable(why, shown_of_stranger)}});
}

void budget_journal::kept(const std::optional<error>& trouble) {
  if (std::exchange(unkept_, trouble.has_value()) == trouble.has_value()) return;
  ordered_json line{{"event", trouble ? "record_not_written" : "record_written_again"}};
  if (trouble) line["why"] = printable(trouble->message, shown_of_stranger);
  write(line);
}

/// BJN-1
void budget_journal::conditions(size_t child, const child_condition& now, int64_t counted_mw,
                                std::optional<int64_t> drawn_mw) {
  auto& told = told_[child];
  const auto was = std::exchange(told, now);
  told.elsewhere = was.elsewhere;
  if (now.silent != was.silent) {
    auto line = of_child(now.silent ? "silent" : "back", child);
    line["counted_w"] = watts_of(counted_mw);
    write(line);
  }
  if (now.unruly != was.unruly) {
    auto line = of_child(now.unruly ? "unruly" : "unruly_ends", child);
    line["counted_w"] = watts_of(counted_mw);
    line["drawn_w"] = watts_or_none(drawn_mw);
    write(line);
  }
}

void budget_journal::shifted(size_t child, int64_t offset_ns, int64_t period_ns) {
  auto line = of_child("shifted", child);
  line["offset_ms"] = static_cast<double>(offset_ns) / 1e6;
  line["step_ms"] = static_cast<double>(period_ns) / 1e6;
  write(line);
}

void budget_journal::short_of_floors(bool now, int64_t budget_mw, int64_t counted_mw) {
  if (std::exchange(short_, now) == now) return;
  write({{"event", now ? "short_of_floors" : "short_of_floors_ends"},
         {"budget_w", watts_of(budget_mw)},
         {"counted_w", watts_of(counted_mw)}});
}

/// BJN-1
void budget_journal::rungs_taken(const rungs& now, int64_t budget_mw,
                                 std::optional<int64_t> drawn_mw) {
  const auto was = std::exchange(level_, now.level);
  if (was == now.level) return;
  write({{"event", now.level > was ? "rung_taken" : "rung_undone"},
         {"rule", to_string(now.reason)},
         {"rungs", now.level},
         {"were", was},
         {"budget_w", watts_of(budget_mw)},
         {"drawn_w", watts_or_none(drawn_mw)},
         {"marks", std::vector<double>(now.marks.begin(), std::ranges::find(now.marks, 0.0))},
         {"low_share", now.low},
         {"high_share", now.high},
         {"unruly", now.unruly}});
}

/// BJN-1
void budget_journal::unsafe_t2(double t2, double safe_t2) {
  if (std::exchange(unsafe_, true)) return;
  write({{"event", "unsafe_t2"}, {"t2", t2}, {"safe_t2", safe_t2}});
}

void budget_journal::brake_set(bool on, std::string_view by) {
  ordered_json line{{"event", on ? "brake_on" : "brake_off"}};
  if (!by.empty()) line["by"] = printable(by, shown_of_stranger);
  write(line);
}

void budget_journal::brake(bool wanted, bool pulls, int64_t budget_mw, int64_t counted_mw,
                           std::optional<int64_t> drawn_mw) {
  const auto* begins = pulls ? "brake_pulled" : "brake_wanted";
  write({{"event", wanted ? begins : "brake_released"},
         {"budget_w", watts_of(budget_mw)},
         {"counted_w", watts_of(counted_mw)},
         {"drawn_w", watts_or_none(drawn_mw)}});
}

}  // namespace troupe::power

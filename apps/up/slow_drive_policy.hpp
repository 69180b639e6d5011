// When a person is told that steps which the drive bounds take much longer than it needs by what
// was measured at the start.
//
// Why: the limit is made of the best rates that a drive has shown. One whose cache is full, or that
// others use, too, gives a part of them for minutes: "0.14 of the limit" by itself does not say
// that nothing but the drive has changed.
//
// Pure.
//
// Invariants
//   SDR-1  Told behind two such steps in a row, since a single one may have been a person's pause
//     or another process's moment; not again before two in a row were as they should be.
//   SDR-2  Steps that the drive does not bound, or whose limit is not known, count for neither.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include "apps/report/report.hpp"
#include "gpu/swap/limit_model.hpp"

namespace troupe::apps {

class slow_drive_policy {
 public:
  /// What is to be said behind a step that took so long.
  std::optional<std::string> stepped(const report::swap_traffic& moved, double step_ms) {
    if (moved.limit_ms <= 0 || moved.bound_by != gpu::to_string(gpu::bound_by::disk)) return {};
    const double times = step_ms / moved.limit_ms;
    const bool slow = times > times_slow;
    in_a_row_ = slow == slow_before_ ? in_a_row_ + 1 : 1;
    slow_before_ = slow;
    if (in_a_row_ < steps_in_a_row || slow == told_) return {};
    told_ = slow;
    if (!slow) return {};
    const auto gb_s = [&](uint64_t bytes) { return static_cast<double>(bytes) / step_ms / 1e6; };
    return fmt::format(
        "steps take {:.1f} times as long as the drive needs by the rates measured at the start: "
        "{:.2f} GB/s are read and {:.2f} written now; others use the drive or the processors, or "
        "the drive's cache is full",
        times, gb_s(moved.read_bytes), gb_s(moved.written_bytes));
  }

 private:
  static constexpr double times_slow = 2;  // within 1.4 where little overlaps (docs/swap.md)
  static constexpr int steps_in_a_row = 2;

  int in_a_row_ = 0;
  bool slow_before_ = false, told_ = false;
};

}  // namespace troupe::apps

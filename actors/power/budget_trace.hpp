// What a served budget saw, a line of numbers each tick: its watts against what it has, its
// thresholds, caps by class, brakes.
//
//   t_s,watts,budget_w,counted_w,t1,t2,t3,low,high,brake,brakes,modelled
//   1795996982.100,61.3,70,68.2,0.8,0.89,0,0.79,1,0,2,1
//
// As a trace of watts it is one of a whole row (row_trace.hpp), and so what `plan` and `swings`
// read. A tick in which it is not known what all draw has no line: a gap.
//
// Invariants
//   BTC-1  Times rise, also where the clock goes back: in a life what is not later than the line
//     before is left out. A later life goes on in a file that ends earlier, else it has one of its
//     own (JNF-4).
//   BTC-2  What is read has just these columns, and in them what a budget can have written.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/formats/number_table.hpp"

namespace troupe::power {

/// The heading, as it stands in a file.
inline constexpr std::string_view budget_trace_heading =
    "t_s,watts,budget_w,counted_w,t1,t2,t3,low,high,brake,brakes,modelled";

/// Whose brake holds work.
enum class trace_brake : uint8_t { off, set, pulled };

/// A tick.
struct budget_trace_row {
  double t_s = 0;  ///< since 1970
  double watts = 0, budget_w = 0;
  double counted_w = 0;           ///< the most that all may draw
  double t1 = 0, t2 = 0, t3 = 0;  ///< shares of the budget; 0: it has none
  double low = 1, high = 1;  ///< what children of a class may have of their ceilings, as a share
  trace_brake brake = trace_brake::off;  ///< a person's or another budget's, or its own
  uint64_t brakes = 0;                   ///< pulled so far in this life
  bool modelled = false;                 ///< a part of the watts, at least
};

/// Makes the lines. BTC-1
class budget_trace_lines {
 public:
  /// None: it is not later than the one before.
  std::optional<std::string> line_of(const budget_trace_row& row);

 private:
  int64_t last_ms_ = 0;
};

/// Whether columns are those of such a trace.
bool is_budget_trace(const std::vector<std::string>& names);

/// Errors: bad_trace. BTC-2
result<std::vector<budget_trace_row>> budget_trace_of(const io::number_table& table);

}  // namespace troupe::power

// `troupe bench power`, brake: how long it takes until two jobs that draw more than they may do so
// no more: after their budget was cut below what they draw, and after its brake.
//
// The jobs (power_pair.hpp) work freely under a wide budget. Again and again a person's tool cuts
// it to half of what both draw, and makes it wide again; pulls the brake, and lets go. Between
// these they work for a time that is another one each time, for ticks have a phase. All of what
// both draw is above a budget that was cut to half of that, so the first reading above it is there
// when it is told. A pace is a share of time that is handed out by operations: of a budget only a
// stretch of many of them says whether it is kept, of a brake a short one does.
//
// Invariants
//   BPO-1  What counts is the processor time of the jobs' processes, by the kernel's clocks, from
//     the start of the tool on. Nothing that anybody says ends a case.
//   BPO-2  Where both drew no more than is let then there was no overload: such a case is told, and
//     left out.
//   BPO-3  What is not kept within the time that a case is watched for takes for ever.
//   BPO-4  Where both draw too little for a cut budget to let them make steps, it ends
//     (other_work.hpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/bench/draw_trace.hpp"
#include "apps/bench/power_pair.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_bench {

enum class overload_way : uint8_t { cut, brake };
struct overload_way_info {
  overload_way way;
  std::string_view id, about;
  double allowed_of;  ///< of what both keep busy without it
  double stretch_s;   ///< that has to be kept
  double watched_s;   ///< from the start of the tool on
};
inline constexpr overload_way_info overload_ways[]{
    {overload_way::cut, "cut", "`troupe power budget` to half of that: holds from next steps on",
     0.5, 4, 12},
    {overload_way::brake, "brake",
     "`troupe power brake on`: a fifth is left, for all that makes no step", 0.2, 0.25, 3},
};

struct overload_plan : pair_plan {
  int repeats = 24;  ///< of each way
};

/// Of a way, over all cases.
struct overload_row {
  overload_way way;
  double processors = 0;              ///< that both may keep busy
  std::vector<double> effect_s = {};  ///< until they did; infinite: BPO-3
  int left_out = 0;                   ///< BPO-2
};

struct overload_measurement {
  double free_processors = 0;  ///< what both keep busy under the wide budget
  double telemetry_s = 0;      ///< between two reports of a job
  double longest_op_s = 0;     ///< of any step of both
  std::vector<overload_row> rows = {};
  bool same_bits = true;
};

/// Errors: unavailable where the machine measures its watts, or a job or the budget ends by itself;
/// too_little_free; timeout where a job makes no step; cancelled.
result<overload_measurement> measure_overload(const overload_plan& plan);

/// Of what was seen of both a case that was told at `told_s`.
void judge_overload(const draw_trace& jobs, double told_s, overload_row& into);

}  // namespace troupe::apps::power_bench

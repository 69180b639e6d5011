// Which ranks, stages, links or batches make steps slow, and how long a step would take without:
// what-if analysis (Lin et al., "Understanding Stragglers in Large Model Training Using What-if
// Analysis", OSDI'25) over a window of steps.
//
//   T        replay of the recorded times, mean of the steps (whatif_graph.hpp)
//   T_ideal  replay with all operations of a kind alike: the mean of what computes, the median of
//            what transfers, over steps, micro-batches, stages and data ranks
//   S        T / T_ideal
//   S_w      of a cell w: the same with all but w ideal, taken as the least of its data rank's and
//            its stage's, which asks for data + stages replays, not for their product
//   M_W      (T - T without the worst 3 % of cells) / (T - T_ideal); "without" is with their times
//            ideal
//   M_S      the same of the last stage
//
// Causes are told apart by what of a computation's time is out of line, each taken back by itself
// and replayed; a cause is one where at least a quarter of T - T_ideal goes with it:
//   a cell's mean against the median cell of its stage            slow_host, slow_device
//   a stage's median cell against the mean of the stages'         last_stage, uneven_layers
//   a micro-batch's time against the mean of its cell, where forward and backward of a micro-batch
//     are long or short together                                  sequence_lengths
//   a link's transfers against the median                         slow_link
//   and the record against T, which holds no time between operations   host_noise
//
// Invariants
//   WIP-1  The same spans give the same report, in whatever order they come.
//   WIP-2  Where a stage is of one cell there is nobody to compare it with: the stage is named, not
//     the cell.
//   WIP-3  Below a slowdown of 1.1 nothing but host_noise is told as a cause: less is what healthy
//     jobs have.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/whatif_graph.hpp"

namespace troupe::trace {

enum class straggler_class : uint8_t {
  slow_host,         ///< all cells of a node compute longer than their peers
  slow_device,       ///< a cell does, others of its node do not, or which node it is on is unknown
  slow_link,         ///< transfers between two cells, or within a group of replicas
  last_stage,        ///< more work in the last stage than in the others
  uneven_layers,     ///< more work in another stage
  sequence_lengths,  ///< micro-batches of uneven work
  host_noise,        ///< time between operations: launch skew, garbage collection, a late loader
};

/// "slow_host", ...
std::string_view to_string(straggler_class c) noexcept;

/// A cause of slow steps.
struct straggler_cause {
  straggler_class what = straggler_class::host_noise;
  double share = 0;           ///< of T - T_ideal that goes with it; of host_noise: record / T - 1
  double without_s = 0;       ///< a step without it
  std::vector<size_t> cells;  ///< that it lies in; of a stage or of sequences: none
  int32_t stage = -1;         ///< of last_stage and uneven_layers
  std::string where;          ///< "node2", "data rank 0, stage 3"; of sequences: empty
};

/// What a cell did.
struct straggler_cell {
  int32_t data = 0, pipeline = 0;
  double slowdown = 1;                      ///< S_w
  std::array<double, whatif_ops> mean_s{};  ///< by operation; 0 where it has none
};

struct straggler_report {
  size_t steps = 0, left_out = 0;               ///< in the analysis, and not whole (WIG-1)
  double recorded_s = 0, t_s = 0, ideal_s = 0;  ///< a step
  double s = 1, m_w = 0, m_s = 0;
  double forward_backward = 0;  ///< correlation over micro-batches, within cells
  std::array<double, whatif_ops> slowdown_by_op{};  ///< all others ideal; 0 where there is none
  std::vector<straggler_cell> cells;                ///< by whatif_layout::cell
  std::vector<straggler_cause> causes;              ///< the largest share first, host_noise last
};

/// Thinks; knows no file and no clock.
class whatif_policy {
 public:
  /// Less than this is no straggling (OSDI'25, 4.1).
  static constexpr double least_slowdown = 1.1;
  /// What of the time lost goes with a cause, at least.
  static constexpr double least_share = 0.25;
  /// Forward and backward of a micro-batch are long together (OSDI'25, 5.3).
  static constexpr double least_correlation = 0.9;
  /// A cell this much slower than its peers is slow (MegaScale, 6.3: hosts ~10 % slow).
  static constexpr double slow_cell = 1.1;
  /// The record may be this much longer than its replay: the 90th percentile of healthy and
  /// unhealthy jobs (OSDI'25, 6).
  static constexpr double noise_allowed = 0.055;

  explicit whatif_policy(whatif_graph graph) : graph_(std::move(graph)) {}

  straggler_report report() const;
  const whatif_graph& graph() const noexcept { return graph_; }

 private:
  whatif_graph graph_;
};

/// What to call a cell: its own name, else "data rank 0, stage 3".
std::string cell_name(const whatif_layout& layout, size_t cell);

/// Words and numbers for a person, lines ending with '\n'.
std::string stragglers_text(const straggler_report& r, const whatif_layout& layout);

/// One JSON object without a line end: {"type":"stragglers","t_s":...,"S":...,"cells":[...],
/// "causes":[...]}.
std::string stragglers_json(const straggler_report& r, const whatif_layout& layout);

/// A heat map as SVG: data ranks across, stages down; slowdown and times of operations.
std::string stragglers_svg(const straggler_report& r, const whatif_layout& layout);

}  // namespace troupe::trace

// What the operations of training steps waited for: a graph over the spans of a window of steps,
// that can be replayed with other times than those recorded.
//
// Why: how long a step would take if a rank, a stage or a link were as fast as the others cannot be
// read off a trace, as most of a span's neighbours would move with it. Replayed, they do (Lin et
// al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI'25, 3.2).
//
// Edges, within one step:
//   - the operations of a stream of a rank run in the order in which they began;
//   - a forward needs what it receives and the parameters gathered for its chunk, a backward the
//     gradient it receives; what is sent needs what computed it;
//   - a receive is posted when the operation before the one that needs it has ended;
//   - a collective of a rank needs the device's work begun before it (the last backward before the
//     reduction of gradients), and all of the device's work but forwards and backwards the
//     collectives that had ended before it. A collective that began while that work went on begins
//     at the same share of it.
// A transfer ends for each of its members when the last one has come, and its own transfer time
// later.
//
// Invariants
//   WIG-1  A step is in the graph whole or not at all: each rank has the operations that it has in
//     most steps, and no operation waits for itself. How many are left out is told.
//   WIG-2  What the record only suggests (that a collective came after other work of its rank) is
//     no edge where the record has them overlap. What it cannot but be is one, whatever the clocks
//     of streams say.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::trace {

/// What ranks do in a step.
enum class whatif_op : uint8_t {
  forward,
  backward,
  receive_activation,
  receive_gradient,
  send_activation,
  send_gradient,
  all_gather,         ///< of parameters, over replicas
  reduce_scatter,     ///< of gradients, over replicas
  all_reduce,         ///< of a number, over replicas
  all_gather_norms,   ///< over replicas
  reduce_norm_grads,  ///< of layer norms, over the ranks that share a layer: one cell
  reduce_embeddings,  ///< of a tied table, first and last stage of a replica
  clip,               ///< of all ranks' norms
  collect_garbage,
  norm,
  measure,
  update,
  count,
};
inline constexpr size_t whatif_ops = static_cast<size_t>(whatif_op::count);

/// "forward", ..., as `troupe trace stats` calls them; the rest in the same manner.
std::string_view to_string(whatif_op op) noexcept;

/// Whether it moves bytes with others, so that its span holds waiting for them.
bool is_transfer(whatif_op op) noexcept;

/// One operation of one cell: a rank, or the ranks that share each of its tensors.
struct whatif_span {
  uint64_t step = 0;
  int32_t data = 0, pipeline = 0;
  whatif_op op = whatif_op::count;
  int32_t chunk = 0;   ///< which of the cell's parts of the model
  int32_t number = 0;  ///< its micro-batch; of others: which of its kind
  uint64_t bytes = 0;  ///< moved; transfers of the same number of bytes are alike
  int64_t begin_ns = 0, end_ns = 0;

  int64_t took_ns() const noexcept { return end_ns - begin_ns; }
};

/// How many cells there are on each axis, and where each of them is.
struct whatif_layout {
  int32_t data = 1, pipeline = 1;
  /// By cell; empty: unknown. Cells of one host share a name.
  std::vector<std::string> hosts;
  /// By cell, what to call it; empty: "rank (data, pipeline)".
  std::vector<std::string> names;

  size_t cells() const noexcept {
    return static_cast<size_t>(data) * static_cast<size_t>(pipeline);
  }
  size_t cell(int32_t data_rank, int32_t stage) const noexcept {
    return static_cast<size_t>(data_rank) * static_cast<size_t>(pipeline) +
           static_cast<size_t>(stage);
  }
  size_t cell(const whatif_span& s) const noexcept { return cell(s.data, s.pipeline); }
};

/// The most cells that are believed.
inline constexpr size_t max_whatif_cells = 1u << 16;

inline constexpr error_kind<int64_t, int, int, int, int> outside_layout{
    "outside_layout", errc::bad_data,
    "step {}: data rank {}, stage {} is not of a layout of {} x {}"};
inline constexpr error_kind<> no_whole_step{
    "no_whole_step", errc::bad_data, "no step of the trace is whole",
    "a step counts when each rank has the operations that it has in most steps"};

class whatif_graph {
 public:
  /// Errors: bad_data where a span lies outside of the layout or no step is whole.
  static result<whatif_graph> build(whatif_layout layout, std::vector<whatif_span> spans);

  const whatif_layout& layout() const noexcept { return layout_; }
  /// Of the steps that are in the graph, in the order of step, cell and begin.
  const std::vector<whatif_span>& spans() const noexcept { return spans_; }
  size_t steps() const noexcept { return step_begins_.size(); }
  size_t left_out() const noexcept { return left_out_; }

  /// By span, seconds: how long it took; of a transfer from the coming of its last member to its
  /// own end.
  const std::vector<double>& times() const noexcept { return times_; }

  /// How long the steps take when the spans take so long (seconds); the mean of the steps.
  double replay(const std::vector<double>& times_s) const;
  /// As recorded, with all that the replay leaves out.
  double recorded_s() const noexcept { return recorded_s_; }

  /// By span, seconds: from the end of all that it waited for to its begin, in the record.
  std::vector<double> launch_delays() const;

  /// By span: which spans transfer with each other; of other spans a number of their own.
  const std::vector<uint32_t>& groups() const noexcept { return group_; }

 private:
  friend class whatif_builder;

  struct edge {
    uint32_t from = 0;
    float share = -1;  ///< of `from`'s work that comes before; -1: its end
  };

  whatif_layout layout_;
  std::vector<whatif_span> spans_;
  std::vector<double> times_;
  std::vector<edge> edges_;             ///< what spans wait for
  std::vector<uint32_t> first_edge_;    ///< by span, one more
  std::vector<uint32_t> group_;         ///< by span
  std::vector<uint32_t> members_;       ///< of groups
  std::vector<uint32_t> first_member_;  ///< by group, one more
  std::vector<uint32_t> order_;         ///< spans, and groups from spans_.size() on
  std::vector<uint32_t> step_begins_;   ///< first span of each step
  std::vector<int64_t> step_begin_ns_;
  size_t left_out_ = 0;
  double recorded_s_ = 0;
};

}  // namespace troupe::trace

// Which parts of ranks' steps take lastingly more than what their node's own machine was probed to
// do allows. Needs no peers: a pair of nodes, or all of them, may be set up wrong, with too few
// threads, bound to the wrong processors, at a low clock.
//
// Evidence alone: the predictor tells the monitor of it (Suspect), which finds.
//
// Pure. A roofline of probes is only right up to a factor, and says nothing of work that is not
// products or updates. So judged is what is large enough for that not to matter, against a multiple
// that sound jobs stay away from (docs/predict.md), by windows of steps that all agree.
//
// Invariants
//   PBL-1  A part is judged where its roofline is `least_ms` of a step and more, and
//     `least_piece_ms` of each layer and micro-batch; products only of a model that is
//     `least_hidden` wide and more, four times that in bfloat16, whose products are so quick that
//     the rest counts. A part whose time may be in what a roofline leaves out is never named.
//   PBL-2  Named is a part whose median was beyond the limit in each of the last `windows`
//     windows, and no more once it was within in `windows_back` running. Each is told of once, and
//     so is its end, `told_kept` of them at once.
//   PBL-3  Steps that are not as others are, and the first of an epoch, say nothing; nor does a
//     rank that is on another node, or has other layers, than it was planned for when its node was
//     probed. A new epoch and a new profile begin anew.
//   PBL-4  Nodes of one machine share its processors: where their ranks have more threads in all
//     than were probed, each is allowed as much longer. Attention is done by heads: where a
//     micro-batch has fewer of them than a rank has threads, its share of the products is allowed
//     as much longer. How many threads a rank really has is no excuse: the limit is of those that
//     the job gives it.
//   PBL-5  What is kept is bounded by the job's ranks; nothing is of those without probes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/predict/learning_policy.hpp"
#include "gpu/predict/roofline.hpp"
#include "io/base/model_config.hpp"
#include "io/config/job.hpp"
#include "messages/step_parts.hpp"

namespace troupe::predict {

struct probed_limit_options {
  double times = gpu::predict::roofline_most;  ///< the roofline; 0: nobody is named
  size_t windows = 12;        ///< running, that are beyond
  size_t windows_back = 4;    ///< running, that are within
  size_t first_steps = 3;     ///< of an epoch
  double least_ms = 20;       ///< of a step's roofline
  double least_piece_ms = 1;  ///< of that, of a layer and micro-batch; an update has one piece
  int64_t least_hidden = 256;
  size_t told_kept = 64;
};

class probed_limit_policy {
 public:
  probed_limit_policy() = default;
  /// Of a settled job, and what its model is: the job has no numbers of one that a folder is.
  explicit probed_limit_policy(const config::job& job, probed_limit_options options = {},
                               const model_config& model = {});

  /// Before the node's ranks make steps: once in each epoch.
  void hear_probes(const probed_node& node);
  void hear(const learned_step& step);

  /// What takes too long or ceased to since this was asked last (PBL-2): expected of it is the
  /// roofline as it is usually reached, at most the limit.
  std::vector<suspected_part> take() { return std::exchange(told_, {}); }
  size_t suspects() const noexcept { return named_.size(); }

 private:
  static constexpr size_t window_steps = 8;
  using key = std::pair<uint32_t, train::pipeline_op>;
  struct planned_rank {
    std::string node;
    std::string machine;  ///< the node's host; where that is not known, the node
    uint32_t layers = 0, threads = 0;
    double probe_threads = 0;
    std::vector<train::step_part> parts;  ///< by the roofline
  };
  /// Of a part that is large enough.
  struct judged {
    std::array<float, window_steps> ms{};
    uint32_t steps = 0, beyond = 0, within = 0;  ///< windows running
  };

  /// By what its roofline is divided to be a layer's of a micro-batch (PBL-1).
  double pieces_of(const planned_rank& rank, train::pipeline_op part) const;
  /// The part's roofline there, of so much work; nothing: it is not judged.
  std::optional<double> roofline_ms(const planned_rank& rank, const train::step_part& told) const;
  /// PBL-4.
  double shared_by(const planned_rank& rank);
  double longer_by_heads(const planned_rank& rank, train::pipeline_op part) const;
  void hear_rank(const learned_rank& rank);
  void judge(const key& of, const planned_rank& rank, judged& w, double roofline);
  void end(key of);
  void drop();
  void drop_rank(uint32_t rank);

  probed_limit_options options_;
  int64_t ranks_ = 0, hidden_ = 0;
  double micro_batches_ = 1;
  /// Heads of a micro-batch; attention's share of a layer's products, at most.
  double forward_heads_ = 1, backward_heads_ = 1, attention_share_ = 0;
  uint32_t epoch_ = 0;
  size_t steps_of_epoch_ = 0;
  std::map<uint32_t, planned_rank> planned_;
  /// By machine, of the planned ranks: their threads over those that were probed. Empty: to be
  /// summed.
  std::map<std::string, double> shares_;
  std::map<key, judged> windows_;
  std::set<key> named_;
  std::vector<suspected_part> told_;
};

}  // namespace troupe::predict

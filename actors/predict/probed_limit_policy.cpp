// Medians of windows against rooflines: see probed_limit_policy.hpp.
#include "actors/predict/probed_limit_policy.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "gpu/predict/roofline.hpp"
#include "io/base/median.hpp"

namespace troupe::predict {

using train::pipeline_op;

probed_limit_policy::probed_limit_policy(const config::job& job, probed_limit_options options,
                                         const model_config& model)
    : options_(options), ranks_(job.grid().ranks()) {
  const auto samples = job.train.micro_batch * job.parallel.data;
  if (samples > 0)
    micro_batches_ =
        std::max(1.0, static_cast<double>(job.train.batch) / static_cast<double>(samples));
  const bool is_known = model.hidden > 0;
  hidden_ = is_known ? model.hidden : job.model.hidden;
  const auto heads = is_known ? model.heads : job.model.heads;
  const auto kv_heads = is_known ? model.kv_heads : job.model.kv_heads;
  const auto ffn = is_known ? model.ffn : job.model.ffn;
  const auto pieces = [&](int64_t n) {
    return static_cast<double>(std::max<int64_t>(1, n) *
                               std::max<int64_t>(1, job.train.micro_batch));
  };
  forward_heads_ = pieces(heads);
  backward_heads_ = pieces(kv_heads > 0 ? kv_heads : heads);
  // Of a token and layer: attention 4 x hidden x sequence, the others 4 x hidden x (hidden + ffn)
  // and more.
  const auto sequence = static_cast<double>(job.train.seq_len);
  const auto others = static_cast<double>(hidden_ + (ffn > 0 ? ffn : 4 * hidden_));
  if (sequence > 0) attention_share_ = sequence / (sequence + others);
  if (job.model.dtype == config::compute_dtype::bf16) options_.least_hidden *= 4;
  if (job.predict.suspect_percent == 0) options_.times = 0;  // nobody is to be named
}

void probed_limit_policy::hear_probes(const probed_node& node) {
  const double threads = node.profile.probe_threads.value_or(0);
  const auto& machine = node.host.empty() ? node.node : node.host;
  shares_.clear();
  for (const auto& r : node.ranks) {
    if (r.rank >= ranks_) continue;  // PBL-5
    drop_rank(r.rank);
    planned_[r.rank] = {node.node, machine, r.layers, r.threads, threads, r.parts};
  }
}

double probed_limit_policy::pieces_of(const planned_rank& rank, pipeline_op part) const {
  return part == pipeline_op::update ? 1 : micro_batches_ * std::max<uint32_t>(rank.layers, 1);
}

std::optional<double> probed_limit_policy::roofline_ms(const planned_rank& rank,
                                                       const train::step_part& told) const {
  const auto by_probes = std::ranges::find(rank.parts, told.kind, &train::step_part::kind);
  if (by_probes == rank.parts.end() || by_probes->work == 0 || told.work == 0) return std::nullopt;
  if (told.kind != pipeline_op::update && hidden_ < options_.least_hidden) return std::nullopt;
  const double more = static_cast<double>(told.work) / static_cast<double>(by_probes->work);
  const double ms = by_probes->busy_ms * more;
  const bool is_large = std::isfinite(ms) && ms >= options_.least_ms &&
                        ms / pieces_of(rank, told.kind) / more >= options_.least_piece_ms;
  return is_large ? std::optional(ms) : std::nullopt;
}

double probed_limit_policy::shared_by(const planned_rank& rank) {
  if (shares_.empty())
    for (const auto& [number, p] : planned_)
      if (p.probe_threads > 0) shares_[p.machine] += std::min(1.0, p.threads / p.probe_threads);
  const auto found = shares_.find(rank.machine);
  const double share = found == shares_.end() ? 1.0 : found->second;
  return std::max(1.0, share);
}

double probed_limit_policy::longer_by_heads(const planned_rank& rank, pipeline_op part) const {
  if (part == pipeline_op::update) return 1;
  const double heads = part == pipeline_op::forward ? forward_heads_ : backward_heads_;
  const double threads = std::max(1.0, static_cast<double>(rank.threads));
  const double turns = std::ceil(heads / threads) * threads / heads;
  return 1 + attention_share_ * (turns - 1);
}

void probed_limit_policy::hear(const learned_step& step) {
  if (!(options_.times > 0) || planned_.empty() || step.epoch < epoch_) return;
  if (step.epoch > epoch_) {
    epoch_ = step.epoch;
    steps_of_epoch_ = 0;
    drop();
  }
  ++steps_of_epoch_;
  if (!step.usual || steps_of_epoch_ <= options_.first_steps) return;  // PBL-3
  for (const auto& rank : step.ranks) hear_rank(rank);
}

void probed_limit_policy::hear_rank(const learned_rank& rank) {
  const auto planned = planned_.find(rank.rank);
  if (planned == planned_.end()) return;
  const auto& is = planned->second;
  if (is.node != rank.node || is.layers != rank.layers) return drop_rank(rank.rank);  // PBL-3
  for (const auto& part : rank.parts) {
    const auto roofline = roofline_ms(is, part);
    if (!roofline || !(part.busy_ms > 0)) continue;
    auto& w = windows_[{rank.rank, part.kind}];
    w.ms[w.steps++] = static_cast<float>(part.busy_ms);
    if (w.steps == window_steps) judge({rank.rank, part.kind}, is, w, *roofline);
  }
}

void probed_limit_policy::judge(const key& of, const planned_rank& rank, judged& w,
                                double roofline) {
  w.steps = 0;
  const auto middle_ms = static_cast<double>(upper_median(std::span<float>(w.ms)));
  const double allowed_ms = roofline * shared_by(rank) * longer_by_heads(rank, of.second);
  const bool is_beyond = middle_ms > options_.times * allowed_ms;
  w.beyond = is_beyond ? w.beyond + 1 : 0;
  w.within = is_beyond ? 0 : w.within + 1;
  if (w.within >= options_.windows_back) end(of);
  const bool is_lasting = w.beyond >= options_.windows;
  if (!is_lasting || named_.contains(of) || named_.size() == options_.told_kept) return;
  named_.insert(of);
  gpu::predict::step_estimate expected;
  expected.seconds = gpu::predict::roofline_usual * allowed_ms / 1e3;
  expected.least_s = gpu::predict::roofline_least * allowed_ms / 1e3;
  expected.most_s = options_.times * allowed_ms / 1e3;
  told_.push_back({of.first, rank.node, of.second, middle_ms, expected, false, true});
}

void probed_limit_policy::end(key of) {
  if (named_.erase(of) == 0) return;
  const auto at = planned_.find(of.first);
  told_.push_back(
      {of.first, at != planned_.end() ? at->second.node : "", of.second, 0, {}, true, true});
}

void probed_limit_policy::drop() {
  while (!named_.empty()) end(*named_.begin());
  windows_.clear();
}

void probed_limit_policy::drop_rank(uint32_t rank) {
  for (const auto part : {pipeline_op::forward, pipeline_op::backward, pipeline_op::update}) {
    end({rank, part});
    windows_.erase({rank, part});
  }
}

}  // namespace troupe::predict

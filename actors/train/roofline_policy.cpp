// A stage's work over its machine's rates.
#include "actors/train/roofline_policy.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::train {

namespace {

/// What so many threads have of what all of the probe's reached; nothing where that is not known.
std::optional<double> share_of_threads(const io::perf::hw_profile& is, int threads) {
  if (!is.probe_threads || !(*is.probe_threads > 0) || threads < 1) return std::nullopt;
  return std::min(1.0, threads / *is.probe_threads);
}

}  // namespace

std::optional<double> probed_flops_s(const io::perf::hw_profile& is, config::compute_dtype dtype,
                                     int threads) {
  const auto& rate = dtype == config::compute_dtype::bf16 ? is.gemm_bf16_gflop_s : is.gemm_gflop_s;
  const auto share = share_of_threads(is, threads);
  if (!rate || !share) return std::nullopt;
  return *share * 1e9 * *rate;
}

std::optional<double> probed_updates_s(const io::perf::hw_profile& is, int threads) {
  const auto share = share_of_threads(is, threads);
  if (!is.adamw_mparam_s || !share) return std::nullopt;
  return *share * 1e6 * *is.adamw_mparam_s;
}

std::vector<step_part> roofline_parts(const job_plan& plan, const planned_stage& stage,
                                      const io::perf::hw_profile& is, int threads) {
  std::vector<step_part> out;
  if (!plan.job.swap.dir.empty()) return out;
  const auto flops_s = probed_flops_s(is, plan.job.model.dtype, threads);
  const auto updates_s = probed_updates_s(is, threads);
  const auto takes = seconds_of(stage, plan, flops_s.value_or(1), updates_s.value_or(1));
  const auto micro_batches = static_cast<double>(plan.micro_batches);
  const auto tokens = static_cast<uint64_t>(plan.micro_batches * plan.job.train.micro_batch *
                                            plan.job.train.seq_len);
  if (flops_s) {
    out.push_back({pipeline_op::forward, 1e3 * micro_batches * takes.forward, 0, tokens});
    out.push_back({pipeline_op::backward, 1e3 * micro_batches * takes.backward, 0, tokens});
  }
  if (updates_s)
    out.push_back({pipeline_op::update, 1e3 * takes.update, 0,
                   static_cast<uint64_t>(stage.parameters / plan.job.parallel.data)});
  return out;
}

}  // namespace troupe::train

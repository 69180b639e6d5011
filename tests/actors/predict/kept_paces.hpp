// Kept times of parts, as runs whose nodes were so quick leave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/predict/own_past_policy.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/config/job.hpp"
#include "io/config/work_shape.hpp"
#include "io/perf/part_times.hpp"

namespace troupe::predict::test {

/// What a rank was in a run.
struct kept_rank {
  std::string node;
  io::perf::machine_print machine = {};
  double flops_s = 0;
  int64_t layers = 1;
  bool has_head = false;
  int64_t threads = 1;
  uint64_t run = 1;
  uint64_t windows = 8;  ///< of each part
};

/// Its forward and its backward, which takes twice as long.
inline std::vector<io::perf::part_time> kept_of(const kept_rank& r, const config::job& job,
                                                const model_config& model) {
  const double tokens = 4096;
  const double passes = job.model.recompute ? 4 : 3;
  double flops =
      static_cast<double>(r.layers) * gpu::layer_flops(model, job.train.seq_len) * passes / 3;
  if (r.has_head) flops += 6 * static_cast<double>(model.vocab * model.hidden);
  const double seconds = tokens * flops / r.flops_s;
  auto features = config::work_shape_of(job);
  features[static_cast<size_t>(config::work_feature::layers)] = static_cast<double>(r.layers);
  features[static_cast<size_t>(config::work_feature::threads)] = static_cast<double>(r.threads);
  features.insert(features.end(), {job.swap.dir.empty() ? 1.0 : 2.0, 1, tokens});
  const auto sum = work_sum(job, model) + (r.has_head ? 2 : 1);
  return {{"forward", r.node, features, seconds / 3, r.windows, r.machine, r.run, sum},
          {"backward", r.node, features, seconds * 2 / 3, r.windows, r.machine, r.run, sum}};
}

inline std::vector<io::perf::part_time> kept_of(const std::vector<kept_rank>& ranks,
                                                const config::job& job, const model_config& model) {
  std::vector<io::perf::part_time> out;
  for (const auto& r : ranks)
    for (auto& t : kept_of(r, job, model)) out.push_back(std::move(t));
  return out;
}

}  // namespace troupe::predict::test

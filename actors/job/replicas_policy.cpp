// Divisors of a batch, and places from the first on.
#include "actors/job/replicas_policy.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::train {

std::vector<int64_t> replica_counts(const config::job& job) {
  std::vector<int64_t> out{job.parallel.data};
  const auto rows = std::max<int64_t>(1, job.train.micro_batch);
  for (int64_t n = job.parallel.data - 1; n > 0; --n)
    if (job.train.batch % (n * rows) == 0) out.push_back(n);
  return out;
}

size_t places_for(const config::job& job, int64_t replicas) {
  const auto& nodes = job.cluster.node;
  const auto places = static_cast<size_t>(job.cluster.places());
  size_t used = 0;
  for (int64_t ranks = replicas * job.parallel.pipeline; ranks > 0 && used < places; ++used)
    ranks -= nodes[used].workers;
  return used;
}

result<job_plan> with_replicas(const job_plan& whole, int64_t replicas) {
  if (replicas == whole.job.parallel.data) return whole;
  auto plan = whole;
  auto& job = plan.job;
  job.parallel.data = replicas;
  job.inject.clear();
  auto& cluster = job.cluster;
  cluster.node.resize(places_for(whole.job, replicas));
  cluster.nodes = std::ssize(cluster.node);
  cluster.spares = 0;
  if (!job.parallel.nodes.empty()) {  // names nodes that there are no more
    std::vector<std::string_view> names;
    for (const auto& n : cluster.node) names.emplace_back(n.name);
    job.parallel.nodes = fmt::format("{}", fmt::join(names, ","));
  }
  if (!cluster.node.empty()) cluster.node.back().workers -= job.workers() - job.grid().ranks();
  plan.micro_batches = job.micro_batches();
  // GPUs are handed out in turn, so that fewer ranks share each.
  const auto all = whole.job.parallel.data;
  plan.gpu_at.ranks = (whole.gpu_at.ranks * replicas + all - 1) / all;
  cluster_shape shape{{}, job.grid(), {}};
  for (const auto& n : cluster.node) shape.workers.push_back(n.workers);
  for (int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
    const auto first = static_cast<size_t>(stage * whole.job.parallel.data);
    shape.stages.push_back(whole.ranks.at(first).layers);
  }
  TROUPE_TRY(ranks, place_ranks(shape));
  plan.ranks = std::move(ranks);
  return plan;
}

}  // namespace troupe::train

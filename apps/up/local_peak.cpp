// Threads of all workers, measured together: see local_peak.hpp.
#include "apps/up/local_peak.hpp"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

namespace troupe::apps {

std::shared_ptr<ceiling_watch> local_peak(const config::job& job) {
  if (job.cluster.launch != config::launch_mode::local) return nullptr;
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t each =
      job.cluster.threads > 0 ? job.cluster.threads : std::max<int64_t>(1, cores / job.workers());
  const auto type =
      job.model.dtype == config::compute_dtype::bf16 ? gpu::dtype::bf16 : gpu::dtype::f32;
  auto peak = ceiling::make(type, static_cast<int>(std::min(cores, each * job.workers())));
  if (!peak) return nullptr;
  return std::make_shared<ceiling_watch>(std::make_shared<ceiling>(std::move(*peak)));
}

}  // namespace troupe::apps

// Sums against limits.
#include "actors/train/readiness_policy.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/device_policy.hpp"
#include "actors/train/inputs.hpp"
#include "actors/train/swap_ranks.hpp"
#include "actors/train/swap_to_fit.hpp"
#include "gpu/cuda/working_memory.hpp"
#include "io/base/text.hpp"

namespace troupe::train {

namespace {

bool is_local(const job_plan& plan) {
  return plan.job.cluster.launch == config::launch_mode::local;
}

/// What the ranks of a local job would compute on.
result<device_choice> devices_of(const job_plan& plan, const machine& m) {
  std::vector<node_devices> nodes;
  for (const auto& n : plan.job.cluster.node) nodes.push_back({n.name, "", std::ssize(m.gpus)});
  std::vector<int64_t> node_of;
  for (const auto& r : plan.ranks) node_of.push_back(r.node);
  return choose_devices(plan.job.cluster.device, nodes, node_of);
}

bool on_host(const device_choice& devices) {
  return devices.names.empty() || devices.names.front() == "host";
}

/// Of "cuda:N".
size_t number_of(const std::string& name) {
  return std::stoul(name.substr(name.find(':') + 1));
}

/// What a rank's operations take of a GPU beside its stage.
uint64_t gpu_scratch_bytes(const job_plan& plan, const planned_stage& s, uint64_t memory_bytes) {
  const bool has_head = s.pipeline_rank + 1 == plan.job.parallel.pipeline;
  return gpu::cuda::rank_scratch_bytes(plan.job.train.micro_batch * plan.job.train.seq_len,
                                       has_head ? plan.model.vocab : 0, memory_bytes);
}

/// What the ranks of a GPU take of it, and what of that is not their stages'.
struct gpu_share {
  uint64_t bytes = 0, scratch = 0;
};

/// By the numbers of GPUs.
std::map<size_t, gpu_share> gpu_shares(const job_plan& plan, const machine& m,
                                       const device_choice& devices,
                                       const std::vector<planned_stage>& stages) {
  std::map<size_t, gpu_share> out;
  for (const auto& s : stages)
    for (const auto rank : s.ranks) {
      const size_t number = number_of(devices.names[static_cast<size_t>(rank)]);
      const uint64_t scratch = gpu_scratch_bytes(plan, s, m.gpus[number].memory_bytes);
      out[number].bytes += s.bytes.total() + scratch;
      out[number].scratch += scratch;
    }
  return out;
}

status check_devices(const job_plan& plan, const machine& m) {
  if (!is_local(plan) || plan.job.cluster.device != config::device_kind::cuda || !m.gpus.empty())
    return {};
  return gpus_lacking(m.no_gpus.message.empty() ? "this machine has no GPU" : m.no_gpus.message,
                      m.no_gpus.hint.empty() ? "set cluster.device = \"host\"" : m.no_gpus.hint);
}

status check_threads(const job_plan& plan, const machine& m) {
  const auto& c = plan.job.cluster;
  const int64_t limit = std::max(threads_floor, threads_per_core_limit * m.cores);
  if (!is_local(plan) || c.threads == 0 || c.threads * plan.job.workers() <= limit) return {};
  return cores_lacking(c.threads, plan.job.workers(), c.threads * plan.job.workers(), limit,
                       m.cores);
}

/// Of any job, wherever its nodes are.
status check_copies(const job_plan& plan) {
  const auto most = static_cast<uint64_t>(plan.job.checkpoint.memory.bytes);
  const auto needed = copies_of_nodes(plan, plan_stages(plan));
  for (size_t n = 0; n < needed.size(); ++n)
    if (needed[n] > most)
      return copies_lacking(plan.job.cluster.node[n].name, bytes_text(needed[n]), bytes_text(most));
  return {};
}

}  // namespace

status enough_memory(const job_plan& plan, std::string_view what, uint64_t needed, uint64_t has,
                     std::string_view whose, const memory_limits& limits) {
  if (needed <= has) return {};
  std::string hint;
  const auto or_else = [&] { return hint.empty() ? "" : "; or "; };
  for (const auto& w : ways_to_fit(plan, limits.stage))
    hint += fmt::format("{}--set {} makes it {} a stage{}", or_else(), w.setting,
                        bytes_text(w.bytes), w.same_result ? "" : " (other rounding)");
  const auto swapping = limits.process > 0 ? swapping_to_fit(plan, limits.process) : std::nullopt;
  if (swapping) hint += fmt::format("{}{}", or_else(), swap_to_fit_text(*swapping));
  if (hint.empty()) hint = "use a smaller model, or machines with more memory";
  return memory_lacking(what, bytes_text(needed), bytes_text(has), whose, hint);
}

void place_on_gpus(job_plan& plan, const machine& m) {
  plan.gpu_at = {};
  if (!is_local(plan)) {  // by what the job says of its nodes' GPUs
    if (plan.job.cluster.device == config::device_kind::cuda)
      plan.gpu_at.bytes = static_cast<uint64_t>(plan.job.swap.device_bytes);
    return;
  }
  const auto devices = devices_of(plan, m);
  if (!devices || on_host(*devices)) return;
  std::map<size_t, int64_t> ranks;
  for (const auto& name : devices->names) ++ranks[number_of(name)];
  for (const auto& [number, count] : ranks) {
    const auto bytes = m.gpus[number].memory_bytes;
    plan.gpu_at.bytes = plan.gpu_at.bytes == 0 ? bytes : std::min(plan.gpu_at.bytes, bytes);
    plan.gpu_at.ranks = std::max(plan.gpu_at.ranks, count);
  }
}

uint64_t process_limit(const job_plan& plan, const machine& m) {
  const auto devices = devices_of(plan, m);
  if (!is_local(plan) || !devices || (!on_host(*devices) && plan.gpu_at.bytes == 0)) return 0;
  const auto left = m.memory_bytes - std::min(m.memory_bytes, idle_process_bytes);
  return left / std::max<uint64_t>(1, plan.job.cluster.node.size());
}

status fits_memory(const job_plan& plan, const machine& m) {
  const auto devices = devices_of(plan, m);
  if (!is_local(plan) || !devices) return {};  // without GPUs: check_devices
  const auto stages = plan_stages(plan);
  if (!on_host(*devices))
    for (const auto& [number, share] : gpu_shares(plan, m, *devices, stages)) {
      const auto& gpu = m.gpus[number];
      const auto ranks =
          std::count(devices->names.begin(), devices->names.end(), fmt::format("cuda:{}", number));
      const uint64_t for_stages = gpu.memory_bytes - std::min(gpu.memory_bytes, share.scratch);
      TROUPE_CHECK(enough_memory(plan, fmt::format("what GPU {} computes", number), share.bytes,
                                 gpu.memory_bytes, gpu.name,
                                 {for_stages / static_cast<uint64_t>(std::max<int64_t>(1, ranks)),
                                  process_limit(plan, m)}));
    }
  if (m.memory_bytes == 0) return {};
  const auto share = share_of_machine(plan, stages, on_host(*devices));
  const uint64_t others = share.total() - share.stages;
  const uint64_t rest = m.memory_bytes > others ? m.memory_bytes - others : 0;
  return enough_memory(plan, "the job", share.total(), m.memory_bytes, m.memory_whose,
                       {rest / static_cast<uint64_t>(std::max<int64_t>(1, plan.job.workers())),
                        process_limit(plan, m)});
}

findings judge(const job_plan& plan, const machine& m) {
  findings out;
  out.note("cluster.device", check_devices(plan, m));
  out.note("cluster.threads", check_threads(plan, m));
  out.note("checkpoint.memory.bytes", check_copies(plan));
  // As many as its ranks will have here: each needs scratch of its own.
  const int threads = is_local(plan) ? threads_on(plan.job.cluster, m.cores) : 1;
  const auto budget = fits_swap_budget(plan, threads);
  const bool of_gpu = !budget && budget.error().is(gpu::device_budget_too_small);
  out.note(of_gpu ? "swap.device_bytes" : "swap.host_bytes", budget);
  const auto batch = batch_memory::check(batch_of(plan.job), train_slots + validation_slots);
  out.note("train.batch", batch);
  if (batch) out.note("", fits_memory(plan, m));  // else it says no more
  return out;
}

}  // namespace troupe::train

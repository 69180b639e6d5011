// `troupe plan`: what a configuration will need on each pipeline stage, before anything starts.
#include <sys/sysinfo.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/train/memory_policy.hpp"
#include "apps/commands.hpp"
#include "apps/job_arguments.hpp"
#include "gpu/back_end.hpp"

namespace troupe::apps {

namespace {

struct plan_arguments {
  job_arguments job;
  uint64_t memory = 0;  ///< bytes of a device; 0 = as this machine has it
  bool json = false;
};

/// What a device has, and whose number that is.
struct memory_had {
  uint64_t bytes = 0;
  std::string whose;
};

/// Bytes of one worker's device, as far as this machine can tell for the job.
memory_had memory_had_by(const plan_arguments& a, const config::job& job) {
  if (a.memory > 0) return {a.memory, "--memory"};
  if (job.cluster.device != config::device_kind::host && !gpu::accelerators().empty())
    if (auto gpu = gpu::open_device("cuda"))
      return {(*gpu)->facts().memory_bytes, (*gpu)->facts().name};
  struct sysinfo facts {};
  if (job.cluster.launch != config::launch_mode::local || sysinfo(&facts) != 0) return {};
  const uint64_t all = uint64_t{facts.totalram} * facts.mem_unit;
  return {all / static_cast<uint64_t>(std::max<int64_t>(1, job.workers())),
          fmt::format("a worker's share of this machine's {:.0f} GiB",
                      static_cast<double>(all) / (1 << 30))};
}

nlohmann::ordered_json stage_json(const train::planned_stage& s) {
  return {{"stage", s.pipeline_rank},
          {"first_layer", s.layers.first},
          {"last_layer", s.layers.last},
          {"ranks", s.ranks},
          {"parameters", s.parameters},
          {"weight_bytes", s.bytes.weights},
          {"master_bytes", s.bytes.masters},
          {"gradient_bytes", s.bytes.gradients},
          {"optimizer_bytes", s.bytes.optimizer},
          {"activation_bytes_per_slot", s.bytes.activations_per_slot},
          {"slots", s.bytes.slots},
          {"workspace_bytes", s.bytes.workspace},
          {"device_bytes", s.bytes.total()},
          {"host_ring_bytes", s.ring_bytes},
          {"step_flops", s.step_flops},
          {"reduced_bytes_per_step", s.reduced_bytes},
          {"gathered_bytes_per_step", s.gathered_bytes},
          {"boundary_bytes_per_step", s.boundary_bytes}};
}

std::string bytes_text(uint64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 1 << 30) return fmt::format("{:.2f} GiB", b / (1 << 30));
  return fmt::format("{:.1f} MiB", b / (1 << 20));
}

/// A bar of up to `width` letters, one letter a kind of memory, scaled to `full` bytes.
std::string memory_bar(const gpu::stage_plan& p, uint64_t full, int width) {
  const std::pair<char, uint64_t> parts[] = {{'w', p.weights},
                                             {'m', p.masters},
                                             {'g', p.gradients},
                                             {'o', p.optimizer},
                                             {'a', p.activations_per_slot * p.slots},
                                             {'.', p.workspace}};
  std::string out;
  uint64_t sum = 0;
  for (const auto& [letter, bytes] : parts) {
    sum += bytes;
    const auto end =
        static_cast<size_t>(static_cast<double>(sum) / static_cast<double>(full) * width + 0.5);
    out.resize(std::max(out.size(), end), letter);
  }
  return out;
}

std::string plan_table(const train::job_plan& plan,
                       const std::vector<train::planned_stage>& stages) {
  const uint64_t most = train::largest_stage_bytes(stages);
  std::string out =
      fmt::format("{:>5} {:>8} {:>6} {:>10} {:>11} {:>11} {:>11} {:>11} {:>16} {:>11} {:>11}\n",
                  "stage", "layers", "ranks", "M params", "weights", "masters", "gradients",
                  "optimizer", "activations", "workspace", "all");
  for (const auto& s : stages)
    out += fmt::format(
        "{:>5} {:>8} {:>6} {:>10.2f} {:>11} {:>11} {:>11} {:>11} {:>16} {:>11} {:>11}\n",
        s.pipeline_rank, fmt::format("{}-{}", s.layers.first, s.layers.last - 1), s.ranks.size(),
        static_cast<double>(s.parameters) / 1e6, bytes_text(s.bytes.weights),
        bytes_text(s.bytes.masters), bytes_text(s.bytes.gradients), bytes_text(s.bytes.optimizer),
        fmt::format("{} x {}", s.bytes.slots, bytes_text(s.bytes.activations_per_slot)),
        bytes_text(s.bytes.workspace), bytes_text(s.bytes.total()));
  out += "\n";
  for (const auto& s : stages)
    out += fmt::format("{:>5} |{:<60}| {}\n", s.pipeline_rank, memory_bar(s.bytes, most, 60),
                       bytes_text(s.bytes.total()));
  out += "      w weights, m masters, g gradients, o optimizer, a activations, . workspace\n\n";
  double flops = 0;
  for (const auto& s : stages) flops += s.step_flops * static_cast<double>(s.ranks.size());
  out += fmt::format(
      "a step: {} tokens, micro-batches a replica: {}, {:.3g} TFLOP; stages stand idle for "
      "{:.1f} % of it\n",
      plan.job.tokens_per_step(), plan.job.micro_batches(), flops / 1e12,
      100 * train::pipeline_bubble(plan));
  const auto& first = stages.front();
  if (first.reduced_bytes > 0)
    out += fmt::format(
        "a step sums {} of gradients over {} replicas, who share masters and optimizer, and "
        "gathers "
        "{} of weights\n",
        bytes_text(first.reduced_bytes), first.ranks.size(), bytes_text(first.gathered_bytes));
  if (first.boundary_bytes > 0)
    out += fmt::format("a stage sends {} of activations on and gets as many gradients back\n",
                       bytes_text(first.boundary_bytes));
  return out + fmt::format("checkpoints take up to {} of host memory on each rank\n",
                           bytes_text(first.ring_bytes));
}

/// What to do about a plan that does not fit.
error does_not_fit(const train::job_plan& plan, uint64_t needed, const memory_had& has) {
  std::string hint;
  for (const auto& w : train::ways_to_fit(plan, has.bytes))
    hint += fmt::format("{}--set {} makes it {}{}", hint.empty() ? "" : "; or ", w.setting,
                        bytes_text(w.bytes), w.same_result ? "" : " (other rounding)");
  if (hint.empty()) hint = "use more pipeline stages (parallel.pipeline), or a smaller model";
  return {errc::bad_config,
          fmt::format("the largest stage needs {}, and there are {} ({})", bytes_text(needed),
                      bytes_text(has.bytes), has.whose),
          hint};
}

result<int> show_plan(const plan_arguments& a) {
  TROUPE_TRY(loaded, config::load(a.job.sources()));
  TROUPE_TRY(plan, train::make_plan(loaded.value));
  const auto stages = train::plan_stages(plan);
  const uint64_t needed = train::largest_stage_bytes(stages);
  const auto has = memory_had_by(a, plan.job);
  const bool fits = has.bytes == 0 || needed <= has.bytes;
  if (a.json) {
    nlohmann::ordered_json out{{"model_parameters", plan.model.parameters()},
                               {"tokens_per_step", plan.job.tokens_per_step()},
                               {"micro_batches", plan.job.micro_batches()},
                               {"pipeline_bubble", train::pipeline_bubble(plan)},
                               {"device_bytes_needed", needed},
                               {"device_bytes", has.bytes},
                               {"fits", fits}};
    for (const auto& s : stages) out["stages"].push_back(stage_json(s));
    TROUPE_CHECK(print(out.dump(2) + "\n"));
  } else {
    TROUPE_CHECK(print(plan_table(plan, stages)));
  }
  if (!fits) return does_not_fit(plan, needed, has);
  if (has.bytes > 0)
    say(fmt::format("the largest stage needs {} of {} ({})", bytes_text(needed),
                    bytes_text(has.bytes), has.whose));
  return 0;
}

}  // namespace

void add_plan(shell& sh) {
  auto* verb = sh.app.add_subcommand("plan", "Show the memory, work and traffic of each stage");
  verb->footer(
      "Nothing is started or allocated. Ends with 78 if the largest stage does not fit.\n"
      "Examples:\n"
      "  troupe plan run.toml\n"
      "  troupe plan run.toml --memory 80GiB --set parallel.pipeline=4");
  auto a = std::make_shared<plan_arguments>();
  add_job_arguments(verb, a->job);
  verb->add_option("--memory", a->memory, "Memory of a worker's device, e.g. 80GiB")->as_size();
  verb->add_flag("--json", a->json, "The numbers as one JSON object");
  on_run(sh, verb, [a] { return show_plan(*a); });
}

}  // namespace troupe::apps

// `troupe plan`: what a configuration will need on each pipeline stage, before anything starts.
#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/health/spares_policy.hpp"
#include "actors/job/replicas_policy.hpp"
#include "actors/train/readiness_policy.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "apps/commands.hpp"
#include "apps/counted_expectation.hpp"
#include "apps/data_sources.hpp"
#include "apps/expected_step.hpp"
#include "apps/job_arguments.hpp"
#include "apps/kept_expectation.hpp"
#include "apps/other_machines.hpp"
#include "apps/past_steps.hpp"
#include "apps/predict/probe.hpp"
#include "apps/swap/drives.hpp"
#include "apps/swap/rates.hpp"
#include "apps/swap/to_fit.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"

namespace troupe::apps {

namespace {

struct plan_arguments {
  job_arguments job;
  uint64_t memory = 0;  ///< bytes of a device; 0 = as this machine has it
  double failures = health::failures_per_1000_node_days;
  bool json = false;
  bool unmeasured = false;
  other_files others;
};

/// Of a job that swaps: what its steps move, and how fast this machine does that where it was
/// measured.
struct swap_plan {
  std::optional<train::swap_forecast> forecast;
  std::optional<gpu::machine_rates> rates;
  std::vector<train::swap_room> rooms = {};  ///< on each drive, where it is this machine's
  /// Where no checkpoint is made before the last.
  std::optional<swap::earlier_checkpoint> earlier = {};
};

/// Settles what layers keep, if that is open and rates are measured.
swap_plan swap_plan_of(train::job_plan& plan, bool measures) {
  swap_plan out{train::forecast_swap(plan), {}};
  if (!out.forecast) return out;
  if (measures) {
    if (auto rates = swap::measure_rates(plan))
      out.rates = *rates;
    else
      say("rates are not measured: " + render(rates.error()));
  }
  if (out.rates) {
    swap::settle_layers_here(plan, *out.rates);
    out.forecast = train::forecast_swap(plan);
    if (!out.forecast) return {};  // what layers do not keep makes room for all the rest
  }
  if (plan.job.cluster.launch == config::launch_mode::local) {
    const auto needs = train::swap_needs_of(plan);
    if (auto rooms = train::swap_rooms_of(needs.folders, needs.beside, plan.job.job.name))
      out.rooms = std::move(*rooms);
    out.earlier = swap::earlier_checkpoint_of(plan);
  }
  return out;
}

nlohmann::ordered_json swap_json(const swap_plan& s, const config::job& job) {
  const auto& f = *s.forecast;
  const auto moved = f.traffic.whole();
  nlohmann::ordered_json out{{"clip", to_string(f.order)},
                             {"clip_why", swap::clip_reason(f.order, job, f.gradients_on_disk)},
                             {"gradients_on_drive", f.gradients_on_disk},
                             {"weights", swap::weights_text(f)},
                             {"weights_why", swap::weights_reason(f, job)},
                             {"passes", f.traffic.passes},
                             {"floor_bytes", f.floor_bytes},
                             {"overhead_bytes", f.overhead_bytes},
                             {"host_bytes", job.swap.host_bytes},
                             {"read_bytes_per_step", moved.read_bytes},
                             {"written_bytes_per_step", moved.written_bytes},
                             {"gathered_bytes_per_step", f.traffic.gathered_bytes},
                             {"least_read_bytes_per_step", f.least.read_bytes},
                             {"least_written_bytes_per_step", f.least.written_bytes},
                             {"flops_per_step", f.work.whole().flops}};
  using enum gpu::activation_choice;
  for (const auto what : {keep, spill, half, recompute})
    out["layers"][std::string(to_string(what))] = f.kept.layers[static_cast<size_t>(what)];
  if (f.of_gpu.device_bytes > 0)
    out["gpu"] = {{"device_bytes", f.of_gpu.device_bytes},
                  {"floor_bytes", f.of_gpu.floor_bytes},
                  {"overhead_bytes", f.of_gpu.overhead_bytes},
                  {"stage_bytes", f.of_gpu.stage_bytes},
                  {"host_twin_bytes", f.of_gpu.twin_bytes}};
  if (const auto steps = swap::rated_steps(f, job.swap))
    out["wear"] = {{"rated_tbw", job.swap.rated_tbw}, {"steps", *steps}};
  swap::add_drives(out, s.rooms, s.earlier);
  if (!s.rates) return out;
  const auto& r = *s.rates;
  const auto limit = gpu::limit_of(f.work.whole(), r), least = gpu::limit_of(f.least, r);
  out["rates"] = {{"read_bytes_s", r.read_bytes_s},
                  {"write_bytes_s", r.write_bytes_s},
                  {"duplex", r.duplex},
                  {"flops_s", r.flops_s},
                  {"update_parameters_s", r.updates_s},
                  {"processor_flops_s", r.processors.flops_s},
                  {"processor_update_parameters_s", r.processors.updates_s},
                  {"processor_sum_bytes_s", r.processors.sum_bytes_s}};
  out["limit_s"] = limit.seconds;
  out["bound_by"] = to_string(limit.part);
  out["expected_s"] = train::expected_seconds(f, r);
  out["least_limit_s"] = least.seconds;
  out["least_bound_by"] = to_string(least.part);
  out["clipped_limit_s"] = gpu::limit_of(f.clipped_work.whole(), r).seconds;
  return out;
}

/// What a device has, and whose number that is.
struct memory_had {
  uint64_t bytes = 0;
  std::string whose;
};

/// Bytes of one worker's device, as far as this machine can tell for the job.
memory_had memory_had_by(const plan_arguments& a, const train::job_plan& plan,
                         const train::machine& machine) {
  const auto& job = plan.job;
  if (a.memory > 0) return {a.memory, "--memory"};
  if (!machine.gpus.empty()) return {machine.gpus.front().memory_bytes, machine.gpus.front().name};
  if (!job.swap.dir.empty()) {
    auto least = std::numeric_limits<uint64_t>::max();
    for (const auto& r : plan.ranks) {
      const auto o =
          train::options_of(job, plan.model, r.at, r.layers, train::threads_here(job.cluster));
      least = std::min(least, train::swap_budget_bytes(job, o));
    }
    return {least, "what swap.host_bytes leaves a rank"};
  }
  if (job.cluster.launch != config::launch_mode::local || machine.memory_bytes == 0) return {};
  return {machine.memory_bytes / static_cast<uint64_t>(std::max<int64_t>(1, job.workers())),
          fmt::format("a worker's share of the {} of {}", bytes_text(machine.memory_bytes),
                      machine.memory_whose)};
}

/// `device_bytes` of a worker, where the job is not `here`.
train::memory_limits limits_of(const train::job_plan& plan, const train::machine& machine,
                               bool here, uint64_t device_bytes) {
  if (here) return {device_bytes, train::process_limit(plan, machine)};
  const bool on_host = machine.gpus.empty() && plan.job.cluster.device != config::device_kind::cuda;
  return {device_bytes, on_host ? device_bytes * train::workers_of(plan.job) : 0};
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
          {"swap_slot_bytes", s.bytes.swap_slots},
          {"swap_file_bytes", s.bytes.on_disk},
          {"device_bytes", s.bytes.total()},
          {"host_ring_bytes", s.ring_bytes},
          {"step_flops", s.step_flops},
          {"reduced_bytes_per_step", s.reduced_bytes},
          {"gathered_bytes_per_step", s.gathered_bytes},
          {"boundary_bytes_per_step", s.boundary_bytes}};
}

/// A bar of up to `width` letters, one letter a kind of memory, scaled to `full` bytes.
std::string memory_bar(const gpu::stage_plan& p, uint64_t full, int width) {
  const std::pair<char, uint64_t> parts[] = {
      {'w', p.weights},   {'m', p.masters},    {'g', p.gradients},
      {'o', p.optimizer}, {'s', p.swap_slots}, {'a', p.activations_per_slot * p.slots},
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

/// Of the node that needs most.
uint64_t most_copies(const train::job_plan& plan, const std::vector<train::planned_stage>& stages) {
  const auto all = train::copies_of_nodes(plan, stages);
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

bool swaps(const std::vector<train::planned_stage>& stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const train::planned_stage& s) { return s.bytes.on_disk > 0; });
}

/// What lives on a drive, and within what.
std::string swap_text(const train::job_plan& plan, const std::vector<train::planned_stage>& stages,
                      const swap_plan& swapped) {
  const auto& swap = plan.job.swap;
  if (swap.dir.empty()) return "";
  if (!swaps(stages) || !swapped.forecast) {
    const auto instead = swap::no_room_text(train::layers_kept(plan), swap, plan.gpu_at.bytes > 0);
    return fmt::format(
        "all of it fits into {}: {} is not used; the least that this job could have is {}\n{}",
        swap::budgets_text(plan), fmt::join(swap.dir, ", "), swap::floors_text(plan),
        instead.empty() ? instead : instead + "\n");
  }
  uint64_t on_disk = 0, on_its_way = 0;
  for (const auto& s : stages) on_disk += s.bytes.on_disk, on_its_way += s.bytes.swap_slots;
  auto out = fmt::format(
      "{} live in {}, {} of them in memory on their way; a process has swap.host_bytes = {}, of "
      "which {} are for itself, its data, its checkpoints and what operations need\n",
      bytes_text(on_disk), fmt::join(swap.dir, ", "), bytes_text(on_its_way),
      bytes_text(static_cast<uint64_t>(swap.host_bytes)),
      bytes_text(swapped.forecast->overhead_bytes));
  out += swap::gpu_text(*swapped.forecast);
  return out + swap::drives_text(plan.job, swapped.rooms, swapped.earlier);
}

std::string plan_table(const train::job_plan& plan, const std::vector<train::planned_stage>& stages,
                       const swap_plan& swapped) {
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
  out += fmt::format(
      "      w weights, m masters, g gradients, o optimizer, {}a activations, . workspace\n\n",
      swaps(stages) ? "s state on its way, " : "");
  double flops = 0;
  for (const auto& s : stages) flops += s.step_flops * static_cast<double>(s.ranks.size());
  out += fmt::format(
      "a step: {}, micro-batches a replica: {}, {:.3g} TFLOP; stages stand idle for "
      "{:.1f} % of it\n",
      counted(plan.job.tokens_per_step(), "token"), plan.job.micro_batches(), flops / 1e12,
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
  out += fmt::format("checkpoints take up to {} of host memory on each rank\n",
                     bytes_text(first.ring_bytes));
  out += swap_text(plan, stages, swapped);
  if (swapped.forecast) out += swap::forecast_text(*swapped.forecast, plan.job);
  if (swapped.rates) out += swap::limit_text(*swapped.forecast, *swapped.rates);
  if (const auto copies = most_copies(plan, stages); copies > 0)
    out += fmt::format(
        "copies in memory take up to {} on each node: two generations of its ranks' shares and of "
        "those that they keep\n",
        bytes_text(copies));
  return out;
}

/// What is trained on, and how much of it: by the configuration alone, no data is read.
std::string data_text(const config::job& job) {
  std::string out;
  for (const auto& s : train::source_shares_of(job))
    out += fmt::format(
        "{}: {}\n", train::said_of(s.source),
        s.source.name.empty()
            ? fmt::format("{}, {} in {}", fmt::join(s.source.path, ", "),
                          counted(s.windows, "window"), counted(job.train.steps, "step"))
            : train::share_text(job, s));
  return out;
}

int64_t spares_of(const plan_arguments& a, const config::job& job) {
  return health::spares_for(job.cluster.places(), a.failures);
}

std::string spares_text(const plan_arguments& a, const config::job& job) {
  return fmt::format(
      "{} would do on 99 of 100 days, at {} {} per 1,000 node-days of {}; cluster.spares is {}\n",
      counted(spares_of(a, job), "spare node"), a.failures,
      plural(a.failures == 1 ? 1 : 2, "failure"), counted(job.cluster.places(), "node"),
      job.cluster.spares);
}

/// What fewer replicas need where nodes stay away, the most of them first; empty: it waits.
std::vector<std::pair<int64_t, uint64_t>> fewer_of(const train::job_plan& plan) {
  std::vector<std::pair<int64_t, uint64_t>> out;
  const auto& rules = plan.job.recovery;
  for (const auto n : train::replica_counts_that_fit(plan))
    if (n < plan.job.parallel.data && rules.enabled && rules.fewer_replicas)
      if (const auto less = train::with_replicas(plan, n))
        out.emplace_back(n, train::largest_stage_bytes(train::plan_stages(*less)));
  return out;
}

std::string fewer_text(const train::job_plan& plan) {
  const auto all = plan.job.parallel.data;
  const auto fewer = fewer_of(plan);
  if (all == 1) return "";
  const auto& rules = plan.job.recovery;
  const bool some_lack_memory =
      rules.enabled && rules.fewer_replicas &&
      train::replica_counts_that_fit(plan).size() < train::replica_counts(plan.job).size();
  const auto* lacking = !some_lack_memory ? ""
                        : plan.gpu_at.bytes > 0
                            ? "; others need more than swap.host_bytes or swap.device_bytes"
                            : "; others need more than swap.host_bytes";
  if (fewer.empty())
    return fmt::format("a node that stays away is waited for: no fewer replicas can go on{}\n",
                       lacking);
  std::string out;
  constexpr size_t told = 4;
  for (size_t i = 0; i < std::min(fewer.size(), told); ++i)
    out += fmt::format("{}{} ({} a stage)", i == 0 ? "" : ", ", fewer[i].first,
                       bytes_text(fewer[i].second));
  return fmt::format("where nodes stay away, {} of {} replicas go on{}{}\n", out, all,
                     fewer.size() > told ? ", or fewer" : "", lacking);
}

nlohmann::ordered_json fewer_json(const train::job_plan& plan) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& [replicas, bytes] : fewer_of(plan))
    out.push_back({{"replicas", replicas}, {"device_bytes_needed", bytes}});
  return out;
}

/// How long a step takes here, or on the machines of --like and --nodes; or why that is not known.
struct expectation {
  known_expectations known = {};
  std::string not_known = {};  ///< by a layer
  std::optional<better_cut> better = {};
  std::optional<expected_there> there = {};
};

/// What this machine tells of others: its probes, and what such steps took or would take here.
std::optional<known_here> known_of_here(const train::job_plan& plan) {
  const auto probes = predict::kept_probes_here();
  if (!probes) return std::nullopt;
  auto job = train::recorded_job(plan);
  job.cluster.launch = config::launch_mode::local;  // as if all its nodes were here
  const auto past = expect_by_past(job, train::flops_of_step(plan));
  if (!past) return std::nullopt;
  return known_here{*probes, past->step};
}

expectation expectation_of(const plan_arguments& a, const train::job_plan& plan,
                           const std::vector<train::planned_stage>& stages,
                           const train::machine& machine, bool fits) {
  expectation out;
  const auto job = train::recorded_job(plan);  // as a start has it
  if (a.memory == 0) out.known.past = expect_by_past(job, train::flops_of_step(plan));
  const auto without = [&](std::string why) {
    out.not_known = std::move(why);
    return std::move(out);
  };
  if (a.unmeasured) return without("nothing is measured (--no-measure)");
  if (a.memory > 0 || plan.job.cluster.launch != config::launch_mode::local)
    return without(
        "the machines of this job are not here, and none of them was measured; --like and --nodes "
        "take their profiles by `troupe predict probe`");
  if (!fits) return without("it does not fit this machine");
  auto worker = measure_worker(plan);
  if (!worker) return without(render(worker.error()));
  const auto step = expect_step(plan, stages, *worker);
  out.better = better_cut_of(plan, step, *worker, machine);
  keep_expectation(job, {1e3 * step.step_s, 1e3 * step.least_s, 1e3 * step.most_s});
  out.known.layer = layer_expectation{step, std::move(*worker)};
  return out;
}

/// What runs on those machines took, and what their probes say.
expectation expectation_there(const train::job_plan& plan,
                              const std::vector<train::planned_stage>& stages,
                              const other_machines& others) {
  expectation out;
  const auto job = train::recorded_job(plan);  // as a start has it
  if (const auto machines = machines_of(others, job))
    out.known.past = expect_by_past(job, train::flops_of_step(plan), {}, machines);
  out.there = expect_there(plan, stages, others, known_of_here(plan));
  return out;
}

std::string expectation_text(const train::job_plan& plan, const expectation& e) {
  if (e.there) return counted_there_text(plan, *e.there, e.known.past);
  if (!e.known.past && !e.known.layer)
    return "how long a step takes is not known: " + e.not_known + "\n";
  auto out = counted_text(plan, e.known);
  if (e.better && e.known.layer) out += better_cut_text(plan, *e.better, e.known.layer->step);
  return out;
}

nlohmann::ordered_json expectation_json(const train::job_plan& plan, const expectation& e,
                                        const std::optional<other_machines>& others) {
  if (e.there && others) return counted_there_json(plan, *others, *e.there, e.known.past);
  nlohmann::ordered_json out;
  if (e.known.past || e.known.layer) out = counted_json(plan, e.known);
  if (!e.not_known.empty()) out["not_known"] = e.not_known;
  if (e.better)
    out["better_layers"] = {{"layers", e.better->layers}, {"step_s", e.better->expected.step_s}};
  return out;
}

/// What tells of machines that were not probed. Errors: those of speed_prior::read.
result<std::optional<known_by_prior>> prior_of(const config::job& job) {
  if (job.predict.prior.empty()) return std::optional<known_by_prior>();
  TROUPE_TRY(prior, gpu::predict::speed_prior::read(job.predict.prior));
  return std::optional(known_by_prior{std::move(prior), predict::kept_probes_here()});
}

/// Errors: usage; those of read_others and prior_of.
result<std::optional<other_machines>> others_asked_for(const plan_arguments& a,
                                                       const train::job_plan& plan) {
  if (!a.others.any()) return std::optional<other_machines>();
  if (!a.others.like.empty() && !a.others.nodes.empty())
    return error{errc::usage, "--like and --nodes are two answers to one question", "give one"};
  if (!plan.job.swap.dir.empty())
    return error{errc::usage, "how fast other machines swap is not known: swap.dir is set",
                 "leave out --like and --nodes"};
  TROUPE_TRY(known, prior_of(plan.job));
  TROUPE_TRY(others, read_others(a.others, plan, std::move(known)));
  return std::optional(std::move(others));
}

result<int> show_plan(const plan_arguments& a) {
  TROUPE_TRY(loaded, a.job.load());
  TROUPE_TRY(plan, train::make_plan(loaded.value));
  const auto machine = train::this_machine(plan.job.cluster);
  train::settle_host_bytes(plan.job, machine.memory_bytes);
  train::place_on_gpus(plan, machine);
  TROUPE_TRY(others, others_asked_for(a, plan));
  const bool here =
      a.memory == 0 && !others && plan.job.cluster.launch == config::launch_mode::local;
  const auto swapped = swap_plan_of(plan, here && !a.unmeasured);
  const auto stages = train::plan_stages(plan);
  uint64_t needed = train::largest_stage_bytes(stages);
  auto has = memory_had_by(a, plan, machine);
  if (others && a.memory == 0) {
    const auto tightest = tightest_of(plan, stages, *others);
    if (tightest.has > 0) needed = tightest.needed;
    has = {tightest.has, "a worker's share of " + tightest.node};
  }
  const auto limits = limits_of(plan, machine, here, has.bytes);
  status fits;
  if (has.bytes > 0 && !here)
    fits = train::enough_memory(plan, "the largest stage", needed, has.bytes, has.whose, limits);
  else if (!others)
    fits = train::fits_memory(plan, machine);
  std::optional<swap::timed_way> to_fit;
  if (!fits) to_fit = swap::time_swapping_to_fit(plan, limits.process, here && !a.unmeasured);
  if (fits) fits = train::fits_swap_budget(plan, train::threads_here(plan.job.cluster));
  std::optional<expectation> expected;  // of a job that swaps there is another limit
  if (others)
    expected = expectation_there(plan, stages, *others);
  else if (!swapped.forecast)
    expected = expectation_of(a, plan, stages, machine, fits.has_value());
  if (a.json) {
    nlohmann::ordered_json out{{"model_parameters", plan.model.parameters()},
                               {"tokens_per_step", plan.job.tokens_per_step()},
                               {"micro_batches", plan.job.micro_batches()},
                               {"pipeline_bubble", train::pipeline_bubble(plan)},
                               {"device_bytes_needed", needed},
                               {"device_bytes", has.bytes},
                               {"fits", fits.has_value()},
                               {"node_copy_bytes", most_copies(plan, stages)},
                               {"failures_per_1000_node_days", a.failures},
                               {"spare_nodes_p99", spares_of(a, plan.job)},
                               {"spare_nodes", plan.job.cluster.spares},
                               {"fewer_replicas", fewer_json(plan)},
                               {"sources", sources_json(train::source_shares_of(plan.job))}};
    for (const auto& s : stages) out["stages"].push_back(stage_json(s));
    if (!plan.job.swap.dir.empty()) {
      out["swap_floor_bytes"] =
          train::swap_floor_bytes(plan, train::threads_here(plan.job.cluster));
      out["swap_layers_have_room"] = !train::layers_kept(plan).gives_way();
    }
    if (swapped.forecast) out["swap"] = swap_json(swapped, plan.job);
    if (to_fit) out["swap_to_fit"] = swap::timed_json(*to_fit);
    if (expected) out["expected"] = expectation_json(plan, *expected, others);
    using handler = nlohmann::ordered_json::error_handler_t;
    TROUPE_CHECK(print(out.dump(2, ' ', false, handler::replace) + "\n"));
  } else {
    TROUPE_CHECK(print(plan_table(plan, stages, swapped) +
                       (expected ? expectation_text(plan, *expected) : "") +
                       (to_fit ? swap::timed_text(*to_fit) : "") + data_text(plan.job) +
                       spares_text(a, plan.job) + fewer_text(plan)));
  }
  if (!fits) return fits.error();
  if (has.bytes > 0)
    say(fmt::format("the largest stage needs {} of {} ({})", bytes_text(needed),
                    bytes_text(has.bytes), has.whose));
  return 0;
}

}  // namespace

void add_plan(shell& sh) {
  auto* verb =
      sh.app.add_subcommand("plan", "Show the memory, work, traffic and time of each stage");
  verb->footer(
      "Nothing is started. Ends with 78 if the largest stage does not fit. A layer and its update\n"
      "are measured for a second, to say about how long a step takes; of a job that swaps, or\n"
      "does not fit, the drive under swap.dir, too, for some seconds.\n"
      "Examples:\n"
      "  troupe plan run.toml\n"
      "  troupe plan run.toml --memory 80GiB --set parallel.pipeline=4\n"
      "  troupe plan run.toml --like probed.json\n"
      "  troupe plan run.toml --nodes fleet.csv");
  auto a = std::make_shared<plan_arguments>();
  add_job_arguments(verb, a->job);
  verb->add_option("--memory", a->memory, "Memory of a worker's device, e.g. 80GiB")->as_size();
  verb->add_option("--failures", a->failures, "Failures per 1,000 node-days, for the spares")
      ->within(0.0, 1000.0);
  verb->add_flag("--json", a->json, "The numbers as one JSON object");
  verb->add_flag("--no-measure", a->unmeasured, "Nothing is measured");
  verb->add_option("--like", a->others.like,
                   "Each node is such a machine: its profile by `predict probe`, JSON or a table");
  verb->add_option("--nodes", a->others.nodes,
                   "The nodes are these machines: a table by `predict probe -o`, a row a node");
  on_run(sh, verb, [a] { return show_plan(*a); });
}

}  // namespace troupe::apps

// A layer, its update, sums, a disk.
#include "apps/swap/rates.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/readiness_policy.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_ranks.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/disk/calibrate.hpp"

namespace troupe::apps::swap {

namespace {

constexpr double possible_pace = 1e18;  // a second; more is no measurement of a processor

}  // namespace

paces best_so_far(const paces& now, const io::fact_store& store) {
  constexpr const char* fact = "swap-paces";  // of the last layer that was asked for (FACT-3)
  const auto young = std::chrono::duration_cast<std::chrono::hours>(defaults::ceiling_memory);
  auto out = now;
  const auto kept = store.find(fact, young);
  if (kept && kept->is_object() && kept->value("of", nlohmann::json()) == now.of) {
    const auto better = [&](const char* name, double measured) {
      const auto before = kept->value(name, nlohmann::json());
      const double value = before.is_number() ? before.get<double>() : 0;
      return std::isfinite(value) && value < possible_pace ? std::max(value, measured) : measured;
    };
    out.flops_s = better("flops_s", now.flops_s);
    out.updates_s = better("updates_s", now.updates_s);
    out.sum_bytes_s = better("sum_bytes_s", now.sum_bytes_s);
  }
  store.keep(fact, {{"of", out.of},
                    {"flops_s", out.flops_s},
                    {"updates_s", out.updates_s},
                    {"sum_bytes_s", out.sum_bytes_s}});
  return out;
}

namespace {

/// Of all drives under a job's swap folders: chunks are shared out evenly, so that together they
/// are as many times as quick as the slowest is.
result<io::disk_rate> measure_drives(const train::job_plan& plan) {
  std::vector<std::filesystem::path> drives;
  for (const auto& r : plan.ranks)
    for (const auto& dir : train::swap_dirs_of(plan.job, r.at.rank))
      if (std::none_of(drives.begin(), drives.end(),
                       [&](const auto& d) { return train::on_one_drive(d, dir); }))
        drives.push_back(dir);
  io::disk_rate out;
  for (const auto& dir : drives) {
    TROUPE_TRY(disk, io::calibrate(train::present_of(dir), {}));
    const auto& one = disk.best;
    const bool first = out.read_bytes_s == 0;
    out.read_bytes_s = first ? one.read_bytes_s : std::min(out.read_bytes_s, one.read_bytes_s);
    out.write_bytes_s = first ? one.write_bytes_s : std::min(out.write_bytes_s, one.write_bytes_s);
    out.duplex = first ? one.duplex : std::min(out.duplex, one.duplex);
  }
  out.read_bytes_s *= static_cast<double>(drives.size());
  out.write_bytes_s *= static_cast<double>(drives.size());
  return out;
}

}  // namespace

result<gpu::machine_rates> measure_rates(const train::job_plan& plan) {
  const auto& r = plan.ranks.front();
  const auto o = train::planned_options(plan, r, train::threads_here(plan.job.cluster));
  if (o.device != "host")
    return error{errc::unavailable, "rates are measured of the host's processors only"};
  TROUPE_TRY(drives, measure_drives(plan));
  TROUPE_TRY(measured, measure_paces(o));
  const auto speed = best_so_far(measured);
  // Ranks have processors of their own, as far as there are some, and share the drives.
  const auto cores = static_cast<double>(cluster::hardware_facts().cores);
  const auto ranks = std::clamp(static_cast<double>(plan.ranks.size()), 1.0,
                                std::max(1.0, cores / std::max(1, o.threads)));
  gpu::machine_rates out;
  train::set_paces(out, speed, {ranks, o.threads, cores});
  out.read_bytes_s = drives.read_bytes_s;
  out.write_bytes_s = drives.write_bytes_s;
  out.duplex = drives.duplex;
  return out;
}

std::string rates_text(const gpu::machine_rates& rates) {
  return fmt::format(
      "the drive reads {:.2f} GB/s and writes {:.2f} (both at once save {:.2f} of the shorter); "
      "products {:.0f} GFLOP/s; updates {:.2f} G/s; sums {:.1f} GB/s",
      rates.read_bytes_s / 1e9, rates.write_bytes_s / 1e9, rates.duplex, rates.flops_s / 1e9,
      rates.updates_s / 1e9, rates.processors.sum_bytes_s / 1e9);
}

std::string activations_text(const train::layer_choices& of_layers) {
  using enum gpu::activation_choice;
  const auto of = [&](gpu::activation_choice what) {
    return of_layers.layers[static_cast<size_t>(what)];
  };
  auto out =
      fmt::format("of {} {}, {} their input and x + attention",
                  counted(of(keep) + of(spill) + of(half) + of(recompute), "layer"),
                  counted(of(keep), "keeps its activations", "keep their activations"), of(half));
  if (of(spill) > 0)
    out += fmt::format("; {} them on the drive", counted(of(spill), "has", "have"));
  if (of(recompute) > 0)
    out += fmt::format("; {} them again", counted(of(recompute), "computes", "compute"));
  return out;
}

std::string no_room_text(const train::layer_choices& of_layers, const config::swap_section& swap,
                         bool on_gpus) {
  if (!of_layers.gives_way()) return {};
  return fmt::format(
      "warning: swap.keep_layers = {}, half_layers = {}, spill_layers = {} have no room in "
      "swap.{}: {} instead",
      swap.keep_layers, std::max<int64_t>(0, swap.half_layers),
      std::max<int64_t>(0, swap.spill_layers), on_gpus ? "device_bytes" : "host_bytes",
      activations_text(of_layers));
}

namespace {

/// As train::holds_gradients, which asks the options of one rank: no stage knows the factor before
/// all have said what their gradients add to the norm, and a tied table's gradient comes last.
bool shares_norm(const config::job& job) {
  return job.parallel.pipeline > 1;
}

}  // namespace

std::string clip_text(const train::swap_forecast& f) {
  const bool on_drive = f.gradients_on_disk && f.order == gpu::update_order::behind_backward;
  return fmt::format("{}{}", to_string(f.order), on_drive ? ", on the drive" : "");
}

std::string_view clip_reason(gpu::update_order order, const config::job& job, bool on_disk) {
  using enum gpu::update_order;
  if (order == under_backward) return "train.clip_norm is 0";
  if (order == behind_backward && shares_norm(job)) return "stages share a norm";
  const auto asked = train::way_of(job.swap.clip);
  if ((order == speculate && asked == gpu::clip_way::speculate) ||
      (order == behind_backward && asked == gpu::clip_way::hold) ||
      (order == twice && asked == gpu::clip_way::twice))
    return "swap.clip";
  if (order == behind_backward)
    return on_disk ? "micro-batches add to all gradients" : "all gradients are in memory";
  if (order == speculate) return "the drive has room for a second version";
  return "neither has the drive room for a second version nor memory for all gradients";
}

std::string_view weights_text(const train::swap_forecast& f) {
  using enum gpu::weights_choice;
  return f.weights == stored ? "stored" : f.weights == derived ? "derived" : "";
}

std::string_view weights_reason(const train::swap_forecast& f, const config::job& job) {
  using enum config::weights_choice;
  if (f.weights == gpu::weights_choice::automatic) return "";
  if (job.swap.weights != automatic) return "swap.weights";
  if (f.weights == gpu::weights_choice::stored) return "fewer bytes are moved";
  return f.order == gpu::update_order::speculate
             ? "the drive has room for two versions only without them"
             : "the drive has no room for them";
}

std::optional<double> rated_steps(const train::swap_forecast& f, const config::swap_section& swap) {
  const auto written = f.traffic.whole().written_bytes;
  if (swap.rated_tbw <= 0 || written == 0) return std::nullopt;
  return static_cast<double>(swap.rated_tbw) * 1e12 / static_cast<double>(written);
}

std::string budgets_text(const train::job_plan& plan) {
  const auto host = bytes_text(static_cast<uint64_t>(plan.job.swap.host_bytes));
  if (plan.gpu_at.bytes == 0) return "swap.host_bytes = " + host;
  return fmt::format("swap.device_bytes = {}",
                     bytes_text(train::device_bytes_of(plan.job, plan.gpu_at)));
}

std::string floors_text(const train::job_plan& plan) {
  const int threads = train::threads_here(plan.job.cluster);
  if (plan.gpu_at.bytes == 0) return bytes_text(train::swap_floor_bytes(plan, threads));
  return bytes_text(train::device_floor_bytes(plan, threads));
}

std::string gpu_text(const train::swap_forecast& f) {
  if (f.of_gpu.device_bytes == 0) return {};
  return fmt::format(
      "a GPU has swap.device_bytes = {}, of which a rank's stage has {} and its operations {}, and "
      "is {} at least; what goes between it and a drive has {} of the host's memory\n",
      bytes_text(f.of_gpu.device_bytes), bytes_text(f.of_gpu.stage_bytes),
      bytes_text(f.of_gpu.overhead_bytes), bytes_text(f.of_gpu.floor_bytes),
      bytes_text(f.of_gpu.twin_bytes));
}

std::string forecast_text(const train::swap_forecast& f, const config::job& job) {
  const auto& swap = job.swap;
  const auto moved = f.traffic.whole();
  auto out = fmt::format(
      "a step reads {} and writes {}; clipping: {} ({}); swap.host_bytes is {} at least\n",
      bytes_text(moved.read_bytes), bytes_text(moved.written_bytes), clip_text(f),
      clip_reason(f.order, job, f.gradients_on_disk), bytes_text(f.floor_bytes));
  out += activations_text(f.kept) +
         (swap.keep_layers < 0 ? " (not chosen: rates are not measured)\n" : "\n");
  const bool on_gpus = f.of_gpu.device_bytes > 0;
  if (const auto instead = no_room_text(f.kept, swap, on_gpus); !instead.empty())
    out += instead + "\n";
  if (f.weights == gpu::weights_choice::derived)
    out += fmt::format(
        "weights are rounded from masters that are read, and have no files ({}): 12 bytes a "
        "parameter on the drive\n",
        weights_reason(f, job));
  if (f.gradients_on_disk)
    out +=
        "memory has no room for all gradients: those of layers wait for the next micro-batch, or "
        "for their update, on the drive\n";
  if (f.order == gpu::update_order::speculate)
    out += "a second copy on the drive takes updates until their norm is known\n";
  if (const auto steps = rated_steps(f, swap))
    out += fmt::format("swap.rated_tbw = {} last {:.0f} steps\n", swap.rated_tbw, *steps);
  return out;
}

std::string limit_text(const train::swap_forecast& f, const gpu::machine_rates& rates) {
  const auto limit = gpu::limit_of(f.work.whole(), rates);
  const auto least = gpu::limit_of(f.least, rates);
  auto out = fmt::format(
      "measured here: {}\na step takes {:.3g} s at least, bound by {}; {:.3g} s expected; the "
      "least that any plan with this memory could move and compute, {} of reads and {} of writes, "
      "takes {:.3g} s ({})\n",
      rates_text(rates), limit.seconds, to_string(limit.part), train::expected_seconds(f, rates),
      bytes_text(static_cast<uint64_t>(f.least.read_bytes)),
      bytes_text(static_cast<uint64_t>(f.least.written_bytes)), least.seconds,
      to_string(least.part));
  if (f.order == gpu::update_order::speculate)
    out += fmt::format("a step that is clipped takes {:.3g} s at least\n",
                       gpu::limit_of(f.clipped_work.whole(), rates).seconds);
  return out;
}

void settle_layers_here(train::job_plan& plan, const gpu::machine_rates& rates) {
  auto settled = plan;
  train::settle_activations(settled, rates);
  if (train::fits_memory(settled, train::this_machine(settled.job.cluster)))
    plan = std::move(settled);
}

std::optional<step_limits> settle_by_rates(train::job_plan& plan,
                                           const std::function<void(const std::string&)>& remark) {
  if (plan.job.cluster.launch != config::launch_mode::local) return std::nullopt;
  const auto instead = no_room_text(train::layers_kept(plan), plan.job.swap, plan.gpu_at.bytes > 0);
  if (!instead.empty()) remark(instead);
  auto forecast = train::forecast_swap(plan);
  if (!forecast) return std::nullopt;
  const auto rates = measure_rates(plan);
  if (!rates) {
    say("how long a step takes at least is not known: " + render(rates.error()));
    return std::nullopt;
  }
  if (train::chooses_activations(plan.job)) {
    settle_layers_here(plan, *rates);
    forecast = train::forecast_swap(plan);
    if (!forecast) return std::nullopt;  // what layers do not keep makes room for all the rest
    say("swap: " + activations_text(forecast->kept));
  }
  const auto limit = gpu::limit_of(forecast->work.whole(), *rates);
  say(fmt::format("swap: {}", rates_text(*rates)));
  say(fmt::format("swap: a step takes {:.3g} s at least, bound by {}; {:.3g} s expected",
                  limit.seconds, to_string(limit.part),
                  train::expected_seconds(*forecast, *rates)));
  return step_limits{*rates, forecast->work.whole(), forecast->clipped_work.whole()};
}

std::string kept_text(const gpu::machine_rates& measured, const gpu::machine_rates& kept,
                      double limit_s) {
  return fmt::format(
      "swap: the drive keeps {:.3g} GB/s of reads and {:.3g} of writes, of {:.3g} and {:.3g} "
      "measured: a step takes {:.3g} s at least by that",
      kept.read_bytes_s / 1e9, kept.write_bytes_s / 1e9, measured.read_bytes_s / 1e9,
      measured.write_bytes_s / 1e9, limit_s);
}

}  // namespace troupe::apps::swap

// A job's file, and what is said of its simulation.
#include "apps/sim_job.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/sim/persons_job.hpp"
#include "actors/sim/swapped_job.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/machine.hpp"
#include "apps/swap/rates.hpp"
#include "io/base/counted.hpp"
#include "io/config/load.hpp"

namespace troupe::apps {

namespace {

struct pace_told {
  sim::worker_pace pace;
  std::string whose;
};

/// As it is said: what was measured once can be said again, and gives the same events.
double rounded(double gflops) {
  return std::strtod(fmt::format("{:.3g}", gflops).c_str(), nullptr);
}

/// In proportion to what is assumed of such a worker.
sim::worker_pace at_gflops(sim::worker_pace pace, double gflops) {
  pace.updates_s *= gflops * 1e9 / pace.flops_s;
  pace.flops_s = gflops * 1e9;
  return pace;
}

result<pace_told> pace_of(const job_simulation& a, const train::job_plan& plan) {
  const auto assumed = sim::assumed_pace(plan.job);
  if (a.gflops > 0) return pace_told{at_gflops(assumed, a.gflops), "as --gflops says"};
  if (!a.measures)
    return pace_told{assumed, "assumed: --gflops says another, --measure times a layer here"};
  const auto& r = plan.ranks.front();
  const auto o = train::options_of(plan.job, plan.model, r.at, r.layers,
                                   train::threads_here(plan.job.cluster));
  if (o.device != "host")
    return error{errc::unavailable, "--measure times the host's processors only",
                 "say what a GPU of the job does: --gflops"};
  TROUPE_TRY(paces, swap::measure_paces(o));
  const auto gflops = rounded(paces.flops_s / 1e9);
  return pace_told{at_gflops(assumed, gflops),
                   fmt::format("measured here; --gflops {:g} gives the same again", gflops)};
}

std::string stage_text(const sim::timing& times) {
  std::string out;
  constexpr double ms = 1e6;
  constexpr size_t told = 8;
  for (size_t i = 0; i < std::min(told, times.stages.size()); ++i) {
    const auto& t = times.stages[i];
    out += fmt::format(
        "stage {}: forward {:.3g} ms, backward {:.3g} ms a micro-batch, update {:.3g} ms, save "
        "{:.3g} ms\n",
        i, static_cast<double>(t.forward_ns) / ms, static_cast<double>(t.backward_ns) / ms,
        static_cast<double>(t.update_ns) / ms, static_cast<double>(t.save_ns) / ms);
  }
  if (times.stages.size() > told)
    out += fmt::format("and {} more\n", counted(times.stages.size() - told, "stage"));
  return out;
}

std::string from_text(const pace_told& p, const sim::timing& times) {
  return fmt::format(
      "the planned work of each stage at {:g} GFLOP/s, {:g} million updates/s and {:g} GB/s of "
      "checkpoints a worker ({}); each up to {:.0f} % longer by chance; what ranks send each other "
      "takes no time of its own",
      p.pace.flops_s / 1e9, p.pace.updates_s / 1e6, p.pace.saved_bytes_s / 1e9, p.whose,
      100 * times.jitter);
}

nlohmann::ordered_json facts_of(const train::job_plan& plan, const sim::simulation_options& o,
                                const std::string& from, const std::vector<sim::left_out>& left) {
  nlohmann::ordered_json j;
  j["name"] = plan.job.job.name;
  j["nodes"] = o.nodes;
  j["spares"] = o.spares;
  j["workers"] = plan.job.workers();
  j["data"] = plan.job.parallel.data;
  j["pipeline"] = plan.job.parallel.pipeline;
  j["micro_batches"] = plan.micro_batches;
  j["heads"] = std::max(1, o.heads);
  if (o.swap.any())
    j["swap"] = {{"layers", o.swap.layers},
                 {"memory_share", o.swap.memory},
                 {"drives", o.swap.drives},
                 {"spill_layers", o.swap.spill_layers}};
  j["steps"] = plan.job.train.steps;
  j["steps_simulated"] = o.steps;
  j["times_from"] = from;
  j["stages"] = nlohmann::ordered_json::array();
  for (const auto& t : o.times.stages)
    j["stages"].push_back({{"forward_s", static_cast<double>(t.forward_ns) / 1e9},
                           {"backward_s", static_cast<double>(t.backward_ns) / 1e9},
                           {"update_s", static_cast<double>(t.update_ns) / 1e9},
                           {"save_s", static_cast<double>(t.save_ns) / 1e9}});
  j["not_simulated"] = nlohmann::ordered_json::array();
  for (const auto& l : left) j["not_simulated"].push_back({{"keys", l.keys}, {"why", l.why}});
  return j;
}

}  // namespace

result<simulated_file> simulated_from(const job_simulation& a, int64_t steps) {
  TROUPE_TRY(loaded, a.job.load());
  const bool loses_heads = a.has_one_head && !loaded.value.cluster.heads.empty();
  if (loses_heads) loaded.value.cluster.heads.clear();
  TROUPE_TRY(plan, train::make_plan(loaded.value));
  TROUPE_TRY(pace, pace_of(a, plan));
  simulated_file out;
  TROUPE_TRY(options, sim::options_of(plan, pace.pace, steps));
  out.options = std::move(options);
  const auto& o = out.options;
  const auto from = from_text(pace, o.times);
  auto left = sim::not_simulated(loaded);
  if (loses_heads)
    left.push_back({{"cluster.heads"}, "--fault makes faults of a job with one head"});
  out.facts = facts_of(plan, o, from, left);
  out.text = fmt::format(
      "job {}: nodes: {}, spares: {}, workers: {} (data {} x pipeline {}), micro-batches a step: "
      "{}\n",
      plan.job.job.name, o.nodes, o.spares, plan.job.workers(), plan.job.parallel.data,
      plan.job.parallel.pipeline, plan.micro_batches);
  if (o.steps != plan.job.train.steps)
    out.text += fmt::format("simulated: {} of train.steps = {} (--steps says how many)\n",
                            counted(o.steps, "step"), plan.job.train.steps);
  out.text += "times: " + from + "\n" + stage_text(o.times);
  if (o.heads > 1) out.text += fmt::format("heads: {}, one of which acts\n", o.heads);
  if (o.swap.any()) out.text += sim::swap_text(plan.job, o.swap);
  for (const auto& l : left)
    out.text += fmt::format("not simulated: {}: {}\n", fmt::join(l.keys, ", "), l.why);
  return out;
}

}  // namespace troupe::apps

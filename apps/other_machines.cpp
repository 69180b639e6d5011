// Probes to paces, and what is seen here carried over.
#include "apps/other_machines.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/train/measured_split_policy.hpp"
#include "apps/run_machines.hpp"
#include "gpu/predict/roofline.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

using io::perf::hw_machine;
using io::perf::hw_profile;

/// Times as much where something is outside of what was measured.
constexpr double outside_by = 2;
/// Rows and columns of the probes' products.
constexpr int64_t probed_side = 1024;
/// Times as quick as this machine, or as slow.
constexpr double near_this_machine = 10;

/// Numbers that are asked for, and the names of those that are not there.
class needed_numbers {
 public:
  explicit needed_numbers(const hw_profile& is) : is_(is) {}

  /// By its name; 1 where it is missing.
  double of(hw_profile::value hw_profile::*number) {
    if (is_.*number) return *(is_.*number);
    for (const auto& field : io::perf::hw_fields())
      if (field.number == number) missing_.emplace_back(field.name);
    return 1;
  }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  const hw_profile& is_;
  std::vector<std::string> missing_;
};

measured_worker gpu_worker(needed_numbers& needed) {
  measured_worker out;
  out.paces.flops_s = 1e12 * needed.of(&hw_profile::gpu_gemm_tflop_s);
  out.paces.updates_s = 1e6 * needed.of(&hw_profile::gpu_adamw_mparam_s);
  out.cores = std::max<int64_t>(1, std::llround(needed.of(&hw_profile::gpus)));
  return out;
}

/// A worker's threads have their share of what all threads reached.
measured_worker host_worker(needed_numbers& needed, const train::job_plan& plan, int64_t workers) {
  measured_worker out;
  const bool half = plan.job.model.dtype == config::compute_dtype::bf16;
  const double all = needed.of(&hw_profile::probe_threads);
  out.cores = std::max<int64_t>(1, std::llround(all));
  out.threads =
      static_cast<int>(plan.job.cluster.threads > 0 ? plan.job.cluster.threads
                                                    : std::max<int64_t>(1, out.cores / workers));
  const double share = std::min(1.0, out.threads / all);
  out.paces.flops_s =
      share * 1e9 * needed.of(half ? &hw_profile::gemm_bf16_gflop_s : &hw_profile::gemm_gflop_s);
  out.paces.updates_s = share * 1e6 * needed.of(&hw_profile::adamw_mparam_s);
  return out;
}

/// A worker of a machine that has so many. Errors: probes_missing.
result<measured_worker> worker_on(const std::string& file, const hw_machine& machine,
                                  const train::job_plan& plan, int64_t workers) {
  needed_numbers needed(machine.profile);
  const bool on_gpu = is_on_gpus(plan.job, machine.profile);
  if (on_gpu && plan.job.model.dtype != config::compute_dtype::bf16)
    return error{errc::unavailable,
                 fmt::format("{} of {} computes on GPUs, which are probed with model.dtype "
                             "\"bf16\" alone",
                             machine.id, file),
                 "set model.dtype = \"bf16\", or cluster.device = \"host\""};
  auto out = on_gpu ? gpu_worker(needed) : host_worker(needed, plan, workers);
  if (!needed.missing().empty())
    return probes_missing(machine.id, file, fmt::format("{}", fmt::join(needed.missing(), ", ")));
  return out;
}

uint64_t bytes_of_worker(const train::job_plan& plan, const hw_profile& is, int64_t workers) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  if (is_on_gpus(plan.job, is)) return static_cast<uint64_t>(gib * is.gpu_gib.value_or(0));
  return static_cast<uint64_t>(gib * is.mem_gib.value_or(0) / static_cast<double>(workers));
}

/// Bytes that each node sends others in a step.
std::vector<double> sent_bytes(const train::job_plan& plan,
                               const std::vector<train::planned_stage>& stages, size_t nodes) {
  std::vector<double> out(nodes);
  const auto node_of = [&](int64_t rank) {
    return static_cast<size_t>(plan.ranks[static_cast<size_t>(rank)].node);
  };
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto& ranks = stages[s].ranks;
    const bool apart =
        std::ranges::any_of(ranks, [&](int64_t r) { return node_of(r) != node_of(ranks.front()); });
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto at = node_of(ranks[i]);
      if (apart) out[at] += static_cast<double>(stages[s].reduced_bytes + stages[s].gathered_bytes);
      if (s + 1 == stages.size()) continue;
      const auto next = node_of(stages[s + 1].ranks[i]);
      if (next == at) continue;
      for (const auto end : {at, next}) out[end] += static_cast<double>(stages[s].boundary_bytes);
    }
  }
  return out;
}

/// Of the node that takes longest; nothing where a rate that counts is not known.
std::optional<double> network_seconds(const train::job_plan& plan,
                                      const std::vector<train::planned_stage>& stages,
                                      const other_machines& others) {
  constexpr double bytes_of_gbit = 1e9 / 8;
  const auto sent = sent_bytes(plan, stages, others.nodes.size());
  double most = 0;
  for (size_t n = 0; n < sent.size(); ++n) {
    if (sent[n] == 0) continue;
    const auto& rate = others.nodes[n].profile.nic_gbit_s;
    if (!rate) return std::nullopt;
    most = std::max(most, sent[n] / (bytes_of_gbit * *rate));
  }
  return most;
}

/// How all of it would take here, where all nodes are this machine; nothing where its probes lack
/// what is needed.
std::optional<double> roofline_here(const train::job_plan& plan,
                                    const std::vector<train::planned_stage>& stages,
                                    const hw_profile& probes) {
  int64_t workers = 0;
  for (const auto& node : plan.job.cluster.node) workers += node.workers;
  const auto worker = worker_on("", {"this machine", probes}, plan, std::max<int64_t>(1, workers));
  if (!worker) return std::nullopt;
  return expect_step(plan, stages, *worker).step_s;
}

void scale_times(expected_step& e, double by) {
  for (auto& s : e.stages) {
    s.forward *= by;
    s.backward *= by;
    s.update *= by;
  }
  e.step_s *= by;
}

/// What is seen here, by the machines' rooflines.
void carry_over(expected_there& out, const known_here& here, double roofline_here_s) {
  const double roofline_s = out.step.step_s, by = roofline_s / roofline_here_s;
  if (std::abs(std::log(by)) > std::log(near_this_machine))
    out.outside.push_back(
        fmt::format("{:.2g} times this machine's step by their probes: farther than {:.0f} times",
                    by, near_this_machine));
  scale_times(out.step, here.step.step_s / roofline_here_s);
  out.step.least_s = by * here.step.least_s * std::exp(-gpu::predict::machines_differ);
  out.step.most_s = by * here.step.most_s * std::exp(gpu::predict::machines_differ);
  const bool same = here.step.basis == io::perf::past_basis::same_work;
  out.rests_on =
      fmt::format("{} steps of {} of {} on this machine, by what the probes of both differ",
                  grouped(static_cast<int64_t>(here.step.steps)), counted(here.step.runs, "run"),
                  same ? "this work" : "other work");
}

/// Nothing but probes.
void widen_roofline(expected_there& out, const train::job_plan& plan) {
  const auto& of = plan.job;
  const auto narrowest = std::min(plan.model.hidden, of.train.micro_batch * of.train.seq_len);
  if (narrowest < probed_side)
    out.outside.push_back(
        fmt::format("products of {} rows or columns, the probe's have {}", narrowest, probed_side));
  const double roofline_s = out.step.step_s;
  scale_times(out.step, gpu::predict::roofline_usual);
  out.step.least_s = gpu::predict::roofline_least * roofline_s;
  out.step.most_s = gpu::predict::roofline_most * roofline_s;
  out.rests_on = "their probes alone: no steps of such work are known of a machine that was probed";
}

void note_threads(expected_there& out, const other_machines& others) {
  for (size_t n = 0; n < others.nodes.size(); ++n)
    if (const auto& w = others.can.machines[others.can.of_node[n]]; w.threads > w.cores)
      out.outside.push_back(fmt::format("{}: workers of {} threads, {} were measured",
                                        others.nodes[n].id, w.threads, w.cores));
}

/// Where steps take so many times the roofline.
void add_split(expected_there& out, const train::job_plan& plan, const other_machines& others,
               double by) {
  if (plan.job.parallel.pipeline == 1) return;
  std::vector<train::node_pace> places;
  for (size_t n = 0; n < others.nodes.size(); ++n) {
    const auto workers = static_cast<uint64_t>(workers_at(plan.job, n));
    places.push_back({others.can.machines[others.can.of_node[n]].paces.flops_s / by,
                      others.worker_bytes[n] * workers});  // for all of a host
  }
  out.split = train::measured_split(plan, places);
}

/// The host's rates, of all threads that measured.
constexpr hw_profile::value hw_profile::*host_rates[] = {
    &hw_profile::gemm_gflop_s, &hw_profile::gemm_bf16_gflop_s, &hw_profile::adamw_mparam_s};

bool has_host_rates(const hw_profile& is) {
  return is.probe_threads && (is.gemm_gflop_s || is.gemm_bf16_gflop_s) && is.adamw_mparam_s;
}

/// A machine that was probed, and what the prior says of it.
struct probed_reference {
  hw_profile is;
  gpu::predict::machine_speed speed;
};

/// This machine first: how it was probed is known.
std::optional<probed_reference> reference_of(const std::vector<hw_machine>& machines,
                                             known_by_prior& known) {
  std::vector<hw_profile> probed;
  if (known.here) probed.push_back(*known.here);
  for (const auto& m : machines) probed.push_back(m.profile);
  for (const auto& is : probed)
    if (const auto speed = has_host_rates(is) ? known.prior.ask(is) : std::nullopt)
      return probed_reference{is, *speed};
  return std::nullopt;
}

/// By the machines' words on what such steps rest on.
void widen_by_prior(expected_there& out, const other_machines& others) {
  if (others.by_prior.empty()) return;
  const double half = gpu::predict::machines_differ + others.prior_half;
  out.step.least_s *= std::exp(-half);
  out.step.most_s *= std::exp(half);
  constexpr size_t told = 4;
  const auto& all = others.by_prior;
  const auto shown = std::min(told, all.size());
  out.rests_on += fmt::format(
      "; {}{} not probed: beside a machine that was, as predict.prior says (narrower: troupe "
      "predict probe)",
      fmt::join(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      all.size() > shown ? fmt::format(" and {} more", all.size() - shown) : "");
}

std::string layers_text(const train::stage_split& split) {
  return fmt::format("{}", fmt::join(split.layers, ","));
}

}  // namespace

result<other_machines> others_of(const std::string& file, const std::vector<hw_machine>& machines,
                                 const train::job_plan& plan) {
  other_machines out;
  out.file = file;
  const auto places = static_cast<size_t>(plan.job.cluster.places());
  if (machines.size() != 1 && machines.size() != places)
    return other_machine_count(file, machines.size(), places);
  for (size_t n = 0; n < places; ++n) {
    const auto& machine = machines.size() == 1 ? machines.front() : machines[n];
    const auto workers = workers_at(plan.job, n);
    TROUPE_TRY(worker, worker_on(file, machine, plan, workers));
    out.nodes.push_back(machine);
    out.can.machines.push_back(std::move(worker));
    out.can.of_node.push_back(n);
    out.worker_bytes.push_back(bytes_of_worker(plan, machine.profile, workers));
  }
  return out;
}

result<other_machines> others_of(const std::vector<probed_place>& places,
                                 const train::job_plan& plan) {
  constexpr const char* nodes = "the nodes";
  const auto count = static_cast<size_t>(plan.job.cluster.places());
  if (places.size() != count) return other_machine_count(nodes, places.size(), count);
  std::map<std::string, int64_t> workers;  // by host
  for (size_t n = 0; n < count; ++n) workers[places[n].host] += workers_at(plan.job, n);
  other_machines out;
  out.file = nodes;
  std::map<std::string, size_t> machines;  // by host
  for (size_t n = 0; n < count; ++n) {
    const auto& place = places[n];
    const auto all = workers[place.host];
    const auto [at, is_new] = machines.try_emplace(place.host, out.can.machines.size());
    if (is_new) {
      TROUPE_TRY(worker, worker_on(nodes, place.machine, plan, all));
      out.can.machines.push_back(std::move(worker));
    }
    out.nodes.push_back(place.machine);
    out.can.of_node.push_back(at->second);
    out.worker_bytes.push_back(bytes_of_worker(plan, place.machine.profile, all));
  }
  return out;
}

filled_machines fill_by_prior(std::vector<hw_machine>& machines, known_by_prior& known) {
  filled_machines out;
  const auto reference = reference_of(machines, known);
  if (!reference) return out;
  for (auto& m : machines) {
    auto& is = m.profile;
    const auto& threads = is.probe_threads ? is.probe_threads
                          : is.usable_cpus ? is.usable_cpus
                                           : is.cpus;
    const bool lacks = !is.gemm_gflop_s && !is.gemm_bf16_gflop_s && !is.adamw_mparam_s;
    const auto speed = lacks && threads ? known.prior.ask(is) : std::nullopt;
    if (!speed) continue;
    const auto slower = gpu::predict::times_as_long(*speed, reference->speed);
    const double by = *threads / *reference->is.probe_threads / slower.by;
    for (const auto rate : host_rates)
      if (const auto& its = reference->is.*rate) is.*rate = by * *its;
    is.probe_threads = threads;
    out.names.push_back(m.id);
    out.half = std::max(out.half, slower.half);
  }
  return out;
}

result<other_machines> read_others(const other_files& files, const train::job_plan& plan,
                                   std::optional<known_by_prior> known) {
  const auto& file = files.like.empty() ? files.nodes : files.like;
  TROUPE_TRY(machines, io::perf::read_hw_machines(file));
  const auto places = static_cast<size_t>(plan.job.cluster.places());
  const size_t expected = files.like.empty() ? places : 1;
  if (machines.size() != expected) return other_machine_count(file, machines.size(), expected);
  const auto filled = known ? fill_by_prior(machines, *known) : filled_machines{};
  TROUPE_TRY(out, others_of(file, machines, plan));
  out.by_prior = filled.names;
  out.prior_half = filled.half;
  return out;
}

expected_there expect_there(const train::job_plan& plan,
                            const std::vector<train::planned_stage>& stages,
                            const other_machines& others, const std::optional<known_here>& here) {
  expected_there out;
  out.step = expect_step_on(plan, stages, others.can);
  const double roofline_s = out.step.step_s;
  const auto here_s = here ? roofline_here(plan, stages, here->probes) : std::nullopt;
  if (here_s)
    carry_over(out, *here, *here_s);
  else
    widen_roofline(out, plan);
  widen_by_prior(out, others);
  note_threads(out, others);
  if (!out.outside.empty()) out.step.most_s *= outside_by;  // OTH-2
  add_split(out, plan, others, out.step.step_s / roofline_s);
  out.network_s = network_seconds(plan, stages, others);
  if (out.network_s) {  // between nothing of it beside the work, and all of it twice
    out.step.step_s += *out.network_s;
    out.step.most_s += 2 * *out.network_s;
  }
  out.step.tokens_s = static_cast<double>(plan.job.tokens_per_step()) / out.step.step_s;
  out.step.run_s = static_cast<double>(plan.job.train.steps) * out.step.step_s;
  return out;
}

tightest_rank tightest_of(const train::job_plan& plan,
                          const std::vector<train::planned_stage>& stages,
                          const other_machines& others) {
  tightest_rank out;
  double most = 0;
  for (const auto& s : stages)
    for (const auto rank : s.ranks) {
      const auto node = static_cast<size_t>(plan.ranks[static_cast<size_t>(rank)].node);
      const auto has = others.worker_bytes.at(node);
      if (has == 0) continue;
      const double share = static_cast<double>(s.bytes.total()) / static_cast<double>(has);
      if (share <= most) continue;
      most = share;
      out = {s.bytes.total(), has, others.nodes[node].id};
    }
  return out;
}

std::optional<run_machines> machines_of(const other_machines& others, const config::job& job) {
  std::vector<run_place> places;
  for (size_t n = 0; n < others.nodes.size(); ++n)
    places.push_back({fmt::format("{}", others.can.of_node[n]), others.nodes[n].profile});
  return machines_of(places, job);
}

std::string there_text(const train::job_plan& plan, const expected_there& e,
                       std::string_view head) {
  auto out = times_text(plan, e.step, head);
  out += fmt::format("  by {}; not counted: {}data, checkpoints, validations\n", e.rests_on,
                     e.network_s ? "" : "what ranks send each other (no nic_gbit_s is known), ");
  if (e.network_s.value_or(0) > 0)
    out += fmt::format("  the network takes {} of a step\n",
                       trace::duration_text(std::llround(1e9 * *e.network_s)));
  for (const auto& one : e.outside) out += fmt::format("  outside of what was measured: {}\n", one);
  if (!e.split) return out;
  constexpr std::string_view placement = "  parallel.placement = \"measured\"";
  if (!*e.split) return out + fmt::format("{}: {}\n", placement, render(e.split->error()));
  const auto& split = **e.split;
  const bool as_planned = layers_text(split) == train::stage_layers_text(plan);
  return out + fmt::format("{} {} the stages {} layers: {}\n", placement,
                           as_planned ? "leaves" : "gives", layers_text(split), split.reason);
}

nlohmann::ordered_json there_json(const train::job_plan& plan, const other_machines& others,
                                  const expected_there& e) {
  auto out = times_json(e.step);
  if (e.network_s) out["network_s"] = *e.network_s;
  out["rests_on"] = e.rests_on;
  out["outside"] = e.outside;
  if (!others.by_prior.empty()) out["by_prior"] = others.by_prior;
  out["machines"] = nlohmann::ordered_json::array();
  for (size_t n = 0; n < others.nodes.size(); ++n) {
    const auto& w = others.can.machines[others.can.of_node[n]];
    out["machines"].push_back({{"name", others.nodes[n].id},
                               {"flops_s", w.paces.flops_s},
                               {"update_parameters_s", w.paces.updates_s},
                               {"worker_bytes", others.worker_bytes[n]}});
  }
  if (!e.split) return out;
  if (!*e.split) {
    out["measured_placement"] = {{"not_known", render(e.split->error())}};
    return out;
  }
  const auto& split = **e.split;
  out["measured_placement"] = {{"layers", layers_text(split)},
                               {"as_planned", layers_text(split) == train::stage_layers_text(plan)},
                               {"slowest_s", split.slowest_s},
                               {"reason", split.reason}};
  return out;
}

}  // namespace troupe::apps

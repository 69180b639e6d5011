// The job of a simulated cluster, and random ones.
#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/sim/environment.hpp"
#include "actors/sim/parent_budget.hpp"
#include "actors/sim/persons_job.hpp"
#include "actors/sim/simulation.hpp"
#include "actors/sim/swapped_job.hpp"
#include "actors/train/memory_estimate.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_ranks.hpp"
#include "gpu/swap/activation_plan.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "io/config/load.hpp"
#include "io/data/token_file.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t millisecond_ns = 1'000'000;
constexpr int64_t second_ns = 1'000 * millisecond_ns;

constexpr int threads_of_a_rank = 1;
constexpr int64_t any_host_bytes = int64_t{1} << 40;
/// On each host's own drive.
constexpr const char* swap_dir = "/swap";

constexpr uint32_t vocabulary = 256;
constexpr int32_t token_count = 4096;

result<io::unique_fd> make_file() {
  TROUPE_TRY(where,
             io::scratch_folder::make(std::filesystem::temp_directory_path(), "troupe-sim-"));
  const auto path = where.path() / "tokens.bin";
  TROUPE_TRY(writer, io::token_file_writer::create(path, vocabulary));
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < token_count; ++i) ids.push_back(i * 7 % static_cast<int32_t>(vocabulary));
  TROUPE_CHECK(writer.append(ids));
  TROUPE_CHECK(writer.finish());
  return io::open_read(path);
}

/// The file that all simulations of this process read, by the real loaders: 4,096 tokens below 256,
/// llm.c's format. It has no name that could be left behind.
result<std::filesystem::path> simulated_tokens() {
  static const auto file = make_file();
  if (!file) return file.error();
  return std::filesystem::path(fmt::format("/proc/self/fd/{}", file->get()));
}

/// Faults of anything, and those of folders.
std::pair<std::vector<fault_kind>, std::vector<fault_kind>> split(
    const std::vector<fault_kind>& kinds) {
  std::pair<std::vector<fault_kind>, std::vector<fault_kind>> out;
  for (const auto k : kinds)
    if (!is_of_heads(k) && !is_of_drives(k) && !is_of_power(k) && !is_of_pace(k))
      (is_of_folders(k) ? out.second : out.first).push_back(k);
  return out;
}

std::vector<fault_kind> paces_of(const std::vector<fault_kind>& kinds) {
  std::vector<fault_kind> out;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(out), is_of_pace);
  return out;
}

void add_faults(simulation_options& o, const std::vector<fault>& more) {
  o.faults.insert(o.faults.end(), more.begin(), more.end());
  std::stable_sort(o.faults.begin(), o.faults.end(),
                   [](const fault& a, const fault& b) { return a.at_ns < b.at_ns; });
}

/// By a generator of their own: in a quarter of the seeds nothing is drawn, and they are what they
/// were.
void draw_folders(simulation_options& o, const std::vector<fault_kind>& kinds, int64_t span_ns) {
  if (kinds.empty()) return;
  rng random(mix(o.seed ^ 0x22));
  if (random.chance(0.25)) return;
  o.second = random.chance(0.7);
  o.second_keep = static_cast<int>(random.below(4));
  o.second_every = static_cast<int>(random.below(3));
  o.copy_slot_ns = random.between(1, 20) * millisecond_ns;
  if (o.second && random.chance(0.4)) o.wipes = 0.5;
  o.real_folders = random.chance(0.5);
  const auto more = draw_faults(random, kinds, static_cast<int>(random.below(4)), span_ns);
  o.times.export_ns = random.between(1, 1000) * millisecond_ns;  // many are killed in it
  add_faults(o, more);
}

/// In a third of the seeds, by a generator of their own: the rest means what it did.
void draw_paces(simulation_options& o, const std::vector<fault_kind>& kinds, int64_t span_ns) {
  rng random(mix(o.seed ^ 0x7061636573));
  if (!kinds.empty() && random.chance(1.0 / 3))
    add_faults(o, draw_faults(random, kinds, static_cast<int>(random.between(1, 3)), span_ns));
}

/// Their addresses are loopback's, for which no job asks for certificates.
void be_of_heads(config::job& job, const simulation_options& o) {
  job.cluster.port = 0;
  for (int i = 0; i < o.heads; ++i)
    job.cluster.heads.push_back(fmt::format("127.0.0.1:{}", 29'401 + i));
  job.recovery.head_takeover_s = o.head_takeover_s;
  job.recovery.most_per_hour = 1'000;
  job.job.output = "/job";
}

/// The least with which the most demanding rank's layers spill: with less they compute again.
uint64_t spilling_bytes(const train::job_plan& plan, int layers) {
  uint64_t most = 0;
  for (const auto& rank : plan.ranks) {
    auto o = train::settled_options(plan, rank, threads_of_a_rank);
    o.shape.activations = gpu::choices_by_layer({0, 0, layers}, o.shape.layers());
    o.shape.where = {};
    const auto beside = train::process_overhead_bytes(plan.job, o);
    o.shape.where = gpu::least_residency(o.model, o.shape, train::steps_of(o));
    const auto stage = gpu::plan_stage(o.model, o.shape).total();
    most = std::max(most, beside + stage * train::workers_of(plan.job));
  }
  return most;
}

/// Of the hosts together, as if they were one machine: what layers are chosen by
/// (actors/train/spill_replan.hpp).
config::swap_rates_section rates_of_hosts(const train::job_plan& plan,
                                          const simulation_options& o) {
  constexpr double of_updates = 1e12;  // none that a step would wait for
  const auto rank = train::settled_options(plan, plan.ranks.front(), threads_of_a_rank);
  const auto step_ns = (o.times.forward_ns + o.times.backward_ns) * o.micro_batches;
  gpu::machine_rates out;
  out.flops_s = train::step_flops(rank) * static_cast<double>(rank.at.grid.data) /
                (static_cast<double>(step_ns) / static_cast<double>(second_ns));
  out.read_bytes_s = o.swap.read_bytes_per_s * o.nodes;
  out.write_bytes_s = o.swap.write_bytes_per_s * o.nodes;
  out.duplex = 1;
  out.updates_s = of_updates;
  return train::section_of(out);
}

/// A model whose state is more than what brings it, and a budget that does not hold all of it: of a
/// job that is all else already.
status be_swapped(config::job& job, const simulation_options& o) {
  const auto& s = o.swap;
  job.model.layers = s.layers * o.pipeline;
  if (!s.stage_layers.empty())
    job.model.layers = std::accumulate(s.stage_layers.begin(), s.stage_layers.end(), int64_t{0});
  if (s.stage_layers.size() > 1)
    job.parallel.layers = fmt::format("{}", fmt::join(s.stage_layers, ","));
  job.model.heads = 2;
  job.model.hidden = 32;
  job.train.clip_norm = s.clip_norm;
  if (s.lamb) job.train.optimizer = config::optimizer_kind::lamb;
  if (s.by_layer && o.pipeline == 1) job.parallel.schedule = config::pipeline_schedule::by_layer;
  job.swap.dir = {swap_dir};
  job.swap.clip = s.clip;
  job.swap.patience_s = s.patience_s;
  if (s.spill_layers > 0) {
    job.swap.keep_layers = job.swap.half_layers = 0;
    job.swap.spill_layers = s.spill_layers;
  }
  if (!o.of) job.timeouts.step_s = job.timeouts.operation_s = s.step_s;
  job.swap.host_bytes = any_host_bytes;
  TROUPE_TRY(settled, config::settle(job));
  TROUPE_TRY(plan, train::make_plan(settled));
  auto least = train::swap_floor_bytes(plan, threads_of_a_rank);
  if (s.spill_layers > 0) least = std::max(least, spilling_bytes(plan, s.spill_layers));
  if (s.replans) job.swap.rates = rates_of_hosts(plan, o);
  const auto all = whole_bytes(plan, threads_of_a_rank);
  job.swap.host_bytes = static_cast<int64_t>(
      least + static_cast<uint64_t>(s.memory * static_cast<double>(all - std::min(all, least))));
  return {};
}

/// The plan is the pacer's: no file is read.
void take_slack(config::job& job) {
  job.power.slack = config::slack_source::plan;
  job.power.profile = "clocks.csv";
  job.power.blocking_w = power_model_options{}.idle_w;
  job.power.control = {"nvml_clocks"};
}

}  // namespace

result<config::job> simulated_job(const simulation_options& o) {
  config::job job;
  job.job.name = "simulation";
  job.job.seed = static_cast<int64_t>(o.seed & 0x7fffffff);
  auto& c = job.cluster;
  c.nodes = o.nodes;
  c.spares = o.spares;
  for (int n = 0; n < o.nodes + o.spares; ++n)
    c.node.push_back({fmt::format("node{}", n), fmt::format("node{}", n), o.workers, n >= o.nodes});
  c.workers_per_node = o.workers;
  c.heartbeat_interval_ms = o.heartbeat_ms;
  job.power.meter_interval_ms = o.meter_ms;
  job.power.budget_w = o.budget_w;
  job.power.ramp_w_s = o.ramp_w_s;
  if (o.slack) take_slack(job);
  if (o.power_parent_w > 0) job.power.parent = "auto";
  c.suspect_after_ms = o.suspect_after_ms;
  c.dead_after_ms = o.dead_after_ms;
  c.join_timeout_ms = o.join_timeout_ms;
  c.launch = config::launch_mode::external;
  job.recovery.enabled = o.recovers;
  job.recovery.fewer_replicas = o.fewer_replicas;
  job.recovery.head_grace_s = o.head_grace_s;
  c.port = head_port;
  if (o.heads > 1) be_of_heads(job, o);
  c.insecure = true;
  c.threads = 1;
  const int ranks = o.nodes * o.workers;
  job.parallel.pipeline = o.pipeline;
  job.parallel.data = ranks / std::max(1, o.pipeline);
  job.model.family = model_family::llama;
  job.model.layers = o.pipeline;
  if (o.quiet_steps > 0) job.predict.quiet_steps = o.quiet_steps;
  if (!o.times.slowness.empty() && o.times.is_measured) {
    constexpr int64_t layers_of_a_stage = 4;
    job.parallel.placement = config::stage_placement::measured;
    for (int n = 0; n < o.nodes && !o.times.may_change_places; ++n)
      job.parallel.nodes += fmt::format("{}node{}", n == 0 ? "" : ",", n);
    job.model.layers *= layers_of_a_stage;
  }
  job.model.heads = 1;
  job.model.hidden = 8;
  job.model.vocab = 256;
  TROUPE_TRY(tokens, simulated_tokens());
  job.data.path = {tokens.string()};
  job.data.format = config::data_format::llmc;
  job.data.validation_fraction = 0.1;
  job.train.steps = o.steps;
  job.train.micro_batch = 1;
  job.train.batch = job.parallel.data * o.micro_batches;
  job.train.seq_len = 8;
  job.train.validate_every = o.validate_every;
  job.train.validate_batches = 2;
  job.checkpoint.dir = first_dir;
  job.checkpoint.slot_bytes = static_cast<int64_t>(4 * io::disk_block);
  job.checkpoint.every = o.checkpoint_every;
  job.checkpoint.when_busy = o.when_busy;
  job.checkpoint.keep = o.keep;
  if (o.second) {
    job.checkpoint.second.dir = second_dir;
    job.checkpoint.second.every = o.second_every;
    job.checkpoint.second.keep = o.second_keep;
    job.checkpoint.second.bytes_per_second =
        static_cast<int64_t>(io::disk_block) * second_ns / o.copy_slot_ns;
  }
  if (o.of) be_of_person(job, *o.of);
  if (o.swap.any()) TROUPE_CHECK(be_swapped(job, o));  // by all that takes memory
  return config::settle(job);
}

simulation_options fuzzed(uint64_t seed, const std::vector<fault_kind>& kinds) {
  rng random(mix(seed));
  simulation_options o;
  o.seed = seed;
  o.pipeline = 1 << random.below(3);
  const int replicas = static_cast<int>(random.between(1, 3));
  const int ranks = o.pipeline * replicas;
  o.workers = ranks % 2 == 0 && random.chance(0.5) ? 2 : 1;
  o.nodes = ranks / o.workers;
  o.micro_batches = static_cast<int>(random.between(1, 4));
  o.steps = static_cast<int>(random.between(2, 10));
  o.checkpoint_every = static_cast<int>(random.between(0, 4));
  o.when_busy = static_cast<config::when_busy>(random.between(0, 2));
  o.validate_every = static_cast<int>(random.below(2) * random.between(1, 4));
  o.heartbeat_ms = random.between(50, 500);
  o.suspect_after_ms = 3 * o.heartbeat_ms;
  o.dead_after_ms = 8 * o.heartbeat_ms;
  o.links.most_delay_ns = random.between(50'000, 5'000'000);
  o.times.save_ns = random.between(1, 200) * millisecond_ns;
  o.times.jitter = random.unit();
  o.launches = 3;
  o.mailbox_limit = static_cast<uint32_t>(64 + 16 * ranks * (o.micro_batches + 2));
  const auto [elsewhere, of_folders] = split(kinds);
  const auto span_ns = random.between(200, 2000) * millisecond_ns;
  const auto count = static_cast<int>(random.below(5));
  o.faults = draw_faults(random, elsewhere, count, span_ns);
  o.keep = static_cast<int>(random.below(4));
  if (random.chance(0.5)) {
    o.returns = 0.6;
    o.launches = 5;
  }
  draw_folders(o, of_folders, span_ns);
  draw_paces(o, paces_of(kinds), span_ns);
  o.recovers = rng(mix(seed ^ 0x7265636f766572)).chance(0.5);  // apart: the rest means what it did
  rng spares(mix(seed ^ 0x737061726573));
  if (o.recovers && spares.chance(0.5)) {
    o.spares = static_cast<int>(spares.between(1, std::min(o.nodes, 2)));
    o.relaunches = spares.chance(0.5);
  }
  rng fewer(mix(seed ^ 0x6665776572));
  if (o.recovers && fewer.chance(0.5)) {
    o.fewer_replicas = true;
    if (o.spares == 0) o.relaunches = fewer.chance(0.5);
  }
  return o;
}

simulation_options fuzzed_heads(uint64_t seed, const std::vector<fault_kind>& kinds, int heads) {
  rng random(mix(seed ^ 0x6865616473));
  simulation_options o;
  o.seed = seed;
  o.heads = heads;
  o.recovers = true;
  o.nodes = static_cast<int>(random.between(1, 4));
  o.pipeline = o.nodes % 2 == 0 && random.chance(0.5) ? 2 : 1;
  o.spares = static_cast<int>(random.below(2));
  o.micro_batches = static_cast<int>(random.between(1, 2));
  o.steps = static_cast<int>(random.between(20, 200));
  o.checkpoint_every = static_cast<int>(random.between(1, 20));
  o.keep = static_cast<int>(random.below(4));
  o.heartbeat_ms = random.between(50, 300);
  o.suspect_after_ms = 3 * o.heartbeat_ms;
  o.dead_after_ms = 8 * o.heartbeat_ms;
  o.head_takeover_s = random.between(1, 5);
  o.head_grace_s = random.between(20, 90);
  o.prepare_ns = random.between(1, 3000) * millisecond_ns;
  o.launch_ns = random.between(20, 2000) * millisecond_ns;
  o.links.most_delay_ns = random.between(50'000, 5'000'000);
  o.times.save_ns = random.between(1, 200) * millisecond_ns;
  o.times.forward_ns = random.between(1, 50) * millisecond_ns;
  o.times.jitter = random.unit();
  o.meter_ms = 0;
  o.mailbox_limit = 1024;
  o.faults = draw_faults(random, kinds, static_cast<int>(random.below(6)),
                         random.between(1, 30) * second_ns);
  return o;
}

namespace {

/// What steps of such a cluster take, roughly.
int64_t step_ns_of(const simulation_options& o) {
  const auto passes = o.micro_batches + o.pipeline - 1;
  return passes * (o.times.forward_ns + o.times.backward_ns) + o.times.update_ns;
}

/// Most begin once what is normal is known, and last for longer than it takes to see them.
void draw_slowness(simulation_options& o, const std::vector<fault_kind>& kinds, rng& random) {
  constexpr int window = 20;  // of steps, and some room
  const auto step_ns = step_ns_of(o);
  for (auto left = random.below(3); left > 0 && !kinds.empty(); --left) {
    fault f;
    f.kind = kinds[random.below(kinds.size())];
    f.at_ns = step_ns * random.between(o.quiet_steps, 3 * (o.quiet_steps + window));
    f.lasts_ns = step_ns * random.between(20, 200);
    f.random = random.next();
    add_faults(o, {f});
  }
}

}  // namespace

simulation_options fuzzed_watched(uint64_t seed, const std::vector<fault_kind>& kinds) {
  rng random(mix(seed ^ 0x77617463686564));
  simulation_options o;
  o.seed = seed;
  o.monitored = true;
  constexpr predictor_is beside[] = {predictor_is::working, predictor_is::working,
                                     predictor_is::hung, predictor_is::killed};
  o.predictor = beside[random.below(std::size(beside))];
  o.pipeline = 1 << random.below(2);
  o.workers = static_cast<int>(random.between(1, 2));
  o.nodes = o.pipeline * static_cast<int>(random.between(o.pipeline > 1 ? 1 : 2, 3));
  o.micro_batches = static_cast<int>(random.between(1, 3));
  o.quiet_steps = static_cast<int>(random.between(12, 32));
  o.steps = static_cast<int>(random.between(150, 250));
  o.checkpoint_every = static_cast<int>(random.below(2) * random.between(10, 50));
  o.validate_every = static_cast<int>(random.below(2) * random.between(10, 50));
  o.heartbeat_ms = random.between(50, 500);
  o.suspect_after_ms = 3 * o.heartbeat_ms;
  o.dead_after_ms = 8 * o.heartbeat_ms;
  o.meter_ms = 0;
  o.times.jitter = 0.1 * random.unit();
  o.mailbox_limit = 1024;
  if (random.chance(0.3)) {  // machines that are not alike
    o.times.is_measured = false;
    for (int n = 0; n < o.nodes; ++n) o.times.slowness.push_back(1 + random.unit());
  }
  auto slow = paces_of(kinds);
  for (const auto kind : {fault_kind::slow_device, fault_kind::save_now, fault_kind::set_value})
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) slow.push_back(kind);
  draw_slowness(o, slow, random);
  return o;
}

/// Long enough for steps that say what a drive keeps, which is slow for some of them.
void draw_replanned(simulation_options& o, const std::vector<fault_kind>& kinds, rng& random) {
  auto& s = o.swap;
  s.replans = true;
  s.spill_layers = s.layers;
  s.read_bytes_per_s = s.write_bytes_per_s = 1e6 * static_cast<double>(random.between(5, 20));
  o.steps += 20;
  if (std::find(kinds.begin(), kinds.end(), fault_kind::slow_disk) == kinds.end()) return;
  fault f;
  f.kind = fault_kind::slow_disk;
  f.at_ns = random.between(200, 2000) * millisecond_ns;
  f.lasts_ns = random.between(30, 120) * second_ns;
  f.random = random.next();
  o.faults.push_back(f);
}

simulation_options fuzzed_swap(uint64_t seed, const std::vector<fault_kind>& kinds) {
  auto o = fuzzed(seed, kinds);
  rng random(mix(seed ^ 0x73776170));
  auto& s = o.swap;
  s.layers = static_cast<int>(random.between(8, 12));
  s.memory = random.chance(0.5) ? 0 : random.unit();
  s.by_layer = random.chance(0.5);
  const bool alone = o.pipeline * o.nodes * o.workers == 1;
  if (alone && random.chance(0.3)) s.clip_norm = 0;
  if (alone && s.clip_norm > 0) s.clip = static_cast<config::clip_way>(random.below(4));
  rng replicas(mix(seed ^ 0x7265706c));  // apart: the rest means what it did
  if (!alone && o.pipeline == 1 && replicas.chance(0.5)) {
    if (replicas.chance(0.4)) s.clip_norm = 0;
    if (replicas.chance(0.5)) s.clip = config::clip_way::twice;
  }
  rng before_norm(mix(seed ^ 0x76657264));  // apart: the rest means what it did
  if (!alone && o.pipeline == 1 && before_norm.chance(0.3)) s.clip = config::clip_way::speculate;
  s.links = random.chance(0.7);
  s.drives = random.chance(0.3) ? 2 : 1;
  s.read_bytes_per_s = s.write_bytes_per_s = 1e6 * static_cast<double>(random.between(5, 200));
  rng spills(mix(seed ^ 0x7370696c6c));  // apart: the rest means what it did
  if (spills.chance(0.3)) s.spill_layers = static_cast<int>(spills.between(1, 4));
  if (s.spill_layers > 0 && spills.chance(0.5)) draw_replanned(o, kinds, spills);
  std::vector<fault_kind> of_drives;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(of_drives), is_of_drives);
  const auto more = draw_faults(random, of_drives, static_cast<int>(random.below(5)),
                                random.between(200, 2000) * millisecond_ns);
  add_faults(o, more);
  return o;
}

namespace {

constexpr double least_share = 0.15;  // the least pace and some room

/// What all devices draw at that share of their work.
double drawn_w(const simulation_options& o, double share) {
  const power_model_options draw;
  return devices_of(o) * (draw.idle_w + (draw.backward_w - draw.idle_w) * share);
}

}  // namespace

double devices_of(const simulation_options& o) {
  return static_cast<double>((o.nodes + o.spares) * o.workers);
}

double least_budget_w(const simulation_options& o) {
  return drawn_w(o, least_share);
}

simulation_options fuzzed_budget(uint64_t seed, const std::vector<fault_kind>& kinds) {
  auto o = fuzzed(seed, kinds);
  rng random(mix(seed ^ 0x706f776572));
  o.steps = static_cast<int>(random.between(10, 80));
  o.times.forward_ns = random.between(10, 120) * millisecond_ns;
  o.times.backward_ns = 2 * o.times.forward_ns;
  o.meter_ms = random.between(100, 1000);
  o.budget_w = drawn_w(o, least_share + random.unit());
  if (random.chance(0.4)) o.faults.clear();
  const auto last_ns = random.between(1, 60) * second_ns;
  std::vector<fault_kind> of_power;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(of_power),
               [](auto kind) { return is_of_power(kind) && !is_of_parent(kind); });
  rng more_random(mix(seed ^ 0x6d65746572));
  const auto more =
      draw_faults(more_random, of_power, static_cast<int>(more_random.below(4)), last_ns);
  o.faults.insert(o.faults.end(), more.begin(), more.end());
  for (auto& f : o.faults) f.at_ns = random.between(0, last_ns);
  std::stable_sort(o.faults.begin(), o.faults.end(),
                   [](const fault& a, const fault& b) { return a.at_ns < b.at_ns; });
  return o;
}

simulation_options fuzzed_parent(uint64_t seed, const std::vector<fault_kind>& kinds) {
  auto o = fuzzed_budget(seed, kinds);
  rng random(mix(seed ^ 0x706172656e74));
  constexpr double least_times = 1.3, most_more = 1.7;
  o.power_parent_w = least_budget_w(o) * (least_times + most_more * random.unit());
  if (random.chance(0.7)) o.budget_w = 0;
  rng rules(mix(seed ^ 0x6272616b65));  // apart: the rest means what it did
  o.power_thresholds = rules.chance(0.25);
  o.power_pulls = rules.chance(0.5);
  constexpr int64_t least_dead_after_ms = 1000;  // of a job under a power budget
  o.dead_after_ms = std::max(o.dead_after_ms, least_dead_after_ms);
  std::vector<fault_kind> of_parent;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(of_parent), is_of_parent);
  const auto more = draw_faults(random, of_parent, static_cast<int>(random.between(1, 5)),
                                random.between(10, 90) * second_ns);
  add_faults(o, more);
  return o;
}

world_options world_of(const simulation_options& o) {
  world_options w;
  w.seed = o.seed;
  w.nodes = o.nodes + o.spares + 1 + parent_budget::places_of(o);
  w.links = o.links;
  w.shuffle = o.shuffle;
  w.burst = o.burst;
  w.mailbox_limit = o.mailbox_limit;
  w.check_requests = o.check;
  w.in = o.in;
  return w;
}

}  // namespace troupe::sim

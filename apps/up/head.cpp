// A cluster from a configuration, a run on it, and its end.
//
// Every node is a process of its own. The main thread starts the nodes, waits for signals, children
// and the end, and shows the summary.
#include "apps/up/head.hpp"

#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <stop_token>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/defaults.hpp"
#include "actors/capture/crash_dumper.hpp"
#include "actors/checkpoint/committer.hpp"
#include "actors/cluster/coordinator.hpp"
#include "actors/cluster/host.hpp"
#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_links.hpp"
#include "actors/control/gateway.hpp"
#include "actors/control/observer.hpp"
#include "actors/heads/elector.hpp"
#include "actors/health/monitor.hpp"
#include "actors/power/pacer.hpp"
#include "actors/predict/predictor.hpp"
#include "actors/replay/recording.hpp"
#include "actors/train/job_policy.hpp"
#include "actors/train/succession.hpp"
#include "apps/control/job_secret.hpp"
#include "apps/control/meeting_point.hpp"
#include "apps/counted_expectation.hpp"
#include "apps/drills.hpp"
#include "apps/parent.hpp"
#include "apps/ready.hpp"
#include "apps/swap/rates.hpp"
#include "apps/up/conclude.hpp"
#include "apps/up/folders.hpp"
#include "apps/up/head_words.hpp"
#include "apps/up/incident_folders.hpp"
#include "apps/up/launcher.hpp"
#include "apps/up/left_checkpoints.hpp"
#include "apps/up/local_peak.hpp"
#include "apps/up/log_end.hpp"
#include "apps/up/log_start.hpp"
#include "apps/up/node_processes.hpp"
#include "apps/up/power_files.hpp"
#include "apps/up/power_parent.hpp"
#include "apps/up/probed_nodes.hpp"
#include "apps/up/reporter.hpp"
#include "apps/up/slack_planner.hpp"
#include "apps/up/standby.hpp"
#include "apps/up/start_warnings.hpp"
#include "apps/up/stop_signals.hpp"
#include "apps/up/watch.hpp"
#include "apps/up/watchdog.hpp"
#include "apps/voice.hpp"
#include "io/config/heads.hpp"
#include "io/disk/calibrate.hpp"
#include "io/disk/storage.hpp"
#include "messages/errors.hpp"

namespace troupe::apps {

namespace {

/// Everything `up` knows before a process starts.
struct launch {
  train::job_plan plan;
  std::optional<checkpoint::resume_point> resume;
  io::checkpoint::origin origin;  ///< of what is saved
  std::shared_ptr<ceiling_watch> peak;
  held_folders folders;
  train::succession from;  ///< of the head that was lost, or earlier launches
  config::cluster_section at;  ///< as this head is reached
  heads::shared_settings settings;  ///< as they were read, which other heads are compared with
  std::optional<swap::step_limits> swap_limits = {};  ///< on this machine
  power_files power = {};
  std::shared_ptr<slack_planner> slack = {};  ///< null: the job takes none
  std::string data_mark = {};  ///< of what is trained on, for later starts
};

/// A disk that so much is to be written to is worth a second of measuring, once
/// (io/disk/calibrate).
constexpr uint64_t worth_calibrating_bytes = uint64_t{256} << 20;

/// The slots that the disk of checkpoints likes best, unless the job says which.
status settle_slots(train::job_plan& plan, start_warnings& warnings) {
  auto& c = plan.job.checkpoint;
  TROUPE_TRY(shares, checkpoint::shares_of(plan));
  uint64_t bytes = 0;
  for (const auto& s : shares) bytes += s.stream_bytes;
  if (c.slot_bytes != 0 || bytes < worth_calibrating_bytes) return {};
  const auto dir = std::filesystem::absolute(c.dir).lexically_normal();
  TROUPE_CHECK(io::make_folders(io::local_files(), dir));
  auto measured = io::calibrate(c.dir, {});
  if (measured)
    c.slot_bytes = static_cast<int64_t>(measured->best.chunk_bytes);
  else
    warnings.warn("the disk of checkpoints was not measured: " + render(measured.error()));
  return {};
}

/// The number of an incident is the name of its folder, whatever launch it is of.
void go_on_counting(launch& l) {
  const auto before = last_incident(l.plan.job.job.output);
  if (before == 0) return;
  if (!l.from.memory) l.from.memory.emplace();
  auto& count = l.from.memory->account.incidents;
  count = std::max(count, before);
}

result<config::loaded> load_job(const up_arguments& a) {
  auto sources = a.job.sources();
  if (!a.log_format.empty()) sources.sets.push_back("log.format=" + a.log_format);
  if (a.dry_run) sources.sets.emplace_back("power.dry_run=true");
  TROUPE_TRY(loaded, config::load(sources));
  TROUPE_CHECK(check_drills_allowed(loaded, a.allow_injection));
  const auto& all = loaded.value.cluster.heads;
  if (!a.address.empty() && std::find(all.begin(), all.end(), a.address) == all.end())
    return no_such_head(a.address,
                        all.empty() ? "empty" : fmt::format("{}", fmt::join(all, ", ")));
  return loaded;
}

/// The one of cluster.heads that this is; empty: there is but one head.
std::string own_address(const up_arguments& a, const config::job& job) {
  if (!a.address.empty() || job.cluster.heads.empty()) return a.address;
  return job.cluster.heads.front();
}

/// What the head before, or a majority of voters, leaves to this one.
void take_over(launch& l, const up_arguments& a, const std::optional<heads::won_epoch>& won,
               bool first_try, start_warnings& warnings) {
  train::head_before before{.is_told = !first_try, .won = won};
  if (a.goes_on()) before.lost = a.lost;
  l.from = train::succeed(io::local_files(), l.plan.job, l.from.epoch, before);
  if (l.from.not_kept)
    warnings.warn("a head that is started again will know nothing of what is said: " +
                  render(*l.from.not_kept));
}

result<launch> prepare(const up_arguments& a, checkpoint::look resume,
                       const std::optional<heads::won_epoch>& won, start_warnings& warnings) {
  const bool first_try = resume == checkpoint::look::fits;
  const auto how = won && a.goes_on() ? claim_on_folders::depose : claim_of(a.break_lock);
  TROUPE_TRY(loaded, load_job(a));
  // Nodes that others started end with a failed load, and nobody starts them again.
  if (loaded.value.cluster.launch == config::launch_mode::external)
    resume = checkpoint::look::whole;
  TROUPE_CHECK(check_holders(loaded.value, how));
  auto ready = readiness_of(loaded.value, train::this_machine(loaded.value.cluster), resume,
                            a.goes_on() ? swap_held::passes : swap_held::refuses);
  for (const auto& text : loaded.warnings) warnings.warn(text);
  for (const auto& remark : ready.remarks) warnings.remark(remark);
  if (!ready.problems.empty()) {
    TROUPE_CHECK(check_holders(loaded.value, how));  // who came during the checks
    return refusal_of(ready.problems, loaded);
  }
  launch l;
  l.settings = heads::shared_settings(loaded.value);
  TROUPE_TRY(slack, slack_planner::begin(*ready.plan));
  l.slack = std::move(slack);
  // Before anything is written.
  TROUPE_TRY(folders, take_folders(ready.plan->job, a.launcher, how));
  l.folders = std::move(folders);
  for (const auto& text : l.folders.warnings) warnings.keep(text);
  l.data_mark = std::move(ready.data_mark);
  TROUPE_CHECK(look_again(ready, ready.plan->job.checkpoint));
  l.plan = std::move(*ready.plan);
  l.from.epoch = ready.epoch;  // leftovers counted
  l.resume = std::move(ready.resume);
  if (!l.folders.second) l.plan.job.checkpoint.second = {};  // FLD-3; what is there was read
  TROUPE_CHECK(remove_leftovers(l.plan.job.checkpoint, warnings));
  TROUPE_CHECK(settle_slots(l.plan, warnings));
  l.power = power_files(l.plan.job);
  l.peak = local_peak(l.plan.job);
  // A second or two, where the job swaps.
  l.swap_limits = swap::settle_by_rates(
      l.plan, [&warnings](const std::string& sentence) { warnings.remark(sentence); });
  l.origin = checkpoint::origin_of(l.resume, io::checkpoint::draw_launch());
  l.at = config::at_head(l.plan.job.cluster, own_address(a, l.plan.job));
  take_over(l, a, won, first_try, warnings);
  go_on_counting(l);
  if (first_try && !a.goes_on())
    for (const auto& drill : drills_in_words(l.plan.job)) warnings.warn(drill);
  return l;
}

std::string address_of(const config::cluster_section& c) {
  if (!c.advertise.empty()) return c.advertise;
  return c.listen.empty() || c.listen == "0.0.0.0" ? "127.0.0.1" : c.listen;
}

trace::observer_options observer_of(const launch& l) {
  return {"head", address_of(l.at), l.plan.job.job.output};
}

/// Of a head of several.
heads::elector_options elector_of(const launch& l, const std::string& address) {
  auto out = train::acting_elector(l.plan.job, address, l.from);
  out.settings = l.settings;
  out.connector = cluster::connector;
  out.expect = cluster::expect_head;
  return out;
}

/// By what the coordinator is known, and what its nodes are given: certificates where the job has
/// them, which lie on every host; else keys of its secret.
struct launch_means {
  cluster::network_options network;
  std::optional<job_secret> secret;
  std::string node_key;  ///< text; empty: nodes have certificates
};

result<launch_means> means_of(const config::job& job) {
  launch_means out;
  out.network = cluster::network_of(job.cluster, "coordinator");
  if (!out.network.by_certificate()) {
    TROUPE_TRY(secret, job_secret::open(job.job.name, job.job.output));
    TROUPE_TRY(of_nodes, secret.key().of(tls::role::node));
    out.network.proof = tls::proof{secret.key(), {tls::role::node, "coordinator"}};
    out.node_key = of_nodes.text();
    out.secret = std::move(secret);
  }
  TROUPE_CHECK(cluster::prove(out.network));
  return out;
}

trace::gateway_options gateway_of(const launch& l, const reporter_options& talk) {
  const auto& job = l.plan.job.job;
  return {job.name,
          l.from.epoch,
          job.output + "/audit.jsonl",
          wall_time,
          [log = talk.log, outcome = talk.outcome](const trace::setting_taken& taken) {
            log_setting(*log, *outcome, taken);
          },
          l.power.shown()};
}

/// Under a power budget it reads how long this process has computed.
pacer_actor spawn_pacer(caf::actor_system& system, const launch& l,
                        const reporter_actor& reporter) {
  const auto& job = l.plan.job;
  auto options = power::pacer_options_of(job.power, l.from.epoch);
  options.racks = power_racks_of(job, reporter);
  if (options.racks.empty()) options.parent = power_parent_of(joiner_of(job), reporter);
  const bool is_below = options.parent || !options.racks.empty();
  options.journal = l.power.journal();
  if (l.slack) {
    options.slack = l.slack->look();
    options.profiles = l.slack->profiles();
  }
  if (is_below) {
    const auto here = cluster::this_host();
    options.machine = cluster::machine_of(here->facts());
    options.processor_time = [here] { return here->processor_time(); };
  }
  train::spawn_record made_of{l.from.epoch};
  made_of.plan = l.plan;
  made_of.reporter = reporter;
  made_of.machine = options.machine;
  if (is_below)
    made_of.incarnation =
        options.parent ? options.parent->incarnation : options.racks[0].parent.incarnation;
  options.recorded = [made_of = std::move(made_of)] { train::note_spawn_record(made_of); };
  return is_below ? system.spawn<caf::detached>(power::pacer, options)
                  : system.spawn(power::pacer, options);
}

/// What a job computes with is a part of what it learns: it is said here.
troupe::predict::predictor_options predictor_of(const launch& l, std::stop_token over,
                                                monitor_actor monitor,
                                                std::shared_ptr<run_outcome> outcome) {
  auto job = l.plan.job;
  job.cluster.device = is_on_gpus(job) ? config::device_kind::cuda : config::device_kind::host;
  train::spawn_record made_of{l.from.epoch};
  made_of.plan = l.plan;
  made_of.plan.job = job;
  made_of.monitor = monitor;
  troupe::predict::predictor_options out{job, l.from.epoch, troupe::predict::store_of(job),
                                         std::move(over), std::move(monitor)};
  out.recorded = [made_of](auto times) { train::note_spawn_record(made_of, std::move(times)); };
  out.profiled = expect_by_profiles(l.plan, std::move(outcome));
  out.says = [](const std::string& text) { say(text); };
  out.model = l.plan.model;
  out.prior = read_prior(job);
  return out;
}

/// The actors of this process that speak with persons; they end with the scope, after the
/// coordinator was told to.
struct front_office {
  front_office(caf::actor_system& system, const reporter_options& talk, const launch& l,
               const std::string& address)
      : reporter_(system.spawn<caf::detached>(reporter, talk)),
        observer_(system.spawn<caf::detached>(trace::observer, observer_of(l))),
        gateway_(system.spawn<caf::detached>(trace::gateway, gateway_of(l, talk))),
        monitor_(system.spawn(
            troupe::health::monitor,
            troupe::health::monitor_options{l.plan.job, l.from.epoch, gateway_, reporter_,
                                            troupe::health::ask_host_by_tcp})),
        pacer_(spawn_pacer(system, l, reporter_)) {
    if (l.plan.job.predict.enabled)
      predictor_ = system.spawn<caf::detached>(
          troupe::predict::predictor,
          predictor_of(l, predictor_over_.get_token(), monitor_, talk.outcome));
    if (!l.plan.job.cluster.heads.empty())
      elector_ = system.spawn<caf::detached>(heads::elector, elector_of(l, address));
    if (!l.from.journal) return;
    l.from.journal->elector = elector_;
    journal_ = system.spawn<caf::detached>(train::journal, l.from.journal);
  }
  ~front_office() {
    if (journal_) caf::anon_send_exit(journal_, caf::exit_reason::user_shutdown);
    if (elector_) caf::anon_send_exit(elector_, caf::exit_reason::user_shutdown);
    predictor_over_.request_stop();
    if (predictor_) caf::anon_send_exit(predictor_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(pacer_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(monitor_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(gateway_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(observer_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(reporter_, caf::exit_reason::user_shutdown);
  }
  front_office(const front_office&) = delete;
  front_office& operator=(const front_office&) = delete;

  reporter_actor reporter_;
  observer_actor observer_;
  gateway_actor gateway_;
  monitor_actor monitor_;
  pacer_actor pacer_;
  std::stop_source predictor_over_;
  predictor_actor predictor_;  ///< none: the job does without
  elector_actor elector_;  ///< none: the job has one head
  journal_actor journal_;
};

/// However this process comes to its end, the coordinator ends with it: `orderly_end` waits for it.
struct head_end {
  coordinator_actor head;
  ~head_end() { caf::anon_send_exit(head, caf::exit_reason::kill); }
};

/// The launcher's actor ends with the scope.
struct launcher_end {
  launcher_actor actor;  ///< none where others start the nodes
  launcher_end(caf::actor_system& system, config::launch_mode mode,
               const std::shared_ptr<launch_orders>& orders) {
    if (mode != config::launch_mode::external) actor = system.spawn(launcher, orders);
  }
  launcher_end(const launcher_end&) = delete;
  launcher_end& operator=(const launcher_end&) = delete;
  ~launcher_end() {
    if (actor) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
};

/// What the coordinator is made of.
train::spawn_record record_of_head(const launch& l, const front_office& front,
                                   const launcher_end& launching) {
  train::spawn_record out{l.from.epoch};
  out.plan = l.plan;
  out.resume = l.resume;
  out.launch = l.origin.launch;
  out.first_launch = l.from.first_launch;
  out.reporter = front.reporter_;
  out.gateway = front.gateway_;
  out.observer = front.observer_;
  out.launcher = launching.actor;
  out.monitor = front.monitor_;
  out.predictor = front.predictor_;
  out.pacer = front.pacer_;
  out.journal = front.journal_;
  out.elector = front.elector_;
  out.memory = l.from.memory;
  out.cluster = l.from.cluster;
  out.paces = paces_for_split(l.plan);
  return out;
}

const error no_error{errc::none, ""};

/// Says why it begins again.
bool was_unsound(run_outcome& outcome, const launch& l, start_warnings& warnings) {
  std::lock_guard lock(outcome.mutex);
  if (!l.resume || outcome.why.kind != train::start_unsound) return false;
  warnings.warn(
      fmt::format("{} cannot be loaded: {}", l.resume->path.string(), outcome.why.message));
  return true;
}

/// What came of one start of the cluster: a code, or that it is to begin again.
struct once_end {
  std::optional<int> code;  ///< none: the checkpoint it began with turned out unsound, or:
  std::optional<train::lost_head> fallen = {};  ///< another head acts, or may, in its place
  bool has_acted = false;                       ///< it made or went on from a step before
};

/// CRD-18.
std::optional<train::lost_head> has_fallen(run_outcome& outcome) {
  std::lock_guard lock(outcome.mutex);
  if (!train::acts_no_more(outcome.why)) return std::nullopt;
  say("warning: this head acts no more: " + outcome.why.message);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return train::fallen_head(outcome.why, outcome.last_step, std::chrono::nanoseconds(now).count());
}

/// One start of the cluster, as far as it is not in the launch.
struct once {
  const up_arguments& arguments;
  std::shared_ptr<launcher_line> line;
  start_warnings& warnings;
  std::string address;   ///< of cluster.heads
  bool is_first = true;  ///< of this process
  bool may_choose_again = false;
};

/// Where nodes join. A head that goes on for a lost one listens where that did; where it cannot,
/// nobody finds it, and `keeps_running` is false.
result<uint16_t> listen(const coordinator_actor& head, const config::cluster_section& cluster,
                        int lost_port, bool& keeps_running, start_warnings& warnings) {
  keeps_running = false;
  if (lost_port > 0 && lost_port <= UINT16_MAX) {
    const auto port =
        cluster::publish(head, cluster.listen, static_cast<uint16_t>(lost_port));
    keeps_running = bool(port);
    if (port) return *port;
    warnings.warn(
        fmt::format("the nodes of the lost head are started anew: {}", port.error().message));
  }
  return cluster::publish(head, cluster.listen, static_cast<uint16_t>(cluster.port));
}

std::set<std::string> evicted_in(const std::optional<fbs::ClusterMemoryT>& memory) {
  std::set<std::string> out;
  if (memory)
    for (const auto& e : memory->evicted) out.insert(e->node);
  return out;
}

/// How often the head of this job is started again. Nodes that others started would have to be
/// there still.
int64_t restarts_per_hour(const config::job& job) {
  const bool has_nodes = job.cluster.launch != config::launch_mode::external ||
                         job.recovery.head_grace_s > 0;
  return job.recovery.enabled && has_nodes ? job.recovery.most_per_hour : 0;
}

/// What steps take by what others took; nothing is measured for it.
void expect(const config::job& job, double flops, run_outcome& outcome) {
  const auto expected = expected_at_start(job, flops);
  if (expected) say("expected: " + expected->text);
  std::lock_guard lock(outcome.mutex);
  outcome.step_flops = flops;
  if (expected) outcome.summary.expected = expected->is;
}

reporter_options talk_of(const launch& l, const std::shared_ptr<run_outcome>& outcome,
                         stop_signals& bell, const once& of) {
  const auto& job = l.plan.job;
  const auto words = std::make_shared<head_words>(of.line);
  const auto log = std::make_shared<run_log>(job.job.output + "/log.jsonl",
                                             job.log.format == config::log_format::json);
  begin_log(*log, *outcome, job, l.from.epoch, l.resume);
  expect(job, train::flops_of_step(l.plan), *outcome);
  of.warnings.log_to(log, l.resume ? l.resume->step : 0);  // STW-1
  return {job,
          l.peak,
          log,
          outcome,
          [&bell] { bell.wake(); },
          [words, most = restarts_per_hour(job)](uint64_t step, uint64_t saved) {
            words->stepped(step, saved, most);
          },
          l.swap_limits,
          l.resume ? l.resume->step : 0,
          l.from.epoch,
          l.data_mark};
}

/// Where the actors of this head are recorded: one that goes on for another leaves the record of
/// that one there. No two heads have one epoch.
std::filesystem::path record_file(const launch& l, const once& of) {
  const bool is_first = of.is_first && !of.arguments.goes_on();
  return replay::recording_path(l.plan.job.job.output, "head",
                                is_first ? 1 : static_cast<int>(l.from.epoch));
}

/// What the nodes of a head are started with.
node_start start_of_nodes(const launch& l, const once& of, uint16_t port,
                          const std::string& node_key, bool keeps_running) {
  return {address_of(l.at),
          port,
          node_key,
          of.arguments.record,
          of.arguments.launcher,
          working_folder(),
          evicted_in(l.from.cluster),
          keeps_running,
          of.arguments.goes_on()};
}

/// What is left of a start whose cluster is over.
struct once_over {
  const run_end& how;
  std::optional<job_secret>& secret;
  const std::shared_ptr<log_end>& last_line;
  std::optional<watchdog>& guard;
};

/// What came of it; from here on its end is watched.
result<once_end> judge_end(const launch& l, stop_signals& signals, const once& of,
                           run_outcome& outcome, once_over over) {
  if (of.may_choose_again && signals.asked() == 0 && was_unsound(outcome, l, of.warnings)) {
    over.guard.emplace(defaults::orderly_end, exit_code(errc::bug), no_error);
    over.last_line->goes_on(report::end_reason::again);
    return once_end{std::nullopt};
  }
  if (auto fallen = has_fallen(outcome); fallen && signals.asked() == 0) {
    over.guard.emplace(defaults::orderly_end, exit_code(errc::bug), no_error);
    over.last_line->goes_on(report::end_reason::replaced);
    return once_end{{}, *fallen, fallen->after_step > 0};
  }
  auto code = conclude(l.plan.job, outcome, over.how, signals);
  if (code && *code == 0 && over.secret) over.secret->job_is_done();
  over.guard.emplace(defaults::orderly_end, code ? *code : exit_code(code.error().code),
                     code ? no_error : code.error());
  over.last_line->process_ends(code, over.how.signal);
  return code ? result<once_end>(once_end{*code}) : code.error();
}

/// From the start of the cluster to its end.
result<once_end> run_once(launch& l, stop_signals& signals, const once& of) {
  const auto& job = l.plan.job;
  const auto& record = of.arguments.record;
  sign_flight_memory("head", address_of(l.at),
                     std::filesystem::absolute(job.job.output).string());
  TROUPE_TRY(means, means_of(job));
  auto outcome = std::make_shared<run_outcome>();
  signals.enter(phase::running);
  std::optional<watchdog> guard;
  cluster::system_config config(means.network);
  std::optional<replay::recording> logs;  // outlives the actors
  if (!record.empty())
    logs.emplace(config.own,
                 replay::recording_options{record, record_file(l, of), "head", address_of(l.at)});
  std::atomic<bool> coordinator_gone{false};  // outlives the system, whose actors set it
  caf::actor_system system(config);
  const orderly_end last{system};
  const cluster::renewals_end before_it{system};
  const auto talk = talk_of(l, outcome, signals, of);
  const auto last_line = begin_end(talk, signals);
  const front_office front(system, talk, l, of.address);
  const auto orders = std::make_shared<launch_orders>([&bell = signals] { bell.wake(); });
  const launcher_end launching(system, job.cluster.launch, orders);
  auto head =
      system.spawn(cluster::coordinator, record_of_head(l, front, launching), &io::local_storage());
  head->attach_functor([&coordinator_gone, &bell = signals] {
    coordinator_gone = true;
    bell.wake();
  });
  const head_end at_last{head};
  run_end ended;
  {
    node_processes nodes(of.line);
    std::optional<meeting_sign> sign;
    auto started = [&]() -> status {
      bool keeps_running = false;
      TROUPE_TRY(port, listen(head, l.at, of.is_first ? of.arguments.port : 0, keeps_running,
                              of.warnings));
      of.line->tell({"port", std::to_string(port)});
      const auto address = fmt::format("{}:{}", address_of(l.at), port);
      l.folders.say_address(address);
      sign.emplace(meeting_point{job.job.name, of.arguments.launcher, address, job.job.output,
                                 means.secret ? means.secret->file().string() : "", means.network});
      say(fmt::format("coordinator of {} at {}", job.job.name, address));  // nodes find it by now
      TROUPE_CHECK(
          leave_behind(job, l.origin, of.warnings));  // a start that is refused sets nothing aside
      return nodes.start(job, start_of_nodes(l, of, port, means.node_key, keeps_running));
    }();
    if (!started) {
      guard.emplace(defaults::orderly_end, exit_code(started.error().code), started.error());
      last_line->process_ends(started.error(), 0);
      return started.error();
    }
    watch w(signals, nodes, *orders, head, outcome);
    ended = w.until_over(coordinator_gone);
    signals.enter(phase::concluding);
    w.until_alone(coordinator_gone);
  }
  return judge_end(l, signals, of, *outcome, {ended, means.secret, last_line, guard});
}

/// Stands by until this head is to act; what it then begins with is in `a` and `won`. A code: it
/// never will.
result<std::optional<int>> stand_by(up_arguments& a, stop_signals& signals,
                                    const heads::takeover_policy::rules& how,
                                    std::unique_ptr<standby>& aside,
                                    std::optional<heads::won_epoch>& won,
                                    start_warnings& warnings) {
  TROUPE_TRY(loaded, load_job(a));
  TROUPE_TRY(began, standby::begin(loaded.value, own_address(a, loaded.value), how, signals));
  aside = std::move(began);
  const auto what = aside->wait(signals);
  if (what.refused) return *what.refused;
  if (what.code) return what.code;
  won = what.won;
  if (const auto lost = train::lost_head_of(*won); lost && !a.goes_on()) a.lost = *lost;
  warnings.warn(fmt::format("{} of {} heads and nodes follow this one: it acts in epoch {}",
                            won->voters, config::voters_of(loaded.value.cluster).size(),
                            won->epoch));
  return std::optional<int>();
}

}  // namespace

std::vector<std::string> lost_head_words(const train::lost_head& lost, int port) {
  return {"--lost-port",          std::to_string(port),
          "--lost-head",          lost.how,
          "--lost-after-step",    std::to_string(lost.after_step),
          "--lost-furthest-step", std::to_string(lost.furthest_step),
          "--lost-at-ns",         std::to_string(lost.at_ns)};
}

/// Ranks verify what they load, so that nobody reads a checkpoint twice. Where one is damaged, all
/// of them are read before the next start. With several heads it stands by where another acts, or a
/// majority has to say first that this one may.
result<int> run_head(const up_arguments& told) {
  auto a = told;
  TROUPE_CHECK(tie_to_parent(a.launcher));
  TROUPE_TRY(crash_dumper, trace::crash_dumper::start());  // before the first thread
  speak_through_outboxes();  // before a signal can ask for a last word: stderr may be full
  TROUPE_TRY(signals, stop_signals::open());
  const auto line = std::make_shared<launcher_line>(launcher_line::to_launcher());
  std::optional<std::filesystem::path> unsound;
  std::optional<heads::won_epoch> won;
  std::unique_ptr<standby> aside;
  heads::takeover_policy::rules waits{.at_once = a.goes_on()};
  start_warnings warnings;
  for (const auto& text : a.lost_warnings) warnings.keep(text);
  bool is_first = true, stands_by = a.stands_by;
  for (auto how = checkpoint::look::fits;; is_first = false) {
    signals->enter(phase::starting);
    warnings.hold();
    if (const int asked = signals->asked(); asked != 0) return 128 + asked;
    TROUPE_TRY(loaded, load_job(a));
    const bool is_one_of_several = !loaded.value.cluster.heads.empty();
    if (is_one_of_several && (std::exchange(stands_by, false) || (is_first && a.goes_on()))) {
      TROUPE_TRY(code, stand_by(a, *signals, waits, aside, won, warnings));
      if (code) return *code;
    }
    TROUPE_TRY(l, prepare(a, how, won, warnings));
    const auto from = l.resume ? l.resume->path : std::filesystem::path();
    const bool by_itself = l.plan.job.checkpoint.resume == "auto";
    aside.reset();  // STB-2
    TROUPE_TRY(end, run_once(l, *signals,
                             {a, line, warnings, own_address(a, l.plan.job), is_first,
                              by_itself && unsound != from}));
    if (end.code) return *end.code;
    if (end.fallen) {
      stands_by = true;
      waits = train::rules_after_fall(end.fallen->after_step);
      if (end.has_acted) a.lost = *end.fallen;
      continue;
    }
    unsound = from;
    how = checkpoint::look::whole;
    say("every byte of the checkpoints is read before the next start");
  }
}

}  // namespace troupe::apps

// Launches, faults, and what must hold.
#include "actors/sim/simulation.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/send.hpp>

#include "actors/checkpoint/committer.hpp"
#include "actors/cluster/coordinator.hpp"
#include "actors/job/plan.hpp"
#include "actors/sim/blame_watch.hpp"
#include "actors/sim/fault_record.hpp"
#include "actors/sim/folder_watch.hpp"
#include "actors/sim/heads.hpp"
#include "actors/sim/invariants.hpp"
#include "actors/sim/late_messages.hpp"
#include "actors/sim/node_processes.hpp"
#include "actors/sim/parent_budget.hpp"
#include "actors/sim/power_watch.hpp"
#include "actors/sim/slack_job.hpp"
#include "actors/sim/slowness.hpp"
#include "io/checkpoint/catalog.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t ms = 1'000'000;
constexpr int ring_slots = 8;
using io::outage;

class simulation {
 public:
  simulation(const simulation_options& options, train::job_plan plan,
             std::unique_ptr<job_folders> folders, power::budget_options above)
      : options_(options),
        plan_(std::move(plan)),
        world_(world_of(options)),
        room_(world_, options.times, options.swap),
        nodes_(world_, room_, options_, plan_, options.nodes + options.spares),
        watch_(world_, room_, options_),
        power_(std::max(options.budget_w, options.power_parent_w)),
        parent_(world_, room_, std::move(above), options.nodes + options.spares + 1,
                [this](const std::string& text) { log(text); }),
        slowness_(world_, room_, options_),
        slack_(world_, room_, options_, plan_),
        record_(options_.faults) {
    room_.folders = std::move(folders);
    room_.drawn = watts_trace(options.watts_each_ms * ms);
    nodes_.log = [this](const std::string& text) { log(text); };
    nodes_.end_process = [this](int n) { end_process(n, false); };
    world_.blocks_ns = [this](const any_msg& m) { return blocks_ns(m); };
    if (options.check || options.sees)
      world_.observe = [this](const any_msg& m, const actor_stats& to) { watch(m, to); };
    for (size_t i = 0; i < options.faults.size(); ++i)
      world_.clock().call_at(world_.now_ns() + options.faults[i].at_ns, [this, i] { come(i); });
  }

  ~simulation() { world_.end(); }

  /// What each rank saves, and the slots that they do it by.
  void save_by(shares_of_ranks shares, std::shared_ptr<io::slots> ring) {
    room_.plans = std::move(shares);
    room_.ring = std::move(ring);
  }

  simulation_outcome run() {
    const auto begun = std::chrono::steady_clock::now();
    while (launch_ < options_.launches && !world_.violated()) {
      if (launch_ > 0) between_launches();
      begin_log();
      live();
      if (world_.violated()) break;
      end_launch();
      ++launch_;
      if (launch_report_.succeeded() && options_.returns == 0) break;
    }
    auto out = std::move(told_of_launches_);
    out.seed = options_.seed;
    out.violation = world_.violated();
    out.counts = world_.counts();
    out.fingerprint = world_.fingerprint();
    out.virtual_ns = world_.now_ns();
    out.watts = room_.drawn.means(room_.draw.idle_w * devices_of(options_), world_.now_ns());
    out.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    out.launches = launch_;
    out.folders = room_.counted;
    out.swaps = room_.disks.counted();
    out.slowness = slowness_.counted();
    out.takes_slack = slack_.any(), out.slack = slack_.counted();
    record_.over(world_.now_ns());
    out.missed = std::move(record_).without_effect();
    out.faults = std::move(record_).done();
    return out;
  }

 private:
  /// The first of the launch.
  uint32_t epoch() const {
    constexpr int epochs_of_a_launch = 64;
    return static_cast<uint32_t>(launch_ * (options_.recovers ? epochs_of_a_launch : 1)) + 2;
  }

  void log(const std::string& text) {
    if (options_.log)
      std::fputs(
          fmt::format("{:10.3f} s  {}\n", static_cast<double>(world_.now_ns()) / 1e9, text).c_str(),
          stderr);
  }

  // -- a launch -----------------------------------------------------------------------------------

  int all_nodes() const { return options_.nodes + options_.spares; }
  const std::string& name_of(int node) const { return nodes_.name_of(node); }

  void begin_log() {
    launch_report_ = {};
    lost_some_ = false;
    launch_report_.target_steps = static_cast<uint64_t>(options_.steps);
    launch_report_.keeps_some = !room_.tiers[0].rules.empty() || !room_.tiers[1].rules.empty();
    // What a person's own job asks for may fail it.
    if (world_.now_ns() < harmful_until_ns_ || options_.of) launch_report_.worst = harm::fatal;
    heard_ = std::make_shared<told>();
    notices_ = 0;
    room_.barriers.clear();
    for (auto& [rank, device_fault] : room_.device_faults) device_fault = {};
    room_.disks.begin_launch();
    if (!world_.alive(0)) world_.restart(0);
    start_head();
    for (int n = 1; n <= all_nodes(); ++n) {
      if (!world_.alive(n)) world_.restart(n);
      // The processes of a cluster start one after the other.
      const int64_t when = world_.now_ns() + world_.chance().between(0, 50 * ms);
      world_.clock().call_at(when, [this, n, launch = launch_] {
        if (launch == launch_ && world_.alive(n)) nodes_.start(n, {});
      });
      nodes_.forget(n);
    }
    launch_begun_ns_ = world_.now_ns();
    nodes_started_by_ns_ = launch_begun_ns_ + 50 * ms;
    world_.clock().call_at(nodes_started_by_ns_, [] {});  // time goes on till then at least
  }

  /// A person waits for the first tier, without which nothing starts.
  void between_launches() {
    world_.run(world_.now_ns() + options_.launch_ends_ns(),
               [this] { return !room_.tiers[0].gone(); });
    if (const auto taken = watch_.between_launches())
      log(fmt::format("tier {} is taken away", *taken));
  }

  void start_head() {
    take_folders();
    power_.begin(epoch());
    train::spawn_record o{epoch()};
    o.plan = plan_;
    o.reporter = world_.spawn(0, sim::reporter, heard_);
    if (plan_.job.power.is_budgeted() || slack_.any()) {
      auto of = power::pacer_options_of(plan_.job.power, epoch());
      slack_.begin(of);
      of.recorded = [made_of = o] { train::note_spawn_record(made_of); };
      o.pacer = parent_.spawn_pacer(std::move(of), o.reporter);
    }
    if (options_.recovers)
      o.launcher = world_.spawn(0, sim::launcher, [this](const std::string& node) { order(node); });
    o.resume = watch_.begin(static_cast<uint64_t>(launch_) + 1);
    if (o.resume) launch_report_.resumed_step = o.resume->step;
    o.launch = room_.launch.launch;
    slowness_.begin(o);
    if (options_.beside) options_.beside(world_, o);
    coordinator_ = world_.spawn(0, cluster::coordinator, std::move(o), &room_.files.of(0));
    coordinator_lives_ = true;
    const auto handle = caf::actor_cast<caf::strong_actor_ptr>(coordinator_);
    room_.addresses[{head_name, head_port}] = {handle, 0};
    handle->get()->attach_functor([this, launch = launch_] {
      if (launch != launch_) return;
      coordinator_lives_ = false;
      coordinator_gone_ns_ = world_.now_ns();
      if (room_.folders) room_.folders->end(false);
      world_.clock().call_at(world_.now_ns() + 10 * ms, [this, launch] {
        if (launch == launch_ && world_.alive(0)) end_process(0, false);
      });
    });
  }

  /// Another process takes the place of a node's.
  void order(const std::string& node) {
    world_.clock().call_at(world_.now_ns() + options_.launch_ns, [this, node, launch = launch_] {
      if (launch != launch_ || !coordinator_lives_ || !options_.relaunches) return;
      const int n = nodes_.place_of(node);
      log(fmt::format("{} is started again", node));
      if (world_.alive(n)) end_process(n, false);
      world_.restart(n);
      nodes_.start(n, {});
    });
  }

  void take_folders() {
    if (!room_.folders) return;
    if (auto wrong = room_.folders->begin()) world_.violation(*wrong);
    room_.counted.successors += std::exchange(killed_, false);
  }

  /// What is done to files of the machine: a loader's, and an export's.
  int64_t blocks_ns(const any_msg& m) {
    const auto& t = room_.times;
    if (m.type() == message_traits<fbs::OpenLoader>::id) return room_.about(t.open_ns);
    if (m.type() == message_traits<fbs::BatchRequest>::id) return room_.about(t.fetch_ns);
    if (m.type() != message_traits<fbs::ExportModel>::id) return slowness_.hangs_ns(m);
    const auto takes_ns = room_.about(t.export_ns);
    exports_until_ns_ = world_.now_ns() + takes_ns;
    return takes_ns;
  }

  /// The process of a node has ended: what it was about to do is not done.
  void end_process(int n, bool silent) {
    room_.files.end_process(n);
    room_.disks.end_process(n);
    world_.crash(n, silent);
    if (n != 0 || !room_.folders || world_.now_ns() >= exports_until_ns_) return;
    exports_until_ns_ = 0;
    ++room_.counted.cut_exports;
    room_.folders->cut_export("what was cut off", static_cast<uint64_t>(world_.now_ns()));
  }

  bool launch_over() const {
    if (coordinator_lives_ || world_.now_ns() < nodes_started_by_ns_ || world_.alive(0))
      return false;
    for (int n = 1; n <= all_nodes(); ++n)
      if (world_.alive(n) && nodes_.lives(n)) return false;
    return true;
  }

  void live() {
    const int64_t limit = launch_begun_ns_ + options_.launch_ends_ns();
    const auto over = [this] {
      watch_.look(*heard_);
      if (const auto broken = parent_.look()) world_.violation(*broken);
      if (const auto broken = slowness_.look(heard_->steps.size())) world_.violation(*broken);
      log_notices();
      return launch_over() || lingers();
    };
    if (world_.run(limit, over)) return;
    std::vector<std::string> waits;
    for (const auto& v : world_.runtime().registry.view())
      for (const auto& w : v.waits)
        if (waits.size() < 8)
          waits.push_back(fmt::format("{} for {} of {}", v.path, w.what, w.whom));
    world_.violation(fmt::format("the launch does not end; waiting: {}", fmt::join(waits, "; ")));
  }

  /// What the job has said since it was looked at last.
  void log_notices() {
    for (; notices_ < heard_->notices.size(); ++notices_)
      log("the job: " + heard_->notices[notices_]);
  }

  /// A node that stays long after its coordinator has gone (NOD-1).
  bool lingers() {
    if (coordinator_lives_) return false;
    const int64_t since = std::max(coordinator_gone_ns_, last_healed_ns_);
    if (world_.now_ns() < since + options_.lingering_ms() * ms) return false;
    for (int n = 1; n <= all_nodes(); ++n)
      if (world_.alive(n) && !world_.frozen(n) && nodes_.lives(n))
        world_.violation(fmt::format("{} stays without a coordinator", name_of(n)));
    return world_.violated().has_value();
  }

  void end_launch() {
    launch_report_.steps = heard_->steps;
    launch_report_.rates = heard_->rates;
    launch_report_.epochs = heard_->epochs;
    launch_report_.saved_before = heard_->saved_before;
    for (size_t i = 0; i < heard_->steps.size(); ++i)
      launch_report_.used.push_back(room_.rates[{heard_->epochs[i], heard_->steps[i]}]);
    launch_report_.spoke_after_end = heard_->spoke_after_end;
    for (const auto& e : heard_->ends) {
      launch_report_.ends.push_back({e.code, e.message, e.checkpoint});
      told_of_launches_.ends.push_back(e.code == 0 ? "success" : e.message);
    }
    if (heard_->ends.empty()) told_of_launches_.ends.emplace_back("the head was lost");
    for (const auto& e : heard_->ends) watch_.judge_end(e, launch_report_.worst != harm::none);
    launch_report_.checkpoints = watch_.checkpoints();
    launch_report_.saved_step = heard_->saved_step;
    watch_.look(*heard_);
    add_told(*heard_, told_of_launches_);
    log(fmt::format("launch {} over: {}", launch_, told_of_launches_.ends.back()));
    for (int n = 0; n <= all_nodes(); ++n)
      if (world_.alive(n)) end_process(n, false);
    while (!world_.idle()) world_.turn();
    if (auto broken = judge(launch_report_)) world_.violation(*broken);
    if (auto broken = blame_.judge(heard_->incidents, heard_->notices)) world_.violation(*broken);
    if (room_.folders)
      if (auto broken = room_.folders->judge_foreign()) world_.violation(*broken);
  }

  // -- messages -----------------------------------------------------------------------------------

  /// SIM-1: who welcomes and assigns in an epoch is one.
  void watch(const any_msg& m, const actor_stats& receiver) {
    if (options_.sees) options_.sees(m, world_.now_ns());
    for (const auto& broken :
         {power_.see(m), parent_.see(m, receiver), slowness_.see(m), slack_.see(m)})
      if (broken) world_.violation(*broken);
    room_.note_split(m, plan_);
    const auto type = m.type();
    if (type != message_traits<fbs::Welcome>::id && type != message_traits<fbs::Assign>::id) return;
    const auto& h = m.header();
    if (h.sender == 0) return;  // a fault of ours
    const auto [it, fresh] = coordinator_of_.emplace(h.epoch, h.sender);
    if (!fresh && it->second != h.sender && h.epoch >= 2)
      world_.violation(fmt::format("two coordinators act in epoch {}", h.epoch));
  }

  // -- faults -------------------------------------------------------------------------------------

  int victim(const fault& f) const {
    if (!f.whom.empty()) return nodes_.place_of(f.whom.substr(0, f.whom.find('/')));
    return 1 + static_cast<int>(f.random % static_cast<uint64_t>(all_nodes()));
  }

  void did(const fault& f, const std::string& what, harm how_bad) {
    launch_report_.worst = std::max(launch_report_.worst, how_bad);
    // Who stops a run while its last save waits for room has given that save up; a run that stops
    // does not recover.
    if (launch_report_.worst == harm::stops && (watch_.trouble() || lost_some_))
      launch_report_.worst = harm::fatal;
    if (!is_of_power(f.kind)) parent_.befell_job();
    if (how_bad == harm::fatal)  // into the next launch, perhaps
      harmful_until_ns_ = std::max(harmful_until_ns_, world_.now_ns() + f.lasts_ns);
    slowness_.befalls_else(f.kind);
    slack_.befalls_else(f);
    log(record_.did(f, what, world_.now_ns()));
  }

  /// A fault at a place; what ails the head's may look like anybody's.
  void touch(int n) { n == 0 ? blame_.touched_all() : blame_.touched(name_of(n)); }

  void come(size_t which) {
    const auto& f = options_.faults[which];
    record_.come(which);
    if (coordinator_lives_) befall(f);
    record_.settle(f, coordinator_lives_ ? "" : "the job has no head at that time");
  }

  void befall(const fault& f) {
    if (parent_.takes(f.kind)) {
      const auto what = parent_.befall(f);
      return what ? did(f, *what, harm::none) : void();
    }
    if (slack_.takes(f.kind)) return blame_.touched_all(), did(f, slack_.befall(f), harm::none);
    if (is_of_heads(f.kind)) return;
    if (is_of_drives(f.kind)) return ail_drive(f);
    if (slowness_.takes(f.kind)) {
      const int n = victim(f);
      if (f.kind != fault_kind::slow_all) told_of_idle(f, n);
      const auto what = slowness_.befall(f, n, name_of(n), blame_);
      return what ? did(f, *what, harm::none) : void();
    }
    switch (f.kind) {
      case fault_kind::crash_node:
      case fault_kind::lose_node:
        return lose_node(f, f.kind == fault_kind::lose_node);
      case fault_kind::freeze_node:
        return freeze(f);
      case fault_kind::crash_head:
        launch_report_.head_lost = true;
        blame_.touched_all();
        did(f, "", harm::fatal);
        return crash(0, false);
      case fault_kind::partition:
        return partition(f);
      case fault_kind::loss:
        blame_.touched_all();
        did(f, fmt::format("for {} ms", f.lasts_ns / ms), harm::fatal);
        world_.lose(0.02 + static_cast<double>(f.random % 100) / 200);
        return after(f.lasts_ns, [this] { world_.lose(0); });
      case fault_kind::slow_device:
      case fault_kind::hang_device:
      case fault_kind::fail_device:
        return sicken(f);
      case fault_kind::kill_actor:
        return kill_actor(f);
      case fault_kind::old_message:
        return old_message(f);
      case fault_kind::tier_out:
        return close_tier(f);
      case fault_kind::second_launcher:
        return launch_again(f);
      case fault_kind::foreign_folder:
        if (!room_.folders) return;
        did(f, "", harm::none);
        return room_.folders->disturb(f.random);
      case fault_kind::meter_silent:
        return silence(f);
      default:
        return person(f);
    }
  }

  void after(int64_t delay_ns, std::function<void()> then) {
    last_healed_ns_ = std::max(last_healed_ns_, world_.now_ns() + delay_ns);
    world_.clock().call_at(world_.now_ns() + delay_ns, std::move(then));
  }

  void crash(int n, bool silent) {
    if (n == 0 && room_.folders) {
      killed_ = true;
      room_.folders->end(true);
    }
    room_.files.lose(n);
    end_process(n, silent);
  }

  /// A job that trains and recovers goes on without a person (SIM-16).
  harm of_loss() const {
    int lives = -1;  // without the one that is lost
    for (int n = 1; n <= all_nodes(); ++n) lives += world_.alive(n) ? 1 : 0;
    const int fewest = options_.fewer_replicas ? fewest_nodes_of(plan_.job) : options_.nodes;
    const bool goes_on = options_.recovers && !heard_->steps.empty() &&
                         (options_.relaunches || lives >= fewest) &&
                         launch_report_.worst == harm::none && !watch_.trouble();
    return goes_on ? harm::none : harm::fatal;
  }

  void lose_node(const fault& f, bool silent) {
    const int n = victim(f);
    if (!world_.alive(n)) return;
    blame_.touched(name_of(n));
    told_of_idle(f, n);
    did(f, name_of(n), of_loss());
    crash(n, silent);
    lost_some_ = true;
    if (silent) watch_link(n);
  }

  /// A node that holds nothing of the run is not missed by it.
  void told_of_idle(const fault& f, int n) {
    const auto all = world_.actors_of(n);
    const auto is_rank = [](const auto& stats) { return stats->path().starts_with("worker/"); };
    if (std::any_of(all.begin(), all.end(), is_rank)) return;
    if (n <= options_.nodes && heard_->steps.empty()) return;  // its ranks are to come
    record_.missed(f, fmt::format("{} holds no rank at that time", name_of(n)),
                   "name a node that has ranks; the spares come last");
  }

  void freeze(const fault& f) {
    const int n = victim(f);
    if (!world_.alive(n) || world_.frozen(n)) return;
    told_of_idle(f, n);
    blame_.touched(name_of(n));
    did(f, fmt::format("{} for {} ms", name_of(n), f.lasts_ns / ms), by_length(f));
    world_.freeze(n);
    watch_link(n);
    after(f.lasts_ns, [this, n] { world_.thaw(n); });
  }

  /// The last save waits for it and training goes on, but a start and a stop wait for nothing.
  void close_tier(const fault& f) {
    const size_t which = !f.whom.empty() ? f.whom == "2" : options_.second ? f.random % 2 : 0;
    const bool full = f.random / 2 % 2 == 0;
    if (!watch_.close(which, full ? outage::full : outage::gone)) return;
    did(f, fmt::format("{} {} for {} ms", which + 1, full ? "full" : "gone", f.lasts_ns / ms),
        heard_->steps.empty() || options_.recovers ? harm::fatal : harm::none);
    after(f.lasts_ns, [this, which] { watch_.open(which); });
  }

  void launch_again(const fault& f) {
    if (!room_.folders || !room_.folders->held()) return;
    did(f, "", harm::none);
    ++room_.counted.refused;
    if (auto wrong = room_.folders->rival(f.random % 2 == 0)) world_.violation(*wrong);
  }

  harm by_length(const fault& f) const {
    return f.lasts_ns < options_.dead_after_ms * ms / 3 ? harm::none : harm::fatal;
  }

  void partition(const fault& f) {
    std::vector<int> group(static_cast<size_t>(all_nodes()) + 1, 0);
    rng random(f.random);
    for (int n = 1; n <= all_nodes(); ++n) group[static_cast<size_t>(n)] = random.chance(0.5);
    if (std::count(group.begin(), group.end(), 0) == std::ssize(group))
      record_.missed(f, "by chance it cuts nobody off", "choose another --seed");
    blame_.touched_all();
    did(f, fmt::format("{} for {} ms", fmt::join(group, ""), f.lasts_ns / ms), by_length(f));
    world_.heal();
    world_.partition(group);
    ++partitions_;
    for (int n = 1; n <= all_nodes(); ++n)
      if (group[static_cast<size_t>(n)] != 0) watch_link(n);
    after(f.lasts_ns, [this, number = partitions_] {
      if (number == partitions_) world_.heal();
    });
  }

  /// CAF gives a connection up that has been silent for twice the dead time (network.cpp), and both
  /// ends hear of it.
  void watch_link(int n) {
    const int64_t patience = 2 * options_.dead_after_ms * ms;
    const int process = nodes_.process(n);
    world_.clock().call_at(world_.now_ns() + patience, [this, n, process] {
      if (!nodes_.is_present(n, process) || world_.reachable(0, n)) return;
      log(fmt::format("the connection of {} breaks", name_of(n)));
      world_.break_link(0, n);
      const auto& node = nodes_.actor(n);
      const auto coordinator = caf::actor_cast<caf::strong_actor_ptr>(coordinator_);
      if (node && coordinator_lives_) tell_down(coordinator, node);
      if (node && world_.alive(n)) tell_down(node, coordinator);
    });
  }

  void sicken(const fault& f) {
    const auto rank = !f.whom.empty() ? static_cast<uint32_t>(std::stoul(f.whom))
                                      : static_cast<uint32_t>(f.random % plan_.ranks.size());
    auto& a = room_.device_faults[rank];
    const auto stage = world_.actor_at(fmt::format("stage/{}", rank), all_nodes());
    // What lasts goes with the rank to whichever node has it next.
    touch(stage && f.kind == fault_kind::fail_device ? world_.node_of(*stage) : 0);
    if (f.kind == fault_kind::slow_device) {
      a.slow = 2 + static_cast<double>(f.random % 19);
      slowness_.device_slows(f, stage ? name_of(world_.node_of(*stage)) : "");
      did(f, fmt::format("of rank {}, {} times, for {} ms", rank, a.slow, f.lasts_ns / ms),
          harm::none);
      return after(f.lasts_ns, [this, rank] { room_.device_faults[rank].slow = 1; });
    }
    (f.kind == fault_kind::hang_device ? a.hangs : a.fails) = true;
    did(f, fmt::format("of rank {}", rank), harm::fatal);
  }

  /// SIM-27. Starts and recoveries need room; failed reads end ranks.
  void ail_drive(const fault& f) {
    const int n = victim(f);
    if (!options_.swap.any() || !world_.alive(n)) return;
    auto& drive = room_.disks.fault_of(n);
    blame_.touched(name_of(n));
    if (f.kind == fault_kind::disk_error) {
      const bool reads = f.random / 16 % 2 == 0;
      did(f, fmt::format("{}, a {}", name_of(n), reads ? "read" : "write"),
          reads ? harm::fatal : harm::none);
      (reads ? drive.fails_read : drive.fails_write) = true;
      return;
    }
    const bool full = f.kind == fault_kind::full_disk;
    const bool opens = heard_->steps.empty() || options_.recovers;
    did(f, fmt::format("{} for {} ms", name_of(n), f.lasts_ns / ms),
        full && opens ? harm::fatal : harm::none);
    if (full)  // into the next launch, perhaps
      harmful_until_ns_ = std::max(harmful_until_ns_, world_.now_ns() + f.lasts_ns);
    (full ? drive.full : drive.slows) += 1;
    after(f.lasts_ns, [&drive, full] { (full ? drive.full : drive.slows) -= 1; });
  }

  void kill_actor(const fault& f) {
    std::vector<std::shared_ptr<actor_stats>> all;
    for (int n = 0; n <= all_nodes(); ++n)
      for (auto& stats : world_.actors_of(n))
        if (const auto path = stats->path();
            f.whom.empty() ? !path.empty() && !path.starts_with("connector") && path != "reporter"
                           : path == f.whom)
          all.push_back(std::move(stats));
    if (all.empty()) return;
    const auto& stats = all[f.random % all.size()];
    touch(world_.node_of(*stats));
    did(f, stats->path(), harm::fatal);
    if (stats->path() == "coordinator") launch_report_.head_lost = true;
    if (const auto path = stats->path(); path.starts_with("swapper/"))
      room_.disks.forsake(world_.node_of(*stats), std::stoi(path.substr(path.find('/') + 1)));
    caf::anon_send_exit(caf::actor_cast<caf::actor>(stats->handle()), caf::exit_reason::kill);
  }

  template <class Handle>
  Handle actor(const std::string& path) {
    const auto stats = world_.actor_at(path, all_nodes());
    return stats ? caf::actor_cast<Handle>(stats->handle()) : Handle{};
  }

  void person(const fault& f) {
    const auto run = actor<run_actor>("run");
    if (f.kind == fault_kind::stop_run) {
      did(f, "", harm::stops);
      auto m = make_msg<fbs::StopTraining>({}, [&](auto& s) {
        s.reason = "a person said so";
        s.save = f.random % 2 == 0;
      });
      return caf::anon_send(coordinator_, m);
    }
    if (f.kind == fault_kind::drain_node) {
      touch(victim(f));
      did(f, name_of(victim(f)), harm::stops);
      auto m = make_msg<fbs::DrainNode>({}, [&](auto& d) { d.node = name_of(victim(f)); });
      return caf::anon_send(coordinator_, m);
    }
    if (!run) return;
    if (f.kind == fault_kind::save_now)
      return did(f, "", harm::none), caf::anon_send(run, make_msg<fbs::CheckpointNow>());
    if (f.kind == fault_kind::set_value) return set(f, run, "train.lr", "0.001");
    if (f.kind == fault_kind::budget_cut) return cut_budget(f, run);
    did(f, fmt::format("for {} ms", f.lasts_ns / ms), harm::none);
    caf::anon_send(run, make_msg<fbs::Pause>());
    after(f.lasts_ns, [this] {
      if (const auto now = actor<run_actor>("run")) caf::anon_send(now, make_msg<fbs::Resume>());
    });
  }

  void set(const fault& f, const run_actor& run, const char* key, std::string value) {
    did(f, fmt::format("{} = {}", key, value), harm::none);
    caf::anon_send(run, make_msg<fbs::SetValue>({}, [&](auto& s) {
                     s.key = key;
                     s.value = std::move(value);
                   }));
  }

  /// To what the slowest steps still keep, or less of it.
  void cut_budget(const fault& f, const run_actor& run) {
    const double least_w = least_budget_w(options_), whole_w = plan_.job.power.budget_w;
    if (whole_w <= least_w) return;
    const double share = static_cast<double>(f.random % 1000) / 1000;
    set(f, run, "power.budget_w", fmt::format("{:.1f}", least_w + share * (whole_w - least_w)));
  }

  void old_message(const fault& f) {
    did(f, fmt::format("number {}", f.random % late_kinds), harm::none);
    const auto name = name_of(victim(f));
    const auto rank = (f.random >> 8) % plan_.ranks.size();
    send_late({epoch() - 1, coordinator_, actor<run_actor>("run"),
               actor<stage_actor>(fmt::format("stage/{}", rank)), actor<node_actor>("node/" + name),
               name},
              f.random);
  }

  /// The meters of a machine say nothing for a while. Others are waited for before a first step.
  void silence(const fault& f) {
    const int n = victim(f);
    if (!world_.alive(n) || !plan_.job.power.is_budgeted()) return;
    did(f, fmt::format("{} for {} ms", name_of(n), f.lasts_ns / ms), harm::none);
    ++room_.silent_meters[n];
    after(f.lasts_ns, [this, n] { --room_.silent_meters[n]; });
  }

  simulation_options options_;
  train::job_plan plan_;
  world world_;
  environment room_;
  node_processes nodes_;
  std::shared_ptr<told> heard_ = std::make_shared<told>();
  size_t notices_ = 0;  ///< of them, those that are logged
  coordinator_actor coordinator_;
  bool coordinator_lives_ = false;
  int64_t coordinator_gone_ns_ = 0;
  int64_t last_healed_ns_ = 0;
  int64_t harmful_until_ns_ = 0;
  int64_t launch_begun_ns_ = 0;
  int64_t exports_until_ns_ = 0;
  int64_t nodes_started_by_ns_ = 0;
  int launch_ = 0;
  int partitions_ = 0;
  bool lost_some_ = false;  ///< nodes, in this launch
  launch_report launch_report_;
  blame_watch blame_;
  folder_watch watch_;
  bool killed_ = false;  ///< the launcher of the launch before
  simulation_outcome told_of_launches_;
  std::map<uint32_t, uint64_t> coordinator_of_;  ///< by epoch
  power_watch power_;
  parent_budget parent_;
  slowness slowness_;
  slack_job slack_;
  fault_record record_;
};

}  // namespace

result<simulation_outcome> simulate(const simulation_options& options) {
  [[maybe_unused]] static const bool once = (keep_memory_of_worlds(), true);
  TROUPE_TRY(job, simulated_job(options));
  TROUPE_TRY(above, parent_budget::terms_of(options));
  std::unique_ptr<job_folders> folders;
  if (options.real_folders) {
    TROUPE_TRY(made, job_folders::make());
    folders = std::move(made);
    job.job.output = folders->output().string();
  }
  job.checkpoint.export_model = folders != nullptr;  // it lies on the machine
  TROUPE_TRY(plan, train::make_plan(job));
  TROUPE_TRY(shares, shares_by_replicas(plan));
  TROUPE_TRY(ring, io::slots::make({train::slot_bytes_of(job), ring_slots}));
  if (options.heads > 1)
    return simulate_heads(options, {std::move(plan), std::move(shares), std::move(ring)});
  simulation it(options, std::move(plan), std::move(folders), std::move(above));
  it.save_by(std::move(shares), std::move(ring));
  return it.run();
}

}  // namespace troupe::sim

// How launches of a simulated cluster begin, live and end.
#include "actors/sim/launches.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::sim {

launches::launches(const simulation_options& options, train::job_plan plan,
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

void launches::save_by(shares_of_ranks shares, std::shared_ptr<io::slots> ring) {
  room_.plans = std::move(shares);
  room_.ring = std::move(ring);
}

simulation_outcome launches::run() {
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

uint32_t launches::epoch() const {
  constexpr int epochs_of_a_launch = 64;
  return static_cast<uint32_t>(launch_ * (options_.recovers ? epochs_of_a_launch : 1)) + 2;
}

void launches::log(const std::string& text) {
  if (options_.log)
    std::fputs(
        fmt::format("{:10.3f} s  {}\n", static_cast<double>(world_.now_ns()) / 1e9, text).c_str(),
        stderr);
}

void launches::begin_log() {
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

void launches::between_launches() {
  world_.run(world_.now_ns() + options_.launch_ends_ns(),
             [this] { return !room_.tiers[0].gone(); });
  if (const auto taken = watch_.between_launches())
    log(fmt::format("tier {} is taken away", *taken));
}

void launches::start_head() {
  take_folders();
  power_.begin(epoch());
  train::spawn_record o{epoch()};
  o.plan = plan_;
  o.reporter = world_.spawn(0, sim::reporter, heard_);
  if (plan_.job.power.is_budgeted() || slack_.any()) {
    auto of = power::pacer_options_of(plan_.job.power, epoch());
    slack_.begin(of);
    o.pacer = parent_.spawn_pacer(std::move(of), o);
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

void launches::order(const std::string& node) {
  world_.clock().call_at(world_.now_ns() + options_.launch_ns, [this, node, launch = launch_] {
    if (launch != launch_ || !coordinator_lives_ || !options_.relaunches) return;
    const int n = nodes_.place_of(node);
    log(fmt::format("{} is started again", node));
    if (world_.alive(n)) end_process(n, false);
    world_.restart(n);
    nodes_.start(n, {});
  });
}

void launches::take_folders() {
  if (!room_.folders) return;
  if (auto wrong = room_.folders->begin()) world_.violation(*wrong);
  room_.counted.successors += std::exchange(killed_, false);
}

int64_t launches::blocks_ns(const any_msg& m) {
  const auto& t = room_.times;
  if (m.type() == message_traits<fbs::OpenLoader>::id) return room_.about(t.open_ns);
  if (m.type() == message_traits<fbs::BatchRequest>::id) return room_.about(t.fetch_ns);
  if (m.type() != message_traits<fbs::ExportModel>::id) return slowness_.hangs_ns(m);
  const auto takes_ns = room_.about(t.export_ns);
  exports_until_ns_ = world_.now_ns() + takes_ns;
  return takes_ns;
}

void launches::end_process(int n, bool silent) {
  room_.files.end_process(n);
  room_.disks.end_process(n);
  world_.crash(n, silent);
  if (n != 0 || !room_.folders || world_.now_ns() >= exports_until_ns_) return;
  exports_until_ns_ = 0;
  ++room_.counted.cut_exports;
  room_.folders->cut_export("what was cut off", static_cast<uint64_t>(world_.now_ns()));
}

bool launches::launch_over() const {
  if (coordinator_lives_ || world_.now_ns() < nodes_started_by_ns_ || world_.alive(0)) return false;
  for (int n = 1; n <= all_nodes(); ++n)
    if (world_.alive(n) && nodes_.lives(n)) return false;
  return true;
}

void launches::live() {
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
      if (waits.size() < 8) waits.push_back(fmt::format("{} for {} of {}", v.path, w.what, w.whom));
  world_.violation(fmt::format("the launch does not end; waiting: {}", fmt::join(waits, "; ")));
}

}  // namespace troupe::sim

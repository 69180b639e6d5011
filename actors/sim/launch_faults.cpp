// The faults that befall a launch of a simulated cluster.
#include "actors/sim/launches.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/send.hpp>

#include "actors/sim/late_messages.hpp"

namespace troupe::sim {

int launches::victim(const fault& f) const {
  if (!f.whom.empty()) return nodes_.place_of(f.whom.substr(0, f.whom.find('/')));
  return 1 + static_cast<int>(f.random % static_cast<uint64_t>(all_nodes()));
}

void launches::did(const fault& f, const std::string& what, harm how_bad) {
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

void launches::come(size_t which) {
  const auto& f = options_.faults[which];
  record_.come(which);
  if (coordinator_lives_) befall(f);
  record_.settle(f, coordinator_lives_ ? "" : "the job has no head at that time");
}

void launches::befall(const fault& f) {
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

void launches::after(int64_t delay_ns, std::function<void()> then) {
  last_healed_ns_ = std::max(last_healed_ns_, world_.now_ns() + delay_ns);
  world_.clock().call_at(world_.now_ns() + delay_ns, std::move(then));
}

void launches::crash(int n, bool silent) {
  if (n == 0 && room_.folders) {
    killed_ = true;
    room_.folders->end(true);
  }
  room_.files.lose(n);
  end_process(n, silent);
}

harm launches::of_loss() const {
  int lives = -1;  // without the one that is lost
  for (int n = 1; n <= all_nodes(); ++n) lives += world_.alive(n) ? 1 : 0;
  const int fewest = options_.fewer_replicas ? fewest_nodes_of(plan_.job) : options_.nodes;
  const bool goes_on = options_.recovers && !heard_->steps.empty() &&
                       (options_.relaunches || lives >= fewest) &&
                       launch_report_.worst == harm::none && !watch_.trouble();
  return goes_on ? harm::none : harm::fatal;
}

void launches::lose_node(const fault& f, bool silent) {
  const int n = victim(f);
  if (!world_.alive(n)) return;
  blame_.touched(name_of(n));
  told_of_idle(f, n);
  did(f, name_of(n), of_loss());
  crash(n, silent);
  lost_some_ = true;
  if (silent) watch_link(n);
}

void launches::told_of_idle(const fault& f, int n) {
  const auto all = world_.actors_of(n);
  const auto is_rank = [](const auto& stats) { return stats->path().starts_with("worker/"); };
  if (std::any_of(all.begin(), all.end(), is_rank)) return;
  if (n <= options_.nodes && heard_->steps.empty()) return;  // its ranks are to come
  record_.missed(f, fmt::format("{} holds no rank at that time", name_of(n)),
                 "name a node that has ranks; the spares come last");
}

void launches::freeze(const fault& f) {
  const int n = victim(f);
  if (!world_.alive(n) || world_.frozen(n)) return;
  told_of_idle(f, n);
  blame_.touched(name_of(n));
  did(f, fmt::format("{} for {} ms", name_of(n), f.lasts_ns / ms), by_length(f));
  world_.freeze(n);
  watch_link(n);
  after(f.lasts_ns, [this, n] { world_.thaw(n); });
}

void launches::close_tier(const fault& f) {
  const size_t which = !f.whom.empty() ? f.whom == "2" : options_.second ? f.random % 2 : 0;
  const bool full = f.random / 2 % 2 == 0;
  if (!watch_.close(which, full ? io::outage::full : io::outage::gone)) return;
  did(f, fmt::format("{} {} for {} ms", which + 1, full ? "full" : "gone", f.lasts_ns / ms),
      heard_->steps.empty() || options_.recovers ? harm::fatal : harm::none);
  after(f.lasts_ns, [this, which] { watch_.open(which); });
}

void launches::launch_again(const fault& f) {
  if (!room_.folders || !room_.folders->held()) return;
  did(f, "", harm::none);
  ++room_.counted.refused;
  if (auto wrong = room_.folders->rival(f.random % 2 == 0)) world_.violation(*wrong);
}

harm launches::by_length(const fault& f) const {
  return f.lasts_ns < options_.dead_after_ms * ms / 3 ? harm::none : harm::fatal;
}

void launches::partition(const fault& f) {
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

void launches::watch_link(int n) {
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

void launches::sicken(const fault& f) {
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

void launches::ail_drive(const fault& f) {
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

void launches::kill_actor(const fault& f) {
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

void launches::person(const fault& f) {
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

void launches::set(const fault& f, const run_actor& run, const char* key, std::string value) {
  did(f, fmt::format("{} = {}", key, value), harm::none);
  caf::anon_send(run, make_msg<fbs::SetValue>({}, [&](auto& s) {
                   s.key = key;
                   s.value = std::move(value);
                 }));
}

void launches::cut_budget(const fault& f, const run_actor& run) {
  const double least_w = least_budget_w(options_), whole_w = plan_.job.power.budget_w;
  if (whole_w <= least_w) return;
  const double share = static_cast<double>(f.random % 1000) / 1000;
  set(f, run, "power.budget_w", fmt::format("{:.1f}", least_w + share * (whole_w - least_w)));
}

void launches::old_message(const fault& f) {
  did(f, fmt::format("number {}", f.random % late_kinds), harm::none);
  const auto name = name_of(victim(f));
  const auto rank = (f.random >> 8) % plan_.ranks.size();
  send_late(
      {epoch() - 1, coordinator_, actor<run_actor>("run"),
       actor<stage_actor>(fmt::format("stage/{}", rank)), actor<node_actor>("node/" + name), name},
      f.random);
}

void launches::silence(const fault& f) {
  const int n = victim(f);
  if (!world_.alive(n) || !plan_.job.power.is_budgeted()) return;
  did(f, fmt::format("{} for {} ms", name_of(n), f.lasts_ns / ms), harm::none);
  ++room_.silent_meters[n];
  after(f.lasts_ns, [this, n] { --room_.silent_meters[n]; });
}

}  // namespace troupe::sim

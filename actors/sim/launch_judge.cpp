// What must hold of a launch of a simulated cluster, while it lives and once it is over.
#include "actors/sim/launches.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace troupe::sim {

void launches::log_notices() {
  for (; notices_ < heard_->notices.size(); ++notices_)
    log("the job: " + heard_->notices[notices_]);
}

bool launches::lingers() {
  if (coordinator_lives_) return false;
  const int64_t since = std::max(coordinator_gone_ns_, last_healed_ns_);
  if (world_.now_ns() < since + options_.lingering_ms() * ms) return false;
  for (int n = 1; n <= all_nodes(); ++n)
    if (world_.alive(n) && !world_.frozen(n) && nodes_.lives(n))
      world_.violation(fmt::format("{} stays without a coordinator", name_of(n)));
  return world_.violated().has_value();
}

void launches::end_launch() {
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

void launches::watch(const any_msg& m, const actor_stats& receiver) {
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

}  // namespace troupe::sim

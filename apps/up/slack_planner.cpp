// A thread that plans, and a place where the plan lies.
#include "apps/up/slack_planner.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::apps {

using power::frontier_policy;

struct slack_planner::desk {
  std::mutex mutex;
  power::planned_slack_ptr plan;  ///< guarded by mutex
  std::jthread thread;
};

namespace {

/// SLJ-1
status check_fit(const train::job_plan& plan, const power::clock_profile& profile) {
  const auto& p = plan.job.power;
  const auto& grid = plan.ranks.front().at.grid;
  const auto has = profile.stages.size();
  if (has != static_cast<size_t>(grid.pipeline))
    return profile_unfit(p.profile,
                         fmt::format("it has {} stages, the job {}", has, grid.pipeline));
  const auto operations = static_cast<size_t>(plan.micro_batches) * has * power::instructions;
  if (operations > frontier_policy::most_operations)
    return profile_unfit(p.profile, fmt::format("{} operations of a step are more than {}",
                                                operations, frontier_policy::most_operations));
  double most_w = 0;
  for (const auto& stage : profile.stages)
    for (const auto& rows : stage)
      for (const auto& r : rows) most_w = std::max(most_w, r.energy_j / r.time_s);
  if (p.blocking_w >= most_w)
    return profile_unfit(p.profile,
                         fmt::format("no row draws more than {:.1f} W, and a device that waits "
                                     "power.blocking_w = {}",
                                     most_w, p.blocking_w));
  return {};
}

}  // namespace

result<std::shared_ptr<slack_planner>> slack_planner::begin(const train::job_plan& plan) {
  const auto& p = plan.job.power;
  if (!p.takes_slack()) return std::shared_ptr<slack_planner>();
  const auto text = io::read_file(p.profile, power::clock_profile::most_bytes);
  if (!text) return text.error().within("power.profile");
  auto profile = power::parse_profile(*text);
  if (!profile) return profile.error().within(p.profile);
  TROUPE_CHECK(check_fit(plan, *profile));
  auto policy = std::make_unique<frontier_policy>(
      std::move(*profile), static_cast<int>(plan.micro_batches), p.blocking_w);
  return std::shared_ptr<slack_planner>(new slack_planner(std::move(policy)));
}

/// SLJ-2
slack_planner::slack_planner(std::unique_ptr<frontier_policy> policy)
    : desk_(std::make_shared<desk>()) {
  desk_->thread = std::jthread(
      [desk = desk_.get(), of = std::move(policy)](const std::stop_token& over) mutable {
        do {
          if (over.stop_requested()) return;
        } while (of->advance());
        auto out = std::make_shared<power::planned_slack>();
        out->plan = power::plan_slack(*of, of->take(), out->set_s, over);
        if (over.stop_requested()) return;
        out->policy = std::move(of);
        std::lock_guard lock(desk->mutex);
        desk->plan = std::move(out);
      });
}

slack_planner::~slack_planner() {
  desk_->thread.request_stop();
  desk_->thread.join();
}

power::slack_look slack_planner::look() const {
  return [desk = desk_] {
    std::lock_guard lock(desk->mutex);
    return desk->plan;
  };
}

}  // namespace troupe::apps

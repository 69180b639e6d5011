// Between the policy of drills and the run.
#include "actors/train/run_drills.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/config/drills.hpp"
#include "io/config/load.hpp"

namespace troupe::train {

drill_policy drills_of(const run_state& st) {
  uint64_t furthest = st.job.step();
  if (st.record.memory && st.record.memory->lost)
    furthest = std::max(furthest, st.record.memory->lost->furthest_step + 1);
  return drill_policy(st.job.plan().job.inject, furthest);
}

/// DRL-3. A job of fewer replicas names its rank's: it may not have that node.
std::string configuration_for(const run_state& st, size_t rank) {
  const auto& plan = st.job.plan();
  if (st.drills.all().empty()) return st.job.config_toml();
  auto job = plan.job;
  job.inject = st.drills.left_for(static_cast<int>(rank),
                                  st.crew.nodes[static_cast<size_t>(plan.ranks[rank].node)]);
  if (st.job.replicas() == st.job.replicas_configured()) return config::to_toml(job);
  if (job.parallel.data == 1)  // nobody would find it
    std::erase_if(job.inject,
                  [](const auto& d) { return d.what == config::drill_kind::wrong_bit; });
  for (auto& drill : job.inject) drill.who = fmt::format("rank {}", rank);
  return config::to_toml(job);
}

std::vector<std::string> drills_of_step(run_state& st, uint64_t step) {
  std::vector<std::string> out;
  for (const auto i : st.drills.begin_step(step)) {
    const auto& drill = st.drills.all()[i];
    if (!is_told(drill, step)) continue;
    const auto& nodes = st.crew.nodes;
    const bool is_there =
        config::rank_of(drill) || std::find(nodes.begin(), nodes.end(), drill.who) != nodes.end();
    const auto when =
        drill.every == 1 ? config::drill_steps_text(drill) : fmt::format("step {}", step);
    out.push_back(
        is_there
            ? fmt::format("drill {} acts in {}: {}", i + 1, when, config::drill_text(drill))
            : fmt::format("drill {} does nothing in {}: {} has no ranks", i + 1, when, drill.who));
  }
  return out;
}

}  // namespace troupe::train

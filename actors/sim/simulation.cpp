// A simulation, made of its options.
#include "actors/sim/simulation.hpp"

#include "actors/job/plan.hpp"
#include "actors/sim/heads.hpp"
#include "actors/sim/job_folders.hpp"
#include "actors/sim/launches.hpp"
#include "actors/sim/parent_budget.hpp"

namespace troupe::sim {

namespace {

constexpr int ring_slots = 8;

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
  launches it(options, std::move(plan), std::move(folders), std::move(above));
  it.save_by(std::move(shares), std::move(ring));
  return it.run();
}

}  // namespace troupe::sim

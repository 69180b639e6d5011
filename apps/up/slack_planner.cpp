// A thread that plans, by a file or by what the job measures, and a place where the plan lies.
#include "apps/up/slack_planner.hpp"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "io/base/printable.hpp"
#include "io/file.hpp"

namespace troupe::apps {

using power::frontier_policy;

struct slack_planner::desk {
  std::mutex mutex;
  std::condition_variable_any told;
  // Guarded by mutex.
  std::optional<power::live_profile> measured;
  power::planned_slack_ptr plan;

  std::jthread thread;
};

/// What a profile is for.
struct slack_planner::planned_job {
  std::string name, file;
  size_t stages = 0, micro_batches = 0;
  double blocking_w = 0;
  power::micro_batch_size of = {};
};

namespace {

/// SLJ-4
std::string file_of(const config::job& job) {
  return job.power.profile.empty() ? job.job.output + "/clocks.csv" : job.power.profile;
}

/// Whatever its profile is. SLJ-1
template <class Job>
status check_size(const Job& job) {
  const size_t stages = power::clock_profile::most_stages;
  const auto operations = job.micro_batches * job.stages * power::instructions;
  if (job.stages <= stages && operations <= frontier_policy::most_operations) return {};
  return slack_too_large(job.stages, operations, stages, frontier_policy::most_operations);
}

/// Why no plan can be made of it; empty: it can.
template <class Job>
std::string misfit_of(const Job& job, const power::clock_profile& profile) {
  const auto has = profile.stages.size();
  if (has != job.stages) return fmt::format("it has {} stages, the job {}", has, job.stages);
  if (const auto& of = profile.of; of && *of != job.of)  // SLJ-5
    return fmt::format(
        "it was measured with micro-batches of {} x {} tokens, the job's are {} x {}", of->rows,
        of->tokens, job.of.rows, job.of.tokens);
  double most_w = 0;
  for (const auto& stage : profile.stages)
    for (const auto& rows : stage)
      for (const auto& r : rows) most_w = std::max(most_w, r.energy_j / r.time_s);
  if (job.blocking_w < most_w) return {};
  return fmt::format(
      "no row draws more than {:.1f} W, and a device that waits power.blocking_w = {}", most_w,
      job.blocking_w);
}

/// SLJ-1
template <class Job>
status check_fit(const Job& job, const power::clock_profile& profile) {
  const auto why = misfit_of(job, profile);
  if (!why.empty()) return profile_unfit(job.file, why);
  return {};
}

/// A file that is measured is written there: what would keep it from that is said at once. SLJ-1
status check_place(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  std::error_code why;
  if (folder.empty() || std::filesystem::is_directory(folder, why)) return {};
  return error{errc::not_found,
               fmt::format("power.profile: there is no folder {} for what the job measures",
                           folder.string()),
               "make it, or name a file in one that is there"};
}

/// SLJ-3
std::string text_of(const power::live_profile& measured, const std::string& job) {
  auto out = fmt::format("# measured by the first steps of {}\n", printable(job));
  if (measured.modelled)
    out += "# energies are modelled, not measured: no meter says what all of its machines draw\n";
  return out + measured.profile.text();
}

status write_profile(const std::string& file, std::string_view text) {
  TROUPE_TRY(out, io::atomic_file::create(file));
  TROUPE_CHECK(out.write(text));
  return out.commit();
}

/// Null: it is to end before there is one. SLJ-2
std::shared_ptr<power::planned_slack> planned(std::unique_ptr<frontier_policy> of,
                                              const std::stop_token& over) {
  do {
    if (over.stop_requested()) return {};
  } while (of->advance());
  auto out = std::make_shared<power::planned_slack>();
  out->plan = power::plan_slack(*of, of->take(), out->set_s, over);
  if (over.stop_requested()) return {};
  out->policy = std::move(of);
  return out;
}

template <class Job>
std::unique_ptr<frontier_policy> policy_of(const Job& job, power::clock_profile profile) {
  return std::make_unique<frontier_policy>(std::move(profile), static_cast<int>(job.micro_batches),
                                           job.blocking_w);
}

/// SLJ-3. A profile that could not be written is planned by all the same.
template <class Job>
std::shared_ptr<power::planned_slack> planned_of(const Job& job, power::live_profile measured,
                                                 const std::stop_token& over) {
  measured.profile.of = job.of;
  if (const auto why = misfit_of(job, measured.profile); !why.empty()) {
    auto out = std::make_shared<power::planned_slack>();
    out->warns = true;
    out->note = fmt::format(
        "slack is not taken, all run at the highest clocks: of what was measured {}", why);
    return out;
  }
  const auto written = write_profile(job.file, text_of(measured, job.name));
  auto out = planned(policy_of(job, std::move(measured.profile)), over);
  if (!out) return out;
  out->warns = !written;
  if (!written)
    out->note = fmt::format("what clocks cost is measured and planned by, but cannot be kept: {}",
                            written.error().message);
  else
    out->note = fmt::format("what clocks cost is measured{}, and is in {} (power.profile)",
                            measured.modelled ? ", with modelled joules" : "", job.file);
  return out;
}

}  // namespace

result<std::shared_ptr<slack_planner>> slack_planner::begin(const train::job_plan& plan) {
  const auto& p = plan.job.power;
  if (!p.takes_slack()) return std::shared_ptr<slack_planner>();
  const planned_job job{
      plan.job.job.name,
      file_of(plan.job),
      static_cast<size_t>(plan.ranks.front().at.grid.pipeline),
      static_cast<size_t>(plan.micro_batches),
      p.blocking_w,
      power::micro_batch_size{plan.job.train.micro_batch, plan.job.train.seq_len}};
  TROUPE_CHECK(check_size(job));
  std::shared_ptr<slack_planner> out(new slack_planner(job));
  const auto text = io::read_file(job.file, power::clock_profile::most_bytes);
  if (!text && text.error().code == errc::not_found) {
    if (!p.profile.empty()) TROUPE_CHECK(check_place(job.file));
    out->await_profile();
    return out;
  }
  if (!text) return text.error().within("power.profile");
  auto profile = power::parse_profile(*text);
  if (!profile) return profile.error().within(job.file);
  TROUPE_CHECK(check_fit(job, *profile));
  out->plan_by(policy_of(job, std::move(*profile)));
  return out;
}

slack_planner::slack_planner(const planned_job& job)
    : desk_(std::make_shared<desk>()), job_(std::make_unique<const planned_job>(job)) {}

/// SLJ-2
void slack_planner::plan_by(std::unique_ptr<frontier_policy> policy) {
  desk_->thread = std::jthread(
      [desk = desk_.get(), of = std::move(policy)](const std::stop_token& over) mutable {
        auto out = planned(std::move(of), over);
        std::lock_guard lock(desk->mutex);
        desk->plan = std::move(out);
      });
}

/// SLJ-2, SLJ-3
void slack_planner::await_profile() {
  measures_ = true;
  desk_->thread =
      std::jthread([desk = desk_.get(), job = *job_](const std::stop_token& over) mutable {
        std::unique_lock lock(desk->mutex);
        if (!desk->told.wait(lock, over, [desk] { return desk->measured.has_value(); })) return;
        auto measured = *std::move(desk->measured);
        lock.unlock();
        auto out = planned_of(job, std::move(measured), over);
        lock.lock();
        desk->plan = std::move(out);
      });
}

slack_planner::~slack_planner() {
  if (!desk_->thread.joinable()) return;
  desk_->thread.request_stop();
  desk_->thread.join();
}

power::slack_look slack_planner::look() const {
  return [desk = desk_] {
    std::lock_guard lock(desk->mutex);
    return desk->plan;
  };
}

std::optional<power::profile_order> slack_planner::profiles() const {
  if (!measures_) return std::nullopt;
  return power::profile_order{job_->blocking_w, [desk = desk_](const power::live_profile& p) {
                                std::lock_guard lock(desk->mutex);
                                if (desk->measured) return;
                                desk->measured = p;
                                desk->told.notify_all();
                              }};
}

}  // namespace troupe::apps

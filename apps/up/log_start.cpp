// From a settled job and this machine's facts.
#include "apps/up/log_start.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/base/hardware.hpp"
#include "apps/built_with.hpp"
#include "apps/report/log_lines.hpp"
#include "apps/up/log_end.hpp"
#include "io/config/show.hpp"

namespace troupe::apps {

namespace {

constexpr size_t settings_told = 8;  // at the end; a script may set something with every step

/// Each once, in the order of the nodes.
std::vector<std::string> hosts_of(const config::cluster_section& cluster) {
  std::vector<std::string> out;
  for (const auto& node : cluster.node)
    if (std::find(out.begin(), out.end(), node.host) == out.end()) out.push_back(node.host);
  return out;
}

report::run_start start_of(const config::job& job, uint32_t epoch, uint64_t after_step) {
  const auto facts = cluster::hardware_facts();
  report::run_start out;
  out.unix_s = unix_now();
  out.job = job.job.name;
  out.version = cluster::own_version();
  out.epoch = epoch;
  out.step = static_cast<int64_t>(after_step);
  out.steps = job.train.steps;
  out.nodes = job.cluster.nodes;
  out.workers = job.workers();
  out.data = job.parallel.data;
  out.pipeline = job.parallel.pipeline;
  out.hosts = hosts_of(job.cluster);
  out.machine = {facts.hostname, facts.cpu_model, facts.cores, facts.memory_bytes};
  out.versions = versions();
  if (!facts.gpu_driver.empty()) out.versions.emplace_back("gpu_driver", facts.gpu_driver);
  out.configuration = config::values_json(job);
  return out;
}

}  // namespace

void begin_log(run_log& log, run_outcome& outcome, const config::job& job, uint32_t epoch,
               const std::optional<checkpoint::resume_point>& resume) {
  auto start = start_of(job, epoch, resume ? resume->step : 0);
  start.previous_ended = last_launch_has_end(log.path());
  log.append(report::start_json(start));
  if (!resume) return;
  const auto folder = resume->path.string();
  log.append(
      report::resume_json({unix_now(), static_cast<int64_t>(resume->step), epoch, folder, ""}));
  std::lock_guard lock(outcome.mutex);
  outcome.summary.resumed = fmt::format("after step {}, from {}", resume->step, folder);
}

void log_setting(run_log& log, run_outcome& outcome, const trace::setting_taken& taken) {
  const report::run_setting set{unix_now(), taken.key, taken.value, taken.who,
                                static_cast<int64_t>(taken.first_step)};
  log.append(report::set_json(set));
  std::lock_guard lock(outcome.mutex);
  auto& told = outcome.summary;
  told.settings.push_back(report::set_text(set));
  if (told.settings.size() <= settings_told) return;
  told.settings.pop_front();
  ++told.settings_before;
}

}  // namespace troupe::apps

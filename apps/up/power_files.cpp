// Lines with their time, and a text each few seconds.
#include "apps/up/power_files.hpp"

#include <filesystem>
#include <string>
#include <utility>

#include "apps/power/power_status.hpp"
#include "apps/up/run_log.hpp"

namespace troupe::apps {

power_files::power_files(const config::job& job) {
  if (job.power.is_budgeted())
    journal_ = std::make_shared<power_verb::journal_file>(std::filesystem::path(job.job.output) /
                                                          "power.jsonl");
  if (!job.power.textfile.empty())
    textfile_ =
        std::make_shared<power_verb::textfile>(std::filesystem::absolute(job.power.textfile));
}

power::pacer_journal::sink power_files::journal() const {
  if (!journal_) return {};
  return
      [to = journal_](const std::string& line) { to->take(power_verb::stamped(line, unix_now())); };
}

std::function<void(fbs::ClusterViewT)> power_files::shown() const {
  if (!textfile_) return {};
  return [to = textfile_](fbs::ClusterViewT seen) {
    to->take([view = std::make_shared<const fbs::ClusterViewT>(std::move(seen))] {
      return power_verb::status_prometheus(power_verb::job_power_in(*view));
    });
  };
}

}  // namespace troupe::apps

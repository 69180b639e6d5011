// Lines with their time.
#include "apps/up/power_files.hpp"

#include <filesystem>
#include <string>

#include "apps/up/run_log.hpp"

namespace troupe::apps {

power_files::power_files(const config::job& job) {
  if (job.power.is_budgeted())
    journal_ = std::make_shared<power_verb::journal_file>(std::filesystem::path(job.job.output) /
                                                          "power.jsonl");
}

power::pacer_journal::sink power_files::journal() const {
  if (!journal_) return {};
  return
      [to = journal_](const std::string& line) { to->take(power_verb::stamped(line, unix_now())); };
}

}  // namespace troupe::apps

// Drills in words.
#include "apps/drills.hpp"

#include <fmt/format.h>

#include "io/base/counted.hpp"
#include "io/config/drills.hpp"

namespace troupe::apps {

std::vector<std::string> drills_in_words(const config::job& job) {
  std::vector<std::string> out;
  for (const auto& drill : job.inject) {
    auto text = fmt::format("drill {}, {}: {}", out.size() + 1, config::drill_steps_text(drill),
                            config::drill_text(drill));
    if (drill.from_step > job.train.steps)
      text += fmt::format(" (not made: the job has {})", counted(job.train.steps, "step"));
    out.push_back(std::move(text));
  }
  return out;
}

status check_drills_allowed(const config::loaded& job, bool allowed) {
  const auto count = job.value.inject.size();
  if (count == 0 || allowed) return {};
  return config::as_error(
      {{job.origins.find("inject")->second, "inject",
        fmt::format("the job has {} drill{}: faults that it makes itself", count,
                    count == 1 ? "" : "s"),
        fmt::format("start it with {}, or leave [[inject]] out", config::drill_flag)}});
}

}  // namespace troupe::apps

// Both tiers of checkpoints; a run can do without the second.
#include "apps/up/left_checkpoints.hpp"

#include <string>

#include <fmt/format.h>

#include "actors/job/catalog.hpp"
#include "apps/talk.hpp"
#include "io/disk/file_system.hpp"

namespace troupe::apps {

namespace {

/// Removes what interrupted saves and copies left in a folder of checkpoints.
status clean(const std::string& dir, start_warnings& warnings) {
  TROUPE_TRY(found, checkpoint::remove_leftovers(io::local_files(), dir));
  for (const auto& name : found.removed)
    say(fmt::format("removed {}/{}, left by an interrupted save", dir, name));
  for (const auto& why : found.kept) warnings.warn("not removed: " + why);
  return {};
}

}  // namespace

status remove_leftovers(const config::checkpoint_section& c, start_warnings& warnings) {
  TROUPE_CHECK(clean(c.dir, warnings));
  if (c.second.dir.empty()) return {};
  if (auto cleaned = clean(c.second.dir, warnings); !cleaned)
    warnings.warn(render(cleaned.error()));
  return {};
}

status leave_behind(const config::job& job, const io::checkpoint::origin& origin,
                    start_warnings& warnings) {
  const auto in = [&](const std::string& dir) -> status {
    TROUPE_TRY(told, checkpoint::set_aside(io::local_files(), dir, origin));
    for (const auto& sentence : told) say(sentence);
    return {};
  };
  TROUPE_CHECK(in(job.checkpoint.dir));
  if (!job.checkpoint.second.dir.empty())
    if (auto second = in(job.checkpoint.second.dir); !second)
      warnings.warn(render(second.error()));  // its line says what it is all the same
  return {};
}

}  // namespace troupe::apps

// Incidents as a person asks for them: from the folders that a job keeps (INF-1), whether it still
// runs or not; where those lie on another machine, from what the run still knows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/control/session.hpp"
#include "apps/shell.hpp"
#include "io/base/error_kind.hpp"
#include "messages/schemas/status_generated.h"

namespace troupe::apps {

/// An incident that an output folder, or a run, does not have; what there is instead.
inline constexpr error_kind<uint64_t, std::string_view, std::string_view> incident_not_there{
    "incident_not_there", errc::not_found, "no incident {0} in {1}", "{2}"};

/// The page of an incident, or its JSON. Errors: incident_not_there; those of
/// report::read_incident.
result<std::string> kept_incident(const std::filesystem::path& output, uint64_t number, bool json);

/// A line for each that an output folder keeps, or one JSON object a line.
std::string kept_incidents_text(const std::filesystem::path& output, bool json);

/// What a run says of one of its last incidents: the same page, without what only the folder has.
result<std::string> told_incident(const fbs::RunStatusT& run, const std::string& job,
                                  uint64_t number, bool json);

/// A line for each of a run's last incidents, or one JSON object a line.
std::string told_incidents_text(const fbs::RunStatusT& run, const std::string& job, bool json);

/// The page of an incident of a cluster that runs: from its folder where that is on this machine,
/// else from the run. Errors: as above, and as of asking the run.
result<std::string> incident_of(session& s, uint64_t number, bool json);

/// `troupe health show`.
void add_health_show(shell& sh, command* health);

}  // namespace troupe::apps

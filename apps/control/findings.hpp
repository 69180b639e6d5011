// What is wrong with a running cluster, for people and for scripts.
#pragma once

#include <string>

#include "apps/control/session.hpp"
#include "messages/schemas/cluster_generated.h"
#include "messages/schemas/health_generated.h"
#include "messages/schemas/status_generated.h"

namespace troupe::apps {

/// Asks the cluster's monitor.
result<fbs::FindingsT> findings_of(session& s);

/// Whether training goes on as it should: nothing of the findings is more than good to know.
bool is_well(const fbs::FindingsT& all);

/// "no findings", or "findings: " and a line each.
std::string findings_text(const fbs::FindingsT& all);

/// One JSON object a line: {"type":"health","step":7,"raised":1,"findings":[{...}]}, with the
/// run's account under "run" and {"ready":1,"configured":1,"nodes":[...]} under "spares" where
/// somebody said.
std::string findings_json(const fbs::FindingsT& all, const fbs::RunStatusT* run = nullptr,
                          const fbs::SparesT* spares = nullptr);

}  // namespace troupe::apps

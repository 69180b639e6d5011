// The nodes of a running cluster that run no ranks, for people and for scripts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/control/session.hpp"
#include "messages/schemas/cluster_generated.h"

namespace troupe::apps {

/// Asks the coordinator. Errors: unavailable where it does not answer.
result<fbs::SparesT> spares_of(session& s);

/// How many of them are ready to stand in.
size_t ready_in(const fbs::SparesT& all);

/// "spares 0 of 1", and a line for each node.
std::string spares_text(const fbs::SparesT& all);
/// {"ready":1,"configured":1,"nodes":[...]}.
nlohmann::ordered_json spares_json(const fbs::SparesT& all);

}  // namespace troupe::apps

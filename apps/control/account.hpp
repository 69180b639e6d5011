// What a run's time went into and the faults that it went through, for people and for scripts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/control/session.hpp"
#include "messages/schemas/cluster_generated.h"
#include "messages/schemas/status_generated.h"

namespace troupe::apps {

/// Asks the run. Errors: unavailable where it does not answer.
result<fbs::RunStatusT> account_of(session& s);

/// "training for 3:41, effective 97.9 % (last hour 99.1 %); spares 1 of 1", and a table of the
/// incidents. `spares`: none where nobody said.
std::string account_text(const fbs::RunStatusT& run, const fbs::SparesT* spares = nullptr);

/// The table of the incidents alone, oldest first; its heading where there are none.
std::string incidents_text(const fbs::RunStatusT& run);

/// {"wall_s":...,"effective_percent":...,"ledger":{...},"incidents":[...]}.
nlohmann::ordered_json account_json(const fbs::RunStatusT& run);

}  // namespace troupe::apps

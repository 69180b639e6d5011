// What a job's time went into and which faults it went through, as messages say it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/train/job_policy.hpp"
#include "messages/schemas/status_generated.h"

namespace troupe::train {

std::unique_ptr<fbs::TimeLedgerT> to_message(const health::time_entries& entries);
/// As of `now_ns`, by the clock of the incident.
std::unique_ptr<fbs::IncidentT> to_message(const health::incident& fault, int64_t now_ns);

/// Puts all of it into a job's status.
void put_account(const job_policy& job, int64_t now_ns, fbs::RunStatusT& into);

}  // namespace troupe::train

// What is wrong with a running cluster, for people and for scripts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/control/session.hpp"
#include "messages/schemas/cluster_generated.h"
#include "messages/schemas/health_generated.h"
#include "messages/schemas/predict_generated.h"
#include "messages/schemas/status_generated.h"

namespace troupe::apps {

/// Asks the cluster's monitor; `parts`: also what each part of each rank's step should take.
result<fbs::FindingsT> findings_of(session& s, bool parts = false);

/// Whether training goes on as it should: nothing of the findings is more than good to know.
bool is_well(const fbs::FindingsT& all);

/// "no findings", or "findings: " and a line each.
std::string findings_text(const fbs::FindingsT& all);

/// One JSON object a line: {"type":"health","step":7,"raised":1,"findings":[{...}]}, with the
/// run's account under "run" and {"ready":1,"configured":1,"nodes":[...]} under "spares" where
/// somebody said.
std::string findings_json(const fbs::FindingsT& all, const fbs::RunStatusT* run = nullptr,
                          const fbs::SparesT* spares = nullptr);

/// What each part of each rank's step should take, beside what it takes: a row each, at most
/// `columns` wide (0: as wide as it is). Or, while nothing is expected yet, why.
std::string expect_text(const fbs::FindingsT& all, int columns);

/// {"type":"expect","step":41,"quiet_steps":12,"quiet_steps_needed":45,"left_out":0,
/// "parts":[{...}]}. Null: the node or the rank of what all share, and what is suspected, since
/// when, of what is suspected of nothing.
nlohmann::ordered_json expect_json(const fbs::FindingsT& all);

/// Asks the cluster's predictor what its expectations of a rank are made of.
result<fbs::ExplanationT> explanation_of(session& s, uint32_t rank);

/// Of each part of the rank a row: what is expected is the rule's time, times the factors.
std::string why_text(const fbs::ExplanationT& why, int columns);
/// {"type":"expect_why","rank":3,"node":"node1","samples":12,"parts":[{...}]}.
nlohmann::ordered_json why_json(const fbs::ExplanationT& why);

/// Of each part of the rank that is suspected a line, with what is known to set its machine apart.
std::string suspected_text(const fbs::FindingsT& all, uint32_t rank);
/// The same as parts of expect_json.
nlohmann::ordered_json suspected_json(const fbs::FindingsT& all, uint32_t rank);

}  // namespace troupe::apps

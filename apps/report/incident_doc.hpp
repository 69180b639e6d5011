// All that is kept of an incident, as the JSON object that incident.json is: for programs, and for
// `troupe health show`, which makes a page of it (incident_page.hpp). docs/healing.md shows one.
//
// Invariants
//   DOC-1  The object never takes more than the bytes that it is given: what says least is left out
//     first, and is named under "left_out".
//   DOC-2  What is not known is null; an added key changes no number, one that means something else
//     raises `incident_schema`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "messages/schemas/status_generated.h"

namespace troupe::report {

/// Under "schema".
inline constexpr int incident_schema = 1;
/// Decisions that are kept of an incident: the first ones and the last.
inline constexpr size_t most_decisions_kept = 4;

/// What was decided about a fault, and what stood then.
struct incident_decision {
  fbs::IncidentT fault = {};  ///< as it was then
  int64_t at_unix_ms = 0;
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  nlohmann::ordered_json waits = {};  ///< null: no graph named anybody
  nlohmann::ordered_json vitals = nlohmann::ordered_json::array();
  uint64_t vitals_left_out = 0;  ///< nodes
};

struct incident_doc {
  std::string job = {};
  bool over = false;
  fbs::IncidentT fault = {};  ///< as it was told last
  int64_t noticed_unix_ms = 0;
  std::vector<incident_decision> decisions = {};
  uint64_t decisions_left_out = 0;
  std::vector<std::string> black_boxes = {};  ///< names in the output folder

  /// Takes one more decision, in place of the one before it where there are enough.
  void add(incident_decision decision);
};

/// "2026-11-24T12:03:11.204Z"; empty where it is no time of this calendar.
std::string wall_text(int64_t unix_ms);

/// {"type":"incident","schema":1,...}, in lines for a person, with a line end (DOC-1).
std::string incident_doc_json(const incident_doc& doc, size_t most_bytes);

/// Findings of an Evidence, as `troupe health --json` has them, with "gone_s" where one had gone.
nlohmann::ordered_json findings_then(const std::vector<std::unique_ptr<fbs::FindingT>>& all,
                                     int64_t now_ns);

}  // namespace troupe::report

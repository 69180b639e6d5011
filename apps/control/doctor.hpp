// What examining the machines of a cluster showed, for people and for scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/health/group_policy.hpp"
#include "actors/health/pair_policy.hpp"
#include "apps/control/session.hpp"
#include "io/base/error_kind.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::apps {

struct doctor_options {
  std::string node = {};  ///< one node; empty: all of them, and their pairs
  bool deep = false;
};

/// A node that is none of the cluster's.
inline constexpr error_kind<std::string_view, std::string_view> node_not_found{
    "node_not_found", errc::not_found, "node not found: {0}", "{1}"};

/// Nodes that formed a group for a moment, or were to, and what that shows.
struct tested_group {
  std::string check;               ///< "sum", "all_to_all" or "group_start"
  std::vector<std::string> nodes;  ///< by rank
  std::string host = {};           ///< of an all_to_all: all are of this one
  troupe::health::group_seen seen = {};
  std::string why = {};            ///< nothing was seen
  fbs::CheckVerdict verdict = fbs::CheckVerdict::unknown;
};

/// Two nodes that exchanged bytes, or tried to.
struct tested_pair {
  troupe::health::pair_policy::pair who;
  int round = 1;
  troupe::health::pair_seen seen = {};
  double latency_us = 0;
  std::optional<double> wanted = {};  ///< bytes a second
  std::string why = {};               ///< they did not
  fbs::CheckVerdict verdict = fbs::CheckVerdict::unknown;
  std::optional<tested_group> sum = {};  ///< none: nothing came back, so no group was tried
};

/// Everything that was found.
struct diagnosis {
  bool deep = false;
  std::vector<fbs::CheckupReportT> reports = {};
  std::vector<tested_pair> pairs = {};
  std::vector<tested_group> groups = {};  ///< of hosts, then of all
  troupe::health::pair_policy::outcome named = {};
};

/// What a node's process or medic answered that was asked to examine its machine. A medic that is
/// at an examination already (`examined_for_ns`) hears nothing else until that ends, and one whose
/// process answers may be starved: of both nothing is known. A process that does not answer, then
/// and when it is asked once more (`answers_now`), is bad.
fbs::CheckupReportT report_of_answer(const fbs::CallAnswerT& a,
                                     const std::optional<int64_t>& examined_for_ns,
                                     bool answers_now);

/// Examines the nodes, all at once, then tests pairs and groups, one after the other. Waits.
result<diagnosis> examine_cluster(session& s, const doctor_options& o);

/// "bad" where anything is, "ok" where something is and nothing bad, else "unknown".
fbs::CheckVerdict verdict_of(const diagnosis& d);

/// A table: node, check, seen, wanted, verdict; then a line for each who is named.
std::string diagnosis_text(const diagnosis& d);

/// One JSON object a line: {"type":"doctor","verdict":"ok","nodes":[...],"pairs":[...],...}.
std::string diagnosis_json(const diagnosis& d);

}  // namespace troupe::apps

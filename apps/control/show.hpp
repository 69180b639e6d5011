// What a cluster's view and answers look like, for people and for scripts.
#pragma once

#include <string>
#include <vector>

#include "io/base/error.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe::apps {

/// Columns of the terminal that stdout is; 0, and nothing is cut, where it is none.
int terminal_width();

/// "nodes": one line a process.
std::string nodes_text(const fbs::ClusterViewT& view, int columns);
/// "actors": per process a tree of who spawned whom, with state, mailbox, rate, errors.
std::string actors_text(const fbs::ClusterViewT& view, int columns);
/// "status": the run, the nodes, what is wrong; or all about the actors that fit.
std::string status_text(const fbs::ClusterViewT& view, int columns);
std::string actor_text(const fbs::ActorInfoT& actor, const std::string& node, int columns);
/// What an actor says of itself: a line a value, a table for each list of tables.
std::string values_text(const fbs::ActorInfoT& actor, int columns);
/// What actors said to a message, a sentence each; what is no sentence as a line a value. Without
/// the refusals.
std::string answers_text(const fbs::CallAnswersT& answers, int columns);
/// Who refused it, or could not be asked; where a person asked for what cannot be, that alone.
std::vector<error> refusals_in(const fbs::CallAnswersT& answers);
/// All of it, as JSON a line: {"actor":...,"node":...,"answer":{...}}, or the keys of error_json().
std::string answers_json(const fbs::CallAnswersT& answers);
/// Why there is no answer, as a line: {"error":"...","code":"usage","hint":"..."}; no empty hint.
std::string error_json(const error& e);
/// The whole view as one line of JSON; times in seconds.
std::string view_json(const fbs::ClusterViewT& view);

/// Whether all is well: every process answers and the run, if there is one, has not failed.
struct health {
  bool good = true;
  std::string why;  ///< the first thing that is wrong
};
health health_of(const fbs::ClusterViewT& view);

/// Every answer is there and none is a failure.
bool all_taken(const fbs::CallAnswersT& answers);

}  // namespace troupe::apps

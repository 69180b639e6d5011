// The live view of checkpoints: what is on its way in a running cluster, made of the stats of its
// workers, run and committer. Pure text out of a view.
#pragma once

#include <string>

#include "messages/schemas/control_generated.h"

namespace troupe::apps::ckpt {

/// A line for each checkpoint on its way: state (copying, flushing, voting, committing), shards,
/// bytes copied, written and durable, rate; then what is committed, how long training was held up,
/// and the fullest ring.
std::string live_text(const fbs::ClusterViewT& view, int columns);

/// The same as one JSON object and a line end.
std::string live_json(const fbs::ClusterViewT& view);

}  // namespace troupe::apps::ckpt

// With how many replicas a job can go on when nodes are missing, and what it is then.
//
// Pure: whoever knows which nodes are there asks, and takes the largest number that has nodes.
//
// Invariants
//   FEW-1  With each number a step has the same rows, in micro-batches of the same size: so the
//     losses are those of a job that is stopped and goes on with so many replicas.
//   FEW-2  Places are used from the first on, as many as the ranks need, the last one maybe in
//     part.
//   FEW-3  What a job is with a number of replicas does not depend on what it was before.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/job/plan.hpp"

namespace troupe::train {

/// How many replicas could share a job's batch (FEW-1): its own number first, each one smaller than
/// the one before.
std::vector<int64_t> replica_counts(const config::job& job);

/// How many places so many replicas of a job need (FEW-2).
size_t places_for(const config::job& job, int64_t replicas);

/// The plan of a whole job with so many replicas, one of replica_counts(). With fewer its nodes are
/// those of the places that are used, and it has no spares and no drills: who needs these knows the
/// whole job.
result<job_plan> with_replicas(const job_plan& whole, int64_t replicas);

}  // namespace troupe::train

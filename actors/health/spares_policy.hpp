// How many spare nodes a failure rate asks for.
#pragma once

#include <cstdint>

namespace troupe::health {

/// Failures that are expected of a node in a day: ByteRobust (SOSP'25, section 6.2) counts 0.12 %.
inline constexpr double failures_per_1000_node_days = 1.2;

/// The fewest spares that on 99 of 100 days are as many as there are nodes that fail: P99 of the
/// binomial, nodes failing by themselves. `per_1000_node_days` from 0 to 1,000.
int64_t spares_for(int64_t nodes, double per_1000_node_days);

}  // namespace troupe::health

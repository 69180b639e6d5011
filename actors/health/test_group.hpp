// One member's end of a group that is formed for a test, as ranks form theirs: it listens, meets
// the others, sums and gathers known numbers, and leaves. Knows no actor. Joining blocks, for
// seconds: for threads that may.
//
// Invariants
//   TGR-1  It is nobody else's group: it has a port, connections and memory of its own, and no
//     device of a rank. A job's groups beside it do not hear of it.
//   TGR-2  It ends: meeting, each operation and all of it have a budget; an end that leaves early
//     makes the others' operations fail.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/health/known_sum.hpp"
#include "gpu/collective/communicator.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// Rounds of sums at most.
inline constexpr uint32_t most_rounds = 64;

/// Opens an end over the data plane, or over what a test has in its place.
using group_opener =
    std::function<result<std::unique_ptr<gpu::pending_group>>(const gpu::group_options&)>;

class test_group {
 public:
  /// Listens. Errors: those of the data plane.
  static result<std::unique_ptr<test_group>> open(const gpu::group_options& options,
                                                  const group_opener& opener);

  const std::string& name() const { return options_.name; }
  /// What the others connect to.
  std::string address() const;

  /// Meets the others, sums `rounds` times, gathers, leaves; `ends`: by rank. Blocks (TGR-2).
  /// Errors: bad_data, unavailable, timeout, cancelled.
  result<fbs::TestGroupSeenT> join(std::vector<std::string> ends, uint32_t rounds,
                                   const known_sum& numbers);

 private:
  test_group(gpu::group_options options, std::unique_ptr<gpu::pending_group> pending);

  gpu::group_options options_;
  std::unique_ptr<gpu::pending_group> pending_;
  double opened_;  ///< seconds of the wall clock of gpu/stopwatch.hpp
};

/// Gathers every member's known part; whose came other than it was. For memory of `owner`, whose
/// stream it is. Blocks. Errors: those of the group and the device.
result<known_sum::part_errors> gather_known(gpu::communicator& group, gpu::device& owner,
                                            gpu::stream& stream, const known_sum& numbers);

}  // namespace troupe::health

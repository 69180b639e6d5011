// The carrier: copies committed checkpoints into a second tier, a slower or shared folder, while
// the training goes on.
//
// Detached, because files block. Between two slots it looks into its mailbox, so it can be asked,
// and told to go, while a copy is under way; keeping to a bandwidth is a pause between two slots.
//
//   run --CopyCheckpoint--> carrier: the newest told is copied next (carry_policy.hpp)
//   carrier --HoldCheckpoint--> archive: retention leaves it alone meanwhile
//   carrier --Notice--> run: the first failure in a row, and that it goes well again
//   run --FinishCopies--> carrier, at the end: answered when the last checkpoint is there
//
// Invariants
//   CRR-1  The second tier holds whole checkpoints only, each verified as it was read (CY-1, CY-2).
//   CRR-2  A carrier that ends leaves no half copy behind (CY-3).
//   CRR-3  The second tier's own retention is applied after each copy, and keeps the newest.
//
// Failure policy: the run goes on without the copy.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include <caf/typed_response_promise.hpp>

#include "actors/base/traced.hpp"
#include "actors/checkpoint/carry_policy.hpp"
#include "io/checkpoint/copy.hpp"
#include "io/checkpoint/rate_limit.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/config/job.hpp"
#include "messages/actors.hpp"

namespace troupe::checkpoint {

/// What a carrier does to files. It blocks.
class carrier_files {
 public:
  virtual ~carrier_files() = default;
  /// Begins the copy of a checkpoint. Errors: as of copier::begin.
  virtual status begin(const std::filesystem::path& from) = 0;
  /// Moves its next slot; the bytes moved. Errors: as of copier::advance.
  virtual result<uint64_t> advance() = 0;
  virtual bool finished() const = 0;
  virtual io::checkpoint::copy_progress progress() const = 0;
  /// Leaves the copy, if there is one (CRR-2).
  virtual void leave() = 0;
  /// Whether the second tier has a copy of a checkpoint.
  virtual bool holds(const std::filesystem::path& from) const = 0;
  /// CRR-3.
  virtual status retain() = 0;
};

struct carrier_options {
  config::second_tier_section tier;  ///< dir is not empty
  uint32_t epoch = 0;
  archive_actor archive;               ///< of the first tier; may be none
  io::checkpoint::origin origin = {};  ///< the launch whose checkpoints are copied
  std::function<std::unique_ptr<carrier_files>()> make_files = {};  ///< a simulation's
};

struct carrier_state {
  static inline const char* name = "carrier";
  carrier_options options;
  carry_policy policy;
  io::checkpoint::rate_limit limit{0};
  std::unique_ptr<carrier_files> files;  ///< their copy is of policy.under_way()
  int64_t copy_began_ns = 0;
  caf::strong_actor_ptr run;  ///< who told of the last checkpoint
  struct farewell {
    uint64_t step = 0;
    message_header cause;
    caf::typed_response_promise<msg<fbs::CheckpointFolder>> answer;
  };
  std::optional<farewell> last;  ///< FinishCopies that is not answered yet
};

carrier_actor::behavior_type carrier(traced_pointer<carrier_actor, carrier_state> self,
                                     carrier_options options);

}  // namespace troupe::checkpoint

// The swapper: has the swap folders of one rank, and shows what goes to and from it.
//
// Why an actor beside the worker: what a drive does, and that a rank waits for it, has a name of
// its own (troupe ps, status, trace why); making and removing a folder may take long, which its
// thread may and the worker's must not; and the folder outlives the engine however that ends.
//
// Order, credits and bytes are not here: one mailbox on the way of each group of state would cost
// speed, and the streams keep the order by events alone (gpu/swap/chunk_policy.hpp says which).
// What they do is published in this actor's name by the probe of the worker
// (actors/train/probe.hpp), and read without asking it.
//
// Invariants
//   SWA-1  The folders are made before there is an engine for them, once, and removed only when
//     this ends: behind the worker that has asked for them, whoever wants it to end before.
//   SWA-2  What cannot be opened is answered with its error; nothing is left there then.
//
// Failure policy: its death is its rank's (node_lost): with it the folders are gone.
#pragma once

#include <memory>

#include "actors/base/traced.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/engine.hpp"
#include "io/base/error_kind.hpp"
#include "messages/actors.hpp"

namespace troupe::swap {

/// SWA-1.
inline constexpr error_kind<uint32_t> swap_is_open{"swap_is_open", errc::bug,
                                                   "the swap folder of rank {} is open already"};

struct swapper_state {
  static inline const char* name = "swapper";
  uint32_t rank = 0;
  std::shared_ptr<train::engine_maker> engines;
  std::unique_ptr<train::swap_home> home;
  caf::actor_addr worker;  ///< that has files in it; null: none
  bool leaving = false;    ///< once that is gone
};
using swapper_pointer = traced_pointer<swapper_actor, swapper_state>;

/// Of the record's rank; `engines` opens the folder.
swapper_actor::behavior_type swapper(swapper_pointer self, const train::spawn_record& record,
                                     std::shared_ptr<train::engine_maker> engines);

}  // namespace troupe::swap

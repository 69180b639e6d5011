// NCCL for ranks that are threads of one process and devices that are emulated.
//
// Why: no machine with several GPUs is needed to see that lanes cannot deadlock, that nothing hangs
// on a dead peer, and that no call is made at the wrong time. So it is strict where NCCL is:
//   - calls return ncclInProgress; the operation enters the stream later, from another thread;
//   - the operations of a communicator run one after the other, in the order of the calls;
//   - a send is done when its receive is there (NCCL's buffers only hide that for small ones);
//   - an operation whose peer is gone does not end until the communicator is aborted;
//   - a communicator is freed by abort and destroy: use after that is a use after free, which the
//     address sanitizer sees.
#pragma once

#include "gpu/cuda/nccl_library.hpp"

namespace troupe::gpu::cuda::fake_nccl {

/// The functions; stateless for the caller, all ranks share one world.
const nccl_library& library();

/// What there is and was, for tests.
struct facts {
  int alive = 0;          ///< communicators made and neither destroyed nor aborted
  int aborted_alone = 0;  ///< aborts outside a group call
  int destroyed = 0, aborted = 0;
  int bad_calls = 0;  ///< on a communicator in progress, blocking, of a wrong size
};
facts seen();

/// Waits until so many operations are with the device and cannot go on.
void await_stuck(int operations);

/// From now on calls begin, but their operations do not reach the stream until this is undone.
void hold_launches(bool on);
/// Waits until so many calls have begun and are held.
void await_held(int calls);

/// From now on members that go do so silently: no error is noticed at the others.
void silent_deaths(bool on);
/// Every communicator reports `error` from now on; ncclSuccess: none.
void break_everything(ncclResult_t error);

}  // namespace troupe::gpu::cuda::fake_nccl

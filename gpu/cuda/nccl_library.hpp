// NCCL's functions, loaded when a group first asks for them.
//
// Why a table: the library is hundreds of megabytes and absent from most machines (see
// shared_library.hpp); and tests put ranks that share one process behind the same functions.
#pragma once

#include <nccl.h>

#include "io/base/result.hpp"

namespace troupe::gpu::cuda {

/// Every function of NCCL that is used, under its own name.
struct nccl_library {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
};

/// The oldest NCCL that will do: several aborts in one group (NCW-2),
/// connecting early.
inline constexpr int oldest_nccl = NCCL_VERSION(2, 22, 0);

/// The machine's NCCL, loaded once. Fails with unavailable, saying what to install. Sets two
/// variables that NCCL reads, unless they are set already:
///   NCCL_RUNTIME_CONNECT=0  peers are connected when a communicator is made, so that no later call
///                           waits for a peer (NCC-2)
///   NCCL_NVLS_ENABLE=0      sums inside the switch have no order that is promised (COM-2)
result<const nccl_library*> load_nccl();

}  // namespace troupe::gpu::cuda

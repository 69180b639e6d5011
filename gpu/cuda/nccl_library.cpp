// The table of NCCL's functions, filled from the machine's library.
#include "gpu/cuda/nccl_library.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "gpu/cuda/shared_library.hpp"

namespace troupe::gpu::cuda {

namespace {

result<nccl_library> load() {
  TROUPE_TRY(from, shared_library::open({"libnccl.so.2"},
                                        "install NCCL 2.22 or newer (package libnccl2)"));
  nccl_library n;
  TROUPE_CHECK(from.find(n.get_version, "ncclGetVersion"));
  TROUPE_CHECK(from.find(n.get_unique_id, "ncclGetUniqueId"));
  TROUPE_CHECK(from.find(n.init_rank, "ncclCommInitRankConfig"));
  TROUPE_CHECK(from.find(n.get_async_error, "ncclCommGetAsyncError"));
  TROUPE_CHECK(from.find(n.finalize, "ncclCommFinalize"));
  TROUPE_CHECK(from.find(n.destroy, "ncclCommDestroy"));
  TROUPE_CHECK(from.find(n.abort, "ncclCommAbort"));
  TROUPE_CHECK(from.find(n.error_string, "ncclGetErrorString"));
  TROUPE_CHECK(from.find(n.last_error, "ncclGetLastError"));
  TROUPE_CHECK(from.find(n.group_start, "ncclGroupStart"));
  TROUPE_CHECK(from.find(n.group_end, "ncclGroupEnd"));
  TROUPE_CHECK(from.find(n.all_reduce, "ncclAllReduce"));
  TROUPE_CHECK(from.find(n.reduce_scatter, "ncclReduceScatter"));
  TROUPE_CHECK(from.find(n.all_gather, "ncclAllGather"));
  TROUPE_CHECK(from.find(n.send, "ncclSend"));
  TROUPE_CHECK(from.find(n.receive, "ncclRecv"));
  int version = 0;
  if (n.get_version(&version) != ncclSuccess || version < oldest_nccl)
    return error{errc::unavailable,
                 fmt::format("{} is of version {}, at least {} is needed", from.name(), version,
                             oldest_nccl),
                 "install a newer NCCL"};
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  return n;
}

}  // namespace

result<const nccl_library*> load_nccl() {
  static const auto loaded = load();
  if (!loaded) return loaded.error();
  return &*loaded;
}

}  // namespace troupe::gpu::cuda

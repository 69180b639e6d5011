// Groups of ranks that move tensors between processes: sums over data-parallel replicas,
// activations along a pipeline.
//
// Why two phases: nobody shares a file or a key-value server. A rank opens its end of a group and
// gets addresses, one for each peer; those travel as messages through the coordinator; with what
// everybody has for this rank in hand the ends are connected. Both phases may block and are run in
// stream order by a worker (stream::host_task).
//
// Invariants
//   COM-1  Collectives of one group are enqueued in the same order by every member.
//   COM-2  The same layout adds in the same order: sums have the same bits run after run.
//   COM-3  A dead peer makes pending operations fail with unavailable; abort() makes them fail
//     here.
//   COM-4  From one rank to another, sends are enqueued in the order of the receives there, and all
//     on one stream: NCCL pairs by order, Gloo by tag.
//   COM-5  all_gather reads this rank's own part and never writes it: others may read it meanwhile.
//   COM-6  Whoever reaches a port of a group and is none of its ranks changes nothing in it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu {

/// One rank's view of a group.
struct group_options {
  std::string name;  ///< unique in the job, e.g. "data/0"
  int rank = 0;      ///< of this member, in [0, size)
  int size = 1;
  std::string host = "127.0.0.1";             ///< local address to listen on
  std::chrono::milliseconds timeout{60'000};  ///< of one collective or transfer
  bool transfers = false;  ///< ranks r and r + 1 send and receive, too (Gloo: everybody may always)
  std::chrono::milliseconds connect_timeout{60'000};  ///< of meeting the peers
  std::stop_token ending = {};  ///< who asks it to stop ends a connect() that waits
};

/// Memory that scattered sums of a group of the host's take beside what they are given, bytes, at
/// most.
constexpr size_t group_memory_bytes = size_t{2} << 20;

/// Of the host, that a group whose data is in a GPU's memory and goes through the host's takes for
/// each stream on which anything moves, bytes (staged.hpp).
constexpr size_t staging_bytes = size_t{4} << 20;

/// A connected group. Operations enqueue on the given stream and never block the caller.
class communicator {
 public:
  virtual ~communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  /// data[i] = sum over ranks of data[i] (COM-2).
  virtual void all_reduce_sum(stream& s, float* data, int64_t count) = 0;
  virtual void all_reduce_sum(stream& s, double* data, int64_t count) = 0;

  /// data holds size() parts of `part` elements; of this rank's own part every element becomes the
  /// sum over ranks (COM-2), what the others hold then is unspecified.
  virtual void reduce_scatter_sum(stream& s, float* data, int64_t part) = 0;

  /// data holds size() parts of `part_bytes`; every part becomes what its rank has there
  /// (COM-5).
  virtual void all_gather(stream& s, void* data, size_t part_bytes) = 0;

  /// Point to point; `tag` pairs a send with its receive and is used once per pair of ranks at a
  /// time (COM-4).
  virtual void send(stream& s, const void* data, size_t bytes, int peer, uint64_t tag) = 0;
  virtual void receive(stream& s, void* data, size_t bytes, int peer, uint64_t tag) = 0;

  /// Makes pending and later operations fail soon. Callable from any thread (COM-3).
  virtual void abort() noexcept = 0;
};

/// A group that listens but is not connected yet.
class pending_group {
 public:
  virtual ~pending_group() = default;

  /// Opaque addresses, one per peer; the own entry is empty. At most 256 bytes each.
  virtual const std::vector<std::string>& addresses() const noexcept = 0;

  /// `offered[r]` = what addresses() of rank r holds for this rank; the own entry is empty. Blocks
  /// until every pair is connected; unavailable or timeout otherwise, cancelled soon after `ending`
  /// was asked for; bad_data if the offers do not fit the group.
  virtual result<std::unique_ptr<communicator>> connect(
      const std::vector<std::string>& offered) = 0;
};

/// Opens this rank's end over TCP: Gloo's algorithms, connections that prove themselves (COM-6). A
/// group of one needs no network.
result<std::unique_ptr<pending_group>> open_gloo_group(const group_options& options);

/// Opens this rank's end over NCCL, for memory of `gpu` (a CUDA device, which outlives the group)
/// and for its streams; `options.host` is not used, NCCL finds its interfaces (NCCL_SOCKET_IFNAME).
/// Every rank connects its groups in the same order. Fails with unavailable where NCCL is missing
/// or this build has no CUDA.
result<std::unique_ptr<pending_group>> open_nccl_group(const group_options& options, device& gpu);

}  // namespace troupe::gpu

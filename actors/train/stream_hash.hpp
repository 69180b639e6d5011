// XXH64 of what lies on a device, behind what a stream has then: it comes to the host piece by
// piece, since a chunk of weights may be larger than what the host has left.
//
// Of one stream: whose order is what keeps the one piece from being used twice at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/device.hpp"
#include "io/base/result.hpp"
#include "io/disk/disk.hpp"

struct XXH64_state_s;

namespace troupe::train {

class stream_hash {
 public:
  static constexpr size_t usual_piece_bytes = size_t{1} << 20;

  /// `piece_bytes`: of the host's memory, booked under the name of its holder and pinned. The
  /// device outlives it. Errors: no_memory, of pinning.
  static result<std::unique_ptr<stream_hash>> make(gpu::device& device, size_t piece_bytes);

  /// Enqueues the hash of `bytes` on the device. This outlives what is enqueued.
  void enqueue(gpu::stream& s, const void* from, size_t bytes);

  /// What the stream has come to since the last time, in order; once it has been waited for, or by
  /// what runs on it.
  std::vector<uint64_t> take() { return std::exchange(done_, {}); }

  /// The memory that pieces go through, for others who fill it on the same stream.
  std::span<std::byte> piece() const { return piece_.bytes(); }

 private:
  stream_hash() = default;

  io::io_buffer piece_;
  std::shared_ptr<void> pinned_;
  std::shared_ptr<XXH64_state_s> state_;  ///< of one hash after the other; the stream's
  std::vector<uint64_t> done_;            ///< the stream's
};

}  // namespace troupe::train

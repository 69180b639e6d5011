// The connection between a rank and the rank that keeps its copies: a proven pair of its own
// (pair_links.hpp), over which whole shares go in either direction (copy_frame.hpp). Tensors never
// travel in messages, and copies are no collective: what breaks here breaks no group.
//
// Invariants
//   CPL-1  The owner asks and the keeper answers, one thing at a time: neither waits for the other
//     unless the other has something to say.
//   CPL-2  No call waits longer than the link's time without a byte that moves; abort() ends all of
//     them within a moment. A link that failed stays so.
//   CPL-3  The keeper holds as whole only what arrived whole: every slot is summed again, and its
//     sum compared with the one that was sent.
//   CPL-4  A keeper takes shares of its one rank, of its own layout, and no larger than allowed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "io/base/result.hpp"
#include "io/checkpoint/copy_frame.hpp"
#include "io/file.hpp"

namespace troupe::gpu {

/// Frames over one connected socket that does not block.
class copy_link {
 public:
  copy_link(io::unique_fd socket, std::chrono::milliseconds patience)
      : socket_(std::move(socket)), patience_(patience) {}

  /// Has the keeper hold it; returns when it does. Blocks. Errors: unavailable.
  status put(const io::checkpoint::memory_copy& copy);
  /// The keeper's copy of this tag and shape into `into`, checked. Blocks. Errors: unavailable,
  /// copy_missing, copy_damaged.
  status get(io::checkpoint::memory_copy& into);
  /// The keeper's side: waits for a frame as long as nothing is wrong, answers it.
  status answer_one(io::checkpoint::memory_copies& store, int owner,
                    const io::checkpoint::copy_shape& own);

  /// From any thread (CPL-2).
  void abort() noexcept;

 private:
  enum class until : uint8_t { patience, ended };
  status move(bool out, std::span<std::byte> bytes, until how);
  status send(const io::checkpoint::copy_frame& f);
  status send(std::span<const std::byte> bytes);
  status receive(std::span<std::byte> bytes);
  result<io::checkpoint::copy_frame> receive_frame(until how);
  status send_share(const io::checkpoint::memory_copy& copy);
  status receive_share(io::checkpoint::memory_copy& into);
  status answer_put(io::checkpoint::memory_copies& store, io::checkpoint::copy_frame asked);
  status answer_get(const io::checkpoint::memory_copies& store, io::checkpoint::copy_frame asked);

  io::unique_fd socket_;
  std::chrono::milliseconds patience_;
  std::atomic<bool> aborted_{false};
};

/// Keeps one rank's copies: a thread that answers its link until that ends.
class copy_keeper {
 public:
  /// `own`: layout and slots of this job; how many bytes a share has is the owner's word. `told`:
  /// called on the thread after each frame that is answered, and at last with why no more are; must
  /// not wait.
  copy_keeper(std::shared_ptr<io::checkpoint::memory_copies> store, std::unique_ptr<copy_link> link,
              int owner, io::checkpoint::copy_shape own, std::function<void(const status&)> told);
  ~copy_keeper();
  void abort() noexcept { link_->abort(); }

 private:
  std::unique_ptr<copy_link> link_;
  std::thread thread_;
};

}  // namespace troupe::gpu

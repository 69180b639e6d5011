// How what the program says leaves it: straight, or through outboxes that nobody waits for.
//
// A verb that answers and ends writes straight: its reader sets the pace, as with any tool in a
// pipe. A training does not: a closed terminal, a pipe that nobody reads or a full disk under a log
// would hold it up or end it. It speaks through two outboxes, of stdout and of stderr, each with a
// thread that only writes; through one where both are the same terminal, pipe or file.
//
// Invariants
//   VO-1  put() never waits, throws or fails. What finds no room or cannot be written is counted,
//     and said once something can be written again.
//   VO-2  Texts leave in order and whole: after one that was cut off, the next begins a line.
//   VO-3  No write raises SIGPIPE.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::apps {

/// Texts on their way to one descriptor.
class outbox {
 public:
  /// What did not arrive.
  struct loss {
    uint64_t lines = 0;
    std::string why;  ///< "No space left on device", "nobody reads it"
  };
  using loss_handler = std::function<void(const loss&)>;

  static constexpr int settle_turns = 10;

  /// `fd` stays open as long as the process lives. At most `most_bytes` wait. `tell` is called by
  /// the outbox's thread, after a write that succeeded, with what was lost before it.
  outbox(int fd, size_t most_bytes, loss_handler tell);
  ~outbox();  ///< waits for nothing: what has not been written may still be, or not
  outbox(const outbox&) = delete;
  outbox& operator=(const outbox&) = delete;

  /// From any thread. `stands_for`: how many lines are lost with it; 0: its own.
  void put(std::string text, uint64_t stands_for = 0) noexcept;

  /// Waits until all that was put has been written or given up; whether it has. At most `patience`
  /// where the descriptor takes nothing, `settle_turns` times that where it does (a file always
  /// does): then it is this process that has had no time to write, on a busy machine.
  bool settle(std::chrono::milliseconds patience) const;

  /// What was lost and not told yet.
  loss lost() const;

 private:
  struct shared;
  std::shared_ptr<shared> shared_;  // the thread's as well: a write may outlast the outbox
};

/// From now on print(), say() and the log speak through outboxes. Starts threads: a process that
/// forks a crash dumper does so before. Further calls do nothing.
void speak_through_outboxes();

/// Gives the outboxes time to be written, and says what could not be. Before any end of the
/// process; does nothing where the program speaks straight.
void settle_voice(std::chrono::milliseconds patience = std::chrono::seconds(1));

}  // namespace troupe::apps

// Tasks that may block, as writes to a disk that hangs do, on a thread of their own: whoever gives
// them waits for nothing.
//
// Invariants
//   BKG-1  put() never blocks. What finds no room is not taken, and its giver is told.
//   BKG-2  Tasks are done in the order in which they were given, one at a time. What was taken is
//     done also after the end of the object, unless the process ends before: nobody waits for a
//     task that hangs.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace troupe::apps::power_verb {

class background {
 public:
  /// At most `room` tasks wait. They own what they use: BKG-2.
  explicit background(size_t room);
  ~background();
  background(const background&) = delete;
  background& operator=(const background&) = delete;

  /// Whether it was taken. A task does not throw.
  bool put(std::function<void()> task);

  /// Waits until all that was taken is done; whether it is.
  bool settle(std::chrono::milliseconds patience) const;

 private:
  struct shared;
  std::shared_ptr<shared> shared_;  // the thread's as well
};

}  // namespace troupe::apps::power_verb

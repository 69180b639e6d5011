// What a rank's device is made slower by where this process may not: the agent of the machine,
// asked over its socket (agent_server.hpp).
//
// Invariants
//   AGA-1  A pace is set once the agent says that it was read back; each answer has a deadline.
//   AGA-2  An agent that is gone, or does not answer, sets nothing for this rank any more:
//     has_gone() says so from then on, and the device has what others want of it.
//   AGA-3  Another job's device is asked for until at.seat_patience is over (SEA-2).
//   AGA-6  A clock that an operation asks for goes the same way: its setter (clock_setter.hpp) has
//     one at most under way, so the newest waits there, and what is of no use is never sent. Where
//     the rank shares its device, or another process computes on it, it has none.
//   AGA-5  end() waits for nothing, whatever the agent is doing or who is waiting for it: it hangs
//     up, which is what the agent goes by (AGS-1). The device is free once that has seen it.
//   AGA-4  Nothing is asked of an agent that is neither root's nor of this process's user, as the
//     kernel says it of who listens: whoever may make a socket could say that paces are set.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/agent_message.hpp"
#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::gpu::controls {

/// The agent does not set it: which word, where it was asked, and why.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> agent_refused{
    "agent_refused", errc::permission,
    "power.control = [\"{}\"] cannot be held: nor does the machine's agent set it ({}): {}",
    "name what that agent holds, or put \"pace\" last in power.control"};
/// AGA-4: where it is, and whose.
inline constexpr error_kind<std::string_view, int64_t> agent_not_trusted{
    "agent_not_trusted", errc::permission,
    "the machine's agent at {} is user {}'s, and neither root's nor this job's own user's",
    "name the socket of root's agent (power.agent_socket); in a container, one whose root is the "
    "machine's"};
/// It has not set it: which word, where it was asked, and why.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> agent_failed{
    "agent_failed", errc::unavailable, "the machine's agent at {1} has not set {0}: {2}",
    "its journal says more"};
/// AGA-2: where it was, and what came instead of an answer.
inline constexpr error_kind<std::string_view, std::string_view> agent_gone{
    "agent_gone", errc::unavailable, "the machine's agent at {} does not answer: {}",
    "start it again, and then the job's rank"};

class agent_actuator final : public actuator {
 public:
  /// At at.agent_socket, within at.agent_patience. Errors: agent_refused, also where nobody is
  /// there; agent_not_trusted; setting_governed; setting_held_lower.
  static result<std::unique_ptr<agent_actuator>> make(const control_place& at,
                                                      const setting_target& target,
                                                      const control_owner& owner);
  ~agent_actuator() override;
  agent_actuator(const agent_actuator&) = delete;
  agent_actuator& operator=(const agent_actuator&) = delete;

  /// Errors: agent_failed; agent_gone.
  status set(int pace_of_1024) override;
  void end() noexcept override;
  actuator_facts facts() const override;
  bool has_gone() const override;
  std::string set_by() const override;
  bool sets_clocks() const override { return !clocks_.empty(); }
  std::vector<int> clocks_mhz() const override { return clocks_; }
  /// AGA-6. Errors: agent_failed; agent_gone.
  status set_clock(int mhz) override;
  status check_clock() override;
  std::string take_note() override;
  unsigned given_back_to() const override { return given_back_to_; }

 private:
  agent_actuator(control_place at, setting_kind kind) : at_(std::move(at)), kind_(kind) {}
  status connect();
  result<agent_answer> ask(agent_request r);
  result<agent_answer> exchange(const agent_request& r);
  status take(const setting_target& target, const control_owner& owner);
  status ask_about_clock(agent_verb verb, int mhz);

  const control_place at_;
  const setting_kind kind_;
  // Of make() alone, then as they are.
  io::unique_fd fd_;
  std::string agent_;
  std::vector<int> clocks_;
  std::atomic<bool> over_ = false, gone_ = false;
  std::atomic<unsigned> given_back_to_ = 0;
  std::mutex asking_;  ///< one question at a time
  uint32_t sequence_ = 0;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  actuator_facts facts_ = {};
  std::string note_;
};

}  // namespace troupe::gpu::controls

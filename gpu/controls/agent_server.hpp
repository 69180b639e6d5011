// The agent of a machine sets devices for jobs without the right (agent_message.hpp): a thread that
// answers at a socket whose group says who may ask (io/local_socket.hpp).
//
// A connection is one device for one rank. It is the lease, too: what was asked for holds as long
// as it is there, so that a job that is killed slows nobody any more, and an agent that is gone is
// seen at once. Devices are set on the thread: that may take as long as a driver does, and then
// others wait, whose own deadlines end that.
//
// Invariants
//   AGS-1  Who is gone, or says nothing that can be understood, has no wish from then on (AGD-3),
//     nor has anybody once the server has ended.
//   AGS-2  At most `most_agent_clients` are served; one more is told so, and let go. So is who has
//     not said within the patience for whom he asks, or has begun a message and not ended it, or
//     takes no answer.
//   AGS-3  One request of a client is read at a time, and none before its answer is on its way.
//   AGS-5  Of them `most_clients_of_user` at most are one user's, by the kernel's word: one
//     more of his is told so, and let go, so that nobody takes the places of others.
//   AGS-6  A clock of an operation is set for who has the device alone (AGD-4), was told that it
//     may be, and is undone before its pace is, as that one goes or another rank comes.
//   AGS-4  What is told of a client names who has connected, as the kernel says it, beside what he
//     says of himself.
//   AGS-7  Of refusals `most_refusals_told` at most are told one by one within a minute, and
//     `most_wishes_told` of what is done; the rest is told as a number (event_rate_policy.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gpu/controls/agent_message.hpp"
#include "gpu/controls/machine_controls.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"
#include "io/local_socket.hpp"

namespace troupe::gpu::controls {

/// Connections to the agent of a machine: about one a rank.
inline constexpr size_t most_agent_clients = 128;
/// And those of one user: more than one for each GPU that a machine can have. AGS-5
inline constexpr size_t most_clients_of_user = 32;

/// Events of a minute that are told one by one: many times those of jobs in good order, and few
/// enough that a journal of bounded length keeps hours of what else is in it. AGS-7
inline constexpr size_t most_refusals_told = 60;
inline constexpr size_t most_wishes_told = 1200;

/// What has come of a client's request.
struct agent_event {
  enum class type : uint8_t {
    taken,    ///< a device is set for it from now on
    set,      ///< another pace than before
    let_go,   ///< it wishes for nothing more, or is gone
    refused,  ///< why says it
    left_out  ///< `count` more of what `word` says, of nobody in particular (AGS-7)
  };
  type what = type::refused;
  io::socket_peer peer = {};
  control_owner owner = {};  ///< without a job: it has not said one
  std::string word = {}, gpu = {};
  int pace_of_1024 = whole_pace;  ///< that it wishes for
  std::string why = {};           ///< of what was not done
  size_t count = 0;               ///< of those that are left out
};
std::string_view to_string(agent_event::type what);

struct agent_server_options {
  std::filesystem::path socket;
  std::string group = {};                    ///< of the socket; empty: that of this process
  std::string agent = {};                    ///< its name, for answers
  std::chrono::milliseconds patience{5000};  ///< AGS-2
  std::function<void(const agent_event&)> tell = {};  ///< from its thread; waits for nothing
  /// Who has connected.
  std::function<result<io::socket_peer>(int)> peer_of = &io::peer_of;
  /// By which a minute is counted (AGS-7).
  std::function<int64_t()> now_ns = [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
};

class agent_server {
 public:
  /// From now on. Errors: those of local_listener::make; io.
  static result<std::unique_ptr<agent_server>> start(agent_server_options options,
                                                     std::shared_ptr<machine_controls> controls);
  /// Waits for the device that is being set. AGS-1
  ~agent_server();
  agent_server(const agent_server&) = delete;
  agent_server& operator=(const agent_server&) = delete;

 private:
  class work;
  agent_server(std::unique_ptr<work> of, io::unique_fd bell);

  io::unique_fd bell_;
  std::unique_ptr<work> work_;
  std::thread thread_;
};

}  // namespace troupe::gpu::controls

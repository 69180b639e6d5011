// Who the processes at the other end of our connections are, by certificate, and what they may
// send: the gate in front of every actor's mailbox.
//
// Certificates are known by connection (actors/cluster/tls_links.hpp), senders by process: the
// broker that reads the frames of a connection binds the two here (actors/cluster/basp_gate.hpp)
// and sees to it that a guest speaks for itself alone (frame_policy.hpp, FRM-2).
//
// Invariants
//   TRU-1  A process that is bound keeps its holder while anything it said may be on its way: until
//     it has been gone for `memory_ns`.
//   TRU-2  A guest's message reaches a mailbox only if its role is among the message's audience
//     (messages/contract.hpp). A refused one is counted, told to the listener, and answered.
//     A power budget, which a job knows as a guest of role power, answers with what such calls are
//     answered with, and only as an answer.
//   TRU-3  What no certificate vouches for (a plain cluster, an actor of this process, a process
//     that speaks through a node) is not judged here: without TLS there is nobody to judge, and a
//     node is trusted with what it passes on.
//   TRU-4  Where there is no guest the gate costs one read of a flag.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include <caf/fwd.hpp>
#include <caf/node_id.hpp>

#include "actors/base/defaults.hpp"
#include "io/tls/certs.hpp"
#include "messages/any_msg.hpp"

namespace troupe {

class actor_stats;

/// The holder of a certificate.
struct peer {
  std::string name;  ///< of the certificate
  tls::role as = tls::role::reader;

  /// Whether it is held to what its role may.
  bool guest() const noexcept { return as != tls::role::node; }
  friend bool operator==(const peer&, const peer&) = default;
};

/// How long the holder of a process that has gone is remembered.
inline constexpr int64_t peer_memory_ns = std::chrono::nanoseconds(defaults::peer_memory).count();

/// A message that was refused.
struct refusal {
  peer who;
  std::string actor;  ///< the path of the actor it was for
  any_msg message;
  std::string from = {};  ///< as peer_book::place_of()
};

/// The peers of an actor system (runtime.hpp). Any thread.
class peer_book {
 public:
  /// A connection says that it is of this process. False where the process is another's, who is
  /// there or was lately (TRU-1), or where there are too many to remember. `from`: the address at
  /// its other end; may be empty.
  bool bind(const caf::node_id& process, const peer& who, int64_t now_ns,
            const std::string& from = {});

  /// One of the connections that bind() was true for has ended.
  void release(const caf::node_id& process, int64_t now_ns);

  /// Who a process is, where a certificate says so.
  std::optional<peer> find(const caf::node_id& process) const;

  /// Who sent a message, where a certificate says so.
  std::optional<peer> find(const caf::strong_actor_ptr& sender) const;

  /// The address that the sender's process connected from, where it connected; the last one where
  /// it has several. Empty: it is not known.
  std::string place_of(const caf::strong_actor_ptr& sender) const;

  /// Is told of every refusal before it is answered, on any thread. Empty: nobody.
  void set_refusal_listener(std::function<void(const refusal&)> listener);

  /// TRU-4: whether any guest has ever been bound.
  bool knows_guests() const noexcept { return guests_known_.load(std::memory_order_relaxed); }

  /// TRU-2. True: the message was refused, and its sender told.
  bool refuse_at_gate(const caf::mailbox_element& element, const any_msg* message,
                      const actor_stats& receiver, caf::execution_unit* host);

 private:
  struct entry {
    peer who;
    size_t connections = 0;
    int64_t gone_ns = 0;  ///< when the last of them ended
    std::string from = {};

    bool forgotten(int64_t now_ns) const {
      return connections == 0 && now_ns - gone_ns >= peer_memory_ns;
    }
  };

  void forget_the_gone(int64_t now_ns);
  void tell_listener(const refusal& r);

  std::atomic<bool> guests_known_{false};
  mutable std::shared_mutex mutex_;
  std::unordered_map<caf::node_id, entry> peers_;
  std::optional<int64_t> looked_ns_;  ///< when forgotten ones were last looked for
  std::mutex listener_mutex_;
  std::function<void(const refusal&)> listener_;
};

/// Whether a role may send this message; the reason where it may not (permission).
status may_send(const peer& who, const any_msg& m);

}  // namespace troupe

// The gate between sockets and CAF: a middleman whose broker judges every frame before CAF acts on
// it (frame_policy.hpp), binds processes to the certificates of their connections (trust.hpp), and
// counts the connections that come to nothing (ingress.hpp).
//
// Why a middleman: CAF 0.17.6 makes its broker in the middleman's start(), unless there is one of
// that name already. Its OpenSSL twin takes the same broker. So nothing of CAF is replaced: the
// broker here is CAF's own, with a tap at its mailbox.
//
// Invariants
//   GAT-1  What the policy does not pass never reaches CAF's code.
//   GAT-2  Under TLS a connection without a holder passes nothing.
//   GAT-3  A connection that was made to us is counted at the ingress once, here or at its
//     handshake (tls_links.hpp), if it ends before it has said who it is, or for what it says.
//   GAT-4  The broker's mailbox closes with it: what comes later is refused at once. CAF leaves it
//     open; a message in it that names the broker would keep both for ever.
//   GAT-5  A connection that has not said who it is waits within bounds (admission.hpp). What is
//     closed here is closed both ways: CAF would leave the socket to a peer that never closes it.
//   GAT-6  A link that has heard nothing yet has the connection's timeout from CAF's next beat on.
//     CAF 0.17.6 takes "never" for "long ago": it would cut each link, ours to a busy coordinator
//     too, whose handshake is under way at a beat.
#pragma once

#include <memory>

#include <caf/io/middleman.hpp>

#include "actors/cluster/tls_certificates.hpp"

namespace troupe::cluster {

class admission;
class admitting_multiplexer;

/// Before there is an actor system: this process may fall silent, in a drill.
void may_fall_silent() noexcept;
/// From now on nothing that this process says to others leaves it. Its connections stay, and it
/// hears what they say: to them it looks like a host behind a broken switch. From any thread; does
/// nothing where it was not said before that it may.
void fall_silent() noexcept;

class gated_middleman : public caf::io::middleman {
 public:
  explicit gated_middleman(caf::actor_system& system);
  ~gated_middleman() override;

  caf::io::network::multiplexer& backend() override;
  /// Where connections wait that were made to this process.
  admission& admitted();
  void start() override;
  void stop() override;

  /// The actor that renews certificates ends, and has ended when this returns; before stop(), which
  /// comes when all others have. One that began so late that the clock had gone would arm a timer
  /// that holds it for ever, and CAF 0.17.6 waits for detached actors without end.
  void end_renewals();

  /// For actor_system_config::load<>.
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);

 private:
  std::unique_ptr<admitting_multiplexer> backend_;
  certificate_store_actor certificates_;  ///< where there are certificates
};

}  // namespace troupe::cluster

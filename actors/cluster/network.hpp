// An actor system on the network: TLS by certificates, or by keys of the job where there are none;
// publishing and connecting without ever blocking an actor.
//
// Invariants
//   NET-1  Heartbeats and the connection timeout are set on every node alike, or CAF would notice
//     no frozen peer (or drop a healthy one).
//   NET-2  Every peer must show a certificate of the same authority, or prove a key of the job
//     (io/tls/keyring.hpp), over loopback as well. Without certificates only loopback listens,
//     unless the configuration says insecure.
//   NET-3  Every connection goes through the gate (basp_gate.hpp).
#pragma once

#include <optional>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/base/runtime.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "io/tls/keyring.hpp"
#include "messages/actors.hpp"

namespace troupe::cluster {

/// How this process speaks to others.
struct network_options {
  std::string ca, certificate, key;  ///< PEM files; all or none
  std::optional<tls::proof> proof;   ///< by which key, where there is no certificate
  /// What who comes with a node's certificate is to this process; to a power budget a job (LNK-6).
  tls::role nodes_as = tls::role::node;
  /// The same of a power budget's certificate; to a person's tool a node.
  tls::role budgets_as = tls::role::power;
  int64_t heartbeat_interval_ms = 1000;
  int64_t dead_after_ms = 10'000;
  int scheduler_threads = 2;  ///< of CAF's pool: actors are thin, cores belong to compute streams

  bool by_certificate() const { return !certificate.empty(); }
  /// Whether others can know who this process is; one that they cannot speaks to nobody.
  bool proved() const { return by_certificate() || proof.has_value(); }
};

/// From a job, for the node named `node` ("{node}" in file names stands for it).
network_options network_of(const config::cluster_section& cluster, const std::string& node);

/// Takes the certificates into memory (tls_certificates.hpp). Fails with bad_config if one does not
/// verify against its authority.
status check(const network_options& options);

/// As above, and from now on this process proves itself so on every link (NET-2); to be called
/// before there is an actor system. Errors: permission where nothing proves who it is.
status prove(const network_options& options);

/// The configuration of an actor system on the network.
class system_config : public runtime_config {
 public:
  explicit system_config(const network_options& options);
};

/// Whether the program's SSL_read stands before libssl's for every library (tls_errors.cpp).
bool tls_errors_are_apart();

/// Makes the coordinator reachable; answers with the port. `address` is what to listen on; port 0:
/// a free one. Blocks: for main functions.
result<uint16_t> publish(const coordinator_actor& actor, const std::string& address,
                         uint16_t port);
/// The same of a head that stands by.
result<uint16_t> publish(const elector_actor& actor, const std::string& address, uint16_t port);
/// The same of a power budget.
result<uint16_t> publish(const budget_actor& actor, const std::string& address, uint16_t port);

/// Declared behind an orderly_end (actors/base/runtime.hpp), which would wait for it without
/// end: at the scope's end the actor that renews certificates ends.
struct renewals_end {
  caf::actor_system& system;
  ~renewals_end();
};

/// The actor that makes connections; ask it (connect_atom, host, port) with a timeout.
caf::actor connector(caf::actor_system& system);

}  // namespace troupe::cluster

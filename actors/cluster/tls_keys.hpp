// TLS between processes that have no certificates: each end proves that it holds the same key of
// the job (io/tls/keyring.hpp) by TLS 1.3's external pre-shared keys (RFC 8446, 4.2.11). The key
// is never sent, and who answers at a dead coordinator's port learns nothing but a name.
//
// Why here: CAF 0.17.6 makes a context for every link from its configuration, which knows no such
// keys; the program hands OpenSSL this context instead (tls_errors.cpp).
//
// Invariants
//   KEYS-1  A link of this context has ended its handshake only where both ends have proved a key:
//     the side that connects takes no certificate for it.
//   KEYS-2  Nothing is resumed: every link is proved anew, with a fresh exchange of keys.
//   KEYS-3  A link that this process makes to a port of this machine that prove_to() names is
//     proved by that key, whatever proves the others: it takes no certificate, and who is at its
//     other end is no node. So for as long as its kept_proof is: a port of a process that has ended
//     may be another's next.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "io/tls/keyring.hpp"

namespace troupe::cluster {

using ssl_context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

/// A context whose links are proved by key, either way. Errors: bug, where OpenSSL has none such.
result<ssl_context> make_key_context(const tls::proof& who);

/// From now on every TLS link that this process makes or takes is proved by key. Call it before
/// there are links. Errors: as above.
status prove_by_key(const tls::proof& who);

/// A proof for a port counts for as long as this is kept. Links that have it keep it.
using kept_proof = std::shared_ptr<const void>;

/// From now on links that this process makes to this port of this machine are proved by `who`, and
/// the process at their other end is a guest of role power (KEYS-3). A later call for the port
/// replaces it. Thread-safe.
[[nodiscard]] kept_proof prove_to(uint16_t port, const tls::proof& who);

/// Before this process begins a handshake over a link that has its socket: takes the proof that is
/// for its port (KEYS-3). False: it cannot, and the link must not be used.
bool take_proof_for(SSL* link) noexcept;

/// The context of all links; nullptr where they are proved by certificate.
SSL_CTX* key_context();

/// Who proved himself to us on a link whose handshake is over; of a link that we made it is known
/// only that it is a process of the cluster, or the power budget.
std::optional<tls::bearer> bearer_of_link(const SSL* link);

}  // namespace troupe::cluster

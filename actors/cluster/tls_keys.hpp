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

/// From now on links that this process makes to this port of this machine are proved by `who`, and
/// the process at their other end is a guest of role power. A later call for the port replaces it.
/// Thread-safe.
void prove_to(uint16_t port, const tls::proof& who);

/// The context of all links; nullptr where they are proved by certificate.
SSL_CTX* key_context();

/// Who proved himself to us on a link whose handshake is over; of a link that we made it is known
/// only that it is a process of the cluster.
std::optional<tls::bearer> bearer_of_link(const SSL* link);

}  // namespace troupe::cluster

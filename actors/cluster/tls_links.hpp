// Who is at the other end of each TLS connection of this process, by certificate or by a key of the
// job: learned at the handshake (by tls_errors.cpp), kept by socket, asked by the gate
// (basp_gate.hpp).
//
// Why: CAF 0.17.6 verifies a certificate and forgets it; nothing of it reaches a broker.
//
// Invariants
//   LNK-1  A socket has a holder only between a finished handshake and its end.
//   LNK-2  A certificate that names no role of ours is a reader's.
//   LNK-3  Who proved a person's key over loopback bears the name of his user as the kernel knows
//     it; beyond, and where the kernel does not say, the name that the key was made for.
#pragma once

#include <openssl/types.h>

#include <optional>
#include <string>

#include "io/tls/certs.hpp"

namespace troupe::cluster {

/// Takes note of how a call of SSL_accept (`accepted`) or SSL_connect came out: who it is, or why
/// it failed (counted at the door where the other side made the connection). Leaves OpenSSL's queue
/// of errors as it is.
void note_handshake(SSL* link, int outcome, bool accepted) noexcept;

/// Who is at the other end of a socket; nothing before its handshake is over.
std::optional<tls::identity> holder_of_socket(int fd);

/// The connection has ended.
void forget_socket(int fd);

/// The address of the other end, without a port; "an unknown address" where it cannot be told.
std::string address_of_socket(int fd);

}  // namespace troupe::cluster

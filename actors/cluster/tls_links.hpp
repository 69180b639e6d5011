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
//   LNK-4  Who answers where this process connected to has a certificate for that place.
#pragma once

#include <openssl/types.h>

#include <optional>
#include <string>

#include "io/tls/certs.hpp"

namespace troupe::cluster {

/// Takes note of how a call of SSL_accept (`accepted`) or SSL_connect came out: who it is, or why
/// it failed (counted at the ingress where the other side made the connection). Leaves OpenSSL's
/// queue of errors as it is.
void note_handshake(SSL* link, int outcome, bool accepted) noexcept;

/// From here on links to `port` are made to this host, by name or address: a certificate that is
/// for neither the host nor the address of the other end holds no link (LNK-4).
void expect_host(const std::string& host, uint16_t port);

/// Why this process made no link to `port` when it last tried: the certificate that it was shown is
/// for another place (LNK-4). CAF knows only that there is no link.
std::optional<std::string> why_not(uint16_t port);

/// Who is at the other end of a socket; nothing before its handshake is over.
std::optional<tls::identity> holder_of_socket(int fd);

/// The connection has ended, or a new one begins.
void forget_socket(int fd);

/// Closes a connection both ways: its loop then drops the socket, whatever the other side does.
/// What becomes of its handshake is noted no more.
void give_up_socket(int fd);

/// The address of the other end, without a port; "an unknown address" where it cannot be told.
std::string address_of_socket(int fd);

}  // namespace troupe::cluster

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
//   LNK-4  Who answers where this process connected to has a certificate for that place, or has
//     proved a key.
//   LNK-5  Where that was asked for, connecting to a port gives up in time, and so does the
//     handshake with who is there; else a handshake takes defaults::connect_timeout at most. CAF
//     0.17.6 connects in the thread that makes all links: an address that drops what it is sent
//     (its machine is off) would hold up the others for minutes.
//   LNK-6  To a power budget who comes with a node's certificate is a job: of role power, and so a
//     guest that may report and nothing else, by the certificate's name. Persons stay persons.
//     Where a budget connects to is another one, or nobody: a node there holds no link. To a
//     person's tool a power budget answers what it was asked, as a node does.
#pragma once

#include <openssl/types.h>
#include <sys/socket.h>

#include <chrono>
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

/// From here on this process gives up to connect to `port` after so long (LNK-5).
void bound_connect(uint16_t port, std::chrono::milliseconds most);
/// Both, for a head of several: expect_host, and a bound of defaults::head_knock.
void expect_head(const std::string& host, uint16_t port);
/// From here on who connects here with a node's certificate is of this role. Where that is another
/// one than a node's, no link is made to who shows such a certificate (LNK-6).
void take_nodes_as(tls::role as);
/// From here on who shows a power budget's certificate where this process connected to is of this
/// role (LNK-6).
void take_budgets_as(tls::role as);
/// That time for an address; none: as the system has it.
std::optional<std::chrono::milliseconds> connect_bound(const sockaddr* to);
/// How long a handshake over this socket may take.
std::chrono::milliseconds handshake_bound(int fd);

/// Why this process made no link to `port` when it last tried: the certificate that it was shown is
/// for another place (LNK-4), or a node's (LNK-6). CAF knows only that there is no link.
std::optional<std::string> why_not(uint16_t port);

/// Who is at the other end of a socket; nothing before its handshake is over.
std::optional<tls::identity> holder_of_socket(int fd);

/// The connection has ended, or a new one begins.
void forget_socket(int fd);

/// Closes a connection both ways: its loop then drops the socket, whatever the other side does.
/// What becomes of its handshake is noted no more.
void give_up_socket(int fd);

/// The port of the other end; 0 where it cannot be told.
uint16_t port_of_socket(int fd);

/// The address of the other end, without a port; "an unknown address" where it cannot be told.
std::string address_of_socket(int fd);

}  // namespace troupe::cluster

// Descriptors and the connections that others make: how many files this process may open, and how
// many of them stay free of connections.
//
// Why: CAF 0.17.6 accepts until there is no descriptor left; then its loop spins over a connection
// that it cannot take, and whatever opens a file next fails: a checkpoint, a log. The program
// exports CAF's own function that accepts (caf::policy::tcp::try_accept), which the library then
// calls, as it does with those of OpenSSL (tls_errors.cpp). What was taken waits in the loop's
// admission (admission.hpp).
//
// Invariants
//   ACC-1  A descriptor within the reserve is never a connection: the kernel gives the lowest free
//     one, so such a number says that the others are taken.
//   ACC-2  A connection that cannot be taken is closed and counted; it never stays in the queue,
//     which would keep the loop busy.
#pragma once

#include "actors/cluster/strangers_policy.hpp"

namespace troupe::cluster {

/// Raises the soft limit of open files to the hard one; what this process can spare of them. The
/// first call decides. Thread-safe.
const descriptor_shares& descriptors();

/// The next connection to a listening socket that does not block; -1: there is none, or none to be
/// had (ACC-1).
int accept_within_reserve(int listening);

/// Whether the program's try_accept stands before CAF's.
bool accepting_is_ours();

}  // namespace troupe::cluster

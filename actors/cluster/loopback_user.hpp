// Which user of this machine is at the other end of a connection over loopback, by the kernel's
// word: what a process says of itself it may make up (in a user namespace of its own it is root).
//
// Invariants
//   USR-1  Only an established connection of a living process says a user: what the kernel keeps of
//     ended ones is root's in its tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::cluster {

/// The user whose socket has these ends, out of the text of /proc/net/tcp or tcp6 (USR-1).
/// `local` and `remote`: as the table writes them, "0100007F:1F90".
std::optional<uint32_t> user_in_table(std::string_view table, std::string_view local,
                                      std::string_view remote);

/// The name of the user at the other end, "uid 1234" where /etc/passwd has none; nothing where the
/// other end is not on this machine's loopback, or the kernel does not say.
std::optional<std::string> loopback_user(int socket);

}  // namespace troupe::cluster

// Sockets of one machine, under a name in the file system: streams (AF_UNIX) whose group says who
// may connect, and whose peers the kernel names.
//
// Invariants
//   LSK-1  Nobody connects before the name has its group and its mode, 0660: it listens only then.
//   LSK-2  The name of a socket at which nobody listens any more, as of a process that was killed,
//     is taken over. One at which somebody does, or that is no socket, is refused, and stays.
//   LSK-3  The name goes with its listener, while it leads to that one (OWN-5).
//   LSK-4  Each wait ends at its deadline.
//   LSK-5  Nothing but the socket that was just made is given the group and the mode: a folder
//     where everybody may take a name from its owner is refused, and so is what is no socket of
//     this user's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// Somebody listens under the name (LSK-2).
inline constexpr error_kind<std::string_view> socket_in_use{
    "socket_in_use", errc::timeout, "{} is in use: another process listens there",
    "end that one, or name another socket"};
/// What has the name is none of ours to take away.
inline constexpr error_kind<std::string_view> no_socket{
    "no_socket", errc::permission, "{} is no socket, and stays as it is",
    "name another one, or take it away yourself"};
/// Others could put what they like in its place (LSK-5).
inline constexpr error_kind<std::string_view> open_socket_folder{
    "open_socket_folder", errc::permission, "{} is a folder to which everybody may write",
    "name a socket in another one, as /run/troupe/agent.sock, or take that right away (chmod o-w)"};
/// It is longer than the kernel takes, or empty.
inline constexpr error_kind<std::string_view, size_t> bad_socket_name{
    "bad_socket_name", errc::usage, "\"{}\" is no name of a socket: expected 1 to {} bytes",
    "name a shorter path, as /run/troupe/agent.sock"};
/// Of a name, or a number.
inline constexpr error_kind<std::string_view> no_such_group{
    "no_such_group", errc::usage, "this machine has no group {}", "groupadd --system makes one"};

/// Who has connected, as the kernel says it.
struct socket_peer {
  int64_t pid = 0;  ///< 0: in another container, where its number is not seen
  int64_t uid = 0, gid = 0;
  bool operator==(const socket_peer&) const = default;
};

class local_listener {
 public:
  /// `group`: a name or a number; empty: that of this process. Errors: bad_socket_name,
  /// no_such_group, socket_in_use, no_socket; permission; io.
  static result<local_listener> make(const std::filesystem::path& name, const std::string& group);
  local_listener(local_listener&&) noexcept = default;
  local_listener& operator=(local_listener&&) = delete;
  ~local_listener();

  int fd() const noexcept { return listening_.get(); }
  /// The next one that has connected, who is never waited for; none: nobody has.
  unique_fd accept() const;

 private:
  local_listener(unique_fd listening, unique_fd named, std::filesystem::path name)
      : listening_(std::move(listening)), named_(std::move(named)), name_(std::move(name)) {}
  unique_fd listening_, named_;
  std::filesystem::path name_;
};

/// Of one that has connected to a name: who began to listen there. Errors: io.
result<socket_peer> peer_of(int fd);

using socket_deadline = std::chrono::steady_clock::time_point;

/// Errors: bad_socket_name; not_found; permission; timeout (LSK-4); io.
result<unique_fd> connect_local(const std::filesystem::path& name, socket_deadline until);
/// Errors: timeout; io, also where the peer is gone.
status send_local(int fd, std::span<const std::byte> bytes, socket_deadline until);
/// As many as `into` takes. Errors: as send_local.
status receive_local(int fd, std::span<std::byte> into, socket_deadline until);
/// Whether the peer is gone, and has left nothing to read. Waits for nothing.
bool has_hung_up(int fd);
/// Nothing is said there any more: the peer finds that out, and so does who waits here, in another
/// thread, too. Waits for nothing.
void hang_up(int fd) noexcept;

}  // namespace troupe::io

// Names, groups and deadlines; see local_socket.hpp.
#include "io/local_socket.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/folder/owned.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

/// Who has connected and was not accepted yet.
constexpr int waiting_peers = 16;
constexpr std::chrono::milliseconds ask_again_after{5};

result<sockaddr_un> address_of(const fs::path& name) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  const auto& text = name.native();
  if (text.empty() || text.size() >= sizeof out.sun_path || text.find('\0') != text.npos)
    return bad_socket_name(text, sizeof out.sun_path - 1);
  std::memcpy(out.sun_path, text.data(), text.size());
  return out;
}

/// None: that of this process stays.
result<std::optional<gid_t>> group_named(const std::string& name) {
  if (name.empty()) return std::optional<gid_t>();
  gid_t number = 0;
  const char* end = name.data() + name.size();
  if (const auto [at, code] = std::from_chars(name.data(), end, number);
      at == end && code == std::errc()) {
    if (number == static_cast<gid_t>(-1))
      return no_such_group(name);  // chown's word for "as it is"
    return std::optional(number);
  }
  std::vector<char> text(16 << 10);
  group entry{};
  group* found = nullptr;
  const int failed = ::getgrnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  if (failed != 0) return error::system("look for the group " + name, failed);
  if (found == nullptr) return no_such_group(name);
  return std::optional(found->gr_gid);
}

int milliseconds_until(socket_deadline until) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(600'000)).count());
}

error too_late(std::string_view what) {
  return {errc::timeout, fmt::format("{} took too long", what)};
}

/// LSK-4. Whoever looks once more behind the deadline finds what has come by then.
status wait_at(int fd, short events, socket_deadline until, std::string_view what) {
  for (;;) {
    pollfd at{fd, events, 0};
    const int ready = ::poll(&at, 1, milliseconds_until(until));
    if (ready > 0) return {};
    if (ready == 0) return too_late(what);
    if (errno != EINTR) return error::system(what, errno);
  }
}

unique_fd new_socket() {
  return unique_fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// While it is kept no other process of this program takes names of sockets in a folder: of two
/// that begin at once each would take the other's for a dead one's. Who has not got it goes on.
unique_fd hold_names(const fs::path& folder) {
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const bool is_held = errno == EWOULDBLOCK || errno == EINTR;
    if (!is_held || std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(ask_again_after);
  }
  return fd;
}

/// LSK-5
status refuse_open_folder(const fs::path& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0)
    return error::system("look at " + folder.string(), errno);
  const bool is_open = (facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0;
  return is_open ? status{open_socket_folder(folder.native())} : status{};
}

/// LSK-5. Of a socket that was just made here; whoever may write to the folder may put another
/// thing there, even a second name of somebody's.
status see_that_it_is_ours(int fd, const fs::path& name) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return error::system("look at " + name.string(), errno);
  const bool is_ours =
      S_ISSOCK(facts.st_mode) && facts.st_uid == ::geteuid() && facts.st_nlink == 1;
  return is_ours ? status{} : status{no_socket(name.native())};
}

/// What has the name now, itself and not what it leads to.
unique_fd thing_named(const fs::path& name) {
  return unique_fd(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

/// LSK-2. The name is free then, or was free.
status take_from_the_dead(const fs::path& name, const sockaddr_un& address) {
  const auto there = thing_named(name);
  if (!there)
    return errno == ENOENT ? status{} : status{error::system("look at " + name.string(), errno)};
  struct stat facts {};
  if (::fstat(there.get(), &facts) != 0) return error::system("look at " + name.string(), errno);
  if (!S_ISSOCK(facts.st_mode)) return no_socket(name.native());
  const auto asks = new_socket();
  if (!asks) return error::system("make a socket", errno);
  const bool is_met =
      ::connect(asks.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (is_met || errno == EAGAIN) return socket_in_use(name.native());
  if (errno != ECONNREFUSED)
    return error::system("see whether somebody listens at " + name.string(), errno);
  return remove_own_file(name, there.get());
}

}  // namespace

result<local_listener> local_listener::make(const fs::path& name, const std::string& group) {
  TROUPE_TRY(address, address_of(name));
  TROUPE_TRY(of_group, group_named(group));
  auto listening = new_socket();
  if (!listening) return error::system("make a socket", errno);
  const auto parent = name.has_parent_path() ? name.parent_path() : fs::path(".");
  TROUPE_CHECK(refuse_open_folder(parent));
  const auto held = hold_names(parent);
  TROUPE_CHECK(take_from_the_dead(name, address));
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(listening.get(), at, sizeof address) != 0) {
    if (errno == EADDRINUSE) return socket_in_use(name.native());
    return error::system("make the socket " + name.string(), errno);
  }
  auto there = thing_named(name);
  if (there) TROUPE_CHECK(see_that_it_is_ours(there.get(), name));
  local_listener out(std::move(listening), std::move(there), name);
  const auto failed = [&](const char* what) {
    return error::system(fmt::format("{} the socket {}", what, name.string()), errno);
  };
  if (!out.named_) return failed("look at");
  const int named = out.named_.get();
  if (of_group && ::fchownat(named, "", static_cast<uid_t>(-1), *of_group, AT_EMPTY_PATH) != 0)
    return failed("give the group its right to");
  if (::chmod(fmt::format("/proc/self/fd/{}", named).c_str(), 0660) != 0)
    return failed("give the mode 0660 to");
  if (::listen(out.fd(), waiting_peers) != 0) return failed("listen at");  // LSK-1
  return out;
}

local_listener::~local_listener() {
  if (named_) static_cast<void>(remove_own_file(name_, named_.get()));  // LSK-3
}

unique_fd local_listener::accept() const {
  return unique_fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

result<socket_peer> peer_of(int fd) {
  ucred said{};
  socklen_t bytes = sizeof said;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &said, &bytes) != 0)
    return error::system("ask who has connected", errno);
  return socket_peer{said.pid, said.uid, said.gid};
}

result<unique_fd> connect_local(const fs::path& name, socket_deadline until) {
  TROUPE_TRY(address, address_of(name));
  auto fd = new_socket();
  if (!fd) return error::system("make a socket", errno);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  // Where too many wait the kernel says so at once, and tells nobody when there is room.
  while (::connect(fd.get(), at, sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return error::system("connect to " + name.string(), errno);
    if (std::chrono::steady_clock::now() >= until)
      return too_late("connecting to " + name.string());
    std::this_thread::sleep_for(ask_again_after);
  }
  return fd;
}

status send_local(int fd, std::span<const std::byte> bytes, socket_deadline until) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      TROUPE_CHECK(wait_at(fd, POLLOUT, until, "sending"));
    } else if (errno != EINTR) {
      return error::system("send", errno);
    }
  }
  return {};
}

status receive_local(int fd, std::span<std::byte> into, socket_deadline until) {
  while (!into.empty()) {
    const auto got = ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      into = into.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return error{errc::io, "the peer has hung up"};
    } else if (errno == EAGAIN) {
      TROUPE_CHECK(wait_at(fd, POLLIN, until, "an answer"));
    } else if (errno != EINTR) {
      return error::system("receive", errno);
    }
  }
  return {};
}

/// Where the peer is gone there is nothing to end.
void hang_up(int fd) noexcept {
  static_cast<void>(::shutdown(fd, SHUT_RDWR));
}

bool has_hung_up(int fd) {
  char seen = 0;
  const auto got = ::recv(fd, &seen, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace troupe::io

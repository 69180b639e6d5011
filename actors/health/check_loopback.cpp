// TCP from this process to itself: how many bytes a second, how long to and fro.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "actors/health/checks.hpp"
#include "io/base/result.hpp"

namespace troupe::health {

namespace {

constexpr size_t piece_bytes = 256 << 10;
constexpr char to_and_fro = 'p', pour = 'b';

class socket_end {
 public:
  explicit socket_end(int fd) : fd_(fd) {}
  socket_end(socket_end&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  socket_end& operator=(socket_end&&) = delete;
  ~socket_end() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

  /// A wait for the other end is bounded, and small messages go at once.
  void set_up() const {
    timeval most{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    const int yes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  bool send_all(const char* bytes, size_t count) const {
    while (count > 0) {
      const auto n = send(fd_, bytes, count, MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes += n;
      count -= static_cast<size_t>(n);
    }
    return true;
  }
  bool receive_all(char* bytes, size_t count) const {
    while (count > 0) {
      const auto n = recv(fd_, bytes, count, 0);
      if (n <= 0) return false;
      bytes += n;
      count -= static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

/// Both ends of a connection over 127.0.0.1.
result<std::pair<socket_end, socket_end>> connected() {
  const socket_end listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  socket_end here(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.fd() < 0 || here.fd() < 0 || bind(listener.fd(), address, size) != 0 ||
      listen(listener.fd(), 1) != 0 || getsockname(listener.fd(), address, &size) != 0)
    return error::system("make a socket", errno);
  here.set_up();
  listener.set_up();
  if (connect(here.fd(), address, size) != 0) return error::system("connect to 127.0.0.1", errno);
  socket_end there(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (there.fd() < 0) return error::system("accept a connection on 127.0.0.1", errno);
  // Whoever else came first is not us.
  sockaddr_in peer{}, own{};
  socklen_t peer_size = sizeof peer, own_size = sizeof own;
  getpeername(there.fd(), reinterpret_cast<sockaddr*>(&peer), &peer_size);
  getsockname(here.fd(), reinterpret_cast<sockaddr*>(&own), &own_size);
  if (peer.sin_port != own.sin_port)
    return error{errc::unavailable, "another process came to the socket of this check"};
  there.set_up();
  return std::pair(std::move(here), std::move(there));
}

/// The other end: sends a word back, or takes a piece and says so. Ends with the connection.
void answer(const socket_end& end, std::span<char> piece, double& processor_seconds) {
  char word = 0;
  while (end.receive_all(&word, 1)) {
    if (word == pour && !end.receive_all(piece.data(), piece.size())) break;
    if (!end.send_all(&word, 1)) break;
  }
  processor_seconds = gpu::seconds_now(gpu::time_kind::thread);
}

std::optional<double> latency_us(const socket_end& end, const deadline& until) {
  std::vector<double> all;
  for (int i = 0; i < 200 && !until.over(); ++i) {
    char word = to_and_fro;
    const double begin = gpu::seconds_now(gpu::time_kind::wall);
    if (!end.send_all(&word, 1) || !end.receive_all(&word, 1)) return std::nullopt;
    all.push_back((gpu::seconds_now(gpu::time_kind::wall) - begin) * 1e6);
  }
  if (all.empty()) return std::nullopt;
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

std::optional<double> bytes_a_second(const socket_end& end, int pieces, const deadline& until) {
  const std::vector<char> piece(piece_bytes, 'x');
  const double begin = gpu::seconds_now(gpu::time_kind::wall);
  int sent = 0;
  for (; sent < pieces && !until.over(); ++sent) {
    char word = pour;
    if (!end.send_all(&word, 1) || !end.send_all(piece.data(), piece.size()) ||
        !end.receive_all(&word, 1))
      return std::nullopt;
  }
  if (sent == 0) return std::nullopt;
  return sent * static_cast<double>(piece_bytes) /
         std::max(gpu::seconds_now(gpu::time_kind::wall) - begin, 1e-9);
}

/// The other end hears of it however this one leaves, and its thread ends.
struct on_leaving {
  const socket_end& end;
  ~on_leaving() { shutdown(end.fd(), SHUT_RDWR); }
};

void tell(fbs::CheckResultT& c, std::optional<double> seen) {
  if (seen)
    c.seen = *seen;
  else
    c.text = "127.0.0.1 did not answer in time";
}

}  // namespace

void check_loopback(checkup_under_way& c) {
  auto& bandwidth = c.add("loopback_bandwidth");
  auto& latency = c.add("loopback_latency");
  auto both = connected();
  if (!both) {
    bandwidth.text = latency.text = both.error().message;
    return;
  }
  double used = 0;
  try {
    std::vector<char> piece(piece_bytes);
    std::jthread other([&] { answer(both->second, piece, used); });
    const on_leaving hang_up{both->first};
    tell(latency, latency_us(both->first, deadline(c, "loopback_latency")));
    tell(bandwidth, bytes_a_second(both->first, c.deep ? 4096 : 256,
                                   deadline(c, "loopback_bandwidth")));
  } catch (const std::system_error& e) {
    bandwidth.text = latency.text = fmt::format("cannot start a thread: {}", e.what());
  } catch (const std::bad_alloc&) {
    bandwidth.text = latency.text = "there is no memory for it";
  }
  c.helpers_seconds += used;
}

}  // namespace troupe::health

// SOCK_SEQPACKET: whole packets, in order.
#include "apps/up/launcher_line.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

namespace troupe::apps {

namespace {

std::string bytes_of(const packet& words) {
  std::string out;
  for (const auto& w : words) out.append(w).push_back('\0');
  return out;
}

packet words_in(std::string_view bytes) {
  packet out;
  for (size_t end; (end = bytes.find('\0')) != bytes.npos; bytes.remove_prefix(end + 1))
    out.emplace_back(bytes.substr(0, end));
  return out;
}

}  // namespace

result<std::pair<launcher_line, io::unique_fd>> launcher_line::make() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return error::system("make a pair of sockets", errno);
  io::unique_fd other(ends[1]);
  return std::pair(launcher_line(io::unique_fd(ends[0])), std::move(other));
}

launcher_line launcher_line::to_launcher() {
  if (fcntl(launcher_line_fd, F_SETFD, FD_CLOEXEC) != 0) return {};
  return launcher_line(io::unique_fd(launcher_line_fd));
}

bool launcher_line::send_now(const std::string& bytes) {
  return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == std::ssize(bytes);
}

void launcher_line::flush_locked() {
  while (!kept_.empty() && send_now(kept_.front())) kept_.pop_front();
}

void launcher_line::flush() {
  std::lock_guard lock(mutex_);
  flush_locked();
}

status launcher_line::send(const packet& words) {
  auto bytes = bytes_of(words);
  if (bytes.size() > max_packet_bytes) return packet_too_long(bytes.size(), max_packet_bytes);
  std::lock_guard lock(mutex_);
  flush_locked();
  if (kept_.empty() && send_now(bytes)) return {};
  if ((errno != EAGAIN && errno != EWOULDBLOCK) || kept_.size() == max_packets_kept)
    return error{errc::unavailable, "the launcher does not hear any more"};
  kept_.push_back(std::move(bytes));  // LLN-1
  return {};
}

bool launcher_line::tell(const packet& words) {
  std::lock_guard lock(mutex_);
  flush_locked();
  return kept_.empty() && send_now(bytes_of(words));
}

std::optional<packet> launcher_line::receive() {
  std::string bytes(max_packet_bytes, '\0');
  for (;;) {
    const auto n = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    auto words = words_in(std::string_view(bytes).substr(0, static_cast<size_t>(n)));
    if (!words.empty()) return words;
  }
}

}  // namespace troupe::apps

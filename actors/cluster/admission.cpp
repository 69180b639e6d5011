// Waiting for ClientHellos, in CAF's loop.
#include "actors/cluster/admission.hpp"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <caf/io/network/default_multiplexer.hpp>

#include "actors/cluster/accepting.hpp"
#include "actors/cluster/client_hello.hpp"
#include "actors/cluster/tls_links.hpp"

namespace troupe::cluster {

namespace {

/// The set calls nobody before there are so many bytes: a peer that says one at a time costs one
/// look, not one for each.
void wait_for(int fd, size_t bytes) {
  const int n = static_cast<int>(bytes);
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof n);
}

bool has(int fd, size_t bytes) {
  int n = 0;
  return ioctl(fd, FIONREAD, &n) == 0 && static_cast<size_t>(n) >= bytes;
}

}  // namespace

admission*& admission_here() {
  thread_local admission* here = nullptr;
  return here;
}

admission::admission(caf::io::network::default_multiplexer& loop, stranger_bounds bounds)
    : event_handler(loop, epoll_create1(EPOLL_CLOEXEC)), policy_(bounds) {}

admission::~admission() {
  close_all();
}

void admission::open(admitted_to& whom, bool tls) {
  whom_ = &whom;
  tls_ = tls && fd() >= 0;
}

void admission::close() {
  whom_ = nullptr;
  close_all();
  if (std::exchange(in_loop_, false)) passivate();
}

void admission::close_all() {
  while (!strangers_.empty()) {
    const auto who = strangers_.begin();
    if (who->second.inside) ::close(who->first);
    forget(who);
  }
}

int admission::next(int listening) {
  if (next_ >= 0) return std::exchange(next_, -1);
  if (whom_ == nullptr || !tls_ || !whom_->has_acceptor(listening))
    return accept_within_reserve(listening);
  if (!std::exchange(in_loop_, true)) activate();
  for (int n = 0; n < round_size; ++n) {  // ADM-4
    const int fd = accept_within_reserve(listening);
    if (fd < 0) break;
    enter(fd, listening, true);
  }
  return -1;
}

int64_t admission::enter(int fd, int listening, bool inside) {
  if (const auto it = strangers_.find(fd); it != strangers_.end()) forget(it);  // used again
  const stranger who{++last_number_, listening, inside, !inside, address_of_socket(fd)};
  strangers_[fd] = who;
  by_number_[who.number] = fd;
  if (inside) {
    epoll_event what{};
    what.events = EPOLLIN | EPOLLRDHUP;
    what.data.fd = fd;
    epoll_ctl(this->fd(), EPOLL_CTL_ADD, fd, &what);  // else its time runs out (STR-2)
  }
  if (const auto out = policy_.came(who.number, who.address, whom_->now_ns()))
    turn_away(*out, turned_away::crowded_out);
  whom_->look_soon();
  return who.number;
}

int64_t admission::arrived(int fd) {
  const auto it = strangers_.find(fd);
  if (it == strangers_.end() || it->second.arrived) return enter(fd, -1, false);
  it->second.arrived = true;
  return it->second.number;
}

void admission::settled(int64_t number) {
  if (const auto it = by_number_.find(number); it != by_number_.end())
    forget(strangers_.find(it->second));
}

bool admission::look() {
  if (whom_ == nullptr) return false;
  for (const auto number : policy_.overdue(whom_->now_ns()))
    turn_away(number, turned_away::too_slow);
  return policy_.waiting() > 0;
}

void admission::handle_event(caf::io::network::operation op) {
  if (op != caf::io::network::operation::read) return;
  std::array<epoll_event, round_size> ready;
  const int n = epoll_wait(fd(), ready.data(), round_size, 0);
  for (int i = 0; i < n; ++i)
    judge(ready[static_cast<size_t>(i)].data.fd,
          (ready[static_cast<size_t>(i)].events & ~uint32_t{EPOLLIN}) != 0);
}

/// ADM-1. `ended`: nothing more will come.
void admission::judge(int fd, bool ended) {
  const auto it = strangers_.find(fd);
  if (it == strangers_.end() || !it->second.inside) {
    epoll_ctl(this->fd(), EPOLL_CTL_DEL, fd, nullptr);
    return;
  }
  std::array<char, first_bytes> first;
  const auto n = recv(fd, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return drop(it, turned_away::hung_up);
  const auto seen = look_at_hello({first.data(), static_cast<size_t>(n)});
  if (seen.noise) return drop(it, turned_away::not_tls);
  if (static_cast<size_t>(n) == first_bytes && has(fd, seen.wanted_bytes)) return hand_out(it);
  if (ended) return drop(it, turned_away::hung_up);
  wait_for(fd, seen.wanted_bytes);
}

void admission::hand_out(strangers::iterator who) {
  const int fd = who->first;
  epoll_ctl(this->fd(), EPOLL_CTL_DEL, fd, nullptr);
  wait_for(fd, 1);
  who->second.inside = false;
  policy_.spoke(who->second.number);
  next_ = fd;
  whom_->take_from(who->second.listening);
  const bool refused = std::exchange(next_, -1) >= 0;  // the acceptor was closed meanwhile
  if (refused) ::close(fd);
  const auto it = strangers_.find(fd);
  // CAF makes no link of a handshake that fails at once, and has closed the descriptor.
  if (it != strangers_.end() && !it->second.arrived) forget(it);
}

void admission::turn_away(int64_t number, turned_away why) {
  const auto it = by_number_.find(number);
  if (it == by_number_.end()) return;
  const auto who = strangers_.find(it->second);
  if (who->second.inside) return drop(who, why);
  whom_->give_up(who->first, number, why);
  forget(who);
}

void admission::drop(strangers::iterator who, turned_away why) {
  const int fd = who->first;
  note_turned_away(why, who->second.address, "");
  forget(who);
  ::close(fd);  // the set forgets it by itself
}

void admission::forget(strangers::iterator who) {
  policy_.settled(who->second.number);
  by_number_.erase(who->second.number);
  strangers_.erase(who);
}

}  // namespace troupe::cluster

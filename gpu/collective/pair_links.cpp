// One poll loop for the dials of this rank and for all that comes to its port.
#include "gpu/collective/pair_links.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>

#include <fmt/format.h>

namespace troupe::gpu {

namespace {

using pair_clock = std::chrono::steady_clock;
constexpr size_t answer_bytes = 16 + 32, proof_bytes = 32;
constexpr char taken = 't';
/// New connections between two looks at those that wait: few beside those that may wait, so that a
/// flood of them leaves a rank the time to prove itself.
constexpr int taken_at_once = 8;
constexpr auto pause_before_redial = std::chrono::milliseconds(50);

/// An address: family (4 or 6), the bytes of the address, the port in network order, the key.
struct pair_address {
  sockaddr_storage socket{};
  socklen_t socket_bytes = 0;
  pair_bytes key{};
};

std::optional<pair_address> parse_address(std::string_view text) {
  if (text.empty() || (text[0] != 4 && text[0] != 6)) return std::nullopt;
  const size_t ip = text[0] == 4 ? 4 : 16;
  pair_address out;
  if (text.size() != 1 + ip + 2 + out.key.size()) return std::nullopt;
  const char* port = text.data() + 1 + ip;
  if (ip == 4) {
    auto& to = reinterpret_cast<sockaddr_in&>(out.socket);
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, text.data() + 1, ip);
    std::memcpy(&to.sin_port, port, 2);
    out.socket_bytes = sizeof(to);
  } else {
    auto& to = reinterpret_cast<sockaddr_in6&>(out.socket);
    to.sin6_family = AF_INET6;
    std::memcpy(&to.sin6_addr, text.data() + 1, ip);
    std::memcpy(&to.sin6_port, port, 2);
    out.socket_bytes = sizeof(to);
  }
  std::memcpy(out.key.data(), port + 2, out.key.size());
  return out;
}

/// Family, address and port of a listening socket.
std::string place_of(const io::unique_fd& socket) {
  sockaddr_storage at{};
  socklen_t bytes = sizeof(at);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &bytes) != 0) return {};
  const bool four = at.ss_family == AF_INET;
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at);
  std::string out(1, four ? 4 : 6);
  four ? out.append(reinterpret_cast<const char*>(&v4.sin_addr), 4)
       : out.append(reinterpret_cast<const char*>(&v6.sin6_addr), 16);
  out.append(reinterpret_cast<const char*>(four ? &v4.sin_port : &v6.sin6_port), 2);
  return out;
}

std::string in_words(const pair_address& a) {
  char host[INET6_ADDRSTRLEN] = "", port[8] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&a.socket), a.socket_bytes, host, sizeof(host),
              port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{}:{}", host, port);
}

std::string_view bytes_of(const pair_bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

pair_nonce nonce_at(std::string_view bytes) {
  pair_nonce out;
  std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

/// One connection under way.
struct attempt {
  io::unique_fd fd;
  int peer = -1;  ///< of a dial; of what came: once its hello said so
  bool dialled = false, connecting = false;
  size_t awaited = 0;  ///< bytes of the next part
  std::string in, out;
  pair_ends ends;
  pair_exchange exchange;
  pair_clock::time_point since;
  bool proven = false;  ///< all is said; done once `out` is gone
};

enum class attempt_state : uint8_t { open, done, lost };

/// All attempts of one rank, until it has a socket for each other.
class matchmaker {
 public:
  matchmaker(std::string group, int own, const pair_key& key, const io::unique_fd& listening,
             std::vector<pair_address> peers)
      : group_(std::move(group)),
        own_(own),
        key_(key),
        listening_(listening),
        peers_(std::move(peers)),
        made_(peers_.size()),
        redial_at_(peers_.size()) {}

  result<std::vector<io::unique_fd>> run(std::chrono::milliseconds timeout,
                                         const std::stop_token& ending) {
    const auto end = pair_clock::now() + timeout;
    while (const auto missing = first_missing()) {
      if (ending.stop_requested())
        return error{errc::cancelled, fmt::format("group {} was aborted", group_)};
      if (pair_clock::now() >= end)
        return rank_missing(group_, *missing, in_words(peers_[*missing]));
      TROUPE_CHECK(dial_due());
      TROUPE_CHECK(wait(end));
    }
    return std::move(made_);
  }

 private:
  std::optional<size_t> first_missing() const {
    for (size_t r = 0; r < made_.size(); ++r)
      if (static_cast<int>(r) != own_ && !made_[r]) return r;
    return std::nullopt;
  }

  bool is_dialling(int peer) const {
    return std::any_of(attempts_.begin(), attempts_.end(),
                       [&](const attempt& a) { return a.dialled && a.peer == peer; });
  }

  status dial_due() {
    for (int peer = 0; peer < own_; ++peer) {
      const auto at = static_cast<size_t>(peer);
      if (!made_[at] && !is_dialling(peer) && pair_clock::now() >= redial_at_[at])
        TROUPE_CHECK(dial(peer));
    }
    return {};
  }

  status dial(int peer) {
    const auto& to = peers_[static_cast<size_t>(peer)];
    attempt a;
    a.fd =
        io::unique_fd(::socket(to.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!a.fd) return error::system("open a socket", errno);
    a.peer = peer;
    a.dialled = a.connecting = true;
    a.since = pair_clock::now();
    TROUPE_TRY(ends, ends_of(peer, own_));
    a.ends = std::move(ends);
    TROUPE_TRY(nonce, make_nonce());
    a.exchange.dialer_nonce = nonce;
    a.out = pair_hello{static_cast<uint32_t>(peer), static_cast<uint32_t>(own_), nonce}.text();
    a.awaited = answer_bytes;
    if (::connect(a.fd.get(), reinterpret_cast<const sockaddr*>(&to.socket), to.socket_bytes) !=
            0 &&
        errno != EINPROGRESS)
      return unreachable(peer, errno);
    attempts_.push_back(std::move(a));
    return {};
  }

  result<pair_ends> ends_of(int listener, int dialer) const {
    const int other = listener == own_ ? dialer : listener;
    const auto& theirs = peers_[static_cast<size_t>(other)].key;
    TROUPE_TRY(secret, key_.secret_with(theirs));
    const bool listens = listener == own_;
    return pair_ends{
        group_, listener, dialer, listens ? key_.shown() : theirs, listens ? theirs : key_.shown(),
        secret};
  }

  error unreachable(int peer, int number) const {
    return {errc::unavailable,
            fmt::format("group {}: rank {} at {}: {}", group_, peer,
                        in_words(peers_[static_cast<size_t>(peer)]), std::strerror(number)),
            "a peer has died or the network is down"};
  }

  /// Waits for whatever comes first, and serves it.
  status wait(pair_clock::time_point end) {
    std::vector<pollfd> watched{{listening_.get(), POLLIN, 0}};
    for (const auto& a : attempts_)
      watched.push_back(
          {a.fd.get(), static_cast<short>(POLLIN | (a.connecting || !a.out.empty() ? POLLOUT : 0)),
           0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::min(end, pair_clock::now() + pause_before_redial) - pair_clock::now());
    const int ready = poll(watched.data(), watched.size(),
                           static_cast<int>(std::max<int64_t>(left.count(), 0)) + 1);
    if (ready < 0 && errno != EINTR) return error::system("wait for peers", errno);
    size_t i = 1;
    for (auto it = attempts_.begin(); it != attempts_.end(); ++i) {
      const auto events = ready > 0 ? watched[i].revents : short{0};
      TROUPE_TRY(state, serve(*it, events));
      it = settle(it, state);
    }
    if (ready > 0 && watched[0].revents != 0) take_new();
    return {};
  }

  result<attempt_state> serve(attempt& a, short events) {
    if (!a.dialled && pair_clock::now() - a.since >= pair_listener::stranger_patience)
      return attempt_state::lost;
    if (events == 0) return attempt_state::open;
    if (a.connecting) {
      int failed = 0;
      socklen_t bytes = sizeof(failed);
      getsockopt(a.fd.get(), SOL_SOCKET, SO_ERROR, &failed, &bytes);
      if (failed != 0) return unreachable(a.peer, failed);
      a.connecting = false;
    }
    if (!write_some(a)) return attempt_state::lost;
    while (!a.proven) {
      if (!read_some(a)) return attempt_state::lost;
      if (a.in.size() < a.awaited) break;
      TROUPE_TRY(fine, a.dialled ? answered(a) : asked(a));
      if (!fine || !write_some(a)) return attempt_state::lost;
    }
    return a.proven && a.out.empty() ? attempt_state::done : attempt_state::open;
  }

  static bool write_some(attempt& a) {
    while (!a.out.empty()) {
      const auto n = ::send(a.fd.get(), a.out.data(), a.out.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      a.out.erase(0, static_cast<size_t>(n));
    }
    return true;
  }

  /// Never more than the part that is awaited: what follows is tensors.
  static bool read_some(attempt& a) {
    while (a.in.size() < a.awaited) {
      char part[64];
      const auto n = ::recv(a.fd.get(), part, std::min(sizeof(part), a.awaited - a.in.size()), 0);
      if (n == 0) return false;
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      a.in.append(part, static_cast<size_t>(n));
    }
    return true;
  }

  /// What a dialer got: the answer, then the word that it is taken.
  result<bool> answered(attempt& a) {
    if (a.awaited == 1) {
      a.proven = a.in[0] == taken;
      return a.proven;
    }
    a.exchange.listener_nonce = nonce_at(a.in);
    if (!same_digest(a.in.substr(16), proof_of(pair_side::listener, a.ends, a.exchange)))
      return rank_not_proven(group_, in_words(peers_[static_cast<size_t>(a.peer)]),
                             a.peer);  // PLK-3
    a.out += bytes_of(proof_of(pair_side::dialer, a.ends, a.exchange));
    next_part(a, 1);
    return true;
  }

  /// What came to the port: its hello, then its proof. False: a stranger (PLK-1).
  result<bool> asked(attempt& a) {
    if (a.awaited == pair_hello::size && a.peer < 0) {
      const auto hello = pair_hello::parse(a.in);
      if (!hello || hello->listener != static_cast<uint32_t>(own_) ||
          hello->dialer <= static_cast<uint32_t>(own_) || hello->dialer >= peers_.size())
        return false;
      a.peer = static_cast<int>(hello->dialer);
      TROUPE_TRY(ends, ends_of(own_, a.peer));
      a.ends = std::move(ends);
      a.exchange.dialer_nonce = hello->nonce;
      TROUPE_TRY(nonce, make_nonce());
      a.exchange.listener_nonce = nonce;
      a.out.append(reinterpret_cast<const char*>(nonce.data()), nonce.size());
      a.out += bytes_of(proof_of(pair_side::listener, a.ends, a.exchange));
      next_part(a, proof_bytes);
      return true;
    }
    if (!same_digest(a.in, proof_of(pair_side::dialer, a.ends, a.exchange)) ||
        made_[static_cast<size_t>(a.peer)])
      return false;
    a.out += taken;
    a.proven = true;
    return true;
  }

  static void next_part(attempt& a, size_t bytes) {
    a.in.clear();
    a.awaited = bytes;
  }

  std::list<attempt>::iterator settle(std::list<attempt>::iterator it, attempt_state state) {
    if (state == attempt_state::open) return std::next(it);
    const auto at = static_cast<size_t>(std::max(it->peer, 0));
    if (state == attempt_state::done && !made_[at]) made_[at] = std::move(it->fd);
    if (state == attempt_state::lost && it->dialled)  // PLK-2
      redial_at_[at] = pair_clock::now() + pause_before_redial;
    return attempts_.erase(it);
  }

  void take_new() {
    for (int i = 0; i < taken_at_once; ++i) {
      attempt a;
      a.fd =
          io::unique_fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!a.fd) return;
      a.awaited = pair_hello::size;
      a.since = pair_clock::now();
      drop_oldest_stranger();
      attempts_.push_back(std::move(a));
    }
  }

  /// PLK-1: makes room for one more.
  void drop_oldest_stranger() {
    const auto came = [](const attempt& a) { return !a.dialled; };
    const auto all = std::count_if(attempts_.begin(), attempts_.end(), came);
    if (static_cast<size_t>(all) < pair_listener::most_strangers) return;
    attempts_.erase(std::find_if(attempts_.begin(), attempts_.end(), came));
  }

  std::string group_;
  int own_;
  const pair_key& key_;
  const io::unique_fd& listening_;
  std::vector<pair_address> peers_;
  std::vector<io::unique_fd> made_;  ///< by rank
  std::vector<pair_clock::time_point> redial_at_;
  std::list<attempt> attempts_;  ///< the oldest first
};

}  // namespace

result<pair_listener> pair_listener::open(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (const int failed = getaddrinfo(host.c_str(), "0", &wanted, &found); failed != 0)
    return error{errc::unavailable, fmt::format("{}: {}", host, gai_strerror(failed))};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  pair_listener out;
  out.listening_ =
      io::unique_fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.listening_ || bind(out.listening_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(out.listening_.get(), SOMAXCONN) != 0)
    return error::system(fmt::format("listen on {}", host), errno);
  out.at_ = place_of(out.listening_);
  TROUPE_TRY(key, pair_key::make());
  out.key_ = key;
  return out;
}

std::string pair_listener::address() const {
  return at_ + std::string(bytes_of(key_.shown()));
}

result<std::vector<io::unique_fd>> pair_listener::connect(const std::string& group, int own,
                                                          const std::vector<std::string>& addresses,
                                                          std::chrono::milliseconds timeout,
                                                          const std::stop_token& ending) {
  std::vector<pair_address> peers(addresses.size());
  for (size_t r = 0; r < addresses.size(); ++r) {
    if (static_cast<int>(r) == own) continue;
    const auto a = parse_address(addresses[r]);
    if (!a)
      return error{errc::bad_data, fmt::format("group {}: invalid address from rank {}", group, r)};
    peers[r] = *a;
  }
  auto made = matchmaker(group, own, key_, listening_, std::move(peers)).run(timeout, ending);
  if (!made) return made;
  for (const auto& fd : *made) {
    const int on = 1;
    if (fd) setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  listening_.reset();
  return made;
}

}  // namespace troupe::gpu

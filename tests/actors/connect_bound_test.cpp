// Connecting to a port that does not answer: it ends in time where that was asked for, and is as
// the system has it where it was not.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <csignal>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_links.hpp"
#include "tests/loopback.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// How long a call of connect() may take on a socket, as the kernel has it; 0: for ever.
std::chrono::microseconds connect_time_of(const io::unique_fd& socket) {
  timeval time{};
  socklen_t size = sizeof time;
  REQUIRE(getsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, &size) == 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

/// 0, or the errno of a call that blocks. Without a bound it ends by itself (ETIMEDOUT), after half
/// a minute in place of two.
int blocking_connect(const io::unique_fd& socket, uint16_t port) {
  const int tries = 4;
  REQUIRE(setsockopt(socket.get(), IPPROTO_TCP, TCP_SYNCNT, &tries, sizeof tries) == 0);
  const auto at = loopback_address(port);
  for (;;) {
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

TEST_CASE("LNK-5: connecting to a port that answers nothing ends in the time that it was given") {
  REQUIRE(cluster::tls_errors_are_apart());
  auto listener = loopback_bound();
  REQUIRE(listen(listener.get(), 0) == 0);
  const auto port = port_of(listener);
  cluster::bound_connect(port, 300ms);
  std::vector<io::unique_fd> links;  // nobody accepts them: once there is no place, none answers
  int failure = 0;
  while (failure == 0 && links.size() < 64) {
    links.push_back(loopback_socket());
    failure = blocking_connect(links.back(), port);
  }
  CHECK(links.size() > 1);  // where somebody answers, the bound keeps nobody out
  // Its time is over, long before the system's is (ETIMEDOUT). A call that a signal ended and that
  // was made again says so in another way.
  CHECK((failure == EINPROGRESS || failure == EALREADY));
  CHECK(connect_time_of(links.back()) == 300ms);
}

TEST_CASE("LNK-5: a port without a bound is connected to as ever, and each has its own") {
  const auto listener = loopback_listener(), other = loopback_listener();
  const auto at = loopback_address(port_of(other));
  const auto* to = reinterpret_cast<const sockaddr*>(&at);
  cluster::bound_connect(port_of(listener), 1500ms);
  CHECK(connect_time_of(loopback_connection(listener)) == 1500ms);
  // Where the test before had this port of the kernel's choice, its bound is still there.
  if (!cluster::connect_bound(to)) CHECK(connect_time_of(loopback_connection(other)) == 0ms);
  cluster::bound_connect(port_of(other), 2000ms);
  CHECK(cluster::connect_bound(to) == std::optional(2000ms));
  CHECK(connect_time_of(loopback_connection(listener)) == 1500ms);
  cluster::bound_connect(port_of(listener), 2500ms);  // the last word counts
  CHECK(connect_time_of(loopback_connection(listener)) == 2500ms);
  CHECK(cluster::tls_errors_are_apart());
}

TEST_CASE("LNK-5: what has no port has no bound") {
  CHECK_FALSE(cluster::connect_bound(nullptr));
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  CHECK_FALSE(cluster::connect_bound(reinterpret_cast<const sockaddr*>(&local)));
  cluster::bound_connect(1, 700ms);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(1);
  CHECK(cluster::connect_bound(reinterpret_cast<const sockaddr*>(&six)) == std::optional(700ms));
}

TEST_CASE("TLS-5: a handshake with a peer that takes the connection and says nothing ends") {
  const auto listener = loopback_listener();
  cluster::bound_connect(port_of(listener), 200ms);
  const auto link = loopback_connection(listener);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> session(SSL_new(context.get()), SSL_free);
  REQUIRE(session);
  REQUIRE(SSL_set_fd(session.get(), link.get()) == 1);
  const auto before = signal(SIGPIPE, SIG_IGN);  // as CAF has it
  const int outcome = SSL_connect(session.get());  // without a bound it does not come back
  signal(SIGPIPE, before);
  CHECK(outcome != 1);
  const int why = SSL_get_error(session.get(), outcome);
  CHECK(why != SSL_ERROR_WANT_READ);  // which CAF would take for a handshake that goes on
  CHECK(why != SSL_ERROR_WANT_WRITE);
  CHECK((fcntl(link.get(), F_GETFL) & O_NONBLOCK) == 0);  // as it was
}

// Keeps one peer's TLS failure from breaking another peer's link, and one's silence from holding up
// the links to others (LNK-5).
//
// OpenSSL keeps a queue of errors per thread, and SSL_get_error() takes whatever lies in it for an
// error of the call before. CAF 0.17.6 runs all links in one thread and never clears the queue: a
// refused handshake (garbage, a foreign certificate) leaves an error behind, and the next read that
// merely had to wait ends a healthy link. OpenSSL's manual asks for an empty queue before each
// call; these definitions, which the program exports before libssl's, provide it.
//
// Invariants
//   TLS-1  A handshake, read or write starts with an empty error queue.
//   TLS-2  The outcome of every handshake is noted (tls_links.hpp): who it is, or why not.
//   TLS-3  Where processes prove keys of the job, every link is of that context (tls_keys.hpp), and
//     where they have certificates of the one that holds these: CAF makes one of its own for each
//     link, which is left aside. A link to a port that a proof of its own is for (KEYS-3) takes
//     that one before its handshake.
//   TLS-4  In a network's thread CAF gets one context for all links to leave aside: to make one
//     takes half a millisecond, which whoever says a ClientHello could take of us.
//   TLS-5  A handshake that this process begins waits for a bounded time: CAF 0.17.6 makes it in
//     the thread of all links, in one go (it turns round without end where it cannot), and a peer
//     that takes the connection and says nothing (its process is stopped) would stop each of them.
#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <poll.h>

#include <chrono>
#include <memory>

#include "actors/cluster/admission.hpp"
#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_certificates.hpp"
#include "actors/cluster/tls_keys.hpp"
#include "actors/cluster/tls_links.hpp"

namespace {

/// The library's own function behind ours.
template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// What a handshake waits for next; 0: for nothing.
short awaited_by(SSL* link, int outcome) {
  if (outcome == 1) return 0;
  const int why = SSL_get_error(link, outcome);
  return why == SSL_ERROR_WANT_READ ? POLLIN : why == SSL_ERROR_WANT_WRITE ? POLLOUT : 0;
}

/// TLS-5. Who has not answered by then is hung up on, which CAF takes for a failure.
int shake_in_time(SSL* link, int (*shake)(SSL*)) {
  using clock = std::chrono::steady_clock;
  const int fd = SSL_get_fd(link);
  const int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
  if (flags < 0) return shake(link);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  const auto until = clock::now() + troupe::cluster::handshake_bound(fd);
  int outcome = shake(link);
  while (const short event = awaited_by(link, outcome)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
    pollfd waits{fd, event, 0};
    if (left <= 0 || (poll(&waits, 1, static_cast<int>(left)) == 0)) shutdown(fd, SHUT_RDWR);
    outcome = shake(link);
  }
  fcntl(fd, F_SETFL, flags);
  return outcome;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) SSL_CTX* SSL_CTX_new(const SSL_METHOD* method) {
  static auto* const make = original<SSL_CTX*(const SSL_METHOD*)>("SSL_CTX_new");
  using namespace troupe::cluster;
  const bool aside =
      admission_here() != nullptr && (key_context() != nullptr || certificate_context());
  if (!aside) return make(method);
  thread_local const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> lent(make(method), SSL_CTX_free);
  if (lent) SSL_CTX_up_ref(lent.get());  // CAF frees what it got
  return lent.get();
}

__attribute__((visibility("default"))) SSL* SSL_new(SSL_CTX* context) {
  static auto* const make = original<SSL*(SSL_CTX*)>("SSL_new");
  if (auto* const keys = troupe::cluster::key_context()) return make(keys);  // TLS-3
  const auto own = troupe::cluster::certificate_context();                   // CRT-1
  return make(own ? own.get() : context);
}

__attribute__((visibility("default"))) int SSL_read(SSL* link, void* into, int bytes) {
  static auto* const read = original<int(SSL*, void*, int)>("SSL_read");
  ERR_clear_error();  // TLS-1
  return read(link, into, bytes);
}

__attribute__((visibility("default"))) int SSL_write(SSL* link, const void* from, int bytes) {
  static auto* const write = original<int(SSL*, const void*, int)>("SSL_write");
  ERR_clear_error();  // TLS-1
  return write(link, from, bytes);
}

__attribute__((visibility("default"))) int SSL_accept(SSL* link) {
  static auto* const accept = original<int(SSL*)>("SSL_accept");
  ERR_clear_error();  // TLS-1
  const int outcome = accept(link);
  troupe::cluster::note_handshake(link, outcome, true);  // TLS-2
  return outcome;
}

__attribute__((visibility("default"))) int SSL_connect(SSL* link) {
  static auto* const shake = original<int(SSL*)>("SSL_connect");
  ERR_clear_error();  // TLS-1
  const int outcome =
      troupe::cluster::take_proof_for(link) ? shake_in_time(link, shake) : -1;  // TLS-3
  troupe::cluster::note_handshake(link, outcome, false);  // TLS-2
  return outcome;
}

/// LNK-5.
__attribute__((visibility("default"))) int connect(int fd, const sockaddr* to, socklen_t size) {
  static auto* const plain = original<int(int, const sockaddr*, socklen_t)>("connect");
  if (const auto most = troupe::cluster::connect_bound(to)) {
    const auto ms = most->count();
    const timeval time{ms / 1000, ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);  // what CAF sends is not blocking
  }
  return plain(fd, to, size);
}

}  // extern "C"

namespace troupe::cluster {

bool tls_errors_are_apart() {
  return dlsym(RTLD_DEFAULT, "SSL_new") == reinterpret_cast<void*>(&SSL_new) &&
         dlsym(RTLD_DEFAULT, "SSL_CTX_new") == reinterpret_cast<void*>(&SSL_CTX_new) &&
         dlsym(RTLD_DEFAULT, "SSL_read") == reinterpret_cast<void*>(&SSL_read) &&
         dlsym(RTLD_DEFAULT, "connect") == reinterpret_cast<void*>(&::connect) &&
         dlsym(RTLD_DEFAULT, "SSL_accept") == reinterpret_cast<void*>(&SSL_accept);
}

}  // namespace troupe::cluster

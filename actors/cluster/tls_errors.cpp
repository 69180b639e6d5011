// Keeps one peer's TLS failure from breaking another peer's link.
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
//     link, which is left aside.
//   TLS-4  In a network's thread CAF gets one context for all links to leave aside: to make one
//     takes half a millisecond, which whoever says a ClientHello could take of us.
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

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
  static auto* const connect = original<int(SSL*)>("SSL_connect");
  ERR_clear_error();  // TLS-1
  const int outcome = connect(link);
  troupe::cluster::note_handshake(link, outcome, false);  // TLS-2
  return outcome;
}

}  // extern "C"

namespace troupe::cluster {

bool tls_errors_are_apart() {
  return dlsym(RTLD_DEFAULT, "SSL_new") == reinterpret_cast<void*>(&SSL_new) &&
         dlsym(RTLD_DEFAULT, "SSL_CTX_new") == reinterpret_cast<void*>(&SSL_CTX_new) &&
         dlsym(RTLD_DEFAULT, "SSL_read") == reinterpret_cast<void*>(&SSL_read) &&
         dlsym(RTLD_DEFAULT, "SSL_accept") == reinterpret_cast<void*>(&SSL_accept);
}

}  // namespace troupe::cluster

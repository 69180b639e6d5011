// Keeps one peer's TLS failure from breaking another peer's link.
//
// OpenSSL keeps a queue of errors per thread, and SSL_get_error() takes whatever lies in it for an
// error of the call before. CAF 0.17.6 runs all links in one thread and never clears the queue: a
// refused handshake (garbage, a foreign certificate) leaves an error behind, and the next read that
// merely had to wait ends a healthy link. OpenSSL's manual asks for an empty queue before each
// call; these definitions, which the program exports before libssl's, provide it.
//
// Invariants
//   TLS-1  A read or write starts with an empty error queue.
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "actors/cluster/network.hpp"

namespace {

/// The library's own function behind ours.
template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

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

}  // extern "C"

namespace troupe::cluster {

bool tls_errors_are_apart() {
  return dlsym(RTLD_DEFAULT, "SSL_read") == reinterpret_cast<void*>(&SSL_read);
}

}  // namespace troupe::cluster

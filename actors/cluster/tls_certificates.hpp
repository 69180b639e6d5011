// The certificate, key and authorities of this process: read once, held in memory, renewed when the
// files change.
//
// Why: CAF 0.17.6 reads the three files again for every connection, and ends the process where one
// cannot be read: while somebody renews them, or when descriptors run out. So CAF is told of none,
// and every link of OpenSSL is made of the context here (SSL_new in tls_errors.cpp).
//
// Invariants
//   CRT-1  A link is made of a context that was verified as a whole: certificate, chain, key and
//     authorities fit together. Links that exist keep what they began with.
//   CRT-2  Files that do not fit, or cannot be read, change nothing: the process goes on with what
//     it has, says so once, and looks again.
//   CRT-3  Nothing is read on a thread that serves connections.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include <caf/stateful_actor.hpp>

#include "actors/base/traced.hpp"
#include "io/base/result.hpp"
#include "messages/actors.hpp"

namespace troupe::cluster {

/// The three PEM files.
struct certificate_files {
  std::string ca, certificate, key;
};

/// Reads, verifies and holds. Errors: as tls::read_credentials.
status hold_certificates(const certificate_files& files);

/// The context of new links; nothing where no certificates are held.
std::shared_ptr<SSL_CTX> certificate_context();

struct certificate_store_state {
  static constexpr const char* name = "certificates";
  certificate_files files;
  std::string seen;  ///< which files were looked at last: when and where they were written
  uint64_t renewed = 0;
  int64_t not_after_s = 0;
};

/// Looks at the files every few seconds and takes new ones (CRT-2). May block: it is detached.
using certificate_store_actor = component_actor::extend<caf::reacts_to<caf::tick_atom>>;
using certificate_store_pointer = traced_pointer<certificate_store_actor, certificate_store_state>;
certificate_store_actor::behavior_type certificate_store(certificate_store_pointer self);

}  // namespace troupe::cluster

// The first words of a TLS connection, as OpenSSL says them.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace troupe {

/// A ClientHello of one who proves nothing.
inline std::string client_hello() {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> link(SSL_new(context.get()), SSL_free);
  BIO* const sent = BIO_new(BIO_s_mem());
  SSL_set_bio(link.get(), BIO_new(BIO_s_mem()), sent);  // the link's to free
  SSL_connect(link.get());
  std::string out(static_cast<size_t>(BIO_pending(sent)), '\0');
  REQUIRE(BIO_read(sent, out.data(), static_cast<int>(out.size())) ==
          static_cast<int>(out.size()));
  return out;
}

}  // namespace troupe

// OpenSSL's objects with destructors, and its error queue as our error; only io/tls includes this.
#pragma once

#include <memory>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "io/base/error.hpp"

namespace troupe::tls::detail {

/// Calls OpenSSL's own free function.
template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed_by<X509_free>>;
using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using number_ptr = std::unique_ptr<BIGNUM, freed_by<BN_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using store_ptr = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;
using store_context_ptr = std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>>;
using names_ptr = std::unique_ptr<GENERAL_NAMES, freed_by<GENERAL_NAMES_free>>;

/// "what: OpenSSL's last reason"; empties OpenSSL's queue.
error failed(errc code, std::string_view what);

}  // namespace troupe::tls::detail

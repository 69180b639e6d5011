// OpenSSL's callbacks for external pre-shared keys.
#include "actors/cluster/tls_keys.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "actors/cluster/tls_links.hpp"
#include "io/config/load.hpp"

namespace troupe::cluster {

namespace {

constexpr unsigned char cipher[] = {0x13, 0x01};
constexpr auto cipher_name = "TLS_AES_128_GCM_SHA256";

/// OpenSSL takes a pre-shared key for a resumed session: it takes none where the context has no
/// name, or (the side that connects) where the session has another.
constexpr unsigned char context_name[] = {'j', 'o', 'b'};

/// What a context knows, or a link of the other end.
struct own_proof {
  tls::proof who;
  std::string said;  ///< what is said of it in clear
};

template <class T>
void free_extra(void*, void* it, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<T*>(it);
}

int proof_of_context() {
  static const int index =
      SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_extra<own_proof>);
  return index;
}

int bearer_on_link() {
  static const int index =
      SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, free_extra<tls::bearer>);
  return index;
}

using shared_proof = std::shared_ptr<const own_proof>;

/// KEYS-3.
struct proofs_by_port {
  std::mutex mutex;
  std::map<uint16_t, shared_proof> all;

  shared_proof find(uint16_t port) {
    std::lock_guard lock(mutex);
    const auto it = all.find(port);
    return it != all.end() ? it->second : nullptr;
  }
  /// Unless another has taken its place.
  void forget(uint16_t port, const own_proof* which) {
    std::lock_guard lock(mutex);
    const auto it = all.find(port);
    if (it != all.end() && it->second.get() == which) all.erase(it);
  }
};

proofs_by_port& to_ports() {
  static proofs_by_port known;
  return known;
}

int proof_of_link() {
  static const int index =
      SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, free_extra<shared_proof>);
  return index;
}

/// The link's own; nullptr: it has its context's.
const own_proof* own_of(const SSL* link) {
  const auto* own = static_cast<const shared_proof*>(SSL_get_ex_data(link, proof_of_link()));
  return own != nullptr ? own->get() : nullptr;
}

const own_proof& proof_of(SSL* link) {
  if (const auto* own = own_of(link)) return *own;
  return *static_cast<own_proof*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(link), proof_of_context()));
}

/// A key as OpenSSL wants it; the caller's to free.
SSL_SESSION* session_of(SSL* link, const tls::job_key::bytes_type& key) {
  std::unique_ptr<SSL_SESSION, void (*)(SSL_SESSION*)> session(SSL_SESSION_new(), SSL_SESSION_free);
  const auto* suite = SSL_CIPHER_find(link, cipher);
  if (!session || suite == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key.data(), key.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), suite) != 1 ||
      SSL_SESSION_set1_id_context(session.get(), context_name, sizeof(context_name)) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

/// The side that connects says who it is. 1: go on, with or without a key.
int use_session(SSL* link, const EVP_MD*, const unsigned char** said, size_t* said_bytes,
                SSL_SESSION** session) {
  *session = nullptr;
  try {
    const auto& own = proof_of(link);
    const auto key = own.who.own.of(own.who.self);
    if (!key) return 1;
    *session = session_of(link, *key);
    *said = reinterpret_cast<const unsigned char*>(own.said.data());
    *said_bytes = own.said.size();
    return 1;
  } catch (const std::exception&) {
    return 0;
  }
}

/// The side that was connected to looks for the key of who the other says he is. Without one the
/// handshake fails, as there is no certificate to fall back on (KEYS-1).
int find_session(SSL* link, const unsigned char* said, size_t said_bytes, SSL_SESSION** session) {
  *session = nullptr;
  try {
    auto who = tls::bearer_of({reinterpret_cast<const char*>(said), said_bytes});
    if (!who) return 1;
    const auto key = proof_of(link).who.own.of(*who);
    if (!key) return 1;
    *session = session_of(link, *key);
    delete static_cast<tls::bearer*>(SSL_get_ex_data(link, bearer_on_link()));
    SSL_set_ex_data(link, bearer_on_link(), new tls::bearer(std::move(*who)));
    return 1;
  } catch (const std::exception&) {
    return 0;
  }
}

/// KEYS-3: TLS 1.3 alone, by key alone. Nobody's certificate fits an authority of none.
bool prove_by_key_alone(SSL* link) {
  const std::unique_ptr<X509_STORE, void (*)(X509_STORE*)> none(X509_STORE_new(), X509_STORE_free);
  if (!none || SSL_set1_verify_cert_store(link, none.get()) != 1) return false;
  SSL_set_verify(link, SSL_VERIFY_PEER, nullptr);
  SSL_set_psk_use_session_callback(link, use_session);
  return SSL_set_min_proto_version(link, TLS1_3_VERSION) == 1 &&
         SSL_set_ciphersuites(link, cipher_name) == 1 &&
         SSL_set_session_id_context(link, context_name, sizeof(context_name)) == 1;
}

ssl_context& the_context() {
  static ssl_context context(nullptr, SSL_CTX_free);
  return context;
}

}  // namespace

result<ssl_context> make_key_context(const tls::proof& who) {
  ssl_context made(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!made || SSL_CTX_set_min_proto_version(made.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(made.get(), cipher_name) != 1 ||
      SSL_CTX_set_num_tickets(made.get(), 0) != 1 ||
      SSL_CTX_set_session_id_context(made.get(), context_name, sizeof(context_name)) != 1) {
    ERR_clear_error();
    return error{errc::bug, "OpenSSL makes no context for keys of a job"};
  }
  SSL_CTX_set_session_cache_mode(made.get(), SSL_SESS_CACHE_OFF);  // KEYS-2
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);        // KEYS-1: and there is no CA
  SSL_CTX_set_psk_use_session_callback(made.get(), use_session);
  SSL_CTX_set_psk_find_session_callback(made.get(), find_session);
  SSL_CTX_set_ex_data(made.get(), proof_of_context(), new own_proof{who, tls::to_text(who.self)});
  return made;
}

status prove_by_key(const tls::proof& who) {
  TROUPE_TRY(made, make_key_context(who));
  the_context() = std::move(made);
  return {};
}

kept_proof prove_to(uint16_t port, const tls::proof& who) {
  const auto made = std::make_shared<const own_proof>(own_proof{who, tls::to_text(who.self)});
  auto& known = to_ports();
  {
    std::lock_guard lock(known.mutex);
    known.all.insert_or_assign(port, made);
  }
  return {made.get(), [port, made](const own_proof* it) { to_ports().forget(port, it); }};
}

bool take_proof_for(SSL* link) noexcept {
  try {
    const int fd = SSL_get_fd(link);
    auto own = to_ports().find(port_of_socket(fd));
    if (!own || !config::is_loopback(address_of_socket(fd))) return true;
    if (own_of(link) != nullptr) return true;
    auto kept = std::make_unique<shared_proof>(std::move(own));
    if (!prove_by_key_alone(link) || SSL_set_ex_data(link, proof_of_link(), kept.get()) != 1) {
      ERR_clear_error();
      return false;
    }
    kept.release();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

SSL_CTX* key_context() {
  return the_context().get();
}

std::optional<tls::bearer> bearer_of_link(const SSL* link) {
  const bool to_budget = own_of(link) != nullptr;
  const bool by_key =
      to_budget || SSL_CTX_get_ex_data(SSL_get_SSL_CTX(link), proof_of_context()) != nullptr;
  if (!by_key || SSL_session_reused(link) != 1) return std::nullopt;
  if (to_budget) return tls::bearer{tls::role::power, "the power budget"};
  if (SSL_is_server(link) == 0) return tls::bearer{tls::role::node, "the cluster"};
  const auto* who = static_cast<const tls::bearer*>(SSL_get_ex_data(link, bearer_on_link()));
  return who != nullptr ? std::optional(*who) : std::nullopt;
}

}  // namespace troupe::cluster

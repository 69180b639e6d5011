// Handshakes between those who hold keys of a job and those who do not, in memory.
#include "actors/cluster/tls_keys.hpp"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

using namespace troupe;
using cluster::make_key_context;
using cluster::ssl_context;
using tls::bearer;
using tls::job_key;
using tls::role;

namespace {

struct one_end {
  std::unique_ptr<SSL, void (*)(SSL*)> link{nullptr, SSL_free};
  BIO* in = nullptr;
  BIO* out = nullptr;
  bool done = false;

  one_end(SSL_CTX* context, bool accepts) {
    link.reset(SSL_new(context));
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    SSL_set_bio(link.get(), in, out);
    accepts ? SSL_set_accept_state(link.get()) : SSL_set_connect_state(link.get());
  }

  void go_on() { done = SSL_do_handshake(link.get()) == 1; }
};

/// Two ends, and all that went between them.
struct handshake {
  one_end client, server;
  std::string said;

  handshake(SSL_CTX* knocks, SSL_CTX* opens) : client(knocks, false), server(opens, true) {
    for (int turn = 0; turn < 8; ++turn) {
      client.go_on();
      pass(client, server);
      server.go_on();
      pass(server, client);
    }
  }

  void pass(one_end& from, one_end& to) {
    char bytes[4096];
    for (int n; (n = BIO_read(from.out, bytes, sizeof(bytes))) > 0;) {
      said.append(bytes, static_cast<size_t>(n));
      BIO_write(to.in, bytes, n);
    }
  }

  bool done() const { return client.done && server.done; }
};

ssl_context context_of(const job_key& own, const bearer& self) {
  auto made = make_key_context({own, self});
  REQUIRE(made);
  return std::move(*made);
}

const bearer head{role::node, "coordinator"}, alice{role::operator_, "alice"};

/// Somebody with a certificate of his own making, who took the coordinator's port.
ssl_context impostor() {
  ssl_context out(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  REQUIRE(SSL_CTX_use_certificate(out.get(), certificate) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(out.get(), key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return out;
}

}  // namespace

TEST_CASE("keys: who holds a key comes in by the name that the key is for (KEYS-1)") {
  const auto secret = *job_key::make();
  const auto opens = context_of(secret, head);
  for (const auto& own : {secret, *secret.of(role::operator_), *secret.handed_to(alice)}) {
    const auto knocks = context_of(own, alice);
    const handshake h(knocks.get(), opens.get());
    REQUIRE(h.done());
    CHECK(cluster::bearer_of_link(h.server.link.get()) == alice);
    REQUIRE(cluster::bearer_of_link(h.client.link.get()));
    CHECK(cluster::bearer_of_link(h.client.link.get())->as == role::node);
    const auto key = *secret.of(alice);
    CHECK(h.said.find(std::string(key.begin(), key.end())) == std::string::npos);
  }
  const auto nodes = *secret.of(role::node);
  const auto a = context_of(nodes, {role::node, "a"}), b = context_of(nodes, {role::node, "b"});
  CHECK(handshake(a.get(), b.get()).done());
}

TEST_CASE("keys: who holds none, another job's, or another role's stays outside (KEYS-1)") {
  const auto secret = *job_key::make(), other = *job_key::make();
  const auto opens = context_of(secret, head);
  const ssl_context nothing(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const auto stranger = context_of(other, alice);
  const auto with_certificate = impostor();
  for (SSL_CTX* knocks : {nothing.get(), stranger.get(), with_certificate.get()}) {
    const handshake h(knocks, opens.get());
    CHECK_FALSE(h.server.done);
    CHECK_FALSE(cluster::bearer_of_link(h.server.link.get()));
  }
  // A reader's key, said to be an operator's.
  const auto readers = *secret.of(role::reader);
  const auto climber = context_of(readers, alice);
  CHECK_FALSE(handshake(climber.get(), opens.get()).server.done);
  // A node lets in nodes alone.
  const auto node = context_of(*secret.of(role::node), {role::node, "node0"});
  const auto knocks = context_of(secret, alice);
  CHECK_FALSE(handshake(knocks.get(), node.get()).server.done);
}

TEST_CASE("keys: who took the port of a dead coordinator learns nothing (KEYS-1)") {
  const auto secret = *job_key::make(), other = *job_key::make();
  const auto knocks = context_of(secret, alice);
  const auto false_head = context_of(other, head);
  const auto with_certificate = impostor();
  for (SSL_CTX* opens : {false_head.get(), with_certificate.get()}) {
    const handshake h(knocks.get(), opens);
    CHECK_FALSE(h.client.done);
    const auto key = *secret.of(alice);
    CHECK(h.said.find(std::string(key.begin(), key.end())) == std::string::npos);
  }
}

// Handshakes between those who hold keys of a job and those who do not, in memory; and over sockets
// where one port has a proof of its own.
#include "actors/cluster/tls_keys.hpp"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_links.hpp"
#include "tests/io/scratch.hpp"
#include "tests/loopback.hpp"

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

/// Two ends with a connection of this machine between them, both seen by the program's hooks.
struct connected_ends {
  io::unique_fd near, far;
  std::unique_ptr<SSL, void (*)(SSL*)> client{nullptr, SSL_free}, server{nullptr, SSL_free};
  bool connects = false, accepts = false;

  connected_ends(const io::unique_fd& listener, SSL_CTX* knocks, SSL_CTX* opens)
      : near(loopback_connection(listener)),
        far(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)) {
    REQUIRE(far);
    client.reset(SSL_new(knocks));
    server.reset(SSL_new(opens));
    REQUIRE(SSL_set_fd(client.get(), near.get()) == 1);
    REQUIRE(SSL_set_fd(server.get(), far.get()) == 1);
    const auto before = signal(SIGPIPE, SIG_IGN);  // as CAF has it
    std::thread other([this] {
      accepts = SSL_accept(server.get()) == 1;
      if (!accepts) shutdown(far.get(), SHUT_RDWR);
    });
    connects = SSL_connect(client.get()) == 1;
    if (!connects) shutdown(near.get(), SHUT_RDWR);
    other.join();
    signal(SIGPIPE, before);
  }

  ~connected_ends() {
    for (const int fd : {near.get(), far.get()}) cluster::forget_socket(fd);
  }

  bool done() const { return connects && accepts; }
  std::optional<bearer> of_client() const { return cluster::bearer_of_link(server.get()); }
  std::optional<bearer> of_server() const { return cluster::bearer_of_link(client.get()); }
};

/// A node, or somebody else, with a certificate, who takes those of the same authority.
ssl_context with_certificate(const scratch& pki, const std::string& whose = "node0") {
  ssl_context out(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const auto file = [&](const std::string& name) { return (pki / name).string(); };
  const auto chain = file(whose + ".pem"), key = file(whose + ".key");
  REQUIRE(SSL_CTX_use_certificate_chain_file(out.get(), chain.c_str()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey_file(out.get(), key.c_str(), SSL_FILETYPE_PEM) == 1);
  REQUIRE(SSL_CTX_load_verify_locations(out.get(), file("ca.pem").c_str(), nullptr) == 1);
  SSL_CTX_set_verify(out.get(), SSL_VERIFY_PEER, nullptr);
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

TEST_CASE("keys: a power budget is shown a key for it, all others what proves them (KEYS-3)") {
  REQUIRE(cluster::tls_errors_are_apart());
  const scratch pki;
  REQUIRE(tls::make(pki.path.string(), {{"node0", {}}}));
  const auto secret = *job_key::make(), budget = *job_key::make();
  const bearer job{role::power, "gpt-a"}, budget_itself{role::node, "budget"};
  const auto to_it = context_of(budget, budget_itself), to_head = context_of(secret, head);
  const auto by_key = context_of(secret, head), by_certificate = with_certificate(pki);
  const auto of_it = loopback_listener(), of_head = loopback_listener();
  auto proof = cluster::prove_to(port_of(of_it), {*budget.handed_to(job), job});
  const ssl_context plain(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  for (SSL_CTX* own : {by_key.get(), by_certificate.get(), plain.get()}) {
    const connected_ends h(of_it, own, to_it.get());
    REQUIRE(h.done());
    CHECK(h.of_client() == job);
    CHECK(h.of_server() == bearer{role::power, "the power budget"});
    CHECK(SSL_get_version(h.client.get()) == std::string("TLSv1.3"));
    // Who it is stays what the key says, whoever runs the process (LNK-3).
    const auto came = cluster::holder_of_socket(h.far.get());
    REQUIRE(came);
    CHECK((came->as == role::power && came->name == "gpt-a"));
    const auto answers = cluster::holder_of_socket(h.near.get());
    REQUIRE(answers);
    CHECK((answers->as == role::power && answers->name == "the power budget"));
  }
  const connected_ends among_nodes(of_head, by_key.get(), to_head.get());
  REQUIRE(among_nodes.done());
  CHECK(among_nodes.of_server()->as == role::node);
  CHECK(among_nodes.of_client() == head);
  CHECK_FALSE(connected_ends(of_head, by_key.get(), to_it.get()).done());
  CHECK(connected_ends(of_head, by_certificate.get(), by_certificate.get()).done());

  const bearer other{role::power, "gpt-b"};  // the last word for a port counts
  auto last = cluster::prove_to(port_of(of_it), {*budget.handed_to(other), other});
  CHECK(connected_ends(of_it, by_key.get(), to_it.get()).of_client() == other);
  proof.reset();
  CHECK(connected_ends(of_it, by_key.get(), to_it.get()).of_client() == other);
  last.reset();  // the port may be a node's now
  CHECK_FALSE(connected_ends(of_it, by_key.get(), to_it.get()).done());
  CHECK(connected_ends(of_it, by_key.get(), to_head.get()).done());
}

TEST_CASE("keys: who took the port of a power budget is no budget, whoever he is (KEYS-3)") {
  const scratch pki;
  REQUIRE(tls::make(pki.path.string(), {{"node0", {}}}));
  const auto secret = *job_key::make(), budget = *job_key::make();
  const bearer job{role::power, "gpt-a"};
  const auto listener = loopback_listener();
  const auto proof = cluster::prove_to(port_of(listener), {*budget.handed_to(job), job});
  const auto by_key = context_of(secret, head), by_certificate = with_certificate(pki);
  const auto other_budget = context_of(*job_key::make(), {role::node, "budget"});
  const auto stranger = impostor();
  const ssl_context plain(SSL_CTX_new(TLS_method()), SSL_CTX_free);  // it would believe anybody
  for (SSL_CTX* own : {by_key.get(), by_certificate.get(), plain.get()})
    for (SSL_CTX* opens :
         {by_key.get(), by_certificate.get(), other_budget.get(), stranger.get()}) {
      const connected_ends h(listener, own, opens);
      CHECK_FALSE(h.connects);
      CHECK_FALSE(h.of_server());
      CHECK_FALSE(cluster::holder_of_socket(h.near.get()));
    }
}

TEST_CASE("LNK-6: to a power budget a node's certificate is a job's, and persons stay persons") {
  const scratch pki;
  REQUIRE(tls::make(pki.path.string(), {{"gpt-a", {}},
                                        {"rack0", {}, role::power},
                                        {"alice", {}, role::operator_},
                                        {"row0", {"127.0.0.1"}, role::power}}));
  const auto opens = with_certificate(pki, "row0");
  const auto listener = loopback_listener();
  const auto comes_as = [&](const std::string& whose) {
    const auto knocks = with_certificate(pki, whose);
    const connected_ends h(listener, knocks.get(), opens.get());
    REQUIRE(h.done());
    const auto row = cluster::holder_of_socket(h.near.get());
    REQUIRE(row);
    CHECK((row->as == role::power && row->name == "row0"));  // whatever nodes are taken for
    const auto came = cluster::holder_of_socket(h.far.get());
    REQUIRE(came);
    CHECK(came->name == whose);
    return came->as;
  };
  CHECK(comes_as("gpt-a") == role::node);
  cluster::take_nodes_as(role::power);
  CHECK(comes_as("gpt-a") == role::power);
  CHECK(comes_as("rack0") == role::power);
  CHECK(comes_as("alice") == role::operator_);
  cluster::take_nodes_as(role::node);
  CHECK(comes_as("gpt-a") == role::node);
}

TEST_CASE("LNK-6: a node where a power budget looks for the one above it holds no link") {
  const scratch pki;
  REQUIRE(tls::make(pki.path.string(), {{"gpt-a", {"127.0.0.1"}},
                                        {"rack0", {}, role::power},
                                        {"row0", {"127.0.0.1"}, role::power}}));
  const auto connects = with_certificate(pki, "rack0");
  const auto listener = loopback_listener();
  const auto answers_as = [&](const std::string& whose) -> std::optional<role> {
    const auto opens = with_certificate(pki, whose);
    const connected_ends h(listener, connects.get(), opens.get());
    const auto there = cluster::holder_of_socket(h.near.get());
    if (there) return there->as;
    return std::nullopt;
  };
  CHECK(answers_as("gpt-a") == role::node);
  cluster::take_nodes_as(role::power);
  CHECK(answers_as("gpt-a") == std::nullopt);
  const auto why = cluster::why_not(port_of(listener));
  REQUIRE(why);
  CHECK(why->find("gpt-a") != std::string::npos);
  CHECK(answers_as("row0") == role::power);
  CHECK_FALSE(cluster::why_not(port_of(listener)));
  cluster::take_budgets_as(role::node);  // as a person's tool
  CHECK(answers_as("row0") == role::node);
  cluster::take_budgets_as(role::power);
  cluster::take_nodes_as(role::node);
}

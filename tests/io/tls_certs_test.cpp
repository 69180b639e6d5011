// Certificates: the chain verifies (ours and by OpenSSL's own handshake), keys stay private,
// nothing is overwritten.
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>

#include <doctest/doctest.h>

#include "io/tls/certs.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

struct certs_folder {
  fs::path path;
  certs_folder() {
    std::string name = (fs::temp_directory_path() / "troupe-tls-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~certs_folder() { fs::remove_all(path); }
  certs_folder(const certs_folder&) = delete;
  std::string sub(const std::string& name) const { return (path / name).string(); }
};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 0777;
}

using context_ptr = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using ssl_ptr = std::unique_ptr<SSL, decltype(&SSL_free)>;

context_ptr context_of(const tls::files& own, const std::string& ca) {
  context_ptr context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  REQUIRE(SSL_CTX_use_certificate_chain_file(context.get(), own.certificate.c_str()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey_file(context.get(), own.key.c_str(), SSL_FILETYPE_PEM) == 1);
  REQUIRE(SSL_CTX_load_verify_file(context.get(), ca.c_str()) == 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

/// A mutual TLS handshake in memory, client checking the server's host name; true if both finish.
bool handshake(SSL_CTX* server_context, SSL_CTX* client_context, const char* host) {
  ssl_ptr server(SSL_new(server_context), SSL_free), client(SSL_new(client_context), SSL_free);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  SSL_set1_host(client.get(), host);
  BIO *a = nullptr, *b = nullptr;
  REQUIRE(BIO_new_bio_pair(&a, 1 << 16, &b, 1 << 16) == 1);
  SSL_set_bio(server.get(), a, a);
  SSL_set_bio(client.get(), b, b);
  for (int i = 0; i < 20; i++) {
    for (SSL* side : {client.get(), server.get()}) {
      int done = SSL_do_handshake(side);
      int why = SSL_get_error(side, done);
      if (done != 1 && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return false;
    }
    if (SSL_is_init_finished(client.get()) && SSL_is_init_finished(server.get())) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("certs: a CA and certificates that verify, with name, role and addresses") {
  certs_folder here;
  auto dir = here.sub("pki");
  auto made = tls::make(dir, {{"node0", {"10.0.0.1", "fe80::1", "gpu0.example.org"}},
                              {"alice", {}, tls::role::operator_},
                              {"grafana", {}, tls::role::reader}});
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  CHECK(made->new_ca);
  CHECK(mode_of(dir) == 0700);
  const auto& f = made->certificates;
  auto node = tls::verify(made->ca.certificate, f[0].certificate, f[0].key);
  REQUIRE_MESSAGE(node, (node ? "" : render(node.error())));
  CHECK(node->name == "node0");
  CHECK(node->as == tls::role::node);
  CHECK(node->hosts ==
        std::vector<std::string>{"node0", "10.0.0.1", "fe80::1", "gpu0.example.org"});
  auto days = (node->not_after_s - std::time(nullptr)) / 86400;
  CHECK(days >= 365);
  CHECK(days <= tls::certificate_days);
  CHECK(tls::verify(made->ca.certificate, f[1].certificate, "")->as == tls::role::operator_);
  CHECK(tls::verify(made->ca.certificate, f[2].certificate, "")->as == tls::role::reader);
  CHECK(node->serial != tls::verify(made->ca.certificate, f[1].certificate, "")->serial);
  CHECK(node->serial.size() >= 24);
}

TEST_CASE("certs: a power budget has a certificate of its own role, which is no node's (TC-5)") {
  certs_folder here;
  const auto made =
      tls::make(here.sub("pki"), {{"row0", {"10.0.0.1"}, tls::role::power}, {"gpt-a", {}}});
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  const auto& f = made->certificates;
  const auto row = tls::verify(made->ca.certificate, f[0].certificate, f[0].key);
  REQUIRE_MESSAGE(row, (row ? "" : render(row.error())));
  CHECK(row->name == "row0");
  CHECK(row->as == tls::role::power);
  CHECK(tls::verify(made->ca.certificate, f[1].certificate, "")->as == tls::role::node);
  const auto held = tls::read_credentials(made->ca.certificate, f[0].certificate, f[0].key);
  REQUIRE(held);
  CHECK(tls::holder_of(held->certificate.get()).as == tls::role::power);
}

TEST_CASE("certs: keys are private from birth, whatever the umask (TC-2)") {
  certs_folder here;
  auto before = umask(0);
  auto made = tls::make(here.sub("pki"), {{"n", {}}});
  umask(before);
  REQUIRE(made);
  CHECK(mode_of(made->ca.key) == 0600);
  CHECK(mode_of(made->certificates[0].key) == 0600);
  CHECK(mode_of(made->certificates[0].certificate) == 0644);
}

TEST_CASE("certs: nothing is overwritten, and a later node joins the same CA (TC-1)") {
  certs_folder here;
  auto dir = here.sub("pki");
  auto first = tls::make(dir, {{"a", {}}});
  REQUIRE(first);
  auto ca = bytes_of(first->ca.certificate), key = bytes_of(first->certificates[0].key);
  auto again = tls::make(dir, {{"b", {}}, {"a", {}}});
  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::permission);
  CHECK_FALSE(fs::exists(dir + "/b.pem"));  // all or nothing
  CHECK(bytes_of(first->certificates[0].key) == key);
  auto more = tls::make(dir, {{"b", {}}});
  REQUIRE(more);
  CHECK_FALSE(more->new_ca);
  CHECK(bytes_of(more->ca.certificate) == ca);
  CHECK(tls::verify(first->ca.certificate, more->certificates[0].certificate, ""));
}

TEST_CASE("certs: a stranger's certificate, a wrong key, a broken or open file are refused") {
  certs_folder here;
  auto ours = tls::make(here.sub("ours"), {{"a", {}}, {"b", {}}});
  auto theirs = tls::make(here.sub("theirs"), {{"a", {}}});
  REQUIRE(ours);
  REQUIRE(theirs);
  auto [a, b] = std::pair(ours->certificates[0], ours->certificates[1]);
  CHECK(tls::verify(ours->ca.certificate, theirs->certificates[0].certificate, "").error().code ==
        errc::bad_data);
  CHECK_FALSE(tls::verify(ours->ca.certificate, a.certificate, b.key));
  CHECK(tls::verify(ours->ca.certificate, here.sub("none.pem"), "").error().code ==
        errc::not_found);
  CHECK_FALSE(tls::verify(ours->ca.certificate, a.key, ""));
  fs::permissions(a.key, fs::perms(0644));
  CHECK(tls::verify(ours->ca.certificate, a.certificate, a.key).error().code == errc::permission);
  auto text = bytes_of(a.certificate);
  for (size_t cut = 0; cut < text.size(); cut += 97) {
    std::ofstream(here.sub("cut.pem")) << text.substr(0, cut);
    CHECK_FALSE(tls::verify(ours->ca.certificate, here.sub("cut.pem"), ""));
  }
  fs::remove(ours->ca.key);
  CHECK_FALSE(tls::make(here.sub("ours"), {{"c", {}}}));  // half a CA signs nothing
}

TEST_CASE("certs: names that could leave the folder or break the certificate are refused") {
  certs_folder here;
  for (const char* name : {"", "..", "../x", "a/b", "a b", "-n", "ca", "a,DNS:evil", "a\nb"}) {
    CAPTURE(std::string(name));
    auto made = tls::make(here.sub("pki"), {{name, {}}});
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::usage);
  }
  CHECK_FALSE(tls::make(here.sub("pki"), {{"a", {}}, {"a", {}}}));
  CHECK_FALSE(tls::make(here.sub("pki"), {{"a", {"x,IP:1.2.3.4"}}}));
}

TEST_CASE("certs: OpenSSL shakes hands with them both ways, and with no others") {
  certs_folder here;
  auto ours = tls::make(here.sub("ours"), {{"coordinator", {"localhost"}}, {"node0", {}}});
  auto theirs = tls::make(here.sub("theirs"), {{"node0", {}}});
  REQUIRE(ours);
  REQUIRE(theirs);
  auto server = context_of(ours->certificates[0], ours->ca.certificate);
  auto client = context_of(ours->certificates[1], ours->ca.certificate);
  auto stranger = context_of(theirs->certificates[0], ours->ca.certificate);
  CHECK(handshake(server.get(), client.get(), "localhost"));
  CHECK(handshake(client.get(), server.get(), "node0"));
  CHECK_FALSE(handshake(server.get(), client.get(), "elsewhere"));
  CHECK_FALSE(handshake(server.get(), stranger.get(), "localhost"));
}

TEST_CASE("certificates are held in memory: what becomes of the files changes nothing of them") {
  certs_folder folder;
  const auto made = tls::make(folder.sub("pki"), {{"node0", {"10.0.0.1"}}});
  REQUIRE(made);
  const auto& own = made->certificates[0];
  const auto held = tls::read_credentials(made->ca.certificate, own.certificate, own.key);
  REQUIRE(held);
  fs::remove_all(folder.sub("pki"));
  CHECK(held->who.name == "node0");
  CHECK(held->authorities.size() == 1);
  CHECK(held->chain.empty());
  CHECK(X509_check_private_key(held->certificate.get(), held->key.get()) == 1);
}

TEST_CASE("certificates are read whole: what follows the first is its chain, noise is refused") {
  certs_folder folder;
  const auto made = tls::make(folder.sub("pki"), {{"node0", {}}});
  REQUIRE(made);
  const auto& own = made->certificates[0];
  const auto both = bytes_of(own.certificate) + bytes_of(made->ca.certificate);
  std::ofstream(folder.sub("chain.pem")) << both;
  const auto held = tls::read_credentials(made->ca.certificate, folder.sub("chain.pem"), own.key);
  REQUIRE(held);
  CHECK(held->chain.size() == 1);
  for (const auto& bytes : {std::string(), std::string("noise"), both.substr(0, both.size() / 2)}) {
    std::ofstream(folder.sub("bad.pem")) << bytes;
    CHECK_FALSE(tls::read_credentials(made->ca.certificate, folder.sub("bad.pem"), own.key));
  }
}

TEST_CASE("a certificate is for the names and addresses that it bears, and no others") {
  tls::identity who;
  who.hosts = {"node0", "Gpu7.Example.org", "10.0.0.1", "::1"};
  for (const char* host : {"node0", "NODE0", "gpu7.example.ORG", "10.0.0.1", "::1"})
    CHECK(tls::is_for_host(who, host));
  for (const char* host : {"", "node", "node00", "example.org", "10.0.0.11", "x.node0"})
    CHECK_FALSE(tls::is_for_host(who, host));
}

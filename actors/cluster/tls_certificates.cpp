// A context of OpenSSL from what is in memory, and the actor that looks whether it is still so.
#include "actors/cluster/tls_certificates.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <mutex>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "io/tls/certs.hpp"

namespace troupe::cluster {

namespace {

struct held_certificates {
  std::mutex mutex;
  std::shared_ptr<SSL_CTX> context;
  certificate_files files;
  std::string signature;  ///< of the files, taken before they were read
  int64_t not_after_s = 0;
};

held_certificates& held_now() {
  static held_certificates all;
  return all;
}

/// A context for links of mutual TLS with these, as CAF would set it up.
result<std::shared_ptr<SSL_CTX>> links_of(const tls::credentials& c) {
  std::shared_ptr<SSL_CTX> out(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  auto* x = out.get();
  bool fine = x != nullptr && SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION) == 1 &&
              SSL_CTX_set_cipher_list(x, "HIGH:!aNULL:!MD5") == 1 &&
              SSL_CTX_use_certificate(x, c.certificate.get()) == 1 &&
              SSL_CTX_use_PrivateKey(x, c.key.get()) == 1;
  for (const auto& between : c.chain) fine = fine && SSL_CTX_add1_chain_cert(x, between.get()) == 1;
  for (const auto& a : c.authorities)
    fine = fine && X509_STORE_add_cert(SSL_CTX_get_cert_store(x), a.get()) == 1;
  if (!fine) {
    ERR_clear_error();
    return error{errc::bad_data, "OpenSSL does not take the certificate " + c.who.name};
  }
  // Nothing is resumed: every link shows its certificate.
  SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(x, 0);
  SSL_CTX_set_verify(x, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return out;
}

/// When and where the files were written; a file that is not there is said so.
std::string signature_of(const certificate_files& files) {
  std::string out;
  for (const auto& path : {files.ca, files.certificate, files.key}) {
    struct stat s {};
    if (stat(path.c_str(), &s) == 0)
      out += fmt::format("{}:{}:{}:{}.{};", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec,
                         s.st_mtim.tv_nsec);
    else
      out += "none;";
  }
  return out;
}

void show(certificate_store_pointer self, const char* state) {
  publish(self, state, [&](fbs::CertificatesStatusT& s) {
    s.not_after_s = self->state.not_after_s;
    s.renewed = self->state.renewed;
  });
}

void look_at_files(certificate_store_pointer self) {
  auto& st = self->state;
  auto now = signature_of(st.files);
  if (now != st.seen) {
    st.seen = std::move(now);
    if (const auto taken = hold_certificates(st.files); taken) {
      ++st.renewed;
      st.not_after_s = held_now().not_after_s;
      spdlog::info("the certificate {} is renewed", st.files.certificate);
      show(self, "held");
    } else {
      spdlog::warn("the certificate {} is not renewed, the old one stays: {}", st.files.certificate,
                   taken.error().message);
      show(self, "not renewed");
    }
  }
  self->delayed_send(self, defaults::certificate_period, caf::tick_atom_v);
}

}  // namespace

status hold_certificates(const certificate_files& files) {
  auto signature = signature_of(files);  // before: what is written meanwhile is seen at a look
  TROUPE_TRY(all, tls::read_credentials(files.ca, files.certificate, files.key));
  TROUPE_TRY(context, links_of(all));
  auto& h = held_now();
  std::lock_guard lock(h.mutex);
  h.context = std::move(context);
  h.files = files;
  h.signature = std::move(signature);
  h.not_after_s = all.who.not_after_s;
  return {};
}

std::shared_ptr<SSL_CTX> certificate_context() {
  auto& h = held_now();
  std::lock_guard lock(h.mutex);
  return h.context;
}

certificate_store_actor::behavior_type certificate_store(certificate_store_pointer self) {
  guard_mailbox(self);
  introduce(self, "certificates");
  auto& st = self->state;
  {
    std::lock_guard lock(held_now().mutex);
    st.files = held_now().files;
    st.seen = held_now().signature;
    st.not_after_s = held_now().not_after_s;
  }
  show(self, "held");
  self->delayed_send(self, defaults::certificate_period, caf::tick_atom_v);
  return {
      status_handler(self),
      [self](caf::tick_atom) { look_at_files(self); },
  };
}

}  // namespace troupe::cluster

// Makes and verifies certificates with libcrypto; see certs.hpp for what is promised.
#include "io/tls/certs.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <ctime>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "io/tls/openssl.hpp"

namespace troupe::tls {

namespace detail {

error failed(errc code, std::string_view what) {
  char reason[256] = "no reason given";
  if (auto number = ERR_peek_last_error()) ERR_error_string_n(number, reason, sizeof reason);
  ERR_clear_error();
  return {code, fmt::format("{}: {}", what, reason)};
}

}  // namespace detail

namespace {

using namespace detail;

constexpr std::string_view role_names[] = {"node", "operator", "reader", "power"};
constexpr long clock_skew_s = 3600;  // hosts whose clocks are a little behind accept it at once
constexpr long day_s = 24 * 3600;
constexpr int max_pem_bytes = 1 << 20;

/// A key with its certificate.
struct pair {
  key_ptr key;
  certificate_ptr certificate;
};

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

status check_requests(const std::vector<request>& requests) {
  std::set<std::string> names{"ca"};
  for (const auto& r : requests) {
    if (!is_name(r.name))
      return error{
          errc::usage, fmt::format("\"{}\" cannot name a certificate", r.name),
          "use at most 64 letters, digits, '.', '_', '-', starting with a letter or digit"};
    if (!names.insert(r.name).second)
      return error{errc::usage, fmt::format("there can be only one certificate \"{}\"", r.name)};
    for (const auto& host : r.hosts)
      if (!is_name(host) && !is_address(host))
        return error{errc::usage,
                     fmt::format("\"{}\" is neither a host name nor an address", host)};
  }
  return {};
}

bool add_name(X509_NAME* subject, const char* field, std::string_view text) {
  return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& text) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  extension_ptr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, text.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_random_serial(X509* certificate) {  // TC-4
  number_ptr number(BN_new());
  return number && BN_rand(number.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

/// A certificate for a fresh key with all but its extensions and signature.
result<pair> begin(std::string_view name, std::string_view unit, int days) {
  pair p{key_ptr(EVP_EC_gen("P-256")), certificate_ptr(X509_new())};
  if (!p.key || !p.certificate) return failed(errc::bug, "make a key");
  auto* x = p.certificate.get();
  auto* subject = X509_get_subject_name(x);
  bool fine = X509_set_version(x, X509_VERSION_3) == 1 && set_random_serial(x) &&
              X509_gmtime_adj(X509_getm_notBefore(x), -clock_skew_s) != nullptr &&
              X509_gmtime_adj(X509_getm_notAfter(x), days * day_s) != nullptr &&
              X509_set_pubkey(x, p.key.get()) == 1 && add_name(subject, "O", "troupe") &&
              add_name(subject, "OU", unit) && add_name(subject, "CN", name);
  if (!fine) return failed(errc::bug, "fill a certificate");
  return p;
}

result<pair> make_ca() {
  TROUPE_TRY(p, begin("troupe cluster authority", "authority", ca_days));
  auto* x = p.certificate.get();
  bool fine = X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
              add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(x, x, NID_subject_key_identifier, "hash") &&
              X509_sign(x, p.key.get(), EVP_sha256()) > 0;
  if (!fine) return failed(errc::bug, "sign the authority");
  return p;
}

std::string alternative_names(const request& r) {
  auto text = "DNS:" + r.name;
  for (const auto& host : r.hosts)
    if (host != r.name) text += (is_address(host) ? ",IP:" : ",DNS:") + host;
  return text;
}

result<pair> make_certificate(const request& r, const pair& ca) {
  TROUPE_TRY(p, begin(r.name, to_string(r.as), certificate_days));
  auto* x = p.certificate.get();
  auto* issuer = ca.certificate.get();
  // Every process both listens and connects, so a certificate serves both purposes.
  bool fine = X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
              add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
              add_extension(x, issuer, NID_key_usage, "critical,digitalSignature") &&
              add_extension(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
              add_extension(x, issuer, NID_subject_key_identifier, "hash") &&
              add_extension(x, issuer, NID_authority_key_identifier, "keyid:always") &&
              add_extension(x, issuer, NID_subject_alt_name, alternative_names(r)) &&
              X509_sign(x, ca.key.get(), EVP_sha256()) > 0;
  if (!fine) return failed(errc::bug, fmt::format("sign the certificate of {}", r.name));
  return p;
}

/// Writes bytes to a file that must not exist yet (TC-1), with the mode from the start (TC-2).
status write_new(const std::string& path, std::string_view bytes, mode_t mode) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return error::system("create " + path, errno);
  while (!bytes.empty()) {
    auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      auto e = error::system("write " + path, errno);
      ::close(fd);
      return e;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(fd) != 0 || ::fchmod(fd, mode) != 0) {  // fchmod: the umask may have narrowed 0644
    auto e = error::system("write " + path, errno);
    ::close(fd);
    return e;
  }
  if (::close(fd) != 0) return error::system("close " + path, errno);
  return {};
}

status write_pair(const files& to, const pair& p) {
  bio_ptr certificate(BIO_new(BIO_s_mem())), key(BIO_new(BIO_s_secmem()));
  if (!certificate || !key || PEM_write_bio_X509(certificate.get(), p.certificate.get()) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key.get(), p.key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1)
    return failed(errc::bug, "encode " + to.certificate);
  auto text = [](BIO* bio) {
    char* data = nullptr;
    auto size = BIO_get_mem_data(bio, &data);
    return std::string_view(data, static_cast<size_t>(std::max<long>(size, 0)));
  };
  TROUPE_CHECK(write_new(to.key, text(key.get()), 0600));
  return write_new(to.certificate, text(certificate.get()), 0644);
}

result<bio_ptr> open_pem(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return error::system("open " + path, errno);
  if (!S_ISREG(facts.st_mode) || facts.st_size > max_pem_bytes)
    return error{errc::bad_data, path + " is not a PEM file"};
  bio_ptr bio(BIO_new_file(path.c_str(), "rb"));
  if (!bio) return failed(errc::io, "open " + path);
  return bio;
}

result<certificate_ptr> read_certificate(const std::string& path) {
  TROUPE_TRY(bio, open_pem(path));
  certificate_ptr x(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!x) return failed(errc::bad_data, path + " holds no certificate");
  return x;
}

result<key_ptr> read_key(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0)
    return error{errc::permission, path + " is open to others",
                 fmt::format("chmod 600 {}; if others could read it, make new certificates", path)};
  TROUPE_TRY(bio, open_pem(path));
  auto no_password = [](char*, int, int, void*) { return -1; };
  key_ptr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (!key) return failed(errc::bad_data, path + " holds no private key without a password");
  return key;
}

bool exists(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

files files_of(const std::string& directory, const std::string& name) {
  return {directory + "/" + name + ".pem", directory + "/" + name + ".key"};
}

/// The CA of a folder: read if it is there, made if it is not, refused if half of it is.
result<pair> authority(const files& at, bool& is_new) {
  is_new = !exists(at.certificate) && !exists(at.key);
  if (is_new) return make_ca();
  for (const auto& path : {at.certificate, at.key})
    if (!exists(path))
      return error{errc::not_found,
                   fmt::format("{} is missing beside the other half of the CA", path),
                   "restore it, or use an empty folder"};
  TROUPE_TRY(certificate, read_certificate(at.certificate));
  TROUPE_TRY(key, read_key(at.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return failed(errc::bad_data, fmt::format("{} is not the key of {}", at.key, at.certificate));
  return pair{std::move(key), std::move(certificate)};
}

std::string subject_text(X509* x, int nid) {
  char text[256] = "";
  auto n = X509_NAME_get_text_by_NID(X509_get_subject_name(x), nid, text, sizeof text);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
}

std::vector<std::string> hosts_of(X509* x) {
  std::vector<std::string> hosts;
  names_ptr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); i++) {
    const auto* name = sk_GENERAL_NAME_value(names.get(), i);
    const auto* bytes = name->type == GEN_DNS || name->type == GEN_IPADD ? name->d.ia5 : nullptr;
    if (!bytes) continue;
    const auto* data = ASN1_STRING_get0_data(bytes);
    auto size = static_cast<size_t>(ASN1_STRING_length(bytes));
    char text[INET6_ADDRSTRLEN] = "";
    if (name->type == GEN_DNS)
      hosts.emplace_back(reinterpret_cast<const char*>(data), size);
    else if ((size == 4 || size == 16) &&
             inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text, sizeof text))
      hosts.emplace_back(text);
  }
  return hosts;
}

std::optional<role> role_of(X509* x) {
  auto unit = subject_text(x, NID_organizationalUnitName);
  auto found = std::find(std::begin(role_names), std::end(role_names), unit);
  if (found == std::end(role_names)) return std::nullopt;
  return static_cast<role>(found - std::begin(role_names));
}

identity facts_of(X509* x, role as) {
  identity who;
  who.name = subject_text(x, NID_commonName);
  who.as = as;
  who.hosts = hosts_of(x);
  number_ptr serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(x), nullptr));
  std::unique_ptr<char, void (*)(char*)> digits(serial ? BN_bn2hex(serial.get()) : nullptr,
                                                [](char* p) { OPENSSL_free(p); });
  if (digits) who.serial = digits.get();
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &end) == 1) who.not_after_s = timegm(&end);
  return who;
}

result<identity> identity_of(X509* x, const std::string& path) {
  const auto as = role_of(x);
  if (!as)
    return error{errc::bad_data, fmt::format("{}: OU \"{}\" is not a role", path,
                                             subject_text(x, NID_organizationalUnitName))};
  return facts_of(x, *as);
}

/// All certificates of a file, in its order; at least one.
result<std::vector<std::shared_ptr<X509>>> read_certificates(const std::string& path) {
  TROUPE_TRY(bio, open_pem(path));
  std::vector<std::shared_ptr<X509>> out;
  while (X509* x = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    out.emplace_back(x, X509_free);
  const auto ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (out.empty() || !ended) return failed(errc::bad_data, path + " holds no certificate");
  ERR_clear_error();
  return out;
}

/// One verification of a chain for one purpose.
status verify_chain(const credentials& c, int purpose, const std::string& path) {
  store_ptr store(X509_STORE_new());
  store_context_ptr context(X509_STORE_CTX_new());
  std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> between(
      sk_X509_new_null(), [](STACK_OF(X509) * s) { sk_X509_free(s); });
  bool fine = store && context && between;
  for (const auto& a : c.authorities) fine = fine && X509_STORE_add_cert(store.get(), a.get()) == 1;
  for (const auto& x : c.chain) fine = fine && sk_X509_push(between.get(), x.get()) > 0;
  if (!fine ||
      X509_STORE_CTX_init(context.get(), store.get(), c.certificate.get(), between.get()) != 1 ||
      X509_STORE_CTX_set_purpose(context.get(), purpose) != 1)
    return failed(errc::bug, "prepare to verify " + path);
  if (X509_verify_cert(context.get()) == 1) return {};
  auto reason = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  ERR_clear_error();
  return error{errc::bad_data, fmt::format("{} does not verify: {}", path, reason)};
}

}  // namespace

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string_view to_string(role r) {
  return role_names[static_cast<size_t>(r)];
}

identity holder_of(X509* certificate) {
  return facts_of(certificate, role_of(certificate).value_or(role::reader));
}

result<credentials> read_credentials(const std::string& ca_file,
                                     const std::string& certificate_file,
                                     const std::string& key_file) {
  credentials out;
  TROUPE_TRY(authorities, read_certificates(ca_file));
  TROUPE_TRY(chain, read_certificates(certificate_file));
  out.authorities = std::move(authorities);
  out.certificate = chain.front();
  out.chain.assign(chain.begin() + 1, chain.end());
  for (int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT})
    TROUPE_CHECK(verify_chain(out, purpose, certificate_file));
  if (!key_file.empty()) {
    TROUPE_TRY(key, read_key(key_file));
    if (X509_check_private_key(out.certificate.get(), key.get()) != 1)
      return failed(errc::bad_data,
                    fmt::format("{} is not the key of {}", key_file, certificate_file));
    out.key = std::shared_ptr<EVP_PKEY>(key.release(), EVP_PKEY_free);
  }
  TROUPE_TRY(who, identity_of(out.certificate.get(), certificate_file));
  out.who = std::move(who);
  return out;
}

bool is_for_host(const identity& who, std::string_view host) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::any_of(who.hosts.begin(), who.hosts.end(), [&](const std::string& h) {
    return std::equal(h.begin(), h.end(), host.begin(), host.end(), same);
  });
}

result<identity> verify(const std::string& ca_file, const std::string& certificate_file,
                        const std::string& key_file) {
  TROUPE_TRY(all, read_credentials(ca_file, certificate_file, key_file));
  return all.who;
}

result<made> make(const std::string& directory, const std::vector<request>& requests) {
  TROUPE_CHECK(check_requests(requests));
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return error::system("create " + directory, errno);
  made out;
  out.ca = files_of(directory, "ca");
  for (const auto& r : requests) out.certificates.push_back(files_of(directory, r.name));
  for (const auto& f : out.certificates)
    for (const auto& path : {f.certificate, f.key})
      if (exists(path))
        return error{errc::permission, path + " exists and is not overwritten",
                     "remove it to have it made again"};
  TROUPE_TRY(ca, authority(out.ca, out.new_ca));
  std::vector<pair> pairs;
  for (const auto& r : requests) {
    TROUPE_TRY(p, make_certificate(r, ca));
    pairs.push_back(std::move(p));
  }
  if (out.new_ca) TROUPE_CHECK(write_pair(out.ca, ca));
  for (size_t i = 0; i < pairs.size(); i++) TROUPE_CHECK(write_pair(out.certificates[i], pairs[i]));
  for (const auto& f : out.certificates) {  // TC-3
    auto who = verify(out.ca.certificate, f.certificate, f.key);
    if (!who) return who.error().within("verify what was written");
  }
  return out;
}

}  // namespace troupe::tls

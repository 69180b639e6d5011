// Deriving, reading and writing keys.
#include "io/tls/keyring.hpp"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "io/file.hpp"
#include "io/tls/openssl.hpp"

namespace troupe::tls {

namespace {

constexpr std::string_view opening = "troupe-key 1 ", of_all = "secret";
constexpr size_t most_text_bytes = 256;  // KEY-3

using kdf_ptr = std::unique_ptr<EVP_KDF, detail::freed_by<EVP_KDF_free>>;
using kdf_context_ptr = std::unique_ptr<EVP_KDF_CTX, detail::freed_by<EVP_KDF_CTX_free>>;

/// HKDF-SHA256 (RFC 5869). Nothing where OpenSSL has none.
std::optional<job_key::bytes_type> derived(const job_key::bytes_type& from, std::string info) {
  info.insert(0, "troupe job key 1 ");
  char digest[] = "SHA256";
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<uint8_t*>(from.data()),
                                        from.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  const kdf_ptr kdf(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr));
  const kdf_context_ptr context(kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr);
  job_key::bytes_type out;
  if (!context || EVP_KDF_derive(context.get(), out.data(), out.size(), parameters) != 1)
    return std::nullopt;
  return out;
}

std::optional<role> role_named(std::string_view text) {
  for (const auto r : {role::node, role::operator_, role::reader, role::power})
    if (to_string(r) == text) return r;
  return std::nullopt;
}

std::optional<job_key::bytes_type> from_hex(std::string_view text) {
  job_key::bytes_type out;
  if (text.size() != 2 * out.size()) return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return out;
}

error no_key() {
  return {errc::bad_data, "invalid key of a job",
          "expected one line that `troupe key` wrote: troupe-key 1 ROLE/NAME HEX"};
}

}  // namespace

std::string to_text(const bearer& who) {
  return fmt::format("{}/{}", to_string(who.as), who.name);
}

std::optional<bearer> bearer_of(std::string_view text) {
  const auto slash = text.find('/');
  if (text.size() > most_text_bytes || slash == text.npos) return std::nullopt;
  const auto as = role_named(text.substr(0, slash));
  const auto name = text.substr(slash + 1);
  if (!as || !is_name(name)) return std::nullopt;
  return bearer{*as, std::string(name)};
}

result<job_key> job_key::make() {
  job_key out;
  if (RAND_priv_bytes(out.bytes_.data(), static_cast<int>(out.bytes_.size())) != 1)
    return detail::failed(errc::io, "make a secret");
  return out;
}

result<job_key> job_key::parse(std::string_view text) {
  if (!text.starts_with(opening)) return no_key();
  text.remove_prefix(opening.size());
  const auto space = text.find(' ');
  if (space == text.npos) return no_key();
  const auto whose = text.substr(0, space);
  const auto bytes = from_hex(text.substr(space + 1));
  if (!bytes) return no_key();
  job_key out;
  out.bytes_ = *bytes;
  if (whose == of_all) return out;
  if (const auto one = bearer_of(whose)) {
    out.as_ = one->as;
    out.name_ = one->name;
    return out;
  }
  out.as_ = role_named(whose);
  if (!out.as_) return no_key();
  return out;
}

result<job_key> job_key::read(const std::filesystem::path& file) {
  const io::unique_fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return error::system(fmt::format("open {}", file.string()), errno);
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0)
    return error::system(fmt::format("look at {}", file.string()), errno);
  const bool owned = facts.st_uid == geteuid() || facts.st_uid == 0;
  if (!S_ISREG(facts.st_mode) || !owned || (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)  // KEY-1
    return error{errc::permission,
                 fmt::format("{} is not a file of this user that nobody else may read",
                             file.string()),
                 fmt::format("chmod 600 {}; if others have read it, end the job and remove it",
                             file.string())};
  auto key = read(fd.get());
  if (!key) return key.error().within(file.string());
  return key;
}

result<job_key> job_key::read(int descriptor) {
  char text[most_text_bytes + 1];
  size_t bytes = 0;
  while (bytes < sizeof(text)) {
    const auto n = ::read(descriptor, text + bytes, sizeof(text) - bytes);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system("read a key", errno);
    bytes += static_cast<size_t>(n);
    if (text[bytes - 1] == '\n') break;  // whoever wrote it may keep a pipe open
  }
  std::string_view all(text, bytes);
  if (!all.ends_with('\n') || all.size() > most_text_bytes) return no_key();
  all.remove_suffix(1);
  return parse(all);
}

result<job_key> job_key::of(role as) const {
  if (as_ == as && name_.empty()) return *this;
  if (as_)  // KEY-2
    return error{errc::permission,
                 fmt::format("the key of {} makes none of another role", to_string(*as_))};
  const auto bytes = derived(bytes_, std::string(to_string(as)));
  if (!bytes) return detail::failed(errc::io, "derive a key");
  job_key out;
  out.as_ = as;
  out.bytes_ = *bytes;
  return out;
}

std::optional<job_key::bytes_type> job_key::of(const bearer& who) const {
  if (!name_.empty()) return own() == who ? std::optional(bytes_) : std::nullopt;
  const auto all = of(who.as);
  return all ? derived(all->bytes_, who.name) : std::nullopt;
}

std::optional<bearer> job_key::own() const {
  if (!as_ || name_.empty()) return std::nullopt;
  return bearer{*as_, name_};
}

result<job_key> job_key::handed_to(const bearer& who) const {
  if (!is_name(who.name))
    return error{errc::usage, fmt::format("\"{}\" cannot name whom a key is for", who.name),
                 "use at most 64 letters, digits, '.', '_', '-', starting with a letter or digit"};
  const auto bytes = of(who);
  if (!bytes)
    return error{errc::permission, fmt::format("this key makes none for {}", to_text(who))};
  job_key out;
  out.as_ = who.as;
  out.name_ = who.name;
  out.bytes_ = *bytes;
  return out;
}

std::string job_key::text() const {
  std::string whose(as_ ? to_string(*as_) : of_all);
  if (!name_.empty()) whose += "/" + name_;
  std::string out = fmt::format("{}{} ", opening, whose);
  for (const auto byte : bytes_) out += fmt::format("{:02x}", byte);
  return out + "\n";
}

result<proof> proof_by(const job_key& own, std::span<const bearer> wanted) {
  if (const auto one = own.own()) return proof{own, *one};
  for (const auto& who : wanted)
    if (is_name(who.name) && own.of(who)) return proof{own, who};
  return error{errc::permission, "the key is of another role",
               "`troupe key --role ROLE --out FILE` makes one where the job was started"};
}

status job_key::write(const std::filesystem::path& file) const {
  const io::unique_fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd && errno == EEXIST)
    return error{errc::permission, fmt::format("{} exists already", file.string()),
                 "a key is never written over another file: remove it, or choose another name"};
  if (!fd) return error::system(fmt::format("make {}", file.string()), errno);
  const auto line = text();
  return io::write_all(fd.get(), std::as_bytes(std::span(line)), file.string());
}

}  // namespace troupe::tls

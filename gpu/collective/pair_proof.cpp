// Keys and digests of pair_proof.hpp, by libcrypto.
#include "gpu/collective/pair_proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <memory>

namespace troupe::gpu {

namespace {

constexpr std::string_view hello_mark = "TRPPAIR1";

struct free_key {
  void operator()(EVP_PKEY* k) const { EVP_PKEY_free(k); }
};
struct free_key_context {
  void operator()(EVP_PKEY_CTX* c) const { EVP_PKEY_CTX_free(c); }
};
using key_ptr = std::unique_ptr<EVP_PKEY, free_key>;

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append(std::string& out, const pair_bytes& bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

result<pair_key> pair_key::make() {
  pair_key out;
  key_ptr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  size_t hidden = out.hidden_.size(), shown = out.shown_.size();
  if (!key || EVP_PKEY_get_raw_private_key(key.get(), out.hidden_.data(), &hidden) != 1 ||
      EVP_PKEY_get_raw_public_key(key.get(), out.shown_.data(), &shown) != 1)
    return error{errc::bug, "no key can be made for a group"};
  return out;
}

result<pair_bytes> pair_key::secret_with(const pair_bytes& theirs) const {
  key_ptr own(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, hidden_.data(), hidden_.size()));
  key_ptr other(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, theirs.data(), theirs.size()));
  if (!own || !other) return error{errc::bug, "a key of a group cannot be used"};
  std::unique_ptr<EVP_PKEY_CTX, free_key_context> context(EVP_PKEY_CTX_new(own.get(), nullptr));
  pair_bytes out{};
  size_t bytes = out.size();
  if (!context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1 ||
      EVP_PKEY_derive(context.get(), out.data(), &bytes) != 1 || bytes != out.size())
    return error{errc::bad_data, "invalid key of a rank"};
  return out;
}

pair_bytes proof_of(pair_side side, const pair_ends& ends, const pair_exchange& exchange) {
  std::string said =
      side == pair_side::listener ? "troupe pair, listener\n" : "troupe pair, dialer\n";
  append(said, static_cast<uint32_t>(ends.listener));
  append(said, static_cast<uint32_t>(ends.dialer));
  append(said, exchange.dialer_nonce);
  append(said, exchange.listener_nonce);
  append(said, ends.listener_key);
  append(said, ends.dialer_key);
  said += ends.group;  // the only part whose length varies
  pair_bytes out{};
  unsigned bytes = 0;
  const auto* done =
      HMAC(EVP_sha256(), ends.secret.data(), static_cast<int>(ends.secret.size()),
           reinterpret_cast<const unsigned char*>(said.data()), said.size(), out.data(), &bytes);
  // Where it fails nobody may know what is compared: such a proof is right for no one. Bytes can be
  // drawn: the exchange began with a nonce.
  if (done == nullptr || bytes != out.size())
    static_cast<void>(RAND_bytes(out.data(), static_cast<int>(out.size())));
  return out;
}

bool same_digest(std::string_view bytes, const pair_bytes& expected) {
  return bytes.size() == expected.size() &&
         CRYPTO_memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

result<pair_nonce> make_nonce() {
  pair_nonce out{};
  if (RAND_bytes(out.data(), static_cast<int>(out.size())) != 1)
    return error{errc::io, "the operating system gives no random bytes"};
  return out;
}

std::string pair_hello::text() const {
  std::string out(hello_mark);
  append(out, listener);
  append(out, dialer);
  append(out, nonce);
  return out;
}

std::optional<pair_hello> pair_hello::parse(std::string_view bytes) {
  if (bytes.size() != size || !bytes.starts_with(hello_mark)) return std::nullopt;
  pair_hello out;
  std::memcpy(&out.listener, bytes.data() + 8, 4);
  std::memcpy(&out.dialer, bytes.data() + 12, 4);
  std::memcpy(out.nonce.data(), bytes.data() + 16, out.nonce.size());
  return out;
}

}  // namespace troupe::gpu

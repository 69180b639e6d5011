// Any bytes as what a stranger says at a rank's port: a hello (selector 0), a public key, a digest.
// Nothing but the right digest proves anything.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "gpu/collective/pair_proof.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;
using namespace troupe::gpu;

namespace {

/// An exchange of this process with one whose secret nobody has.
const pair_bytes& expected_digest() {
  static const auto digest = [] {
    pair_ends ends{"fuzz", 0, 1, {}, {}, {}};
    const auto secret = make_nonce();
    must(bool(secret), "chance");
    std::copy(secret->begin(), secret->end(), ends.secret.begin());
    return proof_of(pair_side::dialer, ends, {});
  }();
  return digest;
}

void look_at_key(std::string_view bytes) {
  static const auto own = pair_key::make();
  must(bool(own), "a key");
  pair_bytes theirs{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), theirs.size()), theirs.begin());
  const auto secret = own->secret_with(theirs);
  must(secret || secret.error().code == errc::bad_data, "any bytes are a key or none");
  if (secret) must(*secret != pair_bytes{}, "no key of theirs alone decides the secret");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      if (const auto hello = pair_hello::parse(bytes))
        must(hello->text() == bytes, "a hello is written as it was read");
      break;
    case 1:
      look_at_key(bytes);
      break;
    default:
      must(!same_digest(bytes, expected_digest()), "a stranger has no digest");
  }
  return 0;
}

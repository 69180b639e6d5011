// The proof between two ranks, and the first bytes of strangers.
#include "gpu/collective/pair_proof.hpp"

#include <set>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::gpu;

namespace {

std::string text_of(const pair_bytes& b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

}  // namespace

TEST_CASE("pair proof: two ends share a secret, a third has another") {
  const auto a = pair_key::make(), b = pair_key::make(), c = pair_key::make();
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(c);
  CHECK(*a->secret_with(b->shown()) == *b->secret_with(a->shown()));
  CHECK(*a->secret_with(b->shown()) != *c->secret_with(b->shown()));
  CHECK(a->shown() != b->shown());
  CHECK_FALSE(a->secret_with(pair_bytes{}));  // a point of small order: everybody's secret
}

TEST_CASE("pair proof: a digest is of one side of one exchange of one pair (PRF-1)") {
  pair_ends ends{"data/0", 0, 1, {1}, {2}, {3}};
  pair_exchange exchange{{4}, {5}};
  std::set<std::string> all;
  const auto add = [&](const pair_ends& e, const pair_exchange& x) {
    all.insert(text_of(proof_of(pair_side::listener, e, x)));
    all.insert(text_of(proof_of(pair_side::dialer, e, x)));
  };
  add(ends, exchange);
  const auto own = proof_of(pair_side::listener, ends, exchange);
  CHECK(same_digest(text_of(own), own));
  CHECK_FALSE(same_digest(text_of(own).substr(1), own));
  CHECK_FALSE(same_digest("", own));
  for (int what = 0; what < 8; ++what) {
    auto e = ends;
    auto x = exchange;
    if (what == 0) e.group = "data/1";
    if (what == 1) e.listener = 2;
    if (what == 2) e.dialer = 2;
    if (what == 3) e.listener_key[31] ^= 1;
    if (what == 4) e.dialer_key[31] ^= 1;
    if (what == 5) e.secret[31] ^= 1;
    if (what == 6) x.dialer_nonce[15] ^= 1;
    if (what == 7) x.listener_nonce[15] ^= 1;
    add(e, x);
  }
  CHECK(all.size() == 18);
}

TEST_CASE("pair proof: a hello is read back, anything else is none") {
  const pair_hello h{3, 7, {1, 2, 3}};
  const auto text = h.text();
  REQUIRE(text.size() == pair_hello::size);
  const auto back = pair_hello::parse(text);
  REQUIRE(back);
  CHECK(back->listener == 3);
  CHECK(back->dialer == 7);
  CHECK(back->nonce == h.nonce);
  CHECK_FALSE(pair_hello::parse(text.substr(1)));
  CHECK_FALSE(pair_hello::parse(std::string(pair_hello::size, '\0')));
  CHECK_FALSE(pair_hello::parse("GET / HTTP/1.1\r\nHost: example.org"));
}

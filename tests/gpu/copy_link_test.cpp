// An owner and its keeper: shares over a link, and what may go wrong on the way.
#include "gpu/collective/copy_link.hpp"

#include <sys/socket.h>

#include <doctest/doctest.h>

#include <cstring>
#include <future>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::io::checkpoint;

namespace {

const copy_shape shape{{2, 1, 1}, 4096, 1'000'000};

struct ends {
  io::unique_fd owner, keeper;
};

ends connected() {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  return {io::unique_fd(fds[0]), io::unique_fd(fds[1])};
}

std::unique_ptr<copy_link> link_of(io::unique_fd fd) {
  return std::make_unique<copy_link>(std::move(fd), std::chrono::milliseconds(60'000));
}

/// A keeper of rank 0's copies, and the owner's end.
struct pair {
  std::shared_ptr<memory_copies> store = std::make_shared<memory_copies>();
  std::unique_ptr<copy_link> owner;
  status told;  ///< the keeper's thread's, once that has ended
  std::unique_ptr<copy_keeper> keeper;

  explicit pair(uint64_t allowed = 8 << 20) {
    auto e = connected();
    store->allow(allowed);
    owner = link_of(std::move(e.owner));
    keeper = std::make_unique<copy_keeper>(store, link_of(std::move(e.keeper)), 0, shape,
                                           [this](const status& s) { told = s; });
  }
};

std::shared_ptr<memory_copy> share(copy_tag tag, int rank = 0, const copy_shape& s = shape) {
  auto copy = memory_copy::make(rank, tag, s);
  REQUIRE(copy);
  for (size_t i = 0; i < s.stream_bytes; ++i)
    (*copy)->bytes()[i] = static_cast<std::byte>(i * 7 + tag.step);
  (*copy)->sum();
  return *copy;
}

}  // namespace

TEST_CASE("CPL: what is put is held when put returns, and comes back byte for byte") {
  pair p;
  const auto sent = share({1, 8});
  REQUIRE(p.owner->put(*sent));
  REQUIRE(p.owner->put(*share({1, 9})));
  CHECK(p.store->held() == std::vector<held_copy>{{0, {1, 8}, 1'000'000}, {0, {1, 9}, 1'000'000}});
  auto into = memory_copy::make(0, {1, 8}, shape);
  REQUIRE(into);
  REQUIRE(p.owner->get(**into));
  CHECK(std::memcmp((*into)->bytes().data(), sent->bytes().data(), 1'000'000) == 0);
  auto other = memory_copy::make(0, {2, 8}, shape);  // of another epoch
  CHECK(is_error(p.owner->get(**other), copy_missing, 0, uint64_t{8}));
  REQUIRE(p.owner->put(*share({2, 9})));  // it goes on after a refusal
}

TEST_CASE("CPL-3: bytes that are not what was summed are not held") {
  pair p;
  const auto sent = share({1, 8});
  sent->bytes()[999'999] ^= std::byte{1};
  CHECK(p.owner->put(*sent).error().code == errc::unavailable);
  CHECK(p.store->held().empty());
}

TEST_CASE("CPL-3: damage in the keeper's memory is found by who fetches") {
  pair p;
  REQUIRE(p.owner->put(*share({1, 8})));
  const auto held = std::const_pointer_cast<memory_copy>(p.store->find(0, {1, 8}));
  held->bytes()[5'000] ^= std::byte{1};
  auto into = memory_copy::make(0, {1, 8}, shape);
  CHECK(is_error(p.owner->get(**into), copy_damaged, 0, uint64_t{8}, uint64_t{1}));
}

TEST_CASE("CPL-4: a keeper takes its rank's shares, of its layout, and none too large") {
  SUBCASE("another rank") {
    pair p;
    CHECK_FALSE(p.owner->put(*share({1, 1}, 1)));
    CHECK(p.store->held().empty());
  }
  SUBCASE("another layout") {
    pair p;
    CHECK_FALSE(p.owner->put(*share({1, 1}, 0, {{1, 1, 2}, 4096, 1'000'000})));
    CHECK(p.store->held().empty());
  }
  SUBCASE("more than allowed") {
    pair p(999'999);
    CHECK_FALSE(p.owner->put(*share({1, 1})));
    CHECK(p.store->held().empty());
    p.keeper.reset();
    REQUIRE_FALSE(p.told);
    CHECK(is_error(p.told.error(), troupe::io::checkpoint::copies_too_large, uint64_t{1'000'000},
                   uint64_t{999'999}));
  }
}

TEST_CASE("MC-1: of an owner that dies within a copy nothing is held, and the one before stays") {
  auto e = connected();
  auto store = std::make_shared<memory_copies>();
  store->allow(8 << 20);
  const auto before = share({1, 1});
  {
    copy_keeper keeper(store, link_of(std::move(e.keeper)), 0, shape, {});
    auto owner = link_of(io::unique_fd(dup(e.owner.get())));
    REQUIRE(owner->put(*before));
    const auto head = encode({copy_frame_kind::put, 0, {1, 2}, shape});
    REQUIRE(send(e.owner.get(), head.data(), head.size(), 0) == 64);
    REQUIRE(send(e.owner.get(), before->bytes().data(), 50'000, 0) > 0);
    owner->abort();
  }
  CHECK(store->held() == std::vector<held_copy>{{0, {1, 1}, 1'000'000}});
}

TEST_CASE("CPL-2: an aborted link ends who waits in it") {
  auto e = connected();
  auto owner = link_of(std::move(e.owner));
  const auto copy = share({1, 1});
  auto waits = std::async(std::launch::async, [&] { return owner->put(*copy); });
  char head[64];
  REQUIRE(recv(e.keeper.get(), head, 1, MSG_PEEK) != 0);
  owner->abort();
  CHECK(waits.get().error().code == errc::unavailable);
}

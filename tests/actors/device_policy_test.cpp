// Which rank gets which device.
#include "actors/train/device_policy.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using config::device_kind;
using names = std::vector<std::string>;

namespace {

result<device_choice> choose(device_kind wanted, std::vector<node_devices> nodes,
                             std::vector<int64_t> node_of) {
  return choose_devices(wanted, nodes, node_of);
}

}  // namespace

TEST_CASE("DVC-1: auto takes GPUs when every rank gets one of its own, else all take the host") {
  CHECK(choose(device_kind::automatic, {{"a", "a", 2}, {"b", "b", 1}}, {0, 0, 1})->names ==
        names{"cuda:0", "cuda:1", "cuda:0"});
  CHECK(choose(device_kind::automatic, {{"a", "a", 2}, {"b", "b", 0}}, {0, 0, 1})->names ==
        names{"host", "host", "host"});
  CHECK(choose(device_kind::automatic, {{"a", "a", 1}}, {0, 0})->names == names{"host", "host"});
  CHECK(choose(device_kind::host, {{"a", "a", 8}}, {0, 0})->names == names{"host", "host"});
}

TEST_CASE("DVC-2: nodes on one machine share out its GPUs, and share them only when told to") {
  const auto apart = choose(device_kind::automatic, {{"a", "a", 2}, {"a", "a", 2}}, {0, 1});
  CHECK(apart->names == names{"cuda:0", "cuda:1"});
  CHECK_FALSE(apart->shared);
  const auto together = choose(device_kind::cuda, {{"a", "a", 2}, {"a", "a", 2}}, {0, 0, 1});
  CHECK(together->names == names{"cuda:0", "cuda:1", "cuda:0"});
  CHECK(together->shared);
  CHECK_FALSE(choose(device_kind::cuda, {{"a", "a", 2}, {"b", "b", 2}}, {0, 0, 1})->shared);
}

TEST_CASE("cluster.device = \"cuda\" without a GPU names the machine") {
  const auto none = choose(device_kind::cuda, {{"a", "a", 1}, {"b", "b", 0}}, {0, 1});
  REQUIRE_FALSE(none);
  CHECK(none.error() == no_gpu("b"));
}
